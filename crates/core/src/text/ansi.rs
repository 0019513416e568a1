//! Removing terminal escape sequences from a stream of bytes.

const BEL: u8 = 0x07;
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;
const ESC: u8 = 0x1b;

/// Removes escape sequences, also those that arrive in several chunks.
///
/// Removed are CSI, OSC, DCS, SOS, PM and APC sequences and the shorter escapes. The eight-bit forms
/// are left alone: in UTF-8 their bytes are parts of letters. All it remembers is where in a
/// sequence it is, so a sequence without an end costs no memory.
///
/// The libraries that do this were tried: they lose what follows an OSC that was cut off, and they look at each byte where
/// this one jumps from escape to escape (`docs/design/0014-libraries.md` has the figures).
#[derive(Clone, Debug, Default)]
pub struct AnsiStripper {
    state: AnsiState,
}

#[derive(Clone, Copy, Debug, Default)]
enum AnsiState {
    #[default]
    Text,
    Escape,
    /// After ESC and at least one intermediate byte, as in `ESC ( B`.
    Intermediate,
    Csi,
    /// In an OSC; BEL ends it too, and so does a line feed: no OSC holds one, so it was cut off.
    Osc,
    /// In a DCS, SOS, PM or APC string.
    ControlString,
}

/// What to do with a byte met inside a sequence.
enum Next {
    /// It belongs to the sequence.
    Swallow(AnsiState),
    /// It does not belong to any: the sequence is over, read the byte as text.
    Reread,
}

impl AnsiStripper {
    /// A stripper at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next run of text off the front of `input`, or `None` when `input` is used up.
    pub fn next_run<'a>(&mut self, input: &mut &'a [u8]) -> Option<&'a [u8]> {
        loop {
            if let AnsiState::Text = self.state {
                if input.is_empty() {
                    return None;
                }
                let Some(escape) = memchr::memchr(ESC, input) else {
                    return Some(std::mem::take(input));
                };
                let (run, rest) = input.split_at(escape);
                *input = &rest[1..];
                self.state = AnsiState::Escape;
                if !run.is_empty() {
                    return Some(run);
                }
            }
            let (&byte, rest) = input.split_first()?;
            match next(self.state, byte) {
                Next::Swallow(state) => {
                    self.state = state;
                    *input = rest;
                }
                Next::Reread => self.state = AnsiState::Text,
            }
        }
    }

    /// Appends the text of `input` to `text`.
    pub fn strip(&mut self, mut input: &[u8], text: &mut Vec<u8>) {
        while let Some(run) = self.next_run(&mut input) {
            text.extend_from_slice(run);
        }
    }
}

fn next(state: AnsiState, byte: u8) -> Next {
    use Next::{Reread, Swallow};
    match (state, byte) {
        (AnsiState::Text, _) => Reread,
        (_, ESC) => Swallow(AnsiState::Escape),
        (_, CANCEL | SUBSTITUTE) => Swallow(AnsiState::Text),

        (AnsiState::Escape, b'[') => Swallow(AnsiState::Csi),
        (AnsiState::Escape, b']') => Swallow(AnsiState::Osc),
        (AnsiState::Escape, b'P' | b'X' | b'^' | b'_') => Swallow(AnsiState::ControlString),
        (AnsiState::Escape | AnsiState::Intermediate, 0x20..=0x2f) => Swallow(AnsiState::Intermediate),
        (AnsiState::Escape | AnsiState::Intermediate, 0x30..=0x7e) => Swallow(AnsiState::Text),

        (AnsiState::Csi, 0x20..=0x3f) => Swallow(AnsiState::Csi),
        (AnsiState::Csi, 0x40..=0x7e) => Swallow(AnsiState::Text),

        (AnsiState::Osc, BEL) => Swallow(AnsiState::Text),
        (AnsiState::Osc, b'\n') => Reread,
        (AnsiState::Osc, _) => Swallow(AnsiState::Osc),
        (AnsiState::ControlString, _) => Swallow(AnsiState::ControlString),

        // A control byte or a letter beyond ASCII: the sequence was cut off.
        (AnsiState::Escape | AnsiState::Intermediate | AnsiState::Csi, _) => Reread,
    }
}

/// `bytes` as text to show: without escape sequences, without control characters other than `\n` and
/// `\t`, and with a replacement character for bytes that are not UTF-8.
#[must_use]
pub fn readable(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len());
    AnsiStripper::new().strip(bytes, &mut text);
    let mut text = String::from_utf8_lossy(&text).into_owned();
    text.retain(|c| !c.is_control() || c == '\n' || c == '\t');
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn strip(chunks: &[&[u8]]) -> Vec<u8> {
        let mut stripper = AnsiStripper::new();
        let mut text = Vec::new();
        for chunk in chunks {
            stripper.strip(chunk, &mut text);
        }
        text
    }

    const CASES: &[(&str, &str)] = &[
        ("plain", "plain"),
        ("", ""),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[?25lhidden\x1b[?25h", "hidden"),
        ("\x1b[38:2::1:2:3mrgb\x1b[ q", "rgb"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0;2\x07\n~~\x1b\\after", "after"),
        ("\x1b^pm\x1b\\a\x1b_apc\x1b\\b\x1bXsos\x1b\\c", "abc"),
        ("\x1b7a\x1b8\x1bcb\x1b=", "ab"),
        ("\x1b(Ba\x1b#8b\x1b%Gc", "abc"),
        ("\x1b\x1b[1mx", "x"),
        // Cut-off sequences give back what cannot be theirs.
        ("\x1b[31\nnext", "\nnext"),
        ("\x1b]0;title\nnext", "\nnext"),
        ("\x1b\nnext", "\nnext"),
        ("\x1b[1é", "é"),
        ("\x1b[12\x18x\x1b]0;t\x1ay", "xy"),
        ("\x1b]0;t\x1b[1mx", "x"),
        ("x\x1b", "x"),
        ("x\x1b[", "x"),
        ("x\x1b]never ended", "x"),
        ("x\x1bPnever\nended", "x"),
    ];

    // fault D4: a sequence may arrive in two chunks.
    #[test]
    fn sequences_are_removed_wherever_the_chunks_are_cut() {
        for (input, text) in CASES {
            let input = input.as_bytes();
            for cut in 0..=input.len() {
                let (left, right) = input.split_at(cut);
                let stripped = strip(&[left, right]);
                assert_eq!(stripped, text.as_bytes(), "{input:?} cut at {cut}");
            }
            let bytes: Vec<&[u8]> = input.chunks(1).collect();
            assert_eq!(strip(&bytes), text.as_bytes(), "{input:?} byte by byte");
        }
    }

    #[test]
    fn readable_keeps_text_line_feeds_and_tabs() {
        for (input, text) in [
            (&b"a\tb\nc"[..], "a\tb\nc"),
            (b"a\r\nb\x00\x08\x7f", "a\nb"),
            (b"\x1b[1mbold\x1b[0m", "bold"),
            (b"caf\xc3\xa9 \xff", "caf\u{e9} \u{fffd}"),
            (b"c1 \xc2\x9b31m", "c1 31m"),
            (b"\xe2\x82", "\u{fffd}"),
        ] {
            assert_eq!(readable(input), text, "{input:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_chunks_give_one_text(
            chunks in prop::collection::vec(prop::collection::vec(
                prop_oneof![Just(ESC), Just(b'['), Just(b']'), Just(BEL), Just(b'\\'), any::<u8>()],
                0..12,
            ), 0..12),
        ) {
            let whole = chunks.concat();
            let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(strip(&chunks), strip(&[&whole]));
            let _ = readable(&whole);
        }
    }
}
