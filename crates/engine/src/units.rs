//! Finding and reading the files of units, with distrust: no link is followed, nothing but a regular file is opened.

use std::{
    ffi::CStr,
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    thread,
};

use dacapo_core::{
    text::visible::is_deceptive,
    unit::{
        check::{self, CheckedUnits, Problem, ReadUnit},
        frontmatter::MAX_FILE_BYTES,
    },
};
use rustix::{
    fs::{Dir, FileType, OFlags},
    io::Errno,
};

use crate::safe_open::{self, Unread};

/// The plan of a unit, in its folder.
pub const PLAN: &str = "IMPLEMENTATION_PLAN.md";
/// How many tasks a unit may have.
const MAX_TASKS: usize = 1000;
/// As many folders are worth a thread.
const MANY: usize = 100;
/// How many entries of a folder are looked at.
const MAX_ENTRIES: usize = 100_000;

/// Why units cannot be looked for at all.
#[derive(Debug, thiserror::Error)]
pub enum UnitsError {
    #[error("`{dir}` is refused: {why}")]
    Refused {
        dir: String,
        /// What is wrong with it.
        why: &'static str,
    },
    #[error("cannot read `{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// The top of the repository that `folder` lies in; without git, the folder itself. git is not asked.
pub fn top(folder: &Path) -> PathBuf {
    let top = folder.ancestors().find(|folder| fs::symlink_metadata(folder.join(".git")).is_ok());
    top.unwrap_or(folder).to_owned()
}

/// Whether a folder looks like a repository without a work tree. git is not asked.
pub fn is_bare(folder: &Path) -> bool {
    let is_folder = |name: &str| folder.join(name).is_dir();
    folder.join("HEAD").is_file() && is_folder("objects") && is_folder("refs")
}

/// Reads and checks all units in the folder `dir` of the repository at `root`. Without that folder there are none.
///
/// A unit is a folder with a plan and at least one task file; other folders are passed over (req 1).
pub fn discover(root: &Path, dir: &str) -> Result<CheckedUnits, UnitsError> {
    let io = |error: Errno| UnitsError::Io { path: root.join(dir), source: error.into() };
    let refused = |why| UnitsError::Refused { dir: dir.to_owned(), why };
    let dir = dir.trim_end_matches('/');
    let top = safe_open::root(root).map_err(io)?;
    let units = match safe_open::open(&top, dir, OFlags::DIRECTORY) {
        Ok(units) => units,
        Err(Errno::NOENT) => return Ok(CheckedUnits::default()),
        Err(error) => return Err(refusal(error).map_or_else(|| io(error), refused)),
    };
    let (folders, others): (Vec<FolderEntry>, Vec<FolderEntry>) =
        entries(&units).map_err(io)?.into_iter().partition(|entry| entry.kind == FileType::Directory);
    let links = others.iter().filter(|entry| entry.kind == FileType::Symlink);
    let problems = links.map(|entry| {
        let what = "a link, and links are not followed";
        let fix = "put the folder itself there, or remove the link";
        Problem::of_file(&format!("{dir}/{}", entry.name), what, fix)
    });
    let problems: Vec<Problem> = problems.collect();
    let (found, notes) = read_units(&units, dir, &folders);
    let mut checked = check::all(found);
    checked.problems.extend(problems);
    checked.notes = notes;
    checked.problems.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    Ok(checked)
}

/// Why a folder is none that units may lie in, if that is what the system says.
pub(crate) fn refusal(error: Errno) -> Option<&'static str> {
    match error {
        Errno::XDEV => Some("it leads out of the repository"),
        Errno::LOOP => Some("it is a link, or lies behind one"),
        Errno::NOTDIR => Some("it is not a folder"),
        _ => None,
    }
}

/// A name in a folder, and what kind of file stands there.
pub(crate) struct FolderEntry {
    pub(crate) name: String,
    pub(crate) kind: FileType,
}

/// What lies in a folder, by name.
pub(crate) fn entries(folder: &OwnedFd) -> Result<Vec<FolderEntry>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if found.len() == MAX_ENTRIES {
            return Err(Errno::OVERFLOW);
        }
        let kind = match entry.file_type() {
            FileType::Unknown => kind_of(folder, name)?,
            kind => kind,
        };
        found.push(FolderEntry { name: name.to_string_lossy().into_owned(), kind });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Some filesystems do not say it in the listing.
fn kind_of(folder: &OwnedFd, name: &CStr) -> Result<FileType, Errno> {
    let stat = rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// Whether a path leads to a file that is called like a task.
pub fn is_task_file(path: &str) -> bool {
    is_task(path.rsplit('/').next().unwrap_or(path))
}

/// Whether a file is called like a task: `01-name.md`.
fn is_task(name: &str) -> bool {
    matches!(name.as_bytes(), [a, b, b'-', rest @ ..]
        if a.is_ascii_digit() && b.is_ascii_digit() && rest.len() > 3 && rest.ends_with(b".md"))
}

/// Reads the units in these folders, in order, by as many threads as there are processors if they are many.
fn read_units(units: &OwnedFd, dir: &str, folders: &[FolderEntry]) -> (Vec<ReadUnit>, Vec<String>) {
    let read_some = |folders: &[FolderEntry]| {
        let (mut found, mut notes) = (Vec::new(), Vec::new());
        for FolderEntry { name, .. } in folders {
            found.extend(read_unit(units, &format!("{dir}/{name}"), name, &mut notes));
        }
        (found, notes)
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(folders.len() / MANY + 1);
    let share = folders.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let parts: Vec<_> = folders.chunks(share).map(|part| scope.spawn(move || read_some(part))).collect();
        let (mut found, mut notes) = (Vec::new(), Vec::new());
        for (units, more) in parts.into_iter().filter_map(|part| part.join().ok()) {
            found.extend(units);
            notes.extend(more);
        }
        (found, notes)
    })
}

/// Reads the unit in a folder, if it is one.
fn read_unit(units: &OwnedFd, folder: &str, name: &str, notes: &mut Vec<String>) -> Option<ReadUnit> {
    let unreadable = |error: Errno| Some(ReadUnit::unreadable(folder, vec![cannot_read(folder, error)]));
    let holder = match safe_open::open(units, name, OFlags::DIRECTORY) {
        Ok(holder) => holder,
        Err(error) => return unreadable(error),
    };
    let found = match entries(&holder) {
        Ok(found) => found,
        Err(error) => return unreadable(error),
    };
    let plan = found.iter().find(|entry| entry.name == PLAN);
    let tasks: Vec<&FolderEntry> = found.iter().filter(|entry| is_task(&entry.name)).collect();
    notes.extend(near_misses(folder, plan.is_some(), !tasks.is_empty(), &found));
    let plan = plan.filter(|_| !tasks.is_empty())?;
    let mut names = vec![plan];
    names.extend(tasks);
    let (files, problems) = read_files(&holder, folder, &names);
    let views: Vec<check::File<'_>> = files.iter().map(|(file, bytes)| check::File { file, bytes }).collect();
    match views.split_first() {
        Some((plan, tasks)) if problems.is_empty() => Some(check::unit(folder, *plan, tasks)),
        // What can be read has its own mistakes, and those are said as well.
        _ => {
            let mut problems = problems;
            for view in &views {
                let is_plan = view.file.ends_with(PLAN);
                let more = if is_plan {
                    check::plan(view.file, view.bytes).err()
                } else {
                    check::task(view.file, view.bytes).err()
                };
                problems.extend(more.into_iter().flatten());
            }
            Some(ReadUnit::unreadable(folder, problems))
        }
    }
}

/// What in a folder was probably meant to be a unit or a task.
fn near_misses(folder: &str, has_plan: bool, has_tasks: bool, found: &[FolderEntry]) -> Vec<String> {
    let shown = |text: &str| dacapo_core::text::visible::visible(text).replace('\n', "\\n");
    let mut notes = Vec::new();
    match (has_plan, has_tasks) {
        (false, true) => notes.push(format!("`{}` is no unit: it has tasks but no {PLAN}", shown(folder))),
        (true, false) => notes
            .push(format!("`{}` is no unit: it has a plan but no task called `01-name.md`", shown(folder))),
        _ => {}
    }
    let looks_like_task = |entry: &&FolderEntry| {
        entry.name.ends_with(".md")
            && entry.name.starts_with(|c: char| c.is_ascii_digit())
            && !is_task(&entry.name)
    };
    if has_plan || has_tasks {
        notes.extend(found.iter().filter(looks_like_task).map(|entry| {
            format!(
                "`{}/{}` is no task: its name is not like `01-name.md`",
                shown(folder),
                shown(&entry.name)
            )
        }));
    }
    notes
}

type Files = Vec<(String, Vec<u8>)>;

/// The files that can be read, and what is wrong with the others.
fn read_files(holder: &OwnedFd, folder: &str, entries: &[&FolderEntry]) -> (Files, Vec<Problem>) {
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    if entries.len() > MAX_TASKS + 1 {
        let what = format!("more than {MAX_TASKS} tasks");
        return (files, vec![Problem::of_file(folder, what, "split the unit")]);
    }
    for entry in entries {
        let path = format!("{folder}/{}", entry.name);
        match read_entry(holder, folder, entry) {
            Ok(bytes) => files.push((path, bytes)),
            Err(problem) => problems.push(problem),
        }
    }
    (files, problems)
}

/// The content of an entry of `folder`, which `holder` is: of a regular file with a name that can be seen.
pub(crate) fn read_entry(holder: &OwnedFd, folder: &str, entry: &FolderEntry) -> Result<Vec<u8>, Problem> {
    let FolderEntry { name, kind } = entry;
    let path = format!("{folder}/{name}");
    if name.contains('\u{fffd}') || name.chars().any(is_deceptive) {
        let what = "the name holds a character that cannot be seen";
        return Err(Problem::of_file(&path, what, "rename the file"));
    }
    match kind {
        FileType::RegularFile => read(holder, name, &path),
        FileType::Symlink => Err(cannot_read(&path, Errno::LOOP)),
        _ => Err(not_regular(&path)),
    }
}

fn read(holder: &OwnedFd, name: &str, path: &str) -> Result<Vec<u8>, Problem> {
    safe_open::read(holder, name, MAX_FILE_BYTES).map_err(|unread| match unread {
        Unread::NotRegular => not_regular(path),
        Unread::System(error) => cannot_read(path, error),
    })
}

pub(crate) fn not_regular(path: &str) -> Problem {
    Problem::of_file(path, "not a regular file", "put a file there, or remove it")
}

pub(crate) fn cannot_read(path: &str, error: Errno) -> Problem {
    match error {
        Errno::LOOP => Problem::of_file(
            path,
            "a link, or behind one, and links are not followed",
            "put the file itself there, or remove the link",
        ),
        Errno::XDEV => Problem::of_file(path, "leads out of the repository", "name one inside of it"),
        Errno::NOENT => Problem::of_file(path, "it is gone", "leave it where it was"),
        Errno::NXIO => not_regular(path),
        Errno::OVERFLOW => Problem::of_file(
            path,
            format!("more than {MAX_ENTRIES} entries"),
            "move what is no task elsewhere",
        ),
        error => {
            let error = io::Error::from(error);
            Problem::of_file(path, format!("cannot be read: {error}"), "look at its permissions")
        }
    }
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;
