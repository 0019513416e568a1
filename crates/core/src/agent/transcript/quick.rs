//! A reader for the JSON that agents print nearly always: a line without control characters, whose numbers are whole and
//! of ordinary size.
//!
//! It puts what it finds into fields that are there already, and looks at nothing else twice, so that it takes a fraction of
//! the time that `serde_json` takes. It gives up on every other line, wrong ones among them: `serde_json` reads those, and
//! says what is JSON.

use std::borrow::Cow;

use memchr::memchr2;
use serde::{Deserialize, de::IgnoredAny};

use super::lenient::{Leaf, Many, Maybe, ToolInput};

/// Values that lie deeper than this are left to `serde_json`, which has a limit of its own.
const DEEPEST: u8 = 64;

/// Digits of which every number fits.
const MOST_DIGITS: usize = 18;

/// What `line` holds, if it is as agents print it.
pub(super) fn read<'a, T: QuickValue<'a> + Default>(line: &'a [u8]) -> Option<T> {
    if has_control(line) {
        return None;
    }
    let mut reader = QuickReader { text: std::str::from_utf8(line).ok()?, at: 0, depth: 0 };
    let mut value = T::default();
    value.fill(&mut reader).ok()?;
    (reader.at == line.len()).then_some(value)
}

/// Something that this reader leaves to `serde_json`.
#[derive(Debug)]
pub(super) struct Unusual;

/// A value that is read to where it will stay.
pub(super) trait QuickValue<'de> {
    /// Reads the next value, as the type's [`Deserialize`] does. What `self` was before is its default.
    fn fill(&mut self, reader: &mut QuickReader<'de>) -> Result<(), Unusual>;
}

/// Lets an object be read quickly: its fields, as its [`Deserialize`] names them.
macro_rules! quick_fields {
    ($type:ident { $($name:literal => $field:ident),* $(,)? }) => {
        impl<'de> $crate::agent::transcript::quick::QuickValue<'de> for $type<'de> {
            fn fill(
                &mut self,
                reader: &mut $crate::agent::transcript::quick::QuickReader<'de>,
            ) -> Result<(), $crate::agent::transcript::quick::Unusual> {
                $(let mut $field = false;)*
                let mut parts = reader.object()?;
                while let Some(name) = parts.next_name(reader)? {
                    match name {
                        $($name => {
                            // A line with a field that comes twice cannot be understood.
                            if std::mem::replace(&mut $field, true) {
                                return Err($crate::agent::transcript::quick::Unusual);
                            }
                            self.$field.fill(reader)?;
                        })*
                        _ => reader.skip()?,
                    }
                }
                Ok(())
            }
        }
    };
}
pub(super) use quick_fields;

pub(super) struct QuickReader<'de> {
    text: &'de str,
    at: usize,
    depth: u8,
}

/// The parts of an object or a list, as far as they are read.
pub(super) struct QuickParts {
    closes: u8,
    is_first: bool,
}

impl QuickParts {
    /// Whether there is another part. Goes to its beginning, or behind the end.
    #[inline]
    fn next(&mut self, reader: &mut QuickReader<'_>) -> Result<bool, Unusual> {
        if reader.next()? == self.closes {
            reader.at += 1;
            reader.depth -= 1;
            return Ok(false);
        }
        if !std::mem::take(&mut self.is_first) {
            reader.take(b',')?;
        }
        Ok(true)
    }

    /// The name of the next field. Goes to its value.
    #[inline]
    pub(super) fn next_name<'de>(
        &mut self,
        reader: &mut QuickReader<'de>,
    ) -> Result<Option<&'de str>, Unusual> {
        if !self.next(reader)? {
            return Ok(None);
        }
        let Cow::Borrowed(name) = reader.text()? else { return Err(Unusual) };
        reader.take(b':')?;
        Ok(Some(name))
    }
}

impl<'de> QuickReader<'de> {
    /// The first byte of what comes next, which is not taken yet.
    #[inline]
    fn next(&mut self) -> Result<u8, Unusual> {
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b' ') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(Unusual),
            }
        }
    }

    #[inline]
    fn take(&mut self, expected: u8) -> Result<(), Unusual> {
        if self.next()? != expected {
            return Err(Unusual);
        }
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn take_word(&mut self, word: &[u8]) -> Result<(), Unusual> {
        if !self.text.as_bytes()[self.at..].starts_with(word) {
            return Err(Unusual);
        }
        self.at += word.len();
        Ok(())
    }

    pub(super) fn object(&mut self) -> Result<QuickParts, Unusual> {
        self.open(b'{', b'}')
    }

    fn open(&mut self, opens: u8, closes: u8) -> Result<QuickParts, Unusual> {
        self.take(opens)?;
        if self.depth == DEEPEST {
            return Err(Unusual);
        }
        self.depth += 1;
        Ok(QuickParts { closes, is_first: true })
    }

    /// A text with its quotes.
    #[inline]
    fn text(&mut self) -> Result<Cow<'de, str>, Unusual> {
        let (start, end, has_escape) = self.quoted()?;
        if has_escape {
            return self.parse(start, end).map(Cow::Owned);
        }
        Ok(Cow::Borrowed(&self.text[start + 1..end]))
    }

    /// Reads over the next value, and makes sure that it is one.
    pub(super) fn skip(&mut self) -> Result<(), Unusual> {
        match self.next()? {
            b'"' => {
                let (start, end, has_escape) = self.quoted()?;
                if has_escape {
                    self.parse::<IgnoredAny>(start, end)?;
                }
            }
            b'{' => {
                let mut parts = self.object()?;
                while parts.next_name(self)?.is_some() {
                    self.skip()?;
                }
            }
            b'[' => {
                let mut parts = self.open(b'[', b']')?;
                while parts.next(self)? {
                    self.skip()?;
                }
            }
            b'n' => self.take_word(b"null")?,
            b't' => self.take_word(b"true")?,
            b'f' => self.take_word(b"false")?,
            _ => {
                self.number()?;
            }
        }
        Ok(())
    }

    /// Goes behind a text: where its quotes stand, and whether something in it is escaped.
    #[inline]
    fn quoted(&mut self) -> Result<(usize, usize, bool), Unusual> {
        self.take(b'"')?;
        let (start, bytes) = (self.at - 1, self.text.as_bytes());
        let mut end = self.at + end_or_escape(&bytes[self.at..]).ok_or(Unusual)?;
        let has_escape = bytes[end] == b'\\';
        while bytes[end] == b'\\' {
            end += 2;
            end += end_or_escape(bytes.get(end..).unwrap_or_default()).ok_or(Unusual)?;
        }
        self.at = end + 1;
        Ok((start, end, has_escape))
    }

    /// What stands from `start` to `end`, both included, as `serde_json` reads it.
    fn parse<T: Deserialize<'de>>(&self, start: usize, end: usize) -> Result<T, Unusual> {
        serde_json::from_slice(&self.text.as_bytes()[start..=end]).map_err(|_| Unusual)
    }

    #[inline]
    fn number(&mut self) -> Result<i64, Unusual> {
        let bytes = &self.text.as_bytes()[self.at..];
        let (is_negative, digits) = match bytes {
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        let length = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        let is_padded = digits.starts_with(b"0") && (length > 1 || is_negative);
        let goes_on = matches!(digits.get(length), Some(b'.' | b'e' | b'E'));
        if length == 0 || length > MOST_DIGITS || is_padded || goes_on {
            return Err(Unusual);
        }
        self.at += length + usize::from(is_negative);
        let number = digits[..length].iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        Ok(if is_negative { -number } else { number })
    }
}

/// Where a text ends, or has its first escape.
#[inline]
fn end_or_escape(bytes: &[u8]) -> Option<usize> {
    const NEAR: usize = 4;
    // Names and most values are so short that a call would take longer than to look at them here, eight bytes at a time.
    let (words, _) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().take(NEAR).enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zero_bytes(word ^ all_bytes(b'"')) | zero_bytes(word ^ all_bytes(b'\\'));
        if found != 0 {
            return Some(at * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let seen = words.len().min(NEAR) * 8;
    memchr2(b'"', b'\\', &bytes[seen..]).map(|at| seen + at)
}

/// Whether a control character is among these bytes. The release build is made to be small, and looks at one byte after the other
/// unless it is told to take eight.
fn has_control(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let found = words.iter().fold(0, |found, word| {
        let word = u64::from_le_bytes(*word);
        found | (word.wrapping_sub(all_bytes(b' ')) & !word & all_bytes(0x80))
    });
    found != 0 || rest.iter().any(|byte| *byte < b' ')
}

const fn all_bytes(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// A bit for the first byte of `word` that is zero. Bits above it mean nothing.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(all_bytes(1)) & !word & all_bytes(0x80)
}

impl<'de> QuickValue<'de> for Leaf<'de> {
    #[inline]
    fn fill(&mut self, reader: &mut QuickReader<'de>) -> Result<(), Unusual> {
        *self = match reader.next()? {
            b'"' => Self::Text(reader.text()?),
            b'{' | b'[' | b'n' => return reader.skip(),
            b't' => reader.take_word(b"true").map(|()| Self::Truth(true))?,
            b'f' => reader.take_word(b"false").map(|()| Self::Truth(false))?,
            _ => Self::Whole(reader.number()?),
        };
        Ok(())
    }
}

impl<'de, T: QuickValue<'de> + Default> QuickValue<'de> for Maybe<T> {
    #[inline]
    fn fill(&mut self, reader: &mut QuickReader<'de>) -> Result<(), Unusual> {
        match reader.next()? {
            b'{' => self.0.insert(T::default()).fill(reader),
            _ => reader.skip(),
        }
    }
}

impl<'de, T: QuickValue<'de> + Default> QuickValue<'de> for Many<T> {
    fn fill(&mut self, reader: &mut QuickReader<'de>) -> Result<(), Unusual> {
        if reader.next()? != b'[' {
            return reader.skip();
        }
        let mut parts = reader.open(b'[', b']')?;
        while parts.next(reader)? {
            self.0.push(T::default());
            self.0.last_mut().map_or(Ok(()), |part| part.fill(reader))?;
        }
        Ok(())
    }
}

impl QuickValue<'_> for ToolInput {
    fn fill(&mut self, reader: &mut QuickReader<'_>) -> Result<(), Unusual> {
        reader.next()?;
        let start = reader.at;
        reader.skip()?;
        *self = reader.parse(start, reader.at - 1)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_control_character_is_found_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            for at in 0..20 {
                let mut text = [b'\x7f'; 20];
                text[at] = byte;
                assert_eq!(has_control(&text), byte < b' ', "{byte} at {at}");
            }
        }
    }

    /// Every kind of field that a line has.
    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, bound(deserialize = "'de: 'a"))]
    struct Sample<'a> {
        a: Leaf<'a>,
        #[serde(rename = "type")]
        kind: Leaf<'a>,
        list: Many<Maybe<Part<'a>>>,
        part: Maybe<Part<'a>>,
        input: ToolInput,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, bound(deserialize = "'de: 'a"))]
    struct Part<'a> {
        a: Leaf<'a>,
        list: Many<Leaf<'a>>,
    }

    quick_fields!(Sample { "a" => a, "type" => kind, "list" => list, "part" => part, "input" => input });
    quick_fields!(Part { "a" => a, "list" => list });

    /// Whether `line` is read quickly, after a look whether `serde_json` reads the same.
    fn is_read(line: &[u8]) -> bool {
        let quick = read::<Sample<'_>>(line);
        if let Some(sample) = &quick {
            let slow: Sample<'_> = serde_json::from_slice(line)
                .unwrap_or_else(|error| panic!("{}: {error}", String::from_utf8_lossy(line)));
            assert_eq!(*sample, slow, "{}", String::from_utf8_lossy(line));
        }
        quick.is_some()
    }

    #[test]
    fn ordinary_lines_are_read() {
        for line in [
            r#"{"type":"assistant","part":{"a":"a \"b\"\nc\\ ä \u00e4 \ud83d\ude00"},"list":[{"a":1},{"list":["x"]}]}"#,
            r#"{"a":0,"type":-17,"list":[123456789012345678,true],"part":false,"input":{"command":"ls \"x\"","n":[1]}}"#,
            r#"{"a":null,"part":[],"list":{"a":1},"input":"text"}"#,
            r#"{ "list" : [ 1 , 2 ] , "part" : { } }"#,
            r#"{"other":{"deep":[{"x":"\ud800","y":[null,{}]}]},"a":"a text that is longer than a few words of eight bytes"}"#,
            "{}",
        ] {
            assert!(is_read(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn what_is_unusual_or_wrong_is_left_to_the_other_reader() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        for line in [
            "",
            " ",
            "{",
            "}",
            "[]",
            "1",
            "{\"a\":1,}",
            "{,\"a\":1}",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "{\"a\":[1 2]}",
            "{\"a\":[1}",
            "{\"a\":nul}",
            "{\"a\":01}",
            "{\"a\":-}",
            "{\"a\":-0}",
            "{\"a\":1.5}",
            "{\"a\":1e3}",
            "{\"a\":1234567890123456789}",
            "{\"a\":\"b",
            "{\"a\":\"\\",
            "{\"a\":\"\\x\"}",
            "{\"b\":\"\\x\"}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":\"b\tc\"}",
            "{\"a\":\t1}",
            "{} ",
            "{}}",
            "{\"a\":1,\"a\":1}",
            "{\"a\":null,\"a\":1}",
            "{\"\\u0061\":1}",
            &deep,
        ] {
            assert!(!is_read(line.as_bytes()), "{line}");
        }
        assert!(!is_read(b"{\"b\":\"\xff\"}"));
    }

    fn value() -> impl Strategy<Value = Value> {
        let name =
            prop::sample::select(vec!["a", "type", "list", "part", "input", "command", "b", "\n", "ä"]);
        let text = prop_oneof!["[ -~äß€😀]{0,40}", "\\PC{0,20}", "[\"\\\\\n\t/u{}\\[\\],:]{0,12}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1000_i64..1000).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        let object = move |inner: BoxedStrategy<Value>| {
            let name = name.clone().prop_map(str::to_owned);
            prop::collection::vec((name, inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect()))
        };
        let inner = leaf.prop_recursive(4, 64, 6, {
            let object = object.clone();
            move |inner| {
                prop_oneof![
                    prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                    object(inner.boxed())
                ]
            }
        });
        object(inner.boxed())
    }

    proptest! {
        #[test]
        fn both_readers_read_the_same(value in value(), spaced in any::<bool>()) {
            let line = serde_json::to_string(&value).unwrap();
            // Between the parts of a value, and in texts too.
            let line = if spaced { line.replace(',', " , ").replace(':', ": ") } else { line };
            is_read(line.as_bytes());
        }

        #[test]
        fn a_damaged_line_is_read_as_the_other_reader_does(
            value in value(),
            at in any::<prop::sample::Index>(),
            byte in prop_oneof![any::<u8>(), prop::sample::select(&b"\"\\{}[],:0-.e "[..])],
            kind in 0..3,
        ) {
            let mut line = serde_json::to_vec(&value).unwrap();
            let at = at.index(line.len());
            match kind {
                0 => line[at] = byte,
                1 => line.insert(at, byte),
                _ => line.truncate(at),
            }
            is_read(&line);
        }
    }
}
