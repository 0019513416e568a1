//! Fields of an event whose type another version may have changed: what does not fit is as if it were not there.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};

/// A value without parts.
#[derive(Debug, Default, PartialEq)]
pub(super) enum Leaf<'a> {
    /// Absent, null, or a value with parts.
    #[default]
    Nothing,
    Text(Cow<'a, str>),
    Whole(i64),
    Real(f64),
    Truth(bool),
}

impl Leaf<'_> {
    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The text, or an empty one.
    pub(super) fn words(&self) -> &str {
        self.text().unwrap_or_default()
    }

    pub(super) fn is(&self, word: &str) -> bool {
        self.text() == Some(word)
    }

    pub(super) fn truth(&self) -> Option<bool> {
        if let Self::Truth(truth) = self { Some(*truth) } else { None }
    }

    pub(super) fn whole(&self) -> Option<i64> {
        match self {
            Self::Whole(number) => Some(*number),
            Self::Real(number) if number.is_finite() => Some(*number as i64),
            Self::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// A count, or none.
    pub(super) fn count(&self) -> u64 {
        self.whole().and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    }

    pub(super) fn real(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Real(number) if number.is_finite() => Some(*number),
            _ => None,
        }
    }

    /// A status of HTTP.
    pub(super) fn status(&self) -> Option<u16> {
        self.whole()
            .and_then(|number| u16::try_from(number).ok())
            .filter(|status| (100..600).contains(status))
    }
}

/// What a visitor answers to values it has no use for.
macro_rules! ignoring {
    ($($method:ident: $value:ty),*; else $nothing:expr) => {
        $(fn $method<E: Error>(self, _: $value) -> Result<Self::Value, E> {
            Ok($nothing)
        })*
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok($nothing)
        }
    };
}

/// Reads over the parts of a value.
macro_rules! skipping {
    (seq else $nothing:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
            while parts.next_element::<IgnoredAny>()?.is_some() {}
            Ok($nothing)
        }
    };
    (map else $nothing:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
            while parts.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($nothing)
        }
    };
}

impl<'de: 'a, 'a> Deserialize<'de> for Leaf<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LeafVisitor;
        impl<'de> Visitor<'de> for LeafVisitor {
            type Value = Leaf<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Leaf::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Leaf::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_bool<E: Error>(self, truth: bool) -> Result<Self::Value, E> {
                Ok(Leaf::Truth(truth))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Leaf::Whole(number))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
                Ok(i64::try_from(number).map_or(Leaf::Real(number as f64), Leaf::Whole))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Leaf::Real(number))
            }
            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Leaf::Nothing)
            }
            skipping!(seq else Leaf::Nothing);
            skipping!(map else Leaf::Nothing);
        }
        deserializer.deserialize_any(LeafVisitor)
    }
}

/// An object, or something else.
#[derive(Debug, PartialEq)]
pub(super) struct Maybe<T>(pub(super) Option<T>);

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MaybeVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for MaybeVisitor<T> {
            type Value = Maybe<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|value| Maybe(Some(value)))
            }
            ignoring!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str; else Maybe(None));
            skipping!(seq else Maybe(None));
        }
        deserializer.deserialize_any(MaybeVisitor(PhantomData))
    }
}

/// The objects of a list, or nothing.
#[derive(Debug, PartialEq)]
pub(super) struct Many<T>(pub(super) Vec<T>);

impl<T> Default for Many<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ManyVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ManyVisitor<T> {
            type Value = Many<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Many)
            }
            ignoring!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str; else Many::default());
            skipping!(map else Many::default());
        }
        deserializer.deserialize_any(ManyVisitor(PhantomData))
    }
}

/// What a tool was asked to do: one line for the live view, and how much the model wrote for it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ToolInput {
    pub(super) line: String,
    pub(super) bytes: usize,
}

/// What tells most about a call, best first.
const TELLING: [&str; 12] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "pattern",
    "url",
    "query",
    "description",
    "prompt",
    "summary",
    "name",
];

impl ToolInput {
    /// Takes a field of the input in.
    fn add(&mut self, rank: usize, best: &mut usize, text: &str) {
        self.bytes += text.len();
        if rank < *best {
            *best = rank;
            self.line = one_line(text);
        }
    }
}

impl<'de> Deserialize<'de> for ToolInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InputVisitor;
        impl<'de> Visitor<'de> for InputVisitor {
            type Value = ToolInput;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut input, mut best) = (ToolInput::default(), TELLING.len() + 1);
                while let Some(FieldRank(rank)) = map.next_key()? {
                    if let Leaf::Text(text) = map.next_value()? {
                        input.add(rank, &mut best, &text);
                    }
                }
                Ok(input)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(ToolInput { line: one_line(text), bytes: text.len() })
            }
            ignoring!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64; else ToolInput::default());
            skipping!(seq else ToolInput::default());
        }
        deserializer.deserialize_any(InputVisitor)
    }
}

/// How much a field's name tells; less is more.
struct FieldRank(usize);

impl<'de> Deserialize<'de> for FieldRank {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = FieldRank;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<FieldRank, E> {
                Ok(FieldRank(TELLING.iter().position(|telling| *telling == name).unwrap_or(TELLING.len())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// The beginning of `text` as one line without control characters.
pub(super) fn one_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut line = String::new();
    for c in text.trim().chars() {
        if line.len() >= LONGEST {
            line.push('…');
            break;
        }
        line.push(if c.is_control() { ' ' } else { c });
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_another_type_is_as_if_it_were_not_there() {
        // fault C13
        #[derive(Debug, Default, Deserialize)]
        #[serde(default, bound(deserialize = "'de: 'a"))]
        struct Event<'a> {
            name: Leaf<'a>,
            inner: Maybe<Inner<'a>>,
            list: Many<Leaf<'a>>,
        }
        #[derive(Debug, Default, Deserialize)]
        #[serde(default, bound(deserialize = "'de: 'a"))]
        struct Inner<'a> {
            count: Leaf<'a>,
        }
        for (json, expected) in [
            (r#"{"name":"a","inner":{"count":3},"list":["x"]}"#, (Some("a"), Some(3), 1)),
            (r#"{"name":{"a":[1]},"inner":"?","list":{"x":1}}"#, (None, None, 0)),
            (r#"{"name":[1],"inner":[{}],"list":7}"#, (None, None, 0)),
            (r#"{"name":null,"inner":null,"list":null,"new":{"deep":[[]]}}"#, (None, None, 0)),
            (r#"{"name":1.5,"inner":{"count":"12"},"list":[true,{},[]]}"#, (None, Some(12), 3)),
            (r#"{"inner":{"count":-1}}"#, (None, Some(0), 0)),
            (r#"{"inner":{"count":18446744073709551615}}"#, (None, Some(i64::MAX as u64), 0)),
        ] {
            let event: Event<'_> = serde_json::from_str(json).unwrap();
            let count = event.inner.0.as_ref().map(|inner| inner.count.count());
            assert_eq!((event.name.text(), count, event.list.0.len()), expected, "{json}");
        }
    }

    #[test]
    fn a_tool_call_is_told_in_one_line() {
        // req 152
        for (json, line) in [
            (r#"{"content":"much\ntext","file_path":"/a/b"}"#, "/a/b"),
            (r#"{"description":"list files","command":"ls\n-l"}"#, "ls -l"),
            (r#"{"edits":[{"old":"x"}],"what":"ever"}"#, "ever"),
            (r#""plain""#, "plain"),
            ("[1,2]", ""),
            ("{}", ""),
            ("null", ""),
        ] {
            assert_eq!(serde_json::from_str::<ToolInput>(json).unwrap().line, line, "{json}");
        }
        let long = serde_json::to_string(&"ä".repeat(1000)).unwrap();
        let input: ToolInput = serde_json::from_str(&long).unwrap();
        assert_eq!((input.line.chars().count(), input.bytes), (101, 2000));
    }
}
