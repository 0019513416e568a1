//! Gates that cannot start, hang, flood or leave something running: each is a refusal, and the loop goes on.

use serde_json::json;

use crate::support::*;

#[test]
fn a_gate_that_is_no_good_refuses_and_is_told_why() {
    // req 33, req 40, fault A10
    for (gate, extra, exit_code, words) in [
        ("./none.sh", &[][..], 127, "exited 127"),
        ("./work.txt", &[], 126, "exited 126"),
        ("sleep 100", &["--gate-timeout", "200ms"], -1, "timed out after 200ms"),
        ("yes", &["--gate-timeout", "300ms"], -1, "timed out after 300ms"),
        ("yes | head -c 30000000; exit 9", &[], 9, "exited 9"),
        ("kill -9 $$", &[], -1, "was ended by signal 9"),
        ("trap '' TERM; sleep 100 & wait", &["--gate-timeout", "200ms"], -1, "timed out after 200ms"),
        ("(setsid sleep 1000 >/dev/null 2>&1 &); exit 3", &[], 3, "exited 3"),
        ("if", &[], 2, "exited 2"),
    ] {
        let env = repository();
        let agent = format!("cat >../prompt.$DACAPO_ITERATION; echo $DACAPO_ITERATION >>lib.sh; {PROMISE}");
        let output = env.loop_of(&agent, &[&["-n", "2", "--gate", gate], extra].concat());
        assert_eq!((output.code, env.agents()), (Some(3), 2), "{gate}: {output:?}");
        let finished = &env.of_type("gate_finished")[0];
        assert_eq!(
            (&finished["exit_code"], &finished["passed"]),
            (&json!(exit_code), &json!(false)),
            "{gate}"
        );
        let refused = &env.of_type("claim_refused")[0];
        assert_eq!(refused["reason"], "gate_failed", "{gate}");
        assert_has(refused["detail"].as_str().unwrap_or_default(), words);
        let prompt = std::fs::read_to_string(env.root().join("prompt.2")).expect("a prompt");
        assert_has(&prompt, gate);
        assert!(prompt.len() < 20_000, "{gate}: {} bytes", prompt.len());
        let tail = finished["output_tail"].as_str().unwrap_or_default();
        assert!(tail.len() <= 16 * 1024, "{gate}");
    }
}

#[test]
fn a_pattern_that_protects_nothing_is_said() {
    let env = repository();
    env.loop_of("true", &["-n", "1", "--protect", "nothing/**", "--protect", "tests/**"]).assert_code(3);
    let warned: Vec<String> = env.of_type("warned").iter().map(|event| event["text"].to_string()).collect();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert_has(&warned[0], "the pattern `nothing/**` protects nothing");
}
