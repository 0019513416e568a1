//! `dacapo events`.

use std::time::Duration;

use clap::Args;
use dacapo_core::ids::{LoopId, ProjectId, RunId, UnitId};
use dacapo_engine::{
    store::{Fact, Scope, Store},
    watch::Watch,
};

use super::say;
use crate::{
    context::Context,
    error::UserError,
    report::{event_line, run_event_line},
};

/// Print the journal
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo events fix-tests -f --json | jq .type")]
pub(super) struct EventsArgs {
    /// One loop (its id, the beginning of it, or its task), unit or run of units (default: all)
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

/// Whose events.
enum Whose {
    All,
    Loop(LoopId),
    Run(RunId),
    Unit(RunId, ProjectId, UnitId),
}

pub(super) fn events(cx: &Context, args: &EventsArgs) -> Result<u8, UserError> {
    if cx.inside.is_some() {
        return of_family(cx, args);
    }
    let store = cx.store()?;
    let whose = match &args.id {
        Some(text) => Whose::find(cx, text)?,
        None => Whose::All,
    };
    let cannot = |error: std::io::Error| {
        UserError::environment(format!("cannot watch `{}`: {error}", cx.home.path().display()))
    };
    let watch = if args.follow { Some(Watch::folders(&[cx.home.path()]).map_err(cannot)?) } else { None };
    let mut from = args.from;
    loop {
        // Asked before the look: an end that comes between the two is printed in the next turn.
        let is_over = whose.is_over(&store)?;
        store.each_fact(&whose.scope(), from, |fact| {
            from = from.max(fact.seq() + 1);
            print(&fact, args.json)
        })?;
        match &watch {
            Some(watch) if !is_over => watch.wait(Duration::from_secs(1)).map_err(cannot)?,
            _ => return Ok(0),
        }
    }
}

/// How often `dacapo` below an agent asks for what is new.
const AGAIN: Duration = Duration::from_millis(100);

/// Below an agent: the events of its loop and of the loops below that, by the supervisor.
fn of_family(cx: &Context, args: &EventsArgs) -> Result<u8, UserError> {
    let client = cx.client()?;
    let one = args.id.as_ref().map(|text| cx.find(&client, text)).transpose()?.map(|seen| seen.view.id);
    let mut from = args.from;
    loop {
        let loops = match &one {
            Some(id) => client.loop_of_id(id)?.into_iter().collect(),
            None => client.family()?,
        };
        let is_over = loops.iter().all(|seen| !seen.is_running);
        let mut facts = Vec::new();
        for seen in &loops {
            facts.extend(client.events_of_loop(&seen.view.id, from)?.into_iter().map(Fact::Loop));
        }
        facts.sort_by_key(Fact::seq);
        for fact in &facts {
            print(fact, args.json)?;
            from = from.max(fact.seq() + 1);
        }
        if !args.follow || is_over {
            return Ok(0);
        }
        std::thread::sleep(AGAIN);
    }
}

impl Whose {
    fn find(cx: &Context, text: &str) -> Result<Self, UserError> {
        let client = &cx.client()?;
        if let Some(run) = cx.find_run(client, text)? {
            return Ok(Self::Run(run.view.id));
        }
        if let Some(unit) = cx.find_unit(client, text)? {
            return Ok(Self::Unit(unit.run, unit.project, unit.unit));
        }
        Ok(Self::Loop(cx.find(client, text)?.view.id))
    }

    fn is_over(&self, store: &Store) -> Result<bool, UserError> {
        Ok(match self {
            Self::All => false,
            Self::Loop(id) => store.row(id)?.is_none_or(|row| !row.is_running()),
            Self::Run(run) => store.run_row(run)?.is_none_or(|row| !row.is_running()),
            Self::Unit(run, project, unit) => {
                let newest = store.unit_view(Some(project), unit.as_str())?.pop();
                newest.is_none_or(|view| view.run != *run || view.status.is_over())
            }
        })
    }

    fn scope(&self) -> Scope {
        match self {
            Self::All => Scope::All,
            Self::Loop(id) => Scope::Loop(id.clone()),
            Self::Run(run) => Scope::Run(run.clone()),
            Self::Unit(run, _, unit) => Scope::Unit(run.clone(), unit.clone()),
        }
    }
}

fn print(fact: &Fact, json: bool) -> Result<(), UserError> {
    say(match fact {
        Fact::Loop(envelope) if json => serde_json::to_string(envelope).map_err(UserError::failed)?,
        Fact::Run(envelope) if json => serde_json::to_string(envelope).map_err(UserError::failed)?,
        Fact::Loop(envelope) => event_line(envelope),
        Fact::Run(envelope) => run_event_line(envelope),
    });
    Ok(())
}
