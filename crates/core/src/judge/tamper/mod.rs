//! Whether a change weakens tests, for the receipt.
//!
//! Test definitions are counted by name before and after, over all changed files, so a test that moved
//! or was renamed with its body unchanged is not a deleted one. Known are Rust, Python, JavaScript,
//! TypeScript and Go; in all but Rust only files that a test runner would look into.
//!
//! This is a scan, not a compiler. Comments and strings are told apart from code, but it does not see:
//! tests made by macros or loops, subtests and rows of tables, a `mod tests;` line taken out or a runner
//! set up to pass over files, a weaker assertion in place of a stronger one, JavaScript tests whose title
//! is not a string, and whether the condition of a conditional skip holds: a new one counts. A finding
//! says where to look, not that the agent cheated.

mod body;
mod golang;
mod javascript;
mod python;
mod rust;
mod source;

use serde::{Deserialize, Serialize};

pub(crate) use rust::test_items as rust_test_items;
pub(crate) use source::{Language, SourceCode};

/// How many findings are kept; the counts go on.
const MAX_FINDINGS: usize = 100;

/// A changed file, before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileChange<'a> {
    /// Its path, relative to the workspace root.
    pub path: &'a str,
    /// Its text before, or `None` if it is new or not text.
    pub old: Option<&'a str>,
    /// Its text after, or `None` if it is gone or not text.
    pub new: Option<&'a str>,
}

/// What a change does to tests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TamperScan {
    pub deleted_tests: u32,
    /// Tests that no longer run, or now pass by failing.
    pub skipped_tests: u32,
    /// Tests that no longer check anything.
    pub emptied_tests: u32,
    /// The first hundred of them.
    pub findings: Vec<Finding>,
}

/// One test that got weaker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The file it is in, or was in.
    pub path: String,
    pub kind: FindingKind,
    /// The test, and how it shows.
    pub detail: String,
}

/// What happened to a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    Deleted,
    Skipped,
    /// It passes when it fails; counted with the skipped ones.
    Inverted,
    /// It no longer checks anything.
    Emptied,
}

/// A test as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Test {
    name: String,
    /// Why it does not run.
    skipped: Option<String>,
    /// Why it passes by failing.
    inverted: Option<String>,
    body: body::Body,
}

/// A test with the file it is in.
struct Placed<'a> {
    path: &'a str,
    language: Language,
    test: Test,
    paired: bool,
}

/// What `changes` do to tests.
#[must_use]
pub fn scan(changes: &[FileChange<'_>]) -> TamperScan {
    let mut old = tests(changes, |change| change.old);
    let mut new = tests(changes, |change| change.new);
    let mut scan = TamperScan::default();
    // The closest match first, or a test would be compared with its namesake in another file.
    let by_name = |a: &Placed<'_>, b: &Placed<'_>| a.language == b.language && a.test.name == b.test.name;
    let same_file = |a: &Placed<'_>, b: &Placed<'_>| by_name(a, b) && a.path == b.path;
    let same_test = |a: &Placed<'_>, b: &Placed<'_>| same_file(a, b) && a.test == b.test;
    let renamed = |a: &Placed<'_>, b: &Placed<'_>| {
        a.language == b.language && !a.test.body.is_empty() && a.test.body.same_code(&b.test.body)
    };
    pair(&mut old, &mut new, same_test, &mut scan);
    pair(&mut old, &mut new, same_file, &mut scan);
    pair(&mut old, &mut new, by_name, &mut scan);
    pair(&mut old, &mut new, renamed, &mut scan);
    for gone in old.iter().filter(|placed| !placed.paired) {
        scan.found(gone.path, FindingKind::Deleted, format!("test `{}` is gone", gone.test.name));
    }
    scan
}

fn tests<'a>(
    changes: &[FileChange<'a>],
    text: impl Fn(&FileChange<'a>) -> Option<&'a str>,
) -> Vec<Placed<'a>> {
    let mut tests = Vec::new();
    for change in changes {
        let Some((language, text)) = Language::of_tests_in(change.path).zip(text(change)) else { continue };
        let found = match language {
            Language::Rust => rust::tests(text),
            Language::Python => python::tests(text),
            Language::JavaScript => javascript::tests(text),
            Language::Go => golang::tests(text),
        };
        tests.extend(found.into_iter().map(|test| Placed {
            path: change.path,
            language,
            test,
            paired: false,
        }));
    }
    tests
}

/// Compares each old test that has no partner yet with the first new one that is `alike`.
fn pair(
    old: &mut [Placed<'_>],
    new: &mut [Placed<'_>],
    alike: impl Fn(&Placed<'_>, &Placed<'_>) -> bool,
    scan: &mut TamperScan,
) {
    for before in old.iter_mut().filter(|placed| !placed.paired) {
        if let Some(after) = new.iter_mut().find(|after| !after.paired && alike(before, after)) {
            before.paired = true;
            after.paired = true;
            scan.compare(&before.test, &after.test, after.path);
        }
    }
}

impl TamperScan {
    /// Whether no test got weaker.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.deleted_tests == 0 && self.skipped_tests == 0 && self.emptied_tests == 0
    }

    fn compare(&mut self, before: &Test, after: &Test, path: &str) {
        let name = &after.name;
        if let (None, Some(how)) = (&before.skipped, &after.skipped) {
            self.found(path, FindingKind::Skipped, format!("test `{name}` is skipped: {how}"));
        } else if let (None, Some(how)) = (&before.inverted, &after.inverted) {
            self.found(path, FindingKind::Inverted, format!("test `{name}` passes by failing: {how}"));
        } else if after.body.is_emptied_since(&before.body) {
            self.found(path, FindingKind::Emptied, format!("test `{name}` checks nothing any more"));
        }
    }

    fn found(&mut self, path: &str, kind: FindingKind, detail: String) {
        let count = match kind {
            FindingKind::Deleted => &mut self.deleted_tests,
            FindingKind::Skipped | FindingKind::Inverted => &mut self.skipped_tests,
            FindingKind::Emptied => &mut self.emptied_tests,
        };
        *count = count.saturating_add(1);
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(Finding { path: path.to_owned(), kind, detail });
        }
    }
}

#[cfg(test)]
#[path = "../tamper_tests.rs"]
mod tamper_tests;
