//! Turning the bytes a program writes into text, and text into what can safely be shown.

pub mod amount;
pub mod ansi;
pub mod columns;
pub mod nearest;
pub mod shell;
pub mod visible;

/// A number of things: `1 iteration`, `3 iterations`.
pub fn count(number: u32, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}
