//! Times, lengths, numbers and shares on the command line: one parser for all sub-commands.

use std::time::Duration;

use rmalab_atomics::sim::units;
use rmalab_windows::PolicyKind;

use crate::simulate;

/// The longest accepted time: a month.
const LONGEST: Duration = Duration::from_secs(31 * 86_400);

/// The name of a lock or policy.
pub(crate) fn lock(text: &str) -> Result<String, std::convert::Infallible> {
    // Studies and simulations measure it under the name of its lock.
    Ok(if text == PolicyKind::GLOBAL { PolicyKind::McsRwRp.name() } else { text }.to_owned())
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    units::duration(text, LONGEST)
}

/// A duration that is not 0.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration.is_zero() { Err("give a time above 0".into()) } else { Ok(duration) }
}

/// A length that is not 0: a number of bytes, or a number with a unit.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    match units::length(text) {
        Ok(0) => Err("give a length above 0".into()),
        length => length,
    }
}

/// A number above 0, perhaps with a unit: k for thousands, M for millions, G for billions.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
        Some((at, 'g' | 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let wrong = || "not a number above 0, such as 500, 20k or 1M".to_owned();
    let count: u64 = number.parse().map_err(|_| wrong())?;
    count.checked_mul(unit).filter(|&count| count > 0).ok_or_else(wrong)
}

/// Several numbers of ranks: a number, or a sweep.
#[derive(Clone, Debug)]
pub(crate) struct Sweep(Vec<u32>);

impl Sweep {
    /// Returns all numbers of several sweeps, in order.
    pub(crate) fn all(sweeps: &[Sweep]) -> Vec<u32> {
        sweeps.iter().flat_map(|sweep| sweep.0.iter().copied()).collect()
    }
}

/// Numbers of ranks: `2`, `4k`, or a sweep `4:4096:4`.
pub(crate) fn ranks(text: &str) -> Result<Sweep, String> {
    simulate::ranks(text).map(Sweep)
}

/// The number of ranks of a command with one world.
pub(crate) fn one_world(text: &str) -> Result<u32, String> {
    let parts = text.split(',').map(simulate::ranks).collect::<Result<Vec<_>, _>>()?;
    match parts.concat()[..] {
        [ranks] => Ok(ranks),
        _ => Err(format!("'{text}' is several numbers; this command has one world, so give one number")),
    }
}

/// A share: `0.9` or `90%`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    simulate::share(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_units() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64K"), Ok(65536));
        assert_eq!(bytes("64KiB"), Ok(65536));
        assert_eq!(bytes("1g"), Ok(1 << 30));
        for wrong in ["", "K", "0", "-1", "1T", "99999999999G", "0B", "much"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_have_units() {
        assert_eq!(count("500"), Ok(500));
        assert_eq!(count("20k"), Ok(20_000));
        assert_eq!(count("1M"), Ok(1_000_000));
        for wrong in ["", "k", "0", "-1", "1T", "1.5M", "99999999999999G"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_need_units_and_have_a_maximum() {
        assert_eq!(duration("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(duration("0ns"), Ok(Duration::ZERO));
        assert!(span("0ms").is_err() && span("5m").is_ok());
        for wrong in ["", "10", "10 parsecs", "18446744073709551615s", "-1s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
