//! 250 workflow files, good and broken, with everything that is said about them; and the same files with random damage, which
//! must be survived.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads its files and looks at the clock"
)]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use dacapo_core::workflow::{
    ParseSettings, Parsed,
    dry_run::{Stubs, walk},
    machine::WorkflowStarted,
    parse,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workflows")
}

/// Every file with the path that it would have in a repository, by name.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "yaml") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                let (folder, rest) = name.split_once('/').unwrap();
                files.push((format!(".{folder}/workflows/{rest}"), fs::read(path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// What `workflow check` would say.
fn said(file: &str, bytes: &[u8]) -> String {
    let Parsed { workflow, problems, notes, .. } = parse(file, bytes, ParseSettings::default());
    assert_eq!(workflow.is_some(), problems.is_empty(), "{file}");
    let mut text = format!("== {file}\n");
    if let Some(workflow) = workflow {
        let steps: Vec<String> = workflow
            .steps
            .iter()
            .map(|step| {
                let depends: Vec<&str> = step.depends_on.iter().map(|id| id.as_str()).collect();
                let behind =
                    if depends.is_empty() { String::new() } else { format!(" < {}", depends.join(" ")) };
                format!("{} ({}){behind}", step.id, step.kind.as_str())
            })
            .collect();
        writeln!(text, "ok `{}`: {}", workflow.name, steps.join(", ")).unwrap();
    }
    for note in notes {
        writeln!(text, "note: {note}").unwrap();
    }
    for problem in problems {
        writeln!(text, "{problem}").unwrap();
    }
    text
}

#[test]
fn what_is_said_about_each_file_is_what_it_was() {
    let files = corpus();
    assert!(files.len() >= 200, "{}", files.len());
    let found: String = files.iter().map(|(file, bytes)| said(file, bytes) + "\n").collect();
    let expected = root().join("expected.txt");
    if std::env::var_os("DACAPO_UPDATE_DOCS").is_some() {
        fs::write(&expected, &found).unwrap();
    }
    let kept = fs::read_to_string(expected).unwrap_or_default();
    for (found, kept) in found.split("\n\n").zip(kept.split("\n\n")) {
        assert_eq!(found, kept);
    }
    assert_eq!(found.len(), kept.len(), "run DACAPO_UPDATE_DOCS=1 cargo test -p dacapo-core --test corpus");
}

#[test]
fn good_files_are_good_and_broken_ones_are_broken() {
    for (file, bytes) in corpus() {
        let is_good = parse(&file, &bytes, ParseSettings::default()).problems.is_empty();
        if file.contains("/valid/") {
            assert!(is_good, "{}", said(&file, &bytes));
        }
        if file.contains("/broken/") || file.contains("/unsupported-") {
            assert!(!is_good, "{file}");
        }
    }
}

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % sides.max(1)
    }
}

/// Pieces that mean something somewhere.
const PIECES: &[&str] = &[
    "$",
    "$a.output",
    "$a.output.b",
    "${",
    "'",
    "\"",
    "`",
    "<promise>",
    "</promise>",
    "- ",
    ": ",
    "\n",
    "\n  ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "|\n",
    ">\n",
    "&a ",
    "*a",
    "!x ",
    "---\n",
    "#",
    "\\",
    "\0",
    "\t",
    "\r\n",
    "\u{feff}",
    "\u{202e}",
    "ä",
    "🎵",
    "..",
    "/",
    "-",
    "0",
    "-1",
    "1e9",
    "99999999999999999999",
    "true",
    "null",
    "~",
    "&&",
    "||",
    "==",
    "<<",
    "<<'E'\n",
    "when: ",
    "loop: ",
    "steps:\n",
    "nodes:\n",
    "depends_on: [",
    "until: ",
    "$LOOP_PREV_OUTPUT",
    "$ARTIFACTS_DIR",
    "wait: {for: ",
    "approval: ",
    "name: x\n",
];

/// The same file with some damage.
fn damaged(dice: &mut Dice, files: &[(String, Vec<u8>)], bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes[..bytes.len().min(8000)].to_vec();
    for _ in 0..=dice.roll(4) {
        let (from, to) = (dice.roll(bytes.len() + 1), dice.roll(bytes.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        match dice.roll(8) {
            0 => bytes.truncate(to),
            1 => drop(bytes.drain(from..to.min(from + 40))),
            2 if from < bytes.len() => bytes[from] = u8::try_from(dice.roll(256)).unwrap(),
            3 => {
                let copy = bytes[from..to.min(from + 200)].to_vec();
                bytes.splice(to..to, copy);
            }
            4 => {
                let other = &files[dice.roll(files.len())].1;
                let at = dice.roll(other.len() + 1);
                let piece = other[at..(at + dice.roll(300)).min(other.len())].to_vec();
                bytes.splice(from..from, piece);
            }
            _ => {
                let piece = PIECES[dice.roll(PIECES.len())];
                bytes.splice(from..from, piece.bytes());
            }
        }
    }
    bytes
}

#[test]
fn no_damage_makes_the_reader_panic_or_hang() {
    // fault I3, fault I4, fault I7. CI gives it a minute: DACAPO_FUZZ_SECONDS=60.
    let seconds = std::env::var("DACAPO_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let end = Instant::now() + Duration::from_secs(seconds);
    let files = corpus();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut tries, mut good, mut slowest) = (0_u32, 0_u32, Duration::ZERO);
    while Instant::now() < end {
        let (file, bytes) = &files[dice.roll(files.len())];
        let bytes = damaged(&mut dice, &files, bytes);
        let begun = Instant::now();
        let settings = ParseSettings { lenient: dice.roll(2) == 0 };
        let parsed = parse(file, &bytes, settings);
        assert_eq!(parsed.workflow.is_some(), parsed.problems.is_empty());
        for problem in parsed.problems.iter().chain(&parsed.notes) {
            assert!(problem.line > 0 && problem.column > 0 && !problem.what.is_empty());
            let _ = problem.to_string();
        }
        tries += 1;
        if let Some(workflow) = parsed.workflow {
            good += 1;
            let started = WorkflowStarted {
                run: "r".to_owned(),
                workflow,
                digest: String::new(),
                files: Vec::new(),
                left_out: Vec::new(),
                message: "$plan.output $ARGUMENTS".to_owned(),
                conversation: None,
                parallel: 2,
                settings: None,
            };
            let walked = walk(started, &Stubs::new());
            assert!(walked.end.detail != "the walk came to no end", "{}", String::from_utf8_lossy(&bytes));
        }
        slowest = slowest.max(begun.elapsed());
    }
    println!("{tries} files, {good} of them good, the slowest took {slowest:?}");
    assert!(tries > 50 && good > 5, "{tries} {good}");
    // Without optimisation, on a machine that does other things as well.
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
}
