//! Tests in Rust: functions with an attribute whose last word is `test` or the like.

use super::{
    Test,
    body::Body,
    source::{Language, Source, is_word},
};

/// The tests in `text`.
pub(super) fn tests(text: &str) -> Vec<Test> {
    let source = Source::new(text, Language::Rust);
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
fn block(source: &Source<'_>, mut at: usize) -> Option<(usize, usize)> {
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
