//! `snapshots`: how long the workspace's earlier states are kept.

use super::{At, ConfigSection};
use crate::duration::Millis;

pub(super) const KEYS: [&str; 1] = ["keep"];

/// What a file says about snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshots {
    /// How long they are kept.
    pub keep: Option<At<Millis>>,
}

pub(super) fn read(top: &mut ConfigSection<'_>) -> Snapshots {
    let Some(mut section) = top.section("snapshots", &KEYS) else { return Snapshots::default() };
    Snapshots { keep: section.duration("keep") }
}
