//! What a hook costs the host of a chat session: a stop with a transcript of 20 MB beside starting the binary.
//!
//! `cargo bench -p dacapo --bench session [-- --quick]`; `docs/performance.md` explains the figures.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use dacapo_testkit::measured_dacapo;
use tempfile::TempDir;

fn dacapo_binary() -> PathBuf {
    measured_dacapo(env!("CARGO_BIN_EXE_dacapo"))
}
/// The size of the transcript before the loop begins.
const TRANSCRIPT: usize = 20 << 20;

fn main() -> io::Result<()> {
    let is_quick = std::env::args().any(|word| word == "--quick");
    let rounds = if is_quick { 5 } else { 41 };
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    say(&format!("load before the run: {}", load.split(' ').next().unwrap_or("unknown")));
    say(&format!("{:<52}{:>10}{:>12}{:>14}", "figure", "hook", "beside it", "more"));
    for (name, is_git) in [("a git repository", true), ("a plain folder", false)] {
        let world = World::new(is_git)?;
        let (mut started, mut other, mut stopped) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            started.push(timed(world.dacapo(&["--version"])));
            other.push(world.stop("other")?);
            world.work(round)?;
            stopped.push(world.stop("bench")?);
        }
        let (started, other, stopped) = (median(started), median(other), median(stopped));
        row(&format!("a stop without a loop, {name}"), other, started);
        row(&format!("a stop that is sent back, 20 MB, {name}"), stopped, started);
    }
    Ok(())
}

/// A session with a loop, in a small folder.
struct World {
    root: TempDir,
}

impl World {
    fn new(is_git: bool) -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("dacapo-bench-").tempdir()?;
        let world = Self { root };
        fs::create_dir(world.folder())?;
        fs::write(world.folder().join("README.md"), "A place for work.\n")?;
        if is_git {
            for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
                let mut git = Command::new("git");
                git.args(["-c", "user.name=Test", "-c", "user.email=test@example.invalid"]);
                assert!(git.args(args).current_dir(world.folder()).status()?.success());
            }
        }
        let line = said(&"words of an agent as agents write them ".repeat(50));
        let lines = line.repeat(TRANSCRIPT / line.len());
        fs::write(world.transcript(), lines)?;
        let transcript = world.transcript().to_string_lossy().into_owned();
        let start =
            ["session", "start", "--session", "bench", "do it", "--max-iterations=100000", "--transcript"];
        timed(world.dacapo(&[&start[..], &[&transcript]].concat()));
        Ok(world)
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("work")
    }

    fn transcript(&self) -> PathBuf {
        self.root.path().join("transcript.jsonl")
    }

    fn dacapo(&self, args: &[&str]) -> Command {
        let mut command = Command::new(dacapo_binary());
        command.args(args).current_dir(self.folder()).env("DACAPO_HOME", self.root.path().join("state"));
        command
            .env("HOME", self.root.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// The agent changes a file and says something.
    fn work(&self, round: usize) -> io::Result<()> {
        fs::write(self.folder().join("work"), round.to_string())?;
        let mut transcript = File::options().append(true).open(self.transcript())?;
        transcript.write_all(said(&format!("round {round}")).as_bytes())
    }

    fn stop(&self, session: &str) -> io::Result<f64> {
        let input = serde_json::json!({"session_id": session, "transcript_path": self.transcript(),
            "cwd": self.folder(), "stop_hook_active": true});
        let file = self.root.path().join("input");
        fs::write(&file, input.to_string())?;
        let mut command = self.dacapo(&["hook", "stop", "--agent", "claude"]);
        command.stdin(File::open(Path::new(&file))?);
        Ok(timed(command))
    }
}

fn said(text: &str) -> String {
    let message = serde_json::json!({"role": "assistant", "content": [{"type": "text", "text": text}]});
    format!("{}\n", serde_json::json!({"type": "assistant", "message": message}))
}

/// How long a command takes, in milliseconds.
fn timed(mut command: Command) -> f64 {
    let since = Instant::now();
    let status = command.status().expect("it starts");
    assert!(status.success(), "{command:?}: {status}");
    since.elapsed().as_secs_f64() * 1000.0
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn row(name: &str, hook: f64, beside: f64) {
    say(&format!("{name:<52}{hook:>7.1} ms{beside:>9.1} ms{:>8.1} ms more", hook - beside));
}

fn say(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}
