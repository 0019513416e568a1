//! Events of a run in words: what happened to a unit, in one line each.

use dacapo_core::{
    event::{MergeMode, RunEnvelope, RunEvent, RunStop},
    ids::UnitId,
    text::count,
};

/// A whole event as `dacapo events` prints it.
pub(crate) fn run_event_line(envelope: &RunEnvelope) -> String {
    let at = envelope.at.strftime("%Y-%m-%d %H:%M:%S");
    let unit = envelope.unit.as_ref().map(|unit| format!("{unit}: ")).unwrap_or_default();
    format!("{:>6}  {at}  {}  {unit}{}", envelope.seq, envelope.run, describe_run(&envelope.event))
}

/// What happened, without when and to whom.
pub(crate) fn describe_run(event: &RunEvent) -> String {
    match event {
        RunEvent::OrchStarted(started) => {
            let what = match started.merge {
                MergeMode::Merge => format!("merged into {}", started.target),
                MergeMode::Leave => "left on their branches".to_owned(),
                MergeMode::PullRequest => format!("pull requests for {}", started.target),
            };
            let units = count(u32::try_from(started.units.len()).unwrap_or(u32::MAX), "unit");
            format!("run started: {units}, {} at once, {what}", started.parallel)
        }
        RunEvent::OrchCompleted { detail } => format!("run completed: {detail}"),
        RunEvent::OrchFailed { reason, detail, .. } => format!("run ended ({reason}): {detail}"),
        RunEvent::OrchStopping { by } => {
            let why = match by {
                RunStop::Cancel => "cancelled",
                RunStop::Interrupt => "interrupted",
                RunStop::Terminate | RunStop::Hangup => "terminated",
                RunStop::MaxTime => "its time is used up",
            };
            format!("run is being stopped: {why}")
        }
        RunEvent::UnitQueued { depends_on } if depends_on.is_empty() => "queued".to_owned(),
        RunEvent::UnitQueued { depends_on } => format!("queued behind {}", names(depends_on)),
        RunEvent::UnitStarted { slot } => format!("started in slot {slot}"),
        RunEvent::UnitCompleted { commit } => format!("work is done at {}", short(commit)),
        RunEvent::UnitMerging => "is being merged".to_owned(),
        RunEvent::UnitPublishing => "is being published".to_owned(),
        RunEvent::UnitJobEnded => "its process ended".to_owned(),
        RunEvent::UnitMerged { target, commit, left_on: None } => {
            format!("merged into {target} at {}", short(commit))
        }
        RunEvent::UnitMerged { target, left_on: Some((branch, command)), .. } => {
            format!("merged on {branch}; {target} could not be moved: `{command}` does it")
        }
        RunEvent::UnitSentBack { detail } => format!("sent back: {detail}"),
        RunEvent::UnitFailed { reason, detail, .. } => format!("failed ({}): {detail}", reason.as_str()),
        RunEvent::UnitBlocked { by } => format!("blocked by {}", names(by)),
        RunEvent::UnitWarned { text } => format!("WARNING: {text}"),
        RunEvent::TaskStarted { task, title, .. } => format!("task {task} offered: {title}"),
        RunEvent::TaskClaudeInvoke { attempt, agent, .. } => {
            format!("agent {agent} starts, attempt {attempt}")
        }
        RunEvent::TaskClaudeDone { attempt, duration_ms, error, .. } => {
            let how = error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
            format!("attempt {attempt} ended after {}{how}", duration_ms.human())
        }
        RunEvent::TaskBackpressure { task, command, .. } => format!("task {task} is checked: `{command}`"),
        RunEvent::TaskValidationOk { task, duration_ms, .. } => {
            format!("task {task} passed, {}", duration_ms.human())
        }
        RunEvent::TaskValidationFail { task, exit_code, .. } => {
            format!("task {task} is red: exited {exit_code}")
        }
        RunEvent::TaskCommitted { task, commit: Some(commit), .. } => {
            format!("task {task} committed as {}", short(commit))
        }
        RunEvent::TaskCommitted { task, .. } => format!("task {task} left nothing to commit"),
        RunEvent::TaskCompleted { task, .. } => format!("task {task} complete"),
        RunEvent::TaskRetry { attempt, reason, .. } => {
            format!("tries again after attempt {attempt}: {}", reason.replace('_', " "))
        }
        RunEvent::TaskFailed { task, detail } => format!("task {task} failed: {detail}"),
        RunEvent::PrCreated { url } => format!("pull request {url}"),
        RunEvent::PrMerged { commit } => format!("merge commit {}", short(commit)),
        RunEvent::PrFailed { detail } => format!("no pull request: {detail}"),
        RunEvent::PrConflict { paths } => format!("conflict in {}", paths.join(", ")),
        RunEvent::WorktreeCreated { path, branch, .. } => format!("worktree {} on {branch}", path.display()),
        RunEvent::WorktreeRemoved { path } => format!("worktree {} removed", path.display()),
        RunEvent::BranchPushed { branch, remote } => format!("{branch} pushed to {remote}"),
    }
}

/// As much of a commit as people read.
fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

fn names(units: &[UnitId]) -> String {
    units.iter().map(UnitId::as_str).collect::<Vec<_>>().join(", ")
}
