//! 140 configuration and task files of stages, good and broken, with everything that is said about them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test reads its files")]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use dacapo_core::{
    config::{Author, Config, Typed, parse, resolve},
    stages::{Stage, StageTask, task},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stages")
}

/// Every file of a kind, by its path.
fn corpus(kind: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for quality in ["broken", "valid"] {
        for entry in fs::read_dir(root().join(kind).join(quality)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            files.push((format!("{kind}/{quality}/{name}"), fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

/// The stages in force, a line each, or everything that is wrong.
fn said_of_config(file: &str, bytes: &[u8]) -> (bool, String) {
    match parse(file, bytes, Author::Repository) {
        Ok(config) => {
            let effective = resolve(&Config::default(), &config, &Typed::default()).stages;
            let mut text = format!("default {}\n", effective.default_max_iterations.value);
            for known in &effective.stages {
                let Stage { name, mode, max_iterations, promise, verifies, agent, model, tests, gates } =
                    &known.stage;
                let gates: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
                writeln!(
                    text,
                    "{name}: {mode:?} {max_iterations:?} `{promise}` verifies {verifies} agent {agent:?} model {model:?} \
                     tests {tests:?} gates {gates:?}"
                )
                .unwrap();
            }
            (true, text)
        }
        Err(problems) => (false, format!("{problems}\n")),
    }
}

/// What a task says, or everything that is wrong.
fn said_of_task(file: &str, bytes: &[u8]) -> (bool, String) {
    match task::parse(file, bytes) {
        Ok(StageTask { spec, status }) => {
            let mut text = format!("{} `{}` {status} on {}\n", spec.id, spec.title, spec.branch());
            let depends_on: Vec<&str> = spec.depends_on.iter().map(|id| id.as_str()).collect();
            let completion = serde_json::to_string(&spec.completion).unwrap();
            writeln!(text, "after {depends_on:?}, writes {:?}, completion {completion}", spec.writes)
                .unwrap();
            writeln!(text, "{}", spec.specification).unwrap();
            (true, text)
        }
        Err(problems) => (false, problems.iter().map(|problem| format!("{problem}\n")).collect()),
    }
}

#[test]
fn what_is_said_about_each_file_is_what_it_was() {
    // req 168, req 198, req 201
    let mut found = String::new();
    let mut number = 0;
    for (file, bytes) in corpus("config") {
        let (is_good, said) = said_of_config(&file, &bytes);
        assert_eq!(is_good, file.contains("/valid/"), "{file}: {said}");
        write!(found, "== {file}\n{said}\n").unwrap();
        number += 1;
    }
    for (file, bytes) in corpus("tasks") {
        let (is_good, said) = said_of_task(&file, &bytes);
        assert_eq!(is_good, file.contains("/valid/"), "{file}: {said}");
        write!(found, "== {file}\n{said}\n").unwrap();
        number += 1;
    }
    assert!(number >= 100, "{number}");
    let expected = root().join("expected.txt");
    if std::env::var_os("DACAPO_UPDATE_DOCS").is_some() {
        fs::write(&expected, &found).unwrap();
    }
    let kept = fs::read_to_string(expected).unwrap_or_default();
    for (found, kept) in found.split("\n== ").zip(kept.split("\n== ")) {
        assert_eq!(found, kept);
    }
    assert_eq!(
        found.len(),
        kept.len(),
        "run DACAPO_UPDATE_DOCS=1 cargo test -p dacapo-core --test stage_corpus"
    );
}

#[test]
fn no_cut_file_makes_the_reader_panic() {
    // fault I3, fault I4, fault I7
    for (file, bytes) in corpus("config").into_iter().chain(corpus("tasks")) {
        for end in 0..bytes.len() {
            let cut = &bytes[..end];
            let _ = said_of_config(&file, cut);
            let _ = said_of_task(&file, cut);
        }
    }
}
