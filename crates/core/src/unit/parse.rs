//! Reading one task file or plan: every value with its place, and everything that is wrong at once.

use super::{
    Task, TaskSpec, TaskStatus,
    frontmatter::{self, FrontmatterFile},
};
use crate::{
    problem::{CheckedFile, Problem, Spot},
    text::{nearest::nearest, visible::is_deceptive},
    yaml::{TextPlace, YamlKey, YamlNode, YamlValue, short},
};

/// Keys of a plan that the tool which wrote it keeps for itself: read, never written.
pub const ORCH_KEYS: [&str; 6] =
    ["orch_status", "orch_branch", "orch_worktree", "orch_pr_number", "orch_started_at", "orch_completed_at"];

const TOP: TextPlace = TextPlace { line: 1, column: 1 };
/// How long a list may be.
const MAX_ENTRIES: usize = 1000;
/// How much of a heading is a title.
const MAX_TITLE: usize = 200;
/// The largest number a task can have.
const MAX_NUMBER: u32 = 1_000_000;

/// A task and where its parts stand.
pub(super) struct ParsedTask {
    pub(super) task: Task,
    pub(super) number_at: Spot,
    pub(super) depends_at: Vec<(u32, Spot)>,
}

/// What could be read of a task file.
pub(super) struct TaskFile {
    /// As much of it as can be understood, if its number can; all of it if nothing is wrong.
    pub(super) parsed: Option<ParsedTask>,
    pub(super) problems: Vec<Problem>,
}

/// What a plan says about its unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanFile {
    /// The unit's name, if it is not that of its folder.
    pub unit: Option<String>,
    /// Units that must be merged first.
    pub depends_on: Vec<String>,
    /// The agent it asks for.
    pub provider: Option<String>,
    /// What another tool has noted, by key.
    pub orch: Vec<(String, String)>,
}

/// A plan and where its parts stand.
pub(super) struct ParsedPlan {
    pub(super) plan: PlanFile,
    pub(super) unit_at: Spot,
    pub(super) provider_at: Option<Spot>,
    pub(super) depends_at: Vec<Spot>,
}

/// Takes values out of a head and collects what is wrong.
struct Head<'a> {
    source: CheckedFile<'a>,
    entries: Vec<(YamlKey, YamlNode)>,
    problems: Vec<Problem>,
}

impl<'a> Head<'a> {
    fn open(source: CheckedFile<'a>) -> Result<(FrontmatterFile<'a>, Self), Vec<Problem>> {
        let block = frontmatter::split(source.bytes).map_err(|wrong| vec![source.wrong(wrong)])?;
        let (entries, wrong) = frontmatter::readable(&block);
        let problems = wrong.into_iter().map(|wrong| source.wrong(wrong)).collect();
        match entries {
            Some(entries) => Ok((block, Self { source, entries, problems })),
            None => Err(problems),
        }
    }

    fn wrong(&mut self, place: TextPlace, what: impl Into<String>, fix: impl Into<String>) {
        self.problems.push(self.source.problem(place, what, fix));
    }

    fn find(&self, key: &str) -> Option<&(YamlKey, YamlNode)> {
        self.entries.iter().find(|(known, _)| known.name == key)
    }

    fn status(&mut self) -> TaskStatus {
        let Some((_, node)) = self.find("status") else { return TaskStatus::Pending };
        let words = TaskStatus::ALL.map(TaskStatus::as_str);
        let place = node.place;
        let what = match &node.value {
            _ if is_nothing(node) => return TaskStatus::Pending,
            YamlValue::Scalar { text, .. } => {
                if let Some(status) = TaskStatus::ALL.into_iter().find(|status| status.as_str() == text) {
                    return status;
                }
                let meant = nearest(text, &words);
                let meant = meant.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
                format!("`{}` is not a status{meant}", short(text))
            }
            YamlValue::List(_) | YamlValue::Map(_) => "`status` must be one word".to_owned(),
        };
        self.wrong(place, what, format!("write one of {}", words.join(", ")));
        TaskStatus::Pending
    }

    /// `task`, or `number` (req 4), and where it stands.
    fn number(&mut self, wanted: &str) -> Option<(u32, TextPlace)> {
        let found = match (self.find("task"), self.find("number")) {
            (Some(_), Some((key, _))) => {
                let place = key.place;
                self.wrong(place, "both `task` and `number` are there", "keep `task` and drop `number`");
                return None;
            }
            (None, None) => {
                self.wrong(TOP, "`task` is missing", format!("add a line `task: {wanted}`"));
                return None;
            }
            (found, other) => found.or(other),
        };
        let (key, node) = found?;
        let (name, key_place, place) = (key.name.clone(), key.place, node.place);
        match number_of(node) {
            Some(number) => Some((number, place)),
            None => {
                let place = if is_nothing(node) { key_place } else { place };
                let what = format!("`{name}` must be a whole number from 1 on");
                self.wrong(place, what, format!("write `{name}: {wanted}`"));
                None
            }
        }
    }

    /// The command that proves a task, and its line.
    fn backpressure(&mut self) -> Option<(String, u32)> {
        let fix = "add the command that proves the task, like `backpressure: cargo test`";
        let Some((key, node)) = self.find("backpressure") else {
            self.wrong(TOP, "`backpressure` is missing", fix);
            return None;
        };
        let (key_place, place) = (key.place, node.place);
        match &node.value {
            YamlValue::Scalar { text, .. } if text.trim().is_empty() || is_nothing(node) => {
                self.wrong(key_place, "`backpressure` is blank", fix);
                None
            }
            YamlValue::Scalar { text, .. } => Some((text.clone(), place.line)),
            YamlValue::List(_) | YamlValue::Map(_) => {
                self.wrong(place, "`backpressure` must be one command", fix);
                None
            }
        }
    }

    /// The entries of a list.
    fn list(&mut self, key: &str, like: &str) -> Vec<YamlNode> {
        let Some((_, node)) = self.find(key) else { return Vec::new() };
        let place = node.place;
        match &node.value {
            _ if is_nothing(node) => Vec::new(),
            YamlValue::List(items) if items.len() <= MAX_ENTRIES => items.clone(),
            YamlValue::List(_) => {
                let what = format!("`{key}` has more than {MAX_ENTRIES} entries");
                self.wrong(place, what, "name only what is needed");
                Vec::new()
            }
            YamlValue::Scalar { .. } | YamlValue::Map(_) => {
                self.wrong(place, format!("`{key}` must be a list"), format!("write `{key}: {like}`"));
                Vec::new()
            }
        }
    }

    /// The text of a key whose value may not be blank.
    fn word(&mut self, key: &str) -> Option<(String, TextPlace)> {
        if let Some((at, node)) = self.find(key)
            && let YamlValue::Scalar { text, .. } = &node.value
            && (text.trim().is_empty() || is_nothing(node))
        {
            let place = at.place;
            self.wrong(place, format!("`{key}` is blank"), "give it a value, or take the line away");
            return None;
        }
        self.text(key)
    }

    /// Text that is not blank, if the key has a value.
    fn text(&mut self, key: &str) -> Option<(String, TextPlace)> {
        let (_, node) = self.find(key)?;
        let place = node.place;
        match &node.value {
            YamlValue::Scalar { text, .. } if !text.trim().is_empty() && !is_nothing(node) => {
                Some((text.trim().to_owned(), place))
            }
            YamlValue::Scalar { .. } => None,
            YamlValue::List(_) | YamlValue::Map(_) => {
                self.wrong(place, format!("`{key}` must be one word"), format!("write `{key}: …`"));
                None
            }
        }
    }
}

fn is_nothing(node: &YamlNode) -> bool {
    match &node.value {
        YamlValue::Scalar { text, is_plain: true } => matches!(text.as_str(), "" | "~" | "null"),
        YamlValue::Scalar { text, .. } => text.is_empty(),
        YamlValue::List(_) | YamlValue::Map(_) => false,
    }
}

/// A task's number: digits without quotes or sign.
fn number_of(node: &YamlNode) -> Option<u32> {
    let YamlValue::Scalar { text, is_plain: true } = &node.value else { return None };
    let number = text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten()?;
    (1..=MAX_NUMBER).contains(&number).then_some(number)
}

/// Reads a task file (req 2).
pub(super) fn task(source: CheckedFile<'_>) -> TaskFile {
    let (block, mut head) = match Head::open(source) {
        Ok(opened) => opened,
        Err(problems) => return TaskFile { parsed: None, problems },
    };
    let name = source.file.rsplit('/').next().unwrap_or(source.file);
    // The two digits of its name are probably what was meant.
    let wanted = name.get(..2).and_then(|digits| digits.parse::<u32>().ok()).unwrap_or(1).max(1).to_string();
    let number = head.number(&wanted);
    let is_writable = frontmatter::check_status(&block, &head.entries);
    let status = head.status();
    if let Err(wrong) = is_writable
        && head.problems.iter().all(|problem| problem.line != wrong.place.line)
    {
        head.wrong(wrong.place, wrong.what, "write it as `status: pending`");
    }
    let backpressure = head.backpressure();
    let mut depends_at: Vec<(u32, Spot)> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for node in head.list("depends_on", "[1, 2]") {
        match number_of(&node) {
            Some(number) if seen.insert(number) => depends_at.push((number, source.spot(node.place))),
            Some(_) => {}
            None => head.wrong(
                node.place,
                "an entry of `depends_on` must be the number of a task",
                "write numbers only, like `depends_on: [1, 2]`",
            ),
        }
    }
    let mut writes = Vec::new();
    for node in head.list("writes", "[tests/login.py]") {
        match &node.value {
            YamlValue::Scalar { text, .. } if !text.trim().is_empty() => writes.push(text.trim().to_owned()),
            _ => head.wrong(
                node.place,
                "an entry of `writes` must be the path of a file",
                "write paths from the top of the repository, like `writes: [tests/login.py]`",
            ),
        }
    }
    let parsed = match number {
        Some((number, place)) => {
            let (backpressure, line) = backpressure.unwrap_or_default();
            let spec = TaskSpec {
                number,
                title: title(block.body).unwrap_or_else(|| tidy(name)),
                file: source.file.to_owned(),
                backpressure,
                line,
                depends_on: depends_at.iter().map(|(number, _)| *number).collect(),
                writes,
                frozen: frontmatter::frozen(source.bytes),
            };
            let task = Task { spec, status };
            Some(ParsedTask { task, number_at: source.spot(place), depends_at })
        }
        None => None,
    };
    TaskFile { parsed, problems: head.problems }
}

/// Reads the status of a task file and nothing else (req 8).
pub(super) fn status(source: CheckedFile<'_>) -> Result<TaskStatus, Problem> {
    let first = |mut problems: Vec<Problem>| problems.swap_remove(0);
    let (_, mut head) = Head::open(source).map_err(first)?;
    let status = head.status();
    if head.problems.is_empty() { Ok(status) } else { Err(first(head.problems)) }
}

/// Reads a plan; a head is welcome there and not needed (req 6).
pub(super) fn plan(source: CheckedFile<'_>) -> (ParsedPlan, Vec<Problem>) {
    let mut parsed = ParsedPlan {
        plan: PlanFile::default(),
        unit_at: source.spot(TOP),
        provider_at: None,
        depends_at: Vec::new(),
    };
    if !frontmatter::is_there(source.bytes) && source.bytes.len() <= frontmatter::MAX_FILE_BYTES {
        return (parsed, Vec::new());
    }
    let mut head = match Head::open(source) {
        Ok((_, head)) => head,
        Err(problems) => return (parsed, problems),
    };
    if let Some((unit, place)) = head.word("unit") {
        parsed.unit_at = source.spot(place);
        parsed.plan.unit = Some(unit);
    }
    if let Some((provider, place)) = head.word("provider") {
        parsed.provider_at = Some(source.spot(place));
        parsed.plan.provider = Some(provider);
    }
    for key in ORCH_KEYS {
        if let Some((text, _)) = head.text(key) {
            parsed.plan.orch.push((key.to_owned(), text));
        }
    }
    let mut seen = std::collections::HashSet::new();
    for node in head.list("depends_on", "[first-unit]") {
        match &node.value {
            YamlValue::Scalar { text, .. } if !text.trim().is_empty() && !is_nothing(&node) => {
                let id = text.trim().to_owned();
                if seen.insert(id.clone()) {
                    parsed.plan.depends_on.push(id);
                    parsed.depends_at.push(source.spot(node.place));
                }
            }
            _ => head.wrong(
                node.place,
                "an entry of `depends_on` must be the name of a unit",
                "write names of units, like `depends_on: [first-unit]`",
            ),
        }
    }
    (parsed, head.problems)
}

/// The first `# ` heading outside of code.
fn title(body: &str) -> Option<String> {
    let mut fence: Option<&str> = None;
    for line in body.lines() {
        let text = line.trim_start_matches(' ');
        if line.len() - text.len() > 3 {
            continue;
        }
        let mark = ['`', '~'].into_iter().find_map(|mark| {
            let length = text.len() - text.trim_start_matches(mark).len();
            (length >= 3).then(|| text.split_at(length))
        });
        match (fence, mark) {
            (None, Some((mark, _))) => fence = Some(mark),
            (Some(open), Some((mark, rest))) if mark.starts_with(open) && rest.trim().is_empty() => {
                fence = None;
            }
            (Some(_), _) => {}
            (None, None) => {
                let heading = text.strip_prefix('#').filter(|rest| rest.starts_with([' ', '\t']));
                if let Some(title) = heading.map(tidy).filter(|title| !title.is_empty()) {
                    return Some(title);
                }
            }
        }
    }
    None
}

/// One line of modest length in which everything can be seen.
fn tidy(text: &str) -> String {
    let text: String =
        text.chars().map(|c| if c == '\t' { ' ' } else { c }).filter(|c| !is_deceptive(*c)).collect();
    let text = text.trim();
    match text.char_indices().nth(MAX_TITLE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
