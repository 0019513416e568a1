//! Which event becomes which notice.

use super::*;
use crate::{
    event::{LoopEvent, Spend},
    view::view_tests::{at, iteration, over, refused, view},
};

/// The notices of a loop's events, a minute apart: kind, title, text, command.
fn notices(mut of: LoopView, events: Vec<LoopEvent>) -> Vec<Notice> {
    let mut found = Vec::new();
    for (seq, event) in (2..).zip(events) {
        let envelope = Envelope { seq, at: at(60 * seq as i64), loop_id: of.id.clone(), event };
        of.apply(&envelope);
        found.extend(notice_of_loop(&envelope, &of));
    }
    found
}

fn titles(events: Vec<LoopEvent>) -> Vec<(NoticeKind, String)> {
    notices(view([]), events).into_iter().map(|notice| (notice.event, notice.title)).collect()
}

fn spending(cost: f64) -> LoopEvent {
    LoopEvent::UsageSeen {
        iteration: 1,
        attempt: 1,
        spend: Spend { cost_usd: Some(cost), ..Spend::default() },
        model: None,
    }
}

fn parked(minutes: i64) -> LoopEvent {
    LoopEvent::Parked { until: at(60 * (2 + minutes)), why: "claude is at its limit".into() }
}

#[test]
fn the_end_of_a_loop_is_told_unless_the_user_ended_it() {
    use NoticeKind::{LoopFinished, Question};
    for (reason, expected) in [
        (Reason::Done, Some((LoopFinished, "TASK-001 is done"))),
        (Reason::MaxIterations, Some((LoopFinished, "TASK-001 failed (max_iterations)"))),
        (Reason::Stuck, Some((LoopFinished, "TASK-001 failed (stuck)"))),
        (Reason::Terminated, Some((LoopFinished, "TASK-001 stopped (terminated)"))),
        (Reason::Question, Some((Question, "TASK-001 asks"))),
        (Reason::Waiting, Some((Question, "TASK-001 waits for you"))),
        (Reason::Blocked, Some((Question, "TASK-001 is blocked"))),
        (Reason::Auth, Some((Question, "TASK-001 is not signed in"))),
        (Reason::Billing, Some((Question, "TASK-001 has no money in its account"))),
        (Reason::Cancelled, None),
        (Reason::Interrupted, None),
    ] {
        let found = notices(view([]), vec![over(reason, "the detail")]);
        let told = found.first().map(|notice| (notice.event, notice.title.as_str()));
        assert_eq!(told, expected, "{reason:?}");
        assert!(found.iter().all(|notice| notice.is_end && notice.text == "the detail"));
    }
}

#[test]
fn a_shared_budget_is_told_in_the_same_words_by_all_loops_that_share_it() {
    let low = |share| LoopEvent::BudgetLow { share, detail: "cost 8.10 of 10.00 USD today".into() };
    let told = notices(view([]), vec![low(Share::Day), low(Share::Project)]);
    let told: Vec<_> = told.iter().map(|n| (n.event, n.title.as_str(), n.subject.as_str())).collect();
    let project = view([]).project;
    let titles = [
        "80 % of the budget of all loops of today are used".to_owned(),
        format!("80 % of the budget of project {project} are used"),
    ];
    let subjects = ["budget of the day".to_owned(), format!("budget of {project}")];
    let expected: Vec<_> =
        titles.iter().zip(&subjects).map(|(t, s)| (NoticeKind::Budget, t.as_str(), s.as_str())).collect();
    assert_eq!(told, expected);
}

#[test]
fn the_third_refusal_in_a_row_is_told_once() {
    let three = vec![refused(), iteration(2), refused(), iteration(3), refused(), iteration(4), refused()];
    let found = notices(view([]), three);
    let told: Vec<_> = found.iter().map(|notice| (notice.event, notice.seq)).collect();
    assert_eq!(told, [(NoticeKind::Refused, 6)]);
    assert_eq!(found[0].command.as_deref(), Some("dacapo steer abcdefghjk \"…\""));
    let accepted = LoopEvent::ClaimAccepted { iteration: 3, verified: true };
    assert_eq!(titles(vec![refused(), refused(), accepted, refused()]), []);
}

#[test]
fn questions_parks_and_budgets_are_told() {
    let question = LoopEvent::QuestionAsked { text: "which\n one?".into() };
    let asked = notices(view([]), vec![question.clone(), over(Reason::Question, "the agent asks")]);
    assert_eq!((asked[0].title.as_str(), asked[0].text.as_str()), ("TASK-001 asks", "which one?"));
    assert_eq!(asked[0].subject, asked[1].subject, "its end repeats the question");
    assert_eq!(
        titles(vec![parked(5), parked(4)]),
        [(NoticeKind::Parked, "TASK-001 is parked until 2001-09-09 01:53 UTC".to_owned())],
        "a short wait is not worth a word"
    );
    let mut with_budget = view([]);
    with_budget.tally.budget.max_cost = Some(5.0);
    let found = notices(with_budget, vec![spending(1.0), spending(4.1), spending(4.9)]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].title, "TASK-001 has used 80 % of its budget");
    assert_eq!((found[0].text.as_str(), found[0].seq), ("$4.10 of $5.00", 3));
}

#[test]
fn loops_of_runs_ask_for_themselves_and_their_end_is_told_by_the_run() {
    let mut of_run = view([]);
    of_run.tally.run = Some("rrrrrrrrrr".parse().unwrap());
    let question = LoopEvent::QuestionAsked { text: "which one?".into() };
    let found = notices(of_run, vec![question, over(Reason::Done, "done")]);
    assert_eq!(found.len(), 1);
    assert!(found[0].subject.starts_with("rrrrrrrrrr"));
    let child = LoopView { parent: Some("pppppppppp".parse().unwrap()), ..view([]) };
    assert_eq!(notices(child, vec![over(Reason::Done, "done")]), []);
}

#[test]
fn a_long_question_is_cut_and_every_word_of_the_file_is_known() {
    let question = LoopEvent::QuestionAsked { text: "ä".repeat(10_000) };
    assert_eq!(notices(view([]), vec![question])[0].text.chars().count(), LONGEST + 1);
    for (kind, word) in NoticeKind::ALL.into_iter().zip(NoticeKind::WORDS) {
        assert_eq!((kind.as_str(), NoticeKind::find(word)), (word, Some(kind)));
        assert_eq!(serde_json::to_value(kind).unwrap(), word);
    }
    assert_eq!(NoticeKind::find("loop"), None);
}
