//! Examples in the documentation of sources, which cargo and doctest run as tests.

/// How the names of examples begin, so that none is taken for another block of the file.
pub(super) const EXAMPLE: &str = "example of ";

/// An example: whole lines of a file.
pub(super) struct Example {
    pub(super) start: usize,
    /// Without the end of its last line.
    pub(super) end: usize,
    /// What makes it the same example in another version of the file: what it documents, and which of its examples it is.
    pub(super) name: String,
}

/// The lines of a text with where they begin.
fn lines_at(text: &str) -> Vec<(usize, &str)> {
    let mut start = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        let at = start;
        start += line.len();
        (at, line.trim_end_matches(['\n', '\r']))
    });
    lines.collect()
}

fn numbered(all: &[Example], of: &str) -> String {
    let name = format!("{EXAMPLE}{of} ");
    let number = all.iter().filter(|example| example.name.starts_with(&name)).count();
    format!("{name}{number}")
}

/// The examples in the comments of a Rust file that are compiled.
pub(super) fn rust(text: &str) -> Vec<Example> {
    fn comment(line: &str) -> Option<&str> {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    }
    let lines = lines_at(text);
    let mut all: Vec<Example> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(opened) = comment(lines[at].1).and_then(|words| words.trim().strip_prefix("```")) else {
            at += 1;
            continue;
        };
        let is_comment = |(_, line): &&(usize, &str)| comment(line).is_some();
        let body = lines[at + 1..].iter().take_while(is_comment);
        let length =
            body.take_while(|(_, line)| comment(line).is_some_and(|words| words.trim() != "```")).count();
        let close = (at + 1 + length).min(lines.len() - 1);
        let is_closed = comment(lines[close].1).is_some_and(|words| words.trim() == "```") && close > at;
        if is_closed && is_rust(opened) {
            let of = if lines[at].1.trim_start().starts_with("//!") {
                "the module".to_owned()
            } else {
                documented(lines[close + 1..].iter().map(|(_, line)| *line))
            };
            let name = numbered(&all, &of);
            all.push(Example { start: lines[at].0, end: lines[close].0 + lines[close].1.len(), name });
        }
        at = close.max(at) + 1;
    }
    all
}

/// Whether a block of code that is opened with these words is an example in Rust.
fn is_rust(words: &str) -> bool {
    let mut words = words.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty());
    words.all(|word| {
        matches!(word, "rust" | "should_panic" | "no_run" | "compile_fail" | "standalone_crate")
            || word.starts_with("edition")
    })
}

/// The item that the comment before these lines documents.
fn documented<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    const ITEMS: &[&str] =
        &["fn", "struct", "enum", "trait", "mod", "type", "const", "static", "impl", "macro_rules!", "union"];
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("//") || line.starts_with('#') {
            continue;
        }
        let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '!'));
        return match words.find(|word| ITEMS.contains(word)) {
            Some(item) => format!("{item} {}", words.next().unwrap_or_default()),
            None => line.to_owned(),
        };
    }
    "nothing".to_owned()
}

/// An example on its own, with an item that it documents.
pub(super) fn rust_alone(example: &str, number: usize) -> String {
    let lines: String =
        example.lines().map(|line| format!("{}\n", line.trim_start().replacen("//!", "///", 1))).collect();
    format!("\n{lines}#[allow(dead_code)]\nfn example_that_was_there_{number}() {{}}\n")
}

/// The examples of Python's doctest: `>>> add(2, 2)` with what follows up to an empty line.
pub(super) fn python(text: &str) -> Vec<Example> {
    let lines = lines_at(text);
    let mut all: Vec<Example> = Vec::new();
    let mut of = "the module".to_owned();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].1.trim_start();
        let definition = ["def ", "async def ", "class "].iter().find_map(|word| line.strip_prefix(word));
        if let Some(rest) = definition {
            of = rest
                .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .next()
                .unwrap_or_default()
                .to_owned();
        }
        if !line.starts_with(">>> ") {
            at += 1;
            continue;
        }
        let goes_on =
            |line: &str| !line.trim().is_empty() && !line.contains("\"\"\"") && !line.contains("'''");
        let length = lines[at..].iter().take_while(|(_, line)| goes_on(line)).count().max(1);
        let last = lines[at + length - 1];
        let name = numbered(&all, &of);
        all.push(Example { start: lines[at].0, end: last.0 + last.1.len(), name });
        at += length;
    }
    all
}

/// An example on its own, with a function that it documents.
pub(super) fn python_alone(example: &str, number: usize) -> String {
    let depth = example.len() - example.trim_start().len();
    let lines: String = example
        .lines()
        .map(|line| format!("    {}\n", line.get(depth..).unwrap_or(line.trim_start())))
        .collect();
    format!("\n\ndef _example_that_was_there_{number}():\n    \"\"\"\n{lines}    \"\"\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_rust_are_named_by_what_they_document() {
        let text = "//! ```\n//! a();\n//! ```\n\n/// Adds.\n///\n/// ```rust,no_run\n/// add(1);\n/// ```\n/// ```text\n\
                    /// no\n/// ```\n#[inline]\npub fn add(a: i32) {}\n\nimpl X {\n    /// ```\n    /// b();\n    /// ```\n    \
                    pub(crate) async fn b() {}\n}\n/// ```\n/// never closed\nfn c() {}\n";
        let found: Vec<(String, &str)> = rust(text)
            .into_iter()
            .map(|example| (example.name, text[example.start..example.end].lines().nth(1).unwrap().trim()))
            .collect();
        let found: Vec<(&str, &str)> = found.iter().map(|(name, line)| (name.as_str(), *line)).collect();
        assert_eq!(
            found,
            [
                ("example of the module 0", "//! a();"),
                ("example of fn add 0", "/// add(1);"),
                ("example of fn b 0", "/// b();"),
            ]
        );
        assert!(rust("/// ```").is_empty());
        assert!(rust("").is_empty());
    }

    #[test]
    fn examples_of_python_end_at_an_empty_line() {
        let text = "def add(a, b):\n    \"\"\"Adds.\n\n    >>> add(1, 2)\n    3\n\n    >>> add(2, 2)\n    4\n    \"\"\"\n";
        let found: Vec<String> = python(text)
            .into_iter()
            .map(|example| format!("{}: {}", example.name, &text[example.start..example.end]))
            .collect();
        assert_eq!(
            found,
            ["example of add 0:     >>> add(1, 2)\n    3", "example of add 1:     >>> add(2, 2)\n    4"]
        );
        assert_eq!(
            python_alone("        >>> f()\n        1", 0),
            "\n\ndef _example_that_was_there_0():\n    \"\"\"\n    >>> f()\n    1\n    \"\"\"\n"
        );
    }
}
