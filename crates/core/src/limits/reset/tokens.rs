//! An error text as words, numbers and marks, and a reader over them that can step back.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Word,
    /// ASCII digits, with a fraction or without.
    Number,
    /// Any other character that is no space.
    Mark,
}

/// A piece of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeToken<'t> {
    pub(super) kind: TokenKind,
    pub(super) text: &'t str,
    pub(super) start: usize,
}

impl TimeToken<'_> {
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// Splits a text. `retry-after`, `retry_after` and `retryAfter` are the same two words: fields of JSON and
/// headers are read like prose.
pub(super) fn tokens(text: &str) -> Vec<TimeToken<'_>> {
    let bytes = text.as_bytes();
    let is_letter = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphabetic);
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        let start = at;
        at += character.len_utf8();
        let kind = if character.is_ascii_alphabetic() {
            while is_letter(at) && !(bytes[at - 1].is_ascii_lowercase() && bytes[at].is_ascii_uppercase()) {
                at += 1;
            }
            TokenKind::Word
        } else if character.is_ascii_digit() {
            while is_digit(at) {
                at += 1;
            }
            if bytes.get(at) == Some(&b'.') && is_digit(at + 1) {
                at += 1;
                while is_digit(at) {
                    at += 1;
                }
            }
            TokenKind::Number
        } else if character.is_whitespace()
            || (matches!(character, '-' | '_') && start > 0 && is_letter(start - 1) && is_letter(at))
        {
            continue;
        } else {
            TokenKind::Mark
        };
        found.push(TimeToken { kind, text: &text[start..at], start });
    }
    found
}

/// A place in the tokens of a text.
#[derive(Clone, Copy)]
pub(super) struct TimeReader<'t> {
    text: &'t str,
    tokens: &'t [TimeToken<'t>],
    at: usize,
}

impl<'t> TimeReader<'t> {
    pub(super) fn new(text: &'t str, tokens: &'t [TimeToken<'t>], at: usize) -> Self {
        Self { text, tokens, at }
    }

    pub(super) fn peek(&self) -> Option<&'t TimeToken<'t>> {
        self.tokens.get(self.at)
    }

    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    /// The word here, in small letters.
    pub(super) fn word(&self) -> Option<String> {
        self.peek().filter(|token| token.kind == TokenKind::Word).map(|token| token.text.to_ascii_lowercase())
    }

    /// Takes the word here if it is one of these.
    pub(super) fn take_word(&mut self, words: &[&str]) -> Option<String> {
        let word = self.word().filter(|word| words.contains(&word.as_str()))?;
        self.at += 1;
        Some(word)
    }

    /// Takes the mark here if it is one of these.
    pub(super) fn take_mark(&mut self, marks: &[&str]) -> bool {
        let is_there =
            self.peek().is_some_and(|token| token.kind == TokenKind::Mark && marks.contains(&token.text));
        self.at += usize::from(is_there);
        is_there
    }

    /// Takes the number here.
    pub(super) fn take_number(&mut self) -> Option<&'t str> {
        let token = self.peek().filter(|token| token.kind == TokenKind::Number)?;
        self.at += 1;
        Some(token.text)
    }

    /// Takes a whole number of at most `digits` digits.
    pub(super) fn take_whole(&mut self, digits: usize) -> Option<i64> {
        let number =
            self.peek().filter(|token| token.kind == TokenKind::Number && token.text.len() <= digits)?;
        let value = number.text.parse().ok()?;
        self.at += 1;
        Some(value)
    }

    /// The white space before the token here.
    pub(super) fn gap(&self) -> &'t str {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        match (before, self.peek()) {
            (Some(before), Some(here)) => &self.text[before.end()..here.start],
            _ => "",
        }
    }

    /// The text from here on.
    pub(super) fn rest(&self) -> &'t str {
        self.peek().map_or("", |token| &self.text[token.start..])
    }

    /// Goes on behind this many bytes from here.
    pub(super) fn skip_bytes(&mut self, length: usize) {
        let Some(end) = self.peek().map(|token| token.start + length) else { return };
        while self.peek().is_some_and(|token| token.start < end) {
            self.at += 1;
        }
    }

    /// The longest piece from here whose characters all are of a kind.
    pub(super) fn run(&self, belongs: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        &rest[..rest.find(|character| !belongs(character)).unwrap_or(rest.len())]
    }
}
