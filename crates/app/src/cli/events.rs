//! `dacapo events`.

use clap::Args;
use dacapo_engine::{
    client::Client,
    store::{Fact, Scope},
};

use super::say;
use crate::{
    context::Context,
    error::UserError,
    report::{event_line, run_event_line, with_run},
};

/// Print the journal
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo events fix-tests -f --json | jq .type")]
pub(super) struct EventsArgs {
    /// One loop, unit or run of units (default: all)
    id: Option<String>,
    /// Go on printing as events happen; with ID, until it is over
    #[arg(short, long)]
    follow: bool,
    /// As JSON lines
    #[arg(long)]
    json: bool,
    /// Begin with this sequence number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    from: u64,
}

pub(super) fn events(cx: &Context, args: &EventsArgs) -> Result<u8, UserError> {
    let client = cx.client()?;
    let scope = match &args.id {
        Some(text) => scope(cx, &client, &cx.name(&client, Some(text))?)?,
        None => Scope::All,
    };
    let show = |fact: Fact| match (&fact, &scope) {
        // Lines of a run have its id, those of its loops too.
        (Fact::Loop(envelope), Scope::Run(run)) if args.json => {
            say(with_run(envelope, run.as_str()));
            Ok(())
        }
        _ => print(&fact, args.json),
    };
    if args.follow {
        client.follow(&scope, args.from, show)?;
    } else {
        client.read(&scope, args.from, show)?;
    }
    Ok(0)
}

fn scope(cx: &Context, client: &Client, text: &str) -> Result<Scope, UserError> {
    if let Some(run) = cx.find_workflow(client, text)? {
        return Ok(Scope::Run(run.view.id));
    }
    if let Some(run) = cx.find_run(client, text)? {
        return Ok(Scope::Run(run.view.id));
    }
    if let Some(unit) = cx.find_unit(client, text)? {
        return Ok(Scope::Unit(unit.run, unit.unit));
    }
    Ok(Scope::Loop(cx.find(client, text)?.view.id))
}

fn print(fact: &Fact, json: bool) -> Result<(), UserError> {
    say(match fact {
        Fact::Loop(envelope) if json => serde_json::to_string(envelope).map_err(UserError::failed)?,
        Fact::Run(envelope) if json => serde_json::to_string(envelope).map_err(UserError::failed)?,
        Fact::Workflow(envelope) => {
            let line = serde_json::to_value(envelope).map_err(UserError::failed)?;
            if json {
                line.to_string()
            } else {
                let at = envelope.at.strftime("%Y-%m-%d %H:%M:%S");
                let text = |key: &str| line[key].as_str().map(|text| format!(" {text}")).unwrap_or_default();
                let kind = line["type"].as_str().unwrap_or_default();
                let about = text("error") + &text("detail") + &text("why") + &text("message");
                format!("{:>6}  {at}  {}  {kind}{}{about}", envelope.seq, envelope.run, text("step"))
            }
        }
        Fact::Loop(envelope) => event_line(envelope),
        Fact::Run(envelope) => run_event_line(envelope),
    });
    Ok(())
}
