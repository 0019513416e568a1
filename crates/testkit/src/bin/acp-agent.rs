//! An agent that speaks the Agent Client Protocol, well or badly, as its arguments say.
//!
//! `acp-agent [--log FILE] [FLAGS] TURN…`: each TURN is what it does with a prompt, the last one with all that follow. Its
//! commands are separated by `;`:
//!
//! - `say TEXT`: words of the agent, in two pieces. `promise`: the tag, in two pieces.
//! - `write FILE`, `sh COMMAND`: work. `leave COMMAND`: a process that is left behind, in a session of its own. `begin COMMAND`:
//!   a process that the agent itself has begun and that may go on after the end of the turn.
//! - `permit FILE`: asks for a permission and writes the answer to FILE. `read-file`: asks the client for a file.
//! - `garbage`: lines that are no protocol. `used IN OUT`: what the end of the turn reports.
//! - `wait FILE`: until it is there. `until-cancel`: until the client cancels the turn. `hang`: for ever, reading nothing.
//! - `error TEXT`: the turn ends with error -32603. `exit CODE`: the process does.
//!
//! Flags: `--mute` never answers; `--stay` neither exits at the end of its input nor at SIGTERM; `--signed-out` refuses a
//! session; `--no-load` cannot take a session up; `--speaks N` names another version of the protocol.

use std::{
    fs::OpenOptions,
    io::{BufRead, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};

#[derive(Default)]
struct Agent {
    log: Option<String>,
    turns: Vec<String>,
    is_mute: bool,
    stays: bool,
    is_signed_out: bool,
    cannot_load: bool,
    version: i64,
    sessions: u32,
    prompts: usize,
    usage: Option<(u64, u64)>,
    is_cancelled: bool,
}

fn main() {
    let mut agent = Agent { version: 1, ..Agent::default() };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--log" => agent.log = args.next(),
            "--mute" => agent.is_mute = true,
            "--stay" => agent.stays = true,
            "--signed-out" => agent.is_signed_out = true,
            "--no-load" => agent.cannot_load = true,
            "--speaks" => agent.version = args.next().and_then(|n| n.parse().ok()).unwrap_or(0),
            _ => agent.turns.push(arg),
        }
    }
    if agent.stays {
        // A handler that does nothing: the signal no longer ends this process.
        let flag = std::sync::Arc::default();
        let _ = signal_hook::flag::register(signal_hook::consts::SIGTERM, flag);
    }
    agent.note(&json!({"started": std::process::id()}));
    while let Some(message) = next() {
        agent.note(&message);
        agent.hear(&message);
    }
    if agent.stays {
        sleep_for_ever();
    }
}

fn sleep_for_ever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// The next message; nothing at the end of the input.
fn next() -> Option<Value> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).unwrap_or(0);
    (read > 0).then(|| serde_json::from_str(&line).unwrap_or(Value::Null))
}

fn send(message: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}

fn update(update: &Value) {
    send(
        &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": update}}),
    );
}

fn chunk(text: &str) {
    update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}));
}

fn say(text: &str) {
    let middle = text.floor_char_boundary(text.len() / 2);
    chunk(&text[..middle]);
    chunk(&text[middle..]);
}

impl Agent {
    fn note(&self, message: &Value) {
        let file =
            self.log.as_ref().and_then(|log| OpenOptions::new().append(true).create(true).open(log).ok());
        if let Some(mut file) = file {
            let _ = writeln!(file, "{message}");
        }
    }

    fn hear(&mut self, message: &Value) {
        let id = &message["id"];
        let answer = |result: Value| send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        let fail = |code: i64, words: &str| {
            send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": words}}));
        };
        if self.is_mute {
            return;
        }
        match message["method"].as_str() {
            Some("initialize") => answer(json!({
                "protocolVersion": self.version, "agentCapabilities": {"loadSession": !self.cannot_load},
            })),
            Some("session/new") if self.is_signed_out => fail(-32000, "Authentication required"),
            Some("session/new") => {
                self.sessions += 1;
                answer(json!({"sessionId": format!("s{}", self.sessions)}));
            }
            Some("session/load") => {
                chunk("All of it. <promise>DONE</promise>");
                answer(Value::Null);
            }
            Some("session/prompt") => {
                let at = self.prompts.min(self.turns.len().saturating_sub(1));
                self.prompts += 1;
                (self.usage, self.is_cancelled) = (None, false);
                let turn = self.turns.get(at).cloned().unwrap_or_default();
                for command in turn.split(';').map(str::trim).filter(|command| !command.is_empty()) {
                    if let Err(words) = self.obey(command) {
                        return fail(-32603, &words);
                    }
                }
                let stop = if self.is_cancelled { "cancelled" } else { "end_turn" };
                let usage =
                    self.usage.map(|(input, output)| json!({"inputTokens": input, "outputTokens": output}));
                answer(json!({"stopReason": stop, "usage": usage}));
            }
            _ => {}
        }
    }

    fn obey(&mut self, command: &str) -> Result<(), String> {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        match verb {
            "say" => say(rest),
            "promise" => say("All of it. <promise>DONE</promise>"),
            "write" => std::fs::write(rest, "work\n").map_err(|error| error.to_string())?,
            "sh" => {
                Command::new("sh").args(["-c", rest]).status().map_err(|error| error.to_string())?;
            }
            "leave" => {
                let mut command = Command::new("setsid");
                command.args(["sh", "-c", rest]).process_group(0).stdin(std::process::Stdio::null());
                command.stdout(std::process::Stdio::null()).spawn().map_err(|error| error.to_string())?;
            }
            "begin" => {
                let mut command = Command::new("sh");
                command.args(["-c", rest]).stdin(std::process::Stdio::null());
                command.stdout(std::process::Stdio::null()).spawn().map_err(|error| error.to_string())?;
            }
            "permit" => {
                let options = json!([
                    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                    {"optionId": "no", "name": "No", "kind": "reject_once"},
                ]);
                let params =
                    json!({"sessionId": "s1", "options": options, "toolCall": {"title": "Write it"}});
                let method = "session/request_permission";
                send(&json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}));
                let answer = next().unwrap_or_default();
                self.note(&answer);
                std::fs::write(rest, answer["result"]["outcome"].to_string())
                    .map_err(|error| error.to_string())?;
            }
            "read-file" => {
                let params = json!({"sessionId": "s1", "path": "/etc/passwd"});
                send(&json!({"jsonrpc": "2.0", "id": 8, "method": "fs/read_text_file", "params": params}));
                let answer = next().unwrap_or_default();
                self.note(&answer);
            }
            "garbage" => {
                let mut out = std::io::stdout().lock();
                let _ =
                    out.write_all(b"not JSON at all\n{\"half\":\n\xff\xfe\n[]\n{\"id\":999,\"result\":{}}\n");
            }
            "used" => {
                let mut numbers = rest.split(' ').filter_map(|word| word.parse().ok());
                self.usage = numbers.next().zip(numbers.next());
            }
            "wait" => {
                while !Path::new(rest).exists() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            "until-cancel" => {
                while let Some(message) = next() {
                    self.note(&message);
                    if message["method"] == "session/cancel" {
                        self.is_cancelled = true;
                        break;
                    }
                }
            }
            "hang" => sleep_for_ever(),
            "error" => return Err(rest.to_owned()),
            "exit" => std::process::exit(rest.parse().unwrap_or(1)),
            other => return Err(format!("acp-agent: no command `{other}`")),
        }
        Ok(())
    }
}
