//! `protect`, and what a path in a configuration file may be: relative, and inside the repository.

use super::{At, Config, ConfigSection};
use crate::{
    problem::{CheckedFile, Problem, Spot},
    yaml::TextPlace,
};

/// What a pattern of protected paths begins with that may match nothing.
const OPTIONAL: char = '?';

/// The pattern behind its `?`, if it may match nothing.
pub fn optional_pattern(pattern: &str) -> Option<&str> {
    pattern.strip_prefix(OPTIONAL)
}

impl Config {
    /// What is wrong with this file if it has this pattern, and no file matches it.
    pub fn protects_nothing(&self, pattern: &str) -> Option<Problem> {
        let at = self.protect.iter().position(|known| known.value == pattern)?;
        let what = format!("the pattern `{pattern}` protects nothing: no file matches it");
        let fix =
            format!("name files that are there, or write `{OPTIONAL}{pattern}`, which may match nothing yet");
        Some(self.protect_spots.get(at)?.problem(what, fix))
    }
}

/// The patterns of `protect`, and where each of them stands.
pub(super) fn read_protect(
    top: &mut ConfigSection<'_>,
    source: CheckedFile<'_>,
) -> (Vec<At<String>>, Vec<Spot>) {
    let placed = placed_patterns(top, "protect").into_iter();
    placed.map(|(place, pattern)| (pattern, source.spot(place))).unzip()
}

/// The patterns of paths in the list `key`.
pub(super) fn patterns(section: &mut ConfigSection<'_>, key: &str) -> Vec<At<String>> {
    placed_patterns(section, key).into_iter().map(|(_, pattern)| pattern).collect()
}

fn placed_patterns(section: &mut ConfigSection<'_>, key: &str) -> Vec<(TextPlace, At<String>)> {
    let nodes = section.list(key);
    nodes
        .into_iter()
        .filter_map(|node| {
            let place = node.place;
            let pattern = section.text_of(&format!("a pattern in `{key}`"), node)?;
            is_inside(section, place, &pattern.value).then_some((place, pattern))
        })
        .collect()
}

/// Complains about a path that leads out of the repository.
pub(super) fn is_inside(section: &mut ConfigSection<'_>, place: TextPlace, path: &str) -> bool {
    let is_inside = !path.starts_with('/') && path.split('/').all(|part| part != "..");
    if !is_inside {
        section.wrong(place, "a path must be relative and stay inside the repository");
    }
    is_inside
}
