//! What is known about the programs a gate starts.

use super::shell_words::Word;

/// What a program does with its arguments.
pub(super) enum Program {
    Cd,
    /// Runs a script or, with `-c`, a command.
    Shell,
    Interpreter,
    TestRunner,
    /// Reads what to run from a file that need not be named.
    Builder {
        /// Where it looks by itself.
        files: &'static [&'static str],
        dir_flags: &'static [&'static str],
        file_flags: &'static [&'static str],
    },
    Other,
}

/// Whether a module of Python that is run by `-m` is given files of tests.
pub(super) fn is_test_module(name: &str) -> bool {
    matches!(name, "pytest" | "unittest" | "nose" | "nose2" | "green" | "ward" | "twisted.trial")
}

/// What the program called `name` does.
pub(super) fn program(name: &str) -> Program {
    // `python3.12` is `python`.
    let family = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    match family {
        "cd" | "pushd" => Program::Cd,
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "fish" => Program::Shell,
        "source" | "python" | "pypy" | "node" | "nodejs" | "deno" | "bun" | "tsx" | "ts-node" | "ruby"
        | "perl" | "php" | "lua" | "luajit" | "Rscript" | "pwsh" | "powershell" | "tclsh" | "expect"
        | "osascript" | "java" | "julia" | "elixir" | "escript" | "coverage" => Program::Interpreter,
        // Their programs are arguments, and their other arguments are data.
        "awk" | "gawk" | "sed" => {
            Program::Builder { files: &[], dir_flags: &[], file_flags: &["-f", "--file"] }
        }
        // The dot that is short for `source`.
        "" if name.starts_with('.') => Program::Interpreter,
        "pytest" | "py.test" | "jest" | "vitest" | "mocha" | "ava" | "tap" | "rspec" | "phpunit" | "bats"
        | "prove" | "playwright" | "cypress" | "shellspec" | "shunit" | "busted" => Program::TestRunner,
        "make" | "gmake" => Program::Builder {
            files: &["GNUmakefile", "makefile", "Makefile"],
            dir_flags: &["-C", "--directory"],
            file_flags: &["-f", "--file", "--makefile"],
        },
        "just" => Program::Builder {
            files: &["justfile", "Justfile", ".justfile"],
            dir_flags: &["-d", "--working-directory"],
            file_flags: &["-f", "--justfile"],
        },
        "task" | "go-task" => Program::Builder {
            files: &["Taskfile.yml", "Taskfile.yaml"],
            dir_flags: &["-d", "--dir"],
            file_flags: &["-t", "--taskfile"],
        },
        "rake" => Program::Builder {
            files: &["Rakefile", "rakefile"],
            dir_flags: &["-C"],
            file_flags: &["-f", "--rakefile"],
        },
        "nox" => {
            Program::Builder { files: &["noxfile.py"], dir_flags: &[], file_flags: &["-f", "--noxfile"] }
        }
        _ => Program::Other,
    }
}

/// Whether `flag` of an interpreter is followed by its value.
pub(super) fn takes_value(flag: &str) -> bool {
    const FLAGS: &[&str] = &[
        "-o",
        "-O",
        "+O",
        "--rcfile",
        "--init-file",
        "-W",
        "-X",
        "-r",
        "--require",
        "--import",
        "--loader",
        "--experimental-loader",
        "-I",
        "--config",
        "-C",
        "--project",
        "-P",
        "--env-file",
    ];
    FLAGS.contains(&flag)
}

/// `words` from the command that is run in the end, without assignments, keywords and programs such as
/// `env` and `timeout` that run another.
pub(super) fn skip_wrappers(mut words: &[Word]) -> &[Word] {
    loop {
        let Some((first, rest)) = words.split_first() else { return words };
        let next = rest.first().map(|word| word.text.as_str());
        let name = first.text.rsplit('/').next().unwrap_or_default();
        words = match (name, next) {
            _ if first.input || first.is_assignment() => rest,
            ("!" | "if" | "then" | "else" | "elif" | "while" | "until" | "do" | "{", _) => rest,
            (
                "env" | "sudo" | "time" | "timeout" | "gtimeout" | "nice" | "nohup" | "exec" | "command"
                | "builtin" | "eval" | "xargs" | "stdbuf" | "setsid" | "unbuffer" | "npx" | "bunx" | "pnpx"
                | "uvx" | "xvfb-run" | "ionice" | "chrt" | "taskset",
                _,
            ) => skip_settings(rest),
            ("uv" | "poetry" | "pipenv" | "pdm" | "hatch" | "rye" | "pixi", Some("run"))
            | ("bundle" | "npm" | "pnpm" | "yarn" | "mise" | "direnv", Some("exec" | "dlx")) => {
                skip_settings(&rest[1..])
            }
            _ => return words,
        };
    }
}

/// Skips what a wrapper takes for itself: flags, assignments, and numbers such as `30s`.
fn skip_settings(words: &[Word]) -> &[Word] {
    let own = words
        .iter()
        .take_while(|word| {
            word.is_flag() || word.is_assignment() || word.text.starts_with(|c: char| c.is_ascii_digit())
        })
        .count();
    &words[own..]
}
