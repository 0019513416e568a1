//! `contradictions`: words of an agent that speak against its own claim.

use super::{At, ConfigSection};
use crate::{judge::contradiction::Patterns, yaml::YamlValue};

/// Which words speak against a claim; without any, claims are not searched for contradictions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contradictions {
    /// The phrases that dacapo knows.
    pub defaults: bool,
    /// Phrases beside or instead of them.
    pub phrases: Vec<String>,
}

impl Contradictions {
    /// Whether claims are not searched for contradictions.
    pub fn is_off(&self) -> bool {
        !self.defaults && self.phrases.is_empty()
    }

    /// As they are looked for. A phrase that cannot be looked for is left out; the file was checked when it was read.
    pub fn patterns(&self) -> Patterns {
        if self.is_off() {
            return Patterns::off();
        }
        let known = if self.defaults { Patterns::default() } else { Patterns::off() };
        known.and(&self.phrases)
    }
}

pub(super) fn read(top: &mut ConfigSection<'_>) -> Option<At<Contradictions>> {
    let node = top.take("contradictions")?;
    let (place, line) = (node.place, node.place.line);
    let value = match node.value {
        YamlValue::Scalar { text, is_plain: true } if text == "off" => Contradictions::default(),
        YamlValue::Scalar { text, is_plain: true } if text == "default" => {
            Contradictions { defaults: true, phrases: Vec::new() }
        }
        YamlValue::List(items) if !items.is_empty() => {
            let phrases = items
                .into_iter()
                .filter_map(|node| top.text_of("a phrase in `contradictions`", node))
                .map(|phrase| phrase.value)
                .collect();
            Contradictions { defaults: false, phrases }
        }
        YamlValue::Scalar { .. } | YamlValue::List(_) | YamlValue::Map(_) => {
            top.wrong(place, "`contradictions` must be `default`, `off` or a list of phrases");
            return None;
        }
    };
    Some(At { value, line })
}
