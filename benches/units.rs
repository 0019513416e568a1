//! What units cost: finding and checking many of them, and a task beside a single loop; and a stage of a task beside one.
//!
//! `cargo bench -p dacapo --bench units [-- [--quick] [many] [tasks] [stages]]`; `docs/performance.md` explains the figures.

mod stages;
mod turns;

use std::{
    ffi::OsStr,
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use dacapo_testkit::{measured_dacapo, zero_agent};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

fn dacapo_binary() -> PathBuf {
    measured_dacapo(env!("CARGO_BIN_EXE_dacapo"))
}
const TASKS: u32 = 10;
/// Units of the small and the large repository.
const SIZES: [u32; 2] = [500, 1_000];

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|other| other == word);
    let is_wanted = |word: &str| has(word) || !["many", "tasks", "stages"].into_iter().any(has);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    say(&format!("load before the run: {}", load.split(' ').next().unwrap_or("unknown")));
    if is_wanted("many") {
        many(if has("--quick") { 3 } else { 9 })?;
    }
    if is_wanted("tasks") {
        turns::measure(has("--quick"))?;
    }
    if is_wanted("stages") {
        stages::measure(has("--quick"))?;
    }
    Ok(())
}

/// Commands and the first decision, with 500 and with 1,000 units in turns.
fn many(rounds: usize) -> io::Result<()> {
    let [small, large] = [Many::new(SIZES[0])?, Many::new(SIZES[1])?];
    let mut all = 0.0;
    say(&format!("{:<34}{:>12}{:>12}{:>12}", "figure", "10,000", "5,000", "value"));
    for (what, measure) in [
        ("unit list", (|many| many.timed(&["list"])) as fn(&Many) -> f64),
        ("unit check", |many| many.timed(&["check"])),
        ("unit run, first decision recorded", Many::first_decision),
        ("unit run --dry-run", |many| many.timed(&["run", "--dry-run"])),
    ] {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (many, times) in [&small, &large].into_iter().zip(&mut times) {
                times.push(measure(many));
            }
        }
        let [half, whole] = times.map(median);
        if what != "unit run --dry-run" {
            all += whole;
        }
        say(&format!("{what:<34}{:>12}{:>12}{:>12}", ms(whole), ms(half), format!("{:.2}x", whole / half)));
    }
    let verdict = if all <= 1_000.0 { "met" } else { "missed" };
    say(&format!(
        "{:<34}{:>12}{:>12}{:>12}  {verdict}",
        "the first three together",
        ms(all),
        "",
        "≤ 1000 ms"
    ));
    Ok(())
}

/// A repository with many units, each with ten tasks.
struct Many {
    root: TempDir,
    /// On a disk whose syncs are real.
    state: TempDir,
}

impl Many {
    fn new(units: u32) -> io::Result<Self> {
        let many = Self { root: tempfile::Builder::new().prefix("dacapo-bench-").tempdir()?, state: disk()? };
        lay_out(many.root.path(), units)?;
        repository(many.root.path());
        // A home that has seen a run of all of them: listing units looks there.
        many.first_decision();
        Ok(many)
    }

    /// Milliseconds of a command.
    fn timed(&self, args: &[&str]) -> f64 {
        let mut command = dacapo(self.state.path());
        command.arg("unit").args(args).current_dir(self.root.path());
        let began = Instant::now();
        ok(&mut command);
        began.elapsed().as_secs_f64() * 1e3
    }

    /// Milliseconds from the start of a run until it says that its first job is decided upon, which it does when that is
    /// in the journal. Then it is told to end.
    fn first_decision(&self) -> f64 {
        let mut command = dacapo(self.state.path());
        command.args(["unit", "run", "--trust", "--json", "--parallel", "1", "--no-merge", "--agent-cmd"]);
        command.arg(format!("{} stay", zero_agent().display()));
        command.current_dir(self.root.path()).stdout(Stdio::piped());
        let began = Instant::now();
        let mut run = command.spawn().expect("dacapo");
        let mut lines = BufReader::new(run.stdout.take().expect("its output")).lines();
        let is_decided =
            |line: &io::Result<String>| line.as_ref().is_ok_and(|line| line.contains("\"unit.started\""));
        let decided = lines.by_ref().any(|line| is_decided(&line)).then(|| began.elapsed());
        if let Some(pid) = Pid::from_raw(run.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        lines.for_each(drop);
        let _ = run.wait();
        decided.expect("a unit that is started").as_secs_f64() * 1e3
    }
}

/// Units that each depend on one before them, with tasks in a chain.
fn lay_out(root: &Path, many: u32) -> io::Result<()> {
    for unit in 0..many {
        let folder = root.join(format!("specs/tasks/unit-{unit:04}"));
        fs::create_dir_all(&folder)?;
        let depends_on = if unit % 10 == 0 { String::new() } else { format!("unit-{:04}", unit - 1) };
        let plan = format!("---\nunit: unit-{unit:04}\ndepends_on: [{depends_on}]\n---\n# Plan\n");
        fs::write(folder.join("IMPLEMENTATION_PLAN.md"), plan)?;
        for number in 1..=TASKS {
            let words = "What is to be done, in a sentence as people write them.\n".repeat(20);
            let proof = format!("cargo test -p part{unit} task{number}");
            fs::write(folder.join(format!("{number:02}-part.md")), task(number, &proof, &words))?;
        }
    }
    Ok(())
}

/// The file of a task that comes after the one before it.
fn task(number: u32, proof: &str, words: &str) -> String {
    let depends_on = if number == 1 { String::new() } else { (number - 1).to_string() };
    format!(
        "---\ntask: {number}\nstatus: pending\nbackpressure: {proof}\ndepends_on: [{depends_on}]\n---\n\n# Part {number}\n\n{words}"
    )
}

/// Makes a repository of a folder, with everything committed.
fn repository(root: &Path) {
    for args in [
        &["init", "-q", "-b", "main"][..],
        &["config", "user.name", "Bench"],
        &["config", "user.email", "bench@example.invalid"],
        &["add", "-A"],
        &["commit", "-q", "-m", "units"],
    ] {
        ok(command("git").args(args).current_dir(root));
    }
}

/// A folder where builds go, on a disk whose syncs are real, which `/tmp` may not be; or where `DACAPO_BENCH_DISK` says, to measure
/// another file system. Repositories lie in `TMPDIR`.
fn disk() -> io::Result<TempDir> {
    let chosen = std::env::var_os("DACAPO_BENCH_DISK");
    let folder = chosen.unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    tempfile::Builder::new().prefix("bench-").tempdir_in(folder)
}

fn dacapo(home: &Path) -> Command {
    let mut command = command(dacapo_binary());
    command.env("DACAPO_HOME", home).env("XDG_CONFIG_HOME", home);
    command
}

/// A program with nothing of a loop that this benchmark may itself run in.
fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("DACAPO_")) {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn ok(command: &mut Command) {
    let status = command.status().expect("a program that can be started");
    assert!(status.success(), "{command:?}: {status}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn ms(value: f64) -> String {
    format!("{value:.1} ms")
}

fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
