//! `dacapo doctor`.

use std::{io, ops::RangeInclusive, time::Duration};

use clap::Args;
use dacapo_core::{
    agent::{
        self, Format,
        catalog::Transport,
        outcome::{Judged, ProcessEnd},
        transcript::{OutputEvent, Transcript},
    },
    config::Typed,
    event::Outcome,
    sandbox::SandboxMode,
    text::ansi::readable,
};
use dacapo_engine::{
    agents::{self, PROBE_TIMEOUT, ProbeError},
    config_files::ConfigFiles,
    guard, health, notify,
    process::{Answered, Programs},
    store::LoopRow,
};
use serde::Serialize;

use super::{
    agents::{AgentFinding, AgentFlags, missing},
    asking::while_asking,
    flags::sandbox_rules,
    say, say_json, value,
};
use crate::{
    context::Context,
    error::{ENVIRONMENT, FAILED, NEEDS_PERSON, UserError},
};

/// Look at the health of this machine and of dacapo's state
///
/// Says how processes are contained, which agents and which hooks of dacapo's are there, and whether the journal is sound. Exits 5 if a loop
/// could not run.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  dacapo doctor --json\n  dacapo doctor --probe claude")]
pub(super) struct DoctorArgs {
    /// Send AGENT one tiny prompt, in an empty folder, and say what came of it; this costs a few tokens
    #[arg(long, value_name = "AGENT", value_parser = value::not_blank)]
    probe: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// How often a user who waits for a probe is told that it goes on.
const EVERY: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct HealthFinding {
    name: &'static str,
    level: Level,
    detail: String,
    hint: Option<String>,
    /// What is known about the agent, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentFinding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    Warn,
    Bad,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

/// Everything that was found, in order.
#[derive(Default)]
struct Findings(Vec<HealthFinding>);

impl Findings {
    fn add(&mut self, name: &'static str, level: Level, detail: impl Into<String>, hint: Option<&str>) {
        let (detail, hint) = (detail.into(), hint.map(str::to_owned));
        self.0.push(HealthFinding { name, level, detail, hint, agent: None });
    }
}

pub(super) fn doctor(cx: &Context, args: &DoctorArgs) -> Result<u8, UserError> {
    if let Some(name) = &args.probe {
        return probe(cx, name, args.json);
    }
    let mut findings = Findings::default();
    let containment = health::containment();
    let level = if containment.is_full { Level::Ok } else { Level::Warn };
    findings.add("containment", level, containment.words, None);
    sandbox(cx, &mut findings);
    journal(cx, &mut findings)?;
    // The state folder need not be there yet, or cannot be made.
    let there = cx.home.path().ancestors().find(|folder| folder.exists()).unwrap_or(cx.home.path());
    match health::room(there).map(|room| (room.shortage(), room)) {
        Ok((Some(little), _)) => {
            let detail = format!("{little} at {}", there.display());
            findings.add("disk", Level::Bad, detail, Some("make room"));
        }
        Ok((None, room)) => {
            let free = format!("{} GiB free", room.bytes >> 30);
            match health::served_elsewhere(there) {
                Some(kind) => {
                    let path = there.display();
                    let detail = format!("{free} at {path}, on {kind}, where locks and syncs may not hold");
                    let hint = Some("set DACAPO_HOME to a folder on a local disk");
                    findings.add("disk", Level::Warn, detail, hint);
                }
                None => findings.add("disk", Level::Ok, free, None),
            }
        }
        Err(error) => findings.add("disk", Level::Warn, format!("cannot tell: {error}"), None),
    }
    match health::find("git") {
        Some(path) => findings.add("git", Level::Ok, path.display().to_string(), None),
        None => {
            let hint = Some("install git; loops outside a repository do without");
            findings.add("git", Level::Warn, "not on PATH", hint);
        }
    }
    installed_hooks(&mut findings);
    all_agents(cx, &mut findings);
    channels(cx, &mut findings);
    let is_bad = findings.0.iter().any(|finding| finding.level == Level::Bad);
    if args.json {
        say_json(&findings.0)?;
    } else {
        for finding in &findings.0 {
            say(format!("{:<5}{:<13}{}", finding.level.word(), finding.name, finding.detail));
            if let Some(hint) = &finding.hint {
                say(format!("     {:<13}hint: {hint}", ""));
            }
        }
    }
    Ok(if is_bad { ENVIRONMENT } else { 0 })
}

/// Which tier of the sandbox this system allows, by trying it, and what that leaves open.
fn sandbox(cx: &Context, findings: &mut Findings) {
    if cx.inside.is_some() {
        return;
    }
    // A configuration that cannot be read is told by another finding.
    let configured = Context::folder(None).ok().and_then(|folder| ConfigFiles::load(&folder).ok());
    let rules = configured.map(|files| sandbox_rules(&files.effective(&Typed::default()).sandbox, None));
    let rules = rules.unwrap_or_default();
    // The finding about the journal says why, and what helps.
    if cx.home.prepare().is_err() {
        return findings.add(
            "sandbox",
            Level::Warn,
            "not tried, because the state folder cannot be written",
            None,
        );
    }
    let (level, detail) = match guard::try_out(&cx.home, &rules) {
        Ok(held) => {
            let is_wanted = rules.mode == SandboxMode::Off;
            let level = if held.is_whole() || is_wanted { Level::Ok } else { Level::Warn };
            let open: String = held.open.iter().map(|open| format!("; {open}")).collect();
            (level, format!("{}{open}", held.words()))
        }
        Err(error) => (Level::Warn, format!("cannot tell: {error}")),
    };
    let hint = "docs/guide/sandbox.md says what each tier holds and how a system is made to allow more";
    findings.add("sandbox", level, detail, (level != Level::Ok).then_some(hint));
}

/// What is said of events that are not in the journal any more.
pub(super) fn gone_events(gaps: &[RangeInclusive<u64>]) -> Option<String> {
    let gaps: Vec<String> = gaps
        .iter()
        .map(|gap| match gap.start() == gap.end() {
            true => gap.start().to_string(),
            false => format!("{} to {}", gap.start(), gap.end()),
        })
        .collect();
    (!gaps.is_empty())
        .then(|| format!("another program removed events from the journal: {} are gone", gaps.join(", ")))
}

fn journal(cx: &Context, findings: &mut Findings) -> Result<(), UserError> {
    if let Some(inside) = &cx.inside {
        match cx.client()?.active() {
            Ok(_) => {
                let within = inside.loop_id().map_or("a loop".to_owned(), |id| format!("loop {id}"));
                let detail = format!("this runs inside {within}, whose supervisor answers");
                findings.add("journal", Level::Ok, detail, None);
            }
            Err(error) => {
                let error = UserError::from(error);
                findings.add("journal", Level::Bad, error.message, error.hint.as_deref());
            }
        }
        return Ok(());
    }
    let store = match cx.store() {
        Ok(store) => store,
        Err(error) => {
            findings.add("journal", Level::Bad, error.message, error.hint.as_deref());
            return Ok(());
        }
    };
    match store.check() {
        Ok(damage) if damage.is_empty() => {
            findings.add("journal", Level::Ok, format!("{} is sound", cx.home.database().display()), None);
        }
        Ok(damage) => {
            let hint = Some("move it aside; dacapo starts a new one");
            findings.add("journal", Level::Bad, damage.join("; "), hint);
        }
        Err(error) => findings.add("journal", Level::Bad, error.to_string(), error.hint().as_deref()),
    }
    if let Ok(gaps) = store.gaps()
        && let Some(lines) = gone_events(&gaps)
    {
        let hint = "dacapo removes no event: restore the journal from a backup if you need them; each loop that is left is checked by `dacapo verify`";
        findings.add("journal", Level::Warn, lines, Some(hint));
    }
    if let Some(wait) = store.longest_wait() {
        let waited = dacapo_core::duration::Millis(wait.waited_ms).human();
        let detail = format!("process {} waited {waited} for the journal in the last hour", wait.pid);
        let hint = "many loops share a slow disk; DACAPO_HOME on a faster one helps";
        findings.add("journal", Level::Warn, detail, Some(hint));
    }
    let dead: Vec<LoopRow> = store.active()?.into_iter().filter(|row| !row.is_running()).collect();
    if !dead.is_empty() {
        let names: Vec<String> = dead.iter().map(|row| row.view.id.to_string()).collect();
        let hint = format!("`dacapo resume {}` goes on, `dacapo clean` puts it in order", names[0]);
        let detail = format!("dacapo died while these ran: {}", names.join(", "));
        findings.add("loops", Level::Warn, detail, Some(&hint));
    }
    Ok(())
}

/// One finding for the hooks of each agent, or for each thing that keeps them from working.
fn installed_hooks(findings: &mut Findings) {
    for hook in super::hook::installed_hooks() {
        if hook.troubles.is_empty() {
            findings.add("hook", Level::Ok, hook.detail, None);
            continue;
        }
        for (trouble, hint) in hook.troubles {
            findings.add("hook", Level::Warn, format!("{}; {trouble}", hook.detail), Some(&hint));
        }
    }
}

/// One finding for each agent that is installed, and one for the rest.
fn all_agents(cx: &Context, findings: &mut Findings) {
    let configured = Context::folder(None).and_then(|folder| Ok(ConfigFiles::load(&folder)?));
    let effective = match configured {
        Ok(configured) => configured.effective(&Typed::default()),
        Err(error) => {
            let hint = error.details.as_deref().or(error.hint.as_deref());
            findings.add("config", Level::Bad, error.message, hint);
            return;
        }
    };
    let (installed, absent): (Vec<AgentFinding>, Vec<AgentFinding>) =
        AgentFinding::all(cx, &effective).into_iter().partition(|agent| agent.path.is_some());
    let is_none = installed.is_empty();
    for agent in installed {
        let path = agent.path.as_ref().map(|path| format!(" ({})", path.display())).unwrap_or_default();
        let detail = format!("{}{path}", agent.words());
        let (level, hint) = match agent.signed_in {
            Some(false) => (Level::Warn, agent.sign_in.clone()),
            _ => (Level::Ok, None),
        };
        findings.0.push(HealthFinding { name: "agent", level, detail, hint, agent: Some(agent) });
    }
    let names: Vec<&str> = absent.iter().map(|agent| agent.name.as_str()).collect();
    if is_none {
        let hint = absent.iter().find_map(|agent| agent.install.as_ref());
        let hint = hint.map(|install| format!("`{install}` installs one; `--agent-cmd` takes any program"));
        findings.add("agents", Level::Warn, format!("none of {} on PATH", names.join(", ")), hint.as_deref());
    } else if !names.is_empty() {
        findings.add("agents", Level::Ok, format!("not installed: {}", names.join(", ")), None);
    }
}

/// One finding for each channel of notifications that cannot work, or that did not the last time; one for the rest.
fn channels(cx: &Context, findings: &mut Findings) {
    let Ok(folder) = Context::folder(None) else { return };
    let (rules, _) = notify::rules(&folder);
    let newest = notify::newest_lines(&cx.home);
    let mut good: Vec<String> = Vec::new();
    for rule in &rules {
        let name = rule.channel.to_string();
        if let Some((why, hint)) = notify::obstacle(&rule.channel) {
            findings.add("notify", Level::Warn, format!("{name}: {why}"), Some(hint));
        } else if let Some(line) = newest.iter().find(|line| line.channel == name && !line.is_sent) {
            let at = line.at.strftime("%Y-%m-%d %H:%M UTC");
            let hint = Some("`dacapo notify test` tries it again");
            findings.add("notify", Level::Warn, format!("{name} failed at {at}: {}", line.words), hint);
        } else if !good.contains(&name) {
            good.push(name);
        }
    }
    if !good.is_empty() {
        findings.add("notify", Level::Ok, good.join(", "), None);
    }
}

/// What came of a probe.
#[derive(Serialize)]
struct ProbeReport {
    agent: String,
    outcome: Outcome,
    detail: String,
    hint: Option<String>,
    exit_code: i32,
    duration_ms: u64,
    argv: Vec<String>,
}

fn probe(cx: &Context, name: &str, json: bool) -> Result<u8, UserError> {
    let effective = ConfigFiles::load(&Context::folder(None)?)?
        .effective(&Typed { agent: Some(name.to_owned()), ..Typed::default() });
    let mut programs = Programs::default();
    let chosen = super::agents::choose(&effective, AgentFlags::default(), &mut programs)?;
    if let Some(obstacle) = chosen.obstacle {
        return Err(obstacle);
    }
    cx.home.prepare()?;
    let definition = effective.agent_definition(name).map_err(UserError::usage)?;
    let mut ask = || agents::probe(&cx.home, &chosen.command, &mut programs, effective.environment.value);
    let probed = match json {
        true => ask(),
        false => while_asking(name, PROBE_TIMEOUT, EVERY, &mut io::stderr(), ask),
    };
    let probed = probed.map_err(|error| match error {
        ProbeError::Program(error) => missing(&error, &definition, Transport::Stdio),
        ProbeError::Command(error) => UserError::usage(error),
        ProbeError::Io(_) => UserError::environment(error),
    })?;
    let (outcome, detail) = judge(chosen.command.format, &probed.answered);
    let hint = definition.remedy(outcome);
    let report = ProbeReport {
        agent: name.to_owned(),
        outcome,
        detail,
        hint,
        exit_code: probed.answered.exit_code,
        duration_ms: probed.duration.0,
        argv: probed.argv,
    };
    if json {
        say_json(&report)?;
    } else {
        let outcome = serde_json::to_value(report.outcome).map_err(UserError::failed)?;
        let outcome = outcome.as_str().unwrap_or_default();
        say(format!("{}: {outcome} after {}: {}", report.agent, probed.duration, report.detail));
        if let Some(hint) = &report.hint {
            say(format!("hint: {hint}"));
        }
    }
    Ok(match outcome {
        Outcome::Completed => 0,
        Outcome::Auth | Outcome::Billing | Outcome::Permission | Outcome::Misuse => NEEDS_PERSON,
        _ => FAILED,
    })
}

/// What an agent's answer means, and the one line to tell about it.
fn judge(format: Format, answered: &Answered) -> (Outcome, String) {
    let mut answer = None;
    let mut hear = |heard: OutputEvent<'_>| {
        if let OutputEvent::Message(text) = heard {
            answer = Some(text.to_owned());
        }
    };
    let mut transcript = Transcript::new(format);
    transcript.push(&answered.stdout, &mut hear);
    let told = transcript.finish(&mut hear);
    let stderr = readable(&answered.stderr);
    if answered.timed_out {
        let trouble = told.trouble.map(|trouble| format!("; its last trouble: {}", trouble.message));
        return (Outcome::Timeout, format!("no end within {PROBE_TIMEOUT}{}", trouble.unwrap_or_default()));
    }
    let is_clean = answered.exit_code == 0;
    let (outcome, mut detail) = if format == Format::Text {
        answer = Some(readable(&answered.stdout));
        let how = answered.failure.clone().unwrap_or_else(|| format!("exited {}", answered.exit_code));
        let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        if is_clean {
            (Outcome::Completed, String::new())
        } else {
            (Outcome::Crash, format!("{how}: {last}"))
        }
    } else {
        let code = Some(answered.exit_code).filter(|code| *code >= 0);
        let Judged { outcome, detail, .. } =
            agent::outcome::outcome(&told, &ProcessEnd { code, signal: answered.signal }, &stderr);
        (outcome, detail)
    };
    if outcome == Outcome::Completed && detail.is_empty() {
        let words = answer.unwrap_or_default();
        let line = words.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
        detail = line.to_owned();
    }
    (outcome, detail.chars().take(300).collect())
}
