//! Scenarios: which ranks acquire the lock, how and how often, and which ranks share a node.

use std::fmt;
use std::str::FromStr;

use rmalab_atomics::{Rank, Topology};

/// The kind of a rank's acquisitions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Always acquires for reading (`R`); on a window, lock_all.
    Reader,
    /// Always acquires for writing (`W`); on a window, an exclusive lock of rank 0.
    Writer,
    /// Reads and writes alternately (`M`): even ranks begin with a read, odd ranks with a write.
    Mixed,
    /// Locks all targets of a window (`A`).
    All,
    /// Locks one target of a window in shared mode (`S@1`).
    Shared(Rank),
    /// Locks one target of a window exclusively (`E@1`).
    Exclusive(Rank),
}

impl Role {
    /// The access of `rank` in acquisition number `acquisition`, counted from 0.
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

    /// Returns whether acquisition number `acquisition`, counted from 0, of `rank` is for writing.
    pub const fn writes(self, rank: Rank, acquisition: u32) -> bool {
        self.access(rank, acquisition).writes()
    }

    /// Returns whether only window locks support this role.
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

/// The access of one acquisition.
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
    /// Returns whether the holder may write the protected data.
    pub const fn writes(self) -> bool {
        matches!(self, Access::Write | Access::Exclusive(_))
    }

    /// Returns whether these two accesses exclude each other.
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

/// The behaviour of a rank that cannot acquire at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Form {
    /// It waits.
    #[default]
    Wait,
    /// It gives up at once (`try`).
    Try,
    /// It waits, and gives up at a deadline (`timed`). The deadline may pass at any time, or never.
    Timed,
}

impl Form {
    /// The word after the role, in a scenario's text.
    pub const fn name(self) -> &'static str {
        match self {
            Form::Wait => "",
            Form::Try => "try",
            Form::Timed => "timed",
        }
    }
}

/// Ranks with the same part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Group {
    /// The number of ranks, at least 1.
    pub ranks: u32,
    /// The role of each of them.
    pub role: Role,
    /// The form of its acquisitions.
    pub form: Form,
    /// The acquisitions of each of them, at least 1, or [`ENDLESS`](Group::ENDLESS).
    pub acquisitions: u32,
}

impl Group {
    /// Acquisitions without end. Only the explorer can search them.
    pub const ENDLESS: u32 = u32::MAX;
}

/// The placement of ranks, in blocks from rank 0 on. It includes ranks that only provide memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Nodes {
    /// The number of ranks per node, at least 1.
    pub ranks_per_node: u32,
    /// The number of nodes per rack, at least 1.
    pub nodes_per_rack: u32,
}

/// The ranks that acquire the lock, with the form and the number of their acquisitions.
///
/// The text form has numbers of ranks with their roles, then `x` and the acquisitions of each rank. The default is one
/// acquisition, and `xinf` stands for acquisitions without end. `+` joins parts with different numbers of acquisitions. `×` is the same as `x`, and case does not
/// matter. A final `/` and number give the ranks per node; a second `/` and number give the nodes per rack. The default
/// is one node.
///
/// The word `try` or `timed` after a role gives the [`Form`] of its acquisitions. An acquisition that fails is over: the
/// rank begins its next one. The forms are words, since shells expand `?` and `!`.
///
/// | text | meaning |
/// | --- | --- |
/// | `3R1Wx2` | ranks 0 to 2 read twice each, rank 3 writes twice |
/// | `3R+1Wx2` | the same, except that the readers read once |
/// | `4Mx100` | four ranks read and write alternately, 100 acquisitions each |
/// | `2A+1E@0+1S@1` | of a window: two lock_all, an exclusive lock of target 0, a shared one of target 1 |
/// | `1W2Wtry x2` | one writer waits, two writers try, twice each |
/// | `1Rtimed1W` | a reader with a deadline and a writer that waits |
/// | `2R1Wxinf` | two readers and a writer that acquire again and again |
/// | `4Wx2/2` | four writers on two nodes of two ranks |
/// | `4W/1/2` | four writers on four nodes, in two racks of two nodes |
/// | `3Wx2 crash1` | three writers, of which one may fail at any step |
/// | `3Wx1 restart1` | three writers; once, one of them may fail at any step and come back |
/// | `3Wx1 lapse1` | three writers; once, a time that is longer than a lease may pass at any step |
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
    /// The largest number of ranks that fail.
    crashes: u32,
    /// The largest number of times that a rank fails and comes back.
    restarts: u32,
    /// The largest number of lapses, in each of which time passes for all ranks.
    lapses: u32,
}

/// The word before the number of failures, in a scenario's text.
const CRASH: &str = "crash";

/// The word before the number of returns, in a scenario's text.
const RESTART: &str = "restart";

/// The word before the number of lapses, in a scenario's text.
const LAPSE: &str = "lapse";

impl Scenario {
    /// A scenario of these groups, whose ranks are numbered from 0 in their order.
    ///
    /// # Errors
    ///
    /// Returns a sentence if there is no group, if a group is empty or acquires nothing, or if there are more than
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
        Ok(Scenario { groups, ranks, nodes: None, crashes: 0, restarts: 0, lapses: 0 })
    }

    /// `ranks` ranks without acquisitions, for a program.
    pub(crate) fn of_ranks(ranks: u32) -> Scenario {
        Scenario { groups: Vec::new(), ranks, nodes: None, crashes: 0, restarts: 0, lapses: 0 }
    }

    /// Places the ranks on `nodes`.
    ///
    /// A run in an existing world, such as a stress run, uses the placement of that world instead.
    ///
    /// # Errors
    ///
    /// Returns a sentence if one of the blocks is empty.
    pub fn placed(self, nodes: Nodes) -> Result<Scenario, String> {
        if nodes.ranks_per_node == 0 || nodes.nodes_per_rack == 0 {
            return Err("a node needs at least 1 rank, and a rack at least 1 node".to_owned());
        }
        Ok(Scenario { nodes: Some(nodes), ..self })
    }

    /// The same scenario, in which up to that many ranks fail, each at any step.
    #[must_use]
    pub fn with_crashes(self, crashes: u32) -> Scenario {
        Scenario { crashes, ..self }
    }

    /// The largest number of ranks that fail.
    pub fn crashes(&self) -> u32 {
        self.crashes
    }

    /// The same scenario, in which a rank fails and comes back up to that many times, each at any step.
    #[must_use]
    pub fn with_restarts(self, restarts: u32) -> Scenario {
        Scenario { restarts, ..self }
    }

    /// The largest number of times that a rank fails and comes back.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// The same scenario, in which a time that is longer than a lease passes up to that many times, each at any step.
    #[must_use]
    pub fn with_lapses(self, lapses: u32) -> Scenario {
        Scenario { lapses, ..self }
    }

    /// The largest number of lapses, in each of which time passes for all ranks.
    pub fn lapses(&self) -> u32 {
        self.lapses
    }

    /// The placement of the ranks; `None` is one node.
    pub fn nodes(&self) -> Option<Nodes> {
        self.nodes
    }

    /// The topology of a world of `size` ranks.
    pub fn topology(&self, size: u32) -> Topology {
        match self.nodes {
            None => Topology::one_node(size),
            Some(Nodes { ranks_per_node, nodes_per_rack }) => {
                Topology::blocks(size, ranks_per_node, nodes_per_rack).expect("`placed` rejects empty blocks")
            }
        }
    }

    /// The groups, in the order of their ranks.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The number of ranks that take part.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The role and the number of acquisitions of `rank`; `None` if it takes no part.
    pub fn part(&self, rank: Rank) -> Option<(Role, u32)> {
        self.group(rank).map(|group| (group.role, group.acquisitions))
    }

    fn group(&self, rank: Rank) -> Option<&Group> {
        let mut after = 0;
        self.groups.iter().find(|group| {
            after += group.ranks;
            rank.0 < after
        })
    }

    /// The form of the acquisitions of `rank`.
    pub fn form(&self, rank: Rank) -> Form {
        self.group(rank).map_or(Form::Wait, |group| group.form)
    }

    /// Returns whether some rank's acquisitions have this form.
    pub fn has(&self, form: Form) -> bool {
        self.groups.iter().any(|group| group.form == form)
    }

    /// Returns whether some rank acquires without end.
    pub fn is_endless(&self) -> bool {
        self.groups.iter().any(|group| group.acquisitions == Group::ENDLESS)
    }

    /// The same scenario, with all acquisitions in this form.
    #[must_use]
    pub fn in_form(mut self, form: Form) -> Scenario {
        for group in &mut self.groups {
            group.form = form;
        }
        self
    }

    /// The accesses of `rank`, in order; none if it takes no part. An endless iterator if it acquires without end.
    pub fn accesses(&self, rank: Rank) -> impl Iterator<Item = Access> {
        self.part(rank).into_iter().flat_map(move |(role, times)| {
            let all = (0..=u32::MAX).cycle().map(move |i| role.access(rank, i));
            all.take(if times == Group::ENDLESS { usize::MAX } else { times as usize })
        })
    }

    /// The least number of targets of the window: one more than the highest named target.
    pub fn targets(&self) -> u32 {
        let highest = self.groups.iter().map(|group| match group.role {
            Role::Shared(target) | Role::Exclusive(target) => target.0.saturating_add(1),
            _ => 1,
        });
        highest.max().unwrap_or(1)
    }

    /// The number of acquisitions of all ranks together: for reading, and for writing.
    pub fn acquisitions(&self) -> (u64, u64) {
        let mut writes = 0;
        let mut all = 0;
        for rank in (0..self.ranks).map(Rank) {
            if let Some((role, acquisitions)) = self.part(rank) {
                all += u64::from(acquisitions);
                writes += match role {
                    // Half of them read and half write. With an odd number, the extra acquisition has the kind of the
                    // first one.
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
            write!(f, "{}{}{}", group.ranks, group.role, group.form.name())?;
            let next = self.groups.get(i + 1);
            if group.form != Form::Wait {
                f.write_str(" ")?;
            }
            if next.is_none_or(|next| next.acquisitions != group.acquisitions) {
                match group.acquisitions {
                    Group::ENDLESS => write!(f, "x{INFINITE}")?,
                    times => write!(f, "x{times}")?,
                }
                if next.is_some() {
                    f.write_str("+")?;
                }
            } else if matches!(group.role, Role::Shared(_) | Role::Exclusive(_)) && group.form == Form::Wait {
                f.write_str(" ")?;
            }
        }
        match self.nodes {
            None => {}
            Some(Nodes { ranks_per_node, nodes_per_rack: 1 }) => write!(f, "/{ranks_per_node}")?,
            Some(Nodes { ranks_per_node, nodes_per_rack }) => write!(f, "/{ranks_per_node}/{nodes_per_rack}")?,
        }
        for (word, count) in [(CRASH, self.crashes), (RESTART, self.restarts), (LAPSE, self.lapses)] {
            if count != 0 {
                write!(f, " {word}{count}")?;
            }
        }
        Ok(())
    }
}

/// A text that is not a scenario.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "scenario {text:?}: {why}; write it as 3R1Wx2 (3 readers and 1 writer, 2 acquisitions each), 3R+1Wx2, 4Mx100, 1W2Wtry x2 (2 writers try; or timed), 4Wx2/2 (2 ranks per node), 3Wx2 crash1 (1 rank may fail), 3Wx1 restart1 (1 rank may fail and come back) or 3Wx1 lapse1 (a lease may pass)"
)]
pub struct ParseError {
    /// The rejected text.
    pub text: String,
    /// The reason.
    pub why: String,
}

impl FromStr for Scenario {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Scenario, ParseError> {
        parse(text).map_err(|why| ParseError { text: text.to_owned(), why })
    }
}

/// The text of acquisitions without end, after `x`.
const INFINITE: &str = "inf";

/// The number of acquisitions that the text after `x` gives.
fn times(text: &str) -> Result<u32, String> {
    if text.eq_ignore_ascii_case(INFINITE) {
        return Ok(Group::ENDLESS);
    }
    match number(text, "acquisitions after x")? {
        Group::ENDLESS => Err(format!("{text} acquisitions are too many; x{INFINITE} has no end")),
        times => Ok(times),
    }
}

fn parse(text: &str) -> Result<Scenario, String> {
    let mut groups = Vec::new();
    let (text, lapses) = counted(text, LAPSE, "times after lapse")?;
    let (text, restarts) = counted(text, RESTART, "times after restart")?;
    let (text, crashes) = counted(text, CRASH, "ranks after crash")?;
    let (text, places) = text.split_once('/').map_or((text, None), |(text, places)| (text, Some(places)));
    for part in text.split('+').map(str::trim) {
        let (roles, times) = match part.split_once(['x', 'X', '×']) {
            Some((roles, times)) => (roles.trim_end(), self::times(times.trim_start())?),
            None => (part, 1),
        };
        if roles.is_empty() {
            return Err("one of its parts names no ranks".to_owned());
        }
        let mut rest = roles;
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
                        "{letter:?} is not one of the roles R (reader), W (writer), M (mixed), A (lock_all), S@target (shared) and E@target (exclusive), each with try or timed after it or neither"
                    ));
                }
            };
            let named = [Form::Try, Form::Timed].into_iter().find_map(|form| {
                let (name, beyond) = after.trim_start().split_at_checked(form.name().len())?;
                name.eq_ignore_ascii_case(form.name()).then_some((form, beyond))
            });
            let (form, after) = named.unwrap_or((Form::Wait, after));
            groups.push(Group { ranks: ranks()?, role, form, acquisitions: times });
            rest = after.trim_start();
        }
        if !rest.is_empty() {
            return Err(format!("{rest} has no role after it"));
        }
    }
    let scenario = Scenario::new(groups)?.with_crashes(crashes).with_restarts(restarts).with_lapses(lapses);
    let Some(places) = places else { return Ok(scenario) };
    let (ranks, nodes) = places.split_once('/').map_or((places, None), |(ranks, nodes)| (ranks, Some(nodes)));
    scenario.placed(Nodes {
        ranks_per_node: number(ranks.trim(), "ranks per node after /")?,
        nodes_per_rack: nodes.map_or(Ok(1), |nodes| number(nodes.trim(), "nodes per rack after the second /"))?,
    })
}

/// The text before `word`, and the number after it; 0 without the word.
fn counted<'t>(text: &'t str, word: &str, what: &str) -> Result<(&'t str, u32), String> {
    match text.to_ascii_lowercase().find(word) {
        Some(at) => Ok((text[..at].trim_end(), number(text[at + word.len()..].trim(), what)?)),
        None => Ok((text, 0)),
    }
}

fn number(digits: &str, what: &str) -> Result<u32, String> {
    if digits.is_empty() {
        return Err(format!("it lacks the number of {what}"));
    }
    // `u32::from_str` would accept a plus sign.
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
    fn texts_parse_and_print_back() {
        for text in [
            "3R1Wx2",
            "1Rx1",
            "3Rx1+1Wx2",
            "4Mx100",
            "2R2W1Mx7+3Wx1",
            "2A1E@0 1E@1 1S@0x1",
            "1S@7x2+1Ax1",
            "3Wx2 crash1",
            "2R2Wx1/2 crash2",
            "3Wx1 lapse2",
            "2Wx2/1 crash1 lapse1",
            "3Wx1 restart1",
            "2Wx2/1 crash1 restart2 lapse1",
            "4Wx2/2",
            "2R2Wx1/1/2",
            "1W2Wtry x2",
            "1Rtimed 2W1Mtry x1+1Wtimed x3/2",
            "1E@0try 2S@1timed 1Ax1",
            "2R1Wxinf",
            "2Rxinf+1Wx2/2",
        ] {
            assert_eq!(text.parse::<Scenario>().unwrap().to_string(), text);
        }
        for (text, canonical) in [
            ("3r 1w × 2", "3R1Wx2"),
            ("3R + 1WX2", "3Rx1+1Wx2"),
            ("2W", "2Wx1"),
            ("2a + 1e@0 + 1S@1", "2A1E@0 1S@1x1"),
            ("4W / 2/1", "4Wx1/2"),
            ("2wTRYx2", "2Wtry x2"),
            ("2W try 1R", "2Wtry 1Rx1"),
            ("1Rtimed1W", "1Rtimed 1Wx1"),
            ("1e@0 1S@1Timed", "1E@0 1S@1timed x1"),
            ("3W × Inf", "3Wxinf"),
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
    fn ranks_have_their_forms() {
        let scenario: Scenario = "1R1Wtry+2Mtimed x5".parse().unwrap();
        let forms: Vec<Form> = (0..5).map(|rank| scenario.form(Rank(rank))).collect();
        assert_eq!(forms, [Form::Wait, Form::Try, Form::Timed, Form::Timed, Form::Wait]);
        assert!(scenario.has(Form::Try));
        assert_eq!(scenario.in_form(Form::Wait).to_string(), "1R1Wx1+2Mx5");
    }

    #[test]
    fn acquisitions_without_end_alternate_like_others() {
        let scenario: Scenario = "2Mxinf".parse().unwrap();
        assert!(scenario.is_endless() && !"2Mx9".parse::<Scenario>().unwrap().is_endless());
        let first: Vec<bool> = scenario.accesses(Rank(1)).take(5).map(Access::writes).collect();
        assert_eq!(first, [true, false, true, false, true]);
    }

    #[test]
    fn ranks_have_their_nodes() {
        let of = |text: &str| text.parse::<Scenario>().unwrap().topology(5);
        assert_eq!(of("4W"), Topology::one_node(5));
        assert_eq!(of("4Wx2/2"), Topology::blocks(5, 2, 1).unwrap());
        assert_eq!(of("4W/1/2"), Topology::blocks(5, 1, 2).unwrap());
    }

    #[test]
    fn counted_acquisitions_are_those_of_the_ranks() {
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
        assert_eq!(why(""), "one of its parts names no ranks");
        assert_eq!(why("3R+"), "one of its parts names no ranks");
        assert_eq!(why("x2"), "one of its parts names no ranks");
        assert_eq!(why("R1Wx2"), "it lacks the number of ranks before R");
        assert_eq!(why("3"), "3 has no role after it");
        assert_eq!(why("3R1"), "1 has no role after it");
        assert_eq!(
            why("3Q"),
            "'Q' is not one of the roles R (reader), W (writer), M (mixed), A (lock_all), S@target (shared) and E@target (exclusive), each with try or timed after it or neither"
        );
        assert!(why("2Wtr").starts_with("'t' is not one of the roles"));
        assert!(why("2Wtrytimed").starts_with("'t' is not one of the roles"));
        assert_eq!(why("1E"), "E needs a target, as in 1E@0");
        assert_eq!(why("1S@"), "it lacks the number of the target after S@");
        assert_eq!(why("3Rx"), "it lacks the number of acquisitions after x");
        assert_eq!(why("3Rx2y"), "\"2y\" is not a number of acquisitions after x up to 4294967295");
        assert_eq!(why("3Rx4294967295"), "4294967295 acquisitions are too many; xinf has no end");
        assert_eq!(why("2W/"), "it lacks the number of ranks per node after /");
        assert_eq!(why("2W/2/"), "it lacks the number of nodes per rack after the second /");
        assert_eq!(why("2W/2/0"), "a node needs at least 1 rank, and a rack at least 1 node");
        assert_eq!(why("2W/2/1/1"), "\"1/1\" is not a number of nodes per rack after the second / up to 4294967295");
        assert_eq!(why("0R"), "0R is a group of no ranks");
        assert_eq!(why("3Rx0"), "x0 acquires nothing");
        assert_eq!(why("5000000000R"), "\"5000000000\" is not a number of ranks before R up to 4294967295");
        assert_eq!(why("4294967295R1W"), "it has too many ranks");
        assert!("3Q".parse::<Scenario>().unwrap_err().to_string().contains("write it as 3R1Wx2"));
    }
}
