//! What the agent of a stage is given: the task, its specification, what its role sees of the past, and the completion
//! requirements.
//!
//! The promise's tag never stands alone on a line of it, so that an agent which repeats its prompt claims nothing.

use super::{
    FindingState, ITERATION_TIMEOUT, ReviewFinding, ReviewLedger, Sees, Stage, StageCompletion, StageMode,
    StageName, StageTaskSpec, TaskCompletion, Verify,
};
use crate::{
    judge::promise::{Placement, PromiseRule},
    policy::{GateQuestion, GateSpec, Origin},
};

/// How many earlier refusals an agent is told.
const REFUSALS: usize = 5;

/// Everything that the prompt of a stage is made from.
#[derive(Clone, Copy, Debug)]
pub struct StagePrompt<'a> {
    pub task: &'a StageTaskSpec,
    pub stage: &'a Stage,
    pub ledger: &'a ReviewLedger,
    /// Why earlier claims of the same task and stage were refused, the newest last.
    pub past_refusals: &'a [String],
    /// What the user has said to the agent.
    pub user_says: Option<&'a str>,
}

impl StagePrompt<'_> {
    /// The words for which the loop puts the number of the iteration and the limit ([`Stage::policy`] tells it so).
    pub const COUNT_MARK: &'static str = "(iteration/limit)";

    /// The prompt of every iteration, with [`Self::COUNT_MARK`] in it.
    pub fn text(&self) -> String {
        let role = self.stage.name.role();
        let StageTaskSpec { id, title, specification, completion, .. } = self.task;
        let mut text = format!(
            "## Task Information\n- **Task ID**: {id}\n- **Title**: {title}\n- **Stage**: {}\n- **Ralph Iteration**: {}\n\n\
             ## Specification\n{}\n",
            role.title,
            Self::COUNT_MARK,
            specification.trim()
        );
        text.push_str(&outcome_and_criteria(completion));
        for sees in role.sees {
            text.push_str(&match sees {
                Sees::OpenFindings => self.open_findings(),
                Sees::Ledger => self.whole_ledger(),
                Sees::ChangeSinceLastRound => self.change_since(),
                Sees::PastRefusals => self.refusals(),
            });
        }
        if let Some(words) = self.user_says {
            text.push_str(&format!("\n## The Person You Work For Says\n{}\n", words.trim()));
        }
        text.push_str(&self.completion_requirements());
        text
    }

    fn open_findings(&self) -> String {
        let open: Vec<&ReviewFinding> = self.ledger.open().collect();
        if open.is_empty() {
            return String::new();
        }
        let mut text = "\n## Open Findings of the Reviewer\n".to_owned();
        text.extend(open.iter().map(|finding| format!("- F{}: {}\n", finding.number, finding.text)));
        text.push_str(
            "Answer each of them with a line `FIXED F1`, or `REFUTED F1: why it is none`. The reviewer decides about it.\n",
        );
        text
    }

    fn whole_ledger(&self) -> String {
        if self.ledger.findings.is_empty() {
            return String::new();
        }
        let mut text = "\n## Findings So Far\n".to_owned();
        for ReviewFinding { number, text: words, state, coder_says, .. } in &self.ledger.findings {
            text.push_str(&format!("- F{number} ({}): {words}\n", state.as_str()));
            if let Some(says) = coder_says.as_ref().filter(|_| *state == FindingState::Open) {
                let why = if says.why.is_empty() { String::new() } else { format!(": {}", says.why) };
                text.push_str(&format!("  The coder says that it is {}{why}\n", says.state.as_str()));
            }
        }
        text.push_str(
            "Decide about each open one with a line `FIXED F1`, `REFUTED F1: why`, `DEFERRED F1: why`, or list it again \
             by its number.\n",
        );
        text
    }

    fn change_since(&self) -> String {
        match self.ledger.rounds.last() {
            None => String::new(),
            Some(round) => format!(
                "\n## Scope of This Round\nYou have reviewed the tree {} before. Look at what has changed since, and at the \
                 open findings; the rest you have seen.\n",
                round.tree
            ),
        }
    }

    fn refusals(&self) -> String {
        if self.past_refusals.is_empty() {
            return String::new();
        }
        let mut text = "\n## Why Earlier Claims Were Refused\n".to_owned();
        let mut told: Vec<&str> = Vec::new();
        for refusal in self.past_refusals.iter().rev() {
            if !told.contains(&refusal.as_str()) && told.len() < REFUSALS {
                told.push(refusal);
            }
        }
        text.extend(told.iter().rev().map(|refusal| format!("- {refusal}\n")));
        text
    }

    fn completion_requirements(&self) -> String {
        let mut text =
            "\n## Completion Requirements\n\nWhen you have GENUINELY completed this stage:\n\n".to_owned();
        for (at, step) in self.stage.name.role().steps.iter().enumerate() {
            text.push_str(&format!("{}. {step}\n", at + 1));
        }
        if self.stage.mode == StageMode::SinglePass {
            text.push_str("\nYou have one pass. What you leave behind is checked when you end.\n");
            return text;
        }
        text.push_str(&format!(
            "\nThen output <promise>{}</promise> on a line of its own.\n\nCRITICAL:\n\
             - Only output the promise when ALL requirements are truly met\n\
             - Your work will be verified - false promises are detected\n\
             - If blocked, explain what's preventing completion\n\
             - The loop will continue until genuine completion or max iterations\n",
            self.stage.promise
        ));
        text
    }
}

/// The stage with what the task itself asks of it: its own promise, if it names one, and the checks that verify it.
pub fn for_task(stage: &Stage, task: &StageTaskSpec) -> Stage {
    let mut own = stage.clone();
    let Some(StageCompletion { promise, verify }) = task.completion.stages.get(&stage.name) else {
        return own;
    };
    if let Some(promise) = promise {
        own.promise.clone_from(promise);
    }
    own.gates.extend(verify.iter().flat_map(Verify::steps).filter_map(|step| match step {
        Verify::StringMatch | Verify::MultiStage { .. } => None,
        Verify::External(external) => Some(external.gate()),
        Verify::Semantic => criteria_question(task),
    }));
    own
}

/// The words by which an agent that is asked about the criteria says that they are met.
const CRITERIA_MET: &str = "CRITERIA_MET";
/// The words by which it says that they are not.
const CRITERIA_NOT_MET: &str = "CRITERIA NOT MET";
/// How a judge writes it, whatever it was told.
const CRITERIA_NOT_MET_IN_ANY_CASE: [&str; 3] = [CRITERIA_NOT_MET, "Criteria not met", "criteria not met"];

/// The check that asks a fresh agent whether the work meets the criteria of the task.
fn criteria_question(task: &StageTaskSpec) -> Option<GateSpec> {
    let StageTaskSpec { title, specification, completion, .. } = task;
    let mut prompt = format!(
        "Another agent says that the following task is done in this directory. You judge whether that is so. Change no file.\n\n\
         ## Task\n{title}\n\n## Specification\n{}\n",
        specification.trim()
    );
    prompt.push_str(&outcome_and_criteria(completion));
    let what = if completion.criteria.is_empty() {
        "All that the specification asks for"
    } else {
        "Every criterion"
    };
    prompt.push_str(&format!(
        "\n## Your Answer\nLook at the files and their history, and try out what you need to know. {what} has to be met. If it is, \
         print the line <promise>{CRITERIA_MET}</promise> and nothing else on it. If anything is not, or if you cannot tell, begin a \
         line with {CRITERIA_NOT_MET}: and say what is missing.\n"
    ));
    let yes = PromiseRule { placement: Placement::OwnLine, ..PromiseRule::new(CRITERIA_MET).ok()? };
    Some(GateSpec {
        name: "criteria".to_owned(),
        timeout: ITERATION_TIMEOUT,
        origin: Origin::Repository,
        ask: Some(GateQuestion { prompt, yes, no: CRITERIA_NOT_MET_IN_ANY_CASE.map(str::to_owned).to_vec() }),
        ..GateSpec::of_command("ask an agent whether the criteria are met")
    })
}

fn outcome_and_criteria(completion: &TaskCompletion) -> String {
    let mut text = String::new();
    if let Some(outcome) = &completion.outcome {
        text.push_str(&format!("\n## Outcome\n{}\n", outcome.trim()));
    }
    if !completion.criteria.is_empty() {
        text.push_str("\n## Acceptance Criteria\n");
        text.extend(completion.criteria.iter().map(|criterion| format!("- {criterion}\n")));
    }
    text
}

/// The first promise that two stages of a task have in common, once the task's own promises count.
pub fn equal_for_task(stages: &[Stage], task: &StageTaskSpec) -> Option<(StageName, StageName)> {
    let own: Vec<Stage> = stages.iter().map(|stage| for_task(stage, task)).collect();
    super::equal_promises(&own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::LoopEvent,
        judge::promise::PromiseDetector,
        loop_machine::LoopState,
        stages::{review, task},
    };

    fn spec(extra: &str) -> StageTaskSpec {
        let text = format!(
            "---\nid: TASK-001\ntitle: Implement user authentication\n{extra}---\nPeople log in with a password.\n"
        );
        task::parse("TASK-001.md", text.as_bytes()).unwrap().spec
    }

    fn prompt(
        name: StageName,
        task: &StageTaskSpec,
        iteration: u32,
        ledger: &ReviewLedger,
        past: &[String],
    ) -> String {
        let stage = Stage::of(name);
        let user_says = None;
        let text = StagePrompt { task, stage: &stage, ledger, past_refusals: past, user_says }.text();
        text.replace(StagePrompt::COUNT_MARK, &format!("{iteration}/{}", name.role().max_iterations))
    }

    #[test]
    fn the_coder_is_told_its_task_and_what_completes_it() {
        // req 173, req 174
        let text = prompt(StageName::Coder, &spec(""), 3, &ReviewLedger::default(), &[]);
        assert_eq!(
            text,
            "## Task Information\n\
             - **Task ID**: TASK-001\n\
             - **Title**: Implement user authentication\n\
             - **Stage**: Implementation\n\
             - **Ralph Iteration**: 3/15\n\
             \n\
             ## Specification\n\
             People log in with a password.\n\
             \n\
             ## Completion Requirements\n\
             \n\
             When you have GENUINELY completed this stage:\n\
             \n\
             1. Ensure all requirements from the specification are implemented\n\
             2. Commit your changes with a descriptive message\n\
             3. Verify your implementation works correctly\n\
             \n\
             Then output <promise>IMPLEMENTATION_COMPLETE</promise> on a line of its own.\n\
             \n\
             CRITICAL:\n\
             - Only output the promise when ALL requirements are truly met\n\
             - Your work will be verified - false promises are detected\n\
             - If blocked, explain what's preventing completion\n\
             - The loop will continue until genuine completion or max iterations\n"
        );
    }

    #[test]
    fn only_the_number_of_the_iteration_changes() {
        // req 176
        for name in StageName::ALL {
            let of = |iteration| prompt(name, &spec(""), iteration, &ReviewLedger::default(), &[]);
            let max = name.role().max_iterations;
            assert_eq!(of(1).replace(&format!(": 1/{max}"), &format!(": 2/{max}")), of(2));
        }
    }

    #[test]
    fn a_loop_gives_its_agent_this_prompt_and_the_way_out() {
        // req 173, req 176
        for name in StageName::ALL {
            let stage = Stage::of(name);
            let (task, ledger) = (spec(""), ReviewLedger::default());
            let base = crate::loop_machine::decide_tests::policy(|_| {});
            let policy = stage.policy(base, 7).unwrap();
            let prompt = StagePrompt {
                task: &task,
                stage: &stage,
                ledger: &ledger,
                past_refusals: &[],
                user_says: None,
            };
            let started = crate::event::LoopStarted {
                prompt: prompt.text(),
                ..crate::loop_machine::decide_tests::started(policy)
            };
            let state = LoopState::fold([&LoopEvent::LoopStarted(Box::new(started))]);
            let of = |iteration| crate::prompt::compose(&state, iteration, "n");
            let own = prompt.text().replace(StagePrompt::COUNT_MARK, "1/7");
            let behind = of(1).strip_prefix(own.trim_end()).map(str::to_owned).unwrap();
            assert!(behind.starts_with("\n\n---\nIf it cannot be done as asked"), "{behind}");
            assert_eq!(of(1).replace("1/7", "2/7"), of(2));
            assert!(!of(1).contains(StagePrompt::COUNT_MARK));
        }
    }

    #[test]
    fn an_agent_that_repeats_its_prompt_promises_nothing() {
        // req 175
        for name in StageName::ALL {
            let text = prompt(name, &spec(""), 1, &ReviewLedger::default(), &[]);
            let rule = Stage::of(name).promise_rule().unwrap();
            // Even if it is not known to be an echo.
            let mut detector = PromiseDetector::new(&rule, "", "");
            detector.push(text.as_bytes());
            assert_eq!(detector.finish().promise, None, "{name}");
            assert!(text.contains(&rule.tag("")));
        }
    }

    #[test]
    fn each_role_sees_what_its_table_says() {
        let mut ledger = ReviewLedger::default();
        let round = ledger.judge(&review("REVIEW FAILED\n- it leaks\n- no test"), "t1");
        ledger.take_round(&round);
        for reply in super::super::replies("REFUTED F1: it does not") {
            ledger.take_reply(&reply);
        }
        let past = ["a", "b", "a", "c", "d", "e", "f"].map(str::to_owned);
        let task = spec("completion: {outcome: Safe, criteria: [no leak]}\n");
        for name in StageName::ALL {
            let text = prompt(name, &task, 1, &ledger, &past);
            let (coder, reviewer) = (name == StageName::Coder, name == StageName::Reviewer);
            for (words, is_seen) in [
                ("## Outcome\nSafe\n", true),
                ("## Acceptance Criteria\n- no leak\n", true),
                ("## Open Findings of the Reviewer\n- F1: it leaks\n- F2: no test\n", coder),
                ("- F1 (open): it leaks\n  The coder says that it is refuted: it does not\n", reviewer),
                ("You have reviewed the tree t1 before.", reviewer),
                // Each refusal once, the newest five.
                ("## Why Earlier Claims Were Refused\n- a\n- c\n- d\n- e\n- f\n", true),
            ] {
                assert_eq!(text.contains(words), is_seen, "{name}: {words}\n{text}");
            }
        }
    }

    #[test]
    fn a_task_may_have_a_promise_of_its_own_and_one_pass_needs_none() {
        // req 198, req 170
        let task = spec("completion: {stages: {coder: {promise: LOGIN_DONE}}}\n");
        let stages = StageName::ALL.map(Stage::of);
        assert_eq!(for_task(&stages[0], &task).promise, "LOGIN_DONE");
        assert_eq!(for_task(&stages[1], &task).promise, "REVIEW_COMPLETE");
        assert_eq!(equal_for_task(&stages, &task), None);
        let same = spec("completion: {stages: {coder: {promise: QA_PASSED}}}\n");
        assert_eq!(equal_for_task(&stages, &same), Some((StageName::Coder, StageName::Qa)));
        // req 198: what verifies a stage of the task is a gate of its loop.
        let verified = spec(
            "completion: {stages: {coder: {verify: {method: multi_stage, steps: [{method: external, command: make}, \
             {method: string_match}, {method: external, command: make test, success_exit_code: 2}]}}}}\n",
        );
        let gates = for_task(&stages[0], &verified).gates;
        let told: Vec<(&str, i32)> =
            gates.iter().map(|gate| (gate.run.as_str(), gate.expect.exit_code)).collect();
        assert_eq!(told, [("make", 0), ("make test", 2)]);
        assert_eq!(for_task(&stages[1], &verified).gates, []);
        let asked = spec("completion: {criteria: [no leak], stages: {qa: {verify: {method: semantic}}}}\n");
        let gates = for_task(&stages[3], &asked).gates;
        let question = gates[0].ask.as_ref().unwrap();
        assert!(question.prompt.contains("## Acceptance Criteria\n- no leak\n"), "{}", question.prompt);
        for answer in ["CRITERIA NOT MET: it leaks", "criteria not met: it leaks", "Criteria not met."] {
            let mut detector = PromiseDetector::with_refusals(&question.yes, &question.no, "", "");
            detector.push(format!("{answer}\n<promise>CRITERIA_MET</promise>\n").as_bytes());
            assert_eq!(detector.finish().refusal.as_deref(), Some(answer));
        }
        // An agent that prints the question back has answered nothing, known as an echo or not.
        for known in [question.prompt.as_str(), ""] {
            let mut detector = PromiseDetector::with_refusals(&question.yes, &question.no, "", known);
            detector.push(question.prompt.as_bytes());
            let heard = detector.finish();
            assert_eq!((heard.promise, heard.refusal), (None, None));
        }
        let stage = Stage { mode: StageMode::SinglePass, ..Stage::of(StageName::Coder) };
        let ledger = ReviewLedger::default();
        let once = StagePrompt {
            task: &task,
            stage: &stage,
            ledger: &ledger,
            past_refusals: &[],
            user_says: Some("Use argon2."),
        };
        assert!(!once.text().contains("<promise>") && once.text().contains("You have one pass."));
        assert!(once.text().contains("## The Person You Work For Says\nUse argon2.\n"));
    }
}
