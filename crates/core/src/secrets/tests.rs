//! Secrets are gone at every split, and nothing else is.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// A key of no known shape, with letters that JSON and addresses write in another way.
const VALUE: &str = r#"c4n4ry/K3y"with\odd+letters="#;
/// Keys of known shapes, no two of them real.
const SHAPES: &[&str] = &[
    "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AA",
    "sk-proj-AbCdEfGhIjKlMnOp_0123456789",
    "sk-AbCdEfGhIjKlMnOpQrStUvWxYz012345",
    "sk-or-v1-0123456789abcdef0123456789abcdef",
    "sk_live_0123456789abcdefABCDEF",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "gho_0123456789abcdefghijABCDEFGHIJ012345",
    "ghs_0123456789abcdefghijABCDEFGHIJ012345",
    "github_pat_11ABCDEFG0abcdefghijkl_0123456789abcdefghijklmnopqrstuvwxyz",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdefghijkl",
    "xoxp-123456789012-abcdefghijkl",
    "glpat-abcdefghij0123456789",
    "npm_0123456789abcdefghijABCDEFGHIJ012345",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
];

fn secrets() -> Arc<Secrets> {
    Arc::new(Secrets::new([VALUE]))
}

/// `text` in pieces that end at `cuts`.
fn in_pieces(secrets: &Arc<Secrets>, text: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut redactor = secrets.redactor();
    let mut all = Vec::new();
    let mut from = 0;
    for cut in cuts.iter().copied().chain([text.len()]) {
        let cut = cut.clamp(from, text.len());
        all.extend_from_slice(redactor.push(&text[from..cut]));
        assert!(redactor.held() <= 4096, "{} held", redactor.held());
        from = cut;
    }
    all.extend_from_slice(redactor.finish());
    assert_eq!(redactor.held(), 0);
    all
}

#[test]
fn a_known_value_is_gone_in_every_form_it_takes() {
    // req 208, fault K6
    let secrets = secrets();
    for (text, expected) in [
        (VALUE.to_owned(), "[redacted]".to_owned()),
        (format!("a{VALUE}b"), "a[redacted]b".to_owned()),
        (serde_json::to_string(VALUE).unwrap(), "\"[redacted]\"".to_owned()),
        (
            serde_json::to_string(&serde_json::to_string(VALUE).unwrap()).unwrap(),
            r#""\"[redacted]\"""#.to_owned(),
        ),
        ("?k=c4n4ry%2FK3y%22with%5Codd%2Bletters%3D&x".to_owned(), "?k=[redacted]&x".to_owned()),
        ("?k=c4n4ry%2fK3y%22with%5codd%2bletters%3d&x".to_owned(), "?k=[redacted]&x".to_owned()),
        ("YzRuNHJ5L0szeSJ3aXRoXG9kZCtsZXR0ZXJzPQ==".to_owned(), "[redacted]".to_owned()),
        // `u:` and `me:` before it.
        (" dTpjNG40cnkvSzN5IndpdGhcb2RkK2xldHRlcnM9".to_owned(), " dTp[redacted]".to_owned()),
        (" bWU6YzRuNHJ5L0szeSJ3aXRoXG9kZCtsZXR0ZXJzPQ==".to_owned(), " bWU6[redacted]".to_owned()),
        (format!("{VALUE}{VALUE}"), "[redacted][redacted]".to_owned()),
        // Half of it at the end is too much already; a few letters are not.
        (format!("x {}", &VALUE[..20]), "x [redacted]".to_owned()),
        (format!("x {}", &VALUE[..7]), format!("x {}", &VALUE[..7])),
    ] {
        assert_eq!(secrets.redact(&text), expected, "{text}");
    }
}

#[test]
fn tokens_of_well_known_shapes_are_gone_wherever_they_stand() {
    // req 208, fault K6
    let secrets = secrets();
    for token in SHAPES {
        for (before, after) in [
            ("", ""),
            ("the key is ", ", he said"),
            ("\"", "\","),
            (r"line\n", r"\nline"),
            ("\x1b[32m", "\x1b[0m"),
            ("KEY=", "\n"),
            ("https://", "@example.com/x"),
            ("%3D", "&b"),
            ("https://x/?key=", " "),
            ("('", "')"),
        ] {
            let text = format!("{before}{token}{after}");
            let redacted = secrets.redact(&text);
            assert_eq!(redacted, format!("{before}[redacted]{after}"), "{text}");
        }
    }
}

#[test]
fn values_of_headers_and_fields_are_gone_and_their_names_stay() {
    // req 208, fault K6
    let secrets = secrets();
    for (text, expected) in [
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer [redacted]"),
        ("authorization: Basic dXNlcjpwYXNzd29yZDE=\r\n", "authorization: Basic [redacted]\r\n"),
        (r#"{"Authorization":"token 0123456789abcdef"}"#, r#"{"Authorization":"token [redacted]"}"#),
        ("curl -H 'x-api-key: 0123456789abcdef0123'", "curl -H 'x-api-key: [redacted]'"),
        ("with Bearer 0123456789abcdef.x~y and", "with Bearer [redacted] and"),
        (r#"{"api_key": "0123456789abcdefX"}"#, r#"{"api_key": "[redacted]"}"#),
        (r#"{\"apiKey\":\"0123456789abcdefX\",\"a\":1}"#, r#"{\"apiKey\":\"[redacted]\",\"a\":1}"#),
        ("OTHER_API_KEY=0123456789abcdefX\nA=b", "OTHER_API_KEY=[redacted]\nA=b"),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE3KEY2",
            "aws_secret_access_key = [redacted]",
        ),
        ("client_secret: 'GOCSPX-0123456789abcdef'", "client_secret: '[redacted]'"),
    ] {
        assert_eq!(secrets.redact(text), expected, "{text}");
    }
}

#[test]
fn a_private_key_is_gone_with_its_first_and_last_line() {
    // req 208, fault K6
    let secrets = secrets();
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    for kind in ["", "RSA ", "OPENSSH ", "ENCRYPTED "] {
        for (separator, after) in [("\n", "\nsaid the agent"), (r"\n", "\",\"x\":1"), ("\n    12\t", " end")]
        {
            let body = [line; 25].join(separator);
            let text = format!(
                "a -----BEGIN {kind}PRIVATE KEY-----{separator}{body}{separator}-----END {kind}PRIVATE KEY-----{after}"
            );
            assert_eq!(secrets.redact(&text), format!("a [redacted]{after}"), "{kind}{separator}");
        }
    }
    let cut = format!("-----BEGIN PRIVATE KEY-----\n{}", &line[..20]);
    assert_eq!(secrets.redact(&cut), "[redacted]");
}

#[test]
fn what_is_no_secret_stays() {
    let secrets = secrets();
    let image = format!(
        "data:image/png;base64,{}",
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ/AIza+eyJ".repeat(40)
    );
    for text in [
        "commit 39eba69c0f3f8f5d1c7a4d2b6e9f0a1b2c3d4e5f",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "123e4567-e89b-12d3-a456-426614174000",
        &image,
        "task-ant-colony-optimization-2024-roadmap risk-proj-0123456789abcdef0123 disk-full",
        "sk-learn-based-model-selection-for-issue-1234",
        "npm_config_registry npm_lifecycle_event npm_package_version",
        "use `Bearer <token>`, Bearer authentication, Bearer $TOKEN, or a bearer of bad news",
        "Authorization: required; the authorization: none; Authorization: Bearer ${API_KEY}",
        r#"api_key = os.environ["OPENAI_API_KEY"]; apiKey: process.env.ANTHROPIC_API_KEY,"#,
        "the api_key is missing: set api_key or access_token, e.g. `api_key=YOUR_KEY`",
        r#"{"api_key": null, "access_token": "", "usage":{"input_tokens":123456789012345678,"cache_read_input_tokens":1}}"#,
        "-----BEGIN PRIVATE KEY----- is how such a file begins; it ends with -----END PRIVATE KEY-----.",
        "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END CERTIFICATE-----",
        "eyJhbGciOiJIUzI1NiJ9 is a header; eyJ.eyJ is nothing",
        "AKIA AIza ghp_ xoxb- sk-ant- glpat- github_pat_ sk- secret_key= ",
        "AKIAISNOTAKEYATALLBUTALONGERWORD",
        "/usr/lib/python3.12/site-packages/sk-abc/__init__.py",
        "Ünïcödé – 日本語 🙂 sk-",
        "",
    ] {
        assert_eq!(secrets.redact(text), text);
        assert!(matches!(secrets.redact(text), Cow::Borrowed(_)), "{text}");
        for size in [1, 2, 7, 64] {
            let cuts: Vec<usize> = (0..text.len()).step_by(size).collect();
            assert_eq!(in_pieces(&secrets, text.as_bytes(), &cuts), text.as_bytes(), "{text} by {size}");
        }
    }
}

#[test]
fn every_secret_is_gone_at_every_split_point() {
    // req 208, fault K6
    let secrets = secrets();
    let long = format!("sk-ant-{}", "aB3-".repeat(2000));
    let key = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", "MIIEvQIB".repeat(8));
    let json = serde_json::to_string(VALUE).unwrap();
    let all = SHAPES.iter().copied().chain([VALUE, json.trim_matches('"'), &key]);
    for secret in all {
        let text = format!("before {secret} after");
        for cut in 0..=text.len() {
            let redacted = in_pieces(&secrets, text.as_bytes(), &[cut]);
            assert_eq!(String::from_utf8_lossy(&redacted), "before [redacted] after", "{secret} at {cut}");
        }
        let cuts: Vec<usize> = (0..text.len()).collect();
        assert_eq!(in_pieces(&secrets, text.as_bytes(), &cuts), b"before [redacted] after");
    }
    let text = format!("before {long} after");
    for size in [1, 100, 1023, 1024, 1025, 4096] {
        let cuts: Vec<usize> = (0..text.len()).step_by(size).collect();
        assert_eq!(in_pieces(&secrets, text.as_bytes(), &cuts), b"before [redacted] after", "{size}");
    }
}

#[test]
fn text_without_secrets_is_not_copied() {
    let mut redactor = secrets().redactor();
    let text = b"an ordinary line, with a task-force and api_key = none in it\n".repeat(100);
    let passed = redactor.push(&text);
    assert_eq!((passed.as_ptr(), passed.len()), (text.as_ptr(), text.len()));
    assert_eq!(redactor.held(), 0);
}

#[test]
fn variables_hold_secrets_by_name_and_by_value() {
    // req 208
    let held = |name: &str, value: &str| {
        let secrets = Secrets::of_environment([(name.into(), value.into())]);
        secrets.is_in(&format!("x{value}x"))
    };
    for (name, value) in [
        ("ANTHROPIC_API_KEY", "canaryvalue"),
        ("OPENAI_API_KEY", "0123456789abcdef"),
        ("GITHUB_TOKEN", "my token with spaces 1"),
        ("DB_PASSWORD", "correct-horse-battery"),
        ("db_password", "tr0ub4dor"),
        ("PGPASSWORD", "hunter2hunter2"),
        ("AWS_SECRET_ACCESS_KEY", "/JalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ("STRIPE_SECRET", "whsec_0123456789"),
        ("DEPLOY_KEY_PASSPHRASE", "open sesame 1"),
    ] {
        assert!(held(name, value), "{name}={value}");
    }
    for (name, value) in [
        ("HOME", "/home/somebody-1"),
        ("PATH", "/usr/bin:/bin"),
        ("ANTHROPIC_API_KEY", "short"),
        ("ANTHROPIC_API_KEY", "disabled"),
        ("SOME_TOKEN", "/var/run/secrets/token"),
        ("SOME_TOKEN", "~/.config/token"),
        ("MAX_OUTPUT_TOKEN", "1234567890"),
        ("DB_PASSWORD", "postgres"),
        ("DB_PASSWORD", "********"),
        ("SOME_SECRET", "true"),
        ("KEYBOARD", "something-like-1234"),
    ] {
        assert!(!held(name, value), "{name}={value}");
    }
    // A key with several lines is found line by line.
    let key = "-----BEGIN X-----\nAbCdEfGhIjKlMnOpQrSt0123\nordinary words in it\n-----END X-----";
    let secrets = Secrets::of_environment([("DEPLOY_PRIVATE_KEY".into(), key.into())]);
    assert_eq!(
        secrets.redact(r"a\nAbCdEfGhIjKlMnOpQrSt0123\nordinary words in it"),
        r"a\n[redacted]\nordinary words in it"
    );
    assert_eq!(format!("{secrets:?}"), "Secrets { values: 1, .. }");
}

#[test]
fn overlapping_secrets_leave_no_rest() {
    let secrets =
        Arc::new(Secrets::new(["abcdefgh sk-ant-0123456789", "0123456789abcdefgh ijklmnop", "opqrstuv1"]));
    for (text, expected) in [
        ("abcdefgh sk-ant-0123456789abcdefgh ijklmnopqrstuv1.", "[redacted]."),
        ("Bearer 0123456789abcdefgh ijklmnop", "Bearer [redacted]"),
        (r#""api_key": "0123456789abcdefgh ijklmnop""#, r#""api_key": "[redacted]""#),
    ] {
        assert_eq!(secrets.redact(text), expected);
        for cut in 0..=text.len() {
            let pieces = in_pieces(&secrets, text.as_bytes(), &[cut]);
            assert_eq!(String::from_utf8_lossy(&pieces), expected, "{cut}");
        }
    }
}

/// Pieces of text among which secrets, and halves of them, are common.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let json = serde_json::to_string(VALUE).unwrap();
    let known = SHAPES
        .iter()
        .map(|shape| (*shape).to_owned())
        .chain([
            VALUE.to_owned(),
            json,
            "Authorization: ".to_owned(),
            "Bearer ".to_owned(),
            "\"api_key\": \"".to_owned(),
            "-----BEGIN RSA PRIVATE KEY-----".to_owned(),
            "-----END RSA PRIVATE KEY-----".to_owned(),
            "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n".to_owned(),
        ])
        .collect::<Vec<_>>();
    let fragment = prop_oneof![
        3 => (prop::sample::select(known), any::<prop::sample::Index>(), any::<bool>()).prop_map(
            |(text, cut, is_whole)| {
                let cut = if is_whole { text.len() } else { cut.index(text.len()) };
                text.as_bytes()[..cut].to_vec()
            }
        ),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        2 => "[a-zA-Z0-9 \"\\\\:=_.\n-]{0,30}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(fragment, 0..12).prop_map(|all| all.concat())
}

proptest! {
    #[test]
    fn any_pieces_give_what_the_whole_gives(
        text in fragments(),
        cuts in prop::collection::vec(0..2000_usize, 0..20),
    ) {
        let secrets = secrets();
        let whole = in_pieces(&secrets, &text, &[]);
        let mut cuts = cuts;
        cuts.sort_unstable();
        prop_assert_eq!(&in_pieces(&secrets, &text, &cuts), &whole);
        let all: Vec<usize> = (0..text.len()).collect();
        prop_assert_eq!(&in_pieces(&secrets, &text, &all), &whole);
        prop_assert!(!whole.windows(VALUE.len()).any(|window| window == VALUE.as_bytes()));
        // What was redacted holds nothing more to redact.
        if whole.windows(REDACTED.len()).all(|window| window != REDACTED.as_bytes()) {
            prop_assert_eq!(&whole, &text);
        }
    }
}

mod facts {
    use super::*;
    use crate::{
        agent::AgentCommand,
        event::LoopEvent,
        judge::promise::PromiseRule,
        loop_machine::Request,
        policy::{CommitRule, GateSpec, Policy},
    };

    #[test]
    fn events_and_requests_are_recorded_without_secrets() {
        // req 208, fault K6
        let secrets = secrets();
        let (dirty, clean) = (format!("say {VALUE}, {}", SHAPES[0]), "say [redacted], [redacted]".to_owned());
        let refused = |detail| LoopEvent::ClaimRefused {
            iteration: 1,
            reason: crate::judge::claim::RefusalReason::GateFailed,
            detail,
        };
        for (event, expected) in [
            (LoopEvent::Warned { text: dirty.clone() }, LoopEvent::Warned { text: clean.clone() }),
            (LoopEvent::Steered { text: dirty.clone() }, LoopEvent::Steered { text: clean.clone() }),
            (refused(dirty.clone()), refused(clean.clone())),
            (LoopEvent::Paused, LoopEvent::Paused),
        ] {
            assert_eq!(secrets.redact_event(event).unwrap(), expected);
        }
        let request = secrets.redact_request(&Request::Steer { text: dirty });
        assert_eq!(request, Request::Steer { text: clean });
    }

    #[test]
    fn settings_with_a_secret_are_named_without_it() {
        // req 208
        let secrets = secrets();
        let policy = |agent: &str| {
            Policy::restart(AgentCommand::parse(agent, &[]).unwrap(), PromiseRule::new("DONE").unwrap())
        };
        let key = SHAPES[0];
        let gate = GateSpec::of_command(&format!("check --key {key}"));
        for (policy, expected) in [
            (policy("agent"), None),
            (policy(&format!("agent --key {key}")), Some("the agent's command `agent --key [redacted]`")),
            (policy("a").with(|p| p.gates.specs = vec![gate]), Some("the gate `check --key [redacted]`")),
            (
                policy("a").with(|p| p.claims.until = vec![format!("test {key}")]),
                Some("--until-cmd `test [redacted]`"),
            ),
            (
                policy("a").with(|p| p.items[0].commit = Some(CommitRule { message: Some(key.to_owned()) })),
                Some("--commit-message `[redacted]`"),
            ),
        ] {
            assert_eq!(secrets.in_policy(&policy).as_deref(), expected);
        }
    }
}

#[test]
fn keys_are_told_from_passwords_and_shapes() {
    let variable =
        |name: &str, value: &str| (std::ffi::OsString::from(name), std::ffi::OsString::from(value));
    let key = "k3y-of-a-provider-0123456789";
    let secrets = Secrets::of_environment([
        variable("ANTHROPIC_API_KEY", key),
        variable("OTHER_API_KEY", "sh0rt-key"),
        variable("DB_PASSWORD", "shopshop1"),
        variable("DEPLOY_TOKEN", "abcdefghij0123456789xyz"),
        variable("EDITOR", "abcdefghij0123456789edit"),
    ]);
    let base64 = "azN5LW9mLWEtcHJvdmlkZXItMDEyMzQ1Njc4OQ==";
    for (text, expected) in [
        (key.to_owned(), true),
        (format!("x = '{key}'"), true),
        (format!("auth: {base64}"), true),
        ("sh0rt-key".to_owned(), true),
        ("abcdefghij0123456789xyz".to_owned(), true),
        ("password: shopshop1".to_owned(), false),
        (format!("sk-ant-api03-{}", "a1B2".repeat(20)), false),
        ("abcdefghij0123456789edit".to_owned(), false),
        (key[..20].to_owned(), false),
    ] {
        assert_eq!(secrets.has_key(text.as_bytes()), expected, "{text}");
    }
    assert!(secrets.longest_key() >= key.len());
    let none = Secrets::of_environment([variable("DB_PASSWORD", "shopshop1")]);
    assert!(!none.has_key(b"shopshop1") && none.longest_key() == 0);
}
