//! What earlier runs of tasks tell about the next one: how many iterations stages needed, and why claims were refused.

use std::collections::BTreeMap;

use super::{
    PastRun, RalphFailure, ReviewLedger, ReviewVerdict, StageName,
    machine::{TaskEnvelope, TaskEvent},
};
use crate::event::Reason;

/// How many of the last words of an agent the next coder is told.
const LAST_WORDS: usize = 60;

/// How runs of each stage went, the newest last. `recorded` are the events of runs of tasks, run by run.
///
/// A run that was cancelled, or that failed for another reason than its limit, says nothing about how many iterations it takes.
pub fn past_runs<'a>(
    recorded: impl IntoIterator<Item = &'a TaskEnvelope>,
) -> BTreeMap<StageName, Vec<PastRun>> {
    let mut found: BTreeMap<StageName, Vec<PastRun>> = BTreeMap::new();
    let mut add = |stage, iterations, is_passed| {
        found.entry(stage).or_default().push(PastRun { iterations, is_passed });
    };
    let mut newest_iteration = 0;
    for envelope in recorded {
        match &envelope.event {
            TaskEvent::StageStarted { .. } => newest_iteration = 0,
            TaskEvent::StageIteration { entry, .. } => newest_iteration = entry.ralph_iteration,
            TaskEvent::StagePassed { stage, iterations, .. } => add(*stage, *iterations, true),
            // A refusal is what the reviewer was asked for.
            TaskEvent::SentBack { from, .. } => add(*from, newest_iteration.max(1), true),
            TaskEvent::StageFailed { failure, why: Reason::MaxIterations, .. } => {
                add(failure.stage, failure.iterations_used, false);
            }
            _ => {}
        }
    }
    found
}

/// Why claims of each stage were refused in earlier runs of one task, the newest last. `recorded` are the events of these runs.
pub fn past_refusals<'a>(
    recorded: impl IntoIterator<Item = &'a TaskEnvelope>,
) -> BTreeMap<StageName, Vec<String>> {
    let mut found: BTreeMap<StageName, Vec<String>> = BTreeMap::new();
    for envelope in recorded {
        let (stage, refusals) = match &envelope.event {
            TaskEvent::StagePassed { stage, refusals, .. } => (*stage, refusals),
            TaskEvent::StageFailed { failure, refusals, .. } => {
                // What a stage behind the coder came to is for the coder to read: it alone may change what is wrong.
                if failure.stage != StageName::Coder {
                    found.entry(StageName::Coder).or_default().push(told(failure));
                }
                (failure.stage, refusals)
            }
            _ => continue,
        };
        if !refusals.is_empty() {
            found.entry(stage).or_default().extend(refusals.iter().cloned());
        }
    }
    found
}

/// Findings that earlier runs of one task have left open, the oldest first: a run that fails does not settle them. The next run
/// begins with them.
pub fn past_findings<'a>(recorded: impl IntoIterator<Item = &'a TaskEnvelope>) -> Vec<String> {
    let (mut ledger, mut left) = (ReviewLedger::default(), Vec::new());
    for envelope in recorded {
        match &envelope.event {
            // A run that began with findings has those of the runs before it in its own ledger.
            TaskEvent::TaskStarted(started) if !started.past_findings.is_empty() => {
                left.clear();
                ledger = ReviewLedger::with_earlier(&started.past_findings);
            }
            TaskEvent::TaskStarted(_) => leave(&mut ledger, &mut left),
            TaskEvent::ReviewRound { round } => {
                ledger.take_round(round);
                if round.verdict == ReviewVerdict::Approved {
                    left.clear();
                }
            }
            TaskEvent::QuestionAnswered { decisions, .. } => ledger.take_answer(decisions),
            _ => {}
        }
    }
    leave(&mut ledger, &mut left);
    left
}

/// The run of this ledger is over: what is open in it is left for the next one.
fn leave(ledger: &mut ReviewLedger, left: &mut Vec<String>) {
    for finding in std::mem::take(ledger).open() {
        if !left.contains(&finding.text) {
            left.push(finding.text.clone());
        }
    }
}

/// How a stage failed, in one line: why, and what its agent said last.
fn told(failure: &RalphFailure) -> String {
    let RalphFailure { stage, reason, last_output, .. } = failure;
    let words: Vec<&str> = last_output.split_whitespace().collect();
    let last = words[words.len().saturating_sub(LAST_WORDS)..].join(" ");
    let said = if last.is_empty() { String::new() } else { format!("; its agent said last: {last}") };
    format!("the {stage} stage failed: {reason}{said}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(events: Vec<TaskEvent>) -> Vec<TaskEnvelope> {
        let run: crate::ids::RunId = "r123456789".parse().unwrap();
        let at = jiff::Timestamp::UNIX_EPOCH;
        events.into_iter().map(|event| TaskEnvelope { seq: 1, at, run: run.clone(), event }).collect()
    }

    fn passed(stage: StageName, iterations: u32, refusals: &[&str]) -> TaskEvent {
        TaskEvent::StagePassed {
            stage,
            run: 1,
            iterations,
            tree: "t".to_owned(),
            changed: Vec::new(),
            unreviewed: Vec::new(),
            deleted_tests: Vec::new(),
            refusals: refusals.iter().map(|&why| why.to_owned()).collect(),
            loop_id: None,
        }
    }

    fn failed(stage: StageName, iterations: u32, why: Reason, refusals: &[&str]) -> TaskEvent {
        TaskEvent::StageFailed {
            run: 1,
            failure: RalphFailure::new(stage, iterations, "", "r"),
            why,
            refusals: refusals.iter().map(|&why| why.to_owned()).collect(),
        }
    }

    #[test]
    fn runs_that_were_passed_refused_or_used_up_are_measures_and_others_are_none() {
        use StageName::{Coder, Reviewer, Tester};
        let sent_back = TaskEvent::SentBack { from: Reviewer, open: 2 };
        let all = recorded(vec![
            passed(Coder, 3, &["no tests"]),
            sent_back,
            passed(Coder, 2, &[]),
            failed(Coder, 15, Reason::MaxIterations, &["no commit"]),
            failed(Tester, 4, Reason::Error, &["gate failed"]),
            TaskEvent::CancelRequested,
        ]);
        let run = |iterations, is_passed| PastRun { iterations, is_passed };
        assert_eq!(
            past_runs(&all),
            [(Coder, vec![run(3, true), run(2, true), run(15, false)]), (Reviewer, vec![run(1, true)]),]
                .into()
        );
        let words = |list: &[&str]| -> Vec<String> { list.iter().map(|&word| word.to_owned()).collect() };
        assert_eq!(
            past_refusals(&all),
            [
                // What a later stage came to is for the coder to read.
                (Coder, words(&["no tests", "no commit", "the tester stage failed: r"])),
                (Tester, words(&["gate failed"]))
            ]
            .into()
        );
        assert_eq!(past_runs(&[]), BTreeMap::new());
    }

    #[test]
    fn findings_that_no_reviewer_has_closed_are_told_to_the_next_run() {
        use StageName::Coder;
        let round = |number, answer: &str| TaskEvent::ReviewRound {
            round: ReviewLedger::default().judge(&super::super::review(answer), &format!("t{number}")),
        };
        let started = || TaskEvent::TaskStarted(crate::stages::machine::decide_tests::started());
        let used_up = || failed(Coder, 2, Reason::MaxIterations, &[]);
        let left = |events: Vec<TaskEvent>| past_findings(&recorded(events));
        let refused = || round(1, "REVIEW FAILED\n- the password is logged");
        let open = ["the password is logged"];
        assert_eq!(left(vec![started(), refused(), used_up()]), open);
        // A run that comes to no review closes nothing, and one that finds it again adds nothing.
        assert_eq!(left(vec![started(), refused(), used_up(), started(), used_up()]), open);
        assert_eq!(left(vec![started(), refused(), started(), refused()]), open);
        let approved = vec![started(), refused(), started(), round(1, "REVIEW PASSED"), used_up()];
        assert_eq!(left(approved), Vec::<String>::new());
        // A run that began with them has closed one of them by its number.
        let mut again = crate::stages::machine::decide_tests::started();
        again.past_findings = vec!["the password is logged".to_owned(), "no test".to_owned()];
        let ledger = ReviewLedger::with_earlier(&again.past_findings);
        let review = super::super::review("REVIEW FAILED\n- no test\nFIXED F1");
        let decided = TaskEvent::ReviewRound { round: ledger.judge(&review, "t2") };
        let runs = vec![started(), refused(), TaskEvent::TaskStarted(again), decided, used_up()];
        assert_eq!(left(runs), ["no test"]);
    }
}
