//! What of a Markdown text is the writer's own prose.

use crate::judge::promise::code::CodeTracker;
use crate::judge::promise::line::Line;

/// Stands for what was taken out, so that the words around it do not become neighbours.
pub(super) const GAP: char = '\u{fffc}';

/// The blocks of prose in `text` (paragraphs, list items, headings, rows of tables), each in one line
/// with single spaces and without emphasis.
pub(super) fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block = String::new();
    let mut code = CodeTracker::new();
    for line in text.lines() {
        // Without its indentation: a nested list is prose, however deep.
        let line = line.trim();
        let is_code = Line::short(line.as_bytes()).is_some_and(|line| code.line(&line));
        let is_prose = !line.is_empty() && !is_code && !line.starts_with('>');
        if !is_prose || begins_block(line) {
            end(&mut block, &mut blocks);
        }
        if is_prose {
            block.push_str(line);
            block.push(' ');
        }
    }
    end(&mut block, &mut blocks);
    blocks
}

/// A list item, a heading or a row of a table.
fn begins_block(line: &str) -> bool {
    let after_number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with(['#', '|'])
        || ["- ", "* ", "+ ", "\u{2022} "].iter().any(|bullet| line.starts_with(bullet))
        || (after_number.len() < line.len() && after_number.starts_with(['.', ')']))
}

fn end(block: &mut String, blocks: &mut Vec<String>) {
    let text = without_code(&std::mem::take(block));
    let text = without_tags(&without_quotes(&text));
    let text: String = text.chars().filter(|c| *c != '*').collect();
    let text = text.replace(['\u{2019}', '\u{2018}'], "'");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if !text.is_empty() {
        blocks.push(text);
    }
}

/// Without `code`. A backtick that is not closed is only a backtick.
fn without_code(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    // A run that is not closed once is not closed later either; looking again would cost a square.
    let mut unclosed = Vec::new();
    while let Some(open) = rest.find('`') {
        let after = &rest[open..];
        let len = after.len() - after.trim_start_matches('`').len();
        let close = if unclosed.contains(&len) { None } else { closing(&after[len..], len) };
        kept.push_str(&rest[..open]);
        if let Some(close) = close {
            kept.push(GAP);
            rest = &after[len + close + len..];
        } else {
            unclosed.push(len);
            rest = &after[len..];
        }
    }
    kept.push_str(rest);
    kept
}

/// Where in `text` a run of exactly `len` backticks begins.
fn closing(text: &str, len: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        let run = &text[at + found..];
        let run_len = run.len() - run.trim_start_matches('`').len();
        if run_len == len {
            return Some(at + found);
        }
        at += found + run_len;
    }
    None
}

/// Without text in double quotes. A quote that is not closed hides nothing.
fn without_quotes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find(['"', '\u{201c}']) {
        let quote = rest[open..].chars().next().unwrap_or('"');
        let after = &rest[open + quote.len_utf8()..];
        let closing = if quote == '"' { '"' } else { '\u{201d}' };
        kept.push_str(&rest[..open]);
        match after.find(closing) {
            Some(close) => {
                kept.push(GAP);
                rest = &after[close + closing.len_utf8()..];
            }
            None => rest = after,
        }
        if !rest.contains(['"', '\u{201d}']) {
            break;
        }
    }
    kept.push_str(rest);
    kept
}

/// Without `<promise>…</promise>`: its words are the promise, not a word against it.
fn without_tags(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(open) = lower[at..].find("<promise>") {
        let Some(close) = lower[at + open..].find("</promise>") else { break };
        kept.push_str(&text[at..at + open]);
        kept.push(GAP);
        at += open + close + "</promise>".len();
    }
    kept.push_str(&text[at..]);
    kept
}
