//! User stories in JSON: `{"userStories": [{"id", "title", "acceptanceCriteria", "priority", "passes"}]}`, or the list alone.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};

use super::unit::{TaskDraft, TaskList};
use crate::{
    problem::{CheckedFile, Problem},
    yaml::{TextPlace, short},
};

/// Keys under which files keep their stories.
const LISTS: [&str; 6] = ["userStories", "user_stories", "stories", "features", "tasks", "items"];
/// Keys that say when a story counts as done.
const CRITERIA: [&str; 6] =
    ["acceptanceCriteria", "acceptance_criteria", "acceptance", "criteria", "steps", "doneWhen"];
const DEPENDENCIES: [&str; 5] = ["dependsOn", "depends_on", "dependencies", "blockedBy", "blocked_by"];
const CHECKS: [&str; 5] =
    ["backpressure", "verificationCommands", "verification_commands", "testCommand", "test_command"];
/// Keys with more words for the agent, and what stands above them.
const WORDS: [(&str, &str); 5] = [
    ("notes", "Notes"),
    ("technicalNotes", "Technical notes"),
    ("filesToModify", "Files"),
    ("targetFiles", "Files"),
    ("files", "Files"),
];

pub(super) fn read(source: CheckedFile<'_>, text: &str) -> Result<TaskList, Vec<Problem>> {
    let place = |line: usize, column: usize| {
        let small = |n: usize| u32::try_from(n.max(1)).unwrap_or(u32::MAX);
        TextPlace { line: small(line), column: small(column) }
    };
    let one = |place: TextPlace, what: String, fix: &str| vec![source.problem(place, what, fix)];
    let broken = |error: serde_json::Error| {
        // Reading values finds better words for the same mistake.
        let error = serde_json::from_str::<Value>(text).err().unwrap_or(error);
        let what = format!("not JSON: {}", words_of(&error));
        one(
            place(error.line(), error.column()),
            what,
            "write plain JSON, without comments or a comma too many",
        )
    };
    let line_of = |raw: &RawValue| {
        let offset = (raw.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        let before = text.get(..offset).unwrap_or_default();
        before.bytes().filter(|b| *b == b'\n').count() + 1
    };
    let whole: &RawValue = serde_json::from_str(text).map_err(broken)?;
    let (top, stories): (BTreeMap<String, &RawValue>, Vec<&RawValue>) = match whole.get().as_bytes().first() {
        Some(b'[') => (BTreeMap::new(), serde_json::from_str(whole.get()).map_err(broken)?),
        Some(b'{') => {
            let mut top: BTreeMap<String, &RawValue> = serde_json::from_str(whole.get()).map_err(broken)?;
            let Some(key) = LISTS.into_iter().find(|key| top.contains_key(*key)) else {
                let what = "there are no stories in it: no `userStories`".to_owned();
                return Err(one(place(1, 1), what, "name the list of stories `userStories`"));
            };
            let Some(list) = top.remove(key) else { return Ok(TaskList::default()) };
            let stories: Vec<&RawValue> = serde_json::from_str(list.get()).map_err(|_| {
                one(
                    place(line_of(list), 1),
                    format!("`{key}` must be a list"),
                    "write `[…]` around the stories",
                )
            })?;
            (top, stories)
        }
        _ => {
            let what = "there are no stories in it".to_owned();
            return Err(one(place(1, 1), what, "write a list of stories, or an object with `userStories`"));
        }
    };
    let value = |key: &str| {
        top.get(key)
            .and_then(|raw| serde_json::from_str::<String>(raw.get()).ok())
            .filter(|text| !text.trim().is_empty())
    };
    let mut problems = Vec::new();
    let mut drafts: Vec<(f64, TaskDraft)> = Vec::new();
    let mut has_dependencies = false;
    for (index, raw) in stories.iter().enumerate() {
        let line = line_of(raw);
        let mut wrong = |what: String, fix: &str| {
            problems.push(source.problem(place(line, 1), format!("story {}: {what}", index + 1), fix));
        };
        // `null` where a value could stand is no value.
        let story: Option<BTreeMap<String, Value>> = serde_json::from_str(raw.get()).ok();
        let Some(mut story) = story else {
            wrong("it must be an object".to_owned(), "write `{\"id\": …, \"title\": …, \"passes\": false}`");
            continue;
        };
        story.retain(|_, value| !value.is_null());
        has_dependencies |= DEPENDENCIES.iter().any(|key| story.contains_key(*key));
        match draft(&story) {
            Ok((priority, mut draft)) => {
                draft.line = u32::try_from(line).unwrap_or(u32::MAX);
                drafts.push((priority, draft));
            }
            Err((what, fix)) => wrong(what, fix),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    if drafts.is_empty() {
        return Err(one(place(1, 1), "there are no stories in it".to_owned(), "write the stories first"));
    }
    // The first priority is 1; a story without one comes last.
    drafts.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let name = value("branchName").map(|branch| branch.rsplit('/').next().unwrap_or_default().to_owned());
    let title = value("project").or_else(|| value("title")).or_else(|| value("name"));
    Ok(TaskList {
        name: name.or_else(|| title.clone()).unwrap_or_default(),
        title: title.unwrap_or_else(|| super::file_name(source.file).to_owned()),
        about: value("description").unwrap_or_default(),
        tasks: drafts.into_iter().map(|(_, draft)| draft).collect(),
        has_dependencies,
    })
}

/// What serde_json says, without the place, which stands elsewhere.
fn words_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

type Wrong = (String, &'static str);

fn draft(story: &BTreeMap<String, Value>) -> Result<(f64, TaskDraft), Wrong> {
    let text = |key: &str| match story.get(key) {
        Some(Value::String(text)) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let description = text("description");
    let first_line = description.as_deref().and_then(|text| text.lines().next()).map(str::to_owned);
    let Some(title) = ["title", "name", "story"].into_iter().find_map(text).or_else(|| first_line.clone())
    else {
        return Err(("`title` is missing".to_owned(), "add `\"title\": \"what is to be done\"`"));
    };
    let mut body = String::new();
    if let Some(description) = description.filter(|text| *text != title) {
        body = description;
    }
    let criteria = list(story, &CRITERIA)?;
    if !criteria.is_empty() {
        body += "\n\n## Acceptance criteria\n\n";
        body.extend(criteria.iter().map(|line| format!("- {}\n", line.replace('\n', "\n  "))));
    }
    for (key, heading) in WORDS {
        let words = list(story, &[key])?;
        match words.as_slice() {
            [] => {}
            [one] => body += &format!("\n\n{heading}: {one}\n"),
            many => {
                body += &format!("\n\n## {heading}\n\n");
                body.extend(many.iter().map(|line| format!("- {line}\n")));
            }
        }
    }
    let checks = list(story, &CHECKS)?;
    let priority = match story.get("priority") {
        Some(Value::Number(number)) => number.as_f64().unwrap_or(f64::MAX),
        // `P1`, `1` and `high` are all in use.
        Some(Value::String(word)) => match word.trim().trim_start_matches(['P', 'p']).parse::<f64>() {
            Ok(number) if number.is_finite() => number,
            _ => match word.trim().to_lowercase().as_str() {
                "critical" | "urgent" => 0.0,
                "high" => 1.0,
                "medium" | "normal" => 2.0,
                "low" => 3.0,
                _ => f64::MAX,
            },
        },
        _ => f64::MAX,
    };
    let draft = TaskDraft {
        id: text("id"),
        title,
        body,
        is_done: is_done(story)?,
        depends_on: list(story, &DEPENDENCIES)?,
        check: Some(checks.join(" && ")).filter(|check| !check.trim().is_empty()),
        line: 1,
    };
    Ok((priority, draft))
}

fn is_done(story: &BTreeMap<String, Value>) -> Result<bool, Wrong> {
    for key in ["passes", "passed", "done", "completed", "complete"] {
        match story.get(key) {
            None => {}
            Some(Value::Bool(is_done)) => return Ok(*is_done),
            Some(Value::String(word)) if matches!(word.as_str(), "true" | "false") => {
                return Ok(word == "true");
            }
            Some(other) => {
                let what = format!("`{key}` must be true or false, not {}", short(&other.to_string()));
                return Err((what, "write `\"passes\": false` for a story that is open"));
            }
        }
    }
    let status = story.get("status").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    Ok(["done", "complete", "completed", "passed", "closed", "merged"].contains(&status.as_str()))
}

/// The texts under the first of these keys that is there: a list, or one text.
fn list(story: &BTreeMap<String, Value>, keys: &[&str]) -> Result<Vec<String>, Wrong> {
    let Some((key, value)) = keys.iter().find_map(|key| Some((key, story.get(*key)?))) else {
        return Ok(Vec::new());
    };
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(_) | Value::Null => None,
        // A criterion can be an object; its words are what counts.
        Value::Object(map) => {
            let words: Vec<String> = map
                .iter()
                .filter_map(|(key, value)| Some(format!("{key}: {}", value.as_str()?.trim())))
                .collect();
            Some(words.join("; "))
        }
        Value::Array(_) => None,
    };
    let texts = match value {
        Value::Array(items) => items.iter().map(text).collect::<Option<Vec<String>>>(),
        Value::String(_) | Value::Number(_) => text(value).map(|text| vec![text]),
        _ => None,
    };
    let what = || (format!("`{key}` must be a list of texts"), "write `[\"one\", \"two\"]`");
    Ok(texts.ok_or_else(what)?.into_iter().filter(|text| !text.is_empty()).collect())
}
