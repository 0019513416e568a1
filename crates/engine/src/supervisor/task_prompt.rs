//! The prompt of a task: given by the user, or kept in the task's folder since an earlier loop.

use std::{fs, io, path::Path};

use dacapo_core::ids::TaskId;

use super::start_error::StartError;
use crate::home::write_private;

/// The warning about a prompt that holds a secret.
pub(super) const HELD_IN_PROMPT: &str = "the prompt holds a secret, which is kept with it (TASK.md and the prompts in runs/, \
     readable by you alone); an environment variable would not be";

/// The prompt that was given, else the one that the task's folder has kept.
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

/// Keeps the prompt in the task's folder. A crash leaves the old one or the new one, never half of one.
pub(super) fn write_task(folder: &Path, prompt: &str) -> io::Result<()> {
    let (fresh, task) = (folder.join(".TASK.md.new"), folder.join("TASK.md"));
    write_private(&fresh, prompt.as_bytes())?;
    fs::rename(fresh, task)
}
