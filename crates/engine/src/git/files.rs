//! Files that git reads, written by dacapo.

use std::{fs, path::Path};

use super::error::WorkspaceError;

/// Writes the whole file or none of it.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), WorkspaceError> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, bytes)
        .and_then(|()| fs::rename(&fresh, path))
        .map_err(WorkspaceError::io("write", path))
}

/// `path` as a pattern for nothing but itself.
pub(crate) fn escaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for b in path {
        if matches!(b, b'*' | b'?' | b'[' | b'\\' | b' ' | b'!' | b'#') {
            out.push(b'\\');
        }
        out.push(*b);
    }
    out
}
