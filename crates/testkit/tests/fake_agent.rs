//! The fake agent does what it is told, and what it leaves behind is really left behind.
#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use dacapo_testkit::{Signal, noise, wait_until};
use rustix::process::{Pid, getpgid, kill_process};
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(20);

/// A folder to work in, and the agent in it.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn agent(&self, script: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fake-agent"));
        command.args(["--do", script]).current_dir(self.dir.path()).stdin(Stdio::null());
        for name in ["DACAPO_ITERATION", "DACAPO_LOOP", "DACAPO_PROMISE", "FAKE_AGENT_LEDGER", "TASK_FOLDER"]
        {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, script: &str) -> Output {
        self.agent(script).output().unwrap()
    }

    fn stdout(&self, script: &str) -> String {
        let output = self.run(script);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The pid a process wrote, once it has.
    fn pid(&self, name: &str) -> Pid {
        let file = self.path(name);
        wait_until("the pid is written", SOON, || file.exists());
        Pid::from_raw(self.read(name).trim().parse().unwrap()).unwrap()
    }
}

fn is_alive(pid: Pid) -> bool {
    // A zombie has no command line.
    fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).is_ok_and(|line| !line.is_empty())
}

/// The session a process is in; 0 where its leader is outside of the PID namespace, which `getsid` of rustix
/// does not expect: a container may start the tests so.
fn session(pid: Pid) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    let (_, behind_name) = stat.rsplit_once(')').unwrap();
    behind_name.split_whitespace().nth(3).unwrap().parse().unwrap()
}

/// Kills a process the test has the pid of, and waits until it is gone.
fn kill(pid: Pid) {
    kill_process(pid, Signal::KILL).unwrap();
    wait_until("the killed process is gone", SOON, || !is_alive(pid));
}

#[test]
fn it_prints_what_it_is_told_for_its_iteration() {
    let place = Place::new();
    let script = "@1: say one; promise\n@2+: print two; err oh; promise ALL GREEN; exit 7";
    for (iteration, code, stdout, stderr) in [
        ("1", 0, "one\n<promise>DONE</promise>\n", ""),
        ("2", 7, "two<promise>ALL GREEN</promise>\n", "oh\n"),
        ("9", 7, "two<promise>ALL GREEN</promise>\n", "oh\n"),
    ] {
        let output = place.agent(script).env("DACAPO_ITERATION", iteration).output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(output.stdout, stdout.as_bytes());
        assert_eq!(output.stderr, stderr.as_bytes());
    }
    let output = place.agent("promise").env("DACAPO_PROMISE", "SHIPPED").output().unwrap();
    assert_eq!(output.stdout, b"<promise>SHIPPED</promise>\n");
}

#[test]
fn a_script_comes_from_a_file_too_and_a_bad_one_is_99() {
    let place = Place::new();
    fs::write(place.path("script"), "say from the file").unwrap();
    let agent = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fake-agent"));
        command.stdin(Stdio::null()).env_remove("FAKE_AGENT_SCRIPT").env_remove("FAKE_AGENT_LEDGER");
        command
    };
    let by_flag = agent().args(["-p", "--script"]).arg(place.path("script")).output().unwrap();
    let by_variable =
        agent().arg("--verbose").env("FAKE_AGENT_SCRIPT", place.path("script")).output().unwrap();
    assert_eq!(by_flag.stdout, b"from the file\n");
    assert_eq!(by_variable.stdout, b"from the file\n");
    for (args, message) in [
        (vec!["--do", "@5: dance"], "fake-agent: script line 1: unknown command `dance`\n"),
        (vec![], "fake-agent: no script: give --script FILE, --do TEXT or FAKE_AGENT_SCRIPT\n"),
    ] {
        let output = agent().args(args).output().unwrap();
        assert_eq!(
            (output.status.code(), String::from_utf8(output.stderr).unwrap()),
            (Some(99), message.into())
        );
    }
}

#[test]
fn the_prompt_is_read_to_its_end_before_anything_else() {
    let place = Place::new();
    let mut agent = place
        .agent("say hello; echo-prompt; prompt-to prompt")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    agent.stdin.take().unwrap().write_all(b"do it\n\xff").unwrap();
    assert_eq!(agent.wait_with_output().unwrap().stdout, b"hello\ndo it\n\xff");
    assert_eq!(fs::read(place.path("prompt")).unwrap(), b"do it\n\xff");

    // With `no-stdin` it does not wait for a prompt that never ends.
    let mut agent = place.agent("no-stdin; touch started").stdin(Stdio::piped()).spawn().unwrap();
    assert!(agent.wait().unwrap().success());
    assert!(place.path("started").exists());
}

#[test]
fn it_tells_what_it_was_given() {
    let place = Place::new();
    let mut agent = place.agent("env-to out/env; cwd-to cwd; fds-to fds; pid-to pid; args-to args");
    let child = agent.arg("two\nlines").env("SOME_NAME", "a\nb").stdout(Stdio::null()).spawn().unwrap();
    let pid = child.id();
    assert!(child.wait_with_output().unwrap().status.success());
    assert!(place.read("out/env").lines().any(|line| line == "SOME_NAME=a\\nb"));
    assert_eq!(Path::new(place.read("cwd").trim_end()), place.dir.path().canonicalize().unwrap());
    assert!(place.read("fds").starts_with("0 -> /dev/null\n1 -> /dev/null\n2 -> "), "{}", place.read("fds"));
    assert_eq!(place.read("pid"), format!("{pid}\n"));
    assert!(place.read("args").ends_with("\ntwo\\nlines\n"));
}

#[test]
fn it_changes_files() {
    let place = Place::new();
    let script = "write a/b first; append a/b second; write empty; touch t; mkdir d/e; touch gone; rm gone; rm d; \
                  rm never; done all of it; wait-marker; sh 'echo x > s; echo y >> s'; run touch 'r 1'; \
                  write $TASK_FOLDER/v $DACAPO_ITERATION";
    let status =
        place.agent(script).env("TASK_FOLDER", place.dir.path()).env("DACAPO_ITERATION", "3").status();
    assert!(status.unwrap().success());
    for (file, text) in [
        ("a/b", "first\nsecond\n"),
        ("empty", ""),
        ("t", ""),
        ("DONE", "all of it\n"),
        ("WAIT_WITHOUT_RESTART", ""),
        ("s", "x\ny\n"),
        ("r 1", ""),
        ("v", "3\n"),
    ] {
        assert_eq!(place.read(file), text, "{file}");
    }
    assert!(!place.path("gone").exists() && !place.path("d").exists());
    // A command that cannot be performed is no success.
    assert_eq!(place.run("done").status.code(), Some(98));
}

#[test]
fn floods_have_the_size_asked_for() {
    let place = Place::new();
    let output = place.run("flood-out 1000003; flood-err 300k");
    assert_eq!((output.stdout.len(), output.stderr.len()), (1_000_003, 300 << 10));
    let mut lines = output.stdout.split_inclusive(|b| *b == b'\n').rev();
    assert_eq!(lines.next().map(<[u8]>::len), Some(1_000_003 % 80));
    assert!(lines.all(|line| line.len() == 80));

    assert_eq!(place.run("line 3m").stdout, [vec![b'x'; 3 << 20], vec![b'\n']].concat());
    assert_eq!(place.run("random 100001 42").stdout, noise::bytes(100_001, 42));
    assert_ne!(noise::bytes(64, 1), noise::bytes(64, 2));
    let lines = place.stdout("lines 20000");
    assert_eq!((lines.lines().count(), lines.lines().last()), (20_000, Some("20000")));
    assert_eq!(place.stdout("utf8-split"), "grün — 完了 — 🎉\n");
    assert!(place.stdout("ansi").contains("\x1b[33m<promise>"));
    assert_eq!(place.stdout("say a; close-out; say b"), "a\n");
}

#[test]
fn the_ledger_tells_starts_and_normal_ends() {
    let place = Place::new();
    let ledger = place.path("ledger");
    let run = |script: &str, iteration: &str| {
        let mut agent = place.agent(script);
        agent.env("FAKE_AGENT_LEDGER", &ledger).env("DACAPO_LOOP", "l1").env("DACAPO_ITERATION", iteration);
        let child = agent.spawn().unwrap();
        let pid = child.id();
        child.wait_with_output().unwrap();
        pid
    };
    // The child is no agent, so it is not listed.
    let whole = run("spawn 'touch child'; wait-file child", "1");
    let exited = run("exit 3", "2");
    let killed = run("kill KILL", "3");
    let expected = format!(
        "start l1 1 {whole}\nend l1 1 {whole}\nstart l1 2 {exited}\nend l1 2 {exited}\nstart l1 3 {killed}\n"
    );
    assert_eq!(place.read("ledger"), expected);
    let nameless = place.agent("").env("FAKE_AGENT_LEDGER", place.path("other")).status().unwrap();
    assert!(nameless.success());
    assert!(place.read("other").starts_with("start - 1 "));
}

#[test]
fn it_dies_by_signals_ignores_them_or_acts_on_them() {
    use std::os::unix::process::ExitStatusExt as _;

    let place = Place::new();
    for (signal, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11), ("INT", 2)] {
        assert_eq!(place.run(&format!("kill {signal}; exit 1")).status.signal(), Some(number), "{signal}");
    }
    assert_eq!(place.stdout("ignore TERM; kill TERM; ignore HUP; kill HUP; say alive"), "alive\n");
    let output = place.run("on TERM 'say ending; exit 5'; kill TERM; hang");
    assert_eq!((output.status.code(), output.stdout), (Some(5), b"ending\n".to_vec()));
    let output = place.run("on USR1 append got x; kill USR1; wait-file got; on-term exit 6; kill TERM; hang");
    assert_eq!(output.status.code(), Some(6));
}

#[test]
fn a_child_stays_in_the_group_and_is_not_waited_for() {
    let place = Place::new();
    // The child holds the output, so the call returns only when both have ended.
    let said =
        place.stdout("spawn 'pid-to child; wait-file go; say late'; wait-file child; say early; touch go");
    assert_eq!(said, "early\nlate\n");

    let child =
        place.agent("spawn 'pid-to in-group; hang'; wait-file in-group; hang").stdout(Stdio::null()).spawn();
    let mut agent = child.unwrap();
    let member = place.pid("in-group");
    let leader = Pid::from_child(&agent);
    assert_eq!(getpgid(Some(member)).unwrap(), getpgid(Some(leader)).unwrap());
    kill(member);
    agent.kill().unwrap();
    agent.wait().unwrap();
}

#[test]
fn a_daemon_survives_its_parent_in_a_session_of_its_own() {
    let place = Place::new();
    // `output` returns although the daemon lives: it does not hold the pipe.
    let output = place.run("daemonize 'pid-to daemon; say unheard; hang'; wait-file daemon");
    assert!(output.status.success());
    assert_eq!(output.stdout, b"");
    let daemon = place.pid("daemon");
    assert!(is_alive(daemon));
    assert_ne!(session(daemon), session(rustix::process::getpid()));
    kill(daemon);
}

#[test]
fn a_holding_daemon_keeps_the_pipe_open() {
    let place = Place::new();
    let script = "daemonize hold 'pid-to daemon; wait-file go; say late'; say early";
    let mut agent = place.agent(script).stdout(Stdio::piped()).spawn().unwrap();
    assert!(agent.wait().unwrap().success());
    let daemon = place.pid("daemon");
    assert!(is_alive(daemon));
    fs::write(place.path("go"), "").unwrap();
    assert_eq!(agent.wait_with_output().unwrap().stdout, b"early\nlate\n");
}

#[test]
fn each_run_takes_the_next_turn_and_the_last_one_is_for_all_that_follow() {
    let place = Place::new();
    fs::create_dir(place.path("turns")).unwrap();
    for (name, script) in [("2", "say two"), ("1", "say one"), ("3", "say three")] {
        fs::write(place.path("turns").join(name), script).unwrap();
    }
    let run = || {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_fake-agent"));
        agent.args(["-p", "--turns", "turns"]).current_dir(place.dir.path()).stdin(Stdio::null());
        String::from_utf8(agent.output().unwrap().stdout).unwrap()
    };
    assert_eq!([run(), run(), run(), run()], ["one\n", "two\n", "three\n", "three\n"]);
    fs::remove_dir_all(place.path("turns")).unwrap();
    assert_eq!(run(), "");
}
