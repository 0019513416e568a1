//! What is safe to remove: raw output of loops that ended for good, never the journal.

use std::{fs, io, path::PathBuf};

use dacapo_core::ids::LoopId;
use jiff::Timestamp;

use crate::{
    home::Home,
    store::{Segments, Store, StoreError, Stream},
};

/// The output of one loop.
#[derive(Debug)]
pub struct OldOutput {
    /// Whose.
    pub loop_id: LoopId,
    /// How much.
    pub bytes: u64,
    files: Vec<PathBuf>,
}

impl OldOutput {
    /// Removes it.
    pub fn remove(&self) -> io::Result<()> {
        for file in &self.files {
            match fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The output of loops that were completed or cancelled before `before`.
pub fn old_output(home: &Home, store: &Store, before: Timestamp) -> Result<Vec<OldOutput>, StoreError> {
    let mut old = Vec::new();
    for row in store.recent(u32::MAX)? {
        let view = row.view;
        let is_final = view.reason.is_some_and(|reason| !reason.is_resumable());
        if !is_final || view.ended_at.is_none_or(|ended| ended >= before) {
            continue;
        }
        let runs = home.runs(&view.project, &view.task);
        let mut files: Vec<PathBuf> = [Stream::Stdout, Stream::Stderr, Stream::Prompt, Stream::Gates]
            .into_iter()
            .map(|stream| Segments::path(&runs, &view.id, stream))
            .collect();
        files.push(runs.join(format!("{}.prompt.md", view.id)));
        files.retain(|file| file.is_file());
        if !files.is_empty() {
            let bytes =
                files.iter().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum();
            old.push(OldOutput { loop_id: view.id, bytes, files });
        }
    }
    Ok(old)
}
