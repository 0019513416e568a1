//! `dacapo verify`.

mod signed;

use std::path::{Path, PathBuf};

use clap::Args;
use dacapo_core::{
    ids::{LoopId, RunId},
    loop_machine::LoopMachine,
    receipt::{self, Receipt},
    stages::machine::TaskMachine,
    text::ansi::readable,
};
use dacapo_engine::{
    client::Client,
    proof,
    store::{Attested, Store, StoreError, StreamAudit},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    receipt::{no_receipt, task_as_json},
    say, say_json,
};
use crate::{
    context::Context,
    error::{FAILED, UserError},
};

/// Check a receipt: its hash, its signature, its journal, and its gates once more
///
/// The files that were judged are brought back in a scratch folder and the gates run there again, contained as in a
/// loop; your own files stay as they are. Of a task the receipt of each stage is checked, also when the task is merged and
/// its worktree is gone. A file that holds a receipt of a loop of another machine is checked by its hash only: nothing that
/// a file says is run. A file of `receipt --in-toto` is checked with the public key of the machine that signed it (`--key`),
/// without a journal.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo verify fix-tests\n  dacapo verify TASK-001\n  dacapo verify receipt.json\n  dacapo verify receipt.jsonl --key machine.pub"
)]
pub(super) struct VerifyArgs {
    /// The loop (its id, the beginning of it, or its task), a task of `dacapo task`, or a file that holds a receipt (default: the
    /// one here)
    #[arg(value_name = "ID|FILE")]
    what: Option<String>,
    /// The public key of the machine that signed the receipts in FILE; no journal is needed then
    #[arg(long, value_name = "FILE", requires = "what")]
    key: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// What `verify` found out about a receipt.
#[derive(Serialize, Default)]
struct Verified {
    #[serde(rename = "loop")]
    loop_id: String,
    sound: bool,
    /// Whether the loop is in the journal here.
    journal: bool,
    /// Who has signed the receipt, if its signature was found right.
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_by: Option<String>,
    /// Fields of the receipt that are not what the journal says.
    altered: Vec<String>,
    /// Everything that speaks against it, in words.
    problems: Vec<String>,
    /// Why its files could not be checked again, which says nothing against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    unchecked: Option<String>,
    /// What a person should know besides.
    notes: Vec<String>,
    gates: Vec<GateJson>,
}

#[derive(Serialize)]
struct GateJson {
    name: String,
    then: i32,
    now: i32,
    same_output: bool,
}

pub(super) fn verify(cx: &Context, args: &VerifyArgs) -> Result<u8, UserError> {
    if let (Some(key), Some(what)) = (&args.key, &args.what) {
        return signed::verify(what, key, args.json);
    }
    let store = cx.store()?;
    let client = cx.client()?;
    let handed_in = match args.what.as_deref().filter(|what| what.contains('/')) {
        Some(file) => handed_in(file, &store)?,
        None => verify_named(cx, &client, &store, args)?,
    };
    if handed_in["stages"].is_array() {
        return of_task(cx, &store, &handed_in, args.json);
    }
    let verified = check(cx, &store, &handed_in, args.json)?;
    let code = if verified.sound { 0 } else { FAILED };
    if args.json {
        say_json(&verified)?;
        return Ok(code);
    }
    verified.tell();
    if verified.sound {
        say(format!("The receipt of loop {} is sound.", verified.loop_id));
    }
    Ok(code)
}

/// The receipt of the loop or task that was named, or of what a command without a name means. A word that names neither may be a
/// file.
fn verify_named(cx: &Context, client: &Client, store: &Store, args: &VerifyArgs) -> Result<Value, UserError> {
    let name = cx.name(client, args.what.as_deref())?;
    if let Some(seen) = cx.find_task(client, &name)? {
        return task_as_json(client, &seen.view);
    }
    match cx.find_worked(client, &name) {
        Ok(row) => {
            let Some(found) = proof::receipt(store, &row.view.id)? else {
                store.must_be_unedited::<LoopMachine>(&row.view.id)?;
                return Err(no_receipt(&row.view));
            };
            serde_json::to_value(found).map_err(UserError::failed)
        }
        Err(_) if Path::new(&name).is_file() || name.ends_with(".json") => handed_in(&name, store),
        Err(error) => Err(error.hint("or give a file that holds a receipt")),
    }
}

/// Checks the receipts of all stages that a task has passed.
fn of_task(cx: &Context, store: &Store, handed_in: &Value, is_json: bool) -> Result<u8, UserError> {
    let task = handed_in["task"].as_str().unwrap_or_default();
    let altered = altered_task(&cx.client()?, handed_in)?;
    let run = handed_in["run"].as_str().and_then(|run| run.parse::<RunId>().ok());
    let edited = run.map(|run| store.must_be_unedited::<TaskMachine>(&run)).transpose().err();
    let mut is_sound = altered.is_empty() && edited.is_none();
    if let (false, Some(edited)) = (is_json, &edited) {
        say(format!("NOT SOUND: {edited}"));
    }
    if !is_json && !altered.is_empty() {
        say(format!("NOT SOUND: altered since it was issued: `{}`", altered.join("`, `")));
    }
    let mut stages = Vec::new();
    for own in handed_in["stages"].as_array().into_iter().flatten() {
        let (stage, run) = (own["stage"].as_str().unwrap_or_default(), &own["run"]);
        if !is_json {
            say(format!("Stage {stage} (run {run})"));
        }
        let verified = if own["receipt"].is_null() && own["loop"].is_null() {
            let notes = vec!["the user took the work as it is: this stage has no receipt".to_owned()];
            Verified { sound: true, notes, ..Verified::default() }
        } else {
            check(cx, store, &own["receipt"], is_json)?
        };
        is_sound &= verified.sound;
        if is_json {
            let mut value = serde_json::to_value(&verified).map_err(UserError::failed)?;
            (value["stage"], value["run"]) = (own["stage"].clone(), run.clone());
            stages.push(value);
        } else {
            verified.tell();
        }
    }
    if is_json {
        say_json(&json!({ "task": task, "sound": is_sound, "altered": altered,
            "problems": edited.map(|edited| edited.to_string()).into_iter().collect::<Vec<_>>(), "stages": stages }))?;
    } else if is_sound {
        say(format!("The receipts of task {task} are sound."));
    }
    Ok(if is_sound { 0 } else { FAILED })
}

/// What the proof of a task says beside the receipts of its stages that is not what the journal says, if the task is there.
fn altered_task(client: &Client, handed_in: &Value) -> Result<Vec<String>, UserError> {
    let run = handed_in["run"].as_str().and_then(|run| run.parse::<RunId>().ok());
    let Some(seen) = run.map(|run| client.task_of_id(&run)).transpose()?.flatten() else {
        return Ok(Vec::new());
    };
    // A task that has gone on since has more stages than it had, and perhaps a commit.
    if !seen.view.is_over {
        return Ok(Vec::new());
    }
    let kept = task_as_json(client, &seen.view)?;
    let without_receipts = |value: &Value| -> Vec<Value> {
        let mut stages = value["stages"].as_array().cloned().unwrap_or_default();
        stages.iter_mut().filter_map(Value::as_object_mut).for_each(|own| {
            own.remove("receipt");
        });
        stages
    };
    let keys = ["task", "title", "state", "target", "commit", "findings"];
    let mut altered: Vec<String> =
        keys.into_iter().filter(|key| handed_in[*key] != kept[*key]).map(str::to_owned).collect();
    if without_receipts(handed_in) != without_receipts(&kept) {
        altered.push("stages".to_owned());
    }
    Ok(altered)
}

fn check(cx: &Context, store: &Store, handed_in: &Value, is_json: bool) -> Result<Verified, UserError> {
    let mut verified = Verified {
        loop_id: handed_in["loop"].as_str().unwrap_or_default().to_owned(),
        ..Verified::default()
    };
    let kept = kept(store, &verified.loop_id)?;
    check_hash(handed_in, kept.as_ref().map(|(_, _, kept)| kept), &mut verified)?;
    match &kept {
        Some((id, seq, kept)) => {
            verified.journal = true;
            // What an edited journal says is not run.
            if check_journal(store, id, *seq, kept, &mut verified)? {
                check_gates(cx, store, id, kept, is_json, &mut verified);
            } else {
                verified.notes.push(
                    "its gates were not run again: what to run would come from that journal".to_owned(),
                );
            }
        }
        None => verified
            .notes
            .push("the journal of this loop is not here: only the receipt's own hash was checked".to_owned()),
    }
    verified.sound = verified.problems.is_empty() && verified.unchecked.is_none();
    Ok(verified)
}

impl Verified {
    fn tell(&self) {
        for line in &self.notes {
            say(format!("note: {line}"));
        }
        for line in &self.problems {
            say(format!("NOT SOUND: {line}"));
        }
        if let Some(why) = &self.unchecked {
            let rest = match self.problems.is_empty() {
                true => "; the receipt itself and its journal are as they were issued",
                false => "",
            };
            say(format!("NOT CHECKED: {why}{rest}"));
        }
    }
}

/// The receipt in a file.
fn handed_in(file: &str, store: &Store) -> Result<Value, UserError> {
    let bytes =
        std::fs::read(file).map_err(|error| UserError::usage(format!("cannot read `{file}`: {error}")))?;
    if let Some(receipt) = signed::own_receipt(file, &bytes, store)? {
        return Ok(receipt);
    }
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| UserError::failed(format!("`{file}` is no receipt: {error}")))?;
    let is_of_task =
        value["task"].is_string() && value["stages"].as_array().is_some_and(|all| !all.is_empty());
    if is_of_task || (value["loop"].is_string() && value["sha256"].is_string()) {
        Ok(value)
    } else {
        Err(UserError::failed(format!("`{file}` is no receipt: it names no loop or has no hash")))
    }
}

/// The loop, its receipt and the place of that as the journal here has them.
fn kept(store: &Store, loop_id: &str) -> Result<Option<(LoopId, u64, Receipt)>, UserError> {
    let Ok(id) = loop_id.parse::<LoopId>() else { return Ok(None) };
    Ok(proof::receipt_at(store, &id)?.map(|(seq, receipt)| (id, seq, receipt)))
}

/// Checks that the journal of the loop is what dacapo recorded, and that this machine has signed the receipt in it. Says whether
/// what the journal says may be run.
fn check_journal(
    store: &Store,
    id: &LoopId,
    seq: u64,
    kept: &Receipt,
    verified: &mut Verified,
) -> Result<bool, UserError> {
    let before = verified.problems.len();
    if kept.loop_id != id.as_str() {
        verified.problems.push(format!("the receipt is of loop {}: it was copied here", kept.loop_id));
    }
    match store.audit::<LoopMachine>(id) {
        Ok(audit) => tell_of_audit(&audit, verified),
        Err(StoreError::Key(error)) => {
            verified.problems.push(format!("the journal cannot be authenticated: {error}"));
        }
        Err(error) => return Err(error.into()),
    }
    // Of other loops: what is gone from this one is found by its chain.
    if let Some(gone) = super::doctor::gone_events(&store.gaps()?) {
        verified.notes.push(gone);
    }
    if !store.had_journal_hash(id, &kept.previous)? {
        verified.problems.push("the journal up to the verdict is not what it was".to_owned());
    }
    match store.attested(id, seq) {
        Ok(attested) => tell_of_signature(&attested, kept, verified)?,
        Err(StoreError::Key(error)) => {
            verified.problems.push(format!("the signature cannot be checked: {error}"));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(verified.problems.len() == before)
}

fn tell_of_audit(audit: &StreamAudit, verified: &mut Verified) {
    if let Some(fault) = &audit.fault {
        verified.problems.push(format!("the journal was edited: {fault}"));
    }
    if !audit.columns.is_empty() {
        let columns = audit.columns.join("`, `");
        verified.problems.push(format!(
            "the journal was edited: `{columns}` in the loop's row is not what its events say"
        ));
    }
    if audit.unchained > 0 {
        let rest = match audit.events - audit.unchained {
            0 => "nothing shows whether they were edited",
            _ => {
                "they are as they were when the loop went on, and nothing shows whether they were edited before"
            }
        };
        verified.notes.push(format!(
            "{} of {} events are from before dacapo chained events by hash: {rest}",
            audit.unchained, audit.events
        ));
    }
    if let Some(seq) = audit.clock_went_back_at {
        verified.notes.push(format!(
            "the clock of the machine went back before event {seq}: times are not to be relied on"
        ));
    }
}

fn tell_of_signature(attested: &Attested, kept: &Receipt, verified: &mut Verified) -> Result<(), UserError> {
    let problem = match attested {
        Attested::Signed(signed) => {
            let kept_as_json = serde_json::to_value(kept).map_err(UserError::failed)?;
            verified.signed_by = Some(signed.principal.clone());
            if signed.key_made_at.is_some_and(|made| made > kept.ended_at) {
                verified.notes.push(signed::KEY_IS_YOUNGER.to_owned());
            }
            match receipt::differing_fields(&signed.receipt, &kept_as_json) {
                fields if fields.is_empty() => return Ok(()),
                fields => format!("this machine has signed something else: `{}`", fields.join("`, `")),
            }
        }
        Attested::Unsigned => {
            verified.notes.push("the receipt is from before dacapo signed receipts".to_owned());
            return Ok(());
        }
        Attested::Missing => "its signature was removed from the journal".to_owned(),
        Attested::Unreadable(why) => format!("its signature cannot be read: {why}"),
        Attested::OtherKey(fault) => format!("its signature is not this machine's: {fault}"),
        Attested::Other(fault) => format!("what this machine has signed is no receipt: {fault}"),
        Attested::OtherEvent => {
            "what this machine has signed stood at another place of the journal".to_owned()
        }
    };
    verified.problems.push(problem);
    Ok(())
}

fn check_hash(handed_in: &Value, kept: Option<&Receipt>, verified: &mut Verified) -> Result<(), UserError> {
    if let Some(kept) = kept {
        let kept = serde_json::to_value(kept).map_err(UserError::failed)?;
        verified.altered = receipt::differing_fields(handed_in, &kept);
        if !verified.altered.is_empty() {
            let names = verified.altered.join("`, `");
            verified.problems.push(format!("altered since it was issued: `{names}`"));
            return Ok(());
        }
    }
    if !receipt::has_its_hash(handed_in) {
        verified.problems.push("it was altered: its hash is not that of what it says".to_owned());
    }
    Ok(())
}

fn check_gates(
    cx: &Context,
    store: &Store,
    id: &LoopId,
    kept: &Receipt,
    quiet: bool,
    verified: &mut Verified,
) {
    if kept.gates.is_empty() {
        verified.notes.push("no gate stood behind the claim: there is nothing to run again".to_owned());
    }
    let before = |name: &str| {
        if !quiet {
            say(format!("gate `{name}` …"));
        }
    };
    let again = match proof::check_again(&cx.home, store, id, kept, before) {
        Ok(again) => again,
        Err(error) if error.is_about_files_that_are_gone() => {
            verified.unchecked = Some(error.to_string());
            return;
        }
        Err(error) => return verified.problems.push(error.to_string()),
    };
    if let Some(tree) = &again.other_tree {
        verified.problems.push(format!("the snapshot holds tree {tree}, not the one that was judged"));
    }
    for path in &again.unlike {
        verified.problems.push(format!("the protected file `{path}` is not what the receipt says"));
    }
    for name in &again.asked {
        verified.notes.push(format!("gate `{name}` asked an agent, which is not asked again"));
    }
    for gate in again.gates {
        let is_other = gate.now.exit_code != gate.then;
        if is_other || gate.refusal.is_some() {
            let ended = match (&gate.now.failure, &gate.refusal) {
                (Some(failure), _) => failure.clone(),
                (None, Some(refusal)) if !is_other => refusal.clone(),
                (None, _) => format!("exits {}", gate.now.exit_code),
            };
            let said = readable(&gate.now.tail);
            let said: Vec<&str> = said.trim_end().lines().rev().take(3).collect();
            let said: String = said.iter().rev().map(|line| format!("\n  │ {line}")).collect();
            let then = if is_other { format!(", the receipt says {}", gate.then) } else { String::new() };
            verified.problems.push(format!("gate `{}` {ended} in a fresh checkout{then}{said}", gate.name));
        } else if !gate.same_output {
            verified
                .notes
                .push(format!("gate `{}` exits {} again and prints something else", gate.name, gate.then));
        }
        let (name, then, same_output) = (gate.name, gate.then, gate.same_output);
        verified.gates.push(GateJson { name, then, now: gate.now.exit_code, same_output });
    }
}
