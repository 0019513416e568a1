//! Which changes weaken tests.

use FindingKind::*;
use proptest::prelude::*;

use super::*;

type Found<'a> = (&'a str, FindingKind, &'a str);

fn change<'a>(path: &'a str, old: &'a str, new: &'a str) -> FileChange<'a> {
    let text = |text: &'a str| (text != GONE).then_some(text);
    FileChange { path, old: text(old), new: text(new) }
}

/// Stands for a file that is not there.
const GONE: &str = "\0gone";

fn check(changes: &[FileChange<'_>], expected: &[Found<'_>]) {
    let scan = scan(changes);
    let findings: Vec<Finding> = expected
        .iter()
        .map(|(path, kind, detail)| Finding { path: (*path).into(), kind: *kind, detail: (*detail).into() })
        .collect();
    let count = |kinds: &[FindingKind]| {
        u32::try_from(expected.iter().filter(|(_, kind, _)| kinds.contains(kind)).count()).unwrap()
    };
    let expected = TamperScan {
        deleted_tests: count(&[Deleted]),
        skipped_tests: count(&[Skipped, Inverted]),
        emptied_tests: count(&[Emptied]),
        findings,
    };
    assert_eq!(scan, expected, "{changes:#?}");
}

// fault A12
#[test]
fn rust_tests_that_get_weaker() {
    const A: &str = "#[test]\nfn a() { assert_eq!(f(), 1); }\n";
    const B: &str = "#[test]\nfn b() { assert_eq!(f(), 2); }\n";
    let both = format!("{A}{B}");
    let in_module = |attribute: &str| format!("{attribute}\nmod tests {{ use super::*; {A} }}");
    for (old, new, found) in [
        (both.as_str(), both.clone(), None),
        (A, both.clone(), None),
        (&both, A.to_owned(), Some((Deleted, "test `b` is gone"))),
        (A, "// ".to_owned() + &A.replace('\n', " "), Some((Deleted, "test `a` is gone"))),
        (A, format!("/* /* x */ {A} */"), Some((Deleted, "test `a` is gone"))),
        (A, format!("const X: &str = r#\"{A}\"#;"), Some((Deleted, "test `a` is gone"))),
        (A, A.replace("#[test]", ""), Some((Deleted, "test `a` is gone"))),
        (A, A.replace("fn a", "fn renamed"), None),
        (A, A.replace("fn a", "async fn a").replace("test", "tokio::test"), None),
        (A, format!("#[ignore]\n{A}"), Some((Skipped, "test `a` is skipped: `#[ignore]`"))),
        (A, format!("#[ignore = \"slow\"]\n{A}"), Some((Skipped, "test `a` is skipped: `#[ignore]`"))),
        (A, A.replace("fn", "#[ignore]\npub fn"), Some((Skipped, "test `a` is skipped: `#[ignore]`"))),
        (A, format!("#[cfg_attr(all(), ignore)]{A}"), Some((Skipped, "test `a` is skipped: `#[ignore]`"))),
        (A, format!("// #[ignore]\n{A}"), None),
        (A, format!("#[cfg(any())]\n{A}"), Some((Skipped, "test `a` is skipped: `#[cfg(any())]`"))),
        (A, format!("#![cfg(any())]\n{A}"), Some((Skipped, "test `a` is skipped: `#[cfg(any())]`"))),
        (A, in_module("#[cfg(test)]"), None),
        (A, in_module("#[cfg(any())]"), Some((Skipped, "test `a` is skipped: `#[cfg(any())]`"))),
        (A, format!("#[cfg(any())]\nmod m {{ fn x() {{}} }}\n{A}"), None),
        (
            A,
            format!("#[should_panic(expected = \"x\")]\n{A}"),
            Some((Inverted, "test `a` passes by failing: `#[should_panic]`")),
        ),
        (A, "#[test] fn a() {}".into(), Some((Emptied, "test `a` checks nothing any more"))),
        (A, "#[test] fn a() { /* f() */ }".into(), Some((Emptied, "test `a` checks nothing any more"))),
        (A, "#[test] fn a() { assert!(true); }".into(), Some((Emptied, "test `a` checks nothing any more"))),
        (
            A,
            "#[test] fn a() { assert_eq!(1, 1); }".into(),
            Some((Emptied, "test `a` checks nothing any more")),
        ),
        (
            A,
            "#[test] fn a() { return; assert!(f()); }".into(),
            Some((Emptied, "test `a` checks nothing any more")),
        ),
        (A, "#[test] fn a() { let _ = f(); }".into(), Some((Emptied, "test `a` checks nothing any more"))),
        (A, "#[test] fn a() { check(f()); }".into(), None),
        (A, "#[test] fn a() { assert_eq!(f(), '}'); assert!(g(\"}\")); }".into(), None),
        ("#[test] fn a() {}", "#[test] fn a() { }".into(), None),
        ("#[ignore] #[test] fn a() {}", "#[ignore = \"x\"] #[test] fn a() {}".into(), None),
        ("#[ignore] #[test] fn a() {}", "#[test] fn a() {}".into(), None),
        ("fn helper() { assert!(x); }", "".into(), None),
        (
            "fn f<'a>(x: &'a str) {} #[test] fn a() { f('\\''); g('\"') }",
            "fn f<'a>(x: &'a str) {} #[test] fn a() { f('\\''); g('\"') }".into(),
            None,
        ),
    ] {
        let expected: Vec<Found<'_>> =
            found.into_iter().map(|(kind, detail)| ("src/a.rs", kind, detail)).collect();
        check(&[change("src/a.rs", old, &new)], &expected);
    }
}

// fault A12
#[test]
fn python_tests_that_get_weaker() {
    const A: &str = "import pytest\n\ndef test_a():\n    x = f()\n    assert x == 1\n\n";
    const METHOD: &str = "class TestX:\n    def setup(self):\n        pass\n\n    async def test_a(self,\n        b):\n        assert b\n";
    let skipped = |how: &str| Some((Skipped, format!("test `test_a` is skipped: {how}")));
    let gone = || Some((Deleted, "test `test_a` is gone".to_owned()));
    let emptied = || Some((Emptied, "test `test_a` checks nothing any more".to_owned()));
    for (old, new, found) in [
        (A, A.to_owned(), None),
        (A, String::new(), gone()),
        (A, A.replace("def test_a", "def check_a"), gone()),
        (A, format!("\"\"\"\n{A}\"\"\"\n"), gone()),
        (A, A.lines().map(|line| format!("# {line}\n")).collect(), gone()),
        (A, A.replace("test_a", "test_b"), None),
        (A, A.replace("def ", "@pytest.mark.skip\ndef "), skipped("`@pytest.mark.skip`")),
        (A, A.replace("def ", "@pytest.mark.skip(\n    reason='x')\ndef "), skipped("`@pytest.mark.skip`")),
        (
            A,
            A.replace("def ", "@pytest.mark.skipif(True, reason='(')\n@x\ndef "),
            skipped("`@pytest.mark.skipif`"),
        ),
        (A, A.replace("def ", "@pytest.mark.xfail\ndef "), skipped("`@pytest.mark.xfail`")),
        (A, A.replace("def ", "@unittest.skip('x')\ndef "), skipped("`@unittest.skip`")),
        (A, A.replace("def ", "# @pytest.mark.skip\ndef "), None),
        (A, A.replace("def ", "@pytest.mark.parametrize('skip', [1])\ndef "), None),
        (A, A.replace("    x =", "    pytest.skip('later')\n    x ="), skipped("`pytest.skip(…)`")),
        (A, A.replace("    x =", "    log('pytest.skip()')\n    x ="), None),
        (A, format!("pytestmark = pytest.mark.skip\n{A}"), skipped("`pytestmark`")),
        (A, format!("{A}pytestmark = [pytest.mark.skip]\n"), skipped("`pytestmark`")),
        (A, format!("pytest.skip('x', allow_module_level=True)\n{A}"), skipped("the module skips itself")),
        (A, "def test_a():\n    pass\n".into(), emptied()),
        (A, "def test_a(): pass\n".into(), emptied()),
        (A, "def test_a():\n    \"\"\"It works.\"\"\"\n    # assert f()\n".into(), emptied()),
        (A, "def test_a():\n    assert True\n".into(), emptied()),
        (A, "def test_a():\n    return\n    assert f() == 1\n".into(), emptied()),
        (A, "def test_a():\n    f()\n".into(), emptied()),
        (A, "def test_a():\n    x = \"\"\"\nfoo\n\"\"\"\n    assert f(x)\n".into(), None),
        (A, "def test_a():\n    assert f(\n1\n)\n".into(), None),
        (METHOD, METHOD.to_owned(), None),
        (METHOD, METHOD.replace("class TestX:", "class X:"), gone()),
        (METHOD, METHOD.replace("class TestX:", "class X(TestCase):"), None),
        (METHOD, format!("@pytest.mark.skip\n{METHOD}"), skipped("`@pytest.mark.skip`")),
        (METHOD, METHOD.replace("    def", "    __test__ = False\n    def"), skipped("`__test__ = False`")),
        (METHOD, format!("@pytest.mark.skip\nclass TestY:\n    pass\n{METHOD}"), None),
        (METHOD, METHOD.replace("assert b", "self.skipTest('x')"), skipped("`self.skipTest(…)`")),
        (METHOD, "def outer():\n    def test_a():\n        assert b\n".into(), gone()),
    ] {
        let expected: Vec<Found<'_>> =
            found.iter().map(|(kind, detail)| ("tests/test_x.py", *kind, detail.as_str())).collect();
        check(&[change("tests/test_x.py", old, &new)], &expected);
    }
}

// fault A12
#[test]
fn javascript_tests_that_get_weaker() {
    const A: &str = "test('a', () => { expect(f()).toBe(1); });\n";
    const BOTH: &str = "describe('d', () => {\n  it('a', async function () { expect(1).toBe(f()); });\n  it('b', () => expect(2).toBe(f()));\n});\n";
    let skipped = |name: &str, how: &str| (Skipped, format!("test `{name}` is skipped: {how}"));
    let gone = |name: &str| (Deleted, format!("test `{name}` is gone"));
    let emptied = || vec![(Emptied, "test `a` checks nothing any more".to_owned())];
    for (old, new, found) in [
        (A, A.to_owned(), vec![]),
        (A, A.replace("test(", "it("), vec![]),
        (A, A.replace("'a'", "\"a\""), vec![]),
        (A, A.replace("'a'", "'renamed'"), vec![]),
        (A, String::new(), vec![gone("a")]),
        (A, format!("// {A}"), vec![gone("a")]),
        (A, format!("/* {A} */"), vec![gone("a")]),
        (A, format!("const x = `{A}`;"), vec![gone("a")]),
        (A, format!("const r = /['\"`(]/;\n{A}"), vec![]),
        (A, A.replace("test(", "test.skip("), vec![skipped("a", "`.skip`")]),
        (A, A.replace("test(", "xit("), vec![skipped("a", "`xit`")]),
        (A, A.replace("test(", "test.todo("), vec![skipped("a", "`.todo`")]),
        (A, "test('a');".into(), vec![skipped("a", "it has no body")]),
        (A, A.replace("'a',", "'a', { skip: true },"), vec![skipped("a", "`skip` among its options")]),
        (A, A.replace("test(", "test.each([1])("), vec![]),
        (A, A.replace("test(", "test.skip.each([1])("), vec![skipped("a", "`.skip`")]),
        (
            A,
            A.replace("test(", "test.failing("),
            vec![(Inverted, "test `a` passes by failing: `.failing`".into())],
        ),
        (A, A.replace("expect(f()).toBe(1);", "t.skip(); expect(f())"), vec![skipped("a", "`t.skip()`")]),
        (A, "test('a', () => {});".into(), emptied()),
        (A, "test('a', () => { expect(true).toBe(true) });".into(), emptied()),
        (A, "test('a', async () => { return; expect(f()).toBe(1) });".into(), emptied()),
        (A, "test('a', () => { f(); });".into(), emptied()),
        (A, "test('a', check_a);".into(), vec![]),
        (BOTH, BOTH.to_owned(), vec![]),
        (
            BOTH,
            BOTH.replace("describe(", "describe.skip("),
            vec![skipped("a", "`.skip`"), skipped("b", "`.skip`")],
        ),
        (
            BOTH,
            BOTH.replace("describe(", "xdescribe("),
            vec![skipped("a", "`xdescribe`"), skipped("b", "`xdescribe`")],
        ),
        (BOTH, BOTH.replace("it('a'", "it.only('a'"), vec![skipped("b", "only those with `.only` run")]),
        (BOTH, BOTH.replace("describe(", "describe.only("), vec![]),
        (BOTH, format!("{}{A}", BOTH.replace("it('b'", "/x/.test('b'")), vec![gone("b")]),
    ] {
        let expected: Vec<Found<'_>> =
            found.iter().map(|(kind, detail)| ("src/a.test.ts", *kind, detail.as_str())).collect();
        check(&[change("src/a.test.ts", old, &new)], &expected);
    }
}

// fault A12
#[test]
fn go_tests_that_get_weaker() {
    const A: &str =
        "package x\n\nfunc TestA(t *testing.T) {\n\tif f() != 1 {\n\t\tt.Fatal(\"no }\")\n\t}\n}\n";
    for (new, found) in [
        (A.to_owned(), None),
        ("package x\n".into(), Some((Deleted, "test `TestA` is gone"))),
        (A.replace("TestA", "testA"), Some((Deleted, "test `TestA` is gone"))),
        (A.replace("TestA", "TestB"), None),
        (A.replace("func TestA", "func (s *Suite) TestA"), None),
        (
            A.replace("\tif", "\tt.Skip(\"later\")\n\tif"),
            Some((Skipped, "test `TestA` is skipped: `.Skip()`")),
        ),
        (A.replace("\tif", "\tt.SkipNow()\n\tif"), Some((Skipped, "test `TestA` is skipped: `.SkipNow()`"))),
        (A.replace("\tif", "\t// t.Skip()\n\tif"), None),
        (
            format!("//go:build ignore\n\n{A}"),
            Some((Skipped, "test `TestA` is skipped: `//go:build ignore`")),
        ),
        (
            "package x\nfunc TestA(t *testing.T) {}\n".into(),
            Some((Emptied, "test `TestA` checks nothing any more")),
        ),
        (
            "package x\nfunc TestA(t *testing.T) {\n\treturn\n}\n".into(),
            Some((Emptied, "test `TestA` checks nothing any more")),
        ),
    ] {
        let expected: Vec<Found<'_>> =
            found.into_iter().map(|(kind, detail)| ("a_test.go", kind, detail)).collect();
        check(&[change("a_test.go", A, &new)], &expected);
    }
}

// fault A12
#[test]
fn moved_tests_are_not_deleted_and_deleted_files_are() {
    const A: &str = "def test_a():\n    assert f()\n";
    const B: &str = "def test_b():\n    assert g()\n";
    let both = format!("{A}{B}");
    check(&[change("tests/a.py", &both, A), change("tests/b.py", GONE, B)], &[]);
    check(&[change("tests/a.py", A, GONE), change("tests/b.py", GONE, A)], &[]);
    check(
        &[change("tests/a.py", &both, GONE)],
        &[("tests/a.py", Deleted, "test `test_a` is gone"), ("tests/a.py", Deleted, "test `test_b` is gone")],
    );
    // Where no runner looks, a test is as good as gone.
    check(
        &[change("tests/a.py", A, GONE), change("old/a.py", GONE, A)],
        &[("tests/a.py", Deleted, "test `test_a` is gone")],
    );
    check(
        &[
            change("a_test.go", "func TestA(t T) { t.Fail() }", GONE),
            change("a.go", GONE, "func TestA(t T) { t.Fail() }"),
        ],
        &[("a_test.go", Deleted, "test `TestA` is gone")],
    );
    // Namesakes in two files are two tests.
    check(
        &[change("tests/a.py", A, A), change("tests/b.py", A, "")],
        &[("tests/b.py", Deleted, "test `test_a` is gone")],
    );
    // Skipped on the way.
    check(
        &[change("tests/a.py", A, GONE), change("tests/b.py", GONE, &format!("@skip\n{A}"))],
        &[("tests/b.py", Skipped, "test `test_a` is skipped: `@skip`")],
    );
    // A test of another language is another test.
    check(
        &[change("tests/a.py", A, GONE), change("a.rs", GONE, "#[test] fn test_a() { assert!(f()); }")],
        &[("tests/a.py", Deleted, "test `test_a` is gone")],
    );
    check(&[change("README.md", A, ""), change("Makefile", A, GONE), change("src/app.py", A, "")], &[]);
    check(&[], &[]);
}

#[test]
fn namesakes_that_change_places_in_a_file_are_known_by_their_bodies() {
    // fault A12
    const STRONG: &str = "mod x { #[test] fn a() { assert!(f()); } }\n";
    const WEAK: &str = "mod y { #[test] fn a() {} }\n";
    let (old, new) = (format!("{STRONG}{WEAK}"), format!("{WEAK}{STRONG}"));
    check(&[change("a.rs", &old, &new)], &[]);
}

#[test]
fn findings_are_bounded_and_data() {
    let many: String = (0..150).map(|n| format!("def test_{n}():\n    assert f({n})\n")).collect();
    let scan = scan(&[change("tests/a.py", &many, GONE)]);
    assert_eq!((scan.deleted_tests, scan.findings.len()), (150, MAX_FINDINGS));
    assert!(!scan.is_clean());
    let json = serde_json::to_value(&scan).unwrap();
    assert_eq!(json["findings"][0]["kind"], "deleted");
    assert_eq!(serde_json::from_value::<TamperScan>(json).unwrap(), scan);
}

proptest! {
    #[test]
    fn any_text_is_scanned_and_unchanged_text_is_clean(
        text in r##"([ \n(){}\[\]'"`/*#;:,.é\\@$=-]|r#"|"""|#\[test\]|#\[ignore\]|#!\[|fn a|mod m|test\('a'|it\.only|describe\("d", |=>|function|class TestX|def test_a|async |@skip|pytestmark = |func TestA\(t\)|t\.Skip\(|return|assert x){0,40}"##,
    ) {
        for path in ["a.rs", "test_a.py", "a.test.js", "a_test.go"] {
            prop_assert_eq!(scan(&[change(path, &text, &text)]), TamperScan::default());
            let _ = scan(&[change(path, &text, ""), change(path, "", &text)]);
        }
    }
}
