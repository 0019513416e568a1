//! Scripts run what agents of earlier steps wrote: they are held as gates are. Steps in worktrees have refs of their own.

use std::fs;

use dacapo_testkit::TestEnv;
use serde_json::Value;

use crate::support::{args, events, run, run_id, with};

/// An agent writes the script that the next step runs.
const BUILDS: &str = "steps:\n  - {id: write, prompt: write it}\n  - {id: build, bash: 'sh ./build.sh'}\n";

const BUILD: &str = "echo built > built\necho planted >> $HOME/.bashrc\necho planted > $DACAPO_HOME/planted\n\
                     cat $DACAPO_HOME/keys/* > read.txt 2>/dev/null\nenv > env.txt\nps -e > ps.txt\ntrue\n";

fn with_bashrc(text: &str) -> TestEnv {
    let env = with(text);
    fs::write(env.home().join(".bashrc"), "# mine\n").unwrap();
    env
}

fn bashrc(env: &TestEnv) -> String {
    fs::read_to_string(env.home().join(".bashrc")).unwrap()
}

fn is_held(env: &TestEnv) -> bool {
    env.run(["events", "--json"]).stdout.contains(r#""tier":"namespaces""#)
}

#[test]
fn a_script_that_an_agent_wrote_is_held_as_a_gate_is() {
    let env = with_bashrc(BUILDS);
    fs::write(env.root().join("build.sh"), BUILD).unwrap();
    env.script(&format!("sh 'cp {}/build.sh .'", env.root().display()));
    let mut dacapo = env.command(env!("CARGO_BIN_EXE_dacapo"));
    dacapo.args(args(&env, &[])).env("ANTHROPIC_API_KEY", "sk-ant-hidden-0123456789abcdef");
    let output = env.run_command(dacapo).assert_code(0);
    assert_eq!(env.read("built"), "built\n");
    assert!(!env.read("env.txt").contains("sk-ant-hidden"));
    let all = events(&env, &run_id(&output));
    let started = all.iter().find(|event| event["type"] == "script_started").expect("it is recorded");
    assert_eq!((&started["step"], &started["attempt"]), (&"build".into(), &1.into()));
    if !is_held(&env) {
        assert!(output.stdout.contains("**Sandbox**: "), "{}", output.stdout);
        return;
    }
    assert_eq!(started["sandbox"]["tier"], "namespaces");
    assert_eq!(bashrc(&env), "# mine\n");
    assert!(!env.dacapo_home().join("planted").exists());
    assert_eq!(env.read("read.txt"), "");
    assert!(!env.read("ps.txt").contains("dcp-unit"), "{}", env.read("ps.txt"));
    assert!(!output.stdout.contains("**Sandbox**"), "nothing is missing: {}", output.stdout);
}

#[test]
fn without_a_sandbox_and_in_a_lesser_tier_a_run_says_so_once() {
    let env = with_bashrc(
        "steps:\n  - {id: a, bash: 'echo a >> $HOME/.bashrc'}\n  - {id: b, prompt: p}\n  - {id: c, bash: 'true'}\n",
    );
    env.script("say well");
    let output = run(&env, &["--sandbox", "off"]).assert_code(0);
    assert_eq!(output.stdout.matches("**Sandbox**: no sandbox\n").count(), 1, "{}", output.stdout);
    assert_eq!(bashrc(&env), "# mine\na\n");
    let started = |output| {
        let all: Vec<Value> = events(&env, &run_id(output));
        all.into_iter().find(|event| event["type"] == "script_started").expect("it is recorded")["sandbox"]
            .clone()
    };
    assert_eq!(started(&output)["mode"], "off");
    let folder = env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), "sandbox: {tier: landlock}\n").unwrap();
    env.script("say well");
    let output = run(&env, &[]).assert_code(0);
    assert_ne!(started(&output)["tier"], "namespaces");
    assert!(
        output.stdout.contains("**Sandbox**: ") && output.stdout.contains("left open: "),
        "{}",
        output.stdout
    );
}

#[test]
fn a_script_that_is_refused_what_it_wants_fails_with_what_it_printed() {
    let env = with_bashrc("steps: [{id: a, bash: 'set -e; echo x >> $HOME/.bashrc'}]\n");
    let output = run(&env, &[]);
    if is_held(&env) {
        output.assert_code(1);
        let all = env.run(["events", "--json"]).stdout;
        assert!(all.contains("the script exited with 2: /bin/sh: 1: cannot create "), "{all}");
    }
}

#[test]
fn steps_in_worktrees_have_refs_of_their_own_and_their_commits_stay() {
    let meddle = "git branch -f planted HEAD; git tag planted; git config core.fsmonitor planted; git branch -D kept; \
                  touch NAME; git add NAME; git commit -qm NAME";
    let env = with(&format!(
        "steps:\n  - {{id: agent, prompt: p, worktree: true}}\n  - {{id: script, bash: '{}', worktree: true}}\n  - {{id: elsewhere, bash: 'git switch -q -c mine; {}', worktree: true}}\n",
        meddle.replace("NAME", "script"),
        meddle.replace("NAME", "elsewhere")
    ));
    env.git(["branch", "kept"]);
    let config = fs::read_to_string(env.workspace().join(".git/config")).unwrap();
    env.script(&format!("sh '{}'", meddle.replace("NAME", "agent")));
    let output = run(&env, &[]).assert_code(0);
    let id = run_id(&output);
    for step in ["agent", "script", "elsewhere"] {
        assert!(env.workspace().join(step).exists(), "{step}");
    }
    if !is_held(&env) {
        assert!(output.stdout.contains("share the repository's branches"), "{}", output.stdout);
        return;
    }
    for step in ["agent", "script", "elsewhere"] {
        let branch = format!("dacapo/{id}/{step}");
        assert_eq!(env.git(["log", "--format=%s", "-1", &branch]), format!("{step}\n"));
    }
    let refs = env.git(["for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags"]);
    let own: Vec<&str> = refs.lines().filter(|name| !name.contains("dacapo/")).collect();
    assert!(own.contains(&"refs/heads/kept") && own.len() == 2, "{refs}");
    assert_eq!(fs::read_to_string(env.workspace().join(".git/config")).unwrap(), config);
    let left = fs::read_dir(env.dacapo_home().join("refs")).map(Iterator::count).unwrap_or(0);
    assert_eq!(left, 0, "the refs that the steps saw are gone");
}

#[test]
fn a_link_that_a_script_puts_into_gits_folder_is_removed_and_told() {
    let env = with_bashrc(
        "steps: [{id: a, bash: 'rm -f .git/logs/HEAD; mkdir -p .git/logs; ln -s $HOME/.bashrc .git/logs/HEAD'}, {id: b, bash: 'true'}]\n",
    );
    let output = run(&env, &["--mode", "stream"]).assert_code(0);
    assert!(!env.workspace().join(".git/logs/HEAD").is_symlink());
    assert!(output.stdout.contains("became a link, which was removed"), "{}", output.stdout);
}
