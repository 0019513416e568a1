//! `/ralph` and `/cancel-ralph`, as a user types them into a session (req 130).

use crate::text::nearest::nearest;

/// What the user typed, if it is a command for dacapo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlashCommand {
    /// `/ralph "task" [--max-iterations N] [--completion-promise TEXT] [--description TEXT] [--force]`
    Start {
        prompt: String,
        max_iterations: Option<u32>,
        completion_promise: Option<String>,
        description: Option<String>,
        force: bool,
    },
    /// `/cancel-ralph`
    Cancel,
}

/// Why the arguments of `/ralph` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    #[error("/ralph needs a task: /ralph \"what to do\" --max-iterations=25")]
    NoTask,
    #[error("`{0}` needs a value")]
    NoValue(&'static str),
    #[error("`--max-iterations={0}` is not a whole number of at least 1")]
    BadNumber(String),
    #[error("`{0}` is given twice")]
    Twice(&'static str),
    #[error("`{flag}` is no flag of /ralph{meant}; put the task into quotes if it belongs to the task")]
    UnknownFlag { flag: String, meant: String },
    #[error("a quote in the arguments of /ralph is never closed")]
    Unclosed,
}

const MAX_ITERATIONS: &str = "--max-iterations";
const COMPLETION_PROMISE: &str = "--completion-promise";
const DESCRIPTION: &str = "--description";
const FORCE: &str = "--force";

impl SlashCommand {
    /// The command in a prompt of the user; `None` if the prompt is for the agent.
    pub fn recognise(prompt: &str) -> Option<Result<Self, CommandError>> {
        let text = prompt.trim();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match word {
            "/ralph" | "/ralph:ralph" => Some(Self::parse(rest)),
            "/cancel-ralph" | "/ralph:cancel-ralph" => Some(Ok(Self::Cancel)),
            _ => None,
        }
    }

    /// The arguments of `/ralph`. Flags stand outside of quotes, before or behind the task, and never become part of it.
    pub fn parse(arguments: &str) -> Result<Self, CommandError> {
        let mut task = String::new();
        let (mut number, mut promise, mut description, mut force) = (None, None, None, None);
        let mut rest = arguments;
        while let Some((piece, after)) = next_piece(rest)? {
            rest = after;
            let Piece::Flag(word) = piece else {
                task.push_str(piece.text());
                continue;
            };
            let (flag, joined) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value)),
                None => (word, None),
            };
            let known = [MAX_ITERATIONS, COMPLETION_PROMISE, DESCRIPTION, FORCE];
            let Some(flag) = known.into_iter().find(|known| *known == flag) else {
                let meant = nearest(flag, &known).map(|near| format!("; did you mean `{near}`?"));
                return Err(CommandError::UnknownFlag {
                    flag: flag.to_owned(),
                    meant: meant.unwrap_or_default(),
                });
            };
            if flag == FORCE {
                set(&mut force, flag, String::new())?;
                continue;
            }
            let value = match joined {
                Some(value) => unquoted(value),
                None => {
                    let (value, after) = next_value(rest)?.ok_or(CommandError::NoValue(flag))?;
                    rest = after;
                    value
                }
            };
            if value.trim().is_empty() {
                return Err(CommandError::NoValue(flag));
            }
            match flag {
                MAX_ITERATIONS => set(&mut number, flag, value)?,
                COMPLETION_PROMISE => set(&mut promise, flag, value)?,
                _ => set(&mut description, flag, value)?,
            }
        }
        let prompt = unquoted(task.trim());
        if prompt.trim().is_empty() {
            return Err(CommandError::NoTask);
        }
        let max_iterations = number
            .map(|text| {
                let parsed = text.trim().parse::<u32>().ok().filter(|n| (1..=1_000_000_000).contains(n));
                parsed.ok_or(CommandError::BadNumber(text))
            })
            .transpose()?;
        let force = force.is_some();
        Ok(Self::Start { prompt, max_iterations, completion_promise: promise, description, force })
    }
}

fn set(place: &mut Option<String>, flag: &'static str, value: String) -> Result<(), CommandError> {
    match place.replace(value) {
        Some(_) => Err(CommandError::Twice(flag)),
        None => Ok(()),
    }
}

/// A part of the arguments.
enum Piece<'a> {
    /// White space, a word or a quoted text, as it stands there.
    Words(&'a str),
    /// A word that begins with `--`, with the quoted value that is joined to it.
    Flag(&'a str),
}

impl Piece<'_> {
    fn text(&self) -> &str {
        match self {
            Self::Words(text) | Self::Flag(text) => text,
        }
    }
}

/// What closes a quote that this opens. Some keyboards turn quotes into curly ones.
fn closing(open: char) -> Option<char> {
    match open {
        '"' | '\'' => Some(open),
        '“' => Some('”'),
        _ => None,
    }
}

/// The next part of the arguments and what follows it.
fn next_piece(text: &str) -> Result<Option<(Piece<'_>, &str)>, CommandError> {
    let Some(first) = text.chars().next() else { return Ok(None) };
    if first.is_whitespace() {
        let end = text.find(|c: char| !c.is_whitespace()).unwrap_or(text.len());
        return Ok(Some((Piece::Words(&text[..end]), &text[end..])));
    }
    let end = word_end(text)?;
    let word = &text[..end];
    let is_flag = word.starts_with("--") && word.len() > 2;
    let piece = if is_flag { Piece::Flag(word) } else { Piece::Words(word) };
    Ok(Some((piece, &text[end..])))
}

/// Where the word at the beginning of `text` ends: quotes hold white space together. Within a word an apostrophe is a letter.
fn word_end(text: &str) -> Result<usize, CommandError> {
    let mut quote: Option<char> = None;
    let mut before: Option<char> = None;
    for (at, c) in text.char_indices() {
        match quote {
            Some(close) if c == close && before != Some('\\') => quote = None,
            Some(_) => {}
            None if c.is_whitespace() => return Ok(at),
            None if matches!(before, None | Some('=')) => quote = closing(c),
            None => {}
        }
        before = Some(c);
    }
    if quote.is_some() { Err(CommandError::Unclosed) } else { Ok(text.len()) }
}

/// The value that stands behind a flag, and what follows it.
fn next_value(text: &str) -> Result<Option<(String, &str)>, CommandError> {
    let text = text.trim_start();
    let end = word_end(text)?;
    let word = &text[..end];
    if word.is_empty() || (word.starts_with("--") && word.len() > 2) {
        return Ok(None);
    }
    Ok(Some((unquoted(word), &text[end..])))
}

/// The text without the quotes around all of it.
fn unquoted(text: &str) -> String {
    let inner = text.chars().next().and_then(|open| {
        let close = closing(open)?;
        let inner = text.strip_prefix(open)?.strip_suffix(close)?;
        let is_whole = !inner.replace("\\\"", "").contains(close);
        is_whole.then(|| inner.replace(&format!("\\{close}"), &close.to_string()))
    });
    inner.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(
        prompt: &str,
        max_iterations: Option<u32>,
        promise: Option<&str>,
    ) -> Result<SlashCommand, CommandError> {
        Ok(SlashCommand::Start {
            prompt: prompt.to_owned(),
            max_iterations,
            completion_promise: promise.map(str::to_owned),
            description: None,
            force: false,
        })
    }

    #[test]
    fn both_forms_of_flags_are_understood_and_never_become_part_of_the_task() {
        // req 130
        let fix = "Fix all TypeScript errors in src/";
        let unknown = |flag: &str, meant: &str| {
            Err(CommandError::UnknownFlag { flag: flag.to_owned(), meant: meant.to_owned() })
        };
        for (arguments, expected) in [
            (
                r#""Fix all TypeScript errors in src/" --max-iterations=25 --completion-promise=ALL_FIXED"#,
                start(fix, Some(25), Some("ALL_FIXED")),
            ),
            (
                r#""Fix all TypeScript errors in src/" --max-iterations 25 --completion-promise ALL_FIXED"#,
                start(fix, Some(25), Some("ALL_FIXED")),
            ),
            (
                r#"--max-iterations 25 "Fix all TypeScript errors in src/" --completion-promise="ALL FIXED NOW""#,
                start(fix, Some(25), Some("ALL FIXED NOW")),
            ),
            (
                r#"Fix all TypeScript errors in src/ --completion-promise 'ALL FIXED'"#,
                start(fix, None, Some("ALL FIXED")),
            ),
            ("“Fix it” --max-iterations=3", start("Fix it", Some(3), None)),
            ("don't break it", start("don't break it", None, None)),
            (r#""say \"hi\" --max-iterations=3""#, start("say \"hi\" --max-iterations=3", None, None)),
            (r#""one" and "two""#, start(r#""one" and "two""#, None, None)),
            ("line one\n  line two\n", start("line one\n  line two", None, None)),
            ("a -- b - c", start("a -- b - c", None, None)),
            ("", Err(CommandError::NoTask)),
            (r#""  ""#, Err(CommandError::NoTask)),
            ("--max-iterations=5", Err(CommandError::NoTask)),
            ("x --max-iterations=0", Err(CommandError::BadNumber("0".into()))),
            ("x --max-iterations=-3", Err(CommandError::BadNumber("-3".into()))),
            ("x --max-iterations=ten", Err(CommandError::BadNumber("ten".into()))),
            ("x --max-iterations 1.5", Err(CommandError::BadNumber("1.5".into()))),
            ("x --max-iterations", Err(CommandError::NoValue("--max-iterations"))),
            ("x --max-iterations --force", Err(CommandError::NoValue("--max-iterations"))),
            ("x --completion-promise=", Err(CommandError::NoValue("--completion-promise"))),
            ("x --completion-promise=\"  \"", Err(CommandError::NoValue("--completion-promise"))),
            ("x --max-iterations=3 --max-iterations=4", Err(CommandError::Twice("--max-iterations"))),
            ("x --max-iteration=3", unknown("--max-iteration", "; did you mean `--max-iterations`?")),
            ("x --verbose", unknown("--verbose", "")),
            ("\"x", Err(CommandError::Unclosed)),
        ] {
            assert_eq!(SlashCommand::parse(arguments), expected, "{arguments}");
        }
    }

    #[test]
    fn only_the_commands_themselves_are_recognised() {
        // req 130, req 131
        for prompt in ["fix it", "/ralphs x", "please /ralph x", "/cancel-ralphs", "", "/"] {
            assert_eq!(SlashCommand::recognise(prompt), None, "{prompt}");
        }
        for prompt in ["/cancel-ralph", " /cancel-ralph \n", "/ralph:cancel-ralph"] {
            assert_eq!(SlashCommand::recognise(prompt), Some(Ok(SlashCommand::Cancel)), "{prompt}");
        }
        assert_eq!(SlashCommand::recognise("/ralph \"x\""), Some(start("x", None, None)));
        assert_eq!(SlashCommand::recognise("/ralph:ralph x"), Some(start("x", None, None)));
        assert_eq!(SlashCommand::recognise("/ralph"), Some(Err(CommandError::NoTask)));
    }
}
