//! Task files, `.dacapo/tasks/TASK-001.md`: a head with the task's id, title, status and dependencies, and its specification.
//!
//! dacapo writes the status and nothing else. What a run of the task has come to (`ralph`, `ralph_failure`) is a fold of the
//! journal and stands in no file.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{
    StageName, TaskCompletion, completion,
    reader::{HeadMap, HeadReader},
};
use crate::{
    config::is_branch,
    ids::TaskId,
    problem::{CheckedFile, Problem, Spot},
    text::{
        nearest::{distance, nearest},
        visible::is_deceptive,
    },
    unit::frontmatter,
    yaml::{TextPlace, Wrong, YamlValue, short},
};

/// The folder of task files, from the top of the repository.
pub const FOLDER: &str = ".dacapo/tasks";
/// How long a title may be, in characters.
const MAX_TITLE: usize = 200;
const TOP: TextPlace = TextPlace { line: 1, column: 1 };

/// How far a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageTaskStatus {
    #[default]
    Todo,
    Implementing,
    Reviewing,
    Testing,
    Done,
}

impl StageTaskStatus {
    pub const ALL: [Self; 5] = [Self::Todo, Self::Implementing, Self::Reviewing, Self::Testing, Self::Done];

    /// How a task stands whose file says this while its newest run is over and came to `end`. A status of work under way was
    /// left by a dacapo that was killed before it could write the end; any other is the user's word.
    pub fn after_run(self, end: Self) -> Self {
        match self {
            Self::Implementing | Self::Reviewing | Self::Testing => end,
            Self::Todo | Self::Done => self,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Todo => "todo",
            Self::Implementing => "implementing",
            Self::Reviewing => "reviewing",
            Self::Testing => "testing",
            Self::Done => "done",
        }
    }

    /// The status of a task while it is in this stage.
    pub fn of_stage(stage: StageName) -> Self {
        match stage {
            StageName::Coder => Self::Implementing,
            StageName::Reviewer => Self::Reviewing,
            StageName::Tester | StageName::Qa => Self::Testing,
        }
    }
}

impl fmt::Display for StageTaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a task file says, but for its status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTaskSpec {
    pub id: TaskId,
    pub title: String,
    /// From the top of the repository.
    pub file: String,
    /// Tasks that must be done first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<TaskId>,
    /// Files that gates run and that the work on the task may change all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    #[serde(default)]
    pub completion: TaskCompletion,
    /// The text below the head.
    pub specification: String,
    /// SHA-256 of the head without its status: what the user has agreed to.
    pub frozen: String,
}

impl StageTaskSpec {
    /// The branch that the task is worked on (req 197).
    pub fn branch(&self) -> String {
        format!("task/{}", self.id)
    }
}

/// A task as its file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageTask {
    pub spec: StageTaskSpec,
    pub status: StageTaskStatus,
}

/// All tasks of a repository, and everything that is wrong with their files. A task whose file is wrong is not in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageTaskList {
    /// In the order of their ids.
    pub tasks: Vec<StageTask>,
    pub problems: Vec<Problem>,
    /// What is perhaps a mistake. The task counts all the same.
    pub notes: Vec<Problem>,
}

impl StageTaskList {
    /// Tasks that can be started: to do, with everything they depend on done.
    pub fn ready(&self) -> impl Iterator<Item = &StageTask> {
        let is_done = |id: &TaskId| {
            self.tasks.iter().any(|task| task.spec.id == *id && task.status == StageTaskStatus::Done)
        };
        self.tasks.iter().filter(move |task| {
            task.status == StageTaskStatus::Todo && task.spec.depends_on.iter().all(is_done)
        })
    }
}

/// A task while its file is at hand.
struct ParsedTaskFile {
    task: StageTask,
    id_at: Spot,
    depends_at: Vec<(TaskId, Spot)>,
    notes: Vec<Problem>,
}

/// The keys of a head that dacapo knows.
const KEYS: [&str; 6] = ["id", "title", "status", "depends_on", "writes", "completion"];

/// Reads one task file, by itself.
pub fn parse(file: &str, bytes: &[u8]) -> Result<StageTask, Vec<Problem>> {
    read(CheckedFile { file, bytes }).map(|parsed| parsed.task)
}

/// Reads all task files, each with its path from the top of the repository, and holds them against each other.
pub fn list<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> StageTaskList {
    let mut problems = Vec::new();
    let (mut parsed, mut notes): (Vec<ParsedTaskFile>, Vec<Problem>) = (Vec::new(), Vec::new());
    for (file, bytes) in files {
        match read(CheckedFile { file, bytes }) {
            Ok(mut task) => {
                notes.append(&mut task.notes);
                parsed.push(task);
            }
            Err(wrong) => problems.extend(wrong),
        }
    }
    parsed.sort_by(|a, b| (&a.task.spec.id, &a.task.spec.file).cmp(&(&b.task.spec.id, &b.task.spec.file)));
    let mut bad = vec![false; parsed.len()];
    twice(&parsed, &mut bad, &mut problems);
    dependencies(&parsed, &mut bad, &mut problems);
    let tasks = parsed.into_iter().zip(bad).filter(|(_, bad)| !bad).map(|(parsed, _)| parsed.task).collect();
    problems.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    StageTaskList { tasks, problems, notes }
}

/// Of two tasks with one id neither is taken: the order of files must not decide which one runs.
fn twice(parsed: &[ParsedTaskFile], bad: &mut [bool], problems: &mut Vec<Problem>) {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (at, ParsedTaskFile { task, id_at, .. }) in parsed.iter().enumerate() {
        // Branches and folders of two ids that differ in case are one on some systems.
        if let Some(first) = known.get(&task.spec.id.as_str().to_lowercase()) {
            let other = &parsed[*first].task.spec;
            let what = format!("the id `{}` is that of `{}`, too", task.spec.id, other.file);
            problems.push(id_at.problem(what, "give one of them another `id`"));
            (bad[at], bad[*first]) = (true, true);
        } else {
            known.insert(task.spec.id.as_str().to_lowercase(), at);
        }
    }
}

/// Dependencies that are not there, and those that lead back to their own task.
fn dependencies(parsed: &[ParsedTaskFile], bad: &mut [bool], problems: &mut Vec<Problem>) {
    let index: BTreeMap<&TaskId, usize> =
        parsed.iter().enumerate().map(|(at, parsed)| (&parsed.task.spec.id, at)).collect();
    let names: Vec<&str> = index.keys().map(|id| id.as_str()).collect();
    let mut edges: Vec<Vec<usize>> = vec![Vec::new(); parsed.len()];
    for (at, ParsedTaskFile { task, depends_at, .. }) in parsed.iter().enumerate() {
        for (id, spot) in depends_at {
            match index.get(id) {
                Some(to) if *to == at => {
                    problems.push(spot.problem(format!("`{id}` depends on itself"), "take it off the list"));
                    bad[at] = true;
                }
                Some(to) => edges[at].push(*to),
                None => {
                    let others: Vec<&str> =
                        names.iter().copied().filter(|name| *name != task.spec.id.as_str()).collect();
                    let fix = match nearest(id.as_str(), &others) {
                        Some(meant) => format!("did you mean `{meant}`?"),
                        None => "add the task, or take it off the list".to_owned(),
                    };
                    problems.push(spot.problem(format!("there is no task `{id}`"), fix));
                    bad[at] = true;
                }
            }
        }
    }
    // What is left when everything that waits for nothing is taken away again and again waits for itself.
    let mut waits: Vec<bool> = vec![true; parsed.len()];
    while let Some(at) = (0..edges.len()).find(|at| waits[*at] && edges[*at].iter().all(|to| !waits[*to])) {
        waits[at] = false;
    }
    for at in (0..parsed.len()).filter(|at| waits[*at]) {
        bad[at] = true;
        if let Some(way) = ring(at, &edges) {
            let names: Vec<&str> = way.iter().map(|at| parsed[*at].task.spec.id.as_str()).collect();
            let spot = parsed[at].depends_at.iter().find(|(id, _)| id.as_str() == names[1]);
            let spot = spot.map_or(&parsed[at].id_at, |(_, spot)| spot);
            let what = format!("tasks wait for each other: {}", names.join(" -> "));
            problems.push(spot.problem(what, "take one of these dependencies away"));
        }
    }
}

/// The shortest way from a task back to itself, if it is the first of its ring: each ring is told once.
fn ring(start: usize, edges: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut from: BTreeMap<usize, usize> = BTreeMap::new();
    let mut next = std::collections::VecDeque::from([start]);
    while let Some(at) = next.pop_front() {
        for to in &edges[at] {
            if *to == start {
                let mut way = vec![start];
                let mut back = at;
                while back != start {
                    way.push(back);
                    back = from[&back];
                }
                way.push(start);
                way.reverse();
                return (way.iter().min() == Some(&start)).then_some(way);
            }
            if !from.contains_key(to) {
                from.insert(*to, at);
                next.push_back(*to);
            }
        }
    }
    None
}

fn read(source: CheckedFile<'_>) -> Result<ParsedTaskFile, Vec<Problem>> {
    let block = frontmatter::split(source.bytes).map_err(|wrong| vec![source.wrong(wrong)])?;
    let (entries, wrong) = frontmatter::readable(&block);
    let problems = wrong.into_iter().map(|wrong| source.wrong(wrong)).collect();
    let mut reader = HeadReader { source, problems };
    let Some(entries) = entries else { return Err(reader.problems) };
    if let Err(Wrong { place, what }) = frontmatter::check_status(&block, &entries) {
        reader.wrong(place, what, "write it as `status: todo`");
    }
    // Other tools keep their notes in the head, so only a key that is nearly one of ours is worth a word.
    let unknown = entries.iter().filter(|(key, _)| !KEYS.contains(&key.name.as_str()));
    let notes: Vec<Problem> = unknown
        .filter_map(|(key, _)| {
            let meant = KEYS.into_iter().find(|known| is_slip_of(&key.name, known))?;
            let what = format!("`{}` is no key that dacapo knows, and says nothing to it", short(&key.name));
            Some(source.spot(key.place).problem(what, format!("did you mean `{meant}`?")))
        })
        .collect();
    let map = HeadMap::of(entries);
    let id = id(&mut reader, &map);
    let title = title(&mut reader, &map);
    let status = status(&mut reader, &map);
    let mut depends_at: Vec<(TaskId, Spot)> = Vec::new();
    for (word, place) in reader.placed_words(&map, "", "depends_on") {
        match word.parse::<TaskId>() {
            Ok(id) if depends_at.iter().any(|(known, _)| *known == id) => {}
            Ok(id) => depends_at.push((id, source.spot(place))),
            Err(error) => reader.wrong(place, error.to_string(), "write the id of a task, like `TASK-001`"),
        }
    }
    let mut writes = Vec::new();
    for (path, place) in reader.placed_words(&map, "", "writes") {
        if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            let what = "a path must be relative and stay inside the repository";
            reader.wrong(place, what, "write paths from the top of the repository");
        } else {
            writes.push(path);
        }
    }
    let completion = match map.get("completion") {
        Some(node) => completion::read(&mut reader, node),
        None => TaskCompletion::default(),
    };
    if block.body.trim().is_empty() {
        let fix = "write below the second `---` what is to be done";
        reader.wrong(TOP, "the task has no specification", fix);
    }
    match (id, title) {
        (Some((id, place)), Some(title)) if reader.problems.is_empty() => {
            let spec = StageTaskSpec {
                id,
                title,
                file: source.file.to_owned(),
                depends_on: depends_at.iter().map(|(id, _)| id.clone()).collect(),
                writes,
                completion,
                specification: block.body.trim().to_owned(),
                frozen: frontmatter::frozen(source.bytes),
            };
            let task = StageTask { spec, status };
            Ok(ParsedTaskFile { task, id_at: source.spot(place), depends_at, notes })
        }
        _ => Err(reader.problems),
    }
}

/// Whether `word` is `key` with a slip of the pen or two. A short word differs from others by as much.
fn is_slip_of(word: &str, key: &str) -> bool {
    let letters = |text: &str| text.to_lowercase().replace(['_', '-', ' '], "");
    let (word, plain) = (letters(word), letters(key));
    word == plain || (plain.len() >= 5 && word.len() <= 64 && distance(&word, &plain) <= 2)
}

/// The id of a task becomes a folder and a part of a branch's name.
pub fn checked_id(text: &str) -> Result<TaskId, String> {
    let id: TaskId = text.parse().map_err(|error: crate::ids::InvalidId| error.to_string())?;
    if !is_branch(&format!("task/{id}")) {
        return Err(format!(
            "`{id}` is not a valid task id: it becomes a part of a branch's name, in which git allows no `..`, and neither \
             `.` nor `.lock` at the end"
        ));
    }
    Ok(id)
}

fn id(reader: &mut HeadReader<'_>, map: &HeadMap) -> Option<(TaskId, TextPlace)> {
    let fix = "write it like `id: TASK-001`";
    let Some(text) = reader.text(map, "", "id") else {
        if map.get("id").is_none() {
            reader.wrong(map.place("id").unwrap_or(TOP), "`id` is missing", fix);
        }
        return None;
    };
    let place = map.get("id")?.place;
    match checked_id(&text) {
        Ok(id) => Some((id, place)),
        Err(what) => {
            reader.wrong(place, what, fix);
            None
        }
    }
}

fn title(reader: &mut HeadReader<'_>, map: &HeadMap) -> Option<String> {
    let fix = "write in one line what the task is, like `title: Implement user authentication`";
    let Some(text) = reader.text(map, "", "title") else {
        if map.get("title").is_none() {
            reader.wrong(map.place("title").unwrap_or(TOP), "`title` is missing", fix);
        }
        return None;
    };
    let place = map.get("title")?.place;
    match checked_title(&text) {
        Ok(title) => Some(title),
        Err(what) => {
            reader.wrong(place, what, fix);
            None
        }
    }
}

/// One line that can be shown.
pub fn checked_title(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() {
        Err("`title` must not be blank".to_owned())
    } else if text.chars().count() > MAX_TITLE {
        Err(format!("`title` is longer than {MAX_TITLE} characters"))
    } else if text.chars().any(|c| c.is_control() || is_deceptive(c)) {
        Err("`title` must be one line of visible characters".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

fn status(reader: &mut HeadReader<'_>, map: &HeadMap) -> StageTaskStatus {
    let Some(node) = map.get("status") else { return StageTaskStatus::Todo };
    let words = StageTaskStatus::ALL.map(StageTaskStatus::as_str);
    let text = match &node.value {
        YamlValue::Scalar { text, .. } => text.as_str(),
        // What cannot be written to was told already.
        YamlValue::List(_) | YamlValue::Map(_) => return StageTaskStatus::Todo,
    };
    if let Some(status) = StageTaskStatus::ALL.into_iter().find(|status| status.as_str() == text) {
        return status;
    }
    // Who follows a hint at `done` has the task left out.
    let meant = nearest(text, &words).filter(|word| *word != StageTaskStatus::Done.as_str());
    let meant = meant.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
    let what = format!("`{}` is not a status{meant}", short(text));
    reader.wrong(node.place, what, format!("write one of {}", words.join(", ")));
    StageTaskStatus::Todo
}

/// The file of a new task. What was typed is written so that it is read as the same text.
pub fn format(id: &TaskId, title: &str, depends_on: &[TaskId], specification: &str) -> String {
    let mut text = format!("---\nid: {}\ntitle: {}\nstatus: todo\n", quoted(id.as_str()), quoted(title));
    if !depends_on.is_empty() {
        let ids: Vec<String> = depends_on.iter().map(|id| quoted(id.as_str())).collect();
        text.push_str(&format!("depends_on: [{}]\n", ids.join(", ")));
    }
    text.push_str(&format!("---\n{}\n", specification.trim()));
    text
}

/// A word that every reader takes for text stands plainly; everything else in double quotes, whose escapes are JSON's.
fn quoted(text: &str) -> String {
    let is_plain = text.contains('-')
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if is_plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

/// The id of the next task: `TASK-001`, `TASK-002` and so on, behind the largest that is there.
pub fn next_id<'a>(known: impl IntoIterator<Item = &'a str>) -> String {
    let number = |id: &str| id.strip_prefix("TASK-").and_then(|digits| digits.parse::<u32>().ok());
    let last = known.into_iter().filter_map(number).max().unwrap_or(0);
    format!("TASK-{:03}", last.saturating_add(1))
}

/// The file with another status. Every other byte stays as it is.
pub fn with_status(bytes: &[u8], status: StageTaskStatus) -> Result<Vec<u8>, Wrong> {
    frontmatter::with_status_word(bytes, status.as_str())
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
