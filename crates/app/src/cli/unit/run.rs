//! `dacapo unit run`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use clap::Args;
use dacapo_core::{
    agent::AgentCommand,
    config::{Effective, EffectiveCheck, SettingSource, SetupStep, Sourced, Typed},
    duration::Millis,
    event::MergeMode,
    ids::{RunId, UnitId},
    judge::promise::PromiseRule,
    limits::Budget,
    policy::{Origin, Policy, SetupCommand},
    text::{count, nearest::nearest},
    trust::{not_granted, taken_as_complete, unit_runnables},
    unit::{
        TaskStatus, Unit,
        check::CheckedUnits,
        graph,
        settings::{BaselineCheck, RunSettings},
    },
};
use dacapo_engine::{
    client::Client,
    config_files::ConfigFiles,
    process::{Programs, background::is_background},
    repository::Repository,
    scheduler::{self, NewRun},
    supervisor::{self, StartError},
    trust::{self, ConsentScope},
    units,
};

use super::super::{
    agents, budget, consent, detach,
    flags::{ChosenSettings, LoopFlags, refuse_idle_patterns},
    resume::ResumeArgs,
    say, say_json, value, warn,
};
use crate::{
    context::Context,
    error::{LIMIT, UserError},
    report::{Style, ending_of_units, last_line_of_run, run_reporter},
};

/// Work units off in parallel, and merge each when the merged tree passes
///
/// Every unit has a worktree and a branch of its own. A task is complete when its backpressure passes, and then it is
/// one commit; a unit is complete when all its tasks are and the baseline holds; it is merged when everything passes on
/// the merged tree. What is unfinished from an earlier run goes on where it stood.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  dacapo unit run\n  dacapo unit run --unit auth --parallel 2 --max-cost 20\n  dacapo unit run --dry-run\n  dacapo unit run --pr --detach"
)]
pub(in crate::cli) struct UnitRunArgs {
    /// Only this unit and what it depends on; may be given several times
    #[arg(long, value_name = "ID")]
    unit: Vec<UnitId>,
    /// Work on N units at once (default: as configured, else 4)
    #[arg(long, value_name = "N", value_parser = value::at_least_one, allow_hyphen_values = true)]
    parallel: Option<u32>,
    /// The branch that finished units go into (default: as configured, else the one checked out)
    #[arg(long, value_name = "BRANCH", value_parser = value::branch)]
    target: Option<String>,
    /// Show which units would be worked on, in which order, and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Start although the checkout has uncommitted changes, which worktrees do not see
    #[arg(long)]
    force: bool,
    /// Leave the branches of finished units as they are
    #[arg(long, conflicts_with = "pr")]
    no_merge: bool,
    /// Push the branches of finished units and open pull requests with `gh`
    #[arg(long)]
    pr: bool,
    /// Try N times to complete a task in one turn (default: as configured, else 3)
    #[arg(short = 'n', long, alias = "max-iterations", value_name = "N", value_parser = value::at_least_one, allow_hyphen_values = true)]
    max_retries: Option<u32>,
    /// Try tasks again that failed in an earlier run
    #[arg(long)]
    retry_failed: bool,
    /// A folder of the repository (default: here)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    flags: LoopFlags,
}

/// A run that can begin, and what it was made from. Nothing of the repository ran for it, not even git.
pub(in crate::cli) struct PreparedRun {
    pub(in crate::cli) root: PathBuf,
    pub(in crate::cli) configured: ConfigFiles,
    pub(in crate::cli) base: ChosenSettings,
    pub(in crate::cli) units: Vec<Unit>,
    pub(in crate::cli) settings: RunSettings,
    pub(in crate::cli) parallel: u32,
    pub(in crate::cli) merge: MergeMode,
    /// The branch that was named; without one, the one that is checked out.
    pub(in crate::cli) target: Option<String>,
}

impl UnitRunArgs {
    pub(in crate::cli) fn flags(&self) -> &LoopFlags {
        &self.flags
    }

    pub(in crate::cli) fn plan(&self, cx: &Context) -> Result<PreparedRun, UserError> {
        let root = root_of(self.dir.as_ref())?;
        let configured = ConfigFiles::load(&root)?;
        let promise = PromiseRule::new("DONE").map_err(UserError::usage)?;
        let dir = configured.effective(&Typed::default()).units.dir.value;
        let units = selected(cx, &root, &dir, &self.unit)?;
        // Where every plan names its agent, the default agent need not be installed.
        let is_named = self.flags.agent.is_some() || units.iter().any(|unit| unit.provider.is_none());
        let stand_in = units.iter().filter(|_| !is_named).find_map(|unit| {
            let (file, line) = unit.provider_at()?;
            let from = SettingSource::File { file: file.to_owned(), line };
            Some(Sourced { value: unit.provider.clone()?, from })
        });
        let mut base = self.flags.base(&configured, self.max_retries, promise, stand_in)?;
        let (settings, obstacle) =
            settings(self, &base.effective, base.policy.clone(), &units, &mut base.programs)?;
        base.obstacle = base.obstacle.or(obstacle);
        Ok(PreparedRun {
            parallel: self.parallel.unwrap_or(base.effective.units.parallel.value),
            merge: match (self.no_merge, self.pr) {
                (true, _) => MergeMode::Leave,
                (_, true) => MergeMode::PullRequest,
                _ => MergeMode::Merge,
            },
            target: self.target.clone().or_else(|| base.effective.units.target.value.clone()),
            root,
            configured,
            base,
            units,
            settings,
        })
    }
}

pub(in crate::cli) fn run(cx: &Context, args: &UnitRunArgs) -> Result<u8, UserError> {
    if args.dry_run {
        // Before an agent is looked for: this needs none.
        let root = root_of(args.dir.as_ref())?;
        let units = ConfigFiles::load(&root)?.effective(&Typed::default()).units;
        let chosen = selected(cx, &root, &units.dir.value, &args.unit)?;
        return dry_run(&chosen, args.parallel.unwrap_or(units.parallel.value), args.flags.style.json);
    }
    let PreparedRun { root, configured, base, mut units, mut settings, parallel, merge, target } =
        args.plan(cx)?;
    if let Some(obstacle) = base.obstacle {
        return Err(obstacle);
    }
    let mut programs = base.programs;
    // Found before anything starts (req 59).
    for agent in std::iter::once(&settings.policy.agent.command).chain(settings.providers.values()) {
        programs.find(agents::program(agent)).map_err(StartError::from)?;
    }
    // Before git looks at the working tree: filters are programs.
    consent::require_all(
        &cx.home,
        &configured,
        &root,
        (ConsentScope::Units, &unit_runnables(&units)),
        args.flags.trust,
    )?;
    refuse_idle_patterns(&root, &settings.policy, &configured)?;
    disbelieve(cx, &root, &mut units)?;
    let repo = Repository::open(&root, &cx.home)?;
    let target = match target {
        Some(target) => target,
        None => repo.current_branch()?.ok_or_else(|| {
            UserError::usage("no branch is checked out that finished units could go into")
                .hint("name one with `--target BRANCH`, or `units.target` in .dacapo/config.yaml")
        })?,
    };
    let Some(tip) = repo.branch(&target)? else {
        let error = UserError::environment(format!("the target branch `{target}` does not exist"));
        return Err(error.hint(format!("`git branch {target}` makes it; `--target BRANCH` names another")));
    };
    settings.policy.gates.protect.extend(own_file(&repo, &tip, &base.effective, &units)?);
    refuse_unseen(&repo, &target, args.force)?;
    refuse_helpless(&repo, &target, merge)?;
    if !is_background() {
        warn(&base.warnings);
        if args.flags.detach {
            return detach::detach_run(&cx.client()?, None);
        }
    }
    let new = NewRun {
        project: Context::project_of(&root),
        root,
        target,
        merge,
        parallel,
        units,
        settings,
        programs,
        goes_on_with: None,
        is_detached: is_background(),
    };
    start(cx, new, &args.flags.style)
}

/// Takes tasks for open that are `complete` in their files without a proof, and says so: an agent can write to the target. The user's
/// own word for them is consent.
fn disbelieve(cx: &Context, root: &Path, units: &mut [Unit]) -> Result<(), UserError> {
    let unproven = cx.client()?.complete_without_proof(&Context::project_of(root), root, units)?;
    if unproven.is_empty() {
        return Ok(());
    }
    let granted = trust::granted(&cx.home, root, ConsentScope::Units)?;
    let mut told = Vec::new();
    for unit in units {
        let unit_now = unit.clone();
        for task in &mut unit.tasks {
            let number = task.spec.number;
            let is_meant = unproven.iter().any(|(of, unproven)| *of == unit_now.id && *unproven == number);
            if is_meant && !not_granted(&[taken_as_complete(&unit_now, task)], &granted).is_empty() {
                task.status = TaskStatus::Pending;
                told.push(format!(
                    "task #{number} of {} is `complete` in its file, and no receipt proves it: it is worked on again; \
                     `dacapo trust` takes it as done",
                    unit_now.id
                ));
            }
        }
    }
    if !is_background() {
        warn(&told);
    }
    Ok(())
}

/// The repository's configuration, if that says what is checked and no task is to write it: an agent that empties it
/// leaves the next run without checks.
fn own_file(
    repo: &Repository,
    tip: &str,
    effective: &Effective,
    units: &[Unit],
) -> Result<Option<String>, UserError> {
    const CONFIG: &str = ".dacapo/config.yaml";
    let mut written = units.iter().flat_map(|unit| &unit.tasks).flat_map(|task| &task.spec.writes);
    if !effective.is_checked_by_repository() || written.any(|path| path == CONFIG) {
        return Ok(None);
    }
    Ok(repo.file_at(tip, CONFIG)?.map(|_| CONFIG.to_owned()))
}

/// The run that `text` means, and the unit of it, if that is what it names: a run by its id, a unit of the project we are
/// in by its name.
pub(in crate::cli) fn of_run(
    cx: &Context,
    client: &Client,
    text: &str,
) -> Result<Option<(RunId, Option<UnitId>)>, UserError> {
    if let Some(run) = cx.find_run(client, text)? {
        return Ok(Some((run.view.id, None)));
    }
    let Ok(root) = root_of(None) else { return Ok(None) };
    let views = client.units_of_name(Some(&Context::project_of(&root)), text)?;
    let Some(view) = views.into_iter().next() else { return Ok(None) };
    // While it is being worked on, the name means the loop that does.
    let is_running = client.run_of_id(&view.run)?.is_some_and(|run| run.is_running);
    Ok((!is_running).then_some((view.run, Some(view.unit))))
}

/// Goes on with a run that ended, or with one unit of it, as that was told to.
pub(in crate::cli) fn resume(
    cx: &Context,
    client: &Client,
    id: &RunId,
    only: Option<&UnitId>,
    flags: &ResumeArgs,
) -> Result<u8, UserError> {
    let before = client.run_started(id)?.ok_or_else(|| UserError::usage(format!("there is no run {id}")))?;
    let configured = ConfigFiles::load(&before.root)?;
    let wanted: Vec<UnitId> = match only {
        Some(unit) => vec![unit.clone()],
        None => before.units.iter().map(|plan| plan.unit.clone()).collect(),
    };
    let mut units = selected(cx, &before.root, &before.settings.units_dir, &wanted)?;
    consent::require_all(
        &cx.home,
        &configured,
        &before.root,
        (ConsentScope::Units, &unit_runnables(&units)),
        flags.trust,
    )?;
    disbelieve(cx, &before.root, &mut units)?;
    let effective = configured.effective(&Typed::default());
    let mut settings = as_configured(*before.settings, &effective);
    // A user who resumes wants another try. Limits rise only if the user types higher ones.
    settings.retry_failed = true;
    let grant = flags.grant();
    if grant.max_time_ms.is_some_and(Millis::is_zero) {
        return Err(UserError::usage("`--max-time` must be more than zero"));
    }
    // What was granted to that run while it was held stays granted.
    let granted = client.run_of_id(id)?.map(|run| run.view.granted).unwrap_or_default();
    let more = granted.extra_iterations.saturating_add(grant.extra_iterations);
    settings.max_retries = settings.max_retries.saturating_add(more);
    settings.max_time = match grant.max_time_ms {
        None => client.time_left(&before.budget_of)?,
        granted => granted,
    };
    if settings.max_time.is_some_and(Millis::is_zero) {
        let message = format!("the time of run {id} is used up");
        return Err(
            UserError { exit: LIMIT, ..UserError::usage(message) }.hint("`--max-time DUR` grants it more")
        );
    }
    let budget = &mut settings.policy.limits.per_run;
    let (granted, grant) = (granted.for_loops_of_run().per_run, grant.for_loops_of_run().per_run);
    *budget = budget.raised_to(granted).raised_to(grant);
    refuse_helpless(&Repository::open(&before.root, &cx.home)?, &before.target, before.merge)?;
    if flags.detach && !is_background() {
        return detach::detach_run(client, flags.id.is_none().then_some(id.as_str()));
    }
    let new = NewRun {
        project: before.project,
        root: before.root,
        target: before.target,
        merge: before.merge,
        parallel: before.parallel,
        units,
        settings,
        programs: Programs::default(),
        goes_on_with: Some(before.budget_of),
        is_detached: is_background(),
    };
    start(cx, new, &flags.style)
}

/// Settings of an earlier run with the commands that the repository has now: those are what consent is about.
fn as_configured(before: RunSettings, effective: &Effective) -> RunSettings {
    let typed = before.policy.gates.specs.iter().filter(|gate| gate.origin == Origin::Typed).cloned();
    let gates = effective.gates.iter().map(|gate| gate.spec.clone()).chain(typed).collect();
    let policy = before.policy.with(|p| {
        p.gates.specs = gates;
        p.gates.setup = steps(&effective.setup);
    });
    RunSettings {
        setup: steps(&effective.setup),
        teardown: steps(&effective.teardown),
        baseline: baseline(effective),
        policy,
        ..before
    }
}

fn steps(steps: &[Sourced<SetupStep>]) -> Vec<SetupCommand> {
    let step = |step: &Sourced<SetupStep>| SetupCommand {
        run: step.value.run.clone(),
        only_if: step.value.condition.clone(),
    };
    steps.iter().map(step).collect()
}

fn baseline(effective: &Effective) -> Vec<BaselineCheck> {
    let check = |EffectiveCheck { check, .. }: &EffectiveCheck| BaselineCheck {
        name: check.name.clone(),
        run: check.run.clone(),
        pattern: check.pattern.clone(),
        timeout: check.timeout,
    };
    effective.units.baseline.iter().map(check).collect()
}

fn start(cx: &Context, new: NewRun, style: &Style) -> Result<u8, UserError> {
    let mut observer = run_reporter(style);
    let finished = scheduler::run(&cx.home, new, observer.as_mut())?;
    drop(observer);
    let is_told = style.is_human();
    if is_told {
        ending_of_units(&mut cx.client()?, &finished.id)?;
    }
    Ok(last_line_of_run(&finished, is_told))
}

/// The top of the repository that `dir` is in.
pub(in crate::cli) fn root_of(dir: Option<&PathBuf>) -> Result<PathBuf, UserError> {
    let folder = Context::folder(dir)?;
    let top = units::top(&folder);
    if std::fs::symlink_metadata(top.join(".git")).is_ok() {
        return Ok(top);
    }
    Context::refuse_bare(&folder)?;
    Err(UserError::usage(format!("`{}` is not in a git repository", folder.display()))
        .hint("units are worked on in worktrees; `git init` and a first commit make them possible"))
}

/// The units to work on: those that were named and what they depend on, as far as it is not complete, is so without a proof, or was
/// cut short before its worktree was gone.
fn selected(cx: &Context, root: &Path, dir: &str, wanted: &[UnitId]) -> Result<Vec<Unit>, UserError> {
    let CheckedUnits { units, problems, notes } = units::discover(root, dir)?;
    warn(&notes);
    if !problems.is_empty() {
        let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let many = count(u32::try_from(problems.len()).unwrap_or(u32::MAX), "problem");
        let message = format!("{many} in `{dir}`; nothing was started");
        return Err(UserError { details: Some(text.join("\n")), ..UserError::usage(message) });
    }
    if units.is_empty() {
        return Err(UserError::usage(format!("there are no units in `{dir}`"))
            .hint("a unit is a folder there with an IMPLEMENTATION_PLAN.md and task files `01-name.md`, …"));
    }
    let (views, unproven) = if cx.home.path().exists() {
        let (client, project) = (cx.client()?, Context::project_of(root));
        (client.units(Some(&project))?, client.complete_without_proof(&project, root, &units)?)
    } else {
        (Vec::new(), Vec::new())
    };
    let unfinished: BTreeSet<UnitId> = views
        .into_iter()
        .filter(|view| view.worktree.is_some() && !view.status.is_good())
        .map(|view| view.unit)
        // What its files call complete may have to be done.
        .chain(unproven.into_iter().map(|(unit, _)| unit))
        .collect();
    let by_name: BTreeMap<&UnitId, &Unit> = units.iter().map(|unit| (&unit.id, unit)).collect();
    let mut chosen: BTreeSet<UnitId> = BTreeSet::new();
    let mut open: Vec<UnitId> = Vec::new();
    for id in wanted {
        if !by_name.contains_key(id) {
            let names: Vec<&str> = units.iter().map(|unit| unit.id.as_str()).collect();
            let near = nearest(id.as_str(), &names);
            let error = UserError::usage(format!("there is no unit `{id}` in `{dir}`"));
            return Err(match near {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint("`dacapo unit list` lists them"),
            });
        }
        open.push(id.clone());
    }
    if wanted.is_empty() {
        open.extend(units.iter().map(|unit| unit.id.clone()));
    }
    while let Some(id) = open.pop() {
        let Some(unit) = by_name.get(&id) else { continue };
        if (is_complete(unit) && !unfinished.contains(&id)) || !chosen.insert(id) {
            continue;
        }
        open.extend(unit.depends_on.iter().cloned());
    }
    Ok(units.into_iter().filter(|unit| chosen.contains(&unit.id)).collect())
}

fn is_complete(unit: &Unit) -> bool {
    unit.tasks.iter().all(|task| task.status == TaskStatus::Complete)
}

fn dry_run(units: &[Unit], parallel: u32, is_json: bool) -> Result<u8, UserError> {
    let levels = graph::levels(units);
    if is_json {
        return say_json(&levels);
    }
    if levels.is_empty() {
        say("Nothing to do: every unit is complete.");
        return Ok(0);
    }
    let tasks: usize =
        units.iter().flat_map(|unit| &unit.tasks).filter(|task| task.status != TaskStatus::Complete).count();
    let many = |n: usize, what| count(u32::try_from(n).unwrap_or(u32::MAX), what);
    say(format!("{}, {} to do, {parallel} at once:", many(units.len(), "unit"), many(tasks, "task")));
    for (level, ids) in (1..).zip(&levels) {
        let names: Vec<&str> = ids.iter().map(UnitId::as_str).collect();
        say(format!("  {level}. {}", names.join(", ")));
    }
    Ok(0)
}

/// Worktrees begin at the target's commit: what is not committed is not there.
fn refuse_unseen(repo: &Repository, target: &str, is_forced: bool) -> Result<(), UserError> {
    let tip = repo.branch(target)?.unwrap_or_default();
    if let Some(branch) = repo.waiting_merges(&tip)?.first() {
        let command = repo.command_to_merge(target, &format!("--ff-only {branch}"))?;
        return Err(UserError::environment(format!(
            "`{branch}` holds merged units that `{target}` does not"
        ))
        .hint(format!("`{command}`, then run again")));
    }
    let dirty = repo.is_dirty()?;
    let Some(first) = dirty.first().filter(|_| !is_forced) else { return Ok(()) };
    let more = match dirty.len() - 1 {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Err(UserError::environment(format!("the checkout has uncommitted changes: `{first}`{more}")).hint(
        "worktrees would not see uncommitted specs: commit or stash them, or go on without them with `--force`",
    ))
}

/// What would be found out only when agents have worked.
fn refuse_helpless(repo: &Repository, target: &str, merge: MergeMode) -> Result<(), UserError> {
    repo.check_identity()?;
    if merge == MergeMode::PullRequest && repo.default_remote(target)?.is_none() {
        return Err(UserError::environment("there is no remote to push to").hint(
            "`git remote add origin URL` names one; `--no-merge` leaves finished units on their branches",
        ));
    }
    Ok(())
}

/// What the run does, and what stands in the way of an agent that a plan asks for.
fn settings(
    args: &UnitRunArgs,
    effective: &Effective,
    policy: Policy,
    units: &[Unit],
    programs: &mut Programs,
) -> Result<(RunSettings, Option<UserError>), UserError> {
    let policy = policy.with(|p| {
        // All slots draw on one budget.
        let limits = &mut p.limits;
        limits.per_run = Budget { max_cost: limits.max_cost.take(), max_tokens: limits.max_tokens.take() };
        limits.max_time = None;
    });
    let (providers, obstacle) = providers(args, effective, &policy, units, programs)?;
    let settings = RunSettings {
        providers,
        units_dir: effective.units.dir.value.clone(),
        max_retries: args.max_retries.unwrap_or(effective.units.max_retries.value),
        backpressure_timeout: args.flags.gate_timeout,
        backpressure_retries: args.flags.gate_retries,
        retry_failed: args.retry_failed,
        typed_target: args.target.clone(),
        max_time: effective.max_time.value,
        setup: steps(&effective.setup),
        teardown: steps(&effective.teardown),
        submodules: effective.units.submodules.value,
        baseline: baseline(effective),
        policy,
    };
    supervisor::refuse_secrets_in(&settings.policy)?;
    Ok((settings, obstacle))
}

/// The agents that plans ask for, found before anything is started, and what stands in the way of the first that cannot
/// be. What was typed outranks them.
fn providers(
    args: &UnitRunArgs,
    effective: &Effective,
    policy: &Policy,
    units: &[Unit],
    programs: &mut Programs,
) -> Result<(BTreeMap<UnitId, AgentCommand>, Option<UserError>), UserError> {
    let (mut found, mut obstacle) = (BTreeMap::new(), None);
    if args.flags.agent.is_some() || args.flags.agent_cmd.is_some() {
        return Ok((found, obstacle));
    }
    for unit in units {
        let Some(provider) = &unit.provider else { continue };
        let mut asked = effective.clone();
        asked.agent.value = Some(provider.clone());
        if let Some((file, line)) = unit.provider_at() {
            asked.agent.from = SettingSource::File { file: file.to_owned(), line };
        }
        let said = |error: UserError| UserError {
            message: format!("unit {} asks for `{provider}`: {}", unit.id, error.message),
            ..error
        };
        let chosen = agents::choose(&asked, args.flags.wanted(), programs).map_err(said)?;
        obstacle = obstacle.or_else(|| chosen.obstacle.map(said));
        if policy.limits.per_run != Budget::default() {
            budget::allow(&asked, &chosen.command)?;
        }
        found.insert(unit.id.clone(), chosen.command);
    }
    Ok((found, obstacle))
}
