//! What is wrong with a file of the repository: where, the line itself, and what to do about it.

use std::fmt;

use serde::Serialize;

use crate::{
    config::write_problem,
    text::visible::visible,
    yaml::{TextPlace, Wrong},
};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file or folder, from the top of the repository.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The character in the line, from 1.
    pub column: u32,
    pub what: String,
    /// The line of the file, safe to show.
    pub snippet: Option<String>,
    /// What to do about it.
    pub fix: Option<String>,
}

impl Problem {
    /// Something that is wrong with a file or folder as such.
    pub fn of_file(file: &str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        let file = visible(file).replace('\n', "\\n");
        Self { file, line: 1, column: 1, what: what.into(), snippet: None, fix: Some(fix.into()) }
    }
}

impl Problem {
    /// All of it in one line.
    pub fn line(&self) -> String {
        let place = match &self.snippet {
            Some(_) => format!("`{}`, line {}", self.file, self.line),
            None => format!("`{}`", self.file),
        };
        let fix = self.fix.as_ref().map(|fix| format!("; {fix}")).unwrap_or_default();
        format!("{place}: {}{fix}", self.what)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = TextPlace { line: self.line, column: self.column };
        write_problem(f, &self.file, place, &self.what, self.snippet.as_deref().unwrap_or_default())?;
        match &self.fix {
            Some(fix) => write!(f, "\n  fix: {fix}"),
            None => Ok(()),
        }
    }
}

/// A place that can be complained about when its file is no longer at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    file: String,
    place: TextPlace,
    snippet: Option<String>,
}

impl Spot {
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    pub(crate) fn line(&self) -> u32 {
        self.place.line
    }

    pub(crate) fn problem(&self, what: impl Into<String>, fix: impl Into<String>) -> Problem {
        let Self { file, place: TextPlace { line, column }, snippet } = self.clone();
        Problem { file, line, column, what: what.into(), snippet, fix: Some(fix.into()) }
    }
}

/// A file while it is looked at.
#[derive(Clone, Copy)]
pub(crate) struct CheckedFile<'a> {
    pub(crate) file: &'a str,
    pub(crate) bytes: &'a [u8],
}

impl CheckedFile<'_> {
    pub(crate) fn spot(&self, place: TextPlace) -> Spot {
        let line = self.bytes.split(|b| *b == b'\n').nth(place.line.saturating_sub(1) as usize);
        let snippet = line.map(|line| {
            // Enough bytes for a hundred characters of any kind.
            let text = String::from_utf8_lossy(&line[..line.len().min(400)]);
            let text = text.trim_start_matches('\u{feff}').trim_end();
            visible(&text.chars().take(100).collect::<String>())
        });
        let file = visible(self.file).replace('\n', "\\n");
        Spot { file, place, snippet: snippet.filter(|line| !line.is_empty()) }
    }

    pub(crate) fn problem(
        &self,
        place: TextPlace,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Problem {
        self.spot(place).problem(what, fix)
    }

    pub(crate) fn wrong(&self, wrong: Wrong) -> Problem {
        let fix = if wrong.what.contains("no frontmatter") || wrong.what.contains("not closed") {
            "begin the file with `---`, lines of `key: value`, and `---`"
        } else if wrong.what == "not UTF-8" {
            "save it as UTF-8"
        } else if wrong.what.contains("larger than") {
            "move what is not needed to another file"
        } else {
            "write it in plain YAML: `key: value`, each key once"
        };
        self.problem(wrong.place, wrong.what, fix)
    }
}
