//! Tests in Rust: functions with an attribute whose last word is `test` or the like.

use super::{
    Test,
    body::Body,
    source::{Language, SourceCode, is_word},
};

/// The tests in `text`.
pub(super) fn tests(text: &str) -> Vec<Test> {
    let source = SourceCode::new(text, Language::Rust);
    let code = &source.code;
    let mut tests = Vec::new();
    let mut attributes: Vec<String> = Vec::new();
    // Modules that are switched off: where they end, and how it is written.
    let mut off: Vec<(usize, String)> = Vec::new();
    let mut at = 0;
    while at < code.len() {
        off.retain(|(end, _)| at <= *end);
        match code[at] {
            b'#' => {
                let inner = code.get(at + 1) == Some(&b'!');
                let open = at + 1 + usize::from(inner);
                if code.get(open) == Some(&b'[') {
                    let close = source.closing(open);
                    let attribute: String = source.code_between(open + 1, close).split_whitespace().collect();
                    if !inner {
                        attributes.push(attribute);
                    } else if let Some(how) = switched_off(&attribute) {
                        off.push((code.len(), how));
                    }
                    at = close;
                }
            }
            b';' | b'{' | b'}' => attributes.clear(),
            byte if is_word(byte) => {
                let word = source.word(at);
                let len = word.len().max(1);
                match word {
                    "fn" => {
                        let attributes = std::mem::take(&mut attributes);
                        let name_at = source.skip_white(at + len);
                        let name = source.word(name_at.min(code.len())).to_owned();
                        let Some((open, close)) = block(&source, name_at) else {
                            at = name_at;
                            continue;
                        };
                        if attributes.iter().any(|attribute| is_test(attribute)) {
                            let skipped = attributes
                                .iter()
                                .find_map(|attribute| ignored(attribute).or_else(|| switched_off(attribute)))
                                .or_else(|| off.first().map(|(_, how)| how.clone()));
                            let inverted = attributes
                                .iter()
                                .find(|attribute| attribute.starts_with("should_panic"))
                                .map(|_| "`#[should_panic]`".to_owned());
                            let body = Body::new(
                                source.text_between(open + 1, close),
                                &source.code_between(open + 1, close),
                            );
                            tests.push(Test { name, skipped, inverted, body });
                        }
                        at = close;
                    }
                    "mod" => {
                        if let Some(how) = attributes.iter().find_map(|attribute| switched_off(attribute))
                            && let Some((_, close)) = block(&source, at + len)
                        {
                            off.push((close, how));
                        }
                        attributes.clear();
                        at += len - 1;
                    }
                    _ => at += len - 1,
                }
            }
            _ => {}
        }
        at += 1;
    }
    tests
}

/// The braces of the item that goes on at `at`, or `None` if it has none.
fn block(source: &SourceCode<'_>, mut at: usize) -> Option<(usize, usize)> {
    loop {
        match source.code.get(at)? {
            b'{' => return Some((at, source.closing(at))),
            b';' => return None,
            b'(' | b'[' => at = source.closing(at),
            _ => {}
        }
        at += 1;
    }
}

fn is_test(attribute: &str) -> bool {
    let path = attribute.split(['(', '=']).next().unwrap_or_default();
    let name = path.rsplit("::").next().unwrap_or_default();
    name == "test"
        || name.ends_with("_test")
        || matches!(name, "rstest" | "test_case" | "quickcheck" | "test_log")
}

fn ignored(attribute: &str) -> Option<String> {
    let plain = attribute == "ignore" || attribute.starts_with("ignore=");
    let conditional = attribute.starts_with("cfg_attr(")
        && attribute.split([',', ')']).any(|part| part == "ignore" || part.starts_with("ignore="));
    (plain || conditional).then(|| "`#[ignore]`".to_owned())
}

fn switched_off(attribute: &str) -> Option<String> {
    matches!(attribute, "cfg(any())" | "cfg(FALSE)" | "cfg(false)" | "cfg(not(all()))" | "cfg(not(test))")
        .then(|| format!("`#[{attribute}]`"))
}

/// An item of a Rust file that belongs to its tests.
pub(crate) struct TestItem {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// What makes it the same item in another version of the file: `mod tests`, `fn adds`.
    pub(crate) name: String,
    /// Whether it lies within another item.
    pub(crate) is_nested: bool,
}

/// Macros whose namesake in the crate would be called in place of the one that checks something.
const CHECKING_MACROS: &[&str] = &[
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "panic",
    "unreachable",
];

/// The items of `text` that belong to its tests, with their attributes: what is compiled for tests only, test functions
/// outside of such modules, and macros in place of those that check something.
pub(crate) fn test_items(text: &str) -> Vec<TestItem> {
    let source = SourceCode::new(text, Language::Rust);
    let code = &source.code;
    let mut items = Vec::new();
    // Where the attributes of the next item begin, and what they are.
    let mut pending: Option<(usize, Vec<String>)> = None;
    let mut depth = 0_usize;
    let mut at = 0;
    while at < code.len() {
        match code[at] {
            b'#' if code.get(at + 1) == Some(&b'[') => {
                let close = source.closing(at + 1);
                let attribute: String = source.code_between(at + 2, close).split_whitespace().collect();
                pending.get_or_insert_with(|| (at, Vec::new())).1.push(attribute);
                at = close;
            }
            b'{' => {
                depth += 1;
                pending = None;
            }
            b'}' => {
                depth = depth.saturating_sub(1);
                pending = None;
            }
            b';' | b',' => pending = None,
            byte if is_word(byte) => {
                let word = source.word(at);
                let len = word.len().max(1);
                let is_item = matches!(
                    word,
                    "mod"
                        | "fn"
                        | "use"
                        | "const"
                        | "static"
                        | "struct"
                        | "enum"
                        | "impl"
                        | "trait"
                        | "type"
                        | "macro_rules"
                        | "extern"
                );
                if !is_item {
                    // `pub(crate)`, `unsafe` and `async` stand before an item and belong to it.
                    if pending.is_none() && matches!(word, "pub" | "unsafe" | "async") {
                        pending = Some((at, Vec::new()));
                    }
                    at += len;
                    continue;
                }
                let name_at = source.skip_white(at + len + usize::from(code.get(at + len) == Some(&b'!')));
                let name = source.word(name_at.min(code.len())).to_owned();
                let (start, attributes) = pending.take().unwrap_or((at, Vec::new()));
                let belongs =
                    attributes.iter().any(|attribute| is_for_tests(attribute) || is_test(attribute))
                        || (word == "macro_rules" && CHECKING_MACROS.contains(&name.as_str()));
                if belongs {
                    let ends_with_semicolon = matches!(word, "use" | "const" | "static" | "type");
                    let end = item_end(&source, name_at, ends_with_semicolon);
                    items.push(TestItem { start, end, name: format!("{word} {name}"), is_nested: depth > 0 });
                    at = end;
                    continue;
                }
                at += len;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    items
}

/// Whether an attribute compiles its item for tests only.
fn is_for_tests(attribute: &str) -> bool {
    attribute == "cfg(test)" || (attribute.starts_with("cfg(all(") && attribute.contains("(test"))
}

/// One beyond the end of the item that goes on at `at`.
fn item_end(source: &SourceCode<'_>, mut at: usize, ends_with_semicolon: bool) -> usize {
    while let Some(byte) = source.code.get(at) {
        match byte {
            b'{' if ends_with_semicolon => at = source.closing(at),
            b'{' => return (source.closing(at) + 1).min(source.code.len()),
            b';' => return at + 1,
            b'(' | b'[' => at = source.closing(at),
            _ => {}
        }
        at += 1;
    }
    source.code.len()
}
