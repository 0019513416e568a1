//! Files of other tools, found and read, and what they become, written: never over a file that says something else.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use dacapo_core::{
    config::{Tests, guess_tests},
    import::{
        self, ArchonPlace, COMMANDS, Imported, MAX_BYTES, NewFile, Product, SourceKind, UnitSettings,
        WorkflowSource,
    },
    problem::Problem,
    workflow::{catalogue::FOLDERS, command},
};
use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags},
    io::Errno,
};
use serde::Serialize;

use crate::{safe_open, starter::names_of, units};

/// Where Archon keeps workflows and commands, from the top of a repository.
const ARCHON: &str = ".archon/workflows";
/// How many workflow files are read of one folder.
const MAX_FILES: usize = 500;

/// Why nothing is imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("cannot read `{}`: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("nothing that could be imported was found in `{}`", folder.display())]
    NothingThere { folder: PathBuf },
    /// Several sources lie in the folder.
    #[error("{} things could be imported from `{}`", found.len(), folder.display())]
    Several { folder: PathBuf, found: Vec<String> },
    #[error("`{}` belongs to a unit of dacapo's already", path.display())]
    IsUnit { path: PathBuf },
    #[error("{} in what was to be imported", count(problems.len()))]
    Problems { problems: Vec<Problem> },
    #[error("files are there that say something else: {}", list(files))]
    Changed { files: Vec<String> },
    #[error("there are other tasks in `{folder}`: {}", list(files))]
    OtherTasks { folder: String, files: Vec<String> },
}

fn count(number: usize) -> String {
    dacapo_core::text::count(u32::try_from(number).unwrap_or(u32::MAX), "problem")
}

fn list(files: &[String]) -> String {
    let mut shown: Vec<String> = files.iter().take(3).map(|file| format!("`{file}`")).collect();
    if files.len() > shown.len() {
        shown.push(format!("{} more", files.len() - shown.len()));
    }
    shown.join(", ")
}

#[derive(Clone, Debug)]
pub struct ImportSource {
    pub kind: SourceKind,
    /// As it is shown to people: from the top of the repository where it lies in it.
    pub shown: String,
    path: PathBuf,
}

/// Finds out what `path` is. For a folder, it is what usually lies there; `kind` is what the user says it is.
pub fn look(top: &Path, path: &Path, kind: Option<SourceKind>) -> Result<ImportSource, ImportError> {
    let path =
        fs::canonicalize(path).map_err(|source| ImportError::Read { path: path.to_owned(), source })?;
    let source = |kind: SourceKind, path: PathBuf| ImportSource { kind, shown: shown(top, &path), path };
    if path.is_dir() {
        let is_of_archon =
            path.ancestors().any(|folder| folder.ends_with(ARCHON)) || kind == Some(SourceKind::Archon);
        if is_of_archon && !path.join(ARCHON).is_dir() {
            return Ok(source(SourceKind::Archon, path));
        }
        let places = SourceKind::ALL.into_iter().filter(|known| kind.is_none_or(|kind| kind == *known));
        let found: Vec<ImportSource> = places
            .filter_map(|kind| {
                let found =
                    kind.usual_places().iter().map(|place| path.join(place)).find(|place| place.exists())?;
                Some(source(kind, found))
            })
            .collect();
        return match found.len() {
            0 => Err(ImportError::NothingThere { folder: path }),
            1 => Ok(found.into_iter().next().unwrap_or_else(|| source(SourceKind::Archon, path.clone()))),
            _ => Err(ImportError::Several {
                folder: path,
                found: found.into_iter().map(|found| found.shown).collect(),
            }),
        };
    }
    let kind = match kind {
        Some(kind) => kind,
        None => {
            let bytes = read(&path)?;
            import::recognise(&shown(top, &path), &bytes)
                .map_err(|problem| ImportError::Problems { problems: vec![problem] })?
        }
    };
    Ok(source(kind, path))
}

fn shown(top: &Path, path: &Path) -> String {
    path.strip_prefix(top).unwrap_or(path).display().to_string()
}

/// A regular file that the user named.
fn read(path: &Path) -> Result<Vec<u8>, ImportError> {
    let failed = |source: io::Error| ImportError::Read { path: path.to_owned(), source };
    // A FIFO would hold us up.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// The command that runs the tests of a repository, as far as its files tell.
pub fn guessed_check(top: &Path) -> Option<Tests> {
    let text =
        |name: &str| read(&top.join(name)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    guess_tests(&names_of(top), text).into_iter().next()
}

/// Turns a source into files for the repository at `top`. Nothing is written.
pub fn convert(
    top: &Path,
    source: &ImportSource,
    settings: &UnitSettings<'_>,
) -> Result<Imported, ImportError> {
    if source.kind == SourceKind::Archon {
        let imported = import::archon(&workflow_sources(top, source)?, &archon_place(top, &source.path));
        return if imported.files.is_empty() && !imported.problems.is_empty() {
            Err(ImportError::Problems { problems: imported.problems })
        } else {
            Ok(imported)
        };
    }
    let folder = source.path.parent().unwrap_or(&source.path);
    if source.kind == SourceKind::Plan && has_tasks(folder) {
        return Err(ImportError::IsUnit { path: source.path.clone() });
    }
    let bytes = read(&source.path)?;
    import::import(source.kind, &source.shown, &bytes, settings)
        .map_err(|problems| ImportError::Problems { problems })
}

/// Whether task files lie in a folder.
fn has_tasks(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.take(10_000).any(|entry| entry.file_name().to_str().is_some_and(units::is_task_file))
}

fn workflow_sources(top: &Path, source: &ImportSource) -> Result<Vec<WorkflowSource>, ImportError> {
    let mut paths = Vec::new();
    if source.path.is_dir() {
        let folders = [source.path.clone()].into_iter().chain(below(&source.path));
        for folder in folders {
            let entries = fs::read_dir(&folder)
                .map_err(|error| ImportError::Read { path: folder.clone(), source: error })?;
            let files = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
            paths.extend(
                files.map(|entry| entry.path()).filter(|path| {
                    path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml")
                }),
            );
        }
        paths.sort();
        paths.truncate(MAX_FILES);
        if paths.is_empty() {
            return Err(ImportError::NothingThere { folder: source.path.clone() });
        }
    } else {
        paths.push(source.path.clone());
    }
    paths
        .into_iter()
        .map(|path| {
            let file = shown(top, &path);
            let is_in_place = FOLDERS.iter().any(|folder| file.starts_with(&format!("{folder}/")));
            Ok(WorkflowSource { bytes: read(&path)?, file, is_in_place })
        })
        .collect()
}

/// The folders right below a folder; links are not followed.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

/// The command files beside workflows of Archon's, those that the repository has of its own, and its branch.
fn archon_place(top: &Path, workflows: &Path) -> ArchonPlace {
    let archon = workflows.ancestors().find(|folder| folder.ends_with(".archon"));
    let mut commands = BTreeMap::new();
    for folder in ["commands/defaults", "commands"] {
        commands.extend(archon.map(|archon| command_files(&archon.join(folder))).unwrap_or_default());
    }
    let head = read(&top.join(".git/HEAD")).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let branch = head.and_then(|head| head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned));
    ArchonPlace { commands, own_commands: command_files(&top.join(COMMANDS)), branch }
}

fn command_files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let texts = files.filter_map(|entry| {
        let name = entry.file_name().to_str()?.strip_suffix(".md")?.to_owned();
        command::check_name(&name).ok()?;
        let text = String::from_utf8(read(&entry.path()).ok()?).ok()?;
        Some((name, text))
    });
    texts.take(MAX_FILES).collect()
}

/// How a file that is to be written stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    New,
    /// It is there, and says the same.
    Same,
    /// It is there, and says something else.
    Changed,
}

/// How the files that are to be written stand. `Err` if one of them may not be written.
pub fn compare(top: &Path, imported: &Imported, may_overwrite: bool) -> Result<Vec<FileState>, ImportError> {
    let failed = |path: &str, source: io::Error| ImportError::Write { path: top.join(path), source };
    let root = safe_open::root(top).map_err(|error| failed("", error.into()))?;
    let mut states = Vec::new();
    for NewFile { path, text } in &imported.files {
        states.push(match safe_open::read(&root, path, text.len()) {
            Ok(bytes) if bytes == text.as_bytes() => FileState::Same,
            Ok(_) => FileState::Changed,
            Err(safe_open::Unread::System(Errno::NOENT)) => FileState::New,
            Err(error) => return Err(failed(path, error.into())),
        });
    }
    let changed = || imported.files.iter().zip(&states).filter(|(_, state)| **state == FileState::Changed);
    if !may_overwrite && changed().next().is_some() {
        return Err(ImportError::Changed { files: changed().map(|(file, _)| file.path.clone()).collect() });
    }
    if let Product::Unit { folder, .. } = &imported.product {
        let own: Vec<&str> = imported.files.iter().filter_map(|file| file.path.rsplit('/').next()).collect();
        let others: Vec<String> = names(&root, folder)
            .into_iter()
            .filter(|name| units::is_task_file(name) && !own.contains(&name.as_str()))
            .collect();
        if !others.is_empty() {
            return Err(ImportError::OtherTasks { folder: folder.clone(), files: others });
        }
    }
    Ok(states)
}

fn names(root: &OwnedFd, folder: &str) -> Vec<String> {
    let open = safe_open::open(root, folder, OFlags::DIRECTORY);
    let entries = open.and_then(|folder| Dir::read_from(&folder)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Writes what is new or changed. Each file is whole or not there at all.
pub fn write(top: &Path, files: &[NewFile], states: &[FileState]) -> Result<(), ImportError> {
    let failed = |path: &str, error: io::Error| ImportError::Write { path: top.join(path), source: error };
    let root = safe_open::root(top).map_err(|error| failed("", error.into()))?;
    for (NewFile { path, text }, state) in files.iter().zip(states) {
        if *state == FileState::Same {
            continue;
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
        let folder = make_folders(&root, folder).map_err(|error| failed(path, error.into()))?;
        put(&folder, name, text, *state).map_err(|error| failed(path, error))?;
    }
    Ok(())
}

/// Step by step, so that no link on the way leads elsewhere.
fn make_folders(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let mut place = safe_open::open(root, ".", OFlags::DIRECTORY)?;
    for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
        match rustix::fs::mkdirat(&place, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        place = safe_open::open(&place, name, OFlags::DIRECTORY)?;
    }
    Ok(place)
}

fn put(folder: &OwnedFd, name: &str, text: &str, state: FileState) -> io::Result<()> {
    let beside = format!(".{name}.dacapo-new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, &beside, flags, Mode::from_raw_mode(0o666))?;
    let written = File::from(file).write_all(text.as_bytes()).and_then(|()| {
        // A file that came into being meanwhile is not ours to replace.
        let moved = match state {
            FileState::Changed => rustix::fs::renameat(folder, &beside, folder, name),
            _ => rustix::fs::renameat_with(folder, &beside, folder, name, rustix::fs::RenameFlags::NOREPLACE),
        };
        moved.map_err(io::Error::from)
    });
    if written.is_err() {
        let _ = rustix::fs::unlinkat(folder, &beside, AtFlags::empty());
    }
    written
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
