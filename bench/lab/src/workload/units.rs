//! Times and sizes with their units, as text.

/// The longest time that is believed: a day, in nanoseconds.
pub const MAX_TIME: u64 = 86_400 * 1_000_000_000;

/// The largest size that is believed: a tebibyte.
pub const MAX_SIZE: u64 = 1 << 40;

const TIMES: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 60e9),
    ("h", 3600e9),
    // With the micro sign and with the letter.
    ("\u{b5}s", 1e3),
    ("\u{3bc}s", 1e3),
];

/// How many of [`TIMES`] an error names.
const NAMED: usize = 6;

const SIZES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
];

/// The units of times, for messages.
pub fn time_units() -> String {
    names(&TIMES[..NAMED])
}

/// The units of sizes, for messages.
pub fn size_units() -> String {
    names(SIZES)
}

fn names(units: &[(&str, f64)]) -> String {
    units.iter().map(|&(name, _)| name).collect::<Vec<_>>().join(", ")
}

/// Reads a time such as `1.5us`, in nanoseconds, rounded.
///
/// # Errors
///
/// What is wrong and what to write, for a text without number or unit, with another unit, negative, or of more than a day.
///
/// ```
/// use rmalab_lab::workload::units::time;
///
/// assert_eq!(time("1.5us"), Ok(1500));
/// assert_eq!(time("2"), Err("'2' has no unit; the units are ns, us, ms, s, min, h".to_owned()));
/// ```
pub fn time(text: &str) -> Result<u64, String> {
    let ns = quantity(text, TIMES, NAMED, "1.5us")?;
    if ns > MAX_TIME as f64 {
        return Err(format!("'{text}' is more than a day; write a time of at most 24h"));
    }
    Ok(ns.round() as u64)
}

/// Reads a size such as `4KiB`, in bytes.
///
/// # Errors
///
/// Those of [`time`]; a size is a whole number of bytes, of at most 1 TiB.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = quantity(text, SIZES, SIZES.len(), "4KiB")?;
    if bytes > MAX_SIZE as f64 {
        return Err(format!("'{text}' is more than 1 TiB; write a size of at most 1024GiB"));
    }
    if bytes.fract() != 0.0 {
        return Err(format!("'{text}' is no whole number of bytes"));
    }
    Ok(bytes as u64)
}

fn quantity(text: &str, units: &[(&str, f64)], named: usize, example: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..end], trimmed[end..].trim());
    let there = || names(&units[..named]);
    let shown = shown(text);
    let Some(number) = number.parse::<f64>().ok().filter(|number| number.is_finite()) else {
        return Err(format!("{shown} does not begin with a number; write one with its unit, as {example}"));
    };
    if unit.is_empty() {
        return Err(format!("{shown} has no unit; the units are {}", there()));
    }
    let Some(&(_, factor)) = units.iter().find(|&&(name, _)| name == unit) else {
        return Err(format!("{shown} has an unknown unit; the units are {}", there()));
    };
    if number < 0.0 {
        return Err(format!("{shown} is negative; write 0 or more"));
    }
    Ok(number * factor)
}

/// A text as a message can have it: on one line, and not too long.
pub fn shown(text: &str) -> String {
    const LONGEST: usize = 40;
    let plain: String = text.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let more = if text.chars().nth(LONGEST).is_some() { "…" } else { "" };
    format!("'{plain}{more}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let good = [
            ("0ns", 0),
            ("200ns", 200),
            ("1.5us", 1500),
            (" 2 ms ", 2_000_000),
            ("3s", 3_000_000_000),
            ("1min", 60_000_000_000),
            ("24h", MAX_TIME),
            ("0.0004us", 0),
            ("7\u{b5}s", 7000),
            ("7\u{3bc}s", 7000),
        ];
        for (text, ns) in good {
            assert_eq!(time(text), Ok(ns), "{text}");
        }
        let bad = [
            ("", "'' does not begin with a number; write one with its unit, as 1.5us"),
            ("us", "'us' does not begin with a number"),
            ("nan us", "'nan us' does not begin with a number"),
            ("infs", "'infs' does not begin with a number"),
            ("1.2.3us", "'1.2.3us' does not begin with a number"),
            ("5", "'5' has no unit; the units are ns, us, ms, s, min, h"),
            ("5 parsecs", "'5 parsecs' has an unknown unit; the units are ns, us, ms, s, min, h"),
            ("-5us", "'-5us' is negative; write 0 or more"),
            ("25h", "'25h' is more than a day"),
            (&("9".repeat(400) + "s"), "does not begin with a number"),
        ];
        for (text, what) in bad {
            let error = time(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
            assert!(error.len() < 150, "{error}");
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("8B", 8), ("4KiB", 4096), ("1.5KiB", 1536), ("2kB", 2000), ("1024GiB", MAX_SIZE)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        let bad = [
            ("8", "'8' has no unit; the units are B, KiB, MiB, GiB, kB, MB, GB"),
            ("8b", "unknown unit"),
            ("0.3B", "no whole number of bytes"),
            ("1025GiB", "more than 1 TiB"),
            ("-1B", "negative"),
        ];
        for (text, what) in bad {
            assert!(size(text).unwrap_err().contains(what), "{text}");
        }
    }
}
