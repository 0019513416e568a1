//! Merging a task that has passed its stages: what it and its target come to together is checked, and then the target moves.

use dacapo_core::{
    event::Reason,
    plan::{Purpose, goes_on},
    policy::Policy,
    stages::{StageTaskSpec, StageTaskStatus, task},
};

use super::job::{MergeReport, StageJob, StageJobError};
use crate::{
    repository::{KnownWorktree, Merged, Repository, TargetMoved},
    scheduler::JobReporter,
    supervisor::{self, NewLoop},
    task_files,
};

/// How often a target that moved meanwhile is merged again.
const TRIES: u32 = 20;

/// What is to be merged.
pub(super) struct MergeWork {
    /// The tree that passed all stages.
    pub(super) tree: String,
    /// The commit of the target that the branch holds, as dacapo knows it.
    pub(super) from: Option<String>,
    /// Of the loop that checks what it comes to.
    pub(super) policy: Policy,
    pub(super) task: StageTaskSpec,
}

pub(super) fn merge(
    job: &StageJob,
    work: MergeWork,
    voice: &mut JobReporter,
) -> Result<MergeReport, StageJobError> {
    let repo = job.open()?;
    let KnownWorktree { branch, .. } = job.known().ok_or(StageJobError::NoWorktree)?;
    let Some(head) = repo.branch(&branch)? else {
        return Ok(MergeReport::Refused { why: format!("its branch `{branch}` is gone") });
    };
    let target = &job.spec.target;
    for _ in 0..TRIES {
        let Some(tip) = repo.branch(target)? else {
            return Err(StageJobError::NoTarget(target.clone()));
        };
        let commits: Vec<&str> =
            [Some(&head), Some(&tip), work.from.as_ref()].into_iter().flatten().map(String::as_str).collect();
        let file = repo.look_up(&commits, &[(&tip, &work.task.file)])?.pop().flatten();
        if repo.tree_of(&head)? != work.tree {
            let why = format!("its branch `{branch}` does not hold what has passed its stages");
            return Ok(MergeReport::Refused { why });
        }
        let tree = match merged(&repo, &work, &head, &tip)? {
            Merged::Nothing => repo.tree_of(&tip)?,
            Merged::Clean { tree } => tree,
            // The coder has merged the target itself, and every role behind it has seen what it made of that.
            Merged::Conflict { .. } if repo.is_ancestor(&tip, &head)? => work.tree.clone(),
            Merged::Conflict { paths, .. } => return Ok(MergeReport::Conflict { paths }),
        };
        let done = file
            .as_deref()
            .and_then(|file| task::with_status(file, StageTaskStatus::Done).ok().filter(|done| done != file));
        // A merge that came to its end just before a crash, or a task that changes nothing.
        let is_there = done.is_none() && tree == repo.tree_of(&tip)? && repo.is_ancestor(&head, &tip)?;
        let message = format!("Merge task {}: {}", work.task.id, work.task.title);
        let commit = match &done {
            _ if is_there => tip.clone(),
            Some(done) => repo.commit_merge_with(&tree, [&tip, &head], &message, (&work.task.file, done))?,
            None => repo.commit_merge(&tree, [&tip, &head], &message)?,
        };
        if let Some(stopped) = checked(job, &repo, &tip, &commit, &work, voice)? {
            return Ok(stopped);
        }
        if is_there {
            repo.forget_waiting(job.spec.run.as_str())?;
            return Ok(MergeReport::Merged { commit });
        }
        if let Some(committed) = &file {
            put_status_back(job, &work.task.file, committed);
        }
        match repo.move_target(target, &commit, &tip, job.spec.run.as_str())? {
            TargetMoved::Moved { .. } => {
                repo.forget_waiting(job.spec.run.as_str())?;
                return Ok(MergeReport::Merged { commit });
            }
            // Another dacapo has just set the status of a task of its own, which this merge changes as well.
            TargetMoved::LeftOn { why, .. } if why.iter().all(|file| is_status_alone(job, &repo, file)) => {
                for file in &why {
                    if let Some((_, committed)) = differs_in_status(job, &repo, file) {
                        put_status_back(job, file, &committed);
                    }
                }
            }
            // The task is not done before its target holds it: others may depend on it.
            TargetMoved::LeftOn { branch, command, why } => {
                let detail = format!(
                    "`{target}` cannot be moved where it is checked out, because of {}: commit or stash that, then `dacapo task run`; or take \
                     the merge from `{branch}` with `{command}`",
                    why.join(", ")
                );
                return Ok(MergeReport::Held { reason: Reason::Waiting, detail });
            }
            TargetMoved::Overtaken { .. } => {}
        }
    }
    let detail = format!("`{target}` moved each time that the merge was ready");
    Ok(MergeReport::Held { reason: Reason::Lock, detail })
}

/// What the task and its target come to together.
///
/// What the task has changed counts from the commit of the target that dacapo knows of. The history of the branch is the
/// agents' own: a merge in it may have thrown away what the target had got meanwhile.
fn merged(repo: &Repository, work: &MergeWork, head: &str, tip: &str) -> Result<Merged, StageJobError> {
    let Some(from) = &work.from else { return Ok(repo.merge(tip, head)?) };
    // Where only one side has changed anything there is nothing to bring together.
    let (before, now) = (repo.tree_of(from)?, repo.tree_of(tip)?);
    if now == before || now == work.tree {
        return Ok(Merged::Clean { tree: work.tree.clone() });
    }
    if work.tree == before {
        return Ok(Merged::Clean { tree: now });
    }
    let side = repo.commit_on(&work.tree, from, &format!("dacapo task {}", work.task.id))?;
    Ok(repo.merge(tip, &side)?)
}

/// Runs all checks on the merged files; says how it ended if they do not pass.
fn checked(
    job: &StageJob,
    repo: &Repository,
    tip: &str,
    merged: &str,
    work: &MergeWork,
    voice: &mut JobReporter,
) -> Result<Option<MergeReport>, StageJobError> {
    if work.policy.gates.specs.is_empty() {
        return Ok(None);
    }
    let tree = &repo.tree_of(merged)?;
    let scratch = repo.scratch(&job.spec.project, &format!("task-{}", job.spec.task), tip)?;
    repo.lay_out(&scratch, tree)?;
    if job.spec.submodules {
        repo.init_submodules(scratch.path())?;
    }
    job.prepare(scratch.path(), None, &job.spec.setup)?;
    let new = NewLoop {
        policy: work.policy.clone(),
        prompt: Some(format!("Merge task {}", job.spec.task)),
        project: job.spec.project.clone(),
        task: Some(job.spec.task.clone()),
        workspace: scratch.path().to_owned(),
        after: Vec::new(),
        parent: None,
        run: Some(job.spec.run.clone()),
        purpose: Some(Purpose::stage_merge(tree)),
        base: None,
        filters: job.spec.filters.clone(),
        programs: job.spec.programs.clone(),
        steers: Vec::new(),
        is_detached: job.spec.is_detached,
    };
    let finished = supervisor::run(&job.home, new.check()?, voice)?;
    Ok(match finished.reason {
        Reason::Done => None,
        reason if goes_on(reason) => Some(MergeReport::Held { reason, detail: finished.detail }),
        _ => {
            let why = format!("what it and `{}` come to together does not pass: ", job.spec.target);
            Some(MergeReport::Refused { why: why + &finished.detail })
        }
    })
}

/// A task file in the user's checkout that differs from its commit in its status alone gets the status of the commit, so that
/// the merge can write it. The performer sets it again. Those of other tasks are not in the way.
fn put_status_back(job: &StageJob, file: &str, committed: &[u8]) {
    let Ok(now) = task_files::read(&job.spec.root, file) else { return };
    if is_same_but_status(file, &now, committed) {
        // One that cannot be written stays, and is named as what is in the way.
        let _ = task_files::write(&job.spec.root, file, Some(&now), committed);
    }
}

fn is_status_alone(job: &StageJob, repo: &Repository, file: &str) -> bool {
    differs_in_status(job, repo, file).is_some()
}

/// What a task file in the user's checkout holds, and what its commit does, if the two differ in the status and in nothing else.
fn differs_in_status(job: &StageJob, repo: &Repository, file: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    if !file.starts_with(task::FOLDER) {
        return None;
    }
    let committed = repo.file_at("HEAD", file).ok().flatten()?;
    let now = task_files::read(&job.spec.root, file).ok()?;
    is_same_but_status(file, &now, &committed).then_some((now, committed))
}

fn is_same_but_status(file: &str, now: &[u8], committed: &[u8]) -> bool {
    let Ok(before) = task::parse(file, committed) else { return false };
    task::with_status(now, before.status).is_ok_and(|restored| restored == committed)
}
