//! What counts as a promise.

use serde::{Deserialize, Deserializer, Serialize, de};

/// What an agent has to write for its work to count as promised done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromiseRule {
    /// The words inside the tag, one opaque string however many words it has.
    #[serde(deserialize_with = "usable_text")]
    pub text: String,
    /// Whether the words' case matters. That of the tag's name never does.
    pub case: LetterCase,
    /// Where in the output the tag has to stand.
    pub placement: Placement,
    /// Whether white space around and between the words is of no account.
    pub trim: bool,
    /// Whether a tag inside Markdown code does not count.
    pub ignore_code: bool,
    /// Whether the words count without the tag as well.
    pub plain: PlainWord,
    /// Whether the words are followed by a word that differs in every attempt.
    pub nonce: bool,
}

/// Whether upper and lower case are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LetterCase {
    Sensitive,
    #[default]
    Insensitive,
}

/// Where in the output a tag has to stand. White space around it is allowed everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    OwnLine,
    /// Alone on a line, or at the very end of the output, where text may precede it on its line.
    #[default]
    OwnLineOrEnd,
    /// Alone on the last line that is not blank.
    LastLine,
    /// Anywhere, also spread over several lines.
    Anywhere,
}

/// Whether the promise's words count without the tag. Their case always matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlainWord {
    #[default]
    Off,
    /// The words count alone on a line or, after white space, at the very end of the output.
    OwnLineOrEnd,
    /// The words count anywhere, even within other words.
    Substring,
}

/// Why a text cannot be a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlankPromise {
    /// It has no words; every empty tag would match.
    #[error("the promise is blank; give it a word such as `COMPLETE`")]
    Blank,
    #[error("the promise holds a `<promise>` tag; give only the words inside the tag")]
    HoldsTag,
}

impl PromiseRule {
    /// The rule that waits for `text`, with every other setting at its default.
    pub fn new(text: impl Into<String>) -> Result<Self, BlankPromise> {
        let text = text.into();
        check(&text)?;
        Ok(Self {
            text,
            case: LetterCase::default(),
            placement: Placement::default(),
            trim: true,
            ignore_code: true,
            plain: PlainWord::default(),
            nonce: false,
        })
    }

    /// The words to wait for in the attempt that was given `nonce`.
    #[must_use]
    pub fn expected(&self, nonce: &str) -> String {
        if self.nonce { format!("{} {nonce}", self.text) } else { self.text.clone() }
    }

    /// The tag to wait for in the attempt that was given `nonce`.
    #[must_use]
    pub fn tag(&self, nonce: &str) -> String {
        format!("<promise>{}</promise>", self.expected(nonce))
    }
}

fn check(text: &str) -> Result<(), BlankPromise> {
    if text.trim().is_empty() {
        return Err(BlankPromise::Blank);
    }
    let lower = text.to_ascii_lowercase();
    if lower.contains("<promise") || lower.contains("</promise") {
        return Err(BlankPromise::HoldsTag);
    }
    Ok(())
}

fn usable_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    check(&text).map_err(de::Error::custom)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    // fault A5: a blank promise would match an empty tag.
    #[test]
    fn a_promise_needs_words_and_no_tag() {
        for (text, error) in [
            ("", Some(BlankPromise::Blank)),
            (" \t\n\u{a0}", Some(BlankPromise::Blank)),
            ("<promise>DONE</promise>", Some(BlankPromise::HoldsTag)),
            ("a<PROMISE b", Some(BlankPromise::HoldsTag)),
            ("a</Promise", Some(BlankPromise::HoldsTag)),
            ("DONE", None),
            ("all tests < green > now", None),
        ] {
            assert_eq!(PromiseRule::new(text).err(), error, "{text:?}");
        }
    }

    #[test]
    fn the_nonce_follows_the_words() {
        let mut rule = PromiseRule::new("ALL DONE").unwrap();
        assert_eq!(rule.tag("k7"), "<promise>ALL DONE</promise>");
        rule.nonce = true;
        assert_eq!(rule.expected("k7"), "ALL DONE k7");
        assert_eq!(rule.tag("k7"), "<promise>ALL DONE k7</promise>");
    }

    #[test]
    fn a_rule_survives_json_and_a_blank_one_is_refused() {
        let rule = PromiseRule::new("DONE").unwrap();
        let json = serde_json::to_string(&rule).unwrap();
        assert_eq!(
            json,
            r#"{"text":"DONE","case":"insensitive","placement":"own_line_or_end","trim":true,"#.to_owned()
                + r#""ignore_code":true,"plain":"off","nonce":false}"#
        );
        assert_eq!(serde_json::from_str::<PromiseRule>(&json).unwrap(), rule);
        let blank = json.replace("DONE", " ");
        assert!(serde_json::from_str::<PromiseRule>(&blank).is_err());
    }
}
