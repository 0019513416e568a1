//! The page of one loop: its iterations in time, and beside them its log, prompt, difference, events or replay.

use dacapo_core::{
    event::{GateRole, IterationOutcome},
    view::{Card, GateLine, IterationLine, LoopPage, LoopView, Note, Verdict},
};
use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    board::{pips, shape_of as shape_of_card},
    controls, encoded,
    shapes::{StateShape, badge},
    words,
};

/// What stands beside the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LoopPageTab {
    #[default]
    Log,
    Prompt,
    Diff,
    Replay,
}

impl LoopPageTab {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Log, "log", "Log"),
        (Self::Prompt, "prompt", "Prompt"),
        (Self::Diff, "diff", "Diff"),
        (Self::Replay, "replay", "Replay"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(tab, _, _)| *tab == self).map_or("log", |(_, name, _)| *name)
    }
}

/// What of a loop is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    pub(super) tab: LoopPageTab,
    /// One iteration alone.
    pub(super) iteration: Option<u32>,
}

/// Everything above the tab's own part.
pub(super) struct LoopFrame<'a> {
    pub(super) view: &'a LoopView,
    pub(super) card: &'a Card,
    pub(super) page: &'a LoopPage,
    pub(super) now: Timestamp,
    pub(super) may_act: bool,
    /// It is shown as it once stood: its clocks stand still.
    pub(super) is_past: bool,
    /// The user's home, which is shown as `~`.
    pub(super) home: Option<&'a std::path::Path>,
}

pub(super) fn link(id: &str, shown: Shown) -> String {
    let iteration = shown.iteration.map(|number| format!("&iteration={number}")).unwrap_or_default();
    format!("/loops/{}?show={}{iteration}", encoded(id), shown.tab.name())
}

pub(super) fn loop_page(frame: &LoopFrame<'_>, shown: Shown, beside: &Markup) -> Markup {
    let id = frame.view.id.as_str();
    html! {
        (intro(frame))
        div.split {
            section data-key="timeline" aria-labelledby="timeline-title" {
                header { h2 #timeline-title { "Timeline" } }
                (timeline(frame, shown.iteration))
            }
            section class=[(shown.tab == LoopPageTab::Log).then_some("stays")] data-key={ "tab-" (shown.tab.name()) } {
                nav.tabs aria-label="What is shown" {
                    @for (tab, name, words) in LoopPageTab::ALL {
                        a href=(link(id, Shown { tab, ..shown })) data-tab=(name) aria-current=[(tab == shown.tab).then_some("page")] { (words) }
                    }
                    @if frame.page.receipt.is_some() { a href={ "/receipts/" (encoded(id)) } data-tab="receipt" { "Receipt" } }
                }
                @if let Some(number) = shown.iteration {
                    p.only { "Iteration " (number) " alone. " a.link href=(link(id, Shown { iteration: None, ..shown })) { "Show all" } }
                }
                (beside)
            }
        }
    }
}

pub(super) fn intro(frame: &LoopFrame<'_>) -> Markup {
    let LoopFrame { view, card, now, .. } = frame;
    let title = view.tally.title.as_deref().filter(|title| *title != view.task.as_str());
    let folder = match frame.home.and_then(|home| view.workspace.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => view.workspace.display().to_string(),
    };
    html! {
        section.intro data-key="intro" data-loop=(view.id) data-state=(card.state) data-unseen=[card.is_unseen.then_some(view.id.as_str())] {
            a.up href="/" data-up { "Board" }
            div.title-row {
                h1.plain { (words::line(view.task.as_str())) }
                (badge(shape_of_card(card), card.words()))
            }
            @if let Some(title) = title { p.detail.plain { (words::line(title)) } }
            @if let Some(text) = card.asks.as_deref().or(card.detail.as_deref()).filter(|_| card.state != "completed") {
                p class={ "detail plain " (shape_of_card(card).class()) } { (text) }
            }
            dl.facts-row {
                div { dt { "Iteration" } dd.num { (view.iteration) " of " (view.max_iterations) } }
                @if let Some(stage) = &view.stage { div { dt { "Stage" } dd { (words::line(stage)) } } }
                div { dt { "Agent" } dd.plain { (words::line(&view.agent)) @if let Some(model) = &view.tally.model { span.muted { " " (words::line(model)) } } } }
                div {
                    dt { @if view.is_over() { "Lasted" } @else { "Running" } }
                    dd.num {
                        @let from = view.tally.runs_since.unwrap_or(view.started_at);
                        @match view.ended_at {
                            Some(at) => (words::between(from, at).human()),
                            None if frame.is_past => (words::between(from, *now).human_seconds()),
                            None => span data-since=(words::millis(from)) { (words::between(from, *now).human_seconds()) },
                        }
                    }
                }
                div { dt { "Cost" } dd.num { (words::cost(view.cost_usd, view.cost_estimated).unwrap_or_else(|| "unknown".to_owned())) } }
                @if let Some(tokens) = &view.tokens { div { dt { "Tokens" } dd.num { (words::usage(tokens)) } } }
                div { dt { "Gates" } dd.num { (view.gates) } }
                @if view.tally.refused() > 0 { div { dt { "Refused" } dd.num.is-bad { (view.tally.refused()) } } }
                div { dt { "Folder" } dd.mono.plain { (words::line(&folder)) } }
                @if let Some(run) = &view.tally.run { div { dt { "Run" } dd.mono { a.link href={ "/runs/" (encoded(run.as_str())) } { (run) } } } }
                div { dt { "Loop" } dd.mono { (view.id) } }
            }
            @if !view.is_over() { (pips(view.iteration, view.max_iterations)) }
            @if frame.may_act && !card.actions.is_empty() { (controls::all(card)) }
            @else if let Some(command) = card.command.as_ref() { p.how { code.plain { (words::line(command)) } } }
        }
    }
}

fn shape_of(line: &IterationLine, is_over: bool) -> StateShape {
    match (&line.verdict, line.outcome) {
        (Some(Verdict::Accepted { .. }), _) | (_, Some(IterationOutcome::Accepted)) => StateShape::Done,
        (Some(Verdict::Refused { .. }), _) | (_, Some(IterationOutcome::Refused)) => StateShape::Refused,
        (_, Some(IterationOutcome::Waiting | IterationOutcome::Blocked)) => StateShape::Asks,
        (_, Some(IterationOutcome::Interrupted)) => StateShape::Broken,
        (_, Some(IterationOutcome::NoClaim | IterationOutcome::NotStarted)) => StateShape::Stopped,
        (None, None) if is_over || line.iteration == 0 => StateShape::Stopped,
        (None, None) if !line.claim.is_empty() => StateShape::Judging,
        (None, None) => StateShape::Running,
    }
}

/// The iterations, as they came; `shown` is the one whose log, prompt or difference stands beside them.
fn timeline(frame: &LoopFrame<'_>, shown: Option<u32>) -> Markup {
    let LoopFrame { page, now, is_past, .. } = *frame;
    let (id, is_over) = (frame.view.id.as_str(), frame.view.is_over());
    let is_worth = |line: &&IterationLine| {
        line.iteration > 0 || !line.notes.is_empty() || !line.gates.is_empty() || page.iterations.len() == 1
    };
    html! {
        ol.timeline {
            @for line in page.iterations.iter().filter(is_worth) {
                @let shape = shape_of(line, is_over);
                @let is_shown = shown == Some(line.iteration);
                li class={ (shape.class()) @if is_shown { " shown" } } data-key={ "iteration-" (line.seq) } data-iteration=(line.iteration) data-verdict=(line.words()) {
                    (shape.icon())
                    div.line {
                        @if line.iteration > 0 {
                            a.name href=(link(id, Shown { tab: LoopPageTab::Log, iteration: Some(line.iteration) })) { "Iteration " (line.iteration) }
                        } @else {
                            span.name { "Before the first agent" }
                        }
                        span.num {
                            @if line.ended_at.is_some() || is_over || is_past { (line.lasted(now).human()) }
                            @else { span data-since=(words::millis(line.started_at)) { (line.lasted(now).human_seconds()) } }
                            @if let Some(cost) = words::cost(line.cost_usd, line.cost_estimated) { " · " (cost) }
                        }
                    }
                    (verdict(line))
                    @if !line.gates.is_empty() { (gates(&line.gates)) }
                    @for note in &line.notes { (self::note(note)) }
                    @if line.iteration > 0 {
                        p.links {
                            @for (tab, words) in [(LoopPageTab::Log, "Log"), (LoopPageTab::Prompt, "Prompt"), (LoopPageTab::Diff, "Diff")] {
                                @if tab != LoopPageTab::Diff || line.has_snapshot {
                                    a href=(link(id, Shown { tab, iteration: Some(line.iteration) })) aria-label={ (words) " of iteration " (line.iteration) } { (words) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn verdict(line: &IterationLine) -> Markup {
    let failed = line.attempts.iter().rev().find_map(|attempt| attempt.detail.as_deref());
    html! {
        @if !line.claim.is_empty() { p.claim { "Claims to be done: " span.plain { (words::with_code(&line.claim.join(", "))) } } }
        p.verdict {
            @match &line.verdict {
                Some(Verdict::Refused { detail, .. }) => { b { "Refused" } ": " span.plain { (words::with_code(detail)) } }
                _ if line.iteration > 0 => (words::capital(line.words())),
                _ => {}
            }
            @if let Some(detail) = failed.filter(|_| line.verdict.is_none()) { span.muted.plain { " · " (detail) } }
        }
    }
}

/// The same gate may run several times for one claim: with the agent's tests, with those of the start, in a fresh checkout.
fn gates(gates: &[GateLine]) -> Markup {
    let is_same = |a: &GateLine, b: &GateLine| (a.role, &a.name, a.passed) == (b.role, &b.name, b.passed);
    let mut shown: Vec<(&GateLine, usize)> = Vec::new();
    for gate in gates.iter().filter(|gate| gate.role != GateRole::Until || gate.passed == Some(true)) {
        match shown.iter_mut().find(|(other, _)| is_same(gate, other)) {
            Some((_, times)) => *times += 1,
            None => shown.push((gate, 1)),
        }
    }
    html! {
        ul.gates {
            @for (gate, times) in shown {
                @let (shape, word) = match gate.passed {
                    None => (StateShape::Running, "runs"),
                    Some(true) if gate.tolerated => (StateShape::Waits, "red as before, which is allowed"),
                    Some(true) => (StateShape::Done, "passed"),
                    Some(false) => (StateShape::Refused, "failed"),
                };
                li class={ "gate " (shape.class()) } title={ (gate.command) ": " (word) } data-gate=(gate.name) data-passed=[gate.passed] {
                    (shape.icon())
                    span.clip.plain { (gate.name) }
                    span.sr { (word) }
                    @if times > 1 { span.num { "×" (times) } }
                    @if gate.flaky { span.num { "flaky" } }
                    @if gate.role == GateRole::Baseline { span.num { "before" } }
                    @if let Some(code) = gate.exit_code.filter(|_| gate.passed == Some(false)) { span.num { "exit " (code) } }
                    @if let Some(duration) = gate.duration_ms { span.num { (duration.human()) } }
                }
            }
        }
        @for gate in gates.iter().filter(|gate| gate.passed == Some(false) && !gate.output_tail.trim().is_empty()) {
            details.tail {
                summary { "What " code.plain { (gate.name) } " printed" }
                pre.paper { (words::prose(gate.output_tail.as_bytes())) }
            }
        }
    }
}

fn note(note: &Note) -> Markup {
    let shape = match note.kind.as_str() {
        "question" | "blocked" => StateShape::Asks,
        "parked" | "waits" | "budget" => StateShape::Waits,
        "warned" => StateShape::Broken,
        "paused" => StateShape::Paused,
        "approved" | "commit" => StateShape::Done,
        _ => StateShape::Stopped,
    };
    html! {
        p.note-line data-note=(note.kind) {
            span class={ "state " (shape.class()) } { (shape.icon()) span { (words::capital(&note.kind)) } }
            " " span.plain { (note.text) }
        }
    }
}

/// The channels of a log.
const CHANNELS: [(&str, &str); 3] = [("stdout", "Output"), ("stderr", "Errors"), ("gates", "Gates")];

/// A log that follows from byte `begin` of its channel on, with its bar. `lines` are the newest, for a browser without scripts.
pub(super) fn log(
    id: &str,
    shown: Shown,
    (channel, begin): (&str, u64),
    lines: &[super::log::LogLine],
) -> Markup {
    let iteration = shown.iteration.map(|number| number.to_string());
    let key = format!("log-{id}-{channel}-{}", iteration.as_deref().unwrap_or("all"));
    html! {
        div.panel.log-box data-keep data-key=(key) {
            div.log-bar {
                nav.spans aria-label="Which output" {
                    @for (name, words) in CHANNELS {
                        a.button href={ (link(id, shown)) "&channel=" (name) } aria-current=[(name == channel).then_some("page")] { (words) }
                    }
                }
                button.button.needs-js type="button" data-follow-button aria-pressed="true" { "Follow" }
                input.field.needs-js type="search" placeholder="Search the log" aria-label="Search the log" data-log-search;
                span.found.needs-js data-log-found aria-live="polite" {}
                span.lines.needs-js data-log-lines {}
            }
            div.log data-log={ "/api/loops/" (encoded(id)) "/log/follow?channel=" (channel) } data-from=(begin) data-only=[iteration] data-loop=(id)
                tabindex="0" role="log" aria-live="off" aria-label="Log" {
                @if lines.is_empty() { p.note { "Nothing was printed yet." } }
                @for line in lines { p class=[line.kind.class()] { (line.text) } }
            }
        }
    }
}

pub(super) fn prompt(text: &str) -> Markup {
    html! { pre.paper.panel data-prompt { @if text.is_empty() { "No prompt was kept." } @else { (text) } } }
}
