//! The files that ARCHITECTURE.md names exist, and its walks count what they list.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is readable")
}

fn is_path(word: &str) -> bool {
    let is_plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b));
    is_plain
        && !word.starts_with('/')
        && (word.ends_with('/') || word.ends_with(".rs") || word.ends_with(".md"))
}

/// What a block of text names: in backticks, and as the target of a link.
fn named(block: &str) -> Vec<&str> {
    let quoted = block.split('`').skip(1).step_by(2);
    let linked = block.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    quoted.chain(linked).filter(|word| is_path(word)).collect()
}

/// The paths in `text` that are not there. A short path is meant from a folder above one that the same line named before.
fn missing(text: &str, root: &Path) -> Vec<String> {
    let mut missing = Vec::new();
    for line in text.lines() {
        let mut folders = vec![root.to_owned()];
        for name in named(line) {
            match folders.iter().rev().map(|folder| folder.join(name)).find(|path| path.exists()) {
                Some(path) => folders.extend(
                    path.ancestors()
                        .take_while(|above| above.starts_with(root))
                        .map(Path::to_owned)
                        .collect::<Vec<_>>()
                        .into_iter()
                        .rev(),
                ),
                None => missing.push(name.to_owned()),
            }
        }
    }
    missing
}

/// What is wrong with the walks: numbered lists of files, each with its length in words in front.
fn walk_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for section in text.split("\n## ").skip(1) {
        let files: Vec<&str> = section
            .lines()
            .filter_map(|line| line.split_once(". `")?.1.split_once("`: ").map(|(file, _)| file))
            .collect();
        let Some(said) =
            section.lines().find_map(|line| line.split_once(" files, ")?.0.parse::<usize>().ok())
        else {
            continue;
        };
        let title = section.lines().next().unwrap_or_default();
        if said != files.len() {
            problems.push(format!("{title}: says {said} files and lists {}", files.len()));
        }
        if files.iter().collect::<BTreeSet<_>>().len() != files.len() {
            problems.push(format!("{title}: a file twice"));
        }
    }
    problems
}

#[test]
fn every_file_that_the_architecture_names_is_there() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the repository is readable");
    assert!(named(&text).len() > 100, "its files are recognised");
    assert_eq!(missing(&text, &root()), Vec::<String>::new());
    assert!(text.matches(" files, ").count() >= 2, "its walks are recognised");
    assert_eq!(walk_problems(&text), Vec::<String>::new());
}

#[test]
fn a_file_that_is_gone_and_a_count_that_is_wrong_are_seen() {
    let text = "\n## A walk\n\n3 files, in order.\n\n1. `crates/core/src/lib.rs`: all, then `gone.rs`\n2. `crates/core/src/lib.rs`: again\n";
    assert_eq!(missing(text, &root()), ["gone.rs"]);
    assert_eq!(walk_problems(text), ["A walk: says 3 files and lists 2", "A walk: a file twice"]);
}

/// The Rust files below a folder that are not tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the repository is readable") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_loop_machine_knows_nothing_of_units() {
    let mut files = Vec::new();
    for folder in ["loop_machine", "judge"] {
        sources(&root().join("crates/core/src").join(folder), &mut files);
    }
    assert!(files.len() > 30, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).expect("the repository is readable");
        for word in ["unit::", "TaskSet", "TaskSpec", "TaskStatus"] {
            assert!(!text.contains(word), "{} names `{word}`", file.display());
        }
    }
}
