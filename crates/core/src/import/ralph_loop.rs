//! The state file that Claude's ralph plugin keeps while it loops inside a session: limits in its head, the prompt below.

use super::{Imported, NewFile, Product, WORKFLOWS, clean, emit, file_name, find, head_of, slug};
use crate::{
    judge::promise::PromiseRule,
    problem::{CheckedFile, Problem},
    workflow::{ParseSettings, parse, template},
    yaml::{TextPlace, YamlNode, YamlValue},
};

/// dacapo always has a limit; the plugin writes 0 for none.
const MAX_ITERATIONS: u32 = 100;
/// What the agent says where the state names no promise.
const PROMISE: &str = "DONE";

/// Whether a Markdown file is such a state.
pub(super) fn is_state(file: &str, bytes: &[u8]) -> bool {
    if file_name(file).trim_start_matches('.') == "ralph-loop.local.md" {
        return true;
    }
    let has = |node: &YamlNode, key: &str| find(node, key).is_some();
    head_of(bytes).is_some_and(|(head, _)| has(&head, "iteration") && has(&head, "max_iterations"))
}

pub(super) fn read(source: CheckedFile<'_>, name: Option<&str>) -> Result<Imported, Vec<Problem>> {
    let top = TextPlace { line: 1, column: 1 };
    let one = |place: TextPlace, what: &str, fix: &str| vec![source.problem(place, what, fix)];
    let block = crate::unit::frontmatter::split(source.bytes).map_err(|wrong| vec![source.wrong(wrong)])?;
    let Some((head, body)) = head_of(source.bytes) else {
        let (_, wrong) = crate::yaml::read_below(block.first_line - 1, block.yaml.as_bytes());
        if wrong.is_empty() {
            return Err(one(top, "there is no state in its head", "name the file that the plugin wrote"));
        }
        return Err(wrong.into_iter().map(|wrong| source.wrong(wrong)).collect());
    };
    let prompt = clean(body.trim());
    if prompt.is_empty() {
        return Err(one(top, "there is no prompt below the head", "write below it what the agent is asked"));
    }
    let scalar = |key: &str| match find(&head, key).map(|node| (&node.value, node.place)) {
        Some((YamlValue::Scalar { text, is_plain }, place)) => {
            let is_nothing = text.trim().is_empty() || (*is_plain && matches!(text.as_str(), "null" | "~"));
            (!is_nothing).then(|| (text.trim().to_owned(), place))
        }
        _ => None,
    };
    let mut notes = Vec::new();
    let max_iterations = match scalar("max_iterations") {
        None => None,
        Some((text, place)) => match text.parse::<u32>() {
            Ok(number) => Some(number).filter(|number| (1..=1_000_000_000).contains(number)),
            Err(_) => {
                let what = "`max_iterations` must be a whole number";
                return Err(one(place, what, "write `max_iterations: 20`"));
            }
        },
    };
    if max_iterations.is_none() {
        notes.push(format!(
            "the loop had no limit, and every loop of dacapo's has one: `max_iterations: {MAX_ITERATIONS}` was written"
        ));
    }
    let promise = match scalar("completion_promise") {
        Some((text, place)) => match PromiseRule::new(text.clone()) {
            Ok(_) => text,
            Err(error) => return Err(one(place, &error.to_string(), "write the words alone, like `DONE`")),
        },
        None => {
            notes.push(format!(
                "the loop had no promise, so it could not be done: `until: {PROMISE}` was written"
            ));
            PROMISE.to_owned()
        }
    };
    if scalar("active").is_some_and(|(text, _)| text == "true") {
        notes.push("the loop in the session goes on beside this one: end it with `/cancel-ralph`".to_owned());
    }
    let (mut prompt, has_changed) = literal(&prompt);
    if has_changed {
        notes.push("`$NAME` in the prompt was written as `${NAME}`, so that no variable is taken for one of dacapo's".to_owned());
    }
    let tag = format!("<promise>{promise}</promise>");
    if !prompt.contains(&tag) {
        prompt += &format!(
            "\n\n## Completion\n\nWhen all of this is true and done, and not before, output:\n{tag}\n\nIf something is left, end normally: another iteration will run."
        );
    }
    let name = name.map_or_else(|| "ralph-loop".to_owned(), str::to_owned);
    let first = body.trim().lines().next().unwrap_or_default();
    let about = format!("Imported from {}: {}", file_name(source.file), super::unit::one_line(first));
    let text = format!(
        "name: {}\ndescription: {}\nloop:\n  until: {}\n  max_iterations: {}\n  fresh_context: false\n{}",
        emit::scalar(&name),
        emit::quoted(&about),
        emit::quoted(&promise),
        max_iterations.unwrap_or(MAX_ITERATIONS),
        emit::entry("prompt", &format!("{prompt}\n")),
    );
    let path = format!(
        "{WORKFLOWS}/{}.yaml",
        Some(slug(&name, 60)).filter(|slug| !slug.is_empty()).unwrap_or_else(|| "ralph-loop".to_owned())
    );
    let parsed = parse(&path, text.as_bytes(), ParseSettings::default());
    if !parsed.problems.is_empty() {
        return Err(parsed.problems);
    }
    Ok(Imported {
        product: Product::Workflows { names: vec![name] },
        files: vec![NewFile { path, text }],
        notes,
        left_out: Vec::new(),
        problems: Vec::new(),
    })
}

/// A text in which nothing is a variable any more, and whether anything was.
pub(super) fn literal(text: &str) -> (String, bool) {
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    for found in template::find(text) {
        out.push_str(&text[end..found.range.start]);
        out.push_str(&format!("${{{}}}", &text[found.range.start + 1..found.range.end]));
        end = found.range.end;
    }
    out.push_str(&text[end..]);
    (out, end > 0)
}
