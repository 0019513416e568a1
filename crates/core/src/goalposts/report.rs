//! What test runners say at their end: how many tests ran, passed and were skipped, and their names where they are printed.
//!
//! Only a runner's own words count: the summary that it prints, never the number of tests in the sources. The output is
//! that of a process which ran the agent's code, so a report proves only that tests went missing, never that they are sound.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::text::{ansi::AnsiStripper, count};

/// How many names of tests are kept; a suite with more is compared by its numbers alone.
const MAX_NAMES: usize = 500;
/// Longer lines are no lines of a report.
const MAX_LINE: usize = 2000;

/// What a runner reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestReport {
    pub passed: u32,
    pub failed: u32,
    pub skipped: u32,
    /// How many of the failures are beyond the tests that ran: unittest counts every part of a test (`subTest`) that fails, and what
    /// classes and modules set up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub surplus_failures: u32,
    /// The tests that ran, where the runner names them; empty if there are too many.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub names: BTreeSet<String>,
    /// Those of them that failed, where the runner names them.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub failed_names: Box<BTreeSet<String>>,
}

#[expect(clippy::borrowed_box, reason = "what serde calls gets the field itself")]
fn is_empty(names: &Box<BTreeSet<String>>) -> bool {
    names.is_empty()
}

impl TestReport {
    /// How many tests ran.
    pub fn ran(&self) -> u32 {
        self.passed.saturating_add(self.failed).saturating_sub(self.surplus_failures)
    }

    /// Why the tests of `now` show less than these did, in words that follow the name of the gate; `None` if they do not.
    pub fn shrunk_to(&self, now: Option<&Self>) -> Option<String> {
        if self.ran() == 0 {
            return None;
        }
        let Some(now) = now else {
            return Some(format!("reports no tests, and ran {} before", count(self.ran(), "test")));
        };
        // Modules may be renamed: a test is known again by its own name.
        let own = |name: &str| name.rsplit([':', '/', ' ', '>']).next().unwrap_or(name).to_owned();
        let there: BTreeSet<String> = now.names.iter().map(|name| own(name)).collect();
        let gone: Vec<&String> = self.names.iter().filter(|name| !there.contains(&own(name))).collect();
        if let Some(first) = gone.first().filter(|_| !now.names.is_empty()) {
            let more = if gone.len() > 1 { format!(" and {} more", gone.len() - 1) } else { String::new() };
            return Some(format!("no longer runs the test `{first}`{more}"));
        }
        (now.ran() < self.ran())
            .then(|| format!("ran {}, and {} before", count(now.ran(), "test"), self.ran()))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Reads the output of a check while it streams by.
#[derive(Debug, Default)]
pub struct ReportReader {
    ansi: AnsiStripper,
    line: Vec<u8>,
    counts: Counts,
    names: BTreeSet<String>,
    failed_names: BTreeSet<String>,
    has_too_many_names: bool,
    is_summary_seen: bool,
    /// Whether go tells of every test; otherwise it names only those that fail.
    go_tells_all: bool,
    /// What was reported of single classes or tests, which counts if the line about all of them does not come.
    of_parts: Counts,
    /// How many tests unittest ran, until it says how many of them failed.
    unittest_ran: u32,
    surplus_failures: u32,
    /// Whether libtest shows what tests that failed have printed. Reports in there are those of runners that the tests started.
    shows_output_of_tests: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    passed: u32,
    failed: u32,
    skipped: u32,
}

impl ReportReader {
    /// Takes the next chunk, which may end anywhere.
    pub fn push(&mut self, mut chunk: &[u8]) {
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

    /// What was reported; `None` if no runner that is known printed its summary.
    pub fn finish(mut self) -> Option<TestReport> {
        self.end_line();
        if !self.is_summary_seen {
            return None;
        }
        let counts = if self.counts == Counts::default() { self.of_parts } else { self.counts };
        let Counts { passed, failed, skipped } = counts;
        let names = if self.has_too_many_names { BTreeSet::new() } else { self.names };
        let (surplus_failures, failed_names) = (self.surplus_failures, self.failed_names);
        Some(TestReport {
            passed,
            failed,
            skipped,
            surplus_failures,
            names,
            failed_names: Box::new(failed_names),
        })
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let is_indented = line.starts_with([' ', '\t']);
        let line = line.trim();
        // The shortest line that says something: `3 pass`. A flood of `y` is not read word by word.
        if line.len() > 4 {
            self.read(line, is_indented);
        }
    }

    fn read(&mut self, line: &str, is_indented: bool) {
        let is_shown = line.starts_with("---- ") && line.ends_with(" stdout ----");
        self.shows_output_of_tests =
            is_shown || self.shows_output_of_tests && !matches!(line, "failures:" | "successes:");
        // libtest indents nothing. nextest shows what it said of a single test with an indent, and counts that test itself.
        let is_part = is_indented && (line.starts_with("test result: ") || line.starts_with("test "));
        self.go_tells_all |= line.starts_with("=== RUN");
        let is_told = self.go_tells_all || !line.starts_with("--- ");
        let is_told = is_told && !is_part && !self.shows_output_of_tests;
        if let Some(name) = name_of_test(line).filter(|_| is_told) {
            if self.names.len() < MAX_NAMES {
                self.names.insert(name.to_owned());
            } else {
                self.has_too_many_names = true;
            }
        }
        // What a test prints hides no failure.
        if let Some(name) = name_of_failed(line).filter(|_| self.failed_names.len() < MAX_NAMES) {
            self.failed_names.insert(name.to_owned());
        }
        if self.shows_output_of_tests {
            return;
        }
        let Some(summary) = summary(line) else { return };
        self.is_summary_seen = true;
        match summary {
            Summary::Sum(counts) if is_part => self.of_parts.add(counts),
            Summary::Sum(counts) => self.counts.add(counts),
            Summary::OfClass(counts) => self.of_parts.add(counts),
            Summary::Ran(ran) => {
                self.unittest_ran = ran;
                self.counts.passed = self.counts.passed.saturating_add(ran);
            }
            Summary::Failed(failed) => {
                // Where what a class sets up fails, none of its tests ran: that it failed stays.
                let surplus = failed.saturating_sub(self.unittest_ran.max(1));
                self.surplus_failures = self.surplus_failures.saturating_add(surplus);
                self.counts.failed = self.counts.failed.saturating_add(failed);
                self.counts.passed = self.counts.passed.saturating_sub(failed.min(self.unittest_ran));
            }
            Summary::Skipped(skipped) => {
                self.counts.skipped = self.counts.skipped.saturating_add(skipped);
                self.counts.passed = self.counts.passed.saturating_sub(skipped);
            }
        }
    }
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
        self.skipped = self.skipped.saturating_add(other.skipped);
    }
}

/// A line of a summary.
enum Summary {
    Sum(Counts),
    /// One of several, which a later line adds up.
    OfClass(Counts),
    /// So many ran; what failed or was skipped among them comes in another line.
    Ran(u32),
    Failed(u32),
    Skipped(u32),
}

fn summary(line: &str) -> Option<Summary> {
    let sum = |counts| Some(Summary::Sum(counts));
    // cargo test: `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s`
    if let Some(rest) = line.strip_prefix("test result: ") {
        return sum(counted(rest));
    }
    // cargo nextest: `Summary [   0.012s] 3 tests run: 3 passed, 1 skipped`
    if let Some((_, rest)) = line.strip_prefix("Summary [").and_then(|rest| rest.split_once("run: ")) {
        return sum(counted(rest));
    }
    // pytest: `=== 1 failed, 3 passed, 1 skipped in 0.12s ===`, with `-q` without the signs
    let bare = line.trim_matches(['=', ' ']);
    if bare.starts_with("no tests ran in ") {
        return sum(Counts::default());
    }
    if let Some((counts, time)) = bare.rsplit_once(" in ")
        && time.starts_with(|c: char| c.is_ascii_digit())
        && counts.starts_with(|c: char| c.is_ascii_digit())
        && counts.split(", ").all(is_count_of_pytest)
    {
        return sum(counted(counts));
    }
    // unittest: `Ran 3 tests in 0.001s`, then `OK (skipped=1)` or `FAILED (failures=1, errors=1)`
    if let Some(rest) = line.strip_prefix("Ran ")
        && let Some((number, rest)) = rest.split_once(" test")
        && (rest.starts_with("s in ") || rest.starts_with(" in "))
    {
        return number.parse().ok().map(Summary::Ran);
    }
    if let Some(rest) = line.strip_prefix("OK (") {
        return after(rest, "skipped=").map(Summary::Skipped);
    }
    if let Some(rest) = line.strip_prefix("FAILED (") {
        let failed =
            after(rest, "failures=").unwrap_or(0).saturating_add(after(rest, "errors=").unwrap_or(0));
        return (failed > 0).then_some(Summary::Failed(failed));
    }
    // node --test: `# pass 3`, `ℹ fail 0`
    for mark in ["# ", "ℹ "] {
        if let Some((word, number)) = line.strip_prefix(mark).and_then(|rest| rest.split_once(' '))
            && let Ok(number) = number.trim().parse::<u32>()
        {
            return match word {
                "pass" => sum(Counts { passed: number, ..Counts::default() }),
                "fail" | "cancelled" => sum(Counts { failed: number, ..Counts::default() }),
                "skipped" | "todo" => sum(Counts { skipped: number, ..Counts::default() }),
                _ => None,
            };
        }
    }
    // jest: `Tests:       1 failed, 2 passed, 3 total`; vitest: `Tests  1 failed | 2 passed (3)`
    if let Some(rest) = line.strip_prefix("Tests:").or_else(|| line.strip_prefix("Tests "))
        && rest.trim().starts_with(|c: char| c.is_ascii_digit())
    {
        return sum(counted(rest));
    }
    // mocha: `3 passing (5ms)`; bun: `3 pass`
    if let Some((number, word)) = line.split_once(' ')
        && let Ok(number) = number.parse::<u32>()
    {
        let word = word.split(' ').next().unwrap_or_default();
        return match word {
            "passing" => sum(Counts { passed: number, ..Counts::default() }),
            "failing" => sum(Counts { failed: number, ..Counts::default() }),
            "pending" => sum(Counts { skipped: number, ..Counts::default() }),
            "pass" if line.ends_with("pass") => sum(Counts { passed: number, ..Counts::default() }),
            "fail" if line.ends_with("fail") => sum(Counts { failed: number, ..Counts::default() }),
            _ => None,
        };
    }
    // go test: one line for each package
    if let Some(rest) = line.strip_prefix("ok  \t") {
        let none = rest.contains("[no tests to run]");
        return sum(Counts { passed: u32::from(!none), ..Counts::default() });
    }
    if line.starts_with("FAIL\t") {
        return sum(Counts { failed: 1, ..Counts::default() });
    }
    // Maven: `Tests run: 3, Failures: 0, Errors: 0, Skipped: 1`, for each class with its time
    if let Some(at) = line.find("Tests run: ") {
        let rest = &line[at..];
        let ran = after(rest, "Tests run: ")?;
        let failed = after(rest, "Failures: ").unwrap_or(0) + after(rest, "Errors: ").unwrap_or(0);
        let skipped = after(rest, "Skipped: ").unwrap_or(0);
        let counts = Counts { passed: ran.saturating_sub(failed + skipped), failed, skipped };
        return Some(if rest.contains("Time elapsed") {
            Summary::OfClass(counts)
        } else {
            Summary::Sum(counts)
        });
    }
    // Gradle: `3 tests completed, 1 failed`
    // dotnet test: `Passed!  - Failed:     0, Passed:     3, Skipped:     0, Total:     3`
    if line.starts_with("Passed!") || line.starts_with("Failed!") {
        let counts = Counts {
            passed: after(line, "Passed:")?,
            failed: after(line, "Failed:")?,
            skipped: after(line, "Skipped:").unwrap_or(0),
        };
        return sum(counts);
    }
    // ctest: `100% tests passed, 0 tests failed out of 3`
    if let Some((percent, rest)) = line.split_once("% tests passed, ")
        && percent.parse::<u32>().is_ok()
    {
        let failed = rest.split(' ').next()?.parse().ok()?;
        let all: u32 = rest.rsplit(' ').next()?.parse().ok()?;
        return sum(Counts { passed: all.saturating_sub(failed), failed, skipped: 0 });
    }
    if line.starts_with("No tests were found") {
        return sum(Counts::default());
    }
    None
}

fn is_count_of_pytest(part: &str) -> bool {
    const WORDS: &[&str] = &[
        "passed",
        "failed",
        "skipped",
        "error",
        "errors",
        "xfailed",
        "xpassed",
        "warning",
        "warnings",
        "deselected",
        "rerun",
    ];
    part.split_once(' ').is_some_and(|(number, word)| number.parse::<u32>().is_ok() && WORDS.contains(&word))
}

/// The numbers before `passed`, `failed` and the like.
fn counted(text: &str) -> Counts {
    let mut counts = Counts::default();
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '|' | '(' | ')'))
        .filter(|w| !w.is_empty())
        .collect();
    for pair in words.windows(2) {
        let Ok(number) = pair[0].parse::<u32>() else { continue };
        match pair[1] {
            "passed" | "xpassed" => counts.passed += number,
            "failed" | "error" | "errors" | "timed" => counts.failed += number,
            "skipped" | "ignored" | "xfailed" | "todo" | "deselected" => counts.skipped += number,
            _ => {}
        }
    }
    counts
}

/// The number behind `mark`.
fn after(text: &str, mark: &str) -> Option<u32> {
    let rest = text[text.find(mark)? + mark.len()..].trim_start();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// The test that a line says has failed.
fn name_of_failed(line: &str) -> Option<&str> {
    // pytest: `FAILED tests/test_a.py::test_b - assert 0 == 4`
    if let Some(rest) = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "))
        && rest.contains("::")
    {
        return rest.split(" - ").next().map(str::trim);
    }
    // unittest: `FAIL: test_a (tests.T.test_a)`
    if let Some(rest) = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: ")) {
        return rest.split_once(" (").map(|(name, _)| name);
    }
    // node --test where it is not on a terminal: `not ok 2 - adds`
    if let Some(rest) = line.strip_prefix("not ok ")
        && let Some((number, name)) = rest.split_once(" - ")
        && number.parse::<u32>().is_ok()
    {
        return (!name.contains("# TODO") && !name.contains("# SKIP")).then_some(name);
    }
    if line.starts_with("✖ failing tests") {
        return None;
    }
    let has_failed = line.ends_with("FAILED")
        || line.starts_with("FAIL [")
        || line.starts_with("--- FAIL: ")
        || line.starts_with(['✕', '✖'])
        || line.ends_with(" ... FAIL")
        || line.ends_with(" ... ERROR");
    name_of_test(line).filter(|_| has_failed)
}

/// The test that a line says has run.
fn name_of_test(line: &str) -> Option<&str> {
    // cargo test: `test tests::adds ... ok`
    if let Some(rest) = line.strip_prefix("test ") {
        let (name, end) = rest.split_once(" ... ")?;
        // The line of a documentation test is another one after every change above it.
        let name = name.split_once(" (line ").map_or(name, |(name, _)| name);
        return (end.starts_with("ok") || end.starts_with("FAILED"))
            .then(|| name.trim_end_matches(" - should panic"));
    }
    // cargo nextest: `PASS [   0.006s] crate tests::adds`
    if let Some((_, rest)) =
        line.strip_prefix("PASS [").or_else(|| line.strip_prefix("FAIL [")).and_then(|r| r.split_once("] "))
    {
        return Some(rest.trim());
    }
    // pytest -v: `tests/test_a.py::test_b PASSED   [ 50%]`
    if let Some((name, end)) = line.split_once(' ')
        && name.contains("::")
        && (end.starts_with("PASSED") || end.starts_with("FAILED"))
    {
        return Some(name);
    }
    // go test -v: `--- PASS: TestA (0.00s)`
    if let Some(rest) = line.strip_prefix("--- PASS: ").or_else(|| line.strip_prefix("--- FAIL: ")) {
        return rest.split(' ').next();
    }
    // go test: `ok  	example.com/a	0.01s`
    if let Some(rest) = line.strip_prefix("ok  \t").filter(|rest| !rest.contains("[no tests to run]")) {
        return rest.split('\t').next();
    }
    if let Some(rest) = line.strip_prefix("FAIL\t") {
        return rest.split('\t').next();
    }
    // unittest -v: `test_a (tests.T.test_a) ... ok`
    if let Some((name, end)) = line.rsplit_once(" ... ")
        && matches!(end, "ok" | "FAIL" | "ERROR")
    {
        return name.split(' ').next();
    }
    // jest, mocha and node --test: `✓ adds (2 ms)`, `✔ adds (1.2ms)`
    for mark in ["✓ ", "✔ ", "✕ ", "✖ "] {
        if let Some(rest) = line.strip_prefix(mark) {
            // vitest: `✓ test/a.test.js (2 tests) 3ms` is a file, `✓ test/a.test.js > adds 3ms` a test
            if rest.contains(" tests)") || rest.contains(" test)") {
                return None;
            }
            let is_time = |text: &str| {
                let digits = text.trim_end_matches("ms").trim_end_matches('s');
                digits.len() < text.len() && digits.parse::<f32>().is_ok()
            };
            let (name, time) = rest.rsplit_once(' ').unwrap_or((rest, ""));
            let bare = time.trim_start_matches('(').trim_end_matches(')');
            // jest: `(2 ms)`
            let name = match name.rsplit_once(" (") {
                Some((name, number)) if bare == "ms" && number.parse::<f32>().is_ok() => name,
                _ if is_time(bare) => name,
                _ => rest,
            };
            return Some(name.trim());
        }
    }
    // ctest: `1/3 Test #1: adds .........   Passed    0.00 sec`
    let (_, rest) = line.split_once(" Test ")?;
    let (_, rest) = rest.trim_start().strip_prefix('#')?.split_once(": ")?;
    (rest.contains(" Passed ") || rest.contains("Failed")).then(|| rest.split(' ').next().unwrap_or(rest))
}
