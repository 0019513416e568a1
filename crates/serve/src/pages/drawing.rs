//! Drawings of a run: the graph of its units or steps, and its slots over time.

use dacapo_core::view::Interval;
use jiff::{Timestamp, tz::TimeZone};
use maud::{Markup, html};

use super::{encoded, plot::px, shapes::Shape, words};

/// One box of a graph.
pub(super) struct Node {
    pub(super) id: String,
    pub(super) level: u32,
    pub(super) after: Vec<String>,
    pub(super) shape: Shape,
    pub(super) sub: String,
    pub(super) href: Option<String>,
}

const BOX: (f64, f64) = (190.0, 50.0);
const GAP: (f64, f64) = (54.0, 16.0);

/// Boxes in columns by their level, with lines from what comes first.
pub(super) fn graph(nodes: &[Node], label: &str) -> Markup {
    let mut rows: Vec<usize> = Vec::new();
    let mut places: Vec<(f64, f64)> = Vec::new();
    for node in nodes {
        let level = node.level as usize;
        rows.resize(rows.len().max(level + 1), 0);
        places.push((level as f64 * (BOX.0 + GAP.0), rows[level] as f64 * (BOX.1 + GAP.1)));
        rows[level] += 1;
    }
    let wide = rows.len() as f64 * (BOX.0 + GAP.0) - GAP.0;
    let high = rows.iter().copied().max().unwrap_or(0) as f64 * (BOX.1 + GAP.1) - GAP.1;
    let place = |id: &str| nodes.iter().position(|node| node.id == id).map(|at| places[at]);
    html! {
        div.graph.panel tabindex="0" {
            svg viewBox={ "-1 -1 " (px(wide + 2.0)) " " (px(high + 2.0)) } width=(px(wide + 2.0)) height=(px(high + 2.0)) role="group" aria-label=(label) {
                @for (node, (x, y)) in nodes.iter().zip(&places) {
                    @for (from_x, from_y) in node.after.iter().filter_map(|id| place(id)) {
                        @let (x1, y1, y2) = (from_x + BOX.0, from_y + BOX.1 / 2.0, y + BOX.1 / 2.0);
                        @let middle = (x1 + x) / 2.0;
                        path.edge d={ "M" (px(x1)) " " (px(y1)) "C" (px(middle)) " " (px(y1)) " " (px(middle)) " " (px(y2)) " " (px(*x)) " " (px(y2)) } {}
                    }
                }
                @for (node, (x, y)) in nodes.iter().zip(&places) { (linked(node.href.as_deref(), &node_box(node, *x, *y))) }
            }
        }
    }
}

fn node_box(node: &Node, x: f64, y: f64) -> Markup {
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
    let Some(begin) = intervals.iter().map(|interval| interval.from).min() else {
        return html! { p.panel.empty { "Nothing has taken a slot yet." } };
    };
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
        state => Shape::of(state).class(),
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
