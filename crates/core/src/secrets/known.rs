//! Secrets that are known by value: which variables hold one, and the forms in which it can turn up.

use crate::agent::is_provider_key;

/// Shorter ones would be found in ordinary words.
const SHORTEST: usize = 8;
/// As much of a value as is searched for in one piece: what a redactor holds back is no more.
const PIECE: usize = 1024;

/// Whether a variable with this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    const ENDINGS: [&str; 16] = [
        "TOKEN",
        "API_KEY",
        "APIKEY",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "ACCESS_KEY",
        "ACCESS_KEY_ID",
        "SECRET_KEY",
        "PRIVATE_KEY",
        "SIGNING_KEY",
        "ENCRYPTION_KEY",
        "CREDENTIALS",
        "CREDENTIAL",
        "_PAT",
    ];
    let name = name.to_ascii_uppercase();
    is_provider_key(&name) || ENDINGS.iter().any(|end| name.ends_with(end))
}

/// Whether a variable holds a secret, by its name and what it holds.
pub(super) fn is_secret(name: &str, value: &[u8]) -> bool {
    // A one-way street: what is called a key by a provider's name is one, unless it cannot be.
    is_secret_name(name) && is_fit(value) && (is_provider_key(name) || !is_word(value))
}

/// Whether a variable holds a key, and not a password or a word that may stand in a file for another reason: a provider's key, or
/// a long value with letters and digits.
pub(super) fn is_key_beyond_doubt(name: &str, value: &[u8]) -> bool {
    let value = value.trim_ascii();
    let is_long = value.len() >= 20
        && value.iter().any(u8::is_ascii_digit)
        && value.iter().any(u8::is_ascii_alphabetic)
        && value.iter().all(u8::is_ascii_graphic);
    is_secret(name, value) && (is_provider_key(name) || is_long)
}

/// Whether a value can be searched for without finding it in ordinary text.
fn is_fit(value: &[u8]) -> bool {
    const WORDS: [&str; 8] =
        ["disabled", "required", "optional", "password", "changeme", "changeit", "undefined", "anonymous"];
    let value = value.trim_ascii();
    let mut kinds = [false; 256];
    value.iter().for_each(|byte| kinds[usize::from(*byte)] = true);
    value.len() >= SHORTEST
        // `xxxxxxxx`, `********`.
        && kinds.iter().filter(|is_there| **is_there).count() >= 4
        && !value.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b':'))
        && !WORDS.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
        && !is_path(value)
}

/// A file's path: a key that begins with `/` by chance has capital letters and digits all over.
fn is_path(value: &[u8]) -> bool {
    let begins =
        [b"/".as_slice(), b"~/", b"./", b"../", b"file:"].iter().any(|begin| value.starts_with(begin));
    let capitals = value.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_base64 = value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte));
    begins && !(is_base64 && capitals >= 4 && (digits >= 1 || capitals >= 8))
}

/// A short word in one case: `postgres`, `localhost`.
fn is_word(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    value.len() < 16 && (value.iter().all(u8::is_ascii_lowercase) || value.iter().all(u8::is_ascii_uppercase))
}

/// The parts of a value that are searched for: of one with several lines, those that are keys and not words.
pub(super) fn pieces(value: &[u8]) -> Vec<&[u8]> {
    let value = value.trim_ascii();
    let is_long = value.contains(&b'\n');
    let is_key = |line: &&[u8]| {
        !is_long
            || (line.len() >= 16
                && line.iter().all(|byte| byte.is_ascii_graphic())
                && line.iter().any(u8::is_ascii_digit)
                && line.iter().any(u8::is_ascii_alphabetic))
    };
    value
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(is_key)
        .flat_map(|line| line.chunks(PIECE))
        .filter(|piece| piece.len() >= SHORTEST)
        .collect()
}

/// A value as it can turn up, and whether it may go on in base64.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SecretForm {
    pub(super) bytes: Vec<u8>,
    pub(super) is_base64: bool,
}

/// The forms of one value: itself, in JSON, in JSON within JSON, in an address, in base64 at each of the three places
/// it can have there.
pub(super) fn forms(value: &[u8]) -> Vec<SecretForm> {
    let json = in_json(value);
    let plain = [value.to_vec(), in_json(&json), json, in_address(value, false), in_address(value, true)];
    let base64 = (0..3).flat_map(|shift| [in_base64(value, shift, b"+/"), in_base64(value, shift, b"-_")]);
    let mut forms: Vec<SecretForm> =
        plain.into_iter().map(|bytes| SecretForm { bytes, is_base64: false }).collect();
    forms.extend(
        base64.filter(|bytes| bytes.len() >= SHORTEST).map(|bytes| SecretForm { bytes, is_base64: true }),
    );
    forms.sort_unstable();
    forms.dedup();
    forms
}

fn in_json(value: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(value.len());
    for byte in value {
        match byte {
            b'"' | b'\\' => escaped.extend([b'\\', *byte]),
            b'\t' => escaped.extend(b"\\t"),
            0..0x20 => escaped.extend(format!("\\u{byte:04x}").bytes()),
            _ => escaped.push(*byte),
        }
    }
    escaped
}

fn in_address(value: &[u8], is_lowercase: bool) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(value.len());
    for byte in value {
        match byte {
            b'-' | b'.' | b'_' | b'~' => encoded.push(*byte),
            byte if byte.is_ascii_alphanumeric() => encoded.push(*byte),
            byte if is_lowercase => encoded.extend(format!("%{byte:02x}").bytes()),
            byte => encoded.extend(format!("%{byte:02X}").bytes()),
        }
    }
    encoded
}

/// The letters that stand for `value` alone when `shift` bytes stand before it.
fn in_base64(value: &[u8], shift: usize, last: &[u8; 2]) -> Vec<u8> {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let bits = |at: usize| -> Option<u8> {
        // The bit `at` of `shift` unknown bytes and then the value.
        let byte = value.get((at / 8).checked_sub(shift)?)?;
        Some(byte >> (7 - at % 8) & 1)
    };
    (0..)
        .map(|letter| letter * 6)
        .skip_while(|at| at / 8 < shift)
        .map_while(|at| (at..at + 6).try_fold(0, |sum: u8, bit| Some(sum << 1 | bits(bit)?)))
        .map(|index| match index {
            62 => last[0],
            63 => last[1],
            index => LETTERS[usize::from(index)],
        })
        .collect()
}
