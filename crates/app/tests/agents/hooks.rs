//! `dacapo hook install` and `uninstall`: whole folders before and after, and what `doctor` says in between.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use dacapo_testkit::TestEnv;
use serde_json::{Value, json};

use crate::{assert_has, json, last_line, run, user, world};

/// Everything below a folder: files with their mode and bytes, links with their target, folders.
fn tree(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.expect("an entry").path();
        let metadata = fs::symlink_metadata(&path).expect("it is there");
        let what = if metadata.is_symlink() {
            format!("-> {}", fs::read_link(&path).expect("a link").display())
        } else if metadata.is_dir() {
            found.extend(tree(&path));
            "folder".to_owned()
        } else {
            let bytes = fs::read(&path).expect("a file");
            format!("{:o} {:?}", metadata.permissions().mode(), String::from_utf8_lossy(&bytes))
        };
        found.insert(path, what);
    }
    found
}

/// The user's home without dacapo's own state and the repository.
fn files(env: &TestEnv) -> [BTreeMap<PathBuf, String>; 2] {
    let mut home = tree(&env.home());
    home.retain(|path, _| !path.starts_with(env.dacapo_home()));
    [home, tree(&env.workspace())]
}

const HOSTS: [&str; 6] = ["claude", "codex", "gemini", "qwen", "copilot", "opencode"];

#[test]
fn what_is_installed_where_nothing_was_leaves_nothing_behind() {
    let env = world();
    let before = files(&env);
    for scope in ["--user", "--project"] {
        for host in HOSTS {
            let installed = json(&env, ["hook", "install", host, scope, "--json"]);
            let all = installed["files"].as_array().expect("files");
            assert!(!all.is_empty() && all.iter().all(|file| file["change"] == "created"), "{installed}");
            let again = json(&env, ["hook", "install", host, scope, "--json"]);
            let all = again["files"].as_array().expect("files");
            assert!(all.iter().all(|file| file["change"] == "unchanged"), "{again}");
        }
    }
    assert_ne!(files(&env), before);
    for scope in ["--user", "--project"] {
        for host in HOSTS {
            run(&env, ["hook", "uninstall", host, scope]).assert_code(0);
            let again = run(&env, ["hook", "uninstall", host, scope]).assert_code(0);
            assert_has(&again.stdout, "no hooks of dacapo's were there");
        }
    }
    assert_eq!(files(&env), before);
}

/// Settings of Claude Code as people have them.
const SETTINGS: [&str; 20] = [
    "",
    "{}",
    "{}\n",
    "{\n}\n",
    "{ // nothing yet\n}\n",
    "{\n  \"model\": \"opus\"\n}\n",
    "{\n\t\"model\": \"opus\"\n}\n",
    "{\r\n    \"model\": \"opus\",\r\n    \"env\": {}\r\n}\r\n",
    "{\n  \"model\": \"opus\" // the best\n}",
    "\u{feff}{\"model\":\"opus\"}",
    "/* mine */ {\n  \"permissions\": {\"allow\": [\"Bash(npm *)\",],},\n} // end",
    "{\"hooks\":{}}",
    "{\"hooks\": {\"Stop\": [ ]}}\n",
    "{\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"hooks\": [\n          {\"type\": \"command\", \"command\": \"say done\"}\n        ]\n      }\n    ]\n  }\n}\n",
    "{\"hooks\": {\"Stop\": [{\"hooks\": []}], \"UserPromptSubmit\": [{\"hooks\": []}], \"StopFailure\": [{\"hooks\": []}]}}\n",
    "{\n  \"env\": {\n    \"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\": \"0\"\n  }\n}\n",
    "{\n  \"env\": {\"A\": \"1\", /* b */ \"B\": \"2\"},\n\n\n  \"hooks\":\n  {\n  }\n}\n\n\n",
    "{\"a\":[[],{}],\"env\":{ }}",
    "{\n  \"statusLine\": {\"type\": \"command\", \"command\": \"echo \\\"}{][\\\" // no\"}\n}\n",
    "   {   \"ü\": \"日本\" ,   }   ",
];

#[test]
fn twenty_settings_files_come_back_byte_for_byte() {
    for (number, text) in SETTINGS.into_iter().enumerate() {
        let env = world();
        let claude = env.home().join(".claude");
        let settings = claude.join("settings.json");
        fs::create_dir_all(claude.join("commands")).unwrap();
        fs::write(claude.join("commands/mine.md"), "Do it.\n").unwrap();
        if number % 2 == 0 {
            fs::write(&settings, text).unwrap();
            fs::set_permissions(&settings, fs::Permissions::from_mode(0o600)).unwrap();
        } else {
            fs::create_dir(env.home().join("dotfiles")).unwrap();
            fs::write(env.home().join("dotfiles/claude.json"), text).unwrap();
            symlink("../dotfiles/claude.json", &settings).unwrap();
        }
        let before = files(&env);
        run(&env, ["hook", "install", "claude"]).assert_code(0);
        let with = files(&env);
        assert_ne!(with, before, "{text}");
        run(&env, ["hook", "install", "claude", "--verify"]).assert_code(0);
        run(&env, ["hook", "uninstall", "claude", "--verify"]).assert_code(0);
        assert_eq!(files(&env), with, "{text}");
        run(&env, ["hook", "uninstall", "claude"]).assert_code(0);
        assert_eq!(files(&env), before, "{text}");
    }
}

#[test]
fn what_cannot_be_changed_is_named_and_nothing_is_written() {
    let env = world();
    let settings = env.home().join(".claude/settings.json");
    let command = env.home().join(".claude/commands/ralph.md");
    fs::create_dir_all(command.parent().unwrap()).unwrap();
    let refused = |words: &str, hint: &str| {
        let before = files(&env);
        for verb in ["install", "uninstall"] {
            let output = run(&env, ["hook", verb, "claude"]);
            if verb == "install" || words.contains("cannot use") {
                let output = output.assert_code(5);
                assert_has(last_line(&output), words);
                assert_has(&output.stderr, hint);
            }
            assert_eq!(files(&env), before, "{words}");
        }
    };
    fs::write(&settings, "{\n  \"model\": \"opus\"\n  \"env\": {}\n}\n").unwrap();
    refused("settings.json`: line 3, column 3: `,` or `}` is expected", "nothing was changed");
    fs::write(&settings, "{\"hooks\": 5}").unwrap();
    refused("`hooks` is not an object", "repair the file");
    fs::write(&settings, "{}").unwrap();
    fs::set_permissions(&settings, fs::Permissions::from_mode(0o444)).unwrap();
    refused("is read-only", "hint: `chmod u+w");
    fs::set_permissions(&settings, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&command, "My own.\n").unwrap();
    refused("ralph.md` was not written by dacapo; nothing was installed", "give that file another name");
    fs::remove_file(&command).unwrap();
    fs::remove_file(&settings).unwrap();
    symlink("nowhere", &settings).unwrap();
    let output = run(&env, ["hook", "install", "claude"]).assert_code(5);
    assert_has(last_line(&output), "is a link to `nowhere`, which does not exist");
    let output = run(&env, ["hook", "install", "cluade"]).assert_code(2);
    assert_has(&output.stderr, "did you mean `claude`?");
    let output = run(&env, ["hook", "install", "opencode", "--verify"]).assert_code(2);
    assert_has(last_line(&output), "nothing can be judged there");
}

#[test]
fn a_command_that_the_user_changed_stays() {
    let env = world();
    run(&env, ["hook", "install", "claude"]).assert_code(0);
    let command = env.home().join(".claude/commands/ralph.md");
    let text = fs::read_to_string(&command).unwrap();
    fs::write(&command, format!("{text}Be quick.\n")).unwrap();
    let output = run(&env, ["hook", "uninstall", "claude"]).assert_code(0);
    assert_has(&output.stdout, "was changed since dacapo wrote it, so it stays");
    assert!(command.exists());
    assert!(!env.home().join(".claude/settings.json").exists());
}

fn hook_findings(env: &TestEnv) -> Vec<(String, String)> {
    let findings = json(env, ["doctor", "--json"]);
    let all = findings.as_array().expect("a list").iter().filter(|finding| finding["name"] == "hook");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.map(|finding| (text(&finding["level"]), text(&finding["detail"]))).collect()
}

#[test]
fn doctor_names_hooks_and_what_keeps_them_from_working() {
    let env = world();
    assert_eq!(hook_findings(&env), []);
    run(&env, ["hook", "install", "claude"]).assert_code(0);
    run(&env, ["hook", "install", "opencode", "--project"]).assert_code(0);
    let found = hook_findings(&env);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|(level, _)| level == "ok"), "{found:?}");
    assert_has(&found[0].1, "claude (user): Stop, UserPromptSubmit, StopFailure run `");
    assert_has(&found[1].1, "opencode (project): a plugin that runs `");
    // Codex runs no hook that its user has not agreed to.
    let output = run(&env, ["hook", "install", "codex"]).assert_code(0);
    assert_has(&output.stdout, "Codex skips hooks that its user has not trusted");
    assert_has(&hook_findings(&env)[1].1, "Codex skips them: its user has not trusted them as they are");
    // The limit is back, the program is gone, the gates take longer, and hooks are off.
    let settings = env.home().join(".claude/settings.json");
    let text = fs::read_to_string(&settings).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["env"] = json!({"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "3"});
    value["disableAllHooks"] = json!(true);
    let handler = &mut value["hooks"]["Stop"][0]["hooks"][0];
    handler["command"] = json!("/gone/dacapo hook stop --agent claude");
    fs::write(&settings, value.to_string()).unwrap();
    user(&env, "gates: [{name: slow, run: sleep 1, timeout: 2h}]\n");
    let found = hook_findings(&env);
    let claude: Vec<&str> =
        found.iter().filter(|(_, text)| text.starts_with("claude")).map(|(_, text)| text.as_str()).collect();
    for (text, words) in claude.iter().zip([
        "they run `/gone/dacapo`, which is not there",
        "hooks are switched off in these settings",
        "lets its agent go after 3 refusals in a row",
        "the host ends them after 1h0m0s, and the gates of this folder may take 8h1m0s",
    ]) {
        assert_has(text, words);
    }
    assert_eq!(claude.len(), 4, "{claude:?}");
    // Installing again repairs what is dacapo's, and only that.
    let output = run(&env, ["hook", "install", "claude"]).assert_code(0);
    assert_has(&output.stdout, "lets its agent go after 3 refusals in a row");
    let value: Value = serde_json::from_str(&fs::read_to_string(&settings).unwrap()).unwrap();
    assert_eq!(value["env"]["CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"], "3", "the user's value stays");
    assert_eq!(value["hooks"]["Stop"][0]["hooks"][0]["timeout"], 8 * 3600 + 60);
}

#[test]
fn a_plugin_for_claude_is_a_folder_of_its_own() {
    let env = world();
    let before = files(&env);
    let output = run(&env, ["hook", "install", "claude", "--plugin", "tools/ralph"]).assert_code(0);
    assert_has(&output.stdout, "claude --plugin-dir");
    let names: Vec<String> = tree(&env.workspace())
        .into_iter()
        .filter(|(_, what)| what != "folder")
        .map(|(path, _)| path.strip_prefix(env.workspace()).unwrap().display().to_string())
        .collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    tools/ralph/.claude-plugin/plugin.json
    tools/ralph/commands/cancel-ralph.md
    tools/ralph/commands/ralph.md
    tools/ralph/hooks/hooks.json
    ");
    let hooks: Value = serde_json::from_str(&env.read("tools/ralph/hooks/hooks.json")).unwrap();
    assert_has(
        hooks["hooks"]["Stop"][0]["hooks"][0]["command"].as_str().unwrap(),
        "hook stop --agent claude",
    );
    run(&env, ["hook", "uninstall", "claude", "--plugin", "tools/ralph"]).assert_code(0);
    assert_eq!(files(&env), before);
}
