//! Scripts of gates that make a part of the program: a table, a parser, a file with the version. They are the work, although a gate
//! runs them, and the agent may have to change them.
//!
//! A script is taken for one only if it judges nothing, takes nothing of the program in, and makes files that the program names
//! and that no check rests on. If the agent changed it, the gates have to pass where the files that it made are not there: it has to make
//! them anew, so that one that makes nothing any more is found out.

use std::collections::HashSet;

use super::{
    modules::imported,
    references::{Listing, Program, asserts, can_refuse, folder_of, is_source, last, words},
};

/// Languages in which a script that makes something is understood.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Shell,
    Other,
}

/// The sources of a workspace, to be asked for what generators make.
pub struct Generators<'a> {
    listing: Listing<'a>,
    program: Program,
}

impl<'a> Generators<'a> {
    /// Whether a script may be a generator, by its own text.
    pub fn may_be_one(path: &str, text: &str) -> bool {
        let writes = |language| !written_words(language, text).is_empty();
        language(path, text).is_some_and(writes) && !can_refuse(text) && !asserts(text)
    }

    /// `is_known` says which files are goalposts, `text` what a file holds.
    pub fn among(
        files: &'a [String],
        is_known: &dyn Fn(&str) -> bool,
        text: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        Self { listing: Listing::new(files), program: Program::read(files, is_known, text) }
    }

    /// The files that the script at `path` makes for the program, if that is all it does; otherwise none.
    pub fn products(&self, path: &str, text: &str, is_known: &dyn Fn(&str) -> bool) -> Vec<String> {
        let Some(language) = language(path, text) else { return Vec::new() };
        let judges = can_refuse(text) || asserts(text) || starts_others(language, text);
        if !self.program.is_whole || judges {
            return Vec::new();
        }
        let imports_some = imported(path, text).iter().flatten().any(|module| self.listing.has(module));
        let written = written_words(language, text);
        let pieces: HashSet<&str> = words(text).collect();
        let mut made: Vec<String> = Vec::new();
        for word in &written {
            made.extend(self.listing.named_by(word, path, &pieces).into_iter().map(str::to_owned));
        }
        made.sort_unstable();
        made.dedup();
        let is_product = |file: &String| file != path && !is_known(file) && self.program.names(file);
        let names_program = pieces.iter().flat_map(|word| self.listing.named_by(word, path, &pieces));
        let mut others = names_program.filter(|file| is_source(file) && *file != path);
        if imports_some
            || !made.iter().all(is_product)
            || others.any(|file| !made.iter().any(|own| own == file))
        {
            return Vec::new();
        }
        made
    }
}

fn language(path: &str, text: &str) -> Option<Language> {
    let first = text.lines().next().unwrap_or_default();
    let is_run_by = |name: &str| first.starts_with("#!") && first.contains(name);
    match last(path).rsplit_once('.').map(|(_, end)| end) {
        Some("py" | "js" | "mjs" | "cjs") => Some(Language::Other),
        Some("sh" | "bash") => Some(Language::Shell),
        _ if is_run_by("python") || is_run_by("node") => Some(Language::Other),
        _ if is_run_by("sh") => Some(Language::Shell),
        _ => None,
    }
}

/// Whether a script starts other programs, which may judge. In a shell everything is a program: there only those that copy and edit
/// text do not.
fn starts_others(language: Language, text: &str) -> bool {
    const LOADS: &[&str] = &[
        "subprocess",
        "child_process",
        "os.system",
        "popen",
        "exec",
        "eval",
        "spawn",
        "runpy",
        "importlib",
        "__import__",
        "import(",
        "ctypes",
    ];
    const EDITS: &[&str] = &[
        "echo", "printf", "cat", "sed", "awk", "sort", "uniq", "tr", "cut", "head", "tail", "paste", "join",
        "mkdir", "cp", "mv", "rm", "cd", "set", "for", "do", "done", "date", "dirname", "basename", "seq",
        ":", "{", "}", "while", "read",
    ];
    match language {
        Language::Other => LOADS.iter().any(|word| text.contains(word)),
        Language::Shell => {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            let mut commands = lines.flat_map(|line| line.split([';', '|', '&', '(', ')', '`']));
            commands.any(|command| {
                let first = command.split_whitespace().find(|word| !matches!(*word, "do" | "{" | "$"));
                first.is_some_and(|word| {
                    !EDITS.contains(&word) && !word.contains('=') && !word.starts_with(['"', '<', '>'])
                })
            })
        }
    }
}

/// The words of lines that write a file, and of values that such lines use.
fn written_words(language: Language, text: &str) -> Vec<&str> {
    const WRITES: &[&str] = &["\"w", "'w", "write", "dump", "save", ".to_"];
    let writes = |line: &str| match language {
        Language::Shell => line.contains('>') || line.contains("tee "),
        Language::Other => WRITES.iter().any(|mark| line.contains(mark)),
    };
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let writing: Vec<&str> = text.lines().filter(|line| writes(line)).collect();
    let names: HashSet<&str> = writing.iter().flat_map(|line| line.split(|c| !is_name(c))).collect();
    let reads = |line: &str| ["open(", "read", "load"].iter().any(|mark| line.contains(mark));
    let is_used = |line: &&str| {
        let name =
            line.split_once('=').map(|(name, _)| name.trim().rsplit([' ', '\t']).next().unwrap_or_default());
        name.is_some_and(|name| !name.is_empty() && name.chars().all(is_name) && names.contains(name))
    };
    let used = text.lines().filter(is_used).filter(|line| !reads(line));
    writing
        .iter()
        .copied()
        .chain(used)
        .flat_map(|line| match language {
            // What stands before the arrow is read.
            Language::Shell => {
                words(line.split_once('>').map_or(line, |(_, after)| after)).collect::<Vec<_>>()
            }
            Language::Other => words(line).collect(),
        })
        .filter(|word| word.contains('.') && !folder_of(word).starts_with(".."))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const PYTHON: &str =
        "import json\nrows = {a: a + 1 for a in range(9)}\njson.dump(rows, open(\"table.json\", \"w\"))\n";

    fn products(path: &str, text: &str) -> Vec<String> {
        let files: BTreeMap<&str, &str> = BTreeMap::from([
            (path, text),
            ("calc.py", "import json\nfrom version import VERSION\nTABLE = json.load(open('table.json'))\n"),
            ("table.json", "{}"),
            ("version.py", "VERSION = 1"),
            ("sums.out", "4"),
            ("rows.csv", "1,2"),
            ("cases.json", "[]"),
            ("tests/test_calc.py", "import calc\nopen('cases.json')"),
            ("bin/add", "#!/bin/sh\necho 4"),
        ]);
        let all: Vec<String> = files.keys().map(|path| (*path).to_owned()).collect();
        let is_known = |file: &str| file == path || file.starts_with("tests/") || file == "cases.json";
        let text_of = |file: &str| files.get(file).map(|text| (*text).to_owned());
        Generators::among(&all, &is_known, &text_of).products(path, text, &is_known)
    }

    #[test]
    fn a_script_that_makes_a_part_of_the_program_is_known_by_what_it_writes() {
        for (path, text, made) in [
            ("make_table.py", PYTHON.to_owned(), vec!["table.json"]),
            ("tools/make_table.py", PYTHON.to_owned(), vec!["table.json"]),
            ("make.py", "OUT = Path('table.json')\nOUT.write_text('{}')\n".to_owned(), vec!["table.json"]),
            (
                "make.py",
                "rows = open('rows.csv').read()\nwith open('table.json', 'w') as out:\n    out.write(rows)\n"
                    .to_owned(),
                vec!["table.json"],
            ),
            ("make.js", "fs.writeFileSync('table.json', '{}')\n".to_owned(), vec!["table.json"]),
            (
                "gen.sh",
                "set -eu\necho \"VERSION = $(cat rows.csv)\" >version.py\n".to_owned(),
                vec!["version.py"],
            ),
            // It judges, or starts what may judge.
            ("make_table.py", format!("{PYTHON}if not rows:\n    raise SystemExit(1)\n"), vec![]),
            ("make_table.py", format!("{PYTHON}assert rows[1] == 2\n"), vec![]),
            ("make_table.py", format!("import subprocess\n{PYTHON}subprocess.run(['bin/add'])\n"), vec![]),
            ("gen.sh", "sh bin/add 2 2 >table.json\n".to_owned(), vec![]),
            ("gen.sh", "echo {} >table.json\ntest -s rows.csv\n".to_owned(), vec![]),
            ("gen.sh", "for n in 1 2; do grep $n rows.csv; done >table.json\n".to_owned(), vec![]),
            // It takes the program in, so that what it makes tells of the program.
            ("make_table.py", format!("import calc\n{PYTHON}"), vec![]),
            ("make_table.py", format!("{PYTHON}text = open('calc.py').read()\n"), vec![]),
            // Nothing of the program, or a part of the tests, is made.
            ("make.py", "open('sums.out', 'w').write('4')\n".to_owned(), vec![]),
            ("make.py", "open('cases.json', 'w').write('4')\n".to_owned(), vec![]),
            ("make.py", format!("{PYTHON}open('cases.json', 'w').write('4')\n"), vec![]),
            ("make.py", "print(open('table.json').read())\n".to_owned(), vec![]),
            ("make.rb", PYTHON.to_owned(), vec![]),
        ] {
            assert_eq!(products(path, &text), made, "{path}: {text}");
        }
    }
}
