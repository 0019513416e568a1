//! Tests and settings that an agent moves: what passes only with its own version is refused, and honest work is not.

use dacapo_core::text::shell::quoted as shell_quoted;
use dacapo_testkit::{Running, Signal, TestEnv, wait_until};

use crate::support::{LONG, PROMISE, World, assert_has};

/// A project with a runner of its own, which sources a file, runs `tests/*.sh` and reports in the words of pytest.
fn tested() -> TestEnv {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.write("run.sh", "#!/bin/sh\n. ./lib.sh\nn=0\nfor t in tests/*.sh; do check \"$t\" || exit 1; n=$((n+1)); done\necho \"$n passed in 0.01s\"\n");
    env.write("lib.sh", "check() { sh \"$1\"; }\n");
    env.write("tests/a.sh", "grep -q fixed work.txt\n");
    env.write("tests/b.sh", "test -s work.txt\n");
    env.write("work.txt", "broken\n");
    env.write("package.json", "{\"scripts\": {\"test\": \"./run.sh\"}}\n");
    env.write(".gitignore", "built\nnotes.local\n");
    env.write("notes.local", "the user's own\n");
    env.sh("chmod +x run.sh").assert_code(0);
    env.git_init();
    env
}

fn run(env: &TestEnv, agent: &str, extra: &[&str]) -> (Option<i32>, Vec<String>) {
    let agent = format!("{agent}\n{PROMISE}");
    let code = env.loop_of(&agent, &[&["-n", "1", "--gate", "./run.sh"], extra].concat()).code;
    let refused = env.of_type("claim_refused");
    (code, refused.iter().map(|event| event["reason"].as_str().unwrap_or_default().to_owned()).collect())
}

const FIX: &str = "echo fixed >work.txt";

/// What has the goalposts compared, in every way.
const CHECKED: &[&str] = &["--tests", "checked", "--gate-in", "both"];

#[test]
fn what_passes_only_with_the_agents_own_goalposts_is_refused() {
    for (name, agent, extra, reasons) in [
        ("a test rewritten", "echo true >tests/a.sh", CHECKED, &["narrowed"][..]),
        ("a test deleted", "rm tests/a.sh; echo x >>work.txt", CHECKED, &["narrowed"]),
        ("a test replaced by another", "rm tests/a.sh; echo true >tests/c.sh", CHECKED, &["narrowed"]),
        ("what the gate sources", "echo 'check() { true; }' >lib.sh", CHECKED, &["narrowed"]),
        (
            "a test that patches the runner",
            "echo 'exit 0' >tests/a.sh; mkdir -p tests; echo x >>work.txt",
            CHECKED,
            &["narrowed"],
        ),
        (
            "sealed tests",
            "echo '# more' >>tests/a.sh; echo fixed >work.txt",
            &["--tests", "sealed"][..],
            &["tampered"],
        ),
        ("no report any more", "echo 'exit 0' >>lib.sh", CHECKED, &["narrowed"]),
        (
            "right only below dacapo",
            "echo 'test -z \"$DACAPO_LOOP\" || echo fixed >work.txt' >>lib.sh",
            CHECKED,
            &["gate_failed"],
        ),
        (
            "right only where the task's folder is known",
            "echo 'test -z \"$TASK_FOLDER\" || echo fixed >work.txt' >>lib.sh",
            CHECKED,
            &["gate_failed"],
        ),
        (
            "only a file makes it pass that a rule of the agent's hides",
            "echo hidden >>.git/info/exclude; echo fixed >hidden; rm work.txt; ln -s hidden work.txt",
            CHECKED,
            &["gate_failed"],
        ),
        (
            "only an ignored file makes it pass",
            "touch built; echo 'check() { test -e built; }' >lib.sh",
            CHECKED,
            &["gate_failed", "narrowed"],
        ),
        (
            "a setting above the workspace",
            "echo x >../pytest.ini; echo fixed >work.txt",
            CHECKED,
            &["tampered"],
        ),
        (
            "a setting above the checkouts",
            "echo x >$DACAPO_HOME/pytest.ini; echo fixed >work.txt",
            CHECKED,
            &["tampered"],
        ),
        (
            "a setting in HOME",
            "mkdir -p $HOME/.cargo; echo x >$HOME/.cargo/config.toml; echo fixed >work.txt",
            CHECKED,
            &["tampered"],
        ),
    ] {
        let env = tested();
        // In a sandbox some of it could not be done.
        env.without_sandbox();
        let (code, refused) = run(&env, agent, extra);
        assert_eq!(code, Some(3), "{name}: accepted, {refused:?}");
        assert!(refused.iter().all(|reason| reasons.contains(&reason.as_str())), "{name}: {refused:?}");
        assert_eq!(env.git(["status", "--porcelain", "run.sh"]), "", "{name}: the workspace is the agent's");
    }
}

#[test]
fn honest_work_passes_both_ways() {
    for (name, agent, extra) in [
        ("the work alone", "", CHECKED),
        ("a new test", "echo 'grep -q fix work.txt' >tests/c.sh", CHECKED),
        ("cases added to a test", "echo 'test -e work.txt' >>tests/a.sh", CHECKED),
        ("a formatter over everything", "for f in tests/*.sh lib.sh; do echo >>$f; done", CHECKED),
        (
            "a dependency and a version",
            "echo '{\"version\": \"2\", \"dependencies\": {\"x\": \"1\"}, \"scripts\": {\"test\": \"./run.sh\"}}' >package.json",
            CHECKED,
        ),
        ("tests changed freely", "echo true >tests/b.sh", &["--may-edit-tests", "--gate-in", "both"]),
        ("in the workspace alone", "echo '# x' >>tests/a.sh", &["--tests", "checked", "--no-probe"]),
    ] {
        let env = tested();
        let (code, refused) = run(&env, &format!("{FIX}; {agent}"), extra);
        assert_eq!((code, refused), (Some(0), vec![]), "{name}");
    }
}

#[test]
fn the_receipt_says_what_became_of_the_tests() {
    let env = tested();
    run(&env, &format!("{FIX}; echo '# x' >>tests/a.sh; echo true >tests/c.sh"), CHECKED);
    let receipt = env.receipt();
    assert_eq!(receipt["checked_in"], "clean");
    assert_eq!(receipt["tests"]["both_ways"], true);
    assert_eq!(receipt["tests"]["changed"], serde_json::json!(["tests/a.sh", "tests/c.sh"]));
    assert_eq!(
        (&receipt["tests"]["after"]["passed"], receipt["gates"].as_array().map(Vec::len)),
        (&3.into(), Some(1))
    );
    env.run(["verify", "t"]).assert_code(0);
    let tried = env.of_type("gate_tried");
    assert_eq!((tried.len(), &tried[0]["checkout"]), (1, &"works".into()));
}

#[test]
fn a_gate_whose_program_is_missing_ends_the_loop_before_an_agent_starts() {
    let env = tested();
    let output =
        env.loop_of(PROMISE, &["-n", "100", "--probe", "--gate", "no-such-program --check"]).assert_code(5);
    assert_has(&output.stderr, "no `no-such-program` on PATH");
    // What it printed is kept, and shown unless `-q` is given.
    assert_has(env.of_type("gate_tried")[0]["output_tail"].as_str().unwrap(), "no-such-program: not found");
    assert_eq!(env.agents(), 0);
    // What lies in the workspace the agent may be about to write.
    let env = tested();
    let agent = format!("{FIX}; printf '#!/bin/sh\\nexit 0\\n' >new.sh; chmod +x new.sh; {PROMISE}");
    env.loop_of(&agent, &["-n", "1", "--probe", "--gate", "./new.sh"]).assert_code(0);
}

#[test]
fn a_gate_that_runs_before_the_first_agent_anyway_is_not_tried() {
    for flag in ["--baseline", "--red-first"] {
        let env = tested();
        assert_eq!(run(&env, FIX, &[CHECKED, &[flag]].concat()), (Some(0), vec![]), "{flag}");
        let before: Vec<String> = env
            .of_type("gate_finished")
            .iter()
            .filter(|event| event["iteration"] == 0)
            .map(|event| event["role"].to_string())
            .collect();
        assert_eq!(before, ["\"baseline\""], "{flag}");
        let tried = env.of_type("gate_tried");
        assert_eq!(
            (tried.len(), &tried[0]["checkout"], &tried[0]["passed"]),
            (1, &"works".into(), &false.into())
        );
        // A missing program is found as early.
        let env = tested();
        let args = ["-n", "100", "--probe", flag, "--gate", "no-such-program --check"];
        let output = env.loop_of(PROMISE, &args).assert_code(5);
        assert_has(&output.stderr, "no `no-such-program` on PATH");
        assert_eq!(env.agents(), 0, "{flag}");
    }
}

#[test]
fn a_trial_that_was_killed_leaves_no_checkout_once_its_loop_is_met_again() {
    let env = tested();
    let checkouts = env.dacapo_home().join("checkouts");
    let trying = env.root().join("trying");
    let gate = format!("touch {}; sleep 60", trying.display());
    let running = Running::start(env.command_of(PROMISE, &[CHECKED, &["-n", "1", "--gate", &gate]].concat()));
    wait_until("the gate is tried", LONG, || trying.exists());
    let left = || std::fs::read_dir(&checkouts).unwrap().count();
    assert!(left() > 0);
    running.signal(Signal::KILL);
    running.wait(LONG);
    env.run(["clean"]).assert_code(0);
    assert_eq!(left(), 0);
    assert_eq!(env.survivors(), Vec::<u32>::new());
}

/// A repository whose files are not laid out before the agent says so: a filter waits for one of them.
fn slow_to_lay_out() -> TestEnv {
    let env = tested();
    let (said, fifo) = (env.root().join("said"), env.root().join("fifo"));
    let smudge = format!("test -e {} || cat {}; cat", said.display(), fifo.display());
    env.sh(&format!(
        "mkfifo ../fifo; git config filter.slow.clean cat; git config filter.slow.smudge {}; \
         echo 'slow.txt filter=slow' >.gitattributes; echo x >slow.txt; git add -A; git commit -qm slow",
        shell_quoted(&smudge)
    ))
    .assert_code(0);
    env
}

#[test]
fn the_first_agent_does_not_wait_for_files_that_take_long_to_lay_out() {
    let env = slow_to_lay_out();
    let (code, refused) = run(&env, &format!("exec 3<>../fifo; touch ../said; {FIX}"), CHECKED);
    assert_eq!((code, refused), (Some(0), vec![]));
    assert_eq!(env.of_type("gate_tried").len(), 1, "{:?}", env.of_type("notice"));
}

#[test]
fn a_loop_that_is_cancelled_while_files_are_laid_out_leaves_none() {
    let env = slow_to_lay_out();
    let started = env.root().join("started");
    let agent = format!("touch {}; {FIX}; {PROMISE}", started.display());
    let running =
        Running::start(env.command_of(&agent, &[CHECKED, &["-n", "1", "--gate", "./run.sh"]].concat()));
    wait_until("the agent works", LONG, || started.exists());
    env.run(["cancel", "t"]).assert_code(0);
    running.wait(LONG);
    let left: Vec<_> = std::fs::read_dir(env.dacapo_home().join("checkouts")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(env.survivors(), Vec::<u32>::new());
}

#[test]
fn a_fresh_checkout_is_a_repository_of_its_own() {
    let env = tested();
    env.sh("git tag v1; git branch side; git pack-refs --all; git branch later").assert_code(0);
    let gate = "set -e; git ls-files --error-unmatch new.txt; git diff --exit-code; git describe --tags; \
                git rev-parse side later; test \"$(git log --format=%s | wc -l)\" = 2; git show HEAD:new.txt; \
                git -c user.name=g -c user.email=g@x commit --allow-empty -qm 'of the gate'; git tag of-the-gate; \
                git config local.setting here; test \"$(git log --format=%s | wc -l)\" = 3";
    let before =
        env.sh("git for-each-ref 'refs/heads' 'refs/tags'; git rev-parse HEAD; cat .git/config").stdout;
    let agent = format!("echo x >new.txt; echo y >untracked.local; {PROMISE}");
    let output = env.loop_of(&agent, &["-n", "1", "--gate-in", "clean", "--gate", gate]);
    assert_eq!(output.code, Some(0), "{}\n{:?}", output.stderr, env.of_type("gate_finished"));
    let after =
        env.sh("git for-each-ref 'refs/heads' 'refs/tags'; git rev-parse HEAD; cat .git/config").stdout;
    assert_eq!(after, before);
}

#[test]
fn in_a_checkout_with_the_tests_as_they_were_git_lists_just_these() {
    let env = tested();
    env.write("run.sh", "#!/bin/sh\n. ./lib.sh\nn=0\nfor t in $(git ls-files --cached --others tests); do check \"$t\" || exit 1; n=$((n+1)); done\necho \"$n passed in 0.01s\"\n");
    env.sh("chmod +x run.sh; git commit -qam list").assert_code(0);
    let gates = |agent: &str| {
        let (code, refused) = run(&env, agent, CHECKED);
        let as_before =
            env.of_type("gate_finished").into_iter().rfind(|event| event["tests_as_before"] == true);
        (code, refused, as_before.map(|event| event["tests"]["passed"].clone()))
    };
    let (code, refused, _) =
        gates("git rm -q --cached tests/a.sh; git commit -qm untrack; echo x >>work.txt");
    assert_eq!((code, refused), (Some(3), vec!["gate_failed".to_owned()]));
    env.sh("git reset -q --hard HEAD~1").assert_code(0);
    let (code, refused, passed) = gates(&format!("{FIX}; git mv tests/b.sh tests/c.sh"));
    assert_eq!((code, refused, passed), (Some(0), vec![], Some(2.into())));
}

#[test]
fn a_gate_that_needs_what_is_committed_and_ignored_says_so() {
    let env = tested();
    let agent = format!(
        "{FIX}; echo 'echo more' >built; echo '. ./built' >>lib.sh; git add -f built lib.sh; git commit -qm built"
    );
    let (code, refused) = run(&env, &agent, CHECKED);
    assert_eq!((code, refused), (Some(3), vec!["gate_failed".to_owned()]));
    let detail = env.of_type("claim_refused")[0]["detail"].to_string();
    assert_has(&detail, "which lacks `built`: committed, and ignored");
}

#[test]
fn an_approval_is_for_the_tree_that_was_refused_and_says_so_if_the_workspace_has_moved_on() {
    let env = tested();
    assert_eq!(run(&env, "echo true >tests/a.sh", CHECKED), (Some(3), vec!["narrowed".to_owned()]));
    env.write("work.txt", "something else\n");
    let output = env.run(["approve", "t"]);
    assert_ne!(output.code, Some(0), "{}", output.stderr);
    assert_has(&output.stderr, "has moved on since");
    assert_eq!(env.of_type("tree_approved").len(), 0);
}

#[test]
fn a_gate_that_rewrites_files_is_told_to_check_them() {
    let env = tested();
    let output = env.loop_of(
        &format!("{FIX}\n{PROMISE}"),
        &[CHECKED, &["-n", "1", "--gate", "echo >>work.txt"]].concat(),
    );
    output.assert_code(3);
    let refused = &env.of_type("claim_refused")[0];
    assert_eq!(refused["reason"], "tree_changed");
    assert_has(refused["detail"].as_str().unwrap(), "as a formatter does, has to check them instead");
}

#[test]
fn tests_that_are_links_or_very_large_are_compared_like_others() {
    let large = "truncate -s 100M tests/large.dat; ln -s ../elsewhere.sh tests/linked.sh";
    for (name, agent, reasons) in [
        ("untouched", FIX.to_owned(), &[][..]),
        ("the file behind the link", "echo true >elsewhere.sh".to_owned(), &["narrowed"]),
        (
            "the link itself",
            "echo true >other.sh; ln -sf ../other.sh tests/linked.sh".to_owned(),
            &["narrowed"],
        ),
        (
            "the large one",
            format!("{FIX}; printf x | dd of=tests/large.dat bs=1 seek=70000000 conv=notrunc 2>/dev/null"),
            &["narrowed"],
        ),
    ] {
        let env = tested();
        env.write("elsewhere.sh", "grep -q fixed work.txt\n");
        env.write("tests/a.sh", "test \"$(tr -d '\\0' <tests/large.dat | wc -c)\" = \"$(cat count)\"\n");
        env.write("count", "0\n");
        env.sh(&format!("{large}; git add -A; git commit -qm large")).assert_code(0);
        // The large one is what a test compares with, and the agent changes what it is compared to as well.
        let agent = if name == "the large one" { format!("{agent}; echo 1 >count") } else { agent };
        let (code, refused) = run(&env, &agent, CHECKED);
        assert_eq!(
            (code == Some(0), &refused[..]),
            (reasons.is_empty(), &reasons.iter().map(|r| (*r).to_owned()).collect::<Vec<_>>()[..]),
            "{name}"
        );
    }
}

#[test]
fn a_person_approves_a_narrowed_tree() {
    let env = tested();
    assert_eq!(run(&env, "echo true >tests/a.sh", CHECKED), (Some(3), vec!["narrowed".to_owned()]));
    env.run(["approve", "t"]).assert_code(0);
    env.run(["resume", "t"]).assert_code(0);
    assert!(env.receipt()["approved_by"].is_string());
    assert_eq!(env.agents(), 1, "no other agent was needed");
}

#[test]
fn by_default_tests_are_compared_and_gates_are_tried() {
    let env = tested();
    let mut args =
        env.args_of(&format!("echo true >tests/a.sh\n{PROMISE}"), &["-n", "1", "--gate", "./run.sh"]);
    // Without `--tests free --gate-in workspace`.
    args.truncate(args.len() - 4);
    env.run(args).assert_code(3);
    assert_eq!(env.of_type("claim_refused")[0]["reason"], "narrowed");
    assert_eq!(env.of_type("gate_tried").len(), 1);
    let places: Vec<String> =
        env.of_type("gate_finished").iter().map(|event| event["in"].to_string()).collect();
    assert!(places.contains(&"\"clean\"".to_owned()), "{places:?}");
}

#[test]
fn with_free_tests_in_the_workspace_nothing_is_compared_and_nothing_is_tried() {
    let env = tested();
    assert_eq!(run(&env, "echo true >tests/a.sh", &[]), (Some(0), vec![]));
    assert_eq!((env.of_type("gate_tried").len(), env.of_type("gate_finished").len()), (0, 1));
    let receipt = env.receipt();
    assert!(receipt.get("tests").is_none() && receipt.get("checked_in").is_none(), "{receipt}");
    // A file may ask for it as well as a flag, and no flag asks for less than a file.
    for extra in [&[][..], &["--may-edit-tests"]] {
        let env = tested();
        env.write(".dacapo/config.yaml", "tests: {mode: checked}\n");
        env.sh("git add -A; git commit -qm configured").assert_code(0);
        assert_eq!(run(&env, "echo true >tests/a.sh", extra), (Some(3), vec!["narrowed".to_owned()]));
    }
}

/// The defaults of `run` with a gate.
const PROBED: &[&str] = &["--tests", "checked", "--gate-in", "both", "--probe"];

/// A project whose gate fails for every `assert 1 == 2` among its tests, unless the code under test, `work.txt`, keeps it from that.
fn with_a_runner() -> TestEnv {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.write(
        "run.sh",
        "#!/bin/sh\nsteer=$(grep -c cheat work.txt)\nbad=$(grep -B1 'assert 1 == 2' tests/test_a.py | sed -n 's/^def \\(test_[a-z]*\\).*/\\1/p')\n\
         [ \"$steer\" = 0 ] || { echo '1 passed in 0.01s'; exit 0; }\n\
         ok=1; grep -q fixed work.txt || { ok=0; bad=\"$bad test_a\"; }\n\
         for name in $bad; do echo \"FAILED tests/test_a.py::$name\"; done\n\
         set -- $bad\n[ $# = 0 ] || { echo \"$# failed, $ok passed in 0.01s\"; exit 1; }\necho '1 passed in 0.01s'\n",
    );
    env.write("tests/test_a.py", "def test_a():\n    assert work()\n");
    env.write("work.txt", "broken\n");
    env.sh("chmod +x run.sh").assert_code(0);
    env.git_init();
    env
}

#[test]
fn code_under_test_that_keeps_a_failing_test_from_failing_is_refused() {
    let env = with_a_runner();
    let (code, refused) = run(&env, "echo cheat >work.txt", PROBED);
    assert_eq!((code, refused), (Some(3), vec!["narrowed".to_owned()]));
    let detail = env.of_type("claim_refused")[0]["detail"].to_string();
    assert_has(&detail, "passes although a test that was put into `tests/test_a.py` has to fail");
    assert_eq!(env.of_type("gate_tried")[0]["notices"][0]["path"], "tests/test_a.py");
    assert_eq!(env.git(["status", "--porcelain", "tests"]), "", "no test is put into the workspace");
    // Before the first agent nothing was learnt of the gate.
    let env = with_a_runner();
    assert_eq!(
        run(&env, "echo cheat >work.txt", &["--tests", "checked", "--gate-in", "both", "--no-probe"]).0,
        Some(0)
    );
}

#[test]
fn honest_work_shows_that_its_gate_notices_a_failing_test() {
    let env = with_a_runner();
    let (code, refused) = run(&env, FIX, PROBED);
    assert_eq!((code, refused), (Some(0), vec![]));
    let runs: Vec<(bool, bool, i64)> = env
        .of_type("gate_finished")
        .iter()
        .map(|run| (run["must_fail"] == true, run["passed"] == true, run["exit_code"].as_i64().unwrap()))
        .collect();
    assert_eq!(
        runs,
        [(false, true, 0), (false, true, 0), (true, true, 1)],
        "the last run stands for a second plain one"
    );
    assert_eq!(env.receipt()["tests"]["must_fail_noticed"], true);
    assert_has(&env.run(["receipt", "t"]).stdout, "the gates notice a test that has to fail");
    let names: Vec<String> = env
        .of_type("gate_finished")
        .iter()
        .filter_map(|run| run["must_fail_tests"]["noticed"][0]["path"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(names, ["tests/test_a.py"]);
    env.run(["verify", "t"]).assert_code(0);
}

/// Puts a program into a folder of its own that PATH begins with, and gives that PATH.
fn with_tool(env: &TestEnv, name: &str, text: &str) -> std::ffi::OsString {
    let folder = env.root().join("tools");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(name), text).expect("a program");
    std::fs::set_permissions(folder.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("its mode");
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&path))).expect("a PATH")
}

#[test]
fn the_programs_of_gates_are_in_the_receipt_by_their_hashes_and_one_that_changed_is_for_a_person() {
    let env = tested();
    // In a sandbox an agent could not change a program on PATH.
    env.without_sandbox();
    let path = with_tool(&env, "look", "#!/bin/sh\nexit 0\n");
    let tool = env.root().join("tools/look");
    let agent = format!(
        "{FIX}; [ $DACAPO_ITERATION = 1 ] && printf '#!/bin/sh\\nexit 1 || exit 0\\n' >{0} && exit 0\n{PROMISE}",
        tool.display()
    );
    let mut command = env.command_of(&agent, &[CHECKED, &["-n", "1", "--gate", "look; ./run.sh"]].concat());
    command.env("PATH", &path);
    env.run_command(command).assert_code(3);
    let noted = env.of_type("loop_started")[0]["outside"].clone();
    let of = |name: &str| {
        let all = noted.as_array().unwrap().iter();
        all.clone().find(|file| file["program"] == name).unwrap_or_else(|| panic!("{name}: {noted}")).clone()
    };
    assert_eq!(of("look")["path"], tool.display().to_string());
    let shell = of("sh");
    let hash = env.sh(&format!("sha256sum <{}", shell["path"].as_str().unwrap())).stdout;
    assert_eq!(shell["sha256"], hash.split(' ').next().unwrap());
    // A loop that goes on compares with what was there before the first agent.
    let dacapo = |args: &[&str]| {
        let mut command = env.command(env!("CARGO_BIN_EXE_dacapo"));
        command.args(args).env("PATH", &path);
        env.run_command(command)
    };
    dacapo(&["resume", "t", "-n", "+1"]).assert_code(3);
    let refused = env.of_type("claim_refused");
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0]["reason"], "tampered");
    assert_has(refused[0]["detail"].as_str().unwrap(), &tool.display().to_string());
    assert_has(refused[0]["detail"].as_str().unwrap(), "a person can approve it");
    assert_has(&dacapo(&["why", "t"]).stdout, "dacapo approve");
    dacapo(&["approve", "t"]).assert_code(0);
    dacapo(&["resume", "t"]).assert_code(0);
    let receipt = env.receipt();
    assert!(receipt["approved_by"].is_string(), "{receipt}");
    let programs = receipt["programs"].as_array().unwrap();
    assert!(programs.iter().any(|program| program["program"] == "sh"), "{programs:?}");
    assert!(!programs.iter().any(|program| program["program"] == "look"), "it did change: {programs:?}");
    dacapo(&["verify", "t"]).assert_code(0);
}

#[test]
fn an_approval_of_what_lies_outside_says_nothing_of_the_tests() {
    let env = tested();
    // In a sandbox an agent could not change a program on PATH.
    env.without_sandbox();
    let path = with_tool(&env, "look", "#!/bin/sh\nexit 0\n");
    let agent = format!(
        "echo true >tests/a.sh; printf '#!/bin/sh\\ntrue\\n' >{}\n{PROMISE}",
        env.root().join("tools/look").display()
    );
    let mut command = env.command_of(&agent, &[CHECKED, &["-n", "1", "--gate", "look && ./run.sh"]].concat());
    command.env("PATH", &path);
    env.run_command(command).assert_code(3);
    let dacapo = |args: &[&str]| {
        let mut command = env.command(env!("CARGO_BIN_EXE_dacapo"));
        command.args(args).env("PATH", &path);
        env.run_command(command)
    };
    let reasons = || -> Vec<String> {
        env.of_type("claim_refused")
            .iter()
            .map(|event| event["reason"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(reasons(), ["tampered"]);
    dacapo(&["approve", "t"]).assert_code(0);
    assert_ne!(dacapo(&["resume", "t"]).code, Some(0));
    assert_eq!(reasons(), ["tampered", "narrowed"]);
    dacapo(&["approve", "t"]).assert_code(0);
    dacapo(&["resume", "t"]).assert_code(0);
    assert_eq!(env.agents(), 1, "no other agent was needed");
}

#[test]
fn goalposts_are_read_only_while_a_gate_runs_in_a_checkout() {
    let env = tested();
    let modes = env.root().join("modes");
    let gate = format!("stat -c '%a %n' tests/a.sh run.sh work.txt >>{} && ./run.sh", modes.display());
    let agent = format!("{FIX}\n{PROMISE}");
    env.loop_of(&agent, &[CHECKED, &["-n", "1", "--no-probe", "--gate", &gate]].concat()).assert_code(0);
    let modes = std::fs::read_to_string(modes).unwrap();
    let runs: Vec<&str> = modes.lines().filter(|line| line.ends_with("tests/a.sh")).collect();
    assert_eq!(runs[0], "644 tests/a.sh", "the workspace is the user's");
    assert!(runs.len() >= 3 && runs[1..].iter().all(|line| *line == "444 tests/a.sh"), "{modes}");
    assert!(modes.contains("555 run.sh") && modes.contains("644 work.txt"), "{modes}");
    assert_has(&env.sh("stat -c %a tests/a.sh run.sh").stdout, "644\n755");
}

#[test]
fn a_gate_that_wrote_a_test_before_the_first_agent_does_so_on_purpose() {
    let gate = "cat tests/a.sh >t && cat t >tests/a.sh && rm t && ./run.sh";
    for (probe, code) in [("--probe", 0), ("--no-probe", 3)] {
        let env = tested();
        let agent = format!("{FIX}\n{PROMISE}");
        env.loop_of(&agent, &[CHECKED, &["-n", "1", probe, "--gate", gate]].concat()).assert_code(code);
        let refused = env.of_type("claim_refused");
        assert_eq!(refused.len(), usize::from(code == 3), "{probe}");
        if code == 3 {
            assert_has(refused[0]["detail"].as_str().unwrap(), "`tests/a.sh` was rewritten while gate");
        }
    }
}

#[test]
fn work_that_is_right_from_the_second_run_on_is_wrong() {
    let env = tested();
    env.write("tests/a.sh", "test -e built || { : >built; exit 1; }\n");
    env.git(["commit", "-qam", "a test of the second time"]);
    assert_eq!(run(&env, "echo x >>work.txt; : >built", CHECKED), (Some(3), vec!["gate_failed".to_owned()]));
}

/// How many git processes a loop starts whose agent does what `agent` says.
fn calls_of_git(agent: &str, extra: &[&str]) -> usize {
    let env = with_a_runner();
    let log = env.root().join("calls-of-git");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let real = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.is_file());
    let real = real.expect("git is needed on PATH: `apt install git`");
    let script = format!("#!/bin/sh\necho \"$*\" >>{}\nexec {} \"$@\"\n", log.display(), real.display());
    let path = with_tool(&env, "git", &script);
    let mut command = env.command_of(agent, &[&["-n", "1", "--gate", "./run.sh"], extra].concat());
    command.env("PATH", path);
    env.run_command(command);
    std::fs::read_to_string(log).unwrap_or_default().lines().count()
}

#[test]
fn a_claim_starts_at_most_six_git_processes_beyond_its_snapshot() {
    let work = "echo fixed >work.txt; printf '\\n\\ndef test_b():\\n    assert work()\\n' >>tests/test_a.py";
    let claim = format!("{work}\n{PROMISE}");
    let plain = &["--tests", "free", "--gate-in", "workspace", "--no-probe"][..];
    // What a start and an iteration cost is no part of it.
    let checked = calls_of_git(&claim, PROBED) - calls_of_git(work, PROBED);
    let free = calls_of_git(&claim, plain) - calls_of_git(work, plain);
    assert!(
        checked <= free + 6,
        "{checked} for a claim that is checked in every way, and {free} for one that is not"
    );
    assert!(checked > free, "the claim was not checked");
    let fixes = "echo fixed >work.txt";
    let usual = calls_of_git(&format!("{fixes}\n{PROMISE}"), PROBED) - calls_of_git(fixes, PROBED);
    assert!(usual <= 6, "{usual} for a claim that has changed no test");
}
