//! Killed anywhere between the claim and the receipt, and resumed: one verdict, one receipt, one commit.

use std::{fs, thread, time::Duration};

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
    let count = |kind: &str| env.of_type(kind).len();
    let trailers = env.git(["log", "--format=%(trailers:key=Dacapo,valueonly,separator=%x2C)"]);
    let mine = trailers.lines().filter(|line| !line.is_empty()).count();
    let found = (count("claim_accepted"), count("receipt_issued"), mine, env.agents());
    assert_eq!(found, (1, 1, 1, 1), "seed {seed}: verdicts, receipts, commits, agents");
    assert_eq!(env.git(["status", "--porcelain"]), "", "seed {seed}");
    let commits = env.receipt()["commits"].clone();
    assert_eq!(commits.as_array().map(Vec::len), Some(1), "seed {seed}: {commits}");
    env.run(["verify", "t"]).assert_code(0);
    kills
}

#[test]
fn exactly_one_verdict_however_often_it_is_killed() {
    let seed = std::env::var("DACAPO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_115);
    let kills: u32 = thread::scope(|scope| {
        let workers: Vec<_> = (0..3_u64)
            .map(|worker| {
                scope.spawn(move || {
                    (0..10).map(|n| crash_and_resume(&repository(), seed + worker * 1000 + n)).sum::<u32>()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
    });
    assert!(kills >= 30, "only {kills} kills");
}
