//! Variables in prompts and messages, filled in by one pass over the text: what is filled in is never looked at again.
//!
//! A shell gets none of this: see [`super::shell`].

use std::{collections::BTreeMap, ops::Range};

use serde::{Deserialize, Serialize};

use super::{StepId, condition::field_of};

/// A variable that texts may hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variable {
    UserMessage,
    Arguments,
    WorkflowId,
    LoopPrevOutput,
    LoopUserInput,
    RejectionReason,
    Output { step: StepId, field: Option<String> },
}

/// The variables that have a name of their own.
pub const NAMED: [(&str, Variable); 6] = [
    ("USER_MESSAGE", Variable::UserMessage),
    ("ARGUMENTS", Variable::Arguments),
    ("WORKFLOW_ID", Variable::WorkflowId),
    ("LOOP_PREV_OUTPUT", Variable::LoopPrevOutput),
    ("LOOP_USER_INPUT", Variable::LoopUserInput),
    ("REJECTION_REASON", Variable::RejectionReason),
];

/// Variables of Archon's that dacapo has nothing for.
pub const ARCHON_ONLY: [&str; 7] =
    ["ARTIFACTS_DIR", "STATE_DIR", "BASE_BRANCH", "DOCS_DIR", "CONTEXT", "INPUTS", "LOOP_PREV"];

/// What variables stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Variables {
    /// What the user typed behind the name of the workflow.
    pub message: String,
    /// The id of the run.
    pub run: String,
    pub loop_prev_output: String,
    pub loop_user_input: String,
    pub rejection_reason: String,
    /// What each step that has ended answered.
    pub outputs: BTreeMap<StepId, String>,
}

impl Variables {
    /// The text a variable stands for. A step that has not answered, or has no such field, stands for nothing.
    pub fn value(&self, variable: &Variable) -> String {
        match variable {
            Variable::UserMessage | Variable::Arguments => self.message.clone(),
            Variable::WorkflowId => self.run.clone(),
            Variable::LoopPrevOutput => self.loop_prev_output.clone(),
            Variable::LoopUserInput => self.loop_user_input.clone(),
            Variable::RejectionReason => self.rejection_reason.clone(),
            Variable::Output { step, field } => {
                let answer = self.outputs.get(step).map(String::as_str).unwrap_or_default();
                match field {
                    None => answer.to_owned(),
                    Some(field) => field_of(answer, field, ToString::to_string),
                }
            }
        }
    }

    /// `text` with its variables filled in. Only steps that `is_step` knows are meant by `$step.output`.
    pub fn fill(&self, text: &str, is_step: impl Fn(&StepId) -> bool) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut end = 0;
        for VariablePlace { range, name } in find(text) {
            let Name::Variable(variable) = &name else { continue };
            if matches!(variable, Variable::Output { step, .. } if !is_step(step)) {
                continue;
            }
            filled.push_str(&text[end..range.start]);
            filled.push_str(&self.value(variable));
            end = range.end;
        }
        filled.push_str(&text[end..]);
        filled
    }
}

/// A place in a text that looks like a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariablePlace {
    /// From the `$` on, in bytes.
    pub range: Range<usize>,
    pub name: Name,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    Variable(Variable),
    /// A word in capitals that is none.
    Unknown(String),
}

/// Everything in a text that is a variable, or looks like one: `$WORD` or `$step.output`. `${WORD}` is neither.
pub fn find(text: &str) -> Vec<VariablePlace> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = memchr::memchr(b'$', &text.as_bytes()[from..]).map(|at| from + at) {
        from = at + 1;
        let rest = &text[at + 1..];
        if let Some((variable, length)) = output(rest).or_else(|| named(rest)) {
            from = at + 1 + length;
            found.push(VariablePlace { range: at..from, name: Name::Variable(variable) });
            continue;
        }
        let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        let is_loud = word.len() > 2
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        if is_loud {
            from = at + 1 + end;
            found.push(VariablePlace { range: at..from, name: Name::Unknown(word.to_owned()) });
        }
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn named(rest: &str) -> Option<(Variable, usize)> {
    let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
    let (_, variable) = NAMED.iter().find(|(name, _)| *name == &rest[..end])?;
    Some((variable.clone(), end))
}

/// `step.output` or `step.output.field`, and its length.
fn output(rest: &str) -> Option<(Variable, usize)> {
    let end = rest.find(|c: char| !is_word(c) && c != '-')?;
    let step = StepId::new(&rest[..end])?;
    let behind = rest[end..].strip_prefix(".output")?;
    if behind.starts_with(|c: char| is_word(c) || c == '-')
        || NAMED.iter().any(|(name, _)| *name == step.as_str())
    {
        return None;
    }
    let mut length = end + ".output".len();
    let mut field = None;
    if let Some(after) = behind.strip_prefix('.') {
        let end = after.find(|c: char| !is_word(c)).unwrap_or(after.len());
        if end > 0 && !after.starts_with(|c: char| c.is_ascii_digit()) {
            field = Some(after[..end].to_owned());
            length += 1 + end;
        }
    }
    Some((Variable::Output { step, field }, length))
}

/// What people see of an agent's answer: without the tags that are meant for dacapo.
pub fn without_promise(text: &str) -> String {
    const OPEN: &str = "<promise>";
    const CLOSE: &str = "</promise>";
    // Longer than any signal: a tag that is never closed hides nothing.
    const LONGEST: usize = 1000;
    let starts =
        |text: &str, tag: &str| text.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag));
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'<', rest.as_bytes()) {
        let (before, tag) = rest.split_at(at);
        let closed = starts(tag, OPEN).then(|| {
            let inner = &tag.as_bytes()[OPEN.len()..tag.len().min(OPEN.len() + LONGEST)];
            let mut ends = memchr::memchr_iter(b'<', inner).map(|end| OPEN.len() + end);
            ends.find(|end| tag.is_char_boundary(*end) && starts(&tag[*end..], CLOSE))
        });
        match closed.flatten() {
            Some(end) => {
                shown.push_str(before);
                rest = &tag[end + CLOSE.len()..];
                // A line that held nothing but the tag goes with it.
                let is_line_start = shown.is_empty() || shown.ends_with('\n');
                if is_line_start && let Some(after) = rest.strip_prefix('\n') {
                    rest = after;
                }
            }
            None => {
                shown.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
            }
        }
    }
    shown.push_str(rest);
    shown.trim_end().to_owned()
}

/// The end of an answer that is too long to be kept whole, said so in its first line.
pub fn shortened(answer: &str) -> String {
    if answer.len() <= super::MAX_OUTPUT {
        return answer.to_owned();
    }
    let mut from = answer.len() - super::MAX_OUTPUT + 100;
    while !answer.is_char_boundary(from) {
        from += 1;
    }
    format!("[the first {from} bytes are left out]\n{}", &answer[from..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        let outputs = [
            ("plan", "the $ARGUMENTS plan"),
            ("fix-it", r#"{"file": "a.rs", "n": 2, "deep": {"x": [1]}, "none": null}"#),
        ];
        let outputs = outputs.map(|(id, text)| (StepId::new(id).unwrap(), text.to_owned()));
        Variables {
            message: "say $WORKFLOW_ID and $plan.output".to_owned(),
            run: "r1".to_owned(),
            loop_prev_output: "before".to_owned(),
            loop_user_input: "more".to_owned(),
            rejection_reason: "no tests".to_owned(),
            outputs: outputs.into(),
        }
    }

    #[test]
    fn variables_are_filled_in_once_and_literally() {
        // req 146, req 166
        let is_step = |id: &StepId| ["plan", "fix-it"].contains(&id.as_str());
        for (text, expected) in [
            ("$USER_MESSAGE", "say $WORKFLOW_ID and $plan.output"),
            ("$ARGUMENTS!", "say $WORKFLOW_ID and $plan.output!"),
            ("[$WORKFLOW_ID]", "[r1]"),
            ("$LOOP_PREV_OUTPUT/$LOOP_USER_INPUT/$REJECTION_REASON", "before/more/no tests"),
            ("$plan.output", "the $ARGUMENTS plan"),
            ("As in $plan.output.", "As in the $ARGUMENTS plan."),
            ("$fix-it.output.file:$fix-it.output.n", "a.rs:2"),
            ("$fix-it.output.deep", r#"{"x":[1]}"#),
            ("<$fix-it.output.none$fix-it.output.gone>", "<>"),
            ("$plan.output.field", ""),
            // Neither variables nor steps of this workflow.
            (
                "$USER_MESSAGES $user_message ${USER_MESSAGE} $5 $",
                "$USER_MESSAGES $user_message ${USER_MESSAGE} $5 $",
            ),
            ("$other.output $plan.outputs $HOME", "$other.output $plan.outputs $HOME"),
            ("$USER_MESSAGE.output", "say $WORKFLOW_ID and $plan.output.output"),
            ("$$WORKFLOW_ID", "$r1"),
            ("ä$WORKFLOW_IDä", "är1ä"),
        ] {
            assert_eq!(variables().fill(text, is_step), expected, "{text}");
        }
    }

    #[test]
    fn a_promise_is_not_shown_to_people() {
        // req 166
        for (text, expected) in [
            ("All done.\n<promise>COMPLETE</promise>", "All done."),
            ("All done. <PROMISE> complete </Promise> Bye", "All done.  Bye"),
            ("a\n<promise>X</promise>\nb", "a\nb"),
            ("<promise>never closed", "<promise>never closed"),
            ("a < b <promise>X</promise>", "a < b"),
            ("<promise><promise>X</promise>", ""),
            ("<promise>ä</promise>ö", "ö"),
        ] {
            assert_eq!(without_promise(text), expected, "{text}");
        }
        assert_eq!(without_promise(&"<promise>".repeat(20_000)).len(), 180_000);
    }

    #[test]
    fn a_long_answer_keeps_its_end() {
        let long = "ä".repeat(40_000) + "the end";
        let short = shortened(&long);
        assert!(short.len() <= super::super::MAX_OUTPUT && short.ends_with("the end"), "{}", short.len());
        assert!(short.starts_with("[the first "));
        assert_eq!(shortened("short"), "short");
    }
}
