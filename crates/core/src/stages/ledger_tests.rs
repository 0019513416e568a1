use super::*;
use crate::{
    chance_tests::{Chance, for_seeds},
    stages::review::{replies, review},
};
use FindingState::{Deferred, Fixed, Open, Refuted};

/// The ledger after these reviews, each of a tree of its own.
fn after(answers: &[&str]) -> ReviewLedger {
    let mut ledger = ReviewLedger::default();
    for (at, answer) in answers.iter().enumerate() {
        let round = ledger.judge(&review(answer), &format!("t{at}"));
        ledger.take_round(&round);
    }
    ledger
}

fn states(ledger: &ReviewLedger) -> Vec<(u32, FindingState)> {
    ledger.findings.iter().map(|finding| (finding.number, finding.state)).collect()
}

#[test]
fn a_finding_keeps_its_number_and_the_reviewer_decides_about_it() {
    const FIRST: &str = "CHANGES REQUESTED:\n- `src/a.rs:12`: leaks the handle\n- no test for line 7\n";
    for (then, expected) in [
        ("REVIEW FAILED\n- F1: still leaks\n- F2: still none", vec![(1, Open), (2, Open)]),
        ("FIXED F1\nREVIEW FAILED\n- F2: still none", vec![(1, Fixed), (2, Open)]),
        ("REFUTED F1: it is dropped\nDEFERRED F2\nREVIEW PASSED", vec![(1, Refuted), (2, Deferred)]),
        // The same words at another line are the same finding.
        (
            "REVIEW FAILED\n- **src/a.rs:30** leaks the handle.\n- No test for line 9",
            vec![(1, Open), (2, Open)],
        ),
        ("REVIEW FAILED\n- `src/b.rs:12`: leaks the handle", vec![(1, Open), (2, Open), (3, Open)]),
        // An approval says that what is open is gone.
        ("REVIEW PASSED", vec![(1, Fixed), (2, Fixed)]),
        // A refusal without a reason leaves something to answer.
        ("FIXED F1, F2\nREVIEW FAILED", vec![(1, Fixed), (2, Fixed), (3, Open)]),
        ("FIXED F9\nREVIEW FAILED\n- F8: a new one", vec![(1, Open), (2, Open), (3, Open)]),
        // Of two words about a finding the reviewer's insistence counts.
        ("FIXED F2\nREVIEW FAILED\n- no test for line 7", vec![(1, Open), (2, Open)]),
        ("I have read it", vec![(1, Open), (2, Open)]),
        // Not even the refusal without a reason is closed by another one.
        (
            "FIXED F1, F2\nREVIEW FAILED\n- The reviewer refused the work without a reason.",
            vec![(1, Fixed), (2, Fixed), (3, Open)],
        ),
    ] {
        assert_eq!(states(&after(&[FIRST, then])), expected, "{then}");
    }
    let reopened =
        after(&[FIRST, "FIXED F1\nREVIEW FAILED\n- F2", "REOPENED F1: again\nREVIEW FAILED\n- F2"]);
    assert_eq!(states(&reopened), [(1, Open), (2, Open)]);
    assert_eq!(reopened.findings[0].decided, Some((Decider::Reviewer, "again".to_owned())));
}

#[test]
fn a_coder_that_declares_a_finding_refuted_does_not_close_it() {
    let mut ledger = after(&["REVIEW FAILED\n- it leaks"]);
    for reply in replies("REFUTED F1: it does not\nFIXED F7\nREVIEW PASSED") {
        ledger.take_reply(&reply);
    }
    assert_eq!(states(&ledger), [(1, Open)]);
    let says = ledger.findings[0].coder_says.as_ref().map(|says| (says.state, says.why.as_str()));
    assert_eq!(says, Some((Refuted, "it does not")));
    assert!(ledger.question(&Stalemate::SameTree).contains("the coder says that it is refuted: it does not"));
}

#[test]
fn a_review_that_does_not_converge_ends_with_a_question() {
    let still_finding = |per_round: &[u32]| Some(Stalemate::StillFinding { per_round: per_round.to_vec() });
    let new = ["REVIEW FAILED\n- a", "FIXED F1\nREVIEW FAILED\n- b", "FIXED F2\nREVIEW FAILED\n- c\n- d"];
    for (answers, expected) in [
        (&new[..1], None),
        (&new[..2], None),
        (&new[..], still_finding(&[1, 1, 2])),
        (&["REVIEW FAILED\n- a", "REVIEW FAILED\n- a"], Some(Stalemate::NothingSettled)),
        (&["REVIEW FAILED\n- a\n- b", "FIXED F1\nREVIEW FAILED\n- b"], None),
        // What comes back counts like what is new.
        (
            &[
                "REVIEW FAILED\n- a\n- b",
                "FIXED F1\nREVIEW FAILED\n- b",
                "REVIEW FAILED\n- a",
                "FIXED F1\nREVIEW FAILED\n- b",
                "REVIEW FAILED\n- a",
            ],
            still_finding(&[2, 1, 1]),
        ),
        (&["REVIEW FAILED\n- a", "REVIEW PASSED"], None),
    ] {
        assert_eq!(after(answers).stalemate(), expected, "{answers:?}");
    }
}

#[test]
fn a_round_about_the_same_files_ends_with_a_question() {
    let mut ledger = after(&["REVIEW FAILED\n- a"]);
    let round = ledger.judge(&review("FIXED F1\nREVIEW FAILED\n- b"), "t0");
    ledger.take_round(&round);
    assert_eq!(ledger.stalemate(), Some(Stalemate::SameTree));
    // The user's answer begins a new count, though not about the same files.
    ledger.take_answer(&[FindingDecision { number: 2, state: Deferred, why: "later".to_owned() }]);
    assert_eq!(ledger.findings[1].decided, Some((Decider::User, "later".to_owned())));
    assert_eq!(ledger.stalemate(), None);
    let round = ledger.judge(&review("REVIEW FAILED\n- c"), "t1");
    ledger.take_round(&round);
    assert_eq!(ledger.stalemate(), None);
}

#[test]
fn the_question_names_what_is_open() {
    let ledger = after(&["REVIEW FAILED\n- a\n- b", "FIXED F1\nREVIEW FAILED\n- c", "REVIEW FAILED\n- d"]);
    let question = ledger.question(&ledger.stalemate().unwrap());
    assert_eq!(
        question,
        "The review does not come to an end: 3 rounds have brought findings (2, 1, 1).\nOpen:\n  F2: b\n  F3: c\n  \
         F4: d\nApprove to take the work as it is (what is open is deferred), or reject with what the coder is to do."
    );
}

/// An answer of a reviewer that says anything about anything.
fn any_answer(dice: &mut Chance) -> String {
    let mut answer = String::new();
    for _ in 0..dice.below(4) {
        let word = dice.of(&["FIXED", "REFUTED", "DEFERRED", "REOPENED"]);
        answer += &format!("{word} F{}\n", dice.below(8));
    }
    if dice.percent(90) {
        answer += "REVIEW FAILED\n";
        for _ in 0..dice.below(3) {
            answer += &format!("- finding {}\n", dice.of(&["a", "b", "c", "d", "e", "f", "g", "h"]));
        }
        if dice.percent(30) {
            answer += &format!("- F{}: still\n", dice.below(8));
        }
    }
    answer
}

#[test]
fn every_review_comes_to_an_end_and_no_finding_is_lost() {
    for_seeds(3000, 0, 1, |seed| {
        let mut dice = Chance(seed);
        let mut ledger = ReviewLedger::default();
        let mut tree = 0;
        loop {
            let before = ledger.clone();
            tree += 1;
            let round = ledger.judge(&review(&any_answer(&mut dice)), &format!("t{tree}"));
            ledger.take_round(&round);
            // Findings have their numbers for ever, and their words.
            for (at, finding) in ledger.findings.iter().enumerate() {
                assert_eq!(finding.number as usize, at + 1);
                assert!(before.findings.get(at).is_none_or(|known| known.text == finding.text));
            }
            // What the coder says changes no state.
            for reply in replies(&any_answer(&mut dice)) {
                let known = states(&ledger);
                ledger.take_reply(&reply);
                assert_eq!(states(&ledger), known);
            }
            if round.verdict != ReviewVerdict::Refused {
                break;
            }
            assert!(ledger.open().next().is_some(), "a refusal leaves something to do");
            if ledger.stalemate().is_some() {
                break;
            }
            assert!(ledger.rounds.len() <= ROUNDS_WITH_FINDINGS + ledger.findings.len() * 2, "{ledger:?}");
        }
    });
}
