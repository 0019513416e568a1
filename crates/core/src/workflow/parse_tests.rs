use super::*;
use crate::workflow::{Completion, keys};

const FILE: &str = ".dacapo/workflows/x.yaml";

fn read(text: &str) -> Parsed {
    parse(FILE, text.as_bytes(), ParseSettings::default())
}

fn complaints(text: &str) -> Vec<String> {
    let parsed = read(text);
    assert_eq!(parsed.workflow.is_none(), !parsed.problems.is_empty(), "{text}");
    parsed
        .problems
        .iter()
        .map(|problem| format!("{}:{} {}", problem.line, problem.column, problem.what))
        .collect()
}

fn good(text: &str) -> Workflow {
    let parsed = read(text);
    assert_eq!(parsed.problems, [], "{text}");
    parsed.workflow.unwrap()
}

/// A workflow with these lines below its name and description.
fn with(rest: &str) -> String {
    format!("name: x\ndescription: y\n{rest}")
}

#[test]
fn the_loop_of_the_seed_is_read() {
    // req 135, req 136
    let workflow = good(&with(
        "provider: codex\nmodel: gpt-6\nloop:\n  until: COMPLETE\n  max_iterations: 1\n  fresh_context: true\nprompt: |\n  Do $USER_MESSAGE\n",
    ));
    assert_eq!(
        (workflow.name.as_str(), workflow.description.as_str(), workflow.form),
        ("x", "y", WorkflowForm::Loop)
    );
    assert_eq!((workflow.provider.as_deref(), workflow.model.as_deref()), (Some("codex"), Some("gpt-6")));
    let looped = workflow.as_loop().unwrap();
    let expected = LoopStep {
        prompt: Prompt { text: "Do $USER_MESSAGE\n".to_owned(), command: None },
        until: Some("COMPLETE".to_owned()),
        until_bash: None,
        agreement: Agreement::Both,
        gates: Vec::new(),
        max_iterations: 1,
        fresh_context: true,
        gate_message: None,
        signal_completes: false,
    };
    assert_eq!(*looped, expected);
    assert_eq!(looped.completion(), Completion::Words("COMPLETE"));
}

#[test]
fn the_seeds_messages_to_the_letter() {
    let both = with("steps:\n  - command: plan\nloop:\n  until: X\n  max_iterations: 3\nprompt: p\n");
    let table: &[(&str, &[&str])] = &[
        // req 137
        (&both, &["5:1 Cannot have both 'steps' and 'loop' in x.yaml"]),
        (
            &with("steps: [{command: a}]\nnodes: [{id: a, command: a}]\n"),
            &["4:1 Cannot have both 'steps' and 'nodes' in x.yaml"],
        ),
        (
            &with("nodes: [{id: a, command: a}]\nloop: {until: X, max_iterations: 1}\nprompt: p\n"),
            &["3:1 Cannot have both 'loop' and 'nodes' in x.yaml"],
        ),
        // req 138
        (&with("loop: {until: X, max_iterations: 3}\n"), &["3:1 Loop workflow requires 'prompt' in x.yaml"]),
        (
            &with("loop: {until: X, max_iterations: 3}\nprompt: \"  \"\n"),
            &["4:1 Loop workflow requires 'prompt' in x.yaml"],
        ),
        (
            &with("loop: {until: X, max_iterations: 3}\nprompt:\n"),
            &["4:1 Loop workflow requires 'prompt' in x.yaml"],
        ),
        // req 139
        (&with(""), &["1:1 Workflow must have 'steps' or 'loop' in x.yaml"]),
        ("", &["1:1 Workflow must have 'steps' or 'loop' in x.yaml"]),
        (&with("steps: []\n"), &["3:1 Workflow must have 'steps' or 'loop' in x.yaml"]),
        (&with("loop: yes\nprompt: p\n"), &["3:1 Workflow must have 'steps' or 'loop' in x.yaml"]),
        // req 140
        (&with("loop: {max_iterations: 3}\nprompt: p\n"), &["3:1 Loop requires 'until' signal in x.yaml"]),
        (
            &with("loop:\n  until: \" \"\n  max_iterations: 3\nprompt: p\n"),
            &["4:3 Loop requires 'until' signal in x.yaml"],
        ),
        (
            &with("loop:\n  until:\n  max_iterations: 3\nprompt: p\n"),
            &["4:3 Loop requires 'until' signal in x.yaml"],
        ),
        (
            &with("loop:\n  until: 42\n  max_iterations: 3\nprompt: p\n"),
            &["4:3 Loop requires 'until' signal in x.yaml"],
        ),
        // req 141
        (&with("loop: {until: X}\nprompt: p\n"), &["3:1 Loop requires positive 'max_iterations' in x.yaml"]),
        (
            &with("loop:\n  until: X\n  max_iterations: 0\nprompt: p\n"),
            &["5:3 Loop requires positive 'max_iterations' in x.yaml"],
        ),
        (
            &with("loop:\n  until: X\n  max_iterations: -1\nprompt: p\n"),
            &["5:3 Loop requires positive 'max_iterations' in x.yaml"],
        ),
        (
            &with("loop:\n  until: X\n  max_iterations: 2.5\nprompt: p\n"),
            &["5:3 Loop requires positive 'max_iterations' in x.yaml"],
        ),
        (
            &with("loop:\n  until: X\n  max_iterations: \"5\"\nprompt: p\n"),
            &["5:3 Loop requires positive 'max_iterations' in x.yaml"],
        ),
        (
            &with("loop:\n  until: X\n  max_iterations: many\nprompt: p\n"),
            &["5:3 Loop requires positive 'max_iterations' in x.yaml"],
        ),
        // Everything at once.
        (
            &with("loop: {}\n"),
            &[
                "3:1 Loop requires 'until' signal in x.yaml",
                "3:1 Loop requires positive 'max_iterations' in x.yaml",
                "3:1 Loop workflow requires 'prompt' in x.yaml",
            ],
        ),
        // req 135
        ("steps: [{command: a}]\n", &["1:1 `name` is missing", "1:1 `description` is missing"]),
        (
            "name: \"\"\ndescription:\nsteps: [{command: a}]\n",
            &["1:7 `name` is blank", "2:1 `description` has no value"],
        ),
    ];
    for (text, expected) in table {
        let mut found = complaints(text);
        found.sort();
        let mut expected: Vec<&str> = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "{text}");
    }
    let parsed = read(&both);
    assert_eq!(
        parsed.problems[0].to_string(),
        ".dacapo/workflows/x.yaml:5:1: Cannot have both 'steps' and 'loop' in x.yaml\n  5 | loop:\n    | ^\n  fix: keep one of them; a loop can also be a step"
    );
}

#[test]
fn fresh_context_is_made_a_truth_value() {
    // req 142
    for (value, expected) in [
        ("true", true),
        ("yes", true),
        ("1", true),
        ("\"true\"", true),
        ("false", false),
        ("no", false),
        ("0", false),
        ("\"\"", false),
        ("null", false),
        ("", false),
    ] {
        let text =
            with(&format!("loop:\n  until: X\n  max_iterations: 3\n  fresh_context: {value}\nprompt: p\n"));
        assert_eq!(good(&text).as_loop().unwrap().fresh_context, expected, "{value}");
    }
    assert!(
        !good(&with("loop: {until: X, max_iterations: 3}\nprompt: p\n")).as_loop().unwrap().fresh_context
    );
}

#[test]
fn steps_follow_each_other_unless_they_say_otherwise() {
    // req 144
    let workflow = good(&with(
        "steps:\n  - command: plan\n  - step: plan\n    clearContext: true\n  - bash: make test\n  - id: last\n    prompt: p\n    depends_on: [plan]\n  - bash: date\n    depends_on: []\n",
    ));
    let shape: Vec<(&str, Vec<&str>, SessionRule, &str)> = workflow
        .steps
        .iter()
        .map(|step| {
            let depends_on = step.depends_on.iter().map(StepId::as_str).collect();
            (step.id.as_str(), depends_on, step.session, step.kind.as_str())
        })
        .collect();
    let (shared, fresh) = (SessionRule::Shared, SessionRule::Fresh);
    assert_eq!(
        shape,
        [
            ("plan", vec![], shared, "command"),
            ("plan-2", vec!["plan"], fresh, "command"),
            ("step-3", vec!["plan-2"], shared, "bash"),
            ("last", vec!["plan"], shared, "prompt"),
            ("step-5", vec![], shared, "bash"),
        ]
    );
}

#[test]
fn words_and_checks_agree_unless_the_file_says_that_either_is_enough() {
    let text = |any: &str| {
        with(&format!("loop:\n  until: X\n  until_bash: make test\n  max_iterations: 3\n{any}prompt: p\n"))
    };
    let completion = |file: &str, text: &str| {
        let parsed = parse(file, text.as_bytes(), ParseSettings::default());
        let notes: Vec<String> = parsed.notes.iter().map(|note| note.what.clone()).collect();
        let workflow = parsed.workflow.unwrap();
        (workflow.as_loop().unwrap().agreement, notes)
    };
    let weaker = vec!["weaker: the agent's words alone end this loop, even if `until_bash` fails".to_owned()];
    let archon = ".archon/workflows/x.yaml";
    assert_eq!(completion(FILE, &text("")), (Agreement::Both, vec![]));
    assert_eq!(completion(FILE, &text("  any: true\n")), (Agreement::Either, weaker.clone()));
    assert_eq!(completion(archon, &text("")), (Agreement::Either, weaker));
    assert_eq!(completion(archon, &text("  any: false\n")), (Agreement::Both, vec![]));
    // A check alone is enough, and then the agent has to say nothing.
    let alone = good(&with("loop: {until_bash: make test, max_iterations: 3}\nprompt: p\n"));
    assert_eq!(alone.as_loop().unwrap().completion(), Completion::Check("make test"));
    let both = good(&text(""));
    assert_eq!(both.as_loop().unwrap().completion(), Completion::WordsThenCheck("X", "make test"));
    let either = good(&text("  any: true\n"));
    assert_eq!(either.as_loop().unwrap().completion(), Completion::WordsOrCheck("X", "make test"));
}

/// A file that uses every key there is.
const EVERYTHING: &str = r#"
name: everything
description: all of it
provider: claude
model: opus
tags: [a, b]
replaces: .archon/workflows/everything.yaml
budget: {max_cost: 2.50, max_tokens: 1000000, max_time: 2h, mode: audit}
nodes:
  - id: plan
    description: thinks
    command: plan
    output_format: {type: object, properties: {size: {type: integer}}}
    idle_timeout: 600000
    retry: {max_attempts: 2, delay_ms: 2000, on_error: all}
    provider: codex
    model: gpt-6
    context: fresh
    gates: [make lint]
    worktree: true
    budget: {max_cost: 1}
  - id: small
    prompt: "$ARGUMENTS: $plan.output.size"
    depends_on: [plan]
    when: "$plan.output.size < '3'"
    fresh_context: true
    clearContext: true
  - id: test
    bash: make test
    timeout: 90s
    depends_on: [small]
    trigger_rule: all_done
  - id: fix
    depends_on: [test]
    loop:
      command: fix
      until: COMPLETE
      until_bash: make test
      any: true
      gates: [{name: lint, run: make lint, timeout: 1m, retries: 1}]
      max_iterations: 5
      fresh_context: false
      interactive: true
      gate_message: "So far: $LOOP_PREV_OUTPUT"
      signal_completes: true
  - id: again
    depends_on: [fix]
    loop: {prompt: "$LOOP_USER_INPUT", until: X, max_iterations: 1}
  - id: ask
    depends_on: [again]
    approval:
      message: May it stay?
      decisions: [{id: ship, label: Ship it}, {id: fix, rework: true}]
      capture_response: true
      on_reject: {prompt: "$REJECTION_REASON", max_attempts: 2}
  - id: one
    wait: {for: 2h}
    depends_on: [ask]
  - id: two
    wait: {until: "2027-01-31T08:00:00Z"}
    depends_on: [ask]
  - id: three
    wait: {file: out/ready}
    depends_on: [ask]
  - id: four
    wait: {signal: deployed}
    depends_on: [ask]
  - id: stop
    cancel: no
    depends_on: [four]
"#;

#[test]
fn every_key_of_the_table_is_read() {
    good(EVERYTHING);
    let steps = "name: x\ndescription: y\nsteps: [{step: plan}]\n";
    let looped = "name: x\ndescription: y\nloop: {until: X, max_iterations: 1}\nprompt: p\n";
    let mut used = BTreeSet::new();
    for text in [EVERYTHING, steps, looped] {
        good(text);
        collect(&yaml::read(text.as_bytes()).0.unwrap(), &mut used);
    }
    for section in keys::SECTIONS {
        for key in section.keys {
            assert!(used.contains(key.name), "{}.{} is in no example", section.name, key.name);
        }
    }
}

fn collect(node: &YamlNode, used: &mut BTreeSet<String>) {
    match &node.value {
        YamlValue::Scalar { .. } => {}
        YamlValue::List(items) => items.iter().for_each(|item| collect(item, used)),
        YamlValue::Map(entries) => {
            for (key, node) in entries {
                used.insert(key.name.clone());
                collect(node, used);
            }
        }
    }
}

#[test]
fn a_workflow_survives_being_written_down() {
    let workflow = good(EVERYTHING);
    let json = serde_json::to_string(&workflow).unwrap();
    assert_eq!(serde_json::from_str::<Workflow>(&json).unwrap(), workflow);
}

#[test]
fn what_is_wrong_with_steps_is_said_where_it_stands() {
    for (steps, expected) in [
        ("- {}", vec!["4:3 a step must have one of command, prompt, bash, loop, approval, wait, cancel"]),
        (
            "- {command: a, bash: b}",
            vec!["4:16 a step does one thing, and this one has both 'command' and 'bash'"],
        ),
        ("- {command: ../x}", vec!["4:13 `../x` cannot be the name of a command"]),
        ("- {command: a, id: \"a b\"}", vec!["4:20 `a b` cannot be the name of a step"]),
        ("- {bash: a, id: x}\n- {bash: a, id: x}", vec!["5:17 a step is called `x` already"]),
        (
            "- {bash: a, id: a-b}\n- {bash: a, id: a_b}",
            vec!["5:3 `a-b` and `a_b` are the same name for a script"],
        ),
        ("- {bash: a, depends_on: [nope]}", vec!["4:26 there is no step `nope`"]),
        ("- {bash: a, id: x, depends_on: [x]}", vec!["4:33 step `x` depends on itself"]),
        (
            "- {bash: a, id: a, depends_on: [b]}\n- {bash: a, id: b, depends_on: [a]}",
            vec!["4:33 steps wait for each other: a -> b -> a"],
        ),
        ("- {bash: a, model: opus}", vec!["4:13 `model` does nothing in a step with `bash`"]),
        ("- {prompt: a, timeout: 5s}", vec!["4:15 `timeout` does nothing in a step with `prompt`"]),
        (
            "- {loop: {prompt: p, until: X, max_iterations: 1}, retry: {max_attempts: 1}}",
            vec!["4:52 `retry` does nothing for a loop"],
        ),
        (
            "- {prompt: a, retry: {max_attempts: 9}}",
            vec!["4:37 `retry.max_attempts` must be a whole number, from 1 to 5"],
        ),
        (
            "- {prompt: a, trigger_rule: all_sucess}",
            vec!["4:29 `trigger_rule` cannot be `all_sucess`; did you mean `all_success`?"],
        ),
        (
            "- {prompt: a, context: shared, clearContext: true}",
            vec!["4:24 `context: shared` contradicts a fresh context"],
        ),
        (
            "- {prompt: a, idle_timeout: soon}",
            vec!["4:29 `idle_timeout` must be a duration of more than zero"],
        ),
        ("- {prompt: a, when: \"x\"}", vec!["4:21 `x` is no comparison: it must begin with `$step.output`"]),
        ("- {prompt: a, output_format: x}", vec!["4:30 `output_format` must be a JSON Schema"]),
        (
            "- {loop: {until: X, max_iterations: 1}}",
            vec!["4:4 Loop requires 'prompt' or 'command' in x.yaml"],
        ),
        (
            "- {loop: {prompt: p, command: c, until: X, max_iterations: 1}}",
            vec!["4:22 the loop has both `loop.prompt` and `loop.command`"],
        ),
        (
            "- {loop: {prompt: p, until: X, max_iterations: 1, interactive: true}}",
            vec!["4:51 Interactive loop requires 'gate_message' in x.yaml"],
        ),
        (
            "- {loop: {prompt: p, until: <promise>X</promise>, max_iterations: 1}}",
            vec!["4:29 the promise holds a `<promise>` tag; give only the words inside the tag"],
        ),
        (
            "- {loop: {prompt: p, until_bash: \" \", max_iterations: 1}}",
            vec!["4:34 `loop.until_bash` is blank"],
        ),
        ("- {wait: {}}", vec!["4:10 `wait` must have one of for, until, file, signal"]),
        ("- {wait: {for: 1h, file: x}}", vec!["4:20 `wait` must have one of for, until, file, signal"]),
        ("- {wait: {until: tomorrow}}", vec!["4:18 `tomorrow` is not a time"]),
        ("- {wait: {file: ../x}}", vec!["4:17 `../x` does not lie in the workspace"]),
        ("- {wait: {signal: a b}}", vec!["4:19 `a b` cannot be the name of a signal"]),
        ("- {approval: {capture_response: true}}", vec!["4:14 `approval.message` is missing"]),
        (
            "- {approval: {message: m, decisions: [{id: a, rework: true}]}}",
            vec!["4:27 a decision with `rework` needs `on_reject`", "4:27 no decision lets the run go on"],
        ),
        (
            "- {approval: {message: m, decisions: [{id: a}, {id: a}, {id: b c}]}}",
            vec!["4:53 a decision is called `a` already", "4:62 `b c` cannot be the name of a decision"],
        ),
        ("- {cancel: \"\"}", vec!["4:12 `cancel` is blank"]),
        (
            "- {script: x, runtime: uv}",
            vec![
                "4:4 `script` steps are Archon's, and dacapo cannot run them",
                "4:15 `runtime` is a key of Archon's that dacapo does nothing with",
            ],
        ),
        ("- {prompt: a, promt: b}", vec!["4:15 unknown key `promt`; did you mean `prompt`?"]),
        ("- {prompt: a, hooks: b}", vec!["4:15 `hooks` is a key of Archon's that dacapo does nothing with"]),
        ("- plan", vec!["4:3 step 1 of `steps` must be a map of keys"]),
    ] {
        let text = with(&format!("steps:\n{steps}\n"));
        assert_eq!(complaints(&text), expected, "{text}");
    }
    assert_eq!(complaints(&with("steps: plan\n")), ["3:1 Workflow must have 'steps' or 'loop' in x.yaml"]);
    assert_eq!(complaints(&with("nodes: [{bash: a}]\n")), ["3:9 `id` is missing"]);
    assert_eq!(
        complaints(&with("steps: [{bash: a}]\nprompt: p\n")),
        ["4:1 `prompt` belongs to a `loop`, and this workflow has `steps`"]
    );
    assert_eq!(
        complaints(&with("steps: [{bash: a}]\nbudget: {mode: audit}\n")),
        ["4:1 `budget` must have one of max_cost, max_tokens, max_time"]
    );
    assert_eq!(complaints("- a\n"), ["1:1 a workflow must be a map of keys"]);
}

#[test]
fn yaml_that_is_too_clever_is_refused() {
    // fault I3, fault I7
    for (text, expected) in [
        ("steps: &a [{bash: x}]\n", "3:11 anchors (`&name`) are not allowed"),
        ("steps: [{bash: *a}]\n", "3:16 aliases (`*name`) are not allowed"),
        ("steps: [{bash: x}]\nname: z\n", "4:1 `name` is there twice, first in line 1"),
        ("steps: [{bash: x, bash: y}]\n", "3:19 `bash` is there twice, first in line 3"),
        ("<<: {}\nsteps: [{bash: x}]\n", "3:1 merge keys (`<<`) are not allowed"),
        ("steps: [{bash: !x y}]\n", "3:19 tags (`!name`) are not allowed"),
    ] {
        assert!(
            complaints(&with(text)).iter().any(|found| found == expected),
            "{:?}",
            complaints(&with(text))
        );
    }
}

#[test]
fn variables_that_do_not_exist_are_named_where_they_stand() {
    let complaint = |step: &str| {
        let text = with(&format!(
            "steps:\n- id: plan\n  prompt: p\n  output_format: {{properties: {{size: {{}}}}}}\n{step}\n"
        ));
        let parsed = read(&text);
        let said = parsed.problems.iter();
        said.map(|problem| {
            format!(
                "{}:{} {}; {}",
                problem.line,
                problem.column,
                problem.what,
                problem.fix.as_deref().unwrap_or("")
            )
        })
        .collect::<Vec<_>>()
    };
    for (step, expected) in [
        (
            "- prompt: |\n    First line\n    Do $USER_MESAGE now",
            "9:8 there is no variable `$USER_MESAGE`; did you mean `$USER_MESSAGE`?",
        ),
        (
            "- prompt: Do $NOPE now",
            "7:14 there is no variable `$NOPE`; write `${NOPE}` if the agent is to read it as it stands",
        ),
        ("- prompt: $plam.output", "7:11 there is no step `plam`; did you mean `$plan.output`?"),
        (
            "- prompt: $plan.output.siz",
            "7:11 `$plan.output.siz` is nothing; the `output_format` of `plan` has no `siz`; did you mean `size`?",
        ),
        (
            "- {prompt: $plan.output, depends_on: []}",
            "7:12 `step-2` does not wait for `plan`, whose answer it uses; add it: `depends_on: [plan]`",
        ),
        (
            "- prompt: $LOOP_PREV_OUTPUT",
            "7:11 `$LOOP_PREV_OUTPUT` is nothing here: it stands for something in a loop only; take it away",
        ),
        (
            "- prompt: $REJECTION_REASON",
            "7:11 `$REJECTION_REASON` is nothing here: it stands for something in `on_reject` only; take it away",
        ),
        (
            "- prompt: $ARTIFACTS_DIR",
            "7:11 `$ARTIFACTS_DIR` is a variable of Archon's that dacapo has nothing for; take it away; the agent would read it as it stands",
        ),
        ("- bash: echo $nope.output", "7:14 there is no step `nope`; steps of this file: plan, step-2"),
        (
            "- bash: |\n    cat <<'E'\n    $plan.output\n    E",
            "9:5 the shell fills in nothing in a here-document whose end is quoted; write the end of the here-document without quotes",
        ),
        (
            "- bash: |\n    echo $plan.output\n    cat <<'E'\n    $plan.output\n    E",
            "10:5 the shell fills in nothing in a here-document whose end is quoted; write the end of the here-document without quotes",
        ),
        (
            "- bash: sh -c 'echo $plan.output'",
            "7:21 the shell fills in nothing in single quotes, and `$plan.output` stands in some; use double quotes, or, if another program reads this text as code, hand it over as an argument: `sh -c '… \"$1\"' sh \"$plan.output\"`",
        ),
        (
            "- bash: sh -c \"echo $ARGUMENTS\"",
            "7:21 another shell would read `$ARGUMENTS` as code, and with it what a person or an agent wrote; hand it over as an argument: `sh -c '… \"$1\"' sh \"$ARGUMENTS\"`",
        ),
        (
            "- {bash: x, when: \"$plan.output == 'yes'\"}",
            "7:19 the whole answer of an agent (`$plan.output`) is compared with 'yes'; no agent answers with exactly these words: give the step an `output_format` and compare a field of it",
        ),
        (
            "- {bash: x, when: \"$plan.output.siz == '1'\"}",
            "7:19 `$plan.output.siz` is nothing; the `output_format` of `plan` has no `siz`; did you mean `size`?",
        ),
        (
            "- {bash: x, when: \"$nope.output == '1'\"}",
            "7:19 there is no step `nope`; steps of this file: plan, step-2",
        ),
        (
            "- {bash: x, depends_on: [], when: \"$plan.output.size == '1'\"}",
            "7:35 `step-2` does not wait for `plan`, whose answer it looks at; add it: `depends_on: [plan]`",
        ),
    ] {
        assert_eq!(complaint(step), [expected], "{step}");
    }
    for step in [
        "- prompt: \"costs $5, see $HOME, ${NOPE}, $(date) and $x\"",
        "- bash: echo $NOPE $HOME \"$USER_MESSAGE\"",
        "- {bash: x, when: \"$plan.output.size == '1'\"}",
        "- approval: \"May $plan.output stay?\"",
    ] {
        assert_eq!(complaint(step), [""; 0], "{step}");
    }
}

#[test]
fn archons_files_are_read_as_they_are() {
    let text = with(
        "nodes:\n- id: test\n  bash: make test\n  model: opus\n- id: say\n  prompt: see $PORT_NUMBER and $test.output\n- id: last\n  prompt: p\n  depends_on: [test]\n  hooks: {}\n  effort: high\n",
    );
    let archon = ".archon/workflows/x.yaml";
    let refused = parse(archon, text.as_bytes(), ParseSettings::default());
    let problems: Vec<String> = refused.problems.iter().map(|problem| problem.what.clone()).collect();
    assert_eq!(
        problems,
        [
            "`hooks` is a key of Archon's that dacapo does nothing with",
            "`effort` is a key of Archon's that dacapo does nothing with",
        ]
    );
    let read = parse(archon, text.as_bytes(), ParseSettings { lenient: true });
    assert_eq!(read.problems, []);
    let left_out: Vec<(&str, u32)> =
        read.left_out.iter().map(|left| (left.key.as_str(), left.line)).collect();
    assert_eq!(left_out, [("hooks", 12), ("effort", 13)]);
    let notes: Vec<&str> = read.notes.iter().map(|note| note.what.as_str()).collect();
    assert_eq!(
        notes,
        [
            "`model` does nothing in a step with `bash`",
            "there is no variable `$PORT_NUMBER`",
            "`say` does not wait for `test`, whose answer it uses",
        ]
    );
    let workflow = read.workflow.unwrap();
    assert_eq!(workflow.steps[1].depends_on, []);
    let StepKind::Bash(bash) = &workflow.steps[0].kind else { panic!() };
    assert_eq!(bash.timeout, Millis::from_mins(2));
    // A step whose kind is unknown cannot be left out.
    let script = with("nodes: [{id: a, script: x, runtime: uv}]\n");
    assert_eq!(parse(archon, script.as_bytes(), ParseSettings { lenient: true }).problems.len(), 1);
}

#[test]
fn the_schema_knows_what_the_reader_knows() {
    let schema = crate::workflow::schema::schema();
    assert_eq!(schema["properties"]["loop"]["allOf"][0]["$ref"], "#/$defs/loop");
    assert_eq!(schema["required"], serde_json::json!(["name", "description"]));
    assert_eq!(schema["$defs"]["loop"]["properties"]["max_iterations"]["minimum"], 1);
    for section in keys::SECTIONS.iter().skip(1) {
        let names: BTreeSet<&str> = schema["$defs"][section.name]["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(names, section.names().into_iter().collect());
    }
}
