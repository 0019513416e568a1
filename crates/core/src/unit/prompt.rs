//! What an agent is told about its unit. What every loop adds (how to go on, what was refused) is not repeated here.

use super::{Task, TaskSet};
use crate::ids::UnitId;

/// The prompt of a turn: all ready tasks, of which the agent completes one (req 18, req 19).
pub fn turn(set: &TaskSet) -> String {
    let ready: Vec<&Task> = set.tasks.iter().filter(|task| set.ready.contains(&task.spec.number)).collect();
    let mut prompt = format!("You work on the unit `{}`. These of its tasks are ready:\n", set.unit);
    for Task { spec, .. } in ready {
        prompt.push_str(&format!("\n- Task #{}: {}\n  file: {}\n", spec.number, spec.title, spec.file));
        prompt.push_str(&format!("  backpressure:{}\n", command(&spec.backpressure)));
    }
    prompt.push_str(
        "\nChoose ONE of them and complete it:\n\
         1. Read its file fully before you change anything.\n\
         2. Implement what it asks for, and only that: no unrelated refactoring, no work on other tasks.\n\
         3. Run its backpressure command, and go on until it passes. Never start tests in watch mode: the command must \
         end by itself.\n\
         4. In the frontmatter of its file, set `status` to `complete`, whatever it is now. Change nothing else in the \
         frontmatter of any task file or plan.\n\
         5. Stop after this one task.\n\n\
         The backpressure is run again when you stop. A status that it does not confirm is taken back.\n",
    );
    prompt
}

/// A command in a prompt: behind its label, or below it if it has several lines.
fn command(text: &str) -> String {
    let text = text.trim_end();
    if text.contains('\n') {
        text.lines().map(|line| format!("\n    {line}")).collect()
    } else {
        format!(" {text}")
    }
}

/// What is added for a task that an earlier turn claimed beside others, and whose check was red.
pub fn was_red(number: u32, output: &str) -> String {
    format!(
        "\nTask #{number} was said to be complete before, and its backpressure did not pass. The end of what it printed:\n\
         {}\n(end of what it printed)\n",
        output.trim_end()
    )
}

/// What no agent may do to make a check pass.
const HONESTLY: &str = "Correct what is wrong; do not make the checks weaker. Do not delete or skip tests, do not change \
    what the check commands are or do, and do not switch off a lint to silence it. Change nothing in the \
    frontmatter of any task file or plan.\n";

/// The prompt after baseline checks failed, given by name and command (req 53).
pub fn fix_baseline(unit: &UnitId, checks: &[(&str, &str)]) -> String {
    let mut prompt = format!(
        "All tasks of the unit `{unit}` are complete, but the checks of the whole repository do not pass. They are:\n\n"
    );
    for (name, run) in checks {
        prompt.push_str(&format!("- {name}:{}\n", command(run)));
    }
    prompt.push_str("\nRun them, find out why they fail, and fix it. ");
    prompt.push_str(HONESTLY);
    prompt.push_str("The checks are run again when you stop.\n");
    prompt
}

/// The prompt for files in which two branches disagree (req 54).
pub fn resolve_conflict(unit: &UnitId, target: &str, paths: &[String]) -> String {
    let mut prompt = format!(
        "The unit `{unit}` was merged with `{target}`, and both have changed the same places. Conflict markers (`<<<<<<<`, \
         `=======`, `>>>>>>>`) stand in these files:\n\n"
    );
    for path in paths {
        prompt.push_str(&format!("- {path}\n"));
    }
    prompt.push_str(
        "\nResolve every conflict so that the intent of both sides is kept, and remove all markers. A file that one side \
         deleted and the other changed needs a decision: keep it or delete it. Change nothing that the conflicts do not \
         concern. Do not run `git merge`, `git rebase`, `git commit` or `git checkout`: the files as you leave them are \
         the result.\n",
    );
    prompt.push_str(HONESTLY);
    prompt.push_str("The checks are run on the result when you stop.\n");
    prompt
}

/// The prompt after a merge that had no conflict did not pass.
pub fn fix_merge(unit: &UnitId, target: &str) -> String {
    format!(
        "The unit `{unit}` passed its checks alone, but not together with what `{target}` holds by now. The newest state \
         of `{target}` has been merged into this directory. Run the checks, find out why they fail here, and fix it so that \
         what both sides meant still works. Do not run `git merge`, `git rebase` or `git commit`.\n{}The checks are run \
         again when you stop.\n",
        HONESTLY
    )
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
