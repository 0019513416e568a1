//! Tests in Go: functions and methods called `Test…` or `Fuzz…`.

use super::{
    Test,
    body::Body,
    source::{Language, SourceCode},
};

/// The tests in `text`.
pub(super) fn tests(text: &str) -> Vec<Test> {
    let source = SourceCode::new(text, Language::Go);
    let off = switched_off(text);
    let mut tests = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        if !source.code[start..].starts_with(b"func") {
            continue;
        }
        let mut name_at = source.skip_white(start + 4);
        if source.code.get(name_at) == Some(&b'(') {
            // The receiver of a method, as suites have them.
            name_at = source.skip_white((source.closing(name_at) + 1).min(source.code.len()));
        }
        let name = source.word(name_at.min(source.code.len()));
        if !is_test(name) {
            continue;
        }
        let parameters = name_at + name.len();
        if source.code.get(parameters) != Some(&b'(') {
            continue;
        }
        let open = source.skip_white((source.closing(parameters) + 1).min(source.code.len()));
        let close = source.closing(open);
        let body = source.code_between(open + 1, close);
        let skips = [".Skip(", ".Skipf(", ".SkipNow("];
        let skipped = off
            .clone()
            .or_else(|| skips.iter().find(|skip| body.contains(**skip)).map(|skip| format!("`{skip})`",)));
        let body = Body::new(source.text_between(open + 1, close), &body);
        tests.push(Test { name: name.to_owned(), skipped, inverted: None, body });
    }
    tests
}

fn is_test(name: &str) -> bool {
    ["Test", "Fuzz"].iter().any(|kind| {
        name != "TestMain"
            && name.strip_prefix(kind).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_lowercase()))
    })
}

/// A build constraint that holds nowhere, in front of the package clause.
fn switched_off(text: &str) -> Option<String> {
    text.lines()
        .take_while(|line| !line.starts_with("package "))
        .map(str::trim)
        .find(|line| matches!(*line, "//go:build ignore" | "// +build ignore" | "//go:build never"))
        .map(|line| format!("`{line}`"))
}
