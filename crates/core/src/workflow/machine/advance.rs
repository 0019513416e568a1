//! What follows from where a run stands: what is skipped, what begins, who is asked, how it ends.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{
    EndReason, StepPhase, StepWorkKind, WorkflowEffect, WorkflowEnd, WorkflowEvent, WorkflowProgress,
    WorkflowStarted,
    order::{StepLoop, StepScript},
};
use crate::{
    event::Reason,
    machine,
    workflow::{SessionRule, Step, StepId, StepKind, TriggerRule, WaitFor, WorkflowForm},
};

/// A decision while it is made: facts are taken in at once, so that what follows is decided on them.
pub(super) struct Deciding {
    pub(super) state: WorkflowProgress,
    pub(super) now: Timestamp,
    events: Vec<WorkflowEvent>,
    effects: Vec<WorkflowEffect>,
}

impl Deciding {
    pub(super) fn new(state: &WorkflowProgress, now: Timestamp) -> Self {
        Self { state: state.clone(), now, events: Vec::new(), effects: Vec::new() }
    }

    pub(super) fn record(&mut self, event: WorkflowEvent) {
        self.state.apply(&event);
        self.events.push(event);
    }

    pub(super) fn perform(&mut self, effect: WorkflowEffect) {
        self.effects.push(effect);
    }

    pub(super) fn done(self) -> machine::Step<WorkflowEvent, WorkflowEffect> {
        machine::Step { events: self.events, effects: self.effects }
    }

    /// Has the run end like this, as soon as nothing of it runs.
    pub(super) fn stop(&mut self, end: WorkflowEnd) {
        if self.state.end.is_some() || self.state.stopping.is_some() {
            return;
        }
        self.record(WorkflowEvent::WorkflowStopping { end });
        let running: Vec<(StepId, u32)> = self
            .state
            .steps
            .iter()
            .filter(|(_, step)| matches!(step.phase, StepPhase::Running(work) if work != StepWorkKind::Merge))
            .map(|(id, step)| (id.clone(), step.attempt))
            .collect();
        for (step, attempt) in running {
            self.perform(WorkflowEffect::Stop { step, attempt });
        }
    }

    /// Goes as far as the run can go by itself.
    pub(super) fn advance(&mut self) {
        if self.state.started.is_none() || self.state.end.is_some() {
            return;
        }
        self.waits_over();
        self.skip();
        let may_begin = |state: &WorkflowProgress| {
            let is_spent = state.exceeded.is_some() && state.enforces_budget();
            state.stopping.is_none() && !state.is_paused && !is_spent
        };
        // What begins can complete at once, and let others begin.
        while may_begin(&self.state) {
            let Some(step) = self.next() else { break };
            self.begin(&step);
            self.skip();
        }
        self.finish();
    }

    /// What the run was started with; shared, so that the steps in it can be looked at while the state changes.
    fn started(&self) -> Option<Arc<WorkflowStarted>> {
        self.state.started.clone()
    }

    /// Waits whose time has come.
    fn waits_over(&mut self) {
        if self.state.stopping.is_some() {
            return;
        }
        let now = self.now;
        let due: Vec<(StepId, u32)> = self
            .state
            .steps
            .iter()
            .filter(|(_, step)| matches!(step.phase, StepPhase::Waiting { due: Some(due) } if due <= now))
            .map(|(id, step)| (id.clone(), step.attempt))
            .collect();
        for (step, attempt) in due {
            self.complete(step, attempt, String::new(), false, None);
        }
    }

    pub(super) fn complete(
        &mut self,
        step: StepId,
        attempt: u32,
        output: String,
        is_changed: bool,
        session: Option<String>,
    ) {
        let output = crate::workflow::template::shortened(&output);
        let of = self.state.workflow().and_then(|workflow| workflow.step(&step));
        let is_apart = !matches!(self.state.phase(&step), StepPhase::Running(work) if work.is_in_workspace());
        let event = if is_apart && of.is_some_and(|of| of.worktree && of.kind.uses_workspace()) {
            WorkflowEvent::StepWorked { step, attempt, output, is_changed, session }
        } else {
            WorkflowEvent::StepComplete { step, attempt, output, is_changed, session }
        };
        self.record(event);
    }

    /// Steps that are not taken, and those that are not taken because of that.
    fn skip(&mut self) {
        if self.state.stopping.is_some() {
            return;
        }
        let Some(started) = self.started() else { return };
        loop {
            let skipped = started
                .workflow
                .steps
                .iter()
                .find_map(|step| Some((step.id.clone(), self.why_skipped(step)?)));
            let Some((step, why)) = skipped else { break };
            self.record(WorkflowEvent::StepSkipped { step, why });
        }
    }

    fn is_pending(&self, step: &Step) -> bool {
        let is_settled = |id: &StepId| self.state.phase(id).is_settled();
        *self.state.phase(&step.id) == StepPhase::Pending && step.depends_on.iter().all(is_settled)
    }

    fn why_skipped(&self, step: &Step) -> Option<String> {
        if !self.is_pending(step) {
            return None;
        }
        let phases: Vec<&StepPhase> = step.depends_on.iter().map(|id| self.state.phase(id)).collect();
        let completed = phases.iter().filter(|phase| ***phase == StepPhase::Completed).count();
        let is_failed = phases.iter().any(|phase| matches!(phase, StepPhase::Failed { .. }));
        let runs = match step.trigger_rule {
            TriggerRule::AllSuccess => completed == phases.len(),
            TriggerRule::OneSuccess => completed > 0 || phases.is_empty(),
            TriggerRule::NoneFailedMinOneSuccess => !is_failed && (completed > 0 || phases.is_empty()),
            TriggerRule::AllDone => true,
        };
        if !runs {
            let (id, how) = step.depends_on.iter().zip(&phases).find_map(|(id, phase)| match phase {
                StepPhase::Failed { .. } => Some((id, "failed")),
                StepPhase::Skipped { .. } => Some((id, "was skipped")),
                _ => None,
            })?;
            return Some(format!("`{id}` {how}"));
        }
        let condition = step.when.as_ref()?;
        let output = |id: &StepId| {
            let step = self.state.step(id)?;
            (step.phase == StepPhase::Completed).then_some(step.output.as_str())
        };
        (!condition.holds(output)).then(|| format!("`{}` does not hold", condition.text))
    }

    /// The next step that can begin now.
    fn next(&self) -> Option<Step> {
        let started = self.started()?;
        let steps = &started.workflow.steps;
        let now = self.now;
        let is_ready = |step: &&Step| match self.state.phase(&step.id) {
            StepPhase::Ready(_) => true,
            StepPhase::Retrying { at } => *at <= now,
            StepPhase::Pending => self.is_pending(step),
            _ => false,
        };
        let parallel = started.parallel.max(1) as usize;
        let works = |step: &Step| {
            step.kind.uses_workspace()
                || matches!(self.state.phase(&step.id), StepPhase::Ready(StepWorkKind::Rework))
        };
        let merges = |step: &Step| *self.state.phase(&step.id) == StepPhase::Ready(StepWorkKind::Merge);
        let is_apart = |step: &Step| step.worktree && !self.next_work(&step.id).is_in_workspace();
        let has_room = |step: &Step| match (works(step), is_apart(step)) {
            (false, _) => true,
            (true, true) => self.state.running_worktrees() < parallel,
            (true, false) => {
                let is_free = !self.state.is_workspace_busy() && !self.state.is_looking();
                // dacapo itself does not change the files that a person is asked about.
                is_free && !(merges(step) && self.state.is_asking())
            }
        };
        let is_question = |step: &Step| {
            matches!(step.kind, StepKind::Approval(_)) && *self.state.phase(&step.id) == StepPhase::Pending
        };
        let ready: Vec<&Step> = steps.iter().filter(is_ready).collect();
        let merge = ready.iter().find(|step| merges(step) && has_room(step));
        let work = || ready.iter().find(|step| !is_question(step) && has_room(step));
        if let Some(step) = merge.or_else(work) {
            return Some((*step).clone());
        }
        // A person is asked about files at rest.
        let at_rest =
            !self.state.is_workspace_busy() && !ready.iter().any(|step| works(step) && !is_apart(step));
        ready.into_iter().find(|step| at_rest && is_question(step)).cloned()
    }

    /// What a step begins with when it begins next.
    fn next_work(&self, id: &StepId) -> StepWorkKind {
        match self.state.phase(id) {
            StepPhase::Ready(work) => *work,
            _ if self.state.step(id).is_some_and(|own| own.only_checks) => StepWorkKind::Check,
            _ => StepWorkKind::Main,
        }
    }

    fn begin(&mut self, step: &Step) {
        let id = &step.id;
        let own = self.state.step(id).cloned().unwrap_or_default();
        if own.is_continued {
            self.record(WorkflowEvent::StepContinued { step: id.clone(), attempt: own.attempt });
            self.order(step);
            if let Some(WorkflowEffect::RunLoop(order)) = self.effects.last_mut() {
                order.is_continued = true;
            }
            return;
        }
        let attempt = own.attempt + 1;
        let work = self.next_work(id);
        match &step.kind {
            StepKind::Wait(what) => {
                let due = match what {
                    WaitFor::Duration(time) => {
                        let time = SignedDuration::from_millis(i64::try_from(time.0).unwrap_or(i64::MAX));
                        self.now.checked_add(time).ok().or(Some(Timestamp::MAX))
                    }
                    WaitFor::Time(time) => Some(*time),
                    WaitFor::File(_) | WaitFor::Signal(_) => None,
                };
                self.record(WorkflowEvent::WaitStarted { step: id.clone(), attempt, due });
                if due.is_some_and(|due| due <= self.now) {
                    self.complete(id.clone(), attempt, String::new(), false, None);
                } else {
                    self.perform(WorkflowEffect::Wait { step: id.clone(), what: what.clone(), due });
                }
            }
            StepKind::Cancel { reason } => {
                let reason = self.fill(id, reason);
                self.record(WorkflowEvent::StepStart { step: id.clone(), attempt, work: StepWorkKind::Main });
                self.complete(id.clone(), attempt, String::new(), false, None);
                self.stop(WorkflowEnd::cancelled(reason));
            }
            StepKind::Approval(_) if work == StepWorkKind::Main => {
                self.record(WorkflowEvent::StepStart {
                    step: id.clone(),
                    attempt,
                    work: StepWorkKind::Question,
                });
                self.perform(WorkflowEffect::LookAtTree { step: id.clone(), attempt });
            }
            StepKind::Agent(_) | StepKind::Loop(_) | StepKind::Bash(_) | StepKind::Approval(_) => {
                self.record(WorkflowEvent::StepStart { step: id.clone(), attempt, work });
                self.order(step);
            }
        }
    }

    /// Tells the performer what to run for a step that is recorded as running.
    pub(super) fn order(&mut self, step: &Step) {
        let (Some(started), Some(own)) = (self.state.started.clone(), self.state.step(&step.id).cloned())
        else {
            return;
        };
        let StepPhase::Running(work) = own.phase else { return };
        if work == StepWorkKind::Merge {
            let (step, attempt) = (step.id.clone(), own.attempt);
            return self.perform(WorkflowEffect::MergeWorktree { step, attempt });
        }
        let variables = self.state.variables(&step.id);
        if let Some(script) = StepScript::new(&started.workflow, step, own.attempt, variables.clone()) {
            self.perform(WorkflowEffect::RunScript(Box::new(script)));
            return;
        }
        let mut order = StepLoop::new(&started.workflow, step, own.attempt, work, variables);
        order.session = self.session(step, &order);
        self.perform(WorkflowEffect::RunLoop(Box::new(order)));
    }

    /// The session that a step goes on with: its own between the iterations of an interactive loop, else that of the only
    /// agent right above it.
    fn session(&self, step: &Step, order: &StepLoop) -> Option<String> {
        let own = self.state.step(&step.id)?;
        if own.iterations > 0 {
            return own.session.clone().filter(|_| order.continue_session);
        }
        if step.session == SessionRule::Fresh && order.work == StepWorkKind::Main {
            return None;
        }
        let workflow = self.state.workflow()?;
        // Scripts and questions on the way have no session.
        let (mut above, mut found) = (step.depends_on.clone(), Vec::new());
        let mut seen = std::collections::BTreeSet::new();
        while let Some(id) = above.pop() {
            let Some(before) = workflow.step(&id).filter(|_| seen.insert(id.clone())) else { continue };
            if before.kind.has_agent() { found.push(before) } else { above.extend(before.depends_on.clone()) }
        }
        let [before] = found.as_slice() else { return None };
        let provider = before.provider.as_ref().or(workflow.provider.as_ref());
        let is_same = provider == order.provider.as_ref() && !before.worktree && !step.worktree;
        let progress = self.state.step(&before.id)?;
        progress.session.clone().filter(|_| is_same && progress.phase == StepPhase::Completed)
    }

    pub(super) fn fill(&self, id: &StepId, text: &str) -> String {
        let is_step = |id: &StepId| self.state.steps.contains_key(id);
        self.state.variables(id).fill(text, is_step)
    }

    /// Ends the run if nothing of it is left.
    fn finish(&mut self) {
        let phases: Vec<&StepPhase> = self.state.steps.values().map(|step| &step.phase).collect();
        if let Some(end) = self.state.stopping.clone() {
            if !phases.iter().any(|phase| matches!(phase, StepPhase::Running(_))) {
                self.end(end);
            }
            return;
        }
        if phases.iter().all(|phase| phase.is_settled()) {
            let end = self.judge();
            self.end(end);
            return;
        }
        let wake = phases.iter().filter_map(|phase| match phase {
            StepPhase::Retrying { at } => Some(*at),
            _ => None,
        });
        if let Some(at) = wake.min() {
            self.perform(WorkflowEffect::WakeAt(at));
        }
    }

    fn end(&mut self, end: WorkflowEnd) {
        if end.end == EndReason::Completed {
            self.record(WorkflowEvent::WorkflowComplete { output: end.detail });
        } else {
            self.record(WorkflowEvent::WorkflowError(end));
        }
        if let Some(end) = self.state.end.clone() {
            self.perform(WorkflowEffect::End(end));
        }
    }

    /// How a run ended whose steps are all settled. A failure counts unless a step with `one_success` has made up for it.
    fn judge(&self) -> WorkflowEnd {
        let started = self.started();
        let steps: &[Step] = started.as_ref().map_or(&[], |started| &started.workflow.steps);
        let is_made_up_for = |failed: &StepId| {
            steps.iter().any(|step| {
                step.trigger_rule == TriggerRule::OneSuccess
                    && step.depends_on.contains(failed)
                    && *self.state.phase(&step.id) == StepPhase::Completed
            })
        };
        let failures: Vec<(&Step, &String, Option<Reason>)> = steps
            .iter()
            .filter_map(|step| match self.state.phase(&step.id) {
                StepPhase::Failed { error, reason } if !is_made_up_for(&step.id) => {
                    Some((step, error, *reason))
                }
                _ => None,
            })
            .collect();
        let blocked = failures.iter().find(|(_, _, reason)| *reason == Some(Reason::Blocked));
        match blocked.or(failures.first()) {
            Some((step, error, reason)) => {
                let is_blocked = *reason == Some(Reason::Blocked);
                let end = if is_blocked { EndReason::Blocked } else { EndReason::Failed };
                let exit_code = reason.map_or(1, Reason::exit_code);
                let is_loop =
                    started.as_ref().is_some_and(|started| started.workflow.form == WorkflowForm::Loop);
                // A loop alone has no other steps that it could be told from (req 158, req 159).
                let detail = if is_loop { (*error).clone() } else { format!("step `{}`: {error}", step.id) };
                WorkflowEnd { end, detail, exit_code }
            }
            None => {
                let last = steps.iter().rev().find(|step| {
                    *self.state.phase(&step.id) == StepPhase::Completed && step.kind.uses_workspace()
                });
                let output = last.and_then(|step| self.state.step(&step.id)).map(|step| step.output.clone());
                let detail = output.unwrap_or_default();
                WorkflowEnd { end: EndReason::Completed, detail, exit_code: 0 }
            }
        }
    }
}
