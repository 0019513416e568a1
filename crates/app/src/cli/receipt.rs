//! `dacapo receipt`.

use clap::{Args, ValueEnum};
use dacapo_core::{
    attestation::{RECEIPT_TYPE, TEST_RESULT_TYPE},
    duration::Millis,
    ids::LoopId,
    receipt::{Receipt, TestCounts},
    sandbox::SandboxMode,
    text::count,
    view::{ChangedFiles, LoopView, RunView, StageRunView, StageTaskView, StatusShown},
};
use dacapo_engine::{
    client::Client,
    proof,
    store::{Store, StoreError},
};
use serde_json::{Value, json};

use super::{say, say_json, say_whole};
use crate::{
    context::Context,
    error::UserError,
    report::{money, signal_name},
};

/// Show the proof of a finished loop, of a run of units, or of the stages that a task has passed
///
/// What was claimed, which gates agreed, what was kept, and which claims were refused on the way. With `--json` it is
/// the receipt itself, which `dacapo verify FILE` checks. With `--in-toto` it is a statement that this machine's key has signed
/// when the claim was accepted, for people and programs that have the public key and not this journal.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo receipt fix-tests --json >receipt.json\n  dacapo receipt TASK-001\n  dacapo receipt fix-tests --in-toto >receipt.jsonl\n  dacapo receipt --public-key >machine.pub\n  dacapo verify receipt.jsonl --key machine.pub"
)]
pub(super) struct ReceiptArgs {
    /// The loop: its id, the beginning of it, or its task; or a run of units, or a task of `dacapo task` (default: the only one that runs in this folder, else its newest; `-` is the newest anywhere)
    id: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// As a signed in-toto statement in a DSSE envelope, a line for each loop: the receipt, or `test-result` for tools that know
    /// that kind
    #[arg(long, value_name = "KIND", num_args = 0..=1, require_equals = true, default_missing_value = "receipt", conflicts_with = "json")]
    in_toto: Option<StatementKind>,
    /// Print the public half of this machine's key, which checks what it has signed
    #[arg(long, conflicts_with_all = ["id", "json", "in_toto"])]
    public_key: bool,
}

/// Which statement about a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StatementKind {
    Receipt,
    TestResult,
}

impl StatementKind {
    fn predicate(self) -> &'static str {
        match self {
            Self::Receipt => RECEIPT_TYPE,
            Self::TestResult => TEST_RESULT_TYPE,
        }
    }
}

pub(super) fn receipt(cx: &Context, args: &ReceiptArgs) -> Result<u8, UserError> {
    if args.public_key {
        let (_, text) = cx.store()?.keys().public().map_err(StoreError::from)?;
        say_whole(text.trim_end());
        return Ok(0);
    }
    let mut client = cx.client()?;
    if let Some(kind) = args.in_toto {
        return in_toto(cx, &client, args.id.as_deref(), kind);
    }
    let name = cx.name(&client, args.id.as_deref())?;
    let told = StatusShown::Asked { is_json: args.json };
    if let Some(seen) = cx.find_task(&client, &name)? {
        Context::remember_look(&mut client, seen.view.id.as_str(), told);
        return of_task(&client, &seen.view, args.json);
    }
    if let Some(run) = cx.find_run(&client, &name)? {
        Context::remember_look(&mut client, run.view.id.as_str(), told);
        return of_run(&client, &run.view, args.json);
    }
    let view = cx.find_worked(&client, &name)?.view;
    let Some(receipt) = client.receipt(&view.id)? else {
        return Err(no_receipt(&view));
    };
    Context::remember_look(&mut client, view.id.as_str(), told);
    if args.json {
        return say_json(&receipt);
    }
    print(&receipt, &ReceiptAuthor::of(&client, &view)?);
    Ok(0)
}

/// The signed statements about a loop, or about each loop of a run or task that has a receipt.
fn in_toto(cx: &Context, client: &Client, id: Option<&str>, kind: StatementKind) -> Result<u8, UserError> {
    let store = cx.store()?;
    let name = cx.name(client, id)?;
    let mut envelopes = Vec::new();
    if let Some(seen) = cx.find_task(client, &name)? {
        for (own, _) in proofs(client, &seen.view)? {
            if let Some(id) = &own.loop_id {
                envelopes.extend(envelope(&store, id, kind)?);
            }
        }
    } else if let Some(run) = cx.find_run(client, &name)? {
        for seen in client.loops_of_run(&run.view.id)?.into_iter().filter(|seen| seen.view.iteration > 0) {
            envelopes.extend(envelope(&store, &seen.view.id, kind)?);
        }
    } else {
        let view = cx.find_worked(client, &name)?.view;
        if client.receipt(&view.id)?.is_none() {
            return Err(no_receipt(&view));
        }
        envelopes.extend(envelope(&store, &view.id, kind)?);
    }
    if envelopes.is_empty() {
        let what = match kind {
            StatementKind::Receipt => "no receipt of it was signed: it is from before dacapo signed receipts",
            StatementKind::TestResult => {
                "no gate stood behind a claim of it, or it is from before dacapo signed receipts"
            }
        };
        return Err(
            UserError::failed(what).hint("`dacapo receipt --json` is the receipt without a signature")
        );
    }
    envelopes.iter().for_each(say);
    Ok(0)
}

fn envelope(store: &Store, id: &LoopId, kind: StatementKind) -> Result<Option<String>, UserError> {
    let Some((seq, _)) = proof::receipt_at(store, id)? else { return Ok(None) };
    Ok(store.attestation(seq, kind.predicate())?)
}

/// The proofs of a run of units: the receipt of each loop that an agent worked in and whose claim was accepted.
fn of_run(client: &Client, run: &RunView, is_json: bool) -> Result<u8, UserError> {
    let mut found = Vec::new();
    for seen in client.loops_of_run(&run.id)? {
        if seen.view.iteration > 0
            && let Some(receipt) = client.receipt(&seen.view.id)?
        {
            found.push((seen.view, receipt));
        }
    }
    if found.is_empty() {
        return Err(UserError::failed(format!("run {} has no receipt: no claim of it was accepted", run.id))
            .hint(format!("`dacapo why {}` says more", run.id)));
    }
    if is_json {
        return say_json(&found.into_iter().map(|(_, receipt)| receipt).collect::<Vec<_>>());
    }
    for (at, (view, receipt)) in found.iter().enumerate() {
        if at > 0 {
            say("");
        }
        print(receipt, &ReceiptAuthor::of(client, view)?);
    }
    Ok(0)
}

/// What the journal says beside a receipt: who did the work, what it cost and what it changed.
#[derive(Default)]
pub(super) struct ReceiptAuthor {
    agent: Option<String>,
    cost: Option<String>,
    changed: Option<ChangedFiles>,
}

impl ReceiptAuthor {
    pub(super) fn of(client: &Client, view: &LoopView) -> Result<Self, UserError> {
        let model = match &view.model {
            Some(model) => Some(model.clone()),
            None => client.loop_started(&view.id)?.and_then(|started| {
                let agent = &started.policy.agent;
                let mut agents = (0..=agent.fallback.len()).map(|index| agent.at(index));
                agents.find(|agent| agent.name == view.agent).and_then(|agent| agent.model.clone())
            }),
        };
        let model = model.map(|model| format!(", model {model}")).unwrap_or_default();
        Ok(Self {
            // A check of a merge has no agent.
            agent: (view.iteration > 0).then(|| format!("{}{model}", view.agent)),
            cost: money(&view.ledger.total()),
            changed: view.tally.changed.clone().filter(|changed| changed.count > 0),
        })
    }
}

/// The runs of stages that were passed, with their receipts.
type Proofs<'a> = Vec<(&'a StageRunView, Option<Receipt>)>;

fn proofs<'a>(client: &Client, view: &'a StageTaskView) -> Result<Proofs<'a>, UserError> {
    let mut proofs = Vec::new();
    for own in view.stages.iter().filter(|own| own.state == "passed") {
        let receipt = own.loop_id.as_ref().map(|id| client.receipt(id)).transpose()?.flatten();
        proofs.push((own, receipt));
    }
    if proofs.is_empty() {
        return Err(UserError::failed(format!("task {} has no receipt: no stage was passed yet", view.task))
            .hint(format!("`dacapo why {}` says more", view.task)));
    }
    Ok(proofs)
}

/// The proof of a task as `receipt --json` prints it.
pub(super) fn task_as_json(client: &Client, view: &StageTaskView) -> Result<Value, UserError> {
    Ok(json_of_task(view, &proofs(client, view)?))
}

fn json_of_task(view: &StageTaskView, proofs: &Proofs<'_>) -> Value {
    let stages: Vec<Value> = proofs
        .iter()
        .map(|(own, receipt)| {
            json!({
                "stage": own.stage,
                "run": own.run,
                "iterations": own.iterations,
                "loop": own.loop_id,
                "changed": own.changed,
                "unreviewed": own.unreviewed,
                "deleted_tests": own.deleted_tests,
                "receipt": receipt,
            })
        })
        .collect();
    json!({
        "task": view.task,
        "run": view.id,
        "title": view.title,
        "state": view.state,
        "target": view.target,
        "commit": view.commit,
        "stages": stages,
        "findings": view.ledger.findings,
    })
}

/// The proof of a task: that of each stage it has passed, what no role has reviewed, and where it was merged.
fn of_task(client: &Client, view: &StageTaskView, is_json: bool) -> Result<u8, UserError> {
    let proofs = proofs(client, view)?;
    if is_json {
        return say_json(&json_of_task(view, &proofs));
    }
    let merged = match &view.commit {
        Some(commit) => format!("merged into {} as {}", view.target, short(commit)),
        None => format!("{}, not merged", view.state),
    };
    say(format!("Receipt of task {}: {}, {merged}", view.task, view.title));
    for (own, receipt) in &proofs {
        say(format!("\nStage {} (run {})", own.stage, own.run));
        match receipt {
            Some(receipt) => print(receipt, &worker_of_stage(client, own)?),
            None => say("  passed by the user, who took the work as it is"),
        }
        for file in &own.changed {
            let mark = if own.unreviewed.contains(file) {
                "  WARNING: not reviewed, and no test"
            } else if own.deleted_tests.contains(file) {
                "  WARNING: a test that was deleted, and not reviewed"
            } else {
                ""
            };
            say(format!("  changed     {file}{mark}"));
        }
    }
    for finding in &view.ledger.findings {
        say(format!("  F{} {}: {}", finding.number, finding.state.as_str(), finding.text));
    }
    Ok(0)
}

fn worker_of_stage(client: &Client, own: &StageRunView) -> Result<ReceiptAuthor, UserError> {
    let seen = own.loop_id.as_ref().map(|id| client.loop_of_id(id)).transpose()?.flatten();
    let mut worker = seen.map(|seen| ReceiptAuthor::of(client, &seen.view)).transpose()?.unwrap_or_default();
    // The files of a stage are listed one by one, with what is to be said of each.
    worker.changed = None;
    Ok(worker)
}

/// A loop that ended without a verdict, or has not ended, has none.
pub(super) fn no_receipt(view: &LoopView) -> UserError {
    let why = match view.reason {
        Some(_) if view.state == "completed" => "it was completed before there were receipts".to_owned(),
        Some(reason) => format!("it is {} ({}) without an accepted claim", view.state, reason.as_str()),
        None => format!("it is {}, and nothing has been accepted yet", view.state),
    };
    UserError::failed(format!("loop {} has no receipt: {why}", view.id))
        .hint(format!("`dacapo why {}` says more", view.id))
}

pub(super) fn print(receipt: &Receipt, worker: &ReceiptAuthor) {
    say(format!("Receipt of loop {}, task {}: {}", receipt.loop_id, receipt.task, receipt.verdict));
    let claim: Vec<&str> = receipt.claim.iter().map(signal_name).collect();
    say(format!("  claimed by  {} after {}", claim.join(", "), count(receipt.iterations, "iteration")));
    if let Some(agent) = &worker.agent {
        say(format!("  agent       {agent}"));
    }
    if let Some(cost) = &worker.cost {
        say(format!("  cost        {cost}"));
    }
    if let Some(ChangedFiles { count, some }) = &worker.changed {
        let more = count.saturating_sub(some.len() as u64);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        say(format!("  files       {}{more}", some.join(", ")));
    }
    if let Some(mode) = receipt.sandbox {
        let tier = receipt.sandbox_tier.unwrap_or_default();
        let words = if mode == SandboxMode::Off { mode.to_string() } else { format!("{mode} ({tier})") };
        say(format!("  sandbox     {words}"));
        for open in &receipt.sandbox_open {
            say(format!("  open        {open}"));
        }
    }
    say(format!("  decided     {}", receipt.ended_at.strftime("%Y-%m-%d %H:%M:%SZ")));
    if let Some(base) = &receipt.base {
        say(format!("  from tree   {}", short(base)));
    }
    if let Some(tree) = &receipt.tree {
        say(format!("  to tree     {}", short(tree)));
    }
    for commit in &receipt.commits {
        say(format!("  commit      {}", short(commit)));
    }
    if receipt.gates.is_empty() {
        say("  gates       none: the claim was believed, nothing was checked");
    }
    for gate in &receipt.gates {
        let took = Millis(gate.duration_ms);
        let label = match (gate.flaky, gate.tolerated) {
            (true, _) => ", flaky",
            (_, true) => ", red as before",
            _ => "",
        };
        let command = gate.command.trim().replace('\n', "; ");
        let what =
            if command == gate.name { format!("`{command}`") } else { format!("{}: `{command}`", gate.name) };
        say(format!("  gate        {what} exited {}, {took}{label}", gate.exit_code));
    }
    for (name, passed) in &receipt.baseline {
        say(format!("  before      `{name}` was {}", if *passed { "green" } else { "red" }));
    }
    if let Some(tests) = &receipt.tests {
        let counts = |counts: &Option<TestCounts>| {
            counts.map_or("not reported".to_owned(), |tests| format!("{} ran", tests.passed + tests.failed))
        };
        if tests.before.is_some() || tests.after.is_some() {
            say(format!("  tests       before: {}; now: {}", counts(&tests.before), counts(&tests.after)));
        }
        if tests.must_fail_noticed {
            say("  tests       the gates notice a test that has to fail");
        }
        let how = if tests.both_ways {
            "the gates pass with them as they were, too"
        } else {
            "not checked as they were"
        };
        for path in &tests.changed {
            say(format!("  changed     {path} ({how})"));
        }
    }
    if let Some(by) = &receipt.approved_by {
        say(format!("  approved    by {by}, although the tests are narrower than they were"));
    }
    if receipt.checked_in.as_deref() == Some("workspace") {
        say("  checked in  the workspace alone, in no fresh checkout".to_owned());
    }
    for file in &receipt.protected {
        say(format!("  protected   {} ({})", file.path, short(&file.sha256)));
    }
    let tamper = receipt.tamper;
    if tamper.deleted_tests + tamper.skipped_tests + tamper.emptied_tests > 0 {
        say(format!(
            "  tests       {} deleted, {} skipped, {} emptied",
            tamper.deleted_tests, tamper.skipped_tests, tamper.emptied_tests
        ));
    }
    for refusal in &receipt.refusals {
        say(format!(
            "  refused     iteration {}: {} ({})",
            refusal.iteration,
            refusal.detail,
            refusal.reason.as_str()
        ));
    }
    say(format!("  sha256      {}", receipt.sha256));
}

/// Enough of a hash to know it again.
pub(super) fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
