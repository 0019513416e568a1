use std::os::unix::fs::PermissionsExt;

use super::*;

fn keys() -> (tempfile::TempDir, MachineKeyFolder) {
    let dir = tempfile::tempdir().unwrap();
    let keys = MachineKeyFolder::beside(&dir.path().join("dacapo.db"));
    keys.begin_chain(1, true).unwrap();
    (dir, keys)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_key_is_made_once_for_the_user_alone_and_says_whose_it_is() {
    let (_dir, keys) = keys();
    let before = fs::read(keys.private_file()).unwrap();
    assert_eq!(fs::metadata(keys.private_file()).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(fs::metadata(&keys.0).unwrap().mode() & 0o7777, 0o700);
    keys.begin_chain(1, true).unwrap();
    assert_eq!(fs::read(keys.private_file()).unwrap(), before, "it stays");
    let (public, text) = keys.public().unwrap();
    assert!(public.signer.principal.ends_with(&format!("@{}", host())), "{text}");
    assert!(public.signer.made_at.is_some() && text.contains("Algorithm: ed25519"), "{text}");
    keys.pair().unwrap();
}

#[test]
fn what_one_key_has_signed_no_other_key_opens() {
    let ((_one, keys), (_other, others)) = (keys(), self::keys());
    let (secret, public) = keys.pair().unwrap();
    let statement = serde_json::json!({ "a": 1 });
    let envelope = secret.sign(&statement, &public.signer.keyid);
    assert_eq!(public.open(&envelope).unwrap(), statement.to_string().into_bytes());
    assert_eq!(others.public().unwrap().0.open(&envelope), Err(EnvelopeFault::OtherKey));
}

#[test]
fn signatures_are_those_of_the_rfc() {
    // RFC 8032, section 7.1, test 2.
    let seed = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb";
    let bytes: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&seed[2 * at..2 * at + 2], 16).unwrap()).collect();
    let key = SigningKey::from_bytes(&bytes.try_into().unwrap());
    let signature = dacapo_core::chain::hex(&key.sign(&[0x72]).to_bytes());
    assert!(
        signature.starts_with("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"),
        "{signature}"
    );
}

#[test]
fn a_key_that_is_gone_open_damaged_or_of_another_pair_is_named() {
    type Harm = fn(&MachineKeyFolder);
    let harms: [(&str, Harm, &str); 9] = [
        ("deleted", |k| fs::remove_file(k.private_file()).unwrap(), "is gone"),
        ("readable by the group", |k| set_mode(&k.private_file(), 0o640), "mode 640"),
        ("readable by all", |k| set_mode(&k.private_file(), 0o604), "mode 604"),
        ("in a folder that others write", |k| set_mode(&k.0, 0o777), "mode 777"),
        ("empty", |k| fs::write(k.private_file(), "").unwrap(), "no private key"),
        (
            "cut",
            |k| {
                let text = fs::read_to_string(k.private_file()).unwrap();
                fs::write(k.private_file(), &text[..60]).unwrap();
            },
            "no private key",
        ),
        (
            "of another algorithm",
            |k| fs::write(k.private_file(), pem("PRIVATE KEY", &[1; 48])).unwrap(),
            "no private key",
        ),
        ("without its public half", |k| fs::remove_file(k.public_file()).unwrap(), "machine.pub"),
        (
            "beside another public half",
            |k| {
                let other = SigningKey::from_bytes(&[9; 32]).verifying_key();
                fs::write(k.public_file(), public_text(&other, "a@b", Timestamp::UNIX_EPOCH)).unwrap();
            },
            "does not belong",
        ),
    ];
    for (what, harm, expected) in harms {
        let (_dir, keys) = keys();
        harm(&keys);
        let error = keys.pair().err().unwrap();
        assert!(error.to_string().contains(expected), "{what}: {error}");
        assert!(!error.hint().is_empty());
    }
}

#[test]
fn a_deleted_key_is_not_made_again_beside_its_public_half() {
    let (_dir, keys) = keys();
    fs::remove_file(keys.private_file()).unwrap();
    assert!(matches!(keys.begin_chain(1, true), Err(KeyError::Missing(_))));
}

#[test]
fn a_journal_that_had_hashes_cannot_be_replaced_by_an_older_one() {
    let (_dir, keys) = keys();
    keys.begin_chain(1, false).unwrap();
    assert!(matches!(keys.begin_chain(40, false), Err(KeyError::OlderJournal { since: 1, now: 40, .. })));
    assert_eq!(keys.chained_from().unwrap(), 1);
    fs::write(keys.record(), "x").unwrap();
    assert!(matches!(keys.chained_from(), Err(KeyError::Damaged { .. })));
    fs::remove_file(keys.record()).unwrap();
    assert!(matches!(keys.chained_from(), Err(KeyError::Missing(_))));
}
