//! Killed anywhere between the claim and the receipt, and resumed: one verdict, one receipt, one commit. At every step
//! that touches the workspace, and at any moment.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use dacapo_testkit::{Running, Signal, TestEnv, noise, wait_until};

use crate::support::{LONG, PROMISE, World, repository};

const GATE: &str = "touch ../gating; sleep 0.03; ./check.sh";

/// Starts `args`, waits for the gate, and kills dacapo after `pause`; says whether it had ended before.
fn cut(env: &TestEnv, running: Running, pause: Duration) -> bool {
    let gating = env.root().join("gating");
    let mut running = running;
    wait_until("the gate runs, or it is over", LONG, || gating.exists() || !running.is_running());
    // The length is the test's input, not a guess about when something will have happened.
    thread::sleep(pause);
    let _ = fs::remove_file(&gating);
    let is_over = !running.is_running();
    if !is_over {
        running.signal(Signal::KILL);
        running.wait(LONG);
    }
    is_over
}

/// One verdict, one receipt and one commit that both speak of; `agents` were started.
#[track_caller]
fn assert_one_of_each(env: &TestEnv, agents: usize, what: &str) {
    let count = |kind: &str| env.of_type(kind).len();
    let trailers = env.git(["log", "--format=%(trailers:key=Dacapo,valueonly,separator=%x2C)"]);
    let mine = trailers.lines().filter(|line| !line.is_empty()).count();
    let found = (count("claim_accepted"), count("receipt_issued"), mine, env.agents());
    assert_eq!(found, (1, 1, 1, agents), "{what}: verdicts, receipts, commits, agents");
    assert_eq!(env.git(["status", "--porcelain"]), "", "{what}");
    let commits = env.receipt()["commits"].clone();
    assert_eq!(commits.as_array().map(Vec::len), Some(1), "{what}: {commits}");
    env.run(["verify", "t"]).assert_code(0);
}

fn crash_and_resume(env: &TestEnv, seed: u64) -> u32 {
    let mut state = seed;
    let agent = format!("echo fixed >work.txt; {PROMISE}");
    let extra = ["-n", "3", "--gate", GATE, "--gate", "true", "--commit"];
    let mut kills = 0;
    let mut running = Some(Running::start(env.command_of(&agent, &extra)));
    // Twice cut, then let go.
    for _ in 0..2 {
        let Some(cuttable) = running.take() else { break };
        let pause = Duration::from_micros(noise::next(&mut state) % 160_000);
        if !cut(env, cuttable, pause) {
            kills += 1;
            running = Some(env.spawn(["resume", "t"]));
        }
    }
    if let Some(running) = running {
        let output = running.wait(LONG);
        // 1: it was complete already when the last kill came.
        assert!(matches!(output.code, Some(0 | 1)), "{output:?}");
    }
    assert_one_of_each(env, 1, &format!("seed {seed}"));
    kills
}

#[test]
fn exactly_one_verdict_however_often_it_is_killed() {
    let seed = std::env::var("DACAPO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_115);
    // A loop may be over before it is killed for the first time: then there are more loops.
    let kills = AtomicU32::new(0);
    thread::scope(|scope| {
        for worker in 0..3_u64 {
            let kills = &kills;
            scope.spawn(move || {
                for n in 0..100 {
                    if n >= 10 && kills.load(Ordering::Relaxed) >= 30 {
                        return;
                    }
                    let killed = crash_and_resume(&repository(), seed + worker * 1000 + n);
                    kills.fetch_add(killed, Ordering::Relaxed);
                }
            });
        }
    });
    let kills = kills.into_inner();
    assert!(kills >= 30, "only {kills} kills");
}

/// How often git is called from the end of an agent to the receipt: the snapshot, a look at it, another after the gates,
/// and the commit.
const CALLS: usize = 8;
/// Those of them before the agent's end is in the journal.
const SNAPSHOT: usize = 2;

/// Puts a `git` on PATH that kills dacapo at its `nth` call after the agent has begun, before or after it does its work.
fn killing_git(env: &TestEnv, nth: usize, is_after: bool) {
    let real = env.sh("command -v git").stdout;
    let (real, root) = (real.trim(), env.root().display());
    let (before, after) = if is_after { (format!("{real} \"$@\""), "") } else { (String::new(), "exit 1") };
    let script = format!(
        "#!/bin/sh
        if [ -e {root}/begun ] && [ ! -e {root}/killed ]; then
            echo x >>{root}/calls
            if [ $(wc -l <{root}/calls) = {nth} ]; then
                {before}
                touch {root}/killed; kill -9 $PPID
                {after}
                exit
            fi
        fi
        exec {real} \"$@\"\n"
    );
    let wrapper = env.root().join("bin/git");
    fs::write(&wrapper, script).expect("a script");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("permissions");
}

#[test]
fn exactly_one_verdict_when_killed_at_every_step_on_the_workspace() {
    // fault G7
    thread::scope(|scope| {
        for is_after in [false, true] {
            scope.spawn(move || {
                for nth in 1..=CALLS {
                    let env = repository();
                    killing_git(&env, nth, is_after);
                    let agent =
                        format!("touch {}/begun; echo fixed >work.txt; {PROMISE}", env.root().display());
                    let extra = ["-n", "3", "--gate", "./check.sh", "--commit"];
                    let output = env.loop_of(&agent, &extra);
                    let what = format!("call {nth}, after it: {is_after}");
                    assert!(env.root().join("killed").exists(), "{what}: {output:?}");
                    assert_eq!(output.code, None, "{what}: {output:?}");
                    env.run(["resume", "t"]).assert_code(0);
                    let agents = if nth <= SNAPSHOT { 2 } else { 1 };
                    assert_one_of_each(&env, agents, &what);
                }
            });
        }
    });
    let env = repository();
    killing_git(&env, CALLS + 1, false);
    let agent = format!("touch {}/begun; echo fixed >work.txt; {PROMISE}", env.root().display());
    env.loop_of(&agent, &["-n", "3", "--gate", "./check.sh", "--commit"]);
    assert!(env.root().join("killed").exists(), "the files that were changed are listed at the end");
    // The loop was over before.
    assert_eq!(env.of_type("loop_finished").len(), 1);
    assert_one_of_each(&env, 1, "at the end");
}

#[test]
fn exactly_one_verdict_when_a_gate_is_cut_with_its_supervisor() {
    // fault G7: the gate's parent is the keeper, and the keeper's is dacapo.
    let env = repository();
    // In a sandbox it could see neither.
    env.without_sandbox();
    let flag = env.root().join("killed").display().to_string();
    let parent = "$(cut -d' ' -f4 /proc/$PPID/stat)";
    let kill = format!("[ -e {flag} ] || {{ touch {flag}; kill -9 {parent}; sleep 60; }}; ./check.sh");
    let agent = format!("echo fixed >work.txt; {PROMISE}");
    let output = env.loop_of(&agent, &["-n", "3", "--gate", &kill, "--commit"]);
    assert_eq!(output.code, None, "{output:?}");
    env.run(["resume", "t"]).assert_code(0);
    assert_one_of_each(&env, 1, "in the gate");
}
