//! Which paths the patterns name.

use proptest::prelude::*;

use super::*;

fn globs(patterns: &[&str]) -> Result<Globs, GlobError> {
    Globs::parse(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>())
}

// fault A12: what a pattern protects is decided here.
#[test]
fn a_pattern_names_these_paths_and_not_those() {
    for (pattern, named, not_named) in [
        (
            "tests",
            &["tests", "tests/a.rs", "tests/a/b.rs"][..],
            &["tests2", "atests", "src/tests", "test"][..],
        ),
        ("tests/", &["tests", "tests/a.rs", "tests/a/b"], &["tests2/a", "a/tests/b"]),
        ("tests/**", &["tests", "tests/a.rs", "tests/a/b"], &["tests2/a", "a/tests/b"]),
        ("/tests", &["tests", "tests/a"], &["a/tests"]),
        ("./tests", &["tests/a", "./tests/a"], &["a/tests"]),
        (".//a/./b", &["a/b", "a/b/c"], &["a"]),
        ("tests/*.py", &["tests/a.py", "tests/.py"], &["tests/a/b.py", "tests/a.pyc", "tests", "a.py"]),
        ("tests/*", &["tests/a"], &["tests/a/b", "tests"]),
        ("tests/*/", &["tests/a", "tests/a/b", "tests/a/b/c"], &["tests"]),
        ("*", &["a", ".env"], &["a/b"]),
        ("**", &["a", "a/b", ".github/x"], &[]),
        ("**/*.snap", &["a.snap", "a/b.snap", "a/b/c.snap"], &["a.snapx", "a.snap/b"]),
        ("**/tests", &["tests", "tests/a", "x/tests", "x/y/tests/a"], &["xtests", "x/tests2"]),
        ("**/tests/**", &["tests/a", "x/tests/a/b"], &["xtests/a"]),
        ("a/**/b", &["a/b", "a/x/b", "a/x/y/b", "a/x/b/c"], &["ab", "a/xb", "b"]),
        ("a/**/b/*.c", &["a/b/x.c", "a/x/b/x.c"], &["a/b/x/x.c"]),
        ("a/**/**/b", &["a/b", "a/x/b"], &["ab"]),
        ("a**b", &["ab", "a/b", "axx/yyb"], &["a", "ba"]),
        ("tests/**.py", &["tests/a.py", "tests/a/b.py"], &["tests/a.rs"]),
        ("a?c", &["abc", "aéc"], &["ac", "a/c", "abbc"]),
        ("[a-c]x", &["ax", "cx"], &["dx", "/x", "x"]),
        ("[!a-c]x", &["dx", "éx"], &["ax", "/x"]),
        ("[^a]x", &["bx"], &["ax"]),
        ("[]]x", &["]x"], &["x"]),
        ("[!]]x", &["ax"], &["]x"]),
        ("[a-]x", &["ax", "-x"], &["bx"]),
        ("[-a]x", &["ax", "-x"], &["bx"]),
        ("[+--]x", &["+x", ",x", "-x"], &["ax"]),
        ("[\\]a]x", &["]x", "ax"], &["\\x"]),
        ("{tests,spec}", &["tests/a", "spec", "spec/b"], &["tests2", "spe"]),
        ("{a,b}/*.{js,ts}", &["a/x.js", "b/x.ts"], &["c/x.js", "a/x.jsx", "a/b/x.js"]),
        ("{a,b{c,d}}e", &["ae", "bce", "bde"], &["be", "abe"]),
        ("x{,y}z", &["xz", "xyz"], &["xyyz"]),
        ("{src/**/t,lib}/*.rs", &["src/t/a.rs", "src/x/t/a.rs", "lib/a.rs"], &["src/a.rs"]),
        ("{**/,}x.c", &["x.c", "a/x.c"], &["ax.c"]),
        ("a,b}", &["a,b}"], &["a"]),
        ("\\*", &["*", "*/a"], &["a"]),
        ("\\{a\\}", &["{a}"], &["a"]),
        ("\\!a", &["!a"], &["a"]),
        ("caf\u{e9}", &["caf\u{e9}/x"], &["cafe"]),
        (".github/**", &[".github/workflows/ci.yml"], &["github/x", "x/.github/y"]),
        ("a b", &["a b/c"], &["a"]),
        ("...", &["..."], &["a"]),
        // Characters outside braces that every path must hold, and those inside that it need not.
        ("a{b,c}d*e", &["abde", "acdxe"], &["ade", "abd"]),
        ("{a}b{c}", &["abc"], &["ab", "bc"]),
        ("x*\\*y", &["x*y", "xx*y"], &["xy"]),
        ("a/**/b?d", &["a/bcd", "a/x/bcd"], &["a/bd"]),
    ] {
        let globs = globs(&[pattern]).unwrap();
        for path in named {
            assert!(globs.matches(path), "`{pattern}` names `{path}`");
        }
        for path in not_named {
            assert!(!globs.matches(path), "`{pattern}` does not name `{path}`");
        }
    }
    assert!(globs(&["a?"]).unwrap().matches(b"a\xff"), "paths need not be UTF-8");
}

#[test]
fn a_bad_pattern_is_named_with_its_problem() {
    use GlobProblem::*;
    for (pattern, problem) in [
        ("", Blank),
        (" \t", Blank),
        ("/", Blank),
        ("./", Blank),
        (".", Blank),
        ("..", Outside),
        ("../a", Outside),
        ("a/../b", Outside),
        ("a/..", Outside),
        ("{a,..}/b", Outside),
        ("\\../a", Outside),
        ("~", Outside),
        ("~/a", Outside),
        ("!a", Negated),
        ("[a", UnclosedClass),
        ("[]", UnclosedClass),
        ("[!", UnclosedClass),
        ("[a-", UnclosedClass),
        ("[z-a]", BackwardRange),
        ("[[:alpha:]]", NamedClass),
        ("{a", UnclosedBrace),
        ("{a,{b}", UnclosedBrace),
        ("a\\", TrailingEscape),
    ] {
        let error = globs(&["ok", pattern]).unwrap_err();
        assert_eq!(error, GlobError { pattern: pattern.to_owned(), problem }, "{pattern:?}");
        assert!(error.to_string().contains(&format!("`{pattern}`")), "{error}");
    }
    assert_eq!(globs(&[&"a".repeat(1001)]).unwrap_err().problem, TooLong);
}

#[test]
fn patterns_that_name_nothing_are_told() {
    let globs = globs(&["tests", "spec/**", "*.md", "ci.yml"]).unwrap();
    assert_eq!(globs.unmatched(["tests/a", "README.md", "src/ci.yml"]), ["spec/**", "ci.yml"]);
    assert_eq!(globs.unmatched(Vec::<String>::new()), ["tests", "spec/**", "*.md", "ci.yml"]);
    assert_eq!(globs.matching("README.md"), Some("*.md"));
    assert_eq!(globs.matching("src/lib.rs"), None);
}

#[test]
fn patterns_that_blow_up_elsewhere_are_quick_here() {
    let path = "a".repeat(3000);
    let nested = format!("{}{}", "{a,".repeat(150), "}".repeat(150));
    for pattern in ["*a*a*a*a*a*a*a*a*a*a*b", "**a**a**a**a**a**a**b", &"{a,a}".repeat(150), &nested] {
        assert!(!globs(&[pattern]).unwrap().matches(&path), "{pattern}");
    }
}

#[test]
fn a_set_is_stored_as_its_patterns() {
    let globs = globs(&["tests/**", "*.lock"]).unwrap();
    let json = serde_json::to_string(&globs).unwrap();
    assert_eq!(json, r#"["tests/**","*.lock"]"#);
    assert_eq!(serde_json::from_str::<Globs>(&json).unwrap(), globs);
    assert!(serde_json::from_str::<Globs>(r#"["["]"#).unwrap_err().to_string().contains("`[`"));
}

/// The obvious matcher for `*`, `?` and letters, slow and easy to believe.
fn slow(pattern: &[char], path: &[char]) -> bool {
    match (pattern, path) {
        ([], []) => true,
        (['*', rest @ ..], _) => {
            slow(rest, path) || matches!(path, [c, tail @ ..] if *c != '/' && slow(pattern, tail))
        }
        (['?', rest @ ..], [c, tail @ ..]) => *c != '/' && slow(rest, tail),
        ([p, rest @ ..], [c, tail @ ..]) => p == c && slow(rest, tail),
        _ => false,
    }
}

proptest! {
    #[test]
    fn single_stars_agree_with_the_obvious_matcher(pattern in "[ab?]{1,3}([*][ab/?]{1,3}){0,3}[*?]", path in "[ab/]{0,8}") {
        prop_assume!(!pattern.contains("//") && !path.contains("//"));
        prop_assume!(!pattern.starts_with('/') && !path.ends_with('/'));
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        prop_assert_eq!(globs(&[&pattern]).unwrap().matches(&path), slow(&chars(&pattern), &chars(&path)));
    }

    #[test]
    fn any_text_is_a_pattern_or_an_error(pattern in any::<String>(), path in any::<Vec<u8>>()) {
        if let Ok(globs) = globs(&[&pattern]) {
            let _ = globs.matches(path);
        }
    }

    #[test]
    fn any_jumble_of_signs_is_a_pattern_or_an_error(pattern in r"[ab*?/\[\]{},!\\.^-]{0,24}", path in "[ab/]{0,12}") {
        if let Ok(globs) = globs(&[&pattern]) {
            let _ = globs.matches(path);
        }
    }
}
