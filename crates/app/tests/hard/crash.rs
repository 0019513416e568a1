//! SIGKILL at any moment: of dacapo, of its keeper, of both.

use std::{
    fs,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use dacapo_testkit::{Running, Signal, TestEnv, wait_until};

use crate::world::{
    Account, Dice, Innocents, LONG, agent_args, all_gone, assert_nothing_left, count, is_alive, keeper_of,
    pid_in, signal, state, world,
};

const ITERATIONS: u64 = 20;

/// Per loop: a check that is killed is run again, so a loop may be killed for ever in one iteration.
const MOST_KILLS: u32 = 25;

/// Agents whose lives differ, with the checks that follow them.
const LIVES: [(&str, &[&str]); 4] = [
    ("say iteration $DACAPO_ITERATION; sleep 4", &[]),
    ("say iteration $DACAPO_ITERATION; promise", &["--gate", "sleep 0.004; exit 1"]),
    ("say iteration $DACAPO_ITERATION; ignore TERM; daemonize 'ignore TERM; hang'; sleep 2", &[]),
    ("say iteration $DACAPO_ITERATION; done", &["--until-cmd", "false", "--gate", "echo no; exit 1"]),
];

#[test]
fn a_loop_killed_at_any_moment_goes_on_with_nothing_lost_and_nothing_done_twice() {
    // req 83, req 203, faults F12, G1, G7, G8
    let (wanted, dice) = (count(200, 1000), Dice::new());
    let kills = AtomicU32::new(0);
    thread::scope(|scope| {
        for worker in 0..2 {
            let (mut dice, kills) = (dice.split(worker), &kills);
            scope.spawn(move || {
                while kills.load(Ordering::Relaxed) < wanted {
                    kill_and_resume_until_it_ends(&mut dice, kills);
                }
            });
        }
    });
    println!("{} kills", kills.into_inner());
}

/// One loop of 20 iterations, killed and resumed until none is left.
fn kill_and_resume_until_it_ends(dice: &mut Dice, kills: &AtomicU32) {
    let env = world();
    let (script, checks) = dice.one_of(&LIVES);
    let limit = ITERATIONS.to_string();
    let grace = dice.one_of(&["20ms", "0s"]);
    // These agents change nothing, and a loop with a gate would stop after ten such iterations.
    let start = ["--task", "t", "-n", &limit, "--kill-grace", grace, "--stuck-after", "0"];
    let mut args = agent_args(&env, script, start.iter().chain(checks).copied());
    let mut own = 0;
    loop {
        let mut running = env.spawn(&args);
        if own == MOST_KILLS || !kill_at_random(&env, &mut running, dice) {
            let output = running.wait(LONG).assert_code(3);
            assert!(output.stderr.contains("max_iterations"), "{}", output.stderr);
            break;
        }
        running.signal(Signal::KILL);
        let output = running.wait(LONG);
        assert!(!output.stderr.contains("bug"), "{}", output.stderr);
        if output.code.is_some() {
            continue; // it ended before the signal reached it
        }
        kills.fetch_add(1, Ordering::Relaxed);
        own += 1;
        // Half of the time somebody resumes before the keeper has seen to everything.
        if dice.below(2) == 0 {
            all_gone(&env, Duration::from_secs(20));
        }
        if env.dacapo_home().join("dacapo.db").exists() && is_known(&env) {
            args = ["resume", "t"].map(str::to_owned).to_vec();
        }
    }
    all_gone(&env, Duration::from_secs(20));
    let account = Account::of(&env, "t");
    assert_eq!(account.reason, "max_iterations");
    assert_eq!(account.charged, ITERATIONS);
    let log = env.run(["logs", "t", "--raw"]).assert_code(0).stdout;
    let said: Vec<u64> =
        log.lines().filter_map(|line| line.strip_prefix("iteration ")?.parse().ok()).collect();
    assert!(said.is_sorted_by(|a, b| a < b), "output was overwritten or mixed: {said:?}");
    for n in &account.exited {
        let cut = account.finished[n][0] == "interrupted";
        assert!(cut || said.contains(n), "what agent {n} said is lost: {said:?}");
    }
}

/// Whether the journal already has the loop; a kill before that leaves nothing to resume.
fn is_known(env: &TestEnv) -> bool {
    env.run(["events", "t", "--json"]).code == Some(0)
}

/// Waits for a random step of the loop and a random moment after it; false if the loop ended first.
fn kill_at_random(env: &TestEnv, running: &mut Running, dice: &mut Dice) -> bool {
    let look = |file: &str| -> Option<(u64, SystemTime)> {
        let metadata = fs::metadata(env.root().join(file)).ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    };
    let mark = || [look("state/dacapo.db-wal"), look("ledger"), look("state/reserve")];
    for _ in 0..dice.below(10) {
        let before = mark();
        let deadline = Instant::now() + LONG;
        while mark() == before {
            if !running.is_running() {
                return false;
            }
            assert!(Instant::now() < deadline, "nothing happens:\n{}", running.stderr());
            thread::sleep(Duration::from_micros(50));
        }
    }
    dice.pause(Duration::from_millis(4));
    running.is_running()
}

#[test]
fn what_a_dacapo_and_its_keeper_leave_behind_is_ended_before_the_next_agent() {
    // faults F12, F13, F14
    for leave in [
        "pid-to left.pid; hang",
        "ignore TERM; daemonize 'ignore TERM; pid-to left.pid; hang'; hang",
        "spawn 'pid-to left.pid; hang'; storm 20; kill STOP",
        // Each process ends as soon as it has started the next: whoever looks once sees only those that are gone.
        "pid-to left.pid; spawn 'forkchain 4000'; hang",
    ] {
        let env = world();
        let innocents = Innocents::start(&env);
        let look = "sh 'grep -qs \") [^ZX] \" /proc/$(cat left.pid)/stat && touch overlap'";
        let script = format!("@1: {leave}\n@2: {look}\n@2: promise");
        // In a sandbox all of it would be dead at once.
        let options = ["--task", "t", "-n", "5", "--kill-grace", "10s", "--sandbox", "off"];
        let running = env.spawn(agent_args(&env, &script, options));
        pid_in(&env, "left.pid");
        let keeper = keeper_of(running.pid()).expect("a keeper");
        kill_both(running, keeper);
        assert!(env.survivors().len() > innocents.count(), "there is something to clean up");
        env.run(["resume", "t"]).assert_code(0);
        assert!(!env.workspace().join("overlap").exists(), "two agents at once after: {leave}");
        innocents.assert_unharmed_and_end();
        assert_nothing_left(&env);
        let account = Account::of(&env, "t");
        assert_eq!(account.finished[&1], ["interrupted"]);
        assert_eq!(account.in_ledger, [1, 2]);
    }
}

/// Neither sees the other's end: stopped first, killed then.
pub(crate) fn kill_both(running: Running, keeper: u32) {
    for pid in [running.pid(), keeper] {
        signal(pid, Signal::STOP);
        wait_until("it is stopped", LONG, || state(pid).is_some_and(|(letter, _)| letter == 'T'));
    }
    signal(keeper, Signal::KILL);
    running.signal(Signal::KILL);
    running.wait(LONG);
    wait_until("the keeper is dead", LONG, || !is_alive(keeper));
}

#[test]
fn a_dacapo_resumed_while_the_old_keeper_still_waits_for_an_agent_does_not_run_two() {
    // faults F12, F14: the process has lost its mark, so only its keeper knows it; the grace is long.
    let env = world();
    let hide = "run env -i sh -c 'trap \"\" TERM; echo $$ > left.new; mv left.new left.pid; while :; do sleep 1; done'";
    let look = "sh 'grep -qs \") [^ZX] \" /proc/$(cat left.pid)/stat && touch overlap'";
    let script = format!("@1: {hide}\n@2: {look}\n@2: promise");
    // In a sandbox the second agent could not see the first.
    let options = ["--task", "t", "-n", "5", "--kill-grace", "2s", "--sandbox", "off"];
    let running = env.spawn(agent_args(&env, &script, options));
    pid_in(&env, "left.pid");
    running.signal(Signal::KILL);
    running.wait(LONG);
    env.run(["resume", "t"]).assert_code(0);
    assert!(!env.workspace().join("overlap").exists(), "two agents at once");
    assert_nothing_left(&env);
}

#[test]
fn a_loop_whose_keeper_is_killed_ends_what_it_kept_and_goes_on() {
    // faults F2, F3, F12
    let env = world();
    let leave = "ignore TERM; daemonize 'ignore TERM; hang'; storm 5; forkchain 10; spawn 'kill STOP'";
    let script =
        format!("@*: {leave}; touch ready-$DACAPO_ITERATION\n@1: hang\n@2: hang\n@3: hang\n@4: promise");
    let running = env.spawn(agent_args(&env, &script, ["--task", "t", "-n", "9", "--kill-grace", "50ms"]));
    for n in 1..=3 {
        let ready = env.workspace().join(format!("ready-{n}"));
        wait_until("the agent is ready", LONG, || ready.exists());
        let keeper = keeper_of(running.pid()).expect("a keeper");
        signal(keeper, Signal::KILL);
    }
    running.wait(LONG).assert_code(0);
    assert_nothing_left(&env);
    let account = Account::of(&env, "t");
    assert_eq!((account.reason.as_str(), account.in_ledger), ("done", vec![1, 2, 3, 4]));
}

#[test]
fn a_keeper_killed_at_any_moment_stops_no_loop_and_leaves_nothing() {
    // faults F12, F15
    let mut dice = Dice::new();
    let env = world();
    let script = "daemonize 'ignore TERM; hang'; spawn 'hang'; sleep 3";
    let args = ["--task", "t", "-n", "40", "--kill-grace", "5ms"];
    let mut running = env.spawn(agent_args(&env, script, args));
    let mut kills = 0;
    while running.is_running() {
        dice.pause(Duration::from_millis(30));
        if let Some(keeper) = keeper_of(running.pid()) {
            signal(keeper, Signal::KILL);
            kills += 1;
        }
    }
    running.wait(LONG).assert_code(3);
    assert_nothing_left(&env);
    assert!(kills > 5, "only {kills} kills");
    let events = env.events(Some("t"));
    let starts = events.iter().filter(|event| event["type"] == "iteration_started").count();
    assert_eq!(starts, 40);
}

#[test]
fn a_child_loop_outlives_the_keeper_and_the_supervisor_of_its_parent() {
    // fault F12: child loops are loops of their own; only cancelling their parent ends them.
    for whole in [false, true] {
        let env = world();
        let child = env.agent_cmd_for("pid-to child.pid; wait-file go; promise");
        let child = format!("run dacapo run child --detach --task child --agent-cmd '{child}'");
        let script = format!("@1: {child}; touch ready; hang\n@2: touch go; promise");
        let running = env.spawn(agent_args(&env, &script, ["--task", "parent", "-n", "5"]));
        wait_until("the child runs", LONG, || env.workspace().join("ready").exists());
        let agent = pid_in(&env, "child.pid");
        let keeper = keeper_of(running.pid()).expect("a keeper");
        if whole {
            kill_both(running, keeper);
            env.run(["resume", "parent"]).assert_code(0);
        } else {
            signal(keeper, Signal::KILL);
            running.wait(LONG).assert_code(0);
        }
        all_gone(&env, Duration::from_secs(20));
        assert!(!is_alive(agent));
        let events = env.events(Some("child"));
        let end = events.last().expect("events");
        assert_eq!((&end["type"], &end["reason"]), (&"loop_finished".into(), &"done".into()), "{end}");
    }
}
