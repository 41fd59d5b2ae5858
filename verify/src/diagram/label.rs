//! The text beside an arrow: the operation, the name of its word, its arguments and its result.

use rmalab_atomics::controlled::{Answer, Call, ranks_of};
use rmalab_atomics::{Address, Rank, Until};

use crate::check::Check;
use crate::play::DATA;
use crate::subject::At;
use crate::workload::Workload;

/// The name of the word at `at`, from the view of the rank `actor`.
pub(super) fn word(check: &Check, actor: Option<Rank>, at: Address) -> String {
    let of = |name: &str| match actor {
        Some(actor) if actor == at.rank => format!("local {name}"),
        _ => format!("{name} of {}", at.rank),
    };
    match check.word_at(at) {
        Some(word) if word.at == At::Home => word.name.to_owned(),
        Some(word) => of(word.name),
        None if at.disp == DATA && matches!(check.subject.workload(), Workload::Lock(_)) => "data".to_owned(),
        None if at.disp == DATA => of("data"),
        None => of(&format!("word {}", at.disp)),
    }
}

/// A value of the word at `at`: a rank if the word holds pointers, otherwise a number.
pub(super) fn value(check: &Check, at: Address, value: u64) -> String {
    let Some(bits) = check.word_at(at).and_then(|word| word.holds.pointer_bits()) else {
        return number(value);
    };
    let (plus_one, tag) = ((value & bits) as u32, value >> bits.count_ones());
    let name = match plus_one.checked_sub(1).map(Rank) {
        None => "nil".to_owned(),
        Some(rank) if rank.0 < check.world() => rank.to_string(),
        Some(rank) => format!("{rank} (there is none)"),
    };
    if tag == 0 { name } else { format!("{name} #{}", number(tag)) }
}

/// Numbers up to this absolute value are decimal. Larger ones are bit fields.
const DECIMAL: u64 = 0xffff;

fn number(value: u64) -> String {
    if value <= DECIMAL {
        value.to_string()
    } else if value.wrapping_neg() <= DECIMAL {
        format!("-{}", value.wrapping_neg())
    } else {
        format!("{value:#x}")
    }
}

fn condition(check: &Check, at: Address, until: Until) -> String {
    let is = |sign: &str, than: u64| format!("{sign} {}", value(check, at, than));
    match until {
        Until::Eq(than) => is("=", than),
        Until::Ne(than) => is("≠", than),
        Until::Lt(than) => is("<", than),
        Until::Ge(than) => is("≥", than),
        Until::AnySet(mask) => format!("& {mask:#x} ≠ 0"),
        Until::NoneSet(mask) => format!("& {mask:#x} = 0"),
    }
}

/// The memory of `target` as a call of `rank` names it.
fn memory(check: &Check, rank: Rank, target: Rank) -> String {
    match target {
        _ if target == rank => "local".to_owned(),
        _ if check.subject.has_home() && target == check.home() => "home".to_owned(),
        _ => target.to_string(),
    }
}

/// A call of `rank`, without the answer.
pub(super) fn call(check: &Check, rank: Rank, call: Call) -> String {
    let name = |at| word(check, Some(rank), at);
    match call {
        Call::FetchAdd { at, value } => {
            let sign = if (value as i64) < 0 { '-' } else { '+' };
            format!("fetch_add {} {sign}{}", name(at), number((value as i64).unsigned_abs()))
        }
        Call::CompareAndSwap { at, expected, desired } => {
            format!("cas {} {}→{}", name(at), value(check, at, expected), value(check, at, desired))
        }
        Call::FetchStore { at, value: new } => format!("swap {} := {}", name(at), value(check, at, new)),
        Call::Get { at } => format!("get {}", name(at)),
        Call::Put { at, value: new } => format!("put {} := {}", name(at), value(check, at, new)),
        Call::BulkPut { at, mask, value: new, .. } => {
            let part = if mask == u64::MAX { String::new() } else { format!(" in {mask:#x}") };
            format!("bulk put {} := {}{part}", name(at), value(check, at, new & mask))
        }
        Call::BulkGet { at } => format!("bulk get {}", name(at)),
        Call::Start { request, at, op } => format!("start #{request} {}", self::call(check, rank, Call::new(at, op))),
        Call::Finish { request, at } => format!("finish #{request} ({})", name(at)),
        Call::Test { request } => format!("test #{request}"),
        Call::Load { at } => format!("load {}", name(at)),
        Call::Store { at, value: new } => format!("store {} := {}", name(at), value(check, at, new)),
        Call::Stored => "stored".to_owned(),
        Call::Flush { target: None } => "flush all".to_owned(),
        Call::Flush { target: Some(target) } => format!("flush {}", memory(check, rank, target)),
        Call::Order { target } => format!("order {}", memory(check, rank, target)),
        Call::WaitUntil { own, until, .. } => {
            let at = rank.at(own);
            format!("wait {} {}", name(at), condition(check, at, until))
        }
        Call::Pause { operations } => format!("pause {operations}"),
        Call::FenceEverywhere => "fence everywhere".to_owned(),
        Call::Now => "now".to_owned(),
        Call::Failed => "failed".to_owned(),
        Call::Acknowledge { ranks } => format!("acknowledge {}", ranks_of(ranks)),
        Call::Silence { ranks } => format!("silence {}", ranks_of(ranks)),
    }
}

/// The answer to `made`, a call of `rank`.
pub(super) fn answer(check: &Check, rank: Rank, made: Call, answer: Answer) -> String {
    let word = match answer {
        Answer::Word(word) => word,
        Answer::Done => return String::new(),
        Answer::TimedOut => return " ✗ (timed out)".to_owned(),
        Answer::PeerFailed(peer) => return format!(" ✗ ({peer} has failed)"),
        Answer::GivenUp => return " ✗ (given up)".to_owned(),
    };
    match made {
        Call::Failed => return format!(" → {}", ranks_of(word)),
        Call::Acknowledge { .. } | Call::Silence { .. } if word == 0 => return String::new(),
        Call::Acknowledge { .. } | Call::Silence { .. } => return format!(" ✗ ({} may live)", ranks_of(word)),
        _ => {}
    }
    let Some(at) = made.address(rank) else { return format!(" → {}", number(word)) };
    let was = value(check, at, word);
    match made {
        Call::FetchAdd { value: more, .. } => format!(" → {was} (now {})", value(check, at, word.wrapping_add(more))),
        Call::CompareAndSwap { expected, .. } if expected == word => " ✓".to_owned(),
        Call::CompareAndSwap { .. } => format!(" ✗ (found {was})"),
        Call::WaitUntil { until: Until::Eq(_), .. } => " ✓".to_owned(),
        Call::WaitUntil { .. } => format!(" ✓ ({was})"),
        _ => format!(" → {was}"),
    }
}
