//! The lines of a log. A browser with scripts follows the stream of the API; this is what one without them reads.

use dacapo_core::view::LoopView;
use dacapo_engine::{
    client::{Client, ClientError},
    log::{LogPart, LogReader},
    store::Channel,
};

use super::words;

/// How much of the end of a log is read for a browser without scripts, in bytes.
const TAIL: u64 = 256 << 10;
/// How many lines of it are shown.
const LINES: usize = 400;

/// What a line of a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    Said,
    /// The agent uses a tool.
    Tool,
    /// dacapo's own words.
    Note,
}

impl LineKind {
    /// The class of the style sheet.
    pub(super) fn class(self) -> Option<&'static str> {
        match self {
            Self::Said => None,
            Self::Tool => Some("tool-line"),
            Self::Note => Some("note"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogLine {
    pub(super) kind: LineKind,
    pub(super) text: String,
}

/// The newest lines of a log, of all iterations or of one.
pub(super) fn tail(
    client: &Client,
    view: &LoopView,
    channel: Channel,
    iteration: Option<u32>,
) -> Result<Vec<LogLine>, ClientError> {
    let mut reader = LogReader::new(view.clone(), channel, 0);
    match iteration {
        Some(iteration) => reader.only(iteration),
        None => reader.seek_back(client, None, TAIL)?,
    }
    let page = reader.read(client, TAIL, None)?;
    let mut lines: Vec<LogLine> = page.parts.iter().flat_map(of_part).collect();
    lines.drain(..lines.len().saturating_sub(LINES));
    Ok(lines)
}

fn of_part(part: &LogPart) -> Vec<LogLine> {
    let head = part
        .is_first
        .then(|| LogLine {
            kind: LineKind::Note, text: format!("── iteration {} ──", part.iteration)
        });
    let lines = part
        .text
        .lines()
        .map(|text| LogLine { kind: kind_of(text), text: words::output_line(text.as_bytes()) });
    head.into_iter().chain(lines).collect()
}

/// `[Bash] make test` is a tool with what it is to do.
fn kind_of(line: &str) -> LineKind {
    let name = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map(|(name, _)| name);
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
    };
    if name.is_some_and(is_name) { LineKind::Tool } else { LineKind::Said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_tools_are_told_from_words() {
        for (line, kind) in [
            ("[Bash] make test", LineKind::Tool),
            ("[mcp_server.tool-1] x", LineKind::Tool),
            ("[see the docs] first", LineKind::Said),
            ("plain", LineKind::Said),
            ("[] x", LineKind::Said),
        ] {
            assert_eq!(kind_of(line), kind, "{line}");
        }
    }
}
