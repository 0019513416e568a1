//! Workflows that come with dacapo, as data: the files in `workflows/` of its repository.

/// A workflow that comes with dacapo.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    pub name: &'static str,
    pub text: &'static str,
}

pub static ALL: [Builtin; 3] = [
    Builtin { name: "checklist", text: include_str!("../../../../workflows/checklist.yaml") },
    Builtin { name: "prompt", text: include_str!("../../../../workflows/prompt.yaml") },
    Builtin { name: "ralph", text: include_str!("../../../../workflows/ralph.yaml") },
];

/// What stands in place of a path for a built-in workflow.
pub fn file(name: &str) -> String {
    format!("built-in/{name}.yaml")
}

/// The example that `dacapo init` writes, with the command that runs the tests of the repository if that is known.
pub fn example(tests: Option<&str>) -> String {
    const EXAMPLE: &str = include_str!("../../../../workflows/example/fix-tests.yaml");
    const COMMAND: &str = "./run-tests.sh";
    match tests.map(str::trim).filter(|tests| !tests.is_empty() && !tests.contains(['\n', '`'])) {
        // JSON's way to quote is one of YAML's.
        Some(tests) => EXAMPLE
            .replace(
                &format!("until_bash: {COMMAND}"),
                &format!("until_bash: {}", serde_json::Value::from(tests)),
            )
            .replace(&format!("`{COMMAND}`"), &format!("`{tests}`")),
        None => EXAMPLE.to_owned(),
    }
}

/// Where `dacapo init` writes it, from the top of the repository.
pub const EXAMPLE_FILE: &str = ".dacapo/workflows/fix-tests.yaml";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::{ParseSettings, StepKind, WorkflowForm, parse};

    #[test]
    fn what_comes_with_dacapo_can_be_run() {
        for Builtin { name, text } in ALL {
            let parsed = parse(&file(name), text.as_bytes(), ParseSettings::default());
            assert!(
                parsed.problems.is_empty() && parsed.notes.is_empty(),
                "{:?} {:?}",
                parsed.problems,
                parsed.notes
            );
            assert_eq!(parsed.workflow.unwrap().name, name);
        }
    }

    #[test]
    fn the_example_runs_the_tests_of_the_repository() {
        for tests in [None, Some("cargo test"), Some("sh -c 'a: \"b\" # c' && make test"), Some("a\nb")] {
            let text = example(tests);
            let parsed = parse(EXAMPLE_FILE, text.as_bytes(), ParseSettings::default());
            assert_eq!((parsed.problems, parsed.notes), (vec![], vec![]), "{text}");
            let workflow = parsed.workflow.unwrap();
            let StepKind::Loop(looped) = &workflow.steps[0].kind else { panic!("{text}") };
            let expected = tests.filter(|tests| !tests.contains('\n')).unwrap_or("./run-tests.sh");
            assert_eq!(looped.until_bash.as_deref(), Some(expected));
        }
    }

    #[test]
    fn ralph_is_the_seeds() {
        // req 162
        let ralph = ALL.iter().find(|builtin| builtin.name == "ralph").unwrap();
        let workflow = parse("ralph.yaml", ralph.text.as_bytes(), ParseSettings::default()).workflow.unwrap();
        assert_eq!((workflow.form, workflow.provider.as_deref()), (WorkflowForm::Loop, Some("claude")));
        let StepKind::Loop(looped) = &workflow.steps[0].kind else { panic!("{workflow:?}") };
        let limits = (looped.until.as_deref(), looped.max_iterations, looped.fresh_context);
        assert_eq!(limits, (Some("COMPLETE"), 20, false));
        for words in [
            "`prd.json`",
            "`passes: false`",
            "Implement that single story",
            "Run quality checks (typecheck, lint, test)",
            "`feat: [Story ID] - [Story Title]`",
            "set `passes: true`",
            "`progress.txt`",
            "$USER_MESSAGE",
            "If ALL stories are complete, output:\n<promise>COMPLETE</promise>",
            "ONE story per iteration",
        ] {
            assert!(looped.prompt.text.contains(words), "{words}");
        }
    }
}
