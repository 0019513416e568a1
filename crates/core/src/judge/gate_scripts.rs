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

use std::collections::{BTreeMap, BTreeSet};

use programs::Program;
use shell_words::{Piece, Word};

/// How deep commands within quoted commands are followed.
const MAX_DEPTH: usize = 4;

/// The files that `command` might run, relative to the root it is started in, in order, each once.
///
/// After `cd sub`, a file is named both as seen from `sub` and as seen from the root.
#[must_use]
pub fn named_files(command: &str) -> Vec<String> {
    let mut reader = ScriptReader::default();
    reader.read(command, 0);
    reader.files
}

/// Whether `file` is one that a builder finds without being told: the makefile behind `make`.
pub fn is_found_by_itself(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    ["make", "just", "task", "rake"].into_iter().any(|builder| match programs::program(builder) {
        Program::Builder { files, .. } => files.contains(&name),
        _ => false,
    })
}

/// The folder of a file and what it is to a program that knows it under several names: a `GNUmakefile` is a `Makefile`.
pub fn role(path: &str) -> (String, String) {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let name = name.to_ascii_lowercase();
    let name = name.trim_start_matches('.');
    let name = name.strip_prefix("gnu").unwrap_or(name);
    (folder.to_owned(), name.split('.').next().unwrap_or(name).to_owned())
}

/// The programs that the simple commands of `command` start, without what a shell does by itself.
pub fn programs_of(command: &str) -> Vec<String> {
    const OF_THE_SHELL: &[&str] = &[
        "cd", "test", "[", "echo", "printf", "export", "set", "exit", "true", "false", ":", ".", "source",
        "eval", "exec", "read", "shift", "trap", "ulimit", "umask", "unset", "wait", "return", "local",
        "for", "case", "esac", "done", "fi", "in", "}", "pwd", "kill", "command", "type", "break",
        "continue", "alias", "time",
    ];
    let programs =
        script_runs(command, "", "").commands.into_iter().filter_map(|words| words.into_iter().next());
    let mut all: Vec<String> = Vec::new();
    for program in
        programs.filter(|program| !OF_THE_SHELL.contains(&program.as_str()) && !program.contains('$'))
    {
        if !all.contains(&program) {
            all.push(program);
        }
    }
    all
}

/// What a shell script runs, as far as its text says.
#[derive(Debug, Default)]
pub(crate) struct ScriptRuns {
    /// Files, from the root or absolute; with `*`, `?` or `[` in them they are patterns.
    pub(crate) files: Vec<String>,
    /// Those among them that are run only for what they print: another command reads it.
    pub(crate) printing: BTreeSet<String>,
    /// Simple commands, each as its words, with variables put in as far as they are known.
    pub(crate) commands: Vec<Vec<String>>,
    /// Those among the files that may be modules, which an interpreter is given by their names.
    pub(crate) modules: BTreeSet<String>,
    /// The expressions that interpreters are given, each with a name of a file that it could stand in.
    pub(crate) expressions: Vec<(&'static str, String)>,
}

/// What a script runs that is started in `dir`, from the root; `own_dir` is the folder of the script itself.
pub(crate) fn script_runs(script: &str, dir: &str, own_dir: &str) -> ScriptRuns {
    let mut reader = ScriptReader {
        dir: dir.to_owned(),
        own_dir: own_dir.to_owned(),
        is_wide: true,
        ..ScriptReader::default()
    };
    reader.read(script, 0);
    let printing = reader.printing.difference(&reader.deciding).cloned().collect();
    ScriptRuns {
        files: reader.files,
        printing,
        commands: reader.commands,
        modules: reader.modules,
        expressions: reader.expressions,
    }
}

#[derive(Default)]
struct ScriptReader {
    files: Vec<String>,
    /// Where `cd` has led, as far as it can be followed; empty at the root.
    dir: String,
    /// The folder of the script that is read.
    own_dir: String,
    /// Whether variables, patterns and absolute paths are followed, too.
    is_wide: bool,
    /// What variables hold, as far as the script says so.
    variables: BTreeMap<String, Vec<String>>,
    commands: Vec<Vec<String>>,
    /// Whether another command reads what the one that is read prints.
    is_read: bool,
    /// Files that are run for what they print, and files that are run for how they end.
    printing: BTreeSet<String>,
    deciding: BTreeSet<String>,
    modules: BTreeSet<String>,
    expressions: Vec<(&'static str, String)>,
}

impl ScriptReader {
    fn read(&mut self, command: &str, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let mut dirs = Vec::new();
        let mut simple = Vec::new();
        let is_read = self.is_read;
        for piece in shell_words::pieces(command) {
            match piece {
                Piece::Word(word) => simple.push(word),
                Piece::Kept => self.is_read = true,
                Piece::Pipe => {
                    self.is_read = true;
                    self.simple_command(&std::mem::take(&mut simple), depth);
                }
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
            if simple.is_empty() {
                self.is_read = is_read;
            }
        }
        self.simple_command(&simple, depth);
        self.is_read = is_read;
    }

    fn simple_command(&mut self, words: &[Word], depth: usize) {
        let expanded: Vec<Word>;
        let words = if self.is_wide {
            self.note_variables(words);
            expanded = words.iter().flat_map(|word| self.expanded(word)).collect();
            &expanded[..]
        } else {
            words
        };
        for word in words {
            for inner in &word.commands {
                let is_read = std::mem::replace(&mut self.is_read, true);
                self.read_aside(inner, depth);
                self.is_read = is_read;
            }
            if word.quoted && word.text.contains([' ', '\t', '\n', ';', '&', '|']) {
                self.read_aside(&word.text, depth);
            }
        }
        let mut rest = programs::skip_wrappers(words);
        if self.is_wide && !rest.is_empty() {
            self.commands.push(rest.iter().map(|word| word.text.clone()).collect());
        }
        let Some((name, arguments)) = rest.split_first() else { return };
        rest = arguments;
        if name.text.contains('/') {
            self.add(name);
        }
        let base = name.text.rsplit('/').next().unwrap_or_default();
        let program = programs::program(base);
        // What is sourced, and what a runner of tests takes, decides wherever its output goes.
        let is_read = self.is_read;
        self.is_read &= matches!(program, Program::Shell | Program::Interpreter)
            && !matches!(name.text.as_str(), "." | "source");
        match program {
            Program::Cd => self.change_dir(rest),
            Program::Shell => self.interpreter(rest, true, depth),
            Program::Interpreter => self.interpreter(rest, false, depth),
            Program::TestRunner => self.test_runner(rest),
            Program::Builder { files, dir_flags, file_flags } => {
                self.builder(rest, files, dir_flags, file_flags);
            }
            Program::Other => {}
        }
        self.is_read = is_read;
    }

    /// Takes in `NAME=value` and `for NAME in values`.
    fn note_variables(&mut self, words: &[Word]) {
        if let [first, name, within, values @ ..] = words
            && (first.text.as_str(), within.text.as_str()) == ("for", "in")
        {
            let values = values.iter().flat_map(|value| self.expanded(value)).map(|word| word.text).collect();
            self.variables.insert(name.text.clone(), values);
            return;
        }
        let assigned =
            words.iter().skip_while(|word| matches!(word.text.as_str(), "export" | "readonly" | "local"));
        for word in assigned.take_while(|word| word.is_assignment()) {
            let value = self.expanded(word).into_iter().next().unwrap_or_default().text;
            if let Some((name, value)) = value.split_once('=') {
                self.variables.insert(name.to_owned(), vec![value.to_owned()]);
            }
        }
    }

    /// A word with what its variables are known to hold; one for each value.
    fn expanded(&self, word: &Word) -> Vec<Word> {
        let mut texts = vec![word.text.clone()];
        if word.commands.iter().any(|inner| inner.contains("dirname")) {
            let dir = if self.own_dir.is_empty() { "." } else { &self.own_dir };
            texts = vec![match word.text.split_once('=') {
                Some((name, rest)) if word.is_assignment() => format!("{name}={dir}{rest}"),
                _ => format!("{dir}{}", word.text),
            }];
        } else if word.commands.iter().any(|inner| inner.trim() == "pwd") {
            let dir = if self.dir.is_empty() { "." } else { &self.dir };
            texts = vec![format!("{dir}{}", word.text)];
        }
        for (name, values) in &self.variables {
            let forms = [format!("${{{name}}}"), format!("${name}")];
            if !texts.iter().any(|text| forms.iter().any(|form| text.contains(form.as_str()))) {
                continue;
            }
            texts = texts
                .iter()
                .flat_map(|text| {
                    values.iter().map(|value| text.replace(&forms[0], value).replace(&forms[1], value))
                })
                .take(64)
                .collect();
        }
        texts.into_iter().map(|text| word.with_text(text)).collect()
    }

    /// Reads a command that does not change where the ones after it run.
    fn read_aside(&mut self, command: &str, depth: usize) {
        let dir = self.dir.clone();
        self.read(command, depth + 1);
        self.dir = dir;
    }

    fn change_dir(&mut self, arguments: &[Word]) {
        let to = arguments.iter().find(|word| !word.is_flag());
        if let Some(to) = to.filter(|_| self.is_wide).filter(|to| !to.text.contains('$')) {
            self.dir = resolved(&self.dir, &to.text).unwrap_or_default();
            return;
        }
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
                    match arguments.next() {
                        Some(code) if is_shell => self.read_aside(&code.text, depth),
                        Some(code) if !self.is_read => {
                            let file = if flag.ends_with('c') { "expression.py" } else { "expression.js" };
                            self.expressions.push((file, code.text.clone()));
                        }
                        _ => {}
                    }
                    return;
                }
                if flag == "-m" {
                    // A module. `python -m pytest tests/a.py` names a file after it all the same; what other modules look at
                    // (`python -m doctest calc.py`) is the work.
                    let module = arguments.next().map(|word| word.text.as_str());
                    match module {
                        Some(module) if programs::is_test_module(module) => {
                            self.test_runner(arguments.as_slice());
                        }
                        Some(module) if self.is_wide => self.add_module(module),
                        _ => {}
                    }
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

    fn add_module(&mut self, module: &str) {
        let before = self.files.len();
        let path = module.replace('.', "/");
        self.add_path(&format!("{path}.py"));
        self.add_path(&format!("{path}/__main__.py"));
        self.modules.extend(self.files[before..].iter().cloned());
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
        if self.is_wide {
            self.add_path(&word.text.clone());
        } else if let Some(path) = word.path() {
            self.add_path(path);
        }
    }

    /// Adds what is written like a file and not like a name or a number.
    fn add_if_file_like(&mut self, text: &str) {
        let is_pattern = text.contains(['*', '?', '[']);
        if text.contains(['/', '.']) && !text.contains(['$', ' ']) && (self.is_wide || !is_pattern) {
            self.add_path(text);
        }
    }

    fn add_path(&mut self, path: &str) {
        if self.is_wide && path.contains('$') && !path.starts_with("$PWD/") && !path.starts_with("${PWD}/") {
            return;
        }
        let path = path.strip_prefix("$PWD/").or_else(|| path.strip_prefix("${PWD}/")).unwrap_or(path);
        if self.is_wide && path.starts_with('/') {
            self.note_use(path);
            if !self.files.iter().any(|known| known == path) {
                self.files.push(path.to_owned());
            }
            return;
        }
        for dir in [self.dir.clone(), String::new()] {
            if let Some(file) = resolved(&dir, path).filter(|file| !file.is_empty()) {
                self.note_use(&file);
                if !self.files.contains(&file) {
                    self.files.push(file);
                }
            }
        }
    }

    fn note_use(&mut self, file: &str) {
        if self.is_wide {
            let noted = if self.is_read { &mut self.printing } else { &mut self.deciding };
            noted.insert(file.to_owned());
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
