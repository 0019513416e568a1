//! Finding and reading configuration files, with distrust: strangers may have written what a repository holds.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use dacapo_core::{
    config::{Author, Config, Effective, Problems, Typed, parse, resolve},
    trust::{Runnable, demands, proof_taken_away, runnables},
    yaml::MAX_BYTES,
};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

/// The folder of a repository that is ours.
pub(crate) const FOLDER: &str = ".dacapo";
/// A repository's configuration, from its root.
pub const REPOSITORY_FILE: &str = ".dacapo/config.yaml";

/// Why a configuration file is not used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(transparent)]
    Problems(#[from] Problems),
    /// It cannot be trusted to be what it seems.
    #[error("`{}` is refused: {why}", path.display())]
    Refused {
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    #[error("`{}` is refused: every user may write to it", path.display())]
    OpenToAll { path: PathBuf },
    #[error("cannot read `{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// What was found for a workspace.
#[derive(Clone, Debug, Default)]
pub struct ConfigFiles {
    /// The folder that holds `.dacapo/`, absolute and real.
    pub root: Option<PathBuf>,
    /// Every folder that could hold it: the workspace, and those above it up to the top of its repository.
    folders: Vec<PathBuf>,
    /// What the repository's file says; nothing if there is none.
    pub repository: Config,
    /// What the user's file says; nothing if there is none.
    pub user: Config,
}

impl ConfigFiles {
    /// Finds and reads both files for work in `workspace`, which is absolute and real.
    pub fn load(workspace: &Path) -> Result<Self, ConfigError> {
        let root = repository_root(workspace);
        let repository = match &root {
            Some(root) => read_repository(root)?,
            None => None,
        };
        let user = match user_file() {
            Some(path) => read_user(&path)?,
            None => None,
        };
        let folders = possible_roots(workspace).map(Path::to_owned).collect();
        let (repository, user) = (repository.unwrap_or_default(), user.unwrap_or_default());
        Ok(Self { root, folders, repository, user })
    }

    /// What the repository asks of claims, for each folder that could hold its configuration. Where none lies (any more), nothing
    /// is asked.
    pub fn demands(&self) -> Vec<(&Path, Vec<Runnable>)> {
        let of = |folder: &Path| match self.root.as_deref() == Some(folder) {
            true => demands(&self.repository),
            false => Vec::new(),
        };
        self.folders.iter().map(|folder| (folder.as_path(), of(folder))).collect()
    }

    /// What is in force together with what the user typed.
    pub fn effective(&self, typed: &Typed) -> Effective {
        resolve(&self.user, &self.repository, typed)
    }

    /// Words of the repository that take proof away from stages.
    pub fn proof_taken_away(&self) -> Vec<Runnable> {
        proof_taken_away(&self.repository)
    }

    /// What of the repository could run.
    pub fn runnables(&self) -> Vec<Runnable> {
        runnables(&self.repository)
    }
}

/// What the user's own file says; nothing if there is none.
pub(crate) fn users() -> Result<Config, ConfigError> {
    Ok(user_file().map(|path| read_user(&path)).transpose()?.flatten().unwrap_or_default())
}

/// What the file of the repository says that `folder` is in; nothing if there is none.
pub(crate) fn of_repository(folder: &Path) -> Result<Config, ConfigError> {
    Ok(repository_root(folder).map(|root| read_repository(&root)).transpose()?.flatten().unwrap_or_default())
}

/// The folder that holds `.dacapo/`: `workspace` or one above it, but none above the top of its git repository.
///
/// Without git only `workspace` itself counts: a folder further up may belong to another user. git is not asked, because a
/// repository can make it run programs.
pub fn repository_root(workspace: &Path) -> Option<PathBuf> {
    possible_roots(workspace)
        .find(|folder| fs::symlink_metadata(folder.join(FOLDER)).is_ok())
        .map(Path::to_owned)
}

/// The folders that could hold `.dacapo/`: `workspace` and those above it, up to the top of its git repository.
pub fn possible_roots(workspace: &Path) -> impl Iterator<Item = &Path> {
    let top = workspace.ancestors().find(|folder| fs::symlink_metadata(folder.join(".git")).is_ok());
    let top = top.unwrap_or(workspace);
    workspace.ancestors().take_while(move |folder| folder.starts_with(top))
}

/// Where the user's own configuration lies, if anywhere.
pub fn user_file() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("dacapo/config.yaml"))
}

/// Files in a repository by which it speaks to agents; they are listed for people, never read.
pub fn agent_configuration(root: &Path) -> Vec<String> {
    const NAMES: [&str; 9] = [
        ".claude",
        ".mcp.json",
        ".codex",
        ".gemini",
        ".opencode",
        "opencode.json",
        "AGENTS.md",
        "CLAUDE.md",
        "GEMINI.md",
    ];
    let slash = |name: &str| match fs::symlink_metadata(root.join(name)) {
        Ok(metadata) if metadata.is_dir() => Some(format!("{name}/")),
        Ok(_) => Some(name.to_owned()),
        Err(_) => None,
    };
    NAMES.into_iter().filter_map(slash).collect()
}

fn read_repository(root: &Path) -> Result<Option<Config>, ConfigError> {
    let path = root.join(REPOSITORY_FILE);
    let failed = |error: rustix::io::Errno| match error {
        rustix::io::Errno::XDEV => refused(&path, "it leads out of the repository"),
        rustix::io::Errno::LOOP => refused(&path, "its links lead nowhere"),
        rustix::io::Errno::NOTDIR => refused(&path, "`.dacapo` is not a folder"),
        error => ConfigError::Io { path: path.clone(), source: error.into() },
    };
    // One system call opens the file, so that a link that changes meanwhile leads nowhere else. A FIFO does not hold
    // it up.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let folder = rustix::fs::open(root, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY, Mode::empty())
        .map_err(failed)?;
    let open = |name: &str, extra| rustix::fs::openat2(&folder, name, flags | extra, Mode::empty(), beneath);
    let holder = match open(FOLDER, OFlags::DIRECTORY) {
        Ok(holder) => fs::File::from(holder),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let file = match open(REPOSITORY_FILE, OFlags::empty()) {
        Ok(file) => fs::File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        // What opening a socket says.
        Err(rustix::io::Errno::NXIO) => return Err(refused(&path, "it is not a regular file")),
        Err(error) => return Err(failed(error)),
    };
    check_owner(&root.join(FOLDER), &holder)?;
    let bytes = read(&path, file)?;
    Ok(Some(parse(REPOSITORY_FILE, &bytes, Author::Repository)?))
}

fn read_user(path: &Path) -> Result<Option<Config>, ConfigError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => fs::File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(ConfigError::Io { path: path.to_owned(), source: error.into() }),
    };
    let bytes = read(path, file)?;
    Ok(Some(parse(&path.to_string_lossy(), &bytes, Author::User)?))
}

fn refused(path: &Path, why: &'static str) -> ConfigError {
    ConfigError::Refused { path: path.to_owned(), why }
}

/// Refuses what others than its user could have written.
fn check_owner(path: &Path, file: &fs::File) -> Result<rustix::fs::Stat, ConfigError> {
    let stat = rustix::fs::fstat(file)
        .map_err(|error| ConfigError::Io { path: path.to_owned(), source: error.into() })?;
    let us = rustix::process::geteuid().as_raw();
    if stat.st_uid != us && stat.st_uid != 0 {
        return Err(refused(path, "it belongs to another user"));
    }
    if stat.st_mode & 0o002 != 0 {
        return Err(ConfigError::OpenToAll { path: path.to_owned() });
    }
    Ok(stat)
}

fn read(path: &Path, file: fs::File) -> Result<Vec<u8>, ConfigError> {
    let stat = check_owner(path, &file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(refused(path, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    // One byte more than is allowed, so that too much is seen to be too much.
    file.take(MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| ConfigError::Io { path: path.to_owned(), source })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_found_upwards_and_never_above_git() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["a/.dacapo", "a/repo/.git", "a/repo/x/.dacapo", "a/repo/x/y", "a/repo/z", "a/plain/b"]
        {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        for (workspace, root) in [
            ("a", Some("a")),
            ("a/repo", None),
            ("a/repo/z", None),
            ("a/repo/x", Some("a/repo/x")),
            ("a/repo/x/y", Some("a/repo/x")),
            ("a/plain/b", None),
        ] {
            assert_eq!(
                repository_root(&base.join(workspace)),
                root.map(|root| base.join(root)),
                "{workspace}"
            );
        }
        fs::create_dir(base.join("a/repo/.dacapo")).unwrap();
        assert_eq!(repository_root(&base.join("a/repo/z")), Some(base.join("a/repo")));
    }

    #[test]
    fn what_speaks_to_agents_is_listed() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(agent_configuration(dir.path()), [""; 0]);
        fs::create_dir(dir.path().join(".claude")).unwrap();
        fs::write(dir.path().join("AGENTS.md"), "").unwrap();
        std::os::unix::fs::symlink("/nowhere", dir.path().join(".mcp.json")).unwrap();
        assert_eq!(agent_configuration(dir.path()), [".claude/", ".mcp.json", "AGENTS.md"]);
    }
}
