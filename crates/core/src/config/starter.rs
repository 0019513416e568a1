//! The file that `dacapo init` begins with: short, valid, and about this repository.

use serde_json::Value;

/// A command that runs a repository's tests, as far as its files tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tests {
    pub run: &'static str,
    pub from: &'static str,
}

/// The commands that run the tests of a repository; `files` are paths at its top and in its folders of tests, and `read` gives the
/// text of a file, if it is there.
pub fn guess_tests(files: &[String], read: impl Fn(&str) -> Option<String>) -> Vec<Tests> {
    let has = |name: &str| read(name).is_some();
    let mut found = Vec::new();
    if has("Cargo.toml") {
        found.push(Tests { run: "cargo test", from: "Cargo.toml" });
    }
    if read("package.json").is_some_and(|text| has_test_script(&text)) {
        let run = match () {
            () if has("pnpm-lock.yaml") => "pnpm test",
            () if has("yarn.lock") => "yarn test",
            () if has("bun.lock") || has("bun.lockb") => "bun run test",
            () => "npm test",
        };
        found.push(Tests { run, from: "package.json" });
    }
    let python = ["pytest.ini", "pyproject.toml"].into_iter().find(|name| {
        // Many projects keep the settings of other tools there.
        read(name).is_some_and(|text| *name == "pytest.ini" || text.contains("pytest"))
    });
    if let Some(from) = python {
        let run = match () {
            () if has("uv.lock") => "uv run pytest",
            () if has("poetry.lock") => "poetry run pytest",
            () => "python3 -m pytest",
        };
        found.push(Tests { run, from });
    }
    if found.iter().all(|test| test.from != "pytest.ini" && test.from != "pyproject.toml") {
        let of_python = if has("tox.ini") {
            Some(Tests { run: "tox", from: "tox.ini" })
        } else if has("noxfile.py") {
            Some(Tests { run: "nox", from: "noxfile.py" })
        } else if has("manage.py") {
            Some(Tests { run: "python3 manage.py test", from: "manage.py" })
        } else {
            ["setup.py", "setup.cfg", "pyproject.toml", "requirements.txt"]
                .into_iter()
                .find(|name| has(name))
                .filter(|_| ["tests/__init__.py", "test/__init__.py"].into_iter().any(has))
                .map(|from| Tests { run: "python3 -m unittest discover", from })
                .or_else(|| unittest_files(files, &read))
        };
        found.extend(of_python);
    }
    if has("deno.json") || has("deno.jsonc") {
        let from = if has("deno.json") { "deno.json" } else { "deno.jsonc" };
        found.push(Tests { run: "deno test", from });
    } else if found.iter().all(|test| test.from != "package.json")
        && let Some(from) = ["bunfig.toml", "bun.lock", "bun.lockb"].into_iter().find(|name| has(name))
    {
        found.push(Tests { run: "bun test", from });
    }
    if let Some(from) = ["build.gradle.kts", "build.gradle"].into_iter().find(|name| has(name)) {
        let run = if has("gradlew") { "./gradlew test" } else { "gradle test" };
        found.push(Tests { run, from });
    } else if has("pom.xml") {
        let run = if has("mvnw") { "./mvnw -q test" } else { "mvn -q test" };
        found.push(Tests { run, from: "pom.xml" });
    }
    let solution = ["*.sln", "*.slnx", "*.csproj", "*.fsproj"].into_iter().find(|kind| {
        files.iter().any(|file| !file.contains('/') && file.ends_with(kind.trim_start_matches('*')))
    });
    let dotnet = ["global.json", "Directory.Build.props"].into_iter().find(|name| has(name)).or(solution);
    if let Some(from) = dotnet {
        found.push(Tests { run: "dotnet test", from });
    }
    if has("go.mod") {
        found.push(Tests { run: "go test ./...", from: "go.mod" });
    }
    // Beside another one it most likely runs the very same tests.
    if found.is_empty()
        && let Some(from) = ["GNUmakefile", "makefile", "Makefile"]
            .into_iter()
            .find(|name| read(name).is_some_and(|text| text.lines().any(|line| is_target(line, "test"))))
    {
        found.push(Tests { run: "make test", from });
    }
    if found.is_empty()
        && let Some(from) = ["justfile", "Justfile", ".justfile"]
            .into_iter()
            .find(|name| read(name).is_some_and(|text| text.lines().any(|line| is_target(line, "test"))))
    {
        found.push(Tests { run: "just test", from });
    }
    found
}

/// How tests of `unittest` are found that no packaging file speaks of.
fn unittest_files(files: &[String], read: impl Fn(&str) -> Option<String>) -> Option<Tests> {
    let places = [
        ("", "test_*.py", "python3 -m unittest discover"),
        ("tests/", "tests/test_*.py", "python3 -m unittest discover -s tests"),
        ("test/", "test/test_*.py", "python3 -m unittest discover -s test"),
    ];
    places.into_iter().find_map(|(folder, from, run)| {
        let mut own = files.iter().filter(|file| {
            let name = file.strip_prefix(folder).filter(|name| !name.contains('/'));
            name.is_some_and(|name| name.starts_with("test_") && name.ends_with(".py"))
        });
        own.any(|file| read(file).is_some_and(|text| text.contains("unittest")))
            .then_some(Tests { run, from })
    })
}

/// Whether npm would run something: the line that `npm init` writes only fails.
fn has_test_script(package: &str) -> bool {
    serde_json::from_str::<Value>(package)
        .ok()
        .and_then(|package| Some(package.get("scripts")?.get("test")?.as_str()?.to_owned()))
        .is_some_and(|test| !test.trim().is_empty() && !test.contains("no test specified"))
}

fn is_target(line: &str, target: &str) -> bool {
    line.split_once(':').is_some_and(|(names, rest)| {
        !rest.starts_with('=') && names.split_ascii_whitespace().any(|name| name == target)
    })
}

/// A configuration to begin with; `missed` are patterns of tests that dacapo does not know by their names.
pub fn starter(tests: &[Tests], missed: &[String]) -> String {
    let mut text = "\
# How dacapo works on this repository. Every key is optional; `dacapo explain run` shows what is in force.

# The agent, unless you type another or your own ~/.config/dacapo/config.yaml names one.
# agent: claude

# Where a loop ends at the latest. This file can only lower what your own
# configuration allows; a flag outranks both.
limits:
  max_iterations: 30
  # max_time: 8h
  # max_cost: 20

"
    .to_owned();
    if tests.is_empty() {
        text.push_str(
            "\
# What must exit 0 before a claim to be done is believed. Without a gate every claim is.
# gates:
#   - {name: tests, run: make test, timeout: 10m}
",
        );
    } else {
        text.push_str(
            "\
# What must exit 0 before a claim to be done is believed. These commands run only after consent: `dacapo run` asks
# once, `dacapo trust` agrees beforehand, and a change of them asks again.
gates:
",
        );
        for (index, test) in tests.iter().enumerate() {
            let name = if index == 0 { "name: tests, " } else { "" };
            let (run, from) = (test.run, test.from);
            text.push_str(&format!("  - {{{name}run: {run}, timeout: 10m}} # guessed from {from}\n"));
        }
    }
    if !missed.is_empty() {
        let patterns: Vec<String> =
            missed.iter().map(|pattern| format!("'{}'", pattern.replace('\'', "''"))).collect();
        text.push_str(&format!(
            "
# Tests that neither their names nor their folders tell. An agent that changes tests is checked with them as they were, too.
tests:
  paths: [{}]
",
            patterns.join(", ")
        ));
    }
    text.push_str(
        "
# What the agent may not change if its claim is to count. A pattern has to fit a file, unless it begins with `?`.
# protect: [\"tests/**\", \"?.github/**\"]
",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Author, parse};

    #[test]
    fn tests_are_guessed_from_what_is_there() {
        type Files = &'static [(&'static str, &'static str)];
        let table: [(Files, &[&str]); 32] = [
            (&[], &[]),
            (&[("Cargo.toml", "[package]")], &["cargo test < Cargo.toml"]),
            (&[("package.json", r#"{"scripts": {"test": "vitest"}}"#)], &["npm test < package.json"]),
            (
                &[("package.json", r#"{"scripts": {"test": "vitest"}}"#), ("pnpm-lock.yaml", "")],
                &["pnpm test < package.json"],
            ),
            (
                &[(
                    "package.json",
                    r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#,
                )],
                &[],
            ),
            (&[("package.json", "not JSON")], &[]),
            (&[("pyproject.toml", "[tool.ruff]")], &[]),
            (
                &[("pyproject.toml", "[tool.pytest.ini_options]"), ("uv.lock", "")],
                &["uv run pytest < pyproject.toml"],
            ),
            (&[("go.mod", "module x")], &["go test ./... < go.mod"]),
            (&[("Makefile", "TEST := 1\nbuild test: all\n")], &["make test < Makefile"]),
            (&[("Makefile", "test := 1\ntests:\n")], &[]),
            (&[("tox.ini", "")], &["tox < tox.ini"]),
            (&[("pytest.ini", ""), ("tox.ini", "")], &["python3 -m pytest < pytest.ini"]),
            (&[("noxfile.py", "")], &["nox < noxfile.py"]),
            (&[("manage.py", "")], &["python3 manage.py test < manage.py"]),
            (&[("setup.py", ""), ("tests/__init__.py", "")], &["python3 -m unittest discover < setup.py"]),
            (&[("setup.py", "")], &[]),
            (&[("build.gradle", ""), ("gradlew", "")], &["./gradlew test < build.gradle"]),
            (&[("build.gradle.kts", "")], &["gradle test < build.gradle.kts"]),
            (&[("pom.xml", "")], &["mvn -q test < pom.xml"]),
            (&[("global.json", "{}")], &["dotnet test < global.json"]),
            (&[("Shop.sln", "")], &["dotnet test < *.sln"]),
            (&[("src/Shop.csproj", "")], &[]),
            (&[("test_a.py", "import unittest")], &["python3 -m unittest discover < test_*.py"]),
            (
                &[("tests/test_a.py", "import unittest"), ("tests/test_b.py", "import pytest")],
                &["python3 -m unittest discover -s tests < tests/test_*.py"],
            ),
            (&[("deno.json", "{}")], &["deno test < deno.json"]),
            (&[("bunfig.toml", "")], &["bun test < bunfig.toml"]),
            (&[("package.json", r#"{"name": "x"}"#), ("bun.lock", "")], &["bun test < bun.lock"]),
            (
                &[("package.json", r#"{"scripts": {"test": "vitest"}}"#), ("bun.lock", "")],
                &["bun run test < package.json"],
            ),
            (&[("justfile", "test filter='':\n  cargo test\n")], &["just test < justfile"]),
            (&[("Makefile", "test:\n"), ("justfile", "test:\n")], &["make test < Makefile"]),
            (
                &[("Cargo.toml", ""), ("go.mod", ""), ("Makefile", "test:\n")],
                &["cargo test < Cargo.toml", "go test ./... < go.mod"],
            ),
        ];
        for (files, expected) in table {
            let read =
                |name: &str| files.iter().find(|(file, _)| *file == name).map(|(_, text)| (*text).to_owned());
            let names: Vec<String> = files.iter().map(|(file, _)| (*file).to_owned()).collect();
            let found = guess_tests(&names, read);
            let shown: Vec<String> =
                found.iter().map(|test| format!("{} < {}", test.run, test.from)).collect();
            assert_eq!(shown, expected, "{files:?}");
            // The file is valid with every guess, and its gates are the guessed ones.
            let missed = ["checks/**".to_owned(), "it's/a?b.py".to_owned()];
            let config =
                parse("config.yaml", starter(&found, &missed).as_bytes(), Author::Repository).unwrap();
            let paths: Vec<&str> = config.checks.test_paths.iter().map(|path| path.value.as_str()).collect();
            assert_eq!(paths, missed);
            let gates: Vec<&str> = config.gates.iter().map(|gate| gate.value.run.as_str()).collect();
            assert_eq!(gates, found.iter().map(|test| test.run).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_commented_out_is_valid_too() {
        let uncommented: String = starter(&[], &[])
            .lines()
            .map(|line| match line.trim_start().strip_prefix("# ") {
                Some(key) if key.contains(": ") || key.ends_with(':') || key.starts_with("  - ") => {
                    let indent = line.len() - line.trim_start().len();
                    if key.starts_with(|c: char| c.is_ascii_uppercase()) {
                        String::new()
                    } else {
                        format!("{:indent$}{key}\n", "")
                    }
                }
                _ => format!("{line}\n"),
            })
            .collect();
        let config = parse("config.yaml", uncommented.as_bytes(), Author::Repository)
            .unwrap_or_else(|problems| panic!("{problems}\n{uncommented}"));
        assert_eq!((config.gates.len(), config.protect.len()), (1, 2), "{uncommented}");
    }
}
