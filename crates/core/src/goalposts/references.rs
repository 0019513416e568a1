//! What checks rest on beyond the files that are goalposts by their names: the files of the workspace that their texts name.
//!
//! A check names three kinds of files. Sources are the work, unless they judge: a check without an assertion of its own hands
//! what the work says to a function that compares it. Tables and other data decide as the check does, unless the program reads
//! them, too. Documents, pages and templates are the work. In doubt a file is the work.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use super::modules::{self, PRODUCTS, imported_by_test, is_data_of_tests, is_helper_of_test, steers_check};

/// How many sources of the program are read to find out what it names itself. In a larger one only names of data tell.
const MAX_SOURCES: usize = 2000;
/// How many bytes of them.
const MAX_BYTES: usize = 16 << 20;
/// How many checks are read, with what they rest on.
const MAX_CHECKS: usize = 5000;
/// A folder with more files than this is not named as a whole.
const MAX_IN_FOLDER: usize = 200;

/// Endings of files that hold code.
const SOURCES: &[&str] = &[
    "rs", "py", "pyi", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "go", "rb", "java", "kt", "kts",
    "scala", "groovy", "cs", "fs", "vb", "php", "swift", "c", "cc", "cpp", "cxx", "h", "hh", "hpp", "m",
    "sh", "bash", "zsh", "lua", "pl", "pm", "ex", "exs", "dart", "zig", "hs", "ml", "clj", "erl", "nim",
    "vue", "svelte",
];
/// Endings of documents, pages, templates and what tools make: they are the work.
const PRODUCED: &[&str] = &[
    "md", "rst", "adoc", "html", "htm", "css", "scss", "sass", "less", "sql", "svg", "png", "jpg", "jpeg",
    "gif", "ico", "webp", "pdf", "po", "pot", "mo", "tmpl", "tpl", "hbs", "ejs", "erb", "haml", "jinja",
    "jinja2", "j2", "mustache", "liquid", "proto", "graphql", "lock", "sum", "map", "wasm", "so", "o", "a",
    "gz", "zip", "tar", "whl", "log",
];
/// Folders beside those of sources in which a program has what it is made of.
const OF_PROGRAMS: &[&str] = &[
    "templates",
    "template",
    "views",
    "public",
    "static",
    "assets",
    "www",
    "web",
    "locales",
    "locale",
    "i18n",
    "lang",
    "migrations",
    "resources",
    ".github",
];

/// The files of a workspace, by their paths and names.
pub(super) struct Listing<'a> {
    paths: HashSet<&'a str>,
    by_name: HashMap<&'a str, Vec<&'a str>>,
    in_folder: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> Listing<'a> {
    pub(super) fn new(files: &'a [String]) -> Self {
        let mut listing = Self { paths: HashSet::new(), by_name: HashMap::new(), in_folder: HashMap::new() };
        for path in files.iter().map(String::as_str).filter(|path| !path.starts_with('/')) {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            listing.paths.insert(path);
            listing.by_name.entry(name).or_default().push(path);
            listing.in_folder.entry(folder).or_default().push(path);
        }
        listing
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// The files that `word` in the text of the check at `check` names: from the folder of the check, from the top, or by the
    /// last piece of a path that the check puts together.
    pub(super) fn named_by(&self, word: &str, check: &str, pieces: &HashSet<&str>) -> Vec<&'a str> {
        let own = folder_of(check);
        let word = word.trim_start_matches('/').trim_end_matches(['.', '/']);
        let places = [modules::below(own, word), modules::below("", word)];
        if let Some(path) = places.iter().flatten().find_map(|path| self.paths.get(path.as_str())) {
            return vec![path];
        }
        if !word.contains('/') && word.split_once('.').is_some_and(|(stem, _)| !stem.is_empty()) {
            let all = self.by_name.get(word).map_or(&[][..], Vec::as_slice);
            let is_meant = |path: &&&str| all.len() == 1 || pieces.contains(last(folder_of(path)));
            return all.iter().filter(is_meant).copied().collect();
        }
        // A folder that holds nothing but data.
        let inside = places.iter().flatten().find_map(|path| self.in_folder.get(path.as_str()));
        let is_data = |inside: &&Vec<&str>| {
            inside.len() <= MAX_IN_FOLDER && inside.iter().all(|path| kind_of_content(path) == Content::Data)
        };
        inside.filter(is_data).map(|inside| inside.to_vec()).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Source,
    Produced,
    Data,
}

fn kind_of_content(path: &str) -> Content {
    let name = last(path);
    match name.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase()) {
        Some(end) if SOURCES.contains(&end.as_str()) => Content::Source,
        Some(end) if PRODUCED.contains(&end.as_str()) => Content::Produced,
        None if matches!(name, "LICENSE" | "README" | "CHANGELOG" | "AUTHORS" | "Dockerfile") => {
            Content::Produced
        }
        _ => Content::Data,
    }
}

/// Whether a file holds code, by its ending.
pub(super) fn is_source(path: &str) -> bool {
    kind_of_content(path) == Content::Source
}

pub(super) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

pub(super) fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '+');
    text.split(move |c| !is_part(c)).filter(|word| !word.is_empty())
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The sources of the program: what is neither a goalpost nor data.
pub(super) struct Program {
    sources: Vec<(String, String)>,
    paths: HashSet<String>,
    /// Which of the sources define a name, and which a module of this name would be.
    defining: HashMap<String, Vec<usize>>,
    modules: HashMap<String, Vec<usize>>,
    /// Every piece of a path that one of them may name.
    names: HashSet<String>,
    /// Whether all of them were read.
    pub(super) is_whole: bool,
}

impl Program {
    pub(super) fn read(
        files: &[String],
        is_known: &dyn Fn(&str) -> bool,
        text: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let is_source = |path: &str| {
            kind_of_content(path) == Content::Source || (!last(path).contains('.') && !is_known(path))
        };
        let mut program = Self {
            sources: Vec::new(),
            paths: HashSet::new(),
            defining: HashMap::new(),
            modules: HashMap::new(),
            names: HashSet::new(),
            is_whole: true,
        };
        let mut bytes = 0_usize;
        for path in files.iter().filter(|path| !path.starts_with('/') && is_source(path) && !is_known(path)) {
            if program.sources.len() >= MAX_SOURCES || bytes >= MAX_BYTES {
                program.is_whole = false;
                break;
            }
            let Some(text) = text(path) else { continue };
            if kind_of_content(path) != Content::Source && !text.starts_with("#!") {
                continue;
            }
            bytes += text.len();
            let pieces = words(&text).flat_map(|word| word.split('/')).filter(|piece| !piece.is_empty());
            for piece in pieces.map(|piece| piece.trim_end_matches('.')) {
                if !program.names.contains(piece) {
                    program.names.insert(piece.to_owned());
                }
            }
            let at = program.sources.len();
            for name in defined(&text) {
                program.defining.entry(name.to_owned()).or_default().push(at);
            }
            program.modules.entry(module_name(path).to_owned()).or_default().push(at);
            program.paths.insert(path.clone());
            program.sources.push((path.clone(), text));
        }
        program
    }

    /// Whether more than one of its sources has this name in it: what only tests use stands in one, or in none.
    fn uses(&self, name: &str) -> bool {
        let has = |text: &str| {
            text.match_indices(name).any(|(at, _)| {
                !text[..at].ends_with(is_name) && !text[at + name.len()..].starts_with(is_name)
            })
        };
        self.sources.iter().filter(|(_, text)| has(text)).nth(1).is_some()
    }

    /// Whether the program names this file, or the folder that it lies in.
    pub(super) fn names(&self, path: &str) -> bool {
        let has = |name: &str| !name.is_empty() && self.names.contains(name);
        let name = last(path);
        let stem = name.split('.').next().unwrap_or(name);
        let folder = folder_of(path);
        has(name)
            || (has(last(folder)) && (has(stem) || kind_of_content(path) == Content::Data))
            || (folder.is_empty() && kind_of_content(path) == Content::Source && has(stem))
    }
}

/// The files that checks rest on, each with the check that names it. `checks` are paths with texts; a gate's command has no path.
pub fn rests_on(
    checks: Vec<(String, String)>,
    files: &[String],
    is_known: &dyn Fn(&str) -> bool,
    text: &dyn Fn(&str) -> Option<String>,
) -> BTreeMap<String, String> {
    let listing = Listing::new(files);
    let program = Program::read(files, is_known, text);
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for (path, text) in &program.sources {
        for example in included_examples(path, text, &listing) {
            found.entry(example.to_owned()).or_insert_with(|| path.clone());
        }
    }
    // A document tells of files, and no runner reads it for names: a task of a unit names what its agent is to write.
    let is_read = |(path, _): &(String, String)| kind_of_content(path) != Content::Produced;
    let mut queue: VecDeque<(String, String)> = checks.into_iter().filter(is_read).collect();
    let mut read = 0_usize;
    let mut seen: HashSet<(String, String)> = HashSet::new();
    while let Some((check, content)) = queue.pop_front() {
        read += 1;
        if read > MAX_CHECKS {
            break;
        }
        let mut more: BTreeSet<String> = BTreeSet::new();
        let mut taken_in: BTreeSet<String> = BTreeSet::new();
        let named = named_files(&check, &content, &listing);
        let is_build = check.is_empty() || is_shell(&check, &content);
        let tests_sources = tests_sources(&check, &content, &named, &listing, &program);
        let mut note = |path: &str| {
            if !is_known(path) {
                more.insert(path.to_owned());
            }
        };
        for (path, is_taken_in) in named {
            if is_known(path) || !seen.insert((check.clone(), path.to_owned())) {
                continue;
            }
            if decides(path, &check, is_taken_in, is_build, tests_sources, &program, text) {
                taken_in.extend(is_taken_in.then(|| path.to_owned()));
                note(path);
            }
        }
        for paths in imported_by_test(&check, &content) {
            let Some(module) = paths.iter().find(|path| listing.paths.contains(path.as_str())) else {
                continue;
            };
            if is_known(module) {
                continue;
            }
            let text = text(module);
            let is_table = text.as_deref().is_some_and(|text| is_table(text) && !program.names(module));
            if is_table || is_helper_of_test(module, text.as_deref(), &check) {
                note(module);
            }
        }
        judges(&check, &content, &program).into_iter().for_each(&mut note);
        examples_run(&content, &listing).into_iter().for_each(&mut note);
        for path in more {
            if let std::collections::btree_map::Entry::Vacant(entry) = found.entry(path.clone()) {
                entry.insert(check.clone());
                // What a check rests on may rest on more. Words of data are no names.
                let is_read = |text: &String| {
                    let is_code = kind_of_content(&path) == Content::Source || is_shell(&path, text);
                    !text.contains('\0') && (is_code || taken_in.contains(&path))
                };
                queue.extend(text(&path).filter(is_read).map(|text| (path.clone(), text)));
            }
        }
    }
    found
}

/// Whether a file that a check names decides with it. What is taken in becomes a part of the check.
fn decides(
    path: &str,
    check: &str,
    is_taken_in: bool,
    is_build: bool,
    tests_sources: bool,
    program: &Program,
    text: &dyn Fn(&str) -> Option<String>,
) -> bool {
    match kind_of_content(path) {
        Content::Produced => false,
        Content::Source => {
            let text = text(path);
            let Some(text) = text.as_deref() else { return false };
            (is_taken_in && is_table(text) && !program.names(path))
                || (is_build && is_program_of_checks(text))
        }
        // What unit tests among the sources take in is named by these very sources.
        Content::Data if is_taken_in => {
            !program.is_whole || !program.names(path) || program.paths.contains(check)
        }
        Content::Data => {
            let says_so = is_data_of_tests(path)
                || steers_check(path, check)
                || (modules::is_data(path) && text(path).is_some_and(|text| modules::holds_results(&text)));
            if says_so && !check.is_empty() {
                return true;
            }
            // A program without an ending.
            if !last(path).contains('.') && text(path).is_some_and(|text| text.starts_with("#!")) {
                return false;
            }
            let is_of_program = folder_of(path)
                .to_ascii_lowercase()
                .split('/')
                .any(|folder| PRODUCTS.contains(&folder) || OF_PROGRAMS.contains(&folder));
            // A check of nothing else checks the data itself.
            tests_sources && program.is_whole && !is_of_program && !program.names(path)
        }
    }
}

/// Whether a check looks at sources of the program. One that does not looks at the data itself, which then is the work.
fn tests_sources(
    check: &str,
    text: &str,
    named: &[(&str, bool)],
    listing: &Listing<'_>,
    program: &Program,
) -> bool {
    // Elsewhere sources are named by a package, not by a path.
    let names_paths = ["py", "js", "mjs", "cjs", "ts", "mts", "cts", "jsx", "tsx", "sh", "bash"]
        .iter()
        .any(|end| check.rsplit_once('.').is_some_and(|(_, own)| own == *end));
    let is_of_program = |path: &str| program.paths.contains(path) && !is_helper_of_test(path, None, check);
    let pieces: HashSet<&str> = words(text).collect();
    !names_paths
        || named.iter().any(|(path, _)| is_of_program(path))
        || pieces.iter().any(|word| listing.named_by(word, check, &pieces).into_iter().any(is_of_program))
        || imported_by_test(check, text).iter().flatten().any(|path| is_of_program(path))
}

/// The files that the text of a check names, and whether the check takes them in as a part of itself.
fn named_files<'a>(check: &str, text: &str, listing: &Listing<'a>) -> Vec<(&'a str, bool)> {
    let pieces: HashSet<&str> = words(text).collect();
    let mut named: BTreeMap<&str, bool> = BTreeMap::new();
    let read = read_by_commands(text, check.is_empty());
    if check.is_empty() || is_shell(check, text) {
        named.extend(read.iter().map(|word| (word.as_str(), false)));
        // Sources that a recipe compiles may be programs that check, and lists of what is left out are searched.
        let is_special = |word: &&&str| kind_of_content(word) == Content::Source || steers_check(word, "");
        named.extend(pieces.iter().filter(is_special).map(|word| (*word, false)));
    } else {
        for line in text.lines() {
            let is_taken_in = ["#include", "include!", "#[path"].iter().any(|by| line.contains(by));
            for word in words(line) {
                *named.entry(word).or_default() |= is_taken_in;
            }
        }
    }
    let mut found: BTreeMap<&str, bool> = BTreeMap::new();
    // A pattern by which a check finds its data: `rglob("*.case")`.
    for (at, _) in text.match_indices("*.") {
        let end = text[at + 1..].split(|c: char| !(is_name(c) || c == '.')).next().unwrap_or_default();
        // Files of a common kind are meant only where the check lies or where it says.
        let is_meant = |path: &str| {
            let folder = folder_of(path);
            !modules::is_data(path) || folder.starts_with(folder_of(check)) || pieces.contains(last(folder))
        };
        let fits =
            |path: &&&str| path.ends_with(end) && kind_of_content(path) == Content::Data && is_meant(path);
        if !check.is_empty() && end.len() > 1 {
            let mut all: Vec<&str> = listing.paths.iter().filter(fits).copied().collect();
            all.sort_unstable();
            found.extend(all.into_iter().take(MAX_IN_FOLDER).map(|path| (path, false)));
        }
    }
    for (word, is_taken_in) in named {
        for path in listing.named_by(word, check, &pieces) {
            *found.entry(path).or_default() |= is_taken_in;
        }
    }
    found.into_iter().collect()
}

/// Whether a file is read by a shell or by a program that hands its lines to one.
fn is_shell(path: &str, text: &str) -> bool {
    let name = last(path).to_ascii_lowercase();
    let is_run = text.starts_with("#!") && text.lines().next().is_some_and(|line| line.contains("sh"));
    is_run
        || name.ends_with("makefile")
        || name.ends_with("justfile")
        || [".sh", ".bash", ".mk", ".bats"].iter().any(|end| name.ends_with(end))
        // A makefile by another name has recipes.
        || (kind_of_content(path) == Content::Data && text.contains(":") && text.contains("\n\t"))
        || (!name.is_empty() && !name.contains('.') && (text.is_empty() || !text.starts_with("#!")))
}

/// The words of commands by which a program is told what to read: what is compared, what a loop reads, and files of patterns, of
/// programs and of arguments. What is only searched (`grep done notes.txt`) is often the work.
fn read_by_commands(text: &str, is_gate: bool) -> Vec<String> {
    const READS: &[&str] =
        &["cat", "diff", "cmp", "comm", "paste", "join", "xargs", "mapfile", "readarray", "zip"];
    const SEARCHES: &[&str] = &[
        "wc",
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "head",
        "tail",
        "jq",
        "sed",
        "sort",
        "uniq",
        "md5sum",
        "sha256sum",
        "test",
        "[",
        "[[",
        "tr",
        "cut",
    ];
    const STEERS: &[&str] = &["-f", "--file", "-a", "--arg-file", "--require", "--import", "--rcfile"];
    const NOT_BY_FLAG: &[&str] = &[
        "test",
        "[",
        "[[",
        "rm",
        "ln",
        "tail",
        "cp",
        "mv",
        "git",
        "tar",
        "docker",
        "docker-compose",
        "kubectl",
        "ls",
    ];
    let mut all: Vec<String> = Vec::new();
    let joined = text.replace("\\\n", " ");
    for line in joined.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let mut spaced = String::with_capacity(line.len() + 16);
        for c in line.chars() {
            match c {
                '<' | '(' | ')' | ';' | '|' | '&' | '`' | '{' | '}' => spaced.extend([' ', c, ' ']),
                '"' | '\'' => spaced.push(' '),
                c => spaced.push(c),
            }
        }
        let tokens: Vec<&str> = spaced.split_whitespace().collect();
        let mut command = "";
        for (at, token) in tokens.iter().enumerate() {
            let next = tokens.get(at + 1).copied();
            match *token {
                "(" | ")" | ";" | "|" | "&" | "`" | "{" | "}" => command = "",
                "<" => {
                    let is_here = next == Some("<") || (at > 0 && tokens[at - 1] == "<");
                    if !is_here && !is_gate && !SEARCHES.contains(&command) {
                        all.extend(next.map(str::to_owned));
                    }
                }
                flag if flag.starts_with('-') => {
                    let (name, value) =
                        flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
                    if STEERS.contains(&name) && !NOT_BY_FLAG.contains(&command) {
                        all.extend(value.or(next).map(str::to_owned));
                    }
                }
                word if command.is_empty() => {
                    let name = word.trim_start_matches(['@', '-', '+']);
                    let name = name.strip_prefix("$").filter(|name| *name == "shell").unwrap_or(name);
                    let is_no_command = word.contains('=')
                        || word == "shell"
                        || matches!(
                            word,
                            "if" | "then" | "do" | "while" | "until" | "!" | "else" | "$" | "time"
                        );
                    if !is_no_command {
                        command = last(name);
                    }
                }
                word if READS.contains(&command) && !is_gate && tokens[at - 1] != "<" => {
                    all.push(word.to_owned());
                }
                _ => {}
            }
        }
    }
    all
}

/// Documents whose examples are the documentation of a Rust crate, and so tests of it.
fn included_examples<'a>(path: &str, text: &str, listing: &Listing<'a>) -> Vec<&'a str> {
    if !path.ends_with(".rs") || !text.contains("include_str!") {
        return Vec::new();
    }
    let lines = text.lines().filter(|line| line.contains("doc") && line.contains("include_str!"));
    lines
        .flat_map(|line| words(line).flat_map(|word| listing.named_by(word, path, &HashSet::new())))
        .collect()
}

/// Documents whose examples a gate or its settings run: `--doctest-glob='*.rst'`, `python -m doctest README.md`.
fn examples_run<'a>(text: &str, listing: &Listing<'a>) -> Vec<&'a str> {
    let mut all = Vec::new();
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ']' | ',');
    for (at, mark) in text.match_indices("--doctest-glob") {
        let rest = text[at + mark.len()..].trim_start_matches(['=', ' ', '"', '\'', ',']);
        let pattern = rest.split(is_end).next().unwrap_or_default();
        let Some(end) = pattern.rsplit('*').next().filter(|end| !end.is_empty()) else { continue };
        all.extend(listing.paths.iter().filter(|path| path.ends_with(end)).copied());
    }
    for (at, mark) in text.match_indices("-m doctest") {
        let line = text[at + mark.len()..].lines().next().unwrap_or_default();
        let documents = words(line).filter(|word| ["md", "rst", "txt"].iter().any(|end| word.ends_with(end)));
        all.extend(documents.flat_map(|word| listing.named_by(word, "", &HashSet::new())));
    }
    all
}

/// Whether a source holds nothing but a table of values: no function, no type, nothing that it takes from elsewhere.
fn is_table(text: &str) -> bool {
    const OF_CODE: &[&str] = &[
        "import",
        "require",
        "class",
        "struct",
        "enum",
        "interface",
        "type",
        "def",
        "fn",
        "function",
        "return",
        "lambda",
    ];
    let code: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| {
            !line.starts_with("//")
                && !line.starts_with("/*")
                && !line.starts_with('*')
                && !line.starts_with("# ")
        })
        .collect();
    let code = code.join("\n");
    let calls =
        code.char_indices().any(|(at, c)| c == '(' && code[..at].chars().next_back().is_some_and(is_name));
    let has_values = code.contains(['[', '{', '(']) && code.contains(['=', ':']);
    has_values
        && !calls
        && !code.contains("=>")
        && !code.split(|c| !is_name(c)).any(|word| OF_CODE.contains(&word))
}

/// Whether a source is a program that checks others: its `main` asserts what calls of them give.
fn is_program_of_checks(text: &str) -> bool {
    let asserts = text.lines().filter(|line| {
        line.trim_start().split_once("assert").is_some_and(|(before, rest)| {
            before.is_empty() && rest.contains("==") && rest.matches('(').count() > 1
        })
    });
    text.contains("main(") && asserts.count() > 0
}

/// The sources that judge in place of a check without an assertion of its own: they define what it hands the results of the work
/// to, and none of what gives these results.
fn judges<'a>(check: &str, text: &str, program: &'a Program) -> Vec<&'a str> {
    if check.is_empty() || kind_of_content(check) != Content::Source || is_shell(check, text) {
        return Vec::new();
    }
    let registered = registered(text);
    let handed = if asserts(text) { Vec::new() } else { handed_on(text) };
    if handed.is_empty() && registered.is_empty() {
        return Vec::new();
    }
    let parts = |line: &'_ str| -> HashSet<String> {
        line.split(|c| !is_name(c) && c != '-').map(str::to_owned).collect()
    };
    let named = |line: &str| -> Vec<usize> {
        let found = parts(line).into_iter().filter_map(|word| program.modules.get(&word));
        found.flatten().copied().collect()
    };
    let imports: Vec<&str> =
        text.lines().filter(|line| line.contains("require") || line.contains("import")).collect();
    let nothing: Vec<usize> = Vec::new();
    let defining = |name: &str| program.defining.get(name).unwrap_or(&nothing);
    let mut all: BTreeSet<usize> = BTreeSet::new();
    for line in registered {
        all.extend(named(line).into_iter().filter(|at| program.sources[*at].1.contains("pass")));
    }
    for (name, subjects) in &handed {
        if !subjects.iter().any(|subject| !defining(subject).is_empty()) || program.uses(name) {
            continue;
        }
        let imported = imports.iter().filter(|line| parts(line).contains(name)).flat_map(|line| named(line));
        let judges = defining(name).iter().copied().chain(imported).filter(|at| {
            can_refuse(&program.sources[*at].1)
                && !subjects.iter().any(|subject| defining(subject).contains(at))
        });
        all.extend(judges);
    }
    all.into_iter().map(|at| program.sources[at].0.as_str()).collect()
}

/// What a module is called by those who import it.
fn module_name(path: &str) -> &str {
    let stem = last(path).split('.').next().unwrap_or_default();
    if matches!(stem, "index" | "__init__" | "mod") { last(folder_of(path)) } else { stem }
}

/// Whether a check compares by itself.
pub(super) fn asserts(text: &str) -> bool {
    const BEGINNINGS: &[&str] =
        &["assert", "expect", "should", "raise", "throw", "panic", "fail", "Fatal", "Error", "exit"];
    text.lines()
        .filter(|line| {
            !["//", "#", "*", "/*", "use ", "import ", "from "]
                .iter()
                .any(|mark| line.trim_start().starts_with(mark))
        })
        .filter(|line| !line.contains("require("))
        .any(|line| {
            line.split(|c| !is_name(c)).any(|word| BEGINNINGS.iter().any(|begin| word.starts_with(begin)))
        })
}

/// The lines by which a check gives its library of tests more ways to compare.
fn registered(text: &str) -> Vec<&str> {
    const BY: &[&str] = &["expect.extend(", "chai.use(", "pytest_plugins"];
    text.lines().filter(|line| BY.iter().any(|by| line.contains(by))).collect()
}

/// Functions and macros that stand alone as statements and are given what another call gives, to compare it: `same(add(2, 2), 4)`,
/// `ENSURE(add(2, 2) == 4)`. Each with the names of the calls that it is given.
fn handed_on(text: &str) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for (at, _) in text.match_indices('(') {
        let before = text[..at].strip_suffix('!').unwrap_or(&text[..at]);
        let start = before
            .rfind(|c: char| !is_name(c))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let name = &before[start..];
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        // `calc::agree!(…)` stands where `agree!(…)` would.
        let mut above = before[..start].trim_end_matches("::");
        if above.len() < start {
            above = above.trim_end_matches(is_name);
        }
        let line = above.rsplit('\n').next().unwrap_or_default();
        let is_statement = line.trim().is_empty()
            || line.trim_end().ends_with([';', '{', '}', '>', ':'])
            || line.trim_end().ends_with("await");
        if !is_statement {
            continue;
        }
        let Some(inside) = inside(&text[at + 1..]) else { continue };
        let mut subjects: Vec<String> = Vec::new();
        for (open, _) in inside.match_indices('(') {
            let word = inside[..open].rsplit(|c: char| !is_name(c)).next().unwrap_or_default();
            if !word.is_empty() && word != name {
                subjects.push(word.to_owned());
            }
        }
        let compares = has_comma(inside) || inside.contains("==") || inside.contains("!=");
        if !subjects.is_empty() && compares {
            all.push((name.to_owned(), subjects));
        }
    }
    all
}

/// What stands before the parenthesis that closes one that was opened.
fn inside(text: &str) -> Option<&str> {
    let mut depth = 1_u32;
    for (at, c) in text.char_indices().take(2000) {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[..at]);
        }
    }
    None
}

/// Whether there is more than one argument.
fn has_comma(arguments: &str) -> bool {
    let mut depth = 0_i32;
    arguments.chars().any(|c| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
}

/// The names of the functions, macros and values that a source defines.
fn defined(source: &str) -> HashSet<&str> {
    const BY: &[&str] = &[
        "def",
        "fn",
        "function",
        "func",
        "define",
        "macro_rules",
        "const",
        "let",
        "var",
        "void",
        "int",
        "bool",
        "exports",
    ];
    let mut names = HashSet::new();
    let mut before = "";
    let mut rest = source;
    while let Some(start) = rest.find(is_name) {
        rest = &rest[start..];
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if BY.contains(&before) && !after.trim_start_matches(' ').starts_with(';') {
            names.insert(word);
        }
        (before, rest) = (word, after);
    }
    names
}

/// Whether a module that a gate runs judges other modules: it imports one, compares, and can end as failed.
pub(super) fn judges_others(path: &str, text: &str, is_there: &dyn Fn(&str) -> bool) -> bool {
    let compares = text.contains("==") || text.contains("!=");
    let mut others = imported_by_test(path, text).into_iter().flatten();
    compares && can_refuse(text) && others.any(|other| other != path && is_there(&other))
}

/// Whether a source can end a check as failed.
pub(super) fn can_refuse(source: &str) -> bool {
    const WORDS: &[&str] = &["raise", "throw", "panic", "exit", "abort", "assert", "fail", "_exit"];
    source.split(|c| !is_name(c)).any(|word| WORDS.iter().any(|known| word.starts_with(known)))
}

#[cfg(test)]
#[path = "references_tests.rs"]
mod tests;
