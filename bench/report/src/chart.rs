//! Plots and bars as SVG: for separate files, or for a page whose style sheet colours them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use maud::{Markup, PreEscaped, html};

use crate::finding::{Bars, Origin, Plot, Quantity, Series};
use crate::text::fill;
use crate::ticks::{Ticks, writer};

/// The most series in one picture: a reader cannot distinguish more.
pub const MOST_SERIES: usize = 7;

/// Width and height of the area for the curves in a panel.
const AREA: (f64, f64) = (300.0, 210.0);
/// Margins: left for numbers, at least, below for numbers and label, right for labels of series.
const LEFT: f64 = 62.0;
/// The part of the left margin beside the numbers: the axis' label, and a gap on both sides of the numbers.
const BESIDE: f64 = 24.0;
const LABELS: f64 = 104.0;
/// The height of a line of a title, and the approximate width of its letters.
const TITLE_LINE: f64 = 16.0;
const TITLE_LETTER: f64 = 7.6;
const BELOW: f64 = 44.0;
/// The approximate width of a letter of a label.
const LETTER: f64 = 6.1;
/// The least distance of two labels.
const APART: f64 = 12.5;
/// The height of a row of bars.
const ROW: f64 = 20.0;

/// The style of all charts, without colours.
const STYLE: &str = "\
text { font: 11.5px system-ui, sans-serif; fill: #24292f; } .t { font-size: 13px; font-weight: 600; } .a { fill: #57606a; }
.g { stroke: #e2e5e9; fill: none; } .w { stroke: #8c959f; fill: none; } .l { fill: none; stroke-width: 2; } .o2 .l { stroke-dasharray: 6 4; }
.o3 .l { stroke-dasharray: 2 3; stroke-width: 1.2; } .k { stroke-width: .8; opacity: .6; fill: none; } .e { stroke-width: 1.2; opacity: .7; fill: none; }
.m { stroke-width: 1.6; } .lin { display: none; }
";

/// The colours of series on light and on dark paper, which colour-blind people can distinguish (after Okabe and Ito,
/// 2008).
const COLOURS: [[&str; MOST_SERIES]; 2] = [
    ["#0072b2", "#d55e00", "#009e73", "#c0508f", "#b57900", "#2f9bd8", "#24292f"],
    ["#4da3ff", "#ff8a4c", "#34d399", "#f28ac8", "#e5b84b", "#7cd4ff", "#e6edf3"],
];

/// The rules that colour the series. Many viewers of SVG do not support variables, so each colour has its own rules.
fn colours(dark: bool) -> String {
    let mut rules = String::new();
    for (place, colour) in COLOURS[usize::from(dark)].iter().enumerate() {
        let _ = write!(
            rules,
            ".s{place} .l, .s{place} .m, .s{place} .k, .s{place} .e {{ stroke: {colour}; }} \
             .s{place} .m, .s{place} text, .s{place} .b {{ fill: {colour}; }} "
        );
    }
    rules + ".s.o1 .m { fill: #fff; }\n"
}

/// The style sheet of charts: for a separate file, or for a page, which may be dark.
pub fn style(page: bool) -> String {
    let light = format!("{STYLE}{}", colours(false));
    if page { format!("{light}@media (prefers-color-scheme: dark) {{ {} }}\n", colours(true)) } else { light }
}

/// A drawn panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Its width and height in pixels.
    pub size: (f64, f64),
    /// The content of its `svg` element.
    pub inside: String,
}

impl Panel {
    /// The panel as an element of a page, which provides the styles and the title.
    pub(crate) fn element(&self, title: &str) -> Markup {
        let (width, height) = self.size;
        html! {
            svg viewBox=(format!("0 0 {width:.0} {height:.0}")) role="img" aria-label=(title) { (PreEscaped(&self.inside)) }
        }
    }
}

/// Panels as one SVG file, two in a row.
pub fn file(panels: &[Panel]) -> String {
    let width = panels.iter().map(|panel| panel.size.0).fold(1.0, f64::max);
    let columns = panels.len().clamp(1, 2);
    let mut placed = String::new();
    let mut height = 0.0;
    for row in panels.chunks(columns) {
        for (column, panel) in row.iter().enumerate() {
            let _ = write!(
                placed,
                "<g transform=\"translate({:.0} {height:.0})\">{}</g>",
                width * column as f64,
                panel.inside
            );
        }
        height += row.iter().map(|panel| panel.size.1).fold(0.0, f64::max);
    }
    let (width, height) = (width * columns as f64, height.max(1.0));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">\
         <style>{}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>{placed}</svg>\n",
        style(false)
    )
}

/// A plot in panels of at most [`MOST_SERIES`] colours, split by the groups of its series, if any, or in order.
/// Series of one colour, such as a published one and ours, stay together.
pub fn split(plot: &Plot) -> Vec<Plot> {
    let mut styles: Vec<usize> = plot.series.iter().map(|series| series.style).collect();
    styles.sort_unstable();
    styles.dedup();
    if styles.len() <= MOST_SERIES {
        return vec![plot.clone()];
    }
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for &style in &styles {
        let group = plot.series.iter().find(|series| series.style == style).map_or("", |series| &series.group);
        match groups.iter_mut().find(|(name, _)| name == group) {
            Some((_, styles)) => styles.push(style),
            None => groups.push((group.to_owned(), vec![style])),
        }
    }
    let parts = groups.iter().flat_map(|(group, styles)| {
        let panels = styles.len().div_ceil(MOST_SERIES);
        let each = styles.len().div_ceil(panels);
        styles.chunks(each).enumerate().map(move |(place, styles)| {
            let mut title = plot.title.clone();
            if !group.is_empty() {
                let _ = write!(title, ": {group}");
            }
            if panels > 1 {
                let _ = write!(title, " ({} of {panels})", place + 1);
            }
            let series = plot.series.iter().filter(|series| styles.contains(&series.style)).cloned().collect();
            Plot { title, series, ..plot.clone() }
        })
    });
    parts.collect()
}

/// Draws the panels of a plot.
pub fn plot(plot: &Plot) -> Vec<Panel> {
    let parts = split(plot);
    parts.iter().map(|part| panel(part, plot)).collect()
}

/// Returns whether the y axis of a quantity is logarithmic at first, with a linear form beside it.
fn logarithmic(quantity: Quantity) -> bool {
    !matches!(quantity, Quantity::Share | Quantity::Number)
}

/// Draws one panel. All panels of a plot share their axes, so that a reader can compare them.
fn panel(plot: &Plot, whole: &Plot) -> Panel {
    let points = || whole.series.iter().flat_map(|series| series.points.iter().copied());
    let spreads = whole.series.iter().flat_map(|series| series.spread.iter().flat_map(|&(low, high)| [low, high]));
    let values: Vec<f64> = points().map(|point| point.1).chain(spreads).collect();
    let x = Ticks::across(whole.x.quantity, points().map(|point| point.0));
    let labels: Vec<String> = plot.series.iter().map(label).collect();
    let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let right = LABELS.max(14.0 + LETTER * longest as f64);
    let (width, height) = AREA;
    let forms: &[(&str, bool)] =
        if logarithmic(plot.y.quantity) { &[("log", true), ("lin", false)] } else { &[("all", false)] };
    let along = |&(class, logarithmic): &(&'static str, bool)| {
        (class, Ticks::along(whole.y.quantity, logarithmic, values.iter().copied()))
    };
    let forms: Vec<(&str, Ticks)> = forms.iter().map(along).collect();
    let numbers = forms.iter().flat_map(|(_, y)| y.at.iter().map(|(_, number)| number.chars().count()));
    let left = LEFT.max(BESIDE + LETTER * numbers.max().unwrap_or(0) as f64).ceil();
    let (mut inside, top) = heading(&plot.title, left + width + right);
    for (class, y) in &forms {
        let _ = write!(inside, "<g class=\"{class}\" transform=\"translate({left} {top})\">");
        frame(&mut inside, &x, y);
        curves(&mut inside, plot, &labels, &x, y);
        inside += "</g>";
    }
    let _ = write!(
        inside,
        "<text class=\"a\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text class=\"a\" transform=\"translate(11 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        left + width / 2.0,
        top + height + 36.0,
        escape(&plot.x.label),
        top + height / 2.0,
        escape(&plot.y.label)
    );
    Panel { size: (left + width + right, top + height + BELOW), inside }
}

/// A title in lines of that width, and the position below it.
fn heading(title: &str, width: f64) -> (String, f64) {
    let mut lines = String::new();
    let mut y = 0.0;
    for line in fill(title, (width / TITLE_LETTER) as usize).lines() {
        y += TITLE_LINE;
        let _ = write!(lines, "<text class=\"t\" x=\"4\" y=\"{y}\">{}</text>", escape(line));
    }
    (lines, y + 14.0)
}

/// The name of a series with its origin.
fn label(series: &Series) -> String {
    let origin = match series.origin {
        Origin::Measured => "",
        Origin::Simulated => ", simulated",
        Origin::Published => ", published",
        Origin::Bound => ", bound",
    };
    format!("{}{origin}", series.name)
}

/// The lines and numbers of the axes.
fn frame(out: &mut String, x: &Ticks, y: &Ticks) {
    let (width, height) = AREA;
    for (place, label) in &y.at {
        let at = height * (1.0 - place);
        let _ = write!(
            out,
            "<path class=\"g\" d=\"M0 {at:.1}H{width}\"/><text x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            at + 4.0,
            escape(label)
        );
    }
    for (place, label) in &x.at {
        let at = width * place;
        let _ = write!(
            out,
            "<path class=\"g\" d=\"M{at:.1} 0V{height}\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            height + 16.0,
            escape(label)
        );
    }
    let _ = write!(out, "<path class=\"w\" d=\"M0 0V{height}H{width}\"/>");
}

/// The colour of each style of a panel: the same in all panels, or the next free one. A panel has at most
/// [`MOST_SERIES`] styles.
fn colours_of(plot: &Plot) -> BTreeMap<usize, usize> {
    let styles: BTreeSet<usize> = plot.series.iter().map(|series| series.style).collect();
    let mut free = [true; MOST_SERIES];
    let chosen = styles.into_iter().map(|style| {
        let own = style % MOST_SERIES;
        let colour = (own..own + MOST_SERIES).map(|colour| colour % MOST_SERIES).find(|&colour| free[colour]);
        let colour = colour.unwrap_or(own);
        free[colour] = false;
        (style, colour)
    });
    chosen.collect()
}

/// The curves, and a label at the end of each.
fn curves(out: &mut String, plot: &Plot, labels: &[String], x: &Ticks, y: &Ticks) {
    let (width, height) = AREA;
    let (write_x, write_y) = (writer(plot.x.quantity), writer(plot.y.quantity));
    let place = |(at, value): (f64, f64)| Some((width * x.place(at)?, height * (1.0 - y.place(value)?)));
    let ends: Vec<Option<(f64, f64)>> =
        plot.series.iter().map(|series| series.points.iter().rev().find_map(|&point| place(point))).collect();
    let colours = colours_of(plot);
    let rows = spread_out(&ends.iter().map(|end| end.map(|end| end.1)).collect::<Vec<_>>(), height);
    for ((series, label), (end, row)) in plot.series.iter().zip(labels).zip(ends.iter().zip(rows)) {
        let (Some(end), Some(row)) = (*end, row) else { continue };
        let _ = write!(
            out,
            "<g class=\"s s{} o{}\" data-name=\"{}\">",
            colours[&series.style],
            origin(series.origin),
            escape(label)
        );
        let points: Vec<(usize, (f64, f64))> =
            series.points.iter().enumerate().filter_map(|(at, &point)| Some((at, place(point)?))).collect();
        let line: Vec<String> = points.iter().map(|(_, (x, y))| format!("{x:.1} {y:.1}")).collect();
        let _ = write!(out, "<path class=\"l\" d=\"M{}\"/>", line.join("L"));
        if series.origin != Origin::Bound {
            for &(at, (px, py)) in &points {
                let (x, y) = series.points[at];
                let mut text = format!("{label}: {} at {} {}", write_y(y), write_x(x), plot.x.label);
                if let Some(&(low, high)) = series.spread.get(at).filter(|(low, high)| low < high) {
                    let _ = write!(text, " ({} to {})", write_y(low), write_y(high));
                    if let (Some(low), Some(high)) = (place((x, low)), place((x, high))) {
                        let _ = write!(
                            out,
                            "<path class=\"e\" d=\"M{px:.1} {:.1}V{:.1}m-3 0h6M{:.1} {:.1}h6\"/>",
                            low.1,
                            high.1,
                            px - 3.0,
                            low.1
                        );
                    }
                }
                let _ = write!(
                    out,
                    "<path class=\"m\" data-x=\"{x}\" data-y=\"{y}\" d=\"M{px:.1} {py:.1}{}\"><title>{}</title></path>",
                    mark(colours[&series.style]),
                    escape(&text)
                );
            }
        }
        if (row - end.1).abs() > 2.0 || end.0 < width - 8.0 {
            let _ =
                write!(out, "<path class=\"k\" d=\"M{:.1} {:.1}L{:.1} {row:.1}\"/>", end.0 + 5.0, end.1, width + 5.0);
        }
        let _ = write!(
            out,
            "<text class=\"n\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            width + 8.0,
            row + 4.0,
            escape(label)
        );
    }
}

fn origin(origin: Origin) -> usize {
    match origin {
        Origin::Measured => 0,
        Origin::Simulated => 1,
        Origin::Published => 2,
        Origin::Bound => 3,
    }
}

/// The outline of a mark around the pen, so that lines differ even without colours.
fn mark(colour: usize) -> &'static str {
    match colour {
        0 => "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0",
        1 => "m-3 -3h6v6h-6z",
        2 => "m0 -4l4 7h-8z",
        3 => "m0 -4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5z",
        4 => "m0 4l4 -7h-8z",
        5 => "m-1.8 -4.5h3.6v9h-3.6z",
        _ => "m-4.5 -1.8h9v3.6h-9z",
    }
}

/// Positions of labels near `wanted`: in the same order, apart from each other, within the height if possible.
fn spread_out(wanted: &[Option<f64>], height: f64) -> Vec<Option<f64>> {
    let mut order: Vec<usize> = (0..wanted.len()).filter(|&at| wanted[at].is_some()).collect();
    order.sort_by(|&a, &b| wanted[a].unwrap_or(0.0).total_cmp(&wanted[b].unwrap_or(0.0)));
    let mut placed = vec![None; wanted.len()];
    let mut least = 0.0f64;
    for &at in &order {
        let row = wanted[at].unwrap_or(0.0).max(least);
        placed[at] = Some(row);
        least = row + APART;
    }
    let mut most = height;
    for &at in order.iter().rev() {
        let row = placed[at].unwrap_or(0.0).min(most);
        placed[at] = Some(row);
        most = row - APART;
    }
    placed
}

/// Draws bars.
pub fn bars(bars: &Bars) -> Panel {
    let names = bars.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let left = 12.0 + LETTER * names as f64;
    let lanes = if bars.stacked { 1.0 } else { bars.parts.len().max(1) as f64 };
    let row = ROW.max(lanes * 9.0 + 6.0);
    let height = row * bars.rows.len() as f64;
    let width = AREA.0;
    let quantity = bars.axis.quantity;
    let write = writer(quantity);
    let ends: Vec<f64> =
        bars.rows.iter().flat_map(|(_, parts)| parts).flatten().flat_map(|&(from, to)| [from, to]).collect();
    let axis = Ticks::along(quantity, logarithmic(quantity), ends.into_iter());
    let parts: usize = bars.parts.iter().map(|name| name.chars().count()).sum();
    let legend_width = 4.0 + 26.0 * bars.parts.len() as f64 + LETTER * parts as f64;
    let whole = (left + width + 44.0).max(legend_width);
    let (mut inside, below) = heading(&bars.title, whole);
    let top = below + 18.0;
    let mut legend = 4.0;
    for (part, name) in bars.parts.iter().enumerate() {
        let _ = write!(
            inside,
            "<g class=\"s{part}\"><rect class=\"b\" x=\"{legend:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\"/></g><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            below - 4.0,
            legend + 14.0,
            below + 5.0,
            escape(name)
        );
        legend += 26.0 + LETTER * name.chars().count() as f64;
    }
    let _ = write!(inside, "<g transform=\"translate({left:.1} {top})\">");
    for (place, label) in &axis.at {
        let at = width * place;
        let _ = write!(
            inside,
            "<path class=\"g\" d=\"M{at:.1} 0V{height}\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            height + 16.0,
            escape(label)
        );
    }
    for (number, (name, parts)) in bars.rows.iter().enumerate() {
        let y = row * number as f64;
        let _ = write!(
            inside,
            "<text x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            y + row / 2.0 + 4.0,
            escape(name)
        );
        let (mut end, mut right): (f64, f64) = (0.0, 0.0);
        for (part, range) in parts.iter().enumerate() {
            let Some((from, to)) = *range else { continue };
            let x = |value: f64| width * axis.place(value).unwrap_or(0.0).clamp(0.0, 1.0);
            let (a, b) = (x(from.min(to)), x(from.max(to)));
            let lane = if bars.stacked { 0.0 } else { 9.0 * part as f64 };
            let thick = if bars.stacked { row - 8.0 } else { 7.0 };
            let text = format!("{name}, {}: {} to {}", bars.parts[part], write(from), write(to));
            let _ = write!(
                inside,
                "<g class=\"s{part}\"><rect class=\"b\" x=\"{a:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{thick:.1}\"><title>{}</title></rect></g>",
                y + 4.0 + lane,
                (b - a).max(1.0),
                escape(&text)
            );
            end = end.max(to);
            right = right.max(b);
        }
        if bars.stacked && end > 0.0 {
            let _ = write!(
                inside,
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                right + 5.0,
                y + row / 2.0 + 4.0,
                escape(&write(end))
            );
        }
    }
    let _ = write!(
        inside,
        "<path class=\"w\" d=\"M0 0V{height}\"/><text class=\"a\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></g>",
        width / 2.0,
        height + 34.0,
        escape(&bars.axis.label)
    );
    Panel { size: (whole, top + height + BELOW), inside }
}

/// Escapes text for an element or an attribute.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::tests::example;

    #[test]
    fn large_plots_are_split_into_panels() {
        let document = example();
        let parts = split(&document.sections[0].finding.plots[0]);
        assert_eq!(parts.len(), 2);
        assert_eq!(parts.iter().map(|part| part.series.len()).sum::<usize>(), 9);
        assert!(parts.iter().all(|part| part.series.len() <= MOST_SERIES));
    }

    #[test]
    fn series_of_different_styles_differ_in_colour_and_mark() {
        let mut document = example();
        let plot = &mut document.sections[0].finding.plots[0];
        plot.series.truncate(4);
        for (series, style) in plot.series.iter_mut().zip([1 + 2 * MOST_SERIES, 1, 1 + MOST_SERIES, 1]) {
            series.style = style;
        }
        let svg = file(&super::plot(plot));
        let colours: Vec<&str> = svg.split("<g class=\"s s").skip(1).map(|rest| &rest[..1]).collect();
        let distinct: std::collections::HashSet<_> = colours[..4].iter().collect();
        assert_eq!((distinct.len(), colours[1]), (3, colours[3]), "{colours:?}");
    }

    #[test]
    fn labels_do_not_overlap_and_keep_their_order() {
        let wanted = [Some(100.0), Some(101.0), None, Some(205.0), Some(209.0), Some(20.0)];
        let placed = spread_out(&wanted, 210.0);
        let mut rows: Vec<f64> = placed.iter().flatten().copied().collect();
        assert!(placed[5] < placed[0] && placed[0] < placed[1] && placed[3] < placed[4] && placed[2].is_none());
        rows.sort_by(f64::total_cmp);
        assert!(rows.windows(2).all(|two| two[1] - two[0] >= APART - 1e-9), "{rows:?}");
    }

    #[test]
    fn text_cannot_become_an_element() {
        let mut document = example();
        let plot = &mut document.sections[0].finding.plots[0];
        plot.title = "<script>".into();
        plot.series[0].name = "a\"b<c>".into();
        let svg = file(&super::plot(plot));
        assert!(
            !svg.contains("<script>") && svg.contains("&lt;script&gt;") && svg.contains("a&quot;b&lt;c&gt;"),
            "{svg}"
        );
    }

    #[test]
    fn empty_plots_can_be_drawn() {
        assert!(file(&[]).contains("<svg"));
        let mut document = example();
        let section = &mut document.sections[0];
        section.finding.plots[0].series.clear();
        section.bars[0].rows.clear();
        assert_eq!(plot(&section.finding.plots[0]).len(), 1);
        assert!(bars(&section.bars[0]).size.0 > 0.0);
    }
}
