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
fn a_pattern_that_protects_nothing_is_refused_unless_it_says_that_it_may() {
    let env = repository();
    let typed = ["-n", "1", "--protect", "nothing/**", "--protect", "tests/**"];
    let refused = env.loop_of("true", &typed).assert_code(2);
    assert_has(&refused.stderr, "`nothing/**` protects nothing: no file matches it");
    assert_eq!(env.run(["status", "--all", "--json"]).assert_code(0).stdout.trim(), "[]", "no loop began");
    // So it is if a file says it, and the file is shared by branches: there it may be optional.
    env.write(".dacapo/config.yaml", "protect: [nothing/**]\n");
    let refused = env.loop_of("true", &["-n", "1", "--protect", "tests/**"]).assert_code(2);
    insta::assert_snapshot!(refused.stderr, @r"
    .dacapo/config.yaml:1:11: the pattern `nothing/**` protects nothing: no file matches it
      1 | protect: [nothing/**]
        |           ^
      fix: name files that are there, or write `?nothing/**`, which may match nothing yet
    dacapo: a mistake in `.dacapo/config.yaml`; nothing was started
    ");
    let is_left =
        |folder: &str| env.dacapo_home().join(folder).read_dir().is_ok_and(|mut all| all.next().is_some());
    assert!(!is_left("projects"), "the name of its task stays free");
    env.write(".dacapo/config.yaml", "protect: [\"?nothing/**\"]\n");
    env.loop_of("true", &["-n", "1", "--protect", "tests/**"]).assert_code(3);
    let warned: Vec<String> = env.of_type("warned").iter().map(|event| event["text"].to_string()).collect();
    assert_eq!(warned, Vec::<String>::new());
    // It protects all the same: what is added there is tampered with.
    let agent = format!("mkdir nothing; echo x >nothing/new\n{PROMISE}");
    env.loop_of(&agent, &["-n", "1", "--gate", "true"]).assert_code(3);
    assert_eq!(env.of_type("claim_refused")[0]["reason"], "tampered");
}

#[test]
fn protected_files_that_no_snapshot_holds_are_compared() {
    // Ignored ones, and those of a repository within this one; restoring them clears them.
    for (file, setup) in [
        ("data/sums", "mkdir data; echo 4 >data/sums; echo data/ >>.gitignore"),
        ("suite/sums", "mkdir suite; git -C suite init -q; echo 4 >suite/sums"),
    ] {
        let env = repository();
        env.sh(setup).assert_code(0);
        let folder = format!("{}/**", file.split('/').next().unwrap_or_default());
        let agent = format!(
            "echo more >>lib.sh; case $DACAPO_ITERATION in 1) echo 0 >{file};; 2) echo 4 >{file};; esac; {PROMISE}"
        );
        let args = ["-n", "2", "--gate", "true", "--protect", &folder];
        env.loop_of(&agent, &args).assert_code(0);
        let refused = env.of_type("claim_refused");
        assert_eq!((refused.len(), &refused[0]["reason"]), (1, &json!("tampered")), "{file}");
    }
}

#[test]
fn what_tools_make_in_a_protected_folder_refuses_nothing() {
    // Its tests are tracked; the program that is built beside them is ignored, and built anew by every agent and gate.
    let env = repository();
    env.sh("mkdir -p tests; echo t >tests/case; echo old >tests/built; echo tests/built >>.gitignore; git add -A; git commit -qm tests")
        .assert_code(0);
    let agent = format!("echo more >>lib.sh; echo new >tests/built; {PROMISE}");
    env.loop_of(&agent, &["-n", "1", "--gate", "date >>tests/built", "--protect", "tests/**"]).assert_code(0);
    assert_eq!(env.of_type("claim_refused"), Vec::<serde_json::Value>::new());
}
