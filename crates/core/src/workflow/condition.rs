//! `when`: comparisons of what steps answered with literals, joined by `&&` and `||`.
//!
//! The grammar is Archon's, and it does not grow: `$step.output[.field] OP 'literal'` with six operators, `&&` before `||`,
//! no parentheses. A number that is none makes the whole condition false.

use serde::{Deserialize, Serialize};

use super::StepId;

/// A condition that was understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// As it stands in the file.
    pub text: String,
    /// It holds if all comparisons of one of these hold.
    pub any_of: Vec<Vec<Comparison>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    pub step: StepId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    pub operator: Operator,
    pub literal: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    #[serde(rename = "==")]
    Equal,
    #[serde(rename = "!=")]
    NotEqual,
    #[serde(rename = "<=")]
    AtMost,
    #[serde(rename = ">=")]
    AtLeast,
    #[serde(rename = "<")]
    Less,
    #[serde(rename = ">")]
    More,
}

impl Operator {
    /// Longer ones first: `<=` begins with `<`.
    const WORDS: [(&str, Self); 6] = [
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("<", Self::Less),
        (">", Self::More),
    ];

    fn is_numeric(self) -> bool {
        !matches!(self, Self::Equal | Self::NotEqual)
    }
}

impl Condition {
    /// Understands `text`, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let any_of = split_outside_quotes(text.trim(), "||")
            .into_iter()
            .map(|all| split_outside_quotes(all, "&&").into_iter().map(comparison).collect())
            .collect::<Result<Vec<Vec<Comparison>>, String>>()?;
        Ok(Self { text: text.trim().to_owned(), any_of })
    }

    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.any_of.iter().flatten()
    }

    /// Whether it holds for what steps answered. A step without an answer has answered nothing.
    pub fn holds<'a>(&self, output: impl Fn(&StepId) -> Option<&'a str>) -> bool {
        for all in &self.any_of {
            let mut holds = true;
            for comparison in all {
                match comparison.holds(&output) {
                    Some(true) => {}
                    Some(false) => {
                        holds = false;
                        break;
                    }
                    None => return false,
                }
            }
            if holds {
                return true;
            }
        }
        false
    }
}

impl Comparison {
    /// `None` where a number was needed and there is none.
    fn holds<'a>(&self, output: impl Fn(&StepId) -> Option<&'a str>) -> Option<bool> {
        let answer = output(&self.step).unwrap_or_default();
        let actual = match &self.field {
            None => answer.to_owned(),
            Some(field) => field_of(answer, field, |_| String::new()),
        };
        Some(match self.operator {
            Operator::Equal => actual == self.literal,
            Operator::NotEqual => actual != self.literal,
            operator => {
                let (actual, literal) = (leading_number(&actual)?, leading_number(&self.literal)?);
                match operator {
                    Operator::Less => actual < literal,
                    Operator::More => actual > literal,
                    Operator::AtMost => actual <= literal,
                    _ => actual >= literal,
                }
            }
        })
    }
}

/// A field of an answer that is a JSON object, as text. What has no short text is shown by `other`.
pub(super) fn field_of(
    answer: &str,
    field: &str,
    other: impl FnOnce(&serde_json::Value) -> String,
) -> String {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(answer) else { return String::new() };
    match value.get(field) {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_))) => value.to_string(),
        Some(serde_json::Value::Null) | None => String::new(),
        Some(value) => other(value),
    }
}

/// Parts between separators that do not stand in single quotes.
fn split_outside_quotes<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let (mut start, mut at, mut is_quoted) = (0, 0, false);
    while at < text.len() {
        if text.as_bytes()[at] == b'\'' {
            is_quoted = !is_quoted;
        } else if !is_quoted && text.as_bytes()[at..].starts_with(separator.as_bytes()) {
            parts.push(text[start..at].trim());
            at += separator.len();
            start = at;
            continue;
        }
        at += 1;
    }
    parts.push(text[start..].trim());
    parts
}

fn comparison(text: &str) -> Result<Comparison, String> {
    let wrong = |why: &str| Err(format!("`{}` is no comparison: {why}", crate::yaml::short(text)));
    let Some(rest) = text.strip_prefix('$') else {
        return wrong("it must begin with `$step.output`");
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name_end = rest.find(|c: char| !is_word(c) && c != '-').unwrap_or(rest.len());
    let (name, rest) = rest.split_at(name_end);
    let Some(step) = StepId::new(name).filter(|_| !name.starts_with(|c: char| c.is_ascii_digit())) else {
        return wrong("it must begin with `$step.output`");
    };
    let Some(rest) = rest.strip_prefix(".output") else {
        return wrong("behind the name of the step must follow `.output`");
    };
    let (field, rest) = match rest.strip_prefix('.') {
        None => (None, rest),
        Some(rest) => {
            let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            let field = &rest[..end];
            if field.is_empty() || field.starts_with(|c: char| c.is_ascii_digit()) {
                return wrong("behind `.output.` must follow the name of a field");
            }
            (Some(field.to_owned()), &rest[end..])
        }
    };
    let rest = rest.trim_start();
    let Some((operator, rest)) =
        Operator::WORDS.iter().find_map(|(word, op)| rest.strip_prefix(word).map(|rest| (*op, rest)))
    else {
        return wrong("there must be one of ==, !=, <, >, <=, >=");
    };
    let rest = rest.trim_start();
    let Some(literal) = rest.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) else {
        return wrong("what it is compared with must stand in single quotes");
    };
    if literal.contains('\'') {
        return wrong("what it is compared with must be one text in single quotes");
    }
    if operator.is_numeric() && leading_number(literal).is_none() {
        return wrong("<, >, <= and >= compare numbers");
    }
    Ok(Comparison { step, field, operator, literal: literal.to_owned() })
}

/// The number that a text begins with, as JavaScript's `parseFloat` reads it, if it is finite.
fn leading_number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(sign);
    let mut end = sign + whole;
    let mut fraction = 0;
    if bytes.get(end) == Some(&b'.') {
        fraction = digits(end + 1);
        if whole + fraction > 0 {
            end += 1 + fraction;
        }
    }
    if whole + fraction == 0 {
        return None;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits((end + 1 + sign).min(bytes.len()));
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    text[..end].parse::<f64>().ok().filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(condition: &str) -> bool {
        let output = |step: &StepId| match step.as_str() {
            "test" => Some("FAIL"),
            "score" => Some("85"),
            "share" => Some("80%"),
            "triage" => Some(r#"{"type": "BUG", "n": 3, "urgent": true, "list": [1], "none": null}"#),
            "words" => Some("a || b && 'c"),
            _ => None,
        };
        Condition::parse(condition).unwrap().holds(output)
    }

    #[test]
    fn conditions_hold_as_archon_has_them() {
        for (condition, expected) in [
            ("$test.output == 'FAIL'", true),
            ("$test.output != 'FAIL'", false),
            ("$test.output=='FAIL'", true),
            ("  $test.output  ==  'FAIL'  ", true),
            ("$score.output > '80'", true),
            ("$score.output >= '85'", true),
            ("$score.output < '85'", false),
            ("$score.output <= '85.0'", true),
            ("$share.output > '79'", true),
            ("$test.output > '1'", false),
            ("$triage.output.type == 'BUG'", true),
            ("$triage.output.n == '3'", true),
            ("$triage.output.n > '2.5'", true),
            ("$triage.output.urgent == 'true'", true),
            ("$triage.output.list == ''", true),
            ("$triage.output.none == ''", true),
            ("$triage.output.gone == ''", true),
            ("$test.output.field == ''", true),
            ("$nothing.output == ''", true),
            ("$test.output == 'FAIL' && $score.output > '90'", false),
            ("$test.output == 'FAIL' || $score.output > '90'", true),
            // `&&` binds closer than `||`.
            ("$test.output == 'FAIL' || $test.output == 'x' && $test.output == 'y'", true),
            ("$words.output != 'a || b && c'", true),
            // A number that is none makes all of it false, also what follows it.
            ("$test.output > '1' || $test.output == 'FAIL'", false),
        ] {
            assert_eq!(holds(condition), expected, "{condition}");
        }
    }

    #[test]
    fn what_is_no_condition_is_refused_with_its_reason() {
        for (condition, expected) in [
            ("", "`` is no comparison: it must begin with `$step.output`"),
            ("true", "`true` is no comparison: it must begin with `$step.output`"),
            (
                "$1st.output == 'x'",
                "`$1st.output == 'x'` is no comparison: it must begin with `$step.output`",
            ),
            ("$a == 'x'", "`$a == 'x'` is no comparison: behind the name of the step must follow `.output`"),
            (
                "$a.output. == 'x'",
                "`$a.output. == 'x'` is no comparison: behind `.output.` must follow the name of a field",
            ),
            ("$a.output", "`$a.output` is no comparison: there must be one of ==, !=, <, >, <=, >="),
            (
                "$a.output = 'x'",
                "`$a.output = 'x'` is no comparison: there must be one of ==, !=, <, >, <=, >=",
            ),
            (
                "$a.output == x",
                "`$a.output == x` is no comparison: what it is compared with must stand in single quotes",
            ),
            (
                "$a.output == \"x\"",
                "`$a.output == \"x\"` is no comparison: what it is compared with must stand in single quotes",
            ),
            (
                "$a.output == 'x' and 'y'",
                "`$a.output == 'x' and 'y'` is no comparison: what it is compared with must be one text in single quotes",
            ),
            (
                "($a.output == 'x')",
                "`($a.output == 'x')` is no comparison: it must begin with `$step.output`",
            ),
            ("$a.output == 'x' &&", "`` is no comparison: it must begin with `$step.output`"),
            ("$a.output > 'x'", "`$a.output > 'x'` is no comparison: <, >, <= and >= compare numbers"),
            (
                "$a.outputs == 'x'",
                "`$a.outputs == 'x'` is no comparison: there must be one of ==, !=, <, >, <=, >=",
            ),
        ] {
            assert_eq!(Condition::parse(condition).unwrap_err(), expected);
        }
    }

    #[test]
    fn numbers_are_read_as_parse_float_reads_them() {
        for (text, expected) in [
            ("1", Some(1.0)),
            (" -2.5kg", Some(-2.5)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("1e3x", Some(1000.0)),
            ("1e", Some(1.0)),
            ("1e999", None),
            ("Infinity", None),
            ("", None),
            (".", None),
            ("-", None),
            ("x1", None),
            ("1é", Some(1.0)),
        ] {
            assert_eq!(leading_number(text), expected, "{text}");
        }
    }
}
