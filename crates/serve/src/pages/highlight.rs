//! Colours for one line of source: comments, strings, numbers, keywords and calls. A line is looked at alone, as a diff shows
//! it, so a comment or string of several lines is coloured where it can be told.

use maud::{Markup, html};

/// A family of languages that look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LanguageFamily {
    /// Rust, C, Java, JavaScript, Go and their like.
    Braces(&'static [&'static str]),
    /// Comments begin with `#`.
    Hash(&'static [&'static str]),
    /// SQL, Lua, Haskell: comments begin with `--`.
    Dashes(&'static [&'static str]),
    /// No colours.
    Plain,
}

const RUST: &[&str] = &[
    "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern", "false",
    "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return",
    "self", "Self", "static", "struct", "super", "trait", "true", "type", "unsafe", "use", "where", "while",
];
const SCRIPT: &[&str] = &[
    "abstract",
    "any",
    "as",
    "async",
    "await",
    "boolean",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "from",
    "function",
    "get",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "number",
    "of",
    "private",
    "protected",
    "public",
    "readonly",
    "return",
    "set",
    "static",
    "string",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "type",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "yield",
];
const GO: &[&str] = &[
    "break",
    "case",
    "chan",
    "const",
    "continue",
    "default",
    "defer",
    "else",
    "fallthrough",
    "false",
    "for",
    "func",
    "go",
    "goto",
    "if",
    "import",
    "interface",
    "map",
    "nil",
    "package",
    "range",
    "return",
    "select",
    "struct",
    "switch",
    "true",
    "type",
    "var",
];
const C: &[&str] = &[
    "abstract",
    "auto",
    "bool",
    "boolean",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "continue",
    "default",
    "delete",
    "do",
    "double",
    "else",
    "enum",
    "extends",
    "extern",
    "false",
    "final",
    "float",
    "for",
    "fun",
    "goto",
    "if",
    "implements",
    "import",
    "include",
    "inline",
    "int",
    "interface",
    "long",
    "namespace",
    "new",
    "null",
    "nullptr",
    "override",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "string",
    "struct",
    "super",
    "switch",
    "template",
    "this",
    "throw",
    "true",
    "try",
    "typedef",
    "union",
    "unsigned",
    "using",
    "val",
    "var",
    "virtual",
    "void",
    "volatile",
    "when",
    "while",
];
const PYTHON: &[&str] = &[
    "and", "as", "assert", "async", "await", "break", "case", "class", "continue", "def", "del", "elif",
    "else", "except", "False", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda",
    "match", "None", "nonlocal", "not", "or", "pass", "raise", "return", "self", "True", "try", "while",
    "with", "yield",
];
const SHELL: &[&str] = &[
    "case", "do", "done", "elif", "else", "esac", "exit", "export", "fi", "for", "function", "if", "in",
    "local", "return", "set", "then", "while",
];
const RUBY: &[&str] = &[
    "and", "begin", "case", "class", "def", "do", "else", "elsif", "end", "ensure", "false", "if", "in",
    "module", "nil", "not", "or", "raise", "require", "rescue", "return", "self", "super", "then", "true",
    "unless", "until", "when", "while", "yield",
];
const DATA: &[&str] = &["true", "false", "null", "yes", "no"];
const SQL: &[&str] = &[
    "add",
    "alter",
    "and",
    "as",
    "begin",
    "by",
    "commit",
    "create",
    "default",
    "delete",
    "desc",
    "drop",
    "end",
    "exists",
    "foreign",
    "from",
    "group",
    "having",
    "if",
    "in",
    "index",
    "insert",
    "into",
    "is",
    "join",
    "key",
    "left",
    "like",
    "limit",
    "not",
    "null",
    "on",
    "or",
    "order",
    "primary",
    "references",
    "select",
    "set",
    "table",
    "then",
    "union",
    "unique",
    "update",
    "values",
    "view",
    "when",
    "where",
    "with",
];

impl LanguageFamily {
    pub(super) fn of(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let extension = name.rsplit_once('.').map_or(name, |(_, extension)| extension);
        match extension.to_ascii_lowercase().as_str() {
            "rs" => Self::Braces(RUST),
            "js" | "jsx" | "ts" | "tsx" | "mjs" | "cjs" | "vue" | "svelte" => Self::Braces(SCRIPT),
            "go" => Self::Braces(GO),
            "c" | "h" | "cc" | "cpp" | "hpp" | "java" | "kt" | "kts" | "cs" | "swift" | "scala" | "php"
            | "dart" | "zig" => Self::Braces(C),
            "json" | "css" | "scss" => Self::Braces(DATA),
            "py" | "pyi" => Self::Hash(PYTHON),
            "sh" | "bash" | "zsh" | "makefile" | "mk" | "dockerfile" => Self::Hash(SHELL),
            "rb" | "ex" | "exs" | "cr" => Self::Hash(RUBY),
            "toml" | "yaml" | "yml" | "ini" | "cfg" | "conf" => Self::Hash(DATA),
            "sql" | "lua" | "hs" => Self::Dashes(SQL),
            _ => Self::Plain,
        }
    }
}

/// What a piece of a line is; the names are classes of the style sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodeToken {
    Plain,
    Comment,
    Text,
    Number,
    Keyword,
    Call,
}

impl CodeToken {
    fn class(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Comment => Some("tk-c"),
            Self::Text => Some("tk-s"),
            Self::Number => Some("tk-n"),
            Self::Keyword => Some("tk-k"),
            Self::Call => Some("tk-f"),
        }
    }
}

pub(super) fn render(language: LanguageFamily, line: &str) -> Markup {
    html! {
        @for (token, text) in tokens(language, line) {
            @match token.class() { Some(class) => span class=(class) { (text) }, None => (text) }
        }
    }
}

/// The pieces of a line; together they are the line.
pub(super) fn tokens(language: LanguageFamily, line: &str) -> Vec<(CodeToken, &str)> {
    let (comment, keywords, is_caseless): (&[&str], &[&str], bool) = match language {
        LanguageFamily::Plain => return vec![(CodeToken::Plain, line)],
        LanguageFamily::Braces(keywords) => (&["//", "/*"], keywords, false),
        LanguageFamily::Hash(keywords) => (&["#"], keywords, false),
        LanguageFamily::Dashes(keywords) => (&["--"], keywords, true),
    };
    // A line in the middle of a comment of several lines.
    let start = line.trim_start();
    if matches!(language, LanguageFamily::Braces(_))
        && (start == "*" || start.starts_with("* ") || start.starts_with("*/"))
    {
        return vec![(CodeToken::Comment, line)];
    }
    let mut pieces: Vec<(CodeToken, &str)> = Vec::new();
    let mut push = |token: CodeToken, text| match pieces.last_mut() {
        Some((CodeToken::Plain, last)) if token == CodeToken::Plain => {
            let begin = last.as_ptr() as usize - line.as_ptr() as usize;
            let length = last.len() + str::len(text);
            *last = &line[begin..begin + length];
        }
        _ => pieces.push((token, text)),
    };
    let mut at = 0;
    while at < line.len() {
        let rest = &line[at..];
        let first = rest.chars().next().unwrap_or(' ');
        let is_word_before = line[..at].chars().next_back().is_some_and(is_word);
        let (token, length) =
            if comment.iter().any(|sign| rest.starts_with(sign)) && !is_inside_word(language, line, at) {
                (
                    CodeToken::Comment,
                    rest.find("*/").filter(|_| rest.starts_with("/*")).map_or(rest.len(), |end| end + 2),
                )
            } else if matches!(first, '"' | '`') || (first == '\'' && is_string_in_quotes(language, rest)) {
                (CodeToken::Text, string_length(rest, first))
            } else if first.is_ascii_digit() && !is_word_before {
                (CodeToken::Number, word_length(rest, |c| c.is_ascii_alphanumeric() || c == '_' || c == '.'))
            } else if is_word(first) && !is_word_before {
                let length = word_length(rest, is_word);
                let word = &rest[..length];
                let is_keyword = match is_caseless {
                    true => keywords.contains(&word.to_ascii_lowercase().as_str()),
                    false => keywords.contains(&word),
                };
                match () {
                    () if is_keyword => (CodeToken::Keyword, length),
                    () if rest[length..].starts_with('(') || rest[length..].starts_with("!(") => {
                        (CodeToken::Call, length)
                    }
                    () => (CodeToken::Plain, length),
                }
            } else {
                (CodeToken::Plain, first.len_utf8())
            };
        push(token, &rest[..length]);
        at += length;
    }
    pieces
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `#` within a word, as in a URL or `$#`, is no comment.
fn is_inside_word(language: LanguageFamily, line: &str, at: usize) -> bool {
    matches!(language, LanguageFamily::Hash(_))
        && line[..at].chars().next_back().is_some_and(|before| !before.is_whitespace())
}

/// In Rust `'a` is a lifetime; a character in quotes is short.
fn is_string_in_quotes(language: LanguageFamily, rest: &str) -> bool {
    language != LanguageFamily::Braces(RUST) || rest[1..].char_indices().take(4).any(|(_, c)| c == '\'')
}

fn string_length(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (i, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return i + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

fn word_length(rest: &str, is_part: impl Fn(char) -> bool) -> usize {
    rest.find(|c| !is_part(c)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_have_their_colours() {
        let seen = |path: &str, line: &str| -> String {
            let all = tokens(LanguageFamily::of(path), line);
            let all = all.iter().filter(|(token, _)| *token != CodeToken::Plain);
            all.map(|(token, text)| format!("{token:?}={text}")).collect::<Vec<_>>().join(" ")
        };
        for (path, line, expected) in [
            (
                "a.rs",
                "let x = call(1, \"a\\\"b\"); // why",
                "Keyword=let Call=call Number=1 Text=\"a\\\"b\" Comment=// why",
            ),
            ("a.rs", "fn f<'a>(c: &'a str) -> char { 'x' }", "Keyword=fn Text='x'"),
            ("a.py", "return 'it' # done", "Keyword=return Text='it' Comment=# done"),
            ("a.sh", "echo $# http://x/#y", ""),
            ("a.sql", "SELECT * FROM t -- all", "Keyword=SELECT Keyword=FROM Comment=-- all"),
            ("a.js", " * in a comment", "Comment= * in a comment"),
            ("a.txt", "let it be", ""),
        ] {
            assert_eq!(seen(path, line), expected, "{path}: {line}");
        }
    }

    proptest! {
        #[test]
        fn no_character_is_lost(line in "\\PC{0,60}", name in prop::sample::select(vec!["a.rs", "a.py", "a.sql", "a.js", "x"])) {
            let all: String = tokens(LanguageFamily::of(name), &line).into_iter().map(|(_, text)| text).collect();
            prop_assert_eq!(all, line);
        }
    }
}
