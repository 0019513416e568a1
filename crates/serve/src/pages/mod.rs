//! The pages of `dacapo web`: HTML that the server renders from the model of the board. Each page is a function of values, and
//! the handlers here gather those values.
//!
//! A page reads without a script. With one it asks for itself again when an event has come, and puts in what differs.

mod act;
mod assets;
mod board;
mod controls;
mod costs;
mod diff;
mod drawing;
mod held;
mod highlight;
mod layout;
mod log;
mod loop_page;
mod plot;
mod receipt;
mod replay;
mod report;
mod run_page;
mod shapes;
mod words;

use std::path::PathBuf;

use axum::{
    extract::{Path, State as Extracted},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use dacapo_core::{
    duration::Millis,
    ids::RunId,
    view::{
        self, Board, Card, LoopPage, LoopView, RunPage, RunView, StageTaskView, TaskPage, UnitView,
        WorkflowPage, WorkflowView,
    },
};
use dacapo_engine::{
    client::{Client, ClientError},
    log::read_prompt,
    snapshots::DiffForm,
    store::{AnyEvent, Channel, EventScope},
};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use maud::{Markup, html};
use serde::Deserialize;

use self::{
    held::Held,
    layout::{BarEntry, Page},
    loop_page::{LoopFrame, LoopPageTab, Shown},
    replay::{Replay, ReplayedEvent},
    run_page::{Run, RunFrame},
};
use crate::{
    ApiError, Shared,
    api::{Given, given},
    find::{FoundView, receipt_of},
    routes::{Access, Route},
};

/// No difference that is shown is larger, in bytes.
const LARGEST_DIFF: usize = 4 << 20;

/// The routes of the pages.
pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/", Access::Read, "The board.", board)
            .query(&[("filter", "show only cards with this text")])
            .answers("text/html"),
        Route::get("/loops/{id}", Access::Read, "A loop with its iterations.", of_loop)
            .query(&[
                ("show", "`log`, `prompt`, `diff` or `replay`"),
                ("iteration", "one iteration alone"),
                ("channel", "of the log: `stdout`, `stderr` or `gates`"),
                ("at", "the event that the replay stands at"),
            ])
            .answers("text/html"),
        Route::get("/runs/{id}", Access::Read, "A run with its units, steps or stages.", of_run)
            .query(&[("at", "the event that the replay stands at")])
            .answers("text/html"),
        Route::get("/receipts/{loop}", Access::Read, "The receipt of a loop.", of_receipt)
            .query(&[("save", "`1`: as one file that needs no server")])
            .answers("text/html"),
        Route::get("/costs", Access::Read, "Costs over time.", of_costs)
            .query(&[("since", "`24h`, `7d`, `30d` or `90d`")])
            .answers("text/html"),
        Route::get("/report", Access::Read, "What happened while the user was away.", of_report)
            .query(&[("since", "`12h`, `24h`, `3d` or `7d`")])
            .answers("text/html"),
        Route::post("/loops/{id}/act", Access::Control, "Asks something of a loop or run.", act::act)
            .body("a form: `do` is `pause`, `resume`, `cancel`, `steer`, `approve` or `reject`; `text` is what to say")
            .answers("text/html"),
        Route::post("/loops/{id}/seen", Access::Read, "Remembers that a person has looked at a loop or run.", act::seen),
        Route::get("/assets/{name}", Access::Open, "The style sheet, the scripts and the icon.", assets::asset)
            .answers("text/css"),
    ]
}

/// An error as a page, for a person who follows a link.
pub fn error_page(error: &ApiError) -> Response {
    let title = match error.status {
        StatusCode::UNAUTHORIZED => "Log in",
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST => "Not allowed",
        _ => "That did not work",
    };
    let sentence = |text: &str| format!("{}.", words::capital(&words::line(text)));
    let hint = error.hint.as_deref().map(sentence);
    // Without a login the board is as closed as this page.
    let has_board = error.status != StatusCode::UNAUTHORIZED;
    let body = layout::problem(title, &sentence(&error.message), hint.as_deref(), has_board);
    (error.status, html_type(), body.into_string()).into_response()
}

fn html_type() -> [(header::HeaderName, &'static str); 1] {
    [(header::CONTENT_TYPE, "text/html; charset=utf-8")]
}

fn html_page(page: &Page<'_>) -> Response {
    (html_type(), layout::page(page).into_string()).into_response()
}

/// A part of an address, with what has a meaning there spelled out.
fn encoded(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            safe.push(char::from(byte));
        } else {
            safe.push_str(&format!("%{byte:02X}"));
        }
    }
    safe
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute() && home.parent().is_some())
}

#[derive(Deserialize)]
struct BoardAsked {
    #[serde(default)]
    filter: String,
}

async fn board(
    Extracted(state): Extracted<Shared>,
    asked: Given<BoardAsked>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let asked = given(asked)?;
    let may_act = state.settings.allow_control;
    let held = Held::of(&headers);
    let page = move |_: &mut Client, board: &Board| {
        let main = board::board(board, &asked.filter, may_act, &held);
        Ok::<_, ApiError>(html_page(&Page::new(board, BarEntry::Board, view::headline(&board.totals), main)))
    };
    state.ask_with_board(Timestamp::now(), page).await
}

#[derive(Deserialize)]
struct LoopAsked {
    #[serde(default)]
    show: LoopPageTab,
    iteration: Option<u32>,
    channel: Option<String>,
    at: Option<usize>,
    done: Option<String>,
}

async fn of_loop(
    Extracted(state): Extracted<Shared>,
    Path(id): Path<String>,
    asked: Given<LoopAsked>,
) -> Result<Response, ApiError> {
    let asked = given(asked)?;
    let now = Timestamp::now();
    let may_act = state.settings.allow_control;
    state
        .ask_with_board(now, move |client, board| {
            let view = match FoundView::of(client, &id)? {
                FoundView::Loop(view) => *view,
                run => {
                    return Ok::<_, ApiError>(
                        Redirect::to(&format!("/runs/{}", encoded(run.id()))).into_response(),
                    );
                }
            };
            let shown = Shown { tab: asked.show, iteration: asked.iteration };
            let past = match asked.show {
                LoopPageTab::Replay => Some(replay_of_loop(client, &view, asked.at)?),
                _ => None,
            };
            let (replay, view, page) = match past {
                Some((replay, view, page)) => (replay, view, page),
                None => {
                    let page = client.loop_page(&view.id)?;
                    (None, view, page)
                }
            };
            let beside = beside(client, &view, &page, shown, asked.channel.as_deref(), replay.as_ref())?;
            let card = match replay {
                Some(_) => view::card_of_loop(&view),
                None => {
                    own_card(board, view.id.as_str()).cloned().unwrap_or_else(|| view::card_of_loop(&view))
                }
            };
            let home = home();
            let frame = LoopFrame {
                view: &view,
                card: &card,
                page: &page,
                now: replay.as_ref().map_or(now, |replay| replay.at),
                may_act: may_act && replay.is_none(),
                is_past: replay.is_some(),
                home: home.as_deref(),
            };
            let title = format!("{} · {} · dacapo", words::line(view.task.as_str()), card.words());
            let main = loop_page::loop_page(&frame, shown, &beside);
            Ok(html_page(&Page {
                streams: view.id.to_string(),
                notice: notice(asked.done.as_deref()),
                ..Page::new(board, BarEntry::Inner, title, main)
            }))
        })
        .await
}

/// What became of what a button asked for.
fn notice(done: Option<&str>) -> Option<(bool, String)> {
    done.and_then(act::done_words).map(|words| (true, words.to_owned()))
}

/// The card that stands for this loop itself, not for what it works for.
fn own_card<'a>(board: &'a Board, id: &str) -> Option<&'a Card> {
    board.cards().find(|card| card.id == id)
}

/// What stands beside the timeline.
fn beside(
    client: &Client,
    view: &LoopView,
    page: &LoopPage,
    shown: Shown,
    channel: Option<&str>,
    replay: Option<&Replay>,
) -> Result<Markup, ApiError> {
    let attempts = |number| {
        page.iterations.iter().filter(move |line| line.iteration == number).flat_map(|line| &line.attempts)
    };
    Ok(match shown.tab {
        LoopPageTab::Log => {
            let (channel, name) = match channel {
                Some("stderr") => (Channel::Stderr, "stderr"),
                Some("gates") => (Channel::Gates, "gates"),
                _ => (Channel::Stdout, "stdout"),
            };
            let begin =
                shown.iteration.and_then(|number| attempts(number).next()).map_or(0, |first| match channel {
                    Channel::Stderr => first.begin.stderr,
                    Channel::Gates => first.begin.gates,
                    Channel::Stdout | Channel::Prompt => first.begin.stdout,
                });
            let lines = log::tail(client, view, channel, shown.iteration)?;
            loop_page::log(view.id.as_str(), shown, (name, begin), &lines)
        }
        LoopPageTab::Prompt => {
            let first = shown.iteration.and_then(|number| attempts(number).next());
            let text = match first {
                Some(attempt) => {
                    let end = attempt.end.map(|end| end.prompt);
                    words::prose(&read_prompt(client, view, attempt.begin.prompt, end)?)
                }
                None => words::prose(page.prompt.as_bytes()),
            };
            loop_page::prompt(&text)
        }
        LoopPageTab::Diff => {
            match client.difference(view, shown.iteration, DiffForm::Patch { is_coloured: false }) {
                Ok(patch) if patch.is_empty() => html! { p.panel.empty { "No file was changed." } },
                Ok(patch) => {
                    let is_cut = patch.len() > LARGEST_DIFF;
                    let files = diff::parse(&patch[..patch.len().min(LARGEST_DIFF)]);
                    html! {
                        @if is_cut { p.notice { "This difference is larger than a page: " code { "dacapo diff " (view.id) } " shows all of it." } }
                        (diff::render(&files))
                    }
                }
                Err(ClientError::Snapshot(error)) => {
                    html! { p.panel.empty { (words::capital(&words::line(&error.to_string()))) } }
                }
                Err(error) => return Err(error.into()),
            }
        }
        LoopPageTab::Replay => match replay {
            Some(replay) => replay::scrubber(replay, "at"),
            None => html! { p.panel.empty { "Nothing has happened yet." } },
        },
    })
}

/// The loop as it stood after its event `at`, or after its last.
fn replay_of_loop(
    client: &Client,
    view: &LoopView,
    at: Option<usize>,
) -> Result<(Option<Replay>, LoopView, LoopPage), ApiError> {
    let events = client.events_of_loop(&view.id, 0)?;
    let moments = events.iter().map(|envelope| ReplayedEvent::of(envelope.at, &envelope.event)).collect();
    let base = loop_page::link(view.id.as_str(), Shown { tab: LoopPageTab::Replay, iteration: None });
    let replay = Replay::new(moments, at.unwrap_or(usize::MAX), base);
    let until = replay.as_ref().map_or(0, |replay| replay.index + 1);
    let Some(mut past) = events.first().and_then(LoopView::begin) else {
        return Ok((None, view.clone(), LoopPage::default()));
    };
    events[..until].iter().for_each(|envelope| past.apply(envelope));
    Ok((replay, past, LoopPage::of(&events[..until])))
}

#[derive(Deserialize)]
struct RunAsked {
    at: Option<usize>,
    done: Option<String>,
}

async fn of_run(
    Extracted(state): Extracted<Shared>,
    Path(id): Path<String>,
    asked: Given<RunAsked>,
) -> Result<Response, ApiError> {
    let asked = given(asked)?;
    let now = Timestamp::now();
    let may_act = state.settings.allow_control;
    state
        .ask_with_board(now, move |client, board| {
            let found = FoundView::of(client, &id)?;
            if let FoundView::Loop(view) = &found {
                return Ok::<_, ApiError>(
                    Redirect::to(&format!("/loops/{}", encoded(view.id.as_str()))).into_response(),
                );
            }
            let (run, replay) = match asked.at {
                Some(at) => replay_of_run(client, &found, at)?,
                None => (None, None),
            };
            let run = match run {
                Some(run) => run,
                None => run_now(client, &found)?,
            };
            let card = board.cards().find(|card| card.id == run.id());
            let frame = RunFrame { card, now, may_act, replay: replay.as_ref() };
            let (title, main) = (format!("{} · dacapo", run.name()), run_page::run_page(&run, &frame));
            Ok(html_page(&Page {
                streams: run.streams(),
                notice: notice(asked.done.as_deref()),
                ..Page::new(board, BarEntry::Inner, title, main)
            }))
        })
        .await
}

fn run_now(client: &Client, found: &FoundView) -> Result<Run, ApiError> {
    let gone = || ApiError::not_found("this run is not there any more");
    Ok(match found {
        FoundView::Loop(_) => return Err(gone()),
        FoundView::Units(view) => {
            let (view, page) = client.run_page(&view.id)?.ok_or_else(gone)?;
            Run::Units(Box::new(view), page)
        }
        FoundView::Workflow(view) => {
            let (view, page) = client.workflow_page(&view.id)?.ok_or_else(gone)?;
            Run::Workflow(Box::new(view), page)
        }
        FoundView::Task(view) => {
            let (view, page) = client.task_page(&view.id)?.ok_or_else(gone)?;
            Run::Task(Box::new(view), page)
        }
    })
}

/// The run as it stood after the event `at` of it and its loops.
fn replay_of_run(
    client: &Client,
    found: &FoundView,
    at: usize,
) -> Result<(Option<Run>, Option<Replay>), ApiError> {
    let EventScope::Run(id) = found.scope() else { return Ok((None, None)) };
    let mut facts: Vec<AnyEvent> = Vec::new();
    client.read(&EventScope::Run(id.clone()), 0, |fact| {
        facts.push(fact);
        Ok::<_, ClientError>(())
    })?;
    let moment = |fact: &AnyEvent| match fact {
        AnyEvent::Loop(envelope) => ReplayedEvent::of(envelope.at, &envelope.event),
        AnyEvent::Run(envelope) => ReplayedEvent::of(envelope.at, envelope),
        AnyEvent::Workflow(envelope) => ReplayedEvent::of(envelope.at, envelope),
        AnyEvent::Task(envelope) => ReplayedEvent::of(envelope.at, envelope),
    };
    let moments: Vec<ReplayedEvent> = facts.iter().map(moment).collect();
    let Some(replay) = Replay::new(moments, at, format!("/runs/{}", encoded(id.as_str()))) else {
        return Ok((None, None));
    };
    facts.truncate(replay.index + 1);
    let loops = loops_of(&facts, &id);
    let run = match found {
        FoundView::Loop(_) => None,
        FoundView::Units(_) => units_then(&facts, &loops),
        FoundView::Workflow(_) => {
            let started = client.workflow_started(&id)?;
            let own = facts.iter().filter_map(|fact| match fact {
                AnyEvent::Workflow(envelope) => Some(envelope),
                _ => None,
            });
            folded(own, WorkflowView::begin, WorkflowView::apply).map(|view| {
                let page = WorkflowPage::of(&view, started.as_ref(), &loops);
                Run::Workflow(Box::new(view), page)
            })
        }
        FoundView::Task(_) => {
            let own = facts.iter().filter_map(|fact| match fact {
                AnyEvent::Task(envelope) => Some(envelope),
                _ => None,
            });
            folded(own, StageTaskView::begin, StageTaskView::apply).map(|view| {
                let page = TaskPage::of(&view, &loops);
                Run::Task(Box::new(view), page)
            })
        }
    };
    Ok((run, Some(replay)))
}

/// A view of events, which the first of them begins.
fn folded<'a, E: 'a, V>(
    events: impl Iterator<Item = &'a E>,
    begin: impl Fn(&E) -> Option<V>,
    apply: impl Fn(&mut V, &E),
) -> Option<V> {
    let mut view = None;
    for event in events {
        match &mut view {
            Some(view) => apply(view, event),
            None => view = begin(event),
        }
    }
    view
}

/// The loops as the facts tell of them.
fn loops_of(facts: &[AnyEvent], run: &RunId) -> Vec<LoopView> {
    let mut loops: Vec<LoopView> = Vec::new();
    for fact in facts {
        let AnyEvent::Loop(envelope) = fact else { continue };
        match loops.iter_mut().find(|view| view.id == envelope.loop_id) {
            Some(view) => view.apply(envelope),
            None => loops.extend(LoopView::begin(envelope).map(|mut view| {
                view.tally.run = Some(run.clone());
                view
            })),
        }
    }
    loops
}

/// A run of units as the facts tell of it.
fn units_then(facts: &[AnyEvent], loops: &[LoopView]) -> Option<Run> {
    let events: Vec<_> = facts
        .iter()
        .filter_map(|fact| match fact {
            AnyEvent::Run(envelope) => Some(envelope.clone()),
            _ => None,
        })
        .collect();
    let first = events.first()?;
    let mut view = RunView::begin(first)?;
    let dacapo_core::event::RunEvent::OrchStarted(started) = &first.event else { return None };
    let mut units: Vec<UnitView> =
        started.units.iter().map(|plan| UnitView::begin(&view.id, started, plan)).collect();
    for envelope in &events {
        view.apply(envelope);
        units
            .iter_mut()
            .filter(|unit| envelope.unit.as_ref().is_none_or(|named| *named == unit.unit))
            .for_each(|unit| unit.apply(envelope));
    }
    let page = RunPage::of(&view, &units, loops, &events);
    Some(Run::Units(Box::new(view), page))
}

#[derive(Deserialize)]
struct ReceiptAsked {
    save: Option<String>,
}

async fn of_receipt(
    Extracted(state): Extracted<Shared>,
    Path(id): Path<String>,
    asked: Given<ReceiptAsked>,
) -> Result<Response, ApiError> {
    let asked = given(asked)?;
    state
        .ask_with_board(Timestamp::now(), move |client, board| {
            let view = FoundView::of(client, &id)?.worked(client)?;
            let receipt = receipt_of(client, &view)?;
            if asked.save.is_some() {
                let name = format!("attachment; filename=\"receipt-{}.html\"", encoded(view.id.as_str()));
                let file = receipt::alone(&receipt, Some(&view)).into_string();
                return Ok::<_, ApiError>(
                    (html_type(), [(header::CONTENT_DISPOSITION, name)], file).into_response(),
                );
            }
            let title = format!("Receipt of {} · dacapo", words::line(&receipt.task));
            let main = receipt::in_frame(&receipt, Some(&view));
            Ok(html_page(&Page {
                streams: view.id.to_string(),
                is_text: true,
                ..Page::new(board, BarEntry::Inner, title, main)
            }))
        })
        .await
}

#[derive(Deserialize)]
struct Since {
    since: Option<String>,
}

fn hours_before(now: Timestamp, hours: i64) -> Timestamp {
    now.checked_sub(SignedDuration::from_hours(hours)).unwrap_or(Timestamp::MIN)
}

/// A page to be read about the time since the moment that was asked for.
async fn of_time(
    state: Shared,
    (now, place, title): (Timestamp, BarEntry, &'static str),
    main: impl FnOnce(&mut Client, &Board) -> Result<Markup, ClientError> + Send + 'static,
) -> Result<Response, ApiError> {
    let page = move |client: &mut Client, board: &Board| {
        let page = Page::new(board, place, title.to_owned(), main(client, board)?);
        Ok::<_, ClientError>(html_page(&Page { is_text: true, ..page }))
    };
    state.ask_with_board(now, page).await
}

async fn of_costs(Extracted(state): Extracted<Shared>, asked: Given<Since>) -> Result<Response, ApiError> {
    let asked = given(asked)?;
    let now = Timestamp::now();
    let wanted = asked.since.as_deref().unwrap_or("7d");
    let (span, _, hours, step) =
        costs::SPANS.into_iter().find(|(name, ..)| *name == wanted).unwrap_or(costs::SPANS[1]);
    of_time(state, (now, BarEntry::Costs, "Costs · dacapo"), move |client, _| {
        let first = view::first_step(&now.to_zoned(TimeZone::system()), hours, step);
        let step = Millis::from_secs(step.unsigned_abs() * 3600);
        Ok(costs::costs(&client.costs(first, now, step)?, span))
    })
    .await
}

async fn of_report(Extracted(state): Extracted<Shared>, asked: Given<Since>) -> Result<Response, ApiError> {
    let asked = given(asked)?;
    let now = Timestamp::now();
    let wanted = asked.since.as_deref().unwrap_or("12h");
    let (span, _, hours) =
        report::SPANS.into_iter().find(|(name, ..)| *name == wanted).unwrap_or(report::SPANS[0]);
    of_time(state, (now, BarEntry::Report, "Report · dacapo"), move |client, board| {
        let since = hours_before(now, hours);
        let told = view::report(&client.standing(since)?, since, now);
        Ok(report::report(&told, &board.needs, span))
    })
    .await
}
