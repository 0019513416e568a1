//! Tasks on their way through stages, for people: lines that stay, and in a terminal one below them that says what is being done.

use std::{
    collections::BTreeMap,
    io::Write,
    time::{Duration, Instant},
};

use dacapo_core::{
    event::{Envelope, GateRole, LoopEvent},
    ids::TaskId,
    stages::machine::{TaskEnvelope, TaskEvent, TaskMachine},
    text::{ansi::readable, columns::fitting, count},
    view::{StageTaskView, why_task},
};
use dacapo_engine::{observer::Observer, stage_performer::TasksLeft, store::StageSource};

use super::{Style, event_lines, human::width, jsonl::FirstWord, out::Out};

/// How often the line of what is being done is drawn again.
const TICK: Duration = Duration::from_millis(500);

/// Shows tasks to a person.
struct HumanTasks {
    out: Out,
    is_live: bool,
    is_verbose: bool,
    /// Whether the line below the others is drawn.
    is_drawn: bool,
    /// What each task that is worked on does, and since when.
    doing: BTreeMap<TaskId, (String, Instant)>,
}

impl HumanTasks {
    fn line(&mut self, task: &TaskId, text: &str) {
        let above = if std::mem::take(&mut self.is_drawn) { "\r\x1b[2K" } else { "" };
        let text = readable(text.as_bytes());
        self.out.write(format!("{above}{task}  {text}\n").into_bytes());
        self.draw();
    }

    fn draw(&mut self) {
        if !self.is_live || self.doing.is_empty() {
            return;
        }
        let parts: Vec<String> = self
            .doing
            .iter()
            .map(|(task, (what, since))| format!("{task} {what} {}s", since.elapsed().as_secs()))
            .collect();
        let line = fitting(&parts.join("  ·  "), width().saturating_sub(1)).to_string();
        self.out.write_if_read(format!("\r\x1b[2K{line}").into_bytes());
        self.is_drawn = true;
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
                    self.doing.insert(task.clone(), (what, Instant::now()));
                }
            }
            _ => {
                self.doing.remove(&task);
            }
        }
        match &envelope.event {
            TaskEvent::QuestionAsked { question, .. } => {
                self.line(&task, &format!("asks: {}", question.text));
            }
            TaskEvent::StageStarted { stage, user_says: Some(words), .. } => {
                self.line(&task, &event_lines::describe_task(&envelope.event));
                self.line(&task, &format!("{stage} is told: {words}"));
            }
            event => self.line(&task, &event_lines::describe_task(event)),
        }
    }

    fn loop_event(&mut self, source: &StageSource, envelope: &Envelope) {
        match &envelope.event {
            LoopEvent::GateFinished { name, role: GateRole::Gate, result, .. } => {
                self.line(&source.task, &format!("check {}", event_lines::gate(name, result)));
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
        if !self.is_verbose {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        self.line(&source.task, &format!("| {}", text.trim_end()));
    }

    fn sees_output(&self) -> bool {
        self.is_verbose
    }

    fn tick(&mut self) {
        self.draw();
    }

    fn tick_every(&self) -> Option<Duration> {
        self.is_live.then_some(TICK)
    }
}

impl Drop for HumanTasks {
    fn drop(&mut self) {
        if self.is_drawn {
            self.out.write(b"\r\x1b[2K".to_vec());
        }
        self.out.finish();
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
    super::in_style(style, || {
        Box::new(HumanTasks {
            out: Out::new(),
            is_live: super::is_live(),
            is_verbose: style.verbose,
            is_drawn: false,
            doing: BTreeMap::new(),
        })
    })
}

/// Says where the tasks stand, with the next step for each that is not done; gives the exit code.
pub(crate) fn last_line_of_tasks(left: &TasksLeft) -> u8 {
    let mut stderr = std::io::stderr().lock();
    for why in &left.refused {
        let _ = writeln!(stderr, "WARNING: {why}");
    }
    for (task, first) in &left.held_up {
        let _ = writeln!(stderr, "WARNING: task {task} was not begun: it waits for {first}");
    }
    let done = left.views.iter().filter(|view| view.state == "completed").count();
    for view in left.views.iter().filter(|view| view.state != "completed") {
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
