//! Where units lie: links, what is no file, and folders elsewhere.

use std::{fs, os::unix::fs::symlink};

use super::{HOSTILE, Hostile, face};
use crate::world::World;

const TASK: &str = "specs/tasks/u/01-step.md";
const PLAN: &str = "specs/tasks/u/IMPLEMENTATION_PLAN.md";

/// Puts a link in place of what is there.
fn link(world: &World, to: &str, at: &str) {
    let at = world.env.workspace().join(at);
    let _ = fs::remove_file(&at);
    symlink(to, at).unwrap();
}

/// A unit in a folder outside of the repository.
fn outside(world: &World) -> String {
    let folder = world.env.root().join("outside/u");
    fs::create_dir_all(&folder).unwrap();
    for file in ["01-step.md", "IMPLEMENTATION_PLAN.md"] {
        fs::copy(world.env.workspace().join("specs/tasks/u").join(file), folder.join(file)).unwrap();
    }
    folder.parent().unwrap().display().to_string()
}

fn mkfifo(world: &World, at: &str) {
    let mut command = world.env.command("mkfifo");
    command.arg(at);
    world.env.run_command(command).assert_code(0);
}

const REFUSED: Hostile = Hostile { exit: 2, ..HOSTILE };

/// fault A13; req 7
const PLACES: &[Hostile] = &[
    Hostile {
        name: "a task that is /etc/passwd",
        make: |w| link(w, "/etc/passwd", TASK),
        says: "01-step.md:1:1: a link",
        ..REFUSED
    },
    Hostile {
        name: "a plan that is /etc/passwd",
        make: |w| link(w, "/etc/passwd", PLAN),
        says: "IMPLEMENTATION_PLAN.md:1:1: a link",
        ..REFUSED
    },
    Hostile {
        name: "a task outside",
        make: |w| link(w, &format!("{}/u/01-step.md", outside(w)), TASK),
        says: "01-step.md:1:1: a link",
        ..REFUSED
    },
    Hostile {
        name: "tasks that are each other",
        make: |w| {
            link(w, "02-step.md", TASK);
            link(w, "01-step.md", "specs/tasks/u/02-step.md");
        },
        says: "02-step.md:1:1: a link",
        ..REFUSED
    },
    Hostile {
        name: "a unit outside",
        make: |w| link(w, &format!("{}/u", outside(w)), "specs/tasks/v"),
        says: "specs/tasks/v:1:1: a link, and links are not followed",
        ..REFUSED
    },
    Hostile {
        name: "a unit that is another",
        make: |w| link(w, "u", "specs/tasks/v"),
        says: "specs/tasks/v:1:1: a link, and links are not followed",
        ..REFUSED
    },
    Hostile {
        name: "a unit that is all units",
        make: |w| link(w, ".", "specs/tasks/v"),
        says: "specs/tasks/v:1:1: a link, and links are not followed",
        ..REFUSED
    },
    Hostile {
        name: "a task that is a pipe",
        plant: |w| {
            fs::remove_file(w.env.workspace().join(TASK)).unwrap();
            mkfifo(w, TASK);
        },
        says: "01-step.md:1:1: not a regular file",
        ..REFUSED
    },
    Hostile {
        name: "a plan that is a pipe",
        plant: |w| {
            fs::remove_file(w.env.workspace().join(PLAN)).unwrap();
            mkfifo(w, PLAN);
        },
        says: "IMPLEMENTATION_PLAN.md:1:1: not a regular file",
        ..REFUSED
    },
    Hostile {
        name: "a unit that is a pipe is none",
        plant: |w| mkfifo(w, "specs/tasks/v"),
        // Nothing that could be committed, so git does not see it either.
        exit: 0,
        ..HOSTILE
    },
    Hostile {
        name: "a folder called like a task",
        make: |w| {
            w.env.write("specs/tasks/u/02-step.md/x", "");
        },
        says: "02-step.md:1:1: not a regular file",
        ..REFUSED
    },
    Hostile {
        name: "a folder called like a plan",
        make: |w| {
            fs::remove_file(w.env.workspace().join(PLAN)).unwrap();
            w.env.write(format!("{PLAN}/x"), "");
        },
        says: "IMPLEMENTATION_PLAN.md:1:1: not a regular file",
        ..REFUSED
    },
    Hostile {
        name: "units above",
        make: |w| {
            outside(w);
            w.config("units: {dir: ../outside}\n");
        },
        says: ".dacapo/config.yaml:1:",
        ..REFUSED
    },
    Hostile {
        name: "units at an absolute path",
        make: |w| {
            let dir = outside(w);
            w.config(&format!("units: {{dir: {dir}}}\n"));
        },
        says: ".dacapo/config.yaml:1:",
        ..REFUSED
    },
    Hostile {
        name: "units behind a link",
        make: |w| {
            let dir = outside(w);
            link(w, &dir, "elsewhere");
            w.config("units: {dir: elsewhere}\n");
        },
        says: "`elsewhere` is refused: it is a link, or lies behind one",
        ..REFUSED
    },
    Hostile {
        name: "units in git's own folder",
        make: |w| {
            w.config("units: {dir: .git/units}\n");
        },
        plant: |w| {
            let git = w.env.workspace().join(".git/units");
            fs::create_dir_all(git.join("u")).unwrap();
            for file in ["01-step.md", "IMPLEMENTATION_PLAN.md"] {
                fs::copy(w.env.workspace().join("specs/tasks/u").join(file), git.join("u").join(file))
                    .unwrap();
            }
        },
        says: ".dacapo/config.yaml:1:",
        ..REFUSED
    },
    Hostile {
        name: "units that are a file",
        make: |w| {
            w.env.write("file", "");
            w.config("units: {dir: file}\n");
        },
        says: "`file` is refused: it is not a folder",
        ..REFUSED
    },
    Hostile {
        name: "an embedded repository in a unit",
        make: |w| {
            w.env.git(["init", "-q", "--bare", "specs/tasks/bare"]);
            let config = w.env.workspace().join("specs/tasks/bare/config");
            let mut text = fs::read_to_string(&config).unwrap();
            text += &format!("[core]\n\tfsmonitor = touch {}\n\tworktree = ..\n", super::canary(w));
            fs::write(config, text).unwrap();
        },
        exit: 0,
        ..HOSTILE
    },
];

#[test]
fn links_and_what_is_no_file_are_refused() {
    face(&PLACES[..PLACES.len() / 2]);
}

#[test]
fn units_lie_in_the_repository() {
    face(&PLACES[PLACES.len() / 2..]);
}
