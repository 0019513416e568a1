//! The index of requirements says which tests name which number; it is made from the tests, so it claims nothing else.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

const BEGIN: &str =
    "<!-- tests: written by `DACAPO_UPDATE_DOCS=1 cargo test -p dacapo-testkit --test requirements` -->\n";
const END: &str = "<!-- tests -->\n";

/// The tests that name each number: a number counts if a test names it inside of itself.
fn named(root: &Path) -> BTreeMap<u32, Vec<String>> {
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for file in rust_files(root) {
        let text = fs::read_to_string(&file).expect("the sources can be read");
        let place = place_of(root, &file);
        let (mut test, mut is_next_test) = (None, false);
        for line in text.lines() {
            let code = line.trim_start();
            if code.starts_with("#[test]") {
                is_next_test = true;
            } else if let Some(name) = code.strip_prefix("fn ").and_then(|rest| rest.split('(').next()) {
                // A helper inside of a test belongs to the test.
                let is_inner = line.starts_with("        ") && test.is_some() && !is_next_test;
                if !is_inner {
                    test = std::mem::take(&mut is_next_test).then(|| format!("{place}::{}", name.trim()));
                }
            }
            let Some(comment) = code.find("//").map(|at| &code[at..]) else { continue };
            // What the head of a file of tests names holds for all of them.
            let test = match &test {
                _ if comment.starts_with("//!") && place.contains("/tests/") => place.clone(),
                Some(test) => test.clone(),
                None => continue,
            };
            for number in numbers(comment) {
                let tests = found.entry(number).or_default();
                if !tests.contains(&test) {
                    tests.push(test.clone());
                }
            }
        }
    }
    found.values_mut().for_each(|tests| tests.sort());
    found
}

/// The numbers behind the word `req`.
fn numbers(comment: &str) -> impl Iterator<Item = u32> {
    comment.split("req ").skip(1).filter_map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)
        .expect("the sources can be read")
        .map(|entry| entry.expect("the sources can be read").path())
    {
        if entry.is_dir() {
            files.extend(rust_files(&entry));
        } else if entry.extension().is_some_and(|ending| ending == "rs")
            && !entry.ends_with("tests/requirements.rs")
        {
            files.push(entry);
        }
    }
    files.sort();
    files
}

/// Where a file lies, in short: `app/tests/cli/ids`.
fn place_of(root: &Path, file: &Path) -> String {
    let place = file.strip_prefix(root).expect("the sources can be read").with_extension("");
    place.to_string_lossy().replace("/src/", "/")
}

#[test]
fn the_index_of_requirements_is_what_the_tests_say() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let page = crates.join("../docs/design/requirements.md");
    let text = fs::read_to_string(&page).unwrap();
    let named = named(&crates);
    let listed: Vec<u32> = text
        .lines()
        .filter_map(|line| line.split_once(". ").and_then(|(number, _)| number.parse().ok()))
        .collect();
    assert!(listed.len() > 200, "{} numbers in the list", listed.len());
    let without: Vec<u32> = listed.iter().copied().filter(|number| !named.contains_key(number)).collect();
    assert_eq!(without, Vec::<u32>::new(), "no test names these requirements");
    let unknown: Vec<&u32> = named.keys().filter(|number| !listed.contains(number)).collect();
    assert_eq!(unknown, Vec::<&u32>::new(), "tests name these, and the list does not have them");
    let mut index = String::from("| number | tests |\n|---|---|\n");
    for number in &listed {
        let tests = named.get(number).into_iter().flatten().map(|test| format!("`{test}`"));
        let tests: Vec<String> = tests.collect();
        let tests = if tests.is_empty() { "none".to_owned() } else { tests.join(", ") };
        writeln!(index, "| {number} | {tests} |").unwrap();
    }
    let (before, rest) = text.split_once(BEGIN).expect("the page has a place for the index");
    let (known, after) = rest.split_once(END).expect("the index has an end");
    if std::env::var_os("DACAPO_UPDATE_DOCS").is_some() {
        fs::write(&page, format!("{before}{BEGIN}{index}{END}{after}")).unwrap();
        return;
    }
    assert!(
        known == index,
        "the index is out of date: DACAPO_UPDATE_DOCS=1 cargo test -p dacapo-testkit --test requirements"
    );
}
