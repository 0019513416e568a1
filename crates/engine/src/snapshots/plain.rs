//! A folder without git: its content as one hash, and which files are not what they were. Nothing can be put back.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    io::Read,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use dacapo_core::judge::progress::{MOST_FILES, Outline};
use sha2::{Digest, Sha256};

use super::{ChangeKind, PathChange, Snapshot};
use crate::{
    git::{WorkspaceError, replace, split_nul},
    guard::holds_name,
    home::Home,
};

/// How many lists of files are kept beside the first.
const KEPT: usize = 8;

pub(crate) struct PlainFolder {
    pub(crate) dir: PathBuf,
    /// The folder with dacapo's lists of files.
    folder: PathBuf,
    /// dacapo's state folder, which is left out if it lies in `dir`.
    home: PathBuf,
    seen: BTreeMap<Vec<u8>, FileStamp>,
    last: Option<String>,
}

/// A plain folder of which nothing but paths, sizes and times is looked at: enough to tell progress, and nothing more.
pub struct Folder {
    dir: PathBuf,
    /// dacapo's state folder, which is left out if it lies in `dir`.
    home: PathBuf,
}

impl Folder {
    /// The folder at `dir`.
    pub fn at(dir: &Path, home: &Home) -> Self {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Self { dir: real(dir), home: real(home.path()) }
    }

    /// What its files come to; `None` if there are more than [`MOST_FILES`]. What cannot be read is passed over.
    pub fn outline(&self) -> Option<String> {
        self.outline_of(MOST_FILES as u64)
    }

    pub(crate) fn outline_of(&self, most: u64) -> Option<String> {
        let mut outline = Outline::default();
        let (mut folders, mut entered) = (vec![self.dir.clone()], 0);
        while let Some(folder) = folders.pop() {
            // Folders take as long as files do, though none of them counts.
            entered += 1;
            if entered > most {
                return None;
            }
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let Ok(metadata) = entry.metadata() else { continue };
                let path = entry.path();
                if metadata.is_dir() {
                    if entry.file_name() != ".git" && path != self.home {
                        folders.push(path);
                    }
                    continue;
                }
                if metadata.is_file() && holds_name(&path, metadata.len()) {
                    continue;
                }
                if outline.files() >= most {
                    return None;
                }
                let name = path.strip_prefix(&self.dir).unwrap_or(&path).as_os_str().as_bytes();
                outline.add(name, metadata.size(), (metadata.mtime(), metadata.mtime_nsec()));
            }
        }
        Some(outline.text())
    }
}

/// A file's content, and how to tell cheaply that it is still the same.
#[derive(Clone)]
struct FileStamp {
    kind: FileKind,
    hash: String,
    stamp: (u64, u64, i64, i64, i64, i64),
    /// Whether it was changed long enough before it was read that a later change must show in its times.
    is_settled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    File,
    Executable,
    Link,
}

impl FileKind {
    const fn letter(self) -> u8 {
        match self {
            Self::File => b'f',
            Self::Executable => b'x',
            Self::Link => b'l',
        }
    }
}

/// A path's kind and hash, as kept in a list.
type Listed = BTreeMap<Vec<u8>, Vec<u8>>;

impl PlainFolder {
    pub(crate) fn open(dir: PathBuf, home: &Path, folder: PathBuf) -> Self {
        let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
        let last = fs::read_to_string(folder.join("last")).ok();
        Self { dir, folder, home, seen: BTreeMap::new(), last }
    }

    pub(crate) fn begin(&mut self) -> Result<Snapshot, WorkspaceError> {
        if let Ok(id) = fs::read_to_string(self.folder.join("start")) {
            return Ok(Snapshot { id, changed: false });
        }
        let snapshot = self.snapshot()?;
        replace(&self.folder.join("start"), snapshot.id.as_bytes())?;
        Ok(snapshot)
    }

    pub(crate) fn snapshot(&mut self) -> Result<Snapshot, WorkspaceError> {
        let id = self.hash(MOST_FILES)?;
        let changed = self.last.as_ref() != Some(&id);
        let list = self.folder.join(format!("list-{id}"));
        if changed || !list.exists() {
            crate::home::make_dir(&self.folder).map_err(WorkspaceError::io("make", &self.folder))?;
            let lines: Vec<u8> =
                self.seen.iter().flat_map(|(path, seen)| [&seen.line()[..], path, b"\0"].concat()).collect();
            replace(&list, &lines)?;
            replace(&self.folder.join("last"), id.as_bytes())?;
            self.last = Some(id.clone());
            self.forget_old_lists();
        }
        Ok(Snapshot { id, changed })
    }

    /// The hash of everything in the folder, which may take long beyond [`MOST_FILES`].
    pub(crate) fn hash(&mut self, most: usize) -> Result<String, WorkspaceError> {
        self.seen = self.look(most)?;
        let mut all = Sha256::new();
        for (path, seen) in &self.seen {
            all.update((path.len() as u64).to_le_bytes());
            all.update(path);
            all.update(seen.line());
        }
        Ok(hex(&all.finalize()))
    }

    pub(crate) fn disturbed_since(&self, id: &str) -> Result<Vec<Vec<u8>>, WorkspaceError> {
        let now = self.look(usize::MAX)?;
        let then = self.list(id)?;
        let differs =
            |(path, line): &(Vec<u8>, Vec<u8>)| now.get(path).is_none_or(|seen| seen.line() != *line);
        Ok(then.into_iter().filter(differs).map(|(path, _)| path).collect())
    }

    pub(crate) fn changes(&self, from: &str, to: &str) -> Result<Vec<PathChange>, WorkspaceError> {
        let (from, to) = (self.list(from)?, self.list(to)?);
        let mut changes = Vec::new();
        for (path, line) in &from {
            let kind = match to.get(path) {
                None => ChangeKind::Deleted,
                Some(other) if other == line => continue,
                Some(other) if (other[0] == b'l') != (line[0] == b'l') => ChangeKind::TypeChanged,
                Some(_) => ChangeKind::Modified,
            };
            changes.push(PathChange { kind, path: path.clone() });
        }
        let added = to.keys().filter(|path| !from.contains_key(*path));
        changes.extend(added.map(|path| PathChange { kind: ChangeKind::Added, path: path.clone() }));
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(changes)
    }

    pub(crate) fn files(&self, id: &str) -> Result<Vec<Vec<u8>>, WorkspaceError> {
        Ok(self.list(id)?.into_keys().collect())
    }

    fn list(&self, id: &str) -> Result<Listed, WorkspaceError> {
        let missing = || WorkspaceError::NoSnapshot(id.to_owned());
        if !id.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(missing());
        }
        let text = fs::read(self.folder.join(format!("list-{id}"))).map_err(|_| missing())?;
        Ok(split_nul(&text)
            .filter_map(|entry| Some((entry.get(LINE..)?.to_vec(), entry[..LINE].to_vec())))
            .collect())
    }

    /// The first list stays, of the others the latest few.
    fn forget_old_lists(&self) {
        let start = fs::read_to_string(self.folder.join("start")).unwrap_or_default();
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut lists: Vec<(SystemTime, PathBuf)> = entries
            .flatten()
            .filter(|entry| entry.file_name().as_bytes().starts_with(b"list-"))
            .filter(|entry| entry.file_name() != OsStr::new(&format!("list-{start}")))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        lists.sort();
        for (_, path) in lists.iter().rev().skip(KEPT) {
            let _ = fs::remove_file(path);
        }
    }

    fn look(&self, most: usize) -> Result<BTreeMap<Vec<u8>, FileStamp>, WorkspaceError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let recent = now.saturating_sub(Duration::from_secs(2)).as_secs().cast_signed();
        let mut found = BTreeMap::new();
        let mut folders = vec![self.dir.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).map_err(WorkspaceError::io("read", &folder))? {
                let entry = entry.map_err(WorkspaceError::io("read", &folder))?;
                let path = entry.path();
                let metadata = match fs::symlink_metadata(&path) {
                    // Gone between listing and looking.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                    metadata => metadata.map_err(WorkspaceError::io("read", &path))?,
                };
                if metadata.is_dir() {
                    if entry.file_name() != ".git" && path != self.home {
                        folders.push(path);
                    }
                    continue;
                }
                // A pipe or a socket has no content, and reading it may never end.
                if !metadata.is_file() && !metadata.is_symlink() {
                    continue;
                }
                // Another loop, which works elsewhere, holds names while it runs.
                if metadata.is_file() && holds_name(&path, metadata.len()) {
                    continue;
                }
                if found.len() >= most {
                    return Err(WorkspaceError::TooManyFiles { dir: self.dir.clone(), most });
                }
                let name = path.strip_prefix(&self.dir).unwrap_or(&path).as_os_str().as_bytes().to_vec();
                let seen = self.see(&name, &path, &metadata, recent)?;
                found.insert(name, seen);
            }
        }
        Ok(found)
    }

    fn see(
        &self,
        name: &[u8],
        path: &Path,
        metadata: &fs::Metadata,
        recent: i64,
    ) -> Result<FileStamp, WorkspaceError> {
        let kind = match (metadata.is_symlink(), metadata.permissions().mode() & 0o100) {
            (true, _) => FileKind::Link,
            (false, 0) => FileKind::File,
            (false, _) => FileKind::Executable,
        };
        let m = metadata;
        let stamp = (m.ino(), m.size(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec());
        let known = self.seen.get(name).filter(|seen| seen.is_settled && seen.stamp == stamp);
        let hash = match known {
            Some(seen) => seen.hash.clone(),
            None => hash_of(path, kind).map_err(WorkspaceError::io("read", path))?,
        };
        Ok(FileStamp { kind, hash, stamp, is_settled: m.ctime() < recent })
    }
}

/// Bytes of a list's entry before the path.
const LINE: usize = 66;

impl FileStamp {
    fn line(&self) -> Vec<u8> {
        [&[self.kind.letter()], self.hash.as_bytes(), b" "].concat()
    }
}

fn hash_of(path: &Path, kind: FileKind) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    if kind == FileKind::Link {
        hash.update(fs::read_link(path)?.as_os_str().as_bytes());
    } else {
        let mut file = File::open(path)?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => hash.update(&buffer[..count]),
            }
        }
    }
    Ok(hex(&hash.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}
