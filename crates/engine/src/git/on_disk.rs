//! What git has just written, read from its file instead of asked for: each question saved is a process saved.
//!
//! An answer is `None` whenever anything looks unlike what is known here; then git is asked.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Read as _, Write as _},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

/// The setting by which git writes objects that can be read without inflating them.
pub(crate) const STORED: &str = "core.looseCompression=0";

/// The tree of a commit that we have just written with [`STORED`]. Nothing here checks that the file holds what its name says,
/// so that a commit which an agent has had the time to overwrite is asked of git.
pub(crate) fn tree_of_commit(common_dir: &Path, id: &str) -> Option<String> {
    let (folder, name) = id.split_at_checked(2)?;
    let bytes = read_bytes(common_dir.join("objects").join(folder).join(name)).ok()?;
    tree_in(&bytes).filter(|tree| tree.len() == id.len())
}

/// zlib's two bytes, then a block: its kind, its length twice, and as many bytes as they are.
fn tree_in(bytes: &[u8]) -> Option<String> {
    const STORED_BLOCK: u8 = 0;
    let (head, rest) = bytes.split_at_checked(7)?;
    if (head[2] >> 1) & 0b11 != STORED_BLOCK {
        return None;
    }
    let block = rest.get(..usize::from(u16::from_le_bytes([head[3], head[4]])))?;
    let block = block.strip_prefix(b"commit ")?;
    let body = &block[memchr::memchr(0, block)? + 1..];
    let body = body.strip_prefix(b"tree ")?;
    let tree = std::str::from_utf8(&body[..memchr::memchr(b'\n', body)?]).ok()?;
    is_id(tree).then(|| tree.to_owned())
}

/// Where a ref points, from its file or the packed ones; none if it is stored in another way, or not at all.
pub(crate) fn reference(common_dir: &Path, name: &str) -> Option<String> {
    if let Ok(text) = read_text(common_dir.join(name)) {
        return Some(text.trim().to_owned()).filter(|id| is_id(id));
    }
    let packed = read_text(common_dir.join("packed-refs")).ok()?;
    let line = packed.lines().find(|line| line.split_once(' ').is_some_and(|(_, found)| found == name))?;
    line.split_once(' ').map(|(id, _)| id.to_owned()).filter(|id| is_id(id))
}

/// Makes a ref that is surely not there yet, as git does: under its lock, synced and then renamed. False if git has to be asked.
pub(crate) fn make_reference(common_dir: &Path, name: &str, id: &str) -> bool {
    if !has_no_reference(common_dir, name) {
        return false;
    }
    let (path, lock) = (common_dir.join(name), common_dir.join(format!("{name}.lock")));
    let made = || {
        fs::create_dir_all(path.parent().unwrap_or(common_dir))?;
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&lock)?;
        let written = file.write_all(format!("{id}\n").as_bytes()).and_then(|()| file.sync_data());
        written.and_then(|()| fs::rename(&lock, &path)).inspect_err(|_| {
            let _ = fs::remove_file(&lock);
        })
    };
    made().is_ok()
}

/// Whether there is surely no ref of this name, loose or packed.
pub(crate) fn has_no_reference(common_dir: &Path, name: &str) -> bool {
    let is_absent = |path: &Path| {
        let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        fs::symlink_metadata(path).is_err_and(|error| missing.contains(&error.kind()))
    };
    let end = format!(" {name}");
    let is_unpacked = match read_text(common_dir.join("packed-refs")) {
        Ok(packed) => !packed.lines().any(|line| line.ends_with(&end)),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    is_unpacked && is_absent(&common_dir.join("reftable")) && is_absent(&common_dir.join(name))
}

/// The folders of git for a work tree whose top is `dir`: its own and the one that all work trees share.
///
/// Only what git itself would take without a further look is answered: a repository of the user's own, of the first format, with
/// no word about another work tree.
pub(crate) fn folders_of_checkout(dir: &Path) -> Option<(PathBuf, PathBuf)> {
    if !dir.is_absolute() || fs::canonicalize(dir).ok()? != dir {
        return None;
    }
    let user = rustix::process::geteuid().as_raw();
    let is_own = |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.uid() == user);
    let entry = dir.join(".git");
    let kind = fs::symlink_metadata(&entry).ok()?.file_type();
    let (git_dir, common_dir) = if kind.is_dir() {
        (entry.clone(), entry.clone())
    } else if kind.is_file() {
        let git_dir = path_in(&entry, b"gitdir: ")?;
        let git_dir = git_dir.is_absolute().then(|| fs::canonicalize(&git_dir).ok()).flatten()?;
        let common_dir = fs::canonicalize(git_dir.join(path_in(&git_dir.join("commondir"), b"")?)).ok()?;
        (git_dir, common_dir)
    } else {
        return None;
    };
    if ![dir, &entry, &git_dir, &common_dir].into_iter().all(is_own) {
        return None;
    }
    let head = read_bytes(git_dir.join("HEAD")).ok()?;
    let head = std::str::from_utf8(&head).ok()?.trim_end();
    let is_head = head.starts_with("ref: refs/") || is_id(head);
    let has_parts = ["objects", "refs"].iter().all(|part| common_dir.join(part).is_dir());
    let is_plain = has_plain_format(&read_text(common_dir.join("config")).ok()?);
    (is_head && has_parts && is_plain).then_some((git_dir, common_dir))
}

/// The folder that git keeps of the repository whose work tree is `dir`; in a submodule it lies elsewhere.
pub(crate) fn git_dir_of(dir: &Path) -> Option<PathBuf> {
    let entry = dir.join(".git");
    let kind = fs::symlink_metadata(&entry).ok()?.file_type();
    if kind.is_dir() {
        return Some(entry);
    }
    let named = kind.is_file().then(|| path_in(&entry, b"gitdir: ")).flatten()?;
    fs::canonicalize(dir.join(named)).ok()
}

/// Whether a configuration says nothing that decides what kind of repository it is, beyond what `git init` writes.
pub(crate) fn has_plain_format(config: &str) -> bool {
    config.lines().all(|line| {
        let line = line.trim().to_ascii_lowercase();
        let value = || line.split_once('=').map(|(_, value)| value.trim());
        if line.contains("repositoryformatversion") {
            return line.starts_with("repositoryformatversion") && value() == Some("0");
        }
        if line.starts_with("bare") {
            return value() == Some("false");
        }
        // One that git cannot read is git's to complain about.
        if line.starts_with('[') && !line.contains(']') {
            return false;
        }
        // Two settings can stand in one line, behind the name of their section.
        let is_bare_in_line = line.starts_with('[') && line.contains("bare");
        let says_more = line.contains("worktree") || line.contains("extensions") || is_bare_in_line;
        !says_more
    })
}

/// A work tree that a repository has registered, as its files tell.
pub(crate) struct RegisteredOnDisk {
    pub(crate) path: PathBuf,
    /// What belongs to this work tree: HEAD, index.
    pub(crate) git_dir: PathBuf,
    /// The branch's whole name; none if HEAD is detached.
    pub(crate) branch: Option<String>,
    pub(crate) is_locked: bool,
}

/// All work trees of a repository, the main one first.
pub(crate) fn worktrees(common_dir: &Path) -> Option<Vec<RegisteredOnDisk>> {
    if common_dir.join("reftable").exists() {
        return None;
    }
    let main = common_dir.file_name().filter(|name| *name == ".git").and_then(|_| common_dir.parent())?;
    let mut all = vec![RegisteredOnDisk {
        path: main.to_owned(),
        git_dir: common_dir.to_owned(),
        branch: branch_in(common_dir)?,
        is_locked: false,
    }];
    let entries = match fs::read_dir(common_dir.join("worktrees")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(all),
        Err(_) => return None,
    };
    let mut folders: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().ok()?;
    folders.sort_unstable();
    for git_dir in folders {
        // git may be making or removing one just now.
        let link = path_in(&git_dir.join("gitdir"), b"")?;
        let path = link.is_absolute().then(|| link.parent()).flatten().filter(|_| link.ends_with(".git"))?;
        let is_locked = fs::symlink_metadata(git_dir.join("locked")).is_ok();
        let branch = branch_in(&git_dir)?;
        all.push(RegisteredOnDisk { path: path.to_owned(), git_dir, branch, is_locked });
    }
    Some(all)
}

/// The whole name of the branch that HEAD is on; `Some(None)` if it is at a commit.
fn branch_in(git_dir: &Path) -> Option<Option<String>> {
    let head = read_text(git_dir.join("HEAD")).ok()?;
    let head = head.trim_end();
    match head.strip_prefix("ref: ") {
        Some(name) => Some(Some(name.trim_start().to_owned())),
        None => is_id(head).then_some(None),
    }
}

/// The path that a file of git holds behind `start`.
fn path_in(file: &Path, start: &[u8]) -> Option<PathBuf> {
    let bytes = read_bytes(file).ok()?;
    let path = bytes.strip_prefix(start)?.trim_ascii_end();
    (!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// The commit that HEAD names, on a branch or not; `Some(None)` on an unborn one.
pub(crate) fn head(git_dir: &Path, common_dir: &Path) -> Option<Option<String>> {
    let head = read_text(git_dir.join("HEAD")).ok()?;
    let head = head.trim_end();
    let Some(name) = head.strip_prefix("ref: ") else {
        return is_id(head).then(|| Some(head.to_owned()));
    };
    // Only branches are shared by all work trees for certain, and only files can be read.
    if !name.starts_with("refs/heads/") || common_dir.join("reftable").exists() {
        return None;
    }
    match reference(common_dir, name) {
        Some(id) => Some(Some(id)),
        // A file that holds no commit is damaged, not unborn.
        None => fs::symlink_metadata(common_dir.join(name)).is_err().then_some(None),
    }
}

/// The branch that HEAD is on; none if it is on none, or is stored in another way.
pub(crate) fn head_branch(git_dir: &Path, common_dir: &Path) -> Option<String> {
    let head = read_text(git_dir.join("HEAD")).ok()?;
    let name = head.trim_end().strip_prefix("ref: refs/heads/")?;
    (!common_dir.join("reftable").exists()).then(|| name.to_owned())
}

/// The whole name of the ref that HEAD stands for; none if it is a commit.
pub(crate) fn head_reference(git_dir: &Path) -> Option<String> {
    branch_in(git_dir).flatten()
}

/// Makes HEAD name a commit instead of a branch.
pub(crate) fn detach(git_dir: &Path, commit: &str) -> io::Result<()> {
    // Under another name first: what is there may be a link of an agent's.
    let fresh = git_dir.join("HEAD.lock");
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&fresh)?;
    let written = file.write_all(format!("{commit}\n").as_bytes()).and_then(|()| file.sync_data());
    written.and_then(|()| fs::rename(&fresh, git_dir.join("HEAD"))).inspect_err(|_| {
        let _ = fs::remove_file(&fresh);
    })
}

pub(crate) fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// How much of a file of git's is read.
const LONGEST: u64 = 1 << 27;

/// A regular file. What an agent has put in its place holds nothing up: neither a pipe nor a device.
fn read_bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::File::options().read(true).custom_flags(nonblocking).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read_bytes(path)?).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::fixture::Fixture;

    #[test]
    fn a_format_that_is_not_the_usual_one_is_left_to_git() {
        let usual = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n";
        for (more, expected) in [
            ("", true),
            ("[remote \"origin\"]\n\turl = x\n", true),
            ("\tbare = true\n", false),
            ("\tbare\n", false),
            ("[remote\n", false),
            ("[core] bare = true\n", false),
            ("\tworktree = /x\n", false),
            ("[core] WorkTree=/x\n", false),
            ("[extensions]\n\trefStorage = reftable\n", false),
            ("\trepositoryFormatVersion = 1\n", false),
        ] {
            assert_eq!(has_plain_format(&format!("{usual}{more}")), expected, "{more}");
        }
    }

    #[test]
    fn files_tell_of_checkouts_refs_and_worktrees_what_git_tells() {
        let fixture = Fixture::new();
        let root = fixture.repo().canonicalize().unwrap();
        let (one, two) = (fixture.outside("one"), fixture.outside("two"));
        fixture.user(&["worktree", "add", "-q", "-b", "work", one.to_str().unwrap()]);
        fixture.user(&["worktree", "add", "-q", "--detach", two.to_str().unwrap()]);
        fixture.user(&["worktree", "lock", two.to_str().unwrap()]);
        let common = root.join(".git");
        for dir in [&root, &one.canonicalize().unwrap()] {
            let asked = |what: &str| {
                fixture.git_in(dir, &["rev-parse", "--path-format=absolute", what]).trim().to_owned()
            };
            let (git_dir, common_dir) = folders_of_checkout(dir).unwrap();
            assert_eq!(git_dir.to_str().unwrap(), asked("--absolute-git-dir"));
            assert_eq!(common_dir.to_str().unwrap(), asked("--git-common-dir"));
        }
        assert!(folders_of_checkout(&root.join("sub")).is_none(), "a folder inside is for git to place");
        let branch = fixture.user(&["symbolic-ref", "HEAD"]).trim().to_owned();
        let found: Vec<(PathBuf, Option<String>, bool)> = worktrees(&common)
            .unwrap()
            .into_iter()
            .map(|known| (known.path, known.branch, known.is_locked))
            .collect();
        let work = Some("refs/heads/work".to_owned());
        assert_eq!(found, [(root.clone(), Some(branch), false), (one, work, false), (two, None, true)]);
        for (name, expected) in [("refs/heads/work", false), ("refs/heads/gone", true)] {
            assert_eq!(has_no_reference(&common, name), expected, "{name}");
        }
        fixture.user(&["pack-refs", "--all"]);
        assert!(!has_no_reference(&common, "refs/heads/work"), "it is packed now");
        // A repository of another kind is git's to tell about.
        fixture.user(&["config", "core.worktree", "/elsewhere"]);
        assert!(folders_of_checkout(&root).is_none());
    }

    #[test]
    fn a_tree_is_read_from_a_stored_commit_and_from_nothing_else() {
        let tree = "aaff74984cccd156a469afa7d9ab10e4777beb24";
        let stored = |kind: u8, text: &str| {
            let length = u16::try_from(text.len()).unwrap().to_le_bytes();
            [&[0x78, 1, kind], &length[..], &length.map(|b| !b)[..], text.as_bytes()].concat()
        };
        let commit = format!("commit 112\0tree {tree}\nauthor a <b> 1 +0000\n\nx");
        for (bytes, expected) in [
            (stored(1, &commit), Some(tree)),
            (stored(0, &commit), Some(tree)),
            (stored(3, &commit), None),
            (stored(5, &commit), None),
            (stored(1, &format!("blob 112\0tree {tree}\n")), None),
            (stored(1, &format!("commit 1\0parent {tree}\n")), None),
            (stored(1, "commit 1\0tree ../../x\n"), None),
            (stored(1, "commit 1\0tree aaff"), None),
            (stored(1, &commit)[..40].to_vec(), None),
            (b"x\x01".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(tree_in(&bytes).as_deref(), expected, "{}", String::from_utf8_lossy(&bytes));
        }
    }
}
