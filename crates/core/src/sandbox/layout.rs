//! From rules about paths to mounts in an order that holds, or to what Landlock is told to allow.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// What may be done at a path and below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathAccess {
    Writable,
    ReadOnly,
    /// It looks empty and cannot be written.
    Hidden,
    /// It is empty and can be written, and nothing of it is left when the keeper ends.
    Private,
}

/// Rules by path; the nearest one above a file counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    rules: BTreeMap<PathBuf, PathAccess>,
    /// Links that lead to what has a rule.
    links: BTreeSet<PathBuf>,
}

/// What the layout needs to know about paths.
pub trait PathFacts {
    /// Whether the user could give this folder another name, and put another one in its place.
    fn is_movable(&self, folder: &Path) -> bool;
    /// What else is mounted strictly below a path.
    fn mounts_below(&self, path: &Path) -> Vec<PathBuf>;
    fn is_folder(&self, path: &Path) -> bool;
    fn names_in(&self, folder: &Path) -> Vec<PathBuf>;
}

/// Something that is mounted already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// What names the file system.
    pub disk: String,
    /// The folder of it that is shown.
    pub shown: PathBuf,
    pub at: PathBuf,
}

/// Other paths of what lies at `path`, or of what lies below it: a file system may be mounted in more than one place.
pub fn aliases(path: &Path, mounts: &[MountPoint]) -> Vec<PathBuf> {
    // Of two at one place the later one is seen.
    let seen_at = |path: &Path| {
        let above = mounts.iter().enumerate().filter(|(_, mount)| path.starts_with(&mount.at));
        above.max_by_key(|(number, mount)| (mount.at.components().count(), *number)).map(|(_, mount)| mount)
    };
    let Some(own) = seen_at(path) else { return Vec::new() };
    // Nearly every file system is mounted once.
    if !mounts.iter().any(|mount| mount.disk == own.disk && !std::ptr::eq(mount, own)) {
        return Vec::new();
    }
    let Ok(below) = path.strip_prefix(&own.at) else { return Vec::new() };
    let inside = own.shown.join(below);
    let others = mounts.iter().filter(|mount| mount.disk == own.disk && !std::ptr::eq(*mount, own));
    let found = others.filter_map(|mount| {
        let alias = match inside.strip_prefix(&mount.shown) {
            Ok(rest) => mount.at.join(rest),
            Err(_) => mount.shown.starts_with(&inside).then(|| mount.at.clone())?,
        };
        let is_seen = seen_at(&alias).is_some_and(|seen| std::ptr::eq(seen, mount));
        (is_seen && !alias.starts_with(path)).then_some(alias)
    });
    found.collect()
}

/// One mount to make, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountStep {
    /// Mounted on itself: it cannot be moved away, and is written as before.
    Pin(PathBuf),
    /// The same with a link, which leads where it led.
    PinLink(PathBuf),
    ReadOnly(PathBuf),
    /// What is mounted there already is not to be written.
    Seal(PathBuf),
    Writable(PathBuf),
    HideFolder(PathBuf),
    HideFile(PathBuf),
    Private(PathBuf),
    /// A folder of terminals of its own.
    Terminals(PathBuf),
    /// What lies at `from` is seen at `to` as well.
    Over {
        from: PathBuf,
        to: PathBuf,
    },
}

/// What Landlock is told to allow, and what that leaves open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockGrants {
    /// Where everything may be written.
    pub write: Vec<PathBuf>,
    /// Where files may be read, unless it is everywhere.
    pub read: Option<Vec<PathBuf>>,
    /// Protected paths that lie in folders which must stay writable.
    pub open: Vec<PathBuf>,
}

impl Layout {
    /// Sets what may be done at `path`; a later rule replaces an earlier one.
    pub fn set(&mut self, path: impl Into<PathBuf>, access: PathAccess) {
        self.rules.insert(path.into(), access);
    }

    /// Keeps a link that leads to something with a rule from being replaced.
    pub fn keep_link(&mut self, link: impl Into<PathBuf>) {
        self.links.insert(link.into());
    }

    /// The rules, ordered by path.
    pub fn rules(&self) -> impl Iterator<Item = (&Path, PathAccess)> {
        self.rules.iter().map(|(path, access)| (path.as_path(), *access))
    }

    /// What may be done at `path`: what the nearest rule says.
    pub fn access(&self, path: &Path) -> PathAccess {
        path.ancestors().find_map(|at| self.rules.get(at).copied()).unwrap_or(PathAccess::Writable)
    }

    /// The path whose rule counts at `path`.
    pub fn rule_at(&self, path: &Path) -> Option<&Path> {
        path.ancestors().find_map(|at| self.rules.get_key_value(at)).map(|(at, _)| at.as_path())
    }

    fn above(&self, path: &Path) -> PathAccess {
        path.parent().map_or(PathAccess::Writable, |parent| self.access(parent))
    }

    /// The mounts that hold these rules, those above before those below.
    ///
    /// A mount on `a/b/c` alone protects nothing: `a/b` could be moved away and another one put in its place. So every folder
    /// above a protected path that can be moved is mounted on itself, which the kernel does not let be moved.
    pub fn mounts(&self, facts: &dyn PathFacts) -> Vec<MountStep> {
        let mut steps: BTreeMap<PathBuf, MountStep> = BTreeMap::new();
        let mut seals: BTreeSet<PathBuf> = BTreeSet::new();
        let mut root = None;
        for (path, access) in self.rules() {
            let above = self.above(path);
            if above == access {
                continue;
            }
            let is_on_root = self.rule_at(path.parent().unwrap_or(path)) == Some(Path::new("/"))
                && !seals.iter().any(|at| path.starts_with(at));
            let step = match access {
                // What is mounted over the root is seen by no process that is there already.
                _ if path.parent().is_none() => MountStep::Seal(path.to_owned()),
                // The root becomes read-only at last, and what was mounted before stays writable.
                PathAccess::Writable if is_on_root => MountStep::Pin(path.to_owned()),
                PathAccess::Writable => MountStep::Writable(path.to_owned()),
                PathAccess::ReadOnly => MountStep::ReadOnly(path.to_owned()),
                PathAccess::Hidden if facts.is_folder(path) => MountStep::HideFolder(path.to_owned()),
                PathAccess::Hidden => MountStep::HideFile(path.to_owned()),
                PathAccess::Private => MountStep::Private(path.to_owned()),
            };
            match path.parent() {
                None => root = Some(step),
                Some(_) => drop(steps.insert(path.to_owned(), step)),
            }
            if access == PathAccess::ReadOnly {
                let below = facts.mounts_below(path);
                seals.extend(below.into_iter().filter(|at| self.access(at) == PathAccess::ReadOnly));
            }
            if access != PathAccess::Writable && above == PathAccess::Writable {
                self.pin_above(path, facts, &mut steps);
            }
        }
        for link in self.links.iter().filter(|link| self.above(link) == PathAccess::Writable) {
            if facts.is_movable(link) {
                steps.insert(link.clone(), MountStep::PinLink(link.clone()));
            }
            self.pin_above(link, facts, &mut steps);
        }
        for at in seals {
            steps.entry(at.clone()).or_insert(MountStep::Seal(at));
        }
        steps.into_values().chain(root).collect()
    }

    fn pin_above(&self, path: &Path, facts: &dyn PathFacts, steps: &mut BTreeMap<PathBuf, MountStep>) {
        for folder in path.ancestors().skip(1).take_while(|at| at.parent().is_some()) {
            if self.access(folder) != PathAccess::Writable {
                break;
            }
            if !facts.is_movable(folder) {
                continue;
            }
            steps.entry(folder.to_owned()).or_insert_with(|| MountStep::Pin(folder.to_owned()));
        }
    }

    /// What Landlock can hold of these rules. It allows whole folders and cannot take back what lies below them, so in a folder
    /// where new files must be possible (`free`) nothing can be protected.
    pub fn landlock(&self, free: &[PathBuf], facts: &dyn PathFacts) -> LandlockGrants {
        let is_free = |path: &Path| free.iter().any(|free| path.starts_with(free));
        let rules = self.rules().filter(|(_, access)| *access != PathAccess::Writable).map(|(path, _)| path);
        // What is not allowed for a link is not allowed for its name.
        let protected: BTreeSet<&Path> = rules.chain(self.links.iter().map(PathBuf::as_path)).collect();
        let (open, held): (BTreeSet<&Path>, BTreeSet<&Path>) =
            protected.into_iter().partition(|path| is_free(path));
        let mut grants =
            LandlockGrants { open: open.into_iter().map(Path::to_owned).collect(), ..Default::default() };
        let mut write: BTreeSet<PathBuf> = free.iter().cloned().collect();
        let is_all_writable = self.access(Path::new("/")) == PathAccess::Writable;
        let root = is_all_writable.then_some(Path::new("/"));
        let writable =
            self.rules().filter(|(_, access)| *access == PathAccess::Writable).map(|(path, _)| path);
        for path in root.into_iter().chain(writable) {
            spread(path, &held, facts, &mut write);
        }
        grants.write = write.into_iter().collect();
        let hidden: BTreeSet<&Path> =
            self.rules().filter(|(_, access)| *access == PathAccess::Hidden).map(|(path, _)| path).collect();
        if !hidden.is_empty() {
            let mut read = BTreeSet::new();
            spread(Path::new("/"), &hidden, facts, &mut read);
            grants.read = Some(read.into_iter().collect());
        }
        grants
    }
}

/// Allows everything below `folder` but what leads to one of `without`.
fn spread(folder: &Path, without: &BTreeSet<&Path>, facts: &dyn PathFacts, into: &mut BTreeSet<PathBuf>) {
    if !without.iter().any(|path| path.starts_with(folder)) {
        into.insert(folder.to_owned());
    } else if !without.contains(folder) {
        for path in facts.names_in(folder) {
            spread(&path, without, facts, into);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/home/u` belongs to the user, and what is above it does not.
    struct Facts;

    impl PathFacts for Facts {
        fn is_movable(&self, folder: &Path) -> bool {
            folder.starts_with("/home/u") && folder != Path::new("/home/u")
        }
        fn mounts_below(&self, path: &Path) -> Vec<PathBuf> {
            let all = ["/home/u/state/disk", "/home/u/state/tasks/t/disk"].map(PathBuf::from);
            all.into_iter().filter(|at| at.starts_with(path)).collect()
        }
        fn is_folder(&self, path: &Path) -> bool {
            !path.to_string_lossy().contains("file")
        }
        fn names_in(&self, folder: &Path) -> Vec<PathBuf> {
            let names: &[&str] = match folder.to_str().unwrap() {
                "/" => &["home", "tmp", "usr"],
                "/home" => &["u", "v"],
                "/home/u" => &["state", "work", ".ssh"],
                "/usr" => &["bin", "share"],
                _ => &[],
            };
            names.iter().map(|name| folder.join(name)).collect()
        }
    }

    fn layout(rules: &[(&str, PathAccess)]) -> Layout {
        let mut layout = Layout::default();
        rules.iter().for_each(|(path, access)| layout.set(*path, *access));
        layout
    }

    #[test]
    fn a_protected_path_cannot_be_moved_away_with_the_folders_above_it() {
        use MountStep::{Pin, ReadOnly};
        let layout = layout(&[("/home/u/.config/git/config", PathAccess::ReadOnly)]);
        let steps = [
            Pin("/home/u/.config".into()),
            Pin("/home/u/.config/git".into()),
            ReadOnly("/home/u/.config/git/config".into()),
        ];
        assert_eq!(layout.mounts(&Facts), steps);
    }

    #[test]
    fn a_link_to_what_is_protected_cannot_be_replaced_either() {
        use MountStep::{Pin, PinLink, ReadOnly, Seal};
        let mut layout =
            layout(&[("/home/u/dots/bashrc", PathAccess::ReadOnly), ("/home/u/state", PathAccess::ReadOnly)]);
        // What lies in a protected folder, or in one of another user's, cannot be replaced anyway.
        for link in ["/home/u/.bashrc", "/home/u/a/b", "/home/u/state/link", "/home/link"] {
            layout.keep_link(link);
        }
        let steps = [
            PinLink("/home/u/.bashrc".into()),
            Pin("/home/u/a".into()),
            PinLink("/home/u/a/b".into()),
            Pin("/home/u/dots".into()),
            ReadOnly("/home/u/dots/bashrc".into()),
            ReadOnly("/home/u/state".into()),
            Seal("/home/u/state/disk".into()),
            Seal("/home/u/state/tasks/t/disk".into()),
        ];
        assert_eq!(layout.mounts(&Facts), steps);
        let open = layout.landlock(&["/home/u".into()], &Facts).open;
        assert!(open.contains(&"/home/u/.bashrc".into()), "{open:?}");
    }

    #[test]
    fn what_is_writable_below_what_is_not_comes_after_it() {
        use MountStep::{ReadOnly, Seal, Writable};
        let layout = layout(&[
            ("/home/u/state", PathAccess::ReadOnly),
            ("/home/u/state/tasks/t", PathAccess::Writable),
            ("/home/u/state/tasks/t/runs", PathAccess::ReadOnly),
            ("/home/u/state/keys", PathAccess::ReadOnly),
            ("/home/u/work", PathAccess::Writable),
        ]);
        let steps = [
            ReadOnly("/home/u/state".into()),
            Seal("/home/u/state/disk".into()),
            Writable("/home/u/state/tasks/t".into()),
            ReadOnly("/home/u/state/tasks/t/runs".into()),
        ];
        assert_eq!(layout.mounts(&Facts), steps[..]);
    }

    #[test]
    fn what_is_mounted_twice_has_two_paths() {
        let mount = |disk: &str, shown: &str, at: &str| MountPoint {
            disk: disk.into(),
            shown: shown.into(),
            at: at.into(),
        };
        let mounts = [
            mount("1:1", "/", "/"),
            mount("1:1", "/@home", "/home"),
            mount("1:1", "/@home/u/.config", "/mnt/config"),
            mount("1:1", "/@home/u/.config/git/hooks", "/mnt/hooks"),
            mount("1:1", "/@home", "/hidden"),
            mount("1:2", "/", "/hidden"),
            mount("1:2", "/@home", "/other"),
        ];
        let of = |path: &str| aliases(Path::new(path), &mounts);
        let paths = ["/@home/u/.config/git", "/mnt/config/git", "/mnt/hooks"].map(PathBuf::from);
        assert_eq!(of("/home/u/.config/git"), paths);
        assert_eq!(of("/home/u/.bashrc"), [PathBuf::from("/@home/u/.bashrc")]);
        assert_eq!(of("/usr/bin"), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_workspace_that_holds_something_protected_cannot_be_moved_away_either() {
        use MountStep::{Pin, ReadOnly};
        let layout =
            layout(&[("/home/u/work", PathAccess::Writable), ("/home/u/work/file", PathAccess::ReadOnly)]);
        assert_eq!(layout.mounts(&Facts), [Pin("/home/u/work".into()), ReadOnly("/home/u/work/file".into())]);
    }

    #[test]
    fn with_nothing_allowed_but_some_folders_the_root_itself_is_read_only() {
        use MountStep::{HideFile, HideFolder, Pin, Seal, Writable};
        let layout = layout(&[
            ("/", PathAccess::ReadOnly),
            ("/home/u/work", PathAccess::Writable),
            ("/home/u/.ssh", PathAccess::Hidden),
            ("/home/u/file", PathAccess::Hidden),
            ("/home/u/state/disk/folder", PathAccess::Writable),
            ("/tmp", PathAccess::Writable),
        ]);
        let steps = [
            HideFolder("/home/u/.ssh".into()),
            HideFile("/home/u/file".into()),
            Seal("/home/u/state/disk".into()),
            Writable("/home/u/state/disk/folder".into()),
            Seal("/home/u/state/tasks/t/disk".into()),
            Pin("/home/u/work".into()),
            Pin("/tmp".into()),
            Seal("/".into()),
        ];
        assert_eq!(layout.mounts(&Facts), steps);
    }

    #[test]
    fn landlock_protects_what_lies_in_no_folder_that_must_stay_writable() {
        let layout = layout(&[
            ("/usr/bin", PathAccess::ReadOnly),
            ("/home/u/state", PathAccess::ReadOnly),
            ("/home/u/state/task", PathAccess::Writable),
        ]);
        let grants = layout.landlock(&["/home/u".into(), "/tmp".into()], &Facts);
        assert_eq!(grants.open, [PathBuf::from("/home/u/state")]);
        let write = ["/home", "/home/u", "/home/u/state/task", "/tmp", "/usr/share"].map(PathBuf::from);
        assert_eq!(grants.write, write);
        assert_eq!(grants.read, None);
    }

    #[test]
    fn landlock_hides_what_it_does_not_allow_to_read() {
        let layout = layout(&[
            ("/", PathAccess::ReadOnly),
            ("/home/u/work", PathAccess::Writable),
            ("/home/u/.ssh", PathAccess::Hidden),
        ]);
        let grants = layout.landlock(&["/tmp".into()], &Facts);
        assert_eq!(grants.write, ["/home/u/work", "/tmp"].map(PathBuf::from));
        let read = ["/home/u/state", "/home/u/work", "/home/v", "/tmp", "/usr"].map(PathBuf::from);
        assert_eq!(grants.read, Some(read.into()));
        assert!(grants.open.is_empty());
    }
}
