//! Which test runner a command starts.

use serde::{Deserialize, Serialize};

/// A program that runs tests and says how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    Cargo,
    Nextest,
    Pytest,
    Unittest,
    Tox,
    /// A script of `package.json`, by npm, pnpm, yarn or bun.
    NpmScript,
    NodeTest,
    BunTest,
    Jest,
    Vitest,
    Mocha,
    Go,
    Make,
    Just,
    Gradle,
    Maven,
    Dotnet,
    Ctest,
}

impl Runner {
    pub fn name(self) -> &'static str {
        match self {
            Self::Cargo => "cargo test",
            Self::Nextest => "cargo nextest",
            Self::Pytest => "pytest",
            Self::Unittest => "unittest",
            Self::Tox => "tox",
            Self::NpmScript => "a script of package.json",
            Self::NodeTest => "node --test",
            Self::BunTest => "bun test",
            Self::Jest => "jest",
            Self::Vitest => "vitest",
            Self::Mocha => "mocha",
            Self::Go => "go test",
            Self::Make => "make",
            Self::Just => "just",
            Self::Gradle => "gradle",
            Self::Maven => "maven",
            Self::Dotnet => "dotnet test",
            Self::Ctest => "ctest",
        }
    }

    /// Whether it builds what it tests from the sources, and so needs nothing but them.
    pub fn builds_from_sources(self) -> bool {
        matches!(self, Self::Cargo | Self::Nextest | Self::Go | Self::Gradle | Self::Maven | Self::Dotnet)
    }

    /// The programs that do its work, as PATH finds them.
    pub fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Cargo => &["cargo", "rustc", "rustdoc", "cc", "ld"],
            Self::Nextest => &["cargo", "cargo-nextest", "rustc", "cc", "ld"],
            Self::Pytest => &["pytest", "python", "python3"],
            Self::Unittest => &["python", "python3"],
            Self::Tox => &["tox", "python", "python3"],
            Self::NpmScript => &["npm", "npx", "pnpm", "yarn", "node"],
            Self::NodeTest | Self::Jest | Self::Vitest | Self::Mocha => &["node", "npx"],
            Self::BunTest => &["bun"],
            Self::Go => &["go"],
            Self::Make => &["make", "cc", "gcc", "g++", "clang", "ld"],
            Self::Just => &["just"],
            Self::Gradle => &["gradle", "java"],
            Self::Maven => &["mvn", "java"],
            Self::Dotnet => &["dotnet"],
            Self::Ctest => &["ctest", "cmake", "cc", "g++", "ld"],
        }
    }

    /// Whether must-fail tests can be put into the files of its tests.
    pub fn has_must_fail_tests(self) -> bool {
        matches!(
            self,
            Self::Cargo
                | Self::Nextest
                | Self::Pytest
                | Self::Unittest
                | Self::NodeTest
                | Self::Jest
                | Self::Vitest
                | Self::Mocha
                | Self::Go
        )
    }

    /// Whether it only starts what its file names, so that what runs tests is found there.
    pub fn is_a_front(self) -> bool {
        matches!(self, Self::Make | Self::Just | Self::NpmScript | Self::Tox)
    }
}

/// The runner that a simple command of these words starts.
pub(super) fn runner_of(words: &[String]) -> Option<Runner> {
    let (program, arguments) = words.split_first()?;
    let name = program.rsplit('/').next().unwrap_or_default();
    let family = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let first = arguments.iter().find(|word| !word.starts_with(['-', '+'])).copied();
    let has = |word: &str| arguments.contains(&word);
    match family {
        "cargo" => match first {
            Some("test" | "t") => Some(Runner::Cargo),
            Some("nextest") => Some(Runner::Nextest),
            _ => None,
        },
        "cargo-nextest" => Some(Runner::Nextest),
        "pytest" | "py.test" => Some(Runner::Pytest),
        "python" | "pypy" | "coverage" => {
            let module = arguments.iter().position(|word| *word == "-m").and_then(|at| arguments.get(at + 1));
            match module.copied() {
                Some("pytest") => Some(Runner::Pytest),
                Some("unittest") => Some(Runner::Unittest),
                Some("tox") => Some(Runner::Tox),
                _ => None,
            }
        }
        "tox" | "nox" => Some(Runner::Tox),
        "npm" | "pnpm" | "yarn" => match first {
            Some("test" | "t" | "tst" | "run" | "run-script") => Some(Runner::NpmScript),
            Some(script) if name != "npm" && !matches!(script, "install" | "add" | "exec" | "dlx" | "ci") => {
                Some(Runner::NpmScript)
            }
            _ => None,
        },
        "bun" => match first {
            Some("test") => Some(Runner::BunTest),
            Some("run") => Some(Runner::NpmScript),
            _ => None,
        },
        "node" if has("--test") => Some(Runner::NodeTest),
        "jest" => Some(Runner::Jest),
        "vitest" => Some(Runner::Vitest),
        "mocha" => Some(Runner::Mocha),
        "go" if first == Some("test") => Some(Runner::Go),
        "make" | "gmake" => Some(Runner::Make),
        "just" => Some(Runner::Just),
        "gradle" | "gradlew" => Some(Runner::Gradle),
        "mvn" | "mvnw" => Some(Runner::Maven),
        "dotnet" if first == Some("test") => Some(Runner::Dotnet),
        "ctest" => Some(Runner::Ctest),
        _ => None,
    }
}

/// The runners among commands, each once.
pub fn runners<'a>(commands: impl IntoIterator<Item = &'a Vec<String>>) -> Vec<Runner> {
    let mut all = Vec::new();
    for runner in commands.into_iter().filter_map(|words| runner_of(words)) {
        if !all.contains(&runner) {
            all.push(runner);
        }
    }
    all
}
