//! The policy of the loop of a step: what of the workflow becomes a claim, and what a gate.

use std::collections::BTreeMap;

use super::{StepLoop, StepWorkKind};
use crate::{
    judge::promise::{Placement, PlainWord, PromiseRule},
    limits,
    policy::{GateSpec, OnError, Origin, OwnClaim, Policy},
    workflow::{BudgetMode, Completion, WorkflowBudget, shell::TooLong},
};

/// A loop as the supervisor runs it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopSetup {
    pub policy: Policy,
    /// What its agent is asked. Where the answer of the iteration before belongs, it has the words that the policy names for
    /// that.
    pub prompt: String,
}

impl StepLoop {
    /// The policy of this loop: `base` is what the user's flags and configuration say, with the agent of this step in it;
    /// `shared` is the budget of the workflow.
    pub fn setup(
        &self,
        base: Policy,
        origin: Origin,
        shared: Option<WorkflowBudget>,
    ) -> Result<LoopSetup, TooLong> {
        let mut environment = BTreeMap::new();
        let mut translated = |script: &str| -> Result<String, TooLong> {
            let script = self.script(script);
            environment.extend(script.environment(&self.variables)?);
            Ok(script.text)
        };
        let mut gates = Vec::new();
        for gate in &self.gates {
            gates.push(GateSpec { run: translated(&gate.run)?, ..gate.spec(origin) });
        }
        let mut as_gate = |script: &str| -> Result<GateSpec, TooLong> {
            let spec = GateSpec {
                name: "until_bash".to_owned(),
                run: translated(script)?,
                ..GateSpec::of_command("")
            };
            Ok(GateSpec { origin, ..spec })
        };
        let (mut words, mut until, mut own_claim) = (None, Vec::new(), OwnClaim::Never);
        match self.looped.as_ref().map(|looped| looped.completion()) {
            // The agent works once; its end is the claim, and its gates decide.
            None => own_claim = OwnClaim::WithAgent,
            Some(Completion::Words(text)) => words = Some(text),
            // What the agent says is of no account: dacapo asks the script after each iteration.
            Some(Completion::Check(script)) => {
                own_claim = OwnClaim::AfterAgent;
                gates.insert(0, as_gate(script)?);
            }
            Some(Completion::WordsThenCheck(text, script)) => {
                words = Some(text);
                gates.insert(0, as_gate(script)?);
            }
            Some(Completion::WordsOrCheck(text, script)) => {
                words = Some(text);
                until.push(as_gate(script)?.run);
            }
        }
        if self.work == StepWorkKind::Check {
            // What is there is looked at before an agent works on it.
            own_claim = match own_claim {
                OwnClaim::Never if self.max_iterations > 0 => OwnClaim::AtFirst,
                _ => OwnClaim::Always,
            };
        }
        // In a loop that does not ask a person, the previous answer is a different one in each iteration.
        let mark = (self.max_iterations > 1).then(|| self.mark());
        let prompt = self.prompt(mark.as_deref());
        let policy = base.with(|p| {
            p.limits.max_iterations = self.max_iterations;
            p.limits.idle_timeout = self.idle_timeout.or(p.limits.idle_timeout);
            if let Some(budget) = self.budget.filter(|budget| budget.mode == BudgetMode::Enforce) {
                p.limits.max_cost = least(p.limits.max_cost, budget.max_cost);
                p.limits.max_tokens = least(p.limits.max_tokens, budget.max_tokens);
                p.limits.max_time = least(p.limits.max_time, budget.max_time);
            }
            if let Some(WorkflowBudget { max_cost, max_tokens, mode: BudgetMode::Enforce, .. }) = shared {
                p.limits.per_run = limits::Budget { max_cost, max_tokens };
            }
            p.agent.continue_session = self.continue_session;
            p.agent.first_session.clone_from(&self.session);
            // An error of an iteration is an error of its step (req 158).
            p.agent.on_error = OnError::Stop;
            p.agent.previous_answer = mark.filter(|mark| prompt.contains(mark.as_str()));
            // Only what the file names ends a step.
            p.claims.done_file = false;
            p.claims.until = until;
            p.claims.own_claim = own_claim;
            p.claims.allow_empty = true;
            if self.work == StepWorkKind::Check {
                (p.gates.baseline, p.gates.red_first, p.gates.tolerate_baseline) = (false, false, false);
            }
            if let Some(Ok(rule)) = words.map(PromiseRule::new) {
                p.claims.promise =
                    PromiseRule { placement: Placement::Anywhere, plain: PlainWord::OwnLineOrEnd, ..rule };
            }
            p.gates.specs.extend(gates);
            p.gates.environment = environment;
        });
        Ok(LoopSetup { policy, prompt })
    }

    /// Words that stand for the answer of the iteration before. Texts that are filled in with it cannot hold them: the id of
    /// the run is younger than they are.
    fn mark(&self) -> String {
        format!("(the answer before, {} {} {})", self.variables.run, self.step, self.attempt)
    }
}

fn least<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if a < b { a } else { b }),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        agent::AgentCommand,
        judge::promise::PromiseDetector,
        machine::InMemory,
        workflow::machine::{
            WorkflowEffect, WorkflowInput, WorkflowMachine, WorkflowNews, decide_tests::started,
        },
    };

    /// The setup of the first loop of a workflow.
    pub(crate) fn setup(yaml: &str) -> LoopSetup {
        let mut machine: InMemory<WorkflowMachine> = InMemory::default();
        let news = WorkflowNews::Begin(Box::new(started(yaml)));
        let step = machine.step(WorkflowInput { now: jiff::Timestamp::UNIX_EPOCH, news });
        let order = step.effects.iter().find_map(|effect| match effect {
            WorkflowEffect::RunLoop(order) => Some(order),
            _ => None,
        });
        let agent = AgentCommand::parse("agent", &[]).unwrap();
        let base = Policy::restart(agent, PromiseRule::new("DONE").unwrap());
        order.unwrap().setup(base, Origin::Repository, machine.state().budget()).unwrap()
    }

    #[test]
    fn a_signal_is_found_with_its_tag_anywhere_and_without_it_on_its_own_line() {
        // req 154, req 155
        let rule =
            setup("loop: {until: 'ALL (done)?', max_iterations: 3}\nprompt: p\n").policy.claims.promise;
        for (output, expected) in [
            ("All good. <promise>ALL (done)?</promise> Bye.", true),
            ("<PROMISE>\n  all (DONE)?\n</PROMISE> and more", true),
            ("Ready.\nALL (done)?\n", true),
            ("I am ready: ALL (done)?", true),
            ("not ALL (done)? yet", false),
            ("<promise>ALL done</promise>", false),
            ("nothing", false),
        ] {
            let mut detector = PromiseDetector::new(&rule, "", "Do it.");
            detector.push(output.as_bytes());
            assert_eq!(detector.finish().promise.is_some(), expected, "{output}");
        }
    }

    #[test]
    fn words_are_claims_and_checks_are_gates() {
        let of = |rest: &str| {
            let LoopSetup { policy, .. } =
                setup(&format!("loop: {{max_iterations: 7, {rest}}}\nprompt: p\n"));
            assert_eq!(policy.problems(), []);
            assert_eq!((policy.limits.max_iterations, policy.claims.done_file), (7, false));
            let gates: Vec<String> = policy.gates.specs.iter().map(|gate| gate.run.clone()).collect();
            (policy.claims.promise, policy.claims.until, policy.claims.own_claim, gates)
        };
        let none: Vec<String> = Vec::new();
        let check = vec!["make test".to_owned()];
        let promise = |text: &str| PromiseRule {
            placement: Placement::Anywhere,
            plain: PlainWord::OwnLineOrEnd,
            ..PromiseRule::new(text).unwrap()
        };
        assert_eq!(of("until: X"), (promise("X"), none.clone(), OwnClaim::Never, none.clone()));
        assert_eq!(
            of("until: X, until_bash: make test, gates: [make lint]"),
            (
                promise("X"),
                none.clone(),
                OwnClaim::Never,
                vec!["make test".to_owned(), "make lint".to_owned()]
            )
        );
        assert_eq!(
            of("until: X, until_bash: make test, any: true"),
            (promise("X"), check.clone(), OwnClaim::Never, none.clone())
        );
        let (_, until, own_claim, gates) = of("until_bash: make test");
        assert_eq!((until, own_claim, gates), (none, OwnClaim::AfterAgent, check));
    }

    #[test]
    fn an_agent_step_works_once_and_its_gates_decide() {
        let LoopSetup { policy, .. } = setup(
            "budget: {max_cost: 9, max_tokens: 100}\nsteps:\n- {id: a, prompt: p, gates: [{name: t, run: test -n \"$ARGUMENTS\"}], budget: {max_cost: 2, max_time: 1m}, idle_timeout: 5m}\n",
        );
        assert_eq!((policy.limits.max_iterations, policy.claims.own_claim), (1, OwnClaim::WithAgent));
        assert_eq!(
            (policy.limits.max_cost, policy.limits.max_time.map(|time| time.0)),
            (Some(2.0), Some(60_000))
        );
        assert_eq!(policy.limits.per_run, limits::Budget { max_cost: Some(9.0), max_tokens: Some(100) });
        assert_eq!(policy.limits.idle_timeout.map(|time| time.0), Some(300_000));
        let gate = &policy.gates.specs[0];
        assert_eq!((gate.name.as_str(), gate.origin), ("t", Origin::Repository));
        assert_eq!(policy.gates.environment["ARGUMENTS"], "hello");
    }

    #[test]
    fn an_agent_is_told_what_its_answer_has_to_fit() {
        let yaml = "steps: [{id: a, prompt: 'What is $ARGUMENTS?', output_format: {properties: {kind: {enum: [bug]}}}}]\n";
        let prompt = setup(yaml).prompt;
        let (asked, schema) = prompt.split_once("```json\n").expect("a schema");
        assert_eq!(
            asked,
            "What is hello?\n\nEnd with your answer as JSON that fits this JSON Schema, and with nothing behind it:\n\n"
        );
        let schema: serde_json::Value = serde_json::from_str(schema.trim_end_matches("```\n")).unwrap();
        assert_eq!(schema, serde_json::json!({"properties": {"kind": {"enum": ["bug"]}}}));
        assert_eq!(setup("steps: [{id: a, prompt: p}]\n").prompt, "p");
    }

    #[test]
    fn checks_that_run_again_run_before_an_agent_does() {
        let of = |step: &str| {
            let mut machine: InMemory<WorkflowMachine> = InMemory::default();
            let asks = "- {id: ask, approval: {message: m, on_reject: {prompt: p}}}\n";
            let news = WorkflowNews::Begin(Box::new(started(&format!("steps:\n- id: a\n  {step}\n{asks}"))));
            let step = machine.step(WorkflowInput { now: jiff::Timestamp::UNIX_EPOCH, news });
            let [WorkflowEffect::RunLoop(order)] = step.effects.as_slice() else { panic!("no loop") };
            let workflow = machine.state().workflow().unwrap().clone();
            let variables = order.variables.clone();
            let order = StepLoop::new(&workflow, &workflow.steps[0], 2, StepWorkKind::Check, variables);
            let agent = AgentCommand::parse("agent", &[]).unwrap();
            let base = Policy::restart(agent, PromiseRule::new("DONE").unwrap());
            let policy = order.setup(base, Origin::Repository, None).unwrap().policy;
            assert_eq!(policy.problems(), []);
            (policy.limits.max_iterations, policy.claims.own_claim)
        };
        for (step, expected) in [
            ("loop: {prompt: p, until_bash: make, max_iterations: 3}", (3, OwnClaim::Always)),
            ("loop: {prompt: p, until: X, until_bash: make, max_iterations: 3}", (3, OwnClaim::AtFirst)),
            ("prompt: p\n  gates: [make]", (0, OwnClaim::Always)),
            (
                "loop: {prompt: p, until: X, gates: [make], max_iterations: 3, interactive: true, gate_message: m}",
                (0, OwnClaim::Always),
            ),
        ] {
            assert_eq!(of(step), expected, "{step}");
        }
    }

    #[test]
    fn sessions_go_on_unless_the_context_is_fresh() {
        // req 150
        let of = |fresh: &str| {
            let yaml = format!("loop: {{until: X, max_iterations: 2{fresh}}}\nprompt: p\n");
            setup(&yaml).policy.agent.continue_session
        };
        assert!(of(""));
        assert!(!of(", fresh_context: true"));
    }
}
