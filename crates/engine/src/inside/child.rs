//! A child loop: the process that a supervisor starts when its agent asks for one.
//!
//! It is a sibling of the keeper, not below it, so nothing that ends the agent ends it. It reads what it is to do from
//! its standard input and runs with the supervisor's own environment: an agent must not choose the library path, the
//! `git` or the configuration of a process outside its containment. What the agent had in its environment goes to the
//! child's agents and gates and to no other process.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, BufRead, Seek, Write},
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Child, Command},
    sync::OnceLock,
};

use dacapo_core::ids::LoopId;
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use super::protocol::{StartChild, VERSION, Words};
use crate::{home::Home, process::background};

/// The word on the command line that makes this binary a child loop.
pub const CHILD: &str = "child";

/// The variable that chooses the agent: the one of `dacapo`'s own variables that an agent may set for a child.
const AGENT: &str = "DACAPO_AGENT";

/// What a supervisor tells the child that it starts.
#[derive(Debug, Serialize, Deserialize)]
struct ChildOrder {
    v: u32,
    parent: LoopId,
    args: Vec<Words>,
    dir: Words,
    env: Vec<(Words, Words)>,
}

static ORDER: OnceLock<ChildOrder> = OnceLock::new();

/// Reads the order from standard input and gives the arguments of the command that was typed. What follows on standard
/// input is the prompt.
pub fn take_order() -> io::Result<Vec<OsString>> {
    let mut line = Vec::new();
    io::stdin().lock().read_until(b'\n', &mut line)?;
    let order: ChildOrder = serde_json::from_slice(&line)?;
    if order.v != VERSION {
        return Err(io::Error::other("the supervisor is of another version"));
    }
    // The child gets a session of its own, so that Ctrl-C reaches the parent loop alone, which then ends its children.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"dacapo");
    // The child enters its folder itself, so that a folder that does not answer holds up the child alone.
    std::env::set_current_dir(order.dir.to_os())?;
    Ok(ORDER.get_or_init(|| order).args.iter().map(Words::to_os).collect())
}

/// The loop whose supervisor started this process, by its word: the supervisor of the new loop checks it.
pub fn parent() -> Option<&'static LoopId> {
    ORDER.get().map(|order| &order.parent)
}

/// The environment that agents and gates inherit: the one in which the command was typed.
pub fn environment() -> Vec<(OsString, OsString)> {
    match ORDER.get() {
        Some(order) => order.env.iter().map(|(name, value)| (name.to_os(), value.to_os())).collect(),
        None => std::env::vars_os().collect(),
    }
}

/// One variable of that environment.
pub fn variable(name: &str) -> Option<OsString> {
    match ORDER.get() {
        Some(order) => {
            let found = order.env.iter().find(|(its, _)| its.0 == name.as_bytes());
            found.map(|(_, value)| value.to_os())
        }
        None => std::env::var_os(name),
    }
}

/// Starts a child loop of `parent`, with these as its standard output and standard error.
pub(crate) fn start(
    home: &Home,
    parent: &LoopId,
    asked: StartChild,
    [stdout, stderr]: [OwnedFd; 2],
) -> io::Result<Child> {
    let agent = asked.env.iter().find(|(name, _)| name.0 == AGENT.as_bytes()).map(|(_, value)| value.to_os());
    let order =
        ChildOrder { v: VERSION, parent: parent.clone(), args: asked.args, dir: asked.dir, env: asked.env };
    let mut stdin = File::from(rustix::fs::memfd_create("child", MemfdFlags::CLOEXEC)?);
    serde_json::to_writer(&mut stdin, &order)?;
    stdin.write_all(b"\n")?;
    stdin.write_all(asked.input.unwrap_or_default().as_bytes())?;
    stdin.rewind()?;
    let is_ours = |name: &OsStr| name.as_encoded_bytes().starts_with(b"DACAPO_");
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("dacapo")
        .arg(CHILD)
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| !is_ours(name)))
        .envs(agent.map(|agent| (AGENT, agent)))
        .env("DACAPO_HOME", home.path())
        .current_dir("/")
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr);
    if asked.is_detached {
        command.env(background::MARK, "1");
    }
    command.spawn()
}
