//! `dacapo hook install`.

use std::path::{Path, PathBuf};

use clap::Args;
use dacapo_core::{
    hook_files::{
        self, HooksToInstall, Installed, Ownership, SettingsError, before_they_run, hook_timeout,
        how_to_begin, own_files, ownership,
    },
    session::Host,
};
use dacapo_engine::hook_files::{Edit, HookFileChange, look, write};
use serde_json::json;

use super::places::{ScopeFlags, gate_timeouts, host_folder, program, settings_path};
use crate::{
    cli::{say, say_json},
    context::Context,
    error::UserError,
};

/// Install the hooks with which loops run in the sessions of an agent
///
/// Adds dacapo's hooks to the settings of the agent and, where the agent knows such a thing, the commands /ralph and /cancel-ralph.
/// Everything else in the settings stays as it is, byte for byte, and `dacapo hook uninstall` brings the files back as they were.
/// Doing it again brings the hooks up to date.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  dacapo hook install claude\n  dacapo hook install codex --project\n  dacapo hook install claude --verify --project\n  dacapo hook install claude --plugin ./ralph-plugin"
)]
pub(super) struct InstallArgs {
    /// The agent: claude, codex, gemini, qwen, copilot or opencode
    agent: Host,
    #[command(flatten)]
    scope: ScopeFlags,
    /// Begin no loops: only judge, by the gates of the repository, what an agent leaves when it stops
    #[arg(long)]
    verify: bool,
    /// Write a plugin for Claude Code into this folder and change no settings
    #[arg(long, value_name = "DIR", conflicts_with_all = ["user", "project", "verify"])]
    plugin: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn install(cx: &Context, args: &InstallArgs) -> Result<u8, UserError> {
    let (host, scope) = (args.agent, args.scope.scope());
    let timeout = hook_timeout(gate_timeouts(), scope);
    let wanted = HooksToInstall { program: program(scope)?, verify: args.verify, timeout };
    cx.home.prepare()?;
    if let Some(folder) = &args.plugin {
        return install_plugin(cx, args, folder, &wanted);
    }
    if host == Host::Opencode && args.verify {
        return Err(UserError::usage(
            "OpenCode has no hook that can keep an agent from stopping, so nothing can be judged there",
        )
        .hint("`dacapo hook install opencode` installs the plugin with which loops run"));
    }
    let mut edits = Vec::new();
    let mut now = Installed::default();
    if let Some(path) = settings_path(host, scope)? {
        let found = look(&path)?;
        let text = hook_files::install(host, scope, found.text.as_deref(), &wanted)
            .map_err(|error| unusable(&path, &error))?;
        now = hook_files::installed(host, scope, &text).map_err(|error| unusable(&path, &error))?;
        edits.push(Edit { found, text: Some(text) });
    }
    let folder = host_folder(host, scope)?;
    for file in own_files(host, &wanted) {
        edits.push(own_edit(&folder.join(file.path), file.text)?);
    }
    let changes = write(&cx.home, &edits)?;
    let mut notes = Vec::new();
    notes.extend(cap_note(host, &now));
    if now.is_disabled {
        notes.push("hooks are switched off in these settings, so none runs".to_owned());
    }
    notes.extend(before_they_run(host, scope).map(str::to_owned));
    if !args.verify {
        notes.push(format!("then {}; `/cancel-ralph` ends the loop", how_to_begin(host)));
    }
    let heading = format!("hooks for {host} ({}), run `{}`", scope.name(), wanted.program);
    report(args.json, host, scope.name(), &heading, &changes, &notes)
}

/// Says what became of each file, and what the user has to know.
pub(super) fn report(
    as_json: bool,
    host: Host,
    scope: &str,
    heading: &str,
    changes: &[(PathBuf, HookFileChange)],
    notes: &[String],
) -> Result<u8, UserError> {
    if as_json {
        let files: Vec<_> = changes
            .iter()
            .map(|(path, change)| json!({"path": path.to_string_lossy(), "change": change.word()}))
            .collect();
        return say_json(&json!({"agent": host.name(), "scope": scope, "files": files, "notes": notes}));
    }
    say(heading);
    for (path, change) in changes {
        say(format!("  {:<10}{}", change.word(), path.display()));
    }
    for note in notes {
        say(format!("note: {note}"));
    }
    Ok(0)
}

/// What to say about a limit of the host that is still in the way.
pub(super) fn cap_note(host: Host, now: &Installed) -> Option<String> {
    let cap = now.cap.filter(|_| now.hooks.iter().any(|hook| !hook.verify || host == Host::Claude))?;
    Some(match host {
        Host::Qwen => format!(
            "Qwen lets its agent go after {cap} refusals in a row (`stopHookBlockingCap`, at most 100): a longer loop ends there"
        ),
        _ => format!(
            "Claude Code lets its agent go after {cap} refusals in a row without a tool call: set CLAUDE_CODE_STOP_HOOK_BLOCK_CAP to 0 in `env` of the settings"
        ),
    })
}

/// The change of a file that dacapo writes whole. One that the user wrote is never overwritten.
fn own_edit(path: &Path, text: String) -> Result<Edit, UserError> {
    let found = look(path)?;
    match found.text.as_deref().map(ownership) {
        None | Some(Ownership::Own) => Ok(Edit { found, text: Some(text) }),
        Some(owner) => {
            let what = match owner {
                Ownership::Changed => "was changed since dacapo wrote it",
                _ => "was not written by dacapo",
            };
            Err(UserError::environment(format!("`{}` {what}; nothing was installed", path.display()))
                .hint("give that file another name, or remove it, then install again"))
        }
    }
}

/// Settings that dacapo cannot add to or take from.
pub(super) fn unusable(path: &Path, error: &SettingsError) -> UserError {
    let hint = match error {
        SettingsError::Syntax { .. } | SettingsError::Shape { .. } => "repair the file; nothing was changed",
        SettingsError::Inline => "write them as tables, one `[[hooks.EVENT]]` each; nothing was changed",
        SettingsError::Unsound => "nothing was changed; please report this with the file",
    };
    UserError::environment(format!("cannot use `{}`: {error}", path.display())).hint(hint)
}

fn install_plugin(
    cx: &Context,
    args: &InstallArgs,
    folder: &Path,
    wanted: &HooksToInstall,
) -> Result<u8, UserError> {
    if args.agent != Host::Claude {
        return Err(UserError::usage(format!(
            "`--plugin` writes a plugin for claude, not for {}",
            args.agent
        )));
    }
    let folder = std::path::absolute(folder).map_err(UserError::usage)?;
    let mut edits = Vec::new();
    for file in hook_files::claude_plugin(wanted, env!("CARGO_PKG_VERSION")) {
        let path = folder.join(file.path);
        edits.push(match file.path.ends_with(".json") {
            true => Edit { found: look(&path)?, text: Some(file.text) },
            false => own_edit(&path, file.text)?,
        });
    }
    let changes = write(&cx.home, &edits)?;
    let shell = dacapo_core::text::shell::word(&folder.to_string_lossy());
    let notes = [
        format!("`claude --plugin-dir {shell}` loads it; then type `/ralph \"task\"` or `/ralph:ralph \"task\"` in a session"),
        "a plugin cannot lift the limit of 8 refusals in a row without a tool call: set CLAUDE_CODE_STOP_HOOK_BLOCK_CAP to 0 in `env` of the settings"
            .to_owned(),
    ];
    report(
        args.json,
        args.agent,
        "plugin",
        &format!("a plugin for claude, runs `{}`", wanted.program),
        &changes,
        &notes,
    )
}
