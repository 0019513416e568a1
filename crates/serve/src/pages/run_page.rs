//! The page of a run: of units with their graph, merge train and slots; of a workflow with its steps; of a task with its stages.

use dacapo_core::view::{
    Card, Interval, RunPage, RunView, StageTaskView, StepNode, TaskPage, TrainCar, UnitNode, WorkflowPage,
    WorkflowView,
};
use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    board, controls,
    drawing::{self, GraphBox, gantt},
    encoded,
    replay::{Replay, scrubber},
    shapes::{StateShape, badge, state},
    words,
};

/// A run with its page.
pub(super) enum Run {
    Units(Box<RunView>, RunPage),
    Workflow(Box<WorkflowView>, WorkflowPage),
    Task(Box<StageTaskView>, TaskPage),
}

/// What is known of a run beside its page.
pub(super) struct RunFrame<'a> {
    pub(super) card: Option<&'a Card>,
    pub(super) now: Timestamp,
    pub(super) may_act: bool,
    pub(super) replay: Option<&'a Replay>,
}

impl Run {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Units(view, _) => view.id.as_str(),
            Self::Workflow(view, _) => view.id.as_str(),
            Self::Task(view, _) => view.id.as_str(),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Units(view, _) => format!("Units of {}", words::folder_name(&view.root)),
            Self::Workflow(view, _) => words::line(&view.workflow),
            Self::Task(view, _) => words::line(&format!("{} {}", view.task, view.title)),
        }
    }

    /// The run and its loops: an event of any of them changes the page. One that begins names its run.
    pub(super) fn streams(&self) -> String {
        let mut ids = vec![self.id()];
        ids.extend(self.loops().iter().map(|card| card.id.as_str()));
        ids.join(" ")
    }

    /// What a person is asked, whole; a card has only the beginning of it.
    fn question(&self) -> Option<&str> {
        match self {
            Self::Units(..) => None,
            Self::Workflow(view, _) => view.question.as_ref().map(|question| question.message.as_str()),
            Self::Task(view, _) => view.question.as_ref().map(|question| question.text.as_str()),
        }
    }

    /// State, reason or detail, beginning, end.
    fn standing(&self) -> (&str, Option<&str>, Timestamp, Option<Timestamp>) {
        match self {
            Self::Units(view, _) => (&view.state, view.detail.as_deref(), view.started_at, view.ended_at),
            Self::Workflow(view, _) => (&view.state, view.detail.as_deref(), view.started_at, view.ended_at),
            Self::Task(view, _) => (&view.state, view.detail.as_deref(), view.started_at, view.ended_at),
        }
    }

    fn loops(&self) -> &[Card] {
        match self {
            Self::Units(_, page) => &page.loops,
            Self::Workflow(_, page) => &page.loops,
            Self::Task(_, page) => &page.loops,
        }
    }

    fn intervals(&self) -> &[Interval] {
        match self {
            Self::Units(_, page) => &page.intervals,
            Self::Workflow(_, page) => &page.intervals,
            Self::Task(_, page) => &page.intervals,
        }
    }
}

pub(super) fn run_page(run: &Run, frame: &RunFrame<'_>) -> Markup {
    // A replay shows the past, whose clock stands still.
    let now = frame.replay.map_or(frame.now, |replay| replay.at);
    html! {
        (intro(run, frame, now))
        @if let Some(replay) = frame.replay { (scrubber(replay, "at")) }
        @match run {
            Run::Units(view, page) => (units(view, page)),
            Run::Workflow(_, page) => (workflow(page)),
            Run::Task(_, page) => (task(page)),
        }
        @if !run.intervals().is_empty() {
            section data-key="gantt" {
                header { h2 { @if matches!(run, Run::Units(..)) { "Slots over time" } @else { "Over time" } } }
                (gantt(run.intervals(), now, frame.replay.map(|replay| replay.at)))
            }
        }
        (loops(run.loops(), now))
    }
}

fn intro(run: &Run, frame: &RunFrame<'_>, now: Timestamp) -> Markup {
    let (own_state, detail, began, ended) = run.standing();
    let (shown, shape, word) = match frame.card.filter(|_| frame.replay.is_none()) {
        Some(card) => (card.state.as_str(), board::shape_of(card), card.words()),
        None => (own_state, StateShape::of(own_state), own_state),
    };
    let cost: Option<f64> = run.loops().iter().filter_map(|card| card.cost_usd).reduce(|a, b| a + b);
    let link = format!("/runs/{}", encoded(run.id()));
    html! {
        section.intro data-key="intro" data-run=(run.id()) data-state=(shown) data-unseen=[frame.card.is_some_and(|card| card.is_unseen).then_some(run.id())] {
            a.up href="/" data-up { "Board" }
            div.title-row {
                h1.plain { (run.name()) }
                (badge(shape, word))
                @if frame.replay.is_some() { a.button href=(link) { "Back to now" } }
                @else { a.button href={ (link) "?at=0" } data-tab="replay" { "Replay" } }
            }
            @let asks = frame.card.and_then(|card| card.asks.as_deref()).filter(|_| frame.replay.is_none());
            @if let Some(text) = run.question().or(asks).or(detail) { p.detail.plain { (words::line(text)) } }
            dl.facts-row {
                @if let Run::Units(view, page) = run {
                    div { dt { "Units" } dd.num { (page.units.iter().filter(|unit| unit.status.is_good()).count()) " of " (page.units.len()) " done" } }
                    div { dt { "Slots" } dd.num { (view.parallel) } }
                    div { dt { "Target" } dd.mono.plain { (words::line(&view.target)) } }
                }
                @if let Run::Task(view, _) = run {
                    div { dt { "Target" } dd.mono.plain { (words::line(&view.target)) } }
                    @if let Some(branch) = &view.branch { div { dt { "Branch" } dd.mono.plain { (words::line(branch)) } } }
                }
                div {
                    dt { @if ended.is_some() { "Lasted" } @else if own_state == "running" { "Running" } @else { "Open for" } }
                    dd.num {
                        @match ended {
                            Some(at) => (words::between(began, at).human()),
                            None if frame.replay.is_some() => (words::between(began, now).human_seconds()),
                            None => span data-since=(words::millis(began)) { (words::between(began, now).human_seconds()) },
                        }
                    }
                }
                @if let Some(cost) = cost { div { dt { "Cost" } dd.num { (words::dollars(cost)) } } }
                @if !run.loops().is_empty() { div { dt { "Loops" } dd.num { (run.loops().len()) } } }
                div { dt { "Run" } dd.mono { (run.id()) } }
            }
            @match frame.card {
                Some(card) if frame.may_act && frame.replay.is_none() && !card.actions.is_empty() => (controls::all(card)),
                Some(card) if frame.replay.is_none() => @if let Some(command) = &card.command { p.how { code.plain { (words::line(command)) } } },
                _ => {}
            }
        }
    }
}

fn units(view: &RunView, page: &RunPage) -> Markup {
    let node = |unit: &UnitNode| GraphBox {
        id: unit.unit.to_string(),
        level: unit.level,
        after: unit.depends_on.iter().map(ToString::to_string).collect(),
        shape: StateShape::of(&unit.words),
        sub: if unit.tasks.all > 0 {
            format!("{} · {}/{} tasks", unit.words, unit.tasks.done, unit.tasks.all)
        } else {
            unit.words.clone()
        },
        href: unit.loop_id.as_ref().map(|id| format!("/loops/{}", encoded(id.as_str()))),
    };
    let nodes: Vec<GraphBox> = page.units.iter().map(node).collect();
    html! {
        section data-key="graph" {
            header { h2 { "Units" } span.count { (page.units.len()) } }
            (drawing::graph(&nodes, "Units and what they wait for"))
        }
        @if !page.train.is_empty() {
            section data-key="train" {
                header { h2 { "Merge train" } span.muted { "into " code.plain { (words::line(&view.target)) } } }
                ol.train.panel tabindex="0" { @for car in &page.train { (wagon(car)) } li.wagon.engine { (words::line(&view.target)) } }
            }
        }
        section data-key="units" aria-label="Units" {
            table.cards.panel {
                thead { tr { th { "Unit" } th { "State" } th.num { "Tasks" } th.num { "Slot" } th.num { "Iteration" } th.num { "Cost" } } }
                tbody { @for unit in &page.units { (unit_row(unit)) } }
            }
        }
    }
}

fn unit_row(unit: &UnitNode) -> Markup {
    html! {
        tr data-key={ "unit-" (unit.unit) } data-pick data-unit=(unit.unit) data-state=(unit.words) data-loop=[unit.loop_id.as_ref().map(|id| id.as_str())] {
            td {
                @match &unit.loop_id {
                    Some(id) => a.row-title.plain href={ "/loops/" (encoded(id.as_str())) } { (words::line(unit.unit.as_str())) },
                    None => span.row-title.plain { (words::line(unit.unit.as_str())) },
                }
                @if let Some(branch) = &unit.branch { p.muted.mono.plain { (branch) } }
                @if let Some(detail) = &unit.detail { p.plain { (detail) } }
                @if !unit.blocked_by.is_empty() { p.is-warn { "Blocked by " (unit.blocked_by.iter().map(|id| words::line(id.as_str())).collect::<Vec<_>>().join(", ")) } }
                @if !unit.receipts.is_empty() { p { @for id in &unit.receipts { a.link href={ "/receipts/" (encoded(id.as_str())) } { "Receipt" } " " } } }
            }
            td { (state(StateShape::of(&unit.words), &words::capital(&unit.words))) }
            td.num data-label="Tasks" { (unit.tasks.done) "/" (unit.tasks.all) }
            td.num data-label="Slot" { @if let Some(slot) = unit.slot { (slot) } }
            td.num data-label="Iteration" { @if unit.iteration > 0 { (unit.iteration) "/" (unit.max_iterations) } }
            td.num data-label="Cost" { @if let Some(cost) = unit.cost_usd { (words::dollars(cost)) } }
        }
    }
}

fn wagon(car: &TrainCar) -> Markup {
    let word = car.state.replace('_', " ");
    let shape = StateShape::of(&car.state);
    html! {
        li class={ "wagon " (shape.class()) } data-car=(car.unit) data-state=(car.state) data-key={ "car-" (car.unit) } {
            span.clip.plain { b { (words::line(car.unit.as_str())) } }
            (state(shape, &words::capital(&word)))
            @if let Some(commit) = &car.commit { code.muted { (commit.get(..10).unwrap_or(commit)) } }
        }
    }
}

fn workflow(page: &WorkflowPage) -> Markup {
    let node = |step: &StepNode| GraphBox {
        id: step.view.id.to_string(),
        level: step.level,
        after: step.depends_on.clone(),
        shape: StateShape::of(&step.view.state),
        sub: format!("{} · {}", step.view.kind, step.view.state),
        href: step.loop_id.as_ref().map(|id| format!("/loops/{}", encoded(id.as_str()))),
    };
    let nodes: Vec<GraphBox> = page.steps.iter().map(node).collect();
    html! {
        section data-key="graph" { header { h2 { "Steps" } span.count { (page.steps.len()) } } (drawing::graph(&nodes, "Steps and what they wait for")) }
        section data-key="steps" {
            ol.steps.panel {
                @for step in &page.steps {
                    li data-key={ "step-" (step.view.id) } data-step-id=(step.view.id) data-pick data-state=(step.view.state) data-loop=[step.loop_id.as_ref().map(|id| id.as_str())] {
                        (state(StateShape::of(&step.view.state), &words::capital(&step.view.state)))
                        div {
                            @match &step.loop_id {
                                Some(id) => a.row-title.plain href={ "/loops/" (encoded(id.as_str())) } { (step.view.id) },
                                None => span.row-title.plain { (step.view.id) },
                            }
                            " " span.muted { (words::line(&step.view.kind)) }
                            @if let Some(detail) = &step.view.detail { p.muted.plain { (words::line(detail)) } }
                            @if let Some(waits) = &step.view.waits_for { p.is-warn.plain { (words::line(waits)) } }
                        }
                        span.num.muted {
                            @if let (Some(done), Some(most)) = (step.view.iterations, step.view.max_iterations) { (done) "/" (most) " " }
                            @if let Some(cost) = step.cost_usd { (words::dollars(cost)) }
                        }
                    }
                }
            }
        }
    }
}

/// The stage as people write it.
fn stage_name(stage: &str) -> String {
    if stage == "qa" { "QA".to_owned() } else { words::capital(&words::line(stage)) }
}

fn task(page: &TaskPage) -> Markup {
    html! {
        section data-key="stages" {
            header { h2 { "Stages" } span.count { (page.stages.len()) } }
            @if page.stages.is_empty() { p.panel.empty { "No stage has begun." } }
            @else {
                ol.pipeline.panel {
                    @for (at, stage) in page.stages.iter().enumerate() {
                        @let shape = StateShape::of(&stage.state);
                        li class={ "stage " (shape.class()) } data-key={ "stage-" (at) } data-stage=(stage.stage) data-state=(stage.state) data-pick data-loop=[stage.loop_id.as_ref().map(|id| id.as_str())] {
                            @match &stage.loop_id {
                                Some(id) => a.row-title href={ "/loops/" (encoded(id.as_str())) } { (stage_name(&stage.stage)) @if stage.run > 1 { span.muted { " run " (stage.run) } } },
                                None => span.row-title { (stage_name(&stage.stage)) },
                            }
                            (state(shape, &words::capital(&stage.state)))
                            @if stage.max_iterations > 0 { span.num.muted { (stage.iterations) "/" (stage.max_iterations) @if let Some(cost) = stage.cost_usd { " · " (words::dollars(cost)) } } }
                            @if let Some(detail) = &stage.detail { span.muted.plain { (detail) } }
                        }
                    }
                }
            }
        }
        @if !page.findings.is_empty() {
            section data-key="findings" {
                header { h2 { "Findings of reviewers" } span.count { (page.findings.len()) } }
                ul.steps.panel {
                    @for (number, found, text) in &page.findings {
                        li { span.muted { "#" (number) " " (found) } span.plain { (text) } span {} }
                    }
                }
            }
        }
    }
}

fn loops(loops: &[Card], now: Timestamp) -> Markup {
    html! {
        @if !loops.is_empty() {
            section data-key="loops" {
                header { h2 { "Loops" } span.count { (loops.len()) } }
                ol.slots { @for card in loops { (board::card(card, now)) } }
            }
        }
    }
}
