//! A machine, as the simulator knows it: what its operations take, and where its ranks are.

use crate::sim::network::Shape;

/// A length of virtual time, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span(pub u64);

impl Span {
    /// A length of so many nanoseconds.
    pub const fn nanoseconds(nanoseconds: u64) -> Span {
        Span(nanoseconds * 1000)
    }

    /// In nanoseconds.
    pub fn as_nanoseconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

/// Who carries out atomic operations on words of a rank of the same node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocalAtomics {
    /// The processor, whose operations are atomic with those of the adapter.
    Processor,
    /// The adapter, by a message to its own node.
    Nic,
}

/// How messages that wait for one adapter take turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arbitration {
    /// In the order of their arrival.
    Fifo,
    /// Each place of the network on the way lets its inputs have turns, as switches with little memory do: who is near
    /// shares its turns with few.
    RoundRobin,
}

/// How much longer than its length a message is under way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Jitter {
    /// Not at all.
    None,
    /// Equally often by each length up to this one.
    Uniform(Span),
    /// Exponentially distributed with this mean.
    Exponential(Span),
}

/// How ranks are placed on nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// In blocks: node 0 is filled first.
    Block,
    /// In turn, one to each node.
    Cyclic,
}

/// What a node's network adapter takes.
#[derive(Clone, PartialEq, Debug)]
pub struct Nic {
    /// Atomic engines, each of which serves one operation at a time; a rank's operations go to one of them.
    pub engines: u32,
    /// Between two messages that leave.
    pub gap: Span,
    /// For each byte that leaves, in picoseconds.
    pub byte: f64,
    /// Of an engine for an atomic operation, before it has the word.
    pub atomic: Span,
    /// Of an atomic operation with its word, which others wait for.
    pub word: Span,
    /// Of an engine for a put that arrives.
    pub put: Span,
    /// Of an engine for a get that arrives.
    pub get: Span,
}

/// What the processors of a node take.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Sockets that a full node's ranks are spread over in blocks.
    pub sockets: u32,
    /// A load or store of a line that the core has.
    pub hit: Span,
    /// An atomic operation on a line that the core has.
    pub atomic: Span,
    /// A line that another core of the socket has.
    pub core: Span,
    /// A line that a core of another socket has.
    pub socket: Span,
    /// For each byte copied, in picoseconds.
    pub byte: f64,
}

/// A machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// The network's shape.
    pub shape: Shape,
    /// Ranks of a node, unless asked otherwise.
    pub ranks_per_node: u32,
    /// How ranks are placed.
    pub placement: Placement,
    /// The processor's part in starting a network operation.
    pub overhead: Span,
    /// The processor's part in noticing that one is done.
    pub completion: Span,
    /// One way from node to node, without hops.
    pub wire: Span,
    /// Each hop on the way.
    pub hop: Span,
    /// One way from a node to itself.
    pub loopback: Span,
    /// Who carries out atomic operations inside a node.
    pub local_atomics: LocalAtomics,
    /// How messages take turns.
    pub arbitration: Arbitration,
    /// How irregular messages are.
    pub jitter: Jitter,
    /// The adapter.
    pub nic: Nic,
    /// The processors.
    pub node: Node,
}

impl Profile {
    /// What a word operation takes that nobody disturbs, at a distance of so many hops.
    pub fn remote_word(&self, hops: u32) -> Span {
        let ways = 2 * (self.wire.0 + u64::from(hops) * self.hop.0);
        Span(self.overhead.0 + ways + self.nic.atomic.0 + self.nic.word.0 + self.completion.0)
    }
}
