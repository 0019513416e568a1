//! `dacapo tui` in a real terminal, and what it reads: real loops, real processes.

use dacapo_core::view::{Lane, Urgency};
use dacapo_engine::{client::Client, home::Home};
use dacapo_testkit::{Terminal, TestEnv, wait_until};
use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{LONG, Task, assert_has, world};

const DACAPO: &str = env!("CARGO_BIN_EXE_dacapo");

/// The board in a terminal of this size; fails where tmux is not installed.
#[track_caller]
fn open<'a>(env: &'a TestEnv, columns: u32, rows: u32, options: &str) -> Terminal<'a> {
    let terminal = Terminal::open(env, columns, rows, &format!("LANG=C.UTF-8 {DACAPO} tui {options}"));
    terminal.wait_for("dacapo ");
    terminal
}

/// The process of the board.
fn board_process(env: &TestEnv) -> Pid {
    let mut found = None;
    wait_until("the process of the board", LONG, || {
        found = std::fs::read_dir("/proc").expect("/proc").flatten().find_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let words = std::fs::read(entry.path().join("cmdline")).ok()?;
            let words = String::from_utf8_lossy(&words).into_owned();
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            let is_ours = String::from_utf8_lossy(&environment).contains(&*env.root().to_string_lossy());
            (words.starts_with(DACAPO) && words.contains("\0tui\0") && is_ours)
                .then(|| Pid::from_raw(pid))
                .flatten()
        });
        found.is_some()
    });
    found.expect("a process")
}

#[test]
fn a_loop_is_watched_steered_read_and_cancelled_from_the_board() {
    // req 195
    let env = world();
    let running = env.start_loop("say reading the tests; write ready; wait-file go; promise", &["-n", "15"]);
    let terminal = open(&env, 100, 30, "");
    let screen = terminal.wait_for("Ralph: iteration 1/15");
    for words in
        ["dacapo 1 running", "Running 1", "fake-agent (1/15)", "Slot 1: fake-agent", "Task: t", "Running: "]
    {
        assert_has(&screen, words);
    }
    let title = || {
        let shown =
            terminal.tmux().args(["display-message", "-p", "#{pane_title}"]).output().expect("tmux runs");
        String::from_utf8_lossy(&shown.stdout).trim().to_owned()
    };
    wait_until("the title", LONG, || title() == "dacapo 1 running");
    terminal.press(&["l"]);
    terminal.wait_for("reading the tests");
    terminal.press(&["t"]);
    assert_has(&terminal.wait_for("iteration 1"), "working");
    terminal.press(&["s"]);
    terminal.press(&["-l", "use the second approach"]);
    terminal.wait_for("steer t: use the second approach");
    terminal.press(&["Enter"]);
    env.wait_for_event("t", "steered");
    terminal.press(&["Escape"]);
    terminal.wait_for("Running 1");
    // It asks first, and any other key is a no.
    terminal.press(&["c"]);
    terminal.wait_for("Cancel t for good?");
    terminal.press(&["n"]);
    terminal.wait_for("nothing was done");
    terminal.press(&["c"]);
    terminal.wait_for("Cancel t for good?");
    terminal.press(&["y"]);
    let screen = terminal.wait_for("cancelled, ");
    assert_has(&screen, "Done 1");
    running.wait(LONG);
    assert_eq!(env.status("t")["state"], "cancelled");
    terminal.press(&["q"]);
    // The shell's screen is back, with nothing of the board on it.
    let screen = terminal.wait_for("left with 0");
    assert!(!screen.contains("Done 1"), "{screen}");
}

#[test]
fn a_supervisor_that_is_killed_leaves_an_interrupted_card_and_any_size_is_drawn() {
    let env = world();
    let _running = env.start_loop("write ready; wait-file go; promise", &[]);
    let terminal = open(&env, 100, 30, "--ascii");
    let screen = terminal.wait_for("Running 1");
    assert!(screen.is_ascii(), "{screen}");
    for (columns, rows, words) in
        [("20", "5", "20x5: needs 40x10"), ("200", "50", "Slot 1: fake-agent"), ("80", "24", "Running 1")]
    {
        assert!(
            terminal.tmux().args(["resize-window", "-x", columns, "-y", rows]).status().unwrap().success()
        );
        terminal.wait_for(words);
    }
    let pid = env.status("t")["pid"].as_i64().expect("a pid");
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let screen = terminal.wait_for("interrupted");
    assert_has(&screen, "Waiting 1");
    assert_has(&screen, "dacapo 0 running - 1 needs you");
    // Ended by a signal, the terminal is as it was.
    kill_process(board_process(&env), Signal::TERM).unwrap();
    let screen = terminal.wait_for("left with 143");
    assert!(!screen.contains("Waiting 1"), "{screen}");
}

#[test]
fn without_a_terminal_the_board_says_what_else_there_is() {
    let env = world();
    let output = env.run(["tui"]).assert_code(5);
    assert_has(&output.stderr, "needs a terminal");
    assert_has(&output.stderr, "dacapo status");
}

#[test]
fn the_board_is_caught_up_from_a_place_in_the_journal_and_an_end_is_marked_until_looked_at() {
    let env = world();
    let running = env.start_loop("write ready; wait-file go; promise", &[]);
    let home = Home::at(env.dacapo_home());
    let mut client = Client::of_journal(&home).unwrap();
    let mut reader = client.board(10).unwrap();
    let first = reader.board(Timestamp::now());
    assert_eq!((first.lane(Lane::Running).len(), first.slots.len(), first.totals.running), (1, 1, 1));
    assert!(!client.catch_up(&mut reader).unwrap(), "nothing was recorded");
    env.write("go", "");
    running.wait(LONG);
    // All that was recorded meanwhile is taken in at once.
    assert!(client.catch_up(&mut reader).unwrap());
    let second = reader.board(Timestamp::now());
    assert!(second.seq > first.seq);
    let card = &second.lane(Lane::Done)[0];
    assert_eq!((card.state.as_str(), card.is_unseen, second.totals.unseen), ("completed", true, 1));
    let id = card.id.clone();
    assert!(client.look_at(&id).unwrap());
    assert!(!client.look_at(&id).unwrap(), "known already");
    assert!(client.catch_up(&mut reader).unwrap());
    assert_eq!(reader.board(Timestamp::now()).totals.unseen, 0);
    // What a new reader sees is what the old one was told.
    let fresh = Client::of_journal(&home).unwrap().board(10).unwrap();
    let now = Timestamp::now();
    assert_eq!(fresh.board(now), reader.board(now));
    // A question that is older than the newest page is still asked.
    for (task, script) in [("asks", "exit 42"), ("one", "promise"), ("two", "promise"), ("three", "promise")]
    {
        env.run(env.run_agent_args(script, ["--project", "p", "--task", task]));
    }
    let small = client.board(1).unwrap().board(Timestamp::now());
    assert!(small.has_more);
    assert_eq!(small.needs.iter().map(|need| need.urgency).collect::<Vec<_>>(), [Urgency::Question]);
    let mut paged = client.board(1).unwrap();
    while client.more_of_board(&mut paged).unwrap() > 0 {}
    let all = paged.board(Timestamp::now());
    assert_eq!((all.lane(Lane::Done).len(), all.lane(Lane::Waiting).len(), all.has_more), (4, 1, false));
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_fg_draws_the_board_again() {
    let env = world();
    let running = env.start_loop("write ready; wait-file go; promise", &[]);
    let terminal = Terminal::open(&env, 100, 30, "LANG=C.UTF-8 PS1='shell> ' bash --norc --noprofile -i");
    let typed = |line: &str| terminal.press(&[line, "Enter"]);
    terminal.wait_for("shell>");
    typed("stty -a >before");
    typed(&format!("{DACAPO} tui"));
    terminal.wait_for("Running 1");
    terminal.press(&["C-z"]);
    let screen = terminal.wait_for("Stopped");
    assert!(!screen.contains("Running 1"), "{screen}");
    // The shell has a line to type in, and its cursor.
    typed("stty -a >during; cmp before during && echo the same settings");
    terminal.wait_for("\nthe same settings");
    let flags =
        terminal.tmux().args(["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&flags.stdout).trim(), "0 1");
    // What has happened meanwhile is on the board when it comes back.
    env.write("go", "");
    running.wait(LONG);
    typed("fg");
    let screen = terminal.wait_for("Done 1");
    assert_has(&screen, "dacapo 0 running");
    assert!(!screen.contains("shell>"), "{screen}");
    terminal.press(&["Enter"]);
    terminal.wait_for("iteration 1");
    terminal.press(&["q"]);
    terminal.wait_for("same settings");
    typed("exit");
    terminal.wait_for("left with ");
}

#[test]
fn what_is_removed_from_the_journal_leaves_an_open_board() {
    let env = world();
    env.run_loop("promise", &[]).assert_code(0);
    for unit in ["a", "b"] {
        let folder = format!("specs/tasks/{unit}");
        env.write(format!("{folder}/IMPLEMENTATION_PLAN.md"), format!("# {unit}\n"));
        let task = "---\ntask: 1\nstatus: pending\nbackpressure: 'false'\n---\n\n# First\n\nWrite it.\n";
        env.write(format!("{folder}/01-first.md"), task);
    }
    env.git_init();
    let agent = env.agent_cmd_for("exit 3");
    env.run(["unit", "run", "--trust", "--restart-delay", "0s", "-n", "1", "--agent-cmd", &agent]);
    let home = Home::at(env.dacapo_home());
    let client = Client::of_journal(&home).unwrap();
    let mut reader = client.board(100).unwrap();
    let units = |reader: &dacapo_engine::board::BoardReader| {
        let board = reader.board(Timestamp::now());
        board.cards().filter(|card| card.unit.is_some()).count()
    };
    assert_eq!(units(&reader), 2);
    env.run(["clean", "--reset", "a", "--reset", "b", "--force"]).assert_code(0);
    wait_until("the units leave the board", LONG, || {
        client.catch_up(&mut reader).unwrap();
        units(&reader) == 0
    });
    // A stream that is not in the journal any more leaves the board, too, without an event that says so.
    let cards = |reader: &dacapo_engine::board::BoardReader| reader.board(Timestamp::now()).cards().count();
    let before = cards(&reader);
    let journal = rusqlite::Connection::open(home.database()).unwrap();
    journal.pragma_update(None, "foreign_keys", false).unwrap();
    journal.execute("DELETE FROM streams WHERE task = 't' AND kind = 'loop'", []).unwrap();
    wait_until("the loop leaves the board", LONG, || {
        client.catch_up(&mut reader).unwrap();
        cards(&reader) == before - 1
    });
}
