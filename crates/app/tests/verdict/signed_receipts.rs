//! Signed receipts: they are verified where there is no journal, by dacapo and by a program that is not dacapo.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use dacapo_testkit::TestEnv;
use serde_json::Value;

use crate::support::*;

const WORKS: &str = "echo fixed >work.txt; echo '<promise>DONE</promise>'";

/// A world with a proven loop; its signed receipt and the public key in files.
fn proven() -> (TestEnv, PathBuf, PathBuf) {
    let env = repository();
    env.loop_of(WORKS, &["--gate", "./check.sh", "--commit"]).assert_code(0);
    let (envelope, key) = (env.root().join("receipt.jsonl"), env.root().join("machine.pub"));
    fs::write(&envelope, env.run(["receipt", "t", "--in-toto"]).assert_code(0).stdout).expect("a file");
    fs::write(&key, env.run(["receipt", "--public-key"]).assert_code(0).stdout).expect("a file");
    (env, envelope, key)
}

fn text(path: &PathBuf) -> String {
    fs::read_to_string(path).expect("a file")
}

#[track_caller]
fn verify(env: &TestEnv, envelope: &Path, key: &Path) -> (i32, String) {
    let output = env.run(["verify".as_ref(), envelope.as_os_str(), "--key".as_ref(), key.as_os_str()]);
    (output.code.unwrap_or(-1), output.stdout + &output.stderr)
}

#[test]
fn a_signed_receipt_is_verified_on_another_machine() {
    let (env, envelope, key) = proven();
    let elsewhere = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    let (code, said) = verify(&elsewhere, &envelope, &key);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, &format!("The receipt of loop {} is signed by the key sha256:", env.id()));
    assert_has(&said, "sandbox     ");
    assert!(!elsewhere.dacapo_home().exists(), "no journal was made for it");
    // As JSON, printed over several lines, and from standard input.
    let output = elsewhere.run([
        "verify".as_ref(),
        envelope.as_os_str(),
        "--key".as_ref(),
        key.as_os_str(),
        "--json".as_ref(),
    ]);
    let told: Value = serde_json::from_str(&output.assert_code(0).stdout).expect("JSON");
    assert_eq!((&told[0]["sound"], &told[0]["receipt"]), (&true.into(), &env.receipt()));
    let pretty: Value = serde_json::from_str(&text(&envelope)).expect("an envelope");
    fs::write(&envelope, serde_json::to_string_pretty(&pretty).expect("JSON")).expect("a file");
    assert_eq!(verify(&elsewhere, &envelope, &key).0, 0);
    // On the machine itself the journal says more, and the gates run again.
    let output = env.run(["verify".as_ref(), envelope.as_os_str()]).assert_code(0);
    assert_has(&output.stdout, "is sound");
    assert_has(&output.stdout, "gate `./check.sh`");
}

#[test]
fn another_key_a_flipped_byte_and_another_type_are_refused() {
    let (env, envelope, key) = proven();
    let whole: Value = serde_json::from_str(&text(&envelope)).expect("an envelope");
    let flipped = |field: &str| {
        let mut other = whole.clone();
        let value = other.pointer_mut(field).expect("a field");
        let mut letters: Vec<char> = value.as_str().expect("text").chars().collect();
        let at = letters.len() / 2;
        letters[at] = if letters[at] == 'A' { 'B' } else { 'A' };
        *value = letters.into_iter().collect::<String>().into();
        other
    };
    let with = |field: &str, new: Value| {
        let mut other = whole.clone();
        *other.pointer_mut(field).expect("a field") = new;
        other
    };
    for (what, forged, expected) in [
        ("a byte of the payload", flipped("/payload"), "NOT SOUND: none of its signatures is by this key"),
        (
            "a byte of the signature",
            flipped("/signatures/0/sig"),
            "NOT SOUND: none of its signatures is by this key",
        ),
        (
            "another type",
            with("/payloadType", "text/plain".into()),
            "NOT SOUND: its payload is of type `text/plain`",
        ),
        ("no signature", with("/signatures", Value::Array(Vec::new())), "NOT SOUND: it has no signature"),
    ] {
        let file = env.root().join("forged.json");
        fs::write(&file, forged.to_string()).expect("a file");
        let (code, said) = verify(&env, &file, &key);
        assert_eq!(code, 1, "{what}: {said}");
        assert_has(&said, expected);
        let output = env.run(["verify".as_ref(), file.as_os_str()]);
        assert_eq!(output.code, Some(1), "{what}, with the journal: {}", output.stdout);
    }
    // The id of a key is no identity.
    let file = env.root().join("other-id.json");
    fs::write(&file, with("/signatures/0/keyid", "sha256:00".into()).to_string()).expect("a file");
    assert_eq!(verify(&env, &file, &key).0, 0);
    let (other, _, other_key) = proven();
    let (code, said) = verify(&other, &envelope, &other_key);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "another key has signed it");
    let output = other.run(["verify".as_ref(), envelope.as_os_str()]).assert_code(1);
    assert_has(&output.stderr, "`--key FILE`");
    // Files that are neither.
    assert_eq!(verify(&env, &key, &key).0, 1);
    assert_eq!(verify(&env, &envelope, &envelope).0, 2);
}

/// Checks an envelope by the standards alone: nothing in it is dacapo's.
const CHECK: &str = r#"
import base64, json, sys
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key
key = load_pem_public_key(open(sys.argv[2], 'rb').read())
for line in open(sys.argv[1]):
    envelope = json.loads(line)
    payload, kind = base64.b64decode(envelope['payload']), envelope['payloadType']
    pae = b'DSSEv1 %d %s %d %s' % (len(kind), kind.encode(), len(payload), payload)
    try:
        key.verify(base64.b64decode(envelope['signatures'][0]['sig']), pae)
    except InvalidSignature:
        sys.exit('the signature is wrong')
    statement = json.loads(payload)
    assert statement['_type'] == 'https://in-toto.io/Statement/v1', statement
    print(statement['predicateType'], json.dumps(statement['subject']))
"#;

fn python(arguments: [&PathBuf; 2]) -> (bool, String) {
    let output = Command::new("/usr/bin/python3")
        .args(["-c", CHECK])
        .args(arguments)
        .output()
        .expect("python3 can be started: `scripts/install` installs it");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(
        !said.contains("ModuleNotFoundError"),
        "python3-cryptography is missing: `scripts/install` installs it\n{said}"
    );
    (output.status.success(), said)
}

#[test]
fn a_signed_receipt_is_verified_by_a_program_that_is_not_dacapo() {
    let (env, envelope, key) = proven();
    let (is_good, said) = python([&envelope, &key]);
    assert!(is_good, "{said}");
    let receipt = env.receipt();
    let (tree, commit) =
        (receipt["tree"].as_str().expect("a tree"), receipt["commits"][0].as_str().expect("a commit"));
    assert_has(&said, "urn:dacapo:receipt:v1");
    assert_has(&said, &format!(r#"{{"gitTree": "{tree}"}}"#));
    assert_has(&said, &format!(r#"{{"gitCommit": "{commit}"}}"#));
    assert_eq!(
        env.git(["rev-parse", &format!("{commit}^{{tree}}")]).trim(),
        tree,
        "git knows them by these names"
    );
    // The statement for tools that know results of tests.
    let results = env.root().join("results.jsonl");
    fs::write(&results, env.run(["receipt", "t", "--in-toto=test-result"]).assert_code(0).stdout)
        .expect("a file");
    let (is_good, said) = python([&results, &key]);
    assert!(is_good, "{said}");
    assert_has(&said, "https://in-toto.io/attestation/test-result/v0.1");
    assert_eq!(verify(&env, &results, &key).0, 0);
    // The other program sees what is wrong, too.
    let forged = text(&envelope).replacen("\"payload\":\"e", "\"payload\":\"f", 1);
    fs::write(&envelope, forged).expect("a file");
    assert!(!python([&envelope, &key]).0);
}

#[test]
fn a_key_that_is_gone_open_or_damaged_stops_a_loop_before_it_begins() {
    let harms: [(&str, &str, &str); 5] = [
        ("open", "chmod 644 machine.key", "hint: if no other user was at it, `chmod go= "),
        ("gone", "rm machine.key", "the key of this machine is gone"),
        ("damaged", "echo x >machine.key", "is damaged: it holds no private key"),
        ("another public half", "sed -i s/MCow/AAAA/ machine.pub", "is damaged: it holds no public key"),
        ("no record", "rm chained-from", "NOT SOUND: the journal cannot be authenticated"),
    ];
    let (env, ..) = proven();
    let keys = env.dacapo_home().join("keys");
    let mode = |name: &str| fs::metadata(keys.join(name)).expect("a file").permissions().mode() & 0o777;
    assert_eq!((mode("machine.key"), mode(".")), (0o600, 0o700));
    let aside = env.root().join("keys-aside");
    for (what, harm, expected) in harms {
        env.sh(&format!("rm -rf {0}; cp -a {1} {0}; cd {1}; {harm}", aside.display(), keys.display()))
            .assert_code(0);
        let agents = env.agents();
        let verified = env.run(["verify", "t"]);
        assert_ne!(verified.code, Some(0), "{what}: {}", verified.stdout);
        if what == "no record" {
            assert_has(&verified.stdout, expected);
        } else {
            let output = env.loop_of(WORKS, &["--gate", "./check.sh"]).assert_code(5);
            assert_has(&output.stderr, expected);
            assert_eq!(env.agents(), agents, "{what}: no agent was started");
        }
        env.sh(&format!("rm -rf {1}; mv {0} {1}", aside.display(), keys.display())).assert_code(0);
    }
    env.run(["verify", "t"]).assert_code(0);
}

#[test]
fn a_key_that_is_younger_than_the_receipt_is_told_of() {
    let (env, envelope, key) = proven();
    let later: String = text(&key)
        .lines()
        .map(|line| {
            if line.starts_with("Created: ") {
                "Created: 2999-01-01T00:00:00Z\n".to_owned()
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    fs::write(&key, later).expect("a file");
    let (code, said) = verify(&env, &envelope, &key);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "note: the key says that it was made after the claim was accepted");
}

#[test]
fn a_loop_without_gates_signs_that_nothing_was_checked() {
    let env = repository();
    env.loop_of(WORKS, &[]).assert_code(0);
    let line = env.run(["receipt", "t", "--in-toto"]).assert_code(0).stdout;
    let (envelope, key) = (env.root().join("r"), env.root().join("k"));
    fs::write(&envelope, line).expect("a file");
    fs::write(&key, env.run(["receipt", "--public-key"]).assert_code(0).stdout).expect("a file");
    let (code, said) = verify(&env, &envelope, &key);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, ": unverified.");
    let output = env.run(["receipt", "t", "--in-toto=test-result"]).assert_code(1);
    assert_has(&output.stderr, "no gate stood behind");
}
