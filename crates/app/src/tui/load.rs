//! Reads what the screen on top is about, once, and again when the journal has moved on.

use dacapo_core::{
    duration::Millis,
    ids::RunId,
    text::ansi::readable,
    view::{CardKind, LoopView, first_step},
};
use dacapo_engine::{client::Client, log::read_prompt, snapshots::DiffForm};
use jiff::{Timestamp, tz::TimeZone};

use super::{
    log::{Log, shown},
    state::{BoardState, Data, LoopData, Sheet, Tab},
};
use crate::error::UserError;

/// How many lines of a prompt or a difference are shown.
const MOST: usize = 20_000;

/// What was read for the screen on top.
#[derive(Default)]
pub(crate) struct Loader {
    screen: Option<Sheet>,
    /// The place in the journal of what was read.
    seq: u64,
    log: Option<Log>,
    /// The iteration and the place in the journal of the difference.
    diff: Option<(Option<u32>, u64)>,
    prompt_end: Option<u64>,
}

impl Loader {
    /// Reads what is missing; says whether the screen has something new to show.
    pub(crate) fn load(&mut self, client: &Client, state: &mut BoardState) -> bool {
        let screen = state.screen().cloned();
        let is_same = match (&self.screen, &screen) {
            (Some(Sheet::Loop { id: a, .. }), Some(Sheet::Loop { id: b, .. })) => a == b,
            (a, b) => a == b,
        };
        if !is_same {
            *self = Self { screen: screen.clone(), ..Self::default() };
            state.data = Data::Nothing;
        }
        self.screen.clone_from(&screen);
        let Some(screen) = screen else { return !is_same };
        let is_newer = self.seq != state.board.seq || matches!(state.data, Data::Nothing);
        match self.read(client, state, &screen, is_newer) {
            Ok(is_changed) => {
                self.seq = state.board.seq;
                is_changed || !is_same
            }
            Err(error) => {
                let gone = Data::Gone(error.message);
                let is_changed = state.data != gone;
                state.data = gone;
                is_changed
            }
        }
    }

    fn read(
        &mut self,
        client: &Client,
        state: &mut BoardState,
        screen: &Sheet,
        is_newer: bool,
    ) -> Result<bool, UserError> {
        match screen {
            Sheet::Help | Sheet::Needs => Ok(false),
            Sheet::Costs { span } => {
                if !is_newer {
                    return Ok(false);
                }
                let now = Timestamp::now();
                let step = span.step_hours();
                let since = first_step(&now.to_zoned(TimeZone::system()), span.hours(), step);
                let step = Millis::from_secs(step.unsigned_abs() * 3600);
                state.data = Data::Costs(Box::new(client.costs(since, now, step)?));
                Ok(true)
            }
            Sheet::Run { id, kind } => {
                if !is_newer {
                    return Ok(false);
                }
                let run: RunId = id.parse().map_err(|_| UserError::failed(format!("`{id}` is no run")))?;
                let read = match kind {
                    CardKind::Workflow => {
                        client.workflow_page(&run)?.map(|page| Data::Workflow(Box::new(page)))
                    }
                    CardKind::Task => client.task_page(&run)?.map(|page| Data::Task(Box::new(page))),
                    _ => client.run_page(&run)?.map(|page| Data::Units(Box::new(page))),
                };
                state.data = read.unwrap_or_else(|| gone(id));
                Ok(true)
            }
            Sheet::Loop { id, tab } => {
                let mut is_changed = false;
                if !matches!(&state.data, Data::Loop(data) if data.view.id == *id) {
                    let Some(seen) = client.loop_of_id(id)? else {
                        state.data = gone(id.as_str());
                        return Ok(true);
                    };
                    let page = client.loop_page(id)?;
                    state.data = Data::Loop(Box::new(LoopData {
                        view: seen.view,
                        page,
                        log: Vec::new(),
                        log_dropped: 0,
                        prompt: Vec::new(),
                        diff: Ok(Vec::new()),
                        diff_of: None,
                    }));
                    is_changed = true;
                }
                let iteration = state.iteration;
                let Data::Loop(data) = &mut state.data else { return Ok(is_changed) };
                if is_newer && !is_changed {
                    let Some(seen) = client.loop_of_id(id)? else {
                        state.data = gone(id.as_str());
                        return Ok(true);
                    };
                    is_changed |= data.view != seen.view;
                    data.view = seen.view;
                    is_changed |= client.catch_up_page(id, &mut data.page)?;
                }
                match tab {
                    Tab::Timeline | Tab::Receipt => {}
                    Tab::Log => {
                        if self.log.is_none() {
                            self.log = Some(Log::new(client, &data.view)?);
                        }
                        if let Some(log) = &mut self.log
                            && log.read_on(client)?
                        {
                            (data.log, data.log_dropped) = (log.lines(), log.dropped());
                            is_changed = true;
                        }
                    }
                    Tab::Prompt => {
                        let begin = data.page.iterations.iter().rev().find_map(|line| line.attempts.last());
                        let begin = begin.map(|attempt| attempt.begin.prompt);
                        if self.prompt_end != begin || data.prompt.is_empty() {
                            self.prompt_end = begin;
                            data.prompt = prompt(client, &data.view, begin, &data.page.prompt)?;
                            is_changed = true;
                        }
                    }
                    Tab::Diff => {
                        let wanted = (iteration, data.page.seq);
                        // While the files change, once per look of the journal is enough.
                        if self.diff != Some(wanted) {
                            self.diff = Some(wanted);
                            data.diff = difference(client, &data.view, iteration);
                            data.diff_of = iteration;
                            is_changed = true;
                        }
                    }
                }
                Ok(is_changed)
            }
        }
    }
}

fn gone(id: &str) -> Data {
    Data::Gone(format!("{id} is not in the journal any more; Esc goes back"))
}

/// What the newest agent was given; before the first, what the user wrote.
fn prompt(
    client: &Client,
    view: &LoopView,
    begin: Option<u64>,
    typed: &str,
) -> Result<Vec<String>, UserError> {
    let bytes = match begin {
        Some(begin) => read_prompt(client, view, begin, None)?,
        None => Vec::new(),
    };
    let text = if bytes.is_empty() { typed.as_bytes().to_vec() } else { bytes };
    Ok(text.split(|byte| *byte == b'\n').take(MOST).map(shown).collect())
}

fn difference(client: &Client, view: &LoopView, iteration: Option<u32>) -> Result<Vec<String>, String> {
    match client.difference(view, iteration, DiffForm::Patch { is_coloured: false }) {
        Ok(bytes) => {
            let mut lines: Vec<String> = bytes.split(|byte| *byte == b'\n').take(MOST).map(shown).collect();
            while lines.last().is_some_and(String::is_empty) {
                lines.pop();
            }
            Ok(lines)
        }
        Err(error) => Err(readable(UserError::from(error).message.as_bytes())),
    }
}
