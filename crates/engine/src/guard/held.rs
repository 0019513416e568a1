//! Names that must not appear: a file is put where there is none, for as long as loops run.
//!
//! A mount needs something to be mounted on. So where `~/.npmrc` is not there, a file that says why is made, and it is the file
//! that is mounted read-only. Each supervisor locks it, and the last one takes it away again; one that was killed leaves it to the
//! next.
//!
//! Taken away, it waits in dacapo's state for the next loop: giving a file another name is much cheaper than making and removing one,
//! and what lies there no agent can open before it is in its place.

use std::{
    ffi::OsString,
    fs, io,
    io::{Read, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock, renameat_with};

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
pub(crate) struct HeldNames {
    /// Where files wait that hold no name now.
    store: PathBuf,
    names: Vec<(PathBuf, fs::File)>,
}

impl HeldNames {
    /// Holds those of `names` that are not there, and by a file in it each of `folders` that is not. A name that cannot be held is
    /// not.
    pub(crate) fn hold(store: &Path, names: &[PathBuf], folders: &[PathBuf]) -> Self {
        let files = names.iter().filter_map(|path| Some((path.clone(), hold(store, path)?)));
        let in_folders = folders.iter().filter_map(|folder| hold_folder(store, folder));
        Self { store: store.to_owned(), names: files.chain(in_folders).collect() }
    }

    /// Holds these as well.
    pub(crate) fn more(&mut self, others: Self) {
        let mut others = others;
        self.store = std::mem::take(&mut others.store);
        self.names.append(&mut others.names);
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.names.iter().map(|(path, _)| path.as_path())
    }
}

impl Drop for HeldNames {
    fn drop(&mut self) {
        for (path, file) in &self.names {
            // Another loop holds it too, or the user has put something there.
            let is_last = flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
            if !is_last || !is_same(path, file) || !is_as_made(path, file) {
                continue;
            }
            let folder = path.parent().filter(|_| path.ends_with(IN_FOLDER));
            let above = match folder {
                Some(folder) if put_away_folder(&self.store, folder) => folder,
                Some(_) => {
                    let _ = fs::remove_file(path);
                    path
                }
                None => {
                    if put_away(&self.store, path, file).is_err() {
                        let _ = fs::remove_file(path);
                    }
                    path
                }
            };
            for folder in above.ancestors().skip(1).take_while(|folder| may_be_ours(path, folder)) {
                // Only if it is empty.
                if fs::remove_dir(folder).is_err() {
                    break;
                }
            }
        }
    }
}

/// The name in the store of what holds `path`.
fn stored(store: &Path, path: &Path) -> PathBuf {
    let mut name = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' => name.extend(b"%2f"),
            b'%' => name.extend(b"%25"),
            byte => name.push(*byte),
        }
    }
    store.join(OsString::from_vec(name))
}

/// Gives something another name, if nothing has that yet. Another disk, or one that does not know how, is an error.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Has what an earlier loop put away hold its name again.
fn take(store: &Path, path: &Path) -> io::Result<()> {
    rename(&stored(store, path), path)
}

fn put_away(store: &Path, path: &Path, file: &fs::File) -> io::Result<()> {
    let away = stored(store, path);
    rename(path, &away)?;
    if is_same(&away, file) {
        return Ok(());
    }
    // The user has put something there in this very moment.
    let _ = rename(&away, path);
    Ok(())
}

/// Puts a folder away that has nothing but the file by which it is held.
fn put_away_folder(store: &Path, folder: &Path) -> bool {
    let has_only_ours = |folder: &Path| {
        let entries = fs::read_dir(folder).map(|all| all.flatten().map(|entry| entry.file_name()));
        entries.is_ok_and(|mut all| all.next().is_some_and(|name| name == IN_FOLDER) && all.next().is_none())
    };
    let away = stored(store, folder);
    if !has_only_ours(folder) || rename(folder, &away).is_err() {
        return false;
    }
    // The user may have put something there in this very moment.
    has_only_ours(&away) || rename(&away, folder).is_err()
}

/// Makes a folder that is this user's alone, as tmux and ssh want theirs.
fn make(folder: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Whether a folder above a held name may have been made to hold it: never the home folder itself.
fn may_be_ours(held: &Path, folder: &Path) -> bool {
    let is_held = held.ends_with(IN_FOLDER) && held.parent() == Some(folder);
    let made = [".cargo", ".config", ".local", ".local/share", ".local/state", ".local/state/mise"];
    is_held || made.iter().any(|name| folder.ends_with(name))
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

/// Holds a folder that is not there by a file in it.
fn hold_folder(store: &Path, folder: &Path) -> Option<(PathBuf, fs::File)> {
    let path = folder.join(IN_FOLDER);
    for _ in 0..100 {
        if take(store, folder).is_err() {
            if fs::symlink_metadata(folder).is_err() {
                let above = || make(folder.parent().unwrap_or(folder)).and_then(|()| take(store, folder));
                if above().is_err() && make_held(store, folder).is_err() {
                    return None;
                }
            } else if fs::symlink_metadata(&path).is_err() {
                return None;
            }
        }
        if let Some(file) = hold_there(&path)? {
            return Some((path, file));
        }
    }
    None
}

/// Makes a folder with the file by which it is held, at once if the disk can.
fn make_held(store: &Path, folder: &Path) -> io::Result<()> {
    let fresh = fresh(store, folder)?;
    make(&fresh)?;
    let done = write(&fresh.join(IN_FOLDER), TEXT).and_then(|()| rename(&fresh, folder));
    if done.is_err() {
        fs::remove_dir_all(&fresh)?;
        fs::DirBuilder::new().mode(0o700).create(folder)?;
        write(&folder.join(IN_FOLDER), TEXT)?;
    }
    Ok(())
}

fn hold(store: &Path, path: &Path) -> Option<fs::File> {
    for _ in 0..100 {
        if take(store, path).is_err() && fs::symlink_metadata(path).is_err() {
            // Made whole under another name: a name that is there is one that says so.
            let made = fresh(store, path).and_then(|fresh| make_file(&fresh, path));
            if made.is_err() {
                // A disk of its own.
                let _ = make_file(&path.with_extension(format!("dacapo-{}", std::process::id())), path);
            }
            if fs::symlink_metadata(path).is_err() {
                return None;
            }
        }
        if let Some(file) = hold_there(path)? {
            return Some(file);
        }
    }
    None
}

/// A name in the store that no other process uses.
fn fresh(store: &Path, path: &Path) -> io::Result<PathBuf> {
    make(store)?;
    let mut name = stored(store, path).into_os_string();
    name.push(format!(".{}", std::process::id()));
    Ok(name.into())
}

fn make_file(fresh: &Path, path: &Path) -> io::Result<()> {
    let made = write(fresh, &text_of(path)).and_then(|()| match rename(fresh, path) {
        // A disk that does not know how.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            fs::hard_link(fresh, path).and_then(|()| fs::remove_file(fresh))
        }
        done => done,
    });
    if made.is_err() {
        let _ = fs::remove_file(fresh);
    }
    made
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    fs::File::options().write(true).create_new(true).mode(0o600).open(file)?.write_all(text.as_bytes())
}

/// Locks what is there. `None` says that it is not what holds this name; nothing in it, that it has gone meanwhile.
fn hold_there(path: &Path) -> Option<Option<fs::File>> {
    let Ok(found) = fs::symlink_metadata(path) else { return Some(None) };
    // One that is held already has this very length.
    if !found.is_file() || found.len() != text_of(path).len() as u64 {
        return None;
    }
    let Ok(file) = fs::File::open(path) else {
        return fs::symlink_metadata(path).is_err().then_some(None);
    };
    flock(&file, FlockOperation::LockShared).ok()?;
    if !is_as_made(path, &file) {
        return None;
    }
    Some(is_same(path, &file).then_some(file))
}

/// Whether a file has what one that holds this name has in it.
fn is_as_made(path: &Path, file: &fs::File) -> bool {
    let text = text_of(path);
    let mut content = vec![0; text.len() + 1];
    file.read_at(&mut content, 0).is_ok_and(|length| content.get(..length) == Some(text.as_bytes()))
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
    fn nothing_is_left_of_the_folders_that_were_made_to_hold_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let (home, store) = (dir.path().join("home"), dir.path().join("store"));
        fs::create_dir(&home).unwrap();
        for name in [
            ".ssh",
            ".config/git",
            ".local/lib",
            ".local/share/systemd",
            ".cargo/bin",
            ".local/state/mise/trusted-configs",
        ] {
            let held = HeldNames::hold(&store, &[], &[home.join(name)]);
            assert!(home.join(name).join(IN_FOLDER).exists(), "{name}");
            drop(held);
            assert_eq!(fs::read_dir(&home).unwrap().count(), 0, "{name}");
        }
    }

    #[test]
    fn a_name_is_held_until_the_last_loop_lets_go_of_it_and_never_taken_from_the_user() {
        let dir = tempfile::tempdir().unwrap();
        let (free, own) = (dir.path().join(".npmrc"), dir.path().join(".profile"));
        fs::write(&own, "mine").unwrap();
        let names = [free.clone(), own.clone(), dir.path().join("nowhere/.x")];
        let folders = [dir.path().join(".config/git")];
        let store = dir.path().join("store");
        let first = HeldNames::hold(&store, &names, &folders);
        let inside = folders[0].join(IN_FOLDER);
        assert_eq!(first.paths().collect::<Vec<_>>(), [free.as_path(), inside.as_path()]);
        let second = HeldNames::hold(&store, &names, &folders);
        assert_eq!(second.paths().collect::<Vec<_>>(), [free.as_path(), inside.as_path()]);
        drop(first);
        assert!(free.exists() && inside.exists(), "another loop holds them");
        drop(second);
        assert!(!free.exists() && !folders[0].exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
        assert_eq!(
            fs::read_dir(&store).unwrap().count(),
            2,
            "the file and the folder wait for the next loop"
        );
        let third = HeldNames::hold(&store, &names, &folders);
        assert_eq!(third.paths().collect::<Vec<_>>(), [free.as_path(), inside.as_path()]);
        assert_eq!(fs::read_dir(&store).unwrap().count(), 0, "no other one was made");
        fs::write(&free, "the user's").unwrap();
        fs::write(folders[0].join("config"), "the user's").unwrap();
        drop(third);
        assert_eq!(fs::read_to_string(&free).unwrap(), "the user's");
        assert_eq!(fs::read_to_string(folders[0].join("config")).unwrap(), "the user's");
        assert!(!inside.exists());
    }
}
