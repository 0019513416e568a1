//! What it costs to read workflow files: time and memory for the worst 64 KiB, and 500 files as they are written.
//!
//! `cargo bench -p dacapo-core --bench workflows`; `docs/performance.md` explains the figures.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a bench looks at the clock and prints")]

use std::{fs, time::Instant};

use dacapo_core::{
    workflow::{
        ParseSettings,
        builtin::{ALL, Builtin},
        catalogue::{WorkflowFile, catalogue},
        command::CommandFailure,
        parse,
    },
    yaml::MAX_BYTES,
};

/// Inputs of 64 KiB that make work: each with a name.
fn inputs() -> Vec<(&'static str, String)> {
    let head = "name: x\ndescription: y\n";
    let full = |start: &str, unit: &dyn Fn(usize) -> String| {
        let mut text = format!("{head}{start}");
        let mut number = 0;
        while text.len() + unit(number).len() < MAX_BYTES {
            text += &unit(number);
            number += 1;
        }
        text
    };
    vec![
        (
            "a long prompt",
            full("loop: {until: X, max_iterations: 1}\nprompt: |\n", &|_| "  Do what is said.\n".to_owned()),
        ),
        (
            "variables",
            full("loop: {until: X, max_iterations: 1}\nprompt: |\n", &|n| {
                format!("  $STEP_{n} $s{n}.output\n")
            }),
        ),
        ("steps in a row", full("steps:\n", &|_| "- bash: make test\n".to_owned())),
        (
            "steps that look at all others",
            full("nodes:\n", &|n| format!("- {{id: s{n}, bash: 'echo $s0.output', depends_on: [s0]}}\n")),
        ),
        ("unknown keys", full("", &|n| format!("k{n}: 1\n"))),
        ("the same key", full("", &|_| "model: a\n".to_owned())),
        ("aliases", full("steps: [", &|_| "*a,".to_owned())),
        ("deep lists", "[".repeat(MAX_BYTES)),
        ("deep maps", "{a: ".repeat(MAX_BYTES / 4)),
        ("dollars", full("loop: {until: X, max_iterations: 1}\nprompt: \"", &|_| "$A".to_owned()) + "\""),
        (
            "promises",
            full("loop: {until: X, max_iterations: 1}\nprompt: '", &|_| "<promise>".to_owned()) + "'",
        ),
        (
            "conditions",
            full("steps:\n- {id: a, bash: x}\n- bash: x\n  when: \"", &|_| "$a.output == 'x' && ".to_owned())
                + "\"",
        ),
        (
            "quotes in scripts",
            full("steps:\n- {id: a, bash: x}\n- bash: |\n", &|_| "    echo '\"$a.output\"' <<E\n".to_owned()),
        ),
    ]
}

/// The most memory that this process ever had, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn main() {
    println!("{:<32}{:>12}{:>14}", "64 KiB of", "time", "more memory");
    let mut slowest = 0.0_f64;
    let begun = peak();
    for (name, text) in inputs() {
        let before = peak();
        let mut times: Vec<f64> = (0..5)
            .map(|_| {
                let begun = Instant::now();
                let parsed = parse(".dacapo/workflows/x.yaml", text.as_bytes(), ParseSettings::default());
                let _ = parsed.problems.iter().map(ToString::to_string).collect::<Vec<_>>();
                begun.elapsed().as_secs_f64() * 1000.0
            })
            .collect();
        times.sort_by(f64::total_cmp);
        slowest = slowest.max(times[2]);
        println!("{name:<32}{:>9.2} ms{:>10} KiB", times[2], peak() - before);
    }
    println!("the slowest {slowest:.1} ms (target 50), all together {} KiB (target 16384)", peak() - begun);

    let text = ALL.iter().find(|Builtin { name, .. }| *name == "ralph").map_or("", |ralph| ralph.text);
    let files: Vec<WorkflowFile> = (0..500)
        .map(|n| WorkflowFile {
            file: format!(".dacapo/workflows/r{n}.yaml"),
            bytes: Ok(text.replace("name: ralph", &format!("name: r{n}")).into_bytes()),
        })
        .collect();
    let begun = Instant::now();
    let found = catalogue(&files, ParseSettings::default(), |name| {
        Err(CommandFailure::NotFound { name: name.to_owned(), searched: Vec::new() })
    });
    println!(
        "{} workflows read and checked in {:.1} ms",
        found.workflows.len(),
        begun.elapsed().as_secs_f64() * 1000.0
    );
}
