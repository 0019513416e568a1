//! What a task of a unit costs beside a single loop that commits and a commit by hand.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Instant,
};

use dacapo_testkit::unit_agent;
use tempfile::TempDir;

use super::{command, dacapo, disk, median, ms, note, ok, repository, say, task};

/// Tasks of a unit.
const TASKS: u32 = 10;
/// Files beside those of units.
const FILES: u32 = 200;
const TARGET: f64 = 1.3;

/// One, four and sixteen units at once, and the same number of single loops at once, in turns.
pub(super) fn measure(is_quick: bool) -> io::Result<()> {
    let rounds = if is_quick { 1 } else { 5 };
    let at_once: &[u32] = if is_quick { &[1, 4] } else { &[1, 4, 16] };
    say(&format!("{:<34}{:>12}{:>12}{:>12}{:>12}", "figure", "unit run", "beside it", "value", "target"));
    let mut times: Vec<[Vec<(f64, f64)>; 2]> = at_once.iter().map(|_| Default::default()).collect();
    for round in 0..rounds {
        for (many, times) in at_once.iter().zip(&mut times) {
            let world = World::new(*many)?;
            // The side that goes second finds a warmer machine, so the sides swap each round.
            for side in [round % 2, 1 - round % 2] {
                let time = if side == 0 { world.unit_run() } else { world.single_loops() };
                let (side_name, (wall, cpu)) = (["unit run", "beside it"][side], time);
                note(&format!("round {round}, {many} at once, {side_name}: {wall:.2} s, CPU {cpu:.2} s"));
                times[side].push(time);
            }
        }
    }
    for (many, [units, loops]) in at_once.iter().zip(times) {
        let each = |of: fn(&(f64, f64)) -> f64, times: &[(f64, f64)]| {
            median(times.iter().map(of).collect()) * 1e3 / f64::from(many * TASKS)
        };
        for (what, of) in [("wall clock", (|time| time.0) as fn(&(f64, f64)) -> f64), ("CPU", |time| time.1)]
        {
            let (units, loops) = (each(of, &units), each(of, &loops));
            let value = units / loops;
            let verdict = if value <= TARGET { "met" } else { "missed" };
            say(&format!(
                "{:<34}{:>12}{:>12}{:>12}{:>12}  {verdict}",
                format!("a task, {many} at once, {what}"),
                ms(units),
                ms(loops),
                format!("{value:.2}x"),
                format!("≤ {TARGET:.2}x")
            ));
        }
    }
    Ok(())
}

/// A repository with units to run, and worktrees for single loops on the same task files.
struct World {
    root: TempDir,
    trees: TempDir,
    state: TempDir,
    many: u32,
}

impl World {
    fn new(many: u32) -> io::Result<Self> {
        let folder = || tempfile::Builder::new().prefix("dacapo-bench-").tempdir();
        let world = Self { root: folder()?, trees: folder()?, state: disk()?, many };
        let root = world.root.path();
        for n in 0..FILES {
            let file = root.join(format!("src/{}/file-{n}", n / 50));
            fs::create_dir_all(file.parent().unwrap_or(root))?;
            fs::write(file, format!("file {n}\n").repeat(50))?;
        }
        for unit in 0..many {
            let folder = root.join(format!("specs/tasks/unit-{unit:02}"));
            fs::create_dir_all(&folder)?;
            fs::write(
                folder.join("IMPLEMENTATION_PLAN.md"),
                format!("---\nunit: unit-{unit:02}\n---\n# Plan\n"),
            )?;
            for number in 1..=TASKS {
                fs::write(folder.join(format!("{number:02}-part.md")), task(number, "\"true\"", "Words.\n"))?;
            }
        }
        repository(root);
        for unit in 0..many {
            let (tree, branch) = (world.tree(unit), format!("single-{unit}"));
            let mut git = command("git");
            ok(git.args(["worktree", "add", "-q", "-b", &branch]).arg(&tree).current_dir(root));
            // A home that has seen a loop there.
            single_loop(world.state.path(), &tree, "PROMPT-0", &world.prompt(unit, TASKS, "PROMPT-0")?);
            ok(command("git").args(["reset", "-q", "--hard", "main"]).current_dir(&tree));
        }
        Ok(world)
    }

    fn tree(&self, unit: u32) -> PathBuf {
        self.trees.path().join(format!("tree-{unit}"))
    }

    /// A prompt that names the file of a task as those of units do.
    fn prompt(&self, unit: u32, number: u32, name: &str) -> io::Result<PathBuf> {
        let file = self.trees.path().join(format!("{name}-{unit}"));
        fs::write(&file, format!("Complete it:\n  file: specs/tasks/unit-{unit:02}/{number:02}-part.md\n"))?;
        Ok(file)
    }

    /// Seconds, wall clock and CPU, of one run of all units.
    fn unit_run(&self) -> (f64, f64) {
        let parallel = self.many.to_string();
        let mut command = dacapo(self.state.path());
        command.args([
            "unit",
            "run",
            "-q",
            "--trust",
            "--no-merge",
            "--restart-delay",
            "0",
            "--parallel",
            &parallel,
        ]);
        command.arg("--agent-cmd").arg(agent()).current_dir(self.root.path());
        timed(|| ok(&mut command))
    }

    /// The same of a loop and a commit by hand for each task, in as many worktrees at once.
    fn single_loops(&self) -> (f64, f64) {
        let prompts: Vec<Vec<PathBuf>> = (0..self.many)
            .map(|unit| {
                let prompt = |number: u32| self.prompt(unit, number, &format!("PROMPT-{number}"));
                (1..=TASKS).map(|number| prompt(number).expect("a prompt")).collect()
            })
            .collect();
        timed(|| {
            thread::scope(|scope| {
                for (unit, prompts) in (0..self.many).zip(&prompts) {
                    scope.spawn(move || {
                        let tree = self.tree(unit);
                        for (number, prompt) in (1..).zip(prompts) {
                            single_loop(self.state.path(), &tree, &format!("t{unit}-{number}"), prompt);
                            fs::write(tree.join("by-hand"), format!("{number}\n")).expect("a file");
                            ok(command("git").args(["add", "-A"]).current_dir(&tree));
                            ok(command("git").args(["commit", "-q", "-m", "by hand"]).current_dir(&tree));
                        }
                    });
                }
            });
        })
    }
}

/// One loop that claims, is checked by one gate, and is committed.
fn single_loop(home: &Path, tree: &Path, name: &str, prompt: &Path) {
    let mut command = dacapo(home);
    command.args([
        "run",
        "-q",
        "--trust",
        "--commit",
        "--gate",
        "true",
        "--restart-delay",
        "0",
        "-n",
        "3",
        "--task",
    ]);
    command.arg(name).arg("-P").arg(prompt).arg("--agent-cmd").arg(agent()).current_dir(tree);
    ok(&mut command);
}

/// An agent that writes one small file and claims.
fn agent() -> String {
    format!("{} least", unit_agent().display())
}

/// Seconds of wall clock, and of CPU of everything that was started.
pub(super) fn timed(run: impl FnOnce()) -> (f64, f64) {
    let (began, before) = (Instant::now(), cpu_of_children());
    run();
    (began.elapsed().as_secs_f64(), cpu_of_children() - before)
}

/// User and system time of every descendant that has been waited for.
fn cpu_of_children() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("our own times");
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        after_name.split_whitespace().skip(13).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}
