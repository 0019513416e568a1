//! `dacapo init`.

use clap::Args;
use dacapo_core::config::Typed;
use dacapo_engine::{config_files::REPOSITORY_FILE, starter};
use serde_json::json;

use super::{agents::Found, configured::Configured, say, say_json};
use crate::{context::Context, error::UserError};

/// Write a first configuration for this repository, and say what was found
///
/// Makes .dacapo/config.yaml at the top of the repository, with its tests as a gate where they can be guessed. A file
/// that is there is never changed.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo init && dacapo run \"make the tests pass\"")]
pub(super) struct InitArgs {
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn init(cx: &Context, args: &InitArgs) -> Result<u8, UserError> {
    let workspace = Context::folder(None)?;
    let begun = starter::begin(&workspace)?;
    // Also read back what is there, so that a mistake in it is told now and not at the first run.
    let effective = Configured::load(&workspace)?.effective(&Typed::default());
    let agents: Vec<Found> =
        Found::all(cx, &effective).into_iter().filter(|agent| agent.path.is_some()).collect();
    let gates: Vec<&str> = effective.gates.iter().map(|gate| gate.spec.run.as_str()).collect();
    if args.json {
        let tests: Vec<_> =
            begun.tests.iter().map(|test| json!({ "run": test.run, "from": test.from })).collect();
        let (written, kept) = if begun.is_new {
            ([REPOSITORY_FILE].as_slice(), [].as_slice())
        } else {
            ([].as_slice(), [REPOSITORY_FILE].as_slice())
        };
        return say_json(&json!({
            "root": begun.root,
            "written": written,
            "kept": kept,
            "agents": agents,
            "tests": tests,
            "gates": gates,
        }));
    }
    let file = begun.root.join(REPOSITORY_FILE);
    if begun.is_new {
        say(format!("Wrote {}", file.display()));
    } else {
        say(format!("{} is there already; it was left as it is", file.display()));
    }
    if agents.is_empty() {
        let all = Found::all(cx, &effective);
        let install = all.iter().find_map(|agent| agent.install.as_deref()).unwrap_or_default();
        say(format!("agents   none is installed; for example `{install}`"));
    }
    for agent in &agents {
        say(format!("agent    {}", agent.words()));
    }
    match (begun.is_new, gates.as_slice()) {
        (true, []) => say(
            "gates    none: how the tests are run could not be guessed; add one there, or type `--gate CMD`",
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
    let consent =
        if gates.is_empty() { "" } else { "; it asks before it runs the gates, `dacapo trust` agrees now" };
    say(format!("next     `dacapo run \"what to do\"`{consent}"));
    Ok(0)
}
