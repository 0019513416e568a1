//! `protect`, and what a path in a configuration file may be: relative, and inside the repository.

use super::{At, Section};
use crate::yaml::Place;

pub(super) fn read_protect(top: &mut Section<'_>) -> Vec<At<String>> {
    patterns(top, "protect")
}

/// The patterns of paths in the list `key`.
pub(super) fn patterns(section: &mut Section<'_>, key: &str) -> Vec<At<String>> {
    let nodes = section.list(key);
    nodes
        .into_iter()
        .filter_map(|node| {
            let place = node.place;
            let pattern = section.text_of(&format!("a pattern in `{key}`"), node)?;
            is_inside(section, place, &pattern.value).then_some(pattern)
        })
        .collect()
}

/// Complains about a path that leads out of the repository.
pub(super) fn is_inside(section: &mut Section<'_>, place: Place, path: &str) -> bool {
    let is_inside = !path.starts_with('/') && path.split('/').all(|part| part != "..");
    if !is_inside {
        section.wrong(place, "a path must be relative and stay inside the repository");
    }
    is_inside
}
