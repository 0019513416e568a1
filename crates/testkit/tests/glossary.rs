//! The glossary names types and files that exist.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is readable")
}

/// The code of a file, or of all Rust files below a folder.
fn code(path: &Path) -> String {
    if path.is_file() {
        return fs::read_to_string(path).expect("the repository is readable");
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(path)
        .expect("the repository is readable")
        .map(|entry| entry.expect("the repository is readable").path())
        .collect();
    entries.sort();
    let is_code = |path: &PathBuf| path.is_dir() || path.extension().is_some_and(|ending| ending == "rs");
    entries.iter().filter(|path| is_code(path)).map(|path| code(path)).collect()
}

fn defines(code: &str, name: &str) -> bool {
    ["struct", "enum", "trait", "type"].iter().any(|kind| {
        let start = format!("{kind} {name}");
        code.match_indices(&start).any(|(at, _)| {
            let next = code[at + start.len()..].chars().next();
            next.is_none_or(|c| !c.is_alphanumeric() && c != '_')
        })
    })
}

/// What the last column says in backticks: the types, then the path they live in.
fn problems(glossary: &str, root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    for line in glossary.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| word")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [word, meaning, place] = cells[..] else {
            found.push(format!("not three columns: {line}"));
            continue;
        };
        if words.contains(&word) {
            found.push(format!("{word}: explained twice"));
        }
        words.push(word);
        if !meaning.ends_with('.') {
            found.push(format!("{word}: not a sentence"));
        }
        let named: Vec<&str> = place.split('`').skip(1).step_by(2).collect();
        let Some((path, types)) = named.split_last() else {
            found.push(format!("{word}: no place"));
            continue;
        };
        let path = root.join(path);
        if !path.exists() {
            found.push(format!("{word}: there is no {}", path.display()));
            continue;
        }
        let code = code(&path);
        found.extend(
            types
                .iter()
                .filter(|name| !defines(&code, name))
                .map(|name| format!("{word}: no type {name} there")),
        );
    }
    if words.is_empty() {
        found.push("no words at all".to_owned());
    }
    found
}

#[test]
fn every_word_of_the_glossary_lives_where_it_says() {
    let glossary = fs::read_to_string(root().join("docs/glossary.md")).expect("the repository is readable");
    assert_eq!(problems(&glossary, &root()), Vec::<String>::new());
}

#[test]
fn a_word_that_lives_nowhere_is_found() {
    let glossary = "| a | Is. | `Nothing` in `crates/testkit/src` |\n| b | Is. | `docs/none.md` |\n| b | is | `docs` |\n";
    let found = problems(glossary, &root());
    assert_eq!(found.len(), 4, "{found:?}");
}
