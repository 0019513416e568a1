//! Signals in a real terminal, and at any moment.

use std::{
    fs,
    io::{PipeWriter, Write, pipe},
    time::{Duration, Instant},
};

use dacapo_testkit::{Running, Signal, TestEnv, wait_until};

use crate::world::{
    Account, Dice, LONG, agent_args, all_gone, assert_nothing_left, count, pid_in, signal, state, text, world,
};

/// dacapo in a pseudo terminal that `script` holds; what is typed reaches it as from a keyboard.
struct Terminal {
    script: Running,
    keyboard: PipeWriter,
}

impl Terminal {
    fn start(env: &TestEnv, args: &[String]) -> Self {
        let dacapo = env.dacapo(args);
        let words = std::iter::once(dacapo.get_program()).chain(dacapo.get_args());
        let words: Vec<_> =
            words.map(|word| format!("'{}'", word.to_str().expect("UTF-8").replace('\'', r"'\''"))).collect();
        let (screen, keyboard) = pipe().expect("a pipe");
        let mut script = env.command("script");
        // `exec`, so that dacapo leads the terminal's session as it does below a shell.
        script.arg("-qec").arg(format!("echo $$ > pid.new; mv pid.new dacapo.pid; exec {}", words.join(" ")));
        script.arg("/dev/null").stdin(screen);
        Self { script: Running::start(script), keyboard }
    }

    fn press(&mut self, key: u8) {
        self.keyboard.write_all(&[key]).expect("somebody reads");
    }
}

const CTRL_C: u8 = 3;
const CTRL_Z: u8 = 26;

#[test]
fn ctrl_c_is_answered_ends_the_agent_and_can_be_resumed() {
    // faults F5, F6
    let env = world();
    let script = "@1: say at work; touch ready; hang\n@2: promise";
    let mut terminal = Terminal::start(&env, &agent_args(&env, script, ["--task", "t"]));
    wait_until("the agent works", LONG, || env.workspace().join("ready").exists());
    terminal.press(CTRL_C);
    terminal.script.wait_for_line(|line| line.contains("stopping"), LONG);
    let output = terminal.script.wait(LONG).assert_code(130);
    assert_nothing_left(&env);
    assert!(output.stdout.contains("interrupted by Ctrl-C"), "{}", output.stdout);
    env.run(["resume", "t"]).assert_code(0);
    assert_eq!(Account::of(&env, "t").in_ledger, [1, 2]);
}

#[test]
fn a_second_ctrl_c_kills_an_agent_that_does_not_listen() {
    // faults F5, F6: the grace alone would take longer than this test may.
    let env = world();
    let script = "ignore TERM; ignore INT; spawn 'ignore TERM; hang'; touch ready; hang";
    let args = agent_args(&env, script, ["--task", "t", "--kill-grace", "1h"]);
    let mut terminal = Terminal::start(&env, &args);
    wait_until("the agent works", LONG, || env.workspace().join("ready").exists());
    terminal.press(CTRL_C);
    terminal.script.wait_for_line(|line| line.contains("stopping"), LONG);
    assert!(terminal.script.is_running());
    terminal.press(CTRL_C);
    terminal.script.wait(LONG).assert_code(130);
    assert_nothing_left(&env);
}

#[test]
fn sigterm_ends_a_loop_with_143() {
    // fault F6
    let env = world();
    let running = env.spawn(agent_args(
        &env,
        "@1: touch ready; hang\n@2: promise",
        ["--task", "t", "--kill-grace", "1s"],
    ));
    wait_until("the agent works", LONG, || env.workspace().join("ready").exists());
    running.signal(Signal::TERM);
    let output = running.wait(LONG).assert_code(143);
    assert_nothing_left(&env);
    assert!(output.stderr.contains("terminated by SIGTERM"), "{}", output.stderr);
    env.run(["resume", "t"]).assert_code(0);
}

#[test]
fn a_terminal_that_is_closed_ends_a_loop_in_the_foreground() {
    // fault F7
    let env = world();
    let script = "@1: daemonize 'ignore HUP; hang'; touch ready; hang\n@2: promise";
    let terminal = Terminal::start(&env, &agent_args(&env, script, ["--task", "t", "--kill-grace", "100ms"]));
    wait_until("the agent works", LONG, || env.workspace().join("ready").exists());
    // Whoever holds the other end of the terminal is gone at once.
    terminal.script.signal(Signal::KILL);
    terminal.script.wait(LONG);
    all_gone(&env, Duration::from_secs(20));
    let events = env.events(Some("t"));
    let end = events.last().unwrap();
    assert_eq!((text(end, "type"), &end["exit_code"]), ("loop_finished", &143.into()), "{end}");
    assert!(text(end, "detail").contains("SIGHUP"), "{end}");
    env.run(["resume", "t"]).assert_code(0);
}

#[test]
fn a_terminal_that_is_closed_does_not_concern_a_detached_loop() {
    // fault F7
    let env = world();
    let script = "pid-to agent.pid; wait-file go; promise";
    let args = agent_args(&env, script, ["--task", "t", "--detach"]);
    let terminal = Terminal::start(&env, &args);
    pid_in(&env, "agent.pid");
    terminal.script.signal(Signal::KILL);
    terminal.script.wait(LONG);
    let supervisor = env.events(Some("t"))[0]["pid"].as_u64().unwrap() as u32;
    // And whatever else says so.
    signal(supervisor, Signal::HUP);
    env.write("go", "");
    all_gone(&env, Duration::from_secs(20));
    assert_eq!(Account::of(&env, "t").reason, "done");
}

#[test]
fn ctrl_z_holds_agents_and_timers_until_somebody_says_go_on() {
    // fault F8
    let limit = Duration::from_secs(4);
    let env = world();
    let script = "pid-to agent.pid; spawn 'pid-to child.pid; hang'; daemonize 'pid-to daemon.pid; hang'; \
                  wait-file go; promise";
    let limits = ["--task", "t", "--iteration-timeout", "4s", "--idle-timeout", "4s", "--max-time", "4s"];
    let mut terminal = Terminal::start(&env, &agent_args(&env, script, limits));
    let files = ["agent.pid", "child.pid", "daemon.pid", "dacapo.pid"];
    let held = files.map(|file| pid_in(&env, file));
    let in_state = |pid: u32, letters: &str| state(pid).is_some_and(|(letter, _)| letters.contains(letter));
    terminal.press(CTRL_Z);
    wait_until("all of it is held", LONG, || held.iter().all(|pid| in_state(*pid, "T")));
    let script_pid = terminal.script.pid();
    wait_until("the terminal is given back", LONG, || in_state(script_pid, "T"));
    let since = Instant::now();
    wait_until("it was held for longer than any limit", LONG, || {
        assert!(held.iter().all(|pid| in_state(*pid, "T")), "it went on by itself");
        since.elapsed() > limit + Duration::from_secs(1)
    });
    // `script` passes it on, as a shell's `fg` does.
    terminal.script.signal(Signal::CONT);
    wait_until("all of it goes on", LONG, || held.iter().all(|pid| in_state(*pid, "SRD")));
    env.write("go", "");
    terminal.script.wait(LONG).assert_code(0);
    assert_nothing_left(&env);
    let events = env.events(Some("t"));
    let exit = events.iter().find(|event| event["type"] == "agent_exited").unwrap();
    assert_eq!(exit["outcome"], "completed", "{exit}");
    assert!(exit["duration_ms"].as_u64().unwrap() < 4000, "the time held was charged: {exit}");
}

#[test]
fn ctrl_c_reaches_a_loop_that_was_held() {
    // faults F6, F8
    let env = world();
    let args = agent_args(&env, "pid-to agent.pid; hang", ["--task", "t", "--kill-grace", "100ms"]);
    let running = env.spawn(args);
    let agent = pid_in(&env, "agent.pid");
    for _ in 0..3 {
        running.signal(Signal::TSTP);
        let pids = [running.pid(), agent];
        wait_until("both are held", LONG, || pids.iter().all(|pid| state(*pid).is_some_and(|s| s.0 == 'T')));
        running.signal(Signal::CONT);
        wait_until("both go on", LONG, || pids.iter().all(|pid| state(*pid).is_some_and(|s| s.0 != 'T')));
    }
    running.signal(Signal::TSTP);
    wait_until("it is held", LONG, || state(running.pid()).is_some_and(|s| s.0 == 'T'));
    running.signal(Signal::INT);
    running.signal(Signal::CONT);
    running.wait(LONG).assert_code(130);
    assert_nothing_left(&env);
}

#[test]
fn no_file_changes_after_dacapo_has_gone() {
    // fault F5
    for (first, second, code) in [
        (Signal::INT, None, 130),
        (Signal::INT, Some(Signal::INT), 130),
        (Signal::TERM, None, 143),
        (Signal::HUP, Some(Signal::TERM), 143),
    ] {
        let env = world();
        let write = "daemonize \"sh 'trap : TERM INT HUP\\; while :\\; do date +%N > busy\\; done'\"";
        let script = format!("ignore TERM; {write}; sh 'trap : TERM; while :; do date +%N > busy2; done'");
        let running = env.spawn(agent_args(&env, &script, ["--task", "t", "--kill-grace", "50ms"]));
        let files = ["busy", "busy2"].map(|file| env.workspace().join(file));
        wait_until("both write", LONG, || files.iter().all(|file| file.exists()));
        running.signal(first);
        if let Some(second) = second {
            running.signal(second);
        }
        running.wait(LONG).assert_code(code);
        let look = || {
            files
                .each_ref()
                .map(|file| (fs::read(file).unwrap(), fs::metadata(file).unwrap().modified().unwrap()))
        };
        let (after, since) = (look(), Instant::now());
        wait_until("it was looked at for a while", LONG, || {
            assert_eq!(look(), after, "somebody still writes");
            since.elapsed() > Duration::from_millis(200)
        });
        assert_nothing_left(&env);
    }
}

#[test]
fn signals_at_any_moment_end_a_loop_once_and_leave_nothing() {
    // faults F5, F6
    let mut dice = Dice::new();
    for _ in 0..count(50, 1000) {
        let env = world();
        let script = dice.one_of(&[
            "daemonize 'ignore TERM; hang'; sleep 5",
            "ignore TERM; sleep 10",
            "spawn 'hang'; promise",
            "say x",
        ]);
        let gate = dice.one_of(&["exit 1", "sleep 0.02; exit 1"]);
        let args = ["--task", "t", "-n", "6", "--kill-grace", "10ms", "--gate", gate];
        let running = env.spawn(agent_args(&env, script, args));
        dice.pause(Duration::from_millis(120));
        let kinds = [Signal::INT, Signal::TERM, Signal::HUP];
        let first = dice.one_of(&kinds);
        running.signal(first);
        let mut sent = vec![first];
        if dice.below(3) == 0 {
            dice.pause(Duration::from_millis(8));
            sent.push(dice.one_of(&kinds));
            running.signal(sent[1]);
        }
        let output = running.wait(LONG);
        assert_nothing_left(&env);
        match (output.code, output.signal) {
            // Before it listens there is nothing to save: no loop is in the journal.
            (None, Some(by)) => {
                assert!(kinds.iter().any(|kind| kind.as_raw() == by), "ended by signal {by}");
                assert_ne!(env.run(["events", "t", "--json"]).code, Some(0), "a loop without an end");
            }
            (Some(3), _) => assert_eq!(Account::of(&env, "t").reason, "max_iterations"),
            (Some(code @ (130 | 143)), _) => {
                // Two that arrive at once are in no order.
                let is_expected =
                    sent.iter().any(|kind| code == if *kind == Signal::INT { 130 } else { 143 });
                assert!(is_expected, "{code} after {sent:?}: {}", output.stderr);
                Account::of(&env, "t");
                env.run(["resume", "t"]).assert_code(3);
                assert_eq!(Account::of(&env, "t").charged, 6);
            }
            other => panic!("{other:?}\n{}", output.stderr),
        }
    }
}
