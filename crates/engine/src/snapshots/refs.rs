//! The refs that hold snapshots in a repository: which loops have some, and forgetting them.

use std::{fs, io, path::Path};

use jiff::Timestamp;

use super::SnapshotRef;
use crate::git::{Checkout, WorkspaceError};

/// Where in a repository snapshots are held.
const PREFIX: &str = "refs/dacapo/";

/// The loops with snapshots in the repository, and when the latest was taken.
pub(crate) fn list(checkout: &Checkout) -> Result<Vec<SnapshotRef>, WorkspaceError> {
    let format = "--format=%(refname) %(objectname) %(committerdate:unix)";
    let output = checkout.call().args(["for-each-ref", format, PREFIX]).ok()?;
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        let id = words.next()?.to_owned();
        let taken_at = Timestamp::from_second(words.next()?.parse().ok()?).ok()?;
        Some(SnapshotRef { name, id, taken_at })
    };
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(parse).collect())
}

/// Deletes those of `refs`, together, and the shadow folders of their loops.
pub(crate) fn delete(
    checkout: &Checkout,
    shadows: &Path,
    refs: &[SnapshotRef],
) -> Result<(), WorkspaceError> {
    if refs.is_empty() {
        return Ok(());
    }
    // With the old value: a ref that moved meanwhile belongs to a loop that goes on.
    let input: String = refs.iter().map(|r| format!("delete {} {}\n", r.name, r.id)).collect();
    checkout.call().args(["update-ref", "--stdin"]).input(input.into_bytes()).ok()?;
    for reference in refs {
        let shadow = shadows.join(reference.loop_name());
        match fs::remove_dir_all(&shadow) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(WorkspaceError::io("remove", shadow)(error));
            }
            _ => {}
        }
    }
    Ok(())
}
