//! What scripts of workflows leave running: it is ended, also if the processes are killed that should have ended it.

use std::fs;

use dacapo_testkit::{Running, TestEnv};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{SOON, args, run_id, status, with};

/// A script whose first run hangs, and leaves a process in a session of its own that does not mind being asked to end. Both hold a
/// lock, by which its second run sees whether one of the two is still there.
const HANGS: &str = "steps:\n  - id: s\n    bash: |\n      echo run >> .git/runs\n      \
    if test -e .git/left; then flock -n .git/lock true || touch .git/overlap; exit 0; fi\n      \
    exec 9> .git/lock; flock 9\n      \
    setsid sh -c 'trap \"\" TERM; echo $$ > .git/inner; while :; do sleep 311; done' &\n      \
    until test -s .git/inner; do sleep 0.01; done\n      \
    echo $$ $(cat .git/inner) > .git/new; mv .git/new .git/left\n      \
    while :; do sleep 311; done\n";

/// The number in a field of `/proc/PID/stat` behind the name: the parent is the second.
fn parent(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn letter(pid: u32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}

fn is_alive(pid: u32) -> bool {
    letter(pid).is_some_and(|letter| !"ZX".contains(letter))
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// Kills processes that must not see each other's end: all are stopped first.
fn kill_at_once(env: &TestEnv, pids: &[u32]) {
    for pid in pids {
        signal(*pid, Signal::STOP);
        env.wait_until("it is stopped", SOON, || letter(*pid) == Some('T'));
    }
    pids.iter().for_each(|pid| signal(*pid, Signal::KILL));
    for pid in pids {
        env.wait_until("it is dead", SOON, || !is_alive(*pid));
    }
}

/// A run whose script hangs, the job of the script, its keeper, and what the script has started.
fn hanging(env: &TestEnv) -> (Running, u32, u32, Vec<u32>) {
    let running = env.spawn(args(env, &[]));
    env.wait_until("the script hangs", SOON, || env.workspace().join(".git/left").exists());
    let left = env.read(".git/left");
    let left: Vec<u32> = left.split_whitespace().map(|pid| env.outer_pid(pid.parse().unwrap())).collect();
    let keeper = parent(left[0]).unwrap();
    let job = parent(keeper).unwrap();
    assert_eq!(parent(job), Some(running.pid()), "the performer has started the job");
    (running, job, keeper, left)
}

#[test]
fn a_script_whose_keeper_is_killed_is_ended_with_all_it_started() {
    // faults F2, F3, F12
    let env = with(HANGS);
    let (running, _, keeper, _) = hanging(&env);
    signal(keeper, Signal::KILL);
    let output = running.wait(SOON).assert_code(1);
    assert_eq!(env.survivors(), [0; 0]);
    let why = "step `s`: the script was ended, because the process that kept it was killed";
    assert!(output.stderr.contains(why), "{}", output.stderr);
    env.run(["resume", &run_id(&output), "--trust"]).assert_code(0);
    assert_eq!(env.read(".git/runs"), "run\nrun\n");
    assert!(!env.workspace().join(".git/overlap").exists());
}

#[test]
fn a_script_whose_job_is_killed_is_ended_with_all_it_started() {
    // faults F2, F3, F12: with its keeper, or alone.
    for with_keeper in [true, false] {
        let env = with(HANGS);
        let (running, job, keeper, _) = hanging(&env);
        let killed = [job, keeper];
        kill_at_once(&env, if with_keeper { &killed } else { &killed[..1] });
        let output = running.wait(SOON).assert_code(1);
        assert_eq!(env.survivors(), [0; 0]);
        let why = "step `s`: the script was ended, because the process that ran it did (signal: 9 (SIGKILL))";
        assert!(output.stderr.contains(why), "{}", output.stderr);
        assert_eq!(status(&env, &run_id(&output))["state"], "failed");
    }
}

#[test]
fn a_script_that_outlives_performer_job_and_keeper_is_ended_before_it_runs_again() {
    // faults F12, F14
    let cases: [(&[&str], bool); 3] =
        [(&["resume", "--trust"], true), (&["resume", "--trust"], false), (&["clean"], false)];
    for (then, is_held) in cases {
        let env = with(HANGS);
        if !is_held {
            env.without_sandbox();
        }
        let (running, job, keeper, left) = hanging(&env);
        kill_at_once(&env, &[running.pid(), job, keeper]);
        let _ = running.wait(SOON);
        // What is in a namespace ends with its keeper.
        let is_in_namespace =
            is_held && env.run(["events", "--json"]).stdout.contains(r#""tier":"namespaces""#);
        match is_in_namespace {
            true => env.wait_until("the script has ended", SOON, || !left.iter().any(|pid| is_alive(*pid))),
            false => assert!(left.iter().all(|pid| is_alive(*pid)), "there is something to end"),
        }
        env.run(then).assert_code(0);
        assert_eq!(env.survivors(), [0; 0], "after {then:?}");
        assert!(!env.workspace().join(".git/overlap").exists(), "two scripts at once");
        let runs = if then[0] == "resume" { "run\nrun\n" } else { "run\n" };
        assert_eq!(env.read(".git/runs"), runs);
    }
}

#[test]
fn a_script_that_was_ended_by_a_signal_is_said_to_be() {
    let env = with("steps: [{id: s, bash: 'kill -9 $$'}]\n");
    let output = env.run(args(&env, &[])).assert_code(1);
    assert!(output.stderr.contains("step `s`: the script was ended by signal 9"), "{}", output.stderr);
}
