//! `dacapo demo`.

use std::{path::Path, time::Duration};

use clap::Args;
use dacapo_core::{
    agent::AgentCommand,
    duration::Millis,
    judge::promise::PromiseRule,
    policy::{GateSpec, Policy},
};
use dacapo_engine::{
    client::Client,
    home::Home,
    inside::{Whereabouts, place},
    scratch::Scratch,
    supervisor::{self, NewLoop},
};

use super::{
    receipt::{self, ReceiptAuthor},
    say,
};
use crate::{
    context::Context,
    error::UserError,
    report::{Style, last_line, reporter},
};

/// Watch a whole loop: an honest iteration, a false promise that a gate refuses, the fix
///
/// Everything happens in a throw-away repository with a scripted agent: no network, no key, a few seconds. The repository and the
/// record of the loop stay in the state folder until a demo of another day, so that `dacapo receipt`, `verify`, `diff`, `why` and
/// `logs` show it afterwards.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo demo --keep")]
pub(super) struct DemoArgs {
    /// Keep it in a folder of its own, with its state, to look around in it
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
    let lasting = lasting_home(args);
    let scratch = match &lasting {
        Some(home) => {
            let folder = home.path().join("demo");
            remove_earlier(&folder);
            Scratch::below(&folder, "dacapo-demo")
        }
        None => Scratch::new("dacapo-demo"),
    };
    let scratch = scratch.map_err(cannot)?;
    let workspace = scratch.path().join("greeter");
    for (name, text) in [("greeter/check.sh", CHECK), ("agent.sh", AGENT)] {
        scratch.write(name, text).map_err(cannot)?;
    }
    // Where git is missing, the demo shows what a plain folder can.
    let _ = dacapo_engine::git::init(&workspace, "The check of a greeter");
    let is_readable = lasting.is_some();
    let home = lasting.unwrap_or_else(|| Home::at(scratch.path().join("state")));
    let agent = scratch.path().join("agent.sh");
    if !args.style.json && !args.style.quiet {
        say("A scripted agent is asked for a program that greets; `sh check.sh` is the gate.");
        say("In its second iteration it will promise more than it did.\n");
    }
    let finished = play(&home, &workspace, &agent, &args.style)?;
    if !args.style.json && !args.style.quiet {
        let client = Client::of_journal(&home)?;
        if let (Some(receipt), Some(seen)) = (client.receipt(&finished.id)?, client.loop_of_id(&finished.id)?)
        {
            say("");
            receipt::print(&receipt, &ReceiptAuthor::of(&client, &seen.view)?);
        }
        say("\nNow with your own agent, in your own repository:");
        say("  dacapo run \"what to do\" --agent-cmd \"your-agent\" --gate \"your test command\"");
        say("Many tasks that depend on each other, in parallel: `dacapo unit --help`");
        if is_readable {
            say(
                "Look back at this loop, from here: `dacapo why`, `dacapo receipt`, `dacapo verify`, `dacapo diff`, `dacapo logs`",
            );
        }
    }
    if args.keep {
        let kept = scratch.keep();
        say(format!("\nKept: {}\n  DACAPO_HOME={} dacapo events", kept.display(), home.path().display()));
    } else if is_readable {
        scratch.keep();
    }
    Ok(last_line(&finished, args.style.is_human()))
}

/// Where the record of the loop stays: the user's own state, unless that cannot be written, an agent is the caller, or
/// everything is to lie in one folder.
fn lasting_home(args: &DemoArgs) -> Option<Home> {
    let home = Home::locate().ok().filter(|_| !args.keep)?;
    let is_outside = place(&home) == Whereabouts::Outside;
    (is_outside && home.prepare().is_ok()).then_some(home)
}

/// Removes the repositories of demos that ended on another day.
fn remove_earlier(folder: &Path) {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let made = entry.metadata().and_then(|found| found.modified()).ok();
        if made.and_then(|made| made.elapsed().ok()).is_some_and(|age| age > DAY) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
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
        // A command without an id means the newest loop of the folder that it is called in.
        project: Context::here().unwrap_or_else(|| Context::project_of(&workspace)),
        task: Some("write-a-greeter".parse().map_err(UserError::usage)?),
        workspace,
        after: Vec::new(),
        parent: None,
        is_detached: false,
    };
    let mut observer = reporter(style);
    Ok(supervisor::run(home, new.check()?, observer.as_mut())?)
}
