//! Copilot CLI: `--output-format json`. It reports no tokens.

use serde::Deserialize;

use super::{
    Dialect, Ending, EndingKind, TranscriptSink, fields,
    lenient::{Leaf, Many, Maybe, ToolInput},
};

#[derive(Debug, Default)]
pub(super) struct Copilot {
    /// The newest failed call to the model. The retry that follows takes its words from it, and the error that ends the
    /// session its kind.
    failure: Option<Ending>,
    error: Option<Ending>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    data: Maybe<Data<'a>>,
    #[serde(rename = "sessionId")]
    session_id: Leaf<'a>,
    #[serde(rename = "exitCode")]
    exit_code: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Data<'a> {
    content: Leaf<'a>,
    delta_content: Leaf<'a>,
    model: Leaf<'a>,
    parent_tool_call_id: Leaf<'a>,
    tool_requests: Many<Maybe<CopilotRequest<'a>>>,
    error_type: Leaf<'a>,
    message: Leaf<'a>,
    error_message: Leaf<'a>,
    status_code: Leaf<'a>,
    failure_kind: Leaf<'a>,
    reason: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct CopilotRequest<'a> {
    name: Leaf<'a>,
    arguments: ToolInput,
}

impl Dialect for Copilot {
    fn dull(&self) -> &'static [&'static [u8]] {
        &[b"{\"type\":\"user.message\"", b"{\"type\":\"tool.", b"{\"type\":\"session.skills_loaded\""]
    }

    fn read(&mut self, line: &[u8], sink: &mut TranscriptSink<'_>) -> bool {
        let Some(line) = fields::<Line<'_>>(line) else { return false };
        let Some(kind) = line.kind.text() else { return false };
        let data = line.data.0.unwrap_or_default();
        match kind {
            "assistant.message_delta" => sink.written(data.delta_content.words().len()),
            // A sub-agent's words are not the agent's.
            "assistant.message" if data.parent_tool_call_id.text().is_none() => {
                (self.failure, self.error) = (None, None);
                sink.model(data.model.text());
                sink.message(data.content.words());
                for request in data.tool_requests.0.iter().filter_map(|request| request.0.as_ref()) {
                    sink.tool(request.name.words(), &request.arguments);
                }
            }
            "model.call_failure" => {
                // The connection could not be made, or it was cut in the middle of an answer.
                let kind = (data.failure_kind.text() == Some("transport")).then_some(EndingKind::Network);
                let error = Ending::bad(data.error_message.words()).with_status(data.status_code.status());
                self.failure = Some(error.of_kind(kind));
            }
            "assistant.turn_retry" => {
                let reason = data.reason.text().unwrap_or("unknown error");
                let failure = self.failure.take().unwrap_or_default();
                sink.retry(Ending { message: reason.to_owned(), ..failure.of_kind(error_kind(reason)) });
            }
            "session.error" => {
                // What it says of its own retries before is not what the provider said.
                let words = data.message.words();
                let words = words.split_once("Last error: ").map_or(words, |(_, error)| error);
                let error = Ending::bad(words)
                    .with_status(data.status_code.status())
                    .of_kind(self.failure.take().and_then(|failure| failure.kind))
                    .of_kind(error_kind(data.error_type.words()));
                sink.summary.trouble = Some(error.clone());
                self.error = Some(error);
            }
            "result" => {
                sink.session(line.session_id.text());
                let error = self.error.take();
                sink.end(match line.exit_code.whole() {
                    Some(0) => Ending::good(),
                    _ => error.unwrap_or_else(|| Ending::bad("")),
                });
            }
            _ => {}
        }
        true
    }
}

fn error_kind(kind: &str) -> Option<EndingKind> {
    Some(match kind {
        "rate_limit" => EndingKind::RateLimit,
        "authentication" => EndingKind::Auth,
        "quota" => EndingKind::UsageLimit,
        "context_limit" => EndingKind::PromptTooLong,
        _ => return None,
    })
}
