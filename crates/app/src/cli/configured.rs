//! What configuration files add to a command line.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use dacapo_core::{
    config::{Effective, Typed, resolve},
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

/// Warns about settings that do not do what the user may expect.
pub(super) fn warn(warnings: &[String]) {
    let mut stderr = std::io::stderr().lock();
    for warning in warnings {
        let _ = writeln!(stderr, "WARNING: {warning}");
    }
}
