//! The built-in workflow `ralph` over a `prd.json` of five stories, killed twice on the way.

use std::time::Duration;

use dacapo_testkit::{
    TestEnv,
    stories::{HANGS, STORIES, WORK_ON_ONE},
};
use rustix::process::Signal;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

#[test]
fn ralph_finishes_five_stories_although_it_is_killed_twice() {
    // req 162, req 203
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.write("prd.json", STORIES).write(".gitignore", "/.dacapo\n").git_init();
    env.write(".git/story.sh", WORK_ON_ONE);
    env.script("sh 'sh .git/story.sh'");
    let agent = env.agent_cmd();
    let mut running =
        env.spawn(["workflow", "run", "ralph", "--restart-delay", "0s", "--agent-cmd", agent.as_str()]);
    for mark in HANGS {
        env.wait_until(mark, LONG, || env.workspace().join(mark).exists());
        running.signal(Signal::KILL);
        let _ = running.wait(LONG);
        env.wait_until("everything is dead", LONG, || env.survivors().is_empty());
        running = env.spawn(["resume"]);
    }
    let output = running.wait(LONG).assert_code(0);

    let subjects = env.git(["log", "--reverse", "--format=%s", "--grep=^feat: "]);
    assert_eq!(
        subjects,
        "feat: US-001 - Say hello\nfeat: US-002 - Say goodbye\nfeat: US-003 - Take a name\n\
         feat: US-004 - Be polite\nfeat: US-005 - Speak French\n"
    );
    assert_eq!(env.read("prd.json"), STORIES.replace("false", "true"));
    assert_eq!(env.read("progress.txt").lines().count(), 5);
    // Two iterations were cut short, and are counted.
    assert!(output.stdout.ends_with("**Loop complete**: ralph (7 iterations)\n\n"), "{}", output.stdout);

    let (_, rest) = output.stderr.rsplit_once("[run ").expect("a last line");
    let id = rest.split(']').next().unwrap();
    let events = env.events(Some(id));
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((count("loop_started"), count("iteration_started"), count("workflow_complete")), (1, 7, 1));
    let said: Vec<(u64, &str)> = events
        .iter()
        .filter(|event| event["type"] == "assistant")
        .map(|event| (event["iteration"].as_u64().unwrap(), event["text"].as_str().unwrap()))
        .collect();
    let promised: Vec<u64> =
        said.iter().filter(|(_, text)| text.contains("<promise>")).map(|(at, _)| *at).collect();
    assert_eq!(promised, [7], "the promise comes at the end and not before: {said:?}");
    let status: Value =
        serde_json::from_str(&env.run(["status", id, "--json"]).assert_code(0).stdout).unwrap();
    let metadata = &status[0]["metadata"];
    assert_eq!((&metadata["iteration_count"], &metadata["max_iterations"]), (&7.into(), &20.into()));
    assert_eq!(metadata["last_output"], "working on US-005");
    assert!(env.survivors().is_empty());
}

#[test]
fn ralph_does_not_believe_a_promise_while_a_story_is_open() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.write("prd.json", STORIES).git_init();
    env.script("@1: promise COMPLETE\n@2+: sh 'sed -i s/false/true/ prd.json'; promise COMPLETE");
    let agent = env.agent_cmd();
    let args = ["workflow", "run", "ralph", "--restart-delay", "0s", "--agent-cmd", agent.as_str()];
    let output = env.run(args).assert_code(0);
    assert!(output.stdout.ends_with("**Loop complete**: ralph (2 iterations)\n\n"), "{}", output.stdout);
}
