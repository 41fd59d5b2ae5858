//! The diagram as an SVG document: plain shapes and text, without external styles, scripts or fonts.

use std::fmt::Write as _;

use super::{Arrow, Kind, Life, Story, What, wrap};
use crate::{Access, Property};

/// Lengths are in pixels.
const FIRST_LINE: f64 = 120.0;
/// The distance of two life lines: longer than most labels.
const SPACING: f64 = 185.0;
const STEP_HEIGHT: f64 = 34.0;
const OTHER_HEIGHT: f64 = 22.0;
const LINE_HEIGHT: f64 = 19.0;
const MARGIN: f64 = 24.0;
const LABEL_SIZE: f64 = 12.0;
/// A generous estimate of a letter's width, as a fraction of the font size.
const LETTER: f64 = 0.56;
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

fn line_of(column: usize) -> f64 {
    FIRST_LINE + SPACING * column as f64
}

fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER
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

const LABEL: Style = Style { size: LABEL_SIZE, colour: INK, bold: false, anchor: "start", edge: true };
const NUMBER: Style = Style { size: 11.0, colour: PALE, bold: false, anchor: "end", edge: false };
const SENTENCE: Style = Style { size: 13.0, ..LABEL };
const VERDICT: Style = Style { size: 14.0, colour: BROKEN, bold: true, ..LABEL };

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
            "start" => width_of(text, size),
            "middle" => width_of(text, size) / 2.0,
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

/// The upper edge of each row, and the lower edge of the last row.
fn edges(story: &Story, top: f64) -> Vec<f64> {
    let mut edges = vec![top];
    let mut y = top;
    for row in &story.rows {
        y += match row.what {
            What::Step { .. } | What::Mark { broken: Some(_), .. } | What::Stuck { .. } => STEP_HEIGHT,
            _ => OTHER_HEIGHT,
        };
        edges.push(y);
    }
    edges
}

pub(super) fn draw(story: &Story) -> String {
    let mut drawing = Drawing { width: line_of(story.columns.len() - 1) + 60.0, ..Drawing::default() };
    let room = drawing.width.max(640.0) - 2.0 * MARGIN;
    let mut y = MARGIN + 8.0;
    drawing.text(MARGIN, y, Style { size: 18.0, bold: true, ..LABEL }, &story.title);
    if let Some(deviation) = story.deviation {
        y = drawing.paragraph(y + 2.0, SENTENCE, &format!("Broken on purpose: {deviation}"), room);
    }
    y = drawing.paragraph(y + 2.0, Style { colour: PALE, ..SENTENCE }, &story.facts, room);

    let top = y + 58.0;
    let edges = edges(story, top);
    let bottom = edges[story.rows.len()];
    heads(&mut drawing, story, y + 14.0);
    let overlap = overlap(story);
    lives(&mut drawing, story, &edges, overlap);
    posts(&mut drawing, story, &edges);
    for (i, row) in story.rows.iter().enumerate() {
        draw_row(&mut drawing, &row.what, (edges[i] + edges[i + 1]) / 2.0);
    }
    if let Some(from) = story.rows.iter().position(|row| matches!(row.what, What::Cycle)) {
        let (x, to) = (MARGIN, (edges[from] + edges[from + 1]) / 2.0);
        drawing.path(&format!("M{:.0} {bottom:.0} H{x:.0} V{to:.0} H{:.0}", x + 24.0, x + 22.0), INK, false, true);
    }

    y = bottom + 8.0;
    y = drawing.paragraph(y, VERDICT, &format!("✗ {}", story.violation), room);
    if let Some((first, last)) = story.cycle {
        y = drawing.paragraph(y + 2.0, SENTENCE, &format!("Steps {first} to {last} repeat for ever."), room);
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
fn heads(drawing: &mut Drawing, story: &Story, y: f64) {
    for (i, column) in story.columns.iter().enumerate() {
        let (x, width) = (line_of(i), 150.0);
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
fn lives(drawing: &mut Drawing, story: &Story, edges: &[f64], overlap: Option<usize>) {
    let (top, bottom) = (edges[0], edges[story.rows.len()]);
    let right = line_of(story.columns.len() - 1) + 60.0;
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
    for column in 0..story.columns.len() {
        let x = line_of(column);
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
                Life::Memory | Life::Outside => {}
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
fn posts(drawing: &mut Drawing, story: &Story, edges: &[f64]) {
    let at = |step: usize| {
        let row = story.rows.iter().position(|row| matches!(row.what, What::Step { number, .. } if number == step));
        row.map(|row| (edges[row] + edges[row + 1]) / 2.0)
    };
    for row in &story.rows {
        let What::Step { number, arrow: Arrow { from, to, kind: Kind::Posted { arrival } }, .. } = row.what else {
            continue;
        };
        let (Some(start), x, target) = (at(number), line_of(from), line_of(to)) else { continue };
        let end = arrival.and_then(at);
        let bottom = edges[story.rows.len()];
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

fn draw_row(drawing: &mut Drawing, what: &What, y: f64) {
    match what {
        What::Step { number, preempts, arrow, label } => {
            if *preempts {
                drawing.shape(format_args!(
                    "<rect x=\"54\" y=\"{:.0}\" width=\"30\" height=\"17\" rx=\"8\" fill=\"{PREEMPTS}\"/>",
                    y - 9.0
                ));
            }
            drawing.text(76.0, y + 4.0, NUMBER, &number.to_string());
            step(drawing, *arrow, label, y);
        }
        What::Polls { first, last, column, rounds } => {
            drawing.text(76.0, y + 4.0, NUMBER, &format!("{first}-{last}"));
            let style = Style { colour: PALE, ..LABEL };
            drawing.text(line_of(*column) + 14.0, y + 4.0, style, &super::more_polls(*rounds));
        }
        What::Mark { column, text, broken } => {
            let style = Style { colour: if broken.is_some() { BROKEN } else { PALE }, bold: true, ..LABEL };
            let sign = if broken.is_some() { "✗ " } else { "" };
            drawing.text(line_of(*column) + 14.0, y + 4.0, style, &format!("{sign}{text}"));
        }
        What::Cycle => {
            drawing.text(MARGIN + 26.0, y + 4.0, Style { bold: true, ..LABEL }, "from here on, again and again");
        }
        What::Stuck { column, label } => {
            let style = Style { colour: BROKEN, bold: true, ..LABEL };
            drawing.text(line_of(*column) + 14.0, y + 4.0, style, &format!("✗ waits {label}"));
        }
    }
}

/// A step's arrow with its label above, or beside it where it stays with its rank.
fn step(drawing: &mut Drawing, arrow: Arrow, label: &str, y: f64) {
    let (from, to) = (line_of(arrow.from), line_of(arrow.to));
    match arrow.kind {
        Kind::Arrives { .. } => {
            drawing.text(to + 14.0, y + 4.0, Style { colour: POSTED, ..LABEL }, label);
        }
        Kind::Posted { .. } => {
            drawing.dot(from, y, POSTED);
            drawing.text(from + 12.0, y - 6.0, Style { colour: POSTED, ..LABEL }, label);
        }
        Kind::Done if arrow.from == arrow.to => {
            drawing.dot(from, y, INK);
            drawing.text(from + 14.0, y + 4.0, LABEL, label);
        }
        Kind::Done => {
            drawing.dot(from, y, INK);
            drawing.path(&format!("M{from:.0} {y:.0} H{to:.0}"), INK, false, true);
            // Beside the bar of the rank that acts; a label that is longer than its arrow goes on to the right.
            let fits = width_of(label, LABEL_SIZE) + 28.0 < from - to;
            let (x, anchor) = if fits { (from - 14.0, "end") } else { (from.min(to) + 14.0, "start") };
            drawing.text(x, y - 6.0, Style { anchor, ..LABEL }, label);
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
            x += 36.0 + width_of(&text, small.size);
        }
    }
    let y = y + LINE_HEIGHT;
    drawing.path(&format!("M{:.0} {:.0} h30", MARGIN, y - 4.0), INK, false, true);
    drawing.text(MARGIN + 36.0, y, small, "takes effect");
    drawing.path(&format!("M{:.0} {:.0} h30", MARGIN + 120.0, y - 4.0), POSTED, true, true);
    drawing.text(MARGIN + 156.0, y, small, "posted, and arrives");
    drawing.bar(MARGIN + 290.0, y - 12.0, (26.0, 16.0), PREEMPTS);
    drawing.text(MARGIN + 308.0, y, small, "preempts a rank that could have gone on");
    y
}
