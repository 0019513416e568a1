//! What a stage of a task costs beside a single loop: tasks without work through four stages at six slots, and as many single
//! loops six at once.

use std::{fs, io, path::Path, thread};

use dacapo_testkit::zero_agent;
use tempfile::TempDir;

use super::{command, dacapo, disk, median, ms, note, ok, repository, say, turns::timed};

/// How many tasks are worked on at once, and how many single loops.
const SLOTS: u32 = 6;
const STAGES: u32 = 4;
const TARGET: f64 = 1.3;
const PROMISES: &str = "IMPLEMENTATION_COMPLETE,REVIEW_COMPLETE,TESTS_COMPLETE,QA_PASSED";

/// Tasks and single loops in turns.
pub(super) fn measure(is_quick: bool) -> io::Result<()> {
    let (rounds, tasks) = if is_quick { (1, 24) } else { (3, 200) };
    say(&format!("{:<34}{:>12}{:>12}{:>12}{:>12}", "figure", "task run", "beside it", "value", "target"));
    let mut times: [Vec<(f64, f64)>; 2] = Default::default();
    for round in 0..rounds {
        let world = World::new(tasks)?;
        // The side that goes second finds a warmer machine, so the sides swap each round.
        for side in [round % 2, 1 - round % 2] {
            let time = if side == 0 { world.task_run() } else { world.single_loops() };
            let (name, (wall, cpu)) = (["task run", "beside it"][side], time);
            note(&format!("round {round}, {tasks} tasks, {name}: {wall:.2} s, CPU {cpu:.2} s"));
            times[side].push(time);
        }
    }
    let each = |of: fn(&(f64, f64)) -> f64, times: &[(f64, f64)]| {
        median(times.iter().map(of).collect()) * 1e3 / f64::from(tasks * STAGES)
    };
    for (what, of) in [("wall clock", (|time| time.0) as fn(&(f64, f64)) -> f64), ("CPU", |time| time.1)] {
        let (stage, single) = (each(of, &times[0]), each(of, &times[1]));
        let value = stage / single;
        let verdict = if value <= TARGET { "met" } else { "missed" };
        say(&format!(
            "{:<34}{:>12}{:>12}{:>12}{:>12}  {verdict}",
            format!("a stage, {SLOTS} slots, {what}"),
            ms(stage),
            ms(single),
            format!("{value:.2}x"),
            format!("≤ {TARGET:.2}x")
        ));
    }
    Ok(())
}

/// A repository with tasks, and one worktree for each single loop that runs at once.
struct World {
    root: TempDir,
    trees: TempDir,
    state: TempDir,
    tasks: u32,
}

impl World {
    fn new(tasks: u32) -> io::Result<Self> {
        let folder = || tempfile::Builder::new().prefix("dacapo-bench-").tempdir();
        let world = Self { root: folder()?, trees: folder()?, state: disk()?, tasks };
        let root = world.root.path();
        fs::write(root.join("README.md"), "hello\n")?;
        fs::create_dir_all(root.join(".dacapo/tasks"))?;
        // An agent without work makes no commit.
        fs::write(root.join(".dacapo/config.yaml"), "ralph: {verify_promises: false}\n")?;
        for task in 1..=tasks {
            let text =
                format!("---\nid: TASK-{task:03}\ntitle: Nothing {task}\nstatus: todo\n---\nNothing.\n");
            fs::write(root.join(format!(".dacapo/tasks/TASK-{task:03}.md")), text)?;
        }
        repository(root);
        for slot in 0..SLOTS {
            let (tree, branch) = (world.tree(slot), format!("single-{slot}"));
            ok(command("git").args(["worktree", "add", "-q", "-b", &branch]).arg(&tree).current_dir(root));
            // A home that has seen a loop there.
            world.single_loop(&tree);
        }
        Ok(world)
    }

    fn tree(&self, slot: u32) -> std::path::PathBuf {
        self.trees.path().join(format!("tree-{slot}"))
    }

    /// Seconds, wall clock and CPU, of one run of all tasks.
    fn task_run(&self) -> (f64, f64) {
        let mut command = dacapo(self.state.path());
        command.args(["task", "run", "-q", "--trust", "--slots", &SLOTS.to_string(), "--agent-cmd"]);
        command.arg(format!("{} promises {PROMISES}", zero_agent().display()));
        command.current_dir(self.root.path());
        timed(|| ok(&mut command))
    }

    fn single_loop(&self, tree: &Path) {
        let mut command = dacapo(self.state.path());
        command.args(["run", "Nothing.", "-q", "--agent-cmd"]);
        command.arg(format!("{} promise", zero_agent().display())).current_dir(tree);
        ok(&mut command);
    }

    /// The same of a single loop for each stage.
    fn single_loops(&self) -> (f64, f64) {
        timed(|| {
            thread::scope(|scope| {
                for slot in 0..SLOTS {
                    let all = self.tasks * STAGES;
                    let share = all / SLOTS + u32::from(slot < all % SLOTS);
                    scope.spawn(move || {
                        let tree = self.tree(slot);
                        (0..share).for_each(|_| self.single_loop(&tree));
                    });
                }
            });
        })
    }
}
