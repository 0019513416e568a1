use super::*;

/// What the first of `files`, a check, and a gate's command rest on among the others.
fn rested_on(gate: &str, files: &[(&str, &str)]) -> Vec<String> {
    let paths: Vec<String> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
    let text =
        |wanted: &str| files.iter().find(|(path, _)| *path == wanted).map(|(_, text)| (*text).to_owned());
    let (check, content) = files[0];
    let checks = vec![(String::new(), gate.to_owned()), (check.to_owned(), content.to_owned())];
    rests_on(checks, &paths, &|path| path == check, &text).into_keys().collect()
}

#[test]
fn data_that_a_check_names_decides_unless_it_is_of_the_program() {
    let calc = ("calc.py", "def add(a, b):\n    return a + b\n");
    let test = |text: &'static str| ("tests/test_add.py", text);
    let found = |test: (&'static str, &'static str), data: &str| {
        rested_on("pytest", &[test, calc, (data, "2 2 4\n")])
    };
    assert_eq!(found(test("from calc import add\nopen('sums.tsv')"), "sums.tsv"), ["sums.tsv"]);
    assert_eq!(
        found(test("from calc import add\nROOT / 'docs' / 'usage.txt'"), "docs/usage.txt"),
        ["docs/usage.txt"]
    );
    assert_eq!(found(test("from calc import add\nglob('samples')"), "samples/a.txt"), ["samples/a.txt"]);
    // A test of nothing else tests the data.
    assert!(found(test("open('sums.tsv')"), "sums.tsv").is_empty());
    // Pages, templates and what lies where programs have such files.
    assert!(found(test("from calc import add\nopen('page.html')"), "page.html").is_empty());
    assert!(found(test("from calc import add\nopen('templates/a.txt')"), "templates/a.txt").is_empty());
    // The task of a unit tells what is to be written, and so does a gate that only looks at it.
    let task = ("specs/tasks/a/01-mine.md", "backpressure: grep 2 mine.txt\nWrite 2 into mine.txt.\n");
    assert!(rested_on("grep 2 mine.txt", &[task, calc, ("mine.txt", "1\n")]).is_empty());
    // The program reads it, too.
    let reads = ("calc.py", "config.read('settings.ini')");
    let test = ("tests/test_add.py", "from calc import add\nassert Path('settings.ini').exists()");
    assert!(rested_on("pytest", &[test, reads, ("settings.ini", "[calc]\nsign = 1\n")]).is_empty());
}

#[test]
fn lists_and_helpers_of_a_script_decide_with_it() {
    let script = "import json, helpers\njson.load(open('check.json'))\nopen('data/known-failures.txt')\nopen('data/all.json')\n";
    let files = [
        ("tools/check.py", script),
        ("tools/check.json", "{}"),
        ("tools/helpers.py", "import calc"),
        ("data/known-failures.txt", ""),
        ("data/all.json", "{}"),
        ("calc.py", ""),
    ];
    let found = rested_on("python3 tools/check.py", &files);
    assert_eq!(found, ["data/known-failures.txt", "tools/check.json", "tools/helpers.py"]);
}

#[test]
fn a_list_of_what_is_left_out_may_be_searched() {
    let script =
        "for f in cases/*; do grep -q $f skip.txt && continue; bin/add; done\ngrep -q done notes.txt\n";
    let files =
        [("tests/run.sh", script), ("skip.txt", "none"), ("notes.txt", ""), ("bin/add", "#!/bin/sh\n")];
    assert_eq!(rested_on("sh tests/run.sh", &files), ["skip.txt"]);
}

#[test]
fn what_a_check_takes_in_is_a_part_of_it() {
    for (check, text, file) in [
        ("tests/calc.rs", "include!(\"../shared/sums.in\");", "shared/sums.in"),
        ("tests/test_calc.c", "#include \"../sums.def\"", "sums.def"),
    ] {
        let files =
            [(check, text), (file, "SUM(2, 2, 4)"), ("calc.c", "int add(int a, int b) { return a + b; }")];
        assert_eq!(rested_on("make", &files), [file]);
    }
    // A source is the work.
    let files =
        [("tests/t.c", "#include \"../calc.c\""), ("calc.c", "int add(int a, int b) { return a + b; }")];
    assert!(rested_on("make", &files).is_empty());
    let files = [("tests/t.rs", "#[path = \"../src/sum.rs\"]\nmod sum;"), ("src/sum.rs", "pub fn add() {}")];
    assert!(rested_on("cargo test", &files).is_empty());
}

#[test]
fn a_source_that_judges_in_place_of_a_test_decides_as_the_test_does() {
    let calc = ("calc.py", "def add(a, b):\n    return a + b\n");
    let verify = ("verify.py", "def holds(a, b):\n    if a != b:\n        raise ValueError\n");
    let test = "from calc import add\nfrom verify import holds\n\ndef test_it():\n    holds(add(2, 2), 4)\n";
    assert_eq!(rested_on("pytest", &[("tests/test_a.py", test), calc, verify]), ["verify.py"]);
    // The test compares by itself: what it calls is the work.
    let test = "from calc import add\nfrom verify import holds\n\ndef test_it():\n    holds(add(2, 2), 4)\n    assert add(1, 1) == 2\n";
    assert!(rested_on("pytest", &[("tests/test_a.py", test), calc, verify]).is_empty());
    // A test that only calls the work.
    let raises = ("calc.py", "def add(a, b):\n    raise ValueError\n");
    let test = "from calc import add\n\ndef test_it():\n    add(2, int('2'))\n";
    assert!(rested_on("pytest", &[("tests/test_a.py", test), raises]).is_empty());
    // A macro, by another path, beside the work.
    let macros = (
        "src/macros.rs",
        "#[macro_export]\nmacro_rules! agree { ($a:expr, $b:expr) => { if $a != $b { panic!() } } }",
    );
    let lib = ("src/lib.rs", "mod macros;\npub fn add(a: i32, b: i32) -> i32 { a + b }");
    let test = ("tests/calc.rs", "#[test]\nfn adds() {\n    calc::agree!(calc::add(2, 2), 4);\n}\n");
    assert_eq!(rested_on("cargo test", &[test, macros, lib]), ["src/macros.rs"]);
    // What the program uses, too, is the work.
    let uses = ("src/main.rs", "fn main() { agree!(1, 1) }");
    assert!(rested_on("cargo test", &[test, macros, lib, uses]).is_empty());
    // In the very file of the work it cannot be told apart.
    let both = (
        "src/lib.rs",
        "macro_rules! agree { () => { panic!() } }\npub fn add(a: i32, b: i32) -> i32 { a + b }",
    );
    assert!(rested_on("cargo test", &[test, both]).is_empty());
    let header = ("diag.h", "#define ENSURE(x) if (!(x)) exit(1)");
    let test = ("tests/t.c", "#include \"calc.h\"\nint main(void) {\n    ENSURE(add(2, 2) == 4);\n}\n");
    assert_eq!(rested_on("make", &[test, header, ("calc.h", "int add(int a, int b);")]), ["diag.h"]);
    // A matcher that is given to the library of tests.
    let matchers = ("matchers/index.js", "module.exports = { toSumTo: () => ({ pass: true }) };");
    let test = ("test/a.test.js", "expect.extend(require('../matchers'));");
    assert_eq!(rested_on("npm test", &[test, matchers]), ["matchers/index.js"]);
}

#[test]
fn a_module_of_values_is_data() {
    let calc = ("calc.py", "def add(a, b):\n    return a + b\n");
    let test = (
        "tests/test_a.py",
        "from calc import add\nfrom numbers_table import SUMS\n\ndef test_it():\n    assert SUMS\n",
    );
    let table = |text: &'static str| ("numbers_table.py", text);
    assert_eq!(rested_on("pytest", &[test, calc, table("SUMS = [(2, 2, 4)]\n")]), ["numbers_table.py"]);
    assert!(rested_on("pytest", &[test, calc, table("SUMS = make()\n")]).is_empty());
    let uses = ("calc.py", "from numbers_table import SUMS\n");
    assert!(rested_on("pytest", &[test, uses, table("SUMS = [(2, 2, 4)]\n")]).is_empty());
}

#[test]
fn commands_say_what_they_read() {
    for (script, is_gate, read) in [
        ("while read -r a; do :; done <sums.tsv", false, vec!["sums.tsv"]),
        ("./sums | diff - sums.out", false, vec!["sums.out"]),
        ("./sums | diff - sums.out", true, vec![]),
        ("CFLAGS = -Wall $(shell cat flags)", false, vec!["flags"]),
        ("if grep -q -f bad.lines out; then exit 1; fi", false, vec!["bad.lines"]),
        ("xargs -a suites pytest", true, vec!["suites"]),
        ("awk --file=judge.awk out", true, vec!["judge.awk"]),
        // What is only searched, counted or asked for may be the work.
        ("grep -q done notes.txt", false, vec![]),
        ("[ -f notes.txt ] && wc -l <notes.txt", false, vec![]),
        ("rm -f out.txt; cp -a a b", false, vec![]),
        ("cat <<EOF", false, vec![]),
        ("# cat notes.txt", false, vec![]),
    ] {
        let found: Vec<String> = read_by_commands(script, is_gate);
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(found, read, "{script}");
    }
}

#[test]
fn examples_of_documents_are_tests_where_something_runs_them() {
    let manual = ("docs/manual.rst", ">>> add(2, 2)\n4\n");
    let none = ("tests/test_a.py", "from calc import mul\n");
    assert_eq!(rested_on("pytest --doctest-glob='*.rst'", &[none, manual]), ["docs/manual.rst"]);
    assert!(rested_on("pytest", &[none, manual]).is_empty());
    assert_eq!(rested_on("python3 -m doctest docs/manual.rst", &[none, manual]), ["docs/manual.rst"]);
    let lib = ("src/lib.rs", "#![doc = include_str!(\"../README.md\")]\n");
    let files = [("tests/calc.rs", ""), lib, ("README.md", "```\nassert!(true);\n```\n")];
    assert_eq!(rested_on("cargo test", &files), ["README.md"]);
}
