//! `limits`: where a loop ends at the latest.

use super::{At, Section};
use crate::duration::Millis;

pub(super) const KEYS: [&str; 3] = ["max_iterations", "max_time", "stuck_after"];

/// What a file says about limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Charged iterations at most.
    pub max_iterations: Option<At<u32>>,
    /// How long agents, checks and delays may take together.
    pub max_time: Option<At<Millis>>,
    /// Iterations without progress after which a loop stops.
    pub stuck_after: Option<At<u32>>,
}

pub(super) fn read(top: &mut Section<'_>) -> Limits {
    let Some(mut section) = top.section("limits", &KEYS) else { return Limits::default() };
    Limits {
        max_iterations: section.count("max_iterations", 1),
        max_time: section.duration("max_time"),
        stuck_after: section.count("stuck_after", 1),
    }
}
