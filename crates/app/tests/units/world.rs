//! Repositories with units, made by tests, and what can be asked about them afterwards.

use std::collections::BTreeMap;

use dacapo_testkit::{Output, TestEnv, unit_agent};
use serde_json::Value;

/// A repository with units.
pub(crate) struct World {
    pub(crate) env: TestEnv,
}

impl World {
    pub(crate) fn new() -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
        env.git_init();
        Self { env }
    }

    pub(crate) fn plan(&self, unit: &str, depends_on: &[&str]) -> &Self {
        let text = format!("---\nunit: {unit}\ndepends_on: [{}]\n---\n\n# {unit}\n", depends_on.join(", "));
        self.env.write(format!("specs/tasks/{unit}/IMPLEMENTATION_PLAN.md"), text);
        self
    }

    /// A task whose agent does what `body` says.
    pub(crate) fn task(&self, unit: &str, number: u32, depends_on: &[u32], proof: &str, body: &str) -> &Self {
        let depends_on: Vec<String> = depends_on.iter().map(u32::to_string).collect();
        let text = format!(
            "---\ntask: {number}\nstatus: pending\nbackpressure: {}\ndepends_on: [{}]\n---\n\n# Step {number}\n\n{body}\n",
            serde_json::to_string(proof).unwrap(),
            depends_on.join(", ")
        );
        self.env.write(format!("specs/tasks/{unit}/{number:02}-step.md"), text);
        self
    }

    /// A unit of tasks that each make a file, one after the other.
    pub(crate) fn unit(&self, unit: &str, tasks: u32, depends_on: &[&str]) -> &Self {
        self.plan(unit, depends_on);
        for number in 1..=tasks {
            let before: Vec<u32> = (1..number).collect();
            let file = format!("src/{unit}-{number}.txt");
            self.task(
                unit,
                number,
                before.last().map_or(&[], std::slice::from_ref),
                &format!("test -f {file}"),
                &format!("do: mkdir -p src && echo {unit} {number} > {file}"),
            );
        }
        self
    }

    pub(crate) fn config(&self, text: &str) -> &Self {
        self.env.write(".dacapo/config.yaml", text);
        self
    }

    /// Commits everything that was written.
    pub(crate) fn commit(&self) -> &Self {
        self.env.git(["add", "-A"]);
        self.env.git(["commit", "-qm", "units"]);
        self
    }

    pub(crate) fn args(&self, extra: &[&str]) -> Vec<String> {
        let agent = unit_agent().display().to_string();
        let mut args: Vec<String> =
            ["unit", "run", "--trust", "--restart-delay", "0s", "--agent-cmd"].map(str::to_owned).into();
        args.push(agent);
        args.extend(extra.iter().map(|word| (*word).to_owned()));
        args
    }

    /// `dacapo unit run` with the agent for units.
    pub(crate) fn run(&self, extra: &[&str]) -> Output {
        self.env.run(self.args(extra))
    }

    /// The events of runs, in order.
    pub(crate) fn run_events(&self) -> Vec<Value> {
        self.env.events(None).into_iter().filter(|event| event.get("run").is_some()).collect()
    }

    /// How often each commit message occurs on any branch.
    pub(crate) fn subjects(&self) -> BTreeMap<String, usize> {
        let mut subjects = BTreeMap::new();
        for line in self.env.git(["log", "--branches", "--format=%s"]).lines() {
            *subjects.entry(line.to_owned()).or_default() += 1;
        }
        subjects
    }

    /// A file of a commit, if it is there.
    pub(crate) fn at(&self, commit: &str, path: &str) -> Option<String> {
        let mut git = self.env.command("git");
        git.args(["show", &format!("{commit}:{path}")]).current_dir(self.env.workspace());
        let output = git.output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The types of events about a unit.
pub(crate) fn types_of<'a>(events: &'a [Value], unit: &str) -> Vec<&'a str> {
    events.iter().filter(|event| event["unit"] == unit).filter_map(|event| event["type"].as_str()).collect()
}
