//! Twelve units at once, again and again: worktrees, branches and the checkout get through it.

use crate::world::World;

const UNITS: usize = 12;

// Twenty rounds in four repositories: a test of its own each, since a single one would be too long for a busy machine.

#[test]
fn twelve_units_begin_at_once_in_rounds_1_to_5() {
    five_rounds();
}

#[test]
fn twelve_units_begin_at_once_in_rounds_6_to_10() {
    five_rounds();
}

#[test]
fn twelve_units_begin_at_once_in_rounds_11_to_15() {
    five_rounds();
}

#[test]
fn twelve_units_begin_at_once_in_rounds_16_to_20() {
    five_rounds();
}

/// Four rounds that leave their branches, beside what the user has not committed, and one that merges them.
#[track_caller]
fn five_rounds() {
    // fault H1, H2, H10
    let world = World::new();
    world.env.write("notes.txt", "committed\n");
    world.commit();
    let mut left = 0;
    for round in 0..5 {
        let names: Vec<String> = (0..UNITS).map(|n| format!("r{round}-u{n}")).collect();
        for name in &names {
            let file = format!("{name}.txt");
            world.plan(name, &[]).task(
                name,
                1,
                &[],
                &format!("test -f {file}"),
                &format!("do: echo {name} > {file}"),
            );
        }
        world.env.git(["add", "specs"]);
        world.env.git(["commit", "-qm", "units"]);
        let is_merged = round == 4;
        if is_merged {
            world.env.git(["checkout", "-q", "--", "notes.txt"]);
            world.env.git(["clean", "-qf", "new.txt"]);
        } else {
            // Neither is anybody's business but the user's.
            world.env.write("notes.txt", "my own words\n").write("new.txt", "not added\n");
        }
        let mut extra = vec!["--parallel", "12", "--force"];
        extra.extend((!is_merged).then_some("--no-merge"));
        for name in &names {
            extra.extend(["--unit", name]);
        }
        let output = world.run(&extra).assert_code(0);
        assert!(!output.stdout.contains("warning"), "{}", output.stdout);
        let branches = world.env.git(["branch", "--list", "dacapo/*", "--format=%(refname:short)"]);
        left += if is_merged { 0 } else { UNITS };
        assert_eq!(branches.lines().count(), left, "round {round}: {branches}");
        assert_eq!(world.env.git(["worktree", "list"]).lines().count(), left + 1, "round {round}");
        for name in &names {
            let pattern = format!("dacapo/{name}-*");
            let branch = world.env.git(["branch", "--list", &pattern, "--format=%(refname:short)"]);
            let place = if is_merged { "main" } else { branch.trim() };
            assert_eq!(
                world.at(place, &format!("{name}.txt")).as_deref(),
                Some(&*format!("{name}\n")),
                "{name}"
            );
        }
        let expected = if is_merged { "" } else { " M notes.txt\n?? new.txt\n" };
        assert_eq!(world.env.git(["status", "--porcelain"]), expected, "round {round}");
        if !is_merged {
            assert_eq!(world.env.read("notes.txt"), "my own words\n");
            assert_eq!(world.env.read("new.txt"), "not added\n");
        }
        assert_eq!(world.env.survivors(), Vec::<u32>::new());
    }
}
