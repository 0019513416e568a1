//! What a loop is told in words: its prompt, kept as the user wrote it, and no secret in anything that is recorded.

use std::{fs, io, path::Path};

use dacapo_core::{ids::TaskId, policy::Policy, secrets::Secrets};

use super::{refused::StartError, start::NewLoop};
use crate::{home::write_private, secrets::secrets};

/// What is said about a prompt with a secret.
pub(super) const HELD_IN_PROMPT: &str = "the prompt holds a secret, which is kept with it (TASK.md and the prompts in runs/, \
     readable by you alone); an environment variable would not be";

/// Refuses settings that hold a secret: recorded, they would give it away; recorded without it, nobody could resume.
///
/// Folders and names may happen to be what somebody has for a password; tokens they are not.
pub fn refuse_secrets(new: &NewLoop) -> Result<(), StartError> {
    refuse_secrets_in(&new.policy)?;
    let workspace = new.workspace.to_string_lossy();
    let names = [("the project", new.project.as_str()), ("the folder", &workspace)];
    let tasks = new.task.iter().chain(&new.after).map(|task| ("the task", task.as_str()));
    for (what, name) in names.into_iter().chain(tasks).filter(|(_, name)| secrets().is_in(name)) {
        let shapes = Secrets::new(<[&str; 0]>::default());
        if shapes.is_in(name) {
            return Err(StartError::Secret(format!("{what} `{}`", shapes.redact(name))));
        }
    }
    Ok(())
}

/// The same for settings alone.
pub fn refuse_secrets_in(policy: &Policy) -> Result<(), StartError> {
    match secrets().in_policy(policy) {
        Some(what) => Err(StartError::Secret(what)),
        None => Ok(()),
    }
}

pub(super) fn read_prompt(given: Option<String>, folder: &Path, task: &TaskId) -> Result<String, StartError> {
    let prompt = match given {
        Some(prompt) => prompt,
        None => match fs::read_to_string(folder.join("TASK.md")) {
            Ok(text) => text,
            Err(_) => return Err(StartError::NoPrompt(task.clone())),
        },
    };
    if prompt.trim().is_empty() { Err(StartError::BlankPrompt) } else { Ok(prompt) }
}

/// Whole or not at all: a crash never leaves half a task.
pub(super) fn write_task(folder: &Path, prompt: &str) -> io::Result<()> {
    let (fresh, task) = (folder.join(".TASK.md.new"), folder.join("TASK.md"));
    write_private(&fresh, prompt.as_bytes())?;
    fs::rename(fresh, task)
}
