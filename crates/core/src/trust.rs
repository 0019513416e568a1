//! What of a repository could run, and one number for all of it: consent is given to that number.

use std::{collections::HashMap, fmt};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    config::{At, Config, Gate, SetupStep, optional_pattern},
    duration::Millis,
    policy::{GateFrom, GateIn, GateSpec, Origin, TestsMode},
    stages::{StageName, StageTask, Verify},
    unit::{Task, Unit},
    workflow::{StepKind, Workflow},
};

/// A command that a repository could make dacapo run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runnable {
    /// `gate`, `setup`, `teardown`, `baseline`, `coder gate` and the like of every stage, `backpressure`, `script`, `until`,
    /// `verify`.
    pub what: String,
    pub name: String,
    /// The command line, to the byte.
    pub command: String,
    /// Only if this file exists, or a file that matches.
    #[serde(rename = "if", default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// How long it may take, if the file says so.
    #[serde(rename = "timeout_ms", default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    /// The file that says so, from the repository's root.
    pub file: String,
    pub line: u32,
}

/// What a gate is called in a list of commands.
const GATE: &str = "gate";
const BASELINE: &str = "baseline";
/// What a demand says that is a switch.
const FLAG_ON: &str = "true";
const PROTECT: &str = "protect";
const SETUP: &str = "setup";
const TEARDOWN: &str = "teardown";

impl Runnable {
    /// Whether it is a gate of every loop or of a stage.
    fn is_gate(&self) -> bool {
        let stage = self.what.strip_suffix(GATE).map(str::trim_end);
        stage.is_some_and(|stage| stage.is_empty() || StageName::find(stage).is_some())
    }

    /// Whether it checks claims: a gate, or a check of whole units.
    pub fn is_check(&self) -> bool {
        self.is_gate() || (self.what == BASELINE && self.command != FLAG_ON)
    }

    /// Whether it makes a worktree ready, or runs before one goes.
    pub fn is_step(&self) -> bool {
        matches!(self.what.as_str(), SETUP | TEARDOWN)
    }

    /// Whether both would run the same in the same circumstances, wherever they stand in their file.
    pub fn is_same(&self, other: &Self) -> bool {
        let place = |runnable: &Self| Self { line: 0, ..runnable.clone() };
        place(self) == place(other)
    }
}

/// Everything that could run, in the order of the file.
pub fn runnables(repository: &Config) -> Vec<Runnable> {
    let file = &repository.file;
    let gates = |what: String, gates: &[At<Gate>]| -> Vec<Runnable> {
        let gates = gates.iter().map(|At { value: gate, line }| Runnable {
            what: what.clone(),
            name: gate.name.clone(),
            command: gate.run.clone(),
            condition: None,
            timeout: gate.timeout,
            file: file.clone(),
            line: *line,
        });
        gates.collect()
    };
    let steps = |what: &'static str, steps: &'_ [At<SetupStep>]| -> Vec<Runnable> {
        let steps = steps.iter().map(|At { value: step, line }| Runnable {
            what: what.to_owned(),
            name: step.run.trim().to_owned(),
            command: step.run.clone(),
            condition: step.condition.clone(),
            timeout: None,
            file: file.clone(),
            line: *line,
        });
        steps.collect()
    };
    let baseline = repository.units.baseline.iter().map(|At { value: check, line }| Runnable {
        what: BASELINE.to_owned(),
        name: check.name.clone(),
        command: check.run.clone(),
        condition: check.pattern.clone(),
        timeout: check.timeout,
        file: file.clone(),
        line: *line,
    });
    let worktree = &repository.worktree;
    let mut found = gates(GATE.to_owned(), &repository.gates);
    found.extend(steps(SETUP, &worktree.setup));
    found.extend(steps(TEARDOWN, &worktree.teardown));
    found.extend(baseline);
    for (stage, section) in &repository.stages.of {
        found.extend(gates(format!("{stage} {GATE}"), &section.gates));
    }
    found
}

/// The commands that verify the promises of tasks, in the order of the tasks and of their stages.
pub fn task_runnables(tasks: &[StageTask]) -> Vec<Runnable> {
    let mut found = Vec::new();
    for StageTask { spec, .. } in tasks {
        for (stage, completion) in &spec.completion.stages {
            let steps = completion.verify.iter().flat_map(Verify::steps);
            for (at, external) in steps.filter_map(Verify::command).enumerate() {
                let number = if at == 0 { String::new() } else { format!(" #{}", at + 1) };
                // The same words in another folder are another command.
                let folder =
                    external.working_dir.as_ref().map(|dir| format!(" in {dir}")).unwrap_or_default();
                found.push(Runnable {
                    what: "verify".to_owned(),
                    name: format!("{} {stage}{number}{folder}", spec.id),
                    command: external.command.clone(),
                    condition: None,
                    timeout: Some(external.timeout),
                    file: spec.file.clone(),
                    line: external.line,
                });
            }
        }
    }
    found
}

/// What the user agrees to who says that a task is done of which no run is recorded.
pub fn taken_as_done(task: &StageTask) -> Runnable {
    Runnable {
        what: "done".to_owned(),
        name: task.spec.id.to_string(),
        command: "status: done".to_owned(),
        condition: None,
        timeout: None,
        file: task.spec.file.clone(),
        line: 1,
    }
}

/// What the user agrees to who says that a task of a unit is complete which loops have worked on and no receipt proves.
pub fn taken_as_complete(unit: &Unit, task: &Task) -> Runnable {
    Runnable {
        what: "done".to_owned(),
        name: format!("{} #{} without a receipt", unit.id, task.spec.number),
        command: "status: complete".to_owned(),
        condition: None,
        timeout: None,
        file: task.spec.file.clone(),
        line: 1,
    }
}

/// What the user agrees to who takes a test as it is that a commit changed while agents worked.
pub fn tests_as_they_are(path: &str, commit: &str) -> Runnable {
    Runnable {
        what: "tests".to_owned(),
        name: path.to_owned(),
        command: format!("as commit {} has them", commit.get(..10).unwrap_or(commit)),
        condition: None,
        timeout: None,
        file: path.to_owned(),
        line: 1,
    }
}

/// Words of the repository's configuration that take proof away from stages: an agent that runs once, a promise that is believed
/// as it stands. They run nothing, and what they switch off is what dacapo is there for, so the user agrees to them as well.
pub fn proof_taken_away(repository: &Config) -> Vec<Runnable> {
    let word = |name: &str, key: &str, at: &Option<At<bool>>| {
        let at = at.as_ref().filter(|at| !at.value)?;
        Some(Runnable {
            what: "less proof for".to_owned(),
            name: name.to_owned(),
            command: format!("{key}: false"),
            condition: None,
            timeout: None,
            file: repository.file.clone(),
            line: at.line,
        })
    };
    let stages = &repository.stages;
    let all = [
        word("all stages", "ralph.enabled", &stages.enabled),
        word("all stages", "ralph.verify_promises", &stages.verify_promises),
    ];
    let own = stages.of.iter().flat_map(|(stage, section)| {
        [
            word(stage.as_str(), &format!("ralph.{stage}.enabled"), &section.enabled),
            word(stage.as_str(), &format!("ralph.{stage}.verify_promise"), &section.verify_promise),
        ]
    });
    all.into_iter().chain(own).flatten().collect()
}

/// What a repository's configuration asks of every claim: its checks, and what makes them stricter. Fewer of them is less proof, which
/// needs consent like a command does; more of them needs none.
pub fn demands(repository: &Config) -> Vec<Runnable> {
    let mut found: Vec<Runnable> = runnables(repository).into_iter().filter(Runnable::is_check).collect();
    let mut ask = |what: &str, value: &str, line: u32| {
        found.push(Runnable {
            what: what.to_owned(),
            name: value.to_owned(),
            command: value.to_owned(),
            condition: None,
            timeout: None,
            file: repository.file.clone(),
            line,
        });
    };
    let checks = &repository.checks;
    for pattern in &repository.protect {
        ask(PROTECT, &pattern.value, pattern.line);
    }
    for path in &checks.test_paths {
        ask("tests.paths", &path.value, path.line);
    }
    // The stricter of a row of words asks for what the weaker ones ask for.
    let modes = [("checked", TestsMode::Checked), ("sealed", TestsMode::Sealed)];
    let mut tests = |what: &str, mode: &Option<At<TestsMode>>| {
        for (word, known) in modes {
            if let Some(at) = mode.as_ref().filter(|at| at.value >= known) {
                ask(what, word, at.line);
            }
        }
    };
    tests("tests.mode", &checks.tests_mode);
    for (stage, section) in &repository.stages.of {
        tests(&format!("stages.{stage}.tests"), &section.tests);
    }
    for (word, place) in [("both", GateIn::Both), ("clean", GateIn::Clean)] {
        if let Some(at) = checks.gate_in.as_ref().filter(|at| at.value >= place) {
            ask("gate_in", word, at.line);
        }
    }
    if let Some(at) = checks.gate_from.as_ref().filter(|at| at.value == GateFrom::Base) {
        ask("gate_from", "base", at.line);
    }
    for (what, flag) in [(BASELINE, &checks.baseline), ("red_first", &checks.red_first)] {
        if let Some(at) = flag.as_ref().filter(|at| at.value) {
            ask(what, FLAG_ON, at.line);
        }
    }
    for kind in &repository.evidence {
        ask("evidence", kind.value.as_str(), kind.line);
    }
    if let Some(At { value, line }) = &repository.contradictions {
        if value.defaults {
            ask("contradictions", "default", *line);
        }
        for phrase in &value.phrases {
            ask("contradictions", phrase, *line);
        }
    }
    found
}

/// What `old` asked for and `new` does not.
///
/// A pattern that may match nothing protects what one does that has to match: files that are there, and those that are added later.
pub fn no_longer_asked(old: &[Runnable], new: &[Runnable]) -> Vec<Runnable> {
    let plain = |demand: &Runnable| match demand.what == PROTECT {
        true => {
            let pattern = optional_pattern(&demand.command).unwrap_or(&demand.command).to_owned();
            Runnable { name: pattern.clone(), command: pattern, ..demand.clone() }
        }
        false => demand.clone(),
    };
    let (old, new): (Vec<Runnable>, Vec<Runnable>) =
        (old.iter().map(plain).collect(), new.iter().map(plain).collect());
    not_granted(&old, &new).into_iter().cloned().collect()
}

/// The commands that prove the tasks of units, in the order of the units.
pub fn unit_runnables(units: &[Unit]) -> Vec<Runnable> {
    let of_unit = |unit: &Unit| -> Vec<Runnable> {
        let tasks = unit.tasks.iter().map(|Task { spec, .. }| Runnable {
            what: "backpressure".to_owned(),
            name: format!("{} #{}", unit.id, spec.number),
            command: spec.backpressure.clone(),
            condition: None,
            timeout: None,
            file: spec.file.clone(),
            line: spec.line,
        });
        tasks.collect()
    };
    units.iter().flat_map(of_unit).collect()
}

/// The scripts and checks of a workflow, in the order of its steps. A built-in one has none that need consent: it is dacapo's own.
pub fn workflow_runnables(workflow: &Workflow) -> Vec<Runnable> {
    let mut found = Vec::new();
    for step in &workflow.steps {
        let mut add = |what: &str, name: &str, command: &str, timeout: Option<Millis>| {
            found.push(Runnable {
                what: what.to_owned(),
                name: format!("{} {name}", workflow.name),
                command: command.to_owned(),
                condition: None,
                timeout,
                file: workflow.file.clone(),
                line: step.line,
            });
        };
        let (id, gates) = (
            step.id.as_str(),
            match &step.kind {
                StepKind::Agent(agent) => agent.gates.as_slice(),
                StepKind::Loop(looped) => looped.gates.as_slice(),
                _ => &[],
            },
        );
        match &step.kind {
            StepKind::Bash(bash) => add("script", id, &bash.script, Some(bash.timeout)),
            StepKind::Loop(looped) => {
                looped.until_bash.iter().for_each(|script| add("until", id, script, None))
            }
            _ => {}
        }
        for gate in gates {
            add("gate", &format!("{id} {}", gate.name), &gate.run, gate.timeout);
        }
    }
    found
}

/// The commands of `needed` that are not in `granted`. Their places in files do not count.
pub fn not_granted<'a>(needed: &'a [Runnable], granted: &[Runnable]) -> Vec<&'a Runnable> {
    // A list of ten thousand is looked up, not searched.
    let mut known: HashMap<(&str, &str), Vec<&Runnable>> = HashMap::new();
    for runnable in granted {
        known.entry((&runnable.name, &runnable.command)).or_default().push(runnable);
    }
    let is_known = |runnable: &Runnable| {
        let alike = known.get(&(runnable.name.as_str(), runnable.command.as_str()));
        alike.into_iter().flatten().any(|known| known.is_same(runnable))
    };
    needed.iter().filter(|runnable| !is_known(runnable)).collect()
}

/// The number that stands for a list of commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of these commands in this order. Every byte of a command counts, its place in its file does not.
    pub fn of(runnables: &[Runnable]) -> Self {
        let mut hash = Sha256::new();
        // Every part goes in with its length, so that no two lists look alike.
        let mut part = |bytes: Option<&[u8]>| {
            hash.update([u8::from(bytes.is_some())]);
            let bytes = bytes.unwrap_or_default();
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        part(Some(b"dacapo trust 1"));
        for Runnable { what, name, command, condition, timeout, file, line: _ } in runnables {
            part(Some(what.as_bytes()));
            part(Some(name.as_bytes()));
            part(Some(command.as_bytes()));
            part(condition.as_ref().map(String::as_bytes));
            part(timeout.map(|timeout| timeout.0.to_be_bytes()).as_ref().map(<[u8; 8]>::as_slice));
            part(Some(file.as_bytes()));
        }
        Self(hex(&hash.finalize()))
    }
}

/// The SHA-256 of some bytes.
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What differs between two lists of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    pub removed: Vec<&'a Runnable>,
    pub added: Vec<&'a Runnable>,
}

impl<'a> Changes<'a> {
    /// From `old` to `new`. Nothing removed and nothing added means that only the order differs.
    pub fn between(old: &'a [Runnable], new: &'a [Runnable]) -> Self {
        let mut removed: Vec<&Runnable> = old.iter().collect();
        let mut added = Vec::new();
        for runnable in new {
            match removed.iter().position(|known| known.is_same(runnable)) {
                Some(at) => drop(removed.remove(at)),
                None => added.push(runnable),
            }
        }
        Self { removed, added }
    }
}

/// Gates of a loop that began earlier and came from its repository, as far as `granted` does not cover them.
pub fn uncovered<'a>(gates: &'a [GateSpec], granted: &[Runnable]) -> Vec<&'a GateSpec> {
    gates
        .iter()
        // A question runs no command of the repository: it starts the user's agent.
        .filter(|gate| gate.origin == Origin::Repository && gate.ask.is_none())
        .filter(|gate| {
            !granted
                .iter()
                .any(|known| known.is_gate() && known.name == gate.name && known.command == gate.run)
        })
        .collect()
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
