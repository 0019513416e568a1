//! `docs/reference/cli.md` is the help of every command; `DACAPO_UPDATE_DOCS=1 cargo test -p dacapo` writes it anew.

use std::{fmt::Write as _, fs};

use clap::{Command, CommandFactory as _};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");

#[test]
fn the_reference_is_the_help_of_every_command() {
    let mut text = "# Commands\n\n<!-- Generated from the code: DACAPO_UPDATE_DOCS=1 cargo test -p dacapo reference -->\n\n\
                    Durations are written `500ms`, `90s`, `5m`, `1h30m`, `2d`. A loop is named by its id, the beginning of \
                    its id, or its task. What a command exits with is in [exit-codes.md](exit-codes.md).\n"
        .to_owned();
    let mut root = super::Cli::command().term_width(100);
    root.build();
    render(&root, "dacapo", &mut text);
    if std::env::var_os("DACAPO_UPDATE_DOCS").is_some() {
        fs::write(FILE, &text).unwrap();
    }
    let kept = fs::read_to_string(FILE).unwrap_or_default();
    assert!(
        kept == text,
        "docs/reference/cli.md is not what the commands say: run DACAPO_UPDATE_DOCS=1 cargo test"
    );
}

fn render(command: &Command, name: &str, text: &mut String) {
    let help = command.clone().term_width(100).render_long_help().to_string();
    // Clap leaves blanks at the end of some lines.
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(text, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end()).unwrap();
    for below in command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set())
    {
        render(below, &format!("{name} {}", below.get_name()), text);
    }
}

#[test]
fn where_it_runs_is_said_first() {
    // req 101
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    assert!(readme.contains("Linux only; on Windows in WSL2"), "the README says where it runs");
}
