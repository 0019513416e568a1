//! Numbers for Prometheus.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::Mutex,
    time::{Duration, Instant},
};

use axum::{
    extract::State as Extracted,
    http::header,
    response::{IntoResponse, Response},
};
use dacapo_core::view::Board;
use dacapo_engine::client::{Client, ClientError};
use jiff::Timestamp;
use serde_json::json;

use crate::{ApiError, state::Shared};

/// All loops are added up, so an answer is good for a while.
const FRESH: Duration = Duration::from_secs(10);

/// The newest numbers.
#[derive(Default)]
pub(crate) struct Kept(Mutex<Option<(Instant, String)>>);

/// `GET /metrics`.
pub(crate) async fn metrics(Extracted(state): Extracted<Shared>) -> Result<Response, ApiError> {
    let kept = state.metrics.0.lock().ok().and_then(|kept| kept.clone());
    let text = match kept.filter(|(at, _)| at.elapsed() < FRESH) {
        Some((_, text)) => text,
        None => {
            let asking = state.clone();
            let text = state
                .ask(move |client| {
                    let board = asking.board(client, Timestamp::now())?;
                    Numbers::of(client, &board).map(|numbers| numbers.text())
                })
                .await?;
            if let Ok(mut kept) = state.metrics.0.lock() {
                *kept = Some((Instant::now(), text.clone()));
            }
            text
        }
    };
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

#[derive(Default)]
struct Numbers {
    loops: BTreeMap<String, u64>,
    needs: BTreeMap<String, u64>,
    runs: BTreeMap<(&'static str, String), u64>,
    iterations: u64,
    cost: f64,
    tokens: BTreeMap<&'static str, u64>,
    seq: u64,
}

impl Numbers {
    fn of(client: &Client, board: &Board) -> Result<Self, ClientError> {
        let mut numbers = Self { seq: client.last_seq()?, ..Self::default() };
        for view in client.active()?.into_iter().chain(client.recent(u32::MAX)?).map(|seen| seen.view) {
            *numbers.loops.entry(view.state).or_default() += 1;
            numbers.iterations += u64::from(view.iteration);
            numbers.cost += view.cost_usd.unwrap_or(0.0);
            if let Some(usage) = view.tokens {
                for (kind, number) in [
                    ("input", usage.input),
                    ("output", usage.output),
                    ("cache_read", usage.cache_read),
                    ("cache_write", usage.cache_write),
                ] {
                    *numbers.tokens.entry(kind).or_default() += number;
                }
            }
        }
        for seen in client.runs_to_show(None)? {
            *numbers.runs.entry(("units", seen.view.state)).or_default() += 1;
        }
        for seen in client.workflows_to_show(u32::MAX)? {
            *numbers.runs.entry(("workflow", seen.view.state)).or_default() += 1;
        }
        for seen in client.newest_tasks(None)? {
            *numbers.runs.entry(("task", seen.view.state)).or_default() += 1;
        }
        for need in &board.needs {
            let why = json!(need.urgency).as_str().unwrap_or_default().to_owned();
            *numbers.needs.entry(why).or_default() += 1;
        }
        Ok(numbers)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut gauge = |name: &str, means: &str, values: &[(String, String)]| {
            let _ = writeln!(text, "# HELP dacapo_{name} {means}\n# TYPE dacapo_{name} gauge");
            for (labels, value) in values {
                let _ = writeln!(text, "dacapo_{name}{labels} {value}");
            }
        };
        let plain = |value: String| vec![(String::new(), value)];
        gauge(
            "build_info",
            "The version of dacapo.",
            &[(format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), "1".to_owned())],
        );
        let by_state: Vec<_> =
            self.loops.iter().map(|(state, n)| (format!("{{state=\"{state}\"}}"), n.to_string())).collect();
        gauge("loops", "Loops in the journal by their state.", &by_state);
        let runs = self.runs.iter();
        let runs: Vec<_> = runs
            .map(|((kind, state), n)| (format!("{{kind=\"{kind}\",state=\"{state}\"}}"), n.to_string()))
            .collect();
        gauge("runs", "Runs of units, workflows and tasks by their state.", &runs);
        let needs: Vec<_> =
            self.needs.iter().map(|(why, n)| (format!("{{why=\"{why}\"}}"), n.to_string())).collect();
        gauge("needs_person", "What waits for a person, by the reason.", &needs);
        gauge("iterations", "Iterations of all loops in the journal.", &plain(self.iterations.to_string()));
        gauge(
            "cost_usd",
            "What all loops in the journal cost, in US dollars.",
            &plain(self.cost.to_string()),
        );
        let tokens: Vec<_> =
            self.tokens.iter().map(|(kind, n)| (format!("{{kind=\"{kind}\"}}"), n.to_string())).collect();
        gauge("tokens", "Tokens that all loops in the journal used.", &tokens);
        gauge("journal_seq", "The sequence number of the newest event.", &plain(self.seq.to_string()));
        text
    }
}
