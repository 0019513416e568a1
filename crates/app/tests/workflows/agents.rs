//! What agents say in a run, and what is made of it: messages, events, sessions, money.

use serde_json::Value;

use crate::support::{
    LOOP, SOON, events, message, mine, result, run_id, script, status, tool, types, with, with_events_agent,
};

/// Two iterations: words, a tool and words; then the promise.
fn two_iterations() -> Vec<String> {
    vec![
        script(&[message("I look around."), tool("make test"), message("It fails."), result("s1", 0.01)]),
        script(&[message("Fixed.\n<promise>COMPLETE</promise>"), result("s2", 0.02)]),
    ]
}

/// What agents said and did, without when.
fn said(lines: &[Value]) -> Vec<Value> {
    let said = lines.iter().filter(|line| line["type"] == "assistant" || line["type"] == "tool");
    let mut said: Vec<Value> = said.cloned().collect();
    for line in &mut said {
        let at = line.as_object_mut().unwrap().remove("at").unwrap();
        assert!(at.as_str().unwrap().ends_with('Z'), "{at}");
    }
    said
}

#[test]
fn what_agents_say_and_do_is_among_the_events_of_their_run() {
    // req 148, req 152, req 163
    let env = with(LOOP);
    let turns = two_iterations();
    with_events_agent(&env, &[&turns[0], &turns[1]]);
    let output = env.run(mine(&["things", "--json"])).assert_code(0);
    let id = run_id(&output);
    let live: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let recorded = events(&env, &id);
    let line = |iteration: u32, rest: &str| -> Value {
        serde_json::from_str(&format!(
            "{{\"run\":\"{id}\",\"step\":\"loop\",\"iteration\":{iteration},{rest}}}"
        ))
        .unwrap()
    };
    let expected = [
        line(1, r#""type":"assistant","text":"I look around.""#),
        line(1, r#""type":"tool","name":"Bash","input":"make test""#),
        line(1, r#""type":"assistant","text":"It fails.""#),
        line(2, r#""type":"assistant","text":"Fixed.\n<promise>COMPLETE</promise>""#),
    ];
    assert_eq!(said(&recorded), expected);
    assert_eq!(said(&live), expected);
    assert!(live.iter().all(|line| line["run"] == id.as_str() && line["at"].is_string()));
    let without_usage = |lines| -> Vec<String> {
        // What was used is told every half second, between any two others.
        types(lines).into_iter().filter(|kind| *kind != "usage_seen").map(str::to_owned).collect()
    };
    assert_eq!(without_usage(&live), without_usage(&recorded), "what is shown live is what is shown later");
    let place = |kind: &str| types(&recorded).iter().position(|known| *known == kind).unwrap();
    assert!(place("agent_started") < place("assistant") && place("assistant") < place("agent_exited"));
    let metadata = &status(&env, &id)["metadata"];
    assert_eq!((&metadata["iteration_count"], &metadata["last_output"]), (&2.into(), &"Fixed.".into()));
}

#[test]
fn a_stream_shows_each_message_and_tool_at_once() {
    // req 153
    let env = with(LOOP);
    let first = script(&[
        message("I look around."),
        tool("make test"),
        "wait-file go".to_owned(),
        message("Fixed. <promise>COMPLETE</promise>"),
        result("s1", 0.0),
    ]);
    with_events_agent(&env, &[&first]);
    let running = env.spawn(mine(&[]));
    running.wait_for_line(|line| line == "[Bash] make test", SOON);
    env.write("go", "");
    let output = running.wait(SOON).assert_code(0);
    let (_, shown) = output.stdout.split_once("**Iteration 1/5**\n\n").unwrap();
    assert_eq!(shown, "I look around.\n[Bash] make test\nFixed.\n\n**Loop complete**: w (1 iterations)\n\n");
}

#[test]
fn json_tells_what_an_agent_says_while_it_says_it() {
    // req 152
    let env = with(LOOP);
    let first = script(&[
        message("I look around."),
        "wait-file go".to_owned(),
        message("<promise>COMPLETE</promise>"),
        result("s1", 0.0),
    ]);
    with_events_agent(&env, &[&first]);
    let running = env.spawn(mine(&["--json"]));
    running.wait_for_line(|line| line.contains("\"type\":\"assistant\"") && line.contains("look"), SOON);
    env.write("go", "");
    running.wait(SOON).assert_code(0);
}

#[test]
fn a_batch_shows_the_messages_of_an_iteration_together_and_no_tools() {
    // req 153
    let env = with(LOOP);
    let turns = two_iterations();
    let silent = script(&[tool("make test"), result("s1", 0.0)]);
    with_events_agent(&env, &[&turns[0], &silent, &turns[1]]);
    let output = env.run(mine(&["--mode", "batch"])).assert_code(0);
    let (_, shown) = output.stdout.split_once("**Iteration 1/5**\n\n").unwrap();
    assert_eq!(
        shown,
        "I look around.\n\nIt fails.\n\n**Iteration 2/5**\n\n**Iteration 3/5**\n\nFixed.\n\n\
         **Loop complete**: w (3 iterations)\n\n"
    );
}

#[test]
fn a_batch_shows_the_end_of_what_a_red_check_printed() {
    let env = with("loop: {until: COMPLETE, max_iterations: 1}\nprompt: do $USER_MESSAGE\n");
    let claim = script(&[message("<promise>COMPLETE</promise>"), result("s1", 0.0)]);
    with_events_agent(&env, &[&claim]);
    let gate = "sh -c 'seq 1 9; echo nothing is there; false'";
    let output = env.run(mine(&["--mode", "batch", "--gate", gate]));
    let (_, shown) = output.stdout.split_once("exited 1, ").expect(&output.stdout);
    let (_, shown) = shown.split_once('\n').unwrap();
    assert!(shown.starts_with("  6\n  7\n  8\n  9\n  nothing is there\n"), "{}", output.stdout);
    let why = env.run(["why", &run_id(&output)]).assert_code(0).stdout;
    assert!(why.ends_with("\n  9\n  nothing is there\n"), "{why}");
}

/// The session that each run of the agent was told to go on with, oldest first.
fn sessions(env: &dacapo_testkit::TestEnv) -> Vec<Option<String>> {
    env.read(".git/arguments")
        .split("===\n")
        .filter(|arguments| !arguments.is_empty())
        .map(|arguments| {
            let mut words = arguments.lines().skip_while(|word| *word != "--resume");
            words.nth(1).map(str::to_owned)
        })
        .collect()
}

/// Notes its arguments, then says this.
fn noting(rest: &[String]) -> String {
    let note = "args-to .git/these; sh 'cat .git/these >> .git/arguments; echo === >> .git/arguments'";
    format!("{note}\n{}", script(rest))
}

#[test]
fn iterations_go_on_with_the_session_of_the_result_unless_the_context_is_fresh() {
    // req 150, req 151
    for (fresh, expected) in [(false, [None, Some("s1"), Some("s2")]), (true, [None, None, None])] {
        let env = with(&format!(
            "loop: {{until: COMPLETE, max_iterations: 5, fresh_context: {fresh}}}\nprompt: p\n"
        ));
        let work = |session: &str| noting(&[message("So far."), result(session, 0.0)]);
        let done = noting(&[message("<promise>COMPLETE</promise>"), result("s3", 0.0)]);
        with_events_agent(&env, &[&work("s1"), &work("s2"), &done]);
        env.run(mine(&[])).assert_code(0);
        let expected: Vec<Option<String>> = expected.map(|known| known.map(str::to_owned)).into();
        assert_eq!(sessions(&env), expected, "fresh_context: {fresh}");
    }
}

#[test]
fn a_step_goes_on_with_the_session_of_the_step_before_it() {
    // req 144, req 150
    let env = with(
        "steps:\n  - {id: plan, prompt: plan}\n  - {id: check, bash: 'true'}\n  - {id: build, prompt: build}\n\
         \u{20} - {id: review, prompt: review, clearContext: true}\n",
    );
    let work = |session: &str| noting(&[message("Done."), result(session, 0.0)]);
    with_events_agent(&env, &[&work("s1"), &work("s2"), &work("s3")]);
    env.run(mine(&[])).assert_code(0);
    assert_eq!(sessions(&env), [None, Some("s1".to_owned()), None]);
}
