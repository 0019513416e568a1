//! Finding and reading workflow files and command files, with distrust: no link is followed, nothing but a regular file is
//! opened, and one that cannot be read costs only itself.

use std::{io, os::fd::OwnedFd, path::Path};

use dacapo_core::{
    text::visible::is_deceptive,
    unit::check::Problem,
    workflow::{
        ParseSettings,
        catalogue::{Catalogue, FOLDERS, WorkflowFile, catalogue},
        command::{self, CommandFailure, CommandFile},
    },
    yaml,
};
use rustix::{
    fs::{Dir, FileType, OFlags},
    io::Errno,
};

use crate::{
    safe_open::{self, Unread},
    units::{UnitsError, refusal},
};

/// How many workflow files a repository may have.
const MAX_FILES: usize = 2000;

/// Reads and checks every workflow of the repository at `top`, and what comes with dacapo. `commands` is a folder of command
/// files that the user has configured, from the top of the repository.
pub fn discover(
    top: &Path,
    commands: Option<&str>,
    settings: ParseSettings,
) -> Result<Catalogue, UnitsError> {
    let root = safe_open::root(top)
        .map_err(|error| UnitsError::Io { path: top.to_owned(), source: error.into() })?;
    let mut found = FoundFiles::default();
    for folder in FOLDERS {
        read_folder(&root, folder, true, &mut found);
    }
    let read = |name: &str| command(&root, commands, name);
    let mut catalogue = catalogue(&found.files, settings, read);
    catalogue.notes.extend(found.notes);
    Ok(catalogue)
}

/// What lies in the folders of workflows.
#[derive(Default)]
struct FoundFiles {
    files: Vec<WorkflowFile>,
    notes: Vec<Problem>,
}

/// The workflow files in a folder, and in the folders right below it.
fn read_folder(root: &OwnedFd, folder: &str, goes_deeper: bool, found: &mut FoundFiles) {
    let entries = match safe_open::open(root, folder, OFlags::DIRECTORY).and_then(entries) {
        Ok(entries) => entries,
        Err(Errno::NOENT) => return,
        // Many repositories have one folder of agents' files and links to it. What lies there is found where it lies.
        Err(Errno::LOOP) => {
            let what = "is not looked into: it is a link, or lies behind one";
            found.notes.push(Problem::of_file(folder, what, "put a folder there if it holds workflows"));
            return;
        }
        Err(error) => {
            let what = match refusal(error) {
                Some(why) => format!("is not looked into: {why}"),
                None => format!("cannot be read: {}", io::Error::from(error)),
            };
            let problem = Problem::of_file(folder, what, "put a folder there, or remove it");
            found.files.push(WorkflowFile { file: folder.to_owned(), bytes: Err(problem) });
            return;
        }
    };
    for (name, kind) in entries {
        let file = format!("{folder}/{name}");
        if kind == FileType::Directory && goes_deeper {
            read_folder(root, &file, false, found);
        } else if name.ends_with(".yaml") || name.ends_with(".yml") {
            if found.files.len() == MAX_FILES {
                let what = format!("more than {MAX_FILES} workflow files");
                found
                    .files
                    .push(WorkflowFile { bytes: Err(Problem::of_file(folder, what, "remove some")), file });
                return;
            }
            found.files.push(WorkflowFile { bytes: read_file(root, &file, &name), file });
        }
    }
}

fn read_file(root: &OwnedFd, file: &str, name: &str) -> Result<Vec<u8>, Problem> {
    if name.contains('\u{fffd}') || name.chars().any(is_deceptive) {
        let what = "the name holds a character that cannot be seen";
        return Err(Problem::of_file(file, what, "rename the file"));
    }
    safe_open::read(root, file, yaml::MAX_BYTES).map_err(|unread| match unread {
        Unread::NotRegular | Unread::System(Errno::NXIO) => crate::units::not_regular(file),
        Unread::System(error) => crate::units::cannot_read(file, error),
    })
}

/// What lies in a folder, by name.
fn entries(folder: OwnedFd) -> Result<Vec<(String, FileType)>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
                FileType::from_raw_mode(rustix::fs::statat(&folder, entry.file_name(), flags)?.st_mode)
            }
            kind => kind,
        };
        found.push((name, kind));
    }
    found.sort_by(|a: &(String, FileType), b| a.0.cmp(&b.0));
    Ok(found)
}

/// The command file of this name: the first that is there (req 144).
fn command(root: &OwnedFd, configured: Option<&str>, name: &str) -> Result<CommandFile, CommandFailure> {
    command::check_name(name)?;
    let folders: Vec<&str> = command::FOLDERS.into_iter().chain(configured).collect();
    for folder in &folders {
        let file = format!("{}/{name}.md", folder.trim_end_matches('/'));
        match safe_open::read(root, &file, command::MAX_BYTES) {
            Ok(bytes) => return CommandFile::of(&file, bytes),
            Err(Unread::System(Errno::NOENT | Errno::NOTDIR)) => {}
            Err(Unread::System(Errno::ACCESS | Errno::PERM)) => {
                return Err(CommandFailure::PermissionDenied { file });
            }
            Err(Unread::System(Errno::LOOP)) => {
                let error = "it is a link, or lies behind one".to_owned();
                return Err(CommandFailure::ReadError { file, error });
            }
            Err(unread) => {
                let error = io::Error::from(unread).to_string();
                return Err(CommandFailure::ReadError { file, error });
            }
        }
    }
    let searched = folders.into_iter().map(str::to_owned).collect();
    Err(CommandFailure::NotFound { name: name.to_owned(), searched })
}

#[cfg(test)]
#[path = "workflows_tests.rs"]
mod tests;
