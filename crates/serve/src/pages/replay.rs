//! A replay: everything as it stood after one event of a loop or run. The server folds the events up to there, so what a replay
//! shows is what the page showed then.

use jiff::{Timestamp, tz::TimeZone};
use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

use super::{shapes::StateShape, words};

/// How many marks the strip above the slider has at most.
const MARKS: usize = 160;
/// How many events before and after the one that is shown are listed.
const AROUND: usize = 9;

/// One event of a replay.
pub(super) struct ReplayedEvent {
    pub(super) at: Timestamp,
    pub(super) shape: Option<StateShape>,
    pub(super) words: String,
}

impl ReplayedEvent {
    /// What an event of any stream says: its type, and what it names.
    pub(super) fn of(at: Timestamp, event: &impl Serialize) -> Self {
        let value = serde_json::to_value(event).unwrap_or(Value::Null);
        let kind = value.get("type").and_then(Value::as_str).unwrap_or("event").to_owned();
        let mut parts = vec![words::capital(&kind.replace(['_', '.'], " "))];
        for key in [
            "unit",
            "iteration",
            "stage",
            "step",
            "slot",
            "agent",
            "name",
            "outcome",
            "state",
            "reason",
            "detail",
            "why",
            "text",
        ] {
            match value.get(key) {
                // A word for programs; what stands behind it says the same.
                Some(Value::String(_)) if key == "reason" && value.get("detail").is_some() => {}
                Some(Value::String(text)) if !text.is_empty() => parts.push(words::line(text)),
                Some(Value::Number(number)) => parts.push(format!("{key} {number}")),
                _ => {}
            }
        }
        if let Some(passed) = value.get("passed").and_then(Value::as_bool) {
            parts.push(if passed { "passed" } else { "failed" }.to_owned());
        }
        let passed = value.get("passed").and_then(Value::as_bool);
        Self {
            at,
            shape: shape(&kind, passed, value.get("state").and_then(Value::as_str)),
            words: parts.join(" · "),
        }
    }
}

fn shape(kind: &str, passed: Option<bool>, state: Option<&str>) -> Option<StateShape> {
    Some(match kind {
        "claim_accepted" | "gates_passed" | "receipt_issued" | "unit.merged" | "unit.completed"
        | "orch.completed" => StateShape::Done,
        "gate_finished" if passed == Some(false) => StateShape::Refused,
        "gate_finished" => StateShape::Done,
        "claim_refused" | "unit.failed" | "orch.failed" | "unit.sent_back" => StateShape::Refused,
        "loop_finished" => StateShape::of(state.unwrap_or("stopped")),
        "iteration_started" | "agent_started" | "unit.started" | "loop_started" | "orch.started" => {
            StateShape::Running
        }
        "claim_made" => StateShape::Judging,
        "question_asked" | "parked" | "paused" | "blocked" => StateShape::Asks,
        _ => return None,
    })
}

/// Where a replay stands.
pub(super) struct Replay {
    pub(super) moments: Vec<ReplayedEvent>,
    /// The event that is the last to have happened, from 0.
    pub(super) index: usize,
    pub(super) at: Timestamp,
    /// The address without the place, which the slider adds.
    pub(super) base: String,
}

impl Replay {
    /// `None` if there are no events.
    pub(super) fn new(moments: Vec<ReplayedEvent>, index: usize, base: String) -> Option<Self> {
        let index = index.min(moments.len().checked_sub(1)?);
        Some(Self { at: moments[index].at, moments, index, base })
    }
}

/// The slider, and the events around the one it stands at.
pub(super) fn scrubber(replay: &Replay, name: &str) -> Markup {
    let last = replay.moments.len() - 1;
    let begin = replay.moments.first().map_or(replay.at, |moment| moment.at);
    let step = |to: usize| {
        format!("{}{}{name}={to}", replay.base, if replay.base.contains('?') { "&" } else { "?" })
    };
    let (from, until) = (replay.index.saturating_sub(AROUND), (replay.index + AROUND).min(last));
    html! {
        section.panel data-key="replay" data-replay=(replay.index) aria-label="Replay" {
            form.scrub method="get" action=(replay.base.split('?').next().unwrap_or_default()) {
                (strip(replay))
                div.bar {
                    button.button.needs-js type="button" data-step="-1" aria-label="One event back" { "←" }
                    button.button.needs-js type="button" data-play aria-pressed="false" { "Play" }
                    button.button.needs-js type="button" data-step="1" aria-label="One event on" { "→" }
                    a.button.no-js href=(step(replay.index.saturating_sub(1))) { "←" }
                    a.button.no-js href=(step((replay.index + 1).min(last))) { "→" }
                    @for (key, value) in query(&replay.base) { input type="hidden" name=(key) value=(value); }
                    input type="range" name=(name) min="0" max=(last) value=(replay.index) data-scrub aria-label="Event" aria-valuetext=(replay.moments[replay.index].words);
                    button.button.no-js type="submit" { "Go" }
                    span.num data-scrub-at { "Event " (replay.index + 1) " of " (replay.moments.len()) " · " (clock(replay.at)) " · " (words::between(begin, replay.at).human_seconds()) " in" }
                }
            }
            ol.events {
                @for (at, moment) in replay.moments.iter().enumerate().take(until + 1).skip(from) {
                    li class=[(at == replay.index).then_some("now")] data-event=(at) aria-current=[(at == replay.index).then_some("step")] {
                        span.num { (clock(moment.at)) }
                        span class={ "state " (moment.shape.map_or("", StateShape::class)) } { @if let Some(shape) = moment.shape { (shape.icon()) } }
                        span.plain { (words::with_code(&moment.words)) }
                    }
                }
            }
        }
    }
}

fn query(base: &str) -> Vec<(&str, &str)> {
    let query = base.split_once('?').map_or("", |(_, query)| query);
    query.split('&').filter_map(|pair| pair.split_once('=')).collect()
}

/// What happened when, at a glance: of several events behind one mark the one that matters most.
fn strip(replay: &Replay) -> Markup {
    let all = replay.moments.len();
    let marks = all.min(MARKS);
    let rank = |shape: &StateShape| match shape {
        StateShape::Refused | StateShape::Failed => 3,
        StateShape::Done => 2,
        StateShape::Asks => 4,
        _ => 1,
    };
    html! {
        div.ticks aria-hidden="true" {
            @for mark in 0..marks {
                @let (from, to) = (mark * all / marks, ((mark + 1) * all / marks).max(mark * all / marks + 1));
                @let shape = replay.moments[from..to].iter().filter_map(|moment| moment.shape).max_by_key(rank);
                i class={ (shape.map_or("", StateShape::class)) @if from <= replay.index { " past" } } {}
            }
        }
    }
}

fn clock(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}
