//! A key that an agent writes down is in no snapshot, no commit, no event and no receipt.

use dacapo_testkit::{Output, TestEnv};

use crate::support::*;

const KEY: &str = "k3y-of-a-provider-0123456789abcdef";

fn run(env: &TestEnv, agent: &str, extra: &[&str]) -> Output {
    let mut command = env.command_of(agent, extra);
    command.env("ANTHROPIC_API_KEY", KEY);
    env.run_command(command)
}

/// Everything that any ref of the repository leads to: names and contents.
fn all_in_git(env: &TestEnv) -> String {
    env.sh("git log --all --format='%D %s'; git rev-list --all --objects;
         git rev-list --all --objects --no-object-names | git cat-file --batch")
        .assert_code(0)
        .stdout
}

#[test]
fn a_new_file_with_a_key_is_left_out_of_snapshots_and_commits_and_said() {
    let env = repository();
    let agent = "echo fixed >work.txt; echo \"token = '$ANTHROPIC_API_KEY'\" >deploy.cfg; mkdir -p sub
        echo $ANTHROPIC_API_KEY | base64 -w0 >sub/encoded; : >\"of $ANTHROPIC_API_KEY.txt\"; git branch \"b-$ANTHROPIC_API_KEY\"
        echo '<promise>DONE</promise>'";
    let output = run(&env, agent, &["--gate", "./check.sh", "--commit", "-v"]).assert_code(0);
    let told: Vec<String> = env
        .of_type("warned")
        .iter()
        .map(|event| event["text"].as_str().unwrap_or_default().to_owned())
        .collect();
    for path in [
        "`deploy.cfg` holds the value of a key",
        "`sub/encoded` holds the value of a key",
        "`of [redacted].txt` holds",
    ] {
        assert!(told.iter().any(|line| line.contains(path)), "{path}: {told:?}");
    }
    assert_eq!(
        env.git(["show", "--stat", "--format=", "HEAD"]).matches('|').count(),
        1,
        "only the work is committed"
    );
    // The agent's own branch is named as the agent has named it; nothing that dacapo wrote is.
    env.sh(&format!("git branch -D 'b-{KEY}'")).assert_code(0);
    let kept = all_in_git(&env);
    assert!(!kept.contains(KEY) && !kept.contains("azN5LW9m"), "{kept}");
    for said in [&output.stdout, &output.stderr, &env.run(["events", "t", "--json"]).stdout] {
        assert!(!said.contains(KEY), "{said}");
    }
    assert!(!env.run(["receipt", "t", "--json"]).stdout.contains(KEY));
    assert!(env.workspace().join("deploy.cfg").exists(), "the user's folder stays as the agent left it");
    env.run(["verify", "t"]).assert_code(0);
}

#[test]
fn no_claim_is_accepted_while_a_key_is_in_a_file_of_the_repository() {
    let env = repository();
    let agent = "echo fixed >work.txt
        case $DACAPO_ITERATION in 1) echo $ANTHROPIC_API_KEY >>lib.sh;; 2) git checkout -q lib.sh;; esac
        echo '<promise>DONE</promise>'";
    run(&env, agent, &["-n", "2", "--gate", "grep -q fixed work.txt"]).assert_code(0);
    let refused = env.of_type("claim_refused");
    assert_eq!((refused.len(), &refused[0]["reason"]), (1, &"tree_changed".into()), "{refused:?}");
    assert!(!all_in_git(&env).contains(KEY));
    let told = env.of_type("warned");
    assert!(
        told.iter()
            .any(|event| event["text"].as_str().is_some_and(|line| line.contains("no claim is accepted"))),
        "{told:?}"
    );
}

#[test]
fn a_file_that_the_agent_has_cleaned_is_kept_again() {
    let env = repository();
    let agent = "case $DACAPO_ITERATION in
        1) echo $ANTHROPIC_API_KEY >new.cfg;;
        2) echo clean >new.cfg; echo fixed >work.txt; echo '<promise>DONE</promise>';; esac";
    run(&env, agent, &["-n", "3", "--gate", "./check.sh", "--commit"]).assert_code(0);
    assert_eq!(env.git(["show", "HEAD:new.cfg"]), "clean\n");
    assert!(!all_in_git(&env).contains(KEY));
}

#[test]
fn a_dump_of_memory_is_left_out() {
    let env = repository();
    let agent = r"echo fixed >work.txt
        { printf '\177ELF\002\001\001\000\000\000\000\000\000\000\000\000\004\000\076\000'; echo memory of a process; } >core.4711
        echo '<promise>DONE</promise>'";
    run(&env, agent, &["--gate", "./check.sh", "--commit"]).assert_code(0);
    assert!(!all_in_git(&env).contains("core.4711"));
    let told = env.of_type("warned");
    assert!(
        told.iter().any(|event| event["text"]
            .as_str()
            .is_some_and(|line| line.contains("dump of a process's memory"))),
        "{told:?}"
    );
}
