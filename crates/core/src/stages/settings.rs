//! A stage as it is run: what the configuration makes of a role, and the policy of its loop.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{IterationLimit, MayWrite, StageName, prompt::StagePrompt, review::REFUSALS};
use crate::{
    duration::Millis,
    judge::{
        contradiction::Patterns,
        evidence::Evidence,
        promise::{BlankPromise, LetterCase, Placement, PlainWord, PromiseRule},
    },
    policy::{EVERY_FILE, GateSpec, OwnClaim, Policy, PromptForm, TestsMode},
};

/// How many tasks are worked on at once unless the user says otherwise (req 197).
pub const DEFAULT_SLOTS: u32 = 6;
/// How long an iteration of a stage may take unless the user says otherwise.
pub const ITERATION_TIMEOUT: Millis = Millis::from_mins(10);

/// The settings of a loop of no stage in particular; every stage has its own in their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RalphLoopConfig {
    pub enabled: bool,
    pub max_iterations: u32,
    pub completion_promise: String,
    pub verify_promise: bool,
}

impl Default for RalphLoopConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            max_iterations: 10,
            completion_promise: "STAGE_COMPLETE".to_owned(),
            verify_promise: true,
        }
    }
}

/// How often the agent of a stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageMode {
    /// Until its promise is believed.
    Loop,
    /// Once; its end is its claim, and gates decide. This is what `enabled: false` means.
    SinglePass,
}

/// A stage with everything that was configured for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub name: StageName,
    pub mode: StageMode,
    pub max_iterations: IterationLimit,
    pub promise: String,
    /// Whether a promise is believed only if nothing contradicts it and the evidence of the role is there.
    pub verifies: bool,
    /// The agent of this stage, if it is not the one of the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub tests: TestsMode,
    /// Checks of this stage, behind those of every loop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateSpec>,
}

impl Stage {
    /// The stage as it is when nothing is configured (req 169).
    pub fn of(name: StageName) -> Self {
        let role = name.role();
        Self {
            name,
            mode: StageMode::Loop,
            max_iterations: IterationLimit::Fixed(role.max_iterations),
            promise: role.promise.to_owned(),
            verifies: true,
            agent: None,
            model: None,
            tests: if name == StageName::Tester { TestsMode::Free } else { TestsMode::Checked },
            gates: Vec::new(),
        }
    }

    /// What counts as its promise: the tag alone on its line, with exactly these words (req 175).
    pub fn promise_rule(&self) -> Result<PromiseRule, BlankPromise> {
        Ok(PromiseRule {
            case: LetterCase::Sensitive,
            placement: Placement::OwnLine,
            trim: false,
            plain: PlainWord::Off,
            ..PromiseRule::new(self.promise.as_str())?
        })
    }

    /// How its agent refuses the work of another, if its role is to judge it.
    fn refusals(&self) -> Vec<String> {
        match self.name {
            StageName::Reviewer => REFUSALS.map(str::to_owned).to_vec(),
            StageName::Coder | StageName::Tester | StageName::Qa => Vec::new(),
        }
    }

    /// What its agent must show beside the promise.
    pub fn evidence(&self) -> &'static [Evidence] {
        if self.verifies && self.mode == StageMode::Loop { self.name.role().evidence } else { &[] }
    }

    /// The policy of its loop. `base` is what the user's flags and configuration say, with the agent of this stage in it;
    /// `max_iterations` is what [`IterationLimit::choose`] came to.
    pub fn policy(&self, base: Policy, max_iterations: u32) -> Result<Policy, BlankPromise> {
        let promise = self.promise_rule()?;
        Ok(base.with(|policy| {
            policy.claims.promise = promise;
            policy.agent.stage = Some(self.name.to_string());
            policy.agent.prompt_form =
                PromptForm::AsWritten { count_mark: StagePrompt::COUNT_MARK.to_owned() };
            // Nothing but its promise is the claim of a stage.
            policy.claims.done_file = false;
            policy.claims.until = Vec::new();
            // A reviewer that refuses has said its verdict: another iteration would say it again.
            policy.claims.refusals = self.refusals();
            (policy.claims.own_claim, policy.limits.max_iterations) = match self.mode {
                StageMode::Loop => (OwnClaim::Never, max_iterations.max(1)),
                StageMode::SinglePass => (OwnClaim::WithAgent, 1),
            };
            if !self.verifies || self.mode == StageMode::SinglePass {
                policy.claims.contradictions = Patterns::off();
            } else if policy.claims.contradictions.is_off() {
                policy.claims.contradictions = Patterns::default();
            }
            // Only a coder has to change something, and a commit alone is no change; a reviewer has to change nothing.
            policy.claims.allow_empty |= self.name != StageName::Coder;
            policy.claims.needs_change = self.name == StageName::Coder && !self.evidence().is_empty();
            policy.limits.iteration_timeout.get_or_insert(ITERATION_TIMEOUT);
            policy.gates.specs.extend(self.gates.iter().cloned());
            // What a stage says about tests counts where tests are looked after at all.
            policy.gates.tests = match (policy.gates.tests, self.tests) {
                (TestsMode::Free, _) | (_, TestsMode::Free) => TestsMode::Free,
                (asked, own) => asked.max(own),
            };
            if self.name.role().may_write == MayWrite::Nothing {
                policy.gates.protect = vec![EVERY_FILE.to_owned()];
            }
            for item in policy.items.iter_mut().filter(|item| item.key.is_none()) {
                item.evidence = self.evidence().to_vec();
            }
        }))
    }
}

/// Two stages with the same promise, of which neither could be told from the other.
pub fn equal_promises(stages: &[Stage]) -> Option<(StageName, StageName)> {
    let mut known = BTreeMap::new();
    stages.iter().find_map(|stage| {
        let first = known.insert(stage.promise.trim(), stage.name)?;
        Some((first, stage.name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{agent::AgentCommand, judge::promise::PromiseDetector};

    fn base() -> Policy {
        Policy::restart(AgentCommand::parse("agent", &[]).unwrap(), PromiseRule::new("DONE").unwrap())
    }

    #[test]
    fn a_loop_of_no_stage_has_the_defaults_of_the_pipeline() {
        // req 167
        let RalphLoopConfig { enabled, max_iterations, completion_promise, verify_promise } =
            RalphLoopConfig::default();
        assert_eq!(
            (enabled, max_iterations, completion_promise.as_str(), verify_promise),
            (true, 10, "STAGE_COMPLETE", true)
        );
        assert_eq!(DEFAULT_SLOTS, 6);
    }

    #[test]
    fn each_stage_is_a_loop_with_its_limit_promise_evidence_and_protection() {
        // req 169, req 175, req 182, req 183, req 184
        for name in StageName::ALL {
            let role = name.role();
            let policy = Stage::of(name).policy(base(), role.max_iterations).unwrap();
            let promise = &policy.claims.promise;
            assert_eq!(
                (promise.text.as_str(), promise.case, promise.placement, promise.trim, promise.plain),
                (role.promise, LetterCase::Sensitive, Placement::OwnLine, false, PlainWord::Off)
            );
            assert_eq!(policy.agent.stage.as_deref(), Some(name.as_str()));
            assert_eq!(policy.limits.max_iterations, role.max_iterations);
            assert_eq!(policy.limits.iteration_timeout, Some(ITERATION_TIMEOUT));
            assert_eq!(policy.whole().unwrap().evidence, role.evidence);
            assert!(!policy.claims.contradictions.is_off() && !policy.claims.done_file);
            let is_read_only = matches!(name, StageName::Reviewer | StageName::Qa);
            assert_eq!(policy.gates.protect == ["**"], is_read_only, "{name}");
            assert_eq!(policy.claims.allow_empty, name != StageName::Coder);
            assert_eq!(policy.claims.needs_change, name == StageName::Coder);
            let refusals: &[&str] =
                if name == StageName::Reviewer { &["REVIEW FAILED", "CHANGES REQUESTED:"] } else { &[] };
            assert_eq!(policy.claims.refusals, refusals, "{name}");
            assert_eq!(policy.problems(), []);
        }
    }

    #[test]
    fn only_the_exact_tag_on_a_line_of_its_own_is_a_promise() {
        // req 175
        let rule = Stage::of(StageName::Coder).promise_rule().unwrap();
        for (output, is_found) in [
            ("ok\n<promise>IMPLEMENTATION_COMPLETE</promise>\n", true),
            ("  <promise>IMPLEMENTATION_COMPLETE</promise>  \nbye", true),
            ("<promise>implementation_complete</promise>\n", false),
            ("<promise> IMPLEMENTATION_COMPLETE </promise>\n", false),
            ("so <promise>IMPLEMENTATION_COMPLETE</promise>\n", false),
            ("<promise>IMPLEMENTATION_COMPLETE</promise> then\n", false),
            ("<promise>REVIEW_COMPLETE</promise>\n", false),
            ("IMPLEMENTATION_COMPLETE\n", false),
            ("```\n<promise>IMPLEMENTATION_COMPLETE</promise>\n```\n", false),
        ] {
            let mut detector = PromiseDetector::new(&rule, "", "");
            detector.push(output.as_bytes());
            assert_eq!(detector.finish().promise.is_some(), is_found, "{output}");
        }
    }

    #[test]
    fn a_stage_that_is_not_enabled_is_one_pass_and_one_that_does_not_verify_believes() {
        // req 170, req 178
        let single = Stage { mode: StageMode::SinglePass, ..Stage::of(StageName::Coder) };
        let policy = single.policy(base(), 15).unwrap();
        assert_eq!((policy.limits.max_iterations, policy.claims.own_claim), (1, OwnClaim::WithAgent));
        assert_eq!(policy.whole().unwrap().evidence, []);
        let trusting = Stage { verifies: false, ..Stage::of(StageName::Reviewer) };
        let policy = trusting.policy(base(), 5).unwrap();
        assert!(policy.claims.contradictions.is_off() && policy.whole().unwrap().evidence.is_empty());
        assert_eq!(policy.gates.protect, ["**"], "a reviewer changes nothing in this case either");
    }

    #[test]
    fn the_user_s_own_timeout_and_phrases_stay() {
        let own = base().with(|policy| {
            policy.limits.iteration_timeout = Some(Millis(1000));
            policy.claims.contradictions = Patterns::new(&["half done"]).unwrap();
        });
        let policy = Stage::of(StageName::Qa).policy(own.clone(), 0).unwrap();
        assert_eq!(policy.limits.iteration_timeout, Some(Millis(1000)));
        assert_eq!(policy.claims.contradictions, own.claims.contradictions);
        assert_eq!(policy.limits.max_iterations, 1, "no stage is without an iteration");
    }
}
