//! `dacapo trust`.

use std::path::PathBuf;

use clap::Args;
use dacapo_core::{
    config::Typed,
    ids::UnitId,
    trust::{
        Fingerprint, Runnable, taken_as_complete, task_runnables, tests_as_they_are, unit_runnables,
        workflow_runnables,
    },
    unit::{Task, Unit},
    workflow::ParseSettings,
};
use dacapo_engine::{
    config_files::{self, ConfigFiles},
    stage_tasks,
    trust::{self, ConsentScope, Trust},
    units, workflows,
};
use jiff::Timestamp;
use serde::Serialize;

use super::{consent, say, say_json, say_whole, unit, warn};
use crate::{context::Context, error::UserError};

/// Agree to the commands that a repository defines
///
/// Nothing from a repository's .dacapo/config.yaml, its task files or its workflows runs before you agree. Consent is for these very
/// commands: if one byte of them changes, you are asked again.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo trust --show\n  dacapo trust")]
pub(super) struct TrustArgs {
    /// Show what could run and how it stands, and ask nothing
    #[arg(long, conflicts_with_all = ["yes", "revoke"])]
    show: bool,
    /// Agree without being asked
    #[arg(long, conflicts_with = "revoke")]
    yes: bool,
    /// Withdraw consent
    #[arg(long)]
    revoke: bool,
    /// The repository (default: the one that this folder lies in)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print JSON instead of text; with --show
    #[arg(long, requires = "show")]
    json: bool,
}

impl TrustArgs {
    /// Whether it only shows something.
    pub(super) fn is_look(&self) -> bool {
        self.show
    }
}

/// How a repository stands, for scripts.
#[derive(Serialize)]
struct TrustJson<'a> {
    root: Option<&'a PathBuf>,
    /// What its configuration could run.
    #[serde(flatten)]
    config: CommandListJson<'a>,
    /// What the task files of its units could run.
    units: CommandListJson<'a>,
    /// What its workflows could run.
    workflows: CommandListJson<'a>,
    /// What verifies its tasks of stages.
    tasks: CommandListJson<'a>,
    /// What the configuration asked of claims before and does not ask any more.
    no_longer_asked: Vec<Runnable>,
    agent_configuration: Vec<String>,
}

/// One list of commands, for scripts.
#[derive(Serialize)]
struct CommandListJson<'a> {
    /// `trusted`, `untrusted`, `changed` or `nothing_to_trust`.
    state: &'static str,
    since: Option<Timestamp>,
    fingerprint: Fingerprint,
    commands: &'a [Runnable],
    /// What was agreed to before, if it was something else.
    trusted_commands: Vec<Runnable>,
}

/// One list of commands and how it stands.
struct List {
    scope: ConsentScope,
    root: PathBuf,
    runnables: Vec<Runnable>,
    trust: Trust,
}

impl List {
    fn new(
        cx: &Context,
        scope: ConsentScope,
        root: PathBuf,
        runnables: Vec<Runnable>,
    ) -> Result<Self, UserError> {
        let is_empty = runnables.is_empty();
        let trust = if is_empty { Trust::Never } else { trust::look(&cx.home, &root, scope, &runnables)? };
        Ok(Self { scope, root, runnables, trust })
    }

    fn part(&self) -> CommandListJson<'_> {
        let (state, since, trusted_commands) = match &self.trust {
            _ if self.runnables.is_empty() => ("nothing_to_trust", None, Vec::new()),
            Trust::Trusted { since } => ("trusted", Some(*since), Vec::new()),
            Trust::Never => ("untrusted", None, Vec::new()),
            Trust::Changed { old } => ("changed", None, old.clone()),
        };
        let fingerprint = Fingerprint::of(&self.runnables);
        CommandListJson { state, since, fingerprint, commands: &self.runnables, trusted_commands }
    }

    fn text(&self) -> String {
        let Self { scope, root, runnables, trust } = self;
        match scope {
            ConsentScope::Config => {
                format!("{}{}", consent::headline(trust, root), consent::commands(trust, runnables))
            }
            scope @ (ConsentScope::Units | ConsentScope::Workflows | ConsentScope::Tasks) => {
                consent::of_files(*scope, trust, root, runnables)
            }
        }
    }
}

pub(super) fn trust(cx: &Context, args: &TrustArgs) -> Result<u8, UserError> {
    let folder = Context::folder(args.dir.as_ref())?;
    if args.revoke {
        // Without reading any file: it may be broken by now.
        let of_config = match config_files::repository_root(&folder) {
            Some(root) => trust::revoke(&cx.home, &root, ConsentScope::Config)?,
            None => false,
        };
        let of_units = trust::revoke(&cx.home, &units::top(&folder), ConsentScope::Units)?;
        let of_workflows = trust::revoke(&cx.home, &units::top(&folder), ConsentScope::Workflows)?;
        let of_tasks = trust::revoke(&cx.home, &units::top(&folder), ConsentScope::Tasks)?;
        for folder in config_files::possible_roots(&folder) {
            trust::forget_demands(&cx.home, folder)?;
        }
        let was = of_config || of_units || of_workflows || of_tasks;
        say(if was { "Consent is withdrawn." } else { "There was no consent to withdraw." });
        return Ok(0);
    }
    let configured = ConfigFiles::load(&folder)?;
    let mut tasks = tasks(&folder);
    tasks.extend(unproven(cx, &folder));
    let root = configured.root.as_ref().unwrap_or(&folder).clone();
    let agent_configuration = config_files::agent_configuration(&root);
    let of_config = List::new(cx, ConsentScope::Config, root, configured.runnables())?;
    let of_units = List::new(cx, ConsentScope::Units, units::top(&folder), tasks)?;
    let scripts = scripts(&folder, &configured);
    let of_workflows = List::new(cx, ConsentScope::Workflows, units::top(&folder), scripts)?;
    let of_tasks =
        List::new(cx, ConsentScope::Tasks, units::top(&folder), verifications(&folder, &configured))?;
    let mut less = consent::asks_less(&cx.home, &configured)?;
    if matches!(of_config.trust, Trust::Changed { .. }) {
        consent::leave_commands_out(&mut less);
    }
    if args.json {
        return say_json(&TrustJson {
            root: configured.root.as_ref(),
            config: of_config.part(),
            units: of_units.part(),
            workflows: of_workflows.part(),
            tasks: of_tasks.part(),
            no_longer_asked: less.into_iter().flat_map(|(_, dropped)| dropped).collect(),
            agent_configuration,
        });
    }
    let lists: Vec<List> = [of_config, of_units, of_workflows, of_tasks]
        .into_iter()
        .filter(|list| !list.runnables.is_empty())
        .collect();
    if lists.is_empty() && less.is_empty() {
        say(format!("Nothing to trust: no {} here defines a command.", config_files::REPOSITORY_FILE));
        list_agents(&agent_configuration);
        return Ok(0);
    }
    for list in &lists {
        say_whole(list.text().trim_end());
    }
    if !less.is_empty() {
        say(consent::of_less(&less).trim_end());
    }
    list_agents(&agent_configuration);
    let since = |list: &List| if let Trust::Trusted { since } = list.trust { Some(since) } else { None };
    let all = lists.iter().map(since).collect::<Option<Vec<_>>>();
    if let Some(since) = all.filter(|_| less.is_empty()) {
        let since = since.into_iter().max().unwrap_or_default();
        say(format!("Trusted since {}.", since.strftime("%Y-%m-%d %H:%M:%S UTC")));
        return Ok(0);
    }
    if args.show {
        say("Not trusted: none of it runs. `dacapo trust` agrees to it.");
        return Ok(0);
    }
    if !args.yes {
        if !consent::can_ask() {
            return Err(UserError::needs_person(
                "untrusted: dacapo cannot ask you here, this is not a terminal",
            )
            .hint("`dacapo trust --yes` agrees to the commands above"));
        }
        if !consent::ask()? {
            return Err(UserError::needs_person("untrusted: you did not agree"));
        }
    }
    for list in lists.iter().filter(|list| since(list).is_none()) {
        trust::grant(&cx.home, &list.root, list.scope, &list.runnables, Timestamp::now())?;
    }
    consent::note_demands(&cx.home, &configured, true)?;
    say("Trusted. If one of these commands changes, you are asked again.");
    Ok(0)
}

/// The commands of task files, as far as those can be read: consent to a configuration does not hang on them.
fn tasks(folder: &std::path::Path) -> Vec<Runnable> {
    match unit::RepositoryUnits::containing(folder) {
        Ok(found) => {
            if !found.checked.problems.is_empty() {
                let what = "not all task files can be read; `dacapo unit check` says why";
                warn(&[what.to_owned()]);
            }
            unit_runnables(&found.checked.units)
        }
        Err(error) => {
            warn(&[error.message]);
            Vec::new()
        }
    }
}

/// Tasks of units that are `complete` in their files without a proof, and tests that other hands changed on the target: to take them
/// as they are is the user's word.
fn unproven(cx: &Context, folder: &std::path::Path) -> Vec<Runnable> {
    let Ok(found) = unit::RepositoryUnits::containing(folder) else { return Vec::new() };
    let units = &found.checked.units;
    let project = Context::project_of(&units::top(folder));
    let root = units::top(folder);
    let unproven =
        cx.client().ok().and_then(|client| client.complete_without_proof(&project, &root, units).ok());
    let is_meant = |unit: &Unit, task: &Task| {
        let meant = |(of, number): &(UnitId, u32)| *of == unit.id && *number == task.spec.number;
        unproven.iter().flatten().any(meant)
    };
    let of_unit = |unit: &Unit| -> Vec<Runnable> {
        let tasks = unit.tasks.iter().filter(|task| is_meant(unit, task));
        tasks.map(|task| taken_as_complete(unit, task)).collect()
    };
    let doubted =
        cx.client().ok().and_then(|client| client.doubted_tests(&project, &units::top(folder)).ok());
    let tests = doubted.into_iter().flatten().map(|(path, commit)| tests_as_they_are(&path, &commit));
    units.iter().flat_map(of_unit).chain(tests).collect()
}

/// The commands of workflow files, as far as those can be read. Built-in workflows need no consent.
fn scripts(folder: &std::path::Path, configured: &ConfigFiles) -> Vec<Runnable> {
    let commands = configured.effective(&Typed::default()).commands.value;
    match workflows::discover(&units::top(folder), commands.as_deref(), ParseSettings { lenient: true }) {
        Ok(found) => {
            if !found.broken.is_empty() {
                let what = "not all workflows can be read; `dacapo workflow check` says why";
                warn(&[what.to_owned()]);
            }
            let own = found.workflows.iter().filter(|found| !found.is_builtin);
            own.flat_map(|found| workflow_runnables(&found.workflow)).collect()
        }
        Err(error) => {
            warn(&[error.to_string()]);
            Vec::new()
        }
    }
}

/// The commands that verify tasks of stages, as far as their files can be read, and words that take proof away from stages.
fn verifications(folder: &std::path::Path, configured: &ConfigFiles) -> Vec<Runnable> {
    let found = stage_tasks::load(&units::top(folder));
    if !found.problems.is_empty() {
        warn(&["not all tasks can be read; `dacapo task check` says why".to_owned()]);
    }
    task_runnables(&found.tasks).into_iter().chain(configured.proof_taken_away()).collect()
}

fn list_agents(found: &[String]) {
    if !found.is_empty() {
        say(format!("It also speaks to agents, which follow it by their own rules: {}", found.join(", ")));
    }
}
