//! Agents by name, end to end: scripts called `claude` and `codex` on PATH, no network. One file per command.

mod budgets;
mod choosing;
mod doctor;
mod hooks;
mod init;
mod sign_in;

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    process::Command,
};

use dacapo_testkit::{Output, TestEnv};
use serde_json::Value;

/// A world with nothing on PATH but what agents here and dacapo need.
fn world() -> TestEnv {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    for name in ["cat", "env", "git", "sleep", "touch"] {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
        symlink(found.expect(name), env.root().join("bin").join(name)).expect("the name is free");
    }
    user(&env, "permissions: {allow_root: true}\n");
    env
}

/// The user's own configuration.
fn user(env: &TestEnv, config: &str) {
    let folder = env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("config.yaml"), config).expect("a file");
}

/// Puts a shell script on PATH.
fn install(env: &TestEnv, name: &str, script: &str) {
    let file = env.root().join("bin").join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// An agent that keeps what it is given in the workspace, and claims to be done.
const CURIOUS: &str = r#"[ "$1" = --version ] && { echo "9.9.9 (Test)"; exit; }
[ "$2" = status ] && exit
printf '%s\n' "$@" >args
env >env
pwd >pwd
cat >prompt
: >"$TASK_FOLDER/DONE""#;

fn dacapo<S: AsRef<OsStr>>(env: &TestEnv, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = env.dacapo(args);
    command.env("PATH", env.root().join("bin"));
    command
}

#[track_caller]
fn run<S: AsRef<OsStr>>(env: &TestEnv, args: impl IntoIterator<Item = S>) -> Output {
    env.run_command(dacapo(env, args))
}

#[track_caller]
fn json<S: AsRef<OsStr>>(env: &TestEnv, args: impl IntoIterator<Item = S>) -> Value {
    let output = run(env, args);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[track_caller]
fn assert_has(text: &str, part: &str) {
    assert!(text.contains(part), "no `{part}` in:\n{text}");
}

fn last_line(output: &Output) -> &str {
    output.reason()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").expect("Linux").uid() == 0
}
