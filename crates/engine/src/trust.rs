//! Consent, kept with the state and outside of every repository: none can give it to itself.

use std::{
    collections::HashSet,
    fs,
    io::{self, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use dacapo_core::trust::{Fingerprint, Runnable, no_longer_asked, not_granted};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::home::{Home, make_dir};

/// Why consent cannot be kept or looked up.
#[derive(Debug, thiserror::Error)]
#[error("{what} `{}`: {source}", path.display())]
pub struct TrustError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// What consent is about. Each kind has a record of its own: a new task does not make `dacapo run` ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsentScope {
    /// The commands of the repository's configuration, all of them in their order.
    Config,
    /// The commands of the task files of units. Consent to many is consent to each of them.
    Units,
    /// The commands of workflow files. Consent to many is consent to each of them.
    Workflows,
    /// The commands that verify tasks of stages. Consent to many is consent to each of them.
    Tasks,
}

/// How a repository stands with its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The user agreed to it.
    Trusted { since: Timestamp },
    /// The user was never asked about this folder, or said no.
    Never,
    /// The user agreed to something else.
    Changed { old: Vec<Runnable> },
}

/// What the user agreed to. One file for each repository and scope.
#[derive(Debug, Serialize, Deserialize)]
struct Consent {
    /// For people; the file's name is what counts.
    root: String,
    /// The folder itself: another one at the same place is another repository.
    device: u64,
    inode: u64,
    fingerprint: Fingerprint,
    at: Timestamp,
    commands: Vec<Runnable>,
}

/// Whether the user agreed that `runnables` of the repository at `root` may run.
pub fn look(
    home: &Home,
    root: &Path,
    scope: ConsentScope,
    runnables: &[Runnable],
) -> Result<Trust, TrustError> {
    let Some(consent) = find(home, root, scope)? else { return Ok(Trust::Never) };
    let is_covered = match scope {
        ConsentScope::Config => consent.fingerprint == Fingerprint::of(runnables),
        ConsentScope::Units | ConsentScope::Workflows | ConsentScope::Tasks => {
            not_granted(runnables, &consent.commands).is_empty()
        }
    };
    Ok(if is_covered {
        Trust::Trusted { since: consent.at }
    } else {
        Trust::Changed { old: consent.commands }
    })
}

/// What the user agreed to for the repository at `root`; nothing if they did not.
pub fn granted(home: &Home, root: &Path, scope: ConsentScope) -> Result<Vec<Runnable>, TrustError> {
    Ok(find(home, root, scope)?.map(|consent| consent.commands).unwrap_or_default())
}

/// Records the user's consent. It replaces an earlier one; that to task files only as far as it is about the same tasks.
pub fn grant(
    home: &Home,
    root: &Path,
    scope: ConsentScope,
    runnables: &[Runnable],
    at: Timestamp,
) -> Result<(), TrustError> {
    let path = file(home, root, scope)?;
    let mut commands = runnables.to_vec();
    if scope != ConsentScope::Config {
        let now: HashSet<(&str, &str)> =
            runnables.iter().map(|runnable| (runnable.name.as_str(), runnable.file.as_str())).collect();
        let mut earlier = granted(home, root, scope)?;
        earlier.retain(|known| !now.contains(&(known.name.as_str(), known.file.as_str())));
        commands.extend(earlier);
    }
    let failed = |source| TrustError { what: "cannot keep consent in", path: path.clone(), source };
    let folder = fs::metadata(root).map_err(failed)?;
    let consent = Consent {
        root: root.to_string_lossy().into_owned(),
        device: folder.dev(),
        inode: folder.ino(),
        fingerprint: Fingerprint::of(&commands),
        at,
        commands,
    };
    write(home, &path, &consent)
}

/// Writes a record whole or not at all.
fn write(home: &Home, path: &Path, record: &impl Serialize) -> Result<(), TrustError> {
    let failed = |source| TrustError { what: "cannot keep consent in", path: path.to_owned(), source };
    let text = serde_json::to_vec_pretty(record).map_err(|error| failed(error.into()))?;
    make_dir(path.parent().unwrap_or(home.path())).map_err(failed)?;
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let write = || -> io::Result<()> {
        let mut file =
            fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().map_err(failed)
}

/// What the configuration of a repository has asked of claims. One file for each folder that had such a configuration.
#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    /// For people; the file's name is what counts.
    root: String,
    device: u64,
    inode: u64,
    /// All that it asked for when a loop last began with no less than before, or when the user last agreed.
    demands: Vec<Runnable>,
    /// Lists that ask for less, which the user agreed to: branches may differ in what they ask for.
    #[serde(default)]
    agreed: Vec<Fingerprint>,
}

/// How many agreements to less are remembered.
const AGREED: usize = 32;

/// What the configuration in `root` asked of claims before and does not ask any more, if the user has not agreed to that.
pub fn asks_less(home: &Home, root: &Path, demands: &[Runnable]) -> Result<Vec<Runnable>, TrustError> {
    let Some(asked) = find_asked(home, root)? else { return Ok(Vec::new()) };
    if asked.agreed.contains(&in_any_order(demands)) {
        return Ok(Vec::new());
    }
    Ok(no_longer_asked(&asked.demands, demands))
}

/// Remembers what the configuration in `root` asks of claims, if it is no less than before or if the user has agreed to it.
pub fn note_demands(
    home: &Home,
    root: &Path,
    demands: &[Runnable],
    is_agreed: bool,
) -> Result<(), TrustError> {
    let before = find_asked(home, root)?;
    let (known, mut agreed) = before.map(|asked| (asked.demands, asked.agreed)).unwrap_or_default();
    let is_less = !no_longer_asked(&known, demands).is_empty();
    let is_more = !no_longer_asked(demands, &known).is_empty();
    if (is_less && !is_agreed) || !(is_less || is_more) {
        return Ok(());
    }
    if is_less {
        agreed.retain(|known| *known != in_any_order(demands));
        agreed.push(in_any_order(demands));
        agreed.drain(..agreed.len().saturating_sub(AGREED));
    }
    let path = asked_file(home, root)?;
    let failed = |source| TrustError { what: "cannot keep consent in", path: path.clone(), source };
    let folder = fs::metadata(root).map_err(failed)?;
    let asked = Asked {
        root: root.to_string_lossy().into_owned(),
        device: folder.dev(),
        inode: folder.ino(),
        demands: demands.to_vec(),
        agreed,
    };
    write(home, &path, &asked)
}

/// The fingerprint of a list whose order means nothing.
fn in_any_order(demands: &[Runnable]) -> Fingerprint {
    let mut sorted = demands.to_vec();
    sorted.sort_by(|a, b| (&a.what, &a.name, &a.command).cmp(&(&b.what, &b.name, &b.command)));
    Fingerprint::of(&sorted)
}

fn find_asked(home: &Home, root: &Path) -> Result<Option<Asked>, TrustError> {
    let path = asked_file(home, root)?;
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(source) => return Err(TrustError { what: "cannot read", path, source }),
    };
    let Ok(asked) = serde_json::from_slice::<Asked>(&text) else { return Ok(None) };
    let folder = fs::metadata(root).map_err(|source| TrustError {
        what: "cannot look at",
        path: root.to_owned(),
        source,
    })?;
    Ok((asked.device == folder.dev() && asked.inode == folder.ino()).then_some(asked))
}

/// Forgets what the configuration in `root` has asked for.
pub fn forget_demands(home: &Home, root: &Path) -> Result<(), TrustError> {
    let path = asked_file(home, root)?;
    match fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(TrustError { what: "cannot remove", path, source })
        }
        _ => Ok(()),
    }
}

/// Whether there is no such file, because a folder on its way is missing or is none. A state folder that cannot be used is told of
/// where dacapo writes to it.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn asked_file(home: &Home, root: &Path) -> Result<PathBuf, TrustError> {
    Ok(file(home, root, ConsentScope::Config)?.with_extension("asked.json"))
}

/// Withdraws consent; says whether there was any.
pub fn revoke(home: &Home, root: &Path, scope: ConsentScope) -> Result<bool, TrustError> {
    let path = file(home, root, scope)?;
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(TrustError { what: "cannot remove", path, source }),
    }
}

fn find(home: &Home, root: &Path, scope: ConsentScope) -> Result<Option<Consent>, TrustError> {
    let path = file(home, root, scope)?;
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(source) => return Err(TrustError { what: "cannot read", path, source }),
    };
    // A record that cannot be understood is no consent; asking again repairs it.
    let Ok(consent) = serde_json::from_slice::<Consent>(&text) else { return Ok(None) };
    let folder = fs::metadata(root).map_err(|source| TrustError {
        what: "cannot look at",
        path: root.to_owned(),
        source,
    })?;
    Ok((consent.device == folder.dev() && consent.inode == folder.ino()).then_some(consent))
}

/// The record of a repository, named by a hash of its real path, which need not be UTF-8.
fn file(home: &Home, root: &Path, scope: ConsentScope) -> Result<PathBuf, TrustError> {
    let real = root.canonicalize().map_err(|source| TrustError {
        what: "cannot look at",
        path: root.to_owned(),
        source,
    })?;
    let name = dacapo_core::trust::digest(real.as_os_str().as_bytes());
    let kind = match scope {
        ConsentScope::Config => "json",
        ConsentScope::Units => "units.json",
        ConsentScope::Workflows => "workflows.json",
        ConsentScope::Tasks => "tasks.json",
    };
    Ok(home.path().join("trust").join(format!("{name}.{kind}")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn list(commands: &[&str]) -> Vec<Runnable> {
        let runnable = |command: &&str| Runnable {
            what: "gate".to_owned(),
            name: (*command).to_owned(),
            command: (*command).to_owned(),
            condition: None,
            timeout: None,
            file: ".dacapo/config.yaml".to_owned(),
            line: 1,
        };
        commands.iter().map(runnable).collect()
    }

    #[test]
    fn consent_is_to_one_list_in_one_folder() {
        // fault K1, fault K2
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("state"));
        let (root, link) = (dir.path().join("repo"), dir.path().join("link"));
        fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&root, &link).unwrap();
        let (one, two, at) = (list(&["a"]), list(&["a", "b"]), Timestamp::UNIX_EPOCH);
        assert_eq!(look(&home, &root, ConsentScope::Config, &one).unwrap(), Trust::Never);
        assert!(!revoke(&home, &root, ConsentScope::Config).unwrap());
        grant(&home, &root, ConsentScope::Config, &one, at).unwrap();
        assert_eq!(look(&home, &root, ConsentScope::Config, &one).unwrap(), Trust::Trusted { since: at });
        assert_eq!(
            look(&home, &link, ConsentScope::Config, &one).unwrap(),
            Trust::Trusted { since: at },
            "by another name"
        );
        assert_eq!(
            look(&home, &root, ConsentScope::Config, &two).unwrap(),
            Trust::Changed { old: one.clone() }
        );
        let kept: Vec<_> = fs::read_dir(home.path().join("trust")).unwrap().flatten().collect();
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
        // Another folder in its place is not the one that was trusted. The old one is kept so that its number stays taken.
        fs::rename(&root, dir.path().join("old")).unwrap();
        fs::create_dir(&root).unwrap();
        assert_eq!(look(&home, &root, ConsentScope::Config, &one).unwrap(), Trust::Never);
        assert_eq!(granted(&home, &root, ConsentScope::Config).unwrap(), []);
        grant(&home, &root, ConsentScope::Config, &two, at).unwrap();
        assert_eq!(granted(&home, &root, ConsentScope::Config).unwrap(), two);
        fs::write(kept[0].path(), "{").unwrap();
        assert_eq!(
            look(&home, &root, ConsentScope::Config, &two).unwrap(),
            Trust::Never,
            "a broken record is no consent"
        );
        assert!(revoke(&home, &root, ConsentScope::Config).unwrap());
    }

    #[test]
    fn less_than_was_asked_for_needs_consent_and_more_needs_none() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("state"));
        let root = dir.path().join("repo");
        fs::create_dir(&root).unwrap();
        let (none, one, two) = (list(&[]), list(&["a"]), list(&["a", "b"]));
        let less = |now: &[Runnable]| asks_less(&home, &root, now).unwrap();
        let note = |now: &[Runnable], is_agreed| note_demands(&home, &root, now, is_agreed).unwrap();
        note(&none, false);
        assert!(!home.path().join("trust").exists(), "nothing to remember");
        note(&one, false);
        assert_eq!(less(&one), []);
        assert_eq!(less(&two), []);
        note(&two, false);
        assert_eq!(less(&list(&["b", "a"])), [], "in another order");
        assert_eq!(less(&one), list(&["b"]));
        note(&one, false);
        assert_eq!(less(&one), list(&["b"]), "what was not agreed to changes nothing");
        // Two branches: agreed to once, going back and forth asks no more, and still less is less.
        note(&one, true);
        assert_eq!(less(&one), []);
        note(&two, false);
        assert_eq!(less(&one), []);
        assert_eq!(less(&list(&["b"])), list(&["a"]));
        assert_eq!(less(&none), two);
        forget_demands(&home, &root).unwrap();
        forget_demands(&home, &root).unwrap();
        assert_eq!(less(&none), []);
    }

    #[test]
    fn consent_to_tasks_is_kept_apart_and_adds_up() {
        // fault K1, fault K2
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("state"));
        let root = dir.path().join("repo");
        fs::create_dir(&root).unwrap();
        let at = Timestamp::UNIX_EPOCH;
        let task = |name: &str, command: &str| Runnable {
            name: name.to_owned(),
            what: "backpressure".to_owned(),
            ..list(&[command]).remove(0)
        };
        let look = |list: &[Runnable]| look(&home, &root, ConsentScope::Units, list).unwrap();
        let (a, b) = (task("a #1", "make a"), task("b #1", "make b"));
        grant(&home, &root, ConsentScope::Config, &list(&["gate"]), at).unwrap();
        assert_eq!(look(std::slice::from_ref(&a)), Trust::Never, "a configuration speaks for no task");
        grant(&home, &root, ConsentScope::Units, std::slice::from_ref(&a), at).unwrap();
        assert_eq!(look(&[]), Trust::Trusted { since: at });
        assert_eq!(look(&[a.clone(), b.clone()]), Trust::Changed { old: vec![a.clone()] });
        grant(&home, &root, ConsentScope::Units, std::slice::from_ref(&b), at).unwrap();
        assert_eq!(look(&[a.clone(), b.clone()]), Trust::Trusted { since: at });
        assert_eq!(look(std::slice::from_ref(&a)), Trust::Trusted { since: at });
        // A changed command takes the place of the old one: going back to that asks again.
        let changed = task("a #1", "make A");
        grant(&home, &root, ConsentScope::Units, std::slice::from_ref(&changed), at).unwrap();
        assert_eq!(look(std::slice::from_ref(&changed)), Trust::Trusted { since: at });
        assert!(matches!(look(std::slice::from_ref(&a)), Trust::Changed { .. }));
        // Nothing that was agreed to for units speaks for a task of stages, and the other way round.
        let of_stages = |list: &[Runnable]| super::look(&home, &root, ConsentScope::Tasks, list).unwrap();
        assert_eq!(of_stages(std::slice::from_ref(&b)), Trust::Never);
        let verify = Runnable { what: "verify".to_owned(), ..task("T-1 coder", "make t") };
        grant(&home, &root, ConsentScope::Tasks, std::slice::from_ref(&verify), at).unwrap();
        assert_eq!(of_stages(std::slice::from_ref(&verify)), Trust::Trusted { since: at });
        assert!(matches!(look(std::slice::from_ref(&verify)), Trust::Changed { .. }));
        assert!(revoke(&home, &root, ConsentScope::Units).unwrap());
        assert_eq!(look(std::slice::from_ref(&b)), Trust::Never);
        assert_eq!(of_stages(std::slice::from_ref(&verify)), Trust::Trusted { since: at });
        assert_eq!(granted(&home, &root, ConsentScope::Config).unwrap(), list(&["gate"]));
    }
}
