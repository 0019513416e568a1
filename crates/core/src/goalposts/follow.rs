//! What a gate runs beyond the words of its command: the scripts it starts, what these source, include and import, the recipes
//! of makefiles and the scripts of `package.json`, as far as their text says.

use std::collections::{BTreeSet, VecDeque};

use super::{
    conventions::kind_of,
    modules::{CHECKS, PRODUCTS, imported},
    references::{asserts, judges_others},
    runner::{Runner, runner_of},
};
use crate::judge::gate_scripts::script_runs;

/// How many files of one gate are followed. More are sealed where their names say what they are.
const MAX_FILES: usize = 200;
/// How many commands of one gate are read.
const MAX_COMMANDS: usize = 5000;

/// How the engine shows files to the reader.
pub trait Following {
    /// The text of a file, from the root of the workspace or absolute; `None` if it is none.
    fn text(&self, path: &str) -> Option<String>;
    /// The files that a pattern of a shell names.
    fn matching(&self, pattern: &str) -> Vec<String>;
    /// The user's home folder.
    fn home(&self) -> Option<String> {
        None
    }
    /// Where git finds the hook of this name, from the root of the workspace or absolute.
    fn hook(&self, _name: &str) -> Option<String> {
        None
    }
}

/// A file that a gate runs, sources or includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedFile {
    /// From the root of the workspace, or absolute.
    pub path: String,
    /// The file that names it; `None`: the gate's command itself.
    pub named_by: Option<String>,
}

enum Reads {
    Shell { text: String, dir: String, own_dir: String },
    Makefile { text: String, dir: String },
}

/// What a command runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    pub files: Vec<FollowedFile>,
    /// Patterns by which scripts find files, each of which finds one: a new file that fits takes part at once.
    pub patterns: Vec<String>,
    /// Files outside of the repository that would be followed if they were there.
    pub absent: Vec<String>,
    /// The test runners among what it starts.
    pub runners: Vec<Runner>,
    /// Names of programs that it and its scripts start and that its runners work with, for a search on PATH.
    pub programs: BTreeSet<String>,
    /// Whether it says where programs are looked for.
    pub sets_path: bool,
    /// Whether it runs a hook of git by its name.
    pub runs_hooks: bool,
}

/// What `command` runs, started in `dir`. The program that a script tests is the work itself and no part of the test.
pub fn follow(command: &str, dir: &str, files: &dyn Following) -> Followed {
    let mut found: Vec<FollowedFile> = Vec::new();
    let (mut patterns, mut absent): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let home = files.home();
    let at_home = |text: String| match &home {
        Some(home) if text.contains("HOME") || text.contains(" ~/") => {
            let text = text.replace("${HOME}", home).replace("$(HOME)", home).replace("$HOME", home);
            text.replace(" ~/", &format!(" {home}/"))
        }
        _ => text,
    };
    let mut runners: Vec<Runner> = Vec::new();
    let mut programs: BTreeSet<String> = BTreeSet::from(["sh".to_owned()]);
    let mut commands = 0_usize;
    let (mut sets_path, mut runs_hooks) = (false, false);
    let first = Reads::Shell { text: command.to_owned(), dir: dir.to_owned(), own_dir: dir.to_owned() };
    let mut queue: VecDeque<(Reads, Option<String>)> = VecDeque::from([(first, None)]);
    while let Some((reads, named_by)) = queue.pop_front() {
        let (script, dir, own_dir, included) = match reads {
            Reads::Shell { text, dir, own_dir } => (at_home(text), dir, own_dir, Vec::new()),
            Reads::Makefile { text, dir } => {
                let (script, included) = recipes(&at_home(text), &dir);
                (script, dir.clone(), dir, included)
            }
        };
        let runs = script_runs(&script, &dir, &own_dir);
        commands += runs.commands.len();
        if commands > MAX_COMMANDS {
            break;
        }
        for words in &runs.commands {
            programs.extend(words.first().filter(|word| is_program_name(word)).cloned());
            if let Some(runner) = runner_of(words) {
                programs.extend(runner.programs().iter().map(|name| (*name).to_owned()));
                if !runners.contains(&runner) {
                    runners.push(runner);
                }
                if runner == Runner::NpmScript
                    && let Some(text) = npm_scripts(words, &dir, files)
                {
                    queue.push_back((
                        Reads::Shell { text, dir: dir.clone(), own_dir: dir.clone() },
                        named_by.clone(),
                    ));
                }
            }
        }
        // What is sourced or included if it is there takes part as soon as it is there.
        let optional: BTreeSet<String> =
            sourced(&runs.commands, &dir).chain(included.iter().cloned()).collect();
        for path in optional.into_iter().filter(|path| !path.contains('$') && !path.starts_with('/')) {
            if files.text(&path).is_none() && !patterns.contains(&path) {
                patterns.push(path);
            }
        }
        let unread = if runs_what_it_computes(&script, &runs.commands) {
            named_checks(&script, &dir, named_by.is_some(), files)
        } else {
            Vec::new()
        };
        // One that is listed with them may run instead of them.
        for pattern in patterns_listed(&script, &dir).into_iter().filter(|_| !unread.is_empty()) {
            let listed = files.matching(&pattern);
            let is_run = !listed.is_empty() && listed.iter().all(|path| unread.contains(path));
            if is_run && !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        sets_path |= script.contains("PATH=");
        let hooks: Vec<&str> = runs.commands.iter().filter_map(|words| hook_of_git(words)).collect();
        runs_hooks |= !hooks.is_empty();
        let hooks = hooks.into_iter().filter_map(|name| files.hook(name));
        let judging = judging_modules(&runs.expressions, files);
        let commands_found = if script.contains("PATH=") {
            commands_of_workspace(&script, &runs.commands, files)
        } else {
            Vec::new()
        };
        let folders = folders_run(&runs.commands, &dir, files);
        let named = runs.files.iter().cloned().chain(included).chain(unread).chain(folders);
        for name in named.chain(judging).chain(commands_found).chain(hooks) {
            let is_pattern = name.contains(['*', '?', '[']);
            let paths = if is_pattern { files.matching(&name) } else { vec![name.clone()] };
            if is_pattern && !paths.is_empty() && !patterns.contains(&name) {
                patterns.push(name.clone());
            }
            let is_printing = runs.printing.contains(&name);
            for path in paths {
                let is_module = runs.modules.contains(&path);
                if (named_by.is_some() || is_module) && is_subject(&path, is_printing) {
                    continue;
                }
                if found.len() >= MAX_FILES || found.iter().any(|known| known.path == path) {
                    continue;
                }
                let Some(text) = files.text(&path) else {
                    if path.starts_with('/') && !is_pattern && !absent.contains(&path) {
                        absent.push(path);
                    }
                    continue;
                };
                // A module that judges no other may be the work.
                if is_module && !judges_others(&path, &text, &|path| files.text(path).is_some()) {
                    continue;
                }
                // What a build has made is made again from its sources.
                if text.contains('\0') && !path.starts_with('/') {
                    continue;
                }
                found.push(FollowedFile { path: path.clone(), named_by: named_by.clone() });
                if let Some(interpreter) = interpreter_of(&text)
                    && found.len() < MAX_FILES
                    && !found.iter().any(|known| known.path == interpreter)
                    && files.text(interpreter).is_some()
                {
                    found.push(FollowedFile { path: interpreter.to_owned(), named_by: Some(path.clone()) });
                }
                if loads_what_it_computes(&path, &text) {
                    for named in named_checks(&text, &dir, true, files) {
                        if found.len() < MAX_FILES && !found.iter().any(|known| known.path == named) {
                            found.push(FollowedFile { path: named, named_by: Some(path.clone()) });
                        }
                    }
                }
                let above = path.rsplit_once('/').map_or("", |(above, _)| above).to_owned();
                let file = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
                let reads = if file.ends_with("makefile") || file.ends_with(".mk") {
                    Some(Reads::Makefile { text, dir: above })
                } else if file.ends_with("justfile") {
                    Some(Reads::Shell { text: indented(&text), dir: above.clone(), own_dir: above })
                } else if is_shell(&file, &text) {
                    Some(Reads::Shell { text, dir: dir.clone(), own_dir: above })
                } else {
                    None
                };
                queue.extend(reads.map(|reads| (reads, Some(path))));
            }
        }
    }
    Followed { files: found, patterns, absent, runners, programs, sets_path, runs_hooks }
}

/// The modules that expressions load which do not compare by themselves: `python -c "import judge; judge.main()"`.
fn judging_modules(expressions: &[(&'static str, String)], files: &dyn Following) -> Vec<String> {
    let is_there = |path: &str| files.text(path).is_some();
    let silent =
        expressions.iter().filter(|(_, code)| !asserts(code) && !code.contains("==") && !code.contains("!="));
    let loaded = silent.flat_map(|(file, code)| imported(file, &code.replace(';', "\n")));
    let modules = loaded.filter_map(|paths| paths.into_iter().find(|path| is_there(path)));
    let judges = |path: &String| files.text(path).is_some_and(|text| judges_others(path, &text, &is_there));
    modules.filter(judges).collect()
}

/// The commands that a script runs for how they end, and that it finds in a folder of the workspace which it puts on PATH.
fn commands_of_workspace(script: &str, commands: &[Vec<String>], files: &dyn Following) -> Vec<String> {
    let lines: Vec<&str> = script.lines().map(str::trim_start).collect();
    let folders: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split_once("PATH=").map(|(_, value)| value))
        .flat_map(|value| value.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))))
        .filter(|word| !word.is_empty())
        .collect();
    let names: BTreeSet<&String> = commands.iter().filter_map(|words| words.first()).collect();
    let decides = |name: &&&String| {
        is_program_name(name) && lines.iter().any(|line| line.starts_with(&format!("{name} ")))
    };
    let found = names.iter().filter(decides).flat_map(|name| files.matching(&format!("**/{name}")));
    found
        .filter(|path| {
            let folder = path.rsplit_once('/').map(|(above, _)| above.rsplit('/').next().unwrap_or(above));
            folder.is_some_and(|folder| folders.contains(&folder)) && !is_subject(path, false)
        })
        .collect()
}

/// The files of folders that commands run as a whole: `run-parts checks`, `python3 checks`.
fn folders_run(commands: &[Vec<String>], dir: &str, files: &dyn Following) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for words in commands {
        let program = words[0].rsplit('/').next().unwrap_or_default();
        let is_python = program.starts_with("python");
        if !is_python && program != "run-parts" {
            continue;
        }
        let Some(folder) = words.iter().skip(1).find(|word| !word.starts_with('-')) else { continue };
        let folder = folder.trim_start_matches("./").trim_end_matches('/');
        let path = if dir.is_empty() { folder.to_owned() } else { format!("{dir}/{folder}") };
        if !is_python || files.text(&format!("{path}/__main__.py")).is_some() {
            all.extend(files.matching(&format!("{path}/*")));
        }
    }
    all
}

/// The hook that a command runs by its name: `git hook run pre-push`.
fn hook_of_git(words: &[String]) -> Option<&str> {
    let (program, arguments) = words.split_first()?;
    let at = arguments.windows(2).position(|pair| pair[0] == "hook" && pair[1] == "run")?;
    let name = arguments[at + 2..].iter().find(|word| !word.starts_with('-'))?;
    (program.rsplit('/').next() == Some("git") && !name.contains('/')).then_some(name.as_str())
}

/// The names that may be branches from which a script takes files: `git archive checks`, `git show checks:tests/run.sh`,
/// `git checkout checks -- tests`. What only compares with a branch takes nothing from it.
pub fn branches_read(script: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for words in script_runs(script, "", "").commands {
        let Some((program, arguments)) = words.split_first() else { continue };
        if program.rsplit('/').next() != Some("git") {
            continue;
        }
        let takes = |word: &&String| {
            matches!(word.as_str(), "archive" | "show" | "checkout" | "restore" | "read-tree" | "cat-file")
        };
        let Some(verb) = arguments.iter().find(takes) else { continue };
        let has_paths = arguments.iter().any(|word| word == "--");
        for word in arguments.iter().filter(|word| *word != verb) {
            let word = word.strip_prefix("--source=").unwrap_or(word);
            // Without a path after it, a branch is looked at as a whole.
            let (branch, is_taken) = match word.split_once(':') {
                Some((branch, _)) => (branch, true),
                None => (word, has_paths || !matches!(verb.as_str(), "show" | "checkout")),
            };
            let is_name =
                !branch.is_empty() && !branch.starts_with(['-', '/', '.']) && !branch.contains(['$', '*']);
            if is_taken && is_name && !all.iter().any(|known| known == branch) {
                all.push(branch.to_owned());
            }
        }
    }
    all
}

/// The patterns by which a script lists what it runs: `sh "$(ls checks/*.sh | tail -n 1)"`.
fn patterns_listed(script: &str, dir: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '+' | '*' | '?');
    let words = script.split(|c: char| !is_part(c)).map(|word| word.trim_start_matches("./"));
    let is_pattern = |word: &&str| {
        word.contains(['*', '?'])
            && word.contains('/')
            && !word.starts_with(['/', '-', '*', '?'])
            && !word.contains("..")
    };
    let below = |word: &str| if dir.is_empty() { word.to_owned() } else { format!("{dir}/{word}") };
    words.filter(is_pattern).map(below).collect()
}

/// The files that commands source.
fn sourced<'a>(commands: &'a [Vec<String>], dir: &'a str) -> impl Iterator<Item = String> + 'a {
    commands.iter().filter(|words| matches!(words[0].as_str(), "." | "source")).filter_map(move |words| {
        let path = words.get(1)?.trim_start_matches("./");
        Some(if dir.is_empty() || path.starts_with('/') { path.to_owned() } else { format!("{dir}/{path}") })
    })
}

/// Whether a script runs something that its text does not name where it runs it: what a pipe, a variable or another command says.
fn runs_what_it_computes(script: &str, commands: &[Vec<String>]) -> bool {
    const RUNS: &[&str] =
        &["sh", "bash", "dash", "zsh", "ksh", "python", "python3", "node", "perl", ".", "source"];
    let squeezed = script.split_whitespace().collect::<Vec<_>>().join(" ");
    // `sh -n` and `python -m` do not run the file that they are given.
    if ["sh -n ", "bash -n ", " -m ", "--check"].iter().any(|look| squeezed.contains(look)) {
        return false;
    }
    let is_given = |words: &Vec<String>| {
        let name = words[0].rsplit('/').next().unwrap_or_default();
        let script = words.iter().skip(1).find(|word| !word.starts_with('-'));
        RUNS.contains(&name) && script.is_some_and(|script| script.contains('$'))
    };
    let to_shell = ["| sh", "|sh", "| bash", "|bash"].iter().any(|pipe| {
        squeezed.match_indices(pipe).any(|(at, _)| {
            let next = squeezed[at + pipe.len()..].chars().next();
            !next.is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '_'))
        })
    });
    let computes = ["eval ", "xargs ", " -exec ", "$(shell ", "$(ls", "$(find", "`ls", "`find"];
    to_shell || computes.iter().any(|word| squeezed.contains(word)) || commands.iter().any(is_given)
}

/// Whether a check in Python or JavaScript runs other files that it does not import by name.
fn loads_what_it_computes(path: &str, text: &str) -> bool {
    const LOADS: &[&str] = &[
        "runpy",
        "importlib",
        "exec(",
        "__import__",
        "subprocess",
        "child_process",
        "import(",
        "os.system",
        "require(path",
        "require(file",
        "require(name",
    ];
    path.rsplit_once('.').is_some_and(|(_, end)| matches!(end, "py" | "js" | "mjs" | "cjs" | "ts"))
        && LOADS.iter().any(|word| text.contains(word))
}

/// The files that a script names in any way and that may be what it runs: scripts, lists, and what lies in folders of checks. Sources
/// and documents are the work.
fn named_checks(script: &str, dir: &str, is_followed: bool, files: &dyn Following) -> Vec<String> {
    const OF_CHECKS: &[&str] =
        &["qa", "ci", "steps", "step", "suite", "suites", "scenarios", "cases", "acceptance"];
    const LISTS: &[&str] = &["txt", "list", "lst", "tsv", "csv"];
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '+');
    let is_script = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name.rsplit_once('.') {
            Some((_, end)) => matches!(end, "sh" | "bash"),
            None => true,
        }
    };
    let is_of_checks = |folder: &str| {
        let name = folder.rsplit('/').next().unwrap_or(folder).to_ascii_lowercase();
        OF_CHECKS.contains(&name.as_str()) || CHECKS.iter().any(|word| name.contains(word))
    };
    let mut all: Vec<String> = Vec::new();
    for word in script.split(|c: char| !is_part(c)) {
        let word = word.trim_start_matches("./").trim_end_matches('/');
        if word.is_empty() || word.starts_with(['/', '-', '.']) || word.split('/').any(|part| part == "..") {
            continue;
        }
        let path = if dir.is_empty() { word.to_owned() } else { format!("{dir}/{word}") };
        let is_product = path.to_ascii_lowercase().split('/').any(|part| PRODUCTS.contains(&part));
        if is_product || (is_followed && is_subject(&path, false)) {
            continue;
        }
        if files.text(&path).is_some() {
            let is_list = path.rsplit_once('.').is_some_and(|(_, end)| LISTS.contains(&end));
            // One that is only searched is often the work.
            let is_handed_on = ["cat ", "<", "< "].iter().any(|by| {
                script.contains(&format!("{by}{word}")) || script.contains(&format!("{by}./{word}"))
            });
            if (is_list && is_handed_on) || (is_script(&path) && path.contains(['/', '.'])) {
                all.push(path);
            }
            continue;
        }
        let inside = files.matching(&format!("{path}/**"));
        let is_all_scripts = !inside.is_empty() && inside.iter().all(|path| is_script(path));
        if is_of_checks(&path) || is_all_scripts {
            all.extend(inside);
        }
    }
    all
}

fn is_program_name(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
    word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.chars().all(is_part)
}

/// Whether a program that a script runs is what the script tests: the script looks at what it prints, or it lies where products
/// lie, and its name does not say that it checks something.
fn is_subject(path: &str, is_printing: bool) -> bool {
    if path.starts_with('/') || kind_of(path).is_some() {
        return false;
    }
    let lower = path.to_ascii_lowercase();
    let (folders, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
    let checks = CHECKS.iter().any(|word| name.contains(word))
        || folders.split('/').any(|folder| folder == "ci" || CHECKS.iter().any(|word| folder.contains(word)));
    !checks && (is_printing || folders.split('/').any(|folder| PRODUCTS.contains(&folder)))
}

/// The interpreter that the first line of a script names, unless it is one of the system's.
fn interpreter_of(text: &str) -> Option<&str> {
    let program = text.lines().next()?.strip_prefix("#!")?.split_whitespace().next()?;
    let is_of_system =
        ["/bin/", "/usr/", "/sbin/", "/opt/", "/nix/"].iter().any(|top| program.starts_with(top));
    (program.starts_with('/') && !is_of_system).then_some(program)
}

fn is_shell(name: &str, text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let is_script = first.starts_with("#!")
        && ["sh", "bash", "dash", "zsh", "ksh"]
            .iter()
            .any(|shell| first.ends_with(shell) || first.contains(&format!("{shell} ")));
    is_script
        || name.ends_with(".sh")
        || name.ends_with(".bash")
        || (!first.starts_with("#!") && !name.contains('.'))
}

/// The scripts of `package.json` that a command of npm or its kin runs, with those that npm runs beside them.
fn npm_scripts(words: &[String], dir: &str, files: &dyn Following) -> Option<String> {
    let path = if dir.is_empty() { "package.json".to_owned() } else { format!("{dir}/package.json") };
    let package: serde_json::Value = serde_json::from_str(&files.text(&path)?).ok()?;
    let scripts = package.get("scripts")?.as_object()?;
    let mut names = words.iter().skip(1).filter(|word| !word.starts_with('-')).map(String::as_str);
    let name = match names.next()? {
        "run" | "run-script" => names.next()?,
        "t" | "tst" => "test",
        other => other,
    };
    let text: Vec<&str> = [format!("pre{name}"), name.to_owned(), format!("post{name}")]
        .iter()
        .filter_map(|name| scripts.get(name)?.as_str())
        .collect();
    (!text.is_empty()).then(|| text.join("\n"))
}

/// The recipes of a makefile as a shell script, and the makefiles that it includes.
fn recipes(text: &str, dir: &str) -> (String, Vec<String>) {
    let joined = text.replace("\\\n", " ");
    let mut variables: Vec<(String, String)> = Vec::new();
    let (mut script, mut included) = (String::new(), Vec::new());
    let put_in = |line: &str, variables: &[(String, String)]| {
        let mut line = line.to_owned();
        for (name, value) in variables.iter().rev() {
            line = line.replace(&format!("$({name})"), value).replace(&format!("${{{name}}}"), value);
        }
        line
    };
    for line in joined.lines() {
        if let Some(recipe) = line.strip_prefix('\t') {
            let recipe = recipe.trim_start_matches(['@', '-', '+']);
            let recipe = put_in(recipe, &variables).replace("$(MAKE)", "make").replace("$$", "$");
            // Every line of a recipe has a shell of its own.
            script.push_str(&format!("({recipe})\n"));
            continue;
        }
        let words = line.trim();
        let include = ["include ", "-include ", "sinclude "].iter().find_map(|word| words.strip_prefix(word));
        if let Some(names) = include {
            for name in put_in(names, &variables).split_whitespace() {
                let is_rooted = name.starts_with('/') || dir.is_empty();
                included.push(if is_rooted { name.to_owned() } else { format!("{dir}/{name}") });
            }
        } else if let Some((name, value)) = words.split_once('=')
            && !words.starts_with('#')
        {
            let name = name.trim_end_matches([':', '?', '+', '!']).trim();
            if !name.contains([' ', ':']) {
                let value = put_in(value.trim(), &variables);
                variables.push((name.to_owned(), value));
            }
        } else if let Some((_, recipe)) = words.split_once(';')
            && words.contains(':')
        {
            script.push_str(&format!("({})\n", put_in(recipe, &variables).replace("$$", "$")));
        }
    }
    (script, included)
}

/// The lines of recipes in a justfile.
fn indented(text: &str) -> String {
    text.lines()
        .filter(|line| line.starts_with([' ', '\t']))
        .map(|line| format!("({})\n", line.trim().trim_start_matches(['@', '-'])))
        .collect()
}
