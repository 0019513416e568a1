//! A run of units for people: lines that stay, and in a terminal one below them for each unit that is worked on.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use dacapo_core::{
    duration::Millis,
    event::{Envelope, GateRole, LoopEvent, MergeMode, RunEnvelope, RunEvent},
    ids::UnitId,
    judge::claim::RefusalReason,
    text::count,
    unit::{items::turn_of, schedule::RunMachine},
    view::RunView,
};
use dacapo_engine::observer::Observer;

use jiff::Timestamp;

use super::{
    LiveView,
    at_work::AtWork,
    event_lines,
    human::since,
    screen::{Coloured, SPINNER, Screen},
};

/// Shows a run to a person.
pub(super) struct HumanRun {
    screen: Screen,
    is_verbose: bool,
    /// When the newest event was recorded.
    now: Timestamp,
    began: Timestamp,
    turn: usize,
    merge: MergeMode,
    units: BTreeMap<UnitId, ShownUnit>,
    /// The longest name, for a column.
    widest: usize,
    /// What was told of sandboxes that hold less than they promise.
    shortfalls: BTreeSet<String>,
}

#[derive(Default)]
struct ShownUnit {
    titles: BTreeMap<u32, String>,
    /// The tasks of the turn.
    offered: Vec<u32>,
    done: usize,
    slot: u32,
    /// What is being done for it; nothing if it is not worked on.
    doing: Option<(String, Timestamp)>,
    at_work: AtWork,
}

impl HumanRun {
    pub(super) fn new(is_live: bool, is_verbose: bool) -> Self {
        let now = Timestamp::now();
        Self {
            screen: Screen::new(is_live),
            is_verbose,
            now,
            began: now,
            turn: 0,
            merge: MergeMode::Merge,
            units: BTreeMap::new(),
            widest: 0,
            shortfalls: BTreeSet::new(),
        }
    }

    /// A line that stays.
    fn line(&mut self, colour: &'static str, text: &str) {
        self.screen.line(colour, text);
    }

    /// A line about one unit.
    fn about(&mut self, unit: &UnitId, colour: &'static str, text: &str) {
        let line = format!("  {:<width$}  {text}", unit.as_str(), width = self.widest);
        self.line(colour, &line);
    }

    /// The end of what a red check printed.
    fn quote(&mut self, unit: &UnitId, printed: &str) {
        // With `-v` all of it was shown.
        if !self.is_verbose {
            event_lines::quoted(printed).for_each(|line| self.about(unit, "2", &line));
        }
    }

    /// The lines that live: one for each unit that has a job.
    fn draw(&mut self) {
        let now = Timestamp::now();
        let mut busy: Vec<(&UnitId, &ShownUnit)> =
            self.units.iter().filter(|(_, shown)| shown.doing.is_some()).collect();
        busy.sort_by_key(|(_, shown)| shown.slot);
        let lines: Vec<Coloured> = busy
            .into_iter()
            .flat_map(|(unit, shown)| {
                let Some((doing, began)) = shown.doing.as_ref() else { return Vec::new() };
                let slot = if shown.slot == 0 { "train ".to_owned() } else { format!("slot {}", shown.slot) };
                let line = format!(
                    "{} {slot}  {:<widest$}  {}/{}  {doing} · {}{}",
                    SPINNER[self.turn % SPINNER.len()],
                    unit.as_str(),
                    shown.done,
                    shown.titles.len(),
                    since(*began, now).human(),
                    shown.at_work.details(),
                    widest = self.widest,
                );
                [("", line)].into_iter().chain(shown.at_work.last_lines()).collect()
            })
            .collect();
        self.screen.draw(lines);
    }

    fn doing(&mut self, unit: &UnitId, what: impl Into<String>) {
        if let Some(shown) = self.units.get_mut(unit) {
            shown.doing = Some((what.into(), self.now));
        }
    }

    fn title(&self, unit: &UnitId, task: u32) -> String {
        let title = self.units.get(unit).and_then(|shown| shown.titles.get(&task));
        title.map_or_else(|| format!("#{task}"), |title| format!("#{task} {title}"))
    }

    fn rest(&mut self, unit: &UnitId) {
        if let Some(shown) = self.units.get_mut(unit) {
            (shown.doing, shown.slot, shown.at_work) = (None, 0, AtWork::default());
        }
    }

    fn begin(&mut self, envelope: &RunEnvelope) {
        let RunEvent::OrchStarted(started) = &envelope.event else { return };
        self.began = envelope.at;
        self.merge = started.merge;
        let tasks: usize = started.units.iter().map(|unit| unit.tasks.len() - unit.complete.len()).sum();
        for plan in &started.units {
            self.widest = self.widest.max(plan.unit.as_str().len());
            let titles = plan.tasks.iter().cloned().collect();
            self.units.insert(
                plan.unit.clone(),
                ShownUnit { titles, done: plan.complete.len(), ..ShownUnit::default() },
            );
        }
        let many = |n: usize, what| count(u32::try_from(n).unwrap_or(u32::MAX), what);
        let where_to = match started.merge {
            MergeMode::Merge => format!("merged into {}", started.target),
            MergeMode::Leave => "left on branches".to_owned(),
            MergeMode::PullRequest => format!("pull requests to {}", started.target),
        };
        self.line(
            "1",
            &format!(
                "dacapo: run {} · {} · {} to do · agent {}",
                envelope.run,
                many(started.units.len(), "unit"),
                many(tasks, "task"),
                started.settings.policy.agent.command.name
            ),
        );
        self.line(
            "2",
            &format!("  in {} · {} at once · {where_to}", started.root.display(), started.parallel),
        );
    }

    fn show_unit(&mut self, unit: &UnitId, event: &RunEvent) {
        match event {
            RunEvent::UnitStarted { slot } => {
                if let Some(shown) = self.units.get_mut(unit) {
                    shown.slot = *slot;
                }
                self.doing(unit, "preparing its worktree");
            }
            RunEvent::WorktreeCreated { branch, .. } => self.about(unit, "", &format!("works on {branch}")),
            RunEvent::TaskStarted { task, .. } if self.is_verbose => {
                let title = self.title(unit, *task);
                self.about(unit, "2", &format!("{title} is ready"));
            }
            RunEvent::TaskClaudeInvoke { attempt, .. } => {
                let offered = self.units.get(unit).map(|shown| shown.offered.as_slice()).unwrap_or_default();
                let what = match offered {
                    [] => String::new(),
                    [only] => format!("{} · ", self.title(unit, *only)),
                    several => format!("one of {} tasks · ", several.len()),
                };
                self.doing(unit, format!("{what}try {attempt}"));
            }
            RunEvent::TaskClaudeDone { error: Some(error), attempt, .. } => {
                self.about(unit, "33", &format!("try {attempt}: {error}"));
            }
            RunEvent::TaskBackpressure { task, .. } => {
                let title = self.title(unit, *task);
                self.doing(unit, format!("checking {title}"));
            }
            RunEvent::TaskValidationFail { task, exit_code, output, .. } => {
                let title = self.title(unit, *task);
                self.about(unit, "31", &format!("{title}: refused, its backpressure exited {exit_code}"));
                self.quote(unit, output);
            }
            RunEvent::TaskCommitted { task, commit, .. } => {
                let title = self.title(unit, *task);
                let commit = commit.as_deref().map_or("nothing to commit", event_lines::short);
                self.about(unit, "32", &format!("{title}: proven · {commit}"));
            }
            RunEvent::TaskCompleted { .. } => {
                if let Some(shown) = self.units.get_mut(unit) {
                    shown.done += 1;
                }
            }
            RunEvent::TaskRetry { attempt, reason, .. } if reason != "backpressure_failed" => {
                let what = match reason.as_str() {
                    "no_task_completed" => "no task completed",
                    "tampered" => "the agent changed protected files",
                    _ => "the agent failed",
                };
                self.about(unit, "33", &format!("try {attempt}: {what}"));
            }
            RunEvent::TaskFailed { task, .. } => {
                let title = self.title(unit, *task);
                self.about(unit, "31", &format!("{title}: given up"));
            }
            RunEvent::UnitCompleted { commit } => {
                let next = if self.merge == MergeMode::Merge { ", waits to be merged" } else { "" };
                self.about(unit, "32", &format!("all tasks complete · {}{next}", event_lines::short(commit)));
                self.rest(unit);
            }
            RunEvent::UnitMerging => self.doing(unit, "checking the merged tree"),
            RunEvent::UnitPublishing => self.doing(unit, "pushing"),
            RunEvent::PrConflict { paths } => {
                self.about(unit, "33", &format!("conflicts in {}", paths.join(", ")));
                self.doing(unit, "resolving the conflict");
            }
            RunEvent::UnitMerged { target, commit, left_on } => {
                match left_on {
                    None => {
                        let text = format!("merged into {target} · {}", event_lines::short(commit));
                        self.about(unit, "1;32", &text);
                    }
                    Some((branch, command)) => {
                        let text = format!("merged on {branch}; `{command}` moves {target}");
                        self.about(unit, "1;33", &text);
                    }
                }
                self.rest(unit);
            }
            RunEvent::UnitSentBack { detail } => {
                self.about(unit, "33", &format!("the merged tree is red: {detail}"));
                self.rest(unit);
            }
            RunEvent::UnitFailed { reason, detail, .. } => {
                let reason = serde_json::to_value(reason).unwrap_or_default();
                self.about(unit, "1;31", &format!("{}: {detail}", reason.as_str().unwrap_or("failed")));
                self.rest(unit);
            }
            RunEvent::UnitBlocked { by } => {
                let names: Vec<&str> = by.iter().map(UnitId::as_str).collect();
                self.about(unit, "31", &format!("blocked by {}", names.join(", ")));
            }
            RunEvent::UnitWarned { text } => self.about(unit, "33", &format!("warning: {text}")),
            RunEvent::PrCreated { url } => self.about(unit, "1;32", &format!("pull request {url}")),
            RunEvent::PrFailed { detail } => self.about(unit, "31", detail),
            RunEvent::BranchPushed { branch, remote } => {
                self.about(unit, "32", &format!("{branch} pushed to {remote}"));
            }
            RunEvent::UnitJobEnded => self.rest(unit),
            _ => {}
        }
    }
}

impl Observer<RunMachine> for HumanRun {
    fn event(&mut self, envelope: &RunEnvelope, _: &RunView) {
        self.now = envelope.at;
        match (&envelope.unit, &envelope.event) {
            (Some(unit), event) => self.show_unit(unit, event),
            (None, RunEvent::OrchStarted(_)) => self.begin(envelope),
            (None, RunEvent::OrchStopping { .. }) => {
                self.line("33", "stopping: no new work; Ctrl-C again kills what runs");
            }
            (None, RunEvent::OrchPaused { .. }) => self.line("33", "paused; `dacapo resume` goes on"),
            (None, RunEvent::OrchUnpaused { .. }) => self.line("33", "goes on"),
            (None, RunEvent::OrchCompleted { detail }) => {
                let took = since(self.began, envelope.at).human();
                self.line("1;32", &format!("completed: {detail}, {took}"));
            }
            (None, RunEvent::OrchFailed { reason, .. }) => {
                let took = since(self.began, envelope.at).human();
                let how = match reason.as_str() {
                    "person" => "stopped: a person is needed,",
                    "environment" => "failed: the machine lacks something,",
                    "max_time" => "failed: the time is used up,",
                    "budget" => "failed: the budget is used up,",
                    other => other,
                };
                self.line("1;31", &format!("{how} after {took}"));
            }
            _ => {}
        }
        self.draw();
    }

    fn loop_event(&mut self, unit: &UnitId, envelope: &Envelope) {
        self.now = envelope.at;
        if let Some(shown) = self.units.get_mut(unit) {
            shown.at_work.take(envelope);
        }
        match &envelope.event {
            LoopEvent::LoopStarted(started) => {
                let lines = started.sandbox.as_ref().map(|held| held.shortfall(&mut self.shortfalls));
                lines.iter().flatten().for_each(|line| self.line("2", &format!("  {line}")));
                if let (Some(shown), Some(set)) = (self.units.get_mut(unit), turn_of(&started.policy)) {
                    shown.offered.clone_from(&set.ready);
                }
            }
            LoopEvent::GateStarted { .. } => self.doing(unit, "is checked"),
            // The check of a task is told as the task's.
            LoopEvent::GateFinished { name, role: GateRole::Gate, item: None, result, look, .. }
                if !result.passed =>
            {
                let place = event_lines::place(look);
                self.about(unit, "31", &format!("gate {}{place}", event_lines::gate(name, result)));
                self.quote(unit, &result.output_tail);
            }
            LoopEvent::Parked { .. } => self.doing(unit, "waits"),
            LoopEvent::QuestionAsked { text } => {
                let text = format!("asks: {text}");
                self.about(unit, "35", &text);
            }
            LoopEvent::Blocked { why, .. } => {
                let text = format!("is blocked: {why}");
                self.about(unit, "35", &text);
            }
            // What a red check has to do with a task is told as the task's.
            LoopEvent::ClaimRefused { reason, detail, .. } if *reason != RefusalReason::GateFailed => {
                let text = format!("refused: {detail}");
                self.about(unit, "31", &text);
            }
            LoopEvent::Warned { text } if self.is_verbose => {
                let text = format!("warning: {text}");
                self.about(unit, "33", &text);
            }
            _ => {}
        }
    }

    fn output(&mut self, unit: &UnitId, line: &[u8]) {
        if let Some(shown) = self.units.get_mut(unit) {
            shown.at_work.printed(line);
        }
        let line = String::from_utf8_lossy(line);
        if self.is_verbose && !line.trim().is_empty() {
            self.about(unit, "2", &format!("│ {line}"));
            self.draw();
        }
    }

    fn waited(&mut self, long: Duration) {
        if self.is_verbose {
            let waited = Millis::from(long).human();
            self.line("33", &format!("waited {waited} for the journal"));
        }
    }

    fn sees_output(&self) -> bool {
        self.is_verbose || self.screen.is_live()
    }

    fn tick(&mut self) {
        self.turn += 1;
        self.draw();
    }

    fn tick_every(&self) -> Option<Duration> {
        self.screen.is_live().then_some(Duration::from_millis(120))
    }
}

impl LiveView<RunMachine> for HumanRun {
    fn screen(&mut self) -> &mut Screen {
        &mut self.screen
    }

    fn toggle_log(&mut self) -> bool {
        self.is_verbose = !self.is_verbose;
        self.is_verbose
    }
}
