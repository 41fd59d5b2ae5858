//! The diagram as an SVG document: plain shapes and text, without external styles, scripts or fonts.

use std::fmt::Write as _;

use super::{Arrow, Kind, Life, Story, What, wrap};
use crate::{Access, Property};

/// Lengths are in pixels.
const FIRST_LINE: f64 = 120.0;
/// The least distance between two lifelines: enough for the titles of their columns.
const LEAST_GAP: f64 = 160.0;
/// The distance between a lifeline and the label beside it.
const BESIDE: f64 = 14.0;
/// The length of a label's line in letters; only a single word may be longer.
const LABEL_LINE: usize = 32;
const LABEL_HEIGHT: f64 = 14.0;
const STEP_HEIGHT: f64 = 34.0;
const OTHER_HEIGHT: f64 = 22.0;
const LINE_HEIGHT: f64 = 19.0;
const MARGIN: f64 = 24.0;
const LABEL_SIZE: f64 = 12.0;
/// The right edge of the steps' numbers.
const NUMBERS: f64 = 76.0;
/// Generous estimates of a letter's width, regular and bold, as fractions of the font size.
const LETTER: f64 = 0.56;
const BOLD_LETTER: f64 = 0.64;
const FONTS: &str = "system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif";

const INK: &str = "#1f2937";
const PALE: &str = "#6b7280";
const FAINT: &str = "#cbd5e1";
const POSTED: &str = "#7c3aed";
const BROKEN: &str = "#dc2626";
const PREEMPTS: &str = "#fde68a";

/// The colours of a rank that acquires or releases, and of a rank inside.
fn colours(access: Access) -> (&'static str, &'static str) {
    if access.writes() { ("#fed7aa", "#ea580c") } else { ("#bfdbfe", "#2563eb") }
}

/// Escapes `text` for XML, and replaces characters that XML does not allow.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(' '),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => out.push(char::REPLACEMENT_CHARACTER),
            _ => out.push(letter),
        }
    }
    out
}

/// The look of a text.
#[derive(Clone, Copy)]
struct Style {
    size: f64,
    colour: &'static str,
    bold: bool,
    anchor: &'static str,
    /// True for a white edge around the letters, which keeps them legible across lines.
    edge: bool,
}

impl Style {
    fn width_of(&self, text: &str) -> f64 {
        text.chars().count() as f64 * self.size * if self.bold { BOLD_LETTER } else { LETTER }
    }
}

const LABEL: Style = Style { size: LABEL_SIZE, colour: INK, bold: false, anchor: "start", edge: true };
const NUMBER: Style = Style { size: 11.0, colour: PALE, bold: false, anchor: "end", edge: false };
const SENTENCE: Style = Style { size: 13.0, ..LABEL };
const VERDICT: Style = Style { size: 14.0, colour: BROKEN, bold: true, ..LABEL };
const WRONG: Style = Style { colour: BROKEN, bold: true, ..LABEL };

/// The label of a row, beside a lifeline.
struct Label {
    lines: Vec<String>,
    style: Style,
    /// The column of the lifeline.
    column: usize,
    /// True if it is to the left of the lifeline.
    left: bool,
    /// True if it is above the row's arrow, which begins at the lifeline.
    above: bool,
}

impl Label {
    fn new(what: &What) -> Label {
        let beside = |column, style, text: &str| Label { lines: lines(text), style, column, left: false, above: false };
        let posted = Style { colour: POSTED, ..LABEL };
        match what {
            What::Step { arrow: Arrow { from, to, kind }, label, .. } => match kind {
                Kind::Arrives { .. } => beside(*to, posted, label),
                Kind::Posted { .. } => Label { above: true, ..beside(*from, posted, label) },
                Kind::Done if from == to => beside(*from, LABEL, label),
                Kind::Done => Label { above: true, left: to < from, ..beside(*from, LABEL, label) },
            },
            What::Polls { column, rounds, .. } => {
                beside(*column, Style { colour: PALE, ..LABEL }, &super::more_polls(*rounds))
            }
            What::Mark { column, text, broken: None } => {
                beside(*column, Style { colour: PALE, bold: true, ..LABEL }, text)
            }
            What::Mark { column, text, broken: Some(_) } => beside(*column, WRONG, &format!("✗ {text}")),
            What::Stuck { column, label } => beside(*column, WRONG, &format!("✗ waits {label}")),
            What::Cycle => beside(0, LABEL, ""),
        }
    }

    /// The gap that contains it: the column of the lifeline to the left of the gap.
    fn gap(&self) -> usize {
        self.column - usize::from(self.left)
    }

    fn width(&self) -> f64 {
        self.lines.iter().map(|line| self.style.width_of(line)).fold(0.0, f64::max)
    }

    /// The distance between its first and its last baseline.
    fn height(&self) -> f64 {
        self.lines.len().saturating_sub(1) as f64 * LABEL_HEIGHT
    }
}

/// Splits a long label into lines, if possible ahead of its value, its answer or a remark.
fn lines(label: &str) -> Vec<String> {
    let fits = |text: &str| text.chars().count() <= LABEL_LINE;
    let places = [" := ", " → ", " (", " posted"].into_iter().filter_map(|part| label.rfind(part));
    let place = places.filter(|&place| !fits(label) && fits(&label[..place])).max();
    let (first, rest) = label.split_at(place.unwrap_or(label.len()));
    [first, rest].into_iter().flat_map(|part| wrap(part, LABEL_LINE)).collect()
}

/// The positions of lifelines and rows. No label reaches another lifeline, or another row.
struct Layout {
    /// The lifelines.
    lines: Vec<f64>,
    labels: Vec<Label>,
    /// The upper edge of each row, and the lower edge of the last row.
    edges: Vec<f64>,
}

impl Layout {
    /// The layout with its first row at 0.
    fn new(story: &Story) -> Layout {
        let labels: Vec<Label> = story.rows.iter().map(|row| Label::new(&row.what)).collect();
        let mut gaps = vec![LEAST_GAP; story.columns.len()];
        for label in &labels {
            let gap = &mut gaps[label.gap()];
            *gap = gap.max(label.width() + 2.0 * BESIDE);
        }
        let mut x = FIRST_LINE;
        let mut lines = Vec::new();
        for gap in gaps {
            lines.push(x);
            x += gap;
        }
        let mut y = 0.0;
        let mut edges = vec![y];
        for (row, label) in story.rows.iter().zip(&labels) {
            y += label.height();
            y += match row.what {
                What::Step { .. } | What::Mark { broken: Some(_), .. } | What::Stuck { .. } => STEP_HEIGHT,
                _ => OTHER_HEIGHT,
            };
            edges.push(y);
        }
        Layout { lines, labels, edges }
    }

    fn move_down(&mut self, by: f64) {
        for edge in &mut self.edges {
            *edge += by;
        }
    }

    /// The right edge of the rows' background.
    fn right(&self) -> f64 {
        self.lines.last().copied().unwrap_or(FIRST_LINE) + 60.0
    }

    fn bottom(&self) -> f64 {
        self.edges[self.labels.len()]
    }

    /// The height at which the arrow and the number of a row are.
    fn arrow(&self, row: usize) -> f64 {
        let [above, below] = [self.edges[row], self.edges[row + 1]];
        if self.labels[row].above { below - STEP_HEIGHT / 2.0 } else { (above + below) / 2.0 }
    }
}

/// The document so far: its shapes, and its right edge.
#[derive(Default)]
struct Drawing {
    shapes: String,
    width: f64,
}

impl Drawing {
    fn shape(&mut self, shape: std::fmt::Arguments<'_>) {
        self.shapes.write_fmt(shape).expect("a string takes everything");
        self.shapes.push('\n');
    }

    /// Draws a text with its baseline at `y`.
    fn text(&mut self, x: f64, y: f64, style: Style, text: &str) {
        let Style { size, colour, bold, anchor, edge } = style;
        let reach = match anchor {
            "start" => style.width_of(text),
            "middle" => style.width_of(text) / 2.0,
            _ => 0.0,
        };
        self.width = self.width.max(x + reach);
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        let edge = if edge {
            " stroke=\"white\" stroke-width=\"4\" stroke-linejoin=\"round\" paint-order=\"stroke\""
        } else {
            ""
        };
        self.shape(format_args!(
            "<text x=\"{x:.0}\" y=\"{y:.0}\" font-size=\"{size:.0}\" fill=\"{colour}\" text-anchor=\"{anchor}\"{weight}{edge}>{}</text>",
            escape(text)
        ));
    }

    fn bar(&mut self, x: f64, y: f64, (width, height): (f64, f64), colour: &str) {
        self.shape(format_args!(
            "<rect x=\"{:.1}\" y=\"{y:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" fill=\"{colour}\"/>",
            x - width / 2.0
        ));
    }

    fn dot(&mut self, x: f64, y: f64, colour: &str) {
        self.shape(format_args!("<circle cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"4\" fill=\"{colour}\"/>"));
    }

    /// Draws a line along `path`, with or without an arrow head.
    fn path(&mut self, path: &str, colour: &str, dashed: bool, head: bool) {
        let dashes = if dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        let name = if colour == POSTED { "posted" } else { "done" };
        let head = if head { format!(" marker-end=\"url(#rmalab-{name})\"") } else { String::new() };
        self.shape(format_args!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"{dashes}{head}/>"
        ));
    }

    /// Draws a paragraph from `y` down, and returns its lower end.
    fn paragraph(&mut self, y: f64, style: Style, text: &str, room: f64) -> f64 {
        let mut y = y;
        for line in wrap(text, (room / (style.size * LETTER)) as usize) {
            y += LINE_HEIGHT;
            self.text(MARGIN, y, style, &line);
        }
        y
    }
}

pub(super) fn draw(story: &Story) -> String {
    let mut layout = Layout::new(story);
    let mut drawing = Drawing { width: layout.right(), ..Drawing::default() };
    let room = drawing.width.max(640.0) - 2.0 * MARGIN;
    let mut y = MARGIN + 8.0;
    drawing.text(MARGIN, y, Style { size: 18.0, bold: true, ..LABEL }, &story.title);
    if let Some(deviation) = story.deviation {
        y = drawing.paragraph(y + 2.0, SENTENCE, &format!("Broken on purpose: {deviation}"), room);
    }
    y = drawing.paragraph(y + 2.0, Style { colour: PALE, ..SENTENCE }, &story.facts, room);

    layout.move_down(y + 58.0);
    let bottom = layout.bottom();
    heads(&mut drawing, story, &layout, y + 14.0);
    lives(&mut drawing, story, &layout, overlap(story));
    posts(&mut drawing, story, &layout);
    for (i, row) in story.rows.iter().enumerate() {
        draw_row(&mut drawing, &layout, i, &row.what);
    }
    if let Some(from) = story.rows.iter().position(|row| matches!(row.what, What::Cycle)) {
        let (x, to) = (MARGIN, layout.arrow(from));
        drawing.path(&format!("M{:.0} {bottom:.0} H{x:.0} V{to:.0} H{:.0}", x + 24.0, x + 22.0), INK, false, true);
    }

    y = bottom + 8.0;
    y = drawing.paragraph(y, VERDICT, &story.claim, room);
    if let Some((first, last)) = story.cycle {
        y = drawing.paragraph(y + 2.0, SENTENCE, &format!("Steps {first} to {last} repeat forever."), room);
    }
    for note in &story.notes {
        y = drawing.paragraph(y + 2.0, SENTENCE, note, room);
    }
    y = legend(&mut drawing, y + 34.0);
    document(story, &drawing, y + MARGIN)
}

fn document(story: &Story, drawing: &Drawing, height: f64) -> String {
    let width = drawing.width + MARGIN;
    let title = escape(&format!("{}: {}", story.title, story.violation));
    let head = |name: &str, colour: &str| {
        format!(
            "<marker id=\"rmalab-{name}\" viewBox=\"0 0 10 10\" refX=\"10\" refY=\"5\" markerWidth=\"9\" markerHeight=\"9\" \
             markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 1 L10 5 L0 9 z\" fill=\"{colour}\"/></marker>"
        )
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" font-family=\"{FONTS}\">\n\
         <title>{title}</title>\n\
         <defs>{}{}</defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         {}</svg>\n",
        head("done", INK),
        head("posted", POSTED),
        drawing.shapes
    )
}

/// Draws the titles of the columns.
fn heads(drawing: &mut Drawing, story: &Story, layout: &Layout, y: f64) {
    for (&x, column) in layout.lines.iter().zip(&story.columns) {
        let width = LEAST_GAP - 10.0;
        drawing.shape(format_args!(
            "<rect x=\"{:.0}\" y=\"{y:.0}\" width=\"{width:.0}\" height=\"34\" rx=\"5\" fill=\"#f1f5f9\" stroke=\"{FAINT}\"/>",
            x - width / 2.0
        ));
        let title = match column.subtitle {
            "" => column.title.clone(),
            subtitle => format!("{}, {subtitle}", column.title),
        };
        drawing.text(x, y + 22.0, Style { size: 13.0, bold: true, anchor: "middle", ..LABEL }, &title);
    }
}

/// For a violation of mutual exclusion: the first row in which all its ranks are inside.
fn overlap(story: &Story) -> Option<usize> {
    if story.violation.property != Property::MutualExclusion || story.hurt.len() < 2 {
        return None;
    }
    let all_inside =
        |row: &super::Row| story.hurt.iter().all(|&column| matches!(row.lives.get(column), Some(Life::Inside(_))));
    let rows = story.rows.iter().rev().take_while(|row| all_inside(row)).count();
    (rows > 0).then(|| story.rows.len() - rows)
}

/// Draws the lifelines with their bars, and the background of the violation.
fn lives(drawing: &mut Drawing, story: &Story, layout: &Layout, overlap: Option<usize>) {
    let edges = &layout.edges;
    let (top, bottom, right) = (edges[0], layout.bottom(), layout.right());
    for (i, row) in story.rows.iter().enumerate() {
        let broken = match &row.what {
            What::Mark { broken, .. } => broken.is_some(),
            What::Stuck { .. } => true,
            _ => false,
        };
        if broken || overlap.is_some_and(|from| i >= from) {
            let (y, height) = (edges[i], edges[i + 1] - edges[i]);
            drawing.shape(format_args!(
                "<rect x=\"60\" y=\"{y:.0}\" width=\"{:.0}\" height=\"{height:.0}\" fill=\"#fee2e2\"/>",
                right - 60.0
            ));
        }
    }
    for (column, &x) in layout.lines.iter().enumerate() {
        let dashes = if story.rows.iter().all(|row| row.lives[column] == Life::Memory) { "2 4" } else { "none" };
        drawing.shape(format_args!(
            "<path d=\"M{x:.0} {:.0} V{bottom:.0}\" stroke=\"{FAINT}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>",
            top - 10.0
        ));
        let mut from = 0;
        for rows in story.rows.chunk_by(|one, two| one.lives[column] == two.lives[column]) {
            let to = from + rows.len();
            let (y, height) = (edges[from], edges[to] - edges[from]);
            match rows[0].lives[column] {
                Life::Memory | Life::Failed | Life::Outside => {}
                Life::Busy(access) => drawing.bar(x, y, (8.0, height), colours(access).0),
                Life::Inside(access) => drawing.bar(x, y, (14.0, height), colours(access).1),
            }
            from = to;
        }
        if let Some(from) = overlap.filter(|_| story.hurt.contains(&column)) {
            drawing.bar(x, edges[from], (18.0, bottom - edges[from]), BROKEN);
        }
    }
}

/// Draws the posted puts, from their posting to their arrival.
fn posts(drawing: &mut Drawing, story: &Story, layout: &Layout) {
    let at = |step: usize| {
        let row = story.rows.iter().position(|row| matches!(row.what, What::Step { number, .. } if number == step));
        row.map(|row| layout.arrow(row))
    };
    for row in &story.rows {
        let What::Step { number, arrow: Arrow { from, to, kind: Kind::Posted { arrival } }, .. } = row.what else {
            continue;
        };
        let (Some(start), x, target) = (at(number), layout.lines[from], layout.lines[to]) else { continue };
        let end = arrival.and_then(at);
        let bottom = layout.bottom();
        if from == to {
            let out = x - 34.0;
            let y = end.unwrap_or(bottom);
            drawing.path(
                &format!("M{x:.0} {start:.0} C{out:.0} {start:.0} {out:.0} {y:.0} {x:.0} {y:.0}"),
                POSTED,
                true,
                end.is_some(),
            );
        } else {
            // A put that is still under way at the end stops halfway.
            let (target, y) = end.map_or((x + (target - x) * 0.6, bottom), |y| (target, y));
            drawing.path(&format!("M{x:.0} {start:.0} L{target:.0} {y:.0}"), POSTED, true, end.is_some());
        }
    }
}

fn draw_row(drawing: &mut Drawing, layout: &Layout, row: usize, what: &What) {
    let y = layout.arrow(row);
    match what {
        What::Step { number, preempts, arrow, .. } => {
            if *preempts {
                drawing.shape(format_args!(
                    "<rect x=\"54\" y=\"{:.0}\" width=\"30\" height=\"17\" rx=\"8\" fill=\"{PREEMPTS}\"/>",
                    y - 9.0
                ));
            }
            drawing.text(NUMBERS, y + 4.0, NUMBER, &number.to_string());
            draw_arrow(drawing, layout, *arrow, y);
        }
        What::Polls { first, last, .. } => drawing.text(NUMBERS, y + 4.0, NUMBER, &format!("{first}-{last}")),
        What::Cycle => drawing.text(MARGIN + 26.0, y + 4.0, Style { bold: true, ..LABEL }, "repeats"),
        What::Mark { .. } | What::Stuck { .. } => {}
    }
    let label = &layout.labels[row];
    let line = layout.lines[label.column];
    let (x, anchor) = if label.left { (line - BESIDE, "end") } else { (line + BESIDE, "start") };
    let mut y = if label.above { y - 6.0 - label.height() } else { y + 4.0 - label.height() / 2.0 };
    for text in &label.lines {
        drawing.text(x, y, Style { anchor, ..label.style }, text);
        y += LABEL_HEIGHT;
    }
}

/// Draws the arrow of a step, except for the line of a posted put, or its dot if it stays with its rank.
fn draw_arrow(drawing: &mut Drawing, layout: &Layout, arrow: Arrow, y: f64) {
    let (from, to) = (layout.lines[arrow.from], layout.lines[arrow.to]);
    match arrow.kind {
        Kind::Arrives { .. } => {}
        Kind::Posted { .. } => drawing.dot(from, y, POSTED),
        Kind::Done => {
            drawing.dot(from, y, INK);
            if arrow.from != arrow.to {
                drawing.path(&format!("M{from:.0} {y:.0} H{to:.0}"), INK, false, true);
            }
        }
    }
}

fn legend(drawing: &mut Drawing, y: f64) -> f64 {
    let small = Style { size: 11.0, colour: PALE, ..LABEL };
    let (read, write) = (colours(Access::Read), colours(Access::Write));
    let mut x = MARGIN;
    for ((light, strong), mode) in [(read, "reads"), (write, "writes")] {
        for (width, colour, text) in [(8.0, light, "acquires or releases"), (14.0, strong, "inside")] {
            drawing.bar(x + 7.0, y - 10.0, (width, 12.0), colour);
            let text = format!("{mode}, {text}");
            drawing.text(x + 20.0, y, small, &text);
            x += 36.0 + small.width_of(&text);
        }
    }
    let y = y + LINE_HEIGHT;
    drawing.path(&format!("M{:.0} {:.0} h30", MARGIN, y - 4.0), INK, false, true);
    drawing.text(MARGIN + 36.0, y, small, "takes effect");
    drawing.path(&format!("M{:.0} {:.0} h30", MARGIN + 120.0, y - 4.0), POSTED, true, true);
    drawing.text(MARGIN + 156.0, y, small, "posted, and arrives");
    drawing.bar(MARGIN + 290.0, y - 12.0, (26.0, 16.0), PREEMPTS);
    drawing.text(MARGIN + 308.0, y, small, "preempts a rank that could continue");
    y
}
