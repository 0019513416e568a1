//! `permissions`: what an agent may do without asking.

use super::{At, ConfigSection};

pub(super) const KEYS: [&str; 2] = ["unattended", "allow_root"];

/// What a file says about permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionsSection {
    /// Whether agents are started in the mode in which they ask the user nothing.
    pub unattended: Option<At<bool>>,
    /// Whether an agent that refuses to do so as root may be told that it is in a sandbox.
    pub allow_root: Option<At<bool>>,
}

pub(super) fn read(top: &mut ConfigSection<'_>) -> PermissionsSection {
    let Some(mut section) = top.section("permissions", &KEYS) else { return PermissionsSection::default() };
    PermissionsSection { unattended: section.flag("unattended"), allow_root: section.flag("allow_root") }
}
