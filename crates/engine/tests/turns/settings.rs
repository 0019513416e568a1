//! Settings of a loop that stages use and that no flag of the command line has.

use std::os::unix::fs::symlink;

use dacapo_core::{
    agent::Format,
    duration::Millis,
    event::{LoopEvent, Reason},
    judge::{expectation::Expectation, signal::Signal},
    policy::{GateSpec, Policy, PromptForm},
    stages::{Stage, StageName, prompt::for_task, task},
};

use super::world::World;

pub(crate) fn a_prompt_that_speaks_for_itself_has_the_number_of_its_iteration() {
    // req 176
    let world = World::new();
    let agent =
        "cat > prompt-$DACAPO_ITERATION\n[ $DACAPO_ITERATION -lt 2 ] || echo '<promise>DONE</promise>'\n";
    let policy = world.policy(agent).with(|p| {
        p.agent.prompt_form = PromptForm::AsWritten { count_mark: "(n/m)".to_owned() };
    });
    let ended = world.run_with_prompt(&policy, "Iteration: (n/m)\n\nDo it, then promise.\n");
    assert_eq!(ended.reason, Reason::Done, "{ended:?}");
    let [first, second] = [1, 2].map(|n| world.env.read(format!("prompt-{n}")));
    assert!(first.starts_with("Iteration: 1/3\n\nDo it, then promise.\n\n---\n"), "{first}");
    assert_eq!(first.replace("1/3", "2/3"), second);
}

pub(crate) fn an_agent_is_told_the_stage_and_its_checks_are_not() {
    let world = World::new();
    let policy = world.policy("echo $DACAPO_STAGE > stage\necho '<promise>DONE</promise>'\n").with(|p| {
        p.agent.stage = Some("reviewer".to_owned());
        p.gates.specs = vec![GateSpec::of_command("test -z \"$DACAPO_STAGE\"")];
    });
    let ended = world.run(&policy);
    assert_eq!((ended.reason, world.env.read("stage").as_str()), (Reason::Done, "reviewer\n"), "{ended:?}");
}

pub(crate) fn an_agent_that_refuses_the_work_it_judges_ends_its_loop() {
    // req 184
    let world = World::new();
    let judging =
        |agent: &str| world.policy(agent).with(|p| p.claims.refusals = vec!["REVIEW FAILED".to_owned()]);
    let refuses = "cat\necho 'REVIEW FAILED: no tests'\necho '<promise>DONE</promise>'\n";
    let ended = world.run_with_prompt(&judging(refuses), "Judge it.\nREVIEW FAILED: is how you refuse\n");
    assert_eq!(
        (ended.reason, ended.detail.as_str()),
        (Reason::Refused, "the agent refuses the work: REVIEW FAILED: no tests"),
    );
    let events = world.events(&ended.id);
    let seen = |signal: &Signal| {
        events.iter().any(|event| matches!(event, LoopEvent::SignalSeen { signal: of, .. } if of == signal))
    };
    assert!(seen(&Signal::Refusal("REVIEW FAILED: no tests".to_owned())), "{events:?}");
    assert!(!events.iter().any(|event| matches!(event, LoopEvent::ClaimMade { .. })), "{events:?}");
    // The words in code, in a quotation or in the prompt that it prints are not its own.
    let echoes =
        "cat\nprintf '```\\nREVIEW FAILED\\n```\\n> REVIEW FAILED\\n'\necho '<promise>DONE</promise>'\n";
    let ended = world.run_with_prompt(&judging(echoes), "Judge it.\nREVIEW FAILED: is how you refuse\n");
    assert_eq!(ended.reason, Reason::Done, "{ended:?}");
}

/// An agent that changes something and promises.
const WORKS: &str = "date >> work\necho '<promise>DONE</promise>'\n";

fn expecting(run: &str, exit_code: i32, contains: &str, not_contains: &str) -> GateSpec {
    let words = |words: &str| Some(words.to_owned()).filter(|words| !words.is_empty());
    let (output_contains, output_not_contains) = (words(contains), words(not_contains));
    let expect = Expectation { exit_code, output_contains, output_not_contains };
    GateSpec { name: "check".to_owned(), expect, ..GateSpec::of_command(run) }
}

/// Why the claim of a loop with this gate alone was refused, or how the loop ended otherwise.
fn refusal(world: &World, gate: GateSpec) -> String {
    let policy = world.policy(WORKS).with(|p| {
        p.limits.max_iterations = 1;
        p.gates.specs = vec![gate];
    });
    let ended = world.run(&policy);
    let refused = world.events(&ended.id).into_iter().find_map(|event| match event {
        LoopEvent::ClaimRefused { detail, .. } => Some(detail),
        _ => None,
    });
    refused.unwrap_or_else(|| ended.reason.as_str().to_owned())
}

pub(crate) fn a_gate_passes_if_it_comes_to_what_is_expected() {
    // req 198
    let world = World::new();
    // The words stand far before the end of a long output, and between two writes of it.
    let long = "printf 'all te'; printf 'sts \\033[32mpassed\\033[0m'; yes | head -c 3000000; exit 3";
    for (gate, expected) in [
        (expecting(long, 3, "all tests passed", ""), "done"),
        (expecting("exit 3", 0, "", ""), "gate `check` exited 3"),
        (expecting("true", 3, "", ""), "gate `check` exited 0, not 3"),
        (expecting("echo fine >&2", 0, "fine", ""), "done"),
        (expecting("echo fine", 0, "ok", ""), "gate `check` did not print `ok`"),
        (expecting(long, 3, "", "tests passed"), "gate `check` printed `tests passed`, which it must not"),
        (expecting("echo fine", 0, "fine", "skipped"), "done"),
    ] {
        assert_eq!(refusal(&world, gate.clone()), expected, "{gate:?}");
    }
    // A command that hangs is ended, and refuses the claim.
    let hangs = GateSpec { timeout: Millis(300), ..expecting("sleep 1000", 0, "ok", "") };
    let refused = refusal(&world, hangs);
    assert!(refused.starts_with("gate `check` timed out after"), "{refused}");
}

pub(crate) fn a_gate_runs_in_its_folder_and_never_outside_of_the_workspace() {
    // req 198
    let world = World::new();
    world.env.write("web/deep/here", "x");
    world.env.write("a file", "x");
    symlink("/tmp", world.env.workspace().join("out")).unwrap();
    symlink("deep", world.env.workspace().join("web/link")).unwrap();
    let within =
        |dir: &str, run: &str| GateSpec { working_dir: Some(dir.to_owned()), ..expecting(run, 0, "", "") };
    for (dir, expected) in [
        ("web/deep", "done"),
        ("web/link", "done"),
        ("nowhere", "gate `check` could not be started: its folder `nowhere` is not there"),
        ("out", "gate `check` could not be started: its folder `out` leads out of the workspace"),
        ("a file", "gate `check` could not be started: `a file` is not a folder"),
    ] {
        assert_eq!(refusal(&world, within(dir, "test -e here")), expected, "{dir}");
    }
    // A script that a gate names is meant from the gate's folder, and the agent may not change it.
    world.env.write("web/check.sh", "exit 0\n");
    let policy = world.policy(&format!("echo 'exit 0 #' > web/check.sh\n{WORKS}")).with(|p| {
        p.limits.max_iterations = 1;
        p.gates.specs = vec![within("web", "sh check.sh")];
    });
    let ended = world.run(&policy);
    let tampered = |event: &LoopEvent| matches!(event, LoopEvent::ClaimRefused { detail, .. } if detail.contains("web/check.sh"));
    assert!(world.events(&ended.id).iter().any(tampered), "{ended:?}");
}

pub(crate) fn a_receipt_says_what_its_gates_had_to_come_to_and_is_checked_by_that() {
    // req 198
    let world = World::new();
    world.env.write("web/words", "all ok");
    world.env.git(["add", "."]);
    world.env.git(["commit", "-qm", "words"]);
    let gate = GateSpec {
        working_dir: Some("web".to_owned()),
        ..expecting("cat words $EXTRA; exit 3", 3, "ok", "bad")
    };
    let policy = world.policy(WORKS).with(|p| p.gates.specs = vec![gate.clone()]);
    let ended = world.run(&policy);
    assert_eq!(ended.reason, Reason::Done, "{ended:?}");
    let receipt = world.receipt(&ended.id).unwrap();
    let proof = &receipt.gates[0];
    assert_eq!((&proof.expect, &proof.working_dir, proof.exit_code), (&gate.expect, &gate.working_dir, 3));
    assert!(receipt.is_sound());
    let again = world.check_again(&ended.id, "/dev/null");
    assert_eq!(again, "exit 3\n");
    let worse = world.env.root().join("worse");
    std::fs::write(&worse, "bad\n").unwrap();
    assert_eq!(
        world.check_again(&ended.id, &worse.display().to_string()),
        "exit 3, printed `bad`, which it must not\n"
    );
}

/// A loop whose claim must pass the question whether the criteria of a task are met. The agent works as `works` says, and answers
/// the question as `answers` does, both shell.
fn asking(world: &World, works: &str, answers: &str) -> Policy {
    let file = "---\nid: T-1\ntitle: Log in\ncompletion: {criteria: [no leak], stages: {coder: {verify: {method: semantic}}}}\n---\nx\n";
    let task = task::parse("T-1.md", file.as_bytes()).unwrap().spec;
    let gates = for_task(&Stage::of(StageName::Coder), &task).gates;
    assert!(gates[0].ask.is_some());
    let given = world.env.root().join("given").display().to_string();
    let agent = format!(
        "given=$(cat)\ncase $given in *'You judge whether'*)\n{answers}\n;;\n*)\necho \"$given\" > {given}\n{works}\n;;\nesac\n"
    );
    world.policy(&agent).with(|p| {
        p.limits.max_iterations = 1;
        p.gates.specs = gates;
    })
}

pub(crate) fn an_agent_that_is_asked_about_the_criteria_can_refuse_and_not_decide_alone() {
    // req 198
    let yes = "echo 'I looked.'\necho '<promise>CRITERIA_MET</promise>'";
    for (answers, bend, expected) in [
        (yes, (|_| {}) as fn(&mut Policy), "done"),
        ("echo 'CRITERIA NOT MET: it leaks'", |_| {}, "gate `criteria` says no: CRITERIA NOT MET: it leaks"),
        ("echo 'CRITERIA NOT MET: it leaks'\necho '<promise>CRITERIA_MET</promise>'", |_| {}, {
            "gate `criteria` says no: CRITERIA NOT MET: it leaks"
        }),
        // An agent that prints its question back, or says nothing, has not said yes.
        ("echo \"$given\"", |_| {}, "gate `criteria` gave no answer that says yes"),
        ("true", |_| {}, "gate `criteria` gave no answer that says yes"),
        // Its yes decides nothing alone, and it changes nothing.
        (yes, |p| p.gates.specs.push(GateSpec::of_command("false")), "gate `false` exited 1"),
        (
            "echo x > work\necho '<promise>CRITERIA_MET</promise>'",
            |_| {},
            "`work` was changed while the claim was being checked; a gate that rewrites files on purpose, as a formatter does, has to check them instead",
        ),
        ("sleep 1000", |p| p.gates.specs[0].timeout = Millis(500), "gate `criteria` timed out after 500ms"),
    ] {
        let world = World::new();
        let mut policy = asking(&world, WORKS, answers);
        bend(&mut policy);
        let ended = world.run(&policy);
        let refused = world.events(&ended.id).into_iter().find_map(|event| match event {
            LoopEvent::ClaimRefused { detail, .. } => Some(detail),
            _ => None,
        });
        assert_eq!(refused.as_deref().unwrap_or(ended.reason.as_str()), expected, "{answers}");
    }
}

pub(crate) fn what_an_agent_costs_that_is_asked_is_counted_and_its_answer_is_not_the_workers() {
    // req 198
    let world = World::new();
    let says = |text: &str| {
        format!(
            "printf '%s\\n' '{{\"type\":\"assistant\",\"message\":{{\"id\":\"m\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}' \
             '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"ok\",\"session_id\":\"s\",\"total_cost_usd\":0.25,\"usage\":{{\"input_tokens\":10,\"output_tokens\":5}}}}'\necho noise >&2"
        )
    };
    let works = format!("date >> work\n{}", says("<promise>DONE</promise>"));
    let policy = asking(&world, &works, &says("<promise>CRITERIA_MET</promise>"));
    let policy = policy.with(|p| p.agent.command.format = Format::Claude);
    let ended = world.run(&policy);
    assert_eq!(ended.reason, Reason::Done, "{ended:?}");
    let receipt = world.receipt(&ended.id).unwrap();
    assert_eq!((receipt.cost_usd, receipt.gates[0].name.as_str()), (Some(0.5), "criteria"));
    let answers = world.events(&ended.id).into_iter().find_map(|event| match event {
        LoopEvent::GateFinished { result, .. } => Some((result.answer?.says_yes, result.spend?.cost_usd)),
        _ => None,
    });
    assert_eq!(answers, Some((true, Some(0.25))));
    // The next agent reads what the asked one said, and not how its events look.
    let refuses = asking(&world, &works, &says("It leaks.\\nCRITERIA NOT MET: no leak"));
    world.run(&refuses.with(|p| {
        p.agent.command.format = Format::Claude;
        p.limits.max_iterations = 2;
    }));
    let given = std::fs::read_to_string(world.env.root().join("given")).unwrap();
    assert!(given.contains("It leaks.\nCRITERIA NOT MET: no leak\n(end of what it printed)"), "{given}");
    assert!(!given.contains("session_id") && !given.contains("noise"), "{given}");
    // It is not asked again when the receipt is checked.
    assert_eq!(world.check_again(&ended.id, ""), "");
}
