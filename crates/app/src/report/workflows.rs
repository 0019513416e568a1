//! A run of a workflow for people: one block for each thing that it says, in fixed words.

use clap::ValueEnum;
use dacapo_core::{
    event::{Envelope, LoopEvent, Reason},
    text::ansi::readable,
    view::WorkflowView,
    workflow::{
        Form, StepId, Workflow,
        machine::{EndReason, Standing, Work, WorkflowEnd, WorkflowEnvelope, WorkflowEvent, WorkflowMachine},
        messages,
        template::without_promise,
    },
};
use dacapo_engine::{observer::Observer, performer::WorkflowLeft};
use serde_json::Value;
use std::io::Write;

use super::{Style, jsonl::FirstWord, out::Out};

/// When what agents say is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// While they say it.
    Stream,
    /// After each iteration, as one block.
    Batch,
}

/// Shows a run to a person.
pub(super) struct HumanWorkflow {
    out: Out,
    mode: Mode,
    workflow: Option<Workflow>,
    /// The iteration that runs or ran last.
    iteration: u32,
    /// Why the newest loop ended.
    reason: Option<Reason>,
    /// What an agent said in this iteration, in batch mode.
    said: Vec<String>,
    /// Whether something was said since the last block.
    is_open: bool,
}

impl HumanWorkflow {
    pub(super) fn new(mode: Mode) -> Self {
        Self {
            out: Out::new(),
            mode,
            workflow: None,
            iteration: 0,
            reason: None,
            said: Vec::new(),
            is_open: false,
        }
    }

    /// One message, with an empty line behind it.
    fn block(&mut self, text: &str) {
        let above = if std::mem::take(&mut self.is_open) { "\n" } else { "" };
        self.out.write(format!("{above}{}\n\n", readable(text.as_bytes())).into_bytes());
    }

    fn end(&mut self, end: &WorkflowEnd) {
        let Some(workflow) = self.workflow.take() else { return };
        let text = match (workflow.as_loop(), end.end) {
            (Some(_), EndReason::Completed) => messages::loop_complete(&workflow.name, self.iteration),
            (Some(looped), EndReason::Failed) if self.reason == Some(Reason::MaxIterations) => {
                let until = looped.until.as_deref().or(looped.until_bash.as_deref()).unwrap_or_default();
                messages::loop_incomplete(&workflow.name, looped.max_iterations, until)
            }
            (Some(_), EndReason::Failed) => {
                let error = end.detail.strip_prefix(&format!("Iteration {}: ", self.iteration));
                messages::loop_failed(self.iteration, error.unwrap_or(&end.detail))
            }
            (None, EndReason::Completed) => format!("**Workflow complete**: {}", workflow.name),
            (None, EndReason::Failed) => format!("**Workflow failed**: {}\n\n{}", workflow.name, end.detail),
            (_, EndReason::Cancelled) => {
                format!("**Workflow cancelled**: {}\n\n{}", workflow.name, end.detail)
            }
            (_, EndReason::Blocked) => format!("**Workflow blocked**: {}\n\n{}", workflow.name, end.detail),
        };
        self.block(&text);
        self.workflow = Some(workflow);
    }

    fn flush_batch(&mut self) {
        let said = std::mem::take(&mut self.said).join("\n");
        let said = without_promise(&said);
        if !said.trim().is_empty() {
            self.block(said.trim());
        }
    }
}

impl Observer<WorkflowMachine> for HumanWorkflow {
    fn event(&mut self, envelope: &WorkflowEnvelope, view: &WorkflowView) {
        match &envelope.event {
            WorkflowEvent::WorkflowStart(started) => {
                self.workflow = Some(started.workflow.clone());
                self.block(&messages::starting(&started.workflow));
            }
            WorkflowEvent::StepStart { step, work: Work::Main, .. } => {
                let Some(workflow) = self.workflow.clone().filter(|known| known.form != Form::Loop) else {
                    return;
                };
                let place = workflow.steps.iter().position(|known| known.id == *step);
                if let Some((place, found)) = place.zip(workflow.step(step)) {
                    let text = messages::step(&workflow, place + 1, &found.kind, step.as_str());
                    self.block(&text);
                }
            }
            WorkflowEvent::StepSkipped { step, why } => self.block(&format!("**Skipped**: {step}, {why}")),
            WorkflowEvent::StepError { step, error, retry_at: Some(_), .. } => {
                self.block(&format!("**Failed, and is tried again**: {step}\n\n{error}"));
            }
            WorkflowEvent::QuestionAsked { message, decisions, .. } => {
                let mut text = format!("**Question**: {message}");
                for known in decisions {
                    let label = known.label.as_deref().unwrap_or_default();
                    text += &format!("\n  {} {label}", known.id);
                }
                text += &format!(
                    "\n\n`dacapo approve {0}` or `dacapo reject {0} \"what is wrong\"` answers it",
                    view.id
                );
                self.block(&text);
            }
            WorkflowEvent::WorkflowComplete { output } => {
                let detail = output.clone();
                self.end(&WorkflowEnd { end: EndReason::Completed, detail, exit_code: 0 });
            }
            WorkflowEvent::WorkflowError(end) => self.end(end),
            WorkflowEvent::WorkflowPaused { .. } => self.block("**Paused**"),
            WorkflowEvent::BudgetExceeded { what } => self.block(&format!("**Budget**: {what}")),
            _ => {}
        }
    }

    fn loop_event(&mut self, _: &StepId, envelope: &Envelope) {
        match &envelope.event {
            LoopEvent::LoopStarted(_) => self.reason = None,
            LoopEvent::IterationStarted { iteration, max_iterations } => {
                self.iteration = *iteration;
                if *max_iterations > 1 || self.workflow.as_ref().is_some_and(|known| known.form == Form::Loop)
                {
                    self.block(&messages::iteration(*iteration, *max_iterations));
                }
            }
            LoopEvent::AgentExited { .. } => self.flush_batch(),
            LoopEvent::LoopFinished { reason, .. } => self.reason = Some(*reason),
            _ => {}
        }
    }

    fn output(&mut self, _: &StepId, line: &[u8]) {
        let line = String::from_utf8_lossy(line).into_owned();
        if self.mode == Mode::Batch {
            self.said.push(line);
            return;
        }
        let shown = without_promise(&line);
        if shown.trim().is_empty() && !line.trim().is_empty() {
            // Nothing was on it but a tag.
            return;
        }
        self.is_open = true;
        self.out.write(format!("{}\n", readable(shown.as_bytes())).into_bytes());
    }

    fn sees_output(&self) -> bool {
        true
    }
}

/// The journal of a run and of its loops as JSON lines, each with the id of the run.
pub(super) struct WorkflowLines {
    out: Out,
    run: Option<String>,
}

impl WorkflowLines {
    pub(super) fn new() -> Self {
        Self { out: Out::new(), run: None }
    }
}

/// A fact of a loop, with the run that the loop belongs to.
pub(crate) fn with_run(envelope: &Envelope, run: &str) -> Value {
    let mut line = serde_json::to_value(envelope).unwrap_or_default();
    if let Some(keys) = line.as_object_mut() {
        keys.insert("run".to_owned(), run.into());
    }
    line
}

impl Observer<WorkflowMachine> for WorkflowLines {
    fn event(&mut self, envelope: &WorkflowEnvelope, _: &WorkflowView) {
        self.run = Some(envelope.run.to_string());
        if let Ok(line) = serde_json::to_string(envelope) {
            self.out.write(format!("{line}\n").into_bytes());
        }
    }

    fn loop_event(&mut self, _: &StepId, envelope: &Envelope) {
        let line = with_run(envelope, self.run.as_deref().unwrap_or_default());
        self.out.write(format!("{line}\n").into_bytes());
    }
}

impl Observer<WorkflowMachine> for FirstWord {
    fn event(&mut self, envelope: &WorkflowEnvelope, _: &WorkflowView) {
        self.say(envelope.run.as_str());
    }
}

/// The observer that shows a run of a workflow in the style that the user asked for.
pub(crate) fn workflow_reporter(style: &Style, mode: Mode) -> Box<dyn Observer<WorkflowMachine>> {
    if style.json && !dacapo_engine::process::background::is_background() {
        return Box::new(WorkflowLines::new());
    }
    super::in_style(style, || Box::new(HumanWorkflow::new(mode)))
}

/// Says where a run stands, as the last line on standard error; gives the exit code.
pub(crate) fn last_line_of_workflow(left: &WorkflowLeft) -> u8 {
    let WorkflowLeft { view, standing, exit_code } = left;
    let (id, name) = (&view.id, &view.workflow);
    let (how, hint) = match standing {
        Standing::Over(end) => {
            let first = end.detail.lines().next().unwrap_or_default();
            let hint = matches!(end.end, EndReason::Failed | EndReason::Blocked)
                .then(|| format!("`dacapo resume {id}` tries again what failed"));
            let first = if first.is_empty() { String::new() } else { format!(": {first}") };
            (format!("{}{first}", view.state), hint)
        }
        Standing::Question(_) => (
            "stopped (question)".to_owned(),
            Some(format!("`dacapo approve {id}` or `dacapo reject {id} TEXT` answers and goes on")),
        ),
        Standing::Waiting(due) => {
            let due = due.map(|due| format!(" until {}", super::clock(due))).unwrap_or_default();
            (format!("stopped (waiting{due})"), Some(format!("`dacapo resume {id}` goes on when it is due")))
        }
        Standing::Held { reason, detail } => (
            format!("stopped ({}): {detail}", reason.as_str()),
            Some(format!("`dacapo resume {id}` goes on with it")),
        ),
        Standing::Running | Standing::Paused => {
            ("stopped".to_owned(), Some(format!("`dacapo resume {id}` goes on with it")))
        }
    };
    let mut stderr = std::io::stderr().lock();
    if let Some(hint) = hint {
        let _ = writeln!(stderr, "hint: {hint}");
    }
    let _ = writeln!(stderr, "dacapo: {name} {how} [run {id}]");
    *exit_code
}
