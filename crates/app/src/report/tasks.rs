//! Tasks on their way through stages, for people: lines that stay, and in a terminal a few below them for each task that is worked on.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    time::Duration,
};

use dacapo_core::{
    event::{Envelope, GateRole, LoopEvent},
    ids::TaskId,
    stages::machine::{TaskEnvelope, TaskEvent, TaskMachine},
    text::count,
    view::{StageTaskView, why_task},
};
use dacapo_engine::{observer::Observer, stage_performer::TasksLeft, store::StageSource};

use jiff::Timestamp;

use super::{
    LiveView, Style,
    at_work::AtWork,
    event_lines,
    human::since,
    jsonl::FirstWord,
    out::Out,
    screen::{Coloured, SPINNER, Screen},
};

/// How often the line of what is being done is drawn again.
const TICK: Duration = Duration::from_millis(500);

/// Shows tasks to a person.
struct HumanTasks {
    screen: Screen,
    is_verbose: bool,
    turn: usize,
    /// What each task that is worked on does, and since when.
    doing: BTreeMap<TaskId, (String, Timestamp)>,
    loops: BTreeMap<TaskId, AtWork>,
    /// What was told of sandboxes that hold less than they promise.
    shortfalls: BTreeSet<String>,
}

impl HumanTasks {
    fn line(&mut self, task: &TaskId, text: &str) {
        self.screen.line("", &format!("{task}  {text}"));
        self.draw();
    }

    fn draw(&mut self) {
        let now = Timestamp::now();
        let mut lines: Vec<Coloured> = Vec::new();
        for (task, (what, began)) in &self.doing {
            let turn = SPINNER[self.turn % SPINNER.len()];
            let took = since(*began, now).human();
            let at_work = self.loops.get(task);
            let details = at_work.map(AtWork::details).unwrap_or_default();
            lines.push(("", format!("{turn} {task}  {what} · {took}{details}")));
            lines.extend(at_work.into_iter().flat_map(AtWork::last_lines));
        }
        self.screen.draw(lines);
    }
}

impl Observer<TaskMachine> for HumanTasks {
    fn event(&mut self, envelope: &TaskEnvelope, view: &StageTaskView) {
        let task = view.task.clone();
        match view.state.as_str() {
            "running" => {
                let what = view.doing();
                let is_same = self.doing.get(&task).is_some_and(|(known, _)| *known == what);
                if !is_same {
                    self.doing.insert(task.clone(), (what, envelope.at));
                }
            }
            _ => {
                self.doing.remove(&task);
                self.loops.remove(&task);
            }
        }
        match &envelope.event {
            TaskEvent::QuestionAsked { question, .. } => {
                self.line(&task, &format!("asks: {}", question.text));
            }
            TaskEvent::TaskStarted(started) => self.line(&task, &format!("started: {}", started.task.title)),
            TaskEvent::StageStarted { stage, user_says: Some(words), .. } => {
                self.line(&task, &event_lines::describe_task(&envelope.event));
                self.line(&task, &format!("{stage} is told: {words}"));
            }
            event => self.line(&task, &event_lines::describe_task(event)),
        }
    }

    fn loop_event(&mut self, source: &StageSource, envelope: &Envelope) {
        self.loops.entry(source.task.clone()).or_default().take(envelope);
        match &envelope.event {
            LoopEvent::LoopStarted(started) => {
                let lines = started.sandbox.as_ref().map(|held| held.shortfall(&mut self.shortfalls));
                lines.iter().flatten().for_each(|line| self.line(&source.task, line));
            }
            LoopEvent::GateFinished { name, role: GateRole::Gate, result, look, .. }
                if !result.passed || !look.is_repeated() =>
            {
                self.line(&source.task, &format!("check {}", event_lines::gate(name, result)));
                // What an agent and its gates print is all shown then.
                if !result.passed && !self.is_verbose {
                    for line in event_lines::quoted(&result.output_tail) {
                        self.screen.line("2", &format!("{}  {line}", source.task));
                    }
                    self.draw();
                }
            }
            LoopEvent::Parked { until, why } => {
                let at = event_lines::clock(*until);
                self.line(&source.task, &format!("waits until {at}: {why}"));
            }
            LoopEvent::Warned { text } => self.line(&source.task, &format!("warning: {text}")),
            _ => {}
        }
    }

    fn output(&mut self, source: &StageSource, bytes: &[u8]) {
        self.loops.entry(source.task.clone()).or_default().printed(bytes);
        if !self.is_verbose {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        self.line(&source.task, &format!("| {}", text.trim_end()));
    }

    fn sees_output(&self) -> bool {
        self.is_verbose || self.screen.is_live()
    }

    fn tick(&mut self) {
        self.turn += 1;
        self.draw();
    }

    fn tick_every(&self) -> Option<Duration> {
        self.screen.is_live().then_some(TICK)
    }
}

impl LiveView<TaskMachine> for HumanTasks {
    fn screen(&mut self) -> &mut Screen {
        &mut self.screen
    }

    fn toggle_log(&mut self) -> bool {
        self.is_verbose = !self.is_verbose;
        self.is_verbose
    }
}

/// The events of tasks as lines of JSON, each with the id of its task.
struct TaskLines {
    out: Out,
}

impl Observer<TaskMachine> for TaskLines {
    fn event(&mut self, envelope: &TaskEnvelope, view: &StageTaskView) {
        let Ok(mut line) = serde_json::to_value(envelope) else { return };
        if let Some(keys) = line.as_object_mut() {
            keys.insert("task_id".to_owned(), serde_json::json!(view.task));
        }
        self.out.write(format!("{line}\n").into_bytes());
    }
}

impl Observer<TaskMachine> for FirstWord {
    fn event(&mut self, envelope: &TaskEnvelope, _: &StageTaskView) {
        self.say(envelope.run.as_str());
    }
}

/// The observer that shows tasks in the style that the user asked for.
pub(crate) fn task_reporter(style: &Style) -> Box<dyn Observer<TaskMachine>> {
    if style.json && !dacapo_engine::process::background::is_background() {
        return Box::new(TaskLines { out: Out::new() });
    }
    super::in_style(style, || Box::new(human(style.verbose)))
}

/// The view of a task that `dacapo attach` shows.
pub(crate) fn task_live_view(is_verbose: bool) -> Box<dyn LiveView<TaskMachine>> {
    Box::new(human(is_verbose))
}

fn human(is_verbose: bool) -> HumanTasks {
    HumanTasks {
        screen: Screen::new(super::is_live()),
        is_verbose,
        turn: 0,
        doing: BTreeMap::new(),
        loops: BTreeMap::new(),
        shortfalls: BTreeSet::new(),
    }
}

/// Says where the tasks stand, unless a person was told and sees it; with the next step for each that is not done, unless its end has
/// been told in plain words, which name it. Gives the exit code.
pub(crate) fn last_line_of_tasks(left: &TasksLeft, is_told: bool) -> u8 {
    let mut stderr = std::io::stderr().lock();
    for why in &left.refused {
        let _ = writeln!(stderr, "WARNING: {why}");
    }
    for (task, first) in &left.held_up {
        let _ = writeln!(stderr, "WARNING: task {task} was not begun: it waits for {first}");
    }
    if super::is_seen(is_told) {
        return left.exit_code;
    }
    let done = left.views.iter().filter(|view| view.state == "completed").count();
    // The end of each task has said it.
    for view in left.views.iter().filter(|view| view.state != "completed" && !is_told) {
        let _ = writeln!(stderr, "hint: {}: {}", view.task, why_task(view).next);
    }
    let others: Vec<String> = left
        .views
        .iter()
        .filter(|view| view.state != "completed")
        .map(|view| {
            let reason = view.reason.as_ref().filter(|reason| **reason != view.state);
            let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
            format!("{} is {}{reason}", view.task, view.state)
        })
        .collect();
    let number = u32::try_from(left.views.len()).unwrap_or(u32::MAX);
    let rest = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
    let _ = writeln!(stderr, "dacapo: {done} of {} done{rest}", count(number, "task"));
    left.exit_code
}
