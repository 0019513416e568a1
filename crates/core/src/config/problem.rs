//! What is wrong with a file, each with its place and the line it stands in.

use std::fmt;

use crate::{
    text::visible::visible,
    yaml::{TextPlace, Wrong},
};

/// How many problems are shown at once.
const SHOWN: usize = 20;

/// One thing that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    pub place: TextPlace,
    pub what: String,
    /// The line of the file, safe to show.
    pub snippet: String,
}

/// Everything that is wrong with a file, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems {
    /// The file, as it is shown to people.
    pub file: String,
    /// What is wrong; never empty once it is an error.
    pub list: Vec<ConfigProblem>,
    lines: Vec<String>,
}

impl Problems {
    pub(super) fn new(file: &str, bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(crate::yaml::MAX_BYTES)]);
        let text = text.trim_start_matches('\u{feff}');
        Self {
            file: file.to_owned(),
            list: Vec::new(),
            lines: text.lines().map(|line| line.chars().take(100).collect()).collect(),
        }
    }

    pub(super) fn extend(&mut self, wrong: impl IntoIterator<Item = Wrong>) {
        for Wrong { place, what } in wrong {
            self.add(place, what);
        }
    }

    pub(super) fn add(&mut self, place: TextPlace, what: impl Into<String>) {
        let line = self.lines.get(place.line as usize - 1).map(String::as_str).unwrap_or_default();
        self.list.push(ConfigProblem { place, what: what.into(), snippet: visible(line) });
    }

    /// What was read, if nothing is wrong with it.
    pub(super) fn or<T>(mut self, read: T) -> Result<T, Self> {
        if self.list.is_empty() {
            return Ok(read);
        }
        self.list.sort_by_key(|problem| problem.place);
        Err(self)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, ConfigProblem { place, what, snippet }) in self.list.iter().take(SHOWN).enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write_problem(f, &self.file, *place, what, snippet)?;
        }
        match self.list.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n… and {more} more"),
        }
    }
}

/// One problem: its place, what it is, and the line with a mark below the place.
pub(crate) fn write_problem(
    f: &mut fmt::Formatter<'_>,
    file: &str,
    TextPlace { line, column }: TextPlace,
    what: &str,
    snippet: &str,
) -> fmt::Result {
    write!(f, "{file}:{line}:{column}: {what}")?;
    if !snippet.trim().is_empty() {
        let width = line.to_string().len();
        let indent = (column as usize).saturating_sub(1).min(snippet.chars().count());
        write!(f, "\n  {line} | {snippet}\n  {:width$} | {:indent$}^", "", "")?;
    }
    Ok(())
}
