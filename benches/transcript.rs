//! How fast an agent's events are read: `cargo bench -p dacapo-testkit --bench transcript`.
//!
//! 100 MB of Claude Code's stream-json, in the chunks a pipe has, through the transcript and the promise detector, for
//! a run that reads files and runs tests, one that only writes, one in pieces (`--include-partial-messages`), and one that says
//! one sentence at a time, read as agents print it and once more with a tab in each line, which the quick reader leaves to
//! `serde_json`.

use std::{hint::black_box, io::Write as _};

use dacapo_core::{
    agent::{
        Format,
        transcript::{OutputEvent, Transcript},
    },
    judge::promise::{PromiseDetector, PromiseRule},
};
use rustix::time::{ClockId, clock_gettime};

const SIZE: usize = 100_000_000;
const CHUNK: usize = 64 * 1024;
const ROUNDS: usize = 5;

fn main() {
    let mut out = std::io::stdout().lock();
    for (name, stream) in [
        ("a run with tools", with_tools()),
        ("words alone", words()),
        ("in pieces", pieces()),
        ("short messages", short_messages("")),
        ("short messages, by serde_json", short_messages("\t")),
    ] {
        let alone = best(|| read(&stream, None));
        let rule = PromiseRule::new("DONE").expect("a rule");
        let detected = best(|| read(&stream, Some(PromiseDetector::new(&rule, "", "Fix the parser."))));
        // A reader that went away has seen enough.
        let _ = writeln!(out, "{name}: {alone:.0} MB/s, with the promise detector {detected:.0} MB/s");
    }
}

/// The processor time of this process, without what else the machine does.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// MB per second of CPU in the best round.
fn best(mut round: impl FnMut() -> usize) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = cpu_seconds();
        black_box(round());
        best = best.min(cpu_seconds() - start);
    }
    SIZE as f64 / 1e6 / best
}

fn read(stream: &[u8], mut detector: Option<PromiseDetector>) -> usize {
    let mut messages = 0;
    let mut transcript = Transcript::new(Format::Claude);
    let mut heard = |heard: OutputEvent<'_>| {
        if let OutputEvent::Message(words) = heard {
            messages += 1;
            if let Some(detector) = &mut detector {
                detector.push_message(words);
            }
        }
    };
    for chunk in stream.chunks(CHUNK) {
        transcript.push(chunk, &mut heard);
    }
    let told = transcript.finish(&mut heard);
    messages + usize::from(told.saw_event)
}

/// Lines until there is enough of them.
fn stream(mut line: impl FnMut(usize) -> String) -> Vec<u8> {
    let mut stream = Vec::with_capacity(SIZE + (1 << 20));
    let mut number = 0;
    while stream.len() < SIZE {
        stream.extend_from_slice(line(number).as_bytes());
        stream.push(b'\n');
        number += 1;
    }
    stream.truncate(SIZE);
    stream
}

const CODE: &str = "    let found = lines.iter().find(|line| line.starts_with(\"#\")); // ändern\n";
const PROSE: &str = "I moved the lexer into its own module, and all 214 tests pass now. ";

fn event(kind: &str, number: usize, content: &str) -> String {
    let usage = r#"{"input_tokens":1200,"cache_creation_input_tokens":0,"cache_read_input_tokens":31000,"output_tokens":1}"#;
    format!(
        r#"{{"type":"{kind}","message":{{"id":"msg_{number}","type":"message","role":"{kind}","model":"claude-opus-5-5","content":[{content}],"stop_reason":null,"usage":{usage}}},"parent_tool_use_id":null,"session_id":"96d7e3c7-9469-4ae3-95f2-93887a302e98","uuid":"f4b0b57c-1095-4b00-9b20-20a9d9d34cb6"}}"#
    )
}

fn json(text: &str) -> String {
    serde_json::to_string(text).expect("text")
}

fn text(number: usize, words: &str) -> String {
    event("assistant", number, &format!(r#"{{"type":"text","text":{}}}"#, json(words)))
}

fn with_tools() -> Vec<u8> {
    let (file, edit, prose) = (json(&CODE.repeat(120)), json(&CODE.repeat(20)), PROSE.repeat(6));
    stream(|number| match number % 4 {
        0 => text(number, &prose),
        1 => event(
            "assistant",
            number,
            &format!(
                r#"{{"type":"tool_use","id":"t","name":"Edit","input":{{"file_path":"/a/b.rs","new_string":{edit}}}}}"#
            ),
        ),
        _ => {
            event("user", number, &format!(r#"{{"type":"tool_result","tool_use_id":"t","content":{file}}}"#))
        }
    })
}

fn words() -> Vec<u8> {
    let prose = format!("{}\n\n{CODE}\n", PROSE.repeat(10)).repeat(3);
    stream(|number| text(number, &prose))
}

fn pieces() -> Vec<u8> {
    stream(|number| {
        format!(
            r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"word {number} "}}}},"session_id":"96d7e3c7-9469-4ae3-95f2-93887a302e98","parent_tool_use_id":null,"uuid":"f4b0b57c-1095-4b00-9b20-20a9d9d34cb6"}}"#
        )
    })
}

/// One sentence a line, with `space` before its second field.
fn short_messages(space: &str) -> Vec<u8> {
    stream(|number| text(number, &format!("Step {number}: {PROSE}")).replacen(',', &format!(",{space}"), 1))
}
