//! Which files the commands run.

use proptest::prelude::*;

use super::*;

// fault A12: an agent that may rewrite what a gate runs can pass any gate.
#[test]
fn what_a_gate_runs_is_named() {
    const MAKE: &[&str] = &["GNUmakefile", "makefile", "Makefile"];
    for (command, files) in [
        ("sh check.sh", &["check.sh"][..]),
        ("./scripts/test --fast", &["scripts/test"]),
        ("scripts/test", &["scripts/test"]),
        ("python tests/run.py", &["tests/run.py"]),
        ("python3.12 -u tests/run.py data.json", &["tests/run.py"]),
        ("cd sub && ./x", &["sub/x", "x"]),
        ("cd a; cd b && sh x.sh", &["a/b/x.sh", "x.sh"]),
        ("cd a && ../x.sh", &["x.sh"]),
        ("(cd sub && ./x) && ./y", &["sub/x", "x", "y"]),
        ("cd \"$DIR\" && ./x", &["x"]),
        ("cd /tmp && ./x", &["x"]),
        ("npm test", &[]),
        ("cargo test --workspace", &[]),
        ("make check", MAKE),
        (
            "make -C sub check",
            &["sub/GNUmakefile", "GNUmakefile", "sub/makefile", "makefile", "sub/Makefile", "Makefile"],
        ),
        ("make -f ci.mk", &["ci.mk"]),
        ("make --file=ci.mk all", &["ci.mk"]),
        ("just x", &["justfile", "Justfile", ".justfile"]),
        ("rake spec", &["Rakefile", "rakefile"]),
        ("task ci", &["Taskfile.yml", "Taskfile.yaml"]),
        ("bash -c './a.sh && b/c.py'", &["a.sh", "b/c.py"]),
        ("bash -c ./a.sh", &["a.sh"]),
        ("bash -ec \"sh 'my check.sh'\"", &["my check.sh"]),
        ("sh -eu check.sh", &["check.sh"]),
        ("bash -o pipefail check.sh", &["check.sh"]),
        ("sh < check.sh", &["check.sh"]),
        (". ./env.sh; source lib.sh", &["env.sh", "lib.sh"]),
        ("FOO=1 BAR='a b' ./x", &["x"]),
        ("env FOO=1 timeout -k 5 30s ./x", &["x"]),
        ("! ./x", &["x"]),
        ("if ./x; then ./y; else sh z.sh; fi", &["x", "y", "z.sh"]),
        ("for f in a b; do ./run $f; done", &["run"]),
        ("./x | tee out.log", &["x"]),
        ("./x > out.sh 2>&1", &["x"]),
        ("./x 2>/dev/null && ./y&", &["x", "y"]),
        ("./x &> log.sh", &["x"]),
        ("test \"$(./count.sh)\" = 3", &["count.sh"]),
        ("test `sh count.sh` = 3", &["count.sh"]),
        ("\"$PWD/x.sh\" a", &["x.sh"]),
        ("./scripts/$NAME.sh", &[]),
        ("/usr/bin/env python3 x.py", &["x.py"]),
        ("venv/bin/python x.py", &["venv/bin/python", "x.py"]),
        ("../outside.sh; /abs/x.sh; ~/x.sh", &[]),
        ("pytest -q tests/test_a.py::test_b tests/", &["tests/test_a.py", "tests"]),
        ("python -m pytest tests/test_a.py", &["tests/test_a.py"]),
        ("uv run pytest tests/test_a.py", &["tests/test_a.py"]),
        ("npx vitest run a.test.ts --config=ci/v.ts", &["a.test.ts", "ci/v.ts"]),
        ("node --require ./setup.js run.js x.js", &["setup.js", "run.js"]),
        ("node --test tests/a.mjs", &["tests/a.mjs"]),
        ("node -e 'process.exit(0)' x.js", &[]),
        ("python -c 'import a; a.b()'", &[]),
        ("deno run --allow-all x.ts", &["x.ts"]),
        ("coverage run run.py", &["run.py"]),
        ("find . -name '*.sh' | xargs ./lint", &["lint"]),
        // What is only read may be the work itself.
        ("grep -q done notes.txt", &[]),
        ("test -f out/app.js", &[]),
        ("diff expected.txt actual.txt", &[]),
        ("cat src/main.rs", &[]),
        ("sed -n 1p src/main.rs", &[]),
        ("awk -f check.awk data.txt", &["check.awk"]),
        ("# sh x.sh\nsh y.sh # sh z.sh", &["y.sh"]),
        ("sh a.sh \\\n  && sh b.sh", &["a.sh", "b.sh"]),
        ("sh a.sh && sh a.sh", &["a.sh"]),
        ("sh 'unclosed.sh", &["unclosed.sh"]),
        ("", &[]),
        ("true", &[]),
        ("true\\\n", &[]),
    ] {
        assert_eq!(named_files(command), files, "{command:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_and_names_nothing_outside(command in r#"([a./ '"$()`;&|<>\\#=~-]|cd |sh |make ){0,40}"#) {
        for file in named_files(&command) {
            prop_assert!(!file.starts_with('/') && !file.split('/').any(|part| part == ".."), "{file}");
        }
    }
}
