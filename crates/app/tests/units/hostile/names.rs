//! Names of units, folders and files.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt as _};

use super::{HOSTILE, Hostile, canary, face};
use crate::world::World;

/// A unit in a folder of this name.
fn folder(world: &World, name: &str) {
    world.env.write(format!("specs/tasks/{name}/IMPLEMENTATION_PLAN.md"), "# Plan\n");
    let text = format!(
        "---\ntask: 1\nstatus: pending\nbackpressure: test -f {name}.txt\n---\n\n# Step\n\ndo: touch {name}.txt\n"
    );
    world.env.write(format!("specs/tasks/{name}/01-step.md"), text);
}

/// The good unit's plan, with this name for it.
fn called(world: &World, name: &str) {
    let text = format!("---\nunit: {name}\n---\n");
    world.env.write("specs/tasks/u/IMPLEMENTATION_PLAN.md", text);
}

const REFUSED: Hostile = Hostile { exit: 2, says: "is not a valid unit id", ..HOSTILE };

/// fault I5
const NAMES: &[Hostile] = &[
    Hostile { name: "up and away", make: |w| called(w, "../../../canary"), ..REFUSED },
    Hostile { name: "two dots", make: |w| called(w, ".."), ..REFUSED },
    Hostile { name: "two dots within", make: |w| called(w, "a..b"), ..REFUSED },
    Hostile { name: "an absolute path", make: |w| called(w, "/tmp/canary"), ..REFUSED },
    Hostile { name: "an option", make: |w| called(w, "--upload-pack=touch"), ..REFUSED },
    Hostile { name: "git's own folder", make: |w| called(w, ".git"), ..REFUSED },
    Hostile { name: "a lock", make: |w| called(w, "u.lock"), ..REFUSED },
    Hostile { name: "at the end a dot", make: |w| called(w, "u."), ..REFUSED },
    Hostile { name: "a new line", make: |w| called(w, "\"u\\nv\""), says: ":2:7: ", ..REFUSED },
    Hostile { name: "escaped dots", make: |w| called(w, "'%2e%2e%2fcanary'"), ..REFUSED },
    Hostile { name: "Unicode that looks like a letter", make: |w| called(w, "\u{430}uth"), ..REFUSED },
    Hostile { name: "300 characters", make: |w| called(w, &"x".repeat(300)), ..REFUSED },
    Hostile { name: "an option as folder", make: |w| folder(w, "-rf"), ..REFUSED },
    Hostile { name: "a lock as folder", make: |w| folder(w, "x.lock"), ..REFUSED },
    Hostile { name: "a long folder", make: |w| folder(w, &"x".repeat(250)), ..REFUSED },
    Hostile { name: "a folder with a new line", make: |w| folder(w, "x\ny"), ..REFUSED },
    Hostile { name: "a folder with a sequence", make: |w| folder(w, "x\u{1b}[2Jy"), ..REFUSED },
    Hostile { name: "a folder that is a command", make: |w| folder(w, "$(touch canary)"), ..REFUSED },
    Hostile { name: "a folder that looks like another", make: |w| folder(w, "\u{fd75}u"), ..REFUSED },
    Hostile {
        name: "a folder that is no text",
        make: |w| {
            folder(w, "x");
            let units = w.env.workspace().join("specs/tasks");
            fs::rename(units.join("x"), units.join(OsStr::from_bytes(b"x\xff\xfe"))).unwrap();
        },
        says: "specs/tasks/x",
        ..REFUSED
    },
    Hostile {
        name: "the same name twice",
        make: |w| {
            folder(w, "x");
            w.env.write("specs/tasks/x/IMPLEMENTATION_PLAN.md", "---\nunit: u\n---\n");
        },
        says: "IMPLEMENTATION_PLAN.md:2:7: a unit is called `u` already",
        ..REFUSED
    },
    Hostile {
        name: "names that others are made of",
        make: |w| {
            for name in ["HEAD", "u-2", "merged-x", "main"] {
                folder(w, name);
            }
        },
        exit: 0,
        then: |w, _| assert!(w.at("main", "done").is_some() && w.at("main", "merged-x.txt").is_some()),
        says: "5 units merged",
        ..HOSTILE
    },
    Hostile {
        name: "a task file whose name is a command",
        make: |w| {
            fs::remove_file(w.env.workspace().join("specs/tasks/u/01-step.md")).unwrap();
            let canary = canary(w).replace('/', "\u{2044}");
            let name = format!("specs/tasks/u/01-a b' \"; touch {canary}; $(touch x) -- *.md");
            w.env.write(
                name,
                "---\ntask: 1\nstatus: pending\nbackpressure: test -f done\n---\n\n# S\n\ndo: touch done\n",
            );
        },
        exit: 0,
        then: |w, _| assert!(w.at("main", "done").is_some() && w.at("main", "x").is_none()),
        ..HOSTILE
    },
    Hostile {
        name: "a task file whose name holds a new line",
        make: |w| {
            w.env.write("specs/tasks/u/02-a\n  file: x.md", "---\ntask: 2\nbackpressure: x\n---\n");
        },
        says: "the name holds a character that cannot be seen",
        ..REFUSED
    },
];

#[test]
fn names_lead_nowhere() {
    face(&NAMES[..NAMES.len() / 2]);
}

#[test]
fn names_of_folders_and_files_lead_nowhere() {
    face(&NAMES[NAMES.len() / 2..]);
}
