//! Tasks in Markdown: a checklist, or a plan that writes its tasks as a checklist, as headings or as a list.

use super::unit::{TaskDraft, TaskList};
use crate::{
    problem::{CheckedFile, Problem},
    yaml::TextPlace,
};

/// Words in front of a colon behind which a command in backticks proves an item.
const CHECK_WORDS: [&str; 6] = ["backpressure", "verify", "verification", "validate", "check", "test"];
/// Words that begin the heading of a task.
const TASK_WORDS: [&str; 6] = ["task", "step", "story", "item", "phase", "milestone"];

/// A line of a file, with what Markdown makes of it.
struct MarkdownLine<'a> {
    number: u32,
    text: &'a str,
    indent: usize,
    kind: MarkdownLineKind<'a>,
}

#[derive(Clone, Copy)]
enum MarkdownLineKind<'a> {
    Blank,
    /// Within a code block, or the fence of one.
    Code,
    Heading {
        level: usize,
        text: &'a str,
    },
    /// An entry of a list, with the letter of its checkbox.
    Entry {
        mark: Option<char>,
        text: &'a str,
    },
    Text,
}

fn lines(text: &str) -> Vec<MarkdownLine<'_>> {
    let mut fence: Option<(char, usize)> = None;
    let mut lines = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let rest = text.trim_start_matches([' ', '\t']);
        let indent = text[..text.len() - rest.len()].chars().map(|c| if c == '\t' { 4 } else { 1 }).sum();
        let run = |mark: char| rest.len() - rest.trim_start_matches(mark).len();
        let opens = ['`', '~'].into_iter().map(|mark| (mark, run(mark))).find(|(_, length)| *length >= 3);
        let kind = match (fence, opens) {
            (Some((mark, length)), _) => {
                if run(mark) >= length && rest.trim_matches(mark).trim().is_empty() {
                    fence = None;
                }
                MarkdownLineKind::Code
            }
            (None, Some(open)) => {
                fence = Some(open);
                MarkdownLineKind::Code
            }
            (None, None) => kind_of(rest),
        };
        lines.push(MarkdownLine { number: u32::try_from(index + 1).unwrap_or(u32::MAX), text, indent, kind });
    }
    lines
}

fn kind_of(rest: &str) -> MarkdownLineKind<'_> {
    if rest.trim().is_empty() {
        return MarkdownLineKind::Blank;
    }
    let level = rest.len() - rest.trim_start_matches('#').len();
    if (1..=6).contains(&level) && rest[level..].starts_with([' ', '\t']) {
        return MarkdownLineKind::Heading {
            level,
            text: rest[level..].trim().trim_end_matches('#').trim_end(),
        };
    }
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let behind = match rest.as_bytes().first() {
        Some(b'-' | b'*' | b'+') => &rest[1..],
        _ if (1..=9).contains(&digits) => match rest[digits..].strip_prefix(['.', ')']) {
            Some(behind) => behind,
            None => return MarkdownLineKind::Text,
        },
        _ => return MarkdownLineKind::Text,
    };
    if !behind.starts_with([' ', '\t']) {
        return MarkdownLineKind::Text;
    }
    let text = behind.trim();
    let mut chars = text.chars();
    if let (Some('['), Some(mark), Some(']'), Some(' ' | '\t') | None) =
        (chars.next(), chars.next(), chars.next(), chars.next())
    {
        return MarkdownLineKind::Entry { mark: Some(mark), text: chars.as_str().trim() };
    }
    MarkdownLineKind::Entry { mark: None, text }
}

/// Whether a file has an item with a checkbox.
pub(super) fn has_checklist(text: &str) -> bool {
    lines(text).iter().any(|line| matches!(line.kind, MarkdownLineKind::Entry { mark: Some(_), .. }))
}

pub(super) fn checklist(source: CheckedFile<'_>, text: &str) -> Result<TaskList, Vec<Problem>> {
    let lines = lines(text);
    let list = entries(source, &lines, |mark| mark.is_some());
    if list.tasks.is_empty() {
        let what = "holds no checklist: no line is like `- [ ] add a login page`";
        let fix = "`--kind plan` takes the headings or list items of the file as tasks";
        return Err(vec![Problem::of_file(source.file, what, fix)]);
    }
    Ok(list)
}

/// The tasks of a plan: its checklist, else its headings like `Task 2: …`, else the entries of its lists.
pub(super) fn plan(source: CheckedFile<'_>, text: &str) -> Result<TaskList, Vec<Problem>> {
    let lines = lines(text);
    let list = [
        entries(source, &lines, |mark| mark.is_some()),
        headings(source, &lines),
        entries(source, &lines, |_| true),
    ]
    .into_iter()
    .find(|list| !list.tasks.is_empty());
    list.ok_or_else(|| {
        let what = "there are no tasks in it";
        let fix = "write each task as `- [ ] what is to be done`, or below a heading like `## Task 1: …`";
        vec![source.problem(TextPlace { line: 1, column: 1 }, what, fix)]
    })
}

/// An entry of a list while it is read.
struct OpenEntry<'a> {
    draft: TaskDraft,
    indent: usize,
    /// The lines below it, each with its indentation.
    body: Vec<(usize, &'a str)>,
}

/// The outermost entries of lists that `is_task` takes; what is indented below one belongs to it.
fn entries(
    source: CheckedFile<'_>,
    lines: &[MarkdownLine<'_>],
    is_task: impl Fn(Option<char>) -> bool,
) -> TaskList {
    let mut list = new_list(source, lines);
    let mut about: Vec<&str> = Vec::new();
    let mut section: Option<&str> = None;
    let mut open: Option<OpenEntry<'_>> = None;
    let finish = |open: &mut Option<OpenEntry<'_>>, tasks: &mut Vec<TaskDraft>| {
        if let Some(OpenEntry { draft, body, .. }) = open.take() {
            tasks.push(with_body(draft, &body));
        }
    };
    for line in lines {
        let is_below = open.as_ref().is_some_and(|open| line.indent > open.indent);
        match line.kind {
            MarkdownLineKind::Entry { mark, text } if is_task(mark) && !is_below => {
                finish(&mut open, &mut list.tasks);
                let (title, is_struck) = title_of(text);
                if title.is_empty() {
                    continue;
                }
                let is_done = matches!(mark, Some('x' | 'X' | '-' | '✓' | '✔')) || is_struck;
                let body = section.map(|section| format!("Part of: {section}")).unwrap_or_default();
                let draft = TaskDraft { title, body, is_done, line: line.number, ..TaskDraft::default() };
                open = Some(OpenEntry { draft, indent: line.indent, body: Vec::new() });
            }
            MarkdownLineKind::Heading { level, text } if !is_below => {
                finish(&mut open, &mut list.tasks);
                section = (level > 1).then_some(text);
                if level > 1 || text != list.title {
                    about.push(line.text);
                }
            }
            MarkdownLineKind::Blank => match &mut open {
                Some(open) => open.body.push((0, "")),
                None => about.push(""),
            },
            _ if is_below => {
                if let Some(open) = &mut open {
                    open.body.push((line.indent, line.text));
                }
            }
            _ => {
                finish(&mut open, &mut list.tasks);
                about.push(line.text);
            }
        }
    }
    finish(&mut open, &mut list.tasks);
    list.about = prose(&about);
    list
}

/// Headings like `## Task 2: …` or `### 2. …`, each with the text below it; of nested ones the innermost.
fn headings(source: CheckedFile<'_>, lines: &[MarkdownLine<'_>]) -> TaskList {
    let mut list = new_list(source, lines);
    let found: Vec<(usize, usize, &str)> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| match line.kind {
            MarkdownLineKind::Heading { level, text } => Some((at, level, text)),
            _ => None,
        })
        .collect();
    let end_of = |index: usize| {
        let level = found[index].1;
        let next = found[index + 1..].iter().find(|(_, other, _)| *other <= level);
        next.map_or(lines.len(), |(at, _, _)| *at)
    };
    let mut first = lines.len();
    for (index, (at, _, text)) in found.iter().enumerate() {
        let end = end_of(index);
        let has_inner = found[index + 1..]
            .iter()
            .take_while(|(inner, _, _)| *inner < end)
            .any(|(_, _, text)| task_heading(text).is_some());
        let Some(title) = task_heading(text).filter(|_| !has_inner) else { continue };
        first = first.min(*at);
        let (title, is_struck) = title_of(title);
        let lower = text.to_lowercase();
        let is_done = is_struck || text.contains('✅') || lower.contains("[x]") || lower.ends_with("(done)");
        let title = title.replace('✅', "").replace("[x]", "").replace("[ ]", "").trim().to_owned();
        if title.is_empty() {
            continue;
        }
        let body: Vec<(usize, &str)> =
            lines[at + 1..end].iter().map(|line| (line.indent, line.text)).collect();
        let draft = TaskDraft { title, is_done, line: lines[*at].number, ..TaskDraft::default() };
        list.tasks.push(with_body(draft, &body));
    }
    let is_title = |line: &&MarkdownLine<'_>| matches!(line.kind, MarkdownLineKind::Heading { level: 1, text } if text == list.title);
    let about: Vec<&str> =
        lines[..first].iter().filter(|line| !is_title(line)).map(|line| line.text).collect();
    list.about = prose(&about);
    list
}

/// The title behind `Task 2:`, `2.`, `Step 1.3 -` and the like.
fn task_heading(text: &str) -> Option<&str> {
    let text = text.trim_start_matches(['*', '✅', ' ']);
    let text = text.strip_prefix("[ ]").or_else(|| text.strip_prefix("[x]")).unwrap_or(text).trim_start();
    let word = text.split([' ', ':']).next().unwrap_or_default();
    let is_word = TASK_WORDS.contains(&word.to_lowercase().as_str());
    let rest = if is_word { text[word.len()..].trim_start() } else { text };
    let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let behind = &rest[number..];
    let has_mark = behind.starts_with([':', ')', '-', '–', '—']) || rest[..number].ends_with('.');
    let is_task = number > 0 && rest.starts_with(|c: char| c.is_ascii_digit());
    if !is_task || !(has_mark || behind.starts_with(' ')) || !(is_word || has_mark) {
        return None;
    }
    Some(behind.trim_start_matches([':', ')', '-', '–', '—', ' ']).trim())
}

fn new_list(source: CheckedFile<'_>, lines: &[MarkdownLine<'_>]) -> TaskList {
    let name = super::file_name(source.file);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem).trim_start_matches('.').to_owned();
    let heading = lines.iter().find_map(|line| match line.kind {
        MarkdownLineKind::Heading { level: 1, text } => Some(text.to_owned()),
        _ => None,
    });
    TaskList { title: heading.unwrap_or_else(|| stem.clone()), name: stem, ..TaskList::default() }
}

/// The words of a title, and whether they are struck through.
fn title_of(text: &str) -> (String, bool) {
    let text = text.trim().replace("**", "").replace("__", "");
    let text = text.trim();
    match text.strip_prefix("~~").and_then(|inner| inner.strip_suffix("~~")) {
        Some(inner) => (inner.trim().to_owned(), true),
        None => (text.to_owned(), false),
    }
}

/// Text that belongs to no task. The title stands elsewhere, and headings with nothing below them go.
fn prose(lines: &[&str]) -> String {
    let is_heading = |line: &str| matches!(kind_of(line.trim_start()), MarkdownLineKind::Heading { .. });
    let mut kept: Vec<&str> = Vec::new();
    for line in lines {
        if is_heading(line) {
            while kept.last().is_some_and(|line| line.trim().is_empty() || is_heading(line)) {
                kept.pop();
            }
            if !kept.is_empty() {
                kept.push("");
            }
        }
        if !(line.trim().is_empty() && kept.last().is_none_or(|line| line.is_empty())) {
            kept.push(line);
        }
    }
    while kept.last().is_some_and(|line| line.trim().is_empty() || is_heading(line)) {
        kept.pop();
    }
    kept.join("\n")
}

/// The text below a task, moved to the left, and the command in it that proves the task.
fn with_body(mut draft: TaskDraft, lines: &[(usize, &str)]) -> TaskDraft {
    let least = lines
        .iter()
        .filter(|(indent, text)| *indent > 0 && !text.trim().is_empty())
        .map(|(indent, _)| *indent)
        .min();
    let mut text = String::new();
    for (indent, line) in lines {
        let cut = least.unwrap_or(0).min(*indent);
        let mut columns = 0;
        let rest = line.trim_start_matches(|c| {
            let is_cut = matches!(c, ' ' | '\t') && columns < cut;
            columns += if c == '\t' { 4 } else { 1 };
            is_cut
        });
        text.push_str(rest.trim_end());
        text.push('\n');
        if draft.check.is_none() {
            draft.check = check_in(rest);
        }
    }
    draft.body = format!("{}\n\n{}", draft.body, text.trim_matches('\n')).trim().to_owned();
    draft
}

/// The command of a line like ``- Verify: `npm test` ``: all that stands behind the colon, in backticks.
fn check_in(line: &str) -> Option<String> {
    let text = line.trim().trim_start_matches(['-', '*', '+', ' ']);
    let text = text.strip_prefix("[ ]").unwrap_or(text).trim_start();
    let (word, rest) = text.split_once(':')?;
    let word = word.trim_matches(['*', '_', ' ', '`']).to_lowercase();
    if !CHECK_WORDS.contains(&word.as_str()) {
        return None;
    }
    let command = rest.trim_start_matches(['*', ' ']).trim_end().strip_prefix('`')?.strip_suffix('`')?.trim();
    (!command.is_empty() && !command.contains('`')).then(|| command.to_owned())
}
