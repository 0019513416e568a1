//! Command files: prompts in Markdown files of their own, named by steps.

use std::fmt;

use serde::Serialize;

/// Where command files are looked for, in this order, before the folder that the user has configured.
pub const FOLDERS: [&str; 3] = [".dacapo/commands", ".archon/commands", ".archon/commands/defaults"];
/// The largest command file that is read.
pub const MAX_BYTES: usize = 256 * 1024;

/// Why a command file cannot be used (req 144).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum CommandFailure {
    /// The name could lead out of the folders of commands.
    InvalidName {
        name: String,
    },
    NotFound {
        name: String,
        searched: Vec<String>,
    },
    EmptyFile {
        file: String,
    },
    PermissionDenied {
        file: String,
    },
    ReadError {
        file: String,
        error: String,
    },
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidName { name } => {
                write!(f, "`{}` cannot be the name of a command", crate::yaml::short(name))
            }
            Self::NotFound { name, searched } => {
                let searched: Vec<String> = searched.iter().map(|folder| format!("`{folder}`")).collect();
                write!(f, "there is no command `{name}`: no `{name}.md` in {}", searched.join(", "))
            }
            Self::EmptyFile { file } => write!(f, "the command file `{file}` is empty"),
            Self::PermissionDenied { file } => write!(f, "the command file `{file}` may not be read"),
            Self::ReadError { file, error } => write!(f, "the command file `{file}` cannot be read: {error}"),
        }
    }
}

impl CommandFailure {
    /// What to do about it.
    pub fn fix(&self) -> &'static str {
        match self {
            Self::InvalidName { .. } => {
                "use letters, digits, `.`, `_` and `-`, without `..`, like `command: plan`"
            }
            Self::NotFound { .. } => "write the file, or name another command",
            Self::EmptyFile { .. } => "write into it what the agent is asked",
            Self::PermissionDenied { .. } => "look at its permissions",
            Self::ReadError { .. } => "put a regular text file there",
        }
    }
}

/// Whether a name is one: no path, nothing hidden, nothing that a program could take for a flag.
pub fn check_name(name: &str) -> Result<(), CommandFailure> {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let is_safe = name.len() <= 100
        && name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.bytes().all(is_word)
        && !name.contains("..");
    if is_safe { Ok(()) } else { Err(CommandFailure::InvalidName { name: name.to_owned() }) }
}

/// A command file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandFile {
    /// From the top of the repository.
    pub file: String,
    pub text: String,
}

impl CommandFile {
    /// What the bytes of a file are worth.
    pub fn of(file: &str, bytes: Vec<u8>) -> Result<Self, CommandFailure> {
        let error =
            |error: &str| CommandFailure::ReadError { file: file.to_owned(), error: error.to_owned() };
        if bytes.len() > MAX_BYTES {
            return Err(error(&format!("larger than {} KiB", MAX_BYTES / 1024)));
        }
        let text = String::from_utf8(bytes).map_err(|_| error("not UTF-8"))?;
        if text.contains('\0') {
            return Err(error("it holds a NUL character"));
        }
        let text = text.trim_start_matches('\u{feff}').to_owned();
        if text.trim().is_empty() {
            return Err(CommandFailure::EmptyFile { file: file.to_owned() });
        }
        Ok(Self { file: file.to_owned(), text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_lead_elsewhere_is_none() {
        // req 144, fault I5
        for name in ["plan", "ralph-iterate", "a.b", "_x", "A1"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let long = "x".repeat(101);
        for name in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a\\b",
            ".hidden",
            "a..b",
            "-rf",
            "a b",
            "a\0b",
            "%2e%2e",
            "ä",
            "~",
            "$x",
            long.as_str(),
        ] {
            assert_eq!(
                check_name(name),
                Err(CommandFailure::InvalidName { name: name.to_owned() }),
                "{name}"
            );
        }
    }

    #[test]
    fn each_failure_has_words_of_its_own() {
        // req 144
        let file = || "c/x.md".to_owned();
        let all = [
            CommandFailure::InvalidName { name: "../x".to_owned() },
            CommandFailure::NotFound { name: "x".to_owned(), searched: vec!["a".to_owned(), "b".to_owned()] },
            CommandFailure::EmptyFile { file: file() },
            CommandFailure::PermissionDenied { file: file() },
            CommandFailure::ReadError { file: file(), error: "not UTF-8".to_owned() },
        ];
        let words: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(
            words,
            [
                "`../x` cannot be the name of a command",
                "there is no command `x`: no `x.md` in `a`, `b`",
                "the command file `c/x.md` is empty",
                "the command file `c/x.md` may not be read",
                "the command file `c/x.md` cannot be read: not UTF-8",
            ]
        );
    }

    #[test]
    fn only_text_is_a_command() {
        // req 144
        let of = |bytes: &[u8]| CommandFile::of("x.md", bytes.to_vec()).map(|file| file.text);
        let failed =
            |error: &str| Err(CommandFailure::ReadError { file: "x.md".to_owned(), error: error.to_owned() });
        assert_eq!(of(b"\xef\xbb\xbfDo it\n"), Ok("Do it\n".to_owned()));
        assert_eq!(of(b" \n\t"), Err(CommandFailure::EmptyFile { file: "x.md".to_owned() }));
        assert_eq!(of(b"\xff"), failed("not UTF-8"));
        assert_eq!(of(b"a\0b"), failed("it holds a NUL character"));
        assert_eq!(of(&vec![b'x'; MAX_BYTES + 1]), failed("larger than 256 KiB"));
    }
}
