//! Source text with comments and strings blanked out, so that what is left can be scanned for code.

/// A language tests are known in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Python,
    JavaScript,
    Go,
}

impl Language {
    /// The language of the tests in the file at `path`, if a runner would look for tests there.
    pub(super) fn of_tests_in(path: &str) -> Option<Self> {
        let (dirs, file) = path.rsplit_once('/').unwrap_or(("", path));
        let (stem, extension) = file.rsplit_once('.')?;
        let in_dir = |names: &[&str]| dirs.split('/').any(|dir| names.contains(&dir));
        let word_of_stem = |names: &[&str]| stem.split(['.', '_', '-']).any(|word| names.contains(&word));
        match extension {
            "rs" => Some(Self::Rust),
            "go" => stem.ends_with("_test").then_some(Self::Go),
            "py" => (stem.starts_with("test")
                || stem.ends_with("_test")
                || stem.ends_with("_tests")
                || in_dir(&["test", "tests", "testing"]))
            .then_some(Self::Python),
            "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx" => {
                (word_of_stem(&["test", "tests", "spec", "specs", "cy", "e2e"])
                    || in_dir(&["test", "tests", "__tests__", "spec", "specs", "e2e", "cypress"]))
                .then_some(Self::JavaScript)
            }
            _ => None,
        }
    }
}

/// A text and, at the same places, its code.
pub(crate) struct SourceCode<'a> {
    pub(crate) text: &'a str,
    /// As long as the text: a blank for every byte of a comment, a string or a letter beyond ASCII. Line
    /// ends and quotes are kept.
    pub(crate) code: Vec<u8>,
    /// Starts of lines that lie within a string.
    pub(crate) within_string: Vec<usize>,
}

impl<'a> SourceCode<'a> {
    pub(crate) fn new(text: &'a str, language: Language) -> Self {
        let bytes = text.as_bytes();
        let mut masker = Masker { bytes, code: bytes.to_vec(), within_string: Vec::new(), last: 0 };
        let mut at = 0;
        while at < bytes.len() {
            at = masker.next(at, language);
        }
        for byte in &mut masker.code {
            if !byte.is_ascii() {
                *byte = b' ';
            }
        }
        Self { text, code: masker.code, within_string: masker.within_string }
    }

    /// The word that begins at `at`; empty if none does.
    pub(super) fn word(&self, at: usize) -> &str {
        let len = self.code[at..].iter().take_while(|byte| is_word(**byte)).count();
        self.text.get(at..at + len).unwrap_or_default()
    }

    /// The first place from `at` on that is not white space.
    pub(super) fn skip_white(&self, at: usize) -> usize {
        at + self.code[at.min(self.code.len())..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
    }

    /// The place of the bracket that closes the one at `open`, or the end of the text.
    pub(crate) fn closing(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for (at, byte) in self.code.iter().enumerate().skip(open) {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return at;
                    }
                }
                _ => {}
            }
        }
        self.code.len()
    }

    /// The code between two places.
    pub(crate) fn code_between(&self, start: usize, end: usize) -> String {
        let end = end.min(self.code.len());
        String::from_utf8_lossy(&self.code[start.min(end)..end]).into_owned()
    }

    /// The text between two places.
    pub(super) fn text_between(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end.min(self.text.len())).unwrap_or_default()
    }
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

struct Masker<'a> {
    bytes: &'a [u8],
    code: Vec<u8>,
    within_string: Vec<usize>,
    /// The last byte of code that is not white space.
    last: u8,
}

impl Masker<'_> {
    /// Reads what begins at `at`; where the next thing begins.
    fn next(&mut self, at: usize, language: Language) -> usize {
        use Language::*;
        let rest = &self.bytes[at..];
        let starts = |text: &str| rest.starts_with(text.as_bytes());
        let slash_comments = language != Python;
        if (slash_comments && starts("//")) || (language == Python && starts("#")) {
            let end = memchr::memchr(b'\n', rest).map_or(self.bytes.len(), |end| at + end);
            return self.blank(at, end);
        }
        if slash_comments && starts("/*") {
            return self.block_comment(at, language == Rust);
        }
        let byte = rest[0];
        let end = match (language, byte) {
            (Python, b'"' | b'\'') => {
                let triple = [byte; 3];
                let quote = if rest.starts_with(&triple) { &triple[..] } else { &triple[..1] };
                Some(self.string(at, quote, true, quote.len() == 3))
            }
            (Rust, b'r') if !self.within_word(at) || self.after_b(at) => self.raw_string(at),
            (Rust, b'\'') => self.char_literal(at),
            (Rust, b'"') => Some(self.string(at, b"\"", true, true)),
            (Go, b'`') => Some(self.string(at, b"`", false, true)),
            (JavaScript, b'`') => Some(self.template(at)),
            (Go | JavaScript, b'"' | b'\'') => Some(self.string(at, &[byte], true, false)),
            (JavaScript, b'/') if self.regex_may_begin() => self.regex(at),
            _ => None,
        };
        if !byte.is_ascii_whitespace() {
            self.last = byte;
        }
        end.unwrap_or(at + 1)
    }

    /// Blanks what lies between; its end.
    fn blank(&mut self, start: usize, end: usize) -> usize {
        for byte in &mut self.code[start..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        end
    }

    fn block_comment(&mut self, start: usize, nested: bool) -> usize {
        let mut depth = 1;
        let mut at = start + 2;
        while at < self.bytes.len() && depth > 0 {
            let rest = &self.bytes[at..];
            if rest.starts_with(b"*/") {
                depth -= 1;
                at += 2;
            } else if nested && rest.starts_with(b"/*") {
                depth += 1;
                at += 2;
            } else {
                at += 1;
            }
        }
        self.blank(start, at)
    }

    /// A string that begins at `start` with `quote`. One that may not span lines ends with its line.
    fn string(&mut self, start: usize, quote: &[u8], escapes: bool, spans_lines: bool) -> usize {
        let inside = start + quote.len();
        let mut at = inside;
        while at < self.bytes.len() {
            let byte = self.bytes[at];
            if self.bytes[at..].starts_with(quote) {
                self.blank(inside, at);
                return at + quote.len();
            }
            if byte == b'\\' && escapes {
                if self.bytes.get(at + 1) == Some(&b'\n') {
                    self.within_string.push(at + 2);
                }
                at += 1;
            } else if byte == b'\n' {
                if !spans_lines {
                    break;
                }
                self.within_string.push(at + 1);
            }
            at += 1;
        }
        let end = at.min(self.bytes.len());
        self.blank(inside.min(end), end)
    }

    fn within_word(&self, at: usize) -> bool {
        at > 0 && is_word(self.bytes[at - 1])
    }

    /// Whether the letter at `at` follows the `b` or `c` of a byte or C string.
    fn after_b(&self, at: usize) -> bool {
        at > 0 && matches!(self.bytes[at - 1], b'b' | b'c') && !self.within_word(at - 1)
    }

    /// Skips a raw string, `r"…"` or `r#"…"#`.
    fn raw_string(&mut self, at: usize) -> Option<usize> {
        let hashes = self.bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
        let open = at + 1 + hashes;
        if self.bytes.get(open) != Some(&b'"') {
            return None;
        }
        let mut close = vec![b'"'];
        close.resize(1 + hashes, b'#');
        let end = memchr::memmem::find(&self.bytes[open + 1..], &close).map(|end| open + 1 + end);
        let end = end.unwrap_or(self.bytes.len());
        self.blank(open + 1, end);
        Some((end + close.len()).min(self.bytes.len()))
    }

    /// `'x'` and `'\n'`, but not the lifetime `'a`.
    fn char_literal(&mut self, at: usize) -> Option<usize> {
        let rest = &self.bytes[at + 1..];
        let close = if rest.first() == Some(&b'\\') {
            rest.iter().skip(2).take(10).position(|byte| *byte == b'\'')? + 2
        } else {
            // A letter beyond ASCII takes up to four bytes.
            let close = rest.iter().take(5).position(|byte| *byte == b'\'')?;
            let is_one = std::str::from_utf8(&rest[..close]).is_ok_and(|text| text.chars().count() == 1);
            is_one.then_some(close)?
        };
        self.blank(at + 1, at + 1 + close);
        Some(at + close + 2)
    }

    /// A template with all that is inserted into it.
    fn template(&mut self, start: usize) -> usize {
        let mut at = start + 1;
        let mut depth = 0_usize;
        while at < self.bytes.len() {
            match self.bytes[at] {
                b'\\' => at += 1,
                b'`' if depth == 0 => {
                    self.blank(start + 1, at);
                    return at + 1;
                }
                b'$' if self.bytes.get(at + 1) == Some(&b'{') => {
                    depth += 1;
                    at += 1;
                }
                b'{' if depth > 0 => depth += 1,
                b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            at += 1;
        }
        self.blank(start + 1, self.bytes.len())
    }

    /// A `/` after a value divides; elsewhere it begins a regular expression.
    fn regex_may_begin(&self) -> bool {
        matches!(
            self.last,
            0 | b'(' | b',' | b'=' | b':' | b'[' | b'!' | b'&' | b'|' | b'?' | b'{' | b'}' | b';' | b'>'
        )
    }

    fn regex(&mut self, start: usize) -> Option<usize> {
        let mut at = start + 1;
        let mut in_class = false;
        loop {
            match self.bytes.get(at)? {
                b'\n' => return None,
                b'\\' => at += 1,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => return Some(self.blank(start, at + 1)),
                _ => {}
            }
            at += 1;
        }
    }
}
