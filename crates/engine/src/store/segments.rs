//! Raw output in append-only files, one of a kind per loop: a file per attempt would cost more than a small agent.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use dacapo_core::{event::OutputMarks, ids::LoopId};

/// How much of one attempt's output is kept; what comes after is read and judged, but not stored (fault D7).
pub const KEPT_PER_ATTEMPT: u64 = 256 << 20;

/// Which of a loop's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    Stdout,
    /// What agents print on stderr.
    Stderr,
    /// What agents are given.
    Prompt,
    Gates,
}

#[derive(Debug)]
pub struct Segment {
    path: PathBuf,
    file: Option<File>,
    end: u64,
}

impl Segment {
    fn open(path: PathBuf) -> Self {
        let end = path.metadata().map_or(0, |metadata| metadata.len());
        Self { path, file: None, end }
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    /// Appends all of `bytes`, or fails and stays as it was as far as readers can tell.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?),
        };
        file.write_all(bytes)?;
        self.end += bytes.len() as u64;
        Ok(())
    }
}

/// The segments of one loop.
#[derive(Debug)]
pub struct Segments {
    pub stdout: Segment,
    /// What agents print on stderr.
    pub stderr: Segment,
    /// What agents are given.
    pub prompt: Segment,
    pub gates: Segment,
}

impl Segments {
    /// The segments of `loop_id` in the folder `runs`; files appear when something is appended.
    pub fn open(runs: &Path, loop_id: &LoopId) -> io::Result<Self> {
        crate::home::make_dir(runs)?;
        let open = |stream| Segment::open(Self::path(runs, loop_id, stream));
        Ok(Self {
            stdout: open(Channel::Stdout),
            stderr: open(Channel::Stderr),
            prompt: open(Channel::Prompt),
            gates: open(Channel::Gates),
        })
    }

    /// The file of one kind.
    pub fn path(runs: &Path, loop_id: &LoopId, stream: Channel) -> PathBuf {
        let kind = match stream {
            Channel::Stdout => "stdout",
            Channel::Stderr => "stderr",
            Channel::Prompt => "prompt",
            Channel::Gates => "gates",
        };
        runs.join(format!("{loop_id}.{kind}"))
    }

    /// Where they all end.
    pub fn marks(&self) -> OutputMarks {
        OutputMarks {
            stdout: self.stdout.end(),
            stderr: self.stderr.end(),
            prompt: self.prompt.end(),
            gates: self.gates.end(),
        }
    }
}
