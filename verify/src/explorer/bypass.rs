//! Bounded bypass, measured: how often ranks enter ahead of one that waits.
//!
//! A rank *waits* from the first wait or pause of its acquisition on, until it enters. The end of its doorway, the steps up
//! to there, may fix its turn; entries before that are no overtaking. An entry counts if it excludes the rank's own
//! access: readers that enter beside a waiting reader do not delay it.
//!
//! A *place* is a state and a rank of it that acquires. The number of a place is the largest weight of a path from there
//! to the rank's entry. Each counted entry of another rank weighs one. The strongly connected components of the places
//! (Tarjan 1972) come in an order in which all places after a component are known. A component with a counted entry
//! inside has no largest weight: its places are unbounded.
//!
//! Steps that the search takes at once begin a rank's wait as early as possible, and no rank enters by them. So they make
//! no number smaller, and every schedule of the search is one of the scenario.

use rmalab_atomics::Rank;

use super::space::{Space, Walker};
use super::store::{SHARDS, Store};
use super::transitions::Transitions;
use crate::counterexample::Choice;
use crate::outcome::Bypass;
use crate::status::Phase;
use crate::workload::Workload;
use crate::{Access, Check};

/// The number of a place whose rank can be overtaken without end.
const UNBOUNDED: u32 = u32::MAX;

/// The bytes that the search needs for each place.
const BYTES: u64 = 13;

/// The facts about a rank in a state that count.
#[derive(Clone, Copy, Default)]
struct Seen(u8);

impl Seen {
    const ACQUIRES: u8 = 1;
    const WAITS: u8 = 2;
    /// The number of the access, in the other bits.
    const ACCESS: u32 = 2;

    fn acquires(self) -> bool {
        self.0 & Seen::ACQUIRES != 0
    }

    fn waits(self) -> bool {
        self.0 & Seen::WAITS != 0
    }

    fn access(self) -> usize {
        usize::from(self.0 >> Seen::ACCESS)
    }
}

/// The accesses of a scenario, and which of them exclude each other.
struct Accesses {
    all: Vec<Access>,
    exclude: Vec<Vec<bool>>,
}

impl Accesses {
    fn new(check: &Check) -> Accesses {
        let mut all: Vec<Access> = Vec::new();
        for access in (0..check.active()).flat_map(|rank| check.scenario.accesses(Rank(rank)).take(2)) {
            if !all.contains(&access) {
                all.push(access);
            }
        }
        let excludes = |one: &Access| all.iter().map(|other| check.subject.excludes(*one, *other)).collect();
        let exclude = all.iter().map(excludes).collect();
        Accesses { all, exclude }
    }

    fn number(&self, access: Access) -> usize {
        self.all.iter().position(|&known| known == access).expect("a rank has the accesses of the scenario")
    }
}

struct Places<'t> {
    transitions: &'t Transitions,
    ranks: usize,
    seen: Vec<Seen>,
    exclude: Vec<Vec<bool>>,
}

/// A step from a place.
enum Next {
    /// To another place, and whether it counts.
    Place(usize, bool),
    /// To the entry of the rank, or to the end of its acquisition.
    End,
}

impl Places<'_> {
    /// Step number `i` from a place, if there is one.
    fn next(&self, place: usize, i: usize) -> Option<Next> {
        let (state, rank) = (place / self.ranks, place % self.ranks);
        let step = self.transitions.get(state, i)?;
        let to = self.transitions.dense(step.to) * self.ranks;
        let after = to + step.by.rank(rank);
        if !self.seen[after].acquires() {
            return Some(Next::End);
        }
        let counts = match step.choice {
            Choice::Step(other) if step.enters && other.index() != rank => {
                let theirs = self.seen[to + step.by.rank(other.index())].access();
                self.exclude[self.seen[place].access()][theirs]
            }
            _ => false,
        };
        Some(Next::Place(after, counts))
    }
}

/// The bypass of each group of the scenario; none if that takes more than `most` bytes, or if no rank acquires.
pub(super) fn measure(space: &Space, store: &Store, transitions: &Transitions, most: u64) -> Vec<Bypass> {
    let check = &space.check;
    let ranks = space.parts.ranks;
    let count = transitions.len() * ranks;
    let accesses = Accesses::new(check);
    let is_too_large = count as u64 * BYTES > most || count >= UNBOUNDED as usize;
    let is_program = matches!(check.subject.workload(), Workload::Program(_));
    if is_program || is_too_large || accesses.all.len() >= 1 << (u8::BITS - Seen::ACCESS) {
        return Vec::new();
    }
    let mut seen = vec![Seen::default(); count];
    let mut walker = Walker::new(space);
    let mut state = space.blank();
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for shard in 0..SHARDS {
        store.copy(shard, 0..store.lens()[shard], &mut bytes, &mut ends);
        let mut at = 0;
        for (index, &end) in (0..).zip(&ends) {
            walker.decode(&bytes[at..end], &mut state);
            at = end;
            let first = transitions.dense(Store::id(shard, index)) * ranks;
            // A rank that has failed neither waits nor enters.
            for rank in (0..ranks).filter(|&rank| !state.memory.deaths.is_down(rank)) {
                let node = walker.node(&state, rank);
                let access = check.access(Rank(rank as u32), node.status.acquisition);
                let number = access.map_or(0, |access| accesses.number(access)) as u8;
                let acquires = u8::from(node.status.phase == Phase::Acquiring) * Seen::ACQUIRES;
                let waits = u8::from(node.waits()) * Seen::WAITS;
                seen[first + rank] = Seen(acquires | waits | number << Seen::ACCESS);
            }
        }
    }
    let places = Places { transitions, ranks, seen, exclude: accesses.exclude };
    let numbers = numbers(&places);
    let mut first = 0;
    let of_group = |group: &crate::Group| {
        let of = first..first + group.ranks as usize;
        first = of.end;
        let waiting = (0..count).filter(|place| of.contains(&(place % ranks)) && places.seen[*place].waits());
        let most = waiting.map(|place| numbers[place]).max().unwrap_or(0);
        Bypass { role: group.role, form: group.form, most: (most != UNBOUNDED).then_some(most) }
    };
    check.scenario.groups().iter().map(of_group).collect()
}

/// The number of each place that a waiting rank can reach.
fn numbers(places: &Places<'_>) -> Vec<u32> {
    let count = places.seen.len();
    let mut numbers = vec![0_u32; count];
    // The position in the order of discovery, counted from 1, and the lowest position that is reachable; u32::MAX once
    // the component is known.
    let mut found = vec![0_u32; count];
    let mut low = vec![0_u32; count];
    let mut stack: Vec<usize> = Vec::new();
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut time = 0;
    for root in (0..count).filter(|&place| places.seen[place].waits()) {
        if found[root] != 0 {
            continue;
        }
        path.push((root, 0));
        while let Some((place, i)) = path.last_mut() {
            let place = *place;
            if *i == 0 {
                time += 1;
                (found[place], low[place]) = (time, time);
                stack.push(place);
            }
            let next = places.next(place, *i);
            *i += 1;
            match next {
                Some(Next::Place(to, _)) if found[to] == 0 => path.push((to, 0)),
                Some(Next::Place(to, _)) if low[to] != u32::MAX => low[place] = low[place].min(found[to]),
                Some(_) => {}
                None => {
                    path.pop();
                    if low[place] == found[place] {
                        let from = stack.iter().rposition(|&member| member == place);
                        let members = stack.split_off(from.expect("a component's root is on the stack"));
                        let number = of_component(places, &members, &numbers, &low);
                        for member in members {
                            (numbers[member], low[member]) = (number, u32::MAX);
                        }
                    }
                    if let Some(&(parent, _)) = path.last()
                        && low[place] != u32::MAX
                    {
                        low[parent] = low[parent].min(low[place]);
                    }
                }
            }
        }
    }
    numbers
}

/// The number of the places of a component: all have the same number. The numbers of later components are known.
fn of_component(places: &Places<'_>, members: &[usize], numbers: &[u32], low: &[u32]) -> u32 {
    let mut most = 0;
    for &member in members {
        for i in 0.. {
            match places.next(member, i) {
                // Another place of this component.
                Some(Next::Place(to, counts)) if low[to] != u32::MAX => {
                    if counts {
                        return UNBOUNDED;
                    }
                }
                Some(Next::Place(to, counts)) => most = most.max(numbers[to].saturating_add(u32::from(counts))),
                Some(Next::End) => {}
                None => break,
            }
        }
    }
    most
}
