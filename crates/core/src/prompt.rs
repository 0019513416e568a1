//! What an agent is given: the user's words, then dacapo's, then what it should know of the past.

use serde::{Deserialize, Serialize};

use crate::{
    agent::Format,
    event::{GateResult, LoopStarted},
    ids::{base32, fingerprint},
    judge::promise::{BLOCKED_PLACEHOLDER, MissReason},
    loop_machine::LoopState,
    policy::{OwnClaim, Policy, PromptForm},
    session,
};

/// The newest refusal, in a form an agent can use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Feedback {
    /// The iteration whose claim was refused.
    pub iteration: u32,
    pub line: String,
    /// The checks that refused it.
    pub gates: Vec<GateFeedback>,
}

/// What a red gate has to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateFeedback {
    /// What it came to, in one line.
    pub line: String,
    pub command: String,
    /// The end of its output.
    pub tail: String,
    /// Whether it failed before the loop began, too.
    pub was_red: bool,
}

/// How much of the output of each of several gates an agent is shown, and of all of them together.
const SEVERAL: (usize, usize) = (4 << 10, 16 << 10);

/// Stands in a prompt for output that is left out because it is too long.
const LEFT_OUT: &str = "(left out here)";

impl GateFeedback {
    /// The feedback of a gate that came to `result`, about this item alone if it names one.
    pub fn new(name: &str, command: &str, item: Option<&str>, result: &GateResult, was_red: bool) -> Self {
        let about = item.map(|item| format!("{item}: ")).unwrap_or_default();
        let line = match &result.failure {
            Some(failure) => format!("{about}the check `{name}` {failure}"),
            None => format!("{about}the check `{name}` exited {}", result.exit_code),
        };
        Self { line, command: command.to_owned(), tail: result.output_tail.clone(), was_red }
    }
}

impl Feedback {
    /// The feedback of gates that are red: of several each gets its share of the room.
    pub fn of_gates(iteration: u32, mut gates: Vec<GateFeedback>) -> Self {
        if gates.len() > 1 {
            let (each, mut left) = SEVERAL;
            for gate in &mut gates {
                let shown = end_of(&gate.tail, each.min(left));
                left -= shown.len();
                gate.tail = if left == 0 && shown.is_empty() { LEFT_OUT } else { shown }.to_owned();
            }
        }
        let lines: Vec<&str> = gates.iter().map(|gate| gate.line.as_str()).collect();
        Self { iteration, line: lines.join("; "), gates }
    }

    /// The feedback of a refusal without a gate.
    pub fn of_refusal(iteration: u32, detail: &str) -> Self {
        Self { iteration, line: detail.to_owned(), gates: Vec::new() }
    }
}

/// The end of `text`, at most so many bytes of it.
fn end_of(text: &str, most: usize) -> &str {
    let mut from = text.len().saturating_sub(most);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
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
    let user = started.prompt.trim_end();
    let mut prompt = match &policy.agent.prompt_form {
        PromptForm::Explained => explained(state, policy, user, iteration, nonce),
        PromptForm::AsWritten { count_mark } => {
            let count = format!("{iteration}/{}", state.limits.max_iterations);
            let counted = match count_mark.as_str() {
                "" => user.to_owned(),
                mark => user.replace(mark, &count),
            };
            format!("{counted}\n\n---\n")
        }
        PromptForm::Session => return session::compose(state, iteration, nonce),
    };
    prompt.push_str(&format!(
        "If it cannot be done as asked, do not pretend that it is and do not bend what it is checked by: print the line \
         <blocked>{BLOCKED_PLACEHOLDER}</blocked> and nothing else on it, with the reason in your own words, and stop. That \
         is no failure of yours: a person reads it and decides.\n"
    ));
    if let Some((number, why)) =
        state.conversation.blocked.as_ref().filter(|(number, _)| number + 1 == iteration)
    {
        prompt.push_str(&format!(
            "\nIn iteration {number} the agent said that it cannot be done as asked: {why}\nA person has read that and lets \
             the loop go on.\n"
        ));
    }
    for (text, _) in state.conversation.steers.iter().filter(|(_, told)| told.is_none_or(|t| t == iteration))
    {
        prompt.push_str(&said(text));
    }
    if let Some(feedback) = state.conversation.feedback.as_ref().filter(|_| policy.gates.feedback) {
        prompt.push_str(&told(feedback, policy));
    }
    let older = state.refusals.iter().rev().skip(1).take(if policy.gates.feedback { 2 } else { 0 });
    for refused in older {
        prompt.push_str(&format!(
            "Before that, the claim of iteration {} was refused: {}.\n",
            refused.iteration, refused.detail
        ));
    }
    let stuck = state.progress.log.without_progress();
    // An agent whose prompt is its own may be asked to change nothing.
    if stuck >= crate::loop_machine::STUCK && policy.agent.prompt_form == PromptForm::Explained {
        prompt.push_str(&format!(
            "\nThe last {stuck} iterations changed nothing that was not there before. Do something else than they did: \
             read what failed, try another way, or ask.\n"
        ));
    }
    if let Some(miss) = state.conversation.near_miss {
        prompt.push_str(&format!(
            "\nYour promise in iteration {} did not count: {}.\n",
            iteration - 1,
            hint(miss)
        ));
    }
    if let Some(miss) = state.conversation.blocked_near_miss {
        prompt.push_str(&format!(
            "\nWhat you said in iteration {} about being blocked did not count: {}. If you are not blocked, go on.\n",
            iteration - 1,
            hint(miss)
        ));
    }
    prompt
}

/// The user's words, and behind them how the loop works and how the agent claims that it is done or asks a person.
fn explained(state: &LoopState, policy: &Policy, user: &str, iteration: u32, nonce: &str) -> String {
    let mut prompt = String::new();
    if iteration > 1 {
        prompt.push_str("Continue working on the following:\n\n");
    }
    prompt.push_str(user);
    prompt.push_str("\n\n---\n");
    // An agent whose end is its claim works once, unless its work is cut short.
    let works_once = policy.claims.own_claim == OwnClaim::WithAgent;
    if !works_once {
        prompt.push_str(&format!(
            "You work in a loop; this is iteration {iteration} of at most {}. ",
            state.limits.max_iterations
        ));
    }
    prompt.push_str(if works_once {
        ""
    } else if policy.agent.continue_session {
        "A session may be lost at any time: what must carry over belongs into this directory's files and history.\n"
    } else {
        "Every iteration starts afresh in this directory: what lies in its files and in its history is all that \
         carries over.\n"
    });
    prompt.push_str(&how_to_claim(policy, nonce));
    if let Some(code) = policy.claims.wait.exit_code {
        // What runs inside a CLI cannot choose the exit code of that.
        let by_code = match policy.agent.at(state.sessions.agent).format {
            Format::Text => format!("exit with code {code}, or "),
            _ => String::new(),
        };
        prompt.push_str(&format!(
            "If you cannot go on without a person, ask your question with `dacapo ask \"…\"` and \
             {by_code}create the file $TASK_FOLDER/WAIT_WITHOUT_RESTART.\n"
        ));
    }
    prompt
}

/// What is added when a person said something that no agent has heard.
pub fn said(text: &str) -> String {
    format!("\nThe person you work for says:\n{}\n", text.trim_end())
}

/// What makes a claim, in a sentence or two.
fn how_to_claim(policy: &Policy, nonce: &str) -> String {
    if let Some(source) = policy.source.as_ref().filter(|_| policy.marks_items()) {
        return source.how_to_claim().to_owned();
    }
    if policy.claims.own_claim == OwnClaim::WithAgent && policy.gates.specs.is_empty() {
        return String::new();
    }
    if !policy.claims.own_claim.is_left_to_agents() {
        return "When you end, checks are run on what you leave behind. Nothing you print makes them pass.\n"
            .to_owned();
    }
    let evidence: String = policy
        .whole()
        .iter()
        .flat_map(|item| &item.evidence)
        .map(|evidence| format!("{}\n", evidence.in_prompt()))
        .collect();
    let done_file = if policy.claims.done_file { ", or create the file $TASK_FOLDER/DONE" } else { "" };
    format!(
        "When all of it is done and you have checked it, print the line {} and nothing else on it{done_file}. \
         Do neither before that: the loop goes on until the work is done, and a claim may be checked.\n{evidence}",
        policy.claims.promise.tag(nonce),
    )
}

/// Why the newest claim did not hold, as the next prompt says it; nothing where agents are not to be told.
pub fn refusal(state: &LoopState) -> Option<String> {
    let policy = &state.started.as_ref()?.policy;
    let feedback = state.conversation.feedback.as_ref().filter(|_| policy.gates.feedback)?;
    Some(told(feedback, policy).trim().to_owned())
}

/// The newest refusal, and what its gates printed.
pub(crate) fn told(feedback: &Feedback, policy: &Policy) -> String {
    let mut text = if policy.claims.own_claim.is_left_to_agents() && feedback.iteration > 0 {
        format!("\nThe claim of iteration {} was refused: {}.\n", feedback.iteration, feedback.line)
    } else {
        format!("\nWhat was there was not accepted: {}.\n", feedback.line)
    };
    for gate in &feedback.gates {
        if feedback.gates.len() > 1 {
            text.push_str(&format!("\n{}.\n", gate.line));
        }
        text.push_str(&format!("Its command: {}\n", gate.command));
        if gate.was_red {
            text.push_str("It failed before the loop began, too.\n");
        }
        if gate.tail.trim().is_empty() {
            text.push_str("It printed nothing.\n");
        } else {
            text.push_str(&format!(
                "The end of what it printed:\n{}\n(end of what it printed)\n",
                gate.tail.trim_end()
            ));
        }
    }
    text
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
