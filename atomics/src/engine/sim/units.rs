//! Numbers with units: times, lengths in bytes, and times for each byte. Settings, workloads and command lines all use this
//! module.

use std::time::Duration;

/// A length of virtual time, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span(pub u64);

impl Span {
    /// Returns a span of `nanoseconds` nanoseconds.
    pub const fn nanoseconds(nanoseconds: u64) -> Span {
        Span(nanoseconds * 1000)
    }

    /// Returns the span in nanoseconds.
    pub fn as_nanoseconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

/// Units of time, in picoseconds.
const TIMES: [(&str, f64); 10] = [
    ("ps", 1.0),
    ("ns", 1e3),
    ("us", 1e6),
    ("µs", 1e6),
    ("μs", 1e6),
    ("ms", 1e9),
    ("s", 1e12),
    ("m", 60e12),
    ("min", 60e12),
    ("h", HOUR),
];

/// The units of time, for messages.
pub const TIME_UNITS: &str = "ps, ns, us, ms, s, min or h";

const KIB: f64 = 1024.0;

/// Units of lengths, in bytes. A letter alone is a power of 1,024.
const BYTES: [(&str, f64); 13] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", KIB),
    ("MiB", KIB * KIB),
    ("GiB", KIB * KIB * KIB),
    ("k", KIB),
    ("K", KIB),
    ("m", KIB * KIB),
    ("M", KIB * KIB),
    ("g", KIB * KIB * KIB),
    ("G", KIB * KIB * KIB),
];

/// The units of lengths, for messages.
pub const BYTE_UNITS: &str = "B, kB, MB, GB, KiB or K, MiB or M, GiB or G";

/// An hour, in picoseconds: the longest time of a setting.
const HOUR: f64 = 3600e12;

/// The largest number of bytes of a setting: 2^48.
const LARGEST: f64 = (1u64 << 48) as f64;

/// The longest time for a byte, in picoseconds, at a megabyte a second.
const SLOWEST: f64 = 1e6;

/// Reads a time: a number and a unit, such as `0.71us`, `100ns` or `0s`.
///
/// # Errors
///
/// The fault, and what to write instead.
pub fn time(text: &str) -> Result<Span, String> {
    Ok(Span(picoseconds(text, HOUR)?.round() as u64))
}

/// Reads a time like [`time`], of at most `longest`, to the nanosecond.
///
/// # Errors
///
/// The fault, and what to write instead.
pub fn duration(text: &str, longest: Duration) -> Result<Duration, String> {
    let picoseconds = picoseconds(text, longest.as_secs_f64() * 1e12)?;
    Ok(Duration::from_nanos((picoseconds / 1000.0).round() as u64))
}

fn picoseconds(text: &str, longest: f64) -> Result<f64, String> {
    let (number, unit) = number(text, "a time such as \"100ns\" or \"0.71us\"")?;
    let scale = of(&TIMES, unit).ok_or_else(|| unknown(text, unit, TIME_UNITS))?;
    let picoseconds = number * scale;
    if picoseconds > longest {
        return Err(format!("{} is too long; write at most {}h", quoted(text), longest / HOUR));
    }
    Ok(picoseconds)
}

/// Reads a number of bytes: a number and a unit, such as `8B`, `4KiB` or `1.5MB`.
///
/// # Errors
///
/// The fault, and what to write instead.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = number(text, "a length such as \"8B\" or \"4KiB\"")?;
    let scale = of(&BYTES, unit).ok_or_else(|| unknown(text, unit, BYTE_UNITS))?;
    let bytes = number * scale;
    if bytes > LARGEST || bytes.fract() != 0.0 {
        return Err(format!("{} is not a whole number of bytes up to 2^48", quoted(text)));
    }
    Ok(bytes as u64)
}

/// Reads a number of bytes like [`bytes`]. A number without a unit counts bytes.
///
/// # Errors
///
/// The fault, and what to write instead.
pub fn length(text: &str) -> Result<u64, String> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { bytes(&format!("{text}B")) } else { bytes(text) }
}

/// Reads a time for each byte, in picoseconds, from a bandwidth such as `12.5GB/s`, or a time such as `80ps/B`.
///
/// # Errors
///
/// The fault, and what to write instead.
pub fn per_byte(text: &str) -> Result<f64, String> {
    let (number, unit) = number(text, "a bandwidth such as \"12.5GB/s\", or a time for each byte such as \"80ps/B\"")?;
    let wrong = || unknown(text, unit, "GB/s, MB/s, GiB/s, MiB/s, ps/B or ns/B");
    let (above, below) = unit.split_once('/').ok_or_else(wrong)?;
    let picoseconds = match (above, below) {
        (time, "B") => number * of(&TIMES, time).ok_or_else(wrong)?,
        (bytes, "s") => 1e12 / (number * of(&BYTES, bytes).ok_or_else(wrong)?),
        _ => return Err(wrong()),
    };
    if picoseconds > SLOWEST {
        return Err(format!("{} is too slow; write a bandwidth of 1MB/s or more, or up to 1us/B", quoted(text)));
    }
    Ok(picoseconds)
}

/// Writes a time so that [`time`] reads it exactly, with a convenient unit.
pub fn write_time(span: Span) -> String {
    let Span(picoseconds) = span;
    let (unit, scale) = match picoseconds {
        0..1000 => return format!("{picoseconds}ps"),
        1000..1_000_000 => ("ns", 1000),
        1_000_000..1_000_000_000 => ("us", 1_000_000),
        _ => ("ms", 1_000_000_000),
    };
    let fraction = format!("{:0width$}", picoseconds % scale, width = scale.ilog10() as usize);
    let number = format!("{}.{fraction}", picoseconds / scale);
    format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// Writes a time for each byte so that [`per_byte`] reads it exactly.
pub fn write_per_byte(picoseconds: f64) -> String {
    format!("{picoseconds}ps/B")
}

/// Returns a text in quotation marks, shortened if it is long.
pub(crate) fn quoted(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Splits a text into the number, which is finite and not negative, and the unit, which may be empty.
fn number<'a>(text: &'a str, wanted: &str) -> Result<(f64, &'a str), String> {
    let text = text.trim();
    let wrong = |why: &str| Err(format!("{} {why}; write {wanted}", quoted(text)));
    if text.starts_with('-') {
        return wrong("is negative");
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start());
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && unit.is_empty() => wrong(match number {
            0.0 => "has no unit, which even zero needs",
            _ => "has no unit",
        }),
        Ok(number) if number.is_finite() => Ok((number, unit)),
        _ => wrong("does not begin with a number"),
    }
}

fn of(units: &[(&str, f64)], unit: &str) -> Option<f64> {
    units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale)
}

fn unknown(text: &str, unit: &str, units: &str) -> String {
    format!("{} has the unit {}; write {units}", quoted(text), quoted(unit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_to_the_picosecond() {
        for (text, picoseconds) in [
            ("0.71us", 710_000),
            ("100ns", 100_000),
            ("100 ns", 100_000),
            ("0s", 0),
            ("1.5ns", 1500),
            ("2.3µs", 2_300_000),
            ("1ps", 1),
            (".5ms", 500_000_000),
            ("3600s", 3_600_000_000_000_000),
            ("1min", 60_000_000_000_000),
            ("2m", 120_000_000_000_000),
            ("1h", 3_600_000_000_000_000),
        ] {
            assert_eq!(time(text), Ok(Span(picoseconds)), "{text}");
        }
        for (text, why) in [
            ("5", "no unit"),
            ("0", "no unit"),
            ("-5ns", "negative"),
            ("-0ns", "negative"),
            ("NaN", "does not begin with a number"),
            ("inf ns", "does not begin with a number"),
            ("", "does not begin with a number"),
            ("ns", "does not begin with a number"),
            ("1.2.3ns", "does not begin with a number"),
            ("1e3ns", "the unit \"e3ns\""),
            ("1 parsec", "the unit \"parsec\""),
            ("1 NS", "the unit \"NS\""),
            ("2d", "the unit \"d\""),
            ("2h", "too long; write at most 1h"),
            ("3601s", "too long"),
            ("99999999999999999999999999999999s", "too long"),
        ] {
            let error = time(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn durations_have_their_own_limit() {
        let day = Duration::from_secs(86_400);
        for (text, nanoseconds) in
            [("0ns", 0), (" 2 ms ", 2_000_000), ("24h", 86_400_000_000_000), ("0.0004us", 0), ("1.5us", 1500)]
        {
            assert_eq!(duration(text, day), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
        let error = duration("25h", day).unwrap_err();
        assert!(error.contains("\"25h\" is too long; write at most 24h"), "{error}");
        for text in ["", "us", "nan us", "infs", "1.2.3us", "5", "5 parsecs", "-5us", &("9".repeat(400) + "s")] {
            let error = duration(text, day).unwrap_err();
            assert!(error.len() < 150, "{error}");
        }
    }

    #[test]
    fn letters_alone_are_powers_of_1024() {
        for (text, length) in
            [("64K", 65_536), ("64k", 65_536), ("2M", 2 << 20), ("1g", 1 << 30), ("1.5KiB", 1536), ("2kB", 2000)]
        {
            assert_eq!(bytes(text), Ok(length), "{text}");
        }
        assert_eq!((length("1024"), length("1KiB")), (Ok(1024), Ok(1024)));
    }

    #[test]
    fn bandwidths_are_read_as_times_for_each_byte() {
        for (text, picoseconds) in
            [("12.5GB/s", 80.0), ("80ps/B", 80.0), ("0.08 ns/B", 80.0), ("1000MB/s", 1000.0), ("0ps/B", 0.0)]
        {
            assert!((per_byte(text).unwrap() - picoseconds).abs() < 1e-9, "{text}");
        }
        assert_eq!(bytes("4KiB"), Ok(4096));
        assert_eq!(bytes("1.5kB"), Ok(1500));
        for text in ["12.5", "12.5GB", "12.5Gb/s", "1B/ns", "1s/B", "0GB/s", "-1GB/s", "1B/s", "nan/B"] {
            assert!(per_byte(text).is_err(), "{text}");
        }
        for text in ["8", "-8B", "8b", "0.5B", "999999999GiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn written_values_are_read_back(picoseconds in 0u64..3_600_000_000_000_000, shift in 0u32..52, slow in 0f64..1e6) {
            let span = Span(picoseconds >> shift);
            prop_assert_eq!(time(&write_time(span)), Ok(span));
            prop_assert_eq!(per_byte(&write_per_byte(slow)), Ok(slow));
        }

        #[test]
        fn nothing_panics(text in ".*", number in "[-0-9.]{0,40}", unit in "[a-zA-Zµ/]{0,4}") {
            for text in [text, format!("{number}{unit}")] {
                let _ = (time(&text), bytes(&text), per_byte(&text));
            }
        }
    }
}
