//! `dacapo task run`.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use dacapo_core::{
    config::{SetupStep, Sourced},
    ids::TaskId,
    limits::Budget,
    policy::{GateSpec, OWN_FILES, SetupCommand},
    stages::{
        DEFAULT_SLOTS, Stage, StageTask, StageTaskStatus,
        machine::{PlannedStage, TaskMachine, TaskSettings, TaskStarted},
        past_findings, past_refusals,
        prompt::equal_for_task,
        task::FOLDER,
    },
    trust::{Runnable, task_runnables},
    view::StageTaskView,
};
use dacapo_engine::{
    client::Client,
    observer::{NoObserver, Observer},
    process::{Programs, background::is_background},
    repository::Repository,
    stage_performer::{self, TaskToRun, TasksLeft, TasksToRun},
    supervisor::{self, StartError},
    trust::ConsentScope,
};

use super::{
    super::{agents, consent, detach, flags::refuse_idle_patterns, resume::ResumeArgs, say, value, warn},
    RepositoryTasks, TaskRuns, UNPROVEN,
    planned::{PAST_RUNS, PlannedStages, TaskFlags},
    require_repository,
};
use crate::{
    context::Context,
    error::{NEEDS_PERSON, UserError},
    report::{Style, ending_of_tasks, last_line_of_tasks, task_reporter},
};

/// Work tasks off: each is coded, reviewed, tested, used and merged
///
/// Every task has a worktree and a branch of its own, `task/ID`. A stage is passed when its agent promises so and the promise
/// is proven; a reviewer that refuses sends the task back to the coder. When all stages are passed the task is merged. A task
/// that failed is `todo` again; one that asks you something waits for `dacapo approve` or `dacapo reject`, and the command
/// exits with 4. What is unfinished from an earlier run goes on where it stood. Budgets are for each task.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  dacapo task run\n  dacapo task run TASK-001 --agent claude --max-cost 5\n  dacapo task run --slots 2 --gate \"make test\" --detach"
)]
pub(in crate::cli) struct TaskRunArgs {
    /// The tasks, and what they depend on (default: all that are to do)
    #[arg(value_name = "ID")]
    tasks: Vec<String>,
    /// Work on N tasks at once (default: 6)
    #[arg(long, value_name = "N", value_parser = value::at_least_one, allow_hyphen_values = true)]
    slots: Option<u32>,
    /// The branch that finished tasks go into (default: the one checked out)
    #[arg(long, value_name = "BRANCH", value_parser = value::branch)]
    target: Option<String>,
    /// Start although the checkout has uncommitted changes, which worktrees do not see
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    given: TaskFlags,
}

pub(in crate::cli) fn run(cx: &Context, args: &TaskRunArgs) -> Result<u8, UserError> {
    let root = args.given.place.root()?;
    require_repository(&root)?;
    let project = Context::project_of(&root);
    stage_performer::settle_statuses(&cx.home, &project)?;
    let repository = RepositoryTasks::at(&args.given.place)?;
    let flags = &args.given.flags;
    repository.warn();
    let client = cx.client()?;
    let open: BTreeMap<TaskId, StageTaskView> = client
        .newest_tasks(Some(&project))?
        .into_iter()
        .filter(|seen| !seen.view.is_over)
        .map(|seen| (seen.view.task.clone(), seen.view))
        .collect();
    let runs = TaskRuns::at(cx, &args.given.place)?;
    let chosen = selected(&repository, &args.tasks, &open)?;
    let (chosen, unproven) = without_proof(&repository, chosen, &runs);
    if let (Some((task, on)), false) = (unproven.first(), args.tasks.is_empty()) {
        return Err(UserError::needs_person(format!("task {task} waits for {on}, {UNPROVEN}")).hint(
            format!("`dacapo task confirm {on}` says that it is done; `status: todo` has it worked on"),
        ));
    }
    if !unproven.is_empty() && !is_background() {
        warn(&unproven.iter().map(|(task, on)| format!("task {task} is not begun: it waits for {on}, {UNPROVEN}; `dacapo task confirm {on}` says that it is done")).collect::<Vec<_>>());
    }
    if chosen.is_empty() {
        let code = nothing_to_do(&repository, &open)?;
        return Ok(if unproven.is_empty() { code } else { NEEDS_PERSON });
    }
    let planned = args.given.plan(Some(&client))?;
    let settings = settings(&planned, flags.trust);
    let PlannedStages { configured, chosen: base, stages, .. } = planned;
    if let Some(obstacle) = base.obstacle {
        return Err(obstacle);
    }
    let (mut programs, mut warnings) = (base.programs, base.warnings);
    // Found before anything starts.
    for agent in std::iter::once(&settings.policy.agent.command).chain(settings.agents.values()) {
        programs.find(agents::program(agent)).map_err(StartError::from)?;
    }
    let kinds: Vec<Stage> = stages.iter().map(|planned| planned.stage.clone()).collect();
    for task in &chosen {
        if let Some((first, second)) = equal_for_task(&kinds, &task.spec) {
            return Err(UserError::usage(format!(
                "task {}: the stages `{first}` and `{second}` have the same promise",
                task.spec.id
            ))
            .hint("give one of them another in its `completion`, or in `ralph` of the configuration"));
        }
    }
    // Before git looks at the working tree: filters are programs.
    let all: Vec<StageTask> = chosen.iter().map(|task| (*task).clone()).collect();
    let mut runnables = task_runnables(&all);
    runnables.extend(configured.proof_taken_away());
    consent::require_all(&cx.home, &configured, &root, (ConsentScope::Tasks, &runnables), flags.trust)?;
    for view in chosen.iter().filter_map(|task| open.get(&task.spec.id)) {
        require_consent(cx, &client, view, flags.trust, false)?;
    }
    supervisor::refuse_secrets_in(&settings.policy)?;
    refuse_idle_patterns(&root, &settings.policy, &configured)?;
    let repo = Repository::open(&root, &cx.home)?;
    let target = target(&repo, args.target.as_deref())?;
    repo.check_identity()?;
    refuse_branch_in_the_way(&repo)?;
    refuse_unseen(&repo, &target, &open, args.force)?;
    warnings.extend(without_checks(&settings, &stages, &chosen));
    if !is_background() {
        if !flags.style.quiet {
            warn(&warnings);
        }
        if flags.detach {
            let names: Vec<&str> = chosen.iter().map(|task| task.spec.id.as_str()).collect();
            return detach::detach_tasks(&client, None, &names);
        }
    }
    stage_performer::tidy_leftovers(&cx.home, &project)?;
    let mut settings = TaskSettings { target, ..settings };
    // What says how work is checked is not for agents to write.
    settings.policy.gates.protect.push(OWN_FILES.to_owned());
    let tasks = to_run(&client, &chosen, &open, &stages, &settings)?;
    let slots = args.slots.unwrap_or(DEFAULT_SLOTS);
    let mut observer = task_reporter(&flags.style);
    let wanted = TasksToRun { tasks, slots, programs, is_detached: is_background() };
    let left = stage_performer::run(&cx.home, wanted, observer.as_mut())?;
    drop(observer);
    told(cx, &left, &flags.style)
}

/// Says why no task can be worked on, and exits as if the run had come to that.
fn nothing_to_do(
    repository: &RepositoryTasks,
    open: &BTreeMap<TaskId, StageTaskView>,
) -> Result<u8, UserError> {
    let asking: Vec<&StageTaskView> = open.values().filter(|view| view.question.is_some()).collect();
    if asking.is_empty() && repository.found.tasks.is_empty() && !repository.found.problems.is_empty() {
        return Err(UserError::usage(format!("no task file in `{FOLDER}` can be read"))
            .hint("`dacapo task check` says what is wrong with them"));
    }
    say("Nothing to do: no task is ready.");
    for view in &asking {
        say(format!("  {} asks; `dacapo why {}` shows the question", view.task, view.task));
    }
    if repository.found.tasks.is_empty() {
        say("  There is no task; `dacapo task add \"…\"` adds one.");
    }
    Ok(if asking.is_empty() { 0 } else { NEEDS_PERSON })
}

/// A warning where no command and no other agent looks at what the agents of the stages say.
fn without_checks(settings: &TaskSettings, stages: &[PlannedStage], tasks: &[&StageTask]) -> Option<String> {
    let has_gate = !settings.policy.gates.specs.is_empty()
        || stages.iter().any(|planned| !planned.stage.gates.is_empty())
        || tasks.iter().all(|task| task.spec.completion.stages.values().any(|own| own.verify.is_some()));
    (!has_gate).then(|| {
        "no gate checks any stage: commits and the words of agents are all that is looked at; `--gate CMD`, or \
         `gates` in .dacapo/config.yaml, adds one"
            .to_owned()
    })
}

/// What every task of a run is started with, but for its target.
fn settings(planned: &PlannedStages, is_trusted_once: bool) -> TaskSettings {
    let effective = &planned.chosen.effective;
    let policy = planned.chosen.policy.clone().with(|policy| {
        // All stages of a task draw on one budget.
        let limits = &mut policy.limits;
        limits.per_run = Budget { max_cost: limits.max_cost.take(), max_tokens: limits.max_tokens.take() };
    });
    TaskSettings {
        project: Context::project_of(&planned.root),
        root: planned.root.clone(),
        target: String::new(),
        policy,
        agents: planned.agents.clone(),
        setup: steps(&effective.setup),
        teardown: steps(&effective.teardown),
        steps_of_repository: planned.configured.runnables().into_iter().filter(Runnable::is_step).collect(),
        submodules: effective.units.submodules.value,
        is_trusted_once,
        filters: None,
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn steps(steps: &[Sourced<SetupStep>]) -> Vec<SetupCommand> {
    let step = |step: &Sourced<SetupStep>| SetupCommand {
        run: step.value.run.clone(),
        only_if: step.value.condition.clone(),
    };
    steps.iter().map(step).collect()
}

/// The tasks that were named, and those that they depend on and that are not done; without a name all that are not done: one
/// that asks the user something is among them, because others may wait for it.
fn selected<'a>(
    repository: &'a RepositoryTasks,
    named: &[String],
    open: &BTreeMap<TaskId, StageTaskView>,
) -> Result<Vec<&'a StageTask>, UserError> {
    let all = &repository.found.tasks;
    let is_done =
        |task: &StageTask| task.status == StageTaskStatus::Done && !open.contains_key(&task.spec.id);
    if named.is_empty() {
        return Ok(all.iter().filter(|task| !is_done(task)).collect());
    }
    let mut wanted: BTreeSet<TaskId> = BTreeSet::new();
    for name in named {
        let task = repository.task(name)?;
        if is_done(task) {
            return Err(UserError::failed(format!("task {} is done", task.spec.id))
                .hint(format!("write `status: todo` into `{}` to have it worked on again", task.spec.file)));
        }
        let mut next = vec![task];
        while let Some(task) = next.pop() {
            if wanted.insert(task.spec.id.clone()) {
                let needed = all.iter().filter(|other| task.spec.depends_on.contains(&other.spec.id));
                next.extend(needed.filter(|other| !is_done(other)));
            }
        }
    }
    Ok(all.iter().filter(|task| wanted.contains(&task.spec.id)).collect())
}

/// A task, and one that it depends on.
type WaitsFor = (TaskId, TaskId);

/// The tasks that can begin, and those that cannot because they depend, by themselves or through others, on a task whose file
/// says `done` while nothing proves it.
fn without_proof<'a>(
    repository: &RepositoryTasks,
    chosen: Vec<&'a StageTask>,
    runs: &TaskRuns,
) -> (Vec<&'a StageTask>, Vec<WaitsFor>) {
    let all = &repository.found.tasks;
    let mut unproven: BTreeMap<TaskId, TaskId> = BTreeMap::new();
    for task in all.iter().filter(|task| runs.alone(task).is_unproven()) {
        let mut next = vec![&task.spec.id];
        while let Some(id) = next.pop() {
            for other in all.iter().filter(|other| other.spec.depends_on.contains(id)) {
                if unproven.insert(other.spec.id.clone(), task.spec.id.clone()).is_none() {
                    next.push(&other.spec.id);
                }
            }
        }
    }
    let (held, free): (Vec<&StageTask>, Vec<&StageTask>) =
        chosen.into_iter().partition(|task| unproven.contains_key(&task.spec.id));
    let waits =
        held.iter().filter_map(|task| Some((task.spec.id.clone(), unproven.get(&task.spec.id)?.clone())));
    let waits = waits.collect();
    (free, waits)
}

/// git keeps no branch `task/ID` beside one that is called `task`.
fn refuse_branch_in_the_way(repo: &Repository) -> Result<(), UserError> {
    if repo.branch("task")?.is_none() {
        return Ok(());
    }
    Err(UserError::environment("the branch `task` is in the way of the branches of tasks, `task/ID`")
        .hint("`git branch -m task OTHER` gives it another name"))
}

/// Each task as it begins, or goes on if it has a run that is open.
fn to_run(
    client: &Client,
    chosen: &[&StageTask],
    open: &BTreeMap<TaskId, StageTaskView>,
    stages: &[PlannedStage],
    settings: &TaskSettings,
) -> Result<Vec<TaskToRun>, UserError> {
    let mut tasks = Vec::with_capacity(chosen.len());
    for task in chosen {
        if let Some(view) = open.get(&task.spec.id) {
            tasks.push(TaskToRun::GoOn { id: view.id.clone(), is_resumed: true });
            continue;
        }
        let earlier = client.history_of_tasks(&settings.project, Some(&task.spec.id), PAST_RUNS)?;
        tasks.push(TaskToRun::Begin(Box::new(TaskStarted {
            task: task.spec.clone(),
            stages: stages.to_vec(),
            past_refusals: past_refusals(&earlier),
            past_findings: past_findings(&earlier),
            settings: Some(Box::new(settings.clone())),
        })));
    }
    Ok(tasks)
}

fn target(repo: &Repository, named: Option<&str>) -> Result<String, UserError> {
    let target = match named {
        Some(target) => target.to_owned(),
        None => repo.current_branch()?.ok_or_else(|| {
            UserError::usage("no branch is checked out that finished tasks could go into")
                .hint("name one with `--target BRANCH`")
        })?,
    };
    if repo.branch(&target)?.is_none() {
        let error = UserError::environment(format!("the target branch `{target}` does not exist"));
        return Err(error.hint(format!("`git branch {target}` makes it; `--target BRANCH` names another")));
    }
    Ok(target)
}

/// Uncommitted changes are in no worktree. What lies in `.dacapo` is read from the checkout.
fn refuse_unseen(
    repo: &Repository,
    target: &str,
    open: &BTreeMap<TaskId, StageTaskView>,
    is_forced: bool,
) -> Result<(), UserError> {
    let tip = repo.branch(target)?.unwrap_or_default();
    // The merge of a task that is open is tried again.
    let is_of_open = |branch: &&String| {
        let own = |view: &StageTaskView| branch.starts_with(&format!("dacapo/merged-{}", view.id));
        open.values().any(own)
    };
    if let Some(branch) = repo.waiting_merges(&tip)?.iter().find(|branch| !is_of_open(branch)) {
        let command = repo.command_to_merge(target, &format!("--ff-only {branch}"))?;
        return Err(UserError::environment(format!("`{branch}` holds merged work that `{target}` does not"))
            .hint(format!("`{command}`, then run again")));
    }
    let dirty: Vec<String> =
        repo.is_dirty()?.into_iter().filter(|path| !path.starts_with(".dacapo/")).collect();
    let Some(first) = dirty.first().filter(|_| !is_forced) else { return Ok(()) };
    let more = match dirty.len() - 1 {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Err(UserError::environment(format!("the checkout has uncommitted changes: `{first}`{more}"))
        .hint("agents would not see them: commit or stash them, or go on without them with `--force`"))
}

/// Makes sure that the commands of a task that goes on may run.
fn require_consent(
    cx: &Context,
    client: &Client,
    view: &StageTaskView,
    is_trusted: bool,
    is_answer: bool,
) -> Result<(), UserError> {
    let Some(started) = client.task_started(&view.id)? else { return Ok(()) };
    let is_trusted_once = started.settings.as_ref().is_some_and(|settings| settings.is_trusted_once);
    let is_trusted = is_trusted || (is_answer && is_trusted_once);
    let task = StageTask { spec: started.task, status: StageTaskStatus::Todo };
    let runnables = task_runnables(&[task]);
    consent::require_files(&cx.home, &view.root, (ConsentScope::Tasks, &runnables), is_trusted)?;
    // It goes on with the commands that it began with, whatever the configuration says by now.
    let steps = started.settings.as_ref().map(|settings| settings.steps_of_repository.as_slice());
    let of_loops = started.settings.iter().flat_map(|settings| settings.policy.gates.specs.iter());
    let of_stages = started.stages.iter().flat_map(|planned| planned.stage.gates.iter());
    let gates: Vec<GateSpec> = of_loops.chain(of_stages).cloned().collect();
    let resumed = consent::Resumed::Task(view.task.as_str());
    consent::require_again(&cx.home, &view.root, (&gates, steps.unwrap_or_default()), is_trusted, resumed)
}

/// Makes sure that an answer does not run what the user has not agreed to, or not any more.
pub(in crate::cli) fn require_consent_to_answer(
    cx: &Context,
    client: &Client,
    view: &StageTaskView,
) -> Result<(), UserError> {
    require_consent(cx, client, view, false, true)
}

/// Tells a person what the tasks have come to; gives the exit code.
fn told(cx: &Context, left: &TasksLeft, style: &Style) -> Result<u8, UserError> {
    let is_told = style.is_human();
    if is_told {
        ending_of_tasks(&mut cx.client()?, &left.views)?;
    }
    Ok(last_line_of_tasks(left, is_told))
}

/// Goes on with a task that no process performs.
pub(in crate::cli) fn resume(
    cx: &Context,
    client: &Client,
    view: &StageTaskView,
    flags: &ResumeArgs,
) -> Result<u8, UserError> {
    require_consent(cx, client, view, flags.trust, flags.is_answer)?;
    if flags.detach && !is_background() {
        let id = flags.id.is_none().then_some(view.id.as_str());
        return detach::detach_tasks(client, id, &[view.task.as_str()]);
    }
    let mut observer = task_reporter(&flags.style);
    let left = take_up(cx, view, !flags.is_answer, observer.as_mut())?;
    drop(observer);
    told(cx, &left, &flags.style)
}

/// Takes up what was asked of a task that no process performs, as far as it goes.
pub(in crate::cli) fn settle(cx: &Context, view: &StageTaskView) -> Result<TasksLeft, UserError> {
    take_up(cx, view, false, &mut NoObserver)
}

fn take_up(
    cx: &Context,
    view: &StageTaskView,
    is_resumed: bool,
    observer: &mut dyn Observer<TaskMachine>,
) -> Result<TasksLeft, UserError> {
    let wanted = TasksToRun {
        tasks: vec![TaskToRun::GoOn { id: view.id.clone(), is_resumed }],
        slots: 1,
        programs: Programs::default(),
        is_detached: is_background(),
    };
    Ok(stage_performer::run(&cx.home, wanted, observer)?)
}
