//! `dacapo run`.

use dacapo_engine::{
    config_files::ConfigFiles,
    inside::{
        Inside, child,
        protocol::{StartChild, Words},
    },
    process::background::is_background,
    session, starter,
};
use std::{io::Read, os::fd::AsFd, path::PathBuf};

use clap::Args;
use dacapo_core::{
    config::{Effective, SettingSource, Tests},
    ids::{ProjectId, TaskId},
    item::Item,
    judge::{evidence::Evidence, promise::PromiseRule},
    policy::{CommitRule, GateIn},
};
use dacapo_engine::supervisor::{self, CheckedLoop, NewLoop};

use super::{
    consent, detach,
    flags::{ChosenSettings, LoopFlags, not_started},
    value, warn,
};
use crate::{context::Context, error::UserError, report::reporter};

/// Run one loop: start an agent again and again until the work is done
///
/// The agent is started again and again with the same prompt until it claims to be done and every gate agrees, or a
/// limit is reached. Ctrl-C stops it; `dacapo resume` goes on.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  dacapo run \"make the tests pass\" --gate \"cargo test\" -n 20\n  dacapo run -P PROMPT.md --agent codex --model gpt-5-codex --max-cost 5\n  dacapo run \"tidy up\" --agent-cmd \"my-agent --yolo\" --until-cmd \"make lint\""
)]
pub(super) struct RunArgs {
    /// What the agent is asked to do (default: PROMPT.md in the folder)
    #[arg(value_parser = value::not_blank)]
    prompt: Option<String>,
    /// Read the prompt from FILE, `-` for standard input
    #[arg(short = 'P', long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// Stop after N iterations (default: as configured, else 100)
    #[arg(short = 'n', long, alias = "max-restarts", value_name = "N", value_parser = value::positive, allow_hyphen_values = true)]
    max_iterations: Option<u32>,
    /// The words of the promise by which the agent says that it is done
    #[arg(long, alias = "until", value_name = "TEXT", default_value = "DONE", value_parser = value::one_line)]
    completion_promise: String,
    /// Demand a promise with a code that is new in every iteration
    #[arg(long)]
    promise_nonce: bool,
    /// After an iteration without a claim, run CMD: if it exits 0, that is the claim. If given several times, all have to exit 0
    #[arg(long, value_name = "CMD", value_parser = value::not_blank)]
    until_cmd: Vec<String>,
    /// Where gates run: in the workspace, in a fresh checkout of what would be kept, or in both (default: as configured, else
    /// both)
    #[arg(long, value_enum, value_name = "WHERE")]
    gate_in: Option<value::GateInFlag>,
    /// Try the gates in a throw-away checkout before the first agent, and end the loop if one cannot run; this is the default
    /// unless `--tests free` and `--gate-in workspace` are both asked for
    #[arg(long)]
    probe: bool,
    /// Do not try the gates before the first agent
    #[arg(long, conflicts_with = "probe")]
    no_probe: bool,
    /// Which protected paths gates see: those of the workspace, or those from before the first agent; changes of the agent are
    /// then listed and refuse no claim
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t = value::GateFromFlag::Workspace)]
    gate_from: value::GateFromFlag,
    /// Run the gates once before the first agent, to know what was red already
    #[arg(long)]
    baseline: bool,
    /// Demand that every gate is red before the first agent
    #[arg(long)]
    red_first: bool,
    /// Something that the agent must show beside its claim, in addition to what is configured; may be given several times
    #[arg(long, value_enum, value_name = "KIND")]
    evidence: Vec<value::EvidenceFlag>,
    /// Commit what was kept, once, with the trailer `Dacapo: LOOP/ITERATION`
    #[arg(long)]
    commit: bool,
    /// The words of that commit
    #[arg(long, value_name = "TEXT", requires = "commit", value_parser = value::not_blank)]
    commit_message: Option<String>,
    /// Stop after N iterations in a row without progress, 0 never (default: 10 with a gate, else never; a warning after 5)
    #[arg(long, value_name = "N", value_parser = value::whole)]
    stuck_after: Option<u32>,
    /// Begin every iteration with a fresh session; the default, except with `--transport acp`
    #[arg(long, conflicts_with = "continue_session")]
    fresh: bool,
    /// Go on, from the second iteration on, with the session of the iteration before; the default with `--transport acp`
    #[arg(long)]
    continue_session: bool,
    /// The project (default: from the folder)
    #[arg(long, value_name = "ID")]
    project: Option<ProjectId>,
    /// The task (default: made from the prompt)
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    /// Start only when TASK is done
    #[arg(long, value_name = "TASK")]
    after: Vec<TaskId>,
    /// Where the agent works (default: here)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    pub(super) flags: LoopFlags,
}

/// After how many iterations without progress a loop with a gate ends, unless the user says otherwise.
const STUCK_AFTER: u32 = 10;

/// A loop that can begin, and what it was made from.
pub(super) struct PreparedLoop {
    pub(super) new: CheckedLoop,
    /// Everything that is in force, the parts that loops do not follow yet included.
    pub(super) effective: Effective,
    pub(super) configured: ConfigFiles,
    /// The flag, file or variable that names the agent.
    pub(super) agent_from: SettingSource,
    /// Why it would not start after all.
    pub(super) obstacle: Option<UserError>,
    /// What is left out, and why.
    pub(super) warnings: Vec<String>,
}

impl RunArgs {
    /// What was typed and what is configured, as a loop that can begin. Nothing of the repository runs for it.
    pub(super) fn plan(&self) -> Result<PreparedLoop, UserError> {
        let workspace = Context::folder(self.dir.as_ref())?;
        let mut promise = PromiseRule::new(&self.completion_promise)
            .map_err(|error| UserError::usage(format!("--completion-promise: {error}")))?;
        promise.nonce = self.promise_nonce;
        let configured = ConfigFiles::load(&workspace)?;
        let ChosenSettings { mut policy, programs, effective, agent_from, obstacle, mut warnings } =
            self.flags.base(&configured, self.max_iterations, promise, None)?;
        if let Some(what) = Context::more_than_a_project(&workspace) {
            warnings.push(format!(
                "the agent works in {what}, which is in no git repository: nothing that it changes there can be put back; \
                 `--dir DIR` names another folder"
            ));
        }
        if self.continue_session && !policy.agent.command.can_continue() {
            return Err(UserError::usage(format!(
                "agent `{}` cannot go on with a session",
                policy.agent.command.name
            ))
            .hint(
                "leave `--continue-session` out, or say how with `agents.NAME.resume` in your configuration",
            ));
        }
        policy.agent.continue_session =
            (policy.agent.continue_session || self.continue_session) && !self.fresh;
        policy.claims.until.clone_from(&self.until_cmd);
        let gates = &mut policy.gates;
        gates.run_in = match self.gate_in {
            Some(typed) => gates.run_in.max(typed.into()),
            None if effective.gate_in.from == SettingSource::Default && !gates.specs.is_empty() => {
                GateIn::Both
            }
            None => gates.run_in,
        };
        gates.probe = !self.no_probe && (self.probe || gates.watches_goalposts());
        gates.from = gates.from.max(self.gate_from.into());
        gates.baseline |= self.baseline;
        gates.red_first |= self.red_first;
        let commit = self.commit.then(|| CommitRule { message: self.commit_message.clone() });
        let configured_evidence = effective.evidence.iter().map(|kind| kind.value);
        let mut evidence: Vec<Evidence> =
            configured_evidence.chain(self.evidence.iter().copied().map(Evidence::from)).collect();
        evidence.sort_unstable();
        evidence.dedup();
        policy.items = vec![Item { commit, evidence, ..Item::whole() }];
        let by_default = (!policy.gates.specs.is_empty()).then_some(STUCK_AFTER);
        policy.limits.stuck_after = match self.stuck_after {
            Some(0) => None,
            typed => typed.or(policy.limits.stuck_after).or(by_default),
        };
        let new = NewLoop {
            policy,
            prompt: self.prompt_text(&workspace)?,
            project: self.project.clone().unwrap_or_else(|| Context::project_of(&workspace)),
            task: self.task.clone(),
            workspace,
            after: self.after.clone(),
            parent: child::parent().cloned().or_else(session::loop_around),
            run: None,
            purpose: None,
            base: None,
            filters: None,
            programs,
            steers: Vec::new(),
            // A child has no terminal that could go away, even if its parent has one.
            is_detached: is_background() || child::parent().is_some(),
        };
        // Before anything of it is kept or shown to others.
        Ok(PreparedLoop { new: new.check()?, effective, configured, agent_from, obstacle, warnings })
    }

    /// The prompt: the argument, a file, PROMPT.md, or `None` to use the task's own TASK.md.
    fn prompt_text(&self, workspace: &std::path::Path) -> Result<Option<String>, UserError> {
        if let Some(prompt) = &self.prompt {
            return Ok(Some(prompt.clone()));
        }
        let (file, is_named) = match &self.prompt_file {
            Some(file) => (file.clone(), true),
            None => (workspace.join("PROMPT.md"), false),
        };
        let read = if file.as_os_str() == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        } else {
            std::fs::read(&file)
        };
        match read {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) if text.trim().is_empty() => {
                    Err(UserError::usage(format!("the prompt in `{}` is blank", file.display()))
                        .hint("write into it what the agent is to do, or give that as an argument"))
                }
                Ok(text) => Ok(Some(text)),
                Err(error) => Err(UserError::usage(format!(
                    "the prompt in `{}` is not UTF-8 (at byte {})",
                    file.display(),
                    error.utf8_error().valid_up_to()
                ))
                .hint("save it as UTF-8; `iconv -t UTF-8 FILE` converts it")),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_named => {
                if self.task.is_some() {
                    return Ok(None);
                }
                Err(UserError::usage("there is no prompt, and no PROMPT.md here")
                    .hint("`dacapo run \"what to do\"`, `-P FILE`, or `-P -` for standard input"))
            }
            Err(error) => {
                Err(UserError::usage(format!("cannot read the prompt `{}`: {error}", file.display())))
            }
        }
    }
}

impl RunArgs {
    /// Whether nothing but the agent's own word decides.
    fn has_no_check(&self, prepared: &PreparedLoop) -> bool {
        prepared.effective.gates.is_empty()
            && self.until_cmd.is_empty()
            && prepared.effective.evidence.is_empty()
            && self.evidence.is_empty()
    }

    /// Whether neither money nor tokens nor time is limited, and no number of iterations was chosen.
    fn has_no_budget(&self, prepared: &PreparedLoop) -> bool {
        let limits = &prepared.new.policy.limits;
        limits.max_cost.is_none()
            && limits.max_tokens.is_none()
            && limits.max_time.is_none()
            && limits.per_day.is_unlimited()
            && prepared.effective.max_iterations.from == SettingSource::Default
    }

    /// Asks whether the tests of the repository are to be the gate; gives the flag that says so.
    fn propose_gate(&mut self, tests: Option<&Tests>) -> Result<Option<String>, UserError> {
        let Some(tests) = tests.filter(|_| self.flags.agent_args.is_empty()) else { return Ok(None) };
        let question = format!(
            "No gate is set. Believe that the work is done only if `{}` passes (found in {})?",
            tests.run, tests.from
        );
        if !consent::ask_or_yes(&question)? {
            return Ok(None);
        }
        self.flags.gate.push(tests.run.to_owned());
        Ok(Some(format!("--gate={}", tests.run)))
    }
}

fn no_gate_no_budget(tests: Option<&Tests>) -> String {
    let gate = tests.map_or("CMD".to_owned(), |tests| format!("{:?}", tests.run));
    format!(
        "no gate checks what the agent claims, and nothing limits what it may cost: `--gate {gate}` and `--max-cost USD` \
         or `--max-time 8h` do; `dacapo init` writes them down"
    )
}

/// Below an agent: the loop's supervisor starts the child, which prints where this command would have printed.
fn ask_for_child(inside: &Inside, args: &RunArgs) -> Result<u8, UserError> {
    let is_piped = args.prompt_file.as_deref() == Some(std::path::Path::new("-"));
    let mut input = Vec::new();
    if is_piped {
        std::io::stdin().lock().read_to_end(&mut input).map_err(UserError::failed)?;
    }
    let input = String::from_utf8(input)
        .map_err(|error| UserError::usage(format!("the prompt in `-` is not UTF-8: {error}")))?;
    let dir = std::env::current_dir()
        .map_err(|error| UserError::usage(format!("cannot work in this folder: {error}")))?;
    let asked = StartChild {
        args: std::env::args_os().skip(1).map(Words::from).collect(),
        dir: dir.into(),
        env: std::env::vars_os().map(|(name, value)| (name.into(), value.into())).collect(),
        input: is_piped.then_some(input),
        is_detached: args.flags.detach,
    };
    if args.flags.detach {
        return detach::child(inside, asked);
    }
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    Ok(inside.start(asked, [stdout.as_fd(), stderr.as_fd()])?.wait()?)
}

pub(super) fn run(cx: &Context, args: &RunArgs) -> Result<u8, UserError> {
    if args.flags.detach && args.prompt_file.as_deref() == Some(std::path::Path::new("-")) {
        return Err(UserError::usage("`--detach` cannot read the prompt from standard input")
            .hint("write it to a file and give that with `-P FILE`"));
    }
    if let Some(inside) = &cx.inside {
        return ask_for_child(inside, args);
    }
    // Also before going to the background, so that mistakes and questions show up where they were typed.
    let mut args = args.clone();
    let mut prepared = args.plan()?;
    let mut proposed = None;
    let is_typed = !is_background() && child::parent().is_none();
    if is_typed && prepared.obstacle.is_none() && args.has_no_check(&prepared) {
        let tests = starter::tests_of(&Context::folder(args.dir.as_ref())?);
        if consent::can_ask() {
            proposed = args.propose_gate(tests.first())?;
        }
        if proposed.is_some() {
            prepared = args.plan()?;
        } else if args.has_no_budget(&prepared) && !args.flags.style.quiet {
            prepared.warnings.push(no_gate_no_budget(tests.first()));
        }
    }
    let args = &args;
    let PreparedLoop { new, configured, obstacle, warnings, .. } = prepared;
    if let Some(obstacle) = obstacle {
        return Err(obstacle);
    }
    consent::require(&cx.home, &configured, args.flags.trust)?;
    if !is_background() {
        warn(&warnings);
        if args.flags.detach {
            return detach::detach(&cx.client()?, proposed.as_deref());
        }
    }
    let mut observer = reporter(&args.flags.style);
    let finished =
        supervisor::run(&cx.home, new, observer.as_mut()).map_err(|error| not_started(error, &configured))?;
    drop(observer);
    let is_told = args.flags.style.is_human();
    if is_told {
        crate::report::ending(&mut cx.client()?, &finished.id)?;
    }
    Ok(crate::report::last_line(&finished, is_told))
}
