//! Turning the bytes a program writes into text, and text into what can safely be shown.

pub mod amount;
pub mod ansi;
pub mod columns;
pub mod nearest;
pub mod shell;
pub mod visible;

/// How many lines of what a red gate printed people see while its loop runs.
pub const LINES_OF_RED_GATE: usize = 5;

/// The last `most` lines of `text` that are not blank.
pub fn last_lines(text: &str, most: usize) -> Vec<&str> {
    let mut lines: Vec<&str> =
        text.lines().rev().map(str::trim_end).filter(|line| !line.is_empty()).take(most).collect();
    lines.reverse();
    lines
}

/// A number of things: `1 iteration`, `3 iterations`.
pub fn count(number: u32, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}
