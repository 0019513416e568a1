//! `dacapo init`.

use std::path::{Path, PathBuf};

use clap::Args;
use dacapo_core::{config::Typed, ids::UnitId, text::shell::word, workflow::builtin};
use dacapo_engine::{
    config_files::{ConfigFiles, REPOSITORY_FILE},
    starter, units,
};
use serde_json::json;

use super::{agents::AgentFinding, say, say_json};
use crate::{context::Context, error::UserError};

/// Write a first configuration for this repository, and say what was found
///
/// Makes .dacapo/config.yaml at the top of the repository, with its tests as a gate where they can be guessed, and an example
/// of a workflow; with `--unit`, in its place an example of a unit that can be worked off as it is. What is there is never
/// changed.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  dacapo init && dacapo run \"make the tests pass\"\n  dacapo init --unit hello"
)]
pub(super) struct InitArgs {
    /// Write an example unit of this name, too: a folder of two small tasks in specs/tasks, or where `units.dir` says
    #[arg(long, value_name = "NAME")]
    unit: Option<UnitId>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn init(cx: &Context, args: &InitArgs) -> Result<u8, UserError> {
    let workspace = Context::folder(None)?;
    Context::refuse_bare(&workspace)?;
    if let Some(what) = Context::more_than_a_project(&workspace) {
        let what = format!("`{}` is {what}, not a project", workspace.display());
        return Err(UserError::usage(what).hint(
            "call it in the folder of your project; what holds for all projects goes into ~/.config/dacapo/config.yaml",
        ));
    }
    let begun = starter::begin(&workspace)?;
    // Also read back what is there, so that a mistake in it is told now and not at the first run.
    let effective = ConfigFiles::load(&workspace)?.effective(&Typed::default());
    let agents: Vec<AgentFinding> =
        AgentFinding::all(cx, &effective).into_iter().filter(|agent| agent.path.is_some()).collect();
    let gates: Vec<&str> = effective.gates.iter().map(|gate| gate.spec.run.as_str()).collect();
    let unit = match &args.unit {
        Some(name) => Some(begin_unit(&workspace, &effective.units.dir.value, name)?),
        None => None,
    };
    // Who asks for a unit wants that as the example.
    let workflow = begun.is_new && unit.is_none() && {
        let tests = begun.tests.first().map(|test| test.run);
        starter::begin_workflow(&begun.root, &builtin::example(tests))?
    };
    let next = match &unit {
        Some(unit) => unit.next(&workspace, begun.is_new.then_some(&begun.root)),
        None => vec!["dacapo run \"what to do\"".to_owned()],
    };
    if args.json {
        let tests: Vec<_> =
            begun.tests.iter().map(|test| json!({ "run": test.run, "from": test.from })).collect();
        let (mut written, mut kept) = (Vec::new(), Vec::new());
        if begun.is_new { &mut written } else { &mut kept }.push(REPOSITORY_FILE);
        written.extend(workflow.then_some(builtin::EXAMPLE_FILE));
        if let Some(unit) = &unit {
            written.extend(unit.written.iter().map(String::as_str));
            kept.extend(unit.written.is_empty().then_some(unit.folder.as_str()));
        }
        return say_json(&json!({
            "root": begun.root,
            "written": written,
            "kept": kept,
            "agents": agents,
            "tests": tests,
            "test_paths": begun.missed_tests,
            "gates": gates,
            "next": next,
        }));
    }
    let kept = |path: PathBuf| say(format!("{} is there already; it was left as it is", path.display()));
    let file = begun.root.join(REPOSITORY_FILE);
    if begun.is_new {
        say(format!("Wrote {}", file.display()));
    } else {
        kept(file);
    }
    if workflow {
        say(format!("Wrote {}", begun.root.join(builtin::EXAMPLE_FILE).display()));
    }
    if let Some(unit) = &unit {
        for file in &unit.written {
            say(format!("Wrote {}", unit.top.join(file).display()));
        }
        if unit.written.is_empty() {
            kept(unit.top.join(&unit.folder));
        }
    }
    if agents.is_empty() {
        let all = AgentFinding::all(cx, &effective);
        let install = all.iter().find_map(|agent| agent.install.as_deref()).unwrap_or_default();
        say(format!(
            "agents   none is installed: `{install}` installs one, and `--agent-cmd CMD` takes any program"
        ));
    }
    for agent in &agents {
        say(format!("agent    {}", agent.words()));
        if let (Some(false), Some(sign_in)) = (agent.signed_in, &agent.sign_in) {
            say(format!("         to sign in, {sign_in}"));
        }
    }
    match (begun.is_new, gates.as_slice()) {
        (true, []) => say(
            "gates    none: dacapo could not guess how the tests are run; add `gates` to that file, or type `--gate CMD`",
        ),
        (true, _) => {
            for test in &begun.tests {
                say(format!("gate     {} (guessed from {})", test.run, test.from));
            }
        }
        (false, []) => say("gates    none"),
        (false, gates) => {
            for gate in gates {
                say(format!("gate     {}", gate.trim_end().replace('\n', "\\n")));
            }
            for test in begun.tests.iter().filter(|test| !gates.contains(&test.run)) {
                say(format!("tests    {} (guessed from {}) is no gate there", test.run, test.from));
            }
        }
    }
    if begun.is_new && !begun.missed_tests.is_empty() {
        let paths: Vec<String> = begun.missed_tests.iter().map(|pattern| format!("`{pattern}`")).collect();
        say(format!(
            "tests    also {}, although no name says so; `tests.paths` lists them",
            paths.join(", ")
        ));
    }
    let consent = match (&unit, gates.as_slice()) {
        (Some(_), _) => {
            ". It asks before it runs the commands of the tasks; `dacapo trust` agrees to them now."
        }
        (None, []) => "",
        (None, _) => ". It asks before it runs the gates; `dacapo trust` agrees to them now.",
    };
    let next: Vec<String> = next.iter().map(|command| format!("`{command}`")).collect();
    say(format!("next     {}{consent}", next.join(", then ")));
    Ok(0)
}

/// An example unit, and where it lies.
struct ExampleUnit {
    name: UnitId,
    /// The top of the repository, from which the others are counted.
    top: PathBuf,
    folder: String,
    /// Nothing, if there was something in the folder.
    written: Vec<String>,
}

fn begin_unit(workspace: &Path, dir: &str, name: &UnitId) -> Result<ExampleUnit, UserError> {
    let top = units::top(workspace);
    let folder = format!("{}/{name}", dir.trim_end_matches('/'));
    // Its name need not be that of its folder.
    let other = units::discover(&top, dir)?.units.into_iter().find(|unit| unit.id == *name);
    if let Some(task) = other.as_ref().and_then(|unit| unit.tasks.first())
        && !task.spec.file.starts_with(&format!("{folder}/"))
    {
        let file = &task.spec.file;
        return Err(UserError::usage(format!("there is a unit `{name}` already, with the task `{file}`"))
            .hint("`dacapo unit list` lists the names that are taken"));
    }
    let written = starter::begin_unit(&top, dir, name)?;
    Ok(ExampleUnit { name: name.clone(), top, folder, written })
}

impl ExampleUnit {
    /// The commands that make it work; `config` is where a new configuration lies.
    fn next(&self, workspace: &Path, config: Option<&PathBuf>) -> Vec<String> {
        let mut next = Vec::new();
        let is_git = std::fs::symlink_metadata(self.top.join(".git")).is_ok();
        if !is_git {
            next.push("git init".to_owned());
        }
        // Worktrees begin at a commit. From a folder further down, the paths begin at the top.
        let from = if workspace == self.top { "" } else { ":/" };
        if !self.written.is_empty() {
            let config = config.and_then(|root| {
                root.join(REPOSITORY_FILE).strip_prefix(&self.top).ok()?.to_str().map(str::to_owned)
            });
            let paths: Vec<String> =
                config.iter().chain([&self.folder]).map(|path| word(&format!("{from}{path}"))).collect();
            next.push(format!("git add {} && git commit -m \"Add unit {}\"", paths.join(" "), self.name));
        }
        next.push(format!("dacapo unit run --unit {}", self.name));
        next
    }
}
