//! One phrase: where it stands in prose, and whether it is denied there.

/// What a phrase's last word may go on with.
const INFLECTIONS: &[&str] = &["", "s", "d", "ed", "es", "ing", "ure", "ures"];

/// Words that deny what follows, or only suppose it.
const DENIALS: &[&str] = &[
    "no", "not", "none", "never", "zero", "0", "without", "nothing", "nobody", "neither", "nor", "cannot",
    "don't", "doesn't", "didn't", "isn't", "aren't", "wasn't", "weren't", "won't", "can't", "haven't",
    "hasn't", "if", "unless", "whenever",
];

/// Words that may stand between a denial and what it denies.
const FILLERS: &[&str] = &[
    "a",
    "an",
    "any",
    "of",
    "the",
    "these",
    "those",
    "our",
    "my",
    "its",
    "this",
    "that",
    "more",
    "other",
    "further",
    "longer",
    "single",
    "one",
    "existing",
    "new",
    "old",
    "is",
    "are",
    "was",
    "were",
    "be",
    "been",
    "being",
    "there",
    "have",
    "has",
    "had",
    "currently",
    "unit",
    "integration",
    "regression",
    "e2e",
    "smoke",
    "end-to-end",
    "api",
    "left",
    "open",
    "known",
    "significant",
    "outstanding",
    "work",
    "item",
    "items",
    "task",
    "tasks",
    "still",
    "remain",
    "remaining",
];

/// What denies a phrase by following it, as in `tests failed: 0`.
const NOTHING: &[&str] = &["0", "none", "nothing", "zero", "n/a", "nobody", "nil"];

/// Why a phrase cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the contradiction phrase `{0}` has no letter that must be there; write words such as `remaining work`"
)]
pub struct PhraseError(pub String);

/// A phrase to look for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Phrase {
    written: String,
    /// In lower case, a blank for any white space.
    letters: Vec<Letter>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Letter {
    is: char,
    optional: bool,
}

impl Phrase {
    pub(super) fn parse(written: &str) -> Result<Self, PhraseError> {
        let mut letters: Vec<Letter> = Vec::new();
        let mut chars = written.trim().chars().peekable();
        while let Some(c) = chars.next() {
            let c = if c == '\\' { chars.next().unwrap_or('\\') } else { c };
            if c.is_whitespace() {
                if letters.last().is_some_and(|letter| letter.is != ' ') {
                    letters.push(Letter { is: ' ', optional: false });
                }
                continue;
            }
            let optional = chars.next_if_eq(&'?').is_some();
            letters.extend(c.to_lowercase().map(|is| Letter { is, optional }));
        }
        if letters.iter().all(|letter| letter.optional || letter.is == ' ') {
            return Err(PhraseError(written.to_owned()));
        }
        Ok(Self { written: written.to_owned(), letters })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.written
    }

    /// Where it first stands in `block` without being denied.
    pub(super) fn first_in(&self, block: &str) -> Option<usize> {
        let mut before = None;
        for (at, c) in block.char_indices() {
            let at_word_start = !before.is_some_and(char::is_alphanumeric) || !c.is_alphanumeric();
            before = Some(c);
            if !at_word_start {
                continue;
            }
            if let Some(rest) = matched(&self.letters, &block[at..])
                && let Some(after) = self.after_inflection(rest)
                && !denied_before(&block[..at])
                && !denied_after(after)
            {
                return Some(at);
            }
        }
        None
    }

    /// `rest` behind the word the phrase ends in, or `None` if it ends in another word.
    fn after_inflection<'a>(&self, rest: &'a str) -> Option<&'a str> {
        if self.letters.last().is_some_and(|letter| !letter.is.is_alphanumeric()) {
            return Some(rest);
        }
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        let ending = rest[..end].to_lowercase();
        INFLECTIONS.contains(&ending.as_str()).then(|| &rest[end..])
    }
}

/// What follows `letters` in `text`, if it starts with them; the longest way of reading them wins.
fn matched<'a>(letters: &[Letter], text: &'a str) -> Option<&'a str> {
    // All ways are followed in step, by the letter each waits for: many optional letters cost no more.
    let reach = |waiting: &mut Vec<usize>, mut next: usize| {
        while !waiting.contains(&next) {
            waiting.push(next);
            if !letters.get(next).is_some_and(|letter| letter.optional) {
                break;
            }
            next += 1;
        }
    };
    let mut waiting = Vec::new();
    reach(&mut waiting, 0);
    let mut end = None;
    for (at, c) in text.char_indices() {
        let mut next = Vec::new();
        for letter in waiting {
            let fits = |expected: &Letter| c == expected.is || c.to_lowercase().eq([expected.is]);
            if letters.get(letter).is_some_and(fits) {
                reach(&mut next, letter + 1);
            }
        }
        waiting = next;
        if waiting.contains(&letters.len()) {
            end = Some(at + c.len_utf8());
        }
        if waiting.is_empty() {
            break;
        }
    }
    end.map(|end| &text[end..])
}

/// Whether the words right before a phrase deny it.
fn denied_before(before: &str) -> bool {
    for word in before.split(' ').rev().skip_while(|word| word.is_empty()) {
        // A comma or a full stop ends what a denial is about: "No, tests fail".
        if word.ends_with([',', '.', ';', ':', '!', '?', ')']) {
            return false;
        }
        let word =
            word.trim_start_matches(['(', '[', '_', '-', '\'']).trim_end_matches(['_', ']']).to_lowercase();
        if DENIALS.contains(&word.as_str()) {
            return true;
        }
        let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number && !FILLERS.contains(&word.as_str()) {
            return false;
        }
    }
    false
}

/// Whether the word right after a phrase says that there is nothing of it.
fn denied_after(after: &str) -> bool {
    let after = after.trim_start_matches([' ', ':', '=', '-', '\u{2013}', '\u{2014}', '|', '(', '_']);
    let word = after.split([' ', ',', ';', ')', '|', '!']).next().unwrap_or_default();
    let word = word.trim_end_matches('.').to_lowercase();
    NOTHING.contains(&word.as_str())
}
