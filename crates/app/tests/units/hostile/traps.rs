//! What a repository can plant where git, or dacapo's own configuration, would run it.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
};

use super::{HOSTILE, Hostile, canary, face};
use crate::world::World;

/// Adds to the configuration of the repository; `CANARY` is the command that nobody agreed to.
fn config(world: &World, text: &str) {
    let text = text.replace("CANARY", &format!("touch {}", canary(world)));
    let path = world.env.workspace().join(".git/config");
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn hook(world: &World, name: &str) {
    let path = world.env.workspace().join(".git/hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\ntouch {}\n", canary(world))).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A file that git is told to send through something, and two units, so that there is a merge.
fn attributes(world: &World, text: &str) {
    world.env.write(".gitattributes", text).write("data.txt", "a\n");
    world.plan("v", &[]).task("v", 1, &[], "test -f v", "do: touch v && echo v >> data.txt");
}

const MERGED: Hostile = Hostile { then: merged, ..HOSTILE };

fn merged(world: &World, _: &dacapo_testkit::Output) {
    assert!(world.at("main", "done").is_some());
}

/// fault K3
const CONFIGS: &[Hostile] = &[
    Hostile {
        name: "fsmonitor",
        plant: |w| config(w, "[core]\n\tfsmonitor = CANARY\n\tuntrackedCache = true\n"),
        ..MERGED
    },
    Hostile {
        name: "hooksPath",
        make: |w| {
            for name in ["post-checkout", "pre-commit", "reference-transaction", "post-index-change"] {
                w.env.write(format!("hooks/{name}"), format!("#!/bin/sh\ntouch {}\n", canary(w)));
                let path = w.env.workspace().join("hooks").join(name);
                fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            }
        },
        plant: |w| config(w, "[core]\n\thooksPath = hooks\n"),
        ..MERGED
    },
    Hostile {
        name: "hooks",
        plant: |w| {
            for name in [
                "post-checkout",
                "pre-commit",
                "commit-msg",
                "post-commit",
                "post-merge",
                "pre-merge-commit",
                "reference-transaction",
                "post-index-change",
                "pre-push",
                "pre-auto-gc",
            ] {
                hook(w, name);
            }
        },
        ..MERGED
    },
    Hostile {
        name: "a filter",
        make: |w| attributes(w, "* filter=evil\n"),
        plant: |w| {
            config(
                w,
                "[filter \"evil\"]\n\tclean = \"CANARY; cat\"\n\tsmudge = \"CANARY; cat\"\n\trequired = true\n",
            )
        },
        ..MERGED
    },
    Hostile {
        name: "a filter that is a process",
        make: |w| attributes(w, "* filter=evil\n"),
        plant: |w| config(w, "[filter \"evil\"]\n\tprocess = CANARY\n\trequired = true\n"),
        ..MERGED
    },
    Hostile {
        name: "a merge driver",
        make: |w| {
            attributes(w, "* merge=evil\n");
            w.task("u", 1, &[], "test -f done", "do: touch done && echo u >> data.txt");
        },
        plant: |w| {
            config(
                w,
                "[merge \"evil\"]\n\tname = x\n\tdriver = \"CANARY; true\"\n[merge]\n\tdefault = evil\n",
            )
        },
        ..MERGED
    },
    Hostile {
        name: "textconv and a diff of its own",
        make: |w| attributes(w, "* diff=evil\n"),
        plant: |w| {
            config(
                w,
                "[diff \"evil\"]\n\ttextconv = \"CANARY; cat\"\n\tcommand = CANARY\n[diff]\n\texternal = CANARY\n",
            );
        },
        ..MERGED
    },
    Hostile {
        name: "a pager, an editor, aliases",
        plant: |w| {
            config(
                w,
                "[core]\n\tpager = CANARY\n\teditor = CANARY\n\taskPass = CANARY\n[sequence]\n\teditor = CANARY\n\
                 [pager]\n\tstatus = CANARY\n\tlog = CANARY\n[alias]\n\tstatus = !CANARY\n\tworktree = !CANARY\n",
            );
        },
        ..MERGED
    },
    Hostile {
        name: "signatures",
        plant: |w| {
            config(
                w,
                "[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n[gpg]\n\tprogram = CANARY\n\
                 [gpg \"ssh\"]\n\tprogram = CANARY\n\tdefaultKeyCommand = CANARY\n[log]\n\tshowSignature = true\n",
            );
        },
        ..MERGED
    },
];

/// fault K1, K3
const MORE: &[Hostile] = &[
    Hostile {
        name: "the network",
        plant: |w| {
            config(
                w,
                "[core]\n\tsshCommand = CANARY\n\tgitProxy = CANARY\n[credential]\n\thelper = !CANARY\n\
                 [remote \"origin\"]\n\turl = ext::CANARY\n\tuploadpack = CANARY\n\tvcs = ext\n\tpromisor = true\n",
            );
        },
        ..MERGED
    },
    Hostile {
        name: "a file that is included",
        make: |w| {
            let text = format!(
                "[core]\n\tfsmonitor = touch {0}\n[filter \"evil\"]\n\tclean = \"touch {0}; cat\"\n",
                canary(w)
            );
            w.env.write("evil.inc", text);
            attributes(w, "* filter=evil\n");
        },
        plant: |w| {
            config(w, "[include]\n\tpath = ../evil.inc\n[includeIf \"gitdir:**\"]\n\tpath = ../evil.inc\n");
        },
        ..MERGED
    },
    Hostile {
        name: "a submodule whose address is a command",
        make: |w| {
            let url = format!("ext::sh -c touch% {}", canary(w));
            w.env.write(
                ".gitmodules",
                format!("[submodule \"x\"]\n\tpath = x\n\turl = {url}\n\tupdate = !touch\n"),
            );
            w.config("units: {submodules: true}\n");
        },
        plant: |w| {
            // A link to a commit that is nowhere.
            let commit = "0123456789012345678901234567890123456789";
            w.env.git(["update-index", "--add", "--cacheinfo", &format!("160000,{commit},x")]);
            w.env.git(["commit", "-qm", "submodule"]);
            fs::create_dir(w.env.workspace().join("x")).unwrap();
        },
        exit: 1,
        says: "submodule",
        ..HOSTILE
    },
    Hostile {
        name: "a repository inside that is not ours",
        make: |w| {
            w.env.write("inner/file", "x");
            w.env.git(["init", "-q", "inner"]);
            w.env.git(["-C", "inner", "add", "-A"]);
            w.env.git(["-C", "inner", "commit", "-qm", "inner"]);
            let text = format!("[core]\n\tfsmonitor = touch {}\n", canary(w));
            let path = w.env.workspace().join("inner/.git/config");
            OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
        },
        ..MERGED
    },
    Hostile {
        name: "setup, teardown and a baseline",
        make: |w| {
            let run = format!("touch {}", w.env.root().join("consented").display());
            w.config(&format!(
                "worktree: {{setup: [{{run: '{run}'}}], teardown: [{{run: '{run}'}}]}}\nunits: {{baseline: [{{name: x, run: '{run}'}}]}}\ngates: ['{run}']\n"
            ));
        },
        ..MERGED
    },
    Hostile {
        name: "a proof with everything a shell knows",
        make: |w| {
            let proof = "test \"$(printf '%s' 'a;b')\" = 'a;b' && test -f done; exit $?";
            w.task("u", 1, &[], proof, "do: touch done");
        },
        ..MERGED
    },
    Hostile {
        name: "configuration that agrees for its user",
        make: |w| {
            w.config("trust: true\nunits: {parallel: 1}\n");
        },
        exit: 2,
        says: ".dacapo/config.yaml:1:",
        ..HOSTILE
    },
    Hostile {
        name: "a target that is an option",
        make: |w| {
            w.config("units: {target: '--output=canary'}\n");
        },
        exit: 2,
        says: ".dacapo/config.yaml:1:",
        ..HOSTILE
    },
];

#[test]
fn nothing_of_the_repository_s_configuration_runs() {
    face(CONFIGS);
}

#[test]
fn nothing_else_that_was_planted_runs() {
    face(MORE);
}
