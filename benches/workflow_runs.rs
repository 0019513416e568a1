//! What running workflows costs: starting one beside starting a loop, a step beside the loop that it is, and many files.
//!
//! `cargo bench -p dacapo --bench workflow_runs [-- [--quick] [start] [steps] [many]]`; `docs/performance.md` explains the
//! figures.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use dacapo_testkit::{measured_dacapo, zero_agent};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

fn dacapo_binary() -> PathBuf {
    measured_dacapo(env!("CARGO_BIN_EXE_dacapo"))
}
/// Steps of the long workflow beyond the first.
const STEPS: usize = 10;
const FILES: usize = 500;

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|other| other == word);
    let is_wanted = |word: &str| has(word) || !["start", "steps", "many"].iter().any(|known| has(known));
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    say(&format!("load before the run: {}", load.split(' ').next().unwrap_or("unknown")));
    say(&format!("{:<44}{:>12}{:>12}{:>16}{:>12}", "figure", "workflow", "beside it", "value", "target"));
    let rounds = if has("--quick") { 5 } else { 31 };
    let world = World::new()?;
    if is_wanted("start") {
        start(&world, rounds);
    }
    if is_wanted("steps") {
        steps(&world, rounds);
    }
    if is_wanted("many") {
        many(rounds.min(9))?;
    }
    Ok(())
}

/// From starting the command to the agent's first instruction.
fn start(world: &World, rounds: usize) {
    let (mut workflow, mut single) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        workflow.push(world.first_act(&mut world.workflow("one")));
        single.push(world.first_act(&mut world.single()));
    }
    let (workflow, single) = (median(workflow), median(single));
    row("start to first agent", workflow, single, workflow - single, "ms more", 5.0);
}

/// A step that is a loop of one iteration, beside `dacapo run` of the same.
fn steps(world: &World, rounds: usize) {
    let (mut one, mut all, mut single) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds.min(15) {
        one.push(timed(&mut world.workflow("one")));
        single.push(timed(&mut world.single()));
        all.push(timed(&mut world.workflow("all")));
    }
    let (one, all, single) = (median(one), median(all), median(single));
    let step = (all - one) / STEPS as f64;
    row("a step beside the loop that it is", step, single, step / single, "x", 1.2);
    row("a workflow of one step beside that loop", one, single, one / single, "x", 1.2);
}

/// Finding, reading and checking many files.
fn many(rounds: usize) -> io::Result<()> {
    let root = tempfile::Builder::new().prefix("dacapo-bench-").tempdir()?;
    let folder = root.path().join(".dacapo/workflows");
    fs::create_dir_all(&folder)?;
    for number in 0..FILES {
        let words = "  What the agent is to do, in a sentence as people write them.\n".repeat(20);
        let text = format!(
            "name: w{number}\ndescription: one of many\nsteps:\n- id: plan\n  prompt: |\n  {words}- id: fix\n  loop:\n    until: DONE\n    until_bash: make test\n    max_iterations: 9\n    prompt: Fix $plan.output\n- id: ask\n  approval: May it stay?\n"
        )
        .replace("\n  What", "\n    What");
        fs::write(folder.join(format!("w{number}.yaml")), text)?;
    }
    let state = disk()?;
    let (mut list, mut check) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        list.push(timed(dacapo(state.path()).args(["workflow", "list"]).current_dir(root.path())));
        check.push(timed(dacapo(state.path()).args(["workflow", "check"]).current_dir(root.path())));
    }
    let (list, check) = (median(list), median(check));
    row("500 workflows listed, and checked", list, check, list + check, "ms", 300.0);
    Ok(())
}

/// A small repository with a workflow of one step and one of many, and where its state lies.
struct World {
    root: TempDir,
    /// On a disk whose syncs are real.
    state: TempDir,
    stamp: PathBuf,
}

impl World {
    fn new() -> io::Result<Self> {
        let (root, state) = (disk()?, disk()?);
        let folder = root.path().join(".dacapo/workflows");
        fs::create_dir_all(&folder)?;
        for (name, steps) in [("one", 1), ("all", 1 + STEPS)] {
            let step = "- loop: {prompt: work, until: DONE, max_iterations: 1}\n".repeat(steps);
            fs::write(
                folder.join(format!("{name}.yaml")),
                format!("name: {name}\ndescription: d\nsteps:\n{step}"),
            )?;
        }
        fs::write(root.path().join("file"), "text\n")?;
        for args in [
            &["init", "-q"][..],
            &["config", "user.name", "Bench"],
            &["config", "user.email", "bench@example.invalid"],
            &["add", "-A"],
            &["commit", "-q", "-m", "files"],
        ] {
            timed(command("git").args(args).current_dir(root.path()));
        }
        let stamp = state.path().join("stamp");
        Ok(Self { root, state, stamp })
    }

    fn agent(&self) -> String {
        format!("{} stamp {} promise", zero_agent().display(), self.stamp.display())
    }

    fn workflow(&self, name: &str) -> Command {
        let mut command = dacapo(self.state.path());
        command.args([
            "workflow",
            "run",
            name,
            "--trust",
            "--restart-delay",
            "0s",
            "--agent-cmd",
            &self.agent(),
        ]);
        command.current_dir(self.root.path());
        command
    }

    fn single(&self) -> Command {
        let mut command = dacapo(self.state.path());
        command.args([
            "run",
            "work",
            "-n",
            "1",
            "--trust",
            "--restart-delay",
            "0s",
            "--agent-cmd",
            &self.agent(),
        ]);
        command.current_dir(self.root.path());
        command
    }

    fn first_act(&self, command: &mut Command) -> f64 {
        let now = clock_gettime(ClockId::Monotonic);
        let began = now.tv_sec * 1_000_000_000 + now.tv_nsec;
        timed(command);
        let acted: i64 = fs::read_to_string(&self.stamp).expect("a stamp").parse().expect("a number");
        (acted - began) as f64 / 1e6
    }
}

/// A folder where builds go: on a disk whose syncs are real, which `/tmp` may not be.
fn disk() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))
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

/// Milliseconds of a command that must succeed.
fn timed(command: &mut Command) -> f64 {
    let began = Instant::now();
    let status = command.status().expect("a program that can be started");
    assert!(status.success(), "{command:?}: {status}");
    began.elapsed().as_secs_f64() * 1e3
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn row(what: &str, own: f64, beside: f64, value: f64, unit: &str, target: f64) {
    let verdict = if value <= target { "met" } else { "missed" };
    say(&format!(
        "{what:<44}{:>12}{:>12}{:>16}{:>12}  {verdict}",
        format!("{own:.1} ms"),
        format!("{beside:.1} ms"),
        format!("{value:.2} {unit}"),
        format!("≤ {target}")
    ));
}

fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
