//! A repository with a unit of three tasks, and loops in it.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::ExitCode};

use dacapo_core::{
    agent::AgentCommand,
    duration::Millis,
    event::{Grant, LoopEvent, Reason},
    ids::LoopId,
    item::ItemSource,
    judge::promise::PromiseRule,
    policy::{GateSpec, Policy},
    receipt::Receipt,
    unit::{
        TaskSet, check, graph,
        items::{self, UnitSource},
    },
};
use dacapo_engine::{
    home::Home,
    observer::NoObserver,
    proof,
    store::Store,
    supervisor::{self, NewLoop, ResumeLoop},
};
use dacapo_testkit::TestEnv;

/// The word that makes this binary a supervisor.
pub(crate) const LOOP: &str = "supervise-a-loop";

/// The word that makes this binary check the receipt of a loop again.
pub(crate) const CHECK_AGAIN: &str = "check-a-receipt-again";

/// The folder of the unit.
pub(crate) const UNIT: &str = "specs/tasks/app";

pub(crate) struct World {
    pub(crate) env: TestEnv,
}

/// How a loop ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) id: LoopId,
    pub(crate) reason: Reason,
    pub(crate) detail: String,
}

/// What a task file holds.
pub(crate) fn file(number: u32, status: &str, depends_on: &str) -> String {
    format!(
        "---\ntask: {number}\nstatus: {status}\nbackpressure: \"test -e done-{number}\"\ndepends_on: [{depends_on}]\n---\n# Title {number}\n"
    )
}

/// The path of a task file.
pub(crate) fn path(number: u32) -> String {
    format!("{UNIT}/0{number}-t.md")
}

fn source(turn: Option<TaskSet>) -> ItemSource {
    ItemSource::Unit(UnitSource { dir: "specs/tasks".to_owned(), turn })
}

impl World {
    /// Tasks 1 and 2 are ready, 3 waits for both.
    pub(crate) fn new() -> Self {
        let env = TestEnv::new(std::env::current_exe().expect("this binary"));
        env.write(format!("{UNIT}/IMPLEMENTATION_PLAN.md"), "---\nunit: app\n---\n# App\n");
        for (number, depends_on) in [(1, ""), (2, ""), (3, "1, 2")] {
            env.write(path(number), file(number, "pending", depends_on));
        }
        env.git_init();
        Self { env }
    }

    /// A turn in which `agent`, a shell script, works.
    pub(crate) fn turn(&self, agent: &str) -> Policy {
        let files: Vec<(String, String)> = (1..=3).map(|n| (path(n), self.env.read(path(n)))).collect();
        let tasks: Vec<_> =
            files.iter().map(|(path, text)| check::task(path, text.as_bytes()).unwrap()).collect();
        let gates = tasks.iter().map(|task| GateSpec {
            name: format!("task #{}", task.spec.number),
            item: Some(items::key(&task.spec)),
            ..GateSpec::of_command(&task.spec.backpressure)
        });
        let specs = gates.collect();
        let set = TaskSet { unit: "app".parse().unwrap(), ready: graph::ready_at_start(&tasks), tasks };
        self.policy(agent).with(|p| {
            p.gates.specs = specs;
            p.items = items::items(&set);
            p.source = Some(source(Some(set)));
        })
    }

    /// A loop in the folder of units, without tasks of its own.
    pub(crate) fn policy(&self, agent: &str) -> Policy {
        let script = self.env.root().join("agent.sh");
        fs::write(&script, agent).unwrap();
        let agent = AgentCommand::parse("sh", &[script.display().to_string()]).unwrap();
        Policy::restart(agent, PromiseRule::new("DONE").unwrap()).with(|p| {
            p.source = Some(source(None));
            p.limits.max_iterations = 3;
            p.pace.restart_delay = Millis(0);
        })
    }

    /// Runs a loop to its end.
    pub(crate) fn run(&self, policy: &Policy) -> Ended {
        self.try_run(policy, &[]).expect("an end")
    }

    /// Runs a loop; `None` if it was killed.
    pub(crate) fn try_run(&self, policy: &Policy, env: &[(&str, &str)]) -> Option<Ended> {
        self.ordered(policy, "Complete one of the tasks.", env)
    }

    /// Runs a loop with this prompt to its end.
    pub(crate) fn run_with_prompt(&self, policy: &Policy, prompt: &str) -> Ended {
        self.ordered(policy, prompt, &[]).expect("an end")
    }

    fn ordered(&self, policy: &Policy, prompt: &str, env: &[(&str, &str)]) -> Option<Ended> {
        let order = self.env.root().join("order.json");
        fs::write(&order, serde_json::to_vec(&(policy, prompt)).unwrap()).unwrap();
        self.obeyed(&order.display().to_string(), env)
    }

    /// Checks the receipt of a loop again, with this in the variable EXTRA: what each gate comes to, a line each.
    pub(crate) fn check_again(&self, id: &LoopId, extra: &str) -> String {
        let mut command = self.env.dacapo([CHECK_AGAIN, id.as_str()]);
        command.env("EXTRA", extra);
        self.env.run_command(command).stdout
    }

    /// Goes on with a loop.
    pub(crate) fn resume(&self, id: &LoopId) -> Ended {
        self.obeyed(id.as_str(), &[]).expect("an end")
    }

    fn obeyed(&self, order: &str, env: &[(&str, &str)]) -> Option<Ended> {
        let mut command = self.env.dacapo([LOOP, order]);
        command.envs(env.iter().copied());
        let output = self.env.run_command(command);
        let line = output.stdout;
        let mut words = line.trim_end().splitn(3, '\t');
        let (id, reason) = (words.next()?.parse().ok()?, words.next()?);
        let reason = serde_json::from_value(reason.into()).unwrap();
        Some(Ended { id, reason, detail: words.next().unwrap_or_default().to_owned() })
    }

    /// What was recorded of it.
    pub(crate) fn events(&self, id: &LoopId) -> Vec<LoopEvent> {
        let events = self.store().events(id, 0).unwrap();
        events.into_iter().map(|envelope| envelope.event).collect()
    }

    /// The only loop there is.
    pub(crate) fn only_loop(&self) -> LoopId {
        self.store().with_prefix("").unwrap().remove(0).view.id
    }

    pub(crate) fn receipt(&self, id: &LoopId) -> Option<Receipt> {
        proof::receipt(&self.store(), id).unwrap()
    }

    fn store(&self) -> Store {
        Store::open(&Home::at(self.env.dacapo_home()).database()).unwrap()
    }

    /// The subjects of the commits since the plan, oldest first.
    pub(crate) fn subjects(&self) -> Vec<String> {
        let log = self.env.git(["log", "--reverse", "--format=%s"]);
        log.lines().skip(1).map(str::to_owned).collect()
    }

    /// What the task files say in a commit.
    pub(crate) fn statuses(&self, commit: &str) -> Vec<String> {
        let status = |n| {
            let text = self.env.git(["show", &format!("{commit}:{}", path(n))]);
            check::reread(&path(n), text.as_bytes()).unwrap().to_string()
        };
        (1..=3).map(status).collect()
    }

    /// What git has to say about the files.
    pub(crate) fn dirt(&self) -> String {
        self.env.git(["status", "--porcelain"])
    }

    /// A git that kills whoever calls it, before or after the n-th of these calls.
    pub(crate) fn deadly_git(&self) {
        let real = self.env.command("sh").args(["-c", "command -v git"]).output().unwrap();
        let real = String::from_utf8(real.stdout).unwrap();
        let count = self.env.root().join("count");
        let script = format!(
            r#"#!/bin/sh
step=
for word in "$@"; do case "$word" in commit-tree|update-ref) step=1;; esac; done
if [ -n "$step" ] && [ -n "$KILL_AT" ]; then
  n=$(cat '{count}' 2>/dev/null || echo 0); n=$((n + 1)); echo $n > '{count}'
  if [ "$n" = "$KILL_AT" ] && [ "$KILL_WHEN" = before ]; then kill -9 $PPID; exit 1; fi
  if [ "$n" = "$KILL_AT" ]; then {real} "$@"; kill -9 $PPID; exit 1; fi
fi
exec {real} "$@"
"#,
            count = count.display(),
            real = real.trim(),
        );
        let git = self.env.root().join("bin/git");
        fs::write(&git, script).unwrap();
        fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Supervises the loop whose policy is in a file, or goes on with the one of this name; says how it ended.
pub(crate) fn obey(order: &str) -> ExitCode {
    let home = Home::at(std::env::var_os("DACAPO_HOME").expect("a home"));
    let finished = if Path::new(order).is_absolute() {
        let (policy, prompt): (Policy, String) =
            serde_json::from_slice(&fs::read(order).expect("an order")).expect("a policy and a prompt");
        let new = NewLoop {
            policy,
            prompt: Some(prompt),
            project: "units".parse().expect("a name"),
            task: None,
            workspace: std::env::current_dir().expect("a folder"),
            after: vec![],
            parent: None,
            run: None,
            purpose: None,
            base: None,
            filters: None,
            programs: Default::default(),
            steers: Vec::new(),
            is_detached: false,
        };
        new.check().and_then(|new| supervisor::run(&home, new, &mut NoObserver))
    } else {
        let id = order.parse().expect("a loop's name");
        supervisor::resume(
            &home,
            ResumeLoop { id, grant: Grant::default(), programs: Default::default(), is_detached: false },
            &mut NoObserver,
        )
    };
    match finished {
        Ok(ended) => {
            let reason = serde_json::to_value(ended.reason).expect("a word");
            println!("{}\t{}\t{}", ended.id, reason.as_str().unwrap_or_default(), ended.detail);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Checks the receipt of a loop again; says what each gate came to.
pub(crate) fn check_again(id: &str) -> ExitCode {
    let home = Home::at(std::env::var_os("DACAPO_HOME").expect("a home"));
    let store = Store::open(&home.database()).expect("a journal");
    let id: LoopId = id.parse().expect("a loop's name");
    let receipt = proof::receipt(&store, &id).expect("a journal").expect("a receipt");
    let again = proof::check_again(&home, &store, &id, &receipt, |_| ()).expect("gates that run");
    for gate in again.gates {
        let refusal = gate.refusal.map(|refusal| format!(", {refusal}")).unwrap_or_default();
        println!("exit {}{refusal}", gate.now.exit_code);
    }
    ExitCode::SUCCESS
}

/// A line of shell that sets the status in a task's file.
pub(crate) fn says(number: u32, status: &str) -> String {
    format!("sed -i 's/^status: .*/status: {status}/' {}\n", path(number))
}

/// Lines of shell that do a task and say so.
pub(crate) fn does(number: u32) -> String {
    format!("touch done-{number}\n{}", says(number, "complete"))
}
