//! Files that hold both work and goalposts: which of their keys or blocks decide what a runner does, and how these are put
//! back to what they were while the rest stays.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item, Table};

use super::{GoalpostKind, conventions::kind_of, doc_tests};
use crate::{judge::tamper::rust_test_items, policy::stays_inside};

/// A kind of file that is shared with other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedFile {
    PackageJson,
    CargoToml,
    PyprojectToml,
    SetupCfg,
    Cmake,
    Gradle,
    MavenPom,
    /// `go.mod`, which takes a folder out of the module around it, and says what stands for a module that tests use.
    GoMod,
    /// Tests among Rust sources: `#[cfg(test)] mod tests { … }`, and the examples in their documentation.
    RustSource,
    /// The examples in the documentation of Python sources: `>>> add(2, 2)`.
    PythonSource,
}

/// What the checks of the start need of a shared file.
pub struct Checks<'a> {
    /// Whether a test asks for the feature of this name.
    pub ask_for: &'a dyn Fn(&str) -> bool,
    /// Whether the file at this path, from the folder of the shared file, decides with the checks.
    pub rest_on: &'a dyn Fn(&str) -> bool,
    /// Whether the folder at this path, from the folder of the shared file, holds a module that would be taken for a part of the
    /// runner if modules were looked for there.
    pub shadows: &'a dyn Fn(&str) -> bool,
}

/// The keys of `package.json` that decide as a whole.
const PACKAGE_KEYS: &[&str] = &[
    "jest",
    "mocha",
    "ava",
    "vitest",
    "c8",
    "nyc",
    "tap",
    "babel",
    "eslintConfig",
    "prettier",
    "wireit",
    "config",
];

/// The tables of `pyproject.toml` that decide.
const PYPROJECT_TABLES: &[&[&str]] = &[
    &["tool", "pytest"],
    &["tool", "tox"],
    &["tool", "nox"],
    &["tool", "coverage"],
    &["tool", "hatch", "envs"],
    &["tool", "pdm", "scripts"],
    &["tool", "poe"],
    &["tool", "taskipy"],
    &["tool", "ruff"],
    &["tool", "mypy"],
    &["tool", "pylint"],
    &["tool", "flake8"],
    &["tool", "pyright"],
    &["project", "entry-points", "pytest11"],
    &["tool", "poetry", "plugins", "pytest11"],
];

/// The keys of `Cargo.toml` that decide. Lists of members are joined: a new member is welcome, one that is left out is not.
const CARGO_KEYS: &[&[&str]] = &[
    &["test"],
    &["lints"],
    &["patch"],
    &["replace"],
    &["workspace", "lints"],
    &["workspace", "exclude"],
    &["workspace", "default-members"],
    &["package", "autotests"],
    &["lib", "test"],
    &["lib", "doctest"],
    &["lib", "harness"],
    &["profile", "test"],
    // The profile of tests rests on this one.
    &["profile", "dev"],
];

/// The sections of `setup.cfg` that decide, by their beginnings.
const CFG_SECTIONS: &[&str] = &[
    "tool:pytest",
    "pytest",
    "testenv",
    "tox",
    "aliases",
    "coverage:",
    "flake8",
    "mypy",
    "pylint",
    "test",
    "unittest",
];

/// The commands of CMake that say what `ctest` runs.
const CMAKE_COMMANDS: &[&str] = &[
    "enable_testing",
    "add_test",
    "set_tests_properties",
    "gtest_discover_tests",
    "gtest_add_tests",
    "catch_discover_tests",
    "doctest_discover_tests",
    "include_ctest",
    "set_property",
];

/// What the header of a block in a Gradle script holds if the block decides about tests.
const GRADLE_BLOCKS: &[&str] = &["test", "withType<Test>", "withType(Test", "testing", "check"];

impl SharedFile {
    pub(super) fn of_name(name: &str) -> Option<Self> {
        match name {
            "package.json" => Some(Self::PackageJson),
            "Cargo.toml" => Some(Self::CargoToml),
            "pyproject.toml" => Some(Self::PyprojectToml),
            "setup.cfg" => Some(Self::SetupCfg),
            "CMakeLists.txt" => Some(Self::Cmake),
            "build.gradle" | "build.gradle.kts" => Some(Self::Gradle),
            "pom.xml" => Some(Self::MavenPom),
            "go.mod" => Some(Self::GoMod),
            _ => None,
        }
    }

    /// The part of `text` that decides, in a form that is equal for equal meaning; `None` if there is none. A file that
    /// cannot be read as what it is decides as a whole.
    pub fn deciding_part(self, text: &str) -> Option<String> {
        let part = match self {
            Self::PackageJson => match serde_json::from_str::<Value>(text) {
                Ok(Value::Object(package)) => {
                    let keys = deciding_keys_of_package(&package);
                    if keys.is_empty() { String::new() } else { Value::Object(keys).to_string() }
                }
                _ => text.to_owned(),
            },
            Self::CargoToml => toml_part(text, CARGO_KEYS, &cargo_extra),
            Self::PyprojectToml => toml_part(text, PYPROJECT_TABLES, &|_| String::new()),
            Self::SetupCfg => sections(text).into_iter().filter(|s| s.decides).map(|s| s.text).collect(),
            Self::GoMod => {
                let replaced =
                    replacements(text).into_iter().map(|(module, by)| format!("\n{module} => {by}"));
                std::iter::once("module".to_owned()).chain(replaced).collect()
            }
            Self::Cmake | Self::Gradle | Self::MavenPom | Self::RustSource | Self::PythonSource => self
                .blocks(text)
                .into_iter()
                .map(|block| squeezed(&text[block.start..block.end]) + "\n")
                .collect(),
        };
        (!part.trim().is_empty()).then_some(part)
    }

    /// `new` with the deciding part of `old`: the file as it would be if the agent had left the goalposts alone. Where one of
    /// them cannot be read as what it is, that is `old`, as a whole.
    pub fn as_before(self, old: &str, new: &str) -> String {
        self.as_before_for(old, new, &Checks { ask_for: &|_| true, rest_on: &|_| false, shadows: &|_| true })
    }

    /// The same where `checks` tell what they need.
    pub fn as_before_for(self, old: &str, new: &str, checks: &Checks<'_>) -> String {
        let merged = match self {
            Self::PackageJson => package_as_before(old, new, checks.rest_on),
            Self::CargoToml => toml_as_before(old, new, CARGO_KEYS, Some(checks.ask_for)),
            Self::PyprojectToml => toml_as_before(old, new, PYPROJECT_TABLES, None)
                .map(|before| with_new_folders_of_sources(before, new, checks.shadows)),
            Self::SetupCfg => {
                let kept = sections(new).into_iter().filter(|section| !section.decides);
                let before = sections(old).into_iter().filter(|section| section.decides);
                Some(kept.chain(before).map(|section| section.text).collect())
            }
            Self::GoMod => Some(if old.is_empty() { String::new() } else { go_mod_as_before(old, new) }),
            Self::Cmake | Self::Gradle | Self::MavenPom | Self::RustSource | Self::PythonSource => {
                Some(self.blocks_as_before(old, new))
            }
        };
        merged.unwrap_or_else(|| old.to_owned())
    }

    fn blocks(self, text: &str) -> Vec<Block> {
        match self {
            Self::Cmake => cmake_blocks(text),
            Self::Gradle => gradle_blocks(text),
            Self::MavenPom => pom_blocks(text),
            Self::RustSource => {
                let items = rust_test_items(text).into_iter().map(|item| Block {
                    start: item.start,
                    end: item.end,
                    name: item.name,
                    is_nested: item.is_nested,
                });
                let mut blocks: Vec<Block> = items.collect();
                let examples = doc_tests::rust(text).into_iter().map(Block::of_example);
                let apart: Vec<Block> = examples
                    .filter(|example| {
                        !blocks.iter().any(|block| example.start < block.end && block.start < example.end)
                    })
                    .collect();
                blocks.extend(apart);
                blocks.sort_by_key(|block| block.start);
                blocks
            }
            Self::PythonSource => doc_tests::python(text).into_iter().map(Block::of_example).collect(),
            Self::PackageJson | Self::CargoToml | Self::PyprojectToml | Self::SetupCfg | Self::GoMod => {
                Vec::new()
            }
        }
    }

    /// Blocks of the same name take each other's place. New ones go; those that the agent took away come back at the end, or
    /// in Maven's files where such blocks may stand.
    fn blocks_as_before(self, old: &str, new: &str) -> String {
        let mut before: Vec<(Block, bool)> =
            self.blocks(old).into_iter().map(|block| (block, false)).collect();
        let mut text = String::with_capacity(new.len() + 256);
        let mut at = 0;
        for block in self.blocks(new) {
            text.push_str(&new[at..block.start]);
            let twin = before.iter_mut().find(|(old, is_placed)| {
                !is_placed && old.name == block.name && old.is_nested == block.is_nested
            });
            if let Some((twin, is_placed)) = twin {
                text.push_str(&old[twin.start..twin.end]);
                *is_placed = true;
            }
            at = block.end;
        }
        text.push_str(&new[at..]);
        let lost: String = before
            .iter()
            .filter(|(_, is_placed)| !is_placed)
            .enumerate()
            .map(|(number, (block, _))| self.lost_block(block, &old[block.start..block.end], number))
            .collect();
        if lost.is_empty() {
            return text;
        }
        let place = match self {
            Self::MavenPom => text.rfind("</plugins>").or_else(|| text.rfind("</project>")),
            _ => None,
        };
        text.insert_str(place.unwrap_or(text.len()), &lost);
        text
    }
}

impl SharedFile {
    /// A block that the agent took away, for the end of the file. An example needs something that it documents.
    fn lost_block(self, block: &Block, text: &str, number: usize) -> String {
        match self {
            Self::RustSource if block.is_example() => doc_tests::rust_alone(text, number),
            Self::PythonSource => doc_tests::python_alone(text, number),
            _ => format!("\n{text}\n"),
        }
    }
}

/// A part of a text that decides.
struct Block {
    start: usize,
    end: usize,
    /// What makes it the same block in another version of the file.
    name: String,
    /// Whether it lies within another item.
    is_nested: bool,
}

impl Block {
    fn of_example(example: doc_tests::Example) -> Self {
        Self { start: example.start, end: example.end, name: example.name, is_nested: false }
    }

    fn is_example(&self) -> bool {
        self.name.starts_with(doc_tests::EXAMPLE)
    }
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

// --- package.json -------------------------------------------------------------------------------------------

/// A hook of npm runs beside the script it is named for.
fn is_hook(name: &str) -> bool {
    name.starts_with("pre") || name.starts_with("post")
}

fn deciding_keys_of_package(package: &Map<String, Value>) -> Map<String, Value> {
    let has_conditions = gives_conditions(package);
    // Which of the imports lead to a part of the checks is asked once they differ.
    let mut keys: Map<String, Value> = package
        .iter()
        .filter(|(key, _)| {
            PACKAGE_KEYS.contains(&key.as_str())
                || matches!(&key[..], "scripts" | "imports")
                || (has_conditions && *key == "exports")
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    keys.retain(|_, value| *value != Value::Object(Map::new()));
    keys
}

/// Whether a script gives conditions by which the modules of the package itself are chosen.
fn gives_conditions(package: &Map<String, Value>) -> bool {
    let scripts = package.get("scripts").and_then(Value::as_object);
    let mut texts = scripts.into_iter().flat_map(|scripts| scripts.values()).filter_map(Value::as_str);
    texts.any(|text| text.contains("--conditions") || text.contains(" -C "))
}

/// The names in `imports` that lead to what belongs to tests.
fn imports_of_tests(package: &Map<String, Value>, is_rested_on: &dyn Fn(&str) -> bool) -> Map<String, Value> {
    let imports = package.get("imports").and_then(Value::as_object);
    let is_of_tests = |target: &Value| {
        let target = target.as_str().or_else(|| target.get("default").and_then(Value::as_str));
        target.is_some_and(|path| {
            let path = path.trim_start_matches("./");
            let kind = kind_of(path);
            matches!(kind, Some(GoalpostKind::Test | GoalpostKind::Setting)) || is_rested_on(path)
        })
    };
    let all = imports.into_iter().flatten().filter(|(_, target)| is_of_tests(target));
    all.map(|(name, target)| (name.clone(), target.clone())).collect()
}

/// Scripts that were there are as they were; a new one stays, unless npm would run it beside another.
fn package_as_before(old: &str, new: &str, is_rested_on: &dyn Fn(&str) -> bool) -> Option<String> {
    let Ok(Value::Object(old)) = serde_json::from_str::<Value>(old) else { return None };
    let Ok(Value::Object(mut new)) = serde_json::from_str::<Value>(new) else { return None };
    let exports = ["exports"].iter().filter(|_| gives_conditions(&old));
    for key in PACKAGE_KEYS.iter().chain(exports) {
        match old.get(*key) {
            Some(value) => new.insert((*key).to_owned(), value.clone()),
            None => new.remove(*key),
        };
    }
    let imports = imports_of_tests(&old, is_rested_on);
    if !imports.is_empty() {
        let now = new.entry("imports").or_insert_with(|| Value::Object(Map::new()));
        if let Some(now) = now.as_object_mut() {
            now.extend(imports);
        }
    }
    let mut scripts = match new.remove("scripts") {
        Some(Value::Object(scripts)) => scripts,
        _ => Map::new(),
    };
    scripts.retain(|name, _| !is_hook(name));
    if let Some(Value::Object(before)) = old.get("scripts") {
        scripts.extend(before.iter().map(|(name, script)| (name.clone(), script.clone())));
    }
    if !scripts.is_empty() {
        new.insert("scripts".to_owned(), Value::Object(scripts));
    }
    serde_json::to_string_pretty(&Value::Object(new)).ok()
}

// --- TOML ---------------------------------------------------------------------------------------------------

fn at<'a>(document: &'a DocumentMut, path: &[&str]) -> Option<&'a Item> {
    path.iter().try_fold(document.as_item(), |item, key| item.get(key)).filter(|item| !item.is_none())
}

fn toml_part(text: &str, keys: &[&[&str]], extra: &dyn Fn(&DocumentMut) -> String) -> String {
    let Ok(document) = text.parse::<DocumentMut>() else { return text.to_owned() };
    let mut part = String::new();
    for path in keys {
        if let Some(item) = at(&document, path) {
            part.push_str(&format!("{} = {}\n", path.join("."), canonical(item)));
        }
    }
    part + &extra(&document)
}

/// A value of TOML without its spaces, comments and order of keys.
fn canonical(item: &Item) -> String {
    if let Some(table) = item.as_table_like() {
        let mut keys: Vec<String> =
            table.iter().map(|(key, value)| format!("{key}={}", canonical(value))).collect();
        keys.sort_unstable();
        return format!("{{{}}}", keys.join(","));
    }
    if let Some(tables) = item.as_array_of_tables() {
        let mut tables: Vec<String> =
            tables.iter().map(|table| canonical(&Item::Table(table.clone()))).collect();
        tables.sort_unstable();
        return format!("[{}]", tables.join(","));
    }
    match item.as_array() {
        Some(array) => {
            let values: Vec<String> =
                array.iter().map(|value| canonical(&Item::Value(value.clone()))).collect();
            format!("[{}]", values.join(","))
        }
        None => item.as_value().map(|value| value.clone().decorated("", "").to_string()).unwrap_or_default(),
    }
}

/// Members of a workspace, and binaries that are not tested: a list that gets shorter decides, one that grows does not.
fn cargo_extra(document: &DocumentMut) -> String {
    let mut part = String::new();
    if let Some(members) = at(document, &["workspace", "members"]) {
        part.push_str(&format!("workspace.members = {}\n", canonical(members)));
    }
    if at(document, &["features"]).is_some() {
        let default = at(document, &["features", "default"]).map(canonical).unwrap_or_default();
        part.push_str(&format!("features.default = {default}\n"));
    }
    for (name, source) in dev_sources(document) {
        part.push_str(&format!("dev-dependencies.{name} = {source}\n"));
    }
    if let Some(name) = at(document, &["lib", "name"]) {
        part.push_str(&format!("lib.name = {}\n", canonical(name)));
    }
    // They may take the name of the library.
    for (above, name) in dependencies(document) {
        let mut path: Vec<&str> = above.iter().map(String::as_str).collect();
        path.push(&name);
        if let Some(dependency) =
            at(document, &path).filter(|item| item.get("path").or(item.get("package")).is_some())
        {
            part.push_str(&format!("{} = {}\n", path.join("."), canonical(dependency)));
        }
    }
    for kind in ["bin", "example"] {
        for table in document.get(kind).and_then(Item::as_array_of_tables).into_iter().flatten() {
            let name = table.get("name").map(canonical).unwrap_or_default();
            for key in ["test", "harness"] {
                if let Some(value) = table.get(key) {
                    part.push_str(&format!("{kind}.{name}.{key} = {}\n", canonical(value)));
                }
            }
        }
    }
    part
}

fn toml_as_before(
    old: &str,
    new: &str,
    keys: &[&[&str]],
    of_cargo: Option<&dyn Fn(&str) -> bool>,
) -> Option<String> {
    let old = old.parse::<DocumentMut>().ok()?;
    let mut new = new.parse::<DocumentMut>().ok()?;
    for path in keys {
        let Some((last, above)) = path.split_last() else { continue };
        match at(&old, path) {
            Some(item) => {
                let mut table: &mut dyn toml_edit::TableLike = new.as_table_mut();
                for key in above {
                    if table.get(key).is_none_or(|item| !item.is_table_like()) {
                        let mut fresh = Table::new();
                        fresh.set_implicit(true);
                        table.insert(key, Item::Table(fresh));
                    }
                    table = table.get_mut(key)?.as_table_like_mut()?;
                }
                table.insert(last, item.clone());
            }
            None => {
                let mut table: Option<&mut dyn toml_edit::TableLike> = Some(new.as_table_mut());
                for key in above {
                    table = table.and_then(|table| table.get_mut(key)).and_then(Item::as_table_like_mut);
                }
                if let Some(table) = table {
                    table.remove(last);
                }
            }
        }
    }
    if let Some(is_asked_for) = of_cargo {
        cargo_lists_as_before(&old, &mut new, is_asked_for);
    }
    Some(new.to_string())
}

/// `before` with the folders that `new` looks for modules in, behind those that were there: where sources have moved, their tests
/// find them there, and whatever was found before still is. Where no folder of the workspace was looked at, none is.
fn with_new_folders_of_sources(before: String, new: &str, shadows: &dyn Fn(&str) -> bool) -> String {
    const PATH: &[&str] = &["tool", "pytest", "ini_options", "pythonpath"];
    let folders = |document: &DocumentMut| -> Vec<String> {
        let Some(item) = at(document, PATH) else { return Vec::new() };
        match item.as_str() {
            Some(text) => text.split_whitespace().map(str::to_owned).collect(),
            None => item
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(toml_edit::Value::as_str)
                .map(str::to_owned)
                .collect(),
        }
    };
    let (Ok(mut document), Ok(new)) = (before.parse::<DocumentMut>(), new.parse::<DocumentMut>()) else {
        return before;
    };
    let mut all = folders(&document);
    let is_inside = |folder: &String| stays_inside(folder) && !folder.split('/').any(|part| part == "..");
    let more: Vec<String> = folders(&new)
        .into_iter()
        .filter(|folder| !all.contains(folder) && is_inside(folder) && !shadows(folder))
        .collect();
    let Some((last, above)) = PATH.split_last().filter(|_| !all.is_empty() && !more.is_empty()) else {
        return before;
    };
    all.extend(more);
    let mut table: Option<&mut dyn toml_edit::TableLike> = Some(document.as_table_mut());
    for key in above {
        table = table.and_then(|table| table.get_mut(key)).and_then(Item::as_table_like_mut);
    }
    if let Some(table) = table {
        table.insert(last, toml_edit::value(all.into_iter().collect::<toml_edit::Array>()));
    }
    document.to_string()
}

/// Members that were there are members again, and binaries are tested as they were.
fn cargo_lists_as_before(old: &DocumentMut, new: &mut DocumentMut, is_asked_for: &dyn Fn(&str) -> bool) {
    let before: Vec<toml_edit::Value> = at(old, &["workspace", "members"])
        .and_then(Item::as_array)
        .map(|members| members.iter().cloned().collect())
        .unwrap_or_default();
    if let Some(members) =
        new.get_mut("workspace").and_then(|item| item.get_mut("members")).and_then(Item::as_array_mut)
    {
        for member in before {
            if !members.iter().any(|known| known.as_str() == member.as_str()) {
                members.push(member.decorated("", ""));
            }
        }
    }
    default_features_as_before(old, new, is_asked_for);
    // The name by which tests know the library is not that of a dependency now.
    if library(old).is_some() {
        let libraries = [library(old), library(new)];
        let before = dependencies(old);
        let is_rival = |entry: &(Vec<String>, String)| {
            libraries.contains(&Some(entry.1.replace('-', "_"))) && !before.contains(entry)
        };
        for (above, dependency) in dependencies(new).into_iter().filter(is_rival) {
            let mut table: Option<&mut dyn toml_edit::TableLike> = Some(new.as_table_mut());
            for key in &above {
                table = table.and_then(|table| table.get_mut(key)).and_then(Item::as_table_like_mut);
            }
            table.and_then(|table| table.remove(&dependency));
        }
    }
    let now = dev_sources(new);
    for (name, _) in dev_sources(old).into_iter().filter(|entry| !now.contains(entry)) {
        let before = at(old, &["dev-dependencies", &name]).cloned();
        if new.get("dev-dependencies").is_none_or(|item| !item.is_table_like()) {
            new.insert("dev-dependencies", Item::Table(Table::new()));
        }
        let table = new.get_mut("dev-dependencies").and_then(Item::as_table_like_mut);
        if let (Some(table), Some(before)) = (table, before) {
            table.insert(&name, before);
        }
    }
    for kind in ["bin", "example"] {
        let Some(tables) = new.get_mut(kind).and_then(Item::as_array_of_tables_mut) else { continue };
        for table in tables.iter_mut() {
            let name = table.get("name").map(canonical);
            let twin = old
                .get(kind)
                .and_then(Item::as_array_of_tables)
                .and_then(|tables| tables.iter().find(|table| table.get("name").map(canonical) == name));
            for key in ["test", "harness"] {
                match twin.and_then(|twin| twin.get(key)) {
                    Some(value) => table.insert(key, value.clone()),
                    None => table.remove(key),
                };
            }
        }
    }
}

/// A feature that was there and that a test may ask for is on by default if it was. One that is new is the work's own.
fn default_features_as_before(old: &DocumentMut, new: &mut DocumentMut, is_asked_for: &dyn Fn(&str) -> bool) {
    let names = |document: &DocumentMut| -> Vec<String> {
        let list = at(document, &["features", "default"]).and_then(Item::as_array);
        let names = list.into_iter().flatten().filter_map(toml_edit::Value::as_str);
        names.map(str::to_owned).collect()
    };
    let (before, now) = (names(old), names(new));
    let is_new = |name: &str| at(old, &["features", name]).is_none();
    let stays = |name: &&String| before.contains(name) || is_new(name) || !is_asked_for(name);
    let mut wanted: Vec<&String> = now.iter().filter(stays).collect();
    // One that is gone altogether cannot be on.
    let is_there =
        |name: &&String| name.contains(['/', ':']) || at(new, &["features", name.as_str()]).is_some();
    wanted.extend(before.iter().filter(|name| !now.contains(name)).filter(is_there));
    if wanted.len() == now.len() && wanted.iter().all(|name| now.contains(name)) {
        return;
    }
    let list: toml_edit::Array = wanted.into_iter().map(String::as_str).collect();
    if let Some(features) = new.get_mut("features").and_then(Item::as_table_like_mut) {
        features.insert("default", toml_edit::value(list));
    }
}

/// The name by which tests know the library of a package.
pub(super) fn library(document: &DocumentMut) -> Option<String> {
    let name = at(document, &["lib", "name"]).or_else(|| at(document, &["package", "name"]))?;
    Some(name.as_str()?.replace('-', "_"))
}

/// The dependencies of code and tests by the names that these know them by, each with the tables it stands in.
fn dependencies(document: &DocumentMut) -> Vec<(Vec<String>, String)> {
    const KINDS: &[&str] = &["dependencies", "dev-dependencies"];
    let mut tables: Vec<Vec<String>> = KINDS.iter().map(|kind| vec![(*kind).to_owned()]).collect();
    let targets = document.get("target").and_then(Item::as_table_like);
    for (target, _) in targets.into_iter().flat_map(|table| table.iter()) {
        tables.extend(
            KINDS.iter().map(|kind| vec!["target".to_owned(), target.to_owned(), (*kind).to_owned()]),
        );
    }
    let mut found = Vec::new();
    for above in tables {
        let path: Vec<&str> = above.iter().map(String::as_str).collect();
        let table = at(document, &path).and_then(Item::as_table_like);
        let names = table.into_iter().flat_map(|table| table.iter()).map(|(name, _)| name.to_owned());
        found.extend(names.map(|name| (above.clone(), name)));
    }
    found
}

/// Where the dev-dependencies come from that do not come from the registry: what tests compare with may lie there.
fn dev_sources(document: &DocumentMut) -> Vec<(String, String)> {
    let table = document.get("dev-dependencies").and_then(Item::as_table_like);
    let sourced = table.into_iter().flat_map(|table| table.iter()).filter_map(|(name, item)| {
        let dependency = item.as_table_like()?;
        let keys = ["path", "git", "package", "registry"];
        let source: Vec<String> = keys
            .iter()
            .filter_map(|key| Some(format!("{key}={}", canonical(dependency.get(key)?))))
            .collect();
        (!source.is_empty()).then(|| (name.to_owned(), source.join(",")))
    });
    sourced.collect()
}

// --- go.mod -------------------------------------------------------------------------------------------------

/// Where a line stands, and what it replaces by what, if it does.
type ReplaceLine = (std::ops::Range<usize>, Option<(String, String)>);

/// The lines of `go.mod` that replace a module, alone or in a block: where they stand, and what they say.
fn replace_lines(text: &str) -> Vec<ReplaceLine> {
    let (mut lines, mut start, mut is_block) = (Vec::new(), 0, false);
    for line in text.split_inclusive('\n') {
        let range = start..start + line.len();
        start = range.end;
        let bare = line.split("//").next().unwrap_or_default().trim();
        let entry = if is_block {
            is_block = bare != ")";
            bare
        } else if let Some(rest) =
            bare.strip_prefix("replace").filter(|rest| rest.starts_with([' ', '\t', '(']))
        {
            is_block = rest.trim() == "(";
            rest.trim()
        } else {
            continue;
        };
        let said = entry.split_once("=>").map(|(module, by)| (squeezed(module), squeezed(by)));
        lines.push((range, said));
    }
    lines
}

fn replacements(text: &str) -> Vec<(String, String)> {
    let mut all: Vec<_> = replace_lines(text).into_iter().filter_map(|(_, said)| said).collect();
    all.sort_unstable();
    all
}

/// Modules that were replaced are replaced as they were; a replacement that is new stays.
fn go_mod_as_before(old: &str, new: &str) -> String {
    let (before, now) = (replacements(old), replacements(new));
    if before.iter().all(|entry| now.contains(entry)) {
        return new.to_owned();
    }
    let (mut text, mut at) = (String::new(), 0);
    for (range, _) in replace_lines(new) {
        text.push_str(&new[at..range.start]);
        at = range.end;
    }
    text.push_str(&new[at..]);
    let is_new = |(module, _): &&(String, String)| !before.iter().any(|(known, _)| known == module);
    for (module, by) in before.iter().chain(now.iter().filter(is_new)) {
        text.push_str(&format!("\nreplace {module} => {by}\n"));
    }
    text
}

// --- setup.cfg ----------------------------------------------------------------------------------------------

struct CfgSection {
    decides: bool,
    text: String,
}

fn sections(text: &str) -> Vec<CfgSection> {
    let mut sections = vec![CfgSection { decides: false, text: String::new() }];
    for line in text.split_inclusive('\n') {
        if let Some(name) = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let decides = CFG_SECTIONS.iter().any(|known| name.trim().starts_with(known));
            sections.push(CfgSection { decides, text: String::new() });
        }
        if let Some(section) = sections.last_mut() {
            section.text.push_str(line);
            if !line.ends_with('\n') {
                section.text.push('\n');
            }
        }
    }
    sections
}

// --- blocks -------------------------------------------------------------------------------------------------

/// The end of the bracket that opens at `open`, one beyond it; the end of the text if it stays open.
fn close(text: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match (quote, byte) {
            (Some(q), _) if q == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'(' | b'{' | b'[') => depth += 1,
            (None, b')' | b'}' | b']') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            (None, _) => {}
        }
    }
    text.len()
}

/// Commands that say which tests there are.
fn cmake_blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let begin = start + (line.len() - line.trim_start().len());
        start += line.len();
        let word =
            line.trim_start().split(|c: char| c == '(' || c.is_whitespace()).next().unwrap_or_default();
        let word = word.to_ascii_lowercase();
        if blocks.last().is_some_and(|last| last.end > begin) || !CMAKE_COMMANDS.contains(&word.as_str()) {
            continue;
        }
        let Some(open) = text[begin..].find('(').map(|at| begin + at) else { continue };
        let end = close(text, open);
        let arguments = squeezed(&text[open..end]);
        if word == "set_property" && !arguments.to_ascii_uppercase().contains("TEST") {
            continue;
        }
        let first: String = arguments.split(' ').take(2).collect::<Vec<_>>().join(" ");
        blocks.push(Block { start: begin, end, name: format!("{word}{first}"), is_nested: false });
    }
    blocks
}

/// Blocks whose header is about tests: `test { … }`, `tasks.named("test") { … }`.
fn gradle_blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let begin = start;
        start += line.len();
        if blocks.last().is_some_and(|last| last.end > begin) {
            continue;
        }
        let Some((header, _)) = line.split_once('{') else { continue };
        let header = header.trim();
        let is_about_tests = GRADLE_BLOCKS.iter().any(|word| {
            header == *word
                || header == format!("tasks.{word}")
                || header.contains(&format!("\"{word}\""))
                || header.contains(&format!("'{word}'"))
                || (word.starts_with("with") && header.contains(word))
        });
        if is_about_tests {
            let end = close(text, begin + line.find('{').unwrap_or_default());
            blocks.push(Block { start: begin, end, name: squeezed(header), is_nested: false });
        }
    }
    blocks
}

/// The plugins of Maven that run tests, and the properties that switch tests off.
fn pom_blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut add = |start: usize, end: usize, name: String| {
        blocks.push(Block { start, end, name, is_nested: false });
    };
    let mut from = 0;
    while let Some(start) = text[from..].find("<plugin>").map(|at| from + at) {
        let end = text[start..].find("</plugin>").map_or(text.len(), |at| start + at + "</plugin>".len());
        let plugin = &text[start..end];
        for known in ["surefire", "failsafe", "jacoco", "antrun", "exec-maven"] {
            if plugin.contains(known) {
                add(start, end, known.to_owned());
                break;
            }
        }
        from = end;
    }
    for tag in [
        "skipTests",
        "skipITs",
        "maven.test.skip",
        "maven.test.failure.ignore",
        "testSourceDirectory",
        "surefire.failIfNoSpecifiedTests",
    ] {
        let (open, shut) = (format!("<{tag}>"), format!("</{tag}>"));
        let mut from = 0;
        while let Some(start) = text[from..].find(&open).map(|at| from + at) {
            let end = text[start..].find(&shut).map_or(text.len(), |at| start + at + shut.len());
            from = end;
            add(start, end, tag.to_owned());
        }
    }
    blocks.sort_by_key(|block| block.start);
    // A property within a plugin's block is part of that block.
    let mut flat: Vec<Block> = Vec::new();
    for block in blocks {
        if flat.last().is_none_or(|last| last.end <= block.start) {
            flat.push(block);
        }
    }
    flat
}
