//! Times, bytes and numbers, as they are written on a command line.

use std::time::Duration;

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error} (durations look like 500ns, 10us, 20ms, 1s)"))
}

/// A duration that is not 0.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration.is_zero() { Err("nothing can be measured in no time".into()) } else { Ok(duration) }
}

pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let count: u64 = number.parse().map_err(|_| "not a number of bytes, such as 65536, 64K, 16M or 1G".to_owned())?;
    count.checked_mul(unit).filter(|&bytes| bytes > 0).ok_or_else(|| "not a length that a segment can have".into())
}

/// A number above 0, perhaps with a unit of thousands, millions or thousands of millions.
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
