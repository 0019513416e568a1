use super::*;
use crate::goalposts::ReportReader;

fn by(path: &str, text: &str) -> Vec<String> {
    let all = must_fail_tests(path, text).into_iter();
    all.filter(|test| test.expects_other().is_none()).map(|test| test.by).collect()
}

fn with(path: &str, text: &str, by: &str, place: FailurePlace) -> Option<String> {
    with_must_fail_tests(path, text, &[(by, "qxname".to_owned())], place)
}

#[test]
fn a_must_fail_test_fails_by_what_its_file_uses() {
    for (path, text, expected) in [
        // Python: functions for pytest, classes for unittest, and the bodies of tests where there are several.
        ("tests/test_a.py", "def test_a():\n    assert f() == 1\n", &["assert"][..]),
        (
            "tests/test_a.py",
            "def test_a():\n    assert f()\n\ndef test_b():\n    with pytest.raises(E):\n        f()\n",
            &["assert", "pytest.raises", "body of test_a", "body of test_b"],
        ),
        (
            "test_a.py",
            "class T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(1, 1)\n        self.assertIn(1, x)\n",
            &["assertEqual", "assertIn"],
        ),
        (
            "test_a.py",
            "class T(TestCase):\n    def test_a(self):\n        assert f()\n",
            &["assert in a TestCase"],
        ),
        // What is decorated may be expected to fail, and a header of several lines is not read.
        (
            "test_a.py",
            "@pytest.mark.xfail\ndef test_a():\n    assert f()\n\ndef test_b(\n    x,\n):\n    assert x\n\ndef test_c():\n    assert f()\n",
            &["assert"],
        ),
        // A helper, and a test within a text.
        ("tests/helper.py", "def make():\n    assert True\n", &[]),
        ("tests/data.py", "TEXT = '''\ndef test_a():\n    assert 1\n'''\n", &[]),
        // JavaScript
        ("a.test.js", "test('a', () => { assert.strictEqual(f(), 1); });", &["assert.strictEqual("]),
        (
            "a.test.js",
            "it('a', () => { expect(f()).toBe(1); expect(g).toThrow(); });",
            &[".toBe(", ".toThrow("],
        ),
        ("a.spec.ts", "it.each([1, 2])('a %i', (n) => { expect(n).to.equal(1) });", &[".to.equal("]),
        (
            "a.test.mjs",
            "const { strictEqual } = assert;\ntest('a', () => strictEqual(f(), 1));",
            &["strictEqual("],
        ),
        ("a.test.js", "test('a', async () => { await check(); });", &["throw"]),
        ("test/helper.js", "exports.is = (text) => /a/.test(text);", &[]),
        ("test/helper.js", "// test('a')\nexports.text = \"it('b')\";", &[]),
        // Rust
        (
            "tests/a.rs",
            "#[test]\nfn a() {\n    assert_eq!(f(), 1);\n    assert!(g());\n}\n",
            &["assert_eq!", "assert!"],
        ),
        ("tests/a.rs", "#[tokio::test]\nasync fn a() {\n    f().await.unwrap();\n}\n", &["panic!"]),
        (
            "src/a.rs",
            "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {\n        assert!(f());\n    }\n}\n",
            &["assert!"],
        ),
        ("src/a.rs", "fn f() {}\n\n#[cfg(test)]\nmod tests;\n", &[]),
        ("src/a.rs", "/// ```\n/// assert_eq!(f(), 1);\n/// ```\nfn f() {}\n", &[]),
        // Go
        ("a_test.go", "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n", &["t.Fatal"]),
        ("a_test.go", "package a\n\nimport (\n\t. \"testing\"\n)\n\nfunc TestA(t *T) {}\n", &[]),
        (
            "a_test.go",
            "package a\n\nimport (\n\t\"testing\"\n)\n\nfunc TestA(t *testing.T) { require.Equal(t, f(), 1) }\n",
            &["t.Fatal", "require.Equal("],
        ),
        ("a.go", "package a\n\nimport \"testing\"\n", &[]),
        // C: a program that is sure to come to the end of its main.
        ("tests/a.c", "int main(void) {\n    assert(f());\n    return 0;\n}\n", &["assert"]),
        ("tests/a.c", "int main(void) {\n    assert(f());\n    exit(0);\n}\n", &[]),
        ("tests/a.c", "int main(void) {\n    if (g()) return 0;\n    assert(f());\n    return 0;\n}\n", &[]),
        (
            "tests/a.c",
            "int main(int argc, char **argv) {\n    assert(f());\n    if (argc > 1) {\n        return 1;\n    }\n}\n",
            &[],
        ),
        ("tests/a.c", "#ifdef SLOW\nint main(void) { assert(f()); return 0; }\n#endif\n", &[]),
        ("tests/a.c", "int main(void) { if (f()) exit(1); assert(g()); return 0; }\n", &["assert"]),
        ("tests/run.sh", "set -e\ntest 1 = 1\n", &[]),
        ("tests/data.json", "{}", &[]),
    ] {
        assert_eq!(by(path, text), expected, "{path}: {text}");
    }
}

#[test]
fn a_must_fail_test_stands_where_its_runner_finds_it() {
    let python = "def test_qxname():\n    assert 1 == 2\n";
    for (path, text, by, place, expected) in [
        ("test_a.py", "def test_a():\n    assert 1\n", "assert", FailurePlace::Late, format!("def test_a():\n    assert 1\n\n\n{python}")),
        // Without the end of a line, with a main, with other ends of lines.
        ("test_a.py", "def test_a(): assert 1", "assert", FailurePlace::Late, format!("def test_a(): assert 1\n\n\n{python}")),
        (
            "test_a.py",
            "def test_a():\n    pass\n\n\nif __name__ == \"__main__\":\n    main()\n",
            "assert",
            FailurePlace::Late,
            format!("def test_a():\n    pass\n\n\n{python}\n\nif __name__ == \"__main__\":\n    main()\n"),
        ),
        (
            "test_a.py",
            "def test_a():\r\n    assert 1\r\n",
            "assert",
            FailurePlace::Late,
            format!("def test_a():\r\n    assert 1\r\n\r\n\r\n{}", python.replace('\n', "\r\n")),
        ),
        (
            "test_a.py",
            "class TestA:\n    def test_a(self):\n        \"\"\"Says why.\"\"\"\n        assert 1\n",
            "body of test_a",
            FailurePlace::Late,
            "class TestA:\n    def test_a(self):\n        assert \"qxname\" == \"\"\n        \"\"\"Says why.\"\"\"\n        assert 1\n".to_owned(),
        ),
        (
            "a.test.js",
            "'use strict'\ntest('a', () => assert.ok(f()))",
            "assert.ok(",
            FailurePlace::Late,
            "'use strict'\ntest('a', () => assert.ok(f()))\n\ntest('qxname', () => {\n  assert.ok(false);\n});\n".to_owned(),
        ),
        (
            "tests/a.rs",
            "#[test]\nfn a() {}\n",
            "panic!",
            FailurePlace::Late,
            "#[test]\nfn a() {}\n\n#[test]\nfn qxname() {\n    panic!(\"qxname\");\n}\n".to_owned(),
        ),
        (
            "src/a.rs",
            "#[cfg(test)]\nmod tests {\n    const OPEN: char = '{';\n}\n\nfn f() {}\n",
            "panic!",
            FailurePlace::Late,
            "#[cfg(test)]\nmod tests {\n    const OPEN: char = '{';\n\n    #[test]\n    fn qxname() {\n        panic!(\"qxname\");\n    }\n}\n\nfn f() {}\n"
                .to_owned(),
        ),
        (
            "a_test.go",
            "package a\n\nimport t2 \"testing\"\n",
            "t.Fatal",
            FailurePlace::Late,
            "package a\n\nimport t2 \"testing\"\n\nfunc Test_qxname(t *t2.T) {\n\tt.Fatal(\"qxname\")\n}\n".to_owned(),
        ),
        (
            "tests/a.c",
            "int main(void) {\n    assert(f());\n    return 0;\n}\n",
            "assert",
            FailurePlace::Early,
            "int main(void) {\n    assert(!\"qxname\");\n    \n    assert(f());\n    return 0;\n}\n".to_owned(),
        ),
        (
            "tests/a.c",
            "int main(void) {\n    assert(f());\n    return 0;\n}\n",
            "assert",
            FailurePlace::Late,
            "int main(void) {\n    assert(f());\n    \n    assert(!\"qxname\");\n    return 0;\n}\n".to_owned(),
        ),
    ] {
        assert_eq!(with(path, text, by, place), Some(expected), "{path}: {text}");
    }
    // The agent has taken away what it would stand in, or fail by.
    assert_eq!(with("test_a.py", "def test_b():\n    pass\n", "body of test_a", FailurePlace::Late), None);
    assert_eq!(with("src/a.rs", "fn f() {}\n", "assert!", FailurePlace::Late), None);
}

#[test]
fn several_must_fail_tests_of_a_file_keep_their_places() {
    let text = "def test_a():\n    assert f()\n\n\ndef test_b():\n    assert f()\n";
    let tests = [
        ("body of test_b", "one".to_owned()),
        ("assert", "two".to_owned()),
        ("body of test_a", "three".to_owned()),
    ];
    let expected = "def test_a():\n    assert \"three\" == \"\"\n    assert f()\n\n\ndef test_b():\n    assert \"one\" == \"\"\n    assert f()\n\n\ndef test_two():\n    assert 1 == 2\n";
    assert_eq!(
        with_must_fail_tests("test_a.py", text, &tests, FailurePlace::Late).as_deref(),
        Some(expected)
    );
}

#[test]
fn names_differ_and_are_not_known_beforehand() {
    let names: BTreeSet<String> =
        (0..MAX_MUST_FAIL).map(|index| must_fail_name(&[7, 200, 31], index)).collect();
    assert_eq!(names.len(), MAX_MUST_FAIL);
    assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase())));
    assert_ne!(must_fail_name(&[1; 16], 0), must_fail_name(&[2; 16], 0));
}

#[test]
fn only_a_line_that_tells_of_a_failure_counts() {
    let test = MustFailTest { path: "a".to_owned(), by: "assert".to_owned() };
    for (line, is_noticed) in [
        ("test tests::qxname ... FAILED", true),
        ("FAILED tests/test_a.py::test_qxname - assert 1 == 2", true),
        ("FAIL: test_qxname (tests.test_a.Test_qxname.test_qxname)", true),
        ("\x1b[31m✖ qxname\x1b[39m (0.5ms)", true),
        ("not ok 2 - qxname", true),
        ("  1) qxname:", true),
        ("  ● qxname", true),
        (" FAIL  test/a.test.js > qxname", true),
        ("--- FAIL: Test_qxname (0.00s)", true),
        ("a: tests/a.c:3: main: Assertion `!\"qxname\"' failed.", true),
        // Named, and not failed.
        ("test tests::qxname ... ok", false),
        ("test tests::qxname ... ignored", false),
        ("XFAIL tests/test_a.py::test_qxname", false),
        ("SKIPPED [1] tests/test_a.py::test_qxname", false),
        ("not ok 2 - qxname # TODO", false),
        ("  - qxname", false),
        ("  ✓ qxname", false),
        ("FAILED tests/test_a.py::test_other", false),
    ] {
        let mut search = MustFailSearch::new(vec![("qxname".to_owned(), test.clone())]);
        let (one, two) = line.as_bytes().split_at(line.len() / 2);
        search.push(b"something before\n");
        search.push(one);
        search.push(two);
        let run = search.finish(None);
        assert_eq!(run.missed().is_empty(), is_noticed, "{line}");
    }
}

#[test]
fn other_tests_that_failed_are_told_from_must_fail_tests() {
    let test = |by: &str| MustFailTest { path: "tests/test_a.py".to_owned(), by: by.to_owned() };
    let failed = [
        "tests/test_a.py::test_qxname",
        "tests/test_a.py::test_made[1]",
        "tests/test_a.py::test_adds[2-2]",
        "test_made (tests.test_a)",
        "tests::adds",
        "/tmp/x/tests/test_a.py",
    ];
    let failed_names = Box::new(failed.iter().map(|name| (*name).to_owned()).collect());
    let report = TestReport { failed: 6, failed_names, ..TestReport::default() };
    let names = vec![("qxname".to_owned(), test("assert")), ("qyname".to_owned(), test("body of test_made"))];
    let run = MustFailSearch::new(names).finish(Some(&report));
    assert_eq!(run.others.iter().collect::<Vec<_>>(), ["tests/test_a.py::test_adds[2-2]", "tests::adds"]);
    assert_eq!(run.next(), [test("assert")], "alone, one that was there cannot disturb the others");
    let of = |put: &[&str], others: &[&str]| MustFailRun {
        put: put.iter().map(|by| test(by)).collect(),
        noticed: put.iter().map(|by| test(by)).collect(),
        others: others.iter().map(|name| (*name).to_owned()).collect(),
    };
    for (now, disturbed) in [
        (of(&["assert"], &["tests::adds", "x"]), &["tests::adds"][..]),
        (of(&["assert", "body of test_made"], &["tests::adds"]), &[]),
        (of(&["assert"], &["x"]), &[]),
        (of(&[], &["tests::adds"]), &[]),
        (MustFailRun { noticed: vec![], ..of(&["assert"], &["tests::adds"]) }, &[]),
    ] {
        assert_eq!(now.failed_again(&run), disturbed, "{now:?}");
    }
}

#[test]
fn a_test_that_expects_another_number_has_to_fail_by_what_the_code_gives() {
    let text = "def test_adds():\n    assert add(2, 2) == 4\n";
    let by = "expectation of test_adds";
    let has = must_fail_tests("test_a.py", text).iter().any(|test| test.by == by);
    assert!(has);
    let (before, now) = expected_numbers("test_a.py", text, by, "qxname").unwrap();
    assert_eq!(before, 4);
    assert_eq!(
        with("test_a.py", text, by, FailurePlace::Late).unwrap(),
        text.replace("== 4", &format!("== {now}"))
    );
    let test = MustFailTest { path: "test_a.py".to_owned(), by: by.to_owned() };
    let failed = "FAILED test_a.py::test_adds - assert";
    for (output, is_noticed, others) in [
        (format!("E       assert 4 == {now}\n{failed} 4 == {now}\n1 failed in 0.01s\n"), true, &[][..]),
        (format!("{failed}\n1 failed in 0.01s\n"), true, &[]),
        // The code gave something else than the test expected before.
        (
            format!("E       assert 0 == {now}\n{failed} 0 == {now}\n1 failed in 0.01s\n"),
            true,
            &["test_adds"],
        ),
        ("1 passed in 0.01s\n".to_owned(), false, &[]),
        (
            "FAILED test_a.py::test_adds_more - assert 0\n1 failed in 0.01s\n".to_owned(),
            false,
            &["test_a.py::test_adds_more"],
        ),
    ] {
        let (mut search, mut report) = (MustFailSearch::default(), ReportReader::default());
        search.add("qxname".to_owned(), test.clone(), Some((before, now)));
        search.push(output.as_bytes());
        report.push(output.as_bytes());
        let run = search.finish(report.finish().as_ref());
        assert_eq!(run.missed().is_empty(), is_noticed, "{output}");
        assert_eq!(run.others.iter().collect::<Vec<_>>(), others, "{output}");
    }
}

#[test]
fn the_report_shows_that_the_others_passed() {
    let test = |by: &str| MustFailTest { path: "a".to_owned(), by: by.to_owned() };
    let run = MustFailRun {
        put: vec![test("assert"), test("body of test_a")],
        noticed: Vec::new(),
        others: BTreeSet::new(),
    };
    let report = |passed, failed| Some(TestReport { passed, failed, ..TestReport::default() });
    for (with, plain, is_shown) in [
        // The test that was made to fail passes no more.
        (report(2, 2), report(3, 0), true),
        (report(2, 3), report(3, 0), false),
        (report(1, 2), report(3, 0), false),
        (report(2, 1), report(3, 0), false),
        (None, report(3, 0), false),
        (report(2, 2), None, false),
    ] {
        assert_eq!(run.shows_the_rest_passed(with.as_ref(), plain.as_ref()), is_shown, "{with:?} {plain:?}");
    }
}

#[test]
fn of_the_tests_that_were_there_one_of_each_file_fails() {
    let test = |path: &str, by: &str| MustFailTest { path: path.to_owned(), by: by.to_owned() };
    let noticed = [
        test("a", "assert"),
        test("a", "body of test_1"),
        test("a", "body of test_2"),
        test("b", "body of test_3"),
    ];
    let chosen = must_fail_tests_of_claim(&noticed, |_| 5);
    assert_eq!(
        chosen,
        [test("a", "assert"), test("a", "body of test_2")],
        "the only test of a file stays as it is"
    );
    let noticed = [
        test("a", "body of test_1"),
        test("a", "body of test_2"),
        test("a", "expectation of test_1"),
        test("a", "expectation of test_2"),
        test("b", "expectation of test_3"),
    ];
    assert_eq!(
        must_fail_tests_of_claim(&noticed, |_| 0),
        [test("a", "body of test_1"), test("a", "expectation of test_2"), test("b", "expectation of test_3")],
        "a test that fails at once compares nothing"
    );
}

#[test]
fn a_gate_whose_end_is_not_that_of_its_tests_is_not_asked() {
    for (command, is_clear) in [
        ("pytest", true),
        ("npm run build && npm test 2>&1", true),
        ("pytest | tee log", false),
        ("pytest || true", false),
        ("pytest; sh check.sh", false),
        ("! grep -r TODO src", false),
        ("pytest\nsh check.sh", false),
        ("pytest & wait", false),
    ] {
        assert_eq!(ends_as_its_tests_do(command), is_clear, "{command}");
    }
}
