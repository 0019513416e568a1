//! Tasks whose agents do what they should not.

use std::fs;

use dacapo_testkit::Output;

use super::{HOSTILE, Hostile, canary, face, face_openly};
use crate::world::World;

/// The good unit's task, done like this; and another unit `v` that is none of its business.
fn does(world: &World, body: &str) {
    let body = body
        .replace("MAIN", &world.env.workspace().display().to_string())
        .replace("ROOT", &world.env.root().display().to_string())
        .replace("CANARY", &format!("touch {}", canary(world)));
    world.task("u", 1, &[], "test -f done", &body);
    world.plan("v", &[]).task("v", 1, &[], "test -f v", "do: touch v");
}

/// The unit's claim was refused, and nothing of it is in the target.
fn refused(world: &World, _: &Output) {
    let events = world.env.events(None);
    let refusal = events.iter().find(|event| event["type"] == "claim_refused");
    assert!(refusal.is_some_and(|event| event["reason"] == "tampered"), "{refusal:?}");
    nothing_of_it(world);
}

fn nothing_of_it(world: &World) {
    assert!(world.at("main", "done").is_none());
    assert!(!world.at("main", "specs/tasks/u/01-step.md").unwrap().contains("status: complete"));
    assert!(world.at("main", "v").is_some());
}

fn merged(world: &World, _: &Output) {
    assert!(world.at("main", "done").is_some() && world.at("main", "v").is_some());
}

const REFUSED: Hostile = Hostile { exit: 1, says: "u: ", then: refused, ..HOSTILE };
const MERGED: Hostile = Hostile { then: merged, ..HOSTILE };

/// fault A12, A13, K2
const FILES: &[Hostile] = &[
    Hostile {
        name: "another unit's proof is edited",
        make: |w| {
            does(
                w,
                "do: touch done && sed -i 's/^backpressure: .*/backpressure: \"true\"/' specs/tasks/v/01-step.md",
            )
        },
        ..REFUSED
    },
    Hostile {
        name: "the plan is edited",
        make: |w| {
            does(
                w,
                "do: touch done && printf -- '---\\nunit: u\\nprovider: evil\\n---\\n' > specs/tasks/u/IMPLEMENTATION_PLAN.md",
            )
        },
        ..REFUSED
    },
    Hostile {
        name: "a task is added",
        make: |w| {
            does(
                w,
                "do: touch done && printf -- '---\\ntask: 2\\nbackpressure: CANARY\\n---\\n' > specs/tasks/u/02-step.md",
            )
        },
        ..REFUSED
    },
    Hostile {
        name: "a unit is added",
        make: |w| does(w, "do: touch done && cp -r specs/tasks/u specs/tasks/w"),
        ..REFUSED
    },
    Hostile {
        name: "a task of another unit is deleted",
        make: |w| does(w, "do: touch done && rm specs/tasks/v/01-step.md"),
        ..REFUSED
    },
    Hostile {
        name: "the own task becomes a link to outside",
        make: |w| {
            fs::write(
                w.env.root().join("elsewhere.md"),
                "---\ntask: 1\nstatus: complete\nbackpressure: 'true'\n---\n",
            )
            .unwrap();
            does(w, "do: touch done && ln -sf ROOT/elsewhere.md specs/tasks/u/01-step.md\nclaim: no");
        },
        exit: 1,
        says: "u: ",
        then: |w, _| nothing_of_it(w),
        ..HOSTILE
    },
    Hostile {
        name: "the unit's folder becomes a link to outside",
        make: |w| {
            fs::create_dir(w.env.root().join("elsewhere")).unwrap();
            does(w, "do: touch done && rm -r specs/tasks/u && ln -s ROOT/elsewhere specs/tasks/u\nclaim: no");
        },
        exit: 1,
        says: "u: ",
        then: |w, _| {
            nothing_of_it(w);
            assert_eq!(fs::read_dir(w.env.root().join("elsewhere")).unwrap().count(), 0);
        },
        ..HOSTILE
    },
    Hostile {
        name: "the unit's folder vanishes",
        make: |w| does(w, "do: touch done && rm -r specs/tasks/u\nclaim: no"),
        exit: 1,
        says: "u: ",
        then: |w, _| nothing_of_it(w),
        ..HOSTILE
    },
    Hostile {
        name: "the worktree vanishes",
        make: |w| does(w, "do: rm -rf \"$PWD\"\nclaim: no"),
        exit: 1,
        says: "u: ",
        then: |w, _| nothing_of_it(w),
        ..HOSTILE
    },
];

/// fault H12, K3
const REPOSITORY: &[Hostile] = &[
    Hostile {
        name: "files are written into the checkout",
        make: |w| does(w, "do: touch done && echo mine > MAIN/stray.txt"),
        exit: 0,
        says: "the checkout was clean when the run began and is not now",
        then: |w, _| assert_eq!(w.env.read("stray.txt"), "mine\n"),
        ..HOSTILE
    },
    Hostile {
        name: "the agent commits",
        make: |w| does(w, "do: touch done && git add -A && git commit -qm 'I did it'"),
        ..MERGED
    },
    Hostile {
        name: "the agent moves the branch",
        make: |w| {
            does(
                w,
                "do: touch done && git commit -q --allow-empty -m elsewhere && git reset -q --hard HEAD~1 && touch done && git branch -f dacapo/other HEAD",
            )
        },
        ..MERGED
    },
    Hostile {
        name: "HEAD is detached",
        make: |w| does(w, "do: touch done && git checkout -q --detach"),
        ..MERGED
    },
    Hostile {
        name: "another branch is checked out",
        make: |w| does(w, "do: touch done && git checkout -q -b mine"),
        ..MERGED
    },
    Hostile {
        name: "a branch without a past is checked out",
        make: |w| does(w, "do: git checkout -q --orphan mine && touch done && git commit -qm orphan"),
        ..MERGED
    },
    Hostile {
        name: "a filter is planted",
        make: |w| {
            does(
                w,
                "do: touch done && echo '* filter=evil' > .gitattributes && git config filter.evil.clean 'CANARY; cat' && git config filter.evil.smudge 'CANARY; cat'",
            )
        },
        ..MERGED
    },
    Hostile {
        name: "a merge driver is planted",
        make: |w| {
            w.env.write("data.txt", "a\n");
            does(
                w,
                "do: touch done && echo u >> data.txt && echo '* merge=evil' >> \"$(git rev-parse --git-common-dir)\"/info/attributes && git config merge.evil.driver 'CANARY; true'",
            );
            w.task("v", 1, &[], "test -f v", "do: touch v && echo v >> data.txt");
        },
        ..MERGED
    },
    Hostile {
        name: "fsmonitor and hooks are planted",
        make: |w| {
            does(
                w,
                "do: touch done && git config core.hooksPath \"$PWD/hooks\" && mkdir hooks && for h in pre-commit post-checkout reference-transaction post-index-change; do printf '#!/bin/sh\\nCANARY\\n' > hooks/$h; chmod +x hooks/$h; done; git config core.fsmonitor 'CANARY'; git config core.worktree /tmp; git config --unset core.worktree; true",
            )
        },
        ..MERGED
    },
    Hostile {
        name: "signatures are planted",
        make: |w| {
            does(
                w,
                "do: touch done && git config commit.gpgSign true && git config gpg.program 'CANARY' && git config core.sshCommand 'CANARY' && git config diff.external 'CANARY'",
            )
        },
        ..MERGED
    },
    Hostile {
        name: "the configuration of the repository is broken",
        make: |w| does(w, "do: touch done && echo '[[[' >> \"$(git rev-parse --git-common-dir)/config\""),
        exit: 1,
        says: "config",
        ..HOSTILE
    },
    Hostile {
        name: "the target is moved by the agent",
        make: |w| {
            does(
                w,
                "do: touch done && git update-ref refs/heads/main \"$(git commit-tree -m moved -p main main^{tree})\"",
            )
        },
        // The checkout then differs from its branch, and is left as it is.
        exit: 0,
        says: "",
        ..HOSTILE
    },
];

/// The unit fails, and the checkout is where and as it was, also when it is tried again: what was proven and committed
/// before may be merged then.
fn untouched(world: &World, _: &Output) {
    nothing_of_it(world);
    let output = world.run(&["-n", "1", "--retry-failed"]);
    assert!(matches!(output.code, Some(0 | 1)), "{output:#?}");
    assert_eq!(world.env.git(["symbolic-ref", "HEAD"]), "refs/heads/main\n");
    assert_eq!(world.env.git(["status", "--porcelain"]), "");
}

const UNTOUCHED: Hostile = Hostile { exit: 1, says: "u: ", then: untouched, ..HOSTILE };

/// fault H5, K1, K2
const WORKTREE: &[Hostile] = &[
    Hostile {
        name: "the worktree forgets its repository",
        make: |w| does(w, "do: touch done && rm .git"),
        ..UNTOUCHED
    },
    Hostile {
        name: "the worktree calls itself the checkout",
        make: |w| does(w, "do: touch done && echo 'gitdir: MAIN/.git' > .git"),
        ..UNTOUCHED
    },
    Hostile {
        name: "the worktree calls itself the checkout, and nothing is claimed",
        make: |w| does(w, "do: echo 'gitdir: MAIN/.git' > .git\nclaim: no"),
        ..UNTOUCHED
    },
    Hostile {
        name: "the worktree calls itself another unit's",
        make: |w| does(w, "do: touch done && echo 'gitdir: MAIN/.git/worktrees/v' > .git"),
        ..UNTOUCHED
    },
    Hostile {
        name: "the worktree is a repository of its own",
        make: |w| {
            does(
                w,
                "do: touch done && rm .git && git init -q . && git add -A && git commit -qm own && git config core.fsmonitor 'CANARY'",
            )
        },
        ..UNTOUCHED
    },
    Hostile {
        name: "the unit's branch is deleted",
        make: |w| does(w, "do: touch done && git update-ref -d \"$(git symbolic-ref HEAD)\""),
        ..MERGED
    },
    Hostile {
        name: "dacapo's configuration is written",
        make: |w| {
            does(w, "do: touch done && mkdir -p .dacapo && echo 'gates: [CANARY]' > .dacapo/config.yaml")
        },
        then: |w, _| {
            merged(w, &w.env.run(["unit", "list"]));
            // What was merged has to be agreed to like everything else.
            w.plan("w", &[]).task("w", 1, &[], "true", "do: touch w").commit();
            let agent = dacapo_testkit::unit_agent().display().to_string();
            let output = w.env.run(["unit", "run", "--agent-cmd", &agent]).assert_code(4);
            assert!(output.stderr.contains("touch "), "{}", output.stderr);
        },
        ..HOSTILE
    },
    Hostile {
        name: "dacapo's configuration is emptied",
        make: |w| {
            w.config("units: {baseline: [{name: lint, run: 'true'}]}\n");
            does(w, "do: touch done && echo > .dacapo/config.yaml")
        },
        exit: 1,
        says: "`.dacapo/config.yaml`",
        then: |w, _| assert!(w.at("main", ".dacapo/config.yaml").unwrap().contains("lint")),
        ..HOSTILE
    },
    Hostile {
        name: "the target holds other commands than were agreed to",
        make: |w| does(w, "do: touch done"),
        plant: |w| {
            w.env.git(["checkout", "-q", "-b", "shown"]);
            w.env.git(["checkout", "-q", "main"]);
            let proof = format!("touch {}", canary(w));
            w.task("u", 1, &[], &proof, "do: touch done").commit();
            w.env.git(["checkout", "-q", "shown"]);
            w.config("units: {target: main}\n").commit();
        },
        exit: 1,
        says: "is not what you agreed to",
        then: |w, _| assert!(w.at("main", "done").is_none()),
    },
];

#[test]
fn agents_that_make_their_worktree_another_are_found_out() {
    face(WORKTREE);
}

#[test]
fn agents_that_edit_units_are_refused() {
    face(&FILES[..5]);
}

#[test]
fn agents_that_move_units_away_are_refused() {
    face(&FILES[5..]);
}

#[test]
fn agents_that_change_the_repository_change_nothing_that_counts() {
    face(&REPOSITORY[..6]);
}

#[test]
fn agents_that_plant_something_in_the_repository_get_nothing_run() {
    face_openly(&REPOSITORY[6..]);
}
