//! The proof of a finished loop.

use serde_json::Value;

use super::*;
use crate::{
    event::{ProtectedFile, Usage},
    judge::tamper::TamperScan,
    receipt::{GateProof, Receipt, RefusalLine, Tamper, Versions, canonical, sha256},
    sandbox::SandboxMode,
};

/// The receipt in a journal.
pub(super) fn of(sim: &Sim) -> Receipt {
    let receipts: Vec<&Receipt> = sim
        .journal
        .iter()
        .filter_map(|event| match event {
            LoopEvent::ReceiptIssued { receipt } => Some(&**receipt),
            _ => None,
        })
        .collect();
    assert_eq!(receipts.len(), 1, "one per accepted claim");
    receipts[0].clone()
}

/// A loop in which everything happened that a receipt tells of.
fn eventful() -> Sim {
    let mut policy = gated(&["a", "b", "c"]);
    (policy.gates.baseline, policy.gates.tolerate_baseline) = (true, true);
    policy.items[0].commit = Some(CommitRule { message: None });
    policy.gates.specs[0].retries = 1;
    let protected = vec![ProtectedFile { path: "tests/a.rs".into(), sha256: "ab".into(), ignored: false }];
    let begun = LoopStarted { protected, ..started(policy) };
    let costs = || {
        exits_with(0, |r| {
            r.facts.promise = Some("DONE".into());
            r.exit.cost_usd = Some(0.1);
            r.exit.usage = Some(Usage { input: 10, output: 1, ..Usage::default() });
        })
    };
    let last = examined_with(|e| {
        e.commits = vec!["c1".into()];
        e.tamper =
            TamperScan { deleted_tests: 1, skipped_tests: 2, emptied_tests: 3, ..TamperScan::default() };
    });
    Sim { is_told: true, ..Sim::begun(begun) }
        .after([gate(0), gate(0), gate(1), no_markers()])
        .after([costs(), no_children(), examined_with(|e| e.changed = 0), Input::DelayOver, no_markers()])
        .after([costs(), no_children(), last, gate(1), gate(0), gate(0), gate(1), rechecked(&[])])
        .after([commit_done(Ok(Some("c0ffee")))])
}

/// A receipt with something in every field.
pub(crate) fn receipt() -> Receipt {
    of(&eventful())
}

#[test]
fn a_receipt_says_what_was_claimed_checked_and_kept() {
    // req 33, req 34, faults A10, A11 and A12
    let proof = |name: &str, code: i32| GateProof {
        expect: Default::default(),
        working_dir: None,
        name: name.into(),
        command: name.into(),
        exit_code: code,
        duration_ms: 1000,
        output_sha256: "e3b0c442".into(),
        flaky: name == "a",
        tolerated: name == "c",
    };
    let expected = Receipt {
        loop_id: "abcdefghjk".into(),
        task: "TASK-001".into(),
        claim: vec![Signal::Promise("DONE".into())],
        verdict: "verified".into(),
        base: Some("tree0".into()),
        tree: Some("tree1".into()),
        snapshot: Some("snap1".into()),
        commits: vec!["c1".into(), "c0ffee".into()],
        gates: vec![proof("a", 0), proof("b", 0), proof("c", 1)],
        baseline: vec![("a".into(), true), ("b".into(), true), ("c".into(), false)],
        protected: vec![ProtectedFile { path: "tests/a.rs".into(), sha256: "ab".into(), ignored: false }],
        tamper: Tamper { deleted_tests: 1, skipped_tests: 2, emptied_tests: 3 },
        tests: None,
        programs: vec![],
        checked_in: None,
        approved_by: None,
        sandbox: Some(SandboxMode::Off),
        sandbox_tier: None,
        sandbox_open: vec![],
        refusals: vec![RefusalLine {
            iteration: 1,
            reason: RefusalReason::Empty,
            detail: "nothing was changed since the loop began".into(),
        }],
        iterations: 2,
        tokens: Some(Usage { input: 20, output: 2, ..Usage::default() }),
        cost_usd: Some(0.2),
        started_at: Some(jiff::Timestamp::UNIX_EPOCH),
        ended_at: jiff::Timestamp::UNIX_EPOCH,
        versions: Versions { dacapo: "0.1.0".into() },
        previous: "0".repeat(64),
        sha256: receipt().sha256,
    };
    assert_eq!(receipt(), expected);
    assert!(expected.is_sound());
    // The names of the contract, and no others than these beside them.
    let Value::Object(fields) = serde_json::to_value(&expected).unwrap() else { panic!("not an object") };
    let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
    names.sort_unstable();
    let mut contract: Vec<&str> =
        "loop task claim verdict base tree commits gates baseline protected tamper \
        refusals sandbox iterations tokens cost_usd started_at ended_at versions previous sha256 snapshot"
            .split_whitespace()
            .collect();
    contract.sort_unstable();
    assert_eq!(names, contract);
}

#[test]
fn a_claim_without_gates_gets_an_unverified_receipt() {
    let bare = of(&Sim::running(policy(|_| {})).after([promises(0), no_children()]));
    assert_eq!((bare.verdict.as_str(), bare.gates.len(), bare.is_sound()), ("unverified", 0, true));
    assert_eq!((bare.tokens, bare.cost_usd), (None, None));
    // No workspace that could be looked at: said so, not made up.
    let blind = Sim::begun(LoopStarted { base: None, ..started(policy(|_| {})) });
    let blind = Sim { is_told: true, ..blind }.after([no_markers(), promises(0), no_children()]);
    let blind = of(&blind.after([Input::Examined(None), rechecked(&[])]));
    assert_eq!((blind.base, blind.tree, blind.snapshot), (None, None, None));
}

#[test]
fn a_changed_field_is_found_and_named() {
    // fault A10: a receipt that was tampered with says so.
    let receipt = receipt();
    let whole = serde_json::to_value(&receipt).unwrap();
    let fields: Vec<String> = whole.as_object().unwrap().keys().cloned().collect();
    for field in fields {
        let mut spoiled = whole.clone();
        spoil(&mut spoiled[&field]);
        let spoiled: Receipt = serde_json::from_value(spoiled).unwrap_or_else(|e| panic!("{field}: {e}"));
        assert!(!spoiled.is_sound(), "{field}");
        assert_eq!(receipt.differences(&spoiled), std::slice::from_ref(&field));
        // A receipt with a changed field and a new hash that fits is found by what the journal holds.
        let resealed = Receipt { sha256: spoiled.hash(), ..spoiled };
        assert_eq!(resealed.is_sound(), field != "sha256" || resealed == receipt);
        if field != "sha256" {
            let mut both = [field, "sha256".to_owned()];
            both.sort();
            assert_eq!(receipt.differences(&resealed), both);
        }
    }
    assert_eq!(receipt.differences(&receipt), Vec::<String>::new());
}

/// Changes a value to another of its kind, deep inside.
fn spoil(value: &mut Value) {
    match value {
        Value::String(text) if text == "1970-01-01T00:00:00Z" => *text = "1970-01-01T00:00:01Z".into(),
        Value::String(text) if text == "off" => *text = "guard".into(),
        Value::String(text) if text == "empty" => *text = "tampered".into(),
        Value::String(text) if text == "promise" => *text = "wait_message".into(),
        Value::String(text) => text.push('x'),
        Value::Bool(flag) => *flag = !*flag,
        Value::Number(n) if n.is_f64() => *value = serde_json::json!(9.5),
        Value::Number(n) => *value = serde_json::json!(n.as_i64().unwrap() + 1),
        Value::Array(items) => spoil(items.last_mut().unwrap()),
        Value::Object(fields) => spoil(fields.values_mut().next().unwrap()),
        Value::Null => panic!("every field holds something"),
    }
}

#[test]
fn the_hash_is_the_same_wherever_and_whenever_it_is_made() {
    let receipt = receipt();
    // Through the journal and back, and with its fields in any order.
    let text = serde_json::to_string_pretty(&receipt).unwrap();
    let read: Receipt = serde_json::from_str(&text).unwrap();
    assert_eq!((&read, read.hash()), (&receipt, receipt.sha256.clone()));
    let Value::Object(fields) = serde_json::to_value(&receipt).unwrap() else { panic!("not an object") };
    let backwards: Vec<String> = fields.iter().rev().map(|(k, v)| format!("\"{k}\": {v}")).collect();
    let read: Receipt = serde_json::from_str(&format!("{{{}}}", backwards.join(",\n"))).unwrap();
    assert!(read.is_sound());
    // A user can compute the hash with common tools: sorted keys, no spaces, SHA-256.
    let value: Value =
        serde_json::from_str(r#"{"b": [1, 2.5, null], "a": {"d": "é\n", "c": true}}"#).unwrap();
    assert_eq!(canonical(&value), r#"{"a":{"c":true,"d":"é\n"},"b":[1,2.5,null]}"#);
    assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn no_sum_of_money_breaks_the_hash() {
    // Costs are added up: the sums have all the digits there are, and must be read back to the last.
    let (mut receipt, mut sum) = (receipt(), 0.0_f64);
    for cent in 1..5000_u32 {
        sum += f64::from(cent) * 0.001_37;
        receipt.cost_usd = Some(sum);
        receipt.sha256 = receipt.hash();
        let read: Receipt = serde_json::from_str(&serde_json::to_string(&receipt).unwrap()).unwrap();
        assert!(read.is_sound(), "{sum}");
    }
}
