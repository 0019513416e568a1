//! Names that must not appear: a file is put where there is none, for as long as loops run.
//!
//! A mount needs something to be mounted on. So where `~/.npmrc` is not there, a file that says why is made, and it is the file
//! that is mounted read-only. Each supervisor locks it, and the last one takes it away again; one that was killed leaves it to the
//! next.

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, OFlags, flock};

const TEXT: &str = "# Empty on purpose: dacapo holds this name while a loop runs, so that no agent can use it.\n\
                    # It goes away with the last loop, and may be deleted.\n";

/// The file by which a folder is held.
pub(crate) const IN_FOLDER: &str = ".held-by-dacapo";

/// What bash reads instead of `~/.profile` if it is there.
const LOGIN: &str =
    "if [ -r ~/.bash_login ]; then . ~/.bash_login; elif [ -r ~/.profile ]; then . ~/.profile; fi\n";

/// What it reads instead if that is not there.
const PROFILE: &str = "if [ -r ~/.profile ]; then . ~/.profile; fi\n";

/// What tcsh reads instead of `~/.cshrc` if it is there.
const TCSH: &str = "if ( -r ~/.cshrc ) source ~/.cshrc\n";

/// Names that are held; dropping this lets go of them.
#[derive(Debug, Default)]
pub(crate) struct HeldNames(Vec<(PathBuf, fs::File)>);

impl HeldNames {
    /// Holds those of `names` that are not there, and by a file in it each of `folders` that is not. A name that cannot be held is
    /// not.
    pub(crate) fn hold(names: &[PathBuf], folders: &[PathBuf]) -> Self {
        let in_folders = folders.iter().map(|folder| folder.join(IN_FOLDER)).filter(|file| {
            let folder = file.parent().unwrap_or(file);
            let is_free = fs::symlink_metadata(folder).is_err();
            (is_free && make(folder).is_ok()) || file.exists()
        });
        let all = names.iter().cloned().chain(in_folders);
        Self(all.filter_map(|path| hold(&path).map(|file| (path, file))).collect())
    }

    /// Holds these as well.
    pub(crate) fn more(&mut self, others: Self) {
        let mut others = others;
        self.0.append(&mut others.0);
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|(path, _)| path.as_path())
    }
}

impl Drop for HeldNames {
    fn drop(&mut self) {
        for (path, file) in &self.0 {
            // Another loop holds it too, or the user has put something there.
            let is_last = flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
            if is_last
                && is_same(path, file)
                && fs::read_to_string(path).is_ok_and(|text| text == text_of(path))
            {
                let _ = fs::remove_file(path);
                for folder in path.ancestors().skip(1).take_while(|folder| may_be_ours(path, folder)) {
                    // Only if it is empty.
                    if fs::remove_dir(folder).is_err() {
                        break;
                    }
                }
            }
        }
    }
}

/// Makes a folder that is this user's alone, as tmux and ssh want theirs.
fn make(folder: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Whether a folder above a held name may have been made to hold it: never the home folder itself.
fn may_be_ours(held: &Path, folder: &Path) -> bool {
    let is_held = held.ends_with(IN_FOLDER) && held.parent() == Some(folder);
    is_held || [".cargo", ".config", ".local"].iter().any(|name| folder.ends_with(name))
}

/// Whether a file with this content is one that holds its name.
pub(crate) fn is_held(path: &Path, content: &[u8]) -> bool {
    content == text_of(path).as_bytes()
}

/// Whether a regular file of this length holds its name.
pub(crate) fn holds_name(path: &Path, length: u64) -> bool {
    let read = || {
        // A pipe that took its place would never end.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut content = Vec::new();
        let file = fs::File::options().read(true).custom_flags(flags).open(path)?;
        file.take(length).read_to_end(&mut content).map(|_| content)
    };
    length == text_of(path).len() as u64 && read().is_ok_and(|content| is_held(path, &content))
}

fn text_of(path: &Path) -> String {
    let is_named = |wanted: &str| path.file_name().is_some_and(|name| name == wanted);
    if is_named(".bash_profile") {
        format!("{TEXT}{LOGIN}")
    } else if is_named(".bash_login") {
        format!("{TEXT}{PROFILE}")
    } else if is_named(".tcshrc") {
        format!("{TEXT}{TCSH}")
    } else {
        TEXT.to_owned()
    }
}

fn hold(path: &Path) -> Option<fs::File> {
    for _ in 0..100 {
        match fs::symlink_metadata(path) {
            Ok(found) => {
                // One that is held already has this very length.
                if !found.is_file() || found.len() != text_of(path).len() as u64 {
                    return None;
                }
                let mut file = fs::File::open(path).ok()?;
                flock(&file, FlockOperation::LockShared).ok()?;
                let mut text = String::new();
                (&mut file).take(1000).read_to_string(&mut text).ok()?;
                if text != text_of(path) {
                    return None;
                }
                if is_same(path, &file) {
                    return Some(file);
                }
            }
            Err(_) => {
                // Made whole under another name: a name that is there is one that says so.
                let fresh = path.with_extension(format!("dacapo-{}", std::process::id()));
                let mut file =
                    fs::File::options().write(true).create_new(true).mode(0o600).open(&fresh).ok()?;
                let is_made = file.write_all(text_of(path).as_bytes()).is_ok()
                    && flock(&file, FlockOperation::LockShared).is_ok()
                    && fs::hard_link(&fresh, path).is_ok();
                let _ = fs::remove_file(&fresh);
                if is_made {
                    return Some(file);
                }
                if !path.exists() {
                    return None;
                }
            }
        }
    }
    None
}

fn is_same(path: &Path, file: &fs::File) -> bool {
    match (fs::symlink_metadata(path), file.metadata()) {
        (Ok(named), Ok(open)) => (named.dev(), named.ino()) == (open.dev(), open.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_held_until_the_last_loop_lets_go_of_it_and_never_taken_from_the_user() {
        let dir = tempfile::tempdir().unwrap();
        let (free, own) = (dir.path().join(".npmrc"), dir.path().join(".profile"));
        fs::write(&own, "mine").unwrap();
        let names = [free.clone(), own.clone(), dir.path().join("nowhere/.x")];
        let folders = [dir.path().join(".config/git")];
        let first = HeldNames::hold(&names, &folders);
        let inside = folders[0].join(IN_FOLDER);
        assert_eq!(first.paths().collect::<Vec<_>>(), [free.as_path(), inside.as_path()]);
        let second = HeldNames::hold(&names, &folders);
        assert_eq!(second.paths().collect::<Vec<_>>(), [free.as_path(), inside.as_path()]);
        drop(first);
        assert!(free.exists() && inside.exists(), "another loop holds them");
        drop(second);
        assert!(!free.exists() && !folders[0].exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
        let third = HeldNames::hold(&names, &[]);
        fs::write(&free, "the user's").unwrap();
        drop(third);
        assert_eq!(fs::read_to_string(&free).unwrap(), "the user's");
    }
}
