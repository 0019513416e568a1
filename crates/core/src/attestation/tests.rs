use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{chain::Link, loop_machine::decide_tests::receipts::receipt, receipt::Receipt};

fn signer() -> Signer {
    let made_at = "2026-11-18T06:00:00Z".parse().ok();
    Signer { keyid: "sha256:ab".into(), principal: "you@here".into(), made_at }
}

fn link() -> Link {
    Link::beginning("loop", "abcdefghjk", "")
}

/// A signature for tests: the message, folded to 64 bytes.
fn sign(message: &[u8]) -> [u8; 64] {
    let mut folded = [0_u8; 64];
    for (at, byte) in message.iter().enumerate() {
        folded[at % 64] = folded[at % 64].rotate_left(3) ^ byte;
    }
    folded
}

fn is_signed(message: &[u8], signature: &[u8]) -> bool {
    sign(message) == signature
}

#[test]
fn the_signed_bytes_are_those_of_the_standard() {
    // protocol.md of DSSE v1.0.2, "Test Vectors".
    for (kind, payload, expected) in [
        (
            "http://example.com/HelloWorld",
            b"hello world".as_slice(),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world".as_slice(),
        ),
        ("", b"", b"DSSEv1 0  0 "),
        // Lengths are of bytes, and a payload may hold any.
        ("\u{e9}", b"\x00\xff\n", b"DSSEv1 2 \xc3\xa9 3 \x00\xff\n"),
        ("a 1 b", b" 2 c", b"DSSEv1 5 a 1 b 4  2 c"),
    ] {
        assert_eq!(pae(kind, payload), expected);
    }
}

#[test]
fn an_envelope_of_the_standard_is_read() {
    // The envelope of the same vector, whose signature is of another algorithm: it is handed over as it is.
    let text = r#"{"payload": "aGVsbG8gd29ybGQ=", "payloadType": "http://example.com/HelloWorld", "signatures": [{"sig": "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA=="}]}"#;
    let mut envelope: DsseEnvelope = serde_json::from_str(text).expect("an envelope");
    assert_eq!(
        envelope.open(|_, _| true),
        Err(EnvelopeFault::OtherType("http://example.com/HelloWorld".into()))
    );
    assert_eq!(envelope.signatures[0].keyid, None);
    envelope.payload_type = IN_TOTO.into();
    let heard = std::cell::RefCell::new(Vec::new());
    let opened = envelope.open(|message, signature| {
        heard.borrow_mut().push((message.to_vec(), signature.len()));
        true
    });
    assert_eq!(opened, Ok(b"hello world".to_vec()));
    assert_eq!(*heard.borrow(), [(pae(IN_TOTO, b"hello world"), 64)]);
}

#[test]
fn an_envelope_opens_with_one_right_signature_and_not_otherwise() {
    let sealed = DsseEnvelope::seal(b"payload", "k".into(), sign);
    assert_eq!(sealed.open(is_signed), Ok(b"payload".to_vec()));
    let with = |change: fn(&mut DsseEnvelope)| {
        let mut envelope = sealed.clone();
        change(&mut envelope);
        envelope.open(is_signed)
    };
    let other = |sig: &str| DsseSignature { keyid: Some("k".into()), sig: sig.into() };
    for (what, changed, expected) in [
        ("another key id", with(|e| e.signatures[0].keyid = Some("x".into())), Ok(b"payload".to_vec())),
        ("no key id", with(|e| e.signatures[0].keyid = None), Ok(b"payload".to_vec())),
        (
            "another signature beside it",
            {
                let mut envelope = sealed.clone();
                envelope.signatures.insert(0, other("AAAA"));
                envelope.open(is_signed)
            },
            Ok(b"payload".to_vec()),
        ),
        ("another payload", with(|e| e.payload = STANDARD.encode("Payload")), Err(EnvelopeFault::OtherKey)),
        ("no base64", with(|e| e.payload = "%".into()), Err(EnvelopeFault::NoPayload)),
        ("no signature", with(|e| e.signatures.clear()), Err(EnvelopeFault::Unsigned)),
        (
            "a signature that is no base64",
            with(|e| e.signatures[0].sig = "%".into()),
            Err(EnvelopeFault::OtherKey),
        ),
        ("a shorter signature", with(|e| e.signatures[0].sig = "AAAA".into()), Err(EnvelopeFault::OtherKey)),
        (
            "another type",
            with(|e| e.payload_type = "application/json".into()),
            Err(EnvelopeFault::OtherType("application/json".into())),
        ),
    ] {
        assert_eq!(changed, expected, "{what}");
    }
}

#[test]
fn a_statement_names_the_tree_and_the_commits() {
    let statement = receipt_statement(&receipt(), 17, link(), &signer());
    assert_eq!(statement["_type"], STATEMENT_TYPE);
    assert_eq!(
        statement["subject"],
        json!([
            { "name": "tree", "digest": { "gitTree": "tree1" } },
            { "name": "commit c1", "digest": { "gitCommit": "c1" } },
            { "name": "commit c0ffee", "digest": { "gitCommit": "c0ffee" } },
        ])
    );
    let predicate = &statement["predicate"];
    assert_eq!(predicate["verificationResult"], "PASSED");
    assert_eq!(predicate["journal"], json!({ "loop": "abcdefghjk", "seq": 17, "chain": link().hex() }));
    assert_eq!(
        predicate["signer"],
        json!({ "algorithm": "ed25519", "keyid": "sha256:ab", "principal": "you@here", "created": "2026-11-18T06:00:00Z" })
    );
    assert_eq!(predicate["receipt"], json!(receipt()));
}

#[test]
fn without_a_repository_the_subject_is_the_folder_or_the_receipt() {
    let mut plain = Receipt { commits: Vec::new(), ..receipt() };
    plain.snapshot = plain.tree.clone();
    let subject = |receipt: &Receipt| receipt_statement(receipt, 1, link(), &signer())["subject"].clone();
    assert_eq!(subject(&plain), json!([{ "name": "tree", "digest": { "dacapoFolder": "tree1" } }]));
    plain.tree = None;
    assert_eq!(subject(&plain), json!([{ "name": "receipt", "digest": { "sha256": plain.sha256 } }]));
}

#[test]
fn a_test_result_says_which_gates_passed_and_how() {
    let statement = test_result_statement(&receipt()).expect("there were gates");
    let predicate = &statement["predicate"];
    assert_eq!(predicate["result"], "WARNED");
    assert_eq!(
        (&predicate["passedTests"], &predicate["warnedTests"], &predicate["failedTests"]),
        (&json!(["b"]), &json!(["a", "c"]), &json!([]))
    );
    assert_eq!(predicate["configuration"][1]["annotations"], json!({ "command": "b", "exitCode": 0 }));
    assert_eq!(test_result_statement(&Receipt { gates: Vec::new(), ..receipt() }), None);
}

#[test]
fn a_receipt_comes_out_of_its_statement_and_a_contradiction_does_not() {
    let statement = receipt_statement(&receipt(), 17, link(), &signer());
    let read = |statement: &Value| attested_receipt(statement.to_string().as_bytes());
    let attested = read(&statement).expect("a receipt");
    assert_eq!((attested.receipt, attested.seq), (json!(receipt()), 17));
    assert_eq!((attested.principal.as_str(), attested.key_made_at), ("you@here", signer().made_at));
    let with = |at: &str, value: Value| {
        let mut other = statement.clone();
        *other.pointer_mut(at).expect("a place") = value;
        read(&other).expect_err("not to be believed")
    };
    for (at, value, expected) in [
        ("/predicateType", json!("urn:else"), StatementFault::OtherPredicate("urn:else".into())),
        ("/_type", json!(1), StatementFault::NoStatement("its `_type` is 1".into())),
        ("/predicate/receipt/iterations", json!(1), StatementFault::OtherHash),
        ("/predicate/receipt/sha256", json!("0"), StatementFault::OtherHash),
        ("/subject/0/digest/gitTree", json!("tree2"), StatementFault::OtherSubject),
        ("/subject", json!([]), StatementFault::OtherSubject),
        ("/predicate/journal/loop", json!("other"), StatementFault::Contradiction("journal.loop")),
        (
            "/predicate/verificationResult",
            json!("UNVERIFIED"),
            StatementFault::Contradiction("verificationResult"),
        ),
    ] {
        assert_eq!(with(at, value), expected, "{at}");
    }
    assert!(matches!(attested_receipt(b"["), Err(StatementFault::NoStatement(_))));
    assert!(matches!(with("/predicate/receipt", json!({})), StatementFault::NoStatement(_)));
}

proptest! {
    /// Whatever is in the envelope comes out again, and no changed byte of it does.
    #[test]
    fn what_is_sealed_comes_out(payload in proptest::collection::vec(any::<u8>(), 0..200), at in any::<proptest::sample::Index>(), by in 1_u8..) {
        let sealed = DsseEnvelope::seal(&payload, "k".into(), sign);
        let text = serde_json::to_string(&sealed).expect("JSON");
        let read: DsseEnvelope = serde_json::from_str(&text).expect("an envelope");
        prop_assert_eq!(read.open(is_signed), Ok(payload.clone()));
        if !payload.is_empty() {
            let mut changed = payload;
            let at = at.index(changed.len());
            changed[at] ^= by;
            let forged = DsseEnvelope { payload: STANDARD.encode(&changed), ..sealed };
            prop_assert_eq!(forged.open(is_signed), Err(EnvelopeFault::OtherKey));
        }
    }

    /// Two pairs of type and payload never have the same signed bytes.
    #[test]
    fn types_and_payloads_do_not_run_into_each_other(a in "[ 1a]{0,6}", b in "[ 1a]{0,6}", c in "[ 1a]{0,6}", d in "[ 1a]{0,6}") {
        prop_assert_eq!(pae(&a, b.as_bytes()) == pae(&c, d.as_bytes()), (a, b) == (c, d));
    }
}
