//! Cards: what each kind of stream looks like on the board, and in which lane and order it stands.

use std::{
    cmp::{Ordering, Reverse},
    collections::{HashMap, HashSet},
};

use super::{Action, BoardFacts, Card, CardKind, Lane, TodoTask, clean};
use crate::{
    event::{Reason, Spend},
    ids::{ProjectId, RunId, TaskId},
    judge::claim::RefusalReason,
    limits::Budget,
    stages::{StageName, StageTaskStatus},
    text::count,
    view::{
        AllViews, LoopView, Need, RefusedBy, RunView, StageTaskView, StreamKind, UnitStatus, UnitView,
        Urgency, WorkflowView, attention::folder_name,
    },
};

/// Every card of the board, in no order.
pub(super) fn cards(standing: &AllViews, facts: &BoardFacts, needs: &[Need]) -> Vec<Card> {
    let by_run = LoopsOfRuns::of(standing);
    let need_of = |kind: StreamKind, id: &str, name: &str| {
        needs.iter().find(|need| {
            need.kind == kind && need.id == id && (kind != StreamKind::Unit || need.name == name)
        })
    };
    // A person looks at a run with its units.
    let is_looked_at = |card: &Card| match (&card.kind, &card.run) {
        (CardKind::Unit, Some(run)) => facts.looked_at.contains(run.as_str()),
        _ => facts.looked_at.contains(&card.id),
    };
    let is_new = |card: &Card| {
        card.is_over
            && card.ended_at.is_some_and(|at| at >= facts.marked_since)
            && matches!(card.state.as_str(), "completed" | "failed" | "blocked" | "stopped")
            && !is_looked_at(card)
    };
    let mut cards = Vec::new();
    for view in standing.loops.iter().filter(|view| view.tally.run.is_none()) {
        let mut card = card_of_loop(view);
        take_need(&mut card, need_of(StreamKind::Loop, view.id.as_str(), ""));
        cards.push(card);
    }
    for (run, units) in &standing.runs {
        let loops = by_run.of_run(&run.id);
        let mut card = of_run(run, units, loops);
        take_need(&mut card, need_of(StreamKind::Run, run.id.as_str(), ""));
        cards.push(card);
        for unit in units {
            let need = need_of(StreamKind::Unit, run.id.as_str(), unit.unit.as_str());
            // The units of a run that is over are told on its page.
            if run.is_over() && need.is_none() {
                continue;
            }
            let of_unit = loops.iter().filter(|view| view.task.as_str() == unit.unit.as_str());
            let mut card = of_unit_view(run, unit, &of_unit.copied().collect::<Vec<_>>());
            take_need(&mut card, need);
            cards.push(card);
        }
    }
    for view in &standing.workflows {
        let mut card = of_workflow(view, by_run.of_run(&view.id));
        take_need(&mut card, need_of(StreamKind::Workflow, view.id.as_str(), ""));
        cards.push(card);
    }
    for view in newest_of_tasks(&standing.tasks) {
        let mut card = of_task(view, by_run.of_run(&view.id));
        take_need(&mut card, need_of(StreamKind::Task, view.id.as_str(), ""));
        cards.push(card);
    }
    let run: HashSet<(&ProjectId, &TaskId)> =
        standing.tasks.iter().map(|view| (&view.project, &view.task)).collect();
    cards.extend(facts.todo.iter().filter(|todo| !run.contains(&(&todo.project, &todo.task))).map(of_todo));
    for card in &mut cards {
        card.is_unseen = is_new(card);
    }
    cards
}

/// The order inside of a lane: what is at work by its beginning, what waits by urgency, what ended by its end. It changes only
/// when something happens.
pub(super) fn order(a: &Card, b: &Card) -> Ordering {
    let by_lane = match a.lane {
        Lane::Waiting => {
            let urgency = |card: &Card| (card.need.is_none(), card.need);
            urgency(a).cmp(&urgency(b)).then_with(|| Reverse(a.need_since).cmp(&Reverse(b.need_since)))
        }
        Lane::Done => Reverse(a.ended_at).cmp(&Reverse(b.ended_at)),
        Lane::Todo => Ordering::Equal,
        _ => a.started_at.cmp(&b.started_at),
    };
    a.lane.cmp(&b.lane).then(by_lane).then_with(|| a.name.cmp(&b.name)).then_with(|| a.id.cmp(&b.id))
}

/// The loops of each run, in the order in which they began.
struct LoopsOfRuns<'a>(HashMap<&'a RunId, Vec<&'a LoopView>>);

impl<'a> LoopsOfRuns<'a> {
    fn of(standing: &'a AllViews) -> Self {
        let mut runs: HashMap<&RunId, Vec<&LoopView>> = HashMap::new();
        for view in &standing.loops {
            if let Some(run) = &view.tally.run {
                runs.entry(run).or_default().push(view);
            }
        }
        runs.values_mut().for_each(|loops| loops.sort_by_key(|view| view.started_at));
        Self(runs)
    }

    fn of_run(&self, run: &RunId) -> &[&'a LoopView] {
        self.0.get(run).map_or(&[], Vec::as_slice)
    }
}

/// Of each task the newest run.
fn newest_of_tasks(tasks: &[StageTaskView]) -> impl Iterator<Item = &StageTaskView> {
    let mut newest: HashMap<(&ProjectId, &TaskId), &StageTaskView> = HashMap::new();
    for view in tasks {
        let known = newest.entry((&view.project, &view.task)).or_insert(view);
        if known.started_at < view.started_at {
            *known = view;
        }
    }
    newest.into_values()
}

/// Says what the need is about, and moves a card that does not go on without a person.
fn take_need(card: &mut Card, need: Option<&Need>) {
    let Some(need) = need else { return };
    (card.need, card.need_since) = (Some(need.urgency), Some(need.since));
    card.asks = Some(clean(&need.what)).filter(|what| !what.is_empty());
    card.command = Some(need.command.clone());
    let is_held = !card.is_at_work()
        && !matches!(card.lane, Lane::Todo)
        && matches!(
            need.urgency,
            Urgency::Question
                | Urgency::Approval
                | Urgency::SignIn
                | Urgency::Interrupted
                | Urgency::Paused
                | Urgency::Parked
        );
    if is_held {
        card.lane = Lane::Waiting;
    }
}

/// One word for how it stands: what was cut short is told apart from what was stopped for a reason.
fn state_word(state: &str, reason: Option<&str>) -> String {
    match (state, reason) {
        ("stopped", Some("interrupted" | "terminated")) => "interrupted".to_owned(),
        (state, _) => state.to_owned(),
    }
}

/// A card that nothing but its name is known of yet.
fn blank(kind: CardKind, id: &str, project: &ProjectId) -> Card {
    Card {
        id: id.to_owned(),
        target: id.to_owned(),
        kind,
        lane: Lane::Running,
        name: String::new(),
        title: None,
        stage: None,
        agent: None,
        model: None,
        iteration: 0,
        max_iterations: 0,
        state: String::new(),
        reason: None,
        detail: None,
        is_over: false,
        started_at: None,
        runs_since: None,
        ended_at: None,
        until: None,
        cost_usd: None,
        cost_estimated: false,
        budget: Budget::default(),
        used_percent: None,
        tokens: None,
        need: None,
        need_since: None,
        asks: None,
        command: None,
        decisions: Vec::new(),
        decision_labels: Vec::new(),
        actions: Vec::new(),
        loop_id: None,
        run: None,
        unit: None,
        parent: None,
        project: project.clone(),
        workspace: std::path::PathBuf::new(),
        branch: None,
        slot: None,
        parts: None,
        refusals: 0,
        gates: 0,
        verified: None,
        is_unseen: false,
    }
}

/// The lane of something that is no task of stages, by its state.
fn lane_of(state: &str, is_over: bool) -> Lane {
    match state {
        "parked" | "paused" | "waiting" | "queued" => Lane::Waiting,
        _ if is_over => Lane::Done,
        "stopped" | "interrupted" => Lane::Waiting,
        _ => Lane::Running,
    }
}

/// What can be asked of something in this state.
fn actions_of(state: &str, is_over: bool) -> Vec<Action> {
    match state {
        "running" | "gating" | "stopping" | "merging" => {
            vec![Action::Pause, Action::Steer, Action::Cancel]
        }
        "parked" | "paused" | "waiting" | "stopped" | "interrupted" | "blocked" => {
            vec![Action::Resume, Action::Steer, Action::Cancel]
        }
        "failed" if is_over => vec![Action::Resume],
        _ => Vec::new(),
    }
}

/// Of a run that asks a person nothing helps but an answer: no agent is there to read other words.
fn wait_for_an_answer(actions: &mut Vec<Action>) {
    actions.retain(|action| !matches!(action, Action::Resume | Action::Steer));
    actions.extend([Action::Approve, Action::Reject]);
}

/// The card of a loop that stands for itself.
pub fn card_of_loop(view: &LoopView) -> Card {
    let reason = view.reason.map(Reason::as_str);
    let state = state_word(&view.state, reason);
    let kind = if view.session.is_some() { CardKind::Session } else { CardKind::Loop };
    // One whose process died has a reason and no end: it is open until it goes on or is cancelled.
    let is_over = view.ended_at.is_some();
    let mut actions = actions_of(&state, is_over);
    let is_narrowed = view.tally.refusals.iter().any(|(reason, _)| *reason == RefusalReason::Narrowed);
    if view.refused_by == Some(RefusedBy::ChangedTests) && is_narrowed && view.state != "completed" {
        actions.push(Action::Approve);
    }
    if kind == CardKind::Session {
        actions.retain(|action| !matches!(action, Action::Pause | Action::Resume));
    }
    if matches!(view.reason, Some(Reason::MaxIterations | Reason::MaxTime)) {
        // It would end again at once: more has to be granted, and only a command that is typed says how much.
        actions.retain(|action| *action != Action::Resume);
    }
    if state == "stopped" && is_over {
        // What has ended is not cancelled any more.
        actions.retain(|action| *action != Action::Cancel);
    }
    let mut card = Card {
        name: view.task.to_string(),
        title: view.tally.title.as_deref().map(clean),
        stage: view.stage.clone(),
        lane: lane_of(&state, is_over),
        reason: reason.map(str::to_owned),
        detail: view.detail.as_deref().map(clean),
        is_over,
        started_at: Some(view.started_at),
        runs_since: view.tally.runs_since,
        ended_at: view.ended_at,
        until: view.until,
        budget: view.tally.budget,
        used_percent: view.tally.used_percent(&view.ledger.total()),
        asks: view.question.as_deref().map(clean),
        run: view.tally.run.clone(),
        parent: view.parent.clone(),
        workspace: view.workspace.clone(),
        verified: view.verified,
        actions,
        state,
        ..blank(kind, view.id.as_str(), &view.project)
    };
    take_loops(&mut card, &[view]);
    card
}

/// Takes in what the loops that work for a card have come to; the newest says who is at it.
fn take_loops(card: &mut Card, loops: &[&LoopView]) {
    let mut spend = Spend::default();
    for view in loops {
        spend.add(&view.ledger.total());
        card.refusals += view.tally.refused();
    }
    (card.cost_usd, card.cost_estimated) = (spend.cost_usd, spend.estimated);
    card.tokens = spend.usage.map(|usage| usage.total());
    let newest = loops.iter().rev().find(|view| !view.is_over()).or(loops.last());
    if let Some(newest) = newest {
        card.agent = Some(clean(&newest.agent));
        card.model = newest.tally.model.as_deref().map(clean);
        (card.iteration, card.max_iterations) = (newest.iteration, newest.max_iterations);
        card.loop_id = Some(newest.id.clone());
        card.gates = newest.gates;
    }
}

fn of_run(view: &RunView, units: &[UnitView], loops: &[&LoopView]) -> Card {
    let is_over = view.ended_at.is_some();
    let state = state_word(&view.state, view.reason.as_deref());
    let good = units.iter().filter(|unit| unit.status.is_good()).count();
    let all = super::small(units.len());
    let mut card = Card {
        name: format!("units of {}", clean(&folder_name(&view.root))),
        title: Some(format!("into {}", clean(&view.target))),
        lane: lane_of(&state, is_over),
        actions: match (state.as_str(), is_over) {
            // What has ended goes on as a new run.
            (_, true) => Vec::new(),
            (state, false) => actions_of(state, false),
        },
        reason: view.reason.clone(),
        detail: view.detail.as_deref().map(clean),
        is_over,
        started_at: Some(view.started_at),
        ended_at: view.ended_at,
        run: Some(view.id.clone()),
        workspace: view.root.clone(),
        branch: Some(clean(&view.target)),
        parts: (all > 0).then(|| format!("{good} of {} done", count(all, "unit"))),
        state,
        ..blank(CardKind::Run, view.id.as_str(), &view.project)
    };
    take_loops(&mut card, loops);
    // A run has many agents; its units name them.
    (card.agent, card.model, card.iteration, card.max_iterations) = (None, None, 0, 0);
    card.loop_id = None;
    card
}

fn of_unit_view(run: &RunView, view: &UnitView, loops: &[&LoopView]) -> Card {
    let newest = loops.iter().rev().find(|own| !own.is_over());
    let (lane, state) = match view.status {
        UnitStatus::Queued => (Lane::Todo, "queued"),
        UnitStatus::Working => match newest.map(|own| own.state.as_str()) {
            Some(state @ ("gating" | "running")) => (Lane::Running, state),
            Some(state @ ("parked" | "paused")) => (Lane::Waiting, state),
            _ => (Lane::Running, "running"),
        },
        UnitStatus::WaitingToMerge => (Lane::Waiting, "waiting"),
        UnitStatus::Merging | UnitStatus::Publishing => (Lane::Running, "merging"),
        UnitStatus::Merged | UnitStatus::Completed => (Lane::Done, "completed"),
        UnitStatus::Failed => (Lane::Done, "failed"),
        UnitStatus::Blocked => (Lane::Waiting, "blocked"),
        UnitStatus::Stopped => (Lane::Waiting, "interrupted"),
    };
    let detail = match view.status {
        UnitStatus::WaitingToMerge => Some("waits for its turn to merge".to_owned()),
        UnitStatus::Blocked => {
            let names: Vec<&str> = view.blocked_by.iter().map(AsRef::as_ref).collect();
            Some(format!("blocked by {}", names.join(", ")))
        }
        UnitStatus::Queued if view.detail.is_none() && !view.depends_on.is_empty() => {
            let names: Vec<&str> = view.depends_on.iter().map(AsRef::as_ref).collect();
            Some(format!("after {}", names.join(", ")))
        }
        _ => view.detail.as_deref().map(clean),
    };
    let done = view.tasks.iter().filter(|task| task.status == crate::unit::TaskStatus::Complete).count();
    let all = super::small(view.tasks.len());
    let begun = view.tasks.iter().find(|task| task.status == crate::unit::TaskStatus::InProgress);
    let mut card = Card {
        target: view.unit.to_string(),
        name: view.unit.to_string(),
        title: begun.map(|task| clean(&task.title)),
        lane,
        state: state.to_owned(),
        detail,
        is_over: view.status.is_over(),
        started_at: view.started_at.or(Some(run.started_at)),
        ended_at: view.ended_at,
        run: Some(view.run.clone()),
        unit: Some(view.unit.clone()),
        workspace: view.worktree.clone().unwrap_or_else(|| run.root.clone()),
        branch: view.branch.as_deref().map(clean),
        slot: view.slot,
        parts: (all > 0).then(|| format!("{done} of {} done", count(all, "task"))),
        actions: if state == "running" || state == "gating" { vec![Action::Steer] } else { Vec::new() },
        ..blank(CardKind::Unit, &format!("{}/{}", view.run, view.unit), &view.project)
    };
    take_loops(&mut card, loops);
    if newest.is_none() {
        (card.iteration, card.max_iterations) = (0, 0);
    }
    card.loop_id = card.loop_id.or_else(|| view.loop_id.clone());
    card
}

/// Of a run that stands still for a person, a time or a file: it waits. Only what was cut short is stopped.
fn standing_state(state: &str, reason: Option<&str>, is_over: bool) -> String {
    match state_word(state, reason) {
        word if word == "stopped" && !is_over => "waiting".to_owned(),
        word => word,
    }
}

fn of_workflow(view: &WorkflowView, loops: &[&LoopView]) -> Card {
    let state = standing_state(&view.state, view.reason.as_deref(), view.is_over);
    let at = view.current_step_index.checked_sub(1).and_then(|at| view.steps.get(at as usize));
    let all = super::small(view.steps.len());
    let done = view.steps.iter().filter(|step| matches!(step.state.as_str(), "completed" | "skipped"));
    let mut actions = match (state.as_str(), view.is_over) {
        ("completed" | "cancelled", _) => Vec::new(),
        ("blocked" | "failed", true) => vec![Action::Resume, Action::Steer],
        (state, is_over) => actions_of(state, is_over),
    };
    if view.question.is_some() {
        wait_for_an_answer(&mut actions);
    }
    let decisions = view.question.iter().flat_map(|question| &question.decisions);
    let mut card = Card {
        name: clean(&view.workflow),
        title: at
            .filter(|_| !view.is_over && all > 1)
            .map(|step| format!("step {}", clean(step.id.as_str()))),
        lane: lane_of(&state, view.is_over),
        reason: view.reason.clone(),
        detail: view.detail.as_deref().map(clean),
        is_over: view.is_over,
        started_at: Some(view.started_at),
        ended_at: view.ended_at,
        until: view.steps.iter().find_map(|step| step.until),
        run: Some(view.id.clone()),
        workspace: view.root.clone(),
        parts: (all > 1).then(|| format!("{} of {} done", done.count(), count(all, "step"))),
        decisions: decisions.clone().map(|decision| clean(&decision.id)).collect(),
        decision_labels: decisions
            .map(|decision| clean(decision.label.as_deref().unwrap_or(&decision.id)))
            .collect(),
        actions,
        state,
        ..blank(CardKind::Workflow, view.id.as_str(), &view.project)
    };
    take_loops(&mut card, loops);
    if let Some(verified) = together_verified(loops) {
        card.verified = Some(verified).filter(|_| view.state == "completed");
    }
    card
}

fn of_task(view: &StageTaskView, loops: &[&LoopView]) -> Card {
    let state = standing_state(&view.state, view.reason.as_deref(), view.is_over);
    let stage = view.ralph.as_ref().map(|ralph| ralph.stage).or(match view.status {
        StageTaskStatus::Implementing => Some(StageName::Coder),
        StageTaskStatus::Reviewing => Some(StageName::Reviewer),
        StageTaskStatus::Testing => Some(StageName::Tester),
        StageTaskStatus::Todo | StageTaskStatus::Done => None,
    });
    let lane = match (state.as_str(), view.status, stage) {
        ("completed", ..) => Lane::Done,
        // A task that failed or was cancelled is to be done again.
        ("failed" | "cancelled", ..) => Lane::Todo,
        ("waiting" | "paused" | "interrupted", ..) => Lane::Waiting,
        (_, _, Some(StageName::Coder)) => Lane::Coder,
        (_, _, Some(StageName::Reviewer)) => Lane::Reviewer,
        (_, _, Some(StageName::Tester)) => Lane::Tester,
        (_, _, Some(StageName::Qa)) => Lane::Qa,
        (_, StageTaskStatus::Done, None) => Lane::Done,
        // Between two stages, or before the first.
        (_, _, None) => Lane::Todo,
    };
    let mut actions = match view.is_over {
        true => Vec::new(),
        false => actions_of(&state, false),
    };
    if view.question.is_some() {
        wait_for_an_answer(&mut actions);
    }
    let passed = view.stages.iter().filter(|own| own.state == "passed").count();
    let mut card = Card {
        name: view.task.to_string(),
        title: Some(clean(&view.title)).filter(|title| !title.is_empty()),
        stage: stage.map(|stage| stage.as_str().to_owned()),
        lane,
        reason: view.reason.clone(),
        detail: view.detail.as_deref().map(clean),
        is_over: view.is_over,
        started_at: Some(view.started_at),
        runs_since: view.ralph.as_ref().map(|ralph| ralph.started_at),
        ended_at: view.ended_at,
        run: Some(view.id.clone()),
        workspace: view.worktree.clone().unwrap_or_else(|| view.root.clone()),
        branch: view.branch.as_deref().map(clean),
        parts: (passed > 0).then(|| format!("{} passed", count(super::small(passed), "stage"))),
        actions,
        state: if view.is_merging && !view.is_over && state == "running" {
            "merging".to_owned()
        } else {
            state
        },
        ..blank(CardKind::Task, view.id.as_str(), &view.project)
    };
    take_loops(&mut card, loops);
    if let Some(ralph) = view.ralph.as_ref().filter(|_| !view.is_over) {
        (card.iteration, card.max_iterations) = (ralph.iteration, ralph.max_iterations);
    } else {
        (card.iteration, card.max_iterations) = (0, 0);
    }
    if let Some(verified) = together_verified(loops) {
        card.verified = Some(verified).filter(|_| view.state == "completed");
    }
    card
}

/// One unproven part leaves the whole unproven.
fn together_verified(loops: &[&LoopView]) -> Option<bool> {
    loops.iter().filter_map(|view| view.verified).reduce(|all, one| all && one)
}

fn of_todo(todo: &TodoTask) -> Card {
    let names: Vec<&str> = todo.waits_for.iter().map(TaskId::as_str).collect();
    Card {
        target: todo.task.to_string(),
        lane: Lane::Todo,
        name: todo.task.to_string(),
        title: Some(clean(&todo.title)).filter(|title| !title.is_empty()),
        state: "todo".to_owned(),
        detail: (!names.is_empty()).then(|| format!("after {}", names.join(", "))),
        workspace: todo.root.clone(),
        command: Some(format!("dacapo task run {}", todo.task)),
        ..blank(CardKind::Task, &format!("todo/{}/{}", todo.project, todo.task), &todo.project)
    }
}
