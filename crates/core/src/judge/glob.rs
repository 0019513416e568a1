//! Which paths a protected-path pattern names.
//!
//! Patterns are read from the workspace root, so `*.lock` names files at the root only and `**/*.lock`
//! those at any depth:
//!
//! | written | names |
//! |---|---|
//! | `*`, `?` | any characters, one character, within one path component |
//! | `**` | any characters, `/` among them; `**/` and `/**/` also stand for no directory at all |
//! | `[a-z]`, `[!a]`, `[^a]` | one character of, or not of, a set; never `/` |
//! | `{a,b}` | either, nested as you like |
//! | `\x` | the character `x` itself |
//! | `tests`, `tests/`, `tests/**` | `tests` itself and everything below |
//!
//! Naming the directory itself with everything below is on purpose: an agent that replaces it by a link
//! replaces all that is in it.
//!
//! A pattern becomes a list of instructions run over the path in step with all alternatives at once,
//! so a match costs at most pattern length times path length. Most paths are ruled out before, by a text that every path
//! of the pattern holds.
//!
//! `globset` was tried instead and names other paths: see `docs/design/0014-libraries.md`.

use std::borrow::Cow;

use memchr::memmem;
use serde::{Deserialize, Serialize};

/// The longest pattern taken. Longer ones are no patterns of a person, and nesting costs stack.
const MAX_CHARS: usize = 1000;

/// A set of patterns; a path matches if one of them names it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Globs {
    globs: Vec<Glob>,
}

#[derive(Clone, Debug, PartialEq)]
struct Glob {
    pattern: String,
    /// What every path it names starts with.
    prefix: String,
    /// The longest text that every path it names holds somewhere; empty if there is none.
    part: String,
    code: Vec<GlobStep>,
}

/// A pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a usable path pattern: {problem}")]
pub struct GlobError {
    /// The pattern as it was written.
    pub pattern: String,
    /// What is wrong with it.
    pub problem: GlobProblem,
}

/// What is wrong with a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobProblem {
    #[error("it is blank; `**` names everything")]
    Blank,
    #[error("it points outside the workspace; write it from the workspace root, without `..` or `~`")]
    Outside,
    #[error("exceptions with `!` are not supported; write `\\!` for a name that starts with it")]
    Negated,
    #[error("a `[` is not closed; write `\\[` for the character itself")]
    UnclosedClass,
    #[error("a range in `[…]` ends before it begins")]
    BackwardRange,
    #[error("named classes such as `[:alpha:]` are not supported; write the range")]
    NamedClass,
    #[error("a `{{` is not closed; write `\\{{` for the character itself")]
    UnclosedBrace,
    #[error("it ends with a `\\` that escapes nothing")]
    TrailingEscape,
    #[error("it is longer than {MAX_CHARS} characters")]
    TooLong,
}

#[derive(Clone, Debug, PartialEq)]
enum GlobStep {
    Char(char),
    /// Any character but `/`.
    Any,
    Anything,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    Split(usize, usize),
    Jump(usize),
    Matched,
}

impl Globs {
    /// The set of `patterns`, or what is wrong with the first bad one.
    pub fn parse(patterns: &[String]) -> Result<Self, GlobError> {
        let globs = patterns
            .iter()
            .map(|pattern| {
                Glob::parse(pattern).map_err(|problem| GlobError { pattern: pattern.clone(), problem })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { globs })
    }

    /// Whether there is no pattern at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.globs.is_empty()
    }

    /// The patterns as they were written.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.globs.iter().map(|glob| glob.pattern.as_str())
    }

    /// Whether a pattern names `path`, which is relative to the workspace root.
    #[must_use]
    pub fn matches(&self, path: impl AsRef<[u8]>) -> bool {
        self.matching(path).is_some()
    }

    /// The first pattern that names `path`, as it was written.
    #[must_use]
    pub fn matching(&self, path: impl AsRef<[u8]>) -> Option<&str> {
        let path = readable_path(path.as_ref());
        self.globs.iter().find(|glob| glob.matches(&path)).map(|glob| glob.pattern.as_str())
    }

    /// The patterns that name none of `paths`, in the order they were given.
    pub fn unmatched<P: AsRef<[u8]>>(&self, paths: impl IntoIterator<Item = P>) -> Vec<&str> {
        let mut waiting: Vec<&Glob> = self.globs.iter().collect();
        for path in paths {
            if waiting.is_empty() {
                break;
            }
            let path = readable_path(path.as_ref());
            waiting.retain(|glob| !glob.matches(&path));
        }
        waiting.into_iter().map(|glob| glob.pattern.as_str()).collect()
    }
}

impl TryFrom<Vec<String>> for Globs {
    type Error = GlobError;

    fn try_from(patterns: Vec<String>) -> Result<Self, GlobError> {
        Self::parse(&patterns)
    }
}

impl From<Globs> for Vec<String> {
    fn from(globs: Globs) -> Self {
        globs.globs.into_iter().map(|glob| glob.pattern).collect()
    }
}

/// A path as text. Bytes that are not UTF-8 become a character that `?` and `*` match.
fn readable_path(path: &[u8]) -> Cow<'_, str> {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    String::from_utf8_lossy(path.strip_suffix(b"/").unwrap_or(path))
}

impl Glob {
    fn parse(pattern: &str) -> Result<Self, GlobProblem> {
        if pattern.trim().is_empty() {
            return Err(GlobProblem::Blank);
        }
        if pattern.chars().count() > MAX_CHARS {
            return Err(GlobProblem::TooLong);
        }
        if pattern.starts_with('!') {
            return Err(GlobProblem::Negated);
        }
        if pattern == "~" || pattern.starts_with("~/") || has_parent(pattern) {
            return Err(GlobProblem::Outside);
        }
        let (text, everything_below) = normalised(pattern)?;
        let mut compiler =
            Compiler { rest: text.chars().peekable(), code: Vec::new(), literals: vec![String::new()] };
        compiler.sequence(0, true)?;
        let Compiler { mut code, literals, .. } = compiler;
        let part = literals.into_iter().max_by_key(String::len).unwrap_or_default();
        if everything_below {
            let below = code.len();
            code.extend([
                GlobStep::Split(below + 1, below + 5),
                GlobStep::Char('/'),
                GlobStep::Split(below + 3, below + 5),
                GlobStep::Anything,
                GlobStep::Jump(below + 2),
            ]);
        }
        code.push(GlobStep::Matched);
        let prefix = code
            .iter()
            .map_while(|step| match step {
                GlobStep::Char(c) => Some(*c),
                _ => None,
            })
            .collect();
        Ok(Self { pattern: pattern.to_owned(), prefix, part, code })
    }

    fn matches(&self, path: &str) -> bool {
        if !path.starts_with(&self.prefix) || memmem::find(path.as_bytes(), self.part.as_bytes()).is_none() {
            return false;
        }
        let mut now = ActiveSteps::new(self.code.len());
        let mut next = ActiveSteps::new(self.code.len());
        now.add(0, &self.code);
        for c in path.chars() {
            if now.at.is_empty() {
                return false;
            }
            for &at in &now.at {
                let goes_on = match &self.code[at] {
                    GlobStep::Char(expected) => *expected == c,
                    GlobStep::Any => c != '/',
                    GlobStep::Anything => true,
                    GlobStep::Class { negated, ranges } => {
                        c != '/' && *negated != ranges.iter().any(|(low, high)| (*low..=*high).contains(&c))
                    }
                    GlobStep::Split(..) | GlobStep::Jump(_) | GlobStep::Matched => false,
                };
                if goes_on {
                    next.add(at + 1, &self.code);
                }
            }
            std::mem::swap(&mut now, &mut next);
            next.clear();
        }
        now.at.iter().any(|&at| self.code[at] == GlobStep::Matched)
    }
}

/// The instructions a match has come to, each once.
struct ActiveSteps {
    at: Vec<usize>,
    seen: Vec<bool>,
    stack: Vec<usize>,
}

impl ActiveSteps {
    fn new(len: usize) -> Self {
        Self { at: Vec::new(), seen: vec![false; len], stack: Vec::new() }
    }

    fn add(&mut self, at: usize, code: &[GlobStep]) {
        self.stack.push(at);
        while let Some(at) = self.stack.pop() {
            if std::mem::replace(&mut self.seen[at], true) {
                continue;
            }
            match code[at] {
                GlobStep::Split(left, right) => self.stack.extend([left, right]),
                GlobStep::Jump(to) => self.stack.push(to),
                _ => {}
            }
            // The jumps are kept too, so that `clear` finds all that was seen.
            self.at.push(at);
        }
    }

    fn clear(&mut self) {
        for at in self.at.drain(..) {
            self.seen[at] = false;
        }
    }
}

fn has_parent(pattern: &str) -> bool {
    pattern.split(['/', '{', ',', '}', '\\']).any(|component| component == "..")
}

/// The pattern without what says nothing (`/` and `./` in front, `//`, `/./`), and whether it names
/// everything below as well.
fn normalised(pattern: &str) -> Result<(String, bool), GlobProblem> {
    let mut components: Vec<&str> =
        pattern.split('/').filter(|component| !component.is_empty() && *component != ".").collect();
    let mut everything_below = pattern.ends_with('/');
    while components.len() > 1 && components.last() == Some(&"**") {
        components.pop();
        everything_below = true;
    }
    let Some(last) = components.last() else {
        return Err(GlobProblem::Blank);
    };
    everything_below |= !has_wildcard(last);
    Ok((components.join("/"), everything_below))
}

fn has_wildcard(component: &str) -> bool {
    let mut chars = component.chars();
    while let Some(c) = chars.next() {
        match c {
            '*' | '?' | '[' => return true,
            '\\' => drop(chars.next()),
            _ => {}
        }
    }
    false
}

struct Compiler<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    code: Vec<GlobStep>,
    /// The runs of plain characters outside braces: a path must hold each of them.
    literals: Vec<String>,
}

impl Compiler<'_> {
    /// Compiles up to the end, or to the `,` or `}` that ends an alternative, which is left in place.
    fn sequence(&mut self, depth: usize, mut at_start: bool) -> Result<(), GlobProblem> {
        while let Some(&c) = self.rest.peek() {
            if depth > 0 && (c == ',' || c == '}') {
                return Ok(());
            }
            self.rest.next();
            if matches!(c, '?' | '*' | '[' | '{') {
                self.literals.push(String::new());
            }
            match c {
                '\\' => {
                    let escaped = self.rest.next().ok_or(GlobProblem::TrailingEscape)?;
                    self.literal(escaped, depth);
                }
                '?' => self.code.push(GlobStep::Any),
                '*' => self.stars(at_start),
                '[' => {
                    let class = self.class()?;
                    self.code.push(class);
                }
                '{' => self.alternatives(depth, at_start)?,
                _ => self.literal(c, depth),
            }
            at_start = c == '/' || (c == '*' && matches!(self.code.last(), Some(GlobStep::Char('/'))));
        }
        if depth > 0 { Err(GlobProblem::UnclosedBrace) } else { Ok(()) }
    }

    fn literal(&mut self, c: char, depth: usize) {
        self.code.push(GlobStep::Char(c));
        if depth == 0
            && let Some(run) = self.literals.last_mut()
        {
            run.push(c);
        }
    }

    /// Reads what follows the first `*` of a run of them.
    fn stars(&mut self, at_start: bool) {
        let mut any = GlobStep::Any;
        while self.rest.next_if_eq(&'*').is_some() {
            any = GlobStep::Anything;
        }
        let whole_component = any == GlobStep::Anything && at_start && self.rest.next_if_eq(&'/').is_some();
        let begin = self.code.len();
        if whole_component {
            // No directory at all, or any number of them.
            self.code.extend([
                GlobStep::Split(begin + 1, begin + 5),
                GlobStep::Split(begin + 2, begin + 4),
                any,
                GlobStep::Jump(begin + 1),
                GlobStep::Char('/'),
            ]);
        } else {
            self.code.extend([GlobStep::Split(begin + 1, begin + 3), any, GlobStep::Jump(begin)]);
        }
    }

    /// Reads a class, after its `[`.
    fn class(&mut self) -> Result<GlobStep, GlobProblem> {
        let negated = self.rest.next_if(|c| matches!(c, '!' | '^')).is_some();
        let mut ranges = Vec::new();
        loop {
            let low = match self.rest.next().ok_or(GlobProblem::UnclosedClass)? {
                // A `]` in front stands for itself.
                ']' if !ranges.is_empty() => return Ok(GlobStep::Class { negated, ranges }),
                '[' if self.rest.peek() == Some(&':') => return Err(GlobProblem::NamedClass),
                '\\' => self.rest.next().ok_or(GlobProblem::UnclosedClass)?,
                c => c,
            };
            let mut high = low;
            if self.rest.peek() == Some(&'-') {
                self.rest.next();
                match self.rest.peek() {
                    // A `-` at the end stands for itself.
                    Some(']') => ranges.push(('-', '-')),
                    Some(_) => {
                        high = self.rest.next().ok_or(GlobProblem::UnclosedClass)?;
                        if high == '\\' {
                            high = self.rest.next().ok_or(GlobProblem::UnclosedClass)?;
                        }
                    }
                    None => return Err(GlobProblem::UnclosedClass),
                }
            }
            if high < low {
                return Err(GlobProblem::BackwardRange);
            }
            ranges.push((low, high));
        }
    }

    /// Reads alternatives, after their `{`.
    fn alternatives(&mut self, depth: usize, at_start: bool) -> Result<(), GlobProblem> {
        let mut ends = Vec::new();
        loop {
            let split = self.code.len();
            self.code.push(GlobStep::Split(split + 1, split + 1));
            self.sequence(depth + 1, at_start)?;
            if self.rest.next() != Some(',') {
                break;
            }
            ends.push(self.code.len());
            self.code.push(GlobStep::Jump(0));
            self.code[split] = GlobStep::Split(split + 1, self.code.len());
        }
        let end = self.code.len();
        for jump in ends {
            self.code[jump] = GlobStep::Jump(end);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "glob_tests.rs"]
mod tests;
