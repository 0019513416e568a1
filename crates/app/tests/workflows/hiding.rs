//! An agent that hides from dacapo where it runs, to decide something for the user.

use dacapo_testkit::TestEnv;

use crate::support::{SOON, args, env, run, run_id, status, with};

const ASKS: &str = "steps:\n  - {id: ask, approval: {message: 'May it go out?'}}\n  - {id: ship, bash: 'touch .git/shipped'}\n";

const DACAPO: &str = env!("CARGO_BIN_EXE_dacapo");

/// Whether this machine lets its users make PID namespaces. Where the kernel refuses them, an agent cannot hide in one.
fn may_unshare(env: &TestEnv) -> bool {
    let mut may = env.command("unshare");
    let tried = may.args(["-Urpf", "--mount-proc", "true"]).output();
    let tried = tried.expect("`unshare` of util-linux is there: install util-linux");
    assert!(tried.status.success() || !tried.stderr.is_empty(), "a refusal says why: {tried:?}");
    tried.status.success()
}

/// What an agent sees that runs `how` in front of `dacapo approve RUN`, with nothing in its environment that tells of its loop.
fn approved_by_agent(how: &str) -> (TestEnv, String, String) {
    let env = with(ASKS);
    let id = run_id(&run(&env, &[]).assert_code(4));
    let how = how.replace("STATE", &env.dacapo_home().display().to_string());
    env.write(
        "approve.sh",
        format!(
            "e='env -i PATH='$PATH' HOME='$HOME\n{}\n",
            how.replace("APPROVE", &format!("{DACAPO} approve {id}"))
        ),
    );
    env.run_agent("sh 'sh approve.sh >.git/out 2>&1; echo $? >>.git/out'\npromise", ["--task", "t"])
        .assert_code(0);
    let out = env.read(".git/out");
    assert_eq!(status(&env, &id)["reason"], "question", "{how}: {out}");
    assert!(!out.trim_end().ends_with("\n0"), "{how}: {out}");
    (env, id, out)
}

#[test]
fn an_agent_in_a_pid_namespace_of_its_own_answers_no_question() {
    if !may_unshare(&env()) {
        return;
    }
    let (_, _, out) = approved_by_agent("$e DACAPO_HOME=STATE unshare -Urpf --mount-proc APPROVE");
    // In a sandbox the kernel lets it mount none.
    let is_refused = out.contains("cannot answer for the user from here: the process that runs");
    assert!(is_refused || out.contains("mount /proc failed"), "{out}");
    // With the `/proc` of the namespace outside, the way up is seen.
    approved_by_agent("$e DACAPO_HOME=STATE unshare -Urpf APPROVE");
    // With none at all, it is not known who asks.
    let hidden = "$e DACAPO_HOME=STATE unshare -Urm sh -c 'mount -t tmpfs none /proc && APPROVE'";
    let (_, _, out) = approved_by_agent(hidden);
    let is_refused = out.contains("`/proc` does not show the processes above this one");
    assert!(is_refused || out.contains("permission denied"), "{out}");
}

#[test]
fn an_agent_that_moves_the_state_folder_answers_no_question() {
    // With nothing in its place, or another file.
    for other in ["", "mkdir STATE; cp STATE-2/dacapo.db STATE; "] {
        approved_by_agent(&format!(
            "mv STATE STATE-2; {other}$e DACAPO_HOME=STATE-2 APPROVE; code=$?; rm -rf STATE; mv STATE-2 STATE; exit $code"
        ));
    }
}

#[test]
fn in_a_container_the_user_decides_as_elsewhere() {
    if !may_unshare(&env()) {
        return;
    }
    let env = with(ASKS);
    let words: Vec<String> = args(&env, &[]).iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "{DACAPO} {}; {DACAPO} approve || exit 9; until test -e .git/shipped; do sleep 0.02; done",
        words.join(" ")
    );
    let mut command = env.command("unshare");
    command.args(["-Urpf", "--mount-proc", "sh", "-c", &script]);
    env.run_command(command).assert_code(0);
    // What was started in one that is gone is decided about in another, or outside.
    let id = run_id(&run(&env, &[]).assert_code(4));
    let mut command = env.command("unshare");
    command.args(["-Urpf", "--mount-proc", DACAPO, "cancel", &id]);
    env.run_command(command).assert_code(0);
    env.wait_until("it is cancelled", SOON, || status(&env, &id)["state"] == "cancelled");
}
