//! `ralph` and `stages`: the roles that a task passes through, their limits, promises, agents and checks.

use std::collections::BTreeMap;

use super::{At, Both, Config, ConfigSection, Gate, SettingSource, Sourced, gates};
use crate::{
    judge::promise::PromiseRule,
    policy::{GateSpec, Origin, TestsMode},
    stages::{
        ChosenLimit, IterationLimit, PastRun, RalphLoopConfig, Stage, StageMode, StageName, equal_promises,
        machine::PlannedStage,
    },
    yaml::{TextPlace, YamlValue},
};

/// The second name of a setting is accepted as well.
pub(super) const RALPH_KEYS: [&str; 9] = [
    "enabled",
    "default_max_iterations",
    "max_iterations",
    "verify_promises",
    "verify_promise",
    "coder",
    "reviewer",
    "tester",
    "qa",
];
pub(super) const LOOP_KEYS: [&str; 5] =
    ["enabled", "max_iterations", "completion_promise", "verify_promise", "verify_promises"];
pub(super) const STAGE_KEYS: [&str; 4] = ["agent", "model", "tests", "gates"];

/// What a file says about stages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stages {
    pub enabled: Option<At<bool>>,
    pub default_max_iterations: Option<At<u32>>,
    pub verify_promises: Option<At<bool>>,
    pub of: BTreeMap<StageName, StageSection>,
}

/// What a file says about one stage, in `ralph` and in `stages`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageSection {
    pub enabled: Option<At<bool>>,
    pub max_iterations: Option<At<IterationLimit>>,
    pub completion_promise: Option<At<String>>,
    pub verify_promise: Option<At<bool>>,
    pub agent: Option<At<String>>,
    pub model: Option<At<String>>,
    pub tests: Option<At<TestsMode>>,
    pub gates: Vec<At<Gate>>,
}

/// The stages that are in force, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveStages {
    /// The limit of a loop that is no stage; every stage has a limit of its own.
    pub default_max_iterations: Sourced<u32>,
    /// In the order in which a task passes through them.
    pub stages: Vec<EffectiveStage>,
}

/// A stage that is in force, with where its settings come from.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveStage {
    pub stage: Stage,
    pub mode_from: SettingSource,
    pub max_iterations_from: SettingSource,
    pub promise_from: SettingSource,
    pub verifies_from: SettingSource,
    pub agent_from: SettingSource,
    pub model_from: SettingSource,
    pub tests_from: SettingSource,
    /// Of each gate of the stage.
    pub gates_from: Vec<SettingSource>,
}

pub(super) fn read(top: &mut ConfigSection<'_>) -> Stages {
    let mut read = Stages::default();
    let mut promises_at = BTreeMap::new();
    if let Some(mut section) = top.section("ralph", &RALPH_KEYS) {
        read.enabled = section.flag("enabled");
        read.default_max_iterations =
            aliased(&mut section, ["default_max_iterations", "max_iterations"], |s, key| s.count(key, 1));
        read.verify_promises =
            aliased(&mut section, ["verify_promises", "verify_promise"], |s, key| s.flag(key));
        for name in StageName::ALL {
            let Some(mut below) = section.section(name.as_str(), &LOOP_KEYS) else { continue };
            let of = read.of.entry(name).or_default();
            of.enabled = below.flag("enabled");
            of.max_iterations = iteration_limit(&mut below);
            of.verify_promise =
                aliased(&mut below, ["verify_promise", "verify_promises"], |s, key| s.flag(key));
            let place = below.place("completion_promise");
            of.completion_promise = promise(&mut below);
            promises_at.extend(place.map(|place| (name, place)));
        }
        equal(&mut section, &read, &promises_at);
    }
    if let Some(mut section) = top.section("stages", &StageName::WORDS) {
        for name in StageName::ALL {
            let Some(mut below) = section.section(name.as_str(), &STAGE_KEYS) else { continue };
            let of = read.of.entry(name).or_default();
            of.agent = below.text("agent");
            of.model = below.text("model");
            of.tests = below.choice("tests", &TestsMode::WORDS);
            of.gates = gates::read(&mut below);
        }
    }
    read
}

/// The value of a setting that has two names, of which a file may use one.
fn aliased<T>(
    section: &mut ConfigSection<'_>,
    names: [&str; 2],
    read: impl Fn(&mut ConfigSection<'_>, &str) -> Option<T>,
) -> Option<T> {
    let [name, alias] = names;
    if section.has(name)
        && let Some(place) = section.place(alias)
    {
        let (name, alias) = (section.path(name), section.path(alias));
        section.wrong(place, format!("`{alias}` is the same as `{name}`, which is there too"));
    }
    read(section, name).or_else(|| read(section, alias))
}

/// A number, or `auto`.
fn iteration_limit(section: &mut ConfigSection<'_>) -> Option<At<IterationLimit>> {
    let node = section.take("max_iterations")?;
    let line = node.place.line;
    if let YamlValue::Scalar { text, is_plain: true } = &node.value {
        if text == "auto" {
            return Some(At { value: IterationLimit::Auto, line });
        }
        if text.bytes().all(|b| b.is_ascii_digit())
            && let Ok(number) = text.parse::<u32>()
            && (1..=1_000_000_000).contains(&number)
        {
            return Some(At { value: IterationLimit::Fixed(number), line });
        }
    }
    let what = format!("`{}` must be a whole number, 1 or more, or `auto`", section.path("max_iterations"));
    section.wrong(node.place, what);
    None
}

/// Words that can stand in a tag on one line.
fn promise(section: &mut ConfigSection<'_>) -> Option<At<String>> {
    let place = section.place("completion_promise")?;
    let name = section.path("completion_promise");
    let found = section.text("completion_promise")?;
    let text = &found.value;
    let what = if let Err(error) = PromiseRule::new(text.as_str()) {
        error.to_string()
    } else if text.contains(['\n', '\r']) {
        format!("`{name}` must be one line: the tag stands alone on its line")
    } else if text.trim() != text {
        format!("`{name}` must not begin or end with a blank: the words must be equal to the letter")
    } else {
        return Some(found);
    };
    section.wrong(place, what);
    None
}

/// Complains about a promise of this file that another stage has, too.
fn equal(section: &mut ConfigSection<'_>, read: &Stages, promises_at: &BTreeMap<StageName, TextPlace>) {
    let stages: Vec<Stage> = StageName::ALL
        .into_iter()
        .map(|name| {
            let own = read.of.get(&name).and_then(|of| of.completion_promise.as_ref());
            let default = Stage::of(name);
            Stage { promise: own.map_or(default.promise.clone(), |at| at.value.clone()), ..default }
        })
        .collect();
    if let Some((first, second)) = equal_promises(&stages) {
        let place = promises_at.get(&second).or_else(|| promises_at.get(&first));
        if let Some(place) = place {
            section.wrong(*place, format!("the stages `{first}` and `{second}` have the same promise"));
        }
    }
}

/// What follows from both files. The user's word goes first; of checks every one counts, and a repository raises no limit of
/// the user's: `at_most` is how many iterations the user lets any loop have.
pub(super) fn resolve(both: &Both<'_>, at_most: u32) -> EffectiveStages {
    let defaults = RalphLoopConfig::default();
    let stages = StageName::ALL.map(|name| stage(both, name, at_most, &defaults));
    EffectiveStages {
        default_max_iterations: first(
            both,
            |config| config.stages.default_max_iterations.clone(),
            defaults.max_iterations,
        ),
        stages: stages.into(),
    }
}

/// The user's value, or the repository's, or the default.
fn first<T: Clone>(both: &Both<'_>, of: impl Fn(&Config) -> Option<At<T>>, default: T) -> Sourced<T> {
    let found = [both.user, both.repository].into_iter().find_map(|config| of(config).map(|at| (config, at)));
    match found {
        Some((config, At { value, line })) => {
            Sourced { value, from: SettingSource::File { file: config.file.clone(), line } }
        }
        None => Sourced { value: default, from: SettingSource::Default },
    }
}

fn stage(both: &Both<'_>, name: StageName, at_most: u32, defaults: &RalphLoopConfig) -> EffectiveStage {
    let role = Stage::of(name);
    let of = |config: &Config| config.stages.of.get(&name).cloned().unwrap_or_default();
    // The general switch turns all off; the one of a stage turns that one off (req 170).
    let all = first(both, |config| config.stages.enabled.clone(), defaults.enabled);
    let own = first(both, |config| of(config).enabled, true);
    let enabled = if all.value { own } else { all };
    let all = first(both, |config| config.stages.verify_promises.clone(), defaults.verify_promise);
    let own = first(both, |config| of(config).verify_promise, true);
    let verifies = if all.value { own } else { all };
    let mut limit = first(both, |config| of(config).max_iterations, role.max_iterations);
    if let IterationLimit::Fixed(number) = limit.value {
        limit.value = IterationLimit::Fixed(number.min(at_most.max(1)));
    }
    let promise = first(both, |config| of(config).completion_promise, role.promise.clone());
    let agent = first(both, |config| of(config).agent.map(some), None);
    let model = first(both, |config| of(config).model.map(some), None);
    let tests = first(both, |config| of(config).tests, role.tests);
    let (mut gates, mut gates_from) = (Vec::new(), Vec::new());
    for (config, origin) in [(both.user, Origin::User), (both.repository, Origin::Repository)] {
        for At { value: gate, line } in of(config).gates {
            gates.push(GateSpec {
                name: gate.name,
                timeout: gate.timeout.unwrap_or(GateSpec::TIMEOUT),
                retries: gate.retries,
                origin,
                ..GateSpec::of_command(&gate.run)
            });
            gates_from.push(SettingSource::File { file: config.file.clone(), line });
        }
    }
    EffectiveStage {
        stage: Stage {
            name,
            mode: if enabled.value { StageMode::Loop } else { StageMode::SinglePass },
            max_iterations: limit.value,
            promise: promise.value,
            verifies: verifies.value,
            agent: agent.value,
            model: model.value,
            tests: tests.value,
            gates,
        },
        mode_from: enabled.from,
        max_iterations_from: limit.from,
        promise_from: promise.from,
        verifies_from: verifies.from,
        agent_from: agent.from,
        model_from: model.from,
        tests_from: tests.from,
        gates_from,
    }
}

fn some<T>(at: At<T>) -> At<Option<T>> {
    At { value: Some(at.value), line: at.line }
}

impl EffectiveStages {
    /// Why tasks cannot be run with these: both files are right by themselves, and together they are not.
    pub fn problem(&self) -> Option<String> {
        let stages: Vec<Stage> = self.stages.iter().map(|known| known.stage.clone()).collect();
        let (first, second) = equal_promises(&stages)?;
        let from: Vec<String> = self
            .stages
            .iter()
            .filter(|known| known.stage.name == first || known.stage.name == second)
            .map(|known| known.promise_from.to_string())
            .collect();
        Some(format!("the stages `{first}` and `{second}` have the same promise ({})", from.join(", ")))
    }

    /// A warning about a reviewer that reviews its own work; `default` is the agent of stages that name none.
    pub fn self_review(&self, default: &str) -> Option<String> {
        let agent = |name| {
            let stage = self.stages.iter().find(|known| known.stage.name == name);
            stage.and_then(|known| known.stage.agent.as_deref()).unwrap_or(default)
        };
        self_review(agent(StageName::Coder), agent(StageName::Reviewer))
    }

    /// The stages with the limits of their next run. `past` has the newest runs of each stage, and `at_most` is how many
    /// iterations the user lets any loop have.
    pub fn planned(&self, past: &BTreeMap<StageName, Vec<PastRun>>, at_most: u32) -> Vec<PlannedStage> {
        let planned = |EffectiveStage { stage, .. }: &EffectiveStage| {
            let past = past.get(&stage.name).map(Vec::as_slice).unwrap_or_default();
            let chosen = match stage.mode {
                StageMode::Loop => {
                    stage.max_iterations.choose(stage.name.role().max_iterations, past, at_most)
                }
                StageMode::SinglePass => {
                    ChosenLimit { max_iterations: 1, why: "enabled: false, so there is one pass".to_owned() }
                }
            };
            PlannedStage { stage: stage.clone(), max_iterations: chosen.max_iterations, why: chosen.why }
        };
        self.stages.iter().map(planned).collect()
    }
}

/// A warning about a reviewer that has the agent of the coder.
pub fn self_review(coder: &str, reviewer: &str) -> Option<String> {
    (coder == reviewer).then(|| {
        format!(
            "the reviewer is the coder's own agent, `{coder}`, which finds less in its own work; \
             `stages.reviewer.agent` may name another"
        )
    })
}

#[cfg(test)]
#[path = "stages_tests.rs"]
mod tests;
