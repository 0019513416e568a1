//! What agents of a loop have said, read from what was kept of their output.

use std::{
    fs,
    io::{Read, Seek, SeekFrom},
};

use dacapo_core::{
    agent::{
        Format,
        transcript::{OutputEvent, Transcript, TranscriptEntry},
    },
    event::{LoopEvent, LoopStarted, OutputMarks},
    ids::LoopId,
    judge::evidence::without_echo,
    text::ansi::readable,
    workflow::template::{shortened, without_promise},
};

use crate::{
    home::Home,
    store::{Channel, Segments, Store, StoreError},
};

/// How much of what an agent printed is searched at most: its end.
const SEARCHED: u64 = 1 << 20;

/// How much is read at once of what is read whole.
const CHUNK: usize = 1 << 16;

/// What an agent wrote itself between two places of the loop's output: its messages, or the lines it printed that are not
/// lines of its prompt.
pub(super) fn words(
    home: &Home,
    id: &LoopId,
    started: &LoopStarted,
    format: Format,
    begin: OutputMarks,
    end: OutputMarks,
) -> Option<String> {
    let kept = |channel, begin, end| kept_output(home, id, started, channel, begin, end);
    let printed = kept(Channel::Stdout, begin.stdout, end.stdout)?;
    if format == Format::Text {
        let prompt = kept(Channel::Prompt, begin.prompt, end.prompt)?;
        return Some(without_echo(&readable(&printed), &String::from_utf8_lossy(&prompt)));
    }
    let mut words = String::new();
    let mut heard = |event: OutputEvent<'_>| {
        if let OutputEvent::Message(text) = event {
            words.push_str(text);
            words.push('\n');
        }
    };
    let mut transcript = Transcript::new(format);
    transcript.push(&printed, &mut heard);
    transcript.finish(&mut heard);
    Some(words)
}

/// Everything that the agent called `agent` said and did between two places of the loop's output, in order. Of one that prints
/// no events, that is what it printed.
pub(crate) fn said(
    home: &Home,
    id: &LoopId,
    started: &LoopStarted,
    agent: &str,
    begin: OutputMarks,
    end: OutputMarks,
) -> Vec<TranscriptEntry> {
    let index = started.policy.agent.index_of(agent).unwrap_or(0);
    let format = started.policy.agent.at(index).format;
    if format == Format::Text {
        let printed = kept_output(home, id, started, Channel::Stdout, begin.stdout, end.stdout);
        let text = readable(&printed.unwrap_or_default()).trim().to_owned();
        return if text.is_empty() { Vec::new() } else { vec![TranscriptEntry::Assistant { text }] };
    }
    let mut found = Vec::new();
    let runs = home.runs(&started.project, &started.task);
    let Ok(mut file) = fs::File::open(Segments::path(&runs, id, Channel::Stdout)) else { return found };
    if file.seek(SeekFrom::Start(begin.stdout)).is_err() {
        return found;
    }
    let mut kept = file.take(end.stdout.saturating_sub(begin.stdout));
    let mut transcript = Transcript::new(format);
    let mut heard = |event: OutputEvent<'_>| found.extend(TranscriptEntry::of(event));
    let mut buffer = vec![0; CHUNK];
    while let Ok(read @ 1..) = kept.read(&mut buffer) {
        transcript.push(&buffer[..read], &mut heard);
    }
    transcript.finish(&mut heard);
    found
}

/// The end of what a channel of the loop holds between two places.
pub(super) fn kept_output(
    home: &Home,
    id: &LoopId,
    started: &LoopStarted,
    channel: Channel,
    begin: u64,
    end: u64,
) -> Option<Vec<u8>> {
    let runs = home.runs(&started.project, &started.task);
    let mut file = fs::File::open(Segments::path(&runs, id, channel)).ok()?;
    let end = end.min(file.metadata().ok()?.len()).max(begin);
    let begin = begin.max(end.saturating_sub(SEARCHED));
    file.seek(SeekFrom::Start(begin)).ok()?;
    let mut bytes = Vec::new();
    file.take(end - begin).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// What the last agent of an iteration answered, without tags and not longer than answers are kept. The journal says where
/// its output lies, so that a loop that goes on after a crash finds it too.
pub(super) fn of_iteration(
    home: &Home,
    store: &Store,
    id: &LoopId,
    started: &LoopStarted,
    wanted: u32,
) -> Result<Option<String>, StoreError> {
    let mut found = None;
    for envelope in store.events(id, 0)? {
        match envelope.event {
            LoopEvent::AgentStarted { iteration, agent, output, .. } if iteration == wanted => {
                found = Some((agent, output, None));
            }
            LoopEvent::AgentStarted { output, .. } => {
                if let Some((_, _, end @ None)) = &mut found {
                    *end = Some(output);
                }
            }
            _ => {}
        }
    }
    let Some((agent, begin, end)) = found else { return Ok(None) };
    let end = end.unwrap_or(OutputMarks { stdout: u64::MAX, prompt: u64::MAX, ..begin });
    let index = started.policy.agent.index_of(&agent).unwrap_or(0);
    let format = started.policy.agent.at(index).format;
    let answer = words(home, id, started, format, begin, end);
    Ok(answer.map(|words| shortened(without_promise(&words).trim())))
}

/// What the last agent of a loop answered, if one ran.
pub(crate) fn last(home: &Home, store: &Store, id: &LoopId) -> Result<Option<String>, StoreError> {
    let (Some(started), Some(row)) = (store.loop_started(id)?, store.row(id)?) else { return Ok(None) };
    of_iteration(home, store, id, &started, row.view.iteration)
}

/// The newest answer in a loop that is not empty: of the iteration that runs, or else of the one before.
pub(crate) fn newest(home: &Home, store: &Store, id: &LoopId) -> Result<Option<String>, StoreError> {
    let (Some(started), Some(row)) = (store.loop_started(id)?, store.row(id)?) else { return Ok(None) };
    let iteration = row.view.iteration;
    for wanted in [Some(iteration), iteration.checked_sub(1)].into_iter().flatten() {
        let answer = of_iteration(home, store, id, &started, wanted)?;
        if let Some(answer) = answer.filter(|answer| !answer.is_empty()) {
            return Ok(Some(answer));
        }
    }
    Ok(None)
}
