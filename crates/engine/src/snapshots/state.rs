//! What a loop's shadow remembers between two runs of dacapo.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::git::{WorkspaceError, replace};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ShadowState {
    pub(crate) start: Option<String>,
    pub(crate) last: Option<String>,
    /// The commit that HEAD named when the loop began, and its tree.
    pub(crate) head: Option<(String, String)>,
    /// Whether the user had staged anything when the loop began.
    pub(crate) had_staged: bool,
    /// Whether only a part of the tree is checked out.
    pub(crate) is_sparse: bool,
    /// The filters when the loop began.
    pub(crate) filters: Vec<(String, String)>,
    /// The configuration when the loop began, as a number.
    pub(crate) config: u64,
    /// `info/exclude` when the loop began, as a number.
    pub(crate) exclude: u64,
    /// Whether any rule about ignored files was edited since.
    pub(crate) rules_moved: bool,
}

impl ShadowState {
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, WorkspaceError> {
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|e| WorkspaceError::Damaged { path: path.to_owned(), why: e.to_string() }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(WorkspaceError::io("read", path)(error)),
        }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), WorkspaceError> {
        let bytes = serde_json::to_vec(self)
            .map_err(|e| WorkspaceError::Damaged { path: path.to_owned(), why: e.to_string() })?;
        replace(path, &bytes)
    }
}

/// The bytes of a file as a number; a missing file is an empty one.
pub(crate) fn fingerprint_of(path: &Path) -> u64 {
    dacapo_core::ids::fingerprint(&fs::read(path).unwrap_or_default())
}
