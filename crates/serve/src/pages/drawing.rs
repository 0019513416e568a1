//! Drawings of a run: the graph of its units or steps, and its slots over time.

use dacapo_core::view::Interval;
use jiff::{Timestamp, tz::TimeZone};
use maud::{Markup, html};

use super::{encoded, plot::px, shapes::StateShape, words};

/// One box of a graph.
pub(super) struct GraphBox {
    pub(super) id: String,
    pub(super) level: u32,
    pub(super) after: Vec<String>,
    pub(super) shape: StateShape,
    pub(super) sub: String,
    pub(super) href: Option<String>,
}

const BOX: (f64, f64) = (190.0, 50.0);
const GAP: (f64, f64) = (54.0, 16.0);

/// How high the way is that a line has below the boxes of a column which it passes.
const WAY: f64 = 14.0;

/// Boxes in columns by their level, with lines from what comes first. A line that passes a column goes below its boxes.
pub(super) fn graph(nodes: &[GraphBox], label: &str) -> Markup {
    let mut rows: Vec<usize> = Vec::new();
    let mut places: Vec<(f64, f64)> = Vec::new();
    for node in nodes {
        let level = node.level as usize;
        rows.resize(rows.len().max(level + 1), 0);
        places.push((level as f64 * (BOX.0 + GAP.0), rows[level] as f64 * (BOX.1 + GAP.1)));
        rows[level] += 1;
    }
    let wide = rows.len() as f64 * (BOX.0 + GAP.0) - GAP.0;
    let mut depths: Vec<f64> = rows.iter().map(|rows| *rows as f64 * (BOX.1 + GAP.1) - GAP.1).collect();
    let mut edges: Vec<String> = Vec::new();
    for (node, (_, y)) in nodes.iter().zip(&places) {
        for id in &node.after {
            let Some(from) = nodes.iter().position(|node| node.id == *id) else { continue };
            let (x, at) = (places[from].0 + BOX.0, places[from].1 + BOX.1 / 2.0);
            let mut line = Line { path: format!("M{} {}", px(x), px(at)), x, y: at };
            for (level, depth) in
                depths.iter_mut().enumerate().take(node.level as usize).skip(nodes[from].level as usize + 1)
            {
                *depth += WAY;
                let left = level as f64 * (BOX.0 + GAP.0);
                line.curve(left, *depth);
                line.straight(left + BOX.0);
            }
            line.curve(f64::from(node.level) * (BOX.0 + GAP.0), y + BOX.1 / 2.0);
            edges.push(line.path);
        }
    }
    let high = depths.into_iter().fold(0.0, f64::max);
    html! {
        div.graph.panel tabindex="0" {
            svg viewBox={ "-1 -1 " (px(wide + 2.0)) " " (px(high + 2.0)) } width=(px(wide + 2.0)) height=(px(high + 2.0)) role="group" aria-label=(label) {
                @for edge in &edges { path.edge d=(edge) {} }
                @for (node, (x, y)) in nodes.iter().zip(&places) { (linked(node.href.as_deref(), &node_box(node, *x, *y))) }
            }
        }
    }
}

/// A line that is being drawn.
struct Line {
    path: String,
    x: f64,
    y: f64,
}

impl Line {
    /// Goes on to a place, and leaves and arrives level.
    fn curve(&mut self, x: f64, y: f64) {
        let middle = px((self.x + x) / 2.0);
        self.path.push_str(&format!("C{middle} {} {middle} {} {} {}", px(self.y), px(y), px(x), px(y)));
        (self.x, self.y) = (x, y);
    }

    fn straight(&mut self, x: f64) {
        self.path.push_str(&format!("H{}", px(x)));
        self.x = x;
    }
}

fn node_box(node: &GraphBox, x: f64, y: f64) -> Markup {
    html! {
        g class={ "node " (node.shape.class()) } data-node=(node.id) {
            title { (words::line(&node.id)) ": " (node.sub) }
            rect x=(px(x)) y=(px(y)) width=(px(BOX.0)) height=(px(BOX.1)) rx="7" {}
            svg x=(px(x + 11.0)) y=(px(y + 11.0)) width="13" height="13" viewBox="0 0 16 16" { (node.shape.icon()) }
            text x=(px(x + 31.0)) y=(px(y + 21.0)) font-weight="600" { (short(&words::line(&node.id), 22)) }
            text.sub x=(px(x + 31.0)) y=(px(y + 38.0)) { (short(&node.sub, 27)) }
        }
    }
}

fn linked(href: Option<&str>, drawn: &Markup) -> Markup {
    html! { @match href { Some(href) => a href=(href) { (drawn) }, None => (drawn) } }
}

fn short(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room - 1).chain(['…']).collect()
}

const LABELS: f64 = 120.0;
const WIDE: f64 = 1060.0;
const ROW: f64 = 30.0;

/// Who had which slot when. `cursor` is the moment that a replay stands at.
pub(super) fn gantt(intervals: &[Interval], now: Timestamp, cursor: Option<Timestamp>) -> Markup {
    let Some(begin) = intervals.iter().map(|interval| interval.from).min() else { return html! {} };
    let end = intervals.iter().map(|interval| interval.to.unwrap_or(now)).max().unwrap_or(now);
    let span = (words::millis(end) - words::millis(begin)).max(1) as f64;
    let x =
        |at: Timestamp| LABELS + (words::millis(at) - words::millis(begin)) as f64 / span * (WIDE - LABELS);
    let mut rows: Vec<&str> = Vec::new();
    for interval in intervals {
        if !rows.contains(&interval.row.as_str()) {
            rows.push(&interval.row);
        }
    }
    // Slots come first and in their order, merges last.
    rows.sort_by_key(|row| {
        (*row == "merge", row.strip_prefix("slot ").and_then(|number| number.parse::<u32>().ok()))
    });
    let high = rows.len() as f64 * ROW + 24.0;
    html! {
        div.gantt.panel tabindex="0" {
            svg viewBox={ "0 0 " (WIDE) " " (px(high)) } width=(WIDE) height=(px(high)) role="group" aria-label="Slots over time" {
                @for tick in 0..=5 {
                    @let part = f64::from(tick) / 5.0;
                    @let at = Timestamp::from_millisecond(words::millis(begin) + (span * part) as i64).unwrap_or(begin);
                    @let place = LABELS + part * (WIDE - LABELS);
                    line.axis x1=(px(place)) x2=(px(place)) y1="0" y2=(px(high - 20.0)) {}
                    text.tick x=(px(place)) y=(px(high - 5.0)) text-anchor=(if tick == 5 { "end" } else if tick == 0 { "start" } else { "middle" }) { (clock(at, span)) }
                }
                @for (row, name) in rows.iter().enumerate() {
                    text.tick x="0" y=(px(row as f64 * ROW + 19.0)) { (short(&words::line(&words::capital(name)), 16)) }
                    @for interval in intervals.iter().filter(|interval| interval.row == **name) {
                        @let (from, to) = (x(interval.from), x(interval.to.unwrap_or(now)).max(x(interval.from) + 3.0));
                        @let class = span_class(interval);
                        @let lasted = words::between(interval.from, interval.to.unwrap_or(now)).human();
                        @let drawn = html! {
                            g class={ "span " (class) } data-span=(interval.label) {
                                title { (words::line(&interval.label)) ": " (interval.kind) ", " (lasted) }
                                rect x=(px(from)) y=(px(row as f64 * ROW + 4.0)) width=(px(to - from)) height=(px(ROW - 8.0)) {}
                                @if to - from > 46.0 { text x=(px(from + 7.0)) y=(px(row as f64 * ROW + 19.0)) { (short(&words::line(&interval.label), ((to - from - 10.0) / 6.6) as usize)) } }
                            }
                        };
                        (linked(interval.loop_id.as_ref().map(|id| format!("/loops/{}", encoded(id.as_str()))).as_deref(), &drawn))
                    }
                }
                @if let Some(at) = cursor { line.cursor x1=(px(x(at).clamp(LABELS, WIDE))) x2=(px(x(at).clamp(LABELS, WIDE))) y1="0" y2=(px(high - 20.0)) {} }
            }
        }
    }
}

fn span_class(interval: &Interval) -> &'static str {
    match interval.kind.as_str() {
        "work" if interval.to.is_some() => "is-quiet",
        "work" => "is-active",
        "merge" | "publish" => "is-good",
        state => StateShape::of(state).class(),
    }
}

fn clock(at: Timestamp, span: f64) -> String {
    let form = if span < 600_000.0 {
        "%H:%M:%S"
    } else if span < 86_400_000.0 {
        "%H:%M"
    } else {
        "%b %-d %H:%M"
    };
    at.to_zoned(TimeZone::system()).strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, level: u32, after: &[&str]) -> GraphBox {
        let after = after.iter().map(|id| (*id).to_owned()).collect();
        GraphBox {
            id: id.to_owned(),
            level,
            after,
            shape: StateShape::Queued,
            sub: String::new(),
            href: None,
        }
    }

    #[test]
    fn a_line_that_passes_a_column_goes_below_its_boxes() {
        let nodes = [node("a", 0, &[]), node("b", 1, &["a"]), node("c", 2, &["a", "b"])];
        let drawn = graph(&nodes, "Units").into_string();
        let edges: Vec<&str> = drawn.split("path class=\"edge\" d=\"").skip(1).collect();
        assert_eq!(edges.len(), 3);
        let passing = edges.iter().find(|edge| edge.contains('H')).unwrap();
        let below = BOX.1 + WAY;
        assert!(
            passing.contains(&format!(" {} {}H{}", BOX.0 + GAP.0, below, 2.0 * BOX.0 + GAP.0)),
            "{passing}"
        );
        assert!(drawn.contains(&format!("height=\"{}\"", below + 2.0)), "there is room for it: {drawn}");
    }
}
