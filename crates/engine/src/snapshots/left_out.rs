//! What lies in a workspace and no snapshot may hold: keys that an agent found in its environment, dumps of its memory, and files by
//! which another loop holds names.
//!
//! Only files that changed are looked at, after git has told which: one more git process for every snapshot would be the price of
//! looking before. The copy that git has made by then is removed again, unless it may be from before.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::Path,
    time::SystemTime,
};

use dacapo_core::secrets::Secrets;
use memchr::memmem;
use rustix::fs::OFlags;

use super::{Warning, shadow::Shadow};
use crate::{
    git::{WorkspaceError, split_nul},
    guard::holds_name,
    secrets::secrets,
};

/// How much of the changed files of one snapshot is searched. At more than a gigabyte a second that is not noticed.
const MOST_BYTES: u64 = 256 << 20;
/// How much is read at once.
const PIECE: usize = 1 << 20;

/// Why a file is left out of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeftOutReason {
    Key,
    CoreDump,
    /// It holds a name while a loop runs that works elsewhere.
    HeldName,
}

/// A path, and why it is left out.
type LeftOutPath = (Vec<u8>, LeftOutReason);

impl Shadow {
    /// Takes files out of the index again that no snapshot may hold. `printed` is what `git add` said, `began` when it began.
    /// A file that the snapshot before holds stays in it as it was. Says whether there was one.
    pub(super) fn leave_out(&mut self, printed: &[u8], began: SystemTime) -> Result<bool, WorkspaceError> {
        if printed.is_empty() {
            return Ok(false);
        }
        let paths = match added(printed) {
            Some(paths) => paths,
            // A name with a line break in it: git lists such names with a NUL after each.
            None => {
                let base = self.state.last.clone().map(|last| self.tree_of(&last)).transpose()?;
                let call = self.call()?.args(["diff", "--cached", "--name-only", "--no-renames", "-z"]);
                let listed = call.args(base).ok()?.stdout;
                split_nul(&listed).map(<[u8]>::to_vec).collect()
            }
        };
        let (found, unsearched) = search(&self.checkout.toplevel, &paths, secrets());
        for path in unsearched {
            self.warn_once(Warning::NotSearched(path));
        }
        if found.is_empty() {
            return Ok(false);
        }
        let of_top: Vec<Vec<u8>> =
            found.iter().map(|(path, _)| [b":(top,literal)", &path[..]].concat()).collect();
        let of_top: Vec<&OsStr> = of_top.iter().map(|path| OsStr::from_bytes(path)).collect();
        let listed = self.call()?.args(["ls-files", "-s", "-z", "--"]).args(&of_top).ok()?.stdout;
        // Each entry is its mode, its object, 0, a tab and its path; without a mode it goes.
        let mut entries: Vec<u8> = Vec::new();
        let before = match self.state.last.clone() {
            Some(last) => {
                let tree = self.tree_of(&last)?;
                let paths = found.iter().map(|(path, _)| OsStr::from_bytes(path));
                let list = ["ls-tree", "-z", "--full-tree", "--end-of-options", &tree];
                self.call()?.args(list).args(paths).ok()?.stdout
            }
            None => Vec::new(),
        };
        for (path, reason) in &found {
            let is_before = |entry: &&[u8]| entry.ends_with(&[b"\t", &path[..]].concat());
            // A name can be held only where no file is.
            let kept = split_nul(&before).find(is_before).filter(|_| *reason != LeftOutReason::HeldName);
            match kept {
                Some(entry) => entries.extend([entry, b"\0"].concat()),
                None => entries.extend([b"0 ", &[b'0'; 40][..], b"\t", &path[..], b"\0"].concat()),
            }
            match reason {
                LeftOutReason::Key => {
                    self.warn_once(Warning::HoldsKey { path: path.clone(), is_kept: kept.is_some() });
                }
                LeftOutReason::CoreDump => self.warn_once(Warning::CoreDump(path.clone())),
                LeftOutReason::HeldName => {}
            }
        }
        self.call()?.args(["update-index", "-z", "--index-info"]).input(entries).ok()?;
        for entry in split_nul(&listed) {
            if let Some(object) = entry.split(|byte| *byte == b' ').nth(1) {
                self.remove_fresh_object(&String::from_utf8_lossy(object), began);
            }
        }
        Ok(true)
    }

    fn warn_once(&mut self, warning: Warning) {
        if !self.told_left_out.contains(&warning) {
            self.told_left_out.push(warning.clone());
            self.warnings.push(warning);
        }
    }

    /// Removes an object that git has written since `began`. One that was there before may belong to a commit. The times of files
    /// are some milliseconds behind the clock, so that one that was written right after `began` stays until git collects it.
    fn remove_fresh_object(&self, object: &str, began: SystemTime) {
        let Some((folder, name)) = object.split_at_checked(2) else { return };
        let path = self.checkout.common_dir.join("objects").join(folder).join(name);
        if fs::metadata(&path).and_then(|metadata| metadata.created()).is_ok_and(|made| made > began) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The paths that `git add --verbose` says it has added; none if one of them has a line break.
fn added(printed: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut paths = Vec::new();
    for line in printed.strip_suffix(b"\n").unwrap_or(printed).split(|byte| *byte == b'\n') {
        let (is_added, rest) = match (line.strip_prefix(b"add '"), line.strip_prefix(b"remove '")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return None,
        };
        let path = rest.strip_suffix(b"'")?;
        if is_added {
            paths.push(path.to_vec());
        }
    }
    Some(paths)
}

/// Those of `paths` that no snapshot may hold, and those that were not looked at because they are too large.
fn search(top: &Path, paths: &[Vec<u8>], secrets: &Secrets) -> (Vec<LeftOutPath>, Vec<Vec<u8>>) {
    let (mut found, mut unsearched) = (Vec::new(), Vec::new());
    let mut left = MOST_BYTES;
    for path in paths {
        let file = top.join(OsStr::from_bytes(path));
        let Ok(metadata) = fs::symlink_metadata(&file) else { continue };
        let target = metadata.is_symlink().then(|| fs::read_link(&file).ok()).flatten();
        let is_link_to_key = target.is_some_and(|target| secrets.has_key(target.as_os_str().as_bytes()));
        if secrets.has_key(path) || is_link_to_key {
            found.push((path.clone(), LeftOutReason::Key));
            continue;
        }
        if !metadata.is_file() {
            continue;
        }
        if holds_name(&file, metadata.len()) {
            found.push((path.clone(), LeftOutReason::HeldName));
            continue;
        }
        if is_named_like_dump(path) && is_dump(&file).unwrap_or(false) {
            found.push((path.clone(), LeftOutReason::CoreDump));
            continue;
        }
        if secrets.longest_key() == 0 {
            continue;
        }
        if metadata.len() > left {
            unsearched.push(path.clone());
            continue;
        }
        left -= metadata.len();
        if holds_key(&file, secrets).unwrap_or(false) {
            found.push((path.clone(), LeftOutReason::Key));
        }
    }
    (found, unsearched)
}

fn holds_key(file: &Path, secrets: &Secrets) -> io::Result<bool> {
    let mut file = regular(file)?;
    let (mut text, mut kept) = (Vec::new(), 0);
    loop {
        // What could be the beginning of a key at the end of a piece is searched again with the next one.
        text.drain(..text.len() - kept);
        let read = file.by_ref().take(PIECE as u64).read_to_end(&mut text)?;
        if secrets.has_key(&text) {
            return Ok(true);
        }
        if read == 0 {
            return Ok(false);
        }
        kept = text.len().min(secrets.longest_key());
    }
}

/// Opens a file and nothing else: a pipe that took its place would never end.
fn regular(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// `core`, `core.1234`, `vgcore.77`, `prog.core`.
fn is_named_like_dump(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name == b"core" || memmem::find(name, b"core.").is_some() || name.ends_with(b".core")
}

/// Whether a file is a dump of a process's memory, by its first bytes.
fn is_dump(file: &Path) -> io::Result<bool> {
    let mut head = [0; 18];
    regular(file)?.read_exact(&mut head)?;
    // The type in the head of an ELF file, in the byte order that the file says.
    let kind = if head[5] == 2 { [head[17], head[16]] } else { [head[16], head[17]] };
    Ok(head.starts_with(b"\x7fELF") && kind == [4, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_it_added_is_read() {
        for (printed, expected) in [
            ("add 'a'\nremove 'b'\nadd 'c d'\n", Some(vec!["a", "c d"])),
            ("add 'it's'\n", Some(vec!["it's"])),
            ("add 'a\nb'\n", None),
            ("\n", None),
        ] {
            let found = added(printed.as_bytes());
            let expected: Option<Vec<Vec<u8>>> =
                expected.map(|paths| paths.into_iter().map(|path| path.as_bytes().to_vec()).collect());
            assert_eq!(found, expected, "{printed:?}");
        }
    }

    #[test]
    fn keys_and_dumps_are_found_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let key = "k3y-of-a-provider-0123456789";
        let secrets = Secrets::new([key]);
        let mut dump = b"\x7fELF\x02\x01\x01".to_vec();
        dump.resize(16, 0);
        dump.extend([4, 0, 62, 0]);
        let mut program = dump.clone();
        program[16] = 2;
        // A key across the border of two pieces.
        let far = [vec![b'x'; PIECE - 9], key.as_bytes().to_vec()].concat();
        for (path, content, expected) in [
            ("plain.txt", b"nothing".to_vec(), None),
            ("holds.txt", format!("a {key} b").into_bytes(), Some(LeftOutReason::Key)),
            ("far.bin", far, Some(LeftOutReason::Key)),
            ("k3y-of-a-provider-0123456789.txt", b"".to_vec(), Some(LeftOutReason::Key)),
            ("core", dump.clone(), Some(LeftOutReason::CoreDump)),
            ("a/core.123", dump.clone(), Some(LeftOutReason::CoreDump)),
            ("vgcore.7", dump.clone(), Some(LeftOutReason::CoreDump)),
            ("data.bin", dump, None),
            ("core.prog", program, None),
            ("core.md", b"# Core".to_vec(), None),
        ] {
            let file = dir.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, content).unwrap();
            let (found, unsearched) = search(dir.path(), &[path.as_bytes().to_vec()], &secrets);
            let expected: Vec<_> = expected.map(|why| (path.as_bytes().to_vec(), why)).into_iter().collect();
            assert_eq!((found, unsearched), (expected, Vec::new()), "{path}");
        }
        std::os::unix::fs::symlink(key, dir.path().join("link")).unwrap();
        let (found, _) = search(dir.path(), &[b"link".to_vec()], &secrets);
        assert_eq!(found, [(b"link".to_vec(), LeftOutReason::Key)]);
        // One that is too large is told of.
        File::create(dir.path().join("large")).unwrap().set_len(MOST_BYTES + 1).unwrap();
        assert_eq!(search(dir.path(), &[b"large".to_vec()], &secrets).1, [b"large".to_vec()]);
    }
}
