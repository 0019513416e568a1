//! How long `status`, `why` and `receipt` take in a folder where no loop runs, beside `--version`, which only starts the binary.
//!
//! `cargo bench -p dacapo --bench answers [-- --quick]`; `docs/performance.md` explains the figures.

use std::{
    ffi::OsString,
    fs,
    io::{self, Write as _},
    path::PathBuf,
    process::{Command, Stdio},
    time::Instant,
};

use dacapo_testkit::measured_dacapo;
use tempfile::TempDir;

/// How many loops have ended in the folder before.
const LOOPS: usize = 20;

fn main() -> io::Result<()> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let rounds = if words.iter().any(|word| word == "--quick") { 5 } else { 101 };
    let world = World::new(measured_dacapo(env!("CARGO_BIN_EXE_dacapo")))?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    say(&format!("load before the run: {}", load.split(' ').next().unwrap_or("unknown")));
    let commands = ["--version", "status", "why", "receipt"];
    let mut times = commands.map(|_| Vec::with_capacity(rounds));
    // By turns, so that what else the machine does meets all of them.
    for _ in 0..rounds {
        for (command, times) in commands.iter().zip(&mut times) {
            times.push(timed(world.dacapo(&[command])));
        }
    }
    let medians = times.map(median);
    say(&format!("{:<40}{:>10}{:>18}", "figure", "", "of --version"));
    for (command, time) in commands.iter().zip(medians) {
        say(&format!("{:<40}{time:>7.2} ms{:>17.2}x", format!("dacapo {command}"), time / medians[0]));
    }
    Ok(())
}

/// A repository with loops that have ended, each with a receipt.
struct World {
    root: TempDir,
    binary: PathBuf,
}

impl World {
    fn new(binary: PathBuf) -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("dacapo-bench-").tempdir()?;
        let world = Self { root, binary };
        fs::create_dir(world.folder())?;
        fs::write(world.folder().join("README.md"), "A place for work.\n")?;
        fs::write(
            world.root.path().join("agent.sh"),
            "cat >/dev/null\ndate +%N >>work\necho '<promise>DONE</promise>'\n",
        )?;
        for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=Test", "-c", "user.email=test@example.invalid"]);
            assert!(git.args(args).current_dir(world.folder()).status()?.success());
        }
        let agent = format!("sh {}", world.root.path().join("agent.sh").display());
        for _ in 0..LOOPS {
            let run =
                ["run", "do it", "-q", "--gate", "test -s work", "--no-probe", "--gate-in", "workspace"];
            timed(world.dacapo(&[&run[..], &["--tests", "free", "--agent-cmd", &agent]].concat()));
        }
        Ok(world)
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("work")
    }

    fn dacapo(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(args).current_dir(self.folder()).env("DACAPO_HOME", self.root.path().join("state"));
        command
            .env("HOME", self.root.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
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

fn say(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}
