//! What the agent of a session is given.

use crate::{
    judge::promise::BLOCKED_PLACEHOLDER,
    loop_machine::LoopState,
    prompt::{hint, said, told},
};

/// The prompt that sends the agent back to work, to the letter as the seed has it (req 128).
pub const CONTINUATION_PROMPT_TEMPLATE: &str = "[RALPH LOOP - ITERATION {{ITERATION}}/{{MAX}}]

Your previous attempt did not output the completion promise. Continue working on the task.

IMPORTANT:
- Review your progress so far
- Continue from where you left off  
- When FULLY complete, output: <promise>{{PROMISE}}</promise>
- Do not stop until the task is truly done

Original task:
{{PROMPT}}";

/// Puts values into the places of a template in one pass: a value that holds a place's name is taken as it is.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        match values.iter().find(|(place, _)| rest.starts_with(place)) {
            Some((place, value)) => {
                filled.push_str(value);
                rest = &rest[place.len()..];
            }
            None => {
                filled.push_str("{{");
                rest = &rest[2..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

/// The prompt of `iteration` of a loop inside a session.
pub(crate) fn compose(state: &LoopState, iteration: u32, nonce: &str) -> String {
    let Some(started) = &state.started else { return String::new() };
    let policy = &started.policy;
    let user = started.prompt.trim_end();
    let is_verify = started.session.as_ref().is_some_and(|session| session.verify);
    let (number, max) = (iteration.to_string(), state.limits.max_iterations.to_string());
    let promise = policy.claims.promise.expected(nonce);
    let before = iteration.saturating_sub(1);
    let refused = state.conversation.feedback.as_ref().filter(|feedback| feedback.iteration == before);
    let is_new = refused.is_some() && !state.session.is_repeated;
    let mut prompt = match refused {
        _ if iteration <= 1 && is_verify => String::new(),
        _ if iteration <= 1 => {
            format!("{user}\n\nWhen FULLY complete, output: <promise>{promise}</promise>\n")
        }
        Some(feedback) if is_verify => {
            let mut text = "The work is not done yet.\n".to_owned();
            text.push_str(told(feedback, policy).trim_start());
            text
        }
        Some(feedback) if is_new => format!(
            "[RALPH LOOP - ITERATION {number}/{max}]\n\nYou output the completion promise, and it was not accepted.\n{}\n\
             Mend that and go on with the task. When FULLY complete, output: <promise>{promise}</promise>\n\n\
             Original task:\n{user}\n",
            told(feedback, policy).trim_start()
        ),
        _ => {
            let values = [
                ("{{ITERATION}}", number.as_str()),
                ("{{MAX}}", &max),
                ("{{PROMISE}}", &promise),
                ("{{PROMPT}}", user),
            ];
            let mut text = fill(CONTINUATION_PROMPT_TEMPLATE, &values);
            text.push('\n');
            text
        }
    };
    if let Some(feedback) = refused.filter(|_| !is_new && !is_verify) {
        let since = if state.session.changed_since_refusal {
            "files have changed since the refusal before, and that was not enough"
        } else {
            "no file has changed since the refusal before"
        };
        prompt.push_str(&format!(
            "\nYour promise of iteration {} was refused as before: {}; {since}.\n",
            feedback.iteration,
            feedback.line.trim_end_matches('.')
        ));
    }
    prompt.push_str(&format!(
        "\nIf it cannot be done as asked, print the line <blocked>{BLOCKED_PLACEHOLDER}</blocked> with the reason in your own \
         words, and stop: a person reads it and decides.\n"
    ));
    for (text, _) in state.conversation.steers.iter().filter(|(_, told)| told.is_none_or(|t| t == iteration))
    {
        prompt.push_str(&said(text));
    }
    if let Some(miss) = state.conversation.near_miss {
        prompt.push_str(&format!("\nYour promise in iteration {before} did not count: {}.\n", hint(miss)));
    }
    if let Some(miss) = state.conversation.blocked_near_miss {
        prompt.push_str(&format!(
            "\nWhat you said in iteration {before} about being blocked did not count: {}. If you are not blocked, go on.\n",
            hint(miss)
        ));
    }
    prompt
}
