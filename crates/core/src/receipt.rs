//! The proof of a finished loop: what was claimed, what was checked, what was kept.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{
    event::{Examination, GateResult, Look, ProtectedFile, Usage},
    goalposts::{OutsideFile, TestReport},
    judge::{claim::RefusalReason, expectation::Expectation, signal::Signal},
    loop_machine::{GateTry, Judging, LoopState, Seal},
    sandbox::{SandboxHeld, SandboxMode, SandboxTier},
};

/// A receipt. Its hash is over the canonical JSON of all other fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    #[serde(rename = "loop")]
    pub loop_id: String,
    pub task: String,
    /// What the claim rests on.
    pub claim: Vec<Signal>,
    /// `verified` or `unverified`.
    pub verdict: String,
    /// The tree before the first agent.
    pub base: Option<String>,
    /// The tree that was judged and kept; of tasks, that of the last commit, which may differ in status lines.
    pub tree: Option<String>,
    /// The snapshot that was judged.
    pub snapshot: Option<String>,
    /// Commits since the base, dacapo's own last.
    pub commits: Vec<String>,
    pub gates: Vec<GateProof>,
    /// The gates before the first agent: name, and whether it passed.
    pub baseline: Vec<(String, bool)>,
    /// Files that did not change, and what they hold.
    pub protected: Vec<ProtectedFile>,
    pub tamper: Tamper,
    /// What became of the tests that were there before the first agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestsProof>,
    /// The programs that gates ran, which did not change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<OutsideFile>,
    /// `clean` if the gates passed in a fresh checkout, `workspace` if they did there alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_in: Option<String>,
    /// The person who accepted the tree although its tests are narrower than they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// What kept agents and gates from the user's other files and from dacapo: `guard`, `workspace`, or `off` if nothing did.
    /// Receipts from before there was such a thing do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    /// By what means of the system that was held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_tier: Option<SandboxTier>,
    /// What the sandbox left open on that machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sandbox_open: Vec<String>,
    /// Claims that were refused on the way.
    pub refusals: Vec<RefusalLine>,
    pub iterations: u32,
    /// Tokens, where the agent reports them.
    pub tokens: Option<Usage>,
    /// Money, where it can be told.
    pub cost_usd: Option<f64>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Timestamp,
    pub versions: Versions,
    /// SHA-256 of the loop's journal up to the verdict.
    pub previous: String,
    /// SHA-256 of all the rest.
    pub sha256: String,
}

/// One gate in a receipt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateProof {
    pub name: String,
    pub command: String,
    pub exit_code: i32,
    pub duration_ms: u64,
    /// SHA-256 of what it printed.
    pub output_sha256: String,
    /// Whether it passed only when tried again.
    pub flaky: bool,
    /// Whether it is red as it was before, which was allowed.
    pub tolerated: bool,
    /// What it had to come to.
    #[serde(default, skip_serializing_if = "Expectation::is_default")]
    pub expect: Expectation,
    /// The folder that it ran in, below the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
}

/// What became of the tests that were there before the first agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestsProof {
    /// What the runners reported at the start, where they report anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<TestCounts>,
    /// What they reported for the accepted claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<TestCounts>,
    /// Tests, and files that decide which tests run, that are not what they were.
    pub changed: Vec<String>,
    /// Whether the gates also passed with those as they were.
    pub both_ways: bool,
    /// Whether the gates noticed tests that had to fail, which were put beside the others for one run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_fail_noticed: bool,
}

/// How many tests ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCounts {
    pub passed: u32,
    pub failed: u32,
    pub skipped: u32,
}

impl TestCounts {
    fn sum<'a>(reports: impl Iterator<Item = &'a TestReport>) -> Option<Self> {
        reports.fold(None, |sum: Option<Self>, report| {
            let sum = sum.unwrap_or_default();
            Some(Self {
                passed: sum.passed.saturating_add(report.passed),
                failed: sum.failed.saturating_add(report.failed),
                skipped: sum.skipped.saturating_add(report.skipped),
            })
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tamper {
    pub deleted_tests: u32,
    pub skipped_tests: u32,
    pub emptied_tests: u32,
}

/// A refused claim in a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalLine {
    /// The iteration that made it.
    pub iteration: u32,
    pub reason: RefusalReason,
    pub detail: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    pub dacapo: String,
}

/// The receipt of an accepted claim.
///
/// `tree` is what was committed, where that is not what the gates saw to the last status line.
pub(crate) fn issue(
    state: &LoopState,
    judging: &Judging,
    claim: Vec<Signal>,
    verified: bool,
    seal: Seal,
    tree: Option<String>,
) -> Option<Receipt> {
    let started = state.started.as_ref()?;
    let found: Option<&Examination> = judging.examined.as_deref();
    let mut commits = found.map(|found| found.commits.clone()).unwrap_or_default();
    // After a crash behind the commit the look at the workspace has found it already.
    for (_, own) in &judging.claim.committed {
        if !commits.contains(own) {
            commits.push(own.clone());
        }
    }
    let tamper = found.map(|found| &found.tamper);
    let first = judging.tries.first().map(|tried| tried.look);
    let is_watched = started.goalposts.is_some();
    let both_ways = judging.has_passed(Look::AS_BEFORE);
    let tests = is_watched.then(|| TestsProof {
        before: TestCounts::sum(state.trials.values().filter_map(|trial| trial.tests.as_ref())),
        after: TestCounts::sum(
            judging
                .tries
                .iter()
                .filter(|tried| tried.holds() && Some(tried.look) == first)
                .filter_map(|tried| tried.result.tests.as_ref()),
        ),
        changed: found
            .map(|found| found.moved.iter().map(|moved| moved.path.clone()).collect())
            .unwrap_or_default(),
        both_ways,
        must_fail_noticed: judging.tries.iter().any(|tried| tried.holds() && has_noticed(&tried.result)),
    });
    let is_clean = judging.has_passed(Look::CLEAN);
    let approved_by = [&state.approved, &state.approved_outside]
        .into_iter()
        .flatten()
        .find(|(tree, _)| found.is_some_and(|found| found.tree == *tree));
    let spec = |index: usize| started.policy.gates.specs.get(index);
    let mut receipt = Receipt {
        loop_id: seal.loop_id,
        task: started.task.to_string(),
        claim,
        verdict: if verified { "verified" } else { "unverified" }.to_owned(),
        base: started.base.as_ref().map(|base| base.tree.clone()),
        tree: tree.or(found.map(|found| found.tree.clone())),
        snapshot: found.map(|found| found.snapshot.clone()),
        commits,
        gates: judging
            .tries
            .iter()
            .filter(|tried| tried.holds() && Some(tried.look) == first)
            .map(|GateTry { name, command, result, index, .. }| GateProof {
                expect: spec(*index).map(|gate| gate.expect.clone()).unwrap_or_default(),
                working_dir: spec(*index).and_then(|gate| gate.working_dir.clone()),
                name: name.clone(),
                command: command.clone(),
                exit_code: result.exit_code,
                duration_ms: result.duration_ms.0,
                output_sha256: result.output_sha256.clone(),
                flaky: result.flaky,
                tolerated: result.tolerated,
            })
            .collect(),
        baseline: state.baseline.iter().map(|(name, seen)| (name.clone(), seen.is_empty())).collect(),
        protected: started.protected.clone(),
        tamper: Tamper {
            deleted_tests: tamper.map_or(0, |scan| scan.deleted_tests),
            skipped_tests: tamper.map_or(0, |scan| scan.skipped_tests),
            emptied_tests: tamper.map_or(0, |scan| scan.emptied_tests),
        },
        tests,
        programs: started
            .outside
            .iter()
            .filter(|file| {
                file.program.is_some() && !found.is_some_and(|found| found.outside.contains(&file.path))
            })
            .cloned()
            .collect(),
        checked_in: is_watched.then(|| if is_clean { "clean" } else { "workspace" }.to_owned()),
        approved_by: approved_by.map(|(_, by)| by.clone()),
        sandbox: Some(started.sandbox.as_ref().map_or(SandboxMode::Off, SandboxHeld::mode_held)),
        sandbox_tier: started.sandbox.as_ref().map(|held| held.tier),
        sandbox_open: started.sandbox.as_ref().map(|held| held.open.clone()).unwrap_or_default(),
        refusals: state
            .refusals
            .iter()
            .map(|refused| RefusalLine {
                iteration: refused.iteration,
                reason: refused.reason,
                detail: refused.detail.clone(),
            })
            .collect(),
        iterations: state.counters.iterations,
        tokens: state.spending.ledger.total().usage,
        cost_usd: state.spending.ledger.total().cost_usd,
        started_at: seal.started_at,
        ended_at: seal.at,
        versions: Versions { dacapo: started.version.clone() },
        previous: seal.journal,
        sha256: String::new(),
    };
    receipt.sha256 = receipt.hash();
    Some(receipt)
}

fn has_noticed(result: &GateResult) -> bool {
    result.must_fail_tests.as_ref().is_some_and(|run| !run.put.is_empty() && run.missed().is_empty())
}

impl Receipt {
    /// The hash that its other fields have.
    pub fn hash(&self) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            fields.remove("sha256");
        }
        sha256(canonical(&value).as_bytes())
    }

    /// Whether the receipt still has the hash that it was issued with.
    pub fn is_sound(&self) -> bool {
        self.sha256 == self.hash()
    }

    /// Fields in which it differs from `other`.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        match (serde_json::to_value(self), serde_json::to_value(other)) {
            (Ok(ours), Ok(theirs)) => differing_fields(&ours, &theirs),
            _ => Vec::new(),
        }
    }
}

/// Whether a receipt from a file has the hash that it names. A field that a receipt does not have changes the hash, too.
pub fn has_its_hash(receipt: &Value) -> bool {
    let mut rest = receipt.clone();
    let said = rest.as_object_mut().and_then(|fields| fields.remove("sha256"));
    said.is_some_and(|said| said == sha256(canonical(&rest).as_bytes()))
}

/// The names of fields that are not the same in both, or only in one.
pub fn differing_fields(ours: &Value, theirs: &Value) -> Vec<String> {
    let (Value::Object(ours), Value::Object(theirs)) = (ours, theirs) else { return Vec::new() };
    let mut names: Vec<String> = ours
        .iter()
        .filter(|(name, value)| theirs.get(*name) != Some(value))
        .map(|(name, _)| name)
        .chain(theirs.keys().filter(|name| !ours.contains_key(*name)))
        .cloned()
        .collect();
    names.sort_unstable();
    names
}

/// JSON with sorted keys and no spaces.
pub fn canonical(value: &Value) -> String {
    // serde_json keeps objects sorted unless told otherwise; `to_string` writes no spaces.
    value.to_string()
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
