//! The modules of the workspace that a check written in Python or JavaScript imports.
//!
//! A check imports two kinds of modules: its own helpers, which decide as much as the check itself, and the program under test,
//! which is the work. [`is_helper`] tells them apart by where they lie and what they are called; in doubt a module is work.

use super::conventions::kind_of;

/// Words in the names of files and folders that say: this checks something.
pub(super) const CHECKS: &[&str] = &[
    "test", "check", "verif", "lint", "assert", "expect", "compar", "valid", "spec", "gate", "ensure",
    "smoke",
];
/// Words in the names of modules that serve checks.
const SERVES_CHECKS: &[&str] =
    &["helper", "harness", "fixture", "support", "mock", "stub", "test", "assert", "expect"];
/// Folders in which scripts share the modules beside them.
const OF_SCRIPTS: &[&str] = &["ci", ".ci", "scripts", "script"];
/// Folders in which products lie.
pub(super) const PRODUCTS: &[&str] =
    &["bin", "src", "lib", "app", "cmd", "dist", "out", "exe", "sbin", "libexec"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Python,
    JavaScript,
}

fn language(path: &str, text: &str) -> Option<Language> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let first = text.lines().next().unwrap_or_default();
    let is_run_by = |program: &str| first.starts_with("#!") && first.contains(program);
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("py") => Some(Language::Python),
        Some("js" | "mjs" | "cjs" | "ts" | "mts" | "cts") => Some(Language::JavaScript),
        _ if is_run_by("python") => Some(Language::Python),
        _ if is_run_by("node") => Some(Language::JavaScript),
        _ => None,
    }
}

/// The files that may be what `text`, the content of the file `path`, imports: each import with every path by which it could be
/// found, in the order in which an interpreter looks.
pub(super) fn imported(path: &str, text: &str) -> Vec<Vec<String>> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    match language(path, text) {
        Some(Language::Python) => python(folder, text),
        Some(Language::JavaScript) => javascript(folder, text),
        None => Vec::new(),
    }
}

/// What the test at `path`, which a runner starts from the top of the workspace, imports: each import with every path by which it could
/// be found.
pub(super) fn imported_by_test(path: &str, text: &str) -> Vec<Vec<String>> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut all = imported(path, text);
    if name != path && language(path, text) == Some(Language::Python) {
        all.extend(imported(name, text));
    }
    for paths in &mut all {
        paths.retain(|module| kind_of(module).is_none());
    }
    all.retain(|paths| !paths.is_empty());
    all
}

/// Whether the module that the test at `path` imports serves tests and is not what they test: by where it lies, by its name, or since
/// it uses a library of tests itself.
pub(super) fn is_helper_of_test(module: &str, text: Option<&str>, path: &str) -> bool {
    const LIBRARIES: &[&str] = &[
        "import unittest",
        "from unittest",
        "import pytest",
        "from pytest",
        "'node:test'",
        "\"node:test\"",
        "'vitest'",
        "\"vitest\"",
        "@jest/globals",
        "'chai'",
        "\"chai\"",
    ];
    let uses_library = |text: &str| {
        text.lines().any(|line| {
            let line = line.trim_start();
            !line.starts_with(['#', '*', '/']) && LIBRARIES.iter().any(|library| line.contains(library))
        })
    };
    is_helper(module, path) || text.is_some_and(uses_library)
}

/// The packages that the test at `path` imports by their names: `chai`, `@scope/name`.
pub fn packages_of_test(path: &str, text: &str) -> Vec<String> {
    if language(path, text) != Some(Language::JavaScript) {
        return Vec::new();
    }
    let mut all: Vec<String> = Vec::new();
    for name in quoted_modules(text).filter(|name| !name.starts_with(['.', '/', '#']) && !name.contains(':'))
    {
        let parts = if name.starts_with('@') { 2 } else { 1 };
        let package = name.split('/').take(parts).collect::<Vec<_>>().join("/");
        if !package.is_empty() && !package.split('/').any(|part| part == "..") && !all.contains(&package) {
            all.push(package);
        }
    }
    all
}

/// The modules and packages that the test at `path` imports by their names, if it is written in Python: `numpy`, `calc`.
pub fn python_packages_of_test(path: &str, text: &str) -> Vec<String> {
    if language(path, text) != Some(Language::Python) {
        return Vec::new();
    }
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let lines = lines.flat_map(|line| line.split(';')).map(str::trim);
    let named = lines.flat_map(|line| {
        let modules = match (line.strip_prefix("import "), line.strip_prefix("from ")) {
            (Some(modules), _) => modules,
            (_, Some(rest)) => rest.split(" import").next().unwrap_or_default(),
            _ => "",
        };
        modules.split(',').filter_map(|module| module.split_whitespace().next()).collect::<Vec<_>>()
    });
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let mut all: Vec<String> = Vec::new();
    for name in named.map(|module| module.split('.').next().unwrap_or_default()).filter(is_name) {
        if !all.iter().any(|known| known == name) {
            all.push(name.to_owned());
        }
    }
    all
}

/// Endings of files that hold data.
const DATA: &[&str] =
    &["json", "yaml", "yml", "toml", "txt", "csv", "tsv", "ini", "cfg", "conf", "list", "lst"];

/// Whether a file holds data, by its ending.
pub(super) fn is_data(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').is_some_and(|(_, end)| DATA.contains(&end.to_ascii_lowercase().as_str()))
}

/// Whether a key or a column of a data file says that something is compared with it.
pub(super) fn holds_results(text: &str) -> bool {
    const KEYS: &[&str] = &["expected", "expect", "want", "wanted", "golden"];
    let is_key = |word: &str| KEYS.contains(&word.to_ascii_lowercase().as_str());
    // JSON, YAML and TOML: a name before `:` or `=`.
    let before_mark = text.match_indices([':', '=']).any(|(at, _)| {
        let name = text[..at].trim_end().trim_end_matches(['"', '\'']);
        is_key(name.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default())
    });
    // Tables: the names of the columns are in the first line.
    let first = text.lines().next().unwrap_or_default();
    let columns: Vec<&str> =
        first.split([',', ';', '\t']).map(|name| name.trim().trim_matches('"')).collect();
    before_mark || (columns.len() > 1 && columns.into_iter().any(is_key))
}

/// Whether the name of a data file, or of the folder it lies in, says that tests compare with what it holds.
pub(super) fn is_data_of_tests(path: &str) -> bool {
    const HOLDS_RESULTS: &[&str] = &[
        "expect",
        "golden",
        "cases",
        "vector",
        "record",
        "snapshot",
        "baseline",
        "approved",
        "reference",
        "oracle",
        "truth",
        "cassette",
        "fixture",
    ];
    let lower = path.to_ascii_lowercase();
    let mut parts = lower.rsplit('/');
    let Some((stem, end)) = parts.next().and_then(|name| name.rsplit_once('.')) else { return false };
    let folder = parts.next().unwrap_or_default();
    DATA.contains(&end) && HOLDS_RESULTS.iter().any(|word| stem.contains(word) || folder.contains(word))
}

/// Words in the names of data files by which a check leaves something out or decides how much is enough.
const STEERS_CHECKS: &[&str] = &[
    "skip",
    "ignore",
    "allow",
    "exclude",
    "exempt",
    "known",
    "expect",
    "threshold",
    "baseline",
    "golden",
    "quarantine",
    "flaky",
    "disabled",
];

/// Whether a data file that the check at `check` names says by its name, or by where it lies, that it steers the check: a list of what
/// is left out, or what lies beside the check in a folder of checks or scripts.
pub(super) fn steers_check(path: &str, check: &str) -> bool {
    let folder_of =
        |path: &str| path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_ascii_lowercase());
    let own = folder_of(check);
    let is_of_checks = own.split('/').any(|folder| {
        OF_SCRIPTS.contains(&folder) || folder == "tools" || CHECKS.iter().any(|word| folder.contains(word))
    });
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let stem = name.rsplit_once('.').map_or("", |(stem, _)| stem);
    is_data(path)
        && !stem.is_empty()
        && (STEERS_CHECKS.iter().any(|known| stem.contains(known))
            || (is_of_checks && folder_of(path) == own))
}

/// Whether a module is a helper of the check `script` that imports it, and not the program that the check tests.
pub(super) fn is_helper(module: &str, script: &str) -> bool {
    if kind_of(module).is_some() {
        return true;
    }
    let lower = module.to_ascii_lowercase();
    let (folders, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
    // Beside a check in a folder of checks or scripts lies what these share.
    let above = script.rsplit_once('/').map_or("", |(above, _)| above).to_ascii_lowercase();
    let is_of_checks = above
        .split('/')
        .any(|folder| OF_SCRIPTS.contains(&folder) || CHECKS.iter().any(|word| folder.contains(word)));
    if is_of_checks && (folders == above || folders.starts_with(&format!("{above}/"))) {
        return true;
    }
    let is_product = folders.split('/').any(|folder| PRODUCTS.contains(&folder));
    !is_product && SERVES_CHECKS.iter().any(|word| name.contains(word))
}

/// A path below `folder`, without `.` and `..`; `None` if it leads out of the workspace.
pub fn below(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// `import a.b, c` and `from .a import b` as Python finds them from the folder of the script.
fn python(folder: &str, text: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut add = |module: &str| {
        let dots = module.len() - module.trim_start_matches('.').len();
        let name = module.trim_start_matches('.').replace('.', "/");
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '/';
        if !name.chars().all(is_name) {
            return;
        }
        // One dot is the folder of the module, each further one the folder above.
        let up = "../".repeat(dots.saturating_sub(1));
        let file = |end: &str| below(folder, &format!("{up}{name}{end}"));
        let found: Vec<String> = [file("/__init__.py"), file(".py")].into_iter().flatten().collect();
        if !name.is_empty() && !found.is_empty() && !all.contains(&found) {
            all.push(found);
        }
    };
    let joined = text.replace("\\\n", " ");
    let mut lines = joined.lines();
    while let Some(line) = lines.next() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(names) = line.strip_prefix("import ") {
            for name in names.split([',', ';']) {
                add(name.split_whitespace().next().unwrap_or_default());
            }
        } else if let Some((module, names)) =
            line.strip_prefix("from ").and_then(|rest| rest.split_once(" import"))
        {
            let (module, mut names) = (module.trim(), names.trim().to_owned());
            add(module);
            // Names in parentheses may go on over many lines.
            while names.starts_with('(') && !names.contains(')') {
                let Some(next) = lines.next() else { break };
                names.push_str(next.split('#').next().unwrap_or_default());
            }
            for name in names.trim_matches(['(', ')']).split(',') {
                let name = name.trim_matches(['(', ')', ' ']).split_whitespace().next().unwrap_or_default();
                // `from checks import same` may name a module of a package, or something in it.
                if !name.is_empty() && name != "*" {
                    let dot = if module.ends_with('.') { "" } else { "." };
                    add(&format!("{module}{dot}{name}"));
                }
            }
        }
    }
    all
}

/// `require('./a')`, `import x from './a'`, `import('./a')` and `export … from './a'`: relative ones.
fn javascript(folder: &str, text: &str) -> Vec<Vec<String>> {
    const ENDS: &[&str] =
        &["", ".js", ".cjs", ".mjs", ".ts", ".mts", ".cts", ".json", "/index.js", "/index.mjs", "/index.ts"];
    let mut all: Vec<Vec<String>> = Vec::new();
    for name in quoted_modules(text).filter(|name| name.starts_with("./") || name.starts_with("../")) {
        let found: Vec<String> =
            ENDS.iter().filter_map(|end| below(folder, &format!("{name}{end}"))).collect();
        if !found.is_empty() && !all.contains(&found) {
            all.push(found);
        }
    }
    all
}

/// The names of modules that a file of JavaScript loads, as they are written.
fn quoted_modules(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| {
        ['\'', '"', '`'].into_iter().flat_map(move |quote| {
            // Every odd part lies between two quotes; what stands before it says whether it is a module.
            let parts: Vec<&str> = line.split(quote).collect();
            let modules: Vec<&str> = (1..parts.len())
                .step_by(2)
                .filter(|at| {
                    let before = parts[at - 1].trim_end();
                    let before = before.strip_suffix('(').map_or(before, str::trim_end);
                    ["require", "import", "from"].iter().any(|word| before.ends_with(word))
                })
                .map(|at| parts[at])
                .collect();
            modules
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_of_python_are_looked_for_from_the_folder_of_the_script() {
        let found = |path: &str, text: &str| -> Vec<String> {
            imported(path, text).into_iter().filter_map(|paths| paths.into_iter().next_back()).collect()
        };
        for (path, text, modules) in [
            ("check.py", "import helpers", vec!["helpers.py"]),
            ("ci/check.py", "import os, helpers as h  # words", vec!["ci/os.py", "ci/helpers.py"]),
            ("ci/check.py", "import a.b", vec!["ci/a/b.py"]),
            ("ci/check.py", "from helpers import same", vec!["ci/helpers.py", "ci/helpers/same.py"]),
            ("ci/check.py", "from . import same, other", vec!["ci/same.py", "ci/other.py"]),
            ("a/b/check.py", "from ..lib import x", vec!["a/lib.py", "a/lib/x.py"]),
            ("check.py", "from h import (\n    a,\n    b,\n)", vec!["h.py", "h/a.py", "h/b.py"]),
            ("check.py", "if x:\n    import late", vec!["late.py"]),
            ("check.py", "from h import *", vec!["h.py"]),
            ("check.py", "from ..out import x", vec![]),
            ("check", "#!/usr/bin/env python3\nimport helpers", vec!["helpers.py"]),
            ("check.sh", "import helpers", vec![]),
            ("check.py", "print('import helpers')", vec![]),
        ] {
            assert_eq!(found(path, text), modules, "{path}: {text}");
        }
        assert_eq!(imported("check.py", "import a"), [["a/__init__.py", "a.py"]]);
    }

    #[test]
    fn packages_of_a_test_in_python_are_what_it_imports_by_name() {
        for (path, text, packages) in [
            ("a.py", "import numpy.linalg as la, calc; import x  # y", vec!["numpy", "calc", "x"]),
            ("a.py", "from agreeing.by import agree\nfrom . import b\nfrom .c import d", vec!["agreeing"]),
            ("a.py", "print('import nothing')", vec![]),
            ("a.js", "import numpy", vec![]),
        ] {
            assert_eq!(python_packages_of_test(path, text), packages, "{text}");
        }
    }

    #[test]
    fn data_holds_results_if_a_key_or_a_column_says_so() {
        let table = [
            (r#"[{"a": 2, "expected": 4}]"#, true),
            ("- a: 2\n  want: 4\n", true),
            ("[[sum]]\na = 2\nexpected = 4\n", true),
            ("a,b,want\n2,2,4\n", true),
            ("a;b;\"Expected\"\n", true),
            (r#"{"signs": {"add": "+"}}"#, false),
            (r#"{"text": "what we expected"}"#, false),
            (r#"{"expected_users": 4}"#, false),
            ("name,want_ads\n", false),
            ("we want more\n", false),
            ("want\n", false),
            ("", false),
        ];
        for (text, expected) in table {
            assert_eq!(holds_results(text), expected, "{text}");
        }
        assert!(is_data("data/sums.JSON") && !is_data("src/json") && !is_data("json/sums.py"));
    }

    #[test]
    fn relative_imports_of_javascript_are_looked_for_from_the_folder_of_the_script() {
        for (text, modules) in [
            ("const { same } = require('./helpers.js');", vec!["ci/helpers.js"]),
            ("import same, { other } from \"./helpers.mjs\"", vec!["ci/helpers.mjs"]),
            ("import './setup.js';", vec!["ci/setup.js"]),
            ("const x = await import( `../lib/x.js` );", vec!["lib/x.js"]),
            ("export * from './all.js'; require('./b.js')", vec!["ci/all.js", "ci/b.js"]),
            ("require('mocha'); require('node:fs')", vec![]),
            ("// require('./old.js')", vec![]),
            ("console.log('./helpers.js')", vec![]),
            ("require('../../out.js')", vec![]),
        ] {
            let found: Vec<String> =
                imported("ci/check.js", text).into_iter().map(|p| p[0].clone()).collect();
            assert_eq!(found, modules, "{text}");
        }
        assert!(imported("check.js", "require('./a')")[0].contains(&"a/index.js".to_owned()));
    }

    #[test]
    fn a_helper_of_a_check_is_told_from_the_program_that_it_tests() {
        for (module, script, is) in [
            ("helpers.py", "check.py", true),
            ("calc.py", "check.py", false),
            ("src/calc.js", "check.js", false),
            ("src/helpers.js", "check.js", false),
            ("validator.py", "check.py", false),
            ("checks/rules.py", "check.py", false),
            ("app/assertions.py", "check.py", false),
            ("assertions.py", "check.py", true),
            ("scripts/common.py", "scripts/check.py", true),
            ("scripts/lib/common.py", "scripts/check.py", true),
            ("src/common.py", "scripts/check.py", false),
            ("common.py", "scripts/check.py", false),
            ("tests/common.py", "check.py", true),
            ("checks/same.js", "checks/all.js", true),
        ] {
            assert_eq!(is_helper(module, script), is, "{module} of {script}");
        }
    }
}
