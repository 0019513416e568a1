//! The channels by which a person is reached, each bounded in time. What fails is said, never repeated.

use std::{
    fs::OpenOptions,
    io::{Read, Write},
    os::unix::{fs::OpenOptionsExt, process::CommandExt},
    path::PathBuf,
    process::{Command, Stdio},
    sync::mpsc::channel,
    thread,
    time::{Duration, Instant},
};

use dacapo_core::{
    notify::{Delivery, NotifyChannel, WebhookUrl},
    text::{ansi::readable, visible::is_deceptive},
};
use rustix::{
    fs::OFlags,
    process::{Pid, Signal, kill_process_group},
    termios::{LocalModes, tcgetattr},
};
use serde_json::{Value, json};

use crate::{
    http::{self, HttpRequest},
    process::find_program,
    secrets::secrets,
};

/// How long one message may take.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long the last words of a program are waited for once it has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How much of the end of what a program says on standard error is shown.
const TAIL: usize = 300;

/// The program that shows messages of the desktop.
const DESKTOP: &str = if cfg!(target_os = "macos") { "osascript" } else { "notify-send" };

/// Why a channel cannot work here, and what helps.
pub fn obstacle(channel: &NotifyChannel) -> Option<(String, &'static str)> {
    let is_missing = |program: &str| find(program).is_none();
    match channel {
        NotifyChannel::Desktop if is_missing(DESKTOP) => Some((
            format!("no `{DESKTOP}` on PATH"),
            "install it (`apt install libnotify-bin`, `dnf install libnotify`), or choose another channel",
        )),
        NotifyChannel::Command(argv) => {
            let program = argv.first().map(String::as_str).unwrap_or_default();
            is_missing(program).then(|| {
                (
                    format!("no `{program}` that can be run"),
                    "name a program on PATH, or one by its whole path",
                )
            })
        }
        NotifyChannel::Desktop | NotifyChannel::Bell | NotifyChannel::Webhook(_) => None,
    }
}

/// A program on PATH, or by its path from the user's home.
fn find(program: &str) -> Option<PathBuf> {
    find_program(program, &std::env::var_os("PATH").unwrap_or_default(), &user_home()).ok()
}

fn user_home() -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
    home.unwrap_or_else(|| PathBuf::from("/"))
}

/// Sends one message, or says why it was not sent.
pub fn send(channel: &NotifyChannel, delivery: &Delivery) -> Result<(), String> {
    let (title, text) = (clean(&delivery.title()), clean(&delivery.text()));
    match channel {
        NotifyChannel::Bell => ring(&title),
        NotifyChannel::Desktop => show(&title, &text),
        NotifyChannel::Webhook(url) => post(url, &payload(delivery, &title, &text)),
        NotifyChannel::Command(argv) => start(argv, delivery, &title, &text),
    }
}

/// Text without secrets and without what a terminal or a desktop would obey.
fn clean(text: &str) -> String {
    let text = readable(secrets().redact(text).as_bytes());
    text.chars().filter(|c| *c == '\n' || !is_deceptive(*c)).collect()
}

/// What webhooks and commands get. `text` holds the whole message, so that services which show nothing else show that.
fn payload(delivery: &Delivery, title: &str, text: &str) -> Value {
    let mut value = match &delivery.notice {
        Some(notice) => serde_json::to_value(notice).unwrap_or_else(|_| json!({})),
        None => json!({"event": "summary"}),
    };
    if let Some(keys) = value.as_object_mut() {
        let detail = delivery.notice.as_ref().map(|notice| clean(&notice.text)).unwrap_or_default();
        let whole = if text.is_empty() { title.to_owned() } else { format!("{title}\n{text}") };
        let titles: Vec<String> = delivery.held_back.titles.iter().map(|title| clean(title)).collect();
        keys.insert("title".to_owned(), title.into());
        keys.insert("detail".to_owned(), detail.into());
        keys.insert("text".to_owned(), whole.into());
        let held_back = json!({"count": delivery.held_back.count, "titles": titles});
        keys.insert("held_back".to_owned(), held_back);
        keys.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
    }
    value
}

/// Rings the terminal that the loop was started in, and gives it a title. One write: the live view is not disturbed.
fn ring(title: &str) -> Result<(), String> {
    let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits().cast_signed();
    let mut terminal = OpenOptions::new()
        .write(true)
        .custom_flags(flags)
        .open("/dev/tty")
        .map_err(|_| "there is no terminal to ring in: the loop runs in the background".to_owned())?;
    // Writing would stop this process.
    if tcgetattr(&terminal).is_ok_and(|settings| settings.local_modes.contains(LocalModes::TOSTOP)) {
        return Err("the terminal lets no background process write (`stty -tostop` allows it)".to_owned());
    }
    let title: String = title.chars().filter(|c| *c != '\n').take(120).collect();
    terminal
        .write_all(format!("\x1b]2;dacapo: {title}\x07\x07").as_bytes())
        .map_err(|error| format!("cannot write to the terminal: {error}"))
}

fn show(title: &str, text: &str) -> Result<(), String> {
    let program = find(DESKTOP).ok_or_else(|| format!("no `{DESKTOP}` on PATH"))?;
    let mut command = Command::new(program);
    if cfg!(target_os = "macos") {
        command.args(["-e", "on run argv"]);
        command.args(["-e", "display notification (item 2 of argv) with title (item 1 of argv)"]);
        command.args(["-e", "end run", "--", title, text]);
    } else {
        // The body is read as a kind of HTML.
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        command.args(["--app-name=dacapo", "--", title]).arg(text);
    }
    run(command, b"")
}

fn start(argv: &[String], delivery: &Delivery, title: &str, text: &str) -> Result<(), String> {
    let (program, args) = argv.split_first().ok_or("the command is empty")?;
    let program = find(program).ok_or_else(|| format!("no `{program}` that can be run"))?;
    let value = payload(delivery, title, text);
    let mut command = Command::new(program);
    command.args(args);
    let word = |key: &str| value[key].as_str().unwrap_or_default().replace('\0', "");
    for (name, key) in [
        ("DACAPO_NOTIFY_EVENT", "event"),
        ("DACAPO_NOTIFY_TITLE", "title"),
        ("DACAPO_NOTIFY_TEXT", "text"),
        ("DACAPO_NOTIFY_KIND", "kind"),
        ("DACAPO_NOTIFY_ID", "id"),
        ("DACAPO_NOTIFY_NAME", "name"),
        ("DACAPO_NOTIFY_PROJECT", "project"),
        ("DACAPO_NOTIFY_FOLDER", "folder"),
        ("DACAPO_NOTIFY_STATE", "state"),
        ("DACAPO_NOTIFY_REASON", "reason"),
        ("DACAPO_NOTIFY_COMMAND", "command"),
    ] {
        command.env(name, word(key));
    }
    run(command, format!("{value}\n").as_bytes())
}

/// Runs a program with something to read, for a bounded time. What it prints is read and thrown away, but for the end of
/// its complaints.
fn run(mut command: Command, input: &[u8]) -> Result<(), String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .current_dir(user_home())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("could not be started: {error}"))?;
    let group = Pid::from_child(&child);
    let (mut stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let input = input.to_owned();
    // A program that does not read does not hold this up; one that has closed its input wants nothing.
    thread::spawn(move || stdin.as_mut().map(|stdin| stdin.write_all(&input)));
    let (sender, last_words) = channel();
    thread::spawn(move || {
        let (mut tail, mut buffer) = (Vec::new(), [0; 4096]);
        let mut stderr = stderr;
        while let Some(Ok(read @ 1..)) = stderr.as_mut().map(|stderr| stderr.read(&mut buffer)) {
            tail.extend_from_slice(&buffer[..read]);
            let surplus = tail.len().saturating_sub(TAIL);
            tail.drain(..surplus);
        }
        let _ = sender.send(tail);
    });
    let deadline = Instant::now() + SEND_TIMEOUT;
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() >= deadline => {
                // Fails only if the group is gone, which is what is wanted.
                let _ = kill_process_group(group, Signal::KILL);
                let _ = child.wait();
                return Err(format!("took longer than {}s and was ended", SEND_TIMEOUT.as_secs()));
            }
            None => thread::sleep(LOOK_AGAIN),
        }
    };
    if status.success() {
        return Ok(());
    }
    let said = last_words.recv_timeout(LAST_WORDS).unwrap_or_default();
    let said = clean(&String::from_utf8_lossy(&said));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let how = status.code().map_or("was ended by a signal".to_owned(), |code| format!("exited {code}"));
    Err(if said.is_empty() { how } else { format!("{how}: {said}") })
}

/// Sends JSON to an address. Redirections are not followed: they could lead anywhere.
fn post(url: &WebhookUrl, value: &Value) -> Result<(), String> {
    let request =
        HttpRequest { body: Some(value.to_string()), ..HttpRequest::new(url.as_str(), SEND_TIMEOUT) };
    // What the error names may be the whole address, and that may hold a secret.
    let answer = http::send(&request).map_err(|why| why.replace(url.as_str(), url.origin()))?;
    match answer.status {
        200..=299 => Ok(()),
        code => Err(format!("answered {code}")),
    }
}

#[cfg(test)]
#[path = "send_tests.rs"]
mod tests;
