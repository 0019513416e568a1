//! How long it takes to find and check units and to decide what is first: 1,000 units with 10,000 tasks, and half of
//! that, which should take half as long.
//!
//! `cargo bench -p dacapo --bench units`

use std::{
    fs,
    hint::black_box,
    io::{self, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use dacapo_core::unit::{Unit, graph};
use dacapo_engine::units;

const TURNS: usize = 5;
const TASKS: u32 = 10;

fn main() -> io::Result<()> {
    let mut whole = 0.0;
    for many in [500, 1000] {
        let dir = tempfile::tempdir()?;
        lay_out(dir.path(), many)?;
        let seconds = best(|| decide(dir.path(), many));
        say(&format!("{:>44}: {:>6.1} ms", format!("{many} units: find, check, decide"), seconds * 1e3));
        if many == 1000 {
            whole = seconds;
        }
        for command in ["list", "check"] {
            let seconds = best(|| run(dir.path(), command));
            say(&format!(
                "{:>44}: {:>6.1} ms",
                format!("{many} units: `dacapo unit {command}`"),
                seconds * 1e3
            ));
            if many == 1000 {
                whole += seconds;
            }
        }
    }
    let verdict = if whole <= 1.0 { "within" } else { "ABOVE" };
    say(&format!(
        "{:>44}: {:>6.1} ms, {verdict} the goal of 1 s",
        "1000 units, all three together",
        whole * 1e3
    ));
    Ok(())
}

/// Units that each depend on one before them, with tasks in a chain.
fn lay_out(root: &Path, many: u32) -> io::Result<()> {
    for unit in 0..many {
        let folder = root.join(format!("specs/tasks/unit-{unit:04}"));
        fs::create_dir_all(&folder)?;
        let depends_on = if unit % 10 == 0 { String::new() } else { format!("unit-{:04}", unit - 1) };
        let plan = format!("---\nunit: unit-{unit:04}\ndepends_on: [{depends_on}]\n---\n# Plan\n");
        fs::write(folder.join("IMPLEMENTATION_PLAN.md"), plan)?;
        for task in 1..=TASKS {
            let depends_on = if task == 1 { String::new() } else { (task - 1).to_string() };
            let text = format!(
                "---\ntask: {task}\nstatus: pending\nbackpressure: cargo test -p part{unit} task{task}\ndepends_on: [{depends_on}]\n---\n\n# Part {task}\n\n{}",
                "What is to be done, in a sentence as people write them.\n".repeat(20)
            );
            fs::write(folder.join(format!("{task:02}-part.md")), text)?;
        }
    }
    Ok(())
}

fn decide(root: &Path, many: u32) {
    let checked = units::discover(root, "specs/tasks").expect("units");
    assert!(checked.problems.is_empty() && checked.units.len() == many as usize, "{:?}", checked.problems);
    let levels = graph::levels(&checked.units);
    let first = |unit: &Unit| graph::standing(&unit.tasks);
    black_box((levels, checked.units.iter().map(first).collect::<Vec<_>>()));
}

fn run(root: &Path, command: &str) {
    let status = Command::new(env!("CARGO_BIN_EXE_dacapo"))
        .args(["unit", command])
        .current_dir(root)
        .env("DACAPO_HOME", root.join("state"))
        .env("XDG_CONFIG_HOME", root)
        .stdout(Stdio::null())
        .status()
        .expect("dacapo");
    assert!(status.success());
}

/// Seconds of the best turn, so that a busy machine tells the same.
fn best(mut turn: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..TURNS {
        let began = Instant::now();
        turn();
        best = best.min(began.elapsed().as_secs_f64());
    }
    best
}

fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
