//! What is recorded, without secrets: events, settings, requests.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::Secrets;
use crate::{
    event::{LoopEvent, RunEvent},
    loop_machine::Request,
    policy::Policy,
    stages::machine::TaskEvent,
    workflow::machine::WorkflowEvent,
};

impl Secrets {
    /// An event as it may be recorded.
    ///
    /// Of a loop's beginning only the prompt is looked at: its settings must be found again as they are when it is
    /// resumed, so a loop whose settings hold a secret does not begin ([`Secrets::in_policy`]).
    pub fn redact_event(&self, event: LoopEvent) -> Result<LoopEvent, serde_json::Error> {
        match event {
            LoopEvent::LoopStarted(mut started) => {
                if self.is_in(&started.prompt) {
                    started.prompt = self.redact(&started.prompt).into_owned();
                }
                return Ok(LoopEvent::LoopStarted(started));
            }
            // Names of tasks and loops, and nothing else.
            LoopEvent::TasksAwaited { .. }
            | LoopEvent::ChildrenAwaited { .. }
            | LoopEvent::ChildrenFinished { .. } => return Ok(event),
            _ => {}
        }
        let mut event = self.redact_fields(event)?;
        if let LoopEvent::ReceiptIssued { receipt } = &mut event {
            receipt.sha256 = receipt.hash();
        }
        Ok(event)
    }

    /// An event of a run as it may be recorded. Paths and names of units must be found again as they are.
    pub fn redact_run_event(&self, event: RunEvent) -> Result<RunEvent, serde_json::Error> {
        match event {
            RunEvent::OrchStarted(mut started) => {
                for (_, title) in started.units.iter_mut().flat_map(|plan| &mut plan.tasks) {
                    if self.is_in(title) {
                        *title = self.redact(title).into_owned();
                    }
                }
                return Ok(RunEvent::OrchStarted(started));
            }
            RunEvent::UnitQueued { .. }
            | RunEvent::UnitBlocked { .. }
            | RunEvent::WorktreeCreated { .. }
            | RunEvent::WorktreeRemoved { .. } => return Ok(event),
            _ => {}
        }
        self.redact_fields(event)
    }

    /// An event of a run of a workflow as it may be recorded. What the run was started with is refused before if it holds a
    /// secret, but for the words of the user.
    pub fn redact_workflow_event(&self, event: WorkflowEvent) -> Result<WorkflowEvent, serde_json::Error> {
        if let WorkflowEvent::WorkflowStart(mut started) = event {
            if self.is_in(&started.message) {
                started.message = self.redact(&started.message).into_owned();
            }
            return Ok(WorkflowEvent::WorkflowStart(started));
        }
        self.redact_fields(event)
    }

    /// An event of a task as it may be recorded. What the run was started with is refused before if it holds a secret, but for
    /// the words of the task's file.
    pub fn redact_task_event(&self, event: TaskEvent) -> Result<TaskEvent, serde_json::Error> {
        if let TaskEvent::TaskStarted(mut started) = event {
            if self.is_in(&started.task.specification) {
                started.task.specification = self.redact(&started.task.specification).into_owned();
            }
            return Ok(TaskEvent::TaskStarted(started));
        }
        self.redact_fields(event)
    }

    /// An event without the secrets in any of its texts.
    ///
    /// It is read back from bytes, as events of the journal are: reading it from a value would put a second reader of every
    /// event into the binary.
    fn redact_fields<T: Serialize + DeserializeOwned>(&self, event: T) -> Result<T, serde_json::Error> {
        if !self.is_in(&serde_json::to_string(&event)?) {
            return Ok(event);
        }
        let mut value = serde_json::to_value(&event)?;
        self.redact_value(&mut value);
        serde_json::from_slice(&serde_json::to_vec(&value)?)
    }

    /// A request as it may be left for a loop.
    #[must_use]
    pub fn redact_request(&self, request: &Request) -> Request {
        match request {
            Request::Steer { text } => Request::Steer { text: self.redact(text).into_owned() },
            Request::Ask { text } => Request::Ask { text: self.redact(text).into_owned() },
            Request::Answer { decision, text, question } => Request::Answer {
                decision: decision.clone(),
                text: self.redact(text).into_owned(),
                question: *question,
            },
            Request::Cancel
            | Request::Pause { .. }
            | Request::Unpause { .. }
            | Request::Signal { .. }
            | Request::ApproveTree { .. } => request.clone(),
        }
    }

    /// What in the settings holds a secret, without it.
    pub fn in_policy(&self, policy: &Policy) -> Option<String> {
        let agents: Vec<String> = (0..=policy.agent.fallback.len())
            .map(|index| policy.agent.at(index))
            .flat_map(|agent| {
                let words = [agent.argv.join(" "), agent.resume.join(" ")];
                words.into_iter().chain(agent.env.values().cloned())
            })
            .collect();
        let promise = serde_json::to_string(&policy.claims.promise).unwrap_or_default();
        let commit = policy.whole().and_then(|item| item.commit.as_ref());
        let message = commit.iter().filter_map(|rule| rule.message.as_ref());
        let mut all = vec![("the promise", &promise)];
        all.extend(agents.iter().map(|text| ("the agent's command", text)));
        all.extend(
            policy.gates.specs.iter().flat_map(|gate| [("the gate", &gate.run), ("the gate", &gate.name)]),
        );
        all.extend(policy.gates.environment.values().map(|value| ("the environment of the checks", value)));
        all.extend(policy.claims.until.iter().map(|command| ("--until-cmd", command)));
        all.extend(policy.gates.setup.iter().map(|step| ("the setup command", &step.run)));
        all.extend(policy.gates.protect.iter().map(|glob| ("--protect", glob)));
        all.extend(message.map(|message| ("--commit-message", message)));
        all.into_iter()
            .find(|(_, text)| self.is_in(text))
            .map(|(what, text)| format!("{what} `{}`", self.redact(text)))
    }

    fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) if self.is_in(text) => *text = self.redact(text).into_owned(),
            Value::Array(values) => values.iter_mut().for_each(|value| self.redact_value(value)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.redact_value(value)),
            _ => {}
        }
    }
}
