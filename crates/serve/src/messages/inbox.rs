//! Does what messages ask for: starts runs, answers questions, and says what there is to say.

use std::{ffi::OsString, sync::Arc, thread, time::Duration};

use dacapo_core::{
    chat::{
        ChatAct, ChatFacts, ChatQuestion, ChatRun, Conversation, KnownWorkflow, Service, decide, pieces_for,
        which,
    },
    config::Typed,
    event::Reason,
    text::ansi::readable,
    view::workflow_line,
    workflow::ParseSettings,
};
use dacapo_engine::{
    client::{Client, ClientError},
    config_files::ConfigFiles,
    process::background::BackgroundStart,
    store::{NewMessage, StoredMessage},
    units, workflows,
};
use jiff::Timestamp;

use super::{Desk, services};

/// How long a wait for messages goes without a look.
const LOOK_ANYWAY: Duration = Duration::from_secs(5);
/// How long a command may take before a message is answered without its end.
const PATIENCE: Duration = Duration::from_secs(150);

/// Deals with messages until the server ends. Those of one conversation wait for each other; conversations do not.
pub(super) fn handle_all(desk: &Arc<Desk>) -> Result<(), ClientError> {
    let mut client = Client::of_journal(&desk.home)?;
    let mut watch = client.watch()?;
    desk.wait_until_ready();
    while !desk.is_ending() {
        for message in client.received()? {
            if !desk.occupy(&message.conversation) {
                continue;
            }
            let desk = Arc::clone(desk);
            thread::spawn(move || {
                let conversation = message.conversation.clone();
                if let Err(error) = handle(&desk, &message) {
                    desk.note(&conversation.adapter, &format!("a message waits: {error}"));
                    desk.sleep(Duration::from_secs(1));
                }
                desk.release(&conversation);
            });
        }
        watch.wait(if desk.is_occupied() { Duration::from_millis(100) } else { LOOK_ANYWAY })?;
    }
    Ok(())
}

fn handle(desk: &Desk, message: &StoredMessage) -> Result<(), ClientError> {
    let mut client = Client::of_journal(&desk.home)?;
    let conversation = &message.conversation;
    let workflows = match known_workflows(desk) {
        Ok(workflows) => workflows,
        Err(why) => {
            let answers = [answer(conversation, &format!("The workflows cannot be read: {why}"))];
            return client.handled(message.id, &answers);
        }
    };
    let runs = runs_of(desk, &mut client, conversation)?;
    let can_route = services::routes_by_agent(&desk.folder);
    let facts = ChatFacts { workflows: &workflows, runs: &runs, can_route };
    // A run that this message has started already is not started again.
    let act = match &message.run {
        Some(run) if client.workflow_of_id(run)?.is_some() => ChatAct::Nothing,
        _ => decide(&message.text, &facts),
    };
    let said = match act {
        ChatAct::Nothing => None,
        ChatAct::Say(text) => Some(text),
        ChatAct::Start { workflow, message: text } => start(desk, &mut client, message, &workflow, &text)?,
        ChatAct::Route { text } => match route(desk, &client, &text, &workflows)? {
            Ok(workflow) => start(desk, &mut client, message, &workflow, &text)?,
            Err(words) => Some(words),
        },
        ChatAct::Answer { run, decision, text } => {
            let mut args = match decision.as_str() {
                "reject" => vec!["reject".to_owned()],
                "approve" => vec!["approve".to_owned()],
                other => vec!["approve".to_owned(), format!("--decision={other}")],
            };
            args.extend(["--".to_owned(), run.to_string()]);
            args.extend(Some(text).filter(|text| !text.is_empty()));
            Some(command(&client, args)?)
        }
        ChatAct::Steer { run, text } => {
            Some(command(&client, ["steer".to_owned(), "--".to_owned(), run.to_string(), text])?)
        }
        ChatAct::Cancel { run } => {
            Some(command(&client, ["cancel".to_owned(), "--".to_owned(), run.to_string()])?)
        }
        ChatAct::Resume { run } => {
            // The commands of a repository run if the user of the server has agreed to them, and not because a message says so.
            let trust = desk.run_flags.iter().any(|flag| flag == "--trust").then_some("--trust");
            let args = ["resume", "--detach"].into_iter().chain(trust).chain(["--", run.as_str()]);
            Some(command(&client, args.map(str::to_owned))?)
        }
    };
    let answers: Vec<NewMessage> = said.iter().flat_map(|said| split(desk, conversation, said)).collect();
    client.handled(message.id, &answers)
}

fn answer(conversation: &Conversation, text: &str) -> NewMessage {
    NewMessage {
        conversation: conversation.clone(),
        text: text.to_owned(),
        matters: true,
        is_ours: true,
        about: None,
    }
}

fn split(desk: &Desk, conversation: &Conversation, text: &str) -> Vec<NewMessage> {
    let service = desk.services.get(&conversation.adapter).copied().unwrap_or(Service::Plain);
    pieces_for(service, text, true).iter().map(|piece| answer(conversation, piece)).collect()
}

/// The workflows that there are now. Reading them starts nothing.
fn known_workflows(desk: &Desk) -> Result<Vec<KnownWorkflow>, String> {
    let top = units::top(&desk.folder);
    let configured = ConfigFiles::load(&top).map_err(|error| error.to_string())?;
    let effective = configured.effective(&Typed::default());
    let catalogue =
        workflows::discover(&top, effective.commands.value.as_deref(), ParseSettings { lenient: false });
    let catalogue = catalogue.map_err(|error| error.to_string())?;
    let known = catalogue.workflows.into_iter().map(|found| found.workflow);
    Ok(known.map(|it| KnownWorkflow { name: it.name, description: it.description }).collect())
}

/// The runs that were started from this conversation, or beside it in the same channel.
fn runs_of(desk: &Desk, client: &mut Client, here: &Conversation) -> Result<Vec<ChatRun>, ClientError> {
    let mut runs = Vec::new();
    for (id, conversation) in desk.runs_beside(here) {
        let Some(seen) = client.workflow_of_id(&id)? else { continue };
        let view = seen.view;
        let is_agent_asking = !view.is_over
            && view.steps.iter().any(|step| matches!(step.held, Some(Reason::Question | Reason::Waiting)));
        let question = view.question.as_ref();
        runs.push((
            view.started_at,
            ChatRun {
                line: workflow_line(&view, Timestamp::now()),
                workflow: view.workflow.clone(),
                is_over: view.is_over,
                is_here: conversation == *here,
                question: question.map(|question| ChatQuestion {
                    message: question.message.clone(),
                    decisions: question.decisions.clone(),
                }),
                is_agent_asking,
                id,
            },
        ));
    }
    runs.sort_by_key(|(at, _)| *at);
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}

/// Starts a workflow in the background, where it outlives this server. Gives what is to be said if it did not start.
fn start(
    desk: &Desk,
    client: &mut Client,
    message: &StoredMessage,
    workflow: &str,
    text: &str,
) -> Result<Option<String>, ClientError> {
    let run = client.run_of_message(message.id)?;
    desk.remember(&run, &message.conversation);
    let mut args: Vec<OsString> = ["workflow", "run"].map(OsString::from).into();
    args.push(workflow.into());
    args.extend(placed(desk, text));
    args.push(format!("--run-id={run}").into());
    args.push(format!("--conversation={}", message.conversation).into());
    args.extend(desk.run_flags.iter().cloned());
    let started = client.start(args)?;
    Ok(match started {
        BackgroundStart::Running(_) => None,
        // A server before this one has started it.
        BackgroundStart::Ended { .. } if client.workflow_of_id(&run)?.is_some() => None,
        BackgroundStart::Ended { complaint, .. } => {
            desk.forget(&run);
            Some(format!("**Not started**: {workflow}\n\n{}", in_words(&complaint)))
        }
    })
}

/// What every command about a message gets. No word of the message can be taken for a flag.
fn placed(desk: &Desk, text: &str) -> [OsString; 2] {
    let mut folder = OsString::from("--dir=");
    folder.push(&desk.folder);
    [folder, format!("--said={}", text.replace('\0', "")).into()]
}

/// The workflow that an agent chooses for a free message, or the question that the user is asked instead.
fn route(
    desk: &Desk,
    client: &Client,
    text: &str,
    workflows: &[KnownWorkflow],
) -> Result<Result<String, String>, ClientError> {
    let mut args: Vec<OsString> = ["workflow", "which"].map(OsString::from).into();
    args.extend(placed(desk, text));
    args.extend(desk.run_flags.iter().cloned());
    let Some(end) = client.command(args, PATIENCE)? else { return Ok(Err(which(workflows))) };
    let name = end.said.trim().to_owned();
    if end.exit_code != Some(0) {
        desk.note("routing", end.complaint.as_deref().unwrap_or("the agent said nothing"));
    }
    let is_known = workflows.iter().any(|known| known.name == name);
    Ok(if is_known { Ok(name) } else { Err(which(workflows)) })
}

/// Runs a command of dacapo for a message, and gives what it said first; the rest of it is for a terminal.
fn command(client: &Client, args: impl IntoIterator<Item = String>) -> Result<String, ClientError> {
    let Some(end) = client.command(args, PATIENCE)? else {
        return Ok("It takes longer, and goes on.".to_owned());
    };
    let said = end.said.lines().next().unwrap_or_default();
    Ok(match (end.exit_code, said) {
        (Some(0), "") => "Done.".to_owned(),
        (Some(0), said) => said.to_owned(),
        _ => {
            let words = [end.complaint, end.hint];
            let words: Vec<String> = words.into_iter().flatten().collect();
            in_words(words.join("\n").as_bytes())
        }
    })
}

fn in_words(complaint: &[u8]) -> String {
    let text = readable(complaint);
    let text = text.trim();
    if text.is_empty() { "It ended without a word.".to_owned() } else { text.to_owned() }
}
