//! Settings of a loop that stages use and that no flag of the command line has.

use dacapo_core::{
    event::{LoopEvent, Reason},
    judge::signal::Signal,
    policy::{GateSpec, PromptForm},
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

pub(crate) fn an_agent_and_its_checks_are_told_the_stage() {
    let world = World::new();
    let policy = world.policy("echo $DACAPO_STAGE > stage\necho '<promise>DONE</promise>'\n").with(|p| {
        p.agent.stage = Some("reviewer".to_owned());
        p.gates.specs = vec![GateSpec::of_command("test $DACAPO_STAGE = reviewer")];
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
