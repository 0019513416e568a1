//! A receipt as an in-toto statement, v1: what it is about by git's own hashes, then the receipt whole.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    chain::Link,
    receipt::{GateProof, Receipt, canonical, has_its_hash, sha256},
};

pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// The type of the predicate that holds a receipt.
pub const RECEIPT_TYPE: &str = "urn:dacapo:receipt:v1";

/// The type of the predicate that other tools know for results of tests. It has no exit code of each gate.
pub const TEST_RESULT_TYPE: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// Who has signed. The key is no identity by itself: this says whose it is, in the words of the machine that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    pub keyid: String,
    /// `user@host`.
    pub principal: String,
    pub made_at: Option<Timestamp>,
}

/// The statement about an accepted claim: the receipt, and where in the journal it stands.
pub fn receipt_statement(receipt: &Receipt, seq: u64, link: Link, signer: &Signer) -> Value {
    let policy: Vec<Value> = receipt
        .gates
        .iter()
        .map(|gate| json!({ "name": gate.name, "command": gate.command, "expect": gate.expect }))
        .collect();
    json!({
        "_type": STATEMENT_TYPE,
        "subject": subjects(receipt),
        "predicateType": RECEIPT_TYPE,
        "predicate": {
            "receipt": receipt,
            "journal": { "loop": receipt.loop_id, "seq": seq, "chain": link.hex() },
            "verifier": { "id": "urn:dacapo", "version": { "dacapo": receipt.versions.dacapo } },
            "timeVerified": receipt.ended_at,
            "policy": { "digest": { "sha256": sha256(canonical(&json!(policy)).as_bytes()) } },
            "verificationResult": if receipt.verdict == "verified" { "PASSED" } else { "UNVERIFIED" },
            "signer": {
                "algorithm": "ed25519",
                "keyid": signer.keyid,
                "principal": signer.principal,
                "created": signer.made_at,
            },
        },
    })
}

/// The same for tools that know results of tests; none if no gate stood behind the claim.
pub fn test_result_statement(receipt: &Receipt) -> Option<Value> {
    if receipt.gates.is_empty() {
        return None;
    }
    let names = |is: fn(&GateProof) -> bool| -> Vec<&str> {
        receipt.gates.iter().filter(|gate| is(gate)).map(|gate| gate.name.as_str()).collect()
    };
    let is_warned = |gate: &GateProof| gate.flaky || gate.tolerated;
    let warned = names(is_warned);
    let configuration: Vec<Value> = receipt
        .gates
        .iter()
        .map(|gate| {
            json!({
                "name": gate.name,
                "digest": { "sha256": sha256(gate.command.as_bytes()) },
                "annotations": { "command": gate.command, "exitCode": gate.exit_code },
            })
        })
        .collect();
    Some(json!({
        "_type": STATEMENT_TYPE,
        "subject": subjects(receipt),
        "predicateType": TEST_RESULT_TYPE,
        "predicate": {
            "result": if warned.is_empty() { "PASSED" } else { "WARNED" },
            "configuration": configuration,
            "passedTests": names(|gate| !gate.flaky && !gate.tolerated),
            "warnedTests": warned,
            "failedTests": [],
        },
    }))
}

/// What a receipt is about: its tree and its commits. Where git has neither, the receipt itself.
fn subjects(receipt: &Receipt) -> Vec<Value> {
    let tree = receipt.tree.as_ref().map(|tree| {
        // Outside git a hash over the folder's files stands for both.
        let is_git = receipt.snapshot.as_ref() != Some(tree);
        let digest = if is_git { "gitTree" } else { "dacapoFolder" };
        json!({ "name": "tree", "digest": { digest: tree } })
    });
    let commits = receipt.commits.iter().map(|commit| {
        let short = commit.get(..12).unwrap_or(commit);
        json!({ "name": format!("commit {short}"), "digest": { "gitCommit": commit } })
    });
    let subjects: Vec<Value> = tree.into_iter().chain(commits).collect();
    match subjects.is_empty() {
        true => vec![json!({ "name": "receipt", "digest": { "sha256": receipt.sha256 } })],
        false => subjects,
    }
}

/// A receipt in a statement whose signature was found right.
#[derive(Clone, Debug, PartialEq)]
pub struct AttestedReceipt {
    /// As it stands there: a field that this version does not know belongs to its hash.
    pub receipt: Value,
    pub seq: u64,
    /// The hash that the event of the receipt carries.
    pub chain: String,
    pub principal: String,
    pub key_made_at: Option<Timestamp>,
}

/// Why the payload of an envelope is no receipt, although it was signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementFault {
    #[error("its payload is no in-toto statement: {0}")]
    NoStatement(String),
    #[error("it is about `{0}`, not about a receipt")]
    OtherPredicate(String),
    #[error("what it says it is about (`subject`) is not what its receipt is about")]
    OtherSubject,
    #[error("the hash of its receipt is not that of what the receipt says")]
    OtherHash,
    #[error("`{0}` in it is not what its receipt says")]
    Contradiction(&'static str),
}

pub fn predicate_type(payload: &[u8]) -> Result<(Value, String), StatementFault> {
    let statement: Value =
        serde_json::from_slice(payload).map_err(|error| StatementFault::NoStatement(error.to_string()))?;
    if statement["_type"] != STATEMENT_TYPE {
        return Err(StatementFault::NoStatement(format!("its `_type` is {}", statement["_type"])));
    }
    let kind = statement["predicateType"].as_str().unwrap_or_default().to_owned();
    Ok((statement, kind))
}

/// The receipt in a statement, if all of the statement is about it.
pub fn attested_receipt(payload: &[u8]) -> Result<AttestedReceipt, StatementFault> {
    let (statement, kind) = predicate_type(payload)?;
    if kind != RECEIPT_TYPE {
        return Err(StatementFault::OtherPredicate(kind));
    }
    let predicate = &statement["predicate"];
    let value = &predicate["receipt"];
    let receipt: Receipt = serde_json::from_value(value.clone())
        .map_err(|error| StatementFault::NoStatement(format!("its receipt cannot be read: {error}")))?;
    if !has_its_hash(value) {
        return Err(StatementFault::OtherHash);
    }
    if statement["subject"] != json!(subjects(&receipt)) {
        return Err(StatementFault::OtherSubject);
    }
    if predicate["journal"]["loop"] != json!(receipt.loop_id) {
        return Err(StatementFault::Contradiction("journal.loop"));
    }
    if (predicate["verificationResult"] == "PASSED") != (receipt.verdict == "verified") {
        return Err(StatementFault::Contradiction("verificationResult"));
    }
    let signer = &predicate["signer"];
    Ok(AttestedReceipt {
        receipt: value.clone(),
        seq: predicate["journal"]["seq"].as_u64().unwrap_or_default(),
        chain: predicate["journal"]["chain"].as_str().unwrap_or_default().to_owned(),
        principal: signer["principal"].as_str().unwrap_or_default().to_owned(),
        key_made_at: signer["created"].as_str().and_then(|at| at.parse().ok()),
    })
}
