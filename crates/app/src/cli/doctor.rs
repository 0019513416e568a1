//! `dacapo doctor`.

use clap::Args;
use dacapo_engine::{health, store::LoopRow};
use serde::Serialize;

use super::{say, say_json};
use crate::{context::Context, error::UserError};

/// Look at the health of this machine and of dacapo's state
///
/// Says how processes are contained, which agents are there, and whether the journal is sound. Exits 5 if a loop
/// could not run.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo doctor --json")]
pub(super) struct DoctorArgs {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// One finding.
#[derive(Serialize)]
struct Finding {
    name: &'static str,
    /// `ok`, `warn` or `bad`.
    level: &'static str,
    detail: String,
    hint: Option<String>,
}

pub(super) fn doctor(cx: &Context, args: &DoctorArgs) -> Result<u8, UserError> {
    let mut findings = Vec::new();
    let mut add = |name, level, detail: String, hint: Option<&str>| {
        findings.push(Finding { name, level, detail, hint: hint.map(str::to_owned) });
    };
    let containment = health::containment();
    add("containment", if containment.is_full { "ok" } else { "warn" }, containment.words, None);
    match cx.store() {
        Err(error) => add("journal", "bad", error.message, error.hint.as_deref()),
        Ok(store) => {
            match store.check() {
                Ok(damage) if damage.is_empty() => {
                    add("journal", "ok", format!("{} is sound", cx.home.database().display()), None);
                }
                Ok(damage) => {
                    add("journal", "bad", damage.join("; "), Some("move it aside; dacapo starts a new one"))
                }
                Err(error) => add("journal", "bad", error.to_string(), error.hint().as_deref()),
            }
            let dead: Vec<LoopRow> = store.active()?.into_iter().filter(|row| !row.is_running()).collect();
            if !dead.is_empty() {
                let names: Vec<String> = dead.iter().map(|row| row.view.id.to_string()).collect();
                let hint = format!("`dacapo resume {}` goes on, `dacapo clean` puts it in order", names[0]);
                add(
                    "loops",
                    "warn",
                    format!("dacapo died while these ran: {}", names.join(", ")),
                    Some(&hint),
                );
            }
        }
    }
    match health::free_space(cx.home.path()) {
        Ok(free) if free < 100 << 20 => {
            add(
                "disk",
                "bad",
                format!("{} MiB free at {}", free >> 20, cx.home.path().display()),
                Some("make room"),
            );
        }
        Ok(free) => add("disk", "ok", format!("{} GiB free", free >> 30), None),
        Err(error) => add("disk", "warn", format!("cannot tell: {error}"), None),
    }
    match health::find("git") {
        Some(path) => add("git", "ok", path.display().to_string(), None),
        None => add(
            "git",
            "warn",
            "not on PATH".to_owned(),
            Some("install git; loops outside a repository do without"),
        ),
    }
    let agents: Vec<&str> = ["claude", "codex", "gemini", "opencode"]
        .into_iter()
        .filter(|agent| health::find(agent).is_some())
        .collect();
    let words = if agents.is_empty() {
        "none of claude, codex, gemini, opencode".to_owned()
    } else {
        agents.join(", ")
    };
    add("agents", "ok", format!("{words} on PATH; `--agent-cmd` takes any program"), None);
    let is_bad = findings.iter().any(|finding| finding.level == "bad");
    if args.json {
        say_json(&findings)?;
    } else {
        for finding in &findings {
            say(format!("{:<5}{:<13}{}", finding.level, finding.name, finding.detail));
            if let Some(hint) = &finding.hint {
                say(format!("     {:<13}hint: {hint}", ""));
            }
        }
    }
    Ok(if is_bad { crate::error::ENVIRONMENT } else { 0 })
}
