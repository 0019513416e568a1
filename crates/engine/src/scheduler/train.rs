//! The merge train: one finished unit onto the target, and only if the merged tree passes; or a pull request.

use std::{collections::BTreeMap, fmt::Write as _, rc::Rc};

use dacapo_core::{
    event::{Reason, RunEvent, UnitEnd},
    judge::unit_files::{self, UnitFileVerdict},
    policy::{GateSpec, Policy},
    text::{count, shell::quoted},
    unit::{TaskSet, TaskStatus, check, prompt, step},
};

use super::{job::JobEnd, work::Worker};
use crate::{
    proof,
    repository::{Known, Merged, PullRequestError, Removal, TargetMoved, Worktree},
    supervisor::Finished,
};

/// How often a target that others move is followed.
const CHASES: u32 = 20;

/// Merges the unit's branch into the target.
pub(super) fn merge(worker: &mut Worker<'_>) -> Result<(), JobEnd> {
    let known = worktree(worker)?;
    let head = head(worker, &known)?;
    for _ in 0..CHASES {
        worker.stop_if_asked()?;
        let tip = worker.tip()?;
        let commit = match worker.repo.merge(&tip, &head).map_err(JobEnd::error)? {
            // An earlier job was cut short behind its merge.
            Merged::Nothing => {
                is_all_there(worker, &tip)?;
                tip.clone()
            }
            Merged::Clean { tree } => match check_tree(worker, &tip, &tree, None)? {
                Checked::Green(tree) => commit(worker, &tree, &tip, &head)?,
                Checked::Red(detail) => {
                    worker.voice.tell(&RunEvent::UnitSentBack { detail });
                    return Ok(());
                }
            },
            Merged::Conflict { tree, paths, .. } => {
                worker.voice.tell(&RunEvent::PrConflict { paths: paths.clone() });
                match check_tree(worker, &tip, &tree, Some(&paths))? {
                    Checked::Green(tree) => commit(worker, &tree, &tip, &head)?,
                    Checked::Red(detail) => {
                        let detail = format!(
                            "`{}` conflicts with `{}` in {}, and no agent could resolve it ({detail}); both branches are as they were",
                            known.branch,
                            worker.spec.started.target,
                            paths.join(", ")
                        );
                        return Err(JobEnd(UnitEnd::Merge, detail));
                    }
                }
            }
        };
        refuse_foreign(worker, &known, &head, [&tip, &commit])?;
        let (target, id) = (worker.spec.started.target.clone(), worker.spec.started.purse.clone());
        let now = worker.repo.branch(&target).map_err(JobEnd::error)?;
        let Some(now) = now else {
            return Err(JobEnd::error(format!("the target branch `{target}` is gone")));
        };
        // Somebody committed to the target while its merge was being checked: that commit was never seen by a gate.
        if !worker.repo.is_ancestor(&now, &commit).map_err(JobEnd::error)? {
            continue;
        }
        let left_on =
            match worker.repo.move_target(&target, &commit, &now, id.as_str()).map_err(JobEnd::error)? {
                TargetMoved::Moved { .. } => None,
                TargetMoved::LeftOn { branch, command, why } => {
                    let text = format!("`{target}` was left where it is: {}", why.join(", "));
                    worker.voice.tell(&RunEvent::UnitWarned { text });
                    Some((branch, command))
                }
                TargetMoved::Overtaken { .. } => continue,
            };
        worker.voice.tell(&RunEvent::PrMerged { commit: commit.clone() });
        worker.voice.tell(&RunEvent::UnitMerged { target, commit: commit.clone(), left_on });
        tidy(worker, &known, &commit);
        return Ok(());
    }
    Err(JobEnd(UnitEnd::Merge, format!("the target moved {CHASES} times while the merge was being checked")))
}

/// Nothing to merge is a merged unit only if the target has all of it.
fn is_all_there(worker: &Worker<'_>, tip: &str) -> Result<(), JobEnd> {
    let tasks = worker.tasks_at(tip)?;
    match tasks.iter().find(|task| task.status != TaskStatus::Complete) {
        None => Ok(()),
        Some(task) => Err(JobEnd(
            UnitEnd::Merge,
            format!(
                "there is nothing to merge, and task #{} is not complete in `{}`",
                task.spec.number, worker.spec.started.target
            ),
        )),
    }
}

/// Refuses a merge that would change more of the units' files than it may: the status of this unit's proven tasks.
fn refuse_foreign(
    worker: &mut Worker<'_>,
    known: &Known,
    head: &str,
    [tip, merged]: [&str; 2],
) -> Result<(), JobEnd> {
    let Known { path, branch } = known.clone();
    worker.look_at_branch(&Worktree { path, branch, head: head.to_owned(), is_new: false })?;
    let settings = worker.spec.started.settings.clone();
    let tasks = worker.tasks_at(tip)?;
    let set = TaskSet { unit: worker.spec.unit.id.clone(), tasks: tasks.clone(), ready: Vec::new() };
    let policy = settings.policy.with(|p| p.tasks = Some(set));
    // Those of the unit are read at once; there are hardly ever others.
    let folder = format!("{}/", worker.spec.unit.folder);
    let (own_before, own_after) = (own_files(worker, tip)?, own_files(worker, merged)?);
    let held = |own: &BTreeMap<String, Vec<u8>>, commit: &str, file: &str| match file.starts_with(&folder) {
        true => Ok(own.get(file).cloned()),
        false => worker.repo.file_at(commit, file).map_err(JobEnd::error),
    };
    for file in worker.repo.changed_below(tip, merged, &settings.units_dir).map_err(JobEnd::error)? {
        let (before, after) = (held(&own_before, tip, &file)?, held(&own_after, merged, &file)?);
        let verdict = unit_files::judge(&file, before.as_deref(), after.as_deref(), &policy);
        let is_proven = tasks.iter().find(|task| task.spec.file == file).is_none_or(|task| {
            let said = after.as_deref().and_then(|bytes| check::reread(&file, bytes).ok());
            said == Some(task.status)
                || (said == Some(TaskStatus::Complete) && worker.proven.contains(&task.spec.number))
        });
        if matches!(verdict, UnitFileVerdict::Forbidden(_)) || !is_proven {
            let detail = format!("the merge would change `{file}` in a way that nothing proves");
            return Err(JobEnd(UnitEnd::Merge, detail));
        }
    }
    Ok(())
}

/// The files of the worker's own unit in a commit.
fn own_files(worker: &Worker<'_>, commit: &str) -> Result<BTreeMap<String, Vec<u8>>, JobEnd> {
    let files = worker.repo.files_below(commit, &worker.spec.unit.folder).map_err(JobEnd::error)?;
    Ok(files.into_iter().collect())
}

enum Checked {
    /// The tree that passed.
    Green(String),
    /// What was red.
    Red(String),
}

/// Lays the merged tree out and runs everything that must hold for the unit on it; after a conflict an agent works on it.
fn check_tree(
    worker: &mut Worker<'_>,
    tip: &str,
    tree: &str,
    conflict: Option<&[String]>,
) -> Result<Checked, JobEnd> {
    let unit = worker.spec.unit.id.clone();
    let settings = worker.spec.started.settings.clone();
    let project = worker.spec.started.project.clone();
    let repo = Rc::clone(&worker.repo);
    let scratch = repo.scratch(&project, unit.as_str(), tip).map_err(JobEnd::error)?;
    repo.lay_out(&scratch, tree).map_err(JobEnd::error)?;
    if settings.submodules {
        repo.init_submodules(scratch.path()).map_err(JobEnd::error)?;
    }
    worker
        .prepare(scratch.path(), &settings.setup)
        .map_err(|why| JobEnd(UnitEnd::Setup, format!("setup of the merged tree: {why}")))?;
    let must_hold = worker.must_hold(tip, tree, tip)?;
    let (policy, words): (Policy, String) = match conflict {
        None => (settings.merged(&unit, &must_hold), format!("The merge of unit {unit} is checked.")),
        Some(paths) => (
            settings.conflict(&unit, &must_hold, no_markers(paths)),
            prompt::resolve_conflict(&unit, &worker.spec.started.target, paths),
        ),
    };
    if policy.gates.specs.is_empty() {
        return Ok(Checked::Green(tree.to_owned()));
    }
    let Finished { id, reason, detail, .. } = worker.run_loop(policy, words, scratch.path(), None)?;
    match (reason, step::end_of(reason, UnitEnd::Merge)) {
        // What setup wrote is no part of it.
        (Reason::Done, _) | (_, None) if conflict.is_none() => Ok(Checked::Green(tree.to_owned())),
        (Reason::Done, _) | (_, None) => {
            let receipt = proof::receipt(&worker.store, &id).map_err(JobEnd::error)?;
            let kept = receipt.and_then(|receipt| receipt.tree);
            let kept = kept.ok_or_else(|| JobEnd::error(format!("loop {id} kept no tree")))?;
            // Whoever resolved it may have changed files of units that had nothing to do with it.
            if worker.must_hold(tip, &kept, tip)? == must_hold {
                return Ok(Checked::Green(kept));
            }
            drop(scratch);
            check_tree(worker, tip, &kept, None)
        }
        (_, Some(UnitEnd::Merge)) => Ok(Checked::Red(detail)),
        (_, Some(end)) => Err(JobEnd(end, detail)),
    }
}

/// The check that every conflict marker is gone.
fn no_markers(paths: &[String]) -> GateSpec {
    let mut run = String::from("for file in");
    for path in paths {
        let _ = write!(run, " {}", quoted(path));
    }
    run.push_str(
        "; do\n  [ -f \"$file\" ] || continue\n  if grep -nE '^(<<<<<<<|>>>>>>>|\\|\\|\\|\\|\\|\\|\\|)( |$)' -- \"$file\"; then \
         echo \"$file: conflict markers\"; exit 1; fi\ndone",
    );
    GateSpec { name: "no conflict markers".to_owned(), ..GateSpec::of_command(&run) }
}

fn commit(worker: &Worker<'_>, tree: &str, tip: &str, head: &str) -> Result<String, JobEnd> {
    let message = format!("Merge unit {}", worker.spec.unit.id);
    worker.repo.commit_merge(tree, [tip, head], &message).map_err(JobEnd::error)
}

fn worktree(worker: &Worker<'_>) -> Result<Known, JobEnd> {
    worker.known()?.ok_or_else(|| JobEnd::error("the unit has no worktree"))
}

fn head(worker: &Worker<'_>, known: &Known) -> Result<String, JobEnd> {
    let head = worker.repo.branch(&known.branch).map_err(JobEnd::error)?;
    head.ok_or_else(|| JobEnd::error(format!("the branch `{}` is gone", known.branch)))
}

/// Teardown, then the worktree and its branch; what is not surely merged and clean stays, and is named.
fn tidy(worker: &mut Worker<'_>, known: &Known, merged: &str) {
    let settings = worker.spec.started.settings.clone();
    if let Err(why) = worker.prepare(&known.path, &settings.teardown) {
        worker.voice.tell(&RunEvent::UnitWarned { text: format!("teardown: {why}") });
    }
    match worker.repo.remove(&known.path, &known.branch, merged) {
        Ok(Removal::Removed) => {
            worker.voice.tell(&RunEvent::WorktreeRemoved { path: known.path.clone() });
        }
        Ok(Removal::Kept { why }) => {
            let text = format!("the worktree `{}` is left: {why}", known.path.display());
            worker.voice.tell(&RunEvent::UnitWarned { text });
        }
        Err(error) => {
            let text = format!("the worktree `{}` is left: {error}", known.path.display());
            worker.voice.tell(&RunEvent::UnitWarned { text });
        }
    }
}

/// Pushes the unit's branch and opens a pull request.
pub(super) fn publish(worker: &mut Worker<'_>) -> Result<(), JobEnd> {
    let known = worktree(worker)?;
    let target = worker.spec.started.target.clone();
    let failed = |detail: String| JobEnd(UnitEnd::Merge, detail);
    let now = worker.repo.route(&target).map_err(JobEnd::error)?;
    let changed = worker.spec.route.as_ref().map(|route| route.changed(&now)).unwrap_or_default();
    if !changed.is_empty() {
        return Err(failed(format!(
            "`{branch}` was not pushed: somebody, maybe an agent, changed where or how since the run began ({}); look at \
             `git config --list --show-origin`, and if all is right there, `git push REMOTE {branch}` or another \
             `dacapo unit run --pr` pushes it",
            changed.join(", "),
            branch = known.branch
        )));
    }
    let Some(remote) = now.remote().map(str::to_owned) else {
        return Err(failed(
            "there is no remote to push to; `git remote add origin URL` names one".to_owned(),
        ));
    };
    let head = head(worker, &known)?;
    let Known { path, branch } = known.clone();
    worker.look_at_branch(&Worktree { path, branch, head: head.clone(), is_new: false })?;
    if head != worker.accepted {
        return Err(failed(format!("`{}` holds commits after the last that was proven", known.branch)));
    }
    worker.repo.push(&known.branch, &head, &remote).map_err(|error| failed(error.to_string()))?;
    let branch = known.branch.clone();
    worker.voice.tell(&RunEvent::BranchPushed { branch, remote });
    let unit = worker.spec.unit.id.clone();
    let body = body(worker, &known)?;
    let title = format!("Unit {unit}");
    match worker.repo.open_pull_request(&known.branch, &target, &title, &body) {
        Ok(opened) => worker.voice.tell(&RunEvent::PrCreated { url: opened.url }),
        Err(PullRequestError::NoGh) => {
            let text =
                "the branch is pushed; there is no `gh` on PATH to open a pull request with".to_owned();
            worker.voice.tell(&RunEvent::UnitWarned { text });
        }
        Err(error) => {
            let detail = error.to_string();
            worker.voice.tell(&RunEvent::PrFailed { detail: detail.clone() });
            return Err(failed(format!("the branch is pushed, but no pull request: {detail}")));
        }
    }
    Ok(())
}

/// What a reviewer reads: every task with the proof of it.
fn body(worker: &Worker<'_>, known: &Known) -> Result<String, JobEnd> {
    let head = head(worker, known)?;
    let tasks = worker.tasks_at(&head)?;
    let mut body = format!(
        "{} of unit `{}`, each proven before it was committed.\n\n",
        count(tasks.len() as u32, "task"),
        worker.spec.unit.id
    );
    let loops = worker
        .store
        .loops_of_task(&worker.spec.started.project, worker.task()?.as_str())
        .map_err(JobEnd::error)?;
    for row in loops {
        let Some(receipt) = proof::receipt(&worker.store, &row.view.id).map_err(JobEnd::error)? else {
            continue;
        };
        let claims: Vec<String> = receipt
            .claim
            .iter()
            .filter_map(|signal| match signal {
                dacapo_core::judge::signal::Signal::Task(number) => tasks
                    .iter()
                    .find(|task| task.spec.number == *number)
                    .map(|task| format!("#{number} {}", task.spec.title)),
                _ => None,
            })
            .collect();
        let what = if claims.is_empty() { "baseline".to_owned() } else { claims.join(", ") };
        let _ = writeln!(
            body,
            "- **{what}** — {} (receipt `{}`, loop `{}`)",
            receipt.verdict, receipt.sha256, row.view.id
        );
        for gate in &receipt.gates {
            let _ = writeln!(body, "  - `{}` exited {}", gate.command.replace('\n', " "), gate.exit_code);
        }
    }
    Ok(body)
}
