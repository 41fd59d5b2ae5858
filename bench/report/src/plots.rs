//! Drawing: panels side by side, one legend for all of them, as SVG.

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::numbers::number;

/// What went wrong, in the drawing library's words.
pub type Drawn = Result<String, String>;

/// Colours that stay apart for people who see few of them (those of Okabe and Ito, 2008, and of Tol, 2021), dark enough
/// for thin lines on white.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 102, 160),
    RGBColor(214, 143, 0),
    RGBColor(70, 165, 225),
    RGBColor(0, 0, 0),
    RGBColor(136, 34, 85),
    RGBColor(130, 130, 30),
    RGBColor(51, 34, 136),
];

/// What excludes nobody: a bound, drawn grey and dashed.
const BOUND: RGBColor = RGBColor(130, 130, 130);

/// Near to far: the shades of stacked bars.
const SHADES: [RGBColor; 3] = [RGBColor(158, 202, 225), RGBColor(49, 130, 189), RGBColor(8, 48, 107)];

const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(225, 225, 225);

/// Width and height of a panel, in pixels.
const PANEL: (u32, u32) = (460, 360);
/// Width of the narrowest legend, in pixels.
const LEGEND: u32 = 180;

/// How one subject is drawn, in every plot of every report.
#[derive(Clone, Debug)]
pub struct Style {
    name: String,
    colour: RGBColor,
    mark: usize,
    hollow: bool,
    dashed: bool,
    /// Whether it is a bound beside a subject's line: thin and dashed, without marks, and not in the legend.
    bound: bool,
}

impl Style {
    /// Of the subject that is number `place`. One that excludes nothing is a bound, and its line is dashed.
    pub fn subject(name: &str, place: usize, excludes: bool) -> Style {
        Style {
            name: name.to_owned(),
            colour: if excludes { COLOURS[place % COLOURS.len()] } else { BOUND },
            mark: place,
            hollow: place / MARKS % 2 == 1,
            dashed: !excludes,
            bound: false,
        }
    }

    /// A line that belongs to no subject: of two with the same number, such as what was published and what was found,
    /// one is dashed, or has hollow marks.
    pub fn numbered(number: usize, name: &str, dashed: bool, hollow: bool) -> Style {
        let colour = COLOURS[number % COLOURS.len()];
        Style { name: name.to_owned(), colour, mark: number, hollow, dashed, bound: false }
    }

    /// The bound beside a subject's line.
    #[must_use]
    pub fn bound(self) -> Style {
        Style { dashed: true, bound: true, ..self }
    }
}

/// An axis with values from low to high, or their logarithms.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    /// From 0 to 1.
    Unit,
    /// Equal steps are equal ratios; the formatter writes a value with its unit.
    Log(fn(f64) -> String),
    /// As `Log`, with numbers at powers of two.
    Binary(fn(f64) -> String),
}

/// What is on an x axis.
pub enum X {
    /// Numbers of ranks.
    Ranks,
    /// Something else with a label: each doubling is one step, and the formatter writes a value.
    Doubling(String, fn(f64) -> String),
    /// Something else with a label, from zero on.
    Linear(String, fn(f64) -> String),
}

impl X {
    fn label(&self) -> &str {
        match self {
            X::Ranks => "ranks",
            X::Doubling(label, _) | X::Linear(label, _) => label,
        }
    }

    fn ticks(&self, values: impl Iterator<Item = f64>) -> Ticks {
        match self {
            X::Ranks => Ticks::doubling(values, |ranks| ranks.to_string()),
            X::Doubling(_, write) => Ticks::doubling(values, write),
            X::Linear(_, write) => {
                let mut ticks = Ticks::linear(values.fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.05);
                for (at, label) in &mut ticks.at {
                    *label = write(*at);
                }
                ticks
            }
        }
    }
}

/// Lines over numbers of ranks, or of something else.
pub struct Lines {
    /// What it shows.
    pub title: String,
    /// The x axis.
    pub x: X,
    /// What the y axis shows.
    pub y_label: String,
    /// The scale of the y axis.
    pub scale: Scale,
    /// The curves: how each is drawn, and its points.
    pub series: Vec<(Style, Vec<(f64, f64)>)>,
}

/// Draws panels of lines, two in a row.
pub fn lines(panels: &[Lines]) -> Drawn {
    lines_of(panels, PANEL)
}

/// As [`lines`], with panels of another width and height.
pub fn lines_of(panels: &[Lines], size: (u32, u32)) -> Drawn {
    let styles = panels.first().into_iter().flat_map(|panel| &panel.series).map(|(style, _)| style);
    let legend = Legend::Marks(styles.filter(|style| !style.bound).cloned().collect());
    // All panels of one scale and label share their range, so that they can be compared by eye.
    sheet(panels.len(), size, &legend, |index, area| {
        let panel = &panels[index];
        let alike = panels.iter().filter(|other| other.y_label == panel.y_label);
        let points = || alike.clone().flat_map(|panel| &panel.series).flat_map(|(_, points)| points).copied();
        let ticks = match panel.scale {
            Scale::Unit => Ticks::unit(),
            Scale::Log(write) => Ticks::log(points().map(|point| point.1), write),
            Scale::Binary(write) => Ticks::binary(points().map(|point| point.1), write),
        };
        draw_lines(area, panel, &ticks, &panel.x.ticks(points().map(|point| point.0)))
    })
}

fn draw_lines(area: &Area<'_>, panel: &Lines, y: &Ticks, x: &Ticks) -> Result<(), String> {
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, font(18, INK))
        .margin(8)
        .x_label_area_size(42)
        .y_label_area_size(74)
        .build_cartesian_2d(x.axis(), y.axis())
        .map_err(text)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(font(16, INK))
        .axis_desc_style(font(16, INK))
        .x_desc(panel.x.label())
        .y_desc(&panel.y_label)
        .x_labels(x.at.len())
        .y_labels(y.at.len())
        .x_label_formatter(&|&at| x.label(at))
        .y_label_formatter(&|&at| y.label(at))
        .draw()
        .map_err(text)?;
    for (style, points) in &panel.series {
        let points: Vec<(f64, f64)> = points
            .iter()
            .filter(|&&(at, value)| {
                (x.log.is_none() || at > 0.0) && (matches!(panel.scale, Scale::Unit) || value > 0.0)
            })
            .map(|&(at, value)| (x.place(at), y.place(value)))
            .collect();
        if style.dashed {
            let width = if style.bound { 1 } else { 2 };
            let line = DashedPathElement::new(points.clone(), 6, 4, style.colour.stroke_width(width));
            chart.draw_series([line]).map_err(text)?;
        } else {
            chart.draw_series(LineSeries::new(points.clone(), style.colour.stroke_width(2))).map_err(text)?;
        }
        for point in points.into_iter().filter(|_| !style.bound) {
            let (face, edge) = style.mark((0, 0));
            chart.draw_series([EmptyElement::at(point) + face + edge]).map_err(text)?;
        }
    }
    Ok(())
}

/// Bars, each made of three parts: own, same node, other node.
pub struct Bars {
    /// What it shows.
    pub title: String,
    /// What the x axis shows.
    pub x_label: String,
    /// The bars: a name, and the lengths of its three parts.
    pub rows: Vec<(String, [f64; 3])>,
}

/// Draws panels of horizontal bars, two in a row.
pub fn bars(panels: &[Bars]) -> Drawn {
    let shades = ["on the own rank", "in the same node", "in another node"];
    let legend = Legend::Boxes(shades.into_iter().map(String::from).zip(SHADES).collect());
    let rows = panels.iter().map(|panel| panel.rows.len()).max().unwrap_or(0);
    sheet(panels.len(), (PANEL.0, row_height(rows)), &legend, |index, area| {
        let panel = &panels[index];
        let longest = panel.rows.iter().map(|(_, parts)| parts.iter().sum::<f64>()).fold(0.0, f64::max).max(1.0);
        // Room for the number at the end of the longest bar.
        let x = Ticks::linear(longest * 1.15);
        rows_chart(area, &panel.title, &panel.x_label, &x, panel.rows.iter().map(|(name, _)| name), |chart, row| {
            let (_, parts) = &panel.rows[row];
            let y = row_place(panel.rows.len(), row);
            let mut from = 0.0;
            for (part, shade) in parts.iter().zip(SHADES) {
                let bar = Rectangle::new([(from, y - 0.32), (from + part, y + 0.32)], shade.filled());
                chart.draw_series([bar]).map_err(text)?;
                from += part;
            }
            let end = font(15, INK).pos(Pos::new(HPos::Left, VPos::Center));
            let number = EmptyElement::at((from, y)) + Text::new(number(from), (5, 0), end);
            chart.draw_series([number]).map_err(text).map(drop)
        })
    })
}

/// From where to where.
pub type Range = (f64, f64);

/// Two ranges of times for each row, such as readers' and writers' from median to 99th percentile.
pub struct Ranges {
    /// What it shows.
    pub title: String,
    /// The rows: a name, and up to two ranges.
    pub rows: Vec<(String, [Option<Range>; 2])>,
}

/// Draws panels of ranges on a logarithmic axis, two in a row.
pub fn ranges(panels: &[Ranges], names: [&str; 2], x_label: &str, write: fn(f64) -> String) -> Drawn {
    let colours = [COLOURS[0], COLOURS[1]];
    let legend = Legend::Boxes(names.into_iter().map(String::from).zip(colours).collect());
    let rows = panels.iter().map(|panel| panel.rows.len()).max().unwrap_or(0);
    sheet(panels.len(), (PANEL.0, row_height(rows)), &legend, |index, area| {
        let panel = &panels[index];
        let ends = panels.iter().flat_map(|panel| &panel.rows).flat_map(|(_, ranges)| ranges.iter().flatten());
        let x = Ticks::log(ends.flat_map(|&(from, to)| [from, to]), write);
        rows_chart(area, &panel.title, x_label, &x, panel.rows.iter().map(|(name, _)| name), |chart, row| {
            let y = row_place(panel.rows.len(), row);
            for ((range, colour), offset) in panel.rows[row].1.iter().zip(colours).zip([0.17, -0.17]) {
                let Some((from, to)) = *range else { continue };
                let [from, to] = [from, to].map(|value| (x.place(value.max(1.0)), y + offset));
                chart.draw_series([PathElement::new(vec![from, to], colour.stroke_width(3))]).map_err(text)?;
                chart.draw_series([Circle::new(from, 5, colour.filled())]).map_err(text)?;
                let end = EmptyElement::at(to) + Rectangle::new([(-1, -7), (2, 7)], colour.filled());
                chart.draw_series([end]).map_err(text)?;
            }
            Ok(())
        })
    })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type RowsChart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// An axis whose numbers are where [`Ticks`] has put them.
struct Axis {
    range: (f64, f64),
    at: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let (low, high) = self.range;
        limit.0 + ((value - low) / (high - low) * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // Light lines would be between the numbers; there are none.
        if hint.weight().allow_light_points() { Vec::new() } else { self.at.clone() }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.0..self.range.1
    }
}

/// Where row number `row` is on the y axis: the first one on top.
fn row_place(rows: usize, row: usize) -> f64 {
    (rows - row) as f64 - 0.5
}

fn row_height(rows: usize) -> u32 {
    110 + 26 * u32::try_from(rows).unwrap_or(0)
}

/// Pixels that the longest of the names takes beside an axis.
fn name_width(names: &[&String]) -> u32 {
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    118.max(20 + 8 * u32::try_from(longest).unwrap_or(0))
}

/// A chart with a named row for each subject.
fn rows_chart<'a>(
    area: &Area<'_>,
    title: &str,
    x_label: &str,
    x: &Ticks,
    names: impl Iterator<Item = &'a String>,
    mut draw: impl FnMut(&mut RowsChart<'_, '_>, usize) -> Result<(), String>,
) -> Result<(), String> {
    let names: Vec<&String> = names.collect();
    let rows = Ticks {
        range: (0.0, names.len() as f64),
        at: (0..names.len()).map(|row| (row_place(names.len(), row), names[row].clone())).collect(),
        log: None,
    };
    let mut chart = ChartBuilder::on(area)
        .caption(title, font(18, INK))
        .margin(8)
        .x_label_area_size(42)
        .y_label_area_size(name_width(&names))
        .build_cartesian_2d(x.axis(), rows.axis())
        .map_err(text)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .disable_y_mesh()
        .axis_style(INK)
        .label_style(font(16, INK))
        .axis_desc_style(font(16, INK))
        .x_desc(x_label)
        .x_labels(x.at.len())
        .y_labels(rows.at.len())
        .x_label_formatter(&|&at| x.label(at))
        .y_label_formatter(&|&at| rows.label(at))
        .draw()
        .map_err(text)?;
    (0..names.len()).try_for_each(|row| draw(&mut chart, row))
}

enum Legend {
    Marks(Vec<Style>),
    Boxes(Vec<(String, RGBColor)>),
}

impl Legend {
    /// Pixels that its longest name takes with its mark.
    fn width(&self) -> u32 {
        let length = |name: &str| name.chars().count();
        let longest = match self {
            Legend::Marks(styles) => styles.iter().map(|style| length(&style.name)).max(),
            Legend::Boxes(boxes) => boxes.iter().map(|(name, _)| length(name)).max(),
        };
        LEGEND.max(48 + 8 * u32::try_from(longest.unwrap_or(0)).unwrap_or(0))
    }
}

/// A sheet of panels, two in a row, with the legend at the right of the first row.
fn sheet(
    panels: usize,
    (width, height): (u32, u32),
    legend: &Legend,
    draw: impl Fn(usize, &Area<'_>) -> Result<(), String>,
) -> Drawn {
    let columns = panels.clamp(1, 2) as u32;
    let rows = panels.div_ceil(2).max(1) as u32;
    let entries = match legend {
        Legend::Marks(styles) => styles.len(),
        Legend::Boxes(boxes) => boxes.len(),
    };
    let height = height.max(60 + 20 * u32::try_from(entries).unwrap_or(0));
    let legend_width = legend.width();
    let size = (columns * width + legend_width, rows * height);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE).map_err(text)?;
        for index in 0..panels {
            let (column, row) = (index as u32 % 2, index as u32 / 2);
            let area = root.clone().shrink((column * width, row * height), (width, height));
            draw(index, &area)?;
        }
        let area = root.clone().shrink((columns * width, 36), (legend_width, size.1 - 36));
        draw_legend(&area, legend)?;
        root.present().map_err(text)?;
    }
    Ok(svg)
}

fn draw_legend(area: &Area<'_>, legend: &Legend) -> Result<(), String> {
    let write = |row: usize, name: &str| {
        let at = (36, 12 + 20 * row as i32);
        let style = font(16, INK).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(name.to_owned(), at, style)).map_err(text)
    };
    match legend {
        Legend::Marks(styles) => {
            for (row, style) in styles.iter().enumerate() {
                let y = 12 + 20 * row as i32;
                let ends = vec![(4, y), (30, y)];
                if style.dashed {
                    area.draw(&DashedPathElement::new(ends, 6, 4, style.colour.stroke_width(2))).map_err(text)?;
                } else {
                    area.draw(&PathElement::new(ends, style.colour.stroke_width(2))).map_err(text)?;
                }
                let (face, edge) = style.mark((17, y));
                area.draw(&face).map_err(text)?;
                area.draw(&edge).map_err(text)?;
                write(row, &style.name)?;
            }
        }
        Legend::Boxes(boxes) => {
            for (row, (name, colour)) in boxes.iter().enumerate() {
                let y = 12 + 20 * row as i32;
                area.draw(&Rectangle::new([(10, y - 6), (28, y + 6)], colour.filled())).map_err(text)?;
                write(row, name)?;
            }
        }
    }
    Ok(())
}

/// How many marks there are.
const MARKS: usize = 7;

type Pixel = (i32, i32);

/// The outline of a subject's mark, around the origin, in pixels: lines can be told apart without colour.
fn outline(mark: usize) -> Vec<Pixel> {
    match mark % MARKS {
        0 => vec![(-4, -2), (-2, -4), (2, -4), (4, -2), (4, 2), (2, 4), (-2, 4), (-4, 2)],
        1 => vec![(-4, -4), (4, -4), (4, 4), (-4, 4)],
        2 => vec![(0, -5), (5, 4), (-5, 4)],
        3 => vec![(0, -6), (6, 0), (0, 6), (-6, 0)],
        4 => vec![(0, 5), (5, -4), (-5, -4)],
        5 => vec![(-2, -6), (2, -6), (2, 6), (-2, 6)],
        _ => vec![(-6, -2), (6, -2), (6, 2), (-6, 2)],
    }
}

impl Style {
    /// The mark around `at`: its face and its outline. Each second round of marks has white faces.
    fn mark(&self, at: Pixel) -> (Polygon<Pixel>, PathElement<Pixel>) {
        let mut points: Vec<_> = outline(self.mark).into_iter().map(|(x, y)| (x + at.0, y + at.1)).collect();
        let face = if self.hollow { WHITE } else { self.colour };
        let polygon = Polygon::new(points.clone(), face.filled());
        points.push(points[0]);
        (polygon, PathElement::new(points, self.colour.stroke_width(2)))
    }
}

/// The most numbers that an axis of doublings has.
const MOST_DOUBLINGS: usize = 8;

/// The least ratio of the ends of a logarithmic axis.
const NARROWEST: f64 = 4.0;

/// Where an axis has its numbers, and what they say.
struct Ticks {
    range: (f64, f64),
    /// Places on the axis, and their labels.
    at: Vec<(f64, String)>,
    /// The base of the logarithm that turns a value into a place, if one does.
    log: Option<f64>,
}

impl Ticks {
    fn axis(&self) -> Axis {
        Axis { range: self.range, at: self.at.iter().map(|(at, _)| *at).collect() }
    }

    fn place(&self, value: f64) -> f64 {
        self.log.map_or(value, |base| value.log(base))
    }

    fn label(&self, at: f64) -> String {
        self.at.iter().find(|(place, _)| (place - at).abs() < 1e-9).map_or(String::new(), |(_, label)| label.clone())
    }

    fn unit() -> Ticks {
        let at = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
        Ticks { range: (0.0, 1.05), at: at.map(|at| (at, format!("{at:.1}"))).to_vec(), log: None }
    }

    /// Numbers, each doubling one step.
    fn doubling(values: impl Iterator<Item = f64>, write: impl Fn(f64) -> String) -> Ticks {
        let mut values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let mut at: Vec<(f64, String)> = values.iter().map(|&value| (value.log2(), write(value))).collect();
        let (first, last) = (at.first().map_or(0.0, |tick| tick.0), at.last().map_or(1.0, |tick| tick.0));
        let margin = 0.2f64.max((last - first) / 20.0);
        if at.len() > MOST_DOUBLINGS {
            // The last one is kept, and of the others those that do not touch the next one kept.
            let mut next = f64::INFINITY;
            at.reverse();
            at.retain(|(place, _)| {
                let apart = next - place >= (last - first) / MOST_DOUBLINGS as f64;
                if apart {
                    next = *place;
                }
                apart
            });
            at.reverse();
        }
        Ticks { range: (first - margin, last + margin), at, log: Some(2.0) }
    }

    /// Powers of ten, with halves and fifths of them where there is room.
    fn log(values: impl Iterator<Item = f64>, write: fn(f64) -> String) -> Ticks {
        let (low, high) = ends(values);
        let span = (high / low).log10();
        let steps: &[f64] = match span {
            span if span < 0.9 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            span if span < 1.7 => &[1.0, 2.0, 5.0],
            span if span < 3.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
        let at = decades
            .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
            .filter(|value| (low..=high).contains(value))
            .map(|value| (value.log10(), write(value)))
            .collect();
        Ticks { range: (low.log10(), high.log10()), at, log: Some(10.0) }
    }

    /// Powers of two, of four, and so on: some seven at the most.
    fn binary(values: impl Iterator<Item = f64>, write: fn(f64) -> String) -> Ticks {
        let (low, high) = ends(values);
        let range = (low.log2(), high.log2());
        let step = ((range.1 - range.0) / 7.0).ceil() as usize;
        let powers = (range.0.ceil() as i32..=range.1.floor() as i32).step_by(step);
        let at = powers.map(|power| (f64::from(power), write(f64::from(power).exp2()))).collect();
        Ticks { range, at, log: Some(2.0) }
    }

    /// Some five round numbers from 0 on.
    fn linear(high: f64) -> Ticks {
        let decade = 10f64.powf((high / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * decade).find(|step| high / step <= 6.0);
        let step = step.unwrap_or(10.0 * decade);
        let at = (0..=(high / step) as u32).map(|number| f64::from(number) * step);
        Ticks { range: (0.0, high), at: at.map(|at| (at, number(at))).collect(), log: None }
    }
}

/// The ends of a logarithmic axis for `values`.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| *value > 0.0)
        .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    let (low, high) = if low <= high { (low / 1.2, high * 1.2) } else { (1.0, 10.0) };
    // Differences of some per cent are not worth a whole axis.
    let widen = (NARROWEST / (high / low)).max(1.0).sqrt();
    (low / widen, high * widen)
}

fn font(size: u32, colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&colour)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithmic_axes_have_numbers_within_their_range() {
        for (low, high) in [(1.0, 1.0), (3.0, 40.0), (0.5, 9e9), (12.0, 13.0)] {
            let axis: [fn(_, _) -> _; 2] = [Ticks::log, Ticks::binary];
            for (axis, fewest) in axis.into_iter().zip([3, 1]) {
                let ticks = axis([low, high].into_iter(), |value| value.to_string());
                assert!((fewest..=12).contains(&ticks.at.len()), "{low} to {high}: {:?}", ticks.at);
                assert!(ticks.at.iter().all(|(at, _)| (ticks.range.0..=ticks.range.1).contains(at)));
            }
        }
    }

    #[test]
    fn linear_axes_start_at_zero_and_are_round() {
        let ticks = Ticks::linear(9.2);
        let labels: Vec<&str> = ticks.at.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["0", "2", "4", "6", "8"]);
    }

    #[test]
    fn nothing_can_be_drawn() {
        assert!(lines(&[]).is_ok());
        let empty =
            Lines { title: "t".into(), x: X::Ranks, y_label: "y".into(), scale: Scale::Unit, series: Vec::new() };
        assert!(lines(&[empty]).unwrap().contains("<svg"));
    }
}
