//! What dacapo itself says in a chat, apart from what runs tell.

use super::decide::{ChatRun, KnownWorkflow, meant};
use crate::{event::Reason, text::count};

pub(super) fn help(known: &[KnownWorkflow]) -> String {
    format!(
        "**dacapo** runs workflows from here.\n\
         NAME text, or /workflow NAME text: start a workflow\n\
         /workflows: which there are\n\
         /status: the runs of this conversation\n\
         /cancel [RUN], /resume [RUN]: end a run, or go on with it\n\
         /approve [RUN] [text], /reject [RUN] [text]: answer a question; its decisions alone do, too\n\
         /steer [RUN] text: words for the agent\n\
         Where `/` does not work, write `!`.\n\n{}",
        workflows(known)
    )
}

pub(super) fn workflows(known: &[KnownWorkflow]) -> String {
    if known.is_empty() {
        return "There are no workflows here. `dacapo workflow list` looks for them.".to_owned();
    }
    let lines = known.iter().map(|workflow| {
        let first = workflow.description.lines().next().unwrap_or_default().trim();
        let first: String = first.chars().take(120).collect();
        format!("{}: {first}", workflow.name)
    });
    format!("**Workflows**\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// The question of dacapo to a user whose message fits no workflow.
pub fn which(known: &[KnownWorkflow]) -> String {
    match known.is_empty() {
        true => workflows(known),
        false => {
            format!("**Which workflow?** Write its name in front: `NAME what to do`.\n\n{}", workflows(known))
        }
    }
}

pub(super) fn no_workflow(name: &str, known: &[KnownWorkflow]) -> String {
    let name = shown(name);
    match meant(&name, known) {
        Some(meant) => format!("No workflow is called `{name}`; did you mean `{meant}`?"),
        None => format!("No workflow is called `{name}`.\n\n{}", workflows(known)),
    }
}

pub(super) fn no_command(name: &str) -> String {
    format!(
        "There is no command `/{}` and no workflow of that name. `/help` lists what there is.",
        shown(name)
    )
}

pub(super) fn status(runs: &[ChatRun]) -> String {
    if runs.is_empty() {
        return "No run was started from here.".to_owned();
    }
    // The newest are what a person wants to know of.
    let newest = &runs[runs.len().saturating_sub(20)..];
    let lines = newest.iter().map(|run| match (&run.question, run.is_agent_asking) {
        (Some(question), _) => format!("{}; asks: {}", run.line, question.offered().join(", ")),
        (None, true) => format!("{}; its agent asks you", run.line),
        (None, false) => run.line.clone(),
    });
    format!("**Runs**\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// What a message is answered with that is none of the decisions.
pub(super) fn offered(run: &ChatRun) -> String {
    let words = run.question.as_ref().map(|question| question.offered().join(", ")).unwrap_or_default();
    format!(
        "That decides nothing. Run {} asks for one of: {words}\nSend exactly one of these words. `/reject what is wrong` \
         sends words along, `/cancel {}` ends the run, and `/workflow NAME text` starts another.",
        run.id, run.id
    )
}

pub(super) fn several_ask(runs: &[&ChatRun]) -> String {
    let lines = runs.iter().map(|run| {
        let words = run.question.as_ref().map(|question| question.offered().join(", ")).unwrap_or_default();
        format!("{} ({}): {words}", run.id, run.workflow)
    });
    format!(
        "Several runs ask. Name the one you mean: `/approve RUN` or `/reject RUN`.\n{}",
        lines.collect::<Vec<_>>().join("\n")
    )
}

pub(super) fn several(runs: &[&ChatRun], what: &str) -> String {
    let lines: Vec<&str> = runs.iter().map(|run| run.line.as_str()).collect();
    format!("More than one run {what}. Name the one you mean.\n{}", lines.join("\n"))
}

pub(super) fn no_run(name: &str, runs: &[ChatRun]) -> String {
    format!("No run of this conversation is called `{}`.\n\n{}", shown(name), status(runs))
}

/// A run that does not go on before a person has said something.
pub fn held(reason: Reason, detail: &str) -> String {
    match reason {
        Reason::Question | Reason::Waiting => {
            format!("**The agent asks**: {detail}\n\nYour next message here is the answer.")
        }
        _ => format!("**Stopped** ({}): {detail}\n\n`/resume` goes on with it.", reason.as_str()),
    }
}

/// A run whose process is gone.
pub fn interrupted(run: &str) -> String {
    format!("**Interrupted**: the process of run {run} is gone. `/resume {run}` goes on with it.")
}

/// Stands in for messages that did not arrive.
pub fn lost(messages: u32, newest: &str) -> String {
    format!(
        "**{} could not be delivered** while this service could not be reached. The newest said:\n\n{newest}",
        count(messages, "message")
    )
}

fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control() && *c != '`').take(40).collect()
}
