//! Where state lies: outside every repository, so that no agent, `git clean` or `git add -A` touches it.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use dacapo_core::{
    ids::{LoopId, ProjectId, RunId, TaskId},
    receipt::sha256,
};

/// How many bytes are given up when the disk is full.
const RESERVE: usize = 256 * 1024;

/// The folder with dacapo's state, `$DACAPO_HOME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home(PathBuf);

/// Why there is no place for state.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("no place for state: neither DACAPO_HOME, XDG_STATE_HOME nor HOME is set")]
    Nowhere,
    /// A relative path would mean another place in every folder.
    #[error("{variable} is not an absolute path: `{}`", value.display())]
    Relative { variable: &'static str, value: PathBuf },
    #[error("cannot write to the state folder `{}`: {source}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}

impl Home {
    /// The place that the environment names: `DACAPO_HOME`, else that of the loop whose check this is, else a folder in
    /// `XDG_STATE_HOME`, else in `HOME`.
    pub fn locate() -> Result<Self, HomeError> {
        let set = |variable| {
            let value = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)?;
            Some((variable, value))
        };
        let of_check = || Some(("DACAPO_HOME", crate::process::leftovers::home_of_check()?));
        let (variable, value) = set("DACAPO_HOME")
            .or_else(of_check)
            .or_else(|| set("XDG_STATE_HOME"))
            .or_else(|| set("HOME"))
            .ok_or(HomeError::Nowhere)?;
        if !value.is_absolute() {
            return Err(HomeError::Relative { variable, value });
        }
        Ok(Self(match variable {
            "XDG_STATE_HOME" => value.join("dacapo"),
            "HOME" => value.join(".local/state/dacapo"),
            _ => value,
        }))
    }

    /// The state at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Makes the folder if need be and says so if it cannot be written to.
    pub fn prepare(&self) -> Result<(), HomeError> {
        let unwritable = |source| HomeError::Unwritable { path: self.0.clone(), source };
        make_dir(&self.0).map_err(unwritable)?;
        rustix::fs::access(&self.0, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
            .map_err(|error| unwritable(error.into()))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn database(&self) -> PathBuf {
        self.0.join("dacapo.db")
    }

    pub fn task_folder(&self, project: &ProjectId, task: &TaskId) -> PathBuf {
        self.0.join("projects").join(project.as_str()).join(task.as_str())
    }

    pub fn project_bus(&self, project: &ProjectId) -> PathBuf {
        self.0.join("projects").join(project.as_str()).join("PROJECT-MESSAGE-BUS.md")
    }

    pub fn task_bus(&self, project: &ProjectId, task: &TaskId) -> PathBuf {
        self.task_folder(project, task).join("TASK-MESSAGE-BUS.md")
    }

    /// What a loop's attempts were given and printed.
    pub fn runs(&self, project: &ProjectId, task: &TaskId) -> PathBuf {
        self.task_folder(project, task).join("runs")
    }

    /// Files that hold names while loops run wait here meanwhile.
    pub(crate) fn held_names(&self) -> PathBuf {
        self.0.join("held")
    }

    /// Where files are laid out that gates judge.
    pub fn checkouts(&self) -> PathBuf {
        self.0.join("checkouts")
    }

    /// The lock that makes one supervisor the owner of a task.
    pub fn lock(&self, project: &ProjectId, task: &TaskId) -> PathBuf {
        self.0.join("locks").join(project.as_str()).join(task.as_str())
    }

    /// What the performer of a run of a workflow locks.
    pub(crate) fn lock_of_workflow(&self, run: &RunId) -> PathBuf {
        self.0.join("locks").join(".workflows").join(run.as_str())
    }

    /// What the job of a script step locks: the folder that the script works in.
    pub(crate) fn lock_of_folder(&self, folder: &Path) -> PathBuf {
        let name = sha256(folder.as_os_str().as_encoded_bytes());
        self.0.join("locks").join(".folders").join(&name[..16])
    }

    /// What the performer of a task's stages locks.
    pub(crate) fn lock_of_stages(&self, project: &ProjectId, task: &TaskId) -> PathBuf {
        self.0.join("locks").join(".stages").join(project.as_str()).join(task.as_str())
    }

    /// Where the supervisor of a loop listens to its agent.
    pub fn socket(&self, loop_id: &LoopId) -> PathBuf {
        self.0.join("sockets").join(loop_id.as_str())
    }

    /// A folder that holds `dacapo` and nothing else, for the PATH of agents.
    ///
    /// The folder of the binary itself would bring its neighbours along and change which of them come first.
    pub fn bin(&self) -> io::Result<PathBuf> {
        let folder = self.0.join("bin");
        let link = folder.join("dacapo");
        let exe = own_program()?;
        if fs::read_link(&link).ok().as_ref() != Some(exe) {
            make_dir(&folder)?;
            let fresh = folder.join(format!(".dacapo.{}", std::process::id()));
            let _ = fs::remove_file(&fresh);
            symlink(exe, &fresh)?;
            fs::rename(&fresh, &link)?;
        }
        Ok(folder)
    }

    /// Keeps room that is given up when the disk is full, so that the reason can still be written down (fault G4).
    pub(crate) fn keep_reserve(&self) {
        let path = self.reserve();
        if !path.metadata().is_ok_and(|metadata| metadata.len() == RESERVE as u64) {
            let _ = write_private(&path, &vec![0; RESERVE]);
        }
    }

    pub(crate) fn release_reserve(&self) {
        let _ = fs::remove_file(self.reserve());
    }

    fn reserve(&self) -> PathBuf {
        self.0.join("reserve")
    }
}

/// Where the binary of this process was when this was asked first: replaced by an update, it goes by another name.
fn own_program() -> io::Result<&'static PathBuf> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    match PROGRAM.get() {
        Some(program) => Ok(program),
        None => {
            let program = std::env::current_exe()?;
            Ok(PROGRAM.get_or_init(|| program))
        }
    }
}

/// Makes a folder that only its owner may enter, and those above it.
pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file that only its owner may read.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}
