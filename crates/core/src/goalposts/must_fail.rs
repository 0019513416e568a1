//! Must-fail tests: tests that have to fail, put into the test files of a checkout.
//!
//! Code under test runs in the process of its test runner. It can end that process with 0, replace the assertions, or print a
//! summary of its own; a gate that then passes says nothing. Such a gate also passes with a test that has to fail, and that
//! shows it. A must-fail test stands in a file that was there, so that it runs in the process of the tests that were there, and
//! it fails by the assertion that the file itself uses. Whether a gate notices it is learnt before the first agent.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    TestReport,
    expectations::{compared_numbers, expectations},
};
use crate::{
    judge::tamper::{Language, SourceCode, rust_test_items},
    text::ansi::AnsiStripper,
};

/// How many must-fail tests are put into a checkout at once.
pub const MAX_MUST_FAIL: usize = 64;
/// Longer lines of output are looked at up to here.
const MAX_LINE: usize = 4000;
/// How many pairs of compared numbers are kept.
const MAX_COMPARED: usize = 1000;
/// Shorter lines hold no name of a must-fail test.
const MIN_LINE: usize = 6;

/// A test that has to fail, by the file that it is put into and what it fails by there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MustFailTest {
    pub path: String,
    /// An assertion that the file uses; `body of` a test of the file, which then fails at once; or `expectation of` one, which then
    /// compares with another number.
    pub by: String,
}

/// What became of the must-fail tests in one run of a gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MustFailRun {
    /// The tests that were put into the checkout.
    pub put: Vec<MustFailTest>,
    /// Those of them that the gate, which was red, said have failed.
    pub noticed: Vec<MustFailTest>,
    /// The names of other tests that failed beside them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub others: BTreeSet<String>,
}

/// Where a test program without test functions fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePlace {
    /// At its beginning, so that it is reached although the work is not done.
    Early,
    /// At its end, behind all that it checks.
    Late,
}

/// Where a must-fail test goes within its file, what it is, and how much it takes the place of.
struct Insertion {
    at: usize,
    text: String,
    replaced: usize,
}

/// The must-fail tests that can be put into the file at `path`; none where it is not known how.
pub fn must_fail_tests(path: &str, text: &str) -> Vec<MustFailTest> {
    let test = |by: String| MustFailTest { path: path.to_owned(), by };
    let Some(language) = TestLanguage::of(path) else { return Vec::new() };
    let source = SourceCode::new(text, language.masked_as());
    let mut all: Vec<MustFailTest> = language.assertions(path, &source).into_iter().map(test).collect();
    // Where no test can be added, what its tests are is not known well enough.
    if !all.is_empty() {
        let expected = expectations(language, &source);
        all.extend(expected.into_iter().map(|known| test(format!("{EXPECTATION_OF}{}", known.test))));
    }
    all
}

/// The text of the file at `path` with these must-fail tests, each given by what it fails by and its name. `None` if one of
/// them has no place in it.
pub fn with_must_fail_tests(
    path: &str,
    text: &str,
    tests: &[(&str, String)],
    place: FailurePlace,
) -> Option<String> {
    let language = TestLanguage::of(path)?;
    let source = SourceCode::new(text, language.masked_as());
    let mut insertions = Vec::new();
    for (by, name) in tests {
        insertions.push(match by.strip_prefix(EXPECTATION_OF) {
            Some(test) => {
                let known = expectations(language, &source).into_iter().find(|known| known.test == test)?;
                Insertion {
                    at: known.at,
                    text: known.other(number_of(name)).to_string(),
                    replaced: known.len,
                }
            }
            None => language.insertion(path, &source, by, name, place)?,
        });
    }
    // The later ones first, so that the places of the others stay what they are. Those at one place keep their order.
    insertions.sort_by_key(|insertion| insertion.at);
    let is_crlf = text.contains("\r\n");
    let mut with = text.to_owned();
    for Insertion { at, text, replaced } in insertions.into_iter().rev() {
        let text = if is_crlf { text.replace('\n', "\r\n") } else { text };
        with.replace_range(at..at + replaced, &text);
    }
    Some(with)
}

/// The number that a test at `path` expects, and the one that it expects as a must-fail test of this name; `None` for one of
/// another kind.
pub fn expected_numbers(path: &str, text: &str, by: &str, name: &str) -> Option<(u64, u64)> {
    let (test, language) = (by.strip_prefix(EXPECTATION_OF)?, TestLanguage::of(path)?);
    let source = SourceCode::new(text, language.masked_as());
    let known = expectations(language, &source).into_iter().find(|known| known.test == test)?;
    Some((known.value, known.other(number_of(name))))
}

fn number_of(name: &str) -> u64 {
    name.bytes().fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)))
}

/// The name of the `index`th must-fail test of a run; `random` is drawn for that run, so that no code can know it before.
pub fn must_fail_name(random: &[u8], index: usize) -> String {
    let letter = |number: usize| char::from(b'a' + u8::try_from(number % 26).unwrap_or(0));
    let random = random.iter().map(|byte| letter(usize::from(*byte)));
    random.chain([letter(index / 26), letter(index)]).collect()
}

/// Looks in the output of a gate for the names of must-fail tests that are said to have failed.
#[derive(Debug, Default)]
pub struct MustFailSearch {
    ansi: AnsiStripper,
    line: Vec<u8>,
    /// Names that are looked for, and the tests that they belong to.
    names: Vec<(String, MustFailTest)>,
    /// For those that expect another number: their place, what they expected, and what they expect now.
    numbers: Vec<(usize, u64, u64)>,
    /// Pairs of numbers that the runner says were compared.
    compared: BTreeSet<(u64, u64)>,
    last_line: String,
    found: BTreeSet<usize>,
}

impl MustFailSearch {
    pub fn new(names: Vec<(String, MustFailTest)>) -> Self {
        Self { names, ..Self::default() }
    }

    /// Adds a test with its name, and with the numbers that it expected and expects now if it is of that kind.
    pub fn add(&mut self, name: String, test: MustFailTest, numbers: Option<(u64, u64)>) {
        self.numbers.extend(numbers.map(|(before, now)| (self.names.len(), before, now)));
        self.names.push((name, test));
    }

    /// Takes the next chunk, which may end anywhere.
    pub fn push(&mut self, mut chunk: &[u8]) {
        if self.found.len() == self.names.len() && self.numbers.is_empty() {
            return;
        }
        let mut ansi = std::mem::take(&mut self.ansi);
        while let Some(run) = ansi.next_run(&mut chunk) {
            for byte in run {
                match byte {
                    b'\n' | b'\r' => self.end_line(),
                    _ if self.line.len() < MAX_LINE => self.line.push(*byte),
                    _ => {}
                }
            }
        }
        self.ansi = ansi;
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.len() < MIN_LINE {
            return;
        }
        let line = String::from_utf8_lossy(&line);
        if !self.numbers.is_empty() {
            if self.compared.len() < MAX_COMPARED {
                self.compared.extend(compared_numbers(&self.last_line, &line));
            }
            self.last_line = line.clone().into_owned();
        }
        let named = self.names.iter().enumerate().filter(|(_, (name, _))| line.contains(name.as_str()));
        let named: Vec<usize> = named.map(|(index, _)| index).collect();
        if !named.is_empty() && tells_of_failure(&line) {
            self.found.extend(named);
        }
    }

    /// What became of them; `report` is what the runner said of all tests.
    pub fn finish(mut self, report: Option<&TestReport>) -> MustFailRun {
        self.end_line();
        let failed = || report.into_iter().flat_map(|report| report.failed_names.iter());
        let has_failed = |(_, test): &&(String, MustFailTest)| {
            let expecting = test.by.strip_prefix(EXPECTATION_OF);
            expecting.is_some_and(|name| failed().any(|failed| is_test(failed, name)))
        };
        let named = self.found.iter().map(|index| &self.names[*index]);
        let noticed =
            named.chain(self.names.iter().filter(has_failed)).map(|(_, test)| test.clone()).collect();
        let mut others: BTreeSet<String> = failed().filter(|name| !self.is_of_one(name)).cloned().collect();
        others.extend(self.failed_otherwise().map(str::to_owned));
        MustFailRun { put: self.names.into_iter().map(|(_, test)| test).collect(), noticed, others }
    }

    /// The tests that were made to expect another number, and whose runner says that it was compared, but never with what they
    /// expected before: they failed for another reason.
    fn failed_otherwise(&self) -> impl Iterator<Item = &str> {
        let with = |number: u64| {
            self.compared.iter().filter_map(move |(left, right)| match (*left == number, *right == number) {
                (true, _) => Some(*right),
                (_, true) => Some(*left),
                _ => None,
            })
        };
        let is_otherwise = move |(_, _, now): &&(usize, u64, u64)| {
            let before =
                self.numbers.iter().filter(|(_, _, other)| other == now).map(|(_, before, _)| *before);
            let before: Vec<u64> = before.collect();
            let mut with = with(*now).peekable();
            with.peek().is_some() && !with.any(|given| before.contains(&given))
        };
        let tests = self.numbers.iter().filter(is_otherwise).map(|(index, ..)| &self.names[*index].1);
        tests.filter_map(MustFailTest::expects_other)
    }

    /// Whether what a runner says has failed is a must-fail test, or a file that holds one.
    fn is_of_one(&self, failed: &str) -> bool {
        self.names.iter().any(|(name, test)| {
            let file = test.path.rsplit('/').next().unwrap_or(&test.path);
            failed.contains(name.as_str())
                || failed.ends_with(file)
                || test.existing().is_some_and(|name| is_test(failed, name))
        })
    }
}

/// Whether a test that a runner names is the one that calls itself `name`.
fn is_test(named: &str, name: &str) -> bool {
    let own = named.split(['[', '(']).next().unwrap_or(named).trim_end();
    let rest = own.strip_suffix(name).or_else(|| named.strip_suffix(name));
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with([':', '/', '.', ' ', '>']))
}

/// Whether a line that names a test says that it failed. Runners name tests that they skip or that passed, too.
fn tells_of_failure(line: &str) -> bool {
    const NOT_RUN: &[&str] =
        &["XFAIL", "xfail", "SKIP", "skipped", "# TODO", "# todo", "ignored", "expected failure"];
    const FAILED: &[&str] = &[
        "FAIL", "not ok", "ERROR", "Error", "ssert", "✖", "✕", "✗", "×", "●", "____", "[failed]", "panicked",
    ];
    let numbered = line.trim_start().split_once(')').is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    !NOT_RUN.iter().any(|sign| line.contains(sign))
        && (numbered || FAILED.iter().any(|sign| line.contains(sign)))
}

impl MustFailRun {
    /// The tests that ran unnoticed, or did not run.
    pub fn missed(&self) -> Vec<MustFailTest> {
        self.put.iter().filter(|test| !self.noticed.contains(test)).cloned().collect()
    }

    /// The must-fail tests of the next try: those that were added to the tests, if other tests failed beside them; tests that expect
    /// another number alone, if none was noticed; else those that were not noticed.
    pub fn next(&self) -> Vec<MustFailTest> {
        let which = |is: fn(&MustFailTest) -> bool| -> Vec<MustFailTest> {
            self.put.iter().filter(|test| is(test)).cloned().collect()
        };
        let added = which(|test| !test.is_existing());
        let expecting = which(|test| test.expects_other().is_some());
        if !self.others.is_empty() && !added.is_empty() {
            added
        } else if self.noticed.is_empty() && !expecting.is_empty() {
            expecting
        } else {
            self.missed()
        }
    }

    /// Tests that failed beside must-fail tests, and that had not failed in a run without them, of which `plain` is the report.
    pub fn failed_beside(&self, plain: Option<&TestReport>) -> Vec<String> {
        let has_failed = |name: &&String| {
            let mut alone = plain.into_iter().flat_map(|plain| plain.failed_names.iter());
            alone.any(|failed| failed == *name || is_test(failed, name))
        };
        self.others.iter().filter(|name| !has_failed(name)).cloned().collect()
    }

    /// Tests that failed beside must-fail tests in both runs, although nothing but such tests was added in this one.
    pub fn failed_again<'a>(&'a self, earlier: &'a Self) -> Vec<&'a String> {
        if self.put.is_empty() || self.put.iter().any(MustFailTest::is_existing) || !self.missed().is_empty()
        {
            return Vec::new();
        }
        let failed_before = |name: &&String| earlier.others.iter().any(|before| is_test(name, before));
        self.others.iter().filter(failed_before).collect()
    }

    /// Whether the runner's report shows that nothing but the must-fail tests failed, and that as many passed as in `plain`, the
    /// report of a run without them.
    pub fn shows_the_rest_passed(&self, report: Option<&TestReport>, plain: Option<&TestReport>) -> bool {
        let (Some(report), Some(plain)) = (report, plain) else { return false };
        let replaced = self.put.iter().filter(|test| test.is_existing()).count();
        let replaced = u32::try_from(replaced).unwrap_or(u32::MAX);
        usize::try_from(report.failed).is_ok_and(|failed| failed == self.put.len())
            && report.passed.saturating_add(replaced) >= plain.passed
    }
}

impl MustFailTest {
    /// Whether a test that was there is made to fail.
    pub fn is_existing(&self) -> bool {
        self.existing().is_some()
    }

    /// The test that was there and is made to fail.
    fn existing(&self) -> Option<&str> {
        self.by.strip_prefix(BODY_OF).or_else(|| self.expects_other())
    }

    /// The test that was there and is made to expect another number.
    pub fn expects_other(&self) -> Option<&str> {
        self.by.strip_prefix(EXPECTATION_OF)
    }
}

/// The must-fail tests of a claim among those that a gate noticed before the first agent. Of the tests that were there, at most
/// one of each file fails at once, which `choose` picks by its number of possibilities: the others run the code under test.
pub fn must_fail_tests_of_claim(
    noticed: &[MustFailTest],
    mut choose: impl FnMut(usize) -> usize,
) -> Vec<MustFailTest> {
    let mut chosen: Vec<MustFailTest> = noticed.iter().filter(|test| !test.is_existing()).cloned().collect();
    let paths: BTreeSet<&String> = noticed.iter().map(|test| &test.path).collect();
    for path in paths {
        let of_file = || noticed.iter().filter(|test| test.path == *path);
        let bodies: Vec<&MustFailTest> = of_file().filter(|test| test.by.starts_with(BODY_OF)).collect();
        let body = (bodies.len() > 1).then(|| bodies[choose(bodies.len()) % bodies.len()]);
        chosen.extend(body.cloned());
        // One that fails at once compares nothing.
        let fails_at_once = body.and_then(MustFailTest::existing);
        chosen.extend(
            of_file()
                .filter(|test| test.expects_other().is_some_and(|name| Some(name) != fails_at_once))
                .cloned(),
        );
    }
    chosen
}

/// Whether how a gate ends follows from how its last command ends, so that a failure which it prints is why it is red.
pub fn ends_as_its_tests_do(command: &str) -> bool {
    !command.contains(['|', ';', '\n', '&', '!']) || {
        let without_and = command.replace("&&", "").replace("2>&1", "");
        !without_and.contains(['|', ';', '\n', '&', '!'])
    }
}

const BODY_OF: &str = "body of ";
const EXPECTATION_OF: &str = "expectation of ";

/// A language whose tests can get a must-fail test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestLanguage {
    Python,
    JavaScript,
    Rust,
    Go,
    /// C and C++ with a `main`.
    C,
}

/// Assertions of `unittest`, and calls of them that fail.
const UNITTEST: &[(&str, &str)] = &[
    ("assertEqual", "self.assertEqual(1, 2)"),
    ("assertNotEqual", "self.assertNotEqual(1, 1)"),
    ("assertTrue", "self.assertTrue(0)"),
    ("assertFalse", "self.assertFalse(1)"),
    ("assertIs", "self.assertIs(1, None)"),
    ("assertIsNone", "self.assertIsNone(1)"),
    ("assertIsNotNone", "self.assertIsNotNone(None)"),
    ("assertIn", "self.assertIn(1, [])"),
    ("assertNotIn", "self.assertNotIn(1, [1])"),
    ("assertAlmostEqual", "self.assertAlmostEqual(1, 2)"),
    ("assertGreater", "self.assertGreater(1, 2)"),
    ("assertLess", "self.assertLess(2, 1)"),
    ("assertListEqual", "self.assertListEqual([1], [2])"),
    ("assertDictEqual", "self.assertDictEqual({}, {1: 1})"),
    ("assertRaises", "self.assertRaises(ValueError, int)"),
];

/// Assertions of JavaScript by how a file writes them, and calls of them that fail.
const JAVASCRIPT: &[(&str, &str)] = &[
    ("assert.strictEqual(", "assert.strictEqual(1, 2)"),
    ("assert.equal(", "assert.equal(1, 2)"),
    ("assert.deepStrictEqual(", "assert.deepStrictEqual([1], [2])"),
    ("assert.deepEqual(", "assert.deepEqual([1], [2])"),
    ("assert.notStrictEqual(", "assert.notStrictEqual(1, 1)"),
    ("assert.ok(", "assert.ok(false)"),
    ("assert.throws(", "assert.throws(() => {})"),
    ("assert(", "assert(false)"),
    ("strictEqual(", "strictEqual(1, 2)"),
    ("deepStrictEqual(", "deepStrictEqual([1], [2])"),
    (".toBe(", "expect(1).toBe(2)"),
    (".toEqual(", "expect(1).toEqual(2)"),
    (".toStrictEqual(", "expect(1).toStrictEqual(2)"),
    (".toBeTruthy(", "expect(0).toBeTruthy()"),
    (".toBeFalsy(", "expect(1).toBeFalsy()"),
    (".toBeNull(", "expect(1).toBeNull()"),
    (".toContain(", "expect([1]).toContain(2)"),
    (".toHaveLength(", "expect([1]).toHaveLength(2)"),
    (".toThrow(", "expect(() => {}).toThrow()"),
    (".to.equal(", "expect(1).to.equal(2)"),
    (".to.eql(", "expect(1).to.eql(2)"),
    (".to.deep.equal(", "expect([1]).to.deep.equal([2])"),
    (".to.be.true", "expect(false).to.be.true"),
];

const RUST: &[(&str, &str)] = &[
    ("assert_eq!", "assert_eq!(\"NAME\".len(), 0);"),
    ("assert_ne!", "assert_ne!(\"NAME\", \"NAME\");"),
    ("assert!", "assert!(\"NAME\".contains('0'));"),
];

const GO: &[(&str, &str)] = &[
    ("assert.Equal(", "assert.Equal(t, 1, 2)"),
    ("require.Equal(", "require.Equal(t, 1, 2)"),
    ("require.NoError(", "require.Equal(t, 1, 2)"),
];

impl TestLanguage {
    pub(super) fn of(path: &str) -> Option<Self> {
        let (_, name) = path.rsplit_once('/').unwrap_or(("", path));
        match name.rsplit_once('.')?.1 {
            "py" => Some(Self::Python),
            "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" => Some(Self::JavaScript),
            "rs" => Some(Self::Rust),
            "go" => name.ends_with("_test.go").then_some(Self::Go),
            "c" | "cc" | "cpp" | "cxx" => Some(Self::C),
            _ => None,
        }
    }

    pub(super) fn masked_as(self) -> Language {
        match self {
            Self::Python => Language::Python,
            Self::JavaScript => Language::JavaScript,
            Self::Rust => Language::Rust,
            // Comments and strings of C are those of Go, as far as they matter here.
            Self::Go | Self::C => Language::Go,
        }
    }

    /// What must-fail tests in this file can fail by.
    fn assertions(self, path: &str, source: &SourceCode<'_>) -> Vec<String> {
        let code = source.code_between(0, source.code.len());
        let used = |table: &[(&str, &str)]| -> Vec<String> {
            let is_used = |by: &str| calls(&code, by);
            table.iter().filter(|(by, _)| is_used(by)).map(|(by, _)| (*by).to_owned()).collect()
        };
        let or_else = |found: Vec<String>, other: &str| {
            if found.is_empty() { vec![other.to_owned()] } else { found }
        };
        match self {
            Self::Python => python_assertions(&code, source),
            Self::JavaScript => match test_function(&code) {
                Some(_) => or_else(used(JAVASCRIPT), "throw"),
                None => Vec::new(),
            },
            Self::Rust if rust_place(path, source).is_some() => or_else(used(RUST), "panic!"),
            Self::Rust => Vec::new(),
            Self::Go if testing_package(source).is_some() => {
                let mut found = vec!["t.Fatal".to_owned()];
                found.extend(used(GO));
                found
            }
            Self::Go => Vec::new(),
            Self::C if calls(&code, "assert(") && c_main(source).is_some() => vec!["assert".to_owned()],
            Self::C => Vec::new(),
        }
    }

    fn insertion(
        self,
        path: &str,
        source: &SourceCode<'_>,
        by: &str,
        name: &str,
        place: FailurePlace,
    ) -> Option<Insertion> {
        let end = source.text.len();
        let statement = |table: &[(&str, &str)]| {
            table.iter().find(|(known, _)| *known == by).map(|(_, call)| call.replace("NAME", name))
        };
        // A file need not end with the end of a line.
        let gap = if source.text.ends_with('\n') || source.text.is_empty() { "\n" } else { "\n\n" };
        match self {
            Self::Python => python_insertion(source, by, name),
            Self::JavaScript => {
                let code = source.code_between(0, end);
                let function = test_function(&code)?;
                let call = match by {
                    "throw" => format!("throw new Error('{name}')"),
                    _ => statement(JAVASCRIPT)?,
                };
                let text = format!("{gap}{function}('{name}', () => {{\n  {call};\n}});\n");
                Some(Insertion { at: end, text, replaced: 0 })
            }
            Self::Rust => {
                let (at, indent) = rust_place(path, source)?;
                let call = match by {
                    "panic!" => format!("panic!(\"{name}\");"),
                    _ => statement(RUST)?,
                };
                let gap = if at == end { gap } else { "\n" };
                let text =
                    format!("{gap}{indent}#[test]\n{indent}fn {name}() {{\n{indent}    {call}\n{indent}}}\n");
                Some(Insertion { at, text, replaced: 0 })
            }
            Self::Go => {
                let package = testing_package(source)?;
                let call = match by {
                    "t.Fatal" => format!("t.Fatal(\"{name}\")"),
                    _ => statement(GO)?,
                };
                let text = format!("{gap}func Test_{name}(t *{package}.T) {{\n\t{call}\n}}\n");
                Some(Insertion { at: end, text, replaced: 0 })
            }
            Self::C => {
                let (early, late) = c_main(source)?;
                let at = if place == FailurePlace::Early { early } else { late };
                Some(Insertion { at, text: format!("\n    assert(!\"{name}\");\n    "), replaced: 0 })
            }
        }
    }
}

/// Whether `code` calls `by`, which may begin with a dot; the name itself is no part of a longer one or of another object.
fn calls(code: &str, by: &str) -> bool {
    code.match_indices(by).any(|(at, _)| {
        let before = code[..at].bytes().next_back();
        by.starts_with('.')
            || !before.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$'))
    })
}

// --- Python -------------------------------------------------------------------------------------------------

/// A test function of Python whose header is one line: where its body begins, and how it is indented.
pub(super) struct PythonTest {
    pub(super) name: String,
    pub(super) body: usize,
    pub(super) indent: String,
}

fn python_assertions(code: &str, source: &SourceCode<'_>) -> Vec<String> {
    let tests = python_tests(source);
    if tests.is_empty() {
        return Vec::new();
    }
    let is_unittest = code.contains("TestCase)");
    let mut found: Vec<String> = Vec::new();
    if is_unittest {
        let used = UNITTEST.iter().filter(|(by, _)| code.contains(&format!(".{by}(")));
        found.extend(used.map(|(by, _)| (*by).to_owned()));
    }
    let states =
        |line: &str| line.trim_start().starts_with("assert ") || line.trim_start().starts_with("assert(");
    if code.lines().any(states) || found.is_empty() {
        found.push(if is_unittest { "assert in a TestCase" } else { "assert" }.to_owned());
    }
    if code.contains("pytest.raises(") && !is_unittest {
        found.push("pytest.raises".to_owned());
    }
    const BODIES: usize = 4;
    if tests.len() > 1 {
        found.extend(tests.iter().take(BODIES).map(|test| format!("{BODY_OF}{}", test.name)));
    }
    found
}

fn python_insertion(source: &SourceCode<'_>, by: &str, name: &str) -> Option<Insertion> {
    if let Some(test) = by.strip_prefix(BODY_OF) {
        let PythonTest { body, indent, .. } =
            python_tests(source).into_iter().find(|known| known.name == test)?;
        return Some(Insertion {
            at: body,
            text: format!("{indent}assert \"{name}\" == \"\"\n"),
            replaced: 0,
        });
    }
    let text = match by {
        "assert" => format!("def test_{name}():\n    assert 1 == 2\n"),
        "pytest.raises" => {
            format!("def test_{name}():\n    with pytest.raises(ValueError):\n        pass\n")
        }
        _ => {
            let call = match by {
                "assert in a TestCase" => "assert 1 == 2",
                _ => UNITTEST.iter().find(|(known, _)| *known == by)?.1,
            };
            format!(
                "import unittest as unittest_{name}\n\n\nclass Test_{name}(unittest_{name}.TestCase):\n    def test_{name}(self):\n        {call}\n"
            )
        }
    };
    // What stands behind this runs only, or never, where the file is run as a program.
    let mut at = 0;
    for line in source.text.split_inclusive('\n') {
        let code = source.code_between(at, at + line.len());
        if code.starts_with("if __name__") || code.starts_with("unittest.main(") {
            return Some(Insertion { at, text: format!("{text}\n\n"), replaced: 0 });
        }
        at += line.len();
    }
    let gap = if source.text.ends_with('\n') { "\n\n" } else { "\n\n\n" };
    Some(Insertion { at: source.text.len(), text: format!("{gap}{text}"), replaced: 0 })
}

pub(super) fn python_tests(source: &SourceCode<'_>) -> Vec<PythonTest> {
    let mut tests: Vec<PythonTest> = Vec::new();
    let mut at = 0;
    let mut is_decorated = false;
    let lines: Vec<&str> = source.text.split_inclusive('\n').collect();
    for (index, line) in lines.iter().enumerate() {
        let start = at;
        at += line.len();
        let code = source.code_between(start, at);
        let header = code.trim();
        let was_decorated =
            std::mem::replace(&mut is_decorated, header.starts_with('@') || header.starts_with(')'));
        if source.within_string.contains(&start) || was_decorated {
            continue;
        }
        let function = header.strip_prefix("async ").unwrap_or(header).strip_prefix("def test");
        let Some(rest) = function.filter(|_| header.ends_with(':') && header.contains(')')) else { continue };
        let name = format!("test{}", rest.split('(').next().unwrap_or_default());
        let Some(body) = lines.get(index + 1) else { continue };
        let indent: String = body.chars().take_while(|c| matches!(c, ' ' | '\t')).collect();
        let own = line.len() - line.trim_start().len();
        // One of several of the same name is not known again.
        if indent.len() <= own || body.trim().is_empty() || tests.iter().any(|known| known.name == name) {
            continue;
        }
        tests.push(PythonTest { name, body: at, indent });
    }
    tests
}

// --- JavaScript ---------------------------------------------------------------------------------------------

/// The function by which the file defines its tests.
fn test_function(code: &str) -> Option<&'static str> {
    ["test", "it"]
        .into_iter()
        .find(|name| ["(", ".each", ".concurrent"].iter().any(|next| calls(code, &format!("{name}{next}"))))
}

// --- Rust ---------------------------------------------------------------------------------------------------

/// Where a test function can stand in a Rust file, and how it is indented there.
fn rust_place(path: &str, source: &SourceCode<'_>) -> Option<(usize, &'static str)> {
    let text = source.text;
    let items = rust_test_items(text);
    let module = items.iter().rev().find(|item| {
        item.name.starts_with("mod ") && !item.is_nested && text[item.start..item.end].ends_with('}')
    });
    if let Some(module) = module {
        return Some((module.end - 1, "    "));
    }
    let is_of_tests = items.iter().any(|item| item.name.starts_with("fn ") && !item.is_nested)
        || (source.code_between(0, text.len()).contains("::test]") && path.contains("tests"));
    is_of_tests.then_some((text.len(), ""))
}

// --- Go -----------------------------------------------------------------------------------------------------

/// The name by which the file calls the package `testing`.
fn testing_package<'a>(source: &SourceCode<'a>) -> Option<&'a str> {
    let line = source.text.lines().find(|line| line.trim().ends_with("\"testing\""))?;
    let name = line.trim().trim_start_matches("import").trim().strip_suffix("\"testing\"")?.trim();
    match name {
        "" => Some("testing"),
        "." | "_" => None,
        name => name.bytes().all(|byte| byte.is_ascii_alphanumeric()).then_some(name),
    }
}

// --- C ------------------------------------------------------------------------------------------------------

/// The beginning of `main` and the place behind all that it does, if it is sure to come there.
fn c_main(source: &SourceCode<'_>) -> Option<(usize, usize)> {
    let code = source.code_between(0, source.code.len());
    let main = code
        .match_indices("int main(")
        .find(|(at, _)| code[..*at].ends_with(['\n', '}', ';']) || *at == 0)?
        .0;
    let open = main + code[main..].find('{')?;
    let close = source.closing(open);
    if close >= code.len() {
        return None;
    }
    // What ends the program elsewhere with success would keep it from coming to the end of `main`.
    let leaves = ["exit(", "goto ", "longjmp", "execv", "execl", "pthread_exit", "TEST(", "#if"];
    let code_of_file = code.replace("exit(1)", "").replace("exit(EXIT_FAILURE)", "");
    if leaves.iter().any(|word| code_of_file.contains(word)) {
        return None;
    }
    let body = &code[open + 1..close];
    let returns: Vec<usize> = body.match_indices("return").map(|(at, _)| at).collect();
    let late = match returns[..] {
        [] => close,
        [at] => {
            let statement_end = at + body[at..].find(';')?;
            let is_outermost = body[..at].matches('{').count() == body[..at].matches('}').count();
            // Without braces it may belong to an `if` before it.
            let before = body[..at].trim_end();
            let stands_alone = before.is_empty() || before.ends_with([';', '}']);
            if !is_outermost || !stands_alone || !body[statement_end + 1..].trim().is_empty() {
                return None;
            }
            open + 1 + at
        }
        _ => return None,
    };
    Some((open + 1, late))
}

#[cfg(test)]
#[path = "must_fail_tests.rs"]
mod tests;
