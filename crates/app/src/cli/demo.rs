//! `dacapo demo`.

use std::path::Path;

use clap::Args;
use dacapo_core::{
    agent::AgentCommand,
    duration::Millis,
    judge::promise::PromiseRule,
    policy::{GateSpec, Policy},
};
use dacapo_engine::{
    home::Home,
    proof,
    scratch::Scratch,
    store::Store,
    supervisor::{self, NewLoop},
};

use super::{receipt, say};
use crate::{
    context::Context,
    error::UserError,
    report::{Style, last_line, reporter},
};

/// Watch a whole loop: an honest iteration, a false promise that a gate refuses, the fix
///
/// Everything happens in a throw-away folder with a scripted agent: no network, no key, a few seconds.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo demo --keep")]
pub(super) struct DemoArgs {
    /// Keep the folder, to look around in it
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    style: Style,
}

const AGENT: &str = include_str!("../demo/agent.sh");
const CHECK: &str = include_str!("../demo/check.sh");
const PROMPT: &str = include_str!("../demo/PROMPT.md");

pub(super) fn demo(args: &DemoArgs) -> Result<u8, UserError> {
    let cannot =
        |error: std::io::Error| UserError::environment(format!("cannot make a folder for the demo: {error}"));
    let scratch = Scratch::new("dacapo-demo").map_err(cannot)?;
    let workspace = scratch.path().join("greeter");
    for (name, text) in [("greeter/check.sh", CHECK), ("agent.sh", AGENT)] {
        scratch.write(name, text).map_err(cannot)?;
    }
    let home = Home::at(scratch.path().join("state"));
    let agent = scratch.path().join("agent.sh");
    if !args.style.json && !args.style.quiet {
        say("A scripted agent is asked for a program that greets; `sh check.sh` is the gate.");
        say("In its second iteration it will promise more than it did.\n");
    }
    let finished = play(&home, &workspace, &agent, &args.style)?;
    if !args.style.json && !args.style.quiet {
        let store = Store::open(&home.database())?;
        if let Some(receipt) = proof::receipt(&store, &finished.id)? {
            say("");
            receipt::print(&receipt);
        }
        say("\nNow with your own agent, in your own repository:");
        say("  dacapo run \"what to do\" --agent-cmd \"your-agent\" --gate \"your test command\"");
        say("Many tasks that depend on each other, in parallel: `dacapo unit --help`");
        if !args.keep {
            say(
                "The demonstration is gone now; `dacapo demo --keep` leaves it for `dacapo receipt` and the other commands.",
            );
        }
    }
    if args.keep {
        let kept = scratch.keep();
        say(format!("\nKept: {}\n  DACAPO_HOME={} dacapo events", kept.display(), home.path().display()));
    }
    Ok(last_line(&finished))
}

fn play(
    home: &Home,
    workspace: &Path,
    agent: &Path,
    style: &Style,
) -> Result<supervisor::Finished, UserError> {
    let script = agent.display().to_string();
    let mut agent = AgentCommand::parse("sh", &[script]).map_err(UserError::usage)?;
    agent.name = "scripted-agent".to_owned();
    let promise = PromiseRule::new("DONE").map_err(UserError::usage)?;
    let policy = Policy::restart(agent, promise).with(|p| {
        p.limits.max_iterations = 5;
        p.pace.restart_delay = Millis(300);
        p.pace.kill_grace = Millis(500);
        p.gates.specs = vec![GateSpec::of_command("sh check.sh")];
    });
    let workspace = Context::folder(Some(&workspace.to_owned()))?;
    let new = NewLoop {
        run: None,
        purpose: None,
        base: None,
        filters: None,
        programs: Default::default(),
        steers: Vec::new(),
        policy,
        prompt: Some(PROMPT.to_owned()),
        project: Context::project_of(&workspace),
        task: Some("write-a-greeter".parse().map_err(UserError::usage)?),
        workspace,
        after: Vec::new(),
        parent: None,
        is_detached: false,
    };
    let mut observer = reporter(style);
    Ok(supervisor::run(home, new.check()?, observer.as_mut())?)
}
