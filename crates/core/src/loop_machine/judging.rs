//! From a claim to its verdict: children, a look at the workspace, gates, another look, the proof.

use super::{
    decide::Turn,
    effect::{BusPost, BusTarget, Effect},
    gating::tasks_of,
    input::{Recheck, Seal},
    state::{Children, signature},
};
use crate::{
    duration::Millis,
    event::{Examination, GateResult, GateRole, IterationOutcome, LoopEvent, Reason},
    ids::LoopId,
    judge::{
        claim::{
            Refusal, RefusalReason, refused_at_once, refused_by_block, refused_by_disturbance,
            refused_by_examination,
        },
        signal::Signal,
    },
    policy::GateSpec,
    receipt,
    text::count,
};

impl Turn {
    pub(super) fn claim(&mut self, by: Vec<Signal>) {
        // Before the first iteration the claim is about iteration 0; between two, about the one before.
        let iteration = self.state.iterations;
        self.record(LoopEvent::ClaimMade { iteration, by: by.clone() });
        match refused_at_once(&by, iteration, self.state.blocked_by(), &self.started().policy) {
            Some(refusal) => self.refuse(refusal),
            None => self.await_children(),
        }
    }

    pub(super) fn await_children(&mut self) {
        let (timeout, every) = {
            let policy = &self.started().policy;
            (policy.pace.wait_timeout, policy.pace.poll_interval)
        };
        self.perform(Effect::AwaitChildren { timeout, every });
    }

    pub(super) fn children_found(&mut self, children: Vec<LoopId>) {
        self.post("INFO", format!("waiting for child loops: {}", list(&children)));
        self.record(LoopEvent::ChildrenAwaited { children });
    }

    pub(super) fn children_waited_for(&mut self, left: Vec<LoopId>, waited: Millis, cancelled: bool) {
        let gated = !self.started().policy.gates.specs.is_empty();
        if !waited.is_zero() || !left.is_empty() {
            let event = LoopEvent::ChildrenFinished {
                left: left.clone(),
                cancelled: cancelled || (gated && !left.is_empty()),
                waited_ms: waited,
            };
            self.record(event);
        }
        if left.is_empty() {
            return self.perform(Effect::Examine);
        }
        if !gated {
            self.post("WARNING", format!("child loops still running after the wait: {}", list(&left)));
            self.warn(format!("child loops still running, left alone: {}", list(&left)));
            return self.perform(Effect::Examine);
        }
        if cancelled {
            let detail = format!("child loops would not end: {}", list(&left));
            return self.refuse((RefusalReason::TreeChanged, detail));
        }
        self.warn(format!("child loops outlast the wait and are cancelled: {}", list(&left)));
        self.perform(Effect::CancelChildren);
        let (grace, every) = {
            let policy = &self.started().policy;
            (policy.pace.kill_grace, policy.pace.poll_interval)
        };
        // Twice: once for its agent, once for what that left behind; and a moment to write it down.
        let timeout = grace.plus(grace).plus(Millis::from_secs(10));
        self.perform(Effect::AwaitChildren { timeout, every });
    }

    /// The workspace was looked at: what stands against the claim before any gate runs?
    pub(super) fn examined(&mut self, found: Option<Box<Examination>>) {
        let Some(claim) = self.state.claim.clone() else { return };
        // Refused at once, unless dacapo was killed in between.
        if let Some(refusal) = refused_by_block(&claim.by, self.state.blocked_by()) {
            return self.refuse(refusal);
        }
        if let Some(found) = found {
            let refusal = refused_by_examination(&claim.by, &found, &self.started().policy);
            self.record(LoopEvent::ClaimExamined { iteration: claim.iteration, found });
            if let Some(refusal) = refusal {
                return self.refuse(refusal);
            }
        }
        match self.state.order(GateRole::Gate).first() {
            Some(first) => self.run_check(GateRole::Gate, *first, 1),
            None => self.gates_passed(),
        }
    }

    /// The workspace cannot be looked at: nothing can be proven about it.
    pub(super) fn examination_failed(&mut self, why: String) {
        self.finish(Reason::Error, format!("the workspace cannot be looked at: {why}"));
    }

    // --- checks ---------------------------------------------------------------------------------------------

    /// Starts the check of this index for the `attempt`th time.
    pub(super) fn run_check(&mut self, role: GateRole, index: usize, attempt: u32) {
        let Some(mut gate) = self.check(role, index) else { return };
        if let Some(limit) = self.started().policy.gates.timeout.filter(|_| role == GateRole::Gate) {
            // One for which no time is left has a moment all the same: it may need no more.
            let left = limit.minus(self.state.gates_took()).max(Millis::from_secs(1));
            gate.timeout = gate.timeout.min(left);
        }
        let snapshot = match role {
            GateRole::Gate => self.state.examined.as_ref().map(|found| found.snapshot.clone()),
            GateRole::Baseline => self.started().base.as_ref().map(|base| base.snapshot.clone()),
            GateRole::Until => None,
        };
        self.record(LoopEvent::GateStarted {
            iteration: self.state.iterations,
            role,
            name: gate.name.clone(),
            command: gate.run.clone(),
            attempt,
            task: gate.task,
        });
        self.perform(Effect::RunGate { gate, role, snapshot });
    }

    fn check(&self, role: GateRole, index: usize) -> Option<GateSpec> {
        let policy = &self.started().policy;
        match role {
            GateRole::Until => policy.claims.until.get(index).map(|command| GateSpec::of_command(command)),
            GateRole::Gate | GateRole::Baseline => policy.gates.specs.get(index).cloned(),
        }
    }

    pub(super) fn check_finished(
        &mut self,
        role: GateRole,
        index: usize,
        attempt: u32,
        mut result: GateResult,
    ) {
        let Some(gate) = self.check(role, index) else { return };
        if self.state.stopping.is_some() {
            // A check that was cut short says nothing. Its claim stays open: `resume` judges it again.
            if role == GateRole::Until {
                self.finish_iteration(IterationOutcome::Interrupted);
            }
            return self.finish_stopped();
        }
        result.flaky = result.passed && attempt > 1;
        result.tolerated = role == GateRole::Gate && self.is_tolerated(&gate.name, &result);
        let (passed, is_last) = (result.passed, self.check(role, index + 1).is_none());
        let task = gate.task;
        let holds = passed || result.tolerated;
        self.record(LoopEvent::GateFinished {
            iteration: self.state.iterations,
            role,
            name: gate.name.clone(),
            command: gate.run,
            task,
            result,
        });
        match (role, holds) {
            (GateRole::Baseline, _) if passed && self.started().policy.gates.red_first => {
                let detail = format!(
                    "gate `{}` passes before any work was done; red-first demands that it fails",
                    gate.name
                );
                self.finish(Reason::Error, detail);
            }
            (GateRole::Baseline, _) if is_last => self.perform(Effect::ReadMarkers),
            (GateRole::Until, true) if is_last => {
                let iteration = self.state.iterations;
                self.record(LoopEvent::SignalSeen { iteration, signal: Signal::UntilCommand });
                self.claim(vec![Signal::UntilCommand]);
            }
            (GateRole::Until, false) => self.not_done(IterationOutcome::NoClaim),
            (GateRole::Gate, false) if attempt <= gate.retries => self.run_check(role, index, attempt + 1),
            (GateRole::Gate, _) => self.gate_has_spoken(index),
            (GateRole::Baseline | GateRole::Until, _) => self.run_check(role, index + 1, 1),
        }
    }

    /// The next gate; after the last one, or after one that speaks for all, the verdict of those that ran.
    fn gate_has_spoken(&mut self, index: usize) {
        let refusal = self.state.refused_by_gates();
        let next = self.state.next_check(GateRole::Gate, index);
        match (refusal, next) {
            (Some(refusal), None) => self.refuse(refusal),
            (Some(refusal), Some(_)) if !self.started().policy.gates.run_all => self.refuse(refusal),
            (_, Some(next)) => self.run_check(GateRole::Gate, next, 1),
            (None, None) => self.gates_passed(),
        }
    }

    /// Whether a red gate is red as it was before the first agent, and that may be.
    fn is_tolerated(&self, name: &str, result: &GateResult) -> bool {
        !result.passed
            && self.started().policy.gates.tolerate_baseline
            && self.state.baseline.get(name).is_some_and(|before| *before == signature(name, result))
    }

    // --- the verdict ----------------------------------------------------------------------------------------

    fn gates_passed(&mut self) {
        let Some(claim) = &self.state.claim else { return };
        self.record(LoopEvent::GatesPassed { iteration: claim.iteration });
        let snapshot = self.state.examined.as_ref().map(|found| found.snapshot.clone());
        self.perform(Effect::Recheck { snapshot });
    }

    pub(super) fn rechecked(&mut self, recheck: Recheck) {
        let Some(claim) = self.state.claim.clone() else { return };
        if let Some(refusal) = refused_by_disturbance(&recheck.disturbed) {
            return self.refuse(refusal);
        }
        self.record(LoopEvent::TreeHeld { iteration: claim.iteration });
        // Before the commits: a crash behind them must not leave a task that did not pass complete.
        let standing = self.state.standing_tasks();
        self.set_statuses(&standing);
        let policy = &self.started().policy;
        match (&policy.keep.commit, &self.state.examined) {
            (Some(_), Some(found)) if policy.tasks.is_some() => {
                let (snapshot, set) = (found.snapshot.clone(), policy.tasks.clone());
                if let Some(set) = set {
                    self.commit_tasks(&set, snapshot, claim.iteration);
                }
            }
            // In a unit's worktree also where nothing was changed: an agent may have moved the branch under the same files.
            (Some(rule), Some(found)) if found.changed > 0 || policy.units_dir.is_some() => {
                let message =
                    rule.message.clone().unwrap_or_else(|| format!("{}: complete", self.started().task));
                let effect =
                    Effect::Commit { snapshot: found.snapshot.clone(), iteration: claim.iteration, message };
                self.perform(effect);
            }
            _ => self.accept(recheck.seal, None),
        }
    }

    pub(super) fn commit_done(&mut self, result: Result<Option<String>, String>, seal: Seal) {
        let Some(claim) = self.state.claim.clone() else { return };
        match result {
            Ok(commit) => {
                // Told once, however often it is found again.
                if let Some(commit) =
                    commit.filter(|commit| !self.state.committed.iter().any(|(_, known)| known == commit))
                {
                    self.record(LoopEvent::Committed { iteration: claim.iteration, commit, task: None });
                }
                self.accept(seal, None);
            }
            // The claim stays open: `resume` judges it again and tries once more.
            Err(why) => self.finish(Reason::Error, format!("the kept tree could not be committed: {why}")),
        }
    }

    /// The claim holds; `tree` is what was committed of it, where that differs from what was judged.
    pub(super) fn accept(&mut self, seal: Seal, tree: Option<String>) {
        let Some(mut claim) = self.state.claim.clone() else { return };
        claim.by = self.state.standing_signals();
        let verified = !self.started().policy.gates.specs.is_empty();
        let receipt = receipt::issue(&self.state, &claim, verified, seal, tree);
        self.record(LoopEvent::ClaimAccepted { iteration: claim.iteration, verified });
        if self.state.iteration_is_open {
            self.finish_iteration(IterationOutcome::Accepted);
        }
        if let Some(receipt) = receipt {
            self.record(LoopEvent::ReceiptIssued { receipt: Box::new(receipt) });
        }
        let marker = match claim.by.first() {
            _ if claim.by.contains(&Signal::DoneFile) => "DONE marker present".to_owned(),
            Some(Signal::Task(_)) => numbered(&tasks_of(&claim.by)),
            first => first.map_or("", Signal::name).to_owned(),
        };
        let detail = match self.state.children {
            Children::None => format!("task completed ({marker}, no active children)"),
            Children::Finished => "task completed (all children finished)".to_owned(),
            Children::Cancelled => format!("task completed ({marker}, child loops were cancelled)"),
            Children::Running => format!("task completed ({marker}, child loops still running)"),
        };
        let fact = BusPost {
            to: BusTarget::Project,
            kind: "FACT",
            body: format!(
                "task {} completed after {}",
                self.started().task,
                count(self.state.iterations, "iteration")
            ),
        };
        self.perform(Effect::Post(fact));
        self.finish(Reason::Done, detail);
    }

    fn refuse(&mut self, (reason, detail): Refusal) {
        let Some(claim) = self.state.claim.clone() else { return };
        self.post("WARNING", format!("claim refused: {detail}"));
        self.record(LoopEvent::ClaimRefused { iteration: claim.iteration, reason, detail });
        self.set_back(&tasks_of(&claim.by));
        if claim.by.iter().any(|s| matches!(s, Signal::DoneFile | Signal::MalformedDone(_))) {
            self.perform(Effect::SetDoneAside);
        }
        if self.state.stopping.is_some() {
            return self.finish_stopped();
        }
        if self.state.blocked_by().is_some() || (self.state.iteration_is_open && !self.state.awaits_attempt) {
            self.not_done(IterationOutcome::Refused);
        } else if self.state.max_iterations == 0 {
            // There is no agent for whom anything has to be there.
            self.next_iteration();
        } else if self.state.awaits_attempt || self.started().policy.needs_supply() {
            // Nobody was charged for this claim: whatever stands in the agent's way is looked at first.
            self.perform(Effect::ReadMarkers);
        } else {
            self.next_iteration();
        }
    }
}

/// `#1 and #3`, for people.
fn numbered(tasks: &[u32]) -> String {
    let names: Vec<String> = tasks.iter().map(|task| format!("#{task}")).collect();
    format!("{} {}", if tasks.len() == 1 { "task" } else { "tasks" }, names.join(", "))
}

fn list(loops: &[LoopId]) -> String {
    loops.iter().map(LoopId::as_str).collect::<Vec<_>>().join(", ")
}
