//! `units`: where units lie, how many are worked on at once, and what must hold when their tasks are done.

use super::{At, Both, Config, ConfigSection, SettingSource, Sourced, paths};
use crate::{
    duration::Millis,
    judge::glob::Globs,
    policy::Origin,
    yaml::{YamlNode, short},
};

pub(super) const KEYS: [&str; 6] = ["dir", "parallel", "target", "max_retries", "baseline", "submodules"];
pub(super) const BASELINE_KEYS: [&str; 4] = ["name", "run", "pattern", "timeout"];

/// The folder of units unless a flag or a file says otherwise (req 1).
const DEFAULT_DIR: &str = "specs/tasks";
/// Units that are worked on at once (req 55).
const DEFAULT_PARALLEL: u32 = 4;
/// Attempts for one turn (req 39).
const DEFAULT_RETRIES: u32 = 3;

/// What a file says about units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// The folder of all units.
    pub dir: Option<At<String>>,
    /// How many are worked on at once.
    pub parallel: Option<At<u32>>,
    /// The branch they are merged into.
    pub target: Option<At<String>>,
    /// How often an agent may try before a task is given up.
    pub max_retries: Option<At<u32>>,
    /// Checks that run when all tasks of a unit are complete.
    pub baseline: Vec<At<CheckSetting>>,
    /// Whether worktrees get their submodules.
    pub submodules: Option<At<bool>>,
}

/// A check of the whole repository (req 52).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSetting {
    /// What people call it; its command unless the file says otherwise.
    pub name: String,
    /// The command line, to the byte.
    pub run: String,
    /// Only if a file of the repository matches.
    pub pattern: Option<String>,
    /// How long it may take.
    pub timeout: Option<Millis>,
}

/// What is in force for units, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveUnits {
    /// The folder of all units.
    pub dir: Sourced<String>,
    /// How many are worked on at once.
    pub parallel: Sourced<u32>,
    /// The branch they are merged into; the one that is checked out if none is configured.
    pub target: Sourced<Option<String>>,
    /// How often an agent may try before a task is given up.
    pub max_retries: Sourced<u32>,
    /// The user's checks, then the repository's.
    pub baseline: Vec<EffectiveCheck>,
    /// Whether worktrees get their submodules.
    pub submodules: Sourced<bool>,
}

/// A check of the whole repository that is in force.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveCheck {
    pub check: CheckSetting,
    pub origin: Origin,
    pub from: SettingSource,
}

pub(super) fn read(top: &mut ConfigSection<'_>) -> Units {
    let Some(mut section) = top.section("units", &KEYS) else { return Units::default() };
    let place = section.place("dir");
    let dir = section
        .text("dir")
        .filter(|dir| place.is_none_or(|place| paths::is_inside(&mut section, place, &dir.value)));
    let dir = dir.filter(|dir| {
        let is_git = dir.value.split('/').any(|part| part.eq_ignore_ascii_case(".git"));
        if let Some(place) = place.filter(|_| is_git) {
            section.wrong(place, "`units.dir` is in git's own folder, where nothing is committed");
        }
        !is_git
    });
    let place = section.place("target");
    let target = section.text("target").filter(|target| {
        let is_branch = is_branch(&target.value);
        if let Some(place) = place.filter(|_| !is_branch) {
            let what = format!("`units.target` is no name of a branch: `{}`", short(&target.value));
            section.wrong(place, what);
        }
        is_branch
    });
    let mut baseline: Vec<At<CheckSetting>> = Vec::new();
    for node in section.list("baseline") {
        let place = node.place;
        let Some(check) = check(&mut section, node) else { continue };
        if let Some(first) = baseline.iter().find(|known| known.value.name == check.value.name) {
            let (name, line) = (short(&check.value.name), first.line);
            section.wrong(place, format!("a baseline check is called `{name}` already, in line {line}"));
        }
        baseline.push(check);
    }
    Units {
        dir,
        parallel: section.count("parallel", 1),
        target,
        max_retries: section.count("max_retries", 1),
        baseline,
        submodules: section.flag("submodules"),
    }
}

fn check(section: &mut ConfigSection<'_>, node: YamlNode) -> Option<At<CheckSetting>> {
    let place = node.place;
    let mut entry = section.entry("`units.baseline[]`", node, &BASELINE_KEYS)?;
    let has_run = entry.has("run");
    let run = entry.text("run").map(|run| run.value);
    let name = entry.text("name").map(|name| name.value.trim().to_owned());
    let timeout = entry.duration("timeout").map(|timeout| timeout.value);
    let pattern = entry.text("pattern").map(|pattern| pattern.value);
    if let Some(pattern) = &pattern
        && paths::is_inside(&mut entry, place, pattern)
        && let Err(error) = Globs::parse(std::slice::from_ref(pattern))
    {
        entry.wrong(place, error.to_string());
    }
    if !has_run {
        entry.wrong(place, "a baseline check needs a command: `run: …`");
    }
    let run = run?;
    let name = name.unwrap_or_else(|| run.trim().to_owned());
    Some(At { value: CheckSetting { name, run, pattern, timeout }, line: place.line })
}

/// Whether git would take it as the name of a branch.
pub fn is_branch(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let is_odd = |c: char| c.is_control() || " ~^:?*[\\".contains(c) || crate::text::visible::is_deceptive(c);
    !name.starts_with('-')
        && !name.ends_with('.')
        && name != "@"
        && name != "HEAD"
        && name.split('/').all(is_part)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains(is_odd)
}

pub(super) fn resolve(both: &Both<'_>) -> EffectiveUnits {
    let count = |of: fn(&Units) -> Option<At<u32>>, default| {
        let limit = both.limit(|config| of(&config.units), Some(default));
        Sourced { value: limit.value.unwrap_or(default), from: limit.from }
    };
    let dir = both.pick(|config| config.units.dir.clone(), |user, _| user.clone());
    let checks = |config: &Config, origin| -> Vec<EffectiveCheck> {
        let checks = config.units.baseline.iter().map(|At { value, line }| EffectiveCheck {
            check: value.clone(),
            origin,
            from: SettingSource::File { file: config.file.clone(), line: *line },
        });
        checks.collect()
    };
    let mut baseline = checks(both.user, Origin::User);
    baseline.extend(checks(both.repository, Origin::Repository));
    EffectiveUnits {
        dir: if dir.from == SettingSource::Default {
            Sourced { value: DEFAULT_DIR.to_owned(), ..dir }
        } else {
            dir
        },
        // More at once costs more: a repository may only lower it.
        parallel: count(|units| units.parallel.clone(), DEFAULT_PARALLEL),
        target: both.pick(
            |config| config.units.target.clone().map(|at| At { value: Some(at.value), line: at.line }),
            |user, _| user.clone(),
        ),
        max_retries: count(|units| units.max_retries.clone(), DEFAULT_RETRIES),
        baseline,
        submodules: both.pick(|config| config.units.submodules.clone(), |user, _| *user),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Author, Typed, parse, resolve as resolve_all};

    fn read(text: &str) -> Result<Config, Vec<String>> {
        parse("c", text.as_bytes(), Author::Repository)
            .map_err(|problems| problems.list.into_iter().map(|problem| problem.what).collect())
    }

    #[test]
    fn a_section_is_read_and_has_defaults() {
        // req 1, req 39, req 51, req 52, req 55
        let text = "\
units:
  dir: docs/tasks
  parallel: 2
  target: main
  max_retries: 1
  submodules: true
  baseline:
    - {name: lint, run: make lint, pattern: '**/*.c', timeout: 2m}
    - run: make
worktree: {teardown: [{run: docker compose down, if: compose.yaml}]}
";
        let config = read(text).unwrap();
        let effective = resolve_all(&Config::default(), &config, &Typed::default());
        let units = effective.units;
        assert_eq!(
            (
                units.dir.value.as_str(),
                units.parallel.value,
                units.target.value.as_deref(),
                units.max_retries.value
            ),
            ("docs/tasks", 2, Some("main"), 1)
        );
        assert_eq!(units.dir.from.to_string(), "c:2");
        let names: Vec<&str> = units.baseline.iter().map(|known| known.check.name.as_str()).collect();
        assert_eq!((names, units.submodules.value), (vec!["lint", "make"], true));
        assert_eq!(units.baseline[0].check.timeout, Some(Millis(120_000)));
        assert_eq!(
            (units.baseline[0].origin, &units.baseline[1].from),
            (Origin::Repository, &SettingSource::File { file: "c".to_owned(), line: 9 })
        );
        assert_eq!(effective.teardown[0].value.run, "docker compose down");

        let units = resolve_all(&Config::default(), &Config::default(), &Typed::default()).units;
        assert_eq!(
            (units.dir.value.as_str(), units.parallel.value, units.target.value, units.max_retries.value),
            ("specs/tasks", 4, None, 3)
        );
        assert!(
            units.baseline.is_empty() && !units.submodules.value && units.dir.from == SettingSource::Default
        );
    }

    #[test]
    fn a_repository_lowers_and_the_user_decides() {
        let of = |text: &str, author| parse("c", text.as_bytes(), author).unwrap();
        for (user, repository, parallel, dir) in [
            ("", "units: {parallel: 9, dir: x}", 4, "x"),
            ("units: {parallel: 8}", "units: {parallel: 9}", 8, "specs/tasks"),
            ("units: {parallel: 8, dir: mine}", "units: {parallel: 1, dir: theirs}", 1, "mine"),
        ] {
            let (user, repository) = (of(user, Author::User), of(repository, Author::Repository));
            let units = resolve_all(&user, &repository, &Typed::default()).units;
            assert_eq!((units.parallel.value, units.dir.value.as_str()), (parallel, dir));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, what) in [
            ("units: {dir: ../x}", "a path must be relative and stay inside the repository"),
            ("units: {dir: /x}", "a path must be relative and stay inside the repository"),
            ("units: {parallel: 0}", "`units.parallel` must be a whole number, 1 or more"),
            ("units: {max_retries: 0}", "`units.max_retries` must be a whole number, 1 or more"),
            ("units: {target: -x}", "`units.target` is no name of a branch: `-x`"),
            ("units: {target: a..b}", "`units.target` is no name of a branch: `a..b`"),
            ("units: {target: 'a b'}", "`units.target` is no name of a branch: `a b`"),
            ("units: {target: a/.lock}", "`units.target` is no name of a branch: `a/.lock`"),
            ("units: {baseline: [{name: x}]}", "a baseline check needs a command: `run: …`"),
            ("units: {baseline: [{run: x}, {run: x}]}", "a baseline check is called `x` already, in line 1"),
            (
                "units: {baseline: [{run: x, pattern: ../y}]}",
                "a path must be relative and stay inside the repository",
            ),
            ("units: {base: []}", "unknown key `base`; did you mean `baseline`?"),
            ("worktree: {teardown: [{if: x}]}", "a teardown step needs a command: `run: …`"),
        ] {
            assert_eq!(read(text).unwrap_err(), [what], "{text}");
        }
    }
}
