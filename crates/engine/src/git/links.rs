//! Links in git's own folders. git writes through them, so one that an agent makes there has dacapo's git write elsewhere, with the
//! rights of the user.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

/// Names in git's folders that it writes to, beside those of branches and objects.
const WRITTEN: [&str; 18] = [
    "HEAD",
    "index",
    "config",
    "config.worktree",
    "packed-refs",
    "ORIG_HEAD",
    "FETCH_HEAD",
    "COMMIT_EDITMSG",
    "refs",
    "refs/heads",
    "refs/dacapo",
    "logs",
    "logs/HEAD",
    "logs/refs",
    "logs/refs/heads",
    "objects",
    "objects/pack",
    "objects/info",
];

/// What in the folders of a checkout was no plain file or folder when a loop began, and what HEAD said.
#[derive(Debug)]
pub(crate) struct LinksAtStart {
    git_dir: PathBuf,
    common_dir: PathBuf,
    links: BTreeSet<PathBuf>,
    head: Vec<u8>,
}

impl LinksAtStart {
    /// Links count as the user's if the loop is: not in a repository that an agent chose, nor in what belongs to a worktree alone.
    pub(crate) fn look(git_dir: &Path, common_dir: &Path, is_users: bool) -> Self {
        let found = odd(git_dir, common_dir);
        let is_plain = !found.contains(&git_dir.join("HEAD"));
        let is_linked = git_dir != common_dir;
        let links =
            found.into_iter().filter(|path| is_users && !(is_linked && path.starts_with(git_dir))).collect();
        let head = is_plain.then(|| fs::read(git_dir.join("HEAD")).ok()).flatten().unwrap_or_default();
        Self { git_dir: git_dir.to_owned(), common_dir: common_dir.to_owned(), links, head }
    }

    /// Removes what is a link, a pipe or a device since then, and names it. A HEAD that was one says again what it did.
    pub(crate) fn remove_new(&self) -> io::Result<Vec<PathBuf>> {
        let mut removed = Vec::new();
        loop {
            let found = odd(&self.git_dir, &self.common_dir);
            let new: Vec<&PathBuf> = found.difference(&self.links).collect();
            if new.is_empty() {
                return Ok(removed);
            }
            for path in new {
                fs::remove_file(path)?;
                // Only then is it known which branch is meant.
                if *path == self.git_dir.join("HEAD") {
                    fs::write(path, &self.head)?;
                }
                removed.push(path.clone());
            }
        }
    }
}

/// What is no plain file or folder.
fn odd(git_dir: &Path, common_dir: &Path) -> BTreeSet<PathBuf> {
    let is_odd =
        |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    let mut all: BTreeSet<PathBuf> =
        [git_dir, common_dir].iter().flat_map(|folder| WRITTEN.map(|name| folder.join(name))).collect();
    // The branch that is checked out, as far as a plain HEAD says.
    for folder in [git_dir, common_dir] {
        let head = folder.join("HEAD");
        let text = if is_odd(&head) { String::new() } else { fs::read_to_string(head).unwrap_or_default() };
        if let Some(name) = text.trim().strip_prefix("ref: ") {
            for at in Path::new(name).ancestors().filter(|at| !at.as_os_str().is_empty()) {
                all.extend([git_dir, common_dir].map(|folder| folder.join(at)));
                all.extend([git_dir, common_dir].map(|folder| folder.join("logs").join(at)));
            }
        }
    }
    all.retain(is_odd);
    // There are up to 256 folders of objects, and the list of their names says what each one is.
    let objects = fs::read_dir(common_dir.join("objects")).into_iter().flatten().flatten();
    let is_plain = |kind: fs::FileType| kind.is_file() || kind.is_dir();
    all.extend(objects.filter(|entry| !entry.file_type().is_ok_and(is_plain)).map(|entry| entry.path()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_that_came_since_the_start_go_and_older_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join("git");
        for folder in ["logs/refs/heads", "objects/aa", "refs/heads"] {
            fs::create_dir_all(git.join(folder)).unwrap();
        }
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(dir.path().join("elsewhere"), "mine").unwrap();
        symlink("../elsewhere", git.join("packed-refs")).unwrap();
        let start = LinksAtStart::look(&git, &git, true);
        assert_eq!(start.remove_new().unwrap(), Vec::<PathBuf>::new());
        for name in ["index", "logs/HEAD", "logs/refs/heads/main", "objects/ab"] {
            symlink(dir.path().join("elsewhere"), git.join(name)).unwrap();
        }
        fs::remove_file(git.join("HEAD")).unwrap();
        symlink("refs/heads/kept", git.join("HEAD")).unwrap();
        let removed = start.remove_new().unwrap();
        assert_eq!(removed.len(), 5, "{removed:?}");
        assert_eq!(fs::read_to_string(git.join("HEAD")).unwrap(), "ref: refs/heads/main\n");
        assert!(git.join("packed-refs").is_symlink() && !git.join("index").exists());
        assert_eq!(fs::read_to_string(dir.path().join("elsewhere")).unwrap(), "mine");
        // In a repository that an agent chose, none is the user's.
        let start = LinksAtStart::look(&git, &git, false);
        assert_eq!(start.remove_new().unwrap(), [git.join("packed-refs")]);
    }
}
