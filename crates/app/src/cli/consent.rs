//! Asking before anything of a repository runs.

use std::{
    collections::HashMap,
    fmt::Write as _,
    io::{BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
};

use dacapo_core::{
    policy::{GateSpec, Origin},
    text::{shell::word, visible::visible},
    trust::{Changes, Runnable, not_granted, uncovered},
};
use dacapo_engine::process::background::is_background;
use dacapo_engine::{
    config_files::{self, ConfigFiles},
    home::Home,
    trust::{self, ConsentScope, Trust},
    units,
};
use jiff::Timestamp;

use crate::error::UserError;

/// Makes sure that the repository's commands may run, and that it may ask for less than it did: by `--trust`, by consent given
/// before, or by asking now.
pub(super) fn require(home: &Home, configured: &ConfigFiles, is_trusted_once: bool) -> Result<(), UserError> {
    if is_trusted_once {
        return Ok(());
    }
    let mut less = asks_less(home, configured)?;
    let runnables = &configured.runnables();
    let root = configured.root.as_ref().filter(|_| !runnables.is_empty());
    let trust = match root {
        Some(root) => Some((root, trust::look(home, root, ConsentScope::Config, runnables)?)),
        None => None,
    };
    let asked = trust.filter(|(_, trust)| !matches!(trust, Trust::Trusted { .. }));
    if asked.is_none() && less.is_empty() {
        return note_demands(home, configured, false);
    }
    let mut text = String::new();
    if asked.is_some() {
        leave_commands_out(&mut less);
    }
    if let Some((root, trust)) = &asked {
        text.push_str(&headline(trust, root));
        text.push_str(&commands(trust, runnables));
    }
    text.push_str(&of_less(&less));
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "{text}");
    drop(stderr);
    if can_ask() {
        let question = if asked.is_some() { QUESTION } else { "Is that what you want, now and later?" };
        if ask_about(question)? {
            if let Some((root, _)) = &asked {
                trust::grant(home, root, ConsentScope::Config, runnables, Timestamp::now())?;
            }
            return note_demands(home, configured, true);
        }
        return Err(UserError::needs_person("untrusted: you did not agree, so nothing was started"));
    }
    let reason = match &asked {
        Some((_, Trust::Changed { .. })) => {
            "the commands of this repository have changed since you trusted it"
        }
        Some(_) => "this repository defines commands, and you have not trusted it",
        None => "this repository asks for less proof than it did, and you have not agreed to that",
    };
    let root = less.first().map(|(folder, _)| *folder).or(asked.as_ref().map(|(root, _)| root.as_path()));
    let how = root.map_or_else(|| "dacapo trust".to_owned(), how_to_trust);
    Err(UserError::needs_person(format!("untrusted: {reason}"))
        .hint(format!("`{how}` shows and asks; `--trust` agrees for this run only")))
}

/// What each folder's configuration asked of claims before and does not ask any more, where the user has not agreed to that.
pub(super) fn asks_less<'a>(
    home: &Home,
    configured: &'a ConfigFiles,
) -> Result<Vec<(&'a Path, Vec<Runnable>)>, UserError> {
    let mut found = Vec::new();
    for (folder, demands) in configured.demands() {
        let less = trust::asks_less(home, folder, &demands)?;
        if !less.is_empty() {
            found.push((folder, less));
        }
    }
    Ok(found)
}

/// Leaves out checks that are gone, where the list of commands shows them.
pub(super) fn leave_commands_out(less: &mut Vec<(&Path, Vec<Runnable>)>) {
    for (_, dropped) in less.iter_mut() {
        dropped.retain(|demand| !demand.is_check());
    }
    less.retain(|(_, dropped)| !dropped.is_empty());
}

/// Remembers what the configuration asks of claims, so that less of it is noticed.
pub(super) fn note_demands(home: &Home, configured: &ConfigFiles, is_agreed: bool) -> Result<(), UserError> {
    for (folder, demands) in configured.demands() {
        trust::note_demands(home, folder, &demands, is_agreed)?;
    }
    Ok(())
}

/// What is not asked for any more, for people.
pub(super) fn of_less(less: &[(&Path, Vec<Runnable>)]) -> String {
    let mut text = String::new();
    for (folder, dropped) in less {
        let _ = writeln!(
            text,
            "The configuration of {} asks for less proof than it did. Not asked for any more:",
            one_line(&folder.to_string_lossy())
        );
        for demand in dropped {
            show(&mut text, "  - ", demand);
        }
    }
    text
}

/// Makes sure of both at once: who cannot be asked sees all that `--trust` would agree to.
pub(super) fn require_all(
    home: &Home,
    configured: &ConfigFiles,
    root: &Path,
    (scope, tasks): (ConsentScope, &[Runnable]),
    is_trusted_once: bool,
) -> Result<(), UserError> {
    if let Err(error) = require(home, configured, is_trusted_once) {
        if !can_ask() && !tasks.is_empty() {
            let trust = trust::look(home, root, scope, tasks)?;
            if !matches!(trust, Trust::Trusted { .. }) {
                let _ = write!(std::io::stderr().lock(), "{}", of_files(scope, &trust, root, tasks));
            }
        }
        return Err(error);
    }
    require_files(home, root, (scope, tasks), is_trusted_once)
}

/// What files with commands are called beside the configuration.
fn files_of(scope: ConsentScope) -> &'static str {
    match scope {
        ConsentScope::Config | ConsentScope::Units => "task files",
        ConsentScope::Workflows => "workflow files",
        ConsentScope::Tasks => "tasks",
    }
}

/// Makes sure that these commands of files may run, in the same ways. `root` is the top of the repository.
pub(super) fn require_files(
    home: &Home,
    root: &Path,
    (scope, runnables): (ConsentScope, &[Runnable]),
    is_trusted_once: bool,
) -> Result<(), UserError> {
    if runnables.is_empty() || is_trusted_once {
        return Ok(());
    }
    let trust = trust::look(home, root, scope, runnables)?;
    if let Trust::Trusted { .. } = trust {
        return Ok(());
    }
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "{}", of_files(scope, &trust, root, runnables));
    drop(stderr);
    if can_ask() {
        if ask()? {
            return Ok(trust::grant(home, root, scope, runnables, Timestamp::now())?);
        }
        return Err(UserError::needs_person("untrusted: you did not agree, so nothing was started"));
    }
    let reason = match trust {
        Trust::Changed { .. } => format!("{} hold commands that you have not trusted", files_of(scope)),
        _ => format!(
            "the {} of this repository define commands, and you have not trusted them",
            files_of(scope)
        ),
    };
    Err(UserError::needs_person(format!("untrusted: {reason}"))
        .hint(format!("`{}` shows and asks; `--trust` agrees for this run only", how_to_trust(root))))
}

/// The commands of files: all of them, or those that are new, with what they were before.
pub(super) fn of_files(scope: ConsentScope, trust: &Trust, root: &Path, runnables: &[Runnable]) -> String {
    let files = files_of(scope);
    let root = one_line(&root.to_string_lossy());
    let Trust::Changed { old } = trust else {
        let mut text = match trust {
            Trust::Trusted { .. } => {
                format!("You have trusted the {files} of {root}. They can make dacapo run:\n")
            }
            _ => format!("The {files} of {root} can make dacapo run:\n"),
        };
        for runnable in runnables {
            show(&mut text, "  ", runnable);
        }
        return text;
    };
    let before: HashMap<&str, &Runnable> = old.iter().map(|known| (known.name.as_str(), known)).collect();
    let mut text = format!("The {files} of {root} hold commands that you have not trusted:\n");
    for runnable in not_granted(runnables, old) {
        if let Some(before) = before.get(runnable.name.as_str()) {
            show(&mut text, "  - ", before);
        }
        show(&mut text, "  + ", runnable);
    }
    text
}

/// What goes on with the gates that it took from its repository when it began.
#[derive(Clone, Copy)]
pub(super) enum Resumed<'a> {
    Loop(&'a str),
    Task(&'a str),
}

/// Makes sure that the gates, and the steps around a worktree, that a loop or a task took from its repository when it began may
/// run on.
///
/// It keeps them as they were, so what the file says by now does not matter here.
pub(super) fn require_again(
    home: &Home,
    workspace: &Path,
    (gates, steps): (&[GateSpec], &[Runnable]),
    is_trusted_once: bool,
    resumed: Resumed<'_>,
) -> Result<(), UserError> {
    if is_trusted_once || (steps.is_empty() && gates.iter().all(|gate| gate.origin != Origin::Repository)) {
        return Ok(());
    }
    let granted = match config_files::repository_root(workspace) {
        Some(root) => trust::granted(home, &root, ConsentScope::Config)?,
        None => Vec::new(),
    };
    let (missing, steps) = (uncovered(gates, &granted), not_granted(steps, &granted));
    if missing.is_empty() && steps.is_empty() {
        return Ok(());
    }
    let (begin, kind, id) = match resumed {
        Resumed::Loop(id) => ("Loop", "loop", id),
        Resumed::Task(id) => ("Task", "task", id),
    };
    let mut text =
        format!("{begin} {id} would run commands of {} that you have not trusted:\n", workspace.display());
    for gate in missing {
        line(&mut text, "  ", "gate", &gate.name, &gate.run, "");
    }
    for step in steps {
        show(&mut text, "  ", step);
    }
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "{text}");
    drop(stderr);
    if can_ask() && ask_about(&format!("Run them for this {kind}?"))? {
        return Ok(());
    }
    Err(UserError::needs_person(format!("untrusted: {kind} {id} took these commands from its repository"))
        .hint(format!("`dacapo resume {id} --trust` agrees for this run")))
}

/// What stands over the list.
pub(super) fn headline(trust: &Trust, root: &Path) -> String {
    let root = one_line(&root.to_string_lossy());
    match trust {
        Trust::Trusted { .. } => format!("You have trusted {root}. It can make dacapo run:\n"),
        Trust::Never => format!("{root} can make dacapo run:\n"),
        Trust::Changed { .. } => format!("The commands of {root} have changed since you trusted it:\n"),
    }
}

/// Every command, or what changed and then every command.
pub(super) fn commands(trust: &Trust, runnables: &[Runnable]) -> String {
    let mut text = String::new();
    if let Trust::Changed { old } = trust {
        let changes = Changes::between(old, runnables);
        for runnable in &changes.removed {
            show(&mut text, "  - ", runnable);
        }
        for runnable in &changes.added {
            show(&mut text, "  + ", runnable);
        }
        if changes == Changes::default() {
            text.push_str("  only their order\n");
        }
        text.push_str("It can now make dacapo run:\n");
    }
    for runnable in runnables {
        show(&mut text, "  ", runnable);
    }
    text
}

fn show(text: &mut String, lead: &str, runnable: &Runnable) {
    let Runnable { what, name, command, condition, timeout, file, line: at } = runnable;
    let mut place = format!("{file}:{at}");
    if let Some(condition) = condition {
        let _ = write!(place, ", if {} exists", one_line(condition));
    }
    if let Some(timeout) = timeout {
        let _ = write!(place, ", at most {timeout}");
    }
    line(text, lead, what, name, command, &format!("  ({place})"));
}

fn line(text: &mut String, lead: &str, what: &str, name: &str, command: &str, place: &str) {
    let name = if name == command.trim() { String::new() } else { format!(" {}", one_line(name)) };
    let command = visible(command.trim_end_matches('\n'));
    if command.contains('\n') {
        let _ = writeln!(text, "{lead}{what}{name}: {}", place.trim());
        for part in command.lines() {
            let _ = writeln!(text, "{lead}    {part}");
        }
    } else {
        let _ = writeln!(text, "{lead}{what}{name}: {command}{place}");
    }
}

fn one_line(text: &str) -> String {
    visible(text).replace('\n', "\\n")
}

/// Whether a person can answer on the terminal.
pub(super) fn can_ask() -> bool {
    !is_background() && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks whether to trust. Anything but yes is no.
pub(super) fn ask() -> Result<bool, UserError> {
    ask_about(QUESTION)
}

/// Asks something that most people want; only no is no.
pub(super) fn ask_or_yes(question: &str) -> Result<bool, UserError> {
    let cannot = |error| UserError::environment(format!("cannot ask: {error}"));
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "{question} [Y/n] ").and_then(|()| stderr.flush()).map_err(cannot)?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(cannot)?;
    Ok(!matches!(answer.trim().to_ascii_lowercase().as_str(), "n" | "no"))
}

const QUESTION: &str = "Trust these commands, now and later, until they change?";

fn ask_about(question: &str) -> Result<bool, UserError> {
    let cannot = |error| UserError::environment(format!("cannot ask: {error}"));
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush()).map_err(cannot)?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(cannot)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// The command that gives consent, from where we are.
pub(super) fn how_to_trust(root: &Path) -> String {
    let here = std::env::current_dir().ok().and_then(|here| here.canonicalize().ok());
    // Without a configuration it is about task files, which lie at the top.
    let meant = |here: PathBuf| config_files::repository_root(&here).unwrap_or_else(|| units::top(&here));
    if here.map(meant).as_deref() == Some(root) {
        return "dacapo trust".to_owned();
    }
    let path = visible(&root.to_string_lossy());
    format!("dacapo trust --dir {}", word(&path))
}
