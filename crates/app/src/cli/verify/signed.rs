//! `dacapo verify FILE --key FILE`: signed receipts where there is no journal.

use std::{io::Read, path::Path};

use dacapo_core::{
    attestation::{
        AttestedReceipt, DsseEnvelope, RECEIPT_TYPE, StatementFault, attested_receipt, predicate_type,
    },
    text::count,
};
use dacapo_engine::{
    keys::PublicKey,
    store::{Store, StoreError},
};
use serde_json::{Value, json};

use super::{say, say_json};
use crate::error::{FAILED, UserError};

/// What is said of a receipt that its own key is younger than.
pub(super) const KEY_IS_YOUNGER: &str = "the key says that it was made after the claim was accepted: a clock went back, or the file of the key was edited";

/// The most that is read of a file.
const MOST: u64 = 64 << 20;

/// Checks each envelope in a file with a public key. Nothing but the two files is looked at.
pub(super) fn verify(what: &str, key: &Path, is_json: bool) -> Result<u8, UserError> {
    let text = std::fs::read_to_string(key)
        .map_err(|error| UserError::usage(format!("cannot read `{}`: {error}", key.display())))?;
    let key = PublicKey::of_text(&text).ok_or_else(|| {
        UserError::usage(format!("`{}` holds no public key of Ed25519", key.display()))
            .hint("`dacapo receipt --public-key` prints the key of a machine, there")
    })?;
    let envelopes = envelopes(&read(what)?).ok_or_else(|| {
        UserError::failed(format!("`{what}` holds no signed receipt"))
            .hint("`dacapo receipt ID --in-toto` prints one")
    })?;
    let mut is_sound = true;
    let mut told = Vec::new();
    for envelope in &envelopes {
        let checked = check(envelope, &key);
        is_sound &= checked.is_ok();
        match checked {
            Err(why) if is_json => told.push(json!({ "sound": false, "problems": [why] })),
            Err(why) => say(format!("NOT SOUND: {why}")),
            Ok(statement) if is_json => told.push(statement.as_json(&key)),
            Ok(statement) => statement.tell(&key),
        }
    }
    if is_json {
        say_json(&told)?;
    }
    Ok(if is_sound { 0 } else { FAILED })
}

/// A statement whose signature was found right.
enum Checked {
    Receipt(Box<AttestedReceipt>),
    /// The type of its predicate, and what it is about.
    Other(String, Value),
}

fn check(envelope: &DsseEnvelope, key: &PublicKey) -> Result<Checked, String> {
    let payload = key.open(envelope).map_err(|fault| fault.to_string())?;
    let other = |fault: StatementFault| format!("signed by this key, but {fault}");
    let (statement, kind) = predicate_type(&payload).map_err(other)?;
    if kind != RECEIPT_TYPE {
        return Ok(Checked::Other(kind, statement["subject"].clone()));
    }
    Ok(Checked::Receipt(Box::new(attested_receipt(&payload).map_err(other)?)))
}

/// Whose key this is, in the words of its file.
fn signer(key: &PublicKey) -> String {
    let id = key.signer.keyid.get(..19).unwrap_or(&key.signer.keyid);
    match key.signer.principal.as_str() {
        "" => format!("the key {id}…"),
        principal => format!("the key {id}… of {principal}"),
    }
}

impl Checked {
    fn tell(&self, key: &PublicKey) {
        match self {
            Self::Other(kind, subject) => {
                say(format!("The statement of type `{kind}` is signed by {}.", signer(key)));
                say(format!("  subject     {subject}"));
            }
            Self::Receipt(attested) => {
                let receipt = &attested.receipt;
                let word = |name: &str| receipt[name].as_str().unwrap_or("-").to_owned();
                for note in attested.notes(key) {
                    say(format!("note: {note}"));
                }
                say(format!(
                    "The receipt of loop {} is signed by {}: {}.",
                    word("loop"),
                    signer(key),
                    word("verdict")
                ));
                say(format!("  task        {}", word("task")));
                say(format!("  to tree     {}", word("tree")));
                let gates = receipt["gates"].as_array().map_or(0, Vec::len);
                say(format!("  gates       {}", count(gates as u32, "gate")));
                say(format!("  sandbox     {}", word("sandbox")));
                say(format!("  decided     {}", word("ended_at")));
                say("Its gates were not run again: that takes the journal and the repository.");
            }
        }
    }

    fn as_json(&self, key: &PublicKey) -> Value {
        match self {
            Self::Other(kind, subject) => {
                json!({ "sound": true, "predicate": kind, "subject": subject, "signed_by": key.signer.principal })
            }
            Self::Receipt(attested) => json!({
                "sound": true,
                "predicate": RECEIPT_TYPE,
                "loop": attested.receipt["loop"],
                "signed_by": key.signer.principal,
                "notes": attested.notes(key),
                "receipt": attested.receipt,
            }),
        }
    }
}

/// What a person should know besides.
trait Notes {
    fn notes(&self, key: &PublicKey) -> Vec<String>;
}

impl Notes for AttestedReceipt {
    fn notes(&self, key: &PublicKey) -> Vec<String> {
        let mut notes = Vec::new();
        let time = |name: &str| self.receipt[name].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
        let (began, ended) = (time("started_at"), time("ended_at"));
        if key.signer.made_at.zip(ended).is_some_and(|(made, ended)| made > ended) {
            notes.push(KEY_IS_YOUNGER.to_owned());
        }
        if began.zip(ended).is_some_and(|(began, ended)| ended < began) {
            notes.push("it ended before it began: the clock of that machine went back".to_owned());
        }
        if self.principal != key.signer.principal {
            notes.push(format!("the receipt names `{}` as its signer", self.principal));
        }
        notes
    }
}

fn read(what: &str) -> Result<Vec<u8>, UserError> {
    let failed = |error: std::io::Error| UserError::usage(format!("cannot read `{what}`: {error}"));
    let mut bytes = Vec::new();
    match what {
        "-" => std::io::stdin().lock().take(MOST).read_to_end(&mut bytes).map_err(failed)?,
        path => std::fs::File::open(path)
            .and_then(|file| file.take(MOST).read_to_end(&mut bytes))
            .map_err(failed)?,
    };
    Ok(bytes)
}

/// One envelope, or one in each line.
fn envelopes(bytes: &[u8]) -> Option<Vec<DsseEnvelope>> {
    if let Ok(one) = serde_json::from_slice(bytes) {
        return Some(vec![one]);
    }
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let envelopes: Vec<DsseEnvelope> = lines.map(serde_json::from_slice).collect::<Result<_, _>>().ok()?;
    (!envelopes.is_empty()).then_some(envelopes)
}

/// The receipt in a file that holds one envelope, if this machine has signed it: the journal here can say more about it.
pub(super) fn own_receipt(what: &str, bytes: &[u8], store: &Store) -> Result<Option<Value>, UserError> {
    let Some(envelopes) = envelopes(bytes) else { return Ok(None) };
    let [envelope] = &envelopes[..] else {
        return Err(UserError::usage(format!("`{what}` holds several signed receipts"))
            .hint("`--key FILE` checks all of them with a public key; `dacapo receipt --public-key` prints that of this machine"));
    };
    let (key, _) = store.keys().public().map_err(StoreError::from)?;
    match check(envelope, &key) {
        Ok(Checked::Receipt(attested)) => Ok(Some(attested.receipt)),
        Ok(Checked::Other(kind, _)) => Err(UserError::failed(format!(
            "`{what}` is a statement of type `{kind}` that this machine has signed"
        ))),
        Err(why) => Err(UserError::failed(format!("NOT SOUND: `{what}`: {why}"))
            .hint("if another machine has signed it, give that machine's public key: `--key FILE`")),
    }
}
