//! Numbers and times for people.

use std::time::Duration;

/// A time with three digits and a unit.
pub fn humane(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 999.5 => format!("{} ns", digits(ns)),
        ns if ns < 999_500.0 => format!("{} µs", digits(ns / 1e3)),
        ns if ns < 999_500_000.0 => format!("{} ms", digits(ns / 1e6)),
        ns => format!("{} s", digits(ns / 1e9)),
    }
}

/// A rate with three digits and a prefix.
pub fn si(value: f64) -> String {
    match value {
        value if value < 999.5 => digits(value),
        value if value < 999_500.0 => format!("{} k", digits(value / 1e3)),
        value if value < 999_500_000.0 => format!("{} M", digits(value / 1e6)),
        value => format!("{} G", digits(value / 1e9)),
    }
}

/// A number with three digits.
pub fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let decimals = match value.abs() {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// A duration, rounded to seconds from one second on.
pub fn humane_span(span: Duration) -> String {
    if span < Duration::from_secs(1) {
        humane(span.as_nanos() as f64)
    } else {
        humantime::format_duration(Duration::from_secs(span.as_secs_f64().round() as u64)).to_string()
    }
}

/// A number of things: `1 rank`, `4 ranks`. The plural of the noun has an s.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A number with its thousands separated by commas.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration in whole nanoseconds, or the largest number if it does not fit.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Bytes with a unit.
pub fn size(bytes: f64) -> String {
    let (value, unit) = match bytes {
        bytes if bytes < 1024.0 => (bytes, "B"),
        bytes if bytes < 1_048_576.0 => (bytes / 1024.0, "KiB"),
        bytes => (bytes / 1_048_576.0, "MiB"),
    };
    if value.fract() == 0.0 { format!("{value} {unit}") } else { format!("{} {unit}", digits(value)) }
}

/// A number without decimals that are zero.
pub fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A time for an axis.
pub fn short(nanoseconds: f64) -> String {
    shortened(&humane(nanoseconds))
}

/// A rate for an axis.
pub fn rate(value: f64) -> String {
    shortened(&si(value))
}

/// A number and its unit, without decimals that are zero.
fn shortened(text: &str) -> String {
    let (value, unit) = text.split_once(' ').unwrap_or((text, ""));
    let value = if value.contains('.') { value.trim_end_matches('0').trim_end_matches('.') } else { value };
    format!("{value} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        assert_eq!(humane(7.25), "7.25 ns");
        assert_eq!(humane(999.9), "1.00 µs");
        assert_eq!(humane(12_345.0), "12.3 µs");
        assert_eq!(humane(2.5e9), "2.50 s");
    }

    #[test]
    fn thousands_are_separated() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (63_641_931, "63,641,931")] {
            assert_eq!(grouped(number), text);
        }
    }
}
