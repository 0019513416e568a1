//! `protect`, and what a path in a configuration file may be: relative, and inside the repository.

use super::{At, Section};
use crate::yaml::Place;

pub(super) fn read_protect(top: &mut Section<'_>) -> Vec<At<String>> {
    let nodes = top.list("protect");
    nodes
        .into_iter()
        .filter_map(|node| {
            let place = node.place;
            let pattern = top.text_of("a pattern in `protect`", node)?;
            is_inside(top, place, &pattern.value).then_some(pattern)
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
