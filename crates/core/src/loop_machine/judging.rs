//! From a claim to its verdict: child loops end, the workspace is examined, gates run, the workspace is examined again,
//! the receipt is issued.

use std::collections::BTreeSet;

use super::{
    decide::Decision,
    effect::{BusPost, BusTarget, Effect},
    input::{Recheck, Seal},
    looks::{first_look, not_found},
    phase::{Children, Iteration},
};
use crate::{
    duration::Millis,
    event::{Examination, GateResult, GateRole, IterationOutcome, Look, LoopEvent, Reason},
    ids::LoopId,
    item::{ItemKey, claimed_items},
    judge::{
        claim::{
            Refusal, RefusalReason, judge_gate, judge_must_fail, refused_at_once, refused_by_block,
            refused_by_disturbance, refused_by_examination, refused_by_rewriting,
        },
        progress::failure_signature,
        signal::Signal,
    },
    policy::GateSpec,
    receipt,
    text::count,
};

/// After how many claims in a row whose gate could not be started the user is asked.
const MAX_UNSTARTED: u32 = 2;

impl Decision {
    pub(super) fn claim(&mut self, by: Vec<Signal>) {
        // A claim before the first iteration belongs to iteration 0, a claim between two to the earlier one.
        let iteration = self.state.counters.iterations;
        self.record(LoopEvent::ClaimMade { iteration, by: by.clone() });
        match refused_at_once(&by, iteration, self.state.blocked_by(), self.policy()) {
            Some(refusal) => self.refuse(refusal),
            None => self.await_children(),
        }
    }

    pub(super) fn await_children(&mut self) {
        let (timeout, every) = {
            let policy = self.policy();
            (policy.pace.wait_timeout, policy.pace.poll_interval)
        };
        self.perform(Effect::AwaitChildren { timeout, every });
    }

    pub(super) fn children_found(&mut self, children: Vec<LoopId>) {
        self.post("INFO", format!("waiting for child loops: {}", list(&children)));
        self.record(LoopEvent::ChildrenAwaited { children });
    }

    pub(super) fn children_waited_for(&mut self, left: Vec<LoopId>, waited: Millis, cancelled: bool) {
        let gated = !self.policy().gates.specs.is_empty();
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
            let policy = self.policy();
            (policy.pace.kill_grace, policy.pace.poll_interval)
        };
        // The child may need the grace twice, for its agent and for what the agent left behind, and then writes its
        // end.
        let timeout = grace.plus(grace).plus(Millis::from_secs(10));
        self.perform(Effect::AwaitChildren { timeout, every });
    }

    /// Refuses the claim for what the look at the workspace has found, or runs the first gate.
    pub(super) fn examined(&mut self, found: Option<Box<Examination>>) {
        let claim = self.judging().claim.clone();
        // This is usually refused when the claim is made. It gets here if dacapo was killed in between.
        if let Some(refusal) = refused_by_block(&claim.by, self.state.blocked_by()) {
            return self.refuse(refusal);
        }
        if let Some(found) = found {
            let is_approved =
                self.state.approved_outside.as_ref().is_some_and(|(tree, _)| *tree == found.tree);
            let refusal = refused_by_examination(&claim.by, &found, self.policy(), is_approved);
            self.record(LoopEvent::ClaimExamined { iteration: claim.iteration, found });
            if let Some(refusal) = refusal {
                return self.refuse(refusal);
            }
        }
        self.begin_look(first_look(self.policy()));
    }

    /// The workspace cannot be looked at, so nothing can be proven about it, and the loop ends.
    pub(super) fn examination_failed(&mut self, why: String) {
        self.finish(Reason::Error, format!("the workspace cannot be looked at: {why}"));
    }

    // --- checks ---------------------------------------------------------------------------------------------

    /// Starts a baseline gate or an until-command.
    pub(super) fn run_check(&mut self, role: GateRole, index: usize) {
        let Some(gate) = self.check(role, index) else { return };
        let snapshot = match role {
            GateRole::Baseline => self.started().base.as_ref().map(|base| base.snapshot.clone()),
            GateRole::Gate | GateRole::Until => None,
        };
        self.start_check(role, index, 1, gate, snapshot, first_look(self.policy()));
    }

    /// Starts the gate of this index for the `attempt`th time.
    pub(super) fn run_gate(&mut self, index: usize, attempt: u32, look: Look) {
        let Some(mut gate) = self.check(GateRole::Gate, index) else { return };
        if let Some(limit) = self.policy().gates.timeout {
            // A gate for which no time is left still gets a second, which may be enough for it.
            let left = limit.minus(self.judging().gates_took()).max(Millis::from_secs(1));
            gate.timeout = gate.timeout.min(left);
        }
        let snapshot = self.judging().examined.as_ref().map(|found| found.snapshot.clone());
        self.start_check(GateRole::Gate, index, attempt, gate, snapshot, look);
    }

    fn start_check(
        &mut self,
        role: GateRole,
        index: usize,
        attempt: u32,
        gate: GateSpec,
        snapshot: Option<String>,
        look: Look,
    ) {
        self.record(LoopEvent::GateStarted {
            iteration: self.state.counters.iterations,
            role,
            name: gate.name.clone(),
            command: gate.run.clone(),
            index,
            attempt,
            item: gate.item,
            expect: gate.expect.clone(),
            working_dir: gate.working_dir.clone(),
            look,
        });
        self.perform(Effect::RunGate { gate, role, snapshot, look });
    }

    pub(super) fn check(&self, role: GateRole, index: usize) -> Option<GateSpec> {
        let policy = self.policy();
        match role {
            GateRole::Until => policy.claims.until.get(index).map(|command| GateSpec::of_command(command)),
            GateRole::Gate | GateRole::Baseline => policy.gates.specs.get(index).cloned(),
        }
    }

    /// A baseline gate or an until-command has ended.
    pub(super) fn check_finished(&mut self, role: GateRole, index: usize, result: GateResult) {
        let Some(gate) = self.check(role, index) else { return };
        if self.state.orders.stop.is_some() {
            // A check that was cut short says nothing.
            if role == GateRole::Until {
                self.finish_iteration(IterationOutcome::Interrupted);
            }
            return self.finish_stopped();
        }
        let is_last = self.check(role, index + 1).is_none();
        let is_probe = role == GateRole::Baseline && self.policy().gates.probe;
        if let Some(program) = result.missing_program.clone().filter(|_| is_probe) {
            self.record_check(role, &gate, result, 1, first_look(self.policy()));
            return self.finish(Reason::Gate, not_found(&gate, &program));
        }
        let passed = self.record_check(role, &gate, result, 1, first_look(self.policy()));
        match role {
            GateRole::Baseline if passed && self.policy().gates.red_first => {
                let detail = format!(
                    "gate `{}` passes before any work was done; red-first demands that it fails",
                    gate.name
                );
                self.finish(Reason::Error, detail);
            }
            GateRole::Baseline if is_last => self.perform(Effect::ReadMarkers),
            GateRole::Until if !passed => self.not_done(IterationOutcome::NoClaim),
            GateRole::Until if is_last => {
                let iteration = self.state.counters.iterations;
                self.record(LoopEvent::SignalSeen { iteration, signal: Signal::UntilCommand });
                self.claim(vec![Signal::UntilCommand]);
            }
            GateRole::Baseline | GateRole::Until | GateRole::Gate => self.run_check(role, index + 1),
        }
    }

    pub(super) fn gate_finished(&mut self, index: usize, attempt: u32, look: Look, result: GateResult) {
        let Some(gate) = self.check(GateRole::Gate, index) else { return };
        if self.state.orders.stop.is_some() {
            // A gate that was cut short says nothing. Its claim stays open: `resume` judges it again.
            return self.finish_stopped();
        }
        if let Some(why) = self.cannot_run(&gate, &result) {
            self.record_check(GateRole::Gate, &gate, result, attempt, look);
            return self.finish(Reason::Gate, why);
        }
        let disturbed = result.disturbed.first().cloned();
        let retries = self.retries(&gate, look);
        let holds = self.record_check(GateRole::Gate, &gate, result, attempt, look);
        if let Some(path) = disturbed {
            return self.refuse(refused_by_rewriting(&path, &gate.name));
        }
        if !holds && attempt <= retries {
            self.run_gate(index, attempt + 1, look);
        } else if look == first_look(self.policy()) {
            self.gate_has_spoken(index);
        } else {
            self.gate_has_spoken_again(index, look);
        }
    }

    /// How often a gate may run again. One that passed already gets a second chance in a checkout: honest tests may be flaky, and
    /// work that is right only once stays wrong.
    fn retries(&self, gate: &GateSpec, look: Look) -> u32 {
        if look == first_look(self.policy()) { gate.retries } else { gate.retries.max(1) }
    }

    /// Judges the result of a check and records it, with whether the policy tolerates a red one. Returns whether a claim may
    /// pass with it.
    fn record_check(
        &mut self,
        role: GateRole,
        gate: &GateSpec,
        mut result: GateResult,
        attempt: u32,
        look: Look,
    ) -> bool {
        judge_gate(gate, &mut result);
        if look.must_fail {
            let mut tries = self.judging().tries.iter();
            let earlier = tries.find(|tried| tried.name == gate.name && tried.look == look);
            let earlier = earlier.and_then(|tried| tried.result.must_fail_tests.as_deref());
            let known = self.state.trials.get(&gate.name).map(|trial| &trial.fail_beside);
            let is_last = attempt > self.retries(gate, look);
            judge_must_fail(&mut result, earlier, known.unwrap_or(&BTreeSet::new()), is_last);
        }
        if !result.passed {
            result.signature = failure_signature(&gate.name, result.exit_code, result.output_tail.as_bytes());
        }
        result.flaky = result.passed && attempt > 1 && !look.must_fail;
        result.tolerated = role == GateRole::Gate && self.is_tolerated(&gate.name, &result, look);
        let holds = result.passed || result.tolerated;
        self.record(LoopEvent::GateFinished {
            iteration: self.state.counters.iterations,
            role,
            name: gate.name.clone(),
            command: gate.run.clone(),
            item: gate.item,
            result,
            look,
        });
        holds
    }

    /// Runs the next gate. After the last one, or once the claim is refused and the policy does not run all gates, it
    /// decides by the gates that ran.
    fn gate_has_spoken(&mut self, index: usize) {
        let refusal = self.judging().refused_by_gates(self.policy());
        let next = self.judging().next_gate(self.policy(), index);
        match (refusal, next) {
            (Some(refusal), None) => self.refuse(refusal),
            (Some(refusal), Some(_)) if !self.policy().gates.run_all => self.refuse(refusal),
            (_, Some(next)) => self.run_gate(next, 1, first_look(self.policy())),
            (None, None) => self.look_passed(first_look(self.policy())),
        }
    }

    /// Whether a red gate fails as it did before the first agent, and the policy tolerates that.
    fn is_tolerated(&self, name: &str, result: &GateResult, look: Look) -> bool {
        if result.passed || !self.policy().gates.tolerate_baseline {
            return false;
        }
        // What it prints in a checkout names other folders.
        if look != first_look(self.policy()) {
            return self.judging().tries.iter().any(|tried| tried.name == name && tried.result.tolerated);
        }
        self.state.baseline.get(name).is_some_and(|before| *before == result.signature)
    }

    // --- the verdict ----------------------------------------------------------------------------------------

    pub(super) fn gates_passed(&mut self) {
        let iteration = self.judging().claim.iteration;
        self.record(LoopEvent::GatesPassed { iteration });
        let snapshot = self.judging().examined.as_ref().map(|found| found.snapshot.clone());
        self.perform(Effect::Recheck { snapshot });
    }

    pub(super) fn rechecked(&mut self, recheck: Recheck) {
        let claim = self.judging().claim.clone();
        if let Some(refusal) = refused_by_disturbance(&recheck.disturbed) {
            return self.refuse(refusal);
        }
        self.record(LoopEvent::TreeHeld { iteration: claim.iteration });
        // Marks are set before the commits, so that a crash after a commit leaves no item marked as done that did not
        // pass.
        let standing = self.judging().standing_items(self.policy());
        self.mark_proven(&standing);
        match self.commit_of(&standing, claim.iteration) {
            Some(commit) => self.perform(commit),
            None => self.accept(recheck.seal, None),
        }
    }

    /// The effect that commits the accepted part of the claim; `None` if nothing is to be committed.
    fn commit_of(&self, standing: &[ItemKey], iteration: u32) -> Option<Effect> {
        let found = self.judging().examined.as_ref()?;
        let snapshot = found.snapshot.clone();
        let commits = self.commits_of(standing);
        if !commits.is_empty() {
            return Some(Effect::CommitItems { snapshot, iteration, commits });
        }
        let started = self.started();
        let rule = self.policy().whole()?.commit.as_ref()?;
        // Without changed files a commit is only needed where dacapo owns the branch: an agent may have moved it.
        let owns_branch = started.base.as_ref().is_some_and(|base| base.branch.is_some());
        if found.changed == 0 && !owns_branch {
            return None;
        }
        let message = rule.message.clone().unwrap_or_else(|| format!("{}: complete", started.task));
        Some(Effect::Commit { snapshot, iteration, message })
    }

    pub(super) fn commit_done(&mut self, result: Result<Option<String>, String>, seal: Seal) {
        let claim = self.judging().claim.clone();
        match result {
            Ok(commit) => {
                // A commit that is found again is recorded once.
                if let Some(commit) =
                    commit.filter(|commit| !claim.committed.iter().any(|(_, known)| known == commit))
                {
                    self.record(LoopEvent::Committed { iteration: claim.iteration, commit, item: None });
                }
                self.accept(seal, None);
            }
            // The claim stays open: `resume` judges it again and tries once more.
            Err(why) => self.finish(Reason::Error, format!("the kept tree could not be committed: {why}")),
        }
    }

    /// Accepts the claim. `tree` is the tree that was committed, where that differs from the judged one.
    pub(super) fn accept(&mut self, seal: Seal, tree: Option<String>) {
        let judging = self.judging().clone();
        let by = judging.standing_signals(self.policy());
        let iteration = judging.claim.iteration;
        let verified = !self.policy().gates.specs.is_empty();
        let receipt = receipt::issue(&self.state, &judging, by.clone(), verified, seal, tree);
        self.record(LoopEvent::ClaimAccepted { iteration, verified });
        if self.state.iteration != Iteration::Closed {
            self.finish_iteration(IterationOutcome::Accepted);
        }
        if let Some(receipt) = receipt {
            self.record(LoopEvent::ReceiptIssued { receipt: Box::new(receipt) });
        }
        let marker = match by.first() {
            _ if by.contains(&Signal::DoneFile) => "DONE marker present".to_owned(),
            Some(Signal::Item(_)) => self.named(&by),
            first => first.map_or("", Signal::name).to_owned(),
        };
        // The restart preset fixes the words on the bus.
        let (posted, children) = match judging.children {
            Children::None => (format!("task completed ({marker}, no active children)"), ""),
            Children::Finished => {
                ("task completed (all children finished)".to_owned(), "; its child loops have ended")
            }
            Children::Cancelled => (
                format!("task completed ({marker}, child loops were cancelled)"),
                "; its child loops were cancelled",
            ),
            Children::Running => (
                format!("task completed ({marker}, child loops still running)"),
                "; its child loops still run",
            ),
        };
        let fact = BusPost {
            to: BusTarget::Project,
            kind: "FACT",
            body: format!(
                "task {} completed after {}",
                self.started().task,
                count(self.state.counters.iterations, "iteration")
            ),
        };
        self.perform(Effect::Post(fact));
        self.finish_saying(Reason::Done, format!("the claim was accepted ({marker}){children}"), posted);
    }

    /// The items of a claim for people: `tasks #1, #3`.
    fn named(&self, by: &[Signal]) -> String {
        let keys: Vec<ItemKey> = claimed_items(by).collect();
        let noun = keys.first().and_then(|key| self.policy().item(*key)).map_or("item", |item| &item.noun);
        let names: Vec<String> = keys.iter().map(ItemKey::to_string).collect();
        format!("{noun}{} {}", if keys.len() == 1 { "" } else { "s" }, names.join(", "))
    }

    pub(super) fn refuse(&mut self, (reason, detail): Refusal) {
        let claim = self.judging().claim.clone();
        self.post("WARNING", format!("claim refused: {detail}"));
        self.record(LoopEvent::ClaimRefused { iteration: claim.iteration, reason, detail: detail.clone() });
        self.return_items(claimed_items(&claim.by).collect());
        if claim.by.iter().any(|s| matches!(s, Signal::DoneFile | Signal::MalformedDone(_))) {
            self.perform(Effect::SetDoneAside);
        }
        if self.state.orders.stop.is_some() {
            return self.finish_stopped();
        }
        if self.state.blocked_by().is_some() {
            return self.not_done(IterationOutcome::Refused);
        }
        // The agent was told once that the gate cannot run; if it could mend that, it would have.
        if self.state.progress.unstarted_gates >= MAX_UNSTARTED {
            if self.state.iteration != Iteration::Closed {
                self.finish_iteration(IterationOutcome::Refused);
            }
            return self.finish(Reason::Blocked, format!("a gate cannot run: {detail}"));
        }
        match self.state.iteration {
            Iteration::Open => self.not_done(IterationOutcome::Refused),
            // A loop without agents needs no provider and no budget.
            Iteration::Closed | Iteration::AwaitsRetry if self.state.limits.max_iterations == 0 => {
                self.next_iteration();
            }
            // The attempt was not charged; budgets and providers are looked at before the retry.
            Iteration::AwaitsRetry => self.perform(Effect::ReadMarkers),
            Iteration::Closed if self.policy().needs_supply() => self.perform(Effect::ReadMarkers),
            Iteration::Closed => self.next_iteration(),
        }
    }
}

fn list(loops: &[LoopId]) -> String {
    loops.iter().map(LoopId::as_str).collect::<Vec<_>>().join(", ")
}
