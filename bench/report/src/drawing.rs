//! The plots of findings, drawn.

use crate::finding::{Axis, Origin, Plot, Quantity};
use crate::numbers::{number, rate, short, si, size};
use crate::plots::{self, Lines, Scale, Style, X};

/// Width and height of a plot's panel.
const WIDE: (u32, u32) = (640, 420);

/// Draws one plot: its SVG document.
pub fn draw(plot: &Plot) -> Result<String, String> {
    let series = plot.series.iter().map(|series| {
        let origin = match series.origin {
            Origin::Measured => "",
            Origin::Simulated => ", simulated",
            Origin::Published => ", published",
        };
        let name = format!("{}{origin}", series.name);
        let dashed = series.origin == Origin::Published;
        let hollow = series.origin == Origin::Simulated;
        (Style::numbered(series.style, &name, dashed, hollow), series.points.clone())
    });
    let lines = Lines {
        title: plot.title.clone(),
        x: x_axis(&plot.x),
        y_label: plot.y.label.clone(),
        scale: match plot.y.quantity {
            Quantity::Share => Scale::Unit,
            Quantity::Bytes => Scale::Binary(size),
            quantity => Scale::Log(writer(quantity)),
        },
        series: series.collect(),
    };
    plots::lines_of(&[lines], WIDE)
}

fn x_axis(axis: &Axis) -> X {
    let write = writer(axis.quantity);
    match axis.quantity {
        Quantity::Bytes | Quantity::Count | Quantity::Ratio => X::Doubling(axis.label.clone(), write),
        _ => X::Linear(axis.label.clone(), write),
    }
}

/// How numbers on an axis are written.
fn writer(quantity: Quantity) -> fn(f64) -> String {
    match quantity {
        Quantity::Time => short,
        Quantity::Rate => rate,
        Quantity::Bytes => size,
        Quantity::Bandwidth => |rate| format!("{}B/s", spaced(rate)),
        Quantity::Ratio => |ratio| format!("{}×", number(ratio)),
        Quantity::Count => count,
        Quantity::Share | Quantity::Number => number,
    }
}

fn spaced(value: f64) -> String {
    let (scaled, prefix) = match value {
        value if value < 1e3 => (value, ""),
        value if value < 1e6 => (value / 1e3, "k"),
        value if value < 1e9 => (value / 1e6, "M"),
        value => (value / 1e9, "G"),
    };
    format!("{} {prefix}", number(scaled))
}

fn count(count: f64) -> String {
    if count < 10_000.0 { number(count) } else { si(count) }
}
