//! Files of other programs that hooks are written into: looked at first, then written all or none, each whole or not at all.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::home::{Home, make_dir};

/// No settings are larger.
const LARGEST: u64 = 8 << 20;

/// Why a file cannot be changed. Nothing has been written then.
#[derive(Debug, thiserror::Error)]
pub enum HookFileError {
    #[error("cannot read `{}`: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("`{}` is read-only", .0.display())]
    ReadOnly(PathBuf),
    #[error("`{}` is not a regular file", .0.display())]
    NotRegular(PathBuf),
    #[error("`{}` is a link to `{}`, which does not exist", path.display(), target.display())]
    Dangling { path: PathBuf, target: PathBuf },
    #[error("`{}` is not UTF-8", .0.display())]
    NotText(PathBuf),
    #[error("`{}` was changed by another program at the same moment", .0.display())]
    Raced(PathBuf),
}

impl HookFileError {
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::ReadOnly(path) => Some(format!(
                "`chmod u+w {}` lets it be changed",
                dacapo_core::text::shell::word(&path.to_string_lossy())
            )),
            Self::Raced(_) => Some("try again".to_owned()),
            Self::Dangling { .. } => Some("remove the link, or make the file that it leads to".to_owned()),
            Self::Read { .. } | Self::Write { .. } | Self::NotRegular(_) | Self::NotText(_) => None,
        }
    }
}

/// A file as it is before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// As it was asked for.
    pub path: PathBuf,
    /// What the file says; `None` if it is not there.
    pub text: Option<String>,
    /// The file itself, where `path` is a link to it.
    target: PathBuf,
}

/// Looks at a file that may be there. A link is followed: the file that it leads to is the one that is changed.
pub fn look(path: &Path) -> Result<FoundFile, HookFileError> {
    let failed = |source| HookFileError::Read { path: path.to_owned(), source };
    let path = path.to_owned();
    match fs::symlink_metadata(&path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound) => {
            return Ok(FoundFile { target: path.clone(), path, text: None });
        }
        Err(error) => return Err(failed(error)),
        Ok(_) => {}
    }
    let target = match path.canonicalize() {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let target = fs::read_link(&path).map_err(failed)?;
            return Err(HookFileError::Dangling { path, target });
        }
        Err(error) => return Err(failed(error)),
    };
    let metadata = fs::metadata(&target).map_err(failed)?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return Err(HookFileError::NotRegular(path));
    }
    let text = String::from_utf8(fs::read(&target).map_err(failed)?);
    let text = text.map_err(|_| HookFileError::NotText(path.clone()))?;
    Ok(FoundFile { path, text: Some(text), target })
}

/// A file and what it is to say; `None` takes it away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub found: FoundFile,
    pub text: Option<String>,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookFileChange {
    Created,
    Changed,
    Removed,
    Unchanged,
}

impl HookFileChange {
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Removed => "removed",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Makes all changes, or none of them.
pub fn write(home: &Home, edits: &[Edit]) -> Result<Vec<(PathBuf, HookFileChange)>, HookFileError> {
    for edit in edits.iter().filter(|edit| edit.text != edit.found.text) {
        check_writable(&edit.found)?;
    }
    let mut done = Vec::new();
    for (at, edit) in edits.iter().enumerate() {
        match change(home, edit) {
            Ok(change) => done.push((edit.found.path.clone(), change)),
            Err(error) => {
                for earlier in edits[..at].iter().rev() {
                    let found = FoundFile { text: earlier.text.clone(), ..earlier.found.clone() };
                    // What cannot be undone is not worse than the error that is reported.
                    let _ = change(home, &Edit { found, text: earlier.found.text.clone() });
                }
                return Err(error);
            }
        }
    }
    Ok(done)
}

fn check_writable(found: &FoundFile) -> Result<(), HookFileError> {
    if found.text.is_none() {
        return Ok(());
    }
    let failed = |source| HookFileError::Write { path: found.path.clone(), source };
    let mode = fs::metadata(&found.target).map_err(failed)?.permissions().mode();
    // A rename would go past this, and for root nothing is read-only; the user has said what they want all the same.
    let is_read_only =
        mode & 0o222 == 0 || rustix::fs::access(&found.target, rustix::fs::Access::WRITE_OK).is_err();
    if is_read_only { Err(HookFileError::ReadOnly(found.path.clone())) } else { Ok(()) }
}

fn change(home: &Home, edit: &Edit) -> Result<HookFileChange, HookFileError> {
    let Edit { found, text } = edit;
    let failed = |source| HookFileError::Write { path: found.path.clone(), source };
    if *text == found.text {
        return Ok(HookFileChange::Unchanged);
    }
    if look(&found.path)?.text != found.text {
        return Err(HookFileError::Raced(found.path.clone()));
    }
    match text {
        None => {
            fs::remove_file(&found.target).map_err(failed)?;
            remove_folders(home, found.target.parent());
            Ok(HookFileChange::Removed)
        }
        Some(text) => {
            make_folders(home, found.target.parent()).map_err(failed)?;
            replace(&found.target, text).map_err(failed)?;
            Ok(if found.text.is_none() { HookFileChange::Created } else { HookFileChange::Changed })
        }
    }
}

/// Puts a new file in the place of the old one, with its mode and owner.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let old = fs::metadata(path).ok();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fresh = path.with_file_name(format!(".{name}.{}.dacapo", std::process::id()));
    let write = || -> io::Result<()> {
        let mode = old.as_ref().map_or(0o644, |old| old.permissions().mode() & 0o7777);
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        if let Some(old) = &old {
            let new = file.metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
        }
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&fresh);
    })
}

/// Where it is kept that dacapo made a folder. Whether a folder that is empty now was there before cannot be seen otherwise.
fn mark_of(home: &Home, folder: &Path) -> PathBuf {
    let digest = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    home.path().join("hook-folders").join(name)
}

fn make_folders(home: &Home, folder: Option<&Path>) -> io::Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    make_folders(home, folder.parent())?;
    let mark = mark_of(home, folder);
    make_dir(mark.parent().unwrap_or(home.path()))?;
    fs::write(&mark, folder.as_os_str().as_encoded_bytes())?;
    fs::create_dir(folder)
}

/// Removes the folders that dacapo made for a file and that are empty now.
fn remove_folders(home: &Home, folder: Option<&Path>) {
    let Some(folder) = folder else { return };
    let mark = mark_of(home, folder);
    if mark.exists() && fs::remove_dir(folder).is_ok() {
        let _ = fs::remove_file(mark);
        remove_folders(home, folder.parent());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct World {
        folder: tempfile::TempDir,
        home: Home,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let home = Home::at(folder.path().join("state"));
            home.prepare().unwrap();
            Self { folder, home }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn set(&self, name: &str, text: Option<&str>) -> Result<HookFileChange, HookFileError> {
            let edit = Edit { found: look(&self.path(name))?, text: text.map(str::to_owned) };
            Ok(write(&self.home, &[edit])?[0].1)
        }
    }

    #[test]
    fn folders_that_were_made_go_with_their_last_file_and_others_stay() {
        let world = World::new();
        fs::create_dir(world.path("there")).unwrap();
        for name in ["there/x.json", "made/a/b/x.json", "made/a/y.json"] {
            assert_eq!(world.set(name, Some("{}")).unwrap(), HookFileChange::Created, "{name}");
        }
        assert_eq!(world.set("made/a/b/x.json", None).unwrap(), HookFileChange::Removed);
        assert!(!world.path("made/a/b").exists() && world.path("made/a").exists(), "y.json is in it");
        fs::write(world.path("made/mine"), "").unwrap();
        world.set("made/a/y.json", None).unwrap();
        assert!(!world.path("made/a").exists() && world.path("made").exists(), "mine is in it");
        world.set("there/x.json", None).unwrap();
        assert!(world.path("there").exists(), "an empty folder that was there stays");
    }

    #[test]
    fn a_link_stays_a_link_and_the_mode_stays() {
        let world = World::new();
        fs::create_dir(world.path("dotfiles")).unwrap();
        fs::write(world.path("dotfiles/settings.json"), "{}").unwrap();
        fs::set_permissions(world.path("dotfiles/settings.json"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("dotfiles/settings.json", world.path("settings.json")).unwrap();
        assert_eq!(world.set("settings.json", Some("{ }")).unwrap(), HookFileChange::Changed);
        assert_eq!(fs::read_link(world.path("settings.json")).unwrap(), Path::new("dotfiles/settings.json"));
        let metadata = fs::metadata(world.path("dotfiles/settings.json")).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_to_string(world.path("dotfiles/settings.json")).unwrap(), "{ }");
        let left: Vec<_> = fs::read_dir(world.path("dotfiles")).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing else is left: {left:?}");
    }

    #[test]
    fn what_cannot_be_changed_is_named_and_nothing_else_is_changed_either() {
        let world = World::new();
        fs::write(world.path("a"), "a").unwrap();
        fs::write(world.path("locked"), "b").unwrap();
        fs::set_permissions(world.path("locked"), fs::Permissions::from_mode(0o444)).unwrap();
        let edit =
            |name: &str| Edit { found: look(&world.path(name)).unwrap(), text: Some("new".to_owned()) };
        let error = write(&world.home, &[edit("a"), edit("locked")]).unwrap_err();
        assert!(error.to_string().ends_with("locked` is read-only"), "{error}");
        assert!(error.hint().unwrap().contains("chmod u+w"));
        // A folder stands where the second file should go, so the first one is changed back.
        fs::write(world.path("file"), "").unwrap();
        let below = Edit {
            found: FoundFile { path: world.path("file/x"), text: None, target: world.path("file/x") },
            text: Some("new".to_owned()),
        };
        assert!(write(&world.home, &[edit("a"), below]).is_err());
        assert_eq!(fs::read_to_string(world.path("a")).unwrap(), "a");
        let stale = edit("a");
        fs::write(world.path("a"), "changed by its program").unwrap();
        assert!(matches!(write(&world.home, &[stale]), Err(HookFileError::Raced(_))));
        symlink("nowhere", world.path("dangling")).unwrap();
        for (name, expected) in [("dangling", "which does not exist"), ("state", "is not a regular file")] {
            let error = look(&world.path(name)).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{error}");
        }
        fs::write(world.path("latin"), b"\xe4").unwrap();
        assert!(matches!(look(&world.path("latin")), Err(HookFileError::NotText(_))));
    }
}
