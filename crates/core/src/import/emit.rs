//! A tree as YAML text: block style, long texts as they are read.

use super::*;
use crate::text::visible::is_deceptive;

/// The text of a map, a line per key.
pub(super) fn emit(root: &YamlNode) -> String {
    let mut out = String::new();
    match &root.value {
        YamlValue::Map(entries) if !entries.is_empty() => map(&mut out, entries, 0),
        _ => value(&mut out, root, 0),
    }
    out
}

/// A key with a text of any length.
pub(super) fn entry(key: &str, text: &str) -> String {
    let place = TextPlace { line: 1, column: 1 };
    let node = YamlNode { place, value: YamlValue::Scalar { text: text.to_owned(), is_plain: false } };
    emit(&YamlNode {
        place,
        value: YamlValue::Map(vec![(crate::yaml::YamlKey { place, name: key.to_owned() }, node)]),
    })
}

/// A text as one YAML scalar on its line.
pub(super) fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Whether every YAML reader takes this for text without quotes.
fn is_plain(text: &str) -> bool {
    let word = text.to_ascii_lowercase();
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-' | '.' | '/' | '+' | '=' | ','))
        && !text.ends_with(' ')
        && !["true", "false", "null", "yes", "no", "on", "off"].contains(&word.as_str())
}

/// A text in double quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_deceptive(c) && (c as u32) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c if is_deceptive(c) => out.push_str(&format!("\\U{:08x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn map(out: &mut String, entries: &[(crate::yaml::YamlKey, YamlNode)], indent: usize) {
    for (at, (key, node)) in entries.iter().enumerate() {
        // The first key of an entry of a list stands behind its dash.
        if at > 0 || out.ends_with('\n') || out.is_empty() {
            pad(out, indent);
        }
        out.push_str(&scalar(&key.name));
        out.push(':');
        value(out, node, indent);
    }
}

/// What stands behind a colon or a dash, with the end of the line.
fn value(out: &mut String, node: &YamlNode, indent: usize) {
    match &node.value {
        YamlValue::Map(entries) if entries.is_empty() => out.push_str(" {}\n"),
        YamlValue::List(items) if items.is_empty() => out.push_str(" []\n"),
        YamlValue::Map(entries) => {
            out.push('\n');
            map(out, entries, indent + 2);
        }
        YamlValue::List(items) => {
            out.push('\n');
            for item in items {
                pad(out, indent + 2);
                out.push('-');
                match &item.value {
                    YamlValue::Map(entries) if !entries.is_empty() => {
                        out.push(' ');
                        map(out, entries, indent + 4);
                    }
                    _ => value(out, item, indent + 2),
                }
            }
        }
        YamlValue::Scalar { text, is_plain: true } if !text.is_empty() && !text.contains('\n') => {
            // It was no text in quotes where it comes from: a number stays a number.
            let is_same = is_plain(text) || is_number_or_word(text);
            out.push(' ');
            out.push_str(&if is_same { text.clone() } else { quoted(text) });
            out.push('\n');
        }
        YamlValue::Scalar { text, is_plain: true } if text.is_empty() => out.push('\n'),
        YamlValue::Scalar { text, .. } => match block(text, indent + 2) {
            Some(block) => out.push_str(&block),
            None => {
                out.push(' ');
                out.push_str(&scalar(text));
                out.push('\n');
            }
        },
    }
}

fn is_number_or_word(text: &str) -> bool {
    text == "~"
        || text == "true"
        || text == "false"
        || text == "null"
        || (text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')))
}

/// A text of several lines as a literal block, if it is one that keeps every character.
fn block(text: &str, indent: usize) -> Option<String> {
    let is_good = text.contains('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && !text.chars().any(|c| c != '\n' && c != '\t' && is_deceptive(c))
        && !text.ends_with([' ', '\t'])
        && !text.lines().any(|line| !line.is_empty() && line.trim().is_empty());
    if !is_good {
        return None;
    }
    let body = text.trim_end_matches('\n');
    let mark = match text.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    };
    let mut out = format!(" {mark}\n");
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        if !line.is_empty() {
            pad(&mut out, indent);
            out.push_str(line);
        }
        out.push('\n');
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::yaml;

    /// The tree without places and without how it was quoted.
    fn bare(node: &YamlNode) -> serde_json::Value {
        match &node.value {
            YamlValue::Scalar { text, .. } => text.as_str().into(),
            YamlValue::List(items) => items.iter().map(bare).collect(),
            YamlValue::Map(entries) => {
                let entries = entries.iter().map(|(key, node)| serde_json::json!([key.name, bare(node)]));
                serde_json::json!({ "map": entries.collect::<Vec<_>>() })
            }
        }
    }

    fn node() -> impl Strategy<Value = YamlNode> {
        let place = TextPlace { line: 1, column: 1 };
        let text = prop_oneof![
            "[a-z: #|>'\"{}\\[\\]&*!%@`-]{0,12}",
            "([a-z #:-]{0,6}\n){1,4}[a-z \n]{0,4}",
            "\\PC{0,8}",
            "[0-9.]{1,4}"
        ];
        let leaf =
            text.prop_map(move |text| YamlNode { place, value: YamlValue::Scalar { text, is_plain: false } });
        leaf.prop_recursive(4, 24, 4, move |inner| {
            let map = prop::collection::btree_map("[a-zA-Z_ :#-]{1,8}", inner.clone(), 0..4).prop_map(
                move |entries| {
                    let entries = entries
                        .into_iter()
                        .map(|(name, node)| (yaml::YamlKey { place, name }, node))
                        .collect();
                    YamlNode { place, value: YamlValue::Map(entries) }
                },
            );
            let list = prop::collection::vec(inner, 0..4)
                .prop_map(move |items| YamlNode { place, value: YamlValue::List(items) });
            prop_oneof![map, list]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in node()) {
            let place = TextPlace { line: 1, column: 1 };
            let root = YamlNode { place, value: YamlValue::Map(vec![(yaml::YamlKey { place, name: "top".into() }, value)]) };
            let text = emit(&root);
            let (read, wrong) = yaml::read(text.as_bytes());
            prop_assert!(wrong.is_empty(), "{wrong:?}\n{text}");
            prop_assert_eq!(bare(&read.unwrap()), bare(&root), "{}", text);
        }
    }

    #[test]
    fn texts_numbers_and_lists_look_as_people_write_them() {
        let text = "name: fix\nwhen: \"$a.output == 'x'\"\nn: 3\nprompt: |\n  One: two\n\n    - three\nlist:\n  - id: a\n    bash: \"make # all\"\n  - id: b\nwords:\n  - x\n";
        let (root, wrong) = yaml::read(text.as_bytes());
        assert_eq!((wrong, emit(&root.unwrap()).as_str()), (vec![], text));
    }
}
