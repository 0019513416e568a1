//! What is a goalpost, what moves one, and what is said at the end of tests.

use std::collections::BTreeMap;

use super::{
    modules::{imported_by_test, is_data_of_tests, is_helper_of_test},
    *,
};

#[test]
fn files_are_tests_or_settings_by_their_names() {
    use GoalpostKind::{Keys, Setting, Shadow, Test};
    for (path, kind) in [
        ("tests/a.rs", Some(Test)),
        ("tests/data/expected.json", Some(Test)),
        ("src/__tests__/a.js", Some(Test)),
        ("src/a.test.ts", Some(Test)),
        ("a_test.go", Some(Test)),
        ("pkg/test_a.py", Some(Test)),
        ("src/test/java/ATest.java", Some(Test)),
        ("src/main/java/org/test/Thing.java", None),
        ("src/foo_tests.rs", Some(Test)),
        ("spec/a_spec.rb", Some(Test)),
        ("test_main.c", Some(Test)),
        ("conftest.py", Some(Setting)),
        ("sub/conftest.py", Some(Setting)),
        ("tests/conftest.py", Some(Setting)),
        ("pytest.ini", Some(Setting)),
        (".cargo/config.toml", Some(Setting)),
        ("cfg/config.toml", None),
        ("jest.config.ts", Some(Setting)),
        (".mocharc.yaml", Some(Setting)),
        ("build/rules.mk", Some(Setting)),
        ("Makefile", Some(Setting)),
        ("lib/evil.pth", Some(Setting)),
        (".env.test", Some(Setting)),
        ("pytest.py", Some(Shadow)),
        ("_pytest/main.py", Some(Shadow)),
        ("unittest/__init__.py", Some(Shadow)),
        ("bdb.py", Some(Shadow)),
        ("json/__init__.py", Some(Shadow)),
        ("app/json/__init__.py", None),
        ("internal/mock/mock.go", None),
        ("src/coverage/report.py", None),
        ("stdio.h", Some(Shadow)),
        ("include/assert.h", Some(Shadow)),
        ("node_modules/jest/index.js", Some(Shadow)),
        ("Cargo.toml", Some(Keys(SharedFile::CargoToml))),
        ("crates/a/Cargo.toml", Some(Keys(SharedFile::CargoToml))),
        ("package.json", Some(Keys(SharedFile::PackageJson))),
        ("src/lib.rs", Some(Keys(SharedFile::RustSource))),
        ("src/lib.py", None),
        ("src/attest.py", None),
        ("src/contest.js", None),
        ("README.md", None),
        ("Cargo.lock", None),
        ("package-lock.json", None),
        (".dacapo/tests/a.py", None),
        (".git/tests/a", None),
    ] {
        assert_eq!(kind_of(path), kind, "{path}");
    }
}

#[test]
fn only_what_a_runner_finds_by_itself_takes_part_at_once() {
    for (path, is) in [
        ("tests/new.rs", true),
        ("tests/new/main.rs", true),
        ("src/new_tests.rs", false),
        ("tests/new.py", true),
        ("a.test.ts", true),
        ("tests/data.json", false),
        ("tests/README.md", false),
    ] {
        assert_eq!(is_discovered(path), is, "{path}");
    }
}

/// What decides in `old` and `new`, and `new` as it would be before.
fn compared(shared: SharedFile, old: &str, new: &str) -> (bool, String) {
    (shared.deciding_part(old) == shared.deciding_part(new), shared.as_before(old, new))
}

#[test]
fn in_package_json_scripts_and_runners_decide_and_dependencies_do_not() {
    let old = r#"{"name": "a", "scripts": {"test": "jest"}, "dependencies": {"x": "1"}}"#;
    for (new, is_equal) in [
        (
            r#"{"name": "a", "version": "2", "scripts": {"test": "jest"}, "dependencies": {"x": "2", "y": "1"}}"#,
            true,
        ),
        (r#"{"name": "a", "scripts": {"test": "true"}, "dependencies": {"x": "1"}}"#, false),
        (r#"{"scripts": {"test": "jest", "pretest": "rm -r tests"}}"#, false),
        (r#"{"scripts": {"test": "jest", "build": "tsc"}}"#, false),
        (r#"{"scripts": {"test": "jest"}, "jest": {"testMatch": []}}"#, false),
        ("not json", false),
    ] {
        let (equal, before) = compared(SharedFile::PackageJson, old, new);
        assert_eq!(equal, is_equal, "{new}");
        let before: serde_json::Value = serde_json::from_str(&before).unwrap();
        assert_eq!(before["scripts"]["test"], "jest", "{new}");
        assert!(before["scripts"].get("pretest").is_none() && before.get("jest").is_none(), "{new}");
    }
    let new = r#"{"scripts": {"test": "true", "build": "tsc"}, "dependencies": {"y": "1"}}"#;
    let before: serde_json::Value =
        serde_json::from_str(&SharedFile::PackageJson.as_before(old, new)).unwrap();
    assert_eq!(before["dependencies"], serde_json::json!({"y": "1"}), "honest work stays");
    assert_eq!(before["scripts"], serde_json::json!({"test": "jest", "build": "tsc"}));
}

#[test]
fn in_cargo_toml_what_is_tested_decides_and_dependencies_do_not() {
    let old = "[package]\nname = \"a\"\nversion = \"0.1.0\"\n\n[dependencies]\nx = \"1\"\n";
    for (added, is_equal) in [
        ("y = \"2\"\n", true),
        ("\n[dev-dependencies]\nz = \"1\"\n", true),
        ("\n[[bin]]\nname = \"b\"\npath = \"src/b.rs\"\n", true),
        ("\n[lib]\ntest = false\n", false),
        ("\n[[test]]\nname = \"a\"\nharness = false\n", false),
        ("\n[[bin]]\nname = \"b\"\ntest = false\n", false),
        ("\n[patch.crates-io]\nx = { path = \"x\" }\n", false),
        ("\n[lints.clippy]\nall = \"allow\"\n", false),
    ] {
        let new = format!("{old}{added}");
        let (equal, before) = compared(SharedFile::CargoToml, old, &new);
        assert_eq!(equal, is_equal, "{added}");
        assert_eq!(SharedFile::CargoToml.deciding_part(&before), None, "{before}");
    }
    let new = old
        .replace("version = \"0.1.0\"", "version = \"0.2.0\"\nautotests = false")
        .replace("x = \"1\"", "x = \"2\"");
    let (equal, before) = compared(SharedFile::CargoToml, old, &new);
    assert!(!equal);
    assert!(
        before.contains("0.2.0") && before.contains("x = \"2\"") && !before.contains("autotests"),
        "{before}"
    );
    // A member more is honest work; one less is not.
    let old = "[workspace]\nmembers = [\"a\", \"b\"]\n";
    let before = SharedFile::CargoToml.as_before(old, "[workspace]\nmembers = [\"a\", \"c\"]\n");
    for member in ["\"a\"", "\"b\"", "\"c\""] {
        assert!(before.contains(member), "{before}");
    }
}

#[test]
fn in_python_settings_the_sections_of_runners_decide() {
    let old = "[project]\nname = \"a\"\n\n[tool.pytest.ini_options]\naddopts = \"-q\"\n";
    let new = "[project]\nname = \"a\"\ndependencies = [\"x\"]\n\n[tool.pytest.ini_options]\naddopts = \"-q --ignore=tests\"\n";
    let (equal, before) = compared(SharedFile::PyprojectToml, old, new);
    assert!(!equal && before.contains("dependencies") && !before.contains("--ignore"), "{before}");
    let old = "[metadata]\nname = a\n[tool:pytest]\naddopts = -q\n";
    let new = "[metadata]\nname = b\n[tool:pytest]\naddopts = -k nothing\n";
    let (equal, before) = compared(SharedFile::SetupCfg, old, new);
    assert!(!equal);
    assert_eq!(before, "[metadata]\nname = b\n[tool:pytest]\naddopts = -q\n");
    let (equal, _) = compared(SharedFile::SetupCfg, old, &old.replace("name = a", "name = c"));
    assert!(equal);
}

#[test]
fn tests_among_rust_sources_come_back_and_the_sources_stay() {
    const OLD: &str = "pub fn f() -> u8 { 1 }\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn is_two() { assert_eq!(f(), 2); }\n}\n";
    let fixed = OLD.replace("{ 1 }", "{ 2 }");
    let (equal, before) = compared(SharedFile::RustSource, OLD, &fixed);
    assert!(equal, "the work itself is no goalpost");
    assert_eq!(before, fixed);
    for weaker in [
        fixed.replace("f(), 2", "f(), f()"),
        fixed.replace("#[cfg(test)]", "#[cfg(any())]"),
        fixed.replace("#[test]", "#[test]\n    #[ignore]"),
        fixed.split("#[cfg(test)]").next().unwrap().to_owned(),
        format!("macro_rules! assert_eq {{ ($($t:tt)*) => {{}} }}\n{fixed}"),
    ] {
        let (equal, before) = compared(SharedFile::RustSource, OLD, &weaker);
        assert!(!equal, "{weaker}");
        assert!(before.contains("{ 2 }"), "the work stays: {before}");
        assert!(before.contains("#[cfg(test)]\nmod tests {"), "{before}");
        assert!(before.contains("assert_eq!(f(), 2)") && !before.contains("#[ignore]"), "{before}");
        assert!(!before.contains("macro_rules"), "{before}");
    }
    // Formatting alone moves nothing, cases that are added do.
    let (equal, _) = compared(SharedFile::RustSource, OLD, &OLD.replace("    ", "\t"));
    assert!(equal);
    let more = fixed.replace("fn is_two()", "fn other() {}\n    #[test]\n    fn is_two()");
    assert_eq!(compared(SharedFile::RustSource, OLD, &more), (false, fixed));
    assert_eq!(SharedFile::RustSource.deciding_part("pub fn f() {}\n"), None);
}

#[test]
fn blocks_of_cmake_gradle_and_maven_come_back() {
    let old = "project(a)\nenable_testing()\nadd_executable(t t.c)\nadd_test(NAME t COMMAND t)\n";
    let new = "project(a)\nenable_testing()\nadd_executable(t t.c more.c)\nadd_test(NAME t COMMAND true)\n";
    let (equal, before) = compared(SharedFile::Cmake, old, new);
    assert!(
        !equal && before.contains("more.c") && before.contains("COMMAND t)") && !before.contains("true"),
        "{before}"
    );
    let old = "dependencies {\n  implementation 'x'\n}\ntest {\n  useJUnitPlatform()\n}\n";
    let new = "dependencies {\n  implementation 'y'\n}\ntest {\n  useJUnitPlatform()\n  exclude '**/*'\n}\n";
    let (equal, before) = compared(SharedFile::Gradle, old, new);
    assert!(!equal && before.contains("'y'") && !before.contains("exclude"), "{before}");
    let old = "<project><build><plugins></plugins></build></project>";
    let new = "<project><properties><skipTests>true</skipTests></properties><build><plugins></plugins></build></project>";
    let (equal, before) = compared(SharedFile::MavenPom, old, new);
    assert!(!equal && !before.contains("skipTests"), "{before}");
}

fn posts(files: &[(&str, &str)]) -> Goalposts {
    let of = |(path, text): &(&str, &str)| {
        Some(((*path).to_owned(), Goalpost::of(kind_of(path)?, text.as_bytes())?))
    };
    Goalposts(files.iter().filter_map(of).collect::<BTreeMap<_, _>>())
}

#[test]
fn changed_removed_and_added_goalposts_are_told_apart_from_work() {
    use Moved::{Added, Changed, Removed};
    let before = posts(&[
        ("tests/a.py", "1"),
        ("tests/b.py", "2"),
        ("Cargo.toml", "[dependencies]\n"),
        ("src/a.py", "x"),
    ]);
    let now = posts(&[
        ("tests/a.py", "weaker"),
        ("tests/new.py", "3"),
        ("tests/new.json", "{}"),
        ("conftest.py", "hook"),
        ("Cargo.toml", "[dependencies]\nx = \"1\"\n"),
        ("src/a.py", "y"),
    ]);
    let moved: Vec<(String, Moved)> =
        before.moved_to(&now).into_iter().map(|moved| (moved.path, moved.how)).collect();
    let expected =
        [("conftest.py", Added), ("tests/a.py", Changed), ("tests/b.py", Removed), ("tests/new.py", Added)];
    assert_eq!(moved, expected.map(|(path, how)| (path.to_owned(), how)));
    assert_eq!(before.moved_to(&before), []);
    assert_ne!(before.seal(), now.seal());
}

struct Files(BTreeMap<&'static str, &'static str>);

impl Following for Files {
    fn text(&self, path: &str) -> Option<String> {
        self.0.get(path).map(|text| (*text).to_owned())
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        let globs = crate::judge::glob::Globs::parse(&[pattern.to_owned()]).unwrap_or_default();
        self.0.keys().filter(|path| globs.matches(path)).map(|path| (*path).to_owned()).collect()
    }

    fn hook(&self, name: &str) -> Option<String> {
        Some(format!("hooks/{name}"))
    }
}

#[test]
fn hooks_that_a_gate_runs_by_their_names_are_followed() {
    let files = Files(BTreeMap::from([
        ("hooks/pre-push", "#!/bin/sh\nexec sh tests/run.sh\n"),
        ("tests/run.sh", "true"),
        ("check.sh", "git -C . hook run --ignore-missing pre-push\n"),
        ("pre-push", "true"),
    ]));
    let hook = vec!["hooks/pre-push", "tests/run.sh"];
    for (command, paths, runs_hooks) in [
        ("git hook run pre-push", hook.clone(), true),
        ("sh check.sh", [vec!["check.sh"], hook].concat(), true),
        ("git hook run commit-msg", vec![], true),
        ("git hook list pre-push", vec![], false),
        ("git log hook run", vec![], false),
        ("echo hook run pre-push", vec![], false),
    ] {
        let found = follow(command, "", &files);
        let named: Vec<&str> = found.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!((named, found.runs_hooks), (paths, runs_hooks), "{command}");
    }
}

#[test]
fn what_is_new_is_welcome_unless_tests_ran_before_it() {
    use Moved::{Added, Changed, Removed};
    let moved = |path: &str, how| MovedGoalpost { path: path.to_owned(), kind: kind_of(path).unwrap(), how };
    for (moved, had_tests, ran_before, must) in [
        (vec![], true, Some(3), false),
        (vec![moved("tests/a.py", Changed)], true, None, true),
        (vec![moved("tests/a.py", Removed)], true, Some(0), true),
        (vec![moved("tests/a.py", Added)], true, None, true),
        (vec![moved("tests/a.py", Added)], false, None, false),
        (vec![moved("tests/a.py", Added)], true, Some(3), true),
        (vec![moved("tests/a.py", Added)], false, Some(0), false),
        (vec![moved("conftest.py", Added)], true, None, true),
        (vec![moved("conftest.py", Added)], true, Some(0), false),
        (vec![moved("conftest.py", Added)], false, None, false),
        (vec![moved("tests/a.py", Added), moved("Makefile", Changed)], false, None, true),
    ] {
        assert_eq!(must_pass_as_before(&moved, had_tests, ran_before, true), must, "{moved:?}");
    }
    let new = [moved("tests/a.py", Added)];
    assert!(!must_pass_as_before(&new, true, None, false), "tasks often write what proves them");
}

#[test]
fn scripts_and_makefiles_are_followed_as_far_as_they_can_be_read() {
    let files = Files(BTreeMap::from([
        (
            "check.sh",
            "#!/bin/sh\n. ./lib.sh\nDIR=scripts\nsh $DIR/run.sh\nfor t in tests/*.sh; do sh \"$t\"; done\n/opt/check.sh\n",
        ),
        ("lib.sh", "source more.sh\n"),
        ("more.sh", "true\n"),
        ("scripts/run.sh", "here=$(dirname \"$0\")\n. \"$here/util.sh\"\ncd sub && ./x\n"),
        ("scripts/util.sh", ""),
        ("sub/x", "#!/bin/sh\npytest -q\n"),
        ("tests/a.sh", "true"),
        ("tests/b.sh", "true"),
        ("/opt/check.sh", "true"),
        ("Makefile", "include rules.mk\nT = tools\ntest: build\n\t@$(T)/run.sh\n\tcargo test\n"),
        ("rules.mk", "X = 1\n"),
        ("tools/run.sh", "true"),
        ("package.json", r#"{"scripts": {"test": "node run.js && jest", "pretest": "sh lib.sh"}}"#),
        ("run.js", ""),
        ("justfile", "test:\n  ./tools/run.sh\n"),
    ]));
    for (command, paths, runners) in [
        (
            "./check.sh",
            vec![
                "check.sh",
                "lib.sh",
                "scripts/run.sh",
                "tests/a.sh",
                "tests/b.sh",
                "/opt/check.sh",
                "more.sh",
                "scripts/util.sh",
                "sub/x",
            ],
            vec![Runner::Pytest],
        ),
        ("make test", vec!["Makefile", "tools/run.sh", "rules.mk"], vec![Runner::Make, Runner::Cargo]),
        ("npm test", vec!["lib.sh", "run.js", "more.sh"], vec![Runner::NpmScript, Runner::Jest]),
        ("just test", vec!["justfile", "tools/run.sh"], vec![Runner::Just]),
        ("cargo test --workspace", vec![], vec![Runner::Cargo]),
        ("python3 -m pytest -q", vec![], vec![Runner::Pytest]),
        ("grep -q x notes", vec![], vec![]),
        (
            "S=check.sh; sh $S",
            vec![
                "check.sh",
                "lib.sh",
                "scripts/run.sh",
                "tests/a.sh",
                "tests/b.sh",
                "/opt/check.sh",
                "more.sh",
                "scripts/util.sh",
                "sub/x",
            ],
            vec![Runner::Pytest],
        ),
    ] {
        let followed = follow(command, "", &files);
        let found: Vec<&str> = followed.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!((found, followed.runners), (paths, runners), "{command}");
    }
}

#[test]
fn the_program_that_a_script_tests_is_no_part_of_the_test() {
    for (script, followed) in [
        // What it prints is compared.
        ("same \"$(bin/add 2 2)\" 4", vec![]),
        ("[ `./calc 2 2` = 4 ]", vec![]),
        ("./calc 2 2 | diff - expected", vec![]),
        ("./calc 2 2 >got && diff got expected", vec![]),
        ("python3 calc.py 2 2 | grep -q 4", vec![]),
        // It lies where products lie.
        ("bin/add 2 2 || exit 1", vec![]),
        ("if ! bin/add 2 2; then exit 1; fi", vec![]),
        // How it ends is the verdict, or its name says that it checks.
        ("./calc 2 2", vec!["calc"]),
        ("./calc >/dev/null 2>&1", vec!["calc"]),
        ("./calc 2>errors", vec!["calc"]),
        ("./calc || exit 1", vec!["calc"]),
        ("x=$(./calc); ./calc", vec!["calc"]),
        ("bin/check-sums | tee log", vec!["bin/check-sums"]),
        ("[ \"$(ci/run)\" = ok ]", vec!["ci/run"]),
        // What is sourced decides, wherever its output goes.
        ("x=$(. bin/lib.sh; sum 2 2)", vec![]),
        ("x=$(. ./lib.sh; sum 2 2)", vec!["lib.sh"]),
        // What a build made is no script.
        ("./built", vec![]),
    ] {
        let files = Files(BTreeMap::from([
            ("run.sh", script),
            ("bin/add", "#!/bin/sh\n. lib.sh\n"),
            ("bin/lib.sh", "true"),
            ("bin/check-sums", "#!/bin/sh\n"),
            ("ci/run", "#!/bin/sh\n"),
            ("calc", "#!/bin/sh\n"),
            ("calc.py", "print(4)"),
            ("lib.sh", "true"),
            ("built", "\u{7f}ELF\0\0"),
        ]));
        let found = follow("sh run.sh", "", &files).files;
        let found: Vec<&str> = found.iter().map(|file| file.path.as_str()).skip(1).collect();
        assert_eq!(found, followed, "{script}");
    }
    // The interpreter of a script is followed where it is not the system's.
    let files = Files(BTreeMap::from([
        ("check", "#!/home/me/interp -x\n"),
        ("/home/me/interp", "#!/bin/sh\n"),
        ("/bin/sh", ""),
    ]));
    let found = follow("./check", "", &files).files;
    assert_eq!(found.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["check", "/home/me/interp"]);
    // What the gate itself names is followed in any case.
    let files = Files(BTreeMap::from([("bin/add", "#!/bin/sh\n")]));
    assert_eq!(follow("bin/add 2 2 | grep 4", "", &files).files.len(), 1);
}

#[test]
fn a_module_that_an_expression_has_judge_is_part_of_the_test() {
    for (script, followed) in [
        // The module compares, the expression does not.
        ("python3 -c 'import judge; judge.main()'", vec!["judge.py"]),
        ("python3 -c 'from judge import main; main()'", vec!["judge.py"]),
        // The expression compares what the work says.
        ("python3 -c 'import work; assert work.add(2, 2) == 4'", vec![]),
        ("python3 -c 'import work; print(work.add(2, 2) == 4)'", vec![]),
        // A module that judges no other is the work.
        ("python3 -c 'import work; work.main()'", vec![]),
        ("python3 -c 'import json; json.loads(1)'", vec![]),
    ] {
        let files = Files(BTreeMap::from([
            ("run.sh", script),
            ("judge.py", "import work\ndef main():\n    assert work.add(2, 2) == 4\n"),
            ("work.py", "def add(a, b):\n    return a + b\n"),
        ]));
        let found = follow("sh run.sh", "", &files).files;
        let found: Vec<&str> = found.iter().map(|file| file.path.as_str()).skip(1).collect();
        assert_eq!(found, followed, "{script}");
    }
}

#[test]
fn a_command_that_a_script_finds_on_a_path_of_the_workspace_is_part_of_the_test() {
    for (script, followed) in [
        ("PATH=$PWD/tools:$PATH\njudge-sums 2 2\n", vec!["tools/judge-sums"]),
        ("export PATH=\"$PWD/tools:$PATH\"\njudge-sums 2 2\n", vec!["tools/judge-sums"]),
        // Where the folder is on no PATH, or the command is not run by its name at the start of a line.
        ("judge-sums 2 2\n", vec![]),
        ("PATH=$PWD/other:$PATH\njudge-sums 2 2\n", vec![]),
        ("PATH=$PWD/tools:$PATH\necho judge-sums\n", vec![]),
        // A folder of products holds the work.
        ("PATH=$PWD/bin:$PATH\nadd 2 2\n", vec![]),
    ] {
        let files = Files(BTreeMap::from([
            ("run.sh", script),
            ("tools/judge-sums", "#!/bin/sh\ntest \"$1\" = \"$2\"\n"),
            ("bin/add", "#!/bin/sh\necho 4\n"),
        ]));
        let found = follow("sh run.sh", "", &files).files;
        let found: Vec<&str> = found.iter().map(|file| file.path.as_str()).skip(1).collect();
        assert_eq!(found, followed, "{script}");
    }
}

#[test]
fn patterns_of_scripts_are_known_if_they_find_something() {
    let files = Files(BTreeMap::from([
        ("run.sh", "for f in cases/*.sh; do . \"$f\"; done\nfor f in none/*.sh; do sh $f; done\n"),
        ("cases/a.sh", "true"),
    ]));
    assert_eq!(follow("sh run.sh", "", &files).patterns, ["cases/*.sh"]);
}

#[test]
fn patterns_by_which_a_script_lists_what_it_runs_are_known() {
    let files =
        Files(BTreeMap::from([("checks/v1.sh", "true"), ("src/a.sh", "true"), ("docs/a.md", "words")]));
    for (command, patterns) in [
        ("sh \"$(ls -1 checks/*.sh | sort -V | tail -n 1)\"", vec!["checks/*.sh"]),
        ("find checks/*.sh | xargs -n 1 sh", vec!["checks/*.sh"]),
        // What is only looked at.
        ("ls checks/*.sh | wc -l", vec![]),
        ("sh -n \"$(ls checks/*.sh)\"", vec![]),
        ("ls docs/*.md | xargs -n 1 cat", vec![]),
        ("sh \"$(ls none/*.sh)\"", vec![]),
    ] {
        assert_eq!(follow(command, "", &files).patterns, patterns, "{command}");
    }
}

#[test]
fn branches_that_a_gate_takes_files_from_are_told_from_those_it_compares_with() {
    for (script, branches) in [
        ("git archive checks | tar -x -C build && cd build && sh tests/run.sh", vec!["checks"]),
        ("git show checks:tests/run.sh | sh", vec!["checks"]),
        ("git checkout checks -- tests && sh tests/run.sh", vec!["checks", "tests"]),
        ("git restore --source=checks tests", vec!["checks", "tests"]),
        ("git diff --quiet main -- tests", vec![]),
        ("git log main..HEAD", vec![]),
        ("git checkout main", vec![]),
        ("git show main", vec![]),
        ("git show $BRANCH:a", vec![]),
        ("tar archive main", vec![]),
    ] {
        assert_eq!(branches_read(script), branches, "{script}");
    }
}

#[test]
fn a_module_of_go_that_is_new_counts_where_tests_were() {
    let before = posts(&[("sums/a_test.go", "1"), ("go.mod", "module a")]);
    for (new, text, counts) in [
        ("sums/go.mod", "module b", true),
        ("other/go.mod", "module b", false),
        ("go.mod", "module a\nrequire x v1", false),
    ] {
        let mut now = before.clone();
        now.0.extend(posts(&[(new, text)]).0);
        assert_eq!(!before.moved_to(&now).is_empty(), counts, "{new}");
    }
    assert_eq!(SharedFile::GoMod.as_before("", "module b"), "", "one that is new goes");
    assert_eq!(SharedFile::GoMod.as_before("module a", "module a\nrequire x v1"), "module a\nrequire x v1");
    // What stands for a module that tests use.
    let replaced = "module a\n\nreplace x => ./x\n";
    assert_eq!(
        SharedFile::GoMod
            .as_before(replaced, "module a\nreplace (\n\tx => ./weak // better\n\ty => ./y\n)\n"),
        "module a\n\nreplace x => ./x\n\nreplace y => ./y\n"
    );
    let more = "module a\n\nreplace x => ./x\n\nreplace y v1.0.0 => ./y\n";
    assert_eq!(SharedFile::GoMod.as_before(replaced, more), more, "one that is new stays");
    assert_eq!(
        SharedFile::GoMod.deciding_part("module b\nreplace  x   => ./x\n"),
        SharedFile::GoMod.deciding_part(replaced)
    );
    assert_eq!(
        SharedFile::GoMod.deciding_part("module a\nrequire y v1\n"),
        SharedFile::GoMod.deciding_part("module a\n")
    );
    // Where the tests of a crate have what they compare with.
    let cargo =
        |checks: &str| format!("[package]\nname = \"a\"\n\n[dev-dependencies]\nserde = \"1\"\n{checks}");
    let (strict, weak) = (cargo("checks = { path = \"checks\" }\n"), cargo("checks = { path = \"weak\" }\n"));
    assert_ne!(SharedFile::CargoToml.deciding_part(&strict), SharedFile::CargoToml.deciding_part(&weak));
    assert_eq!(SharedFile::CargoToml.as_before(&strict, &weak), strict);
    assert_eq!(SharedFile::CargoToml.as_before(&cargo(""), &strict), strict, "one that is new stays");
    assert_eq!(
        SharedFile::CargoToml.as_before(&strict, "[package]\nname = \"a\"\n").matches("checks").count(),
        2
    );
}

#[test]
fn no_dependency_takes_the_name_by_which_tests_know_the_library() {
    let package =
        |name: &str, more: &str| format!("[package]\nname = \"{name}\"\n\n[dependencies]\nx = \"1\"\n{more}");
    let old = package("my-calc", "");
    let rival = "my_calc = { package = \"sums\", path = \"vendored\" }\n";
    for (new, before) in [
        (package("other", rival), package("other", "")),
        (
            package("my-calc", &format!("{rival}\n[lib]\nname = \"other\"\n")),
            package("my-calc", "\n[lib]\nname = \"other\"\n"),
        ),
        (
            package("other", "\n[target.'cfg(unix)'.dev-dependencies]\nmy-calc = { path = \"vendored\" }\n"),
            package("other", "\n[target.'cfg(unix)'.dev-dependencies]\n"),
        ),
    ] {
        let (is_equal, found) = compared(SharedFile::CargoToml, &old, &new);
        assert!(!is_equal, "{new}");
        assert_eq!(found, before);
    }
    let helped = package("my-calc", "sums = { path = \"sums\" }\n");
    assert_eq!(SharedFile::CargoToml.as_before(&old, &helped), helped, "another name is honest work");
    assert_eq!(SharedFile::CargoToml.as_before(&helped, &helped), helped);
}

#[test]
fn imports_of_a_package_lead_where_checks_rest() {
    let old = r##"{"imports": {"#agree": "./lib/agree.js", "#calc": "./src/calc.js"}}"##;
    let new =
        r##"{"imports": {"#agree": "./lib/loose.js", "#calc": "./src/sums.js", "#new": "./src/new.js"}}"##;
    let rest_on = |path: &str| path == "lib/agree.js";
    let checks = Checks { ask_for: &|_| true, rest_on: &rest_on, shadows: &|_| false };
    let before: serde_json::Value =
        serde_json::from_str(&SharedFile::PackageJson.as_before_for(old, new, &checks)).unwrap();
    let expected =
        serde_json::json!({"#agree": "./lib/agree.js", "#calc": "./src/sums.js", "#new": "./src/new.js"});
    assert_eq!(before["imports"], expected);
    assert_ne!(SharedFile::PackageJson.deciding_part(old), SharedFile::PackageJson.deciding_part(new));
}

#[test]
fn files_in_the_home_folder_are_followed_before_they_are_there() {
    struct AtHome;
    impl Following for AtHome {
        fn text(&self, path: &str) -> Option<String> {
            match path {
                "Makefile" => {
                    Some("-include $(HOME)/.make/local.mk\ntest:\n\t. ~/.checks; cargo test\n".to_owned())
                }
                "/home/me/.checks" => Some("true".to_owned()),
                _ => None,
            }
        }
        fn matching(&self, _: &str) -> Vec<String> {
            Vec::new()
        }
        fn home(&self) -> Option<String> {
            Some("/home/me".to_owned())
        }
    }
    let followed = follow("make test", "", &AtHome);
    assert_eq!(followed.absent, ["/home/me/.make/local.mk"]);
    let files: Vec<&str> = followed.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["Makefile", "/home/me/.checks"]);
}

#[test]
fn snapshots_of_a_new_test_go_with_it() {
    let before = posts(&[("test/a.test.js", "1")]);
    let now = posts(&[
        ("test/a.test.js", "1"),
        ("test/__snapshots__/a.test.js.snap", "of an old test"),
        ("test/b.test.js", "2"),
        ("test/__snapshots__/b.test.js.snap", "of a new test"),
    ]);
    let moved: Vec<String> = before.moved_to(&now).into_iter().map(|moved| moved.path).collect();
    assert_eq!(moved, ["test/__snapshots__/b.test.js.snap", "test/b.test.js"]);
}

#[test]
fn folders_of_sources_that_are_new_follow_those_that_were_there() {
    let file = |folders: &str| format!("[tool.pytest.ini_options]\npythonpath = {folders}\n");
    let shadows = |folder: &str| folder == "shim";
    let checks = Checks { ask_for: &|_| true, rest_on: &|_| false, shadows: &shadows };
    for (old, new, before) in [
        // The sources moved: what is left in the old folder is found first.
        ("[\".\"]", "[\"src\"]", "[\".\", \"src\"]"),
        ("[\".\"]", "[\"src\", \".\"]", "[\".\", \"src\"]"),
        ("\".\"", "\"src lib\"", "[\".\", \"src\", \"lib\"]"),
        // A module in there would stand for a part of the runner.
        ("[\".\"]", "[\"shim\", \".\"]", "[\".\"]"),
        ("[\".\"]", "[\"/tmp/src\", \"../src\", \"src/../../x\"]", "[\".\"]"),
        ("[\".\"]", "[]", "[\".\"]"),
    ] {
        let merged = SharedFile::PyprojectToml.as_before_for(&file(old), &file(new), &checks);
        assert_eq!(merged, file(before), "{old} {new}");
    }
    // Where no folder of the workspace came first, none does.
    let old = "[tool.pytest.ini_options]\ntestpaths = [\"tests\"]\n";
    assert_eq!(SharedFile::PyprojectToml.as_before_for(old, &file("[\"src\"]"), &checks), old);
}

#[test]
fn the_reports_of_runners_are_read() {
    for (output, ran, skipped, names) in [
        (
            "running 2 tests\ntest tests::a ... ok\ntest b ... FAILED\ntest c ... ignored\n\ntest result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
            2,
            1,
            vec!["b", "tests::a"],
        ),
        (
            "test a ... ok\n\nsuccesses:\n\n---- a stdout ----\n3 passed in 0.01s\n\nsuccesses:\n    a\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
            1,
            0,
            vec!["a"],
        ),
        (
            "        PASS [   0.006s] krate tests::a\n     Summary [   0.012s] 3 tests run: 3 passed, 1 skipped\n",
            3,
            1,
            vec!["krate tests::a"],
        ),
        // What nextest shows of a test that failed, also when it is tried again, is counted in its summary.
        (
            "    Starting 2 tests across 2 binaries\n        PASS [   0.010s] (1/2) calc::calc fine\n        FAIL [   0.077s] (2/2) calc::calc adds\n  stdout ───\n\n    running 1 test\n    test adds ... FAILED\n\n    failures:\n        adds\n\n    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.07s\n\n     Summary [   0.081s] 2 tests run: 1 passed, 1 failed, 0 skipped\n",
            2,
            0,
            vec!["(1/2) calc::calc fine", "(2/2) calc::calc adds"],
        ),
        // Without such a summary it is somebody's indent around libtest.
        ("    test result: ok. 2 passed; 0 failed; 0 ignored\n", 2, 0, vec![]),
        // What libtest shows of a test that failed is not what it counted itself.
        (
            "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\ntest inner ... ok\ntest result: ok. 7 passed; 0 failed\n\nfailures:\n    a\n\ntest result: FAILED. 0 passed; 1 failed\n",
            1,
            0,
            vec!["a"],
        ),
        ("..F [100%]\n=========== 1 failed, 2 passed, 1 skipped in 0.12s ===========\n", 3, 1, vec![]),
        ("3 passed in 0.01s\n", 3, 0, vec![]),
        ("\u{1b}[32m\u{1b}[1m2 passed\u{1b}[0m, 1 warning\u{1b}[32m in 0.01s\u{1b}[0m\n", 2, 0, vec![]),
        ("tests/test_a.py::test_b PASSED [ 50%]\n1 passed in 0.01s", 1, 0, vec!["tests/test_a.py::test_b"]),
        ("no tests ran in 0.00s\n", 0, 0, vec![]),
        ("...\n----\nRan 3 tests in 0.001s\n\nOK (skipped=1)\n", 2, 1, vec![]),
        ("Ran 3 tests in 0.001s\n\nFAILED (failures=1)\n", 3, 0, vec![]),
        // Parts of one test that failed, and what a module takes down, are no tests of their own.
        ("Ran 2 tests in 0.001s\n\nFAILED (failures=3, errors=1)\n", 2, 0, vec![]),
        ("Ran 5 tests in 0.001s\n\nOK\nRan 2 tests in 0.001s\n\nFAILED (failures=3)\n", 7, 0, vec![]),
        // What a class sets up failed, before any test.
        ("Ran 0 tests in 0.001s\n\nFAILED (errors=1)\n", 1, 0, vec![]),
        (
            "✔ adds (1.2ms)\nℹ tests 2\nℹ suites 0\nℹ pass 1\nℹ fail 1\nℹ cancelled 0\nℹ skipped 0\nℹ todo 0\n",
            2,
            0,
            vec!["adds"],
        ),
        ("# tests 2\n# pass 2\n# fail 0\n# skipped 0\n", 2, 0, vec![]),
        ("  ✓ adds (2 ms)\nTests:       1 failed, 2 passed, 3 total\n", 3, 0, vec!["adds"]),
        ("      Tests  1 failed | 2 passed (3)\n", 3, 0, vec![]),
        ("  3 passing (5ms)\n  1 pending\n  2 failing\n", 5, 1, vec![]),
        (" 3 pass\n 0 fail\nRan 3 tests across 1 file. [5.00ms]\n", 3, 0, vec![]),
        (
            "ok  \texample.com/a\t0.01s\nFAIL\texample.com/b\t0.01s\n?   \texample.com/c\t[no test files]\n",
            2,
            0,
            vec!["example.com/a", "example.com/b"],
        ),
        // Without `-v`, go names only the tests that fail.
        ("--- FAIL: TestA (0.00s)\nFAIL\nFAIL\texample.com/a\t0.01s\nFAIL\n", 1, 0, vec!["example.com/a"]),
        (
            "=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\nok  \texample.com/a\t0.01s\n",
            1,
            0,
            vec!["TestA", "example.com/a"],
        ),
        // The line of a documentation test is no part of its name.
        (
            "test src/lib.rs - add (line 3) ... ok\ntest result: ok. 1 passed; 0 failed\n",
            1,
            0,
            vec!["src/lib.rs - add"],
        ),
        (
            " ✓ test/a.test.js (2 tests) 3ms\n ✓ test/b.test.js > adds 12ms\n      Tests  3 passed (3)\n",
            3,
            0,
            vec!["test/b.test.js > adds"],
        ),
        (
            "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s -- in A\n[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0\n",
            2,
            0,
            vec![],
        ),
        (
            "Passed!  - Failed:     0, Passed:     3, Skipped:     1, Total:     4, Duration: 5 ms\n",
            3,
            1,
            vec![],
        ),
        (
            "1/1 Test #1: adds .........   Passed    0.00 sec\n100% tests passed, 0 tests failed out of 1\n",
            1,
            0,
            vec!["adds"],
        ),
    ] {
        for cut in [1, 7, output.len()] {
            let mut reader = ReportReader::default();
            output.as_bytes().chunks(cut).for_each(|chunk| reader.push(chunk));
            let report = reader.finish().unwrap_or_else(|| panic!("no report in {output}"));
            let named: Vec<&str> = report.names.iter().map(String::as_str).collect();
            assert_eq!((report.ran(), report.skipped, named), (ran, skipped, names.clone()), "{output}");
        }
    }
    for output in ["", "all fine\n", "3 files in 4s of work\n", "I passed 3 tests\n", "Summary: 3 passed\n"] {
        let mut reader = ReportReader::default();
        reader.push(output.as_bytes());
        assert_eq!(reader.finish(), None, "{output}");
    }
}

#[test]
fn the_tests_that_failed_are_read_by_their_names() {
    for (line, name) in [
        ("test tests::adds ... FAILED", Some("tests::adds")),
        ("test tests::adds ... ok", None),
        ("FAIL [   0.006s] krate tests::adds", Some("krate tests::adds")),
        ("FAILED tests/test_a.py::test_b[1 - 2] - assert 0 == 4", Some("tests/test_a.py::test_b[1")),
        ("FAILED tests/test_a.py::test_b", Some("tests/test_a.py::test_b")),
        ("ERROR tests/test_a.py::test_b - boom", Some("tests/test_a.py::test_b")),
        ("tests/test_a.py::test_b FAILED   [ 50%]", None),
        ("FAIL: test_a (tests.T.test_a)", Some("test_a")),
        ("test_a (tests.T.test_a) ... FAIL", Some("test_a")),
        ("not ok 2 - adds", Some("adds")),
        ("not ok 2 - adds # TODO later", None),
        ("ok 2 - adds", None),
        ("✖ adds (1.2ms)", Some("adds")),
        ("✖ failing tests:", None),
        ("✕ adds (2 ms)", Some("adds")),
        ("✔ adds (2 ms)", None),
        ("--- FAIL: TestA (0.00s)", Some("TestA")),
        ("FAIL\texample.com/a\t0.01s", None),
        ("ERROR: cannot open the file", None),
    ] {
        let mut reader = ReportReader::default();
        reader.push(format!("{line}\n1 passed in 0.01s\n").as_bytes());
        let report = reader.finish().unwrap();
        assert_eq!(
            report.failed_names.iter().map(String::as_str).collect::<Vec<_>>(),
            Vec::from_iter(name),
            "{line}"
        );
    }
}

#[test]
fn a_report_that_shows_less_says_what_is_missing() {
    let report = |passed, failed, names: &[&str]| TestReport {
        passed,
        failed,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..TestReport::default()
    };
    for (before, now, why) in [
        (report(1, 2, &[]), Some(report(3, 0, &[])), None),
        (report(1, 2, &[]), Some(report(5, 0, &[])), None),
        (report(1, 2, &[]), Some(report(2, 0, &[])), Some("ran 2 tests, and 3 before")),
        (report(1, 2, &[]), None, Some("reports no tests, and ran 3 tests before")),
        (report(0, 0, &[]), None, None),
        (report(2, 0, &["a::x", "a::y"]), Some(report(2, 0, &["b::x", "b::y"])), None),
        (
            report(2, 0, &["a::x", "a::y"]),
            Some(report(3, 0, &["a::x", "z", "w"])),
            Some("no longer runs the test `a::y`"),
        ),
        (report(2, 0, &["x", "y"]), Some(report(2, 0, &[])), None),
    ] {
        assert_eq!(before.shrunk_to(now.as_ref()).as_deref(), why);
    }
}

#[test]
fn helpers_fixtures_and_lists_decide_with_the_tests_that_use_them() {
    for (path, is_goalpost) in [
        ("fixtures/sums.json", true),
        ("golden/sums.golden", true),
        ("a/sums.golden", true),
        ("expected/sums.txt", true),
        ("src/report.approved.txt", true),
        ("internal/testutil/testutil.go", true),
        ("src/test_support.rs", true),
        ("testing_helpers.py", true),
        ("web/testUtils.js", true),
        ("web/test-utils.ts", true),
        ("src/report.txt", false),
        ("data/sums.json", false),
        ("src/helpers.py", false),
        ("src/contest.py", false),
    ] {
        assert_eq!(kind_of(path).is_some(), is_goalpost, "{path}");
    }
    let text = "from calc import add\nfrom compare_helper import same\nimport src.helper\n";
    let helpers: Vec<Vec<String>> = imported_by_test("tests/test_a.py", text)
        .into_iter()
        .map(|paths| {
            paths.into_iter().filter(|path| is_helper_of_test(path, None, "tests/test_a.py")).collect()
        })
        .filter(|paths: &Vec<String>| !paths.is_empty())
        .collect();
    assert_eq!(helpers, [["compare_helper.py"]], "what it imports from the top, by its name");
    for (module, text, is) in [
        ("base.py", "import unittest\n\nclass Case(unittest.TestCase):\n    pass\n", true),
        ("base.py", "# import unittest\nx = 1\n", false),
        ("lib/same.js", "const test = require('node:test');\n", true),
        ("lib/same.js", "const assert = require('node:assert');\n", false),
    ] {
        assert_eq!(is_helper_of_test(module, Some(text), "tests/a.py"), is, "{module}: {text}");
    }
    for (path, is) in [
        ("expected.json", true),
        ("data/add_cases.csv", true),
        ("vectors/add.txt", true),
        ("recorded/sums.json", true),
        ("data/capitals.json", false),
        ("src/cases.py", false),
        ("cases", false),
    ] {
        assert_eq!(is_data_of_tests(path), is, "{path}");
    }
    assert_eq!(
        packages_of_test(
            "test/a.js",
            "import x from '@a/b/c'; const y = require('should/as-function'); require('./z')"
        ),
        ["@a/b", "should"]
    );
    let files = Files(BTreeMap::new());
    let programs = follow("cd a && pytest -q | grep x; ./run.sh $B", "", &files).programs;
    assert_eq!(programs.into_iter().collect::<Vec<_>>(), ["cd", "grep", "pytest", "python", "python3", "sh"]);
}

#[test]
fn a_report_that_is_not_what_it_claims_to_be_is_no_more_than_its_words() {
    let read = |output: &str| {
        let mut reader = ReportReader::default();
        reader.push(output.as_bytes());
        reader.finish().map(|report| (report.passed, report.failed, report.skipped))
    };
    for (output, expected) in [
        // Numbers that no runner prints.
        ("4294967295 passed in 0.01s\n4294967295 passed in 0.01s\n", Some((u32::MAX, 0, 0))),
        ("99999999999999999999 passed in 0.01s\n", None),
        ("-3 passed in 0.01s\n", None),
        (
            "Ran 4294967295 tests in 0.001s\nRan 9 tests in 0.001s\nFAILED (failures=4294967295, errors=9)\n",
            Some((u32::MAX - 9, u32::MAX, 0)),
        ),
        // Words that only look like a summary.
        ("we have passed in 3 places\n", None),
        ("test result: \n", None),
        ("all 12 passed\n", None),
        ("\u{1b}[31m\u{1b}[0m\n", None),
        ("{\"numPassedTests\": 12}\n", None),
        ("", None),
    ] {
        assert_eq!(read(output), expected, "{output:?}");
    }
    // Half a summary is none, and what cannot be read hides no later one.
    assert_eq!(read("3 passed in "), None);
    assert_eq!(read("\u{fffd}\u{0}\n3 passed in 0.01s\n"), Some((3, 0, 0)));
    // One that claims more than before does not shrink, and one that says nothing does.
    let before = TestReport { passed: 2, ..TestReport::default() };
    assert!(
        before
            .shrunk_to(Some(&TestReport { passed: u32::MAX, failed: 9, ..TestReport::default() }))
            .is_none()
    );
    assert!(before.shrunk_to(None).is_some());
}

#[test]
fn what_a_script_runs_without_naming_it_there_is_what_it_names_anywhere() {
    let files = Files(BTreeMap::from([
        ("qa/a.sh", "test 1 = 1"),
        ("qa/b.sh", "true"),
        ("steps.txt", "true"),
        ("steps/add.py", "assert True"),
        ("ci/all.py", "import runpy\nfor p in pathlib.Path('steps').glob('*.py'):\n    runpy.run_path(p)\n"),
        ("package/a.py", "x = 1"),
        ("src/b.sh", "true"),
        ("NOTES.md", "done"),
        ("words.sh", "n=$(grep -c x steps.txt)\necho \"$n failed, $m passed\"\n"),
        ("optional.sh", "if [ -f ./local.env ]; then . ./local.env; fi\n"),
    ]));
    for (command, followed) in [
        ("find qa -name '*.sh' | sort | xargs -n1 sh", vec!["qa/a.sh", "qa/b.sh"]),
        ("for f in $(ls qa); do sh qa/$f || exit 1; done", vec!["qa/a.sh", "qa/b.sh"]),
        ("eval \"$(cat steps.txt)\"", vec!["steps.txt"]),
        ("cat steps.txt | sh", vec!["steps.txt"]),
        ("while read name; do sh \"$name\"; done <steps.txt", vec!["steps.txt"]),
        ("python3 ci/all.py", vec!["ci/all.py", "steps/add.py"]),
        // The work is looked at, and not run.
        ("for f in $(find package -name '*.py'); do python3 -m py_compile $f; done", vec![]),
        ("for f in $(ls src); do sh -n src/$f; done", vec![]),
        ("find src -name '*.sh' | xargs sh", vec![]),
        ("cat NOTES.md | grep -q done", vec![]),
        ("eval x; grep -q done steps.txt", vec![]),
        ("sh words.sh", vec!["words.sh"]),
        ("grep -q done NOTES.md && cat steps.txt", vec![]),
    ] {
        let found: Vec<String> =
            follow(command, "", &files).files.into_iter().map(|file| file.path).collect();
        assert_eq!(found, followed, "{command}");
    }
    assert_eq!(
        follow("sh optional.sh", "", &files).patterns,
        ["local.env"],
        "it takes part as soon as it is there"
    );
    assert!(follow("PATH=\"$PWD/bin:$PATH\" sh optional.sh", "", &files).sets_path);
    assert!(!follow("sh optional.sh", "", &files).sets_path);
}

#[test]
fn profiles_features_and_imports_that_tests_rest_on_are_put_back() {
    let cargo = |features: &str| format!("[package]\nname = \"a\"\n\n[features]\n{features}offline = []\n");
    let (equal, before) =
        compared(SharedFile::CargoToml, &cargo(""), &cargo("default = [\"offline\", \"new\"]\nnew = []\n"));
    assert!(!equal);
    assert_eq!(before, cargo("default = [\"new\"]\nnew = []\n"), "a feature that is new stays");
    let (equal, before) = compared(
        SharedFile::CargoToml,
        "[package]\nname = \"a\"\n",
        "[package]\nname = \"a\"\n\n[profile.dev]\ndebug-assertions = false\n",
    );
    assert!(!equal && !before.contains("debug-assertions"), "{before}");
    let old = r##"{"imports": {"#same": "./test/same.js", "#calc": "./src/calc.js"}}"##;
    let new = r##"{"imports": {"#same": "./src/same.js", "#calc": "./lib/calc.js", "#x": "./x.js"}}"##;
    let (equal, before) = compared(SharedFile::PackageJson, old, new);
    assert!(!equal);
    for kept in [r##""#same": "./test/same.js""##, r##""#calc": "./lib/calc.js""##, r##""#x": "./x.js""##] {
        assert!(before.contains(kept), "{kept} in {before}");
    }
}

#[test]
fn examples_in_documentation_are_put_back() {
    let rust = |sum: i32, code: &str| {
        format!(
            "/// Adds.\n///\n/// ```\n/// assert_eq!(a::add(2, 2), {sum});\n/// ```\npub fn add() {{ {code} }}\n"
        )
    };
    let (equal, before) = compared(SharedFile::RustSource, &rust(4, "1"), &rust(0, "2"));
    assert_eq!((equal, before), (false, rust(4, "2")));
    assert!(compared(SharedFile::RustSource, &rust(4, "1"), &rust(4, "2")).0);
    let (_, before) = compared(SharedFile::RustSource, &rust(4, "1"), "pub fn add() {}\n");
    assert!(
        before.contains("/// assert_eq!(a::add(2, 2), 4);\n/// ```\n#[allow(dead_code)]\nfn "),
        "{before}"
    );
    let python = |sum: i32, code: &str| {
        format!("def add(a, b):\n    \"\"\"\n    >>> add(2, 2)\n    {sum}\n    \"\"\"\n    {code}\n")
    };
    let (equal, before) = compared(SharedFile::PythonSource, &python(4, "x"), &python(0, "y"));
    assert_eq!((equal, before), (false, python(4, "y")));
    assert_eq!(SharedFile::PythonSource.deciding_part("def add(a, b):\n    return a\n"), None);
}

#[test]
fn a_shell_of_a_login_reads_the_profiles_of_the_user() {
    let table = [
        ("bash -lc 'make test'", true),
        ("/bin/bash --login -c x", true),
        ("sh -i -c x", true),
        ("zsh -c x", true),
        ("sh -c 'ls -l'", false),
        ("bash -ec x", false),
        ("sh tests/run.sh -l", false),
        ("make bash", false),
    ];
    for (command, expected) in table {
        assert_eq!(starts_with_profiles(command), expected, "{command}");
    }
}

#[test]
fn compiled_modules_beside_tests_and_parts_of_the_runner_take_part_by_themselves() {
    for path in ["tests/calc.pyc", "tests/calc.cpython-311.so", "test/native.node"] {
        assert!(is_discovered(path), "{path}");
    }
    assert!(!is_discovered("tests/expected.json"));
    for path in ["opcode.py", "attr.py", "packaging/version.py", "stdarg.h", "include/time.h"] {
        assert_eq!(kind_of(path), Some(GoalpostKind::Shadow), "{path}");
    }
    for path in ["opcodes.py", "calc/attr.py", "limits_of_calc.h"] {
        assert_eq!(kind_of(path), None, "{path}");
    }
}
