//! Recorded output of real agents' CLIs, against a scripted model: what they print when all is well, at every kind of
//! error, and when they are killed. Names with `.killed` are of runs that had not ended by themselves.

use std::{fs, path::Path};

/// One run of a CLI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The agent and what happened, as in `claude-rate-limit`.
    pub name: String,
    /// What it printed; empty if nothing.
    pub stdout: Vec<u8>,
    /// What it printed on stderr; empty if nothing was recorded.
    pub stderr: String,
}

impl Recording {
    /// The name of the recorded agent.
    pub fn agent(&self) -> &str {
        self.name.split('-').next().unwrap_or_default()
    }
}

/// All recordings, by name.
///
/// # Panics
///
/// If they are not there.
pub fn recordings() -> Vec<Recording> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/agents");
    let mut files: Vec<String> = fs::read_dir(&folder)
        .expect("the folder of recordings")
        .map(|entry| entry.expect("a file").file_name().into_string().expect("a name of ASCII"))
        .collect();
    files.sort();
    let read = |file: &str| fs::read(folder.join(file)).expect("a file");
    let mut recordings: Vec<Recording> = Vec::new();
    for file in &files {
        if let Some(name) = file.strip_suffix(".jsonl") {
            let of_the_same_run = format!("{}.stderr.txt", name.trim_end_matches(".killed"));
            let stderr = if files.contains(&of_the_same_run) { read(&of_the_same_run) } else { Vec::new() };
            let stderr = String::from_utf8(stderr).expect("text");
            recordings.push(Recording { name: name.to_owned(), stdout: read(file), stderr });
        } else if let Some(name) = file.strip_suffix(".stderr.txt")
            && !files
                .iter()
                .any(|other| other == &format!("{name}.jsonl") || other == &format!("{name}.killed.jsonl"))
        {
            let stderr = String::from_utf8(read(file)).expect("text");
            recordings.push(Recording { name: name.to_owned(), stdout: Vec::new(), stderr });
        }
    }
    recordings
}
