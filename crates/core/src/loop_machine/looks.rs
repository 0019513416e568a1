//! The runs of the gates that a claim has to pass: in the workspace, in a fresh checkout, with the tests as they were; and what
//! is known of the gates from before the first agent.

use super::{decide::Decision, phase::GateTry, state::LoopState};
use crate::{
    duration::Millis,
    event::{GateResult, GateRole, Look, LoopEvent, Reason, TriedGate, UseOfCheckout},
    goalposts::{MovedGoalpost, must_pass_as_before},
    item::claimed_items,
    judge::{
        claim::{
            RefusalReason, narrowed_by, narrowed_by_failed_again, narrowed_by_must_fail, narrowed_tests,
            refused_by_gate,
        },
        glob::Globs,
        unknown_target::unknown_target,
    },
    loop_machine::effect::Effect,
    policy::{GateFrom, GateIn, GateSpec, Policy, TestsMode},
    text::count,
};

/// Gates that take no longer than this together, with what their checkout takes, run twice in a fresh checkout.
const QUICK: Millis = Millis::from_mins(1);
/// Gates that take no longer than this together run once more without must-fail tests, where the run with such tests does not show
/// that all others passed.
const FAST: Millis = Millis::from_secs(20);

/// The first run of the gates for a claim.
pub(super) fn first_look(policy: &Policy) -> Look {
    if policy.gates.run_in == GateIn::Clean || policy.gates.from == GateFrom::Base {
        Look::CLEAN
    } else {
        Look::WORKSPACE
    }
}

impl Decision {
    // --- before the first agent ------------------------------------------------------------------------------

    /// A gate was tried while the first agent still waits. One that cannot run ends the loop: it would refuse every claim.
    pub(super) fn gate_tried_at_first(&mut self, index: usize, tried: Box<TriedGate>) {
        let Some(gate) = self.check(GateRole::Gate, index) else { return };
        let missing = tried.missing_program.clone();
        let unknown = unknown_target(&tried.output_tail).map(|said| {
            format!(
                "gate `{}` does not know what it is told to run, so every claim will be refused: {said}",
                gate.name
            )
        });
        self.gate_tried(index, tried);
        if let Some(warning) = unknown {
            self.warn(warning);
        }
        if let Some(program) = missing {
            self.finish(Reason::Gate, not_found(&gate, &program));
        }
    }

    pub(super) fn gate_tried(&mut self, index: usize, tried: Box<TriedGate>) {
        let Some(gate) = self.check(GateRole::Gate, index) else { return };
        let warning = match tried.checkout {
            UseOfCheckout::Fails if self.policy().gates.run_in == GateIn::Both => Some(format!(
                "gate `{}` does not work in a fresh checkout{}: claims are checked in the workspace alone",
                gate.name,
                lacking(&tried.lacks)
            )),
            UseOfCheckout::Unknown
                if self.policy().gates.run_in == GateIn::Both && !tried.lacks.is_empty() =>
            {
                Some(format!(
                    "gate `{}` may not work in a fresh checkout{}: a claim that passes in the workspace alone counts",
                    gate.name,
                    lacking(&tried.lacks)
                ))
            }
            _ => None,
        };
        let unheard = unheard_failures(&gate, &tried);
        self.record(LoopEvent::GateTried { name: gate.name.clone(), command: gate.run.clone(), tried });
        [warning, unheard].into_iter().flatten().for_each(|warning| self.warn(warning));
    }

    /// Everything that the first agent waits for is known, or it has waited long enough.
    pub(super) fn trial_wait_over(&mut self) {
        let policy = self.policy();
        if policy.gates.wants_baseline()
            && self.state.counters.iterations == 0
            && self.state.baseline.is_empty()
        {
            self.run_check(GateRole::Baseline, 0);
        } else {
            self.perform(Effect::ReadMarkers);
        }
    }

    /// Why a gate can never say anything about the work.
    pub(super) fn cannot_run(&self, gate: &GateSpec, result: &GateResult) -> Option<String> {
        if !self.policy().gates.probe {
            return None;
        }
        if let Some(program) = &result.missing_program {
            return Some(not_found(gate, program));
        }
        let broken = self.state.trials.get(&gate.name).and_then(|trial| trial.broken.as_ref())?;
        (broken.0 == result.exit_code && broken.1 == result.output_sha256).then(|| {
            format!(
                "gate `{}` cannot run: it exits {} with the same words as before the first agent",
                gate.name, result.exit_code
            )
        })
    }

    // --- the runs of a claim ---------------------------------------------------------------------------------

    /// Starts the first gate of a run, or goes on if it has none.
    pub(super) fn begin_look(&mut self, look: Look) {
        match self.gates_of(look).first() {
            Some(first) => self.run_gate(*first, 1, look),
            None if look == first_look(self.policy()) => self.gates_passed(),
            None => self.look_passed(look),
        }
    }

    /// The gates of a run, by their places in the policy. An agent that was asked is not asked again, and a gate that had no
    /// tests before cannot pass with the tests as they were.
    fn gates_of(&self, look: Look) -> Vec<usize> {
        let (judging, policy) = (self.judging(), self.policy());
        let mut gates = judging.gates(policy);
        if look == first_look(policy) {
            return gates;
        }
        let standing = judging.standing_items(policy);
        gates.retain(|index| {
            let Some(gate) = policy.gates.specs.get(*index) else { return false };
            let trial = self.state.trials.get(&gate.name);
            let had_none = trial.and_then(|trial| trial.tests.as_ref()).is_some_and(|tests| tests.ran() == 0);
            let has_its_turn = match look {
                Look { must_fail: true, .. } => trial.is_some_and(|trial| !trial.notices.is_empty()),
                Look { again: true, .. } => !self.has_shown_the_rest(*index),
                _ => true,
            };
            has_its_turn
                && gate.ask.is_none()
                && gate.item.is_none_or(|item| standing.contains(&item))
                && !(look == Look::AS_BEFORE && had_none)
        });
        gates
    }

    /// A gate has ended in a run beyond the first.
    pub(super) fn gate_has_spoken_again(&mut self, index: usize, look: Look) {
        if self.judging().red_in(look).any(|red| red.index == index && !self.had_no_tests(red)) {
            return self.look_failed(index, look);
        }
        let gates = self.gates_of(look);
        let next = gates.iter().position(|gate| *gate == index).and_then(|at| gates.get(at + 1));
        match next {
            Some(next) => self.run_gate(*next, 1, look),
            None => self.look_passed(look),
        }
    }

    /// Whether a gate is red with the tests as they were for the only reason that the tests it asks for were not there: its runner
    /// says that it ran none. Tasks often write what proves them. Where the gate was tried before the first agent, that says it.
    fn had_no_tests(&self, red: &GateTry) -> bool {
        let ran_none = red.result.tests.as_ref().is_some_and(|tests| tests.ran() == 0);
        red.look == Look::AS_BEFORE && ran_none && !self.state.trials.contains_key(&red.name)
    }

    /// Every gate of a run has passed.
    pub(super) fn look_passed(&mut self, look: Look) {
        if let Some((gate, why)) = self.shrunk_tests(look) {
            return self.refuse(narrowed_tests(&gate, &why));
        }
        // The gates work in a checkout, and do not pass there with the tests as they were.
        let red_before = self.judging().red_in(Look::AS_BEFORE).find(|red| !self.had_no_tests(red));
        let red_before = red_before.map(|red| red.name.clone());
        if let Some(gate) = red_before.filter(|_| look == Look::CLEAN) {
            let refusal = narrowed_by(&self.moved(), &gate);
            return self.refuse(refusal);
        }
        for gate in self.without_word_of_must_fail(look) {
            self.warn(format!(
                "gate `{gate}` is red with tests that have to fail, and does not say that they failed: whether the code \
                 under test steers its runner is not known"
            ));
        }
        match self.next_look(look) {
            Some(next) => self.begin_look(next),
            None => self.gates_passed(),
        }
    }

    fn next_look(&self, look: Look) -> Option<Look> {
        let policy = self.policy();
        if policy.gates.specs.is_empty() || !self.started().base.as_ref().is_some_and(|base| base.is_git) {
            return None;
        }
        let has_run = |look: Look| self.judging().tries.iter().any(|tried| tried.look == look);
        let must_pass_as_before = !has_run(Look::AS_BEFORE) && self.must_pass_as_before();
        match look {
            Look::WORKSPACE if policy.gates.run_in == GateIn::Both && !self.is_known_to_fail() => {
                Some(Look::CLEAN)
            }
            Look::WORKSPACE | Look::CLEAN if must_pass_as_before => Some(Look::AS_BEFORE),
            Look::CLEAN | Look::AS_BEFORE if self.wants_must_fail() => Some(Look { must_fail: true, ..look }),
            Look::CLEAN if policy.gates.run_in == GateIn::Both && self.took(Look::CLEAN) < QUICK => {
                Some(Look::AGAIN)
            }
            Look { must_fail: true, tests_as_before: false, .. }
                if policy.gates.run_in == GateIn::Both && self.took(Look::CLEAN) < FAST =>
            {
                Some(Look::AGAIN)
            }
            _ => None,
        }
    }

    /// Whether the gates have to notice must-fail tests: they work in a checkout, are quick, and some of them noticed such tests
    /// before the first agent.
    fn wants_must_fail(&self) -> bool {
        let policy = self.policy();
        let writes_tests = policy.items.iter().any(|item| !item.writes.is_empty());
        let is_asked = policy.gates.tests != TestsMode::Free && !self.is_approved() && !writes_tests;
        is_asked
            && self.judging().has_passed(Look::CLEAN)
            && !self.judging().tries.iter().any(|tried| tried.result.tolerated)
            && self.took(Look::CLEAN) < QUICK
            && !self.gates_of(Look { must_fail: true, ..Look::CLEAN }).is_empty()
    }

    /// Whether the run with must-fail tests shows that all others passed, so that it was a second run of them.
    fn has_shown_the_rest(&self, index: usize) -> bool {
        let newest = |is_such: fn(&Look) -> bool| {
            let mut tries = self.judging().tries.iter().rev();
            tries.find(|tried| tried.index == index && is_such(&tried.look)).map(|tried| &tried.result)
        };
        let plain = newest(|look| *look == Look::CLEAN).and_then(|result| result.tests.as_ref());
        newest(|look| look.must_fail).is_some_and(|result| {
            let run = result.must_fail_tests.as_ref();
            run.is_some_and(|run| run.shows_the_rest_passed(result.tests.as_ref(), plain))
        })
    }

    /// Gates that were red with must-fail tests in `look` and did not say that those failed.
    fn without_word_of_must_fail(&self, look: Look) -> Vec<String> {
        if !look.must_fail {
            return Vec::new();
        }
        let last = |tried: &&GateTry| tried.look == look && tried.result.passed;
        let is_missed = |tried: &&GateTry| {
            tried.result.must_fail_tests.as_ref().is_some_and(|run| !run.missed().is_empty())
        };
        let tries = self.judging().tries.iter();
        tries.filter(last).filter(is_missed).map(|tried| tried.name.clone()).collect()
    }

    fn took(&self, look: Look) -> Millis {
        let tries = self.judging().tries.iter().filter(|tried| tried.look == look);
        tries.fold(Millis(0), |sum, tried| sum.plus(tried.result.duration_ms).plus(tried.result.laid_out_ms))
    }

    /// A gate that passed in the first run is red in another.
    fn look_failed(&mut self, index: usize, look: Look) {
        let Some(gate) = self.check(GateRole::Gate, index) else { return };
        let works = self.state.trials.get(&gate.name).map(|trial| trial.checkout).unwrap_or_default();
        let is_clean_at_first = first_look(self.policy()) == Look::CLEAN;
        let works =
            works == UseOfCheckout::Works || is_clean_at_first || self.judging().has_passed(Look::CLEAN);
        let run = self.judging().red_in(look).find(|red| red.index == index);
        if let Some(run) = run.and_then(|red| red.result.must_fail_tests.as_deref()) {
            let refusal = match (run.missed(), run.others.first()) {
                (missed, _) if !missed.is_empty() => Some(narrowed_by_must_fail(&gate.name, &missed)),
                (_, other) => other.map(|name| narrowed_by_failed_again(&gate.name, name)),
            };
            if let Some(refusal) = refusal {
                return self.refuse(refusal);
            }
        }
        match (look, works) {
            (Look::AS_BEFORE, true) => {
                let refusal = narrowed_by(&self.moved(), &gate.name);
                self.refuse(refusal);
            }
            // Whether it is for the tests or for the checkout shows when it runs there with the agent's own tests.
            (Look::AS_BEFORE, false) => self.begin_look(Look::CLEAN),
            (_, true) => {
                let red = self.judging().red_in(look).find(|red| red.index == index);
                let line =
                    red.and_then(|red| refused_by_gate(&red.name, &red.result)).map(|refusal| refusal.1);
                let where_ = if look.again || look.must_fail { "when it ran again in" } else { "in" };
                let lacks = red.map(|red| &red.result.lacks[..]).unwrap_or_default();
                let ignored = if lacks.is_empty() {
                    String::new()
                } else {
                    format!(
                        "{}: committed, and ignored. Take it out of what is ignored, or put it elsewhere",
                        lacking(lacks)
                    )
                };
                let detail = format!(
                    "{} {where_} a fresh checkout of what would be kept{ignored}",
                    line.unwrap_or_default()
                );
                self.refuse((RefusalReason::GateFailed, detail));
            }
            (_, false) => {
                self.warn(format!(
                    "gate `{}` passes in the workspace and not in a fresh checkout, and it is not known to work there: \
                     the claim is checked in the workspace alone",
                    gate.name
                ));
                if self.must_pass_as_before() {
                    let moved = u32::try_from(self.moved().len()).unwrap_or(u32::MAX);
                    self.warn(format!(
                        "{} changed and could not be checked as they were: look at them before you believe it",
                        count(moved, "test or setting")
                    ));
                }
                self.gates_passed();
            }
        }
    }

    /// Whether a gate of the claim is known not to work in a checkout.
    fn is_known_to_fail(&self) -> bool {
        self.gates_of(Look::CLEAN).iter().filter_map(|index| self.check(GateRole::Gate, *index)).any(|gate| {
            let trial = self.state.trials.get(&gate.name);
            trial.is_some_and(|trial| trial.checkout == UseOfCheckout::Fails)
        })
    }

    // --- tests -----------------------------------------------------------------------------------------------

    fn moved(&self) -> Vec<MovedGoalpost> {
        moved_goalposts(&self.state)
    }

    /// Whether a person has accepted the tree that is judged.
    fn is_approved(&self) -> bool {
        let tree = self.judging().examined.as_ref().map(|found| &found.tree);
        tree.is_some() && self.state.approved.as_ref().map(|(approved, _)| approved) == tree
    }

    fn must_pass_as_before(&self) -> bool {
        if self.policy().gates.tests == TestsMode::Free || self.is_approved() {
            return false;
        }
        let had_tests = self.started().goalposts.as_ref().is_some_and(|posts| posts.tests > 0);
        let reports: Vec<u32> = self
            .state
            .trials
            .values()
            .filter_map(|trial| trial.tests.as_ref())
            .map(|tests| tests.ran())
            .collect();
        let ran_before =
            (!reports.is_empty()).then(|| reports.iter().fold(0, |sum: u32, ran| sum.saturating_add(*ran)));
        must_pass_as_before(&self.moved(), had_tests, ran_before, !self.state.trials.is_empty())
    }

    /// The gate whose tests show less in this run than before the first agent, and how.
    fn shrunk_tests(&self, look: Look) -> Option<(String, String)> {
        let (judging, policy) = (self.judging(), self.policy());
        let writes_tests = policy.items.iter().any(|item| !item.writes.is_empty());
        // A test that fails may end the run before the others.
        if policy.gates.tests == TestsMode::Free || self.is_approved() || writes_tests || look.must_fail {
            return None;
        }
        judging.tries.iter().filter(|tried| tried.look == look && tried.result.passed).find_map(|tried| {
            let before = self.state.trials.get(&tried.name)?.tests.as_ref()?;
            Some((tried.name.clone(), before.shrunk_to(tried.result.tests.as_ref())?))
        })
    }

    /// Whether a person has accepted the tree that the workspace has: then no agent has to claim it again.
    pub(super) fn awaits_approved_verdict(&self) -> bool {
        let state = &self.state;
        let is_here = |approved: &Option<(String, String)>, refused: &Option<String>| {
            let approved = approved.as_ref().map(|(tree, _)| tree);
            approved.is_some() && approved == refused.as_ref() && approved == state.progress.tree.as_ref()
        };
        is_here(&state.approved, &state.narrowed) || is_here(&state.approved_outside, &state.tampered_outside)
    }

    /// A person accepts the tree of the newest claim that was refused for its tests, or for what decides about them from outside.
    pub(super) fn approve_tree(&mut self, tree: String, by: String) {
        let state = &self.state;
        let is_waiting = |refused: &Option<String>, approved: &Option<(String, String)>| {
            refused.as_ref() == Some(&tree) && approved.as_ref().map(|(tree, _)| tree) != Some(&tree)
        };
        if is_waiting(&state.tampered_outside, &state.approved_outside)
            || is_waiting(&state.narrowed, &state.approved)
        {
            self.record(LoopEvent::TreeApproved { tree, by });
        }
    }
}

/// What the user is told of a gate that agrees although its own report names tests that failed, as `pytest || true` does.
fn unheard_failures(gate: &GateSpec, tried: &TriedGate) -> Option<String> {
    let failed = tried.tests.as_ref().filter(|_| tried.passed)?.failed;
    (failed > 0).then(|| {
        format!(
            "gate `{}` exits {} although it reports {}, so it agrees with any claim: let it end as its tests do",
            gate.name,
            tried.exit_code,
            count(failed, "failed test")
        )
    })
}

pub(super) fn not_found(gate: &GateSpec, program: &str) -> String {
    format!("gate `{}` cannot run: there is no `{program}` on PATH", gate.name)
}

fn lacking(paths: &[String]) -> String {
    match paths.first() {
        None => String::new(),
        Some(first) if paths.len() == 1 => format!(", which lacks `{first}`"),
        Some(first) => format!(", which lacks `{first}` and {} more", paths.len() - 1),
    }
}

/// Goalposts that the claim which is judged moved, without those that its items were to write.
pub fn moved_goalposts(state: &LoopState) -> Vec<MovedGoalpost> {
    let (Some(judging), Some(started)) = (state.judging(), &state.started) else { return Vec::new() };
    let Some(found) = &judging.examined else { return Vec::new() };
    let policy = &started.policy;
    let writes: Vec<String> = claimed_items(&judging.claim.by)
        .filter_map(|key| policy.item(key))
        .chain(policy.whole())
        .flat_map(|item| item.writes.iter().cloned())
        .collect();
    let globs = Globs::parse(&writes).unwrap_or_default();
    let is_asked_for = |path: &str| writes.iter().any(|write| write == path) || globs.matches(path);
    found.moved.iter().filter(|moved| !is_asked_for(&moved.path)).cloned().collect()
}
