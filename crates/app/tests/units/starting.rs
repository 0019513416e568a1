//! Where a run begins, what it begins with, and what it says when it does not.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use serde_json::{Value, json};

use crate::world::World;

/// A program on PATH that does the work of a unit's first task and notes who it is.
fn install(world: &World, name: &str) {
    let root = world.env.root().display().to_string();
    let file = world.env.root().join("bin").join(name);
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo '9.9.9 (Test)'; exit; }}\n\
         printf '%s\\n' \"$@\" > {root}/args-{name}\ncat > {root}/prompt-{name}\n\
         echo {name} > by-$DACAPO_TASK.txt\n\
         sed -i 's/^status: .*/status: complete/' specs/tasks/$DACAPO_TASK/01-step.md\n\
         echo '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"session_id\":\"s\",\"result\":\"\"}}'\n"
    );
    fs::write(&file, script).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

fn user(world: &World, config: &str) {
    let folder = world.env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), format!("permissions: {{allow_root: true}}\n{config}")).unwrap();
}

fn asks_for(world: &World, unit: &str, provider: &str) {
    let text = format!("---\nunit: {unit}\nprovider: {provider}\n---\n");
    world.env.write(format!("specs/tasks/{unit}/IMPLEMENTATION_PLAN.md"), text);
}

const PLAIN: [&str; 5] = ["unit", "run", "--trust", "--restart-delay", "0s"];

#[test]
fn a_unit_and_what_it_depends_on_are_chosen_by_name() {
    // req 55, 58
    let world = World::new();
    world
        .unit("base", 1, &[])
        .unit("api", 2, &["base"])
        .unit("web", 1, &["base"])
        .unit("app", 1, &["api"])
        .commit();
    let output = world.run(&["--unit", "apy"]).assert_code(2);
    assert!(
        output.stderr.contains("there is no unit `apy`") && output.stderr.contains("did you mean `api`?")
    );
    let output = world.run(&["--unit", "../x"]).assert_code(2);
    assert!(output.stderr.contains("is not a valid unit id"), "{}", output.stderr);
    // Nothing is started, not even with consent missing.
    let dry = |extra: &[&str]| {
        let args = ["unit", "run", "--dry-run"].iter().chain(extra);
        world.env.run(args).assert_code(0).stdout
    };
    insta::assert_snapshot!(dry(&[]), @r"
    4 units, 5 tasks to do, 4 at once:
      1. base
      2. api, web
      3. app
    ");
    insta::assert_snapshot!(dry(&["--unit", "api", "--parallel", "2"]), @r"
    2 units, 3 tasks to do, 2 at once:
      1. base
      2. api
    ");
    let levels: Value = serde_json::from_str(&dry(&["--json"])).unwrap();
    assert_eq!(levels, json!([["base"], ["api", "web"], ["app"]]));
    assert!(!world.env.dacapo_home().exists());
    world.run(&["--unit", "api"]).assert_code(0);
    assert!(world.at("main", "src/api-2.txt").is_some() && world.at("main", "src/web-1.txt").is_none());
    insta::assert_snapshot!(dry(&[]), @r"
    2 units, 2 tasks to do, 4 at once:
      1. app, web
    ");
}

#[test]
fn an_agent_that_no_unit_would_be_worked_on_by_need_not_be_there() {
    // req 59
    let world = World::new();
    install(&world, "mine");
    user(&world, "agents: {mine: {command: [mine]}}\n");
    world.unit("a", 1, &[]).unit("b", 1, &["a"]);
    world.task("a", 1, &[], "test -f by-a.txt", "words").task("b", 1, &[], "test -f by-b.txt", "words");
    asks_for(&world, "a", "mine");
    world.commit();
    // None of those that everybody may have is installed here.
    let alone = |args: &[&str]| {
        let mut command = world.env.dacapo(args);
        let bin = world.env.root().join("bin");
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        world.env.run_command(command)
    };
    let output = alone(&PLAIN).assert_code(5);
    assert!(output.stderr.contains("no agent is installed"), "unit b needs one: {}", output.stderr);
    asks_for(&world, "b", "mine");
    world.commit();
    for variable in ["claude", ""] {
        let mut command = world.env.dacapo(["explain", "unit", "--trust"]);
        let bin = world.env.root().join("bin");
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("DACAPO_AGENT", variable);
        let output = world.env.run_command(command).assert_code(0);
        assert!(output.stdout.contains("mine"), "{}", output.stdout);
    }
    alone(&PLAIN).assert_code(0);
    assert!(world.at("main", "by-a.txt").is_some() && world.at("main", "by-b.txt").is_some());
}

#[test]
fn an_agent_that_vanishes_is_no_failure_of_the_unit() {
    // As for a single loop: the environment's, and exit code 5.
    for second in ["sleep", "work"] {
        let world = World::new();
        // In a sandbox an agent could not remove a program on PATH.
        world.env.without_sandbox();
        world.unit("a", 2, &[]).commit();
        let (agent, real) = (world.env.root().join("bin/vanishing"), dacapo_testkit::unit_agent());
        // Between two tries of a turn, or between two turns.
        let work = if second == "work" { format!("{}", real.display()) } else { "true".to_owned() };
        fs::write(&agent, format!("#!/bin/sh\nrm -f '{}'\nexec {work}\n", agent.display())).unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        let agent = agent.display().to_string();
        let output = world.env.run(PLAIN.iter().chain(&["--agent-cmd", agent.as_str()])).assert_code(5);
        let last = output.reason();
        assert!(last.contains("failed (environment): a: ") && last.contains("vanishing"), "{last}");
        // It goes on when there is one again.
        world.run(&[]).assert_code(0);
        assert!(world.at("main", "src/a-2.txt").is_some());
    }
}

#[test]
fn submodules_that_are_asked_for_later_come_into_the_worktree_that_is_there() {
    let world = World::new();
    let other = world.env.root().join("other");
    let inner = other.to_str().unwrap();
    fs::create_dir(&other).unwrap();
    fs::write(other.join("word"), "hello\n").unwrap();
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "other"]] {
        world.env.git(["-C", inner].iter().chain(args));
    }
    world.env.git(["config", "--global", "protocol.file.allow", "always"]);
    world.env.git(["submodule", "--quiet", "add", inner, "sub"]);
    world.plan("a", &[]).task("a", 1, &[], "grep -q hello got.txt", "do: cat sub/word > got.txt || true");
    world.commit();
    world.run(&["-n", "1"]).assert_code(1);
    world.config("units: {submodules: true}\n").commit();
    world.run(&["-n", "1", "--retry-failed"]).assert_code(0);
    assert_eq!(world.at("main", "got.txt").as_deref(), Some("hello\n"));
}

#[test]
fn every_line_of_json_says_whose_it_is() {
    // req 57
    let world = World::new();
    world.unit("a", 1, &[]).unit("b", 1, &["a"]).commit();
    let output = world.run(&["--json"]).assert_code(0);
    let lines: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let run = lines[0]["run"].as_str().unwrap();
    let mut before = 0;
    for line in &lines {
        assert!(line["type"].as_str().is_some_and(|kind| !kind.is_empty()), "{line}");
        assert_eq!(line["run"], run, "{line}");
        let seq = line["seq"].as_u64().unwrap();
        assert!(seq > before, "{line}");
        before = seq;
    }
    assert_eq!(lines[0]["type"], "orch.started");
    assert_eq!(lines.last().unwrap()["type"], "orch.completed");
    // The same as the journal's.
    let journal: Vec<Value> = world
        .run_events()
        .into_iter()
        .filter(|event| event["type"].as_str().is_some_and(|kind| kind.contains('.')))
        .collect();
    for (line, known) in lines.iter().zip(&journal) {
        assert_eq!(line, known);
    }
    assert_eq!(lines.len(), journal.len());
}

#[test]
fn the_agent_is_the_flag_s_the_plan_s_the_environment_s_or_the_configuration_s() {
    // req 59
    for (flag, variable, config, expected) in [
        (None, None, "agent: claude\n", ["claude", "codex"]),
        (None, Some("gemini"), "agent: claude\n", ["gemini", "codex"]),
        (None, Some("  "), "agent: claude\n", ["claude", "codex"]),
        (Some("claude"), Some("gemini"), "agent: gemini\n", ["claude", "claude"]),
    ] {
        let world = World::new();
        for name in ["claude", "codex", "gemini"] {
            install(&world, name);
        }
        user(&world, config);
        for unit in ["a", "b"] {
            world.plan(unit, &[]).task(unit, 1, &[], "true", "");
        }
        asks_for(&world, "b", "codex");
        world.commit();
        let mut dacapo = world.env.dacapo(PLAIN);
        dacapo.args(flag.into_iter().flat_map(|name| ["--agent", name]));
        dacapo.envs(variable.map(|name| ("DACAPO_AGENT", name)));
        world.env.run_command(dacapo).assert_code(0);
        let by =
            ["a", "b"].map(|unit| world.at("main", &format!("by-{unit}.txt")).unwrap().trim().to_owned());
        assert_eq!(by, expected, "{flag:?} {variable:?} {config}");
    }
}

#[test]
fn an_agent_that_is_not_there_is_said_before_anything_starts() {
    // req 59
    let world = World::new();
    install(&world, "claude");
    user(&world, "");
    world.unit("a", 1, &[]).unit("b", 1, &[]);
    for (provider, says) in [
        ("nobody", "unit b asks for `nobody`: "),
        ("./evil", "unit b asks for `./evil`: "),
        ("/bin/sh", "unit b asks for `/bin/sh`: "),
        ("qwen", "unit b asks for `qwen`: "),
    ] {
        asks_for(&world, "b", provider);
        world.commit();
        let mut dacapo = world.env.dacapo(PLAIN);
        dacapo.env("PATH", path_without_agents(&world));
        let output = world.env.run_command(dacapo);
        assert!(matches!(output.code, Some(2 | 5)), "{provider}: {}", output.stderr);
        assert!(output.reason().contains(says), "{provider}: {}", output.stderr);
    }
    asks_for(&world, "b", "claude");
    world.commit();
    for (name, says) in [("nobody", "(DACAPO_AGENT)"), ("qwen", "qwen")] {
        let mut dacapo = world.env.dacapo(PLAIN);
        dacapo.env("PATH", path_without_agents(&world)).env("DACAPO_AGENT", name);
        let output = world.env.run_command(dacapo);
        assert!(matches!(output.code, Some(2 | 5)), "{name}: {}", output.stderr);
        assert!(output.stderr.contains(says), "{name}: {}", output.stderr);
    }
    assert_eq!(world.run_events().len(), 0);
    assert_eq!(world.env.git(["branch", "--list", "dacapo/*"]), "");
}

/// Where git, the shell and this world's own programs are, and no agent of the machine's.
fn path_without_agents(world: &World) -> String {
    let bin = world.env.root().join("bin");
    for name in ["git", "sh", "sed", "cat"] {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
        let _ = std::os::unix::fs::symlink(found.unwrap(), bin.join(name));
    }
    bin.display().to_string()
}

#[test]
fn claude_asks_nobody_and_turns_are_limited_only_by_who_says_so() {
    // req 21, 22
    for (extra, turns) in [(&[][..], None), (&["--", "--max-turns", "5"], Some("5"))] {
        let world = World::new();
        install(&world, "claude");
        user(&world, "");
        world.plan("a", &[]).task("a", 1, &[], "true", "Say hello.");
        world.commit();
        let args = PLAIN.iter().chain(&["--agent", "claude"]).chain(extra);
        world.env.run(args).assert_code(0);
        let args = fs::read_to_string(world.env.root().join("args-claude")).unwrap();
        let args: Vec<&str> = args.lines().collect();
        assert!(args.contains(&"--dangerously-skip-permissions") && args.contains(&"-p"), "{args:?}");
        let limit = args.iter().position(|word| *word == "--max-turns").map(|at| args[at + 1]);
        assert_eq!(limit, turns, "{args:?}");
        let prompt = fs::read_to_string(world.env.root().join("prompt-claude")).unwrap();
        assert!(prompt.contains("- Task #1: Step 1\n  file: specs/tasks/a/01-step.md"), "{prompt}");
    }
}

#[test]
fn a_repository_that_units_cannot_be_worked_on_in_is_refused_in_one_sentence() {
    // req 58; fault H9
    type Make = fn(&World);
    let cases: &[(&str, Make, i32, &str)] = &[
        (
            "no repository",
            |w| fs::remove_dir_all(w.env.workspace().join(".git")).unwrap(),
            2,
            "is not in a git repository",
        ),
        (
            "bare",
            |w| {
                w.env.git(["config", "core.bare", "true"]);
            },
            5,
            "bare",
        ),
        (
            "unborn",
            |w| {
                w.env.git(["checkout", "-q", "--orphan", "new"]);
            },
            5,
            "commit",
        ),
        (
            "in the middle of a merge",
            |w| {
                w.env.git(["checkout", "-q", "-b", "side", "HEAD~1"]);
                w.env.write("x", "1");
                w.commit();
                w.env.git(["merge", "-q", "--no-commit", "--no-ff", "main"]);
            },
            5,
            "merge",
        ),
        (
            "no branch",
            |w| {
                w.env.git(["checkout", "-q", "--detach"]);
            },
            2,
            "no branch is checked out that finished units could go into",
        ),
        (
            "no such target",
            |w| {
                w.config("units: {target: nowhere}\n").commit();
            },
            5,
            "`nowhere`",
        ),
    ];
    for (name, make, code, says) in cases {
        let world = World::new();
        world.unit("a", 1, &[]).commit();
        make(&world);
        let output = world.run(&[]);
        assert_eq!(output.code, Some(*code), "{name}: {}{}", output.stdout, output.stderr);
        let last = output.reason();
        assert!(last.starts_with("dacapo: ") && last.contains(says), "{name}: {}", output.stderr);
        assert!(output.stderr.lines().any(|line| line.starts_with("hint: ")), "{name}: {}", output.stderr);
        assert!(!world.env.dacapo_home().join("worktrees").exists(), "{name}");
    }
    // On no branch, with a target named, there is nothing in the way.
    let world = World::new();
    world.unit("a", 1, &[]).commit();
    world.env.git(["checkout", "-q", "--detach"]);
    world.run(&["--target", "main"]).assert_code(0);
    assert!(world.at("main", "src/a-1.txt").is_some());
}

#[test]
fn what_is_in_the_way_of_a_worktree_is_left_alone() {
    // fault H5
    let world = World::new();
    world.unit("a", 1, &[]).commit();
    // The folder is named after the project, which a first look tells.
    world.plan("z", &[]).task("z", 1, &[], "true", "do: touch z").commit();
    world.run(&["--unit", "z"]).assert_code(0);
    let projects = world.env.dacapo_home().join("worktrees");
    let project = fs::read_dir(&projects).unwrap().next().unwrap().unwrap().path();
    fs::create_dir(project.join("a")).unwrap();
    fs::write(project.join("a/mine.txt"), "mine").unwrap();
    world.run(&[]).assert_code(0);
    assert!(world.at("main", "src/a-1.txt").is_some());
    assert_eq!(fs::read_to_string(project.join("a/mine.txt")).unwrap(), "mine");
}

#[test]
fn a_target_that_moves_while_its_merge_is_checked_is_followed() {
    // req 54: while the merged tree is checked, somebody at another terminal commits to the target, once.
    let world = World::new();
    let root = world.env.root().display().to_string();
    let waits = format!(
        "case $PWD in */.merge-*) mkdir {root}/once 2>/dev/null && until test -e {root}/committed; do sleep 0.05; done;; esac; true"
    );
    world.config(&format!("units: {{baseline: [{{name: waits, run: {}}}]}}\n", json!(waits)));
    world.unit("a", 1, &[]).commit();
    let running = world.env.spawn(world.args(&[]));
    let long = Duration::from_secs(60);
    world.env.wait_until("the merge is checked", long, || world.env.root().join("once").exists());
    world.env.write("theirs.txt", "");
    world.env.git(["add", "theirs.txt"]);
    world.env.git(["commit", "-qm", "theirs"]);
    fs::write(world.env.root().join("committed"), "").unwrap();
    running.wait(long).assert_code(0);
    assert!(world.env.root().join("once").exists());
    assert!(world.at("main", "theirs.txt").is_some() && world.at("main", "src/a-1.txt").is_some());
    let subjects: Vec<String> =
        world.env.git(["log", "--first-parent", "--format=%s", "main"]).lines().map(str::to_owned).collect();
    assert_eq!(subjects[..2], ["Merge unit a", "theirs"]);
    assert_eq!(world.env.git(["status", "--porcelain"]), "");
}
