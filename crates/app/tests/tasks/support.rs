//! A repository with tasks, and an agent that plays all roles.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};

use dacapo_testkit::{Output, TestEnv};
use serde_json::Value;

pub(crate) const SOON: Duration = Duration::from_secs(60);

/// An agent that reads its role and its task in the prompt, and then what `$ROLES/ID.ROLE` or `$ROLES/ROLE` says. Without
/// such a file it does its work well. `calls` counts what each role was started for. An agent that is asked whether the criteria
/// of a task are met is `Judge` for the task `asked`.
const AGENT: &str = r#"#!/bin/sh
prompt=$(cat)
role=$(printf '%s\n' "$prompt" | sed -n 's/^- \*\*Stage\*\*: //p' | head -1)
task=$(printf '%s\n' "$prompt" | sed -n 's/^- \*\*Task ID\*\*: //p' | head -1)
case "$prompt" in *"You judge whether that is so."*) role=Judge task=asked ;; esac
echo "$role" >>"$ROLES/calls.$task"
number=$(grep -c "^$role$" "$ROLES/calls.$task")
printf '%s' "$prompt" >"$ROLES/prompt.$task.$role.$number"
commit() { git add -A && git commit -qm "$1" && echo "committed"; }
work() { echo "$task $number" >>"work-$task.txt"; commit "work on $task"; }
promise() { echo "<promise>$1</promise>"; }
for file in "$ROLES/$task.$role.$number" "$ROLES/$task.$role" "$ROLES/$role.$number" "$ROLES/$role"; do
  if [ -f "$file" ]; then . "$file"; exit; fi
done
case "$role" in
Implementation) work; promise IMPLEMENTATION_COMPLETE ;;
Review) echo "REVIEW PASSED"; promise REVIEW_COMPLETE ;;
Testing) echo "3 passed"; promise TESTS_COMPLETE ;;
QA) echo "I used it"; promise QA_PASSED ;;
Judge) echo "I looked"; promise CRITERIA_MET ;;
*) echo "no role in the prompt"; exit 1 ;;
esac
"#;

pub(crate) struct Tasks {
    pub(crate) env: TestEnv,
}

impl Tasks {
    /// A repository without tasks.
    pub(crate) fn new() -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
        env.write("README.md", "hello\n").git_init();
        let tasks = Self { env };
        fs::create_dir(tasks.roles()).unwrap();
        let agent = tasks.agent();
        fs::write(&agent, AGENT).unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        tasks
    }

    fn roles(&self) -> PathBuf {
        self.env.root().join("roles")
    }

    pub(crate) fn agent(&self) -> PathBuf {
        self.env.root().join("roles.sh")
    }

    /// What an agent does: for a role, for its `n`th call (`Review.2`), or of one task alone (`TASK-002.QA`).
    pub(crate) fn role(&self, name: &str, script: &str) -> &Self {
        fs::write(self.roles().join(name), script).unwrap();
        self
    }

    /// What the agent of a role was told at its `n`th call.
    pub(crate) fn prompt(&self, task: &str, role: &str, n: u32) -> String {
        fs::read_to_string(self.roles().join(format!("prompt.{task}.{role}.{n}"))).unwrap()
    }

    /// The roles that were called for a task, in their order.
    pub(crate) fn calls(&self, task: &str) -> Vec<String> {
        let text = fs::read_to_string(self.roles().join(format!("calls.{task}"))).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn add(&self, title: &str, more: &[&str]) -> String {
        let args = ["task", "add", "--title", title].into_iter().chain(more.iter().copied());
        self.env.run(args).assert_code(0).stdout.trim().to_owned()
    }

    pub(crate) fn args(&self, more: &[&str]) -> Vec<String> {
        let agent = self.agent().display().to_string();
        let args = ["task", "run", "--agent-cmd", &agent].into_iter().chain(more.iter().copied());
        args.map(str::to_owned).collect()
    }

    pub(crate) fn command(&self, args: &[String]) -> std::process::Command {
        let mut command = self.env.dacapo(args);
        command.env("ROLES", self.roles());
        command
    }

    pub(crate) fn run(&self, more: &[&str]) -> Output {
        self.env.run_command(self.command(&self.args(more)))
    }

    /// Another command, in an environment in which agents find their roles.
    pub(crate) fn dacapo(&self, args: &[&str]) -> Output {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        self.env.run_command(self.command(&args))
    }

    pub(crate) fn show(&self, task: &str) -> Value {
        let output = self.dacapo(&["task", "show", task, "--json"]).assert_code(0);
        serde_json::from_str(&output.stdout).unwrap()
    }

    /// What the newest run of a task has recorded: its own events and those of its loops.
    pub(crate) fn events(&self, task: &str) -> Vec<Value> {
        let output = self.dacapo(&["events", task, "--json"]).assert_code(0);
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn of_type(&self, task: &str, name: &str) -> Vec<Value> {
        self.events(task).into_iter().filter(|event| event["type"] == name).collect()
    }

    pub(crate) fn status_in_file(&self, task: &str) -> String {
        let text = self.env.read(format!(".dacapo/tasks/{task}.md"));
        let line = text.lines().find(|line| line.starts_with("status:")).unwrap();
        line.trim_start_matches("status:").trim().to_owned()
    }

    /// The subjects of the merges on the branch that is checked out, the newest first.
    pub(crate) fn merges(&self) -> Vec<String> {
        let log = self.env.git(["log", "--first-parent", "--merges", "--format=%s"]);
        log.lines().map(str::to_owned).collect()
    }
}
