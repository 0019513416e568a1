use super::*;
use crate::agent::{Format, transcript::Transcript};

const OK: ProcessEnd = ProcessEnd { code: Some(0), signal: None };
const FAILED: ProcessEnd = ProcessEnd { code: Some(1), signal: None };
const KILLED: ProcessEnd = ProcessEnd { code: None, signal: Some(9) };

/// What is made of a run.
fn judge(format: Format, stdout: &str, process: ProcessEnd, stderr: &str) -> Judged {
    let mut transcript = Transcript::new(format);
    transcript.push(stdout.as_bytes(), &mut |_| ());
    outcome(&transcript.finish(&mut |_| ()), &process, stderr)
}

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#;
const GOOD: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"ok","session_id":"s"}"#;
const BAD: &str =
    r#"{"type":"result","subtype":"success","is_error":true,"result":"Overloaded","session_id":"s"}"#;

#[test]
fn the_final_event_outranks_the_exit_code() {
    // fault C7, fault C8
    for (last, process, expected, detail) in [
        (GOOD, OK, Outcome::Completed, ""),
        (GOOD, FAILED, Outcome::Completed, "exited 1 after it had finished"),
        (GOOD, KILLED, Outcome::Completed, "ended by signal 9 after it had finished"),
        (BAD, OK, Outcome::Overload, "Overloaded"),
        (BAD, FAILED, Outcome::Overload, "Overloaded"),
        (BAD, KILLED, Outcome::Overload, "Overloaded"),
        ("", OK, Outcome::Crash, "exited 0 without a final event"),
        ("", FAILED, Outcome::Crash, "exited 1 without a final event"),
        ("", KILLED, Outcome::Crash, "ended by signal 9 without a final event"),
        (&GOOD[..40], OK, Outcome::Crash, "exited 0 without a final event"),
    ] {
        let judged = judge(Format::Claude, &format!("{INIT}\n{last}\n"), process, "");
        assert_eq!((judged.outcome, &*judged.detail), (expected, detail), "{last} {process:?}");
    }
}

#[test]
fn an_agents_prose_is_never_an_error() {
    // fault E2: words about limits, in what it says, thinks, and does.
    let prose = "You've hit your usage limit. 429 Too Many Requests. Invalid API key. Prompt is too long.";
    let assistant = format!(
        r#"{{"type":"assistant","message":{{"id":"1","model":"m","content":[{{"type":"text","text":"{prose}"}}]}}}}"#
    );
    let good = GOOD.replace(r#""ok""#, &format!("{prose:?}"));
    for (stdout, process, expected) in [
        (format!("{INIT}\n{assistant}\n{good}\n"), OK, Outcome::Completed),
        (format!("{INIT}\n{assistant}\n{good}\n"), FAILED, Outcome::Completed),
        (format!("{INIT}\n{assistant}\n"), FAILED, Outcome::Crash),
        (format!("{INIT}\n{assistant}\n"), KILLED, Outcome::Crash),
    ] {
        // What a tool printed to stderr is no error of the CLI either, once there is a final event.
        let judged = judge(Format::Claude, &stdout, process, "");
        assert_eq!(judged.outcome, expected, "{stdout}");
        assert_eq!(judged.reset, ResetHint::Unknown);
    }
    let judged = judge(Format::Claude, &format!("{INIT}\n{GOOD}\n"), OK, "Error: 429 Too Many Requests\n");
    assert_eq!(judged.outcome, Outcome::Completed);
    // Plain text where events were expected, from a run that did not fail.
    assert_eq!(judge(Format::Claude, prose, OK, "").outcome, Outcome::Crash);
}

#[test]
fn a_cli_that_cannot_begin_says_what_helps() {
    // fault C6, fault C9, fault C13
    for (format, stdout, stderr, expected, detail) in [
        (
            Format::Claude,
            "",
            "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons\n",
            Outcome::Misuse,
            "allow_root: true",
        ),
        (
            Format::Claude,
            "",
            "error: unknown option '--verbos'\n(Did you mean --verbose?)\n",
            Outcome::Misuse,
            "dacapo doctor",
        ),
        (
            Format::Codex,
            "",
            "error: unexpected argument '--jsn' found\n\nUsage: codex exec\n",
            Outcome::Misuse,
            "dacapo doctor",
        ),
        (
            Format::Claude,
            "",
            "No conversation found with session ID: 7\n",
            Outcome::Misuse,
            "cannot be continued",
        ),
        (
            Format::Claude,
            "",
            "Error: Session ID 7 is already in use.\n",
            Outcome::Misuse,
            "cannot be continued",
        ),
        (Format::Claude, "Invalid API key · Please run /login\n", "", Outcome::Auth, "/login"),
        (Format::Codex, "", "Not logged in\n", Outcome::Auth, "Not logged in"),
        (
            Format::Gemini,
            "",
            "Please set an Auth method in your /home/u/.gemini/settings.json or specify one of the following\n",
            Outcome::Auth,
            "Auth method",
        ),
        (
            Format::Opencode,
            "",
            "! permission requested: bash (ls); auto-rejecting\n",
            Outcome::Permission,
            "bash (ls)",
        ),
        (
            Format::Qwen,
            "",
            "node: bad option\nSegfault in libfoo\n",
            Outcome::Crash,
            "before its first event: Segfault in libfoo",
        ),
        (Format::Pi, "Welcome!\n", "", Outcome::Crash, "before its first event: Welcome!"),
        (Format::Copilot, "", "", Outcome::Crash, "exited 1 before its first event"),
    ] {
        let judged = judge(format, stdout, FAILED, stderr);
        assert_eq!(judged.outcome, expected, "{stderr}{stdout}: {judged:?}");
        assert!(judged.detail.contains(detail), "{detail}: {judged:?}");
        assert_eq!(judged.is_session_lost, detail == "cannot be continued", "{judged:?}");
    }
}

#[test]
fn an_error_without_a_final_event_is_still_one() {
    // fault E2, fault E3: an error counts if no good news followed it, and if no signal killed the agent.
    let failed = r#"{"type":"error","message":"unexpected status 401 Unauthorized: no, url: http://x/v1"}"#;
    let reply = r#"{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"fine"}}"#;
    let started = r#"{"type":"thread.started","thread_id":"t"}"#;
    for (lines, process, expected) in [
        (vec![started, failed], FAILED, Outcome::Auth),
        (vec![started, failed], KILLED, Outcome::Crash),
        (vec![started, failed, reply], FAILED, Outcome::Crash),
        (vec![started], FAILED, Outcome::Crash),
    ] {
        let judged = judge(Format::Codex, &lines.join("\n"), process, "");
        assert_eq!(judged.outcome, expected, "{lines:?}");
    }
}

#[test]
fn the_end_of_a_limit_is_taken_from_where_it_is_exact() {
    // req 206
    let now: Timestamp = "2026-11-15T18:00:00Z".parse().unwrap();
    let instant = |hint: &ResetHint| hint.instant(now, &TimeZone::UTC).map(|at| at.to_string());
    let limit = |more: &str, result: &str| {
        format!(
            r#"{more}{{"type":"result","is_error":true,"api_error_status":429,"api_error":"usage_limit_reached","result":"{result}"}}"#
        )
    };
    let rejected =
        r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1794774321}}"#;
    let warning =
        r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1794774321}}"#;
    let words = "You've hit your 5-hour limit · resets 8:25pm (UTC)";
    for (stdout, expected) in [
        (limit(&format!("{rejected}\n"), words), Some("2026-11-15T20:25:21Z")),
        (limit(&format!("{warning}\n"), words), Some("2026-11-15T20:25:00Z")),
        (limit("", words), Some("2026-11-15T20:25:00Z")),
        (limit("", "You've hit your limit"), None),
    ] {
        let judged = judge(Format::Claude, &stdout, FAILED, "");
        assert_eq!(judged.outcome, Outcome::UsageLimit, "{stdout}");
        assert_eq!(instant(&judged.reset).as_deref(), expected, "{stdout}");
    }
    assert_eq!(instant(&ResetHint::After(Millis::from_secs(90))).as_deref(), Some("2026-11-15T18:01:30Z"));
    // A while ago means now; years ago means nothing.
    assert_eq!(instant(&ResetHint::At(1_794_760_000)).as_deref(), Some("2026-11-15T18:00:00Z"));
    assert_eq!(instant(&ResetHint::At(5)), None);
    assert_eq!(instant(&ResetHint::At(3_800_000_000)), None);
    assert_eq!(instant(&ResetHint::At(i64::MAX)), None);
    assert_eq!(instant(&ResetHint::After(Millis(u64::MAX))), None);
}

#[test]
fn an_errors_words_are_one_plain_line() {
    for (message, expected) in [
        ("[API Error: Overloaded]", "Overloaded"),
        ("[API Error: {\"error\":{\"code\":401,\"message\":\"no key\"}}]", "no key"),
        ("{\"error\": {\"message\": \"too\\nlong\"}}", "too long"),
        ("a {brace} is not JSON", "a {brace} is not JSON"),
        ("} {", "} {"),
        ("", ""),
    ] {
        assert_eq!(plain(message), expected, "{message}");
    }
    assert_eq!(plain(&"ä".repeat(1000)).chars().count(), 251);
}
