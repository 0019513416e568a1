//! The keys of `dacapo attach`: bytes of a terminal become requests.

use std::io::Read;

use crate::report::screen::Coloured;

const HELP: [&str; 7] = [
    "  p  pause after this iteration, or go on",
    "  s  steer: type a line for the next prompt, Enter sends it",
    "  l  show what the agent prints, or no longer",
    "  c  cancel for good; asks first",
    "  d  detach: it goes on, `dacapo attach` comes back (Ctrl-C does the same)",
    "  ?  this list, or no longer",
    "  Ctrl-Z stops only the view",
];

/// What came from the terminal at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPress(Vec<u8>);

/// What the user asks for by a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyAction {
    Pause,
    Steer(String),
    Cancel,
    Detach,
    Suspend,
    Log,
}

/// What the next key means.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Keyboard {
    #[default]
    Commands,
    /// A line for the agent is being typed.
    Steering(Vec<u8>),
    /// Whether to cancel was asked.
    Cancelling,
    /// The list of keys is shown; the next key works as ever, and hides it.
    Helping,
}

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const BACKSPACE: u8 = 8;
const CTRL_U: u8 = 21;
const CTRL_Z: u8 = 26;
const ESCAPE: u8 = 27;
const DELETE: u8 = 127;

impl Keyboard {
    /// What the user asks for, in order: keys that are typed quickly come at once.
    pub(super) fn press(&mut self, KeyPress(bytes): &KeyPress) -> Vec<KeyAction> {
        // Arrows and their like come as one sequence, of which no part is a key.
        if bytes.first() == Some(&ESCAPE) && bytes.len() > 1 {
            return Vec::new();
        }
        let mut asked = Vec::new();
        for byte in bytes {
            asked.extend(self.press_one(*byte));
            // What follows the end of a line is the next line of a text that the user pasted, and no key.
            if matches!(asked.last(), Some(KeyAction::Steer(_))) {
                break;
            }
        }
        asked
    }

    fn press_one(&mut self, byte: u8) -> Option<KeyAction> {
        match (std::mem::take(self), byte) {
            (Self::Steering(typed), b'\r' | b'\n') => {
                let text = String::from_utf8_lossy(&typed).trim().to_owned();
                (!text.is_empty()).then_some(KeyAction::Steer(text))
            }
            (Self::Steering(_) | Self::Cancelling, ESCAPE | CTRL_C) => None,
            (Self::Steering(mut typed), byte) => {
                match byte {
                    BACKSPACE | DELETE => {
                        // A character has one byte that begins it, and the others go on.
                        while typed.pop().is_some_and(|last| last & 0xc0 == 0x80) {}
                    }
                    CTRL_U => typed.clear(),
                    0..32 => {}
                    byte => typed.push(byte),
                }
                *self = Self::Steering(typed);
                None
            }
            (Self::Cancelling, b'y' | b'Y') => Some(KeyAction::Cancel),
            (Self::Cancelling, _) => None,
            (Self::Commands, b'p') => Some(KeyAction::Pause),
            (Self::Commands, b's') => {
                *self = Self::Steering(Vec::new());
                None
            }
            (Self::Commands, b'c') => {
                *self = Self::Cancelling;
                None
            }
            (Self::Commands, b'd' | b'q' | CTRL_C | CTRL_D) => Some(KeyAction::Detach),
            (Self::Commands, b'l') => Some(KeyAction::Log),
            (Self::Commands, b'?' | b'h') => {
                *self = Self::Helping;
                None
            }
            (Self::Helping, b'?' | b'h') => None,
            (Self::Helping, byte) => self.press_one(byte),
            (Self::Commands, CTRL_Z) => Some(KeyAction::Suspend),
            (Self::Commands, _) => None,
        }
    }

    /// What stands below everything else.
    pub(super) fn footer(&self) -> Vec<Coloured> {
        vec![match self {
            Self::Commands => ("2", "p pause · s steer · l log · d detach · c cancel · ? help".to_owned()),
            Self::Helping => return HELP.iter().map(|line| ("2", (*line).to_owned())).collect(),
            Self::Steering(typed) => ("", format!("steer: {}▏", tail(&String::from_utf8_lossy(typed)))),
            Self::Cancelling => ("33", "Cancel it for good? y cancels, any other key does not".to_owned()),
        }]
    }
}

/// As much of the end of what is typed as can be seen.
fn tail(text: &str) -> String {
    let room = crate::report::width().saturating_sub(10).max(4);
    let count = text.chars().count();
    text.chars().skip(count.saturating_sub(room)).collect()
}

/// Reads keys while the process lives.
pub(super) struct KeyReader;

impl KeyReader {
    /// `take` says whether more keys are wanted.
    pub(super) fn start(take: impl Fn(KeyPress) -> bool + Send + 'static) {
        std::thread::spawn(move || {
            let mut buffer = [0; 256];
            while let Ok(read @ 1..) = std::io::stdin().lock().read(&mut buffer) {
                if !take(KeyPress(buffer[..read].to_vec())) {
                    return;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ask_for_things_and_lines_are_typed() {
        use KeyAction::{Cancel, Detach, Log, Pause, Steer, Suspend};
        for (typed, asked) in [
            ("p", vec![Pause]),
            ("\n", vec![]),
            ("\r", vec![]),
            ("x", vec![]),
            ("\u{1b}[A", vec![]),
            ("d", vec![Detach]),
            ("q", vec![Detach]),
            ("\u{3}", vec![Detach]),
            ("\u{1a}", vec![Suspend]),
            ("l??", vec![Log]),
            ("?p", vec![Pause]),
            ("?cy", vec![Cancel]),
            ("cy", vec![Cancel]),
            ("cn", vec![]),
            ("c\u{3}p", vec![Pause]),
            ("c\rp", vec![Pause]),
            ("suse pnpm\r", vec![Steer("use pnpm".to_owned())]),
            ("sab\u{7f}c\n", vec![Steer("ac".to_owned())]),
            ("sé\u{7f}ü\n", vec![Steer("ü".to_owned())]),
            ("sold\u{15}new\n", vec![Steer("new".to_owned())]),
            ("s  \n", vec![]),
            ("shalf\u{1b}p", vec![Pause]),
        ] {
            let mut keyboard = Keyboard::default();
            let keys: Vec<KeyPress> = match typed.starts_with('\u{1b}') {
                true => vec![KeyPress(typed.into())],
                false => typed.bytes().map(|byte| KeyPress(vec![byte])).collect(),
            };
            let heard: Vec<KeyAction> = keys.iter().flat_map(|key| keyboard.press(key)).collect();
            assert_eq!((heard, keyboard), (asked, Keyboard::Commands), "{typed:?}");
        }
    }

    #[test]
    fn keys_that_come_at_once_all_count_and_a_pasted_text_holds_none() {
        use KeyAction::{Detach, Log, Pause, Steer};
        for (typed, asked) in [
            ("lp", vec![Log, Pause]),
            ("pld", vec![Pause, Log, Detach]),
            ("suse pnpm\rcy", vec![Steer("use pnpm".to_owned())]),
            ("lsone\ntwo\n", vec![Log, Steer("one".to_owned())]),
        ] {
            let heard = Keyboard::default().press(&KeyPress(typed.into()));
            assert_eq!(heard, asked, "{typed:?}");
        }
    }
}
