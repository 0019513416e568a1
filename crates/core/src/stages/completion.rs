//! `completion` of a task: what its outcome is, and how the promise of a stage is verified for this task (req 198).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    StageName,
    reader::{HeadMap, HeadReader},
};
use crate::{
    duration::Millis,
    judge::{expectation::Expectation, promise::PromiseRule},
    policy::{GateSpec, Origin, stays_inside},
    yaml::{YamlNode, YamlValue},
};

/// How long a command may take unless the task says otherwise: one that hangs ends the claim, not the task.
pub const VERIFY_TIMEOUT: Millis = Millis::from_secs(300);
/// How many steps a verification may have.
const MAX_STEPS: usize = 20;

const KEYS: [&str; 3] = ["outcome", "criteria", "stages"];
const STAGE_KEYS: [&str; 2] = ["promise", "verify"];
const VERIFY_KEYS: [&str; 8] = [
    "method",
    "command",
    "success_exit_code",
    "output_contains",
    "output_not_contains",
    "timeout",
    "working_dir",
    "steps",
];
const METHODS: [&str; 4] = ["string_match", "external", "semantic", "multi_stage"];

/// What it takes for a task to be done, beyond what every task needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCompletion {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<StageName, StageCompletion>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageCompletion {
    /// In place of the configured promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

/// How a promise is verified. The promise itself is needed in every case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum Verify {
    /// The promise is enough.
    StringMatch,
    External(External),
    /// An agent is asked whether the criteria are met. Its no refuses; its yes decides nothing alone: the promise, the evidence
    /// of the role and the gates have to hold as well.
    Semantic,
    /// All of these, in this order.
    MultiStage {
        steps: Vec<Verify>,
    },
}

/// A command whose exit code and output decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    pub command: String,
    #[serde(default)]
    pub success_exit_code: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_contains: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_not_contains: Option<String>,
    pub timeout: Millis,
    /// From the top of the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// The line of the task file that the command stands in.
    #[serde(default)]
    pub line: u32,
}

impl External {
    /// The check of a loop that it is.
    pub fn gate(&self) -> GateSpec {
        let expect = Expectation {
            exit_code: self.success_exit_code,
            output_contains: self.output_contains.clone(),
            output_not_contains: self.output_not_contains.clone(),
        };
        GateSpec {
            timeout: self.timeout,
            origin: Origin::Repository,
            expect,
            working_dir: self.working_dir.clone(),
            ..GateSpec::of_command(&self.command)
        }
    }
}

impl Verify {
    /// The command that decides, if it is one.
    pub fn command(&self) -> Option<&External> {
        if let Self::External(external) = self { Some(external) } else { None }
    }

    /// Its steps, in the order in which they are taken; the first that refuses ends them.
    pub fn steps(&self) -> Vec<&Verify> {
        match self {
            Self::MultiStage { steps } => steps.iter().flat_map(Self::steps).collect(),
            one => vec![one],
        }
    }
}

impl TaskCompletion {
    /// Every command that the task can run: the user agrees to them before they do (fault K1).
    pub fn commands(&self) -> Vec<&str> {
        let verifies = self.stages.values().filter_map(|stage| stage.verify.as_ref());
        verifies
            .flat_map(Verify::steps)
            .filter_map(Verify::command)
            .map(|external| external.command.as_str())
            .collect()
    }
}

pub(super) fn read(reader: &mut HeadReader<'_>, node: &YamlNode) -> TaskCompletion {
    let Some(map) = reader.map(node, "`completion`", &KEYS) else { return TaskCompletion::default() };
    let mut completion = TaskCompletion {
        outcome: reader.text(&map, "completion", "outcome"),
        criteria: reader.words(&map, "completion", "criteria"),
        stages: BTreeMap::new(),
    };
    let stages = map.get("stages").map(|node| node.to_owned());
    let Some(stages) = stages.and_then(|node| reader.map(&node, "`completion.stages`", &StageName::WORDS))
    else {
        return completion;
    };
    for name in StageName::ALL {
        let Some(node) = stages.get(name.as_str()) else { continue };
        let path = format!("completion.stages.{name}");
        let Some(map) = reader.map(node, &format!("`{path}`"), &STAGE_KEYS) else { continue };
        let promise = promise(reader, &map, &path);
        let verify = map.get("verify").and_then(|node| verify(reader, node, &format!("{path}.verify"), true));
        completion.stages.insert(name, StageCompletion { promise, verify });
    }
    completion
}

fn promise(reader: &mut HeadReader<'_>, map: &HeadMap, path: &str) -> Option<String> {
    let text = reader.text(map, path, "promise")?;
    let place = map.get("promise")?.place;
    let fix = "write only the words inside of the tag, like `promise: IMPLEMENTATION_COMPLETE`";
    if let Err(error) = PromiseRule::new(text.as_str()) {
        reader.wrong(place, error.to_string(), fix);
        return None;
    }
    if text.contains('\n') || text.trim() != text {
        reader.wrong(place, format!("`{path}.promise` must be one line without blanks around it"), fix);
        return None;
    }
    Some(text)
}

fn verify(reader: &mut HeadReader<'_>, node: &YamlNode, path: &str, may_have_steps: bool) -> Option<Verify> {
    let map = reader.map(node, &format!("`{path}`"), &VERIFY_KEYS)?;
    let Some(method) = map.get("method") else {
        let what = format!("`{path}` has no `method`");
        reader.wrong(node.place, what, format!("write `method:` and one of {}", METHODS.join(", ")));
        return None;
    };
    let place = method.place;
    let word = match &method.value {
        YamlValue::Scalar { text, .. } => text.as_str(),
        YamlValue::List(_) | YamlValue::Map(_) => "",
    };
    let belongs: &[&str] = match word {
        "external" => &VERIFY_KEYS[..7],
        "multi_stage" => &["method", "steps"],
        _ => &["method"],
    };
    for key in VERIFY_KEYS.iter().filter(|key| !belongs.contains(key) && METHODS.contains(&word)) {
        if let Some(place) = map.place(key) {
            let what = format!("`{path}.{key}` means nothing with `method: {word}`");
            reader.wrong(place, what, "take it away, or choose another method");
        }
    }
    match word {
        "string_match" => Some(Verify::StringMatch),
        "semantic" => Some(Verify::Semantic),
        "external" => external(reader, &map, path, node).map(Verify::External),
        "multi_stage" if may_have_steps => {
            let steps = match map.get("steps").map(|node| &node.value) {
                Some(YamlValue::List(steps)) if !steps.is_empty() && steps.len() <= MAX_STEPS => {
                    steps.clone()
                }
                _ => {
                    let what = format!("`{path}.steps` must be a list of 1 to {MAX_STEPS} verifications");
                    let fix = "write `steps: [{method: external, command: make test}]`";
                    reader.wrong(map.place("steps").unwrap_or(place), what, fix);
                    return None;
                }
            };
            let read: Vec<Verify> = steps
                .iter()
                .filter_map(|step| verify(reader, step, &format!("{path}.steps[]"), false))
                .collect();
            (read.len() == steps.len()).then_some(Verify::MultiStage { steps: read })
        }
        "multi_stage" => {
            reader.wrong(
                place,
                format!("`{path}` cannot have steps of its own"),
                "write them one below the other",
            );
            None
        }
        _ => {
            let what = format!("`{path}.method` must be one of {}", METHODS.join(", "));
            reader.wrong(place, what, "choose one of them");
            None
        }
    }
}

fn external(reader: &mut HeadReader<'_>, map: &HeadMap, path: &str, node: &YamlNode) -> Option<External> {
    let command = match map.get("command") {
        Some(_) => reader.text(map, path, "command"),
        None => {
            let what = format!("`{path}` has no `command`");
            reader.wrong(node.place, what, "add the command that proves it, like `command: make test`");
            None
        }
    };
    let success_exit_code = reader.exit_code(map, path, "success_exit_code");
    let timeout = reader.seconds(map, path, "timeout");
    let working_dir = reader.text(map, path, "working_dir").filter(|dir| {
        let is_inside = stays_inside(dir);
        if let Some(place) = map.place("working_dir").filter(|_| !is_inside) {
            let what = format!("`{path}.working_dir` must be relative and stay inside the repository");
            reader.wrong(place, what, "write a folder from the top of the repository");
        }
        is_inside
    });
    Some(External {
        command: command?,
        success_exit_code: success_exit_code.unwrap_or(0),
        output_contains: reader.text(map, path, "output_contains"),
        output_not_contains: reader.text(map, path, "output_not_contains"),
        timeout: timeout.unwrap_or(VERIFY_TIMEOUT),
        working_dir,
        line: map.get("command")?.place.line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::expectation::FoundWords;

    #[test]
    fn a_command_becomes_a_check_of_the_loop() {
        // req 198
        let external = External {
            command: "make test".to_owned(),
            success_exit_code: 3,
            output_contains: Some("ok".to_owned()),
            output_not_contains: Some("skipped".to_owned()),
            timeout: Millis(1000),
            working_dir: Some("web".to_owned()),
            line: 1,
        };
        let gate = external.gate();
        assert_eq!(
            (gate.name.as_str(), gate.run.as_str(), gate.timeout),
            ("make test", "make test", Millis(1000))
        );
        assert_eq!((gate.origin, gate.working_dir.as_deref()), (Origin::Repository, Some("web")));
        let found = |wanted, forbidden| FoundWords {
            printed_wanted: Some(wanted),
            printed_forbidden: Some(forbidden),
        };
        for (code, found, refusal) in [
            (3, found(true, false), None),
            (0, found(true, false), Some("exited 0, not 3")),
            (3, found(false, false), Some("did not print `ok`")),
            (3, found(true, true), Some("printed `skipped`, which it must not")),
        ] {
            assert_eq!(gate.expect.refusal(code, found).as_deref(), refusal);
        }
        assert_eq!(VERIFY_TIMEOUT, GateSpec::TIMEOUT);
    }
}
