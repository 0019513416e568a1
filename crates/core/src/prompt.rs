//! What an agent is given: the user's words, then dacapo's, then what it should know of the past.

use serde::{Deserialize, Serialize};

use crate::{
    agent::Format,
    event::{GateResult, LoopStarted},
    ids::{base32, fingerprint},
    judge::promise::MissReason,
    loop_machine::LoopState,
};

/// The newest refusal, in a form an agent can use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Feedback {
    /// The iteration whose claim was refused.
    pub iteration: u32,
    /// One line.
    pub line: String,
    /// The check that refused it.
    pub gate: Option<GateFeedback>,
}

/// What a red gate has to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateFeedback {
    /// The command line.
    pub command: String,
    /// The end of its output.
    pub tail: String,
    /// Whether it failed before the loop began, too.
    pub was_red: bool,
}

impl Feedback {
    /// The feedback of a gate that came to `result`.
    pub fn of_gate(iteration: u32, name: &str, command: &str, result: &GateResult, was_red: bool) -> Self {
        let line = match &result.failure {
            Some(failure) => format!("the check `{name}` {failure}"),
            None => format!("the check `{name}` exited {}", result.exit_code),
        };
        let gate = GateFeedback { command: command.to_owned(), tail: result.output_tail.clone(), was_red };
        Self { iteration, line, gate: Some(gate) }
    }

    /// The feedback of a refusal without a gate.
    pub fn of_refusal(iteration: u32, detail: &str) -> Self {
        Self { iteration, line: detail.to_owned(), gate: None }
    }
}

/// The nonce of one iteration: not secret from an agent, but no earlier text can hold it.
pub fn nonce(started: &LoopStarted, iteration: u32) -> String {
    let mut random = Vec::new();
    for part in 0..2_u32 {
        random.extend(fingerprint(format!("{}/{iteration}/{part}", started.seed).as_bytes()).to_le_bytes());
    }
    base32(&random[..8])
}

/// The prompt of `iteration`.
///
/// dacapo's own sentences never hold the tag alone on a line or last, so that no echo of them is a claim.
pub fn compose(state: &LoopState, iteration: u32, nonce: &str) -> String {
    let Some(started) = &state.started else { return String::new() };
    let policy = &started.policy;
    let mut prompt = String::new();
    if iteration > 1 {
        prompt.push_str("Continue working on the following:\n\n");
    }
    prompt.push_str(started.prompt.trim_end());
    prompt.push_str("\n\n---\n");
    prompt.push_str(&format!(
        "You work in a loop; this is iteration {iteration} of at most {}. ",
        state.max_iterations
    ));
    prompt.push_str(if policy.continue_session {
        "A session may be lost at any time: what must carry over belongs into this directory's files and history.\n"
    } else {
        "Every iteration starts afresh in this directory: what lies in its files and in its history is all that \
         carries over.\n"
    });
    let done_file = if policy.done_file { ", or create the file $TASK_FOLDER/DONE" } else { "" };
    prompt.push_str(&format!(
        "When all of it is done and you have checked it, print the line {} and nothing else on it{done_file}. \
         Do neither before that: the loop goes on until the work is done, and a claim may be checked.\n",
        policy.promise.tag(nonce),
    ));
    if let Some(code) = policy.wait.exit_code {
        // What runs inside a CLI cannot choose the exit code of that.
        let by_code = match policy.agent(state.agent).format {
            Format::Text => format!("exit with code {code}, or "),
            _ => String::new(),
        };
        prompt.push_str(&format!(
            "If you cannot go on without a person, post your question with `dacapo bus post --type QUESTION` and \
             {by_code}create the file $TASK_FOLDER/WAIT_WITHOUT_RESTART.\n"
        ));
    }
    for (text, _) in state.steers.iter().filter(|(_, told)| told.is_none_or(|t| t == iteration)) {
        prompt.push_str(&format!("\nThe person you work for says:\n{}\n", text.trim_end()));
    }
    if let Some(feedback) = state.feedback.as_ref().filter(|_| policy.feedback) {
        prompt.push_str(&format!(
            "\nThe claim of iteration {} was refused: {}.\n",
            feedback.iteration, feedback.line
        ));
        if let Some(gate) = &feedback.gate {
            prompt.push_str(&format!("Its command: {}\n", gate.command));
            if gate.was_red {
                prompt.push_str("It failed before the loop began, too.\n");
            }
            if gate.tail.trim().is_empty() {
                prompt.push_str("It printed nothing.\n");
            } else {
                prompt.push_str(&format!(
                    "The end of what it printed:\n{}\n(end of what it printed)\n",
                    gate.tail.trim_end()
                ));
            }
        }
    }
    let older = state.refusals.iter().rev().skip(1).take(if policy.feedback { 2 } else { 0 });
    for (number, _, line) in older {
        prompt.push_str(&format!("Before that, the claim of iteration {number} was refused: {line}.\n"));
    }
    let stuck = state.progress.without_progress();
    if stuck >= crate::loop_machine::STUCK {
        prompt.push_str(&format!(
            "\nThe last {stuck} iterations changed nothing that was not there before. Do something else than they did: \
             read what failed, try another way, or ask.\n"
        ));
    }
    if let Some(miss) = state.near_miss {
        prompt.push_str(&format!(
            "\nYour promise in iteration {} did not count: {}.\n",
            iteration - 1,
            hint(miss)
        ));
    }
    prompt
}

/// Why a tag did not count, and what to do about it.
pub fn hint(miss: MissReason) -> &'static str {
    match miss {
        MissReason::InCode => "it stood in code; print it as plain text",
        MissReason::Quoted => "it stood in a quotation; print it as plain text",
        MissReason::NotAlone => "other text stood on its line; print it on a line of its own",
        MissReason::Echo => "it repeated the task's own text",
        MissReason::WrongCase => "upper and lower case differ from what was asked for",
    }
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
