//! Tests in Python: functions called `test…`, in the module or in classes of tests.

use super::{
    Test,
    body::Body,
    source::{Language, SourceCode},
};

/// A logical line: brackets and strings that span lines are within one.
struct Line {
    start: usize,
    end: usize,
    indent: usize,
}

/// A class that the lines are in, or the module.
struct Scope {
    /// Lines indented further are in it.
    indent: Option<usize>,
    skipped: Option<String>,
    holds_tests: bool,
}

/// The tests in `text`.
pub(super) fn tests(text: &str) -> Vec<Test> {
    let source = SourceCode::new(text, Language::Python);
    let lines = lines(&source);
    let code = |line: &Line| source.code_between(line.start, line.end).trim().to_owned();
    let mut tests: Vec<(Test, usize)> = Vec::new();
    let mut scopes = vec![Scope { indent: None, skipped: None, holds_tests: true }];
    let mut decorators: Vec<String> = Vec::new();
    let mut next = 0;
    while let Some(line) = lines.get(next) {
        next += 1;
        let statement = code(line);
        while scopes.len() > 1
            && scopes.last().and_then(|scope| scope.indent).is_some_and(|i| line.indent <= i)
        {
            scopes.pop();
        }
        if statement.starts_with('@') {
            decorators.push(statement);
            continue;
        }
        let decorated = std::mem::take(&mut decorators);
        let skip = decorated.iter().find_map(|decorator| skipping(decorator));
        if let Some(class) = statement.strip_prefix("class ") {
            let scope = Scope {
                indent: Some(line.indent),
                skipped: skip.or_else(|| scopes.last().and_then(|scope| scope.skipped.clone())),
                holds_tests: holds_tests(class),
            };
            scopes.push(scope);
        } else if let Some(name) = function(&statement) {
            let body = lines[next..].iter().take_while(|inner| inner.indent > line.indent).count();
            let (Some(scope), true) = (scopes.last(), name.starts_with("test")) else {
                next += body;
                continue;
            };
            let end = lines[..next + body].last().map_or(line.end, |last| last.end);
            // A body may follow on the same line.
            let header = header_len(&statement).unwrap_or(statement.len());
            let start = source.skip_white(line.start) + header;
            let inner = source.code_between(start, end);
            let skipped = skip
                .or_else(|| scope.skipped.clone())
                .or_else(|| calls_skip(&inner).map(|call| format!("`{call}…)`")));
            if scope.holds_tests {
                let body = Body::new(source.text_between(start, end), &inner);
                let test = Test { name: name.to_owned(), skipped, inverted: None, body };
                tests.push((test, scopes.len()));
            }
            next += body;
        } else if let Some(how) = switches_scope_off(&statement) {
            // It holds for what stands before it as well.
            let depth = scopes.len();
            for (test, _) in tests.iter_mut().rev().take_while(|(_, inner)| *inner >= depth) {
                test.skipped.get_or_insert_with(|| how.clone());
            }
            if let Some(scope) = scopes.last_mut() {
                scope.skipped = Some(how);
            }
        }
    }
    tests.into_iter().map(|(test, _)| test).collect()
}

fn lines(source: &SourceCode<'_>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    let mut continued = false;
    for physical in source.text.split_inclusive('\n') {
        let end = start + physical.len();
        let code = &source.code[start..end];
        let goes_on = depth > 0 || continued || source.within_string.binary_search(&start).is_ok();
        let indent = code.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let blank = code.trim_ascii().is_empty();
        match lines.last_mut() {
            Some(line) if goes_on => line.end = end,
            _ if blank => {}
            _ => lines.push(Line { start, end, indent }),
        }
        for byte in code {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        continued = code.trim_ascii_end().ends_with(b"\\");
        start = end;
    }
    lines
}

/// The name of the function that `statement` begins.
fn function(statement: &str) -> Option<&str> {
    let rest = statement.strip_prefix("async ").map_or(statement, str::trim_start).strip_prefix("def ")?;
    let name = rest.trim_start();
    Some(&name[..name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len())])
}

/// Up to and with the colon that ends a function's header.
fn header_len(statement: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in statement.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Whether a runner collects the methods of a class: by its name, or because of what it is made from.
fn holds_tests(class: &str) -> bool {
    let name = &class[..class.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(class.len())];
    let bases = class.split_once('(').and_then(|(_, rest)| rest.split(')').next()).unwrap_or_default();
    name.starts_with("Test") || !bases.trim().is_empty()
}

fn skipping(decorator: &str) -> Option<String> {
    let name = decorator.split('(').next().unwrap_or_default().trim();
    let last = name.trim_start_matches('@').rsplit('.').next().unwrap_or_default();
    let skips = matches!(last, "skip" | "skipif" | "skipIf" | "skipUnless" | "xfail" | "expectedFailure");
    skips.then(|| format!("`{name}`"))
}

fn calls_skip(body: &str) -> Option<&'static str> {
    ["pytest.skip(", "pytest.xfail(", "self.skipTest(", "unittest.SkipTest("]
        .into_iter()
        .find(|call| body.contains(*call))
}

/// A statement that takes all tests around it out.
fn switches_scope_off(statement: &str) -> Option<String> {
    let squeezed: String = statement.split_whitespace().collect();
    let marks = squeezed.starts_with("pytestmark=")
        && ["mark.skip", "mark.xfail"].iter().any(|mark| squeezed.contains(mark));
    if marks {
        Some("`pytestmark`".to_owned())
    } else if squeezed == "__test__=False" {
        Some("`__test__ = False`".to_owned())
    } else if squeezed.starts_with("pytest.skip(") || squeezed.starts_with("raiseunittest.SkipTest") {
        Some("the module skips itself".to_owned())
    } else {
        None
    }
}
