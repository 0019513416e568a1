//! Where files are laid out that gates judge: in dacapo's state, which no agent of another loop can write. What the loop's own agent
//! may have left there is removed before.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
};

use dacapo_core::ids::LoopId;

use crate::{
    home::{Home, make_dir},
    scratch::Scratch,
};

/// The folder for the checkouts of a loop. `None` where the state lies in its repository, whose settings would count there: then the
/// temporary folder has to do.
pub(crate) fn folder(home: &Home, workspace: &Path, name: &str) -> Option<PathBuf> {
    let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    let root = workspace.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok());
    let state = home.path().canonicalize().unwrap_or_else(|_| home.path().to_owned());
    (!state.starts_with(root.unwrap_or(&workspace))).then(|| home.checkouts().join(name))
}

/// The name of the folder in which gates are tried before the first agent, and beside it: its sandbox does not let it write there.
pub(crate) fn name_of_trial(id: &LoopId) -> String {
    format!("{id}.trial")
}

/// A new folder in `folder`, of which nothing else is left, or a temporary one of this name.
pub(crate) fn begin(folder: Option<&Path>, name: &str) -> io::Result<Scratch> {
    let Some(folder) = folder else { return Scratch::new(name) };
    make_dir(folder)?;
    // It stays itself: the sandbox of the loop knows it.
    for entry in fs::read_dir(folder)? {
        remove(&entry?.path())?;
    }
    Scratch::below(folder, "tmp")
}

/// A checkout that a thread removes. Dropping this waits for it.
pub(crate) struct Removal(Option<JoinHandle<()>>);

impl Removal {
    pub(crate) fn begin(checkout: Scratch) -> Self {
        // Without a thread it is removed at once: what was not started drops its folder.
        Self(thread::Builder::new().name("dcp-remove".to_owned()).spawn(move || drop(checkout)).ok())
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

/// Removes what is left of all checkouts of a loop that has ended.
pub(crate) fn remove_left(home: &Home, id: &LoopId) {
    for name in [id.to_string(), name_of_trial(id)] {
        let folder = home.checkouts().join(name);
        if folder.is_dir() {
            let _ = remove(&folder);
        }
    }
}

/// Removes a file or a folder, also one that its owner has closed.
fn remove(path: &Path) -> io::Result<()> {
    if !path.symlink_metadata()?.is_dir() {
        return fs::remove_file(path);
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        done => done,
    }
}

fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_an_agent_left_lies_beside_or_above_a_checkout() {
        let dir = tempfile::tempdir().unwrap();
        let (home, workspace) = (Home::at(dir.path().join("state")), dir.path().join("work"));
        fs::create_dir_all(workspace.join(".git")).unwrap();
        let folder = folder(&home, &workspace, "a").unwrap();
        for path in ["conftest.py", ".cargo/config.toml"] {
            fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
            fs::write(folder.join(path), "x").unwrap();
        }
        fs::set_permissions(folder.join(".cargo"), fs::Permissions::from_mode(0o0)).unwrap();
        let scratch = begin(Some(&folder), "name").unwrap();
        let found: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(found, [scratch.path()]);
        drop(scratch);
        assert!(folder.is_dir(), "the sandbox of the loop knows it");
    }

    #[test]
    fn a_checkout_lies_in_the_state_unless_that_lies_in_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (work, below) = (root.join("work"), root.join("work/below"));
        fs::create_dir_all(work.join(".git")).unwrap();
        fs::create_dir_all(&below).unwrap();
        for (state, is_there) in [("state", true), ("work/state", false), ("work/below/state", false)] {
            let home = Home::at(root.join(state));
            home.prepare().unwrap();
            assert_eq!(folder(&home, &below, "a").is_some(), is_there, "{state}");
        }
    }
}
