//! Tests that the conventions would miss: files that use a test library although neither their name nor their folder says so.

use std::collections::BTreeMap;

use super::conventions::kind_of;

/// The most patterns that are proposed; a project with more of them has a convention of its own.
const MOST: usize = 20;

/// Patterns for `tests.paths` that cover the test files among `files` (paths from the top, with their text) which the conventions
/// do not know. A folder that holds nothing else is one pattern.
pub fn missed_tests<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    // Each folder with its missed tests, and whether there is other code beside them.
    let mut folders: BTreeMap<&str, (Vec<&str>, bool)> = BTreeMap::new();
    for (path, text) in files {
        if kind_of(path).is_some() {
            continue;
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let (missed, has_others) = folders.entry(folder).or_default();
        if uses_test_library(name, text) { missed.push(path) } else { *has_others = true }
    }
    let mut patterns = Vec::new();
    for (folder, (missed, has_others)) in folders {
        if missed.is_empty() {
            continue;
        }
        if folder.is_empty() || has_others {
            patterns.extend(missed.into_iter().map(literal));
        } else {
            patterns.push(format!("{}/**", literal(folder)));
        }
    }
    patterns.truncate(MOST);
    patterns
}

/// A pattern that matches this path alone.
fn literal(path: &str) -> String {
    path.chars().map(|c| if "*?[]{}".contains(c) { '?' } else { c }).collect()
}

/// Whether the code of a file calls a library for tests.
fn uses_test_library(name: &str, text: &str) -> bool {
    let any = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let begins = |words: &[&str]| {
        text.lines().map(str::trim_start).any(|line| words.iter().any(|word| line.starts_with(word)))
    };
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "py" => {
            begins(&["import unittest", "from unittest", "import pytest", "from pytest"])
                && begins(&["def test", "async def test"])
        }
        "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" => {
            any(&["vitest", "@jest/globals", "node:test", "@playwright/test", "bun:test", "Deno.test("])
                || any(&["describe("]) && any(&["it(", "test("]) && any(&["expect(", "assert"])
        }
        "java" | "kt" | "scala" | "groovy" => {
            any(&["org.junit", "org.testng", "kotlin.test", "io.kotest"]) && any(&["@Test", "Spec"])
        }
        "cs" | "fs" | "vb" => any(&["using Xunit", "using NUnit", "TestTools.UnitTesting", "open Xunit"]),
        "rb" => any(&["RSpec.describe", "Minitest::Test", "Test::Unit::TestCase"]),
        "php" => any(&["PHPUnit\\Framework", "extends TestCase"]),
        "c" | "cc" | "cpp" | "cxx" => any(&["gtest/gtest.h", "catch2/catch", "doctest.h", "cmocka.h"]),
        "ex" | "exs" => any(&["use ExUnit.Case"]),
        "pl" | "pm" => begins(&["use Test::More", "use Test2::"]),
        "swift" => begins(&["import XCTest", "import Testing"]),
        "dart" => any(&["package:test/", "package:flutter_test/"]),
        "lua" => any(&["require \"busted\"", "require('busted')", "require(\"busted\")"]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_under_names_of_their_own_are_proposed() {
        const PYTHON: &str = "import unittest\n\nclass A(unittest.TestCase):\n    def test_a(self): pass\n";
        const JS: &str = "import { test } from 'node:test';\ntest('a', () => {});\n";
        type Files = &'static [(&'static str, &'static str)];
        let table: [(Files, &[&str]); 8] = [
            (&[], &[]),
            (&[("tests/a.py", PYTHON), ("src/test_b.py", PYTHON)], &[]),
            (
                &[("checks/a.py", PYTHON), ("checks/deep/b.py", PYTHON), ("app.py", "x = 1")],
                &["checks/**", "checks/deep/**"],
            ),
            (&[("checks/a.py", PYTHON), ("checks/helper.py", "x = 1")], &["checks/a.py"]),
            (&[("verify.mjs", JS), ("index.mjs", "export default 1")], &["verify.mjs"]),
            (
                &[("qa/Login.java", "import org.junit.jupiter.api.Test;\nclass Login { @Test void a() {} }")],
                &["qa/**"],
            ),
            (&[("docs/about.py", "# how to import unittest\nprint('def test')")], &[]),
            (&[("od[d]/a.py", PYTHON)], &["od?d?/**"]),
        ];
        for (files, expected) in table {
            assert_eq!(missed_tests(files.iter().copied()), expected, "{files:?}");
        }
    }
}
