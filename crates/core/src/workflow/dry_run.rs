//! Walking through a workflow without agents, scripts or people: the machine itself, with answers that were given or made up.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::{
    StepId, StepKind, Workflow, answer,
    machine::{
        Answer, LoopResult, ScriptEnd, ScriptResult, StepWorkKind, WorkflowEffect, WorkflowEnd,
        WorkflowEvent, WorkflowInput, WorkflowMachine, WorkflowNews, WorkflowStarted,
    },
};
use crate::{
    event::Reason,
    machine::InMemory,
    problem::{CheckedFile, Problem},
    text::nearest::nearest,
    yaml::{self, YamlNode, YamlValue, short},
};

/// What a step answers in a dry run. Several answers are for several attempts; the last one holds for all that follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stub {
    pub output: Option<String>,
    /// The exit code of a script.
    pub exit_code: i32,
    /// Why the agent fails, if it does.
    pub error: Option<String>,
    /// What the person says: `approve`, `reject` or the id of a decision.
    pub decision: Option<String>,
    /// What the person writes.
    pub text: String,
}

pub type Stubs = BTreeMap<StepId, Vec<Stub>>;

/// One line of what would happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DryRunLine {
    pub step: StepId,
    /// `prompt`, `command`, `loop`, `bash`, `approval`, `wait`, `cancel`, `rework`, or `check`.
    pub kind: String,
    pub attempt: u32,
    /// `completed`, `failed`, `skipped`, `asked`, `answered`, `waited`.
    pub what: String,
    /// The prompt, the script, the question, the answer, or the reason.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DryRun {
    pub lines: Vec<DryRunLine>,
    pub end: WorkflowEnd,
}

/// More steps than this are a circle of rejections.
const MOST: usize = 10_000;

/// Reads a file of stubs: a map from steps to texts, maps (`output`, `exit_code`, `error`, `decision`, `text`), or lists of them.
pub fn read_stubs(workflow: &Workflow, file: &str, bytes: &[u8]) -> Result<Stubs, Vec<Problem>> {
    let source = CheckedFile { file, bytes };
    let (root, wrong) = yaml::read(bytes);
    let mut problems: Vec<Problem> = wrong.into_iter().map(|wrong| source.wrong(wrong)).collect();
    let mut stubs = Stubs::new();
    let entries = match root.map(|root| (root.place, root.value)) {
        Some((_, YamlValue::Map(entries))) => entries,
        None => Vec::new(),
        Some((place, _)) => {
            problems.push(source.problem(
                place,
                "stubs must be a map from steps to answers",
                "write `plan: text`",
            ));
            Vec::new()
        }
    };
    let known: Vec<&str> = workflow.steps.iter().map(|step| step.id.as_str()).collect();
    for (key, node) in entries {
        let Some(step) = workflow.steps.iter().find(|step| step.id.as_str() == key.name) else {
            let fix = match nearest(&key.name, &known) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("steps of this workflow: {}", known.join(", ")),
            };
            problems.push(source.problem(key.place, format!("there is no step `{}`", short(&key.name)), fix));
            continue;
        };
        let nodes = match node.value {
            YamlValue::List(items) => items,
            value => vec![YamlNode { place: node.place, value }],
        };
        let read = nodes.into_iter().map(|node| stub(source, node));
        let (good, bad): (Vec<_>, Vec<_>) = read.partition(Result::is_ok);
        problems.extend(bad.into_iter().filter_map(Result::err));
        stubs.insert(step.id.clone(), good.into_iter().filter_map(Result::ok).collect());
    }
    if problems.is_empty() { Ok(stubs) } else { Err(problems) }
}

fn stub(source: CheckedFile<'_>, node: YamlNode) -> Result<Stub, Problem> {
    let mut stub = Stub::default();
    let entries = match node.value {
        YamlValue::Scalar { text, .. } => return Ok(Stub { output: Some(text), ..stub }),
        YamlValue::List(_) => {
            return Err(source.problem(
                node.place,
                "a stub must be a text or a map",
                "write `{output: text}`",
            ));
        }
        YamlValue::Map(entries) => entries,
    };
    for (key, value) in entries {
        let text = match &value.value {
            YamlValue::Scalar { text, .. } => text.clone(),
            // An answer in JSON may be written as a map.
            _ => super::reader::json(&value).to_string(),
        };
        match key.name.as_str() {
            "output" => stub.output = Some(text),
            "error" => stub.error = Some(text),
            "decision" => stub.decision = Some(text),
            "text" => stub.text = text,
            "exit_code" => {
                stub.exit_code = text.parse().map_err(|_| {
                    source.problem(value.place, "`exit_code` must be a whole number", "write `exit_code: 1`")
                })?;
            }
            other => {
                let what = format!("unknown key `{}`", short(other));
                let fix = "known here: output, exit_code, error, decision, text";
                return Err(source.problem(key.place, what, fix));
            }
        }
    }
    Ok(stub)
}

/// Walks through a workflow. Nothing is started, nothing is asked, nothing is waited for.
pub fn walk(started: WorkflowStarted, stubs: &Stubs) -> DryRun {
    let mut world = World {
        machine: InMemory::default(),
        stubs: stubs.clone(),
        lines: Vec::new(),
        queue: Vec::new(),
        now: Timestamp::UNIX_EPOCH,
    };
    world.tell(WorkflowNews::Begin(Box::new(started)));
    for _ in 0..MOST {
        if world.queue.is_empty() {
            break;
        }
        let effect = world.queue.remove(0);
        world.perform(effect);
    }
    let end = world.machine.state().end().cloned().unwrap_or_else(|| WorkflowEnd {
        end: super::machine::EndReason::Failed,
        detail: "the walk came to no end".to_owned(),
        exit_code: 1,
    });
    DryRun { lines: world.lines, end }
}

struct World {
    machine: InMemory<WorkflowMachine>,
    stubs: Stubs,
    lines: Vec<DryRunLine>,
    queue: Vec<WorkflowEffect>,
    now: Timestamp,
}

impl World {
    fn tell(&mut self, news: WorkflowNews) {
        let step = self.machine.step(WorkflowInput { now: self.now, news });
        for event in &step.events {
            self.note(event);
        }
        self.queue.extend(step.effects);
    }

    /// The answer that is next for a step.
    fn stub(&mut self, id: &StepId) -> Option<Stub> {
        let stubs = self.stubs.get_mut(id)?;
        if stubs.len() > 1 { Some(stubs.remove(0)) } else { stubs.first().cloned() }
    }

    fn kind(&self, id: &StepId) -> Option<StepKind> {
        self.machine.state().workflow()?.step(id).map(|step| step.kind.clone())
    }

    fn line(&mut self, step: &StepId, attempt: u32, kind: &str, what: &str, text: impl Into<String>) {
        let (step, kind, what) = (step.clone(), kind.to_owned(), what.to_owned());
        self.lines.push(DryRunLine { step, kind, attempt, what, text: text.into() });
    }

    fn note(&mut self, event: &WorkflowEvent) {
        let kind = |world: &Self, id: &StepId| world.kind(id).map_or("", |kind| kind.as_str());
        match event {
            WorkflowEvent::StepSkipped { step, why } => {
                let kind = kind(self, step);
                self.line(step, 0, kind, "skipped", why.clone());
            }
            WorkflowEvent::StepComplete { step, attempt, output, .. } => {
                let kind = kind(self, step);
                self.line(step, *attempt, kind, "completed", output.clone());
            }
            WorkflowEvent::StepError { step, attempt, error, .. } => {
                let kind = kind(self, step);
                self.line(step, *attempt, kind, "failed", error.clone());
            }
            _ => {}
        }
    }

    fn perform(&mut self, effect: WorkflowEffect) {
        match effect {
            WorkflowEffect::RunLoop(order) => {
                // Checks that run again pass: a stub is an answer of an agent.
                let stub = if order.work == StepWorkKind::Check { None } else { self.stub(&order.step) };
                let kind = match order.work {
                    StepWorkKind::Rework => "rework",
                    StepWorkKind::Check => "check",
                    _ => self.kind(&order.step).map_or("", |kind| kind.as_str()),
                };
                self.line(&order.step, order.attempt, kind, "began", order.prompt(None));
                let made_up = match self.kind(&order.step) {
                    Some(StepKind::Agent(agent)) => agent.output_format.as_ref().map(answer::made_up),
                    _ => None,
                };
                let made_up =
                    made_up.map_or_else(|| format!("answer of {}", order.step), |value| value.to_string());
                let stub = stub.unwrap_or_default();
                let reason = if stub.error.is_some() { Reason::Error } else { Reason::Done };
                let end = LoopResult {
                    reason,
                    detail: stub.error.unwrap_or_default(),
                    output: if order.work == StepWorkKind::Check {
                        String::new()
                    } else {
                        stub.output.unwrap_or(made_up)
                    },
                    tree: String::new(),
                    is_changed: false,
                    session: None,
                    refused: None,
                    repeats: false,
                };
                let (step, attempt) = (order.step.clone(), order.attempt);
                self.tell(WorkflowNews::LoopEnded { step, attempt, end: Box::new(end) });
            }
            WorkflowEffect::RunScript(order) => {
                let stub = self.stub(&order.step).unwrap_or_default();
                self.line(&order.step, order.attempt, "bash", "began", order.script.text.clone());
                let output = stub.output.unwrap_or_default();
                let end = ScriptResult { end: ScriptEnd::Exited(stub.exit_code), output, is_changed: false };
                let (step, attempt) = (order.step.clone(), order.attempt);
                self.tell(WorkflowNews::ScriptEnded { step, attempt, end });
            }
            WorkflowEffect::MergeWorktree { step, attempt } => {
                self.tell(WorkflowNews::Merged { step, attempt, end: Ok(()) });
            }
            WorkflowEffect::LookAtTree { step, attempt } => {
                self.tell(WorkflowNews::TreeSeen { step, attempt, tree: String::new() });
            }
            WorkflowEffect::Ask { question } => self.answer(question),
            WorkflowEffect::Wait { step, what, due } => {
                self.line(&step, 1, "wait", "waited", what.to_string());
                match due {
                    Some(due) => {
                        self.now = due.max(self.now);
                        self.tell(WorkflowNews::Due);
                    }
                    None => self.wait_over(step, what),
                }
            }
            WorkflowEffect::WakeAt(at) => {
                self.now = at.max(self.now);
                self.tell(WorkflowNews::Due);
            }
            WorkflowEffect::Stop { .. }
            | WorkflowEffect::HoldLoops { .. }
            | WorkflowEffect::ReleaseLoops
            | WorkflowEffect::Warn(_)
            | WorkflowEffect::End(_) => {}
        }
    }

    fn wait_over(&mut self, step: StepId, what: super::WaitFor) {
        match what {
            super::WaitFor::Signal(name) => self.tell(WorkflowNews::Signalled { name }),
            _ => self.tell(WorkflowNews::FileSeen { step }),
        }
    }

    fn answer(&mut self, question: u32) {
        let Some((id, _)) = self.machine.state().question(question) else { return };
        let id = id.clone();
        let stub = self.stub(&id).unwrap_or_default();
        let first = match self.kind(&id) {
            Some(StepKind::Approval(approval)) => approval
                .decisions
                .iter()
                .find(|decision| !decision.rework)
                .map(|decision| decision.id.clone()),
            _ => None,
        };
        let answer = match stub.decision.as_deref() {
            Some("approve") => Answer::Approve,
            Some("reject") => Answer::Reject,
            Some(other) => Answer::Choose(other.to_owned()),
            None => first.map_or(Answer::Approve, Answer::Choose),
        };
        let words = stub.decision.clone().unwrap_or_else(|| "approve".to_owned());
        let attempt = self.machine.state().step(&id).map_or(0, |step| step.attempt);
        let kind = self.kind(&id).map_or("", |kind| kind.as_str());
        self.line(&id, attempt, kind, "answered", words);
        if let Err(why) = super::machine::accepts(self.machine.state(), question, &answer) {
            // A stub that fits no decision: the run ends, and says why.
            self.tell(WorkflowNews::Cancel { why: format!("stub of `{id}`: {why}") });
            return;
        }
        let (text, tree) = (stub.text, String::new());
        self.tell(WorkflowNews::Answered { question, answer, text, tree });
    }
}

#[cfg(test)]
#[path = "dry_run_tests.rs"]
mod tests;
