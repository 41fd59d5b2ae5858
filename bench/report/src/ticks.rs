//! Axes: positions of values, and ticks.

use crate::finding::Quantity;
use crate::numbers::{number, rate, short, si, size};

/// The most ticks on an axis of doublings.
const MOST_DOUBLINGS: usize = 7;

/// The least ratio of the ends of a logarithmic axis: differences of a few percent do not fill an axis.
const NARROWEST: f64 = 4.0;

/// An axis from one value to another, with ticks.
#[derive(Clone, Debug)]
pub(crate) struct Ticks {
    /// The ends, after the logarithm if there is one.
    range: (f64, f64),
    /// Positions from 0 to 1, and their labels.
    pub(crate) at: Vec<(f64, String)>,
    logarithmic: bool,
}

impl Ticks {
    fn new(range: (f64, f64), logarithmic: bool, values: Vec<(f64, String)>) -> Ticks {
        let mut ticks = Ticks { range, at: Vec::new(), logarithmic };
        ticks.at = values
            .into_iter()
            .filter_map(|(value, label)| Some((ticks.place(value)?, label)))
            .filter(|(place, _)| (-1e-9..=1.0 + 1e-9).contains(place))
            .collect();
        ticks
    }

    /// The position of a value, from 0 to 1; none for values that a logarithmic axis cannot show.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let value = if self.logarithmic { (value > 0.0).then(|| value.log2())? } else { value };
        let (low, high) = self.range;
        Some((value - low) / (high - low))
    }

    /// The x axis of a plot: each doubling of sizes and counts is one step.
    pub(crate) fn across(quantity: Quantity, values: impl Iterator<Item = f64>) -> Ticks {
        match quantity {
            Quantity::Bytes | Quantity::Count | Quantity::Ratio => Ticks::doubling(values, writer(quantity)),
            _ => Ticks::linear(values, writer(quantity)),
        }
    }

    /// The y axis of a plot, or the axis of bars.
    pub(crate) fn along(quantity: Quantity, logarithmic: bool, values: impl Iterator<Item = f64>) -> Ticks {
        let write = writer(quantity);
        match (quantity, logarithmic) {
            (Quantity::Share, _) => Ticks::unit(),
            (Quantity::Bytes, true) => Ticks::binary(values, write),
            (_, true) => Ticks::decimal(values, write),
            (_, false) => Ticks::linear(values, write),
        }
    }

    fn unit() -> Ticks {
        let at = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
        Ticks::new((0.0, 1.05), false, at.map(|at| (at, number(at))).to_vec())
    }

    fn doubling(values: impl Iterator<Item = f64>, write: fn(f64) -> String) -> Ticks {
        let mut values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (first, last) = (values.first().map_or(0.0, |v| v.log2()), values.last().map_or(1.0, |v| v.log2()));
        let margin = 0.2f64.max((last - first) / 20.0);
        if values.len() > MOST_DOUBLINGS {
            // Keeps the last value, and earlier ones at a sufficient distance from the next one kept.
            let mut next = f64::INFINITY;
            values.reverse();
            values.retain(|value| {
                let apart = next - value.log2() >= (last - first) / MOST_DOUBLINGS as f64;
                if apart {
                    next = value.log2();
                }
                apart
            });
        }
        let at = values.into_iter().map(|value| (value, write(value))).collect();
        Ticks::new((first - margin, last + margin), true, at)
    }

    /// Powers of ten, with halves and fifths of them if there is room.
    fn decimal(values: impl Iterator<Item = f64>, write: fn(f64) -> String) -> Ticks {
        let (low, high) = ends(values);
        let steps: &[f64] = match (high / low).log10() {
            span if span < 0.9 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            span if span < 1.7 => &[1.0, 2.0, 5.0],
            span if span < 3.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
        let at = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
        Ticks::new((low.log2(), high.log2()), true, at.map(|value| (value, write(value))).collect())
    }

    /// Powers of two, of four, and so on: at most seven.
    fn binary(values: impl Iterator<Item = f64>, write: fn(f64) -> String) -> Ticks {
        let (low, high) = ends(values);
        let range = (low.log2(), high.log2());
        let step = ((range.1 - range.0) / 7.0).ceil() as usize;
        let powers = (range.0.ceil() as i32..=range.1.floor() as i32).step_by(step.max(1));
        Ticks::new(range, true, powers.map(|power| (f64::from(power).exp2(), write(f64::from(power).exp2()))).collect())
    }

    /// About five round numbers from 0 on.
    fn linear(values: impl Iterator<Item = f64>, write: fn(f64) -> String) -> Ticks {
        let high = values.fold(0.0, f64::max);
        let high = if high.is_finite() && high > 0.0 { high * 1.05 } else { 1.0 };
        let decade = 10f64.powf((high / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * decade).find(|step| high / step <= 6.0);
        let step = step.unwrap_or(10.0 * decade);
        let at = (0..=(high / step) as u32).map(|number| f64::from(number) * step);
        Ticks::new((0.0, high), false, at.map(|at| (at, write(at))).collect())
    }
}

/// The ends of a logarithmic axis for `values`.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| *value > 0.0 && value.is_finite())
        .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    let (low, high) = if low <= high { (low / 1.2, high * 1.2) } else { (1.0, 10.0) };
    let widen = (NARROWEST / (high / low)).max(1.0).sqrt();
    (low / widen, high * widen)
}

/// Formats of the numbers on an axis.
pub(crate) fn writer(quantity: Quantity) -> fn(f64) -> String {
    match quantity {
        Quantity::Time => short,
        Quantity::Rate => |value| format!("{}/s", rate(value).trim_end()),
        Quantity::Bytes => size,
        Quantity::Bandwidth => |value| format!("{}B/s", rate(value)),
        Quantity::Ratio => |ratio| format!("{}×", number(ratio)),
        Quantity::Count => |count| if count < 10_000.0 { number(count) } else { si(count) },
        Quantity::Share | Quantity::Number => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithmic_axes_have_ticks_within_their_range() {
        for (low, high) in [(1.0, 1.0), (3.0, 40.0), (0.5, 9e9), (12.0, 13.0)] {
            for (quantity, fewest) in [(Quantity::Time, 3), (Quantity::Bytes, 1)] {
                let ticks = Ticks::along(quantity, true, [low, high].into_iter());
                assert!((fewest..=12).contains(&ticks.at.len()), "{low} to {high}: {:?}", ticks.at);
                assert!([low, high].iter().all(|&value| (0.0..=1.0).contains(&ticks.place(value).unwrap())));
            }
        }
    }

    #[test]
    fn linear_axes_start_at_zero_and_are_round() {
        let ticks = Ticks::along(Quantity::Number, false, [8.8].into_iter());
        let labels: Vec<&str> = ticks.at.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["0", "2", "4", "6", "8"]);
        assert_eq!(ticks.place(0.0), Some(0.0));
    }

    #[test]
    fn axes_without_values_are_valid() {
        for quantity in [Quantity::Time, Quantity::Bytes, Quantity::Share, Quantity::Number] {
            assert!(!Ticks::along(quantity, true, std::iter::empty()).at.is_empty());
            Ticks::across(quantity, std::iter::empty());
        }
        assert_eq!(Ticks::along(Quantity::Time, true, [1.0].into_iter()).place(0.0), None);
    }
}
