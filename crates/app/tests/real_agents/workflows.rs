//! The built-in workflow `ralph` with a real agent: five stories, killed twice on the way.

use dacapo_testkit::{
    RealAgent, Running, Signal,
    model_server::{ScriptedTurn, ToolCall},
    stories::{HANGS, STORIES, WORK_ON_ONE},
    wait_until,
};
use serde_json::Value;

use crate::stage::{LONG, Stage};

fn one_story() -> ScriptedTurn {
    ScriptedTurn::call(ToolCall::shell("sh .git/story.sh"))
}

fn finishes_five_stories(agent: RealAgent) {
    let not_yet = || ScriptedTurn::say("One story is done, others are left.");
    let stage = Stage::set(agent, [one_story(), not_yet(), one_story()]);
    let env = &stage.env;
    env.write("prd.json", STORIES).write(".git/story.sh", WORK_ON_ONE);
    env.git(["add", "prd.json"]);
    env.git(["commit", "-q", "-m", "stories"]);
    let start =
        ["workflow", "run", "ralph", "-a", agent.name(), "--restart-delay", "0s", "--kill-grace", "1s"];
    let mut running = Running::start(stage.dacapo(&start));
    let later: [Vec<ScriptedTurn>; 2] = [
        vec![one_story(), not_yet(), one_story(), not_yet(), one_story()],
        vec![
            one_story(),
            not_yet(),
            one_story(),
            ScriptedTurn::say("All stories pass.\n<promise>COMPLETE</promise>"),
        ],
    ];
    for (mark, turns) in HANGS.into_iter().zip(later) {
        wait_until(mark, LONG, || env.workspace().join(mark).exists());
        running.signal(Signal::KILL);
        running.wait(LONG);
        wait_until("everything is dead", LONG, || env.survivors().is_empty());
        stage.server.set_turns(turns);
        running = Running::start(stage.dacapo(&["resume"]));
    }
    let output = running.wait(LONG).assert_code(0);

    let subjects = env.git(["log", "--reverse", "--format=%s", "--grep=^feat: "]);
    let expected: Vec<String> = ["US-001 - Say hello", "US-002 - Say goodbye", "US-003 - Take a name"]
        .into_iter()
        .chain(["US-004 - Be polite", "US-005 - Speak French"])
        .map(|story| format!("feat: {story}"))
        .collect();
    assert_eq!(subjects.lines().collect::<Vec<_>>(), expected);
    assert_eq!(env.read("prd.json"), STORIES.replace("false", "true"));
    assert!(output.stdout.ends_with("**Loop complete**: ralph (7 iterations)\n\n"), "{}", output.stdout);
    assert!(!output.stdout.contains("<promise>"), "{}", output.stdout);

    let (_, rest) = output.stderr.rsplit_once("[run ").expect("a last line");
    let events = env.events(rest.split(']').next());
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    assert_eq!((of("loop_started").count(), of("claim_made").count()), (1, 1));
    let promised: Vec<&Value> = of("assistant")
        .filter(|event| event["text"].as_str().is_some_and(|text| text.contains("<promise>")))
        .map(|event| &event["iteration"])
        .collect();
    assert_eq!(promised, [7], "the promise comes at the end and not before");
    assert!(of("tool").count() >= 5, "each story took a tool");
    stage.assert_nothing_left();
}

#[test]
fn claude_finishes_five_stories_although_dacapo_is_killed_twice() {
    // req 152, req 162, req 163, req 203
    finishes_five_stories(RealAgent::Claude);
}

#[test]
fn codex_finishes_five_stories_although_dacapo_is_killed_twice() {
    // req 152, req 162, req 163, req 203
    finishes_five_stories(RealAgent::Codex);
}
