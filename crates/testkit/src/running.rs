//! A process under test: its output as it comes, its end, and the certainty that it does end.

use std::{
    io::{self, Read},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How long an ended process's output may stay open: a descendant that holds it must not hold the test.
const DRAIN: Duration = Duration::from_secs(2);

/// What a process left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output; bytes that are no UTF-8 are replaced.
    pub stdout: String,
    /// Standard error; bytes that are no UTF-8 are replaced.
    pub stderr: String,
}

impl Output {
    /// The last line on standard error that is no hint: what went wrong, or how it ended.
    pub fn reason(&self) -> &str {
        self.stderr.lines().rfind(|line| !line.starts_with("hint: ")).unwrap_or_default()
    }

    /// Panics with everything there is unless the process exited with `code`.
    #[track_caller]
    pub fn assert_code(self, code: i32) -> Self {
        let Self { code: exit, signal, stdout, stderr } = &self;
        assert!(
            *exit == Some(code),
            "expected exit code {code}, got {exit:?}, signal {signal:?}\n{}",
            transcript(stdout, stderr)
        );
        self
    }
}

fn transcript(stdout: &str, stderr: &str) -> String {
    format!("--- stdout\n{stdout}\n--- stderr\n{stderr}\n---")
}

/// A running process, leader of its own group. Dropping it kills the group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    description: String,
    captured: Arc<Captured>,
}

#[derive(Debug, Default)]
struct Captured {
    streams: Mutex<Streams>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Streams {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    ended: usize,
}

impl Captured {
    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().expect("no reader panics")
    }

    fn read(&self, mut from: impl Read, into: impl Fn(&mut Streams) -> &mut Vec<u8>) {
        let mut buffer = [0; 1 << 16];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => into(&mut self.lock()).extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
            self.changed.notify_all();
        }
        self.lock().ended += 1;
        self.changed.notify_all();
    }
}

impl Streams {
    fn text(&self) -> (String, String) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (text(&self.stdout), text(&self.stderr))
    }

    /// The first complete line of either stream that `wanted` accepts.
    fn find(&self, wanted: &mut impl FnMut(&str) -> bool) -> Option<String> {
        for bytes in [&self.stdout, &self.stderr] {
            let complete = bytes.iter().rposition(|b| *b == b'\n').unwrap_or(0);
            for line in bytes[..complete].split(|b| *b == b'\n') {
                let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
                if complete > 0 && wanted(&line) {
                    return Some(line.into_owned());
                }
            }
        }
        None
    }
}

impl Running {
    /// Starts a command with its output captured; its standard input is the caller's choice.
    #[track_caller]
    pub fn start(mut command: Command) -> Self {
        let description = format!("{command:?}");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("cannot start {description}: {e}"));
        let captured = Arc::new(Captured::default());
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            let (out, err) = (Arc::clone(&captured), Arc::clone(&captured));
            thread::spawn(move || out.read(stdout, |streams| &mut streams.stdout));
            thread::spawn(move || err.read(stderr, |streams| &mut streams.stderr));
        }
        Self { child, description, captured }
    }

    /// The process's id, which is its group's too.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        self.captured.lock().text().0
    }

    /// Standard error so far.
    pub fn stderr(&self) -> String {
        self.captured.lock().text().1
    }

    /// Sends a signal to the process, not to its group.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        // Not yet waited for, so the id is still its own.
        kill_process(self.os_pid(), signal).expect("the process can be signalled");
    }

    /// Waits until either stream has a line that `wanted` accepts, printed before or after this call.
    #[track_caller]
    pub fn wait_for_line(&self, mut wanted: impl FnMut(&str) -> bool, timeout: Duration) -> String {
        let deadline = Instant::now() + timeout;
        let mut streams = self.captured.lock();
        loop {
            if let Some(line) = streams.find(&mut wanted) {
                return line;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || streams.ended == 2 {
                let why = if streams.ended == 2 { "its output ended" } else { "the time is up" };
                let (stdout, stderr) = streams.text();
                drop(streams);
                panic!("no such line, {why}: {}\n{}", self.description, transcript(&stdout, &stderr));
            }
            streams = self.captured.changed.wait_timeout(streams, left).expect("no reader panics").0;
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the end; kills the group and panics with the output so far if it takes longer than `timeout`.
    #[track_caller]
    pub fn wait(mut self, timeout: Duration) -> Output {
        let Some(status) = self.wait_exit(timeout) else {
            self.kill_group();
            let (stdout, stderr) = self.captured.lock().text();
            panic!("still running after {timeout:?}: {}\n{}", self.description, transcript(&stdout, &stderr));
        };
        let streams = self.captured.lock();
        let waited = self.captured.changed.wait_timeout_while(streams, DRAIN, |s| s.ended < 2);
        let (stdout, stderr) = waited.expect("no reader panics").0.text();
        Output { code: status.code(), signal: status.signal(), stdout, stderr }
    }

    fn wait_exit(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn os_pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn kill_group(&mut self) {
        // Fails only when all of it is gone, which is the wanted state.
        let _ = kill_process_group(self.os_pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Once the leader has been waited for, its pid may belong to another process.
        if self.is_running() {
            self.kill_group();
        }
    }
}
