//! Units: folders of tasks with dependencies, and what follows from how they stand.

pub mod account;
pub mod check;
pub mod files;
pub mod frontmatter;
pub mod graph;
pub mod items;
mod parse;
pub mod prompt;
pub mod schedule;
pub mod settings;
pub mod starter;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ids::UnitId, problem::Spot, text::nearest::nearest, yaml::short};

/// How a task stands, by the word of its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    #[default]
    Pending,
    InProgress,
    Complete,
    Failed,
}

impl TaskStatus {
    pub const ALL: [Self; 4] = [Self::Pending, Self::InProgress, Self::Complete, Self::Failed];

    /// As it stands in a task file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Complete => "complete",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A task but for its status: what may not change while an agent works on its unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Its number within the unit, from 1.
    pub number: u32,
    /// The first heading of its file.
    pub title: String,
    /// Its file, from the top of the repository.
    pub file: String,
    /// The command that proves it.
    pub backpressure: String,
    /// The line of that command in the file.
    pub line: u32,
    /// Tasks of the unit that must be complete first.
    pub depends_on: Vec<u32>,
    /// Files that its backpressure runs and that it wants written all the same, such as tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    /// SHA-256 of its frontmatter without the status.
    pub frozen: String,
}

/// A task and how it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    #[serde(flatten)]
    pub spec: TaskSpec,
    pub status: TaskStatus,
}

/// A unit as its files have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub id: UnitId,
    /// Its folder, from the top of the repository.
    pub folder: String,
    /// Units that must be merged first.
    pub depends_on: Vec<UnitId>,
    /// The agent its plan asks for.
    pub provider: Option<String>,
    provider_at: Option<Spot>,
    pub tasks: Vec<Task>,
}

impl Unit {
    /// The file and the line in which the plan asks for an agent.
    pub fn provider_at(&self) -> Option<(&str, u32)> {
        self.provider_at.as_ref().map(|spot| (spot.file(), spot.line()))
    }

    /// What is wrong with the agent that the plan asks for, if it is none of these.
    pub fn unknown_provider(&self, known: &[String]) -> Option<check::Problem> {
        let provider = self.provider.as_ref().filter(|name| !known.contains(name))?;
        let words: Vec<&str> = known.iter().map(String::as_str).collect();
        let fix = match nearest(provider, &words) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("name one of {}, or one of `agents` in your configuration", words.join(", ")),
        };
        Some(self.provider_at.as_ref()?.problem(format!("no agent is called `{}`", short(provider)), fix))
    }
}

/// The tasks of a unit as they stood when a turn began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSet {
    pub unit: UnitId,
    /// All of its tasks, by number.
    pub tasks: Vec<Task>,
    /// The numbers of those that may be completed in this turn.
    pub ready: Vec<u32>,
}
