//! What configuration files add to a command line.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use dacapo_core::{
    config::{Effective, Source, Typed, resolve},
    trust::{Runnable, runnables},
};
use dacapo_engine::config_files::{self, ConfigFiles};

use crate::error::UserError;

/// Both files, read for one workspace.
pub(super) struct Configured {
    files: ConfigFiles,
    /// What of the repository could run.
    pub(super) runnables: Vec<Runnable>,
}

impl Configured {
    pub(super) fn load(workspace: &Path) -> Result<Self, UserError> {
        let files = config_files::load(workspace)?;
        let runnables = runnables(&files.repository);
        Ok(Self { files, runnables })
    }

    /// The folder that holds `.dacapo/`.
    pub(super) fn root(&self) -> Option<&PathBuf> {
        self.files.root.as_ref()
    }

    /// What is in force together with what was typed.
    pub(super) fn effective(&self, typed: &Typed) -> Effective {
        resolve(&self.files.user, &self.files.repository, typed)
    }
}

/// Settings that files can already make and loops do not follow yet, with where they stand.
///
/// Whoever makes one of them work takes it off this list.
pub(super) fn without_effect(effective: &Effective) -> Vec<(&'static str, &Source)> {
    let mut found = vec![("snapshots.keep", &effective.snapshots_keep.from)];
    found.retain(|(_, from)| matches!(from, Source::File { .. }));
    found
}

/// Says which settings have no effect yet: somebody may count on them.
pub(super) fn warn_without_effect(effective: &Effective) {
    let mut stderr = std::io::stderr().lock();
    for (key, from) in without_effect(effective) {
        let _ = writeln!(stderr, "WARNING: `{key}` ({from}) is read, but has no effect in this version");
    }
}
