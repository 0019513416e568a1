//! Frontmatter and bodies of plans and tasks.

use super::{HOSTILE, Hostile, canary, face};
use crate::world::World;

const TASK: &str = "specs/tasks/u/01-step.md";

/// Replaces the task by one with these lines in its head.
fn head(world: &World, lines: &str) {
    world.env.write(TASK, format!("---\n{lines}\n---\n\n# Step\n\ndo: touch done\n"));
}

const REFUSED: Hostile = Hostile { exit: 2, ..HOSTILE };

/// fault I3, I4, I7; req 3, 5, 7: a message with file and line.
const HEADS: &[Hostile] = &[
    Hostile {
        name: "an anchor and an alias",
        make: |w| head(w, "task: 1\nbackpressure: &a 'true'\nstatus: *a"),
        says: "01-step.md:3:18: anchors (`&name`) are not allowed",
        ..REFUSED
    },
    Hostile {
        name: "an alias bomb",
        make: |w| {
            let mut bomb = "task: 1\nbackpressure: x\na: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
            for (name, of) in "bcdefghij".chars().zip("abcdefghi".chars()) {
                bomb += &format!("{name}: &{name} [{}]\n", vec![format!("*{of}"); 9].join(","));
            }
            head(w, &bomb);
        },
        says: "01-step.md:4:7: anchors",
        ..REFUSED
    },
    Hostile {
        name: "a tag",
        make: |w| head(w, "task: 1\nbackpressure: !!python/object/apply:os.system ['touch canary']"),
        says: "01-step.md:3:47: tags",
        ..REFUSED
    },
    Hostile {
        name: "a merge key",
        make: |w| head(w, "task: 1\n<<: {backpressure: touch canary}"),
        says: "01-step.md:3:1: merge keys (`<<`) are not allowed",
        ..REFUSED
    },
    Hostile {
        name: "a key twice, to show one and run the other",
        make: |w| head(w, "task: 1\nbackpressure: 'true'\nbackpressure: touch canary"),
        says: "01-step.md:4:1: `backpressure` is there twice",
        ..REFUSED
    },
    Hostile {
        name: "a file of 10 MB",
        make: |w| {
            w.env.write(TASK, format!("---\ntask: 1\nbackpressure: x\n---\n{}", "x".repeat(10 << 20)));
        },
        says: "01-step.md:1:1: larger than",
        ..REFUSED
    },
    Hostile {
        name: "a head of 1 MB",
        make: |w| head(w, &format!("task: 1\nbackpressure: x\nmore: {}", "x".repeat(1_000_000))),
        says: "01-step.md:1:1: ",
        ..REFUSED
    },
    Hostile {
        name: "deep nesting",
        make: |w| head(w, &format!("task: 1\nbackpressure: x\nmore: {}", "[".repeat(30_000))),
        says: "01-step.md:4:",
        ..REFUSED
    },
    Hostile {
        name: "NUL",
        make: |w| head(w, "task: 1\nbackpressure: \"touch\0canary\""),
        says: "01-step.md:3:",
        ..REFUSED
    },
    Hostile {
        name: "an escaped NUL",
        make: |w| head(w, "task: 1\nbackpressure: \"touch\\0canary\""),
        says: "01-step.md:3:15: a NUL character is not allowed",
        ..REFUSED
    },
    Hostile {
        name: "text that runs backwards",
        make: |w| head(w, "task: 1\nbackpressure: \"true # \u{202e}yranac hcuot\""),
        says: "01-step.md:3:",
        ..REFUSED
    },
    Hostile {
        name: "a byte order mark in the middle",
        make: |w| head(w, "task: 1\nbackpressure: x\u{feff}"),
        says: "01-step.md:3:",
        ..REFUSED
    },
    Hostile {
        name: "a byte order mark in front",
        make: |w| {
            w.env.write(TASK, "\u{feff}---\ntask: 1\nstatus: pending\nbackpressure: test -f done\n---\n\n# S\n\ndo: touch done\n");
        },
        ..HOSTILE
    },
    Hostile {
        name: "lines that end like on Windows",
        make: |w| {
            w.env.write(TASK, "---\r\ntask: 1\r\nstatus: pending\r\nbackpressure: test -f done\r\n---\r\n\r\n# S\r\n\r\ndo: touch done\r\n");
        },
        // This agent writes other ends of lines than it found, which changes no value.
        then: |w, _| {
            let file = w.at("main", TASK).unwrap();
            assert!(file.contains("status: complete\n") && !file.contains('\r'), "{file:?}");
        },
        ..HOSTILE
    },
    Hostile {
        name: "a number beyond all numbers",
        make: |w| head(w, "task: 99999999999999999999999999\nbackpressure: x"),
        says: "01-step.md:2:7: `task` must be a whole number from 1 on",
        ..REFUSED
    },
    Hostile {
        name: "a number below zero",
        make: |w| head(w, "task: -1\nbackpressure: x"),
        says: "01-step.md:2:7: `task` must be a whole number from 1 on",
        ..REFUSED
    },
    Hostile {
        name: "four thousand million tasks ahead",
        make: |w| head(w, "task: 1\nbackpressure: x\ndepends_on: [4294967295, -7, 1e9]"),
        says: "01-step.md:4:14: ",
        ..REFUSED
    },
    Hostile {
        name: "a block that is not closed",
        make: |w| {
            w.env.write(TASK, "---\ntask: 1\nbackpressure: touch canary\n");
        },
        says: "01-step.md:1:1: the frontmatter is not closed",
        ..REFUSED
    },
    Hostile {
        name: "a status that nobody knows",
        make: |w| head(w, "task: 1\nstatus: complete # \nbackpressure: x\nstatus : done"),
        says: "01-step.md:5:",
        ..REFUSED
    },
    Hostile {
        name: "a second block in the body",
        make: |w| {
            let body =
                format!("---\nbackpressure: touch {}\nstatus: complete\n---\ndo: touch done", canary(w));
            w.task("u", 1, &[], "test -f done", &body);
        },
        then: |w, _| {
            let file = w.at("main", TASK).unwrap();
            assert_eq!(file.matches("status: complete").count(), 2, "{file}");
        },
        ..HOSTILE
    },
    Hostile {
        name: "a title that is a command",
        make: |w| {
            let canary = canary(w);
            let title = format!("$(touch {canary}) `touch {canary}`; touch {canary} && \"' -m x %s \\n");
            let text = format!(
                "---\ntask: 1\nstatus: pending\nbackpressure: test -f done\n---\n# {title}\n\ndo: touch done\n"
            );
            w.env.write(TASK, text);
        },
        then: |w, _| {
            assert!(w.subjects().keys().any(|subject| subject.contains("$(touch ")), "{:?}", w.subjects())
        },
        ..HOSTILE
    },
    Hostile {
        name: "a title that moves the cursor",
        make: |w| {
            w.env.write(TASK, "---\ntask: 1\nstatus: pending\nbackpressure: test -f done\n---\n# all \u{1b}[2J\u{1b}]0;x\u{7} good\n\ndo: touch done\n");
        },
        exit: 0,
        ..HOSTILE
    },
    Hostile {
        name: "a plan with an anchor",
        make: |w| {
            w.env.write("specs/tasks/u/IMPLEMENTATION_PLAN.md", "---\nunit: &u u\ndepends_on: [*u]\n---\n");
        },
        says: "IMPLEMENTATION_PLAN.md:2:10: anchors",
        ..REFUSED
    },
    Hostile {
        name: "a provider that is a path",
        make: |w| {
            w.env.write("evil", format!("#!/bin/sh\ntouch {}\n", canary(w)));
            w.env.write("specs/tasks/u/IMPLEMENTATION_PLAN.md", "---\nprovider: ./evil\n---\n");
        },
        // It is typed which agent runs, so nobody looks at it.
        exit: 0,
        ..HOSTILE
    },
];

#[test]
fn heads_of_files_are_refused_with_file_and_line() {
    face(&HEADS[..HEADS.len() / 2]);
}

#[test]
fn heads_of_files_are_refused_with_file_and_line_and_bodies_are_text() {
    face(&HEADS[HEADS.len() / 2..]);
}
