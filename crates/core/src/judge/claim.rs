//! When a claim is refused before or by its gates, and in which words.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::signal::Signal;
use crate::{
    event::{Examination, GateResult},
    goalposts::{Moved, MovedGoalpost, MustFailRun, MustFailTest},
    item::ItemKey,
    policy::{GateFrom, GateSpec, Policy, TestsMode},
};

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// A gate did not exit 0.
    GateFailed,
    /// A protected path was changed.
    Tampered,
    /// The gates pass, but only with the agent's own tests or runner settings, or they ran fewer tests than before.
    Narrowed,
    /// The agent's words contradict its promise.
    Contradiction,
    /// Nothing shows the evidence that the claimed item asks for.
    NoEvidence,
    Empty,
    /// A process changed the workspace while gates checked it.
    TreeChanged,
    /// The signal itself cannot be believed.
    Malformed,
}

impl RefusalReason {
    /// As it stands in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GateFailed => "gate_failed",
            Self::Tampered => "tampered",
            Self::Narrowed => "narrowed",
            Self::Contradiction => "contradiction",
            Self::NoEvidence => "no_evidence",
            Self::Empty => "empty",
            Self::TreeChanged => "tree_changed",
            Self::Malformed => "malformed",
        }
    }

    /// Why the claim did not hold, as people say it.
    pub fn words(self) -> &'static str {
        match self {
            Self::GateFailed => "a gate failed",
            Self::Tampered => "protected files were changed",
            Self::Narrowed => "the tests are narrower than they were",
            Self::Contradiction => "the agent's own words spoke against it",
            Self::NoEvidence => "evidence was missing",
            Self::Empty => "nothing was changed",
            Self::TreeChanged => "files changed during the check",
            Self::Malformed => "it was malformed",
        }
    }
}

/// A refusal in words.
pub type Refusal = (RefusalReason, String);

/// What refuses a claim made in `iteration` before any gate runs; `blocked` is why the same agent says that the work cannot
/// be done.
pub fn refused_at_once(
    by: &[Signal],
    iteration: u32,
    blocked: Option<&str>,
    policy: &Policy,
) -> Option<Refusal> {
    if let Some(refusal) = refused_by_block(by, blocked) {
        return Some(refusal);
    }
    // One good signal carries a claim: a promise is not void because the DONE beside it is a link.
    if let Some(Signal::MalformedDone(kind)) = by.first()
        && by.iter().all(|signal| matches!(signal, Signal::MalformedDone(_)))
    {
        return Some((RefusalReason::Malformed, format!("DONE is a {kind}, not a regular file")));
    }
    if let Some(refusal) = malformed(by) {
        return Some(refusal);
    }
    if iteration == 0 && !policy.gates.specs.is_empty() && !policy.claims.allow_empty && !is_ours(by) {
        // No agent of this loop has run yet, so none of them wrote the DONE file.
        return Some((
            RefusalReason::Empty,
            "DONE was there before the loop began and nothing has changed since".to_owned(),
        ));
    }
    None
}

/// Refuses the claim of an agent that also says that the work cannot be done: both cannot be true, and believing the word
/// that ends the loop would be the dearer mistake. What dacapo itself claims is no word of the agent's.
pub fn refused_by_block(by: &[Signal], blocked: Option<&str>) -> Option<Refusal> {
    let why = blocked.filter(|_| !is_ours(by))?;
    Some((
        RefusalReason::Contradiction,
        format!("the agent claims to be done and says that it is blocked: {why}"),
    ))
}

fn malformed(by: &[Signal]) -> Option<Refusal> {
    match by {
        [Signal::MalformedItem(why)] => Some((RefusalReason::Malformed, why.clone())),
        _ => None,
    }
}

/// What refuses a claim after a look at the workspace, before any gate runs.
///
/// `is_approved` says that a person has accepted the tree although what decides about it was changed.
pub fn refused_by_examination(
    by: &[Signal],
    found: &Examination,
    policy: &Policy,
    is_approved: bool,
) -> Option<Refusal> {
    // Refused at once, unless dacapo was killed in between.
    if let Some(refusal) = malformed(by) {
        return Some(refusal);
    }
    if let Some(change) = found.forbidden.first() {
        return Some((RefusalReason::Tampered, with_more(&change.why, found.forbidden.len())));
    }
    if let Some(path) = found.tampered.first()
        && policy.gates.from == GateFrom::Workspace
    {
        let more = match found.tampered.len() - 1 {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        // The user protected nothing by a pattern then, and needs to know why it is protected.
        let why = match policy.gates.specs.iter().find(|gate| names(&gate.run, path)) {
            Some(gate) => format!("; gate `{}` runs it", gate.name),
            None => String::new(),
        };
        return Some((
            RefusalReason::Tampered,
            format!("the protected path `{path}`{more} was changed{why}"),
        ));
    }
    if let Some(refusal) = refused_by_outside(&found.outside).filter(|_| !is_approved) {
        return Some(refusal);
    }
    if policy.gates.tests == TestsMode::Sealed
        && let Some(moved) = found.moved.iter().find(|moved| moved.how != Moved::Added)
    {
        let line =
            format!("`{}` was changed, and tests and the settings of their runner are sealed", moved.path);
        return Some((RefusalReason::Tampered, with_more(&line, found.moved.len())));
    }
    // What dacapo itself found out needs no change: the agent claimed nothing.
    let needs_change = !policy.gates.specs.is_empty() || policy.claims.needs_change;
    if found.changed == 0 && needs_change && !policy.claims.allow_empty && !is_ours(by) {
        return Some((RefusalReason::Empty, "nothing was changed since the loop began".to_owned()));
    }
    if let Some(text) = &found.contradiction {
        let detail = format!("Output contains contradictions to promise: {text}");
        return Some((RefusalReason::Contradiction, detail));
    }
    refused_for_evidence(by, found, policy)
}

/// What a refusal says of settings, programs and installed runners that were changed.
pub const DECIDES_FROM_OUTSIDE: &str = "which decides what gates do";

/// Whether one of the words of `command` is the file `path`.
fn names(command: &str, path: &str) -> bool {
    let is_between = |c: char| c.is_whitespace() || "|&;<>()'\"=".contains(c);
    command.split(is_between).any(|word| word.strip_prefix("./").unwrap_or(word) == path)
}

fn refused_by_outside(changed: &[String]) -> Option<Refusal> {
    let path = changed.first()?;
    let more = match changed.len() - 1 {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let detail = format!(
        "`{path}`{more} is not what it was before the first agent, {DECIDES_FROM_OUTSIDE}; put it back, or say \
         <blocked>why</blocked> if the task asks for this change: a person can approve it"
    );
    Some((RefusalReason::Tampered, detail))
}

/// Refuses a claim of which nothing is left without the items whose evidence is missing.
fn refused_for_evidence(by: &[Signal], found: &Examination, policy: &Policy) -> Option<Refusal> {
    let lacks = |key: Option<ItemKey>| found.missing_evidence.iter().find(|missing| missing.item == key);
    let mut claimed = policy.items.iter().filter(|item| item.is_claimed(by)).peekable();
    claimed.peek()?;
    let lines: Option<Vec<String>> = claimed
        .map(|item| {
            let reason = lacks(item.key)?.reason;
            Some(if item.key.is_some() { format!("{}: {reason}", item.label()) } else { reason.to_string() })
        })
        .collect();
    lines.map(|lines| (RefusalReason::NoEvidence, lines.join("; ")))
}

/// Whether the claim is dacapo's own, and not the agent's.
fn is_ours(by: &[Signal]) -> bool {
    by.iter().all(|signal| matches!(signal, Signal::UntilCommand | Signal::OwnClaim))
}

fn with_more(line: &str, all: usize) -> String {
    if all > 1 { format!("{line} (and {} more)", all - 1) } else { line.to_owned() }
}

/// What refuses a claim whose workspace did not hold still while it was checked.
pub fn refused_by_disturbance(disturbed: &[String]) -> Option<Refusal> {
    let path = disturbed.first()?;
    let detail = format!(
        "`{path}` was changed while the claim was being checked; a gate that rewrites files on purpose, as a formatter does, \
         has to check them instead"
    );
    Some((RefusalReason::TreeChanged, detail))
}

/// The refusal of a claim whose gate rewrote the goalpost at `path`.
pub fn refused_by_rewriting(path: &str, gate: &str) -> Refusal {
    let detail = format!(
        "`{path}` was rewritten while gate `{gate}` ran; a gate that rewrites files on purpose, as a formatter does, has to \
         check them instead"
    );
    (RefusalReason::TreeChanged, detail)
}

/// Judges whether a check came to what is expected of it. What one that passed has printed is needed by nothing.
pub fn judge_gate(gate: &GateSpec, result: &mut GateResult) {
    // A check that has no exit code was stopped or never ran; `failure` says so already.
    let refusal = match (&result.failure, &gate.ask) {
        (Some(_), _) => result.failure.clone(),
        (None, None) => gate.expect.refusal(result.exit_code, result.found),
        (None, Some(_)) => result.answer.clone().unwrap_or_default().refusal(),
    };
    result.passed = refusal.is_none();
    if result.passed {
        result.output_tail.clear();
    } else if gate.ask.is_some() || !gate.expect.is_default() {
        result.failure = refusal;
    }
}

/// Judges a check that ran with tests that have to fail: it holds if it is red and says that each of them failed. One that is red
/// and says so of some only gets another try with the others; if it does not name them in the last one, that shows nothing. One
/// whose other tests fail beside them is tried again, too: `earlier` is the run of its first try. If they fail each time, they pass
/// only while the code under test finds itself alone with them. What failed so before the first agent, `known`, counts tests itself.
pub fn judge_must_fail(
    result: &mut GateResult,
    earlier: Option<&MustFailRun>,
    known: &BTreeSet<String>,
    is_last_try: bool,
) {
    let Some(run) = result.must_fail_tests.as_mut().filter(|run| !run.put.is_empty()) else { return };
    run.others.retain(|name| !known.contains(name));
    if result.passed {
        // A runner may print that a test failed and be ended with 0 all the same.
        run.noticed.clear();
        result.passed = false;
        result.failure = Some(format!("passes although {} has to fail", a_test_in(&run.missed())));
    } else if let Some(name) = earlier.and_then(|earlier| run.failed_again(earlier).into_iter().next()) {
        result.failure = Some(format!("its test `{name}` fails beside a test that has to fail"));
    } else if run.next().is_empty() || is_last_try {
        result.passed = true;
        result.failure = None;
        result.output_tail.clear();
    }
}

/// The refusal of a claim whose gate passes with these must-fail tests in its test files.
pub fn narrowed_by_must_fail(gate: &str, missed: &[MustFailTest]) -> Refusal {
    let detail = format!(
        "gate `{gate}` passes although {} has to fail: the code under test ends the test run, reads what it expects, or \
         replaces its assertions or its report; take that out and do the work, or say <blocked>why</blocked> if that cannot be done",
        a_test_in(missed)
    );
    (RefusalReason::Narrowed, detail)
}

/// The refusal of a claim whose gate passes, and whose test `name` fails as soon as a must-fail test stands beside it.
pub fn narrowed_by_failed_again(gate: &str, name: &str) -> Refusal {
    let detail = format!(
        "gate `{gate}` passes, and its test `{name}` fails each time a test that has to fail is added: the code under test \
         steers the tests that it knows; take that out and do the work, or say <blocked>why</blocked> if that cannot be done"
    );
    (RefusalReason::Narrowed, detail)
}

fn a_test_in(tests: &[MustFailTest]) -> String {
    if let Some(name) = tests
        .iter()
        .map(MustFailTest::expects_other)
        .collect::<Option<Vec<_>>>()
        .and_then(|all| all.first().copied())
    {
        return format!("its test `{name}`, which was changed to expect another number,");
    }
    let paths: BTreeSet<&str> = tests.iter().map(|test| test.path.as_str()).collect();
    let more = if paths.len() > 1 { format!(" and {} more", paths.len() - 1) } else { String::new() };
    format!("a test that was put into `{}`{more}", paths.first().copied().unwrap_or_default())
}

/// The refusal of a claim whose gates pass only with the agent's own version of these goalposts; `gate` is the one that does not
/// pass with those that were there.
pub fn narrowed_by(moved: &[MovedGoalpost], gate: &str) -> Refusal {
    const SHOWN: usize = 5;
    let names: Vec<String> = moved.iter().take(SHOWN).map(|moved| format!("`{}`", moved.path)).collect();
    let more = if moved.len() > SHOWN { format!(" and {} more", moved.len() - SHOWN) } else { String::new() };
    let names = names.join(", ");
    let detail =
        format!("gate `{gate}` passes only with the agent's own version of {names}{more}; {WAY_OUT}");
    (RefusalReason::Narrowed, detail)
}

/// The refusal of a claim whose gate shows less than it did.
pub fn narrowed_tests(gate: &str, why: &str) -> Refusal {
    (RefusalReason::Narrowed, format!("gate `{gate}` {why}; {WAY_OUT}"))
}

/// What an agent can do about a claim whose tests are narrower than they were.
const WAY_OUT: &str =
    "restore what was there and make it pass, or say <blocked>why</blocked> if that cannot be done";

/// What refuses a claim whose gate came to `result`.
pub fn refused_by_gate(name: &str, result: &GateResult) -> Option<Refusal> {
    if result.passed {
        return None;
    }
    let detail = match &result.failure {
        Some(failure) => format!("gate `{name}` {failure}"),
        None => format!("gate `{name}` exited {}", result.exit_code),
    };
    Some((RefusalReason::GateFailed, detail))
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_gate_names_a_file_by_a_whole_word() {
        for (gate, path, expected) in [
            ("sh greet.sh Ada | grep Ada", "greet.sh", true),
            ("cd x && ./tests/a.sh;true", "tests/a.sh", true),
            ("bash 'tests/a.sh'", "tests/a.sh", true),
            ("cargo test", "tests/a.sh", false),
            ("sh not-greet.sh", "greet.sh", false),
        ] {
            assert_eq!(names(gate, path), expected, "{gate}");
        }
    }
}
