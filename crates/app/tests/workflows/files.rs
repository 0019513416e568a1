//! `workflow list`, `workflow check` and `workflow schema`.

use std::{collections::BTreeSet, path::Path};

use dacapo_testkit::TestEnv;
use serde_json::{Value, json};

fn env() -> TestEnv {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.git_init();
    env
}

fn json_of(env: &TestEnv, args: &[&str], code: i32) -> Value {
    serde_json::from_str(&env.run(args.iter().copied()).assert_code(code).stdout).unwrap()
}

const GOOD: &str = "name: ship\ndescription: |\n  Builds and asks.\n  More words.\nsteps:\n  - bash: make\n  - approval: May it go out?\n";

#[test]
fn workflows_are_listed_with_where_they_come_from() {
    // req 145
    let env = env();
    env.write(".dacapo/workflows/ship.yaml", GOOD);
    env.write(".archon/workflows/mine.yml", "name: ralph\ndescription: ours\nnodes: [{id: a, bash: make}]\n");
    env.write(".dacapo/workflows/bad.yaml", "name: bad\ndescription: d\n");
    let output = env.run(["workflow", "list"]).assert_code(0);
    insta::assert_snapshot!(output.stdout, @r"
    WORKFLOW   FROM                                                    DESCRIPTION
    checklist  built in                                                Works off a Markdown checklist, one open item per iteration, until none is open.
    prompt     built in                                                Works on PROMPT.md until what it asks for is done.
    ralph      .archon/workflows/mine.yml (replaces the built-in one)  ours
    ship       .dacapo/workflows/ship.yaml                             Builds and asks.
    ");
    assert!(output.stderr.contains("problems in workflow files: 1; `dacapo workflow check` shows them"));
    let list = json_of(&env, &["workflow", "list", "--json"], 0);
    let line =
        |name: &str| list.as_array().unwrap().iter().find(|line| line["name"] == name).unwrap().clone();
    assert_eq!(line("ship")["description"], "Builds and asks.\nMore words.");
    assert_eq!(
        (&line("ship")["file"], &line("ship")["steps"]),
        (&json!(".dacapo/workflows/ship.yaml"), &json!(2))
    );
    assert_eq!(
        (&line("ralph")["replaces_built_in"], &line("ralph")["built_in"]),
        (&json!(true), &json!(false))
    );
    assert_eq!((&line("prompt")["file"], &line("prompt")["built_in"]), (&json!(null), &json!(true)));
    // From a folder below it is the same repository, and looking leaves nothing behind.
    env.write("deep/down/x", "");
    let mut below = env.dacapo(["workflow", "list"]);
    below.current_dir(env.workspace().join("deep/down"));
    assert_eq!(env.run_command(below).assert_code(0).stdout, output.stdout);
    assert!(!env.dacapo_home().exists());
}

#[test]
fn a_problem_has_its_file_line_snippet_and_fix() {
    // req 137, req 143
    let env = env();
    env.write(".dacapo/workflows/ship.yaml", GOOD);
    env.write(
        ".dacapo/workflows/both.yaml",
        "name: both\ndescription: d\nsteps:\n  - command: plan\nloop:\n  until: X\n  max_iterations: 3\nprompt: p\n",
    );
    let output = env.run(["workflow", "check"]).assert_code(2);
    insta::assert_snapshot!(output.stdout, @r"
    .dacapo/workflows/both.yaml:5:1: Cannot have both 'steps' and 'loop' in both.yaml
      5 | loop:
        | ^
      fix: keep one of them; a loop can also be a step
    ");
    assert!(output.stderr.ends_with("dacapo: 1 problem in workflow files\n"), "{}", output.stderr);
    let found = json_of(&env, &["workflow", "check", "--json"], 2);
    assert_eq!(
        found["problems"],
        json!([{
            "file": ".dacapo/workflows/both.yaml", "line": 5, "column": 1, "snippet": "loop:",
            "what": "Cannot have both 'steps' and 'loop' in both.yaml",
            "fix": "keep one of them; a loop can also be a step",
        }])
    );
    // The others are not touched by it.
    assert_eq!(env.run(["workflow", "check", "ship"]).assert_code(0).stdout, "1 workflow: no problems\n");
    env.run(["workflow", "check", "both"]).assert_code(2);
    let unknown = env.run(["workflow", "check", "shop"]).assert_code(2);
    assert!(unknown.stderr.contains("hint: did you mean `ship`?"), "{}", unknown.stderr);
}

#[test]
fn archons_files_are_checked_by_archons_rules() {
    let env = env();
    let text = "name: a\ndescription: d\nnodes:\n- id: fix\n  hooks: {}\n  loop: {prompt: p, until: X, until_bash: make test, max_iterations: 3}\n";
    env.write(".archon/workflows/a.yaml", text);
    let refused = env.run(["workflow", "check"]).assert_code(2);
    assert!(
        refused.stdout.contains("`hooks` is a key of Archon's that dacapo does nothing with"),
        "{}",
        refused.stdout
    );
    let output = env.run(["workflow", "check", "a", "--lenient"]).assert_code(0);
    insta::assert_snapshot!(output.stdout, @r"
    note: .archon/workflows/a.yaml:6:3: weaker: the agent's words alone end this loop, even if `until_bash` fails
      6 |   loop: {prompt: p, until: X, until_bash: make test, max_iterations: 3}
        |   ^
      fix: add `any: false` to the loop, and both have to agree
    left out: `hooks` in .archon/workflows/a.yaml:5
    1 workflow: no problems
    ");
    let found = json_of(&env, &["workflow", "check", "a", "--lenient", "--json"], 0);
    assert_eq!(found["left_out"], json!([{ "file": ".archon/workflows/a.yaml", "key": "hooks", "line": 5 }]));
}

#[test]
fn the_schema_is_json_schema_of_this_year() {
    let env = env();
    let schema = json_of(&env, &["workflow", "schema"], 0);
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(json_of(&env, &["workflow", "schema", "--json"], 0), schema);
}

#[test]
fn every_key_is_in_the_reference() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/workflows.md");
    let expected = reference();
    if std::env::var_os("DACAPO_UPDATE_DOCS").is_some() {
        std::fs::write(&file, &expected).unwrap();
    }
    let kept = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        kept == expected,
        "docs/reference/workflows.md is not what the code says: run DACAPO_UPDATE_DOCS=1 cargo test"
    );
}

/// The page, made from the table of keys.
fn reference() -> String {
    use dacapo_core::workflow::{
        keys::{SECTIONS, SectionSpec, ValueSpec},
        template::NAMED,
    };
    let mut page = "# Workflow files\n\n<!-- Generated from the code: DACAPO_UPDATE_DOCS=1 cargo test -p dacapo --test workflows reference -->\n\n\
        What a file in `.dacapo/workflows` may hold. How to write one is in [the guide](../guide/workflows.md); `dacapo workflow schema`\n\
        prints the same as a JSON Schema. Any other key is an error that names the nearest known one.\n"
        .to_owned();
    let link = |section: &SectionSpec| format!("[{0}](#{0})", section.name);
    for section in SECTIONS {
        page += &format!("\n## {}\n\n{}\n\n| key | value | |\n|---|---|---|\n", section.name, section.about);
        for key in section.keys {
            let value = match &key.value {
                ValueSpec::Text => "text".to_owned(),
                ValueSpec::Truth => "`true`, `false`".to_owned(),
                ValueSpec::Count { least, most: 1_000_000_000.. } => format!("whole number from {least}"),
                ValueSpec::Count { least, most } => format!("whole number from {least} to {most}"),
                ValueSpec::Choice(words) => {
                    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
                }
                ValueSpec::Duration => "duration such as `90s`, or milliseconds".to_owned(),
                ValueSpec::Dollars => "US dollars, like `2.50`".to_owned(),
                ValueSpec::Words => "list of words".to_owned(),
                ValueSpec::Time => "time, like `2027-01-31T08:00:00Z`".to_owned(),
                ValueSpec::Section(section) => link(section),
                ValueSpec::TextOrSection(section, key) => {
                    format!("{}, or the text of `{key}`", link(section))
                }
                ValueSpec::Sections(section) => format!("list of {}", link(section)),
                ValueSpec::TextsOrSections(section, key) => {
                    format!("list of {} or of texts (`{key}`)", link(section))
                }
                ValueSpec::Schema => "JSON Schema".to_owned(),
            };
            let need = if key.is_required { " **Needed.**" } else { "" };
            page += &format!("| `{}` | {value} | {}.{need} |\n", key.name, key.about.replace('|', "\\|"));
        }
    }
    page += "\n## Variables\n\nIn prompts, command files and messages:\n\n";
    let names: BTreeSet<String> = NAMED.iter().map(|(name, _)| format!("`${name}`")).collect();
    page += &names.into_iter().collect::<Vec<_>>().join(", ");
    page += " and `$step.output`, `$step.output.field`.\n\nA script finds the upper-case variables in its environment, under the same names. `$step.output` in a script is read from\n`DACAPO_OUTPUT_<step>` and `$step.output.field` from `DACAPO_OUTPUT_<step>__<field>`, in which `-` is `_`.\n";
    page
}

#[test]
fn a_file_that_cannot_be_read_is_found_by_the_name_of_the_file() {
    let env = env();
    env.write(".dacapo/workflows/ship.yaml", "name: [ship\n");
    for args in [&["workflow", "run", "ship"][..], &["workflow", "check", "ship"]] {
        let output = env.run(args.iter().copied()).assert_code(2);
        let told = format!("{}{}", output.stdout, output.stderr);
        assert!(told.contains(".dacapo/workflows/ship.yaml:"), "{args:?}: {told}");
        assert!(!told.contains("no workflow is called"), "{told}");
    }
}
