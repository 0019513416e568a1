//! What a run of a workflow tells people while it goes on, in fixed words: a fold of its events, of the events of its loops, and of
//! what its agents say. A terminal and a chat service show the same.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    StepId, StepKind, Workflow, WorkflowForm,
    machine::{EndReason, StepWorkKind, WorkflowEnd, WorkflowEvent},
    messages,
    template::without_promise,
};
use crate::{
    agent::transcript::TranscriptEntry,
    event::{GateRole, LoopEvent, Reason},
    sandbox::SandboxHeld,
    text::{LINES_OF_RED_GATE, last_lines},
    view::WorkflowView,
};

/// When what agents say is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TellMode {
    /// While they say it.
    Stream,
    /// After each iteration, as one message, without what their tools did.
    #[default]
    Batch,
}

/// What kind of message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TellKind {
    /// How far the run has come.
    Progress,
    /// The user has to know of it: a question, a refusal, a stop.
    Matters,
    /// The last message of a run, unless the run goes on later.
    End,
    /// Words of an agent.
    Said,
    /// What a script printed.
    Printed,
    /// What a check is, or came to.
    Check,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowMessage {
    pub kind: TellKind,
    pub text: String,
}

impl WorkflowMessage {
    fn new(kind: TellKind, text: impl Into<String>) -> Option<Self> {
        Some(Self { kind, text: text.into() })
    }

    /// Something that was printed, without the tag of a promise; `None` if nothing was there but a tag.
    fn printed(kind: TellKind, text: &str) -> Option<Self> {
        let shown = without_promise(text);
        if shown.trim().is_empty() && !text.trim().is_empty() {
            return None;
        }
        Self::new(kind, shown.trim_end())
    }
}

/// Tells of one run.
pub struct WorkflowTeller {
    mode: TellMode,
    workflow: Option<Workflow>,
    /// The iteration that runs or ran last.
    iteration: u32,
    /// How many iterations of each interactive loop have ended.
    iterated: BTreeMap<StepId, u32>,
    /// Why the newest loop ended.
    reason: Option<Reason>,
    /// What an agent said in this iteration, in batch mode: its messages.
    said: Vec<String>,
    /// Whether the newest of them is still being printed line by line.
    is_printing: bool,
    /// What was told of sandboxes that hold less than they promise.
    shortfalls: BTreeSet<String>,
}

impl WorkflowTeller {
    /// `resumed` is the workflow of a run that goes on.
    pub fn new(mode: TellMode, resumed: Option<Workflow>) -> Self {
        Self {
            mode,
            workflow: resumed,
            iteration: 0,
            iterated: BTreeMap::new(),
            reason: None,
            said: Vec::new(),
            is_printing: false,
            shortfalls: BTreeSet::new(),
        }
    }

    pub fn mode(&self) -> TellMode {
        self.mode
    }

    /// The workflow that runs, once its beginning was told.
    pub fn workflow(&self) -> Option<&Workflow> {
        self.workflow.as_ref()
    }

    /// The iteration that runs or ran last; 0 before the first.
    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// What an event of the run is told as; `view` is how the run stands after it.
    pub fn event(&mut self, event: &WorkflowEvent, view: &WorkflowView) -> Option<WorkflowMessage> {
        use TellKind::{Matters, Printed, Progress};
        self.iterated.extend(view.steps.iter().filter_map(|step| Some((step.id.clone(), step.iterations?))));
        match event {
            WorkflowEvent::WorkflowStart(started) => {
                self.workflow = Some(started.workflow.clone());
                WorkflowMessage::new(Progress, messages::starting(&started.workflow))
            }
            WorkflowEvent::StepStart {
                step,
                work: work @ (StepWorkKind::Main | StepWorkKind::Check),
                ..
            } => {
                let workflow = self.workflow.as_ref().filter(|known| known.form != WorkflowForm::Loop)?;
                let place = workflow.steps.iter().position(|known| known.id == *step);
                let (place, found) = place.zip(workflow.step(step))?;
                let mut text = messages::step(workflow, place + 1, &found.kind, step.as_str());
                if *work == StepWorkKind::Check {
                    text += ", its checks again";
                }
                WorkflowMessage::new(Progress, text)
            }
            WorkflowEvent::ScriptStarted { sandbox, .. } => self.shortfall(sandbox),
            WorkflowEvent::StepComplete { step, output, .. } => {
                let of = self.workflow.as_ref().and_then(|workflow| workflow.step(step))?;
                let is_script = matches!(of.kind, StepKind::Bash(_)) && !output.trim().is_empty();
                is_script.then(|| WorkflowMessage::printed(Printed, output)).flatten()
            }
            WorkflowEvent::WaitStarted { step, .. } => {
                let waits = view.steps.iter().find(|known| known.id == *step);
                let what = waits.and_then(|known| known.waits_for.as_deref()).unwrap_or_default();
                WorkflowMessage::new(Matters, format!("**Waits**: {step} {what}").trim_end())
            }
            WorkflowEvent::StepSkipped { step, why } => {
                WorkflowMessage::new(Progress, format!("**Skipped**: {step}, {why}"))
            }
            WorkflowEvent::StepError { step, error, retry_at: Some(_), .. } => {
                WorkflowMessage::new(Progress, format!("**Failed, and is tried again**: {step}\n\n{error}"))
            }
            WorkflowEvent::QuestionAsked { message, decisions, .. } => {
                let mut text = format!("**Question**: {message}");
                for known in decisions {
                    let label = known.label.as_deref().unwrap_or_default();
                    text += format!("\n  {} {label}", known.id).trim_end();
                }
                if let Some(why) = view.question.as_ref().and_then(|question| question.again.as_ref()) {
                    text += &format!("\n\nIt is asked again: {why}.");
                }
                WorkflowMessage::new(Matters, text)
            }
            WorkflowEvent::WorkflowComplete { output } => {
                let detail = output.clone();
                self.end(&WorkflowEnd { end: EndReason::Completed, detail, exit_code: 0 })
            }
            WorkflowEvent::WorkflowError(end) => self.end(end),
            WorkflowEvent::WorkflowPaused { .. } => WorkflowMessage::new(Matters, "**Paused**"),
            WorkflowEvent::BudgetExceeded { what } => {
                WorkflowMessage::new(Matters, format!("**Budget**: {what}"))
            }
            _ => None,
        }
    }

    fn end(&self, end: &WorkflowEnd) -> Option<WorkflowMessage> {
        let workflow = self.workflow.as_ref()?;
        let text = match (workflow.as_loop(), end.end) {
            (Some(_), EndReason::Completed) => messages::loop_complete(&workflow.name, self.iteration),
            (Some(_), EndReason::Failed) if self.reason == Some(Reason::MaxIterations) => {
                messages::loop_incomplete(&workflow.name, &end.detail)
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
        WorkflowMessage::new(TellKind::End, text)
    }

    /// What an event of a loop of the run is told as; the loop is one of this step.
    pub fn loop_event(&mut self, step: &StepId, event: &LoopEvent) -> Option<WorkflowMessage> {
        match event {
            LoopEvent::LoopStarted(started) => {
                self.reason = None;
                return started.sandbox.as_ref().and_then(|held| self.shortfall(held));
            }
            LoopEvent::GateStarted { name, role: GateRole::Gate, look, .. } if !look.is_repeated() => {
                return WorkflowMessage::printed(TellKind::Check, &format!("check `{name}`:"));
            }
            LoopEvent::GateFinished { name, role: GateRole::Gate, result, look, .. }
                if !result.passed || !look.is_repeated() =>
            {
                let mut text = format!("check {}", result.in_words(name));
                // While a run is told line by line, what the check printed has been.
                if self.mode == TellMode::Batch && !result.passed {
                    let printed = last_lines(&result.output_tail, LINES_OF_RED_GATE);
                    printed.iter().for_each(|line| text += &format!("\n  {line}"));
                }
                return WorkflowMessage::printed(TellKind::Check, &text);
            }
            LoopEvent::ClaimRefused { detail, .. } => {
                return WorkflowMessage::new(TellKind::Matters, format!("**Not done**: {detail}"));
            }
            LoopEvent::IterationStarted { iteration, .. } => {
                // Each iteration of an interactive loop is a loop of its own.
                let before = self.iterated.get(step).copied();
                self.iteration = before.map_or(*iteration, |before| before + 1);
                let kind = self.workflow.as_ref().and_then(|workflow| workflow.step(step)).map(|of| &of.kind);
                if let Some(StepKind::Loop(looped)) = kind {
                    let text = messages::iteration(self.iteration, looped.max_iterations);
                    return WorkflowMessage::new(TellKind::Progress, text);
                }
            }
            LoopEvent::AgentExited { .. } => return self.batch(),
            LoopEvent::LoopFinished { reason, .. } => self.reason = Some(*reason),
            _ => {}
        }
        None
    }

    /// What a sandbox does not hold, unless it was told before.
    fn shortfall(&mut self, held: &SandboxHeld) -> Option<WorkflowMessage> {
        let lines = held.shortfall(&mut self.shortfalls);
        let text = (!lines.is_empty()).then(|| format!("**Sandbox**: {}", lines.join("\n")))?;
        WorkflowMessage::new(TellKind::Progress, text)
    }

    /// What an agent said since the last time, as one message; nothing if it said nothing.
    fn batch(&mut self) -> Option<WorkflowMessage> {
        self.is_printing = false;
        let said = std::mem::take(&mut self.said).join("\n\n");
        let said = without_promise(&said);
        if said.trim().is_empty() { None } else { WorkflowMessage::new(TellKind::Said, said.trim()) }
    }

    /// What an agent or a check printed that is told at once, if it is.
    pub fn output(&self, line: &str) -> Option<WorkflowMessage> {
        match self.mode {
            TellMode::Stream => WorkflowMessage::printed(TellKind::Printed, line),
            TellMode::Batch => None,
        }
    }

    /// What an agent said or did, if it is told at once.
    pub fn said(&mut self, said: &TranscriptEntry) -> Option<WorkflowMessage> {
        if self.mode == TellMode::Stream {
            return WorkflowMessage::printed(TellKind::Said, said.line().trim_end_matches('\n'));
        }
        match said {
            TranscriptEntry::Assistant { text } => {
                self.is_printing = false;
                self.said.push(text.trim().to_owned());
            }
            TranscriptEntry::Line { text } => match self.said.last_mut() {
                Some(message) if self.is_printing => {
                    message.push('\n');
                    message.push_str(text);
                }
                _ => {
                    self.is_printing = true;
                    self.said.push(text.clone());
                }
            },
            // Not in a batch (req 153).
            TranscriptEntry::Tool { .. } | TranscriptEntry::Note { .. } => {}
        }
        None
    }
}
