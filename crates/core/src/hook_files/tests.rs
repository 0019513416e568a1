//! Settings files as people have them: what install writes, and that uninstall brings every byte back.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn wanted() -> HooksToInstall {
    HooksToInstall { program: "/usr/bin/dacapo".to_owned(), verify: false, timeout: Millis(600_000) }
}

fn verifying() -> HooksToInstall {
    HooksToInstall { verify: true, ..wanted() }
}

const JSON_HOSTS: [Host; 4] = [Host::Claude, Host::Gemini, Host::Qwen, Host::Copilot];

/// Settings in JSON, each with something that a careless writer would lose.
const JSON: [(&str, &str); 32] = [
    ("an empty object", "{}"),
    ("an empty object with a line break", "{}\n"),
    ("an empty object over two lines", "{\n}\n"),
    ("blanks in it", "{ \t }  \n\n"),
    ("only a comment in it", "{ /* nothing yet */ }\n"),
    ("only a line comment in it", "{ // nothing yet\n}\n"),
    ("an empty file", ""),
    ("blank lines only", "\n  \n"),
    ("two spaces", "{\n  \"model\": \"opus\"\n}\n"),
    ("four spaces", "{\n    \"model\": \"opus\",\n    \"env\": {\n        \"A\": \"1\"\n    }\n}\n"),
    (
        "tabs",
        "{\n\t\"model\": \"opus\",\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t\t{\"hooks\": []}\n\t\t]\n\t}\n}\n",
    ),
    ("CRLF", "{\r\n  \"model\": \"opus\",\r\n  \"env\": {}\r\n}\r\n"),
    ("no line break at the end", "{\n  \"model\": \"opus\"\n}"),
    ("a BOM", "\u{feff}{\n  \"model\": \"opus\"\n}\n"),
    ("one line", "{\"model\":\"opus\",\"env\":{\"A\":\"1\"}}"),
    (
        "comments",
        "// mine\n{\n  // the best\n  \"model\": \"opus\", // really\n  /* no */ \"env\": { /* none */ }\n} // end\n",
    ),
    ("a remark behind the last value", "{\n  \"model\": \"opus\" // the best one\n}\n"),
    ("a remark behind the last comma", "{\n  \"model\": \"opus\", // the best one\n}\n"),
    ("trailing commas", "{\n  \"permissions\": {\"allow\": [\"Bash\",],},\n}\n"),
    ("a comma on the next line", "{\n  \"a\": 1\n  , \"b\": 2\n}\n"),
    ("hooks that are empty", "{\n  \"hooks\": {}\n}\n"),
    (
        "a list that is empty",
        "{\n  \"hooks\": {\n    \"Stop\": [],\n    \"AfterAgent\": [ ],\n    \"agentStop\": [\n    ]\n  }\n}\n",
    ),
    (
        "hooks of the user's",
        "{\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"hooks\": [\n          {\"type\": \"command\", \"command\": \"say done\"}\n        ]\n      }\n    ]\n  }\n}\n",
    ),
    (
        "hooks of the user's in one line",
        "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"say done\"}]}],\"AfterAgent\":[{\"hooks\":[]}],\"agentStop\":[{\"type\":\"command\",\"bash\":\"x\"}]}}\n",
    ),
    (
        "a limit that the user set",
        "{\"env\": {\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\": \"0\"}, \"stopHookBlockingCap\": 100}\n",
    ),
    (
        "another limit that the user set",
        "{\"env\": {\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\": \"20\"}, \"stopHookBlockingCap\": 5}\n",
    ),
    ("a key twice", "{\"hooks\": {\"Stop\": []}, \"model\": \"a\", \"hooks\": {\"Stop\": [ ]}}\n"),
    ("escapes and other scripts", "{\"\\u0068i\": \"\\\"//\\\" /* ü 日本 */ \\\\\", \"hooks\" : { } }"),
    ("numbers", "{\"a\": -1.5e-3, \"b\": [1,2,3], \"c\": null, \"d\": true}"),
    ("a strange indentation", "{\n      \"a\": 1,\n   \"hooks\":\n{\n\"Stop\"\n:\n[\n]\n}\n}\n"),
    (
        "a comment behind the opening bracket",
        "{ // settings\n  \"hooks\": { // mine\n    \"Stop\": [ // all\n      {\"hooks\": []} // one\n      // two\n    ]\n  }\n}\n",
    ),
    (
        "another dacapo's neighbour",
        "{\"hooks\": {\"Stop\": [{\"matcher\": \"\", \"hooks\": [{\"type\": \"command\", \"command\": \"/opt/dacapo-like hook stop --agent other\"}]}]}}",
    ),
];

const TOML: [(&str, &str); 16] = [
    ("an empty file", ""),
    ("one line break", "\n"),
    ("a BOM", "\u{feff}model = \"gpt-5\"\n"),
    ("keys", "model = \"gpt-5\"\n"),
    ("no line break at the end", "model = \"gpt-5\""),
    ("CRLF", "model = \"gpt-5\"\r\n\r\n[features]\r\napps = false\r\n"),
    ("CRLF without an end", "model = \"gpt-5\"\r\n[features]\r\napps = false"),
    (
        "tables",
        "model = \"gpt-5\"\n\n[analytics]\nenabled = false # quiet\n\n[projects.\"/home/me/x\"]\ntrust_level = \"trusted\"\n",
    ),
    ("blank lines at the end", "model = \"gpt-5\"\n\n\n\n"),
    ("a comment at the end", "model = \"gpt-5\"\n# the end"),
    (
        "hooks of the user's",
        "[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"say done\"\n",
    ),
    (
        "hooks of the user's with a matcher",
        "[[hooks.Stop]]\nmatcher = \"*\"\n\n  [[hooks.Stop.hooks]]\n  type = \"command\"\n  command = 'say \"[[hooks.Stop]]\"'\n",
    ),
    (
        "a string of several lines",
        "prompt = \"\"\"\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ncommand = \"/usr/bin/dacapo hook stop --agent codex\"\n\"\"\"\n",
    ),
    (
        "a literal string of several lines",
        "prompt = '''\n[x]\n\\'''\nnotify = [\n  \"a\", # [b]\n  \"c\",\n]\n",
    ),
    ("states", "[hooks.state.\"/c:stop:0:0\"]\ntrusted_hash = \"sha256:00\"\n"),
    ("odd blanks", "  [ a . b ]  # c\n\tx=1\n\n[[ hooks . PreToolUse ]]\n"),
];

fn installed_text(host: Host, text: Option<&str>, wanted: &HooksToInstall) -> String {
    install(host, HookScope::User, text, wanted)
        .unwrap_or_else(|error| panic!("{host}: {error} in\n{text:?}"))
}

fn uninstalled(host: Host, text: &str) -> Option<String> {
    uninstall(host, HookScope::User, text, Which::All)
        .unwrap_or_else(|error| panic!("{host}: {error} in\n{text}"))
}

fn corpus() -> impl Iterator<Item = (Host, &'static str, &'static str)> {
    let json = JSON_HOSTS.into_iter().flat_map(|host| JSON.map(|(name, text)| (host, name, text)));
    json.chain(TOML.map(|(name, text)| (Host::Codex, name, text)))
}

#[test]
fn uninstall_brings_back_every_byte() {
    for (host, name, text) in corpus() {
        for wanted in [wanted(), verifying()] {
            let with = installed_text(host, Some(text), &wanted);
            assert_ne!(with, text, "{host}, {name}");
            assert_eq!(uninstalled(host, &with).as_deref(), Some(text), "{host}, {name}, with it:\n{with}");
        }
    }
}

#[test]
fn a_file_that_was_not_there_goes_again() {
    for host in JSON_HOSTS.into_iter().chain([Host::Codex]) {
        for scope in HookScope::ALL {
            let with = install(host, scope, None, &wanted()).unwrap();
            assert_eq!(uninstall(host, scope, &with, Which::All), Ok(None), "{host}:\n{with}");
        }
    }
}

#[test]
fn installing_twice_changes_nothing() {
    for (host, name, text) in corpus() {
        let once = installed_text(host, Some(text), &wanted());
        assert_eq!(installed_text(host, Some(&once), &wanted()), once, "{host}, {name}");
        assert_eq!(
            uninstalled(host, text).as_deref(),
            Some(text),
            "{host}, {name}: nothing of ours is in it"
        );
    }
}

#[test]
fn a_newer_program_or_timeout_takes_the_place_of_the_old_one() {
    let newer =
        HooksToInstall { program: "/opt/new place/dacapo".to_owned(), timeout: Millis(900_000), ..wanted() };
    for (host, name, text) in corpus() {
        let once = installed_text(host, Some(text), &wanted());
        let again = installed_text(host, Some(&once), &newer);
        let found = installed(host, HookScope::User, &again).unwrap().hooks;
        assert!(
            !found.is_empty() && found.iter().all(|hook| hook.program == newer.program),
            "{host}, {name}"
        );
        let stop = found.iter().find(|hook| hook.told == HookKind::Stop).unwrap();
        assert_eq!(stop.timeout, Some(newer.timeout), "{host}, {name}");
        assert_eq!(uninstalled(host, &again).as_deref(), Some(text), "{host}, {name}:\n{again}");
    }
}

#[test]
fn a_loop_and_a_judge_can_be_installed_side_by_side_and_taken_out_one_by_one() {
    for (host, name, text) in corpus() {
        let with_loop = installed_text(host, Some(text), &wanted());
        let both = installed_text(host, Some(&with_loop), &verifying());
        assert_eq!(
            uninstall(host, HookScope::User, &both, Which::Verify),
            Ok(Some(with_loop.clone())),
            "{host}, {name}:\n{both}"
        );
        assert_eq!(uninstalled(host, &both).as_deref(), Some(text), "{host}, {name}:\n{both}");
    }
}

/// What the settings say without the hooks and the limit.
fn without_ours(host: Host, value: &Value) -> Value {
    let mut value = value.clone();
    for (event, _) in facts(host).events {
        if let Some(list) = value["hooks"][event].as_array_mut() {
            list.retain(|group| !group.to_string().contains("/usr/bin/dacapo"));
        }
    }
    value
}

#[test]
fn hooks_and_settings_of_the_user_stay_in_force() {
    for (host, name, text) in corpus().filter(|(host, ..)| *host != Host::Codex) {
        let Some(before) = json::parse(text).unwrap().map(|root| root.value()) else { continue };
        let with = installed_text(host, Some(text), &wanted());
        let after = without_ours(host, &json::parse(&with).unwrap().unwrap().value());
        for (key, value) in before.as_object().unwrap() {
            if key != "hooks" && key != "env" {
                assert_eq!(&after[key], value, "{host}, {name}");
            }
        }
        for (event, groups) in before["hooks"].as_object().into_iter().flatten() {
            assert_eq!(&after["hooks"][event], groups, "{host}, {name}");
        }
        for (variable, value) in before["env"].as_object().into_iter().flatten() {
            assert_eq!(&after["env"][variable], value, "{host}, {name}");
        }
    }
}

#[test]
fn what_is_written_is_what_each_host_reads() {
    let claude = installed_text(Host::Claude, Some("{\n  \"model\": \"opus\"\n}\n"), &wanted());
    insta::assert_snapshot!(claude, @r#"
    {
      "model": "opus",
      "hooks": {
        "Stop": [
          {"hooks": [{"command": "/usr/bin/dacapo hook stop --agent claude", "timeout": 600, "type": "command"}]}
        ],
        "UserPromptSubmit": [
          {"hooks": [{"command": "/usr/bin/dacapo hook prompt --agent claude", "timeout": 60, "type": "command"}]}
        ],
        "StopFailure": [
          {"hooks": [{"command": "/usr/bin/dacapo hook failure --agent claude", "timeout": 60, "type": "command"}]}
        ]
      },
      "env": {
        "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "\u0030"
      }
    }
    "#);
    let gemini = install(Host::Gemini, HookScope::Project, None, &verifying()).unwrap();
    insta::assert_snapshot!(gemini, @r#"
    {
      "hooks": {
        "AfterAgent": [
          {"hooks": [{"command": "/usr/bin/dacapo hook stop --agent gemini --verify", "timeout": 600000, "type": "command"}]}
        ],
        "BeforeAgent": [
          {"hooks": [{"command": "/usr/bin/dacapo hook prompt --agent gemini --verify", "timeout": 60000, "type": "command"}]}
        ]
      }
    }
    "#);
    let copilot = install(Host::Copilot, HookScope::Project, None, &wanted()).unwrap();
    insta::assert_snapshot!(copilot, @r#"
    {
      "version": 1,
      "hooks": {
        "agentStop": [
          {"bash": "/usr/bin/dacapo hook stop --agent copilot", "timeoutSec": 600, "type": "command"}
        ],
        "userPromptSubmitted": [
          {"bash": "/usr/bin/dacapo hook prompt --agent copilot", "timeoutSec": 60, "type": "command"}
        ]
      }
    }
    "#);
    let spaced = HooksToInstall { program: "/my tools/dacapo".to_owned(), ..wanted() };
    insta::assert_snapshot!(installed_text(Host::Codex, Some("model = \"gpt-5\"\n"), &spaced), @r#"
    model = "gpt-5"

    [[hooks.Stop]]
    [[hooks.Stop.hooks]]
    type = "command"
    command = "'/my tools/dacapo' hook stop --agent codex"
    timeout = 600

    [[hooks.UserPromptSubmit]]
    [[hooks.UserPromptSubmit.hooks]]
    type = "command"
    command = "'/my tools/dacapo' hook prompt --agent codex"
    timeout = 60
    "#);
}

#[test]
fn only_our_entries_go_after_the_user_has_edited_the_file() {
    let with = installed_text(Host::Claude, Some("{}\n"), &wanted());
    // Another program has formatted the file anew, as Claude Code does when its user changes a setting.
    let value: Value = serde_json::from_str(&with).unwrap();
    let pretty = format!("{value:#}");
    let less = uninstalled(Host::Claude, &pretty).unwrap();
    let left: Value = serde_json::from_str(&less).unwrap();
    assert_eq!(left, json!({"env": {"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "0"}}), "{less}");
    // The user has put a hook into our group, one behind it, and a key of their own.
    let ours =
        r#"{"type": "command", "command": "/usr/bin/dacapo hook stop --agent claude", "timeout": 600}"#;
    for (edited, left) in [
        (
            format!(r#"{{"hooks": {{"Stop": [{{"hooks": [{ours}, {{"command": "x"}}]}}]}}}}"#),
            r#"{"hooks": {"Stop": [{"hooks": [ {"command": "x"}]}]}}"#,
        ),
        (
            format!(r#"{{"hooks": {{"Stop": [{{"hooks": [{{"command": "x"}}, {ours}]}}]}}}}"#),
            r#"{"hooks": {"Stop": [{"hooks": [{"command": "x"}]}]}}"#,
        ),
        (
            format!(r#"{{"hooks": {{"Stop": [{{"matcher": "m", "hooks": [{ours}]}}]}}}}"#),
            r#"{"hooks": {"Stop": [{"matcher": "m", "hooks": []}]}}"#,
        ),
        (
            format!(
                "{{\"hooks\": {{\"Stop\": [\n  {{\"hooks\": [{ours}]}}, // d\n  {{\"hooks\": []}}\n]}}}}"
            ),
            "{\"hooks\": {\"Stop\": [ // d\n  {\"hooks\": []}\n]}}",
        ),
        (
            format!("{{\"hooks\": {{\"Stop\": [\n  {{\"hooks\": []}}, // d\n  {{\"hooks\": [{ours}]}}]}}}}"),
            "{\"hooks\": {\"Stop\": [\n  {\"hooks\": []} // d\n]}}",
        ),
    ] {
        assert_eq!(uninstalled(Host::Claude, &edited).as_deref(), Some(left));
    }
    // Codex has written behind our tables, and the user has put a comment between them.
    let with = installed_text(Host::Codex, Some("model = \"gpt-5\""), &wanted());
    let edited = format!("{with}\n\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n")
        .replace("\n[[hooks.User", "\n# mine\n\n[[hooks.User");
    let less = uninstalled(Host::Codex, &edited).unwrap();
    assert_eq!(less, "model = \"gpt-5\"\n# mine\n\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n");
}

#[test]
fn settings_that_do_not_parse_are_refused_with_the_place() {
    for (host, text, expected) in [
        (Host::Claude, "{\n  \"a\": 1\n  \"b\": 2\n}", "line 3, column 3: `,` or `}` is expected"),
        (Host::Claude, "{\"a\": 1", "line 1, column 8: `,` or `}` is expected"),
        (Host::Claude, "{} {}", "line 1, column 4: something stands behind the end of the settings"),
        (Host::Claude, "[]", "`the whole file` is not an object"),
        (Host::Claude, "{\"hooks\": []}", "`hooks` is not an object"),
        (Host::Claude, "{\"hooks\": {\"Stop\": {}}}", "`hooks.Stop` is not a list"),
        (Host::Claude, "{\"env\": 5}", "`env` is not an object"),
        (Host::Gemini, "{\"a\": tru}", "line 1, column 7: this is no value"),
        (Host::Gemini, "{\"a\": \"x}", "line 1, column 7: a string has no end"),
        (Host::Gemini, "{ /* x", "line 1, column 3: a comment has no end"),
        (Host::Codex, "a = \n", "line 1, column 5: "),
        (Host::Codex, "hooks = {Stop = []}\n", "`hooks` is written in one line"),
        (Host::Codex, "[hooks]\nStop = [{hooks = []}]\n", "`hooks` is written in one line"),
    ] {
        let error = install(host, HookScope::User, Some(text), &wanted()).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    assert!(install(Host::Claude, HookScope::User, Some(&deep), &wanted()).is_err());
}

#[test]
fn a_limit_of_the_host_is_named_when_it_would_bite() {
    for (host, text, cap) in [
        (Host::Claude, "{}", Some(8)),
        (Host::Claude, "{\"env\": {\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\": \"0\"}}", None),
        (Host::Claude, "{\"env\": {\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\": \"\\u0030\"}}", None),
        (Host::Claude, "{\"env\": {\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\": \"20\"}}", Some(20)),
        (Host::Claude, "{\"env\": {\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\": \"many\"}}", Some(8)),
        (Host::Qwen, "{\"stopHookBlockingCap\": 1e2}", Some(100)),
        (Host::Qwen, "{\"stopHookBlockingCap\": 0}", Some(8)),
        (Host::Gemini, "{}", None),
    ] {
        assert_eq!(installed(host, HookScope::User, text).unwrap().cap, cap, "{host} {text}");
    }
    let off = installed(Host::Claude, HookScope::User, "{\"disableAllHooks\": true}").unwrap();
    assert!(off.is_disabled);
}

#[test]
fn hooks_are_given_more_time_than_the_gates_need_together() {
    let minutes = |minutes: u64| Millis(minutes * 60_000);
    for (gates, scope, expected) in [
        (vec![], HookScope::Project, minutes(10)),
        (vec![minutes(5), minutes(20)], HookScope::Project, minutes(51)),
        (vec![minutes(5)], HookScope::User, minutes(60)),
        (vec![minutes(600)], HookScope::User, minutes(1201)),
    ] {
        assert_eq!(hook_timeout(gates, scope), expected);
    }
}

#[test]
fn a_file_of_dacapos_is_known_again_and_a_changed_one_too() {
    for host in Host::ALL {
        for file in own_files(host, &wanted()) {
            assert!(own_paths(host).contains(&file.path));
            assert_eq!(ownership(&file.text), Ownership::Own, "{}", file.text);
            assert_eq!(ownership(&format!("{}\nmine", file.text)), Ownership::Changed, "{}", file.path);
        }
    }
    assert_eq!(ownership("---\ndescription: mine\n---\nDo it.\n"), Ownership::Foreign);
    let commands = own_files(Host::Gemini, &wanted());
    insta::assert_snapshot!(commands[0].text, @r#"
    # written by `dacapo hook install`, sha256 3e1c47782118ab7c
    description = "Work on a task in a loop until it is proven done"
    prompt = "/ralph {{args}}"
    "#);
    assert_eq!(own_files(Host::Claude, &verifying()), []);
}

/// JSON in an unusual form: any blanks and comments between the tokens.
fn any_json() -> impl Strategy<Value = String> {
    let blank = prop_oneof![
        3 => Just(String::new()), 1 => Just(" ".to_owned()), 1 => Just("\n".to_owned()), 1 => Just("\r\n\t".to_owned()),
        1 => Just("/* c, } */".to_owned()), 1 => Just("// c\n".to_owned()),
    ];
    let key = prop_oneof![
        Just("hooks"),
        Just("Stop"),
        Just("UserPromptSubmit"),
        Just("env"),
        Just("a"),
        Just("b \\\" //"),
    ];
    let scalar = prop_oneof![Just("1".to_owned()), Just("\"x\"".to_owned()), Just("null".to_owned())];
    let value = scalar.prop_recursive(4, 24, 4, {
        let (blank, key) = (blank.clone(), key.clone());
        move |inner| {
            let object = (
                prop::collection::vec((key.clone(), inner.clone(), blank.clone(), blank.clone()), 0..4),
                blank.clone(),
                any::<bool>(),
            )
                .prop_map(|(members, end, trailing)| {
                    let all: Vec<String> = members
                        .iter()
                        .map(|(key, value, a, b)| format!("{a}\"{key}\"{b}:{value}{a}"))
                        .collect();
                    let comma = if trailing && !all.is_empty() { "," } else { "" };
                    format!("{{{}{comma}{end}}}", all.join(","))
                });
            let array = (prop::collection::vec((inner, blank.clone()), 0..4), blank.clone(), any::<bool>())
                .prop_map(|(items, end, trailing)| {
                    let all: Vec<String> =
                        items.iter().map(|(item, blank)| format!("{blank}{item}{blank}")).collect();
                    let comma = if trailing && !all.is_empty() { "," } else { "" };
                    format!("[{}{comma}{end}]", all.join(","))
                });
            prop_oneof![object, array]
        }
    });
    (blank.clone(), value, blank).prop_map(|(before, value, after)| format!("{before}{value}{after}"))
}

proptest! {
    #[test]
    fn whatever_the_settings_look_like_uninstall_brings_them_back(text in any_json()) {
        for host in [Host::Claude, Host::Qwen] {
            // Settings of another shape are refused; nothing is written then.
            if let Ok(with) = install(host, HookScope::User, Some(&text), &wanted()) {
                prop_assert_eq!(uninstall(host, HookScope::User, &with, Which::All), Ok(Some(text.clone())), "{}", with);
            }
        }
    }

    #[test]
    fn tables_go_in_and_out_of_any_toml(lines in prop::collection::vec(prop_oneof![
        Just("a = 1"), Just(""), Just("# c"), Just("b = '''"), Just("'''"), Just("[[hooks.Stop]]"),
        Just("[[hooks.Stop.hooks]]"), Just("command = \"x\""), Just("[t]"), Just("l = ["), Just("]"), Just("\"[x]\","),
    ], 0..8), newline in prop_oneof![Just("\n"), Just("\r\n")], ends in any::<bool>()) {
        let text = format!("{}{}", lines.join(newline), if ends { newline } else { "" });
        if let Ok(with) = install(Host::Codex, HookScope::User, Some(&text), &wanted()) {
            prop_assert_eq!(uninstall(Host::Codex, HookScope::User, &with, Which::All), Ok(Some(text.clone())), "{}", with);
        }
    }
}

#[test]
fn two_comments_side_by_side_are_no_line_comment() {
    let text = "{\"Stop\":1/* c *//* c */}";
    let with = install(Host::Claude, HookScope::User, Some(text), &wanted()).unwrap();
    assert_eq!(
        uninstall(Host::Claude, HookScope::User, &with, Which::All),
        Ok(Some(text.to_owned())),
        "{with}"
    );
}
