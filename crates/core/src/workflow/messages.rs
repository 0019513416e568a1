//! What a run of a workflow says to people: fixed words, to the letter.

use super::{StepKind, Workflow, WorkflowForm};

/// Before the first step.
pub fn starting(workflow: &Workflow) -> String {
    let mut text = format!("**Starting workflow**: {}\n\n{}", workflow.name, workflow.description);
    if let Some(looped) = workflow.as_loop() {
        let until = match (&looped.until, &looped.until_bash) {
            (Some(until), _) => format!(", until \"{until}\""),
            (None, Some(check)) => format!(", until `{check}` passes"),
            (None, None) => String::new(),
        };
        text += &format!("\n\nAt most {} iterations{until}", looped.max_iterations);
    } else {
        let count = workflow.steps.len();
        text += &format!("\n\n{count} {}", if count == 1 { "step" } else { "steps" });
    }
    text
}

/// At the beginning of each iteration.
pub fn iteration(number: u32, max: u32) -> String {
    format!("**Iteration {number}/{max}**")
}

/// The message of a loop that is done.
pub fn loop_complete(name: &str, iterations: u32) -> String {
    format!("**Loop complete**: {name} ({iterations} iterations)")
}

/// The message of a loop whose iteration failed.
pub fn loop_failed(iteration: u32, error: &str) -> String {
    format!("**Loop failed** at iteration {iteration}: {error}")
}

/// Why a run failed in an iteration, for its record.
pub fn iteration_error(iteration: u32, error: &str) -> String {
    format!("Iteration {iteration}: {error}")
}

/// Why a loop failed that has used up its iterations.
pub fn max_iterations(max: u32, until: &str) -> String {
    format!("Max iterations ({max}) reached without completion signal \"{until}\"")
}

/// Why a loop failed that has used up its iterations, where the agent claimed to be done and a check refused that.
pub fn max_iterations_refused(max: u32, why: &str) -> String {
    format!("Max iterations ({max}) reached, and the last claim was refused: {why}")
}

/// The message of a loop that has used up its iterations; `why` says so.
pub fn loop_incomplete(name: &str, why: &str) -> String {
    format!("**Loop incomplete**: {name}\n\n{why}")
}

/// At the beginning of each step of a workflow that is no loop.
pub fn step(workflow: &Workflow, number: usize, kind: &StepKind, id: &str) -> String {
    debug_assert!(workflow.form != WorkflowForm::Loop, "a loop counts iterations");
    format!("**Step {number}/{}**: {id} ({})", workflow.steps.len(), kind.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::{ParseSettings, parse};

    #[test]
    fn the_words_are_the_seeds() {
        assert_eq!(iteration(3, 20), "**Iteration 3/20**");
        assert_eq!(loop_complete("ralph", 1), "**Loop complete**: ralph (1 iterations)");
        assert_eq!(loop_failed(2, "no agent"), "**Loop failed** at iteration 2: no agent");
        assert_eq!(iteration_error(2, "no agent"), "Iteration 2: no agent");
        assert_eq!(
            loop_incomplete("ralph", &max_iterations(3, "COMPLETE")),
            "**Loop incomplete**: ralph\n\nMax iterations (3) reached without completion signal \"COMPLETE\""
        );
    }

    #[test]
    fn the_first_message_names_workflow_description_and_limits() {
        // req 165
        let of = |rest: &str| {
            let text = format!("name: x\ndescription: What it does.\n{rest}");
            starting(&parse("x.yaml", text.as_bytes(), ParseSettings::default()).workflow.unwrap())
        };
        assert_eq!(
            of("loop: {until: DONE, max_iterations: 5}\nprompt: p\n"),
            "**Starting workflow**: x\n\nWhat it does.\n\nAt most 5 iterations, until \"DONE\""
        );
        assert_eq!(
            of("loop: {until_bash: make test, max_iterations: 5}\nprompt: p\n"),
            "**Starting workflow**: x\n\nWhat it does.\n\nAt most 5 iterations, until `make test` passes"
        );
        assert_eq!(
            of("steps: [{bash: a}, {bash: b}]\n"),
            "**Starting workflow**: x\n\nWhat it does.\n\n2 steps"
        );
    }
}
