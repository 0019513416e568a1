//! The five presets side by side (req 200): each is a policy of the one engine, and differs from the others in settings alone.

use crate::{
    agent::AgentCommand,
    duration::Millis,
    judge::promise::{LetterCase, Placement, PlainWord, PromiseRule},
    policy::{GateRules, OnError, OnFatal, OwnClaim, Policy, PromptForm},
    session::Host,
    stages::{Stage, StageName},
    unit::{TaskSet, check, settings::RunSettings},
    workflow::machine::setup_of_first_loop,
};

/// What a preset means by each row of differences between the loops that it comes from.
#[derive(Debug, PartialEq)]
struct Row {
    /// What is done: words of the agent, its DONE file, its mark in a file, or its end.
    words: bool,
    done_file: bool,
    marks: bool,
    promise: (String, LetterCase, Placement, PlainWord, bool),
    ignore_code: bool,
    on_error: OnError,
    fatal: OnFatal,
    max_iterations: u32,
    continue_session: bool,
    prompt: &'static str,
    iteration_timeout: Option<Millis>,
    unchanged_idles: Option<u32>,
}

fn base() -> Policy {
    Policy::restart(AgentCommand::parse("agent", &[]).unwrap(), PromiseRule::new("DONE").unwrap())
}

fn restart() -> Policy {
    base()
}

fn units() -> Policy {
    let text = b"---\ntask: 1\nstatus: pending\nbackpressure: make test\n---\n# One\n";
    let task = check::task("01-one.md", text).unwrap();
    let set = TaskSet { unit: "auth".parse().unwrap(), tasks: vec![task], ready: vec![1] };
    RunSettings::new(base()).turn(set, false)
}

fn workflow() -> Policy {
    setup_of_first_loop("prompt: do it\nloop: {until: COMPLETE, max_iterations: 20}\n").policy
}

fn pipeline() -> Policy {
    Stage::of(StageName::Coder).policy(base(), 15).unwrap()
}

fn session() -> Policy {
    Policy::session(Host::Claude, PromiseRule::new("DONE").unwrap(), 100, GateRules::default())
}

fn row(policy: &Policy) -> Row {
    let promise = &policy.claims.promise;
    Row {
        words: policy.hears_promises(),
        done_file: policy.claims.done_file,
        marks: policy.marks_items(),
        promise: (promise.text.clone(), promise.case, promise.placement, promise.plain, promise.trim),
        ignore_code: promise.ignore_code,
        on_error: policy.agent.on_error,
        fatal: policy.agent.fatal,
        max_iterations: policy.limits.max_iterations,
        continue_session: policy.agent.continue_session,
        prompt: match policy.agent.prompt_form {
            PromptForm::Explained => "explained",
            PromptForm::AsWritten { .. } => "as written",
            PromptForm::Session => "session",
        },
        iteration_timeout: policy.limits.iteration_timeout,
        unchanged_idles: policy.limits.unchanged_idles,
    }
}

#[test]
fn the_five_behaviours_are_presets_and_what_they_differ_in_are_settings() {
    // req 200
    let own_line =
        || ("DONE".to_owned(), LetterCase::Insensitive, Placement::OwnLineOrEnd, PlainWord::Off, true);
    let as_restart = || Row {
        words: true,
        done_file: true,
        marks: false,
        promise: own_line(),
        ignore_code: true,
        on_error: OnError::Restart,
        fatal: OnFatal::Stop,
        max_iterations: 100,
        continue_session: false,
        prompt: "explained",
        iteration_timeout: None,
        unchanged_idles: None,
    };
    let anywhere =
        |text: &str, plain| (text.to_owned(), LetterCase::Insensitive, Placement::Anywhere, plain, true);
    for (name, policy, expected) in [
        ("restart", restart(), as_restart()),
        (
            "units",
            units(),
            Row { words: false, done_file: false, marks: true, max_iterations: 3, ..as_restart() },
        ),
        (
            "workflow",
            workflow(),
            Row {
                done_file: false,
                promise: anywhere("COMPLETE", PlainWord::OwnLineOrEnd),
                on_error: OnError::Stop,
                max_iterations: 20,
                continue_session: true,
                ..as_restart()
            },
        ),
        (
            "pipeline",
            pipeline(),
            Row {
                done_file: false,
                promise: (
                    "IMPLEMENTATION_COMPLETE".to_owned(),
                    LetterCase::Sensitive,
                    Placement::OwnLine,
                    PlainWord::Off,
                    false,
                ),
                max_iterations: 15,
                prompt: "as written",
                iteration_timeout: Some(Millis::from_mins(10)),
                ..as_restart()
            },
        ),
        (
            "session",
            session(),
            Row {
                promise: anywhere("DONE", PlainWord::Off),
                ignore_code: false,
                continue_session: true,
                prompt: "session",
                unchanged_idles: Some(3),
                ..as_restart()
            },
        ),
    ] {
        assert_eq!(row(&policy), expected, "{name}");
        // The same in all of them: nothing is believed for an exit code, and what a process may take to end.
        assert_eq!(policy.claims.own_claim, OwnClaim::Never, "{name}");
        assert_eq!(
            (policy.pace.kill_grace, policy.pace.wait_timeout),
            (Millis(5000), Millis(300_000)),
            "{name}"
        );
        assert_eq!((policy.limits.max_cost, policy.gates.feedback), (None, true), "{name}");
        assert_eq!(policy.problems(), [], "{name}");
        // All of it is recorded with the loop, so that `explain` and `why` have nothing else to look at.
        let recorded = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&recorded).unwrap(), policy, "{name}");
    }
}
