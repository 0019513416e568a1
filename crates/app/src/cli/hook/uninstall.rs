//! `dacapo hook uninstall`.

use std::path::{Path, PathBuf};

use clap::Args;
use dacapo_core::{
    hook_files::{self, CLAUDE_PLUGIN_PATHS, HookScope, Ownership, Which, own_paths, ownership},
    session::Host,
};
use dacapo_engine::hook_files::{Edit, HookFileChange, look, write};

use super::{
    install::{report, unusable},
    places::{ScopeFlags, host_folder, settings_path},
};
use crate::{context::Context, error::UserError};

/// Take dacapo's hooks out of the settings of an agent again
///
/// Only what `dacapo hook install` wrote goes. Files that were not changed since become what they were before, byte for byte, and
/// files and folders that dacapo made are removed.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  dacapo hook uninstall claude\n  dacapo hook uninstall claude --verify --project"
)]
pub(super) struct UninstallArgs {
    /// The agent: claude, codex, gemini, qwen, copilot or opencode
    agent: Host,
    #[command(flatten)]
    scope: ScopeFlags,
    /// Take out only what `hook install --verify` put in
    #[arg(long)]
    verify: bool,
    /// Remove the plugin for Claude Code from this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["user", "project", "verify"])]
    plugin: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn uninstall(cx: &Context, args: &UninstallArgs) -> Result<u8, UserError> {
    let (host, scope) = (args.agent, args.scope.scope());
    if let Some(folder) = &args.plugin {
        return uninstall_plugin(cx, args, folder);
    }
    let which = if args.verify { Which::Verify } else { Which::All };
    let mut edits = Vec::new();
    let mut notes = Vec::new();
    if let Some(path) = settings_path(host, scope)? {
        let found = look(&path)?;
        if let Some(text) = &found.text {
            let text =
                hook_files::uninstall(host, scope, text, which).map_err(|error| unusable(&path, &error))?;
            edits.push(Edit { found, text });
        }
    }
    if which == Which::All {
        let folder = host_folder(host, scope)?;
        own_removals(&folder, own_paths(host), &mut edits, &mut notes)?;
    }
    finish(cx, args, scope.name(), &edits, notes)
}

fn finish(
    cx: &Context,
    args: &UninstallArgs,
    scope: &str,
    edits: &[Edit],
    mut notes: Vec<String>,
) -> Result<u8, UserError> {
    let mut changes = write(&cx.home, edits)?;
    changes.retain(|(_, change)| *change != HookFileChange::Unchanged);
    if changes.is_empty() {
        notes.insert(0, format!("no hooks of dacapo's were there for {} ({scope})", args.agent));
    }
    let heading = format!("hooks for {} ({scope}) are taken out", args.agent);
    report(args.json, args.agent, scope, &heading, &changes, &notes)
}

/// Removes files that dacapo wrote and that are still as it wrote them.
fn own_removals(
    folder: &Path,
    paths: &[&str],
    edits: &mut Vec<Edit>,
    notes: &mut Vec<String>,
) -> Result<(), UserError> {
    for path in paths {
        let path = folder.join(path);
        let found = look(&path)?;
        match found.text.as_deref().map(ownership) {
            Some(Ownership::Own) => edits.push(Edit { found, text: None }),
            Some(Ownership::Changed) => {
                notes.push(format!("`{}` was changed since dacapo wrote it, so it stays", path.display()));
            }
            None | Some(Ownership::Foreign) => {}
        }
    }
    Ok(())
}

fn uninstall_plugin(cx: &Context, args: &UninstallArgs, folder: &Path) -> Result<u8, UserError> {
    if args.agent != Host::Claude {
        return Err(UserError::usage(format!("`--plugin` is a plugin for claude, not for {}", args.agent)));
    }
    let folder = std::path::absolute(folder).map_err(UserError::usage)?;
    let (mut edits, mut notes) = (Vec::new(), Vec::new());
    let hooks = look(&folder.join("hooks/hooks.json"))?;
    if let Some(text) = &hooks.text {
        let text = hook_files::uninstall(Host::Claude, HookScope::Project, text, Which::All)
            .map_err(|error| unusable(&hooks.path, &error))?;
        // Only the manifest of a plugin with nothing but our hooks is ours.
        if text.is_none() {
            let found = look(&folder.join(".claude-plugin/plugin.json"))?;
            edits.push(Edit { found, text: None });
        }
        edits.push(Edit { found: hooks, text });
    }
    own_removals(&folder, &CLAUDE_PLUGIN_PATHS[2..], &mut edits, &mut notes)?;
    finish(cx, args, "plugin", &edits, notes)
}
