//! Files that dacapo writes whole: the commands `/ralph` and `/cancel-ralph`, the plugin of OpenCode and that of Claude Code.

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::HooksToInstall;
use crate::session::Host;

/// A file of dacapo's, by its place in the host's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFile {
    pub path: &'static str,
    pub text: String,
}

/// The words on the line by which a file of dacapo's is known, before the hash of the rest.
const MARK: &str = "written by `dacapo hook install`, sha256";

/// The files that belong to the hooks of a host.
pub fn own_files(host: Host, wanted: &HooksToInstall) -> Vec<OwnFile> {
    if host == Host::Opencode {
        return vec![OwnFile { path: "plugin/dacapo.js", text: marked("//", &opencode_plugin(wanted)) }];
    }
    if wanted.verify {
        return Vec::new();
    }
    own_paths(host)
        .iter()
        .map(|path| {
            let is_cancel = path.contains("cancel");
            let text = match host {
                Host::Claude => claude_command(is_cancel),
                Host::Gemini => gemini_command(is_cancel),
                _ => qwen_command(is_cancel),
            };
            OwnFile { path, text }
        })
        .collect()
}

/// Where such files can lie, also those of an installation that was another one.
pub fn own_paths(host: Host) -> &'static [&'static str] {
    match host {
        Host::Claude | Host::Qwen => &["commands/ralph.md", "commands/cancel-ralph.md"],
        Host::Gemini => &["commands/ralph.toml", "commands/cancel-ralph.toml"],
        Host::Opencode => &["plugin/dacapo.js"],
        // Neither knows commands that a user can add.
        Host::Codex | Host::Copilot => &[],
    }
}

/// Whether dacapo wrote a file, and whether it is still as dacapo wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    Foreign,
    Changed,
    Own,
}

pub fn ownership(text: &str) -> Ownership {
    let marked = text.split_inclusive('\n').find(|line| line.contains(MARK));
    let Some(line) = marked else { return Ownership::Foreign };
    let hash = line.rsplit(MARK).next().unwrap_or_default().trim();
    match hash == hash_of(&text.replacen(line, "", 1)) {
        true => Ownership::Own,
        false => Ownership::Changed,
    }
}

fn hash_of(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The text with its mark in a comment, as its first line.
fn marked(comment: &str, text: &str) -> String {
    format!("{}{text}", mark(comment, text))
}

fn mark(comment: &str, text: &str) -> String {
    format!("{comment} {MARK} {}\n", hash_of(text))
}

/// A Markdown command: the mark is a comment of its front matter.
fn markdown(front: &str, body: &str) -> String {
    let text = format!("---\n{front}---\n{body}");
    format!("---\n{}{}", mark("#", &text), &text["---\n".len()..])
}

const BEGIN: &str = "Work on a task in a loop until it is proven done";
const CANCEL: &str = "End the loop of this session";
const HINT: &str = r#""task" [--max-iterations N] [--completion-promise TEXT]"#;

/// Claude Code adds the arguments to the text by itself. The hook has read them from what the user typed, before any shell or
/// template could change them, so the text asks for none and runs nothing.
fn claude_command(is_cancel: bool) -> String {
    if is_cancel {
        return markdown(
            &format!("description: {CANCEL}\ndisable-model-invocation: true\n"),
            "dacapo was told to end the loop of this session and notes here what came of it. Repeat that note in one sentence and \
             stop. If there is no such note, say that `dacapo hook install claude` has to be run again.\n",
        );
    }
    markdown(
        &format!("description: {BEGIN}\nargument-hint: '{HINT}'\ndisable-model-invocation: true\n"),
        "dacapo has read this command and notes here which task it begins. Work on that task. Words with two dashes in the \
         arguments are settings of the loop and not part of the task. If there is no such note, do nothing but say that `dacapo \
         hook install claude` has to be run again.\n",
    )
}

/// The text becomes what the user typed, so that the hook sees it.
fn gemini_command(is_cancel: bool) -> String {
    let (about, name) = if is_cancel { (CANCEL, "cancel-ralph") } else { (BEGIN, "ralph") };
    marked("#", &format!("description = \"{about}\"\nprompt = \"/{name} {{{{args}}}}\"\n"))
}

fn qwen_command(is_cancel: bool) -> String {
    let (about, name) = if is_cancel { (CANCEL, "cancel-ralph") } else { (BEGIN, "ralph") };
    markdown(&format!("description: {about}\n"), &format!("/{name} {{{{args}}}}\n"))
}

fn opencode_plugin(wanted: &HooksToInstall) -> String {
    let program = json!(wanted.program).to_string();
    include_str!("opencode_plugin.js").replace("\"@PROGRAM@\"", &program)
}

/// The folder of a plugin of Claude Code: its commands are `/ralph:ralph` and `/ralph:cancel-ralph`.
pub fn claude_plugin(wanted: &HooksToInstall, version: &str) -> Vec<OwnFile> {
    let manifest = json!({
        "name": "ralph", "version": version,
        "description": "Work on a task in a loop until gates prove it done",
    });
    let mut hooks = serde_json::Map::new();
    for hook in super::wanted_hooks(Host::Claude, wanted) {
        hooks.insert(hook.event.to_owned(), json!([hook.value]));
    }
    let pretty = |value: serde_json::Value| format!("{value:#}\n");
    let mut files = vec![
        OwnFile { path: ".claude-plugin/plugin.json", text: pretty(manifest) },
        OwnFile { path: "hooks/hooks.json", text: pretty(json!({"hooks": hooks})) },
    ];
    files.extend(own_files(Host::Claude, wanted));
    files
}

/// The files of such a folder.
pub const CLAUDE_PLUGIN_PATHS: [&str; 4] =
    [".claude-plugin/plugin.json", "hooks/hooks.json", "commands/ralph.md", "commands/cancel-ralph.md"];
