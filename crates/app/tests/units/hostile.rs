//! Repositories with units that try to get something run, something written elsewhere, or dacapo into trouble.
//!
//! Each is looked at in every way that needs no consent, and then run with it. `consented` is what commands that were
//! agreed to leave behind, `canary` what nobody agreed to.

mod agents;
mod heads;
mod names;
mod places;
mod traps;

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt as _, panic, path::Path};

use dacapo_testkit::{Output, unit_agent};

use crate::world::World;

/// A repository that means ill.
pub(crate) struct Hostile {
    pub(crate) name: &'static str,
    /// Files that are committed, beside those of a good unit `u`.
    pub(crate) make: fn(&World),
    /// What is done to the repository afterwards.
    pub(crate) plant: fn(&World),
    /// What `unit run --trust` exits with.
    pub(crate) exit: i32,
    /// A part of what it says then.
    pub(crate) says: &'static str,
    /// What else has to be true in the end.
    pub(crate) then: fn(&World, &Output),
}

/// What most of them have in common.
pub(crate) const HOSTILE: Hostile =
    Hostile { name: "", make: |_| {}, plant: |_| {}, exit: 0, says: "", then: |_, _| {} };

/// The file that nothing may ever make.
pub(crate) fn canary(world: &World) -> String {
    world.env.root().join("canary").display().to_string()
}

/// A unit whose proof leaves a trace outside, and can be met.
fn good_unit(world: &World) {
    let consented = world.env.root().join("consented");
    let proof = format!("touch {} && test -f done", consented.display());
    world.plan("u", &[]).task("u", 1, &[], &proof, "do: touch done");
}

type Listing = BTreeMap<String, String>;

/// Each path below a folder with what it holds; of large files only their size.
fn listing(root: &Path, is_seen: &dyn Fn(&Path) -> bool) -> Listing {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            if !is_seen(&path) {
                continue;
            }
            let what = if metadata.is_dir() {
                open.push(path.clone());
                "folder".to_owned()
            } else if metadata.is_symlink() {
                format!("link to {}", fs::read_link(&path).unwrap().display())
            } else if metadata.is_file() && metadata.len() < 1 << 16 {
                String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
            } else {
                format!("{:o} {}", metadata.mode(), metadata.len())
            };
            found.insert(path.strip_prefix(root).unwrap().display().to_string(), what);
        }
    }
    found
}

/// Faces each of them, whatever became of those before.
pub(crate) fn face(cases: &[Hostile]) {
    face_all(cases, true);
}

/// Faces each of them without a sandbox, in which they could not do what they do.
pub(crate) fn face_openly(cases: &[Hostile]) {
    face_all(cases, false);
}

fn face_all(cases: &[Hostile], is_held: bool) {
    let is_bad = |case: &&Hostile| panic::catch_unwind(|| face_one(case, is_held)).is_err();
    let bad: Vec<&str> = cases.iter().filter(is_bad).map(|case| case.name).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

/// Looks and runs; panics with the name of the case.
fn face_one(Hostile { name, make, plant, exit, says, then }: &Hostile, is_held: bool) {
    let world = World::new();
    if !is_held {
        world.env.without_sandbox();
    }
    good_unit(&world);
    make(&world);
    world.commit();
    plant(&world);
    let root = world.env.root().to_owned();
    let (state, consented) = (world.env.dacapo_home(), root.join("consented"));
    let is_not_state = |path: &Path| path != state;
    let before = listing(&root, &is_not_state);
    look(&world, name);
    // fault K1: without consent nothing runs, and nothing is written but state.
    assert_eq!(changes(&before, &listing(&root, &is_not_state)), [""; 0], "{name}");

    let is_elsewhere = |path: &Path| path != state && path != world.env.workspace() && path != consented;
    let before = listing(&root, &is_elsewhere);
    let output = world.run(&["-n", "1", "--parallel", "2"]);
    sane(name, &output);
    assert_eq!(output.code, Some(*exit), "{name}: {}{}", output.stdout, output.stderr);
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(said.contains(says), "{name}: no `{says}` in {said}");
    assert_eq!(changes(&before, &listing(&root, &is_elsewhere)), [""; 0], "{name}");
    then(&world, &output);
    assert_eq!(world.env.survivors(), Vec::<u32>::new(), "{name}");
}

/// The paths that differ.
fn changes<'a>(before: &'a Listing, after: &'a Listing) -> Vec<&'a str> {
    let paths = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    paths.filter(|path| before.get(*path) != after.get(*path)).map(String::as_str).collect()
}

/// Everything that needs no consent, and running without it.
fn look(world: &World, name: &str) {
    let agent = unit_agent().display().to_string();
    for args in [
        &["unit", "list"][..],
        &["unit", "check"],
        &["unit", "prompt", "u"],
        &["unit", "run", "--dry-run"],
        &["unit", "run", "--restart-delay", "0s", "--agent-cmd", &agent],
    ] {
        let output = world.env.run(args);
        sane(name, &output);
        let is_run = args.len() > 3;
        assert!(!is_run || matches!(output.code, Some(2 | 4 | 5)), "{name}: {output:#?}");
    }
}

/// It ended by itself, with a code that means something, and in words that cannot move the cursor.
fn sane(name: &str, output: &Output) {
    assert!(matches!(output.code, Some(0 | 1 | 2 | 4 | 5)), "{name}: {output:#?}");
    for text in [&output.stdout, &output.stderr] {
        assert!(!text.contains("panicked") && !text.contains('\u{1b}'), "{name}: {text}");
    }
}
