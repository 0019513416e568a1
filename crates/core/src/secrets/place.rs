//! A place in a stream where a secret could begin, as a rule sees it.

use super::tail::Tail;

/// Longer than any run of letters that has to be seen before it is judged.
pub(super) const LONGEST_RUN: usize = 1024;

/// A place and what is known of its surroundings.
pub(super) struct ScanPlace<'a> {
    pub(super) bytes: &'a [u8],
    /// The three bytes before it, the nearest last; zeros before the beginning.
    pub(super) before: [u8; 3],
    /// Whether nothing follows `bytes`.
    pub(super) is_end: bool,
}

/// What a rule says about a place.
#[derive(Debug, PartialEq)]
pub(super) enum RuleAnswer {
    No,
    /// That depends on what follows.
    More,
    Found(SecretSpan),
}

/// Where a secret is, counted from its place.
#[derive(Debug, PartialEq)]
pub(super) struct SecretSpan {
    /// Where it begins: a name in front of it stays.
    pub(super) from: usize,
    /// How far it is certain.
    pub(super) to: usize,
    /// How it may go on.
    pub(super) tail: Tail,
}

/// Letters of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Letters {
    Alnum,
    Capital,
    /// As [`Letters::Alnum`], and `_`.
    Word,
    /// As [`Letters::Word`], and `-`.
    Token,
    /// As [`Letters::Token`], and the dots between the parts.
    Dotted,
    /// What may stand in a header behind the scheme.
    Header,
    /// Base64, its padding, and its variant for addresses.
    Base64,
}

impl Letters {
    pub(super) const ALL: [Self; 7] =
        [Self::Alnum, Self::Capital, Self::Word, Self::Token, Self::Dotted, Self::Header, Self::Base64];

    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Capital => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Self::Token => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Self::Header => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'~' | b'+' | b'/' | b'=')
            }
            Self::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'_' | b'-'),
        }
    }
}

/// The end of what is known: only [`RuleAnswer::More`] can be said.
pub(super) struct End;

impl ScanPlace<'_> {
    /// The byte `at` bytes on.
    pub(super) fn get(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    /// The byte `at` bytes on; the end of the text and the end of what is known so far are told apart.
    pub(super) fn see(&self, at: usize) -> Result<Option<u8>, End> {
        match self.get(at) {
            None if !self.is_end => Err(End),
            byte => Ok(byte),
        }
    }

    /// Whether `text` stands `at` bytes on; [`End`] only where it may yet.
    pub(super) fn has(&self, at: usize, text: &[u8]) -> Result<bool, End> {
        let there = self.bytes.get(at..).unwrap_or_default();
        if there.len() >= text.len() || self.is_end {
            return Ok(there.starts_with(text));
        }
        if text.starts_with(there) { Err(End) } else { Ok(false) }
    }

    /// How many `letters` stand from `at` on, counted no further than `most`.
    pub(super) fn run(&self, at: usize, letters: Letters, most: usize) -> Result<usize, End> {
        let there = self.bytes.get(at..).unwrap_or_default();
        let run = there.iter().take(most).take_while(|byte| letters.has(**byte)).count();
        if run == there.len() && run < most && !self.is_end { Err(End) } else { Ok(run) }
    }

    /// Whether a word begins here: behind a letter of no word, or behind the last letter of an escape (`\n`, a colour,
    /// `%3D`, `\u003d`).
    pub(super) fn is_word_start(&self) -> bool {
        let [c, b, a] = self.before;
        !Letters::Token.has(a)
            || (b == b'\\' && a.is_ascii_lowercase())
            || (a == b'm' && (b == b'[' || b.is_ascii_digit()))
            || (c == b'%' && b.is_ascii_hexdigit() && a.is_ascii_hexdigit())
            || (c == b'0' && b.is_ascii_digit() && a.is_ascii_hexdigit())
    }
}
