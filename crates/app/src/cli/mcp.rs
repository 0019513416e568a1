//! `dacapo mcp`: the tools by which an agent talks to the supervisor of its loop, on standard input and output.

use std::{
    fmt::Write as _,
    io::{BufRead, ErrorKind, Read, Write},
    time::{Duration, Instant},
};

use clap::Args;
use dacapo_core::mcp::{self, Incoming, LONGEST_LINE, Offer, RunCall, ToolAnswer, ToolCall};
use dacapo_engine::{
    inside::{
        Inside, InsideError,
        protocol::{Ask, AskAnswer, BusName, LoopAbout, LoopRecord, StartChild, Watched, Words},
    },
    process::background::BackgroundStart,
    secrets::secrets,
    session::{PostTo, SessionError, SessionLoops, session_around},
};
use serde_json::json;

use super::detach;
use crate::{context::Context, error::UserError};

/// How long a tool waits for a child loop at most.
const LONGEST_WAIT: u64 = 600;
/// How often it looks whether the child still runs.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// For an agent: a server of tools (MCP) on standard input and output
///
/// The tools done, wait, ask and post do what `dacapo claim`, `dacapo wait`, `dacapo ask` and `dacapo bus post` do. The tool
/// blocked says that the agent cannot go on, progress tells the user how far it is, and task, limits and refusal tell the agent its
/// task, what is left of its limits, and why its last claim was refused. An agent starts this server itself; `dacapo run --mcp` hands it
/// to agents that can be told on their command line, and others take it from their configuration.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo mcp --allow-run\n\nIn the file .mcp.json of a repository:\n  {\"mcpServers\": {\"dacapo\": {\"command\": \"dacapo\", \"args\": [\"mcp\"]}}}"
)]
pub(super) struct McpArgs {
    /// Offer the tool `run`, by which the agent starts child loops and watches them
    #[arg(long)]
    allow_run: bool,
    /// In a chat session that the user sits in: the id of that session (default: what the host says in its environment)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

pub(super) fn mcp(cx: &Context, args: &McpArgs) -> Result<u8, UserError> {
    let offer = Offer { run: args.allow_run };
    let mut input = std::io::stdin().lock();
    while let Some(line) = next_line(&mut input)? {
        let answer = match line {
            Line::TooLong => mcp::too_long(),
            Line::Whole(line) => match mcp::read(&line, offer) {
                Incoming::Nothing => continue,
                Incoming::Answer(answer) => answer,
                Incoming::Call(id, call) => {
                    let answer =
                        perform(cx, args, call).unwrap_or_else(|error| ToolAnswer::refused(words(&error)));
                    let text = secrets().redact(&answer.text).into_owned();
                    id.answer(&ToolAnswer { text, ..answer })
                }
            },
        };
        let mut output = std::io::stdout().lock();
        match output
            .write_all(answer.as_bytes())
            .and_then(|()| output.write_all(b"\n"))
            .and_then(|()| output.flush())
        {
            Ok(()) => {}
            // The host has gone.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            Err(error) => return Err(UserError::environment(format!("cannot answer: {error}"))),
        }
    }
    Ok(0)
}

enum Line {
    Whole(Vec<u8>),
    /// One that was read over.
    TooLong,
}

/// The next line; nothing at the end of the input.
fn next_line(input: &mut impl BufRead) -> Result<Option<Line>, UserError> {
    let cannot =
        |error: std::io::Error| UserError::environment(format!("cannot read standard input: {error}"));
    let mut line = Vec::new();
    let most = LONGEST_LINE as u64 + 1;
    input.by_ref().take(most).read_until(b'\n', &mut line).map_err(cannot)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.len() <= LONGEST_LINE {
        return Ok(Some(Line::Whole(line)));
    }
    while line.last() != Some(&b'\n') {
        line.clear();
        if input.by_ref().take(most).read_until(b'\n', &mut line).map_err(cannot)? == 0 {
            break;
        }
    }
    Ok(Some(Line::TooLong))
}

fn perform(cx: &Context, args: &McpArgs, call: ToolCall) -> Result<ToolAnswer, UserError> {
    let Some(inside) = &cx.inside else {
        return match args.session.clone().or_else(session_around) {
            Some(session) => perform_in_session(&SessionLoops::new(&cx.home), &session, call),
            None => Ok(ToolAnswer::refused(
                "this does not run in a loop: no supervisor is there to be told, and no host names its session. `dacapo run` starts a loop.",
            )),
        };
    };
    let clean = |text: &str| secrets().redact(text).into_owned();
    let taken = |ask: Ask, words: &str| match inside.ask(&ask)? {
        AskAnswer::Taken { .. } | AskAnswer::Posted { .. } => Ok(ToolAnswer::said(words)),
        other => Err(unexpected(&other)),
    };
    match call {
        ToolCall::Done { note } => {
            let ask = Ask::Claim { note: clean(&note), only_if_settled: true };
            let AskAnswer::Taken { gates } = inside.ask(&ask)? else { return Ok(confused()) };
            Ok(claim_taken(&gates))
        }
        ToolCall::Blocked { why } => taken(
            Ask::Blocked { why: clean(&why) },
            "Taken. When you end your turn, the loop stops and a person reads it.",
        ),
        ToolCall::Wait { why } => taken(
            Ask::Wait { why: clean(&why) },
            "Taken. When you end your turn, you are not started again before the user has done something.",
        ),
        ToolCall::Ask { question } => {
            taken(Ask::Question { text: clean(&question) }, "Asked. The answer will be in a later prompt.")
        }
        ToolCall::Progress { text } => {
            taken(Ask::Post { kind: "PROGRESS".to_owned(), body: clean(&text), bus: BusName::Own }, "Noted.")
        }
        ToolCall::Post { kind, body, to_project } => {
            let bus = if to_project { BusName::Project(about(inside)?.project) } else { BusName::Own };
            taken(Ask::Post { kind, body: clean(&body), bus }, "Posted.")
        }
        ToolCall::Task => Ok(task(&about(inside)?)),
        ToolCall::Limits => Ok(limits(&about(inside)?)),
        ToolCall::Refusal => Ok(refusal(&about(inside)?)),
        ToolCall::Run(run) => match (&run.prompt, &run.id) {
            (Some(prompt), _) => start(inside, prompt, &run),
            (None, Some(id)) => {
                // Before the first look, so that no end falls between two.
                let mut news = inside.watch(Watched::Events)?;
                look(id, run.wait, || family(inside), |left| Ok(news.wait(left)?))
            }
            (None, None) => Ok(children(&family(inside)?)),
        },
    }
}

/// The same tools in a chat session that the user sits in. No supervisor runs there: what is said waits in the journal and in the
/// task's folder until the agent ends its turn and the host calls the hook.
fn perform_in_session(
    sessions: &SessionLoops<'_>,
    session: &str,
    call: ToolCall,
) -> Result<ToolAnswer, UserError> {
    let post = |kind: &str, body: &str, to: PostTo, words: &str| -> Result<ToolAnswer, UserError> {
        sessions.post(session, kind, body, to)?;
        Ok(ToolAnswer::said(words))
    };
    match call {
        ToolCall::Done { note } => Ok(claim_taken(&sessions.claim(session, &note)?)),
        ToolCall::Blocked { why } => {
            sessions.blocked(session, &why)?;
            Ok(ToolAnswer::said("Taken. When you end your turn, the loop stops and a person reads it."))
        }
        ToolCall::Wait { why } => post(
            "wait_without_restart",
            &why,
            PostTo::Task,
            "Taken. When you end your turn, you are not sent back before the user has done something.",
        ),
        ToolCall::Ask { question } => {
            post("QUESTION", &question, PostTo::Task, "Asked. The answer will be in a later prompt.")
        }
        ToolCall::Progress { text } => post("PROGRESS", &text, PostTo::Task, "Noted."),
        ToolCall::Post { kind, body, to_project } => {
            let to = if to_project { PostTo::Project } else { PostTo::Task };
            post(&kind, &body, to, "Posted.")
        }
        ToolCall::Task => Ok(task(&sessions.about(session)?)),
        ToolCall::Limits => Ok(limits(&sessions.about(session)?)),
        ToolCall::Refusal => Ok(refusal(&sessions.about(session)?)),
        ToolCall::Run(run) => match (&run.prompt, &run.id) {
            (Some(prompt), _) => Ok(started(sessions.start_child(session, &run_arguments(&run), prompt)?)),
            (None, Some(id)) => {
                let news = sessions.watch()?;
                // The journal says nothing of a child whose supervisor was killed.
                let wait = |left: Duration| {
                    news.wait(left.min(LOOK_AGAIN)).map_err(|error| SessionError::Watch(error).into())
                };
                look(id, run.wait, || Ok(sessions.children(session)?), wait)
            }
            (None, None) => Ok(children(&sessions.children(session)?)),
        },
    }
}

fn claim_taken(gates: &[String]) -> ToolAnswer {
    let then = match gates {
        [] => "It is looked at when you end your turn.".to_owned(),
        gates => format!("When you end your turn, these gates decide: {}.", gates.join(", ")),
    };
    ToolAnswer::said(format!("The claim is taken. {then} End your turn now.")).with(&json!({"gates": gates}))
}

fn refusal(about: &LoopAbout) -> ToolAnswer {
    let said = about.refusal.as_deref().unwrap_or("No claim was refused, or this loop does not tell.");
    ToolAnswer::said(said).with(&json!({"refusal": about.refusal}))
}

fn about(inside: &Inside) -> Result<LoopAbout, UserError> {
    match inside.ask(&Ask::About)? {
        AskAnswer::About(about) => Ok(*about),
        other => Err(unexpected(&other)),
    }
}

fn task(about: &LoopAbout) -> ToolAnswer {
    let mut text = format!("{}\n\nThe folder: {}\n", about.prompt.trim_end(), about.workspace.display());
    if about.gates.is_empty() {
        text.push_str("No gate checks a claim.\n");
    } else {
        text.push_str("A claim must pass these gates:\n");
        for (name, command) in &about.gates {
            let _ = if name == command {
                writeln!(text, "- {command}")
            } else {
                writeln!(text, "- {name}: {command}")
            };
        }
    }
    if !about.protected.is_empty() {
        let _ = writeln!(text, "These paths must not change: {}", about.protected.join(", "));
    }
    ToolAnswer::said(text).with(&json!({
        "loop": about.id, "project": about.project, "task": about.task, "workspace": about.workspace,
        "prompt": about.prompt, "promise": about.promise, "protected": about.protected,
        "gates": about.gates.iter().map(|(name, run)| json!({"name": name, "run": run})).collect::<Vec<_>>(),
    }))
}

fn limits(about: &LoopAbout) -> ToolAnswer {
    let mut text = format!("Iteration {} of at most {}.\n", about.iteration, about.max_iterations);
    let mut line = |what: &str, used: Option<String>, most: Option<String>| {
        let (used, most) =
            (used.unwrap_or("not known".to_owned()), most.map(|most| format!(" of at most {most}")));
        let _ = writeln!(text, "{what}: {used}{}", most.unwrap_or_default());
    };
    line(
        "Time used before this iteration",
        Some(about.spent_ms.human()),
        about.max_time_ms.map(|most| most.human()),
    );
    line(
        "Money",
        about.cost_usd.map(|cost| format!("{cost:.2} USD")),
        about.max_cost_usd.map(|most| format!("{most:.2} USD")),
    );
    let tokens = about.tokens.as_ref().map(|tokens| dacapo_core::limits::tokens(tokens).to_string());
    line("Tokens", tokens, about.max_tokens.map(|most| most.to_string()));
    if let Some(timeout) = about.iteration_timeout_ms {
        let _ = writeln!(text, "An iteration may take {}.", timeout.human());
    }
    ToolAnswer::said(text).with(&json!({
        "iteration": about.iteration, "max_iterations": about.max_iterations, "spent_ms": about.spent_ms,
        "max_time_ms": about.max_time_ms, "cost_usd": about.cost_usd, "max_cost_usd": about.max_cost_usd,
        "tokens": about.tokens, "max_tokens": about.max_tokens, "iteration_timeout_ms": about.iteration_timeout_ms,
        "idle_timeout_ms": about.idle_timeout_ms,
    }))
}

// --- child loops --------------------------------------------------------------------------------------------

fn start(inside: &Inside, prompt: &str, run: &RunCall) -> Result<ToolAnswer, UserError> {
    let dir = std::env::current_dir()
        .map_err(|error| UserError::usage(format!("cannot work in this folder: {error}")))?;
    let asked = StartChild {
        args: run_arguments(run).iter().map(|word| Words::from(word.as_str())).collect(),
        dir: dir.into(),
        env: std::env::vars_os().map(|(name, value)| (name.into(), value.into())).collect(),
        input: Some(prompt.to_owned()),
        is_detached: true,
    };
    Ok(started(detach::start_child(inside, asked)?))
}

/// The arguments of `dacapo run` for a child loop whose prompt comes on standard input.
fn run_arguments(run: &RunCall) -> Vec<String> {
    let mut args = ["run", "--prompt-file", "-"].map(str::to_owned).to_vec();
    let mut flag = |name: &str, value: &str| args.extend([name.to_owned(), value.to_owned()]);
    for gate in &run.gates {
        flag("--gate", gate);
    }
    if let Some(most) = run.max_iterations {
        flag("--max-iterations", &most.to_string());
    }
    if let Some(agent) = &run.agent {
        flag("--agent", agent);
    }
    args
}

fn started(how: BackgroundStart) -> ToolAnswer {
    match how {
        BackgroundStart::Running(id) => {
            ToolAnswer::said(format!("Child loop {id} runs. `run` with `id` looks at it."))
                .with(&json!({"id": id}))
        }
        BackgroundStart::Ended { complaint, .. } => ToolAnswer::refused(format!(
            "the child loop did not begin: {}",
            String::from_utf8_lossy(&complaint).trim()
        )),
    }
}

/// The child loops of the agent's loop, and theirs.
fn family(inside: &Inside) -> Result<Vec<LoopRecord>, UserError> {
    match inside.ask(&Ask::Family)? {
        AskAnswer::Loops { own, loops } => Ok(loops.into_iter().filter(|seen| seen.view.id != own).collect()),
        other => Err(unexpected(&other)),
    }
}

/// The child loop called `id`, when it has ended or the time is over.
fn look(
    id: &str,
    wait: Option<u64>,
    family: impl Fn() -> Result<Vec<LoopRecord>, UserError>,
    mut await_news: impl FnMut(Duration) -> Result<(), UserError>,
) -> Result<ToolAnswer, UserError> {
    let until = Instant::now() + Duration::from_secs(wait.unwrap_or(0).min(LONGEST_WAIT));
    loop {
        let found =
            family()?.into_iter().find(|seen| seen.view.id.as_str() == id || seen.view.task.as_str() == id);
        let Some(found) = found else {
            return Ok(ToolAnswer::refused(format!(
                "you have no child loop `{id}`; `run` without arguments lists them"
            )));
        };
        let left = until.saturating_duration_since(Instant::now());
        if !found.is_running || left.is_zero() {
            return Ok(children(std::slice::from_ref(&found)));
        }
        await_news(left)?;
    }
}

fn children(loops: &[LoopRecord]) -> ToolAnswer {
    let lines: Vec<String> = loops
        .iter()
        .map(|LoopRecord { view, .. }| {
            let detail = view.detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
            format!(
                "{} ({}): {}, iteration {}/{}{detail}",
                view.id, view.task, view.state, view.iteration, view.max_iterations
            )
        })
        .collect();
    let text = if lines.is_empty() { "You have no child loops.".to_owned() } else { lines.join("\n") };
    let fields: Vec<_> = loops
        .iter()
        .map(|LoopRecord { view, is_running }| {
            json!({
                "id": view.id, "task": view.task, "state": view.state, "running": is_running, "iteration": view.iteration,
                "max_iterations": view.max_iterations, "detail": view.detail, "exit_code": view.exit_code,
            })
        })
        .collect();
    ToolAnswer::said(text).with(&json!({"loops": fields}))
}

fn unexpected(answer: &AskAnswer) -> UserError {
    InsideError::NoAnswer(format!("it answered something else: {answer:?}")).into()
}

fn confused() -> ToolAnswer {
    ToolAnswer::refused("the supervisor answered something else")
}

/// What went wrong, and the way out of it.
fn words(error: &UserError) -> String {
    match &error.hint {
        Some(hint) => format!("{}\nhint: {hint}", error.message),
        None => error.message.clone(),
    }
}
