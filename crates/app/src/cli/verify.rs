//! `dacapo verify`.

use std::path::Path;

use clap::Args;
use dacapo_core::{
    ids::LoopId,
    receipt::{self, Receipt},
    text::ansi::readable,
};
use dacapo_engine::{proof, store::Store};
use serde::Serialize;
use serde_json::Value;

use super::{receipt::no_receipt, say, say_json};
use crate::{
    context::Context,
    error::{FAILED, UserError},
};

/// Check a receipt: its hash, its journal, and its gates once more
///
/// The files that were judged are brought back in a scratch folder and the gates run there again, contained as in a
/// loop; your own files stay as they are. A file that holds a receipt of a loop of another machine is checked by its
/// hash only: nothing that a file says is run.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo verify fix-tests\n  dacapo verify receipt.json")]
pub(super) struct VerifyArgs {
    /// The loop (its id, the beginning of it, or its task), or a file that holds a receipt
    #[arg(value_name = "ID|FILE")]
    what: String,
    /// As JSON
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
    /// Fields of the receipt that are not what the journal says.
    altered: Vec<String>,
    /// Everything that speaks against it, in words.
    problems: Vec<String>,
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
    let store = cx.store()?;
    let handed_in = match handed_in(&args.what)? {
        Some(value) => value,
        None => match cx.find(&cx.client()?, &args.what) {
            Ok(row) => {
                let found = proof::receipt(&store, &row.view.id)?.ok_or_else(|| no_receipt(&row.view))?;
                serde_json::to_value(found).map_err(UserError::failed)?
            }
            Err(error) => return Err(error.hint("or give a file that holds a receipt")),
        },
    };
    let mut verified = Verified {
        loop_id: handed_in["loop"].as_str().unwrap_or_default().to_owned(),
        ..Verified::default()
    };
    let kept = kept(&store, &verified.loop_id)?;
    check_hash(&handed_in, kept.as_ref().map(|(_, kept)| kept), &mut verified)?;
    match &kept {
        Some((id, kept)) => {
            verified.journal = true;
            if !store.had_journal_hash(id, &kept.previous)? {
                verified.problems.push("the journal up to the verdict is not what it was".to_owned());
            }
            check_gates(cx, &store, id, kept, args.json, &mut verified);
        }
        None => verified
            .notes
            .push("the journal of this loop is not here: only the receipt's own hash was checked".to_owned()),
    }
    verified.sound = verified.problems.is_empty();
    let code = if verified.sound { 0 } else { FAILED };
    if args.json {
        say_json(&verified)?;
        return Ok(code);
    }
    for line in &verified.notes {
        say(format!("note: {line}"));
    }
    for line in &verified.problems {
        say(format!("NOT SOUND: {line}"));
    }
    if verified.sound {
        say(format!("The receipt of loop {} is sound.", verified.loop_id));
    }
    Ok(code)
}

/// The receipt in the file that `what` names, if it names one.
fn handed_in(what: &str) -> Result<Option<Value>, UserError> {
    let path = Path::new(what);
    if what.parse::<LoopId>().is_ok() || !(path.is_file() || what.contains('/') || what.ends_with(".json")) {
        return Ok(None);
    }
    let bytes =
        std::fs::read(path).map_err(|error| UserError::usage(format!("cannot read `{what}`: {error}")))?;
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| UserError::failed(format!("`{what}` is no receipt: {error}")))?;
    if value["loop"].is_string() && value["sha256"].is_string() {
        Ok(Some(value))
    } else {
        Err(UserError::failed(format!("`{what}` is no receipt: it names no loop or has no hash")))
    }
}

/// The loop and its receipt as the journal here has them.
fn kept(store: &Store, loop_id: &str) -> Result<Option<(LoopId, Receipt)>, UserError> {
    let Ok(id) = loop_id.parse::<LoopId>() else { return Ok(None) };
    Ok(proof::receipt(store, &id)?.map(|receipt| (id, receipt)))
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
