//! The simulator's description of a machine: the times of its operations, and the places of its ranks.
//!
//! A profile is a TOML file. Every value has its unit. In the profiles in `atomics/profiles`, a comment gives the source of
//! every number: a paper and its section, the data of a fit, or an assumption. Times are `"100ns"` or `"0.71us"`. The cost
//! of a byte is a bandwidth, `"12.5GB/s"`, or a time, `"80ps/B"`. All keys are required, and there are no others. A machine
//! of the shape `one-node` has all or none of the network's keys and the table `nic`. The keys `node.keep` and `node.pause`
//! are optional, with the values 1 and 0. So is `node.fence`; without it, no rank can fence for the others.
//!
//! | key | value |
//! | --- | --- |
//! | `name`, `about` | texts of a line: letters, digits and hyphens; anything |
//! | `ranks_per_node` | 1 to 65536 |
//! | `placement` | `"block"`, `"cyclic"` |
//! | `overhead`, `completion`, `wire`, `hop`, `loopback` | times of the network |
//! | `local_atomics` | `"processor"`, `"nic"` |
//! | `arbitration` | `"fifo"`, `"round-robin"` |
//! | `jitter` | `"none"`, `"uniform 50ns"`, `"exponential 50ns"` |
//! | `shape.kind` | `"one-node"`, `"torus"` (`free`, `fixed`, `wrap`), `"dragonfly"` (`nodes`, `routers`), `"fat-tree"` (`down`) |
//! | `nic.engines` | 1 to 1024 |
//! | `nic.gap`, `nic.atomic`, `nic.word`, `nic.put`, `nic.get` | times |
//! | `node.sockets` | 1 to 1024 |
//! | `node.hit`, `node.atomic`, `node.core`, `node.socket`, `node.notice`, `node.pause`, `node.fence` | times |
//! | `node.keep` | 0 to 1 |
//! | `nic.byte`, `node.byte` | bandwidths, or times for each byte |

use std::fmt::Write;
use std::path::Path;

use super::settings::{self, Table};
pub use super::units::Span;
use super::units::{self, quoted, write_per_byte, write_time};
use crate::engine::sim::network::Shape;
use crate::{Error, Result};

/// The part of the machine that executes atomic operations on words of a rank of the same node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocalAtomics {
    /// The processor, whose operations are atomic with the adapter's operations.
    Processor,
    /// The adapter, with a message to its own node.
    Nic,
}

/// The order in which messages that wait for one adapter are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arbitration {
    /// In the order of their arrival.
    Fifo,
    /// At each place of the network on the way, the inputs take turns, as in switches with little memory: a near rank
    /// shares its turns with few others.
    RoundRobin,
}

/// A random delay of each message, in addition to its time on the way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Jitter {
    /// No delay.
    None,
    /// Uniformly distributed up to this delay.
    Uniform(Span),
    /// Exponentially distributed with this mean.
    Exponential(Span),
}

/// The placement of ranks on nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// In blocks: node 0 is filled first.
    Block,
    /// In turn, one rank to each node.
    Cyclic,
}

/// The times of a node's network adapter.
#[derive(Clone, PartialEq, Debug)]
pub struct Nic {
    /// The number of atomic engines, each of which serves one operation at a time; a rank's operations go to one of
    /// them.
    pub engines: u32,
    /// The time between two leaving messages.
    pub gap: Span,
    /// The time of each leaving byte, in picoseconds.
    pub byte: f64,
    /// The engine's time for an atomic operation, before it has the word.
    pub atomic: Span,
    /// The time for which an atomic operation has its word, while others wait for the word.
    pub word: Span,
    /// The engine's time for an arriving put.
    pub put: Span,
    /// The engine's time for an arriving get.
    pub get: Span,
}

/// The times of a node's processors.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// The number of sockets. The ranks of a full node are spread over them in blocks.
    pub sockets: u32,
    /// The time of a load or store of a line that the core has.
    pub hit: Span,
    /// The time of an atomic operation on a line that the core has.
    pub atomic: Span,
    /// The transfer time of a line that another core of the socket has.
    pub core: Span,
    /// The transfer time of a line that a core of another socket has.
    pub socket: Span,
    /// The time for a waiting core to notice a change of its word, besides the transfer of the line.
    pub notice: Span,
    /// The share of a transfer for which the core that has the line goes on using it, until it learns that another core
    /// wants it.
    pub keep: f64,
    /// The time of a pause beyond the requested time.
    pub pause: Span,
    /// The time of a fence by one rank for all ranks ([`RemoteAtomics::fence_everywhere`](crate::RemoteAtomics::fence_everywhere)), where
    /// ranks have one. Only a machine of one node has it.
    pub fence: Option<Span>,
    /// The time of each copied byte, in picoseconds.
    pub byte: f64,
}

/// A machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// A description, in one line.
    pub about: String,
    /// The network's shape.
    pub shape: Shape,
    /// The number of ranks of a node, unless an option overrides it.
    pub ranks_per_node: u32,
    /// The placement of ranks.
    pub placement: Placement,
    /// The processor's part in starting a network operation.
    pub overhead: Span,
    /// The processor's part in noticing the completion of an operation.
    pub completion: Span,
    /// The time of the way from node to node, without hops.
    pub wire: Span,
    /// The time of each hop on the way.
    pub hop: Span,
    /// The time of the way from a node to itself.
    pub loopback: Span,
    /// The part of the machine that executes atomic operations inside a node.
    pub local_atomics: LocalAtomics,
    /// The order of waiting messages.
    pub arbitration: Arbitration,
    /// The delays of messages.
    pub jitter: Jitter,
    /// The adapter.
    pub nic: Nic,
    /// The processors.
    pub node: Node,
}

/// The built-in profiles, and their texts.
const BUILTIN: [(&str, &str); 7] = [
    ("aries", include_str!("../../../profiles/aries.toml")),
    ("fx100", include_str!("../../../profiles/fx100.toml")),
    ("gemini", include_str!("../../../profiles/gemini.toml")),
    ("infiniband-2004", include_str!("../../../profiles/infiniband-2004.toml")),
    ("infiniband-ndr", include_str!("../../../profiles/infiniband-ndr.toml")),
    ("one-node", include_str!("../../../profiles/one-node.toml")),
    ("shm", include_str!("../../../profiles/shm.toml")),
];

/// The keys of every profile.
const KEYS: [&str; 6] = ["name", "about", "ranks_per_node", "placement", "shape", "node"];

/// The keys that a profile of one node may omit.
const NETWORK: [&str; 9] =
    ["overhead", "completion", "wire", "hop", "loopback", "local_atomics", "arbitration", "jitter", "nic"];

const PLACEMENTS: [(&str, Placement); 2] = [("block", Placement::Block), ("cyclic", Placement::Cyclic)];

const LOCAL_ATOMICS: [(&str, LocalAtomics); 2] = [("processor", LocalAtomics::Processor), ("nic", LocalAtomics::Nic)];

const ARBITRATIONS: [(&str, Arbitration); 2] = [("fifo", Arbitration::Fifo), ("round-robin", Arbitration::RoundRobin)];

/// The longest time of a setting. A longer time is a mistake.
const LONGEST: Span = Span(1_000_000_000_000);

impl Profile {
    /// Returns the names of the built-in profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// Returns the built-in profile with this name.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`] when there is none.
    pub fn builtin(name: &str) -> Result<Profile> {
        match BUILTIN.iter().find(|(builtin, _)| *builtin == name) {
            Some((_, text)) => Profile::parse(&format!("{name}.toml"), text),
            None => {
                let names: Vec<&str> = Profile::names().collect();
                Err(Error::settings(format!(
                    "no profile is called {}; there are {}, or name a file: ./NAME.toml",
                    quoted(name),
                    names.join(", ")
                )))
            }
        }
    }

    /// Reads the profile in a file.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`] when it cannot be read, or is not a profile: file, line, key, the fault, and what to write
    /// instead.
    pub fn load(path: &Path) -> Result<Profile> {
        Profile::parse(&path.display().to_string(), &settings::read(path)?)
    }

    /// Returns the built-in profile with this name, or reads it from a file if the name has a `/` or a `.`.
    ///
    /// # Errors
    ///
    /// The errors of [`builtin`](Profile::builtin) and [`load`](Profile::load).
    pub fn find(name_or_path: &str) -> Result<Profile> {
        if name_or_path.contains(['/', '.']) {
            Profile::load(Path::new(name_or_path))
        } else {
            Profile::builtin(name_or_path)
        }
    }

    /// Reads the profile `text` of a file called `name` in messages.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`]: file, line, key, the fault, and what to write instead.
    pub fn parse(name: &str, text: &str) -> Result<Profile> {
        let table = Table::parse(name, text, &[&KEYS[..], &NETWORK[..]].concat())?;
        let shape = shape(&table)?;
        let node = table.table(
            "node",
            &["sockets", "hit", "atomic", "core", "socket", "notice", "keep", "pause", "fence", "byte"],
        )?;
        let mut profile = Profile {
            name: line(&table, "name")?,
            about: line(&table, "about")?,
            ranks_per_node: count(&table, "ranks_per_node", 65_536)?,
            placement: table.choice("placement", &PLACEMENTS)?,
            node: Node {
                sockets: count(&node, "sockets", 1024)?,
                hit: positive(&node, "hit")?,
                atomic: positive(&node, "atomic")?,
                core: time(&node, "core")?,
                socket: time(&node, "socket")?,
                notice: time(&node, "notice")?,
                keep: if node.has("keep") { node.number("keep", 0.0..=1.0)? } else { 1.0 },
                pause: if node.has("pause") { time(&node, "pause")? } else { Span(0) },
                fence: if node.has("fence") { Some(positive(&node, "fence")?) } else { None },
                byte: node.per_byte("byte")?,
            },
            shape,
            ..Profile::without_network()
        };
        if !profile.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(table.error("name", "is not a name; write letters, digits and hyphens"));
        }
        if profile.shape != Shape::OneNode || NETWORK.iter().any(|key| table.has(key)) {
            let nic = table.table("nic", &["engines", "gap", "byte", "atomic", "word", "put", "get"])?;
            profile.overhead = time(&table, "overhead")?;
            profile.completion = time(&table, "completion")?;
            profile.wire = positive(&table, "wire")?;
            profile.hop = time(&table, "hop")?;
            profile.loopback = positive(&table, "loopback")?;
            profile.local_atomics = table.choice("local_atomics", &LOCAL_ATOMICS)?;
            profile.arbitration = table.choice("arbitration", &ARBITRATIONS)?;
            profile.jitter = jitter(&table)?;
            profile.nic = Nic {
                engines: count(&nic, "engines", 1024)?,
                gap: time(&nic, "gap")?,
                byte: nic.per_byte("byte")?,
                atomic: time(&nic, "atomic")?,
                word: positive(&nic, "word")?,
                put: time(&nic, "put")?,
                get: time(&nic, "get")?,
            };
        }
        Ok(profile)
    }

    /// Returns the time of an uncontended atomic operation at a distance of `hops` hops; without a network, on a line
    /// that another core has.
    pub fn remote_word(&self, hops: u32) -> Span {
        if self.shape == Shape::OneNode {
            return Span(self.node.atomic.0 + self.node.core.0);
        }
        let ways = 2 * (self.wire.0 + u64::from(hops) * self.hop.0);
        Span(self.overhead.0 + ways + self.nic.atomic.0 + self.nic.word.0 + self.completion.0)
    }

    /// Returns a profile that has only the values of a missing network.
    fn without_network() -> Profile {
        Profile {
            name: String::new(),
            about: String::new(),
            shape: Shape::OneNode,
            ranks_per_node: 1,
            placement: Placement::Block,
            overhead: Span(0),
            completion: Span(0),
            wire: Span(0),
            hop: Span(0),
            loopback: Span(0),
            local_atomics: LocalAtomics::Processor,
            arbitration: Arbitration::Fifo,
            jitter: Jitter::None,
            nic: Nic {
                engines: 1,
                gap: Span(0),
                byte: 0.0,
                atomic: Span(0),
                word: Span(0),
                put: Span(0),
                get: Span(0),
            },
            node: Node {
                sockets: 1,
                hit: Span(0),
                atomic: Span(0),
                core: Span(0),
                socket: Span(0),
                notice: Span(0),
                keep: 1.0,
                pause: Span(0),
                fence: None,
                byte: 0.0,
            },
        }
    }

    /// Makes a machine of one node without a network.
    pub fn of_node(name: &str, about: &str, ranks_per_node: u32, node: Node) -> Profile {
        Profile { name: name.to_owned(), about: about.to_owned(), ranks_per_node, node, ..Profile::without_network() }
    }

    /// Returns the file that [`parse`](Profile::parse) reads as this profile, with `head` as a comment at its start.
    pub fn to_toml(&self, head: &str) -> String {
        let mut text = String::new();
        for line in head.lines() {
            text += format!("# {line}").trim_end();
            text.push('\n');
        }
        let mut table = Writer { text: &mut text };
        table.blank();
        table.text("name", &self.name);
        table.text("about", &self.about);
        table.blank();
        table.put("ranks_per_node", self.ranks_per_node, "unless asked otherwise");
        table.put("placement", quoted_name(&PLACEMENTS, self.placement), "which nodes are filled first");
        let bare = Profile::without_network();
        let network = self.shape != Shape::OneNode
            || (Profile { node: bare.node.clone(), name: String::new(), about: String::new(), ..self.clone() })
                != (Profile { ranks_per_node: self.ranks_per_node, placement: self.placement, ..bare });
        if network {
            table.time("overhead", self.overhead, "the processor's part in starting a network operation");
            table.time("completion", self.completion, "the processor's part in noticing that one is done");
            table.time("wire", self.wire, "one way from node to node, without hops");
            table.time("hop", self.hop, "each link on the way");
            table.time("loopback", self.loopback, "one way from a node to itself");
            table.put("local_atomics", quoted_name(&LOCAL_ATOMICS, self.local_atomics), "on words of the same node");
            table.put("arbitration", quoted_name(&ARBITRATIONS, self.arbitration), "how waiting messages take turns");
            let jitter = match self.jitter {
                Jitter::None => "none".to_owned(),
                Jitter::Uniform(span) => format!("uniform {}", write_time(span)),
                Jitter::Exponential(span) => format!("exponential {}", write_time(span)),
            };
            table.put("jitter", format!("{jitter:?}"), "how much longer messages are under way");
        }
        table.section("shape");
        match &self.shape {
            Shape::OneNode => table.put("kind", "\"one-node\"", "no network"),
            Shape::Torus { free, fixed, wrap } => {
                table.put("kind", "\"torus\"", "nodes are their own switches");
                table.put("free", free, "dimensions as long as need be");
                table.put("fixed", format!("{fixed:?}"), "the lengths of the others");
                table.put("wrap", wrap, "whether the ends of free dimensions are linked");
            }
            Shape::Dragonfly { nodes, routers } => {
                table.put("kind", "\"dragonfly\"", "groups of routers");
                table.put("nodes", nodes, "nodes of a router");
                table.put("routers", routers, "routers of a group");
            }
            Shape::FatTree { down } => {
                table.put("kind", "\"fat-tree\"", "switches in levels");
                table.put("down", format!("{down:?}"), "how many each level joins, from the nodes up");
            }
        }
        if network {
            let nic = &self.nic;
            table.section("nic");
            table.put("engines", nic.engines, "atomic operations served at a time");
            table.time("gap", nic.gap, "between two messages that leave");
            table.put("byte", format!("{:?}", write_per_byte(nic.byte)), "each byte that leaves");
            table.time("atomic", nic.atomic, "an engine for an atomic operation, before it has the word");
            table.time("word", nic.word, "an atomic operation with its word");
            table.time("put", nic.put, "an engine for a put that arrives");
            table.time("get", nic.get, "an engine for a get that arrives");
        }
        let node = &self.node;
        table.section("node");
        table.put("sockets", node.sockets, "that ranks are spread over");
        table.time("hit", node.hit, "a load or store of a line that the core has");
        table.time("atomic", node.atomic, "an atomic operation on a line that the core has");
        table.time("core", node.core, "a line that another core of the socket has");
        table.time("socket", node.socket, "a line that a core of another socket has");
        table.time("notice", node.notice, "a waiter to notice a change, besides getting the line");
        table.put("keep", node.keep, "share of a transfer for which the old core goes on using the line");
        table.time("pause", node.pause, "a pause, beyond the time asked for");
        if let Some(fence) = node.fence {
            table.time("fence", fence, "a fence by one rank for all ranks");
        }
        table.put("byte", format!("{:?}", write_per_byte(node.byte)), "each byte copied");
        text
    }
}

/// Writes keys, values and comments below each other.
struct Writer<'a> {
    text: &'a mut String,
}

impl Writer<'_> {
    fn put(&mut self, key: &str, value: impl std::fmt::Display, comment: &str) {
        let setting = format!("{key} = {value}");
        writeln!(self.text, "{setting:33} # {comment}").expect("texts grow");
    }

    fn time(&mut self, key: &str, span: Span, comment: &str) {
        self.put(key, format_args!("\"{}\"", write_time(span)), comment);
    }

    /// Writes a text, without characters that would end it or the line.
    fn text(&mut self, key: &str, text: &str) {
        let text: String = text.chars().filter(|c| !c.is_control() && !matches!(c, '"' | '\\')).collect();
        writeln!(self.text, "{key} = \"{text}\"").expect("texts grow");
    }

    fn section(&mut self, name: &str) {
        writeln!(self.text, "\n[{name}]").expect("texts grow");
    }

    fn blank(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }
}

fn quoted_name<T: Copy + PartialEq>(names: &[(&str, T)], value: T) -> String {
    let name = names.iter().find(|(_, named)| *named == value).map_or("", |(name, _)| name);
    format!("{name:?}")
}

fn shape(table: &Table<'_>) -> Result<Shape> {
    const KINDS: [(&str, &[&str]); 4] = [
        ("one-node", &["kind"]),
        ("torus", &["kind", "free", "fixed", "wrap"]),
        ("dragonfly", &["kind", "nodes", "routers"]),
        ("fat-tree", &["kind", "down"]),
    ];
    let all: Vec<&str> = KINDS.iter().flat_map(|(_, keys)| keys.iter().copied()).collect();
    let keys = table.table("shape", &all)?.choice("kind", &KINDS)?;
    let part = table.table("shape", keys)?;
    let lengths = |key| -> Result<Vec<u32>> {
        let lengths = part.integers(key, 1..=4096)?;
        Ok(lengths.into_iter().map(|length| u32::try_from(length).expect("no more than 4096")).collect())
    };
    let shape = match keys.last().copied() {
        Some("wrap") => Shape::Torus {
            free: u32::try_from(part.integer("free", 0..=8)?).expect("no more than 8"),
            fixed: lengths("fixed")?,
            wrap: part.flag("wrap")?,
        },
        Some("routers") => {
            Shape::Dragonfly { nodes: count(&part, "nodes", 4096)?, routers: count(&part, "routers", 4096)? }
        }
        Some("down") => Shape::FatTree { down: lengths("down")? },
        _ => Shape::OneNode,
    };
    shape.check().map_err(|what| table.error("shape", what))?;
    Ok(shape)
}

fn jitter(table: &Table<'_>) -> Result<Jitter> {
    let text = table.text("jitter")?;
    let wrong = |what| table.error("jitter", what);
    let (kind, span) = match text.trim().split_once(' ') {
        None if text == "none" => return Ok(Jitter::None),
        Some(("uniform", span)) => (Jitter::Uniform as fn(Span) -> Jitter, span),
        Some(("exponential", span)) => (Jitter::Exponential as fn(Span) -> Jitter, span),
        _ => {
            let what = format!("{} is unknown", quoted(text));
            return Err(wrong(format!("{what}; write \"none\", \"uniform 50ns\" or \"exponential 50ns\"")));
        }
    };
    let span = units::time(span).map_err(wrong)?;
    check(table, "jitter", span)?;
    Ok(kind(span))
}

/// Reads a text of one line, which is not empty.
fn line(table: &Table<'_>, key: &str) -> Result<String> {
    let text = table.text(key)?;
    if text.is_empty() || text.len() > 200 || text.chars().any(|c| c.is_control() || matches!(c, '"' | '\\')) {
        return Err(table.error(key, "is empty or too long, or has quotation marks; write a line of up to 200 bytes"));
    }
    Ok(text.to_owned())
}

fn count(table: &Table<'_>, key: &str, most: u32) -> Result<u32> {
    let count = table.integer(key, 1..=u64::from(most))?;
    Ok(u32::try_from(count).expect("no more than `most`"))
}

/// Reads a time that a machine can take.
fn time(table: &Table<'_>, key: &str) -> Result<Span> {
    let span = table.time(key)?;
    check(table, key, span)?;
    Ok(span)
}

fn check(table: &Table<'_>, key: &str, span: Span) -> Result<()> {
    if span > LONGEST {
        return Err(table.error(key, format_args!("{} is absurd; write a time up to 1s", write_time(span))));
    }
    Ok(())
}

/// Reads a time that must not be 0: otherwise virtual time would stand still for a polling rank.
fn positive(table: &Table<'_>, key: &str) -> Result<Span> {
    let span = time(table, key)?;
    if span == Span(0) {
        return Err(table.error(key, "is zero, so polls would never end; write a time such as \"1ns\""));
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::sim::network::Network;

    fn builtin(name: &str) -> Profile {
        Profile::builtin(name).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn the_built_in_profiles_are_valid() {
        for name in Profile::names() {
            let profile = builtin(name);
            assert_eq!(profile.name, name);
            assert_eq!(Profile::find(name).unwrap(), profile);
            let most = if profile.shape == Shape::OneNode { 1 } else { 1_000_000 };
            Network::new(&profile.shape, most).unwrap();
            assert!(profile.node.hit <= profile.node.atomic && profile.node.core <= profile.node.socket, "{name}");
        }
    }

    #[test]
    fn every_number_of_a_network_has_a_source() {
        for (name, text) in BUILTIN.iter().filter(|(name, _)| !["one-node", "shm"].contains(name)) {
            for line in text.lines().filter(|line| line.contains(" = ") && !line.starts_with('#')) {
                let bare = ["name", "about", "kind"].iter().any(|key| line.starts_with(key));
                assert!(bare || line.contains("# "), "{name}: {line}");
            }
        }
    }

    #[test]
    fn written_profiles_are_read_back() {
        for name in Profile::names() {
            let profile = builtin(name);
            let text = profile.to_toml("One line,\n\nand another.");
            assert!(text.starts_with("# One line,\n#\n# and another.\n\nname = "), "{text}");
            assert_eq!(Profile::parse("copy", &text).unwrap(), profile, "{text}");
        }
        let jittery = Profile { jitter: Jitter::Exponential(Span(1)), ..builtin("fx100") };
        assert_eq!(Profile::parse("copy", &jittery.to_toml("")).unwrap(), jittery);
    }

    #[test]
    fn the_fits_in_the_comments_hold() {
        let unloaded = |p: &Profile, hops: u64, way: Span| {
            p.overhead.0 + 2 * (way.0 + hops * p.hop.0) + p.nic.atomic.0 + p.nic.word.0 + p.completion.0
        };
        let put = |p: &Profile, hops: u64| p.overhead.0 + p.wire.0 + hops * p.hop.0 + p.nic.put.0;
        let fx100 = builtin("fx100");
        assert_eq!(fx100.nic.atomic.0 + fx100.nic.word.0, 265_000);
        assert_eq!(unloaded(&fx100, 0, fx100.loopback), 1_150_000);
        assert_eq!(put(&fx100, 1) + fx100.node.core.0, 710_000);
        let gemini = builtin("gemini");
        assert_eq!(unloaded(&gemini, 1, gemini.wire), 2_400_000);
        assert_eq!(put(&gemini, 1) + gemini.wire.0 + gemini.hop.0 + gemini.completion.0, 1_000_000);
        let aries = builtin("aries");
        assert_eq!(unloaded(&aries, 3, aries.wire), 2_000_000);
        assert_eq!(put(&aries, 3) + aries.wire.0 + 3 * aries.hop.0 + aries.completion.0, 1_300_000);
        let old = builtin("infiniband-2004");
        assert_eq!(put(&old, 2) + old.node.core.0, 6_300_000);
        let ndr = builtin("infiniband-ndr");
        assert_eq!(put(&ndr, 2) + ndr.node.core.0, 900_000);
        assert_eq!(unloaded(&ndr, 2, ndr.wire), 1_900_000);
    }

    #[test]
    fn errors_of_bad_profiles_are_one_line_with_file_line_and_key() {
        let good = include_str!("../../../profiles/fx100.toml");
        let line_of = |text: &str, key: &str| 1 + text.lines().position(|line| line.starts_with(key)).unwrap();
        for (from, to, line, says) in [
            ("wire = \"320ns\"", "wire = 320", "wire", "wire: 320 has no unit; write a time such as \"100ns\""),
            ("wire = \"320ns\"", "wire = \"320\"", "wire", "wire: \"320\" has no unit; write a time"),
            ("wire = \"320ns\"", "wire = \"-320ns\"", "wire", "wire: \"-320ns\" is negative; write a time"),
            ("wire = \"320ns\"", "wire = nan", "wire", "wire: nan has no unit"),
            ("wire = \"320ns\"", "wire = \"nan\"", "wire", "wire: \"nan\" does not begin with a number"),
            ("wire = \"320ns\"", "wire = \"320s\"", "wire", "wire: 320000ms is absurd; write a time up to 1s"),
            ("wire = \"320ns\"", "wire = \"0ns\"", "wire", "wire: is zero"),
            ("wire = \"320ns\"", "wire = true", "wire", "wire: true is not what it should be"),
            ("wire = \"320ns\"", "wier = \"320ns\"", "wier", "wier: is unknown; known are name, about, "),
            ("wire = \"320ns\"", "", "#", "wire: is missing; write a time"),
            ("word = \"159ns\"", "", "[nic]", "nic.word: is missing; write a time"),
            (
                "engines = 1 ",
                "engines = 0 ",
                "engines",
                "nic.engines: 0 is not what it should be; write a whole number",
            ),
            ("engines = 1 ", "engines = -1 ", "engines", "nic.engines: -1 is not what it should be"),
            ("engines = 1 ", "engines = 1.5 ", "engines", "nic.engines: 1.5 is not what it should be"),
            ("byte = \"12.5GB/s\"", "byte = \"12.5Gb/s\"", "byte", "nic.byte: \"12.5Gb/s\" has the unit \"Gb/s\""),
            ("jitter = \"none\"", "jitter = \"normal 5ns\"", "jitter", "jitter: \"normal 5ns\" is unknown; write"),
            ("jitter = \"none\"", "jitter = \"uniform 5\"", "jitter", "jitter: \"5\" has no unit"),
            ("jitter = \"none\"", "jitter = \"uniform 5s\"", "jitter", "jitter: 5000ms is absurd"),
            ("kind = \"torus\"", "kind = \"donut\"", "kind", "shape.kind: \"donut\" is unknown; write \"one-node\" or"),
            (
                "kind = \"torus\"",
                "kind = \"dragonfly\"",
                "free",
                "shape.free: is unknown; known are kind, nodes, routers",
            ),
            ("fixed = [2, 3, 2]", "fixed = [2, 0]", "fixed", "shape.fixed: 0 is not what it should be"),
            ("free = 3", "free = 8", "[shape]", "shape: a torus of 11 dimensions"),
            ("[node]", "[nodes]", "[nodes]", "nodes: is unknown"),
            ("name = \"fx100\"", "name = \"fx 100\"", "name", "name: is not a name; write letters"),
            ("name = \"fx100\"", "name = \"fx100", "name", ""),
            ("local_atomics = \"processor\"", "local_atomics = \"cpu\"", "local", "local_atomics: \"cpu\" is unknown"),
        ] {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good, "{from}");
            let said = Profile::parse("dir/x.toml", &text).unwrap_err().to_string();
            let begin = format!("dir/x.toml:{}: {says}", line_of(&text, line));
            assert!(said.starts_with(&begin), "{said}\n{begin}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }

    #[test]
    fn files_are_found() {
        for (name, says) in [
            ("fx1000", "no profile is called \"fx1000\"; there are aries, fx100, "),
            ("/no/such/profile.toml", "/no/such/profile.toml: cannot be read: "),
            ("..", ": cannot be read: "),
        ] {
            let said = Profile::find(name).unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }
    }

    /// The profiles in `tests/corpus/profiles`: `good-*` are read, and `bad-*` are refused with the line of the fault.
    #[test]
    fn the_corpus_is_read_or_refused_by_its_names() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/profiles");
        let mut seen = [0, 0];
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let result = Profile::load(&path);
            let good = name.starts_with("good-");
            seen[usize::from(good)] += 1;
            match result {
                Ok(_) => assert!(good, "{name} is read"),
                Err(error) => {
                    let said = error.to_string();
                    assert!(name.starts_with("bad-"), "{said}");
                    assert!(said.contains(&name) && said.lines().count() == 1, "{said}");
                }
            }
        }
        assert!(seen[0] >= 10 && seen[1] >= 1, "{seen:?}");
    }

    /// Returns a text with one change.
    fn mutated(text: &str, what: u8, at: usize, with: &str) -> String {
        let lines: Vec<&str> = text.lines().collect();
        let line = at % lines.len();
        let joined = |lines: &[&str]| lines.join("\n");
        let (key, value) = lines[line].split_once(" = ").unwrap_or((lines[line], ""));
        let mut changed = lines.clone();
        let other;
        match what % 6 {
            0 => drop(changed.remove(line)),
            1 => changed.insert(line, lines[(at / 7) % lines.len()]),
            2 => {
                other = format!("{key} = {with}");
                changed[line] = &other;
            }
            3 => {
                other = format!("{key}{with} = {value}");
                changed[line] = &other;
            }
            4 => {
                other = format!("{key} = \"{with}\"");
                changed[line] = &other;
            }
            _ => {
                let cut = text.char_indices().map(|(at, _)| at).nth(at % text.len()).unwrap_or(0);
                return format!(
                    "{}{with}{}",
                    &text[..cut],
                    &text[cut + text[cut..].chars().next().map_or(0, char::len_utf8)..]
                );
            }
        }
        joined(&changed)
    }

    proptest! {
        #[test]
        fn mutated_profiles_never_panic(
            which in 0..BUILTIN.len(),
            changes in prop::collection::vec((any::<u8>(), any::<usize>(), r#"[-+0-9.eE_xnai"'\[\]{}#=, \n\t/a-zµ\\]{0,12}"#), 1..4),
        ) {
            let mut text = BUILTIN[which].1.to_owned();
            for (what, at, with) in &changes {
                if text.is_empty() {
                    break;
                }
                text = mutated(&text, *what, *at, with);
            }
            match Profile::parse("x.toml", &text) {
                Ok(profile) => {
                    // A profile that was read can be built and written.
                    let _ = Network::new(&profile.shape, 1000);
                    prop_assert_eq!(Profile::parse("y.toml", &profile.to_toml("")).unwrap(), profile);
                }
                Err(error) => {
                    let said = error.to_string();
                    prop_assert!(said.starts_with("x.toml:") && said.lines().count() == 1, "{}", said);
                }
            }
        }

        #[test]
        fn any_text_is_refused_or_read(text in "(?s).{0,200}") {
            prop_assert!(Profile::parse("x.toml", &text).is_err());
        }
    }
}
