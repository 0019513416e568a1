//! What tests that were there expect: whole numbers that an assertion compares with what the code under test gives.
//!
//! A must-fail test of this kind is a test that was there and expects another number. It calls the code under test before it has to
//! fail, so that code which reads what is expected, equals everything or forgives the next failure lets it pass, and that shows it.
//! Only an assertion that is sure to be reached counts: a statement of the test's own body, on one line.

use super::must_fail::{PythonTest, TestLanguage, python_tests};
use crate::judge::tamper::SourceCode;

/// How many tests of a file are made to expect something else.
const MOST: usize = 4;

/// A number that a test expects, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExpectedNumber {
    /// The test's own name, as its runner prints it.
    pub(super) test: String,
    pub(super) at: usize,
    pub(super) len: usize,
    pub(super) value: u64,
}

impl ExpectedNumber {
    /// Another number near it, chosen by `random`: what holds the one holds the other.
    pub(super) fn other(&self, random: u64) -> u64 {
        let step = 1 + random % 7;
        if self.value > 110 { self.value - step } else { self.value + step }
    }
}

/// The first expectation of each test of a file, of as many tests as are looked at.
pub(super) fn expectations(language: TestLanguage, source: &SourceCode<'_>) -> Vec<ExpectedNumber> {
    let mut all: Vec<ExpectedNumber> = match language {
        TestLanguage::Python => {
            python_tests(source).into_iter().filter_map(|test| of_python(source, test)).collect()
        }
        TestLanguage::Rust => of_rust(source),
        TestLanguage::JavaScript => of_javascript(source),
        TestLanguage::Go | TestLanguage::C => Vec::new(),
    };
    // One of several of the same name is not known again.
    let names: Vec<String> = all.iter().map(|known| known.test.clone()).collect();
    all.retain(|known| names.iter().filter(|name| **name == known.test).count() == 1);
    all.truncate(MOST);
    all
}

/// The number at the end of `text`, which begins at `from` of the file: its place and value.
fn number_at_end(text: &str, from: usize) -> Option<(usize, usize, u64)> {
    let text = text.trim_end();
    let digits = text.len() - text.bytes().rev().take_while(u8::is_ascii_digit).count();
    let number = &text[digits..];
    let is_whole = text[..digits].ends_with([' ', '(']) && (number == "0" || !number.starts_with('0'));
    let value = number.parse::<u64>().ok().filter(|_| is_whole && number.len() < 10)?;
    Some((from + digits, number.len(), value))
}

/// The number that is the last of these arguments, where another one calls something.
fn last_argument(arguments: &str, from: usize) -> Option<(usize, usize, u64)> {
    let comma = arguments.trim_end().rfind(',')?;
    let found = number_at_end(arguments, from)?;
    let is_alone = arguments[comma + 1..found.0 - from].trim().is_empty();
    (is_alone && arguments[..comma].contains('(')).then_some(found)
}

fn of_python(
    source: &SourceCode<'_>,
    PythonTest { name, body, indent }: PythonTest,
) -> Option<ExpectedNumber> {
    let mut start = body;
    for line in source.text[body..].split_inclusive('\n') {
        let at = start;
        start += line.len();
        let code = source.code_between(at, start);
        let code = code.trim_end();
        if code.trim().is_empty() {
            continue;
        }
        let own = code.len() - code.trim_start().len();
        if own < indent.len() || source.within_string.contains(&at) {
            return None;
        }
        let statement = code.trim_start();
        if own > indent.len() {
            continue;
        }
        if ["return", "raise", "yield"].iter().any(|word| statement.starts_with(word)) {
            return None;
        }
        let found = if let Some(compared) = statement.strip_prefix("assert ") {
            let is_plain =
                [" or ", " and ", " if ", "not ", "<", ">"].iter().all(|word| !compared.contains(word));
            let called = compared.split_once("==").filter(|(left, right)| {
                left.contains('(') && right.trim().bytes().all(|byte| byte.is_ascii_digit())
            });
            called.filter(|_| is_plain).and_then(|_| number_at_end(code, at))
        } else {
            let inner = statement.strip_prefix("self.assertEqual(").and_then(|rest| rest.strip_suffix(')'));
            inner.and_then(|inner| last_argument(inner, at + own + "self.assertEqual(".len()))
        };
        if let Some((at, len, value)) = found {
            return Some(ExpectedNumber { test: name, at, len, value });
        }
    }
    None
}

fn of_rust(source: &SourceCode<'_>) -> Vec<ExpectedNumber> {
    let code = source.code_between(0, source.code.len());
    let mut all = Vec::new();
    for (mark, attribute) in code.match_indices("#[test]") {
        let rest = &code[mark + attribute.len()..];
        // With another attribute, the test may be expected to fail.
        let Some(header) = rest.trim_start().strip_prefix("fn ") else { continue };
        let name: String = header.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let Some(open) = code[mark..].find('{').map(|at| mark + at) else { continue };
        let is_plain = code[mark..open].contains("()") && !code[..mark].trim_end().ends_with(']');
        if !is_plain {
            continue;
        }
        let end = source.closing(open);
        let found = statements(&code, open, end).find_map(|(at, statement)| {
            let inner = statement.strip_prefix("assert_eq!(")?.strip_suffix(");")?;
            last_argument(inner, at + "assert_eq!(".len())
        });
        all.extend(found.map(|(at, len, value)| ExpectedNumber { test: name, at, len, value }));
    }
    all
}

/// The lines of a body that hold one statement of its own, up to one that leaves it.
fn statements(code: &str, open: usize, end: usize) -> impl Iterator<Item = (usize, &str)> {
    let mut depth = 1_i32;
    let mut start = open + 1;
    let body = code.get(open + 1..end).unwrap_or_default();
    let lines = body.split_inclusive('\n').map(move |line| {
        let (at, was) = (start, depth);
        start += line.len();
        depth += line.chars().map(|c| i32::from(c == '{') - i32::from(c == '}')).sum::<i32>();
        (at + line.len() - line.trim_start().len(), was, line.trim())
    });
    lines
        .take_while(|(_, _, line)| !line.contains("return"))
        .filter(|(_, depth, line)| *depth == 1 && !line.contains('{'))
        .map(|(at, _, line)| (at, line))
}

/// How a file of JavaScript compares with a number: the name of the call, and whether the number is its only argument.
const COMPARISONS: &[(&str, bool)] = &[
    ("strictEqual(", false),
    ("assert.equal(", false),
    (".toBe(", true),
    (".toEqual(", true),
    (".toStrictEqual(", true),
    (".to.equal(", true),
];

fn of_javascript(source: &SourceCode<'_>) -> Vec<ExpectedNumber> {
    let code = source.code_between(0, source.code.len());
    let mut all = Vec::new();
    for call in ["test(", "it("] {
        for (mark, _) in code.match_indices(call) {
            let is_call =
                !code[..mark].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$'));
            let open = mark + call.len() - 1;
            let Some(name) = is_call.then(|| quoted(&source.text[open + 1..])).flatten() else { continue };
            let end = source.closing(open);
            let Some(body) = body_of_javascript(&code, open, end) else { continue };
            let found = if code.as_bytes().get(body) == Some(&b'{') {
                let end = source.closing(body);
                statements(&code, body, end).find_map(|(at, line)| compared(line.trim_end_matches(';'), at))
            } else {
                // An arrow with an expression.
                let text = code[body..end].trim_end().trim_end_matches(',');
                (!text.contains('\n')).then(|| compared(text, body)).flatten()
            };
            let test = name.to_owned();
            all.extend(found.map(|(at, len, value)| ExpectedNumber { test, at, len, value }));
        }
    }
    all
}

/// Where the body of the function begins that a test is given.
fn body_of_javascript(code: &str, open: usize, end: usize) -> Option<usize> {
    let text = code.get(open..end)?;
    let after = match (text.find("=>"), text.find("function")) {
        (Some(arrow), None) => open + arrow + 2,
        (None, Some(function)) => open + function + text[function..].find('{')?,
        _ => return None,
    };
    let blank = code[after..end].len() - code[after..end].trim_start().len();
    Some(after + blank)
}

/// The text of the string that `text` begins with; nothing is written in another way in it.
fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inside = &text[1..];
    let name = &inside[..inside.find(quote)?];
    (!name.is_empty() && !name.contains(['\\', '\n'])).then_some(name)
}

/// The number that a statement compares the result of a call with.
fn compared(statement: &str, at: usize) -> Option<(usize, usize, u64)> {
    if [".not.", "resolves", "rejects", "await", "=>"].iter().any(|word| statement.contains(word)) {
        return None;
    }
    let whole = statement.strip_suffix(')')?;
    COMPARISONS.iter().find_map(|(call, is_only)| {
        let start = statement.find(call)?;
        let inner = whole.get(start + call.len()..)?;
        let from = at + start + call.len();
        if !is_only {
            let is_alone = matches!(&statement[..start], "" | "assert.");
            return is_alone.then(|| last_argument(inner, from)).flatten();
        }
        let subject = statement.get(..start)?.strip_prefix("expect(")?;
        let is_number = !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_digit());
        let found = number_at_end(&format!("({inner}"), from - 1)?;
        (subject.contains('(') && is_number).then_some(found)
    })
}

/// The two numbers of a line in which a runner shows what it compared: what the code gave and what was expected, or the other way
/// around. Some say them in two lines; `last` is the one before.
pub(super) fn compared_numbers(last: &str, line: &str) -> Option<(u64, u64)> {
    let line = line.trim();
    for sign in [" == ", " != ", " !== "] {
        // pytest: `E       assert 0 == 5`; unittest: `AssertionError: 0 != 5`; node: `0 !== 5`
        if let Some((left, right)) = line.split_once(sign) {
            let left = left.rsplit(' ').next().unwrap_or(left).parse();
            if let (Ok(left), Ok(right)) = (left, right.trim_end_matches(',').parse()) {
                return Some((left, right));
            }
        }
    }
    // cargo: `left: 0` and `right: 5`; jest: `Expected: 5` and `Received: 0`
    let numbers = |first: &str, second: &str| {
        let one = last.trim().strip_prefix(first)?.trim().parse().ok()?;
        Some((one, line.strip_prefix(second)?.trim().parse().ok()?))
    };
    numbers("left:", "right:").or_else(|| numbers("Expected:", "Received:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(String, String)> {
        let language = TestLanguage::of(path).unwrap();
        let source = SourceCode::new(text, language.masked_as());
        let all = expectations(language, &source);
        all.into_iter().map(|known| (known.test, format!("{}|", &text[..known.at + known.len]))).collect()
    }

    #[test]
    fn a_number_that_a_test_compares_the_result_of_a_call_with_is_found() {
        for (path, text, test, upto) in [
            (
                "test_a.py",
                "def test_a():\n    x = 1\n    assert add(2, 2) == 4\n",
                "test_a",
                "add(2, 2) == 4",
            ),
            (
                "test_a.py",
                "class T(TestCase):\n    def test_a(self):\n        self.assertEqual(add(2, 2), 4)\n",
                "test_a",
                "add(2, 2), 4",
            ),
            (
                "tests/a.rs",
                "#[test]\nfn adds() {\n    assert_eq!(add(2, 2), 4);\n}\n",
                "adds",
                "add(2, 2), 4",
            ),
            (
                "src/a.rs",
                "mod tests {\n    #[test]\n    fn adds() {\n        let a = 2;\n        assert_eq!(a.add(2), 4);\n    }\n}\n",
                "adds",
                "a.add(2), 4",
            ),
            (
                "a.test.js",
                "test('adds up', () => assert.strictEqual(add(2, 2), 4));",
                "adds up",
                "add(2, 2), 4",
            ),
            ("a.test.js", "it(\"adds\", () => {\n  expect(add(2, 2)).toBe(4);\n});\n", "adds", ".toBe(4"),
            (
                "a.test.js",
                "test('adds', function () {\n  strictEqual(add(2, 2), 4);\n});\n",
                "adds",
                "add(2, 2), 4",
            ),
        ] {
            let all = found(path, text);
            assert_eq!(all.len(), 1, "{text}: {all:?}");
            assert_eq!(all[0].0, test, "{text}");
            assert!(all[0].1.ends_with(&format!("{upto}|")), "{text}: {all:?}");
        }
    }

    #[test]
    fn an_assertion_that_may_not_be_reached_or_holds_for_more_is_left_alone() {
        for (path, text) in [
            ("test_a.py", "def test_a():\n    if x:\n        assert add(2, 2) == 4\n"),
            ("test_a.py", "def test_a():\n    return\n    assert add(2, 2) == 4\n"),
            ("test_a.py", "def test_a():\n    assert add(2, 2) == 4 or True\n"),
            ("test_a.py", "def test_a():\n    assert add(2, 2) == -4\n"),
            ("test_a.py", "def test_a():\n    assert add(2, 2) == 4.5\n"),
            ("test_a.py", "def test_a():\n    assert add(2, 2) == x4\n"),
            ("test_a.py", "def test_a():\n    assert 4 == 4\n"),
            ("test_a.py", "def test_a():\n    assert add(2, 2) >= 4\n"),
            ("test_a.py", "def test_a():\n    assert add(2, 2) == 4, 4\n"),
            ("test_a.py", "@xfail\ndef test_a():\n    assert add(2, 2) == 4\n"),
            ("test_a.py", "def test_a():\n    '''\n    assert add(2, 2) == 4\n    '''\n"),
            ("tests/a.rs", "#[test]\n#[should_panic]\nfn a() {\n    assert_eq!(add(2, 2), 4);\n}\n"),
            ("tests/a.rs", "#[should_panic]\n#[test]\nfn a() {\n    assert_eq!(add(2, 2), 4);\n}\n"),
            ("tests/a.rs", "#[test]\nfn a() {\n    if b() {\n        assert_eq!(add(2, 2), 4);\n    }\n}\n"),
            ("tests/a.rs", "#[test]\nfn a() {\n    assert_eq!(4, 4);\n}\n"),
            ("tests/a.rs", "#[test]\nfn a() {\n    assert_eq!(add(2, 2), 4u8);\n}\n"),
            ("tests/a.rs", "#[test]\nfn a() {\n    assert_eq!(add(2, 2), 4.5);\n}\n"),
            ("tests/a.rs", "#[test]\nfn a() {\n    assert_eq!(add(2, 2), 4, \"{}\", f(2));\n}\n"),
            ("a.test.js", "test('a', () => { expect(add(2, 2)).not.toBe(4); });"),
            ("a.test.js", "test('a', async () => {\n  expect(add(2, 2)).resolves.toBe(4);\n});"),
            ("a.test.js", "test(`a ${b}`, () => strictEqual(add(2, 2), 4));"),
            ("a.test.js", "test('a', () => [1].forEach(() => strictEqual(add(2, 2), 4)));"),
            ("a.test.js", "test('a', () => {\n  if (b) {\n    strictEqual(add(2, 2), 4);\n  }\n});"),
            ("a.test.js", "test('a', () => strictEqual(4, 4));"),
            ("a.test.js", "test.skip('a', () => strictEqual(add(2, 2), 4));"),
            (
                "a.test.js",
                "test('a', () => strictEqual(add(2, 2), 4));\ntest('a', () => strictEqual(add(1, 2), 3));",
            ),
        ] {
            assert_eq!(found(path, text), [], "{text}");
        }
    }

    #[test]
    fn the_numbers_that_were_compared_are_read() {
        for (last, line, numbers) in [
            ("", "E       assert 0 == 5", Some((0, 5))),
            ("", "FAILED tests/test_a.py::test_b - assert 0 == 5", Some((0, 5))),
            ("", "AssertionError: 0 != 5", Some((0, 5))),
            ("", "0 !== 5", Some((0, 5))),
            ("  left: 0", " right: 5", Some((0, 5))),
            ("    Expected: 5", "    Received: 0", Some((5, 0))),
            ("", " right: 5", None),
            ("", ">       assert add(2, 2) == 5", None),
            ("", "assert -1 == 5", None),
            ("", "a == b", None),
        ] {
            assert_eq!(compared_numbers(last, line), numbers, "{line}");
        }
    }

    #[test]
    fn another_number_stays_within_what_holds_the_one() {
        for (value, least, most) in [(0, 1, 7), (4, 5, 11), (110, 111, 117), (120, 113, 119), (255, 248, 254)]
        {
            for random in 0..20 {
                let known = ExpectedNumber { test: String::new(), at: 0, len: 1, value };
                let other = known.other(random);
                assert!((least..=most).contains(&other), "{value}: {other}");
            }
        }
    }
}
