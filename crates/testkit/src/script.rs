//! The language of the fake agent's scripts. Parsing only: performing the commands is the binary's business.
//!
//! Commands stand on lines of their own or are separated by `;`. `@N:` begins a section for iteration N, `@N+:`
//! for N and later ones, `@*:` for all; commands before the first section always run. `#` begins a comment line.
//!
//! A text is the rest of its command. Escapes (`\n \t \r \e \a \0 \\ \; \" \' \$`, `\ ` and `\xHH`) and variables
//! (`$NAME`, `${NAME}`) are replaced in it. A word in double quotes may hold `;` and spaces; in single quotes it is
//! also taken literally, which suits JSON and nested scripts. A quote opens a word only where a word begins, so
//! `say don't` needs no care.
//!
//! ```text
//! @1: say looking around; write notes.txt "first; second"
//! @2+: spawn 'sleep 100; touch late'; promise
//! ```

use std::{collections::VecDeque, ffi::OsString, fmt, os::unix::ffi::OsStringExt as _};

use rustix::process::Signal;

/// A parsed script: every command with the iterations it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    steps: Vec<(Iterations, Command)>,
}

/// Which iterations a section is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Iterations {
    /// `@*:`, and what stands before the first section.
    All,
    /// `@N:`
    Only(u32),
    /// `@N+:`
    From(u32),
}

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// Something an agent can find out about itself and write to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// What came on standard input, byte for byte.
    Prompt,
    /// `NAME=value` lines, sorted; line breaks in values are written `\n`.
    Environment,
    Directory,
    /// `FD -> target` lines.
    Descriptors,
    Pid,
    /// One argument a line; line breaks in them are written `\n`.
    Arguments,
}

/// What the agent is told to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// `say TEXT`, `err TEXT`: a line.
    Say(Stream, Text),
    /// `print TEXT`: no line break.
    Print(Text),
    /// `promise [TEXT]`: the tag on a line; without a text the loop's promise, else DONE.
    Promise(Option<Text>),
    /// `echo-prompt`: standard input to standard output.
    EchoPrompt,
    /// `read-prompt`: reads standard input to its end.
    ReadPrompt,
    /// `no-stdin`: as first command, keeps the agent from reading standard input at its start.
    NoStdin,
    /// `prompt-to`, `env-to`, `cwd-to`, `fds-to`, `pid-to`, `args-to FILE`: whole or not at all.
    Tell(Fact, Text),
    /// `write FILE TEXT`: replaces the file by a line, by nothing without a text. Makes parent folders.
    Write(Text, Option<Text>),
    /// `append FILE TEXT`: adds a line. Makes parent folders.
    Append(Text, Option<Text>),
    /// `touch FILE`: makes sure it exists. Makes parent folders.
    Touch(Text),
    /// `rm FILE`: a file or a folder with all in it; nothing if it is not there.
    Remove(Text),
    /// `mkdir DIR`: with its parents.
    MakeDir(Text),
    /// `done [TEXT]`: writes `$TASK_FOLDER/DONE`.
    Done(Option<Text>),
    /// `wait-marker [TEXT]`: writes `$TASK_FOLDER/WAIT_WITHOUT_RESTART`.
    WaitMarker(Option<Text>),
    /// `sleep MS`
    Sleep(u64),
    /// `hang`: for ever, without using the processor.
    Hang,
    /// `spin MS`: uses the processor.
    Spin(u64),
    /// `exit N`
    Exit(u8),
    /// `kill SIG`: itself.
    Kill(Signal),
    /// `ignore SIG`
    Ignore(Signal),
    /// `on SIG SCRIPT` or `on-term SCRIPT`: performed in a thread of its own each time the signal comes.
    On(Signal, Text),
    /// `spawn SCRIPT`: a child in the same process group holding the same output, not waited for.
    Spawn(Text),
    /// `daemonize [hold] SCRIPT`: an orphan in a session of its own; with `hold` it keeps the output open.
    Daemonize {
        /// Whether it keeps the agent's output streams.
        hold: bool,
        script: Text,
    },
    /// `storm N`: N daemons that hang.
    Storm(u32),
    /// `forkchain N`: N generations of processes, each starting the next and ending; the last one hangs.
    ForkChain(u32),
    /// `flood-out BYTES`, `flood-err BYTES`: lines of 80 bytes as fast as they go.
    Flood(Stream, u64),
    /// `line BYTES`: one line that long, and its line break.
    Line(u64),
    /// `random BYTES SEED`: what [`crate::noise::bytes`] gives for them.
    Random { bytes: u64, seed: u64 },
    /// `lines N`: tiny numbered lines.
    Lines(u64),
    /// `utf8-split`: a line of multi-byte characters, written byte by byte.
    Utf8Split,
    /// `ansi`: coloured lines that look like a promise and are none.
    Ansi,
    /// `close-out`, `close-err`: the stream ends while the agent goes on.
    Close(Stream),
    /// `run ARGS…`: a program, waited for, its exit code ignored.
    Run(Vec<Text>),
    /// `sh COMMAND`: as `run`, by `sh -c`; only a word in double quotes is expanded before the shell sees it.
    Shell(Text),
    /// `wait-file FILE`: until it exists.
    WaitFile(Text),
    /// `ask FILE LINE`: sends the line to the socket in `DACAPO_SOCKET` and writes the answer to the file.
    Ask(Text, Text),
    /// `crowd N`: connects N times to that socket with a third each of silence, half a line and nonsense, and stays.
    Crowd(u64),
}

/// A value of a command, before the environment's part in it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Bytes(Vec<u8>),
    Variable(String),
}

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The line in the script, counted from 1.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "script line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ScriptError {}

impl Script {
    /// Reads a script; the commands of all its sections are checked.
    pub fn parse(source: &str) -> Result<Self, ScriptError> {
        let mut steps = Vec::new();
        let mut iterations = Iterations::All;
        for (line, mut statement) in statements(source) {
            let at = |message| ScriptError { line, message };
            if let Some(header) = statement.strip_prefix('@') {
                let (name, rest) =
                    header.split_once(':').ok_or_else(|| at(format!("no `:` after `@{header}`")))?;
                iterations = section(name).map_err(at)?;
                statement = rest.trim();
            }
            if !statement.is_empty() {
                steps.push((iterations, command(statement).map_err(at)?));
            }
        }
        Ok(Self { steps })
    }

    /// The commands for one iteration, in order.
    pub fn commands(&self, iteration: u32) -> impl Iterator<Item = &Command> {
        self.steps.iter().filter(move |(iterations, _)| iterations.contain(iteration)).map(|(_, c)| c)
    }
}

impl Iterations {
    fn contain(self, iteration: u32) -> bool {
        match self {
            Self::All => true,
            Self::Only(n) => iteration == n,
            Self::From(n) => iteration >= n,
        }
    }
}

impl Text {
    /// The bytes it stands for; a variable that is not set is empty.
    pub fn expand(&self, variable: impl Fn(&str) -> Option<OsString>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Bytes(b) => bytes.extend_from_slice(b),
                Piece::Variable(name) => {
                    bytes.extend(variable(name).map(OsString::into_vec).unwrap_or_default());
                }
            }
        }
        bytes
    }

    fn literal(text: &str) -> Self {
        Self(vec![Piece::Bytes(text.as_bytes().to_vec())])
    }

    /// Replaces escapes and finds variables.
    fn parse(source: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut bytes = Vec::new();
        let mut chars = source.chars().collect::<VecDeque<_>>();
        while let Some(c) = chars.pop_front() {
            match c {
                '\\' => bytes.extend(escape(&mut chars)?),
                '$' => match variable_name(&mut chars)? {
                    None => bytes.push(b'$'),
                    Some(name) => {
                        if !bytes.is_empty() {
                            pieces.push(Piece::Bytes(std::mem::take(&mut bytes)));
                        }
                        pieces.push(Piece::Variable(name));
                    }
                },
                c => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        if !bytes.is_empty() {
            pieces.push(Piece::Bytes(bytes));
        }
        Ok(Self(pieces))
    }
}

fn escape(chars: &mut VecDeque<char>) -> Result<Vec<u8>, String> {
    let byte = match chars.pop_front() {
        Some('n') => b'\n',
        Some('t') => b'\t',
        Some('r') => b'\r',
        Some('e') => 0x1b,
        Some('a') => 0x07,
        Some('0') => 0,
        Some(c @ ('\\' | ';' | '"' | '\'' | '$' | ' ')) => c as u8,
        Some('x') => {
            let digits: String = chars.drain(..chars.len().min(2)).collect();
            u8::from_str_radix(&digits, 16).map_err(|_| format!("`\\x{digits}` is no byte"))?
        }
        Some(c) => return Err(format!("unknown escape `\\{c}`")),
        None => return Err("a `\\` at the end".to_owned()),
    };
    Ok(vec![byte])
}

/// The name behind a `$`, if one follows.
fn variable_name(chars: &mut VecDeque<char>) -> Result<Option<String>, String> {
    let name_length =
        |chars: &VecDeque<char>| chars.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').count();
    if chars.front() == Some(&'{') {
        chars.pop_front();
        let name: String = chars.drain(..name_length(chars)).collect();
        return match chars.pop_front() {
            Some('}') if !name.is_empty() => Ok(Some(name)),
            _ => Err("`${` without a name and a `}`".to_owned()),
        };
    }
    match chars.front() {
        Some(c) if c.is_ascii_alphabetic() || *c == '_' => {
            Ok(Some(chars.drain(..name_length(chars)).collect()))
        }
        _ => Ok(None),
    }
}

/// Splits a script into its statements, each with its line number.
fn statements(source: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in source.lines().enumerate() {
        let mut start = 0;
        let mut position = 0;
        let mut word_begins = true;
        while let Some(c) = line[position..].chars().next() {
            let rest = &line[position..];
            let mut step = c.len_utf8();
            match c {
                '#' if line[start..position].trim().is_empty() => {
                    start = line.len();
                    break;
                }
                '\'' | '"' if word_begins => step = quoted_length(rest).unwrap_or(1),
                '\\' => step += rest[1..].chars().next().map_or(0, char::len_utf8),
                ';' => {
                    found.push((index + 1, line[start..position].trim()));
                    start = position + 1;
                }
                _ => {}
            }
            word_begins = c.is_whitespace() || c == ';';
            position += step;
        }
        found.push((index + 1, line[start..].trim()));
    }
    found.retain(|(_, statement)| !statement.is_empty());
    found
}

/// How long the quoted word at the beginning of `text` is, if there is one: the closing quote must end a word.
fn quoted_length(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let mut escaped = false;
    for (position, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' && quote == '"' {
            escaped = true;
        } else if c == quote {
            let end = position + 1;
            if text[end..].chars().next().is_none_or(|next| next.is_whitespace() || next == ';') {
                return Some(end);
            }
        }
    }
    None
}

fn section(name: &str) -> Result<Iterations, String> {
    let number = |digits: &str| {
        digits.parse().ok().filter(|n| *n > 0).ok_or_else(|| format!("no such section: `@{name}:`"))
    };
    match (name, name.strip_suffix('+')) {
        ("*", _) => Ok(Iterations::All),
        (_, Some(digits)) => number(digits).map(Iterations::From),
        (digits, None) => number(digits).map(Iterations::Only),
    }
}

fn command(statement: &str) -> Result<Command, String> {
    let (name, rest) = statement.split_once(char::is_whitespace).unwrap_or((statement, ""));
    let mut args = Arguments { name, rest: rest.trim() };
    let command = match name {
        "say" => Command::Say(Stream::Out, args.text_or_empty()?),
        "err" => Command::Say(Stream::Err, args.text_or_empty()?),
        "print" => Command::Print(args.text_or_empty()?),
        "promise" => Command::Promise(args.text()?),
        "echo-prompt" => Command::EchoPrompt,
        "read-prompt" => Command::ReadPrompt,
        "no-stdin" => Command::NoStdin,
        "prompt-to" => Command::Tell(Fact::Prompt, args.word()?),
        "env-to" => Command::Tell(Fact::Environment, args.word()?),
        "cwd-to" => Command::Tell(Fact::Directory, args.word()?),
        "fds-to" => Command::Tell(Fact::Descriptors, args.word()?),
        "pid-to" => Command::Tell(Fact::Pid, args.word()?),
        "args-to" => Command::Tell(Fact::Arguments, args.word()?),
        "write" => Command::Write(args.word()?, args.text()?),
        "append" => Command::Append(args.word()?, args.text()?),
        "touch" => Command::Touch(args.word()?),
        "rm" => Command::Remove(args.word()?),
        "mkdir" => Command::MakeDir(args.word()?),
        "done" => Command::Done(args.text()?),
        "wait-marker" => Command::WaitMarker(args.text()?),
        "sleep" => Command::Sleep(args.number()?),
        "hang" => Command::Hang,
        "spin" => Command::Spin(args.number()?),
        "exit" => Command::Exit(args.number()?),
        "kill" => Command::Kill(args.signal()?),
        "ignore" => Command::Ignore(args.signal()?),
        "on" => Command::On(args.signal()?, args.script()?),
        "on-term" => Command::On(Signal::TERM, args.script()?),
        "spawn" => Command::Spawn(args.script()?),
        "daemonize" => Command::Daemonize { hold: args.keyword("hold"), script: args.script()? },
        "storm" => Command::Storm(args.number()?),
        "forkchain" => Command::ForkChain(args.number()?),
        "flood-out" => Command::Flood(Stream::Out, args.size()?),
        "flood-err" => Command::Flood(Stream::Err, args.size()?),
        "line" => Command::Line(args.size()?),
        "random" => Command::Random { bytes: args.size()?, seed: args.number()? },
        "lines" => Command::Lines(args.size()?),
        "utf8-split" => Command::Utf8Split,
        "ansi" => Command::Ansi,
        "close-out" => Command::Close(Stream::Out),
        "close-err" => Command::Close(Stream::Err),
        "run" => Command::Run(args.words()?),
        "sh" => Command::Shell(args.shell()?),
        "wait-file" => Command::WaitFile(args.word()?),
        "ask" => Command::Ask(args.word()?, args.text_or_empty()?),
        "crowd" => Command::Crowd(args.number()?),
        _ => return Err(format!("unknown command `{name}`")),
    };
    if args.rest.is_empty() { Ok(command) } else { Err(format!("`{name}`: `{}` is too much", args.rest)) }
}

/// What is left of a command.
struct Arguments<'a> {
    name: &'a str,
    rest: &'a str,
}

impl<'a> Arguments<'a> {
    /// The next word as it is written, and where it ends.
    fn take_raw(&mut self) -> Option<&'a str> {
        let length = quoted_length(self.rest).unwrap_or_else(|| {
            let mut escaped = false;
            let end = self.rest.find(|c: char| {
                let ends = c.is_whitespace() && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.unwrap_or(self.rest.len())
        });
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest.trim_start();
        (!word.is_empty()).then_some(word)
    }

    fn missing(&self, what: &str) -> String {
        format!("`{}` needs {what}", self.name)
    }

    fn word(&mut self) -> Result<Text, String> {
        let raw = self.take_raw().ok_or_else(|| self.missing("a value"))?;
        unquote(raw)
    }

    fn words(&mut self) -> Result<Vec<Text>, String> {
        let mut words = vec![self.word()?];
        while !self.rest.is_empty() {
            words.push(self.word()?);
        }
        Ok(words)
    }

    /// All that is left; one quoted word loses its quotes.
    fn text(&mut self) -> Result<Option<Text>, String> {
        let rest = std::mem::take(&mut self.rest);
        (!rest.is_empty()).then(|| unquote(rest)).transpose()
    }

    fn text_or_empty(&mut self) -> Result<Text, String> {
        Ok(self.text()?.unwrap_or(Text(Vec::new())))
    }

    /// All that is left, for a shell to interpret.
    fn shell(&mut self) -> Result<Text, String> {
        if self.rest.is_empty() {
            return Err(self.missing("a command"));
        }
        match quoted_length(self.rest) == Some(self.rest.len()) {
            true => self.text_or_empty(),
            false => Ok(Text::literal(std::mem::take(&mut self.rest))),
        }
    }

    /// All that is left, as a script; its mistakes show now unless it depends on a variable.
    fn script(&mut self) -> Result<Text, String> {
        let text = self.text()?.ok_or_else(|| self.missing("a script"))?;
        if let [Piece::Bytes(bytes)] = text.0.as_slice() {
            Script::parse(&String::from_utf8_lossy(bytes)).map_err(|e| format!("in `{}`: {e}", self.name))?;
        }
        Ok(text)
    }

    fn keyword(&mut self, keyword: &str) -> bool {
        match self.rest.split_once(char::is_whitespace) {
            Some((word, rest)) if word == keyword => {
                self.rest = rest.trim_start();
                true
            }
            _ => false,
        }
    }

    fn number<N: std::str::FromStr>(&mut self) -> Result<N, String> {
        let raw = self.take_raw().ok_or_else(|| self.missing("a number"))?;
        raw.parse().map_err(|_| format!("`{}`: `{raw}` is no number it can use", self.name))
    }

    /// A number with an optional `k`, `m` or `g`.
    fn size(&mut self) -> Result<u64, String> {
        let raw = self.take_raw().ok_or_else(|| self.missing("a size"))?;
        let (digits, shift) = match raw.chars().last() {
            Some('k') => (&raw[..raw.len() - 1], 10),
            Some('m') => (&raw[..raw.len() - 1], 20),
            Some('g') => (&raw[..raw.len() - 1], 30),
            _ => (raw, 0),
        };
        let number: Option<u64> = digits.parse().ok();
        number
            .and_then(|n| n.checked_mul(1 << shift))
            .ok_or_else(|| format!("`{}`: `{raw}` is no size", self.name))
    }

    fn signal(&mut self) -> Result<Signal, String> {
        let raw = self.take_raw().ok_or_else(|| self.missing("a signal"))?;
        Ok(match raw.strip_prefix("SIG").unwrap_or(raw) {
            "TERM" => Signal::TERM,
            "INT" => Signal::INT,
            "HUP" => Signal::HUP,
            "QUIT" => Signal::QUIT,
            "KILL" => Signal::KILL,
            "STOP" => Signal::STOP,
            "TSTP" => Signal::TSTP,
            "CONT" => Signal::CONT,
            "ABRT" => Signal::ABORT,
            "SEGV" => Signal::SEGV,
            "ALRM" => Signal::ALARM,
            "USR1" => Signal::USR1,
            "USR2" => Signal::USR2,
            _ => return Err(format!("unknown signal `{raw}`")),
        })
    }
}

fn unquote(raw: &str) -> Result<Text, String> {
    if quoted_length(raw) != Some(raw.len()) {
        return Text::parse(raw);
    }
    let inner = &raw[1..raw.len() - 1];
    if raw.starts_with('\'') { Ok(Text::literal(inner)) } else { Text::parse(inner) }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
