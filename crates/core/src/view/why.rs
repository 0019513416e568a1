//! Why a loop stopped, goes on or waits, and the one next step.

use serde::{Deserialize, Serialize};

use super::LoopView;
use crate::{
    event::{GateResult, Reason},
    judge::claim::{DECIDES_FROM_OUTSIDE, RefusalReason},
    text::count,
};

/// The answer of `dacapo why`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Why {
    /// What is the case, in a sentence.
    pub because: String,
    /// What to do about it, as a command or an act.
    pub next: String,
}

impl Why {
    /// The first command of the next step, as it can be typed.
    pub fn command(&self) -> Option<&str> {
        self.next.split('`').skip(1).step_by(2).find(|quoted| quoted.starts_with("dacapo "))
    }
}

/// What a refused claim calls for, where more iterations alone would not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedBy {
    /// A gate ran and does not pass: there is work left.
    RedGate,
    /// A gate cannot run: its program or script is not there, or may not be executed.
    BrokenGate,
    /// A gate took longer than it may.
    SlowGate,
    /// The agent was to commit its work and did not.
    NoCommit,
    /// Tests, or what decides which of them run, are not as they were.
    ChangedTests,
    /// The same, and a person may take them as they are.
    ApprovableChange,
    /// Files changed while gates ran.
    RestlessFiles,
}

impl RefusedBy {
    pub(super) fn of_gate(result: &GateResult) -> Self {
        let has_timed_out = result.failure.as_ref().is_some_and(|failure| failure.starts_with("timed out"));
        if result.not_started
            || matches!(result.exit_code, 126 | 127)
            || lacks_its_runner(&result.output_tail)
        {
            Self::BrokenGate
        } else if has_timed_out {
            Self::SlowGate
        } else {
            Self::RedGate
        }
    }

    /// What refused a claim, if its newest gate that did not pass came to `gate`.
    pub(super) fn of_claim(reason: RefusalReason, detail: &str, gate: Option<Self>) -> Option<Self> {
        match reason {
            RefusalReason::GateFailed => gate,
            RefusalReason::NoEvidence if detail.contains("No commit") => Some(Self::NoCommit),
            RefusalReason::Narrowed => Some(Self::ApprovableChange),
            RefusalReason::Tampered if detail.contains(DECIDES_FROM_OUTSIDE) => Some(Self::ApprovableChange),
            RefusalReason::Tampered => Some(Self::ChangedTests),
            RefusalReason::TreeChanged => Some(Self::RestlessFiles),
            RefusalReason::NoEvidence
            | RefusalReason::Contradiction
            | RefusalReason::Empty
            | RefusalReason::Malformed => None,
        }
    }
}

/// Whether a gate says at its end that its test runner is not installed. Python, cargo and npx end with 1 or 101 then, as they do
/// for red tests; a module that tests import is work that may be left to do, and stands in quotes.
fn lacks_its_runner(output: &str) -> bool {
    output.lines().rev().take(5).any(|line| {
        let line = line.trim();
        let module = line.split_once(": No module named ").filter(|(program, _)| {
            let name = program.rsplit('/').next().unwrap_or_default();
            ["python", "pypy"].iter().any(|known| name.starts_with(known))
        });
        module.is_some_and(|(_, module)| !module.starts_with('\''))
            || line.starts_with("error: no such command: `")
            || line.starts_with("npm error could not determine executable to run")
    })
}

/// The next step after a limit, where the newest refusal says that more of the same would end in the same way.
fn mend_first(view: &LoopView) -> Option<String> {
    let id = &view.id;
    let more = match view.reason {
        Some(Reason::MaxIterations) => " -n +1",
        Some(Reason::MaxTime) => " --max-time 1h",
        _ => "",
    };
    let change = if view.is_plain {
        format!("`dacapo logs {id}` shows what the agent did")
    } else {
        format!("`dacapo diff {id}` shows what was changed")
    };
    match view.refused_by? {
        RefusedBy::RedGate => None,
        RefusedBy::BrokenGate => Some(format!(
            "The gate itself cannot run. Install or write what it needs, then `dacapo resume {id}{more}`; if its command is wrong, \
             correct it and begin anew with `dacapo run`."
        )),
        RefusedBy::SlowGate => Some(format!(
            "The gate needs more time than it has. Make it faster, then `dacapo resume {id}{more}`; or begin anew with a longer \
             `--gate-timeout`."
        )),
        RefusedBy::NoCommit => Some(format!(
            "`dacapo steer {id} \"commit your work\"`, then `dacapo resume {id}{more}`; or begin anew with `--commit`: then \
             dacapo commits."
        )),
        RefusedBy::ChangedTests => Some(format!(
            "{change}; `dacapo steer {id} \"…\"` says what is to stay, then `dacapo resume \
             {id}{more}`."
        )),
        RefusedBy::ApprovableChange => Some(format!(
            "{change}; `dacapo steer {id} \"…\"` says what is to stay, then `dacapo resume \
             {id}{more}`. If the change is what you want, `dacapo approve {id}` takes it as it is."
        )),
        RefusedBy::RestlessFiles => Some(format!(
            "If the gate rewrites files, begin anew with one that only checks them; if something else does, end that, then `dacapo \
             resume {id}{more}`."
        )),
    }
}

/// The reason and the next step for `view`.
pub fn why(view: &LoopView) -> Why {
    let id = &view.id;
    let detail = view.detail.as_deref().unwrap_or_default().trim_end_matches('.');
    let refused = view
        .refused
        .as_ref()
        .map(|(iteration, line)| {
            format!(" The last claim was refused in iteration {iteration}: {}.", line.trim_end_matches('.'))
        })
        .unwrap_or_default();
    let (because, next) = match view.reason {
        Some(Reason::Done) => match view.verified {
            Some(true) => (
                format!(
                    "Completed: the claim of iteration {} passed {}.",
                    view.iteration,
                    count(u32::try_from(view.gates).unwrap_or(u32::MAX), "gate")
                ),
                match view.is_plain {
                    // The files of a plain folder are known by their hashes only.
                    true => format!("`dacapo receipt {id}` shows the proof."),
                    false => format!("`dacapo receipt {id}` shows the proof, `dacapo diff {id}` what was changed."),
                },
            ),
            _ if until_passed(view) => (
                "Completed: the until command passed, and no gate stood behind it.".to_owned(),
                "Look at what was changed; a `--gate CMD` also looks whether tests were weakened.".to_owned(),
            ),
            _ => (
                "Completed, unverified: no gate stood behind the claim.".to_owned(),
                "Check the work yourself; next time give `--gate CMD`.".to_owned(),
            ),
        },
        Some(Reason::Gate) => {
            let mend = if detail.contains(" it exits 126 ") {
                "Make the gate's program executable (`chmod +x`)"
            } else {
                "Install what the gate needs"
            };
            (
                format!("Failed: {detail}."),
                format!(
                    "{mend}, then `dacapo resume {id}`; if its command is wrong, correct it and begin anew with `dacapo run`."
                ),
            )
        }
        // It has no agent that more iterations could help.
        Some(Reason::MaxIterations) if view.max_iterations == 0 => (
            format!("Failed: {detail}."),
            format!("`dacapo events {id}` shows what each check came to."),
        ),
        Some(Reason::MaxIterations | Reason::Stuck) if is_empty(view) => (
            format!("Failed: {detail}.{refused}"),
            format!(
                "If the work was done before the loop began, run it with `--allow-empty`: then the gates alone decide. Else \
                 `dacapo logs {id}` shows what the agent said."
            ),
        ),
        // In a run, its files say how an agent claims.
        Some(Reason::MaxIterations) if never_claimed(view) && view.tally.run.is_none() => (
            format!("Failed: {detail}. The agent never claimed to be done."),
            format!(
                "`dacapo resume {id} -n +10` grants ten more; `dacapo logs {id}` shows what the agent said. An agent that is done has \
                 to print `<promise>{}</promise>`.",
                view.completion_promise
            ),
        ),
        Some(Reason::MaxIterations) => (
            format!("Failed: {detail}.{refused}"),
            mend_first(view).unwrap_or_else(|| {
                format!(
                    "`dacapo resume {id} -n +10` grants ten more; `dacapo logs {id}` shows what the agent said."
                )
            }),
        ),
        Some(Reason::MaxTime) => (
            format!("Failed: {detail}.{refused}"),
            mend_first(view)
                .unwrap_or_else(|| format!("`dacapo resume {id} --max-time 8h` sets a new limit.")),
        ),
        Some(Reason::Budget) => (format!("Failed: {detail}.{refused}"), budget_step(view, detail)),
        Some(Reason::Auth) => (format!("Stopped: {detail}."), format!("Sign in, then `dacapo resume {id}`.")),
        Some(Reason::Billing) => {
            (format!("Stopped: {detail}."), format!("Mend the account, then `dacapo resume {id}`."))
        }
        Some(Reason::Stuck) => (
            format!("Failed: {detail}.{refused}"),
            mend_first(view).unwrap_or_else(|| {
                format!(
                    "`dacapo logs {id}` shows what it kept trying; `dacapo steer {id} \"…\"` then `dacapo resume {id}` helps it out."
                )
            }),
        ),
        Some(Reason::Error) => {
            (format!("Failed: {detail}."), format!("Mend that, then `dacapo resume {id}`."))
        }
        Some(Reason::Agent) => (
            format!("Failed: {detail}."),
            format!("Mend that, then `dacapo resume {id}`; `dacapo doctor` lists the agents that are there."),
        ),
        Some(Reason::Disk) => {
            (format!("Failed: {detail}."), format!("Make room (`df -h` shows which disk is full), then `dacapo resume {id}`."))
        }
        Some(Reason::Lock) => {
            (format!("Failed: {detail}."), "`dacapo status` shows who holds it.".to_owned())
        }
        Some(Reason::Waiting) => (
            format!("Stopped: {detail}."),
            format!(
                "`dacapo steer {id} \"…\"` answers and goes on; `dacapo resume {id}` goes on without a word."
            ),
        ),
        Some(Reason::Question) => (
            format!("Stopped: the agent asks: {detail}"),
            format!("`dacapo steer {id} \"…\"` answers and goes on."),
        ),
        Some(Reason::Blocked) => (
            format!("Stopped: {detail}.{}", if refused_as_blocked(view) { refused.as_str() } else { "" }),
            format!(
                "`dacapo steer {id} \"…\"` says how to go on, and goes on; `dacapo resume {id}` goes on without a word."
            ),
        ),
        Some(Reason::Refused) => (
            format!("Stopped: {detail}."),
            format!(
                "`dacapo logs {id}` shows what it found; once that is mended, `dacapo resume {id}` has it look again."
            ),
        ),
        Some(Reason::Interrupted | Reason::Terminated) => {
            (format!("Stopped: {detail}."), format!("`dacapo resume {id}` goes on at the next iteration."))
        }
        Some(Reason::Cancelled) if view.session.is_some() => {
            (format!("{detail}."), "`/ralph` in the session starts another one.".to_owned())
        }
        Some(Reason::Cancelled) => (format!("{detail}."), "A new `dacapo run` starts over.".to_owned()),
        None => live(view, detail, &refused),
    };
    Why { because, next }
}

/// Whether the claim that was accepted is dacapo's own: the command of `--until-cmd` exited 0.
pub fn until_passed(view: &LoopView) -> bool {
    view.reason == Some(Reason::Done)
        && view.detail.as_ref().is_some_and(|detail| detail.contains("(until command"))
}

/// Whether all iterations are over and no claim of theirs was refused.
fn never_claimed(view: &LoopView) -> bool {
    view.refused.is_none() && view.refused_by.is_none()
}

/// Whether the newest claim was refused because nothing had changed.
fn is_empty(view: &LoopView) -> bool {
    view.refused.as_ref().is_some_and(|(_, line)| line.starts_with("nothing was changed"))
}

/// Whether the agent that is blocked had claimed to be done as well.
fn refused_as_blocked(view: &LoopView) -> bool {
    view.refused.as_ref().is_some_and(|(iteration, _)| *iteration == view.iteration)
}

/// A loop's own budget can be raised; what it shares with others is as it was when it began.
fn budget_step(view: &LoopView, detail: &str) -> String {
    let id = &view.id;
    if detail.ends_with(" today") {
        format!("`dacapo resume {id}` goes on tomorrow; a new `dacapo run` follows a new `limits.per_day`.")
    } else if detail.ends_with(" in this run") {
        "`dacapo unit run` with a higher `--max-cost` or `--max-tokens` goes on.".to_owned()
    } else if detail.ends_with(" in this project") {
        "A new `dacapo run` follows a new `limits.per_project` in your configuration.".to_owned()
    } else {
        format!("`dacapo resume {id} --max-cost USD` (or `--max-tokens N`) sets a new limit.")
    }
}

fn live(view: &LoopView, detail: &str, refused: &str) -> (String, String) {
    let id = &view.id;
    match view.state.as_str() {
        "parked" if view.session.is_some() => {
            let until = view.until.map(|at| at.strftime(" until %Y-%m-%d %H:%M:%SZ").to_string());
            let until = until.unwrap_or_default();
            (
                format!("Parked{until}: {detail}."),
                "Send the session any prompt after that: the loop goes on when its agent stops.".to_owned(),
            )
        }
        "running" if view.session.is_some() => (
            format!(
                "Iteration {} of {} runs in the chat session.{refused}",
                view.iteration, view.max_iterations
            ),
            format!("It goes on when its agent stops; `dacapo cancel {id}` ends it."),
        ),
        "paused" => ("Paused by a person.".to_owned(), format!("`dacapo resume {id}` goes on.")),
        "parked" => {
            let until = view.until.map(|at| at.strftime(" until %Y-%m-%d %H:%M:%SZ").to_string());
            let until = until.unwrap_or_default();
            (
                format!("Parked{until}: {detail}."),
                match view.until {
                    Some(_) => format!(
                        "It goes on by itself. `dacapo resume {id} --now` asks at once; another agent (`dacapo run --agent codex \
                         …`) need not wait."
                    ),
                    // It waits for other tasks.
                    None => "It goes on by itself.".to_owned(),
                },
            )
        }
        "gating" => (
            format!("A claim of iteration {} is being checked.", view.iteration),
            format!("`dacapo logs {id} -f` follows it."),
        ),
        _ => {
            let asks = view.question.as_ref().map(|q| format!(" The agent asks: {q}")).unwrap_or_default();
            (
                format!(
                    "Running: iteration {}/{}, no accepted claim yet.{refused}{asks}",
                    view.iteration, view.max_iterations
                ),
                format!("`dacapo logs {id} -f` follows it; `dacapo cancel {id}` ends it."),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_calls_for_what_refused_it() {
        let gate = |exit_code: i32, failure: Option<&str>, not_started: bool| {
            let result = serde_json::json!({
                "exit_code": exit_code, "passed": false, "flaky": false, "duration_ms": 1, "output_bytes": 0,
                "failure": failure, "not_started": not_started,
                "output": {"stdout": 0, "stderr": 0, "prompt": 0, "gates": 0},
            });
            RefusedBy::of_gate(&serde_json::from_value(result).unwrap())
        };
        assert_eq!(gate(1, None, false), RefusedBy::RedGate);
        for (output, expected) in [
            ("/usr/bin/python3: No module named pytest", true),
            ("/w/.venv/bin/python: No module named pytest\n", true),
            ("python3.12: No module named pytest.__main__; 'pytest' is a package", true),
            ("error: no such command: `nextest`\n\n\tView all installed commands with `cargo --list`", true),
            ("ModuleNotFoundError: No module named 'calc'\n1 error in 0.05s", false),
            ("E   ImportError: No module named calc", false),
            ("FAILED tests/test_a.py::test_a - assert 1 == 2", false),
            ("", false),
        ] {
            assert_eq!(lacks_its_runner(output), expected, "{output}");
        }
        assert_eq!(gate(127, None, false), RefusedBy::BrokenGate);
        assert_eq!(gate(126, None, false), RefusedBy::BrokenGate);
        assert_eq!(gate(-1, Some("could not be started"), true), RefusedBy::BrokenGate);
        assert_eq!(gate(-1, Some("timed out after 5m"), false), RefusedBy::SlowGate);
        let slow = Some(RefusedBy::SlowGate);
        for (reason, detail, expected) in [
            (RefusalReason::GateFailed, "gate `g` timed out", slow),
            (RefusalReason::NoEvidence, "No commit detected in coder output", Some(RefusedBy::NoCommit)),
            (RefusalReason::NoEvidence, "no tests were run", None),
            (RefusalReason::Tampered, "tests/a.py was changed", Some(RefusedBy::ChangedTests)),
            (RefusalReason::Narrowed, "fewer tests", Some(RefusedBy::ApprovableChange)),
            (RefusalReason::Empty, "nothing was changed", None),
        ] {
            assert_eq!(RefusedBy::of_claim(reason, detail, slow), expected, "{reason:?} {detail}");
        }
    }
}
