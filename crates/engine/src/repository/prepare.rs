//! What makes a fresh worktree ready for work, and what is done before it goes: commands of the configuration, contained
//! as a loop's checks are.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::Path,
};

use dacapo_core::{
    agent::gate_environment,
    duration::Millis,
    ids::{LoopId, ProjectId},
    judge::expectation::Expectation,
    policy::SetupCommand,
    sandbox::SandboxRules,
};

use super::WorktreeFor;
use crate::{
    guard::{GuardedFolder, WorktreeIsOn},
    home::Home,
    process::{KeptCommand, Ran, run_in},
    proof::fresh_id,
};

/// How long one command may take.
const TIMEOUT: Millis = Millis::from_secs(600);
/// How long what it started is given to end.
const GRACE: Millis = Millis::from_secs(5);

/// Whose worktree it is; commands find these in their environment.
#[derive(Clone, Copy, Debug)]
pub struct WorktreeOwner<'a> {
    pub project: &'a ProjectId,
    pub work: WorktreeFor<'a>,
    pub dir: &'a Path,
    /// The branch that dacapo made it for; none if it is at a commit.
    pub branch: Option<&'a str>,
}

/// The first command that did not exit 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupFailed {
    pub run: String,
    /// How it ended, in words.
    pub how: String,
    /// The end of what it printed.
    pub tail: String,
}

/// Runs the steps one after the other, up to the first that fails, in the sandbox that `rules` ask for: what they run is what
/// agents wrote, in a merged tree, or in one whose target holds their work.
pub fn prepare(
    home: &Home,
    at: WorktreeOwner<'_>,
    rules: &SandboxRules,
    steps: &[SetupCommand],
) -> io::Result<Result<(), SetupFailed>> {
    if steps.is_empty() {
        return Ok(Ok(()));
    }
    let on = at.branch.map_or(WorktreeIsOn::NoBranch, WorktreeIsOn::Branch);
    let mut guarded = GuardedFolder::new(home, rules, at.dir, on, false)?;
    let ended = prepare_with(home, at, steps, |mark, command| {
        run_in(guarded.keeper(mark)?.0, command, TIMEOUT, &Expectation::default())
    });
    let told = guarded.leave();
    match (ended?, told.is_empty()) {
        (Ok(()), false) => Err(io::Error::other(told.join("; "))),
        (ended, _) => Ok(ended),
    }
}

fn prepare_with(
    home: &Home,
    at: WorktreeOwner<'_>,
    steps: &[SetupCommand],
    mut run: impl FnMut(&LoopId, &KeptCommand) -> io::Result<Ran>,
) -> io::Result<Result<(), SetupFailed>> {
    for step in steps {
        if step.only_if.as_ref().is_some_and(|file| !at.dir.join(file).exists()) {
            continue;
        }
        // A name of its own: nothing that belongs to a loop may be taken for this.
        let mark = fresh_id()?;
        let command = KeptCommand {
            program: "/bin/sh".into(),
            args: ["-c", &step.run].map(Into::into).into(),
            env: environment(home, at, &mark),
            dir: at.dir.to_owned(),
            grace: GRACE,
        };
        if let Some(failed) = failure(&step.run, &run(&mark, &command)?) {
            return Ok(Err(failed));
        }
    }
    Ok(Ok(()))
}

/// What a command that ended badly is told as.
fn failure(run: &str, ran: &Ran) -> Option<SetupFailed> {
    let how = match (&ran.failure, ran.exit_code) {
        (None, 0) => return None,
        (None, code) => format!("exit {code}"),
        (Some(why), _) => why.clone(),
    };
    let tail = String::from_utf8_lossy(&ran.tail).into_owned();
    Some(SetupFailed { run: run.to_owned(), how, tail })
}

/// A check's, with what says whose worktree it is.
fn environment(home: &Home, at: WorktreeOwner<'_>, mark: &LoopId) -> Vec<(OsString, OsString)> {
    let (variable, name) = at.work.variable();
    let own: [(&str, &OsStr); 4] = [
        ("DACAPO_LOOP", mark.as_str().as_ref()),
        ("DACAPO_PROJECT", at.project.as_str().as_ref()),
        (variable, name.as_ref()),
        ("DACAPO_HOME", home.path().as_os_str()),
    ];
    gate_environment(&std::env::vars_os().collect::<Vec<_>>(), &own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(exit_code: i32, failure: Option<&str>) -> Ran {
        let failure = failure.map(str::to_owned);
        Ran {
            exit_code,
            failure,
            output_sha256: String::new(),
            tail: b"no\n".to_vec(),
            found: Default::default(),
        }
    }

    #[test]
    fn a_step_that_ended_badly_is_told_with_its_end() {
        let told = |how: &str| Some(SetupFailed { run: "x".into(), how: how.into(), tail: "no\n".into() });
        assert_eq!(failure("x", &ran(0, None)), None);
        assert_eq!(failure("x", &ran(3, None)), told("exit 3"));
        assert_eq!(failure("x", &ran(-1, Some("timed out after 10m"))), told("timed out after 10m"));
    }

    #[test]
    fn steps_run_in_order_where_they_apply_up_to_the_first_that_fails() {
        // req 51
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("lock"), "").unwrap();
        let (project, unit): (_, dacapo_core::ids::UnitId) = ("p".parse().unwrap(), "u".parse().unwrap());
        let at = WorktreeOwner { project: &project, work: (&unit).into(), dir: folder.path(), branch: None };
        let step = |run: &str, file: Option<&str>| SetupCommand {
            run: run.to_owned(),
            only_if: file.map(str::to_owned),
        };
        let steps = [
            step("one", None),
            step("two", Some("gone")),
            step("three", Some("lock")),
            step("four", None),
            step("five", None),
        ];
        let home = Home::at("/home");
        let mut seen = Vec::new();
        let mut marks = std::collections::HashSet::new();
        let result = prepare_with(&home, at, &steps, |mark, command| {
            assert_eq!((command.program.to_str(), command.dir.as_path()), (Some("/bin/sh"), folder.path()));
            assert!(command.env.iter().any(|(name, value)| name == "DACAPO_UNIT" && value == "u"));
            assert!(command.env.iter().any(|(name, value)| name == "DACAPO_LOOP" && value == mark.as_str()));
            marks.insert(mark.clone());
            seen.push(command.args[1].to_str().unwrap().to_owned());
            Ok(ran(if command.args[1] == *"four" { 1 } else { 0 }, None))
        });
        assert_eq!(result.unwrap().unwrap_err().run, "four");
        assert_eq!(seen, ["one", "three", "four"]);
        assert_eq!(marks.len(), 3);
    }
}
