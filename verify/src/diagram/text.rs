//! The diagram in box-drawing characters.

use super::{Arrow, Kind, Life, Row, Story, What};

/// The least distance between two lifelines.
const SPACING: usize = 14;

/// The width of paragraphs.
const WIDTH: usize = 110;

/// The horizontal positions, in characters from the left.
struct Layout {
    /// The lifelines.
    lines: Vec<usize>,
    /// The labels.
    labels: usize,
}

impl Layout {
    fn new(story: &Story) -> Layout {
        // A step or a range of steps, the preemption sign, and two blanks.
        let numbers = story.rows.iter().map(|row| match row.what {
            What::Step { number, .. } => number.to_string().len(),
            What::Polls { first, last, .. } => range(first, last).len(),
            _ => 0,
        });
        let mut at = numbers.max().unwrap_or(0) + 3;
        let mut layout = Layout { lines: Vec::new(), labels: 0 };
        for (i, column) in story.columns.iter().enumerate() {
            let marks = story.rows.iter().filter_map(|row| match &row.what {
                What::Mark { column, text, .. } if *column == i => Some(text.chars().count() + 2),
                _ => None,
            });
            let title = column.title.chars().count().max(column.subtitle.len());
            let widest = marks.chain([title]).max().unwrap_or(0) + 1;
            layout.lines.push(at);
            let is_last = i + 1 == story.columns.len();
            at += if is_last { widest.max(3) } else { widest.max(SPACING) };
        }
        layout.labels = at;
        layout
    }
}

/// A line of characters that can be overwritten.
struct Line(Vec<char>);

impl Line {
    /// Draws the lifelines of a row.
    fn new(layout: &Layout, lives: &[Life]) -> Line {
        let mut line = Line(vec![' '; layout.labels]);
        for (&at, life) in layout.lines.iter().zip(lives) {
            line.0[at] = match life {
                Life::Memory | Life::Outside => '╎',
                Life::Failed => ' ',
                Life::Busy(_) => '│',
                Life::Inside(_) => '┃',
            };
        }
        line
    }

    fn write(&mut self, at: usize, text: &str) {
        let end = at + text.chars().count();
        if self.0.len() < end {
            self.0.resize(end, ' ');
        }
        for (place, letter) in self.0[at..].iter_mut().zip(text.chars()) {
            *place = letter;
        }
    }

    fn arrow(&mut self, layout: &Layout, arrow: Arrow) {
        let (from, to) = (layout.lines[arrow.from], layout.lines[arrow.to]);
        let (origin, dash, heads) = match arrow.kind {
            Kind::Done => ('●', '─', ['◀', '▶']),
            Kind::Posted { .. } => ('●', '╌', ['◁', '▷']),
            Kind::Arrives { .. } => ('○', '╌', ['◀', '▶']),
        };
        for place in &mut self.0[from.min(to) + 1..from.max(to).max(from.min(to) + 1)] {
            match place {
                ' ' => *place = dash,
                '╎' | '│' => *place = '┼',
                '┃' => *place = '╂',
                _ => {}
            }
        }
        self.0[from] = origin;
        match to.cmp(&from) {
            std::cmp::Ordering::Less => self.0[to + 1] = heads[0],
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => self.0[to - 1] = heads[1],
        }
    }

    fn end(self, out: &mut String) {
        let line: String = self.0.into_iter().collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

pub(super) fn draw(story: &Story) -> String {
    let layout = Layout::new(story);
    let mut out = String::new();
    out += &story.title;
    out.push('\n');
    if let Some(deviation) = story.deviation {
        wrap(&mut out, &format!("Broken on purpose: {deviation}"));
    }
    wrap(&mut out, &story.facts);
    out.push('\n');
    let (mut titles, mut subtitles) = (Line(Vec::new()), Line(Vec::new()));
    for (&at, column) in layout.lines.iter().zip(&story.columns) {
        titles.write(at, &column.title);
        subtitles.write(at, column.subtitle);
    }
    titles.end(&mut out);
    if story.columns.iter().any(|column| !column.subtitle.is_empty()) {
        subtitles.end(&mut out);
    }
    for row in &story.rows {
        draw_row(&mut out, &layout, row);
    }
    out.push('\n');
    if let Some((first, last)) = story.cycle {
        wrap(&mut out, &format!("Steps {first} to {last} repeat forever."));
    }
    for note in &story.notes {
        wrap(&mut out, note);
    }
    wrap(&mut out, &story.claim);
    out.push('\n');
    out += LEGEND;
    out
}

const LEGEND: &str = "\
╎ outside, or memory   │ acquires or releases   ┃ inside      * preempts a rank that could continue
●──▶ takes effect   ●╌╌▷ is posted   ○╌╌▶ arrives   ● alone: on the rank's own memory
";

fn range(first: usize, last: usize) -> String {
    format!("{first}-{last}")
}

fn draw_row(out: &mut String, layout: &Layout, row: &Row) {
    let mut line = Line::new(layout, &row.lives);
    let number_end = layout.lines.first().map_or(0, |&at| at - 3);
    let number = |line: &mut Line, text: String| line.write(number_end.saturating_sub(text.chars().count()), &text);
    match &row.what {
        What::Step { number: step, preempts, arrow, label } => {
            number(&mut line, step.to_string());
            if *preempts {
                line.write(number_end, "*");
            }
            line.arrow(layout, *arrow);
            line.write(layout.labels, label);
        }
        What::Polls { first, last, column, rounds } => {
            number(&mut line, range(*first, *last));
            line.write(layout.lines[*column], "┊");
            line.write(layout.labels, &super::more_polls(*rounds));
        }
        What::Mark { column, text, broken } => {
            line.write(layout.lines[*column] + 2, text);
            if let Some(broken) = broken {
                line.write(layout.labels, &format!("✗ {broken}"));
            }
        }
        What::Cycle => {
            line.write(layout.labels, "↻ the steps below repeat forever");
        }
        What::Stuck { column, label } => {
            line.write(layout.lines[*column], "✗ waits");
            line.write(layout.labels, label);
        }
    }
    line.end(out);
}

/// Adds `text`, wrapped at [`WIDTH`].
fn wrap(out: &mut String, text: &str) {
    *out += &super::wrap(text, WIDTH).join("\n  ");
    out.push('\n');
}
