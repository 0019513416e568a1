//! Which lines of a Markdown text are code.

use super::line::Line;

/// Follows fences and indented blocks from line to line.
#[derive(Debug)]
pub(in crate::judge) struct CodeTracker {
    fence: Option<Fence>,
    /// An indented line here would be code: the line before is blank, missing or indented code.
    /// Anywhere else it continues a paragraph.
    block_start: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Fence {
    mark: u8,
    len: u64,
}

impl CodeTracker {
    pub(in crate::judge) fn new() -> Self {
        Self { fence: None, block_start: true }
    }

    /// Whether a fence is open.
    pub(in crate::judge) fn is_fenced(&self) -> bool {
        self.fence.is_some()
    }

    pub(in crate::judge) fn blank(&mut self) {
        self.block_start = true;
    }

    /// Whether `line`, the next one, is code. The lines that open and close a fence are.
    pub(in crate::judge) fn line(&mut self, line: &Line<'_>) -> bool {
        let run = fence_run(line.text.head);
        if let Some(open) = self.fence {
            let closes =
                |run: Fence| run.mark == open.mark && run.len >= open.len && run.len == line.text.len;
            if run.is_some_and(closes) {
                self.fence = None;
                self.block_start = false;
            }
            return true;
        }
        let run = run.or_else(|| fence_run(after_list_marker(line.text.head)));
        // Further backticks make it code within the line, as in "```x```": it would never be closed.
        if let Some(run) = run
            && (run.mark == b'~' || line.backticks() == run.len)
        {
            self.fence = Some(run);
            return true;
        }
        self.block_start &= line.indented;
        self.block_start
    }
}

fn fence_run(text: &[u8]) -> Option<Fence> {
    let mark = *text.first().filter(|&&byte| byte == b'`' || byte == b'~')?;
    let len = text.iter().take_while(|&&byte| byte == mark).count() as u64;
    (len >= 3).then_some(Fence { mark, len })
}

/// What a list item says: a fence may open right behind its marker, and closes on a line of its own.
fn after_list_marker(text: &[u8]) -> &[u8] {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let marker = match text.get(digits) {
        Some(b'-' | b'*' | b'+') if digits == 0 => 1,
        Some(b'.' | b')') if digits > 0 => digits + 1,
        _ => return b"",
    };
    let item = &text[marker..];
    let spaces = item.iter().take_while(|byte| **byte == b' ').count();
    if spaces == 0 { b"" } else { &item[spaces..] }
}
