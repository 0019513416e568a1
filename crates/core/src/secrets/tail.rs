//! The rest of a secret whose beginning was recognised: it is swallowed byte by byte, however long it is.

use super::place::Letters;

/// How much of a private key is swallowed when its last line never comes.
const LONGEST_KEY: u16 = 16 * 1024;
/// How far apart the lines of a key may be, including what a tool prints before each line.
const WIDEST_GAP: u16 = 200;
/// A run of base64 that is a line of a key.
const LINE: u16 = 20;

/// How a secret may go on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Tail {
    #[default]
    None,
    Letters(Letters),
    /// To the last line of a private key.
    Key,
}

/// The ways in which what is being swallowed may go on.
#[derive(Clone, Debug, Default)]
pub(super) struct Tails {
    /// A bit for each kind of [`Letters`].
    letters: u8,
    key: Option<PrivateKeyTail>,
}

impl Tails {
    pub(super) fn is_over(&self) -> bool {
        self.letters == 0 && self.key.is_none()
    }

    pub(super) fn add(&mut self, tail: Tail) {
        match tail {
            Tail::None => {}
            Tail::Letters(letters) => self.letters |= 1 << letters as u8,
            Tail::Key => {
                self.key.get_or_insert_default();
            }
        }
    }

    pub(super) fn add_all(&mut self, other: Self) {
        self.letters |= other.letters;
        if let Some(key) = other.key {
            self.key.get_or_insert(key);
        }
    }

    /// Whether `byte` belongs to it.
    pub(super) fn takes(&mut self, byte: u8) -> bool {
        if self.letters != 0 {
            for letters in Letters::ALL {
                if !letters.has(byte) {
                    self.letters &= !(1 << letters as u8);
                }
            }
        }
        if self.key.as_mut().is_some_and(|key| !key.takes(byte)) {
            self.key = None;
        }
        !self.is_over()
    }
}

/// What follows the first line of a private key.
#[derive(Clone, Debug, Default)]
struct PrivateKeyTail {
    taken: u16,
    /// The base64 just before.
    run: u16,
    /// Bytes since the last line of the key.
    gap: u16,
    dashes: u8,
    /// How many rules of dashes there were: one before `END`, one behind.
    rules: u8,
}

impl PrivateKeyTail {
    fn takes(&mut self, byte: u8) -> bool {
        // A string in JSON ends with its quote, whether or not the key in it did.
        if byte == b'"' || self.rules == 2 || self.taken == LONGEST_KEY || self.gap > WIDEST_GAP {
            return false;
        }
        self.taken += 1;
        self.run = if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=') {
            self.run.saturating_add(1)
        } else {
            0
        };
        self.gap = if self.run >= LINE { 0 } else { self.gap + 1 };
        self.dashes = if byte == b'-' { self.dashes.saturating_add(1) } else { 0 };
        self.rules += u8::from(self.dashes == 5);
        true
    }
}
