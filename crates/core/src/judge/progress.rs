//! Whether a loop still gets anywhere.
//!
//! Progress is judged by outcome, not by what an agent says or how often it says it: a workspace tree not
//! seen before in this loop, a claim accepted, or a gate failing in a new way. Trees are compared, not
//! uncommitted changes, so an agent that commits its own work makes progress like any other. Outside git, where no gate
//! and no protected path makes the content be hashed, an [`Outline`] stands for the tree.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{event::IterationProgress, text::ansi::readable};

/// How many lines at the end of a gate's output make its signature.
const SIGNATURE_LINES: usize = 50;

/// How many trees and signatures are remembered, each. A loop that comes back to an older one is taken
/// to have made progress.
const REMEMBERED: usize = 4096;

/// How many files of a plain folder are looked at after every iteration.
pub const MOST_FILES: usize = 50_000;

/// What is said where there are more.
pub const TOO_MANY: &str = "more than 50,000 files in a folder without git: progress is not judged by them";

/// 16 hexadecimal digits that are equal when a gate fails in the same way in two runs.
///
/// It is made of the gate's name, its exit code and the last 50 lines of its output that are not blank.
/// Numbers with their units, long hexadecimal words and paths are masked, because they differ from run to
/// run; so does the order in which tests run at the same time end, so lines count in any order.
#[must_use]
pub fn failure_signature(gate: &str, exit_code: i32, output: &[u8]) -> String {
    let output = readable(output);
    let mut lines: Vec<String> = output
        .lines()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take(SIGNATURE_LINES)
        .map(masked)
        .collect();
    lines.sort_unstable();
    let mut hash = Fnv::new();
    hash.part(gate.as_bytes());
    hash.part(exit_code.to_string().as_bytes());
    for line in &lines {
        hash.part(line.as_bytes());
    }
    format!("{:016x}", hash.0)
}

/// `line` with what differs from run to run masked and white space made one blank.
fn masked(line: &str) -> String {
    let mut masked = String::with_capacity(line.len());
    for word in line.split_whitespace() {
        if !masked.is_empty() {
            masked.push(' ');
        }
        // What stands around a path or a number in messages, as in `(src/a.rs:3)`.
        for part in word.split_inclusive([
            '(', ')', '[', ']', '{', '}', '<', '>', '"', '\'', '`', ',', ';', ':', '=', '|',
        ]) {
            let (text, sign) = match part.char_indices().next_back() {
                Some((at, sign)) if !sign.is_alphanumeric() => part.split_at(at),
                _ => (part, ""),
            };
            mask_part(text, &mut masked);
            masked.push_str(sign);
        }
    }
    masked
}

fn mask_part(text: &str, masked: &mut String) {
    let hex = text.strip_prefix("0x").unwrap_or(text);
    let is_path = text.len() > 1 && text.contains(['/', '\\']);
    let is_hex = hex.len() >= 6
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        && hex.bytes().any(|byte| byte.is_ascii_digit());
    if is_path {
        masked.push_str("PATH");
    } else if is_hex {
        masked.push('#');
    } else {
        mask_numbers(text, masked);
    }
}

/// Each number, with its fraction and its unit of time or size, becomes one sign.
fn mask_numbers(text: &str, masked: &mut String) {
    const UNITS: &[&str] = &["ns", "us", "\u{b5}s", "ms", "s", "m", "h", "%", "b", "kb", "mb", "kib", "mib"];
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        masked.push_str(&rest[..at]);
        masked.push('#');
        rest = rest[at..].trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        if UNITS.contains(&rest[..end].to_lowercase().as_str()) {
            rest = &rest[end..];
        }
    }
    masked.push_str(rest);
}

/// A sum over path, size and time of the files of a folder, in any order: cheap, and good enough to tell that an agent
/// changed something. No verdict rests on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    files: u64,
    sum: u64,
}

impl Outline {
    /// Takes in a file; `modified` is its time in seconds and nanoseconds.
    pub fn add(&mut self, path: &[u8], size: u64, modified: (i64, i64)) {
        let mut hash = Fnv::new();
        hash.part(path);
        hash.part(&size.to_le_bytes());
        hash.part(&modified.0.to_le_bytes());
        hash.part(&modified.1.to_le_bytes());
        self.files += 1;
        // Mixed before it is added, or two files that differ a little each might come to the same.
        let mixed = (hash.0 ^ (hash.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.sum = self.sum.wrapping_add(mixed ^ (mixed >> 33));
    }

    /// How many files were taken in.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files
    }

    /// It as text, equal for equal files.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}:{:016x}", self.files, self.sum)
    }
}

/// What a loop has come to so far, folded from its iterations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressLog {
    trees: RecentFingerprints,
    signatures: RecentFingerprints,
    without_progress: u32,
}

impl ProgressLog {
    /// The log of a loop that begins with the workspace as `tree`.
    #[must_use]
    pub fn starting_at(tree: Option<&str>) -> Self {
        let mut log = Self::default();
        log.trees.remember(tree);
        log
    }

    /// Whether an iteration made progress: judged by the workspace's tree after it, by the signature of the gates that
    /// refused it, and by whether its claim was accepted.
    ///
    /// Without a tree and without a signature nothing is known, and nothing is held against the loop.
    #[must_use]
    pub fn judge(&self, tree: Option<&str>, signature: Option<&str>, is_accepted: bool) -> IterationProgress {
        if self.trees.is_new(tree) || self.signatures.is_new(signature) || is_accepted {
            IterationProgress::Made
        } else if tree.is_some() || signature.is_some() {
            IterationProgress::None
        } else {
            IterationProgress::Unknown
        }
    }

    /// Takes in an iteration that was judged.
    pub fn take(&mut self, tree: Option<&str>, signature: Option<&str>, progress: IterationProgress) {
        self.without_progress = match progress {
            IterationProgress::Made => 0,
            IterationProgress::None => self.without_progress.saturating_add(1),
            IterationProgress::Unknown => return,
        };
        // Both are remembered, also if only one of them is the progress.
        self.trees.remember(tree);
        self.signatures.remember(signature);
    }

    /// Forgets how long there was none; what was seen stays seen.
    pub fn count_anew(&mut self) {
        self.without_progress = 0;
    }

    /// How many iterations in a row, up to the latest, made no progress.
    #[must_use]
    pub fn without_progress(&self) -> u32 {
        self.without_progress
    }
}

/// Hashes of the latest things seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct RecentFingerprints(VecDeque<u64>);

impl RecentFingerprints {
    fn is_new(&self, thing: Option<&str>) -> bool {
        thing.is_some_and(|thing| !self.0.contains(&hash(thing)))
    }

    fn remember(&mut self, thing: Option<&str>) {
        let Some(thing) = thing else { return };
        if !self.is_new(Some(thing)) {
            return;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(hash(thing));
    }
}

fn hash(thing: &str) -> u64 {
    let mut hash = Fnv::new();
    hash.part(thing.as_bytes());
    hash.0
}

/// FNV-1a: kept in journals, so it must be the same in every version, which the standard library's
/// hashes do not promise.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn part(&mut self, bytes: &[u8]) {
        // The zero keeps `ab` + `c` and `a` + `bc` apart.
        for byte in bytes.iter().chain([&0]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
