//! Scenarios: which ranks acquire the lock, how, and how often, and which ranks share a node.

use std::fmt;
use std::str::FromStr;

use rmalab_atomics::{Rank, Topology};

/// What a rank does with the lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Acquires for reading, always (`R`); of a window, lock_all.
    Reader,
    /// Acquires for writing, always (`W`); of a window, an exclusive lock of rank 0.
    Writer,
    /// Reads and writes in turn (`M`): even ranks begin by reading, odd ones by writing.
    Mixed,
    /// Locks all targets of a window (`A`).
    All,
    /// Locks one target of a window in shared mode (`S@1`).
    Shared(Rank),
    /// Locks one target of a window exclusively (`E@1`).
    Exclusive(Rank),
}

impl Role {
    /// Acquisition number `acquisition`, counted from 0, of `rank` in this role.
    pub const fn access(self, rank: Rank, acquisition: u32) -> Access {
        match self {
            Role::Reader => Access::Read,
            Role::Writer => Access::Write,
            Role::Mixed if (rank.0 ^ acquisition) & 1 == 1 => Access::Write,
            Role::Mixed => Access::Read,
            Role::All => Access::All,
            Role::Shared(target) => Access::Shared(target),
            Role::Exclusive(target) => Access::Exclusive(target),
        }
    }

    /// Returns whether acquisition number `acquisition`, counted from 0, of `rank` in this role is for writing.
    pub const fn writes(self, rank: Rank, acquisition: u32) -> bool {
        self.access(rank, acquisition).writes()
    }

    /// Returns whether only window locks know this role.
    pub const fn is_of_windows(self) -> bool {
        matches!(self, Role::All | Role::Shared(_) | Role::Exclusive(_))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Reader => f.write_str("R"),
            Role::Writer => f.write_str("W"),
            Role::Mixed => f.write_str("M"),
            Role::All => f.write_str("A"),
            Role::Shared(target) => write!(f, "S@{}", target.0),
            Role::Exclusive(target) => write!(f, "E@{}", target.0),
        }
    }
}

/// One acquisition: what is locked, and how.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// A lock for reading.
    Read,
    /// A lock for writing.
    Write,
    /// All targets of a window, in shared mode.
    All,
    /// One target of a window, in shared mode.
    Shared(Rank),
    /// One target of a window, exclusively.
    Exclusive(Rank),
}

impl Access {
    /// Returns whether the holder may write what the lock protects.
    pub const fn writes(self) -> bool {
        matches!(self, Access::Write | Access::Exclusive(_))
    }

    /// Returns whether two ranks must not hold the lock by these two accesses at one time.
    pub fn excludes(self, other: Access) -> bool {
        match (self, other) {
            (Access::Exclusive(one), Access::Exclusive(two) | Access::Shared(two))
            | (Access::Shared(one), Access::Exclusive(two)) => one == two,
            _ => self.writes() || other.writes(),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::Read => f.write_str("read"),
            Access::Write => f.write_str("write"),
            Access::All => f.write_str("lock_all"),
            Access::Shared(target) => write!(f, "shared({})", target.0),
            Access::Exclusive(target) => write!(f, "exclusive({})", target.0),
        }
    }
}

/// Ranks that do the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Group {
    /// How many ranks, at least 1.
    pub ranks: u32,
    /// What each of them does.
    pub role: Role,
    /// How often, at least once.
    pub acquisitions: u32,
}

/// How the ranks of a check are placed: in blocks, from rank 0 on, those that only lend their memory included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Nodes {
    /// How many ranks share a node, at least 1.
    pub ranks_per_node: u32,
    /// How many nodes share a rack, at least 1.
    pub nodes_per_rack: u32,
}

/// Which ranks acquire the lock, how, and how often.
///
/// Written as numbers of ranks with their roles, then `x` and the acquisitions of each; `+` joins parts with different
/// numbers of acquisitions. Without `x`, one. `×` is as good as `x`, and case does not matter. At the end, `/` and a
/// number of ranks a node; once more `/`, and a number of nodes a rack. Without, all ranks are on one node.
///
/// | text | meaning |
/// | --- | --- |
/// | `3R1Wx2` | ranks 0 to 2 read twice each, rank 3 writes twice |
/// | `3R+1Wx2` | as above, but the readers read once |
/// | `4Mx100` | four ranks read and write in turn, 100 acquisitions each |
/// | `2A+1E@0+1S@1` | of a window: two lock_all, an exclusive lock of target 0, a shared one of target 1 |
/// | `4Wx2/2` | four writers on two nodes of two ranks |
/// | `4W/1/2` | four writers on four nodes, in two racks of two nodes |
///
/// The number after `@` ends with its part, or with a space: `1E@0 1E@1 x2`.
///
/// ```
/// use rmalab_verify::{Role, Scenario};
///
/// let scenario: Scenario = "3R1Wx2".parse()?;
/// assert_eq!(scenario.ranks(), 4);
/// assert_eq!(scenario.groups()[1].role, Role::Writer);
/// assert_eq!(scenario.to_string(), "3R1Wx2");
/// # Ok::<(), rmalab_verify::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scenario {
    groups: Vec<Group>,
    ranks: u32,
    nodes: Option<Nodes>,
}

impl Scenario {
    /// A scenario of the groups, whose ranks are numbered from 0 in their order.
    ///
    /// # Errors
    ///
    /// A sentence, when there is no group, when one is empty or acquires nothing, or when there are more than
    /// `u32::MAX` ranks.
    pub fn new(groups: Vec<Group>) -> Result<Scenario, String> {
        if groups.is_empty() {
            return Err("it has no ranks".to_owned());
        }
        let mut ranks = 0_u32;
        for group in &groups {
            if group.ranks == 0 {
                return Err(format!("0{} is a group of no ranks", group.role));
            }
            if group.acquisitions == 0 {
                return Err("x0 acquires nothing".to_owned());
            }
            ranks = ranks.checked_add(group.ranks).ok_or("it has too many ranks")?;
        }
        Ok(Scenario { groups, ranks, nodes: None })
    }

    /// `ranks` ranks that acquire nothing: those of a program.
    pub(crate) fn of_ranks(ranks: u32) -> Scenario {
        Scenario { groups: Vec::new(), ranks, nodes: None }
    }

    /// The same with the ranks placed on `nodes`.
    ///
    /// A run in a world that is there already, as a stress run is, has the places of that world instead.
    ///
    /// # Errors
    ///
    /// A sentence, when one of the blocks is empty.
    pub fn placed(self, nodes: Nodes) -> Result<Scenario, String> {
        if nodes.ranks_per_node == 0 || nodes.nodes_per_rack == 0 {
            return Err("nodes need at least 1 rank, and racks at least 1 node".to_owned());
        }
        Ok(Scenario { nodes: Some(nodes), ..self })
    }

    /// How the ranks are placed; all on one node if nothing is said.
    pub fn nodes(&self) -> Option<Nodes> {
        self.nodes
    }

    /// Where the ranks of a world of `size` are.
    pub fn topology(&self, size: u32) -> Topology {
        match self.nodes {
            None => Topology::one_node(size),
            Some(Nodes { ranks_per_node, nodes_per_rack }) => {
                Topology::blocks(size, ranks_per_node, nodes_per_rack).expect("no block is empty: `placed` has looked")
            }
        }
    }

    /// The groups, in the order of their ranks.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// How many ranks take part.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// What `rank` does, and how often; `None` if it takes no part.
    pub fn part(&self, rank: Rank) -> Option<(Role, u32)> {
        let mut first = 0;
        self.groups.iter().find_map(|group| {
            let after = first + group.ranks;
            let part = (first..after).contains(&rank.0).then_some((group.role, group.acquisitions));
            first = after;
            part
        })
    }

    /// What `rank` acquires, one after the other; nothing if it takes no part.
    pub fn accesses(&self, rank: Rank) -> impl Iterator<Item = Access> {
        self.part(rank).into_iter().flat_map(move |(role, times)| (0..times).map(move |i| role.access(rank, i)))
    }

    /// The least number of targets that a window must have: one more than the highest that is named.
    pub fn targets(&self) -> u32 {
        let highest = self.groups.iter().map(|group| match group.role {
            Role::Shared(target) | Role::Exclusive(target) => target.0.saturating_add(1),
            _ => 1,
        });
        highest.max().unwrap_or(1)
    }

    /// How many acquisitions there are, by all ranks together: for reading, and for writing.
    pub fn acquisitions(&self) -> (u64, u64) {
        let mut writes = 0;
        let mut all = 0;
        for rank in (0..self.ranks).map(Rank) {
            if let Some((role, acquisitions)) = self.part(rank) {
                all += u64::from(acquisitions);
                writes += match role {
                    // Half of them; of an odd number, the odd one is the first one's kind.
                    Role::Mixed => u64::from(acquisitions / 2) + u64::from(acquisitions % 2 * (rank.0 % 2)),
                    _ if role.writes(rank, 0) => u64::from(acquisitions),
                    _ => 0,
                };
            }
        }
        (all - writes, writes)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.groups.is_empty() {
            write!(f, "{} ranks", self.ranks)?;
        }
        for (i, group) in self.groups.iter().enumerate() {
            write!(f, "{}{}", group.ranks, group.role)?;
            let next = self.groups.get(i + 1);
            if next.is_none_or(|next| next.acquisitions != group.acquisitions) {
                write!(f, "x{}", group.acquisitions)?;
                if next.is_some() {
                    f.write_str("+")?;
                }
            } else if matches!(group.role, Role::Shared(_) | Role::Exclusive(_)) {
                f.write_str(" ")?;
            }
        }
        match self.nodes {
            None => Ok(()),
            Some(Nodes { ranks_per_node, nodes_per_rack: 1 }) => write!(f, "/{ranks_per_node}"),
            Some(Nodes { ranks_per_node, nodes_per_rack }) => write!(f, "/{ranks_per_node}/{nodes_per_rack}"),
        }
    }
}

/// A text that is not a scenario.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "scenario {text:?}: {why}; write it as 3R1Wx2 (3 readers and 1 writer, 2 acquisitions each), 3R+1Wx2, 4Mx100 or 4Wx2/2 (2 ranks a node)"
)]
pub struct ParseError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

impl FromStr for Scenario {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Scenario, ParseError> {
        parse(text).map_err(|why| ParseError { text: text.to_owned(), why })
    }
}

fn parse(text: &str) -> Result<Scenario, String> {
    let mut groups = Vec::new();
    let (text, places) = text.split_once('/').map_or((text, None), |(text, places)| (text, Some(places)));
    for part in text.split('+').map(str::trim) {
        let (who, times) = match part.split_once(['x', 'X', '×']) {
            Some((who, times)) => (who.trim_end(), number(times.trim_start(), "acquisitions after x")?),
            None => (part, 1),
        };
        if who.is_empty() {
            return Err("a part of it names no ranks".to_owned());
        }
        let mut rest = who;
        while let Some(at) = rest.find(|c: char| !c.is_ascii_digit()) {
            let letter = rest[at..].chars().next().expect("find gave the place of a character");
            let ranks = || number(&rest[..at], &format!("ranks before {letter}"));
            let mut after = &rest[at + letter.len_utf8()..];
            let mut target = || {
                let Some(digits) = after.strip_prefix('@') else {
                    return Err(format!("{letter} needs a target, as in 1{letter}@0"));
                };
                let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
                after = &digits[end..];
                number(&digits[..end], &format!("the target after {letter}@")).map(Rank)
            };
            let role = match letter.to_ascii_uppercase() {
                'R' => Role::Reader,
                'W' => Role::Writer,
                'M' => Role::Mixed,
                'A' => Role::All,
                'S' => Role::Shared(target()?),
                'E' => Role::Exclusive(target()?),
                _ => {
                    return Err(format!(
                        "{letter:?} is none of the roles R (reader), W (writer), M (mixed), A (lock_all), S@target (shared) and E@target (exclusive)"
                    ));
                }
            };
            groups.push(Group { ranks: ranks()?, role, acquisitions: times });
            rest = after.trim_start();
        }
        if !rest.is_empty() {
            return Err(format!("{rest} has no role after it"));
        }
    }
    let scenario = Scenario::new(groups)?;
    let Some(places) = places else { return Ok(scenario) };
    let (ranks, nodes) = places.split_once('/').map_or((places, None), |(ranks, nodes)| (ranks, Some(nodes)));
    scenario.placed(Nodes {
        ranks_per_node: number(ranks.trim(), "ranks a node after /")?,
        nodes_per_rack: nodes.map_or(Ok(1), |nodes| number(nodes.trim(), "nodes a rack after the second /"))?,
    })
}

fn number(digits: &str, what: &str) -> Result<u32, String> {
    if digits.is_empty() {
        return Err(format!("there is no number of {what}"));
    }
    // `u32::from_str` would take a plus sign, too.
    match digits.parse() {
        Ok(number) if digits.bytes().all(|b| b.is_ascii_digit()) => Ok(number),
        _ => Err(format!("{digits:?} is not a number of {what} up to {}", u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        text.parse::<Scenario>().unwrap_err().why
    }

    #[test]
    fn texts_come_back_as_they_are_written() {
        for text in [
            "3R1Wx2",
            "1Rx1",
            "3Rx1+1Wx2",
            "4Mx100",
            "2R2W1Mx7+3Wx1",
            "2A1E@0 1E@1 1S@0x1",
            "1S@7x2+1Ax1",
            "4Wx2/2",
            "2R2Wx1/1/2",
        ] {
            assert_eq!(text.parse::<Scenario>().unwrap().to_string(), text);
        }
        for (text, canonical) in [
            ("3r 1w × 2", "3R1Wx2"),
            ("3R + 1WX2", "3Rx1+1Wx2"),
            ("2W", "2Wx1"),
            ("2a + 1e@0 + 1S@1", "2A1E@0 1S@1x1"),
            ("4W / 2/1", "4Wx1/2"),
        ] {
            assert_eq!(text.parse::<Scenario>().unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn ranks_have_their_parts() {
        let scenario: Scenario = "2R+1Wx3+2Mx5".parse().unwrap();
        assert_eq!(scenario.ranks(), 5);
        assert_eq!(scenario.part(Rank(1)), Some((Role::Reader, 1)));
        assert_eq!(scenario.part(Rank(2)), Some((Role::Writer, 3)));
        assert_eq!(scenario.part(Rank(4)), Some((Role::Mixed, 5)));
        assert_eq!(scenario.part(Rank(5)), None);
    }

    #[test]
    fn ranks_have_their_nodes() {
        let of = |text: &str| text.parse::<Scenario>().unwrap().topology(5);
        assert_eq!(of("4W"), Topology::one_node(5));
        assert_eq!(of("4Wx2/2"), Topology::blocks(5, 2, 1).unwrap());
        assert_eq!(of("4W/1/2"), Topology::blocks(5, 1, 2).unwrap());
    }

    #[test]
    fn acquisitions_are_counted_as_they_are_made() {
        let scenario: Scenario = "2R3Wx4+3Mx5".parse().unwrap();
        let mut counted = (0, 0);
        for rank in (0..scenario.ranks()).map(Rank) {
            let (role, acquisitions) = scenario.part(rank).unwrap();
            for i in 0..acquisitions {
                if role.writes(rank, i) { counted.1 += 1 } else { counted.0 += 1 }
            }
        }
        assert_eq!(scenario.acquisitions(), counted);
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(why(""), "a part of it names no ranks");
        assert_eq!(why("3R+"), "a part of it names no ranks");
        assert_eq!(why("x2"), "a part of it names no ranks");
        assert_eq!(why("R1Wx2"), "there is no number of ranks before R");
        assert_eq!(why("3"), "3 has no role after it");
        assert_eq!(why("3R1"), "1 has no role after it");
        assert_eq!(
            why("3Q"),
            "'Q' is none of the roles R (reader), W (writer), M (mixed), A (lock_all), S@target (shared) and E@target (exclusive)"
        );
        assert_eq!(why("1E"), "E needs a target, as in 1E@0");
        assert_eq!(why("1S@"), "there is no number of the target after S@");
        assert_eq!(why("3Rx"), "there is no number of acquisitions after x");
        assert_eq!(why("3Rx2y"), "\"2y\" is not a number of acquisitions after x up to 4294967295");
        assert_eq!(why("2W/"), "there is no number of ranks a node after /");
        assert_eq!(why("2W/2/"), "there is no number of nodes a rack after the second /");
        assert_eq!(why("2W/2/0"), "nodes need at least 1 rank, and racks at least 1 node");
        assert_eq!(why("2W/2/1/1"), "\"1/1\" is not a number of nodes a rack after the second / up to 4294967295");
        assert_eq!(why("0R"), "0R is a group of no ranks");
        assert_eq!(why("3Rx0"), "x0 acquires nothing");
        assert_eq!(why("5000000000R"), "\"5000000000\" is not a number of ranks before R up to 4294967295");
        assert_eq!(why("4294967295R1W"), "it has too many ranks");
        assert!("3Q".parse::<Scenario>().unwrap_err().to_string().contains("write it as 3R1Wx2"));
    }
}
