//! Which files of the repository a gate's command runs.
//!
//! An agent that may rewrite the script a gate runs can pass any gate, so these files are protected
//! without being asked for. Only what is *run* is named: a program given by its path, the script given
//! to an interpreter, the file of tests given to a test runner, the makefile behind `make`. What a
//! command merely reads (`grep -q done notes.txt`) is often the very work to be done, and is not.
//!
//! This reads words as a shell does, but runs nothing: what a variable or a substitution comes to is
//! not known, here-documents are read as if they were commands, and what a script runs in turn is not
//! followed. A path named here need not exist, and one that is a directory should be passed over.

mod programs;
mod shell_words;

use programs::Program;
use shell_words::{Piece, Word};

/// How deep commands within quoted commands are followed.
const MAX_DEPTH: usize = 4;

/// The files that `command` might run, relative to the root it is started in, in order, each once.
///
/// After `cd sub`, a file is named both as seen from `sub` and as seen from the root.
#[must_use]
pub fn named_files(command: &str) -> Vec<String> {
    let mut reader = Reader::default();
    reader.read(command, 0);
    reader.files
}

#[derive(Default)]
struct Reader {
    files: Vec<String>,
    /// Where `cd` has led, as far as it can be followed; empty at the root.
    dir: String,
}

impl Reader {
    fn read(&mut self, command: &str, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let mut dirs = Vec::new();
        let mut simple = Vec::new();
        for piece in shell_words::pieces(command) {
            match piece {
                Piece::Word(word) => simple.push(word),
                Piece::End => self.simple_command(&std::mem::take(&mut simple), depth),
                Piece::Open => {
                    self.simple_command(&std::mem::take(&mut simple), depth);
                    dirs.push(self.dir.clone());
                }
                Piece::Close => {
                    self.simple_command(&std::mem::take(&mut simple), depth);
                    self.dir = dirs.pop().unwrap_or_default();
                }
            }
        }
        self.simple_command(&simple, depth);
    }

    fn simple_command(&mut self, words: &[Word], depth: usize) {
        for word in words {
            for inner in &word.commands {
                self.read_aside(inner, depth);
            }
            if word.quoted && word.text.contains([' ', '\t', '\n', ';', '&', '|']) {
                self.read_aside(&word.text, depth);
            }
        }
        let mut rest = programs::skip_wrappers(words);
        let Some((name, arguments)) = rest.split_first() else { return };
        rest = arguments;
        if name.text.contains('/') {
            self.add(name);
        }
        let base = name.text.rsplit('/').next().unwrap_or_default();
        match programs::program(base) {
            Program::Cd => self.change_dir(rest),
            Program::Shell => self.interpreter(rest, true, depth),
            Program::Interpreter => self.interpreter(rest, false, depth),
            Program::TestRunner => self.test_runner(rest),
            Program::Builder { files, dir_flags, file_flags } => {
                self.builder(rest, files, dir_flags, file_flags);
            }
            Program::Other => {}
        }
    }

    /// Reads a command that does not change where the ones after it run.
    fn read_aside(&mut self, command: &str, depth: usize) {
        let dir = self.dir.clone();
        self.read(command, depth + 1);
        self.dir = dir;
    }

    fn change_dir(&mut self, arguments: &[Word]) {
        let to = arguments.iter().find(|word| !word.is_flag());
        // Where it leads is not known: from there on, the root is all there is to look from.
        self.dir = to.and_then(|to| to.path()).and_then(|to| resolved(&self.dir, to)).unwrap_or_default();
    }

    /// The script is the first argument that is neither a flag nor a flag's value.
    fn interpreter(&mut self, arguments: &[Word], is_shell: bool, depth: usize) {
        let mut arguments = arguments.iter();
        while let Some(word) = arguments.next() {
            if word.input {
                self.add(word);
            } else if word.is_flag() {
                let flag = word.text.as_str();
                let is_code = matches!(flag, "-e" | "--eval" | "-p" | "--print" | "-E")
                    || (flag.starts_with('-') && !flag.starts_with("--") && flag.ends_with('c'));
                if is_code {
                    if let Some(code) = arguments.next()
                        && is_shell
                    {
                        self.read_aside(&code.text, depth);
                    }
                    return;
                }
                if flag == "-m" {
                    // A module. `python -m pytest tests/a.py` names a file after it all the same.
                    arguments.next();
                    self.test_runner(arguments.as_slice());
                    return;
                }
                if flag == "--test" {
                    self.test_runner(arguments.as_slice());
                    return;
                }
                if let Some((_, value)) = flag.split_once('=') {
                    self.add_if_file_like(value);
                } else if programs::takes_value(flag)
                    && let Some(value) = arguments.next()
                {
                    self.add_if_file_like(&value.text);
                }
            } else if matches!(word.text.as_str(), "run" | "test" | "exec") {
                // `deno run x.ts`, `bun test x.ts`: the script is still to come.
            } else {
                self.add(word);
                return;
            }
        }
    }

    fn test_runner(&mut self, arguments: &[Word]) {
        for word in arguments {
            let value = match word.text.split_once('=') {
                Some((_, value)) if word.is_flag() => value,
                None if word.is_flag() => continue,
                _ => word.text.as_str(),
            };
            // `tests/test_a.py::test_b` names one test of a file.
            self.add_if_file_like(value.split("::").next().unwrap_or_default());
        }
    }

    fn builder(&mut self, arguments: &[Word], files: &[&str], dir_flags: &[&str], file_flags: &[&str]) {
        let before = self.dir.clone();
        let mut named = Vec::new();
        let mut arguments = arguments.iter();
        while let Some(word) = arguments.next() {
            let (flag, attached) = match word.text.split_once('=') {
                Some((flag, value)) => (flag, Some(value)),
                None => (word.text.as_str(), None),
            };
            let mut value = || attached.or_else(|| arguments.next().map(|word| word.text.as_str()));
            if dir_flags.contains(&flag) {
                if let Some(dir) = value() {
                    self.dir = resolved(&self.dir, dir).unwrap_or_default();
                }
            } else if file_flags.contains(&flag)
                && let Some(file) = value()
            {
                named.push(file);
            }
        }
        if named.is_empty() {
            named.extend(files);
        }
        for file in named {
            self.add_path(file);
        }
        self.dir = before;
    }

    fn add(&mut self, word: &Word) {
        if let Some(path) = word.path() {
            self.add_path(path);
        }
    }

    /// Adds what is written like a file and not like a name or a number.
    fn add_if_file_like(&mut self, text: &str) {
        if text.contains(['/', '.']) && !text.contains(['$', '*', '?', '[', ' ']) {
            self.add_path(text);
        }
    }

    fn add_path(&mut self, path: &str) {
        for dir in [self.dir.as_str(), ""] {
            if let Some(file) = resolved(dir, path)
                && !file.is_empty()
                && !self.files.contains(&file)
            {
                self.files.push(file);
            }
        }
    }
}

/// `path` as seen from `dir`, or `None` if it is outside the repository for all we know.
fn resolved(dir: &str, path: &str) -> Option<String> {
    if path.is_empty() || path.starts_with(['/', '~', '-']) {
        return None;
    }
    let mut components: Vec<&str> = dir.split('/').filter(|component| !component.is_empty()).collect();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                components.pop()?;
            }
            _ => components.push(component),
        }
    }
    Some(components.join("/"))
}

#[cfg(test)]
#[path = "gate_scripts_tests.rs"]
mod tests;
