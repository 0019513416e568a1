//! A repository for a fresh checkout, as a clone would have it: scripts that ask git which files there are find those of the
//! snapshot, and not what the agent left in the index of the workspace.
//!
//! It has an index, a HEAD, refs and settings of its own, and borrows the objects. What a gate does to it goes with the checkout.

use std::{
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use crate::git::{Checkout, on_disk};

const SETTINGS: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = false\n[gc]\n\tauto = 0\n";
/// Where there are more refs that are not packed, the clone does without the others.
const MAX_REFS: usize = 2000;
/// A larger index of a repository within the workspace is not kept.
const MAX_INDEX: usize = 1 << 20;
/// Settings of the user's repository by which its files look otherwise than git's objects. A clone would lack them.
const OF_CONTENT: &[&str] = &["autocrlf", "eol", "[filter", "symlinks", "ignorecase"];

/// Makes `.git` in `folder`, and answers with the path of its index, which is still to be written. `None` where the repository is
/// not one that its files tell all about: the folder then is a folder and no more.
pub(super) fn make(checkout: &Checkout, folder: &Path) -> io::Result<Option<PathBuf>> {
    let Checkout { git_dir, common_dir, .. } = checkout;
    let Some(head) = on_disk::head(git_dir, common_dir) else { return Ok(None) };
    let Ok(config) = fs::read_to_string(common_dir.join("config")) else { return Ok(None) };
    let lower = config.to_ascii_lowercase();
    if !on_disk::has_plain_format(&config) || OF_CONTENT.iter().any(|setting| lower.contains(setting)) {
        return Ok(None);
    }
    let Some(own) = make_own(common_dir, head.as_deref(), folder)? else { return Ok(None) };
    if common_dir.join("packed-refs").is_file() {
        fs::copy(common_dir.join("packed-refs"), own.join("packed-refs"))?;
    }
    let mut room = MAX_REFS;
    for kind in ["refs/heads", "refs/tags", "refs/remotes"] {
        copy_refs(&common_dir.join(kind), &own.join(kind), &mut room)?;
    }
    Ok(Some(own.join("index")))
}

/// A repository within the workspace, as it was at one moment: a submodule is one.
pub(crate) struct Nested {
    git_dir: PathBuf,
    head: String,
    index: Vec<u8>,
}

impl Nested {
    /// The repository whose work tree is `dir`; `None` where git would need more of it than is told here.
    pub(crate) fn at(dir: &Path) -> Option<Self> {
        let git_dir = on_disk::git_dir_of(dir)?;
        // A work tree of a repository elsewhere has this file.
        let is_whole = git_dir.join("commondir").symlink_metadata().is_err();
        let head = on_disk::head(&git_dir, &git_dir).flatten().filter(|_| is_whole)?;
        let config = fs::read_to_string(git_dir.join("config")).ok()?.to_ascii_lowercase();
        let is_plain =
            !config.contains("extensions") && !OF_CONTENT.iter().any(|setting| config.contains(setting));
        let index = fs::read(git_dir.join("index")).ok().filter(|index| index.len() <= MAX_INDEX)?;
        is_plain.then_some(Self { git_dir, head, index })
    }

    /// Makes `.git` in `folder`, where its files lie, with its commit and its index alone. If the agent has moved it to another commit,
    /// what a gate would read of it by git is the agent's, and the folder is a folder and no more.
    pub(crate) fn lay_out(&self, dir: &Path, folder: &Path) -> io::Result<()> {
        let Self { git_dir, head, index } = self;
        let is_unmoved = on_disk::git_dir_of(dir).as_ref() == Some(git_dir)
            && on_disk::head(git_dir, git_dir).flatten().as_ref() == Some(head);
        if is_unmoved
            && folder.join(".git").symlink_metadata().is_err()
            && let Some(own) = make_own(git_dir, Some(head), folder)?
        {
            fs::write(own.join("index"), index)?;
        }
        Ok(())
    }
}

/// Makes `.git` in `folder` with the objects of a repository and without its refs.
fn make_own(common_dir: &Path, head: Option<&str>, folder: &Path) -> io::Result<Option<PathBuf>> {
    let objects = common_dir.join("objects");
    // A path that begins with a quote would have to be quoted itself.
    if objects.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b'\n' | b'"')) {
        return Ok(None);
    }
    let own = folder.join(".git");
    for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
        fs::create_dir_all(own.join(folder))?;
    }
    fs::write(own.join("config"), SETTINGS)?;
    fs::write(own.join("objects/info/alternates"), [objects.as_os_str().as_bytes(), b"\n"].concat())?;
    // On no branch, so that a gate that commits moves none.
    fs::write(own.join("HEAD"), format!("{}\n", head.unwrap_or("ref: refs/heads/main")))?;
    if common_dir.join("shallow").is_file() {
        fs::copy(common_dir.join("shallow"), own.join("shallow"))?;
    }
    Ok(Some(own))
}

fn copy_refs(from: &Path, to: &Path, room: &mut usize) -> io::Result<()> {
    let entries = match fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_refs(&entry.path(), &to, room)?;
        } else if kind.is_file() && *room > 0 {
            *room -= 1;
            fs::create_dir_all(to.parent().unwrap_or(&to))?;
            // One that git renames or removes at this moment is not there.
            if let Ok(id) = fs::read_to_string(entry.path()) {
                fs::write(to, id)?;
            }
        }
    }
    Ok(())
}
