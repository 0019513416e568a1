//! The guard, attacked: what an agent can do with the user's rights, tier by tier, as root and as an ordinary user.

mod bad_input;
mod container;
mod work;
mod world;

use std::{fs, path::Path, time::Duration};

use dacapo_testkit::{Running, wait_until};
use world::{Attacker, GuardWorld};

const LONG: Duration = Duration::from_secs(60);

/// Every attack of the list, by the names of those that succeeded.
fn achieved(attacker: Attacker, args: &[&str]) -> (GuardWorld, Vec<String>) {
    let world = GuardWorld::new(attacker);
    world.run_attacks(args);
    let report = fs::read_to_string(world.workspace().join("report")).expect("the agent has worked");
    assert!(report.lines().any(|line| line == "end"), "not all attacks were tried:\n{report}");
    let achieved =
        report.lines().filter_map(|line| line.strip_prefix("achieved ")).map(str::to_owned).collect();
    (world, achieved)
}

#[test]
fn no_attack_succeeds_in_namespaces_as_root() {
    // faults G13, K7, R23
    let (world, achieved) = achieved(Attacker::Root, &[]);
    if !world.allows_namespaces() {
        return world.assert_says_less();
    }
    assert_eq!(achieved, Vec::<String>::new());
    assert_eq!(world.sandbox()["tier"], "namespaces");
}

#[test]
fn no_attack_succeeds_in_namespaces_as_a_user() {
    // faults G13, K7, R23
    let (world, achieved) = achieved(Attacker::User, &[]);
    if !world.allows_namespaces() {
        return world.assert_says_less();
    }
    assert_eq!(achieved, Vec::<String>::new());
    assert_eq!(world.sandbox()["tier"], "namespaces");
}

#[test]
fn what_is_mounted_in_two_places_is_protected_in_both() {
    for attacker in [Attacker::Root, Attacker::User] {
        let world = GuardWorld::new(attacker);
        if !world::is_root() || !world.allows_namespaces() {
            return;
        }
        fs::create_dir(world.root().join("again")).expect("a folder");
        let attacks = [
            ("startup", "echo x >> $W/again/home/.bashrc"),
            ("journal", "echo x >> $W/again/state/dacapo.db"),
            ("key", "cat $W/again/state/keys/signing"),
            ("program", "echo x >> $W/again/bin/tool"),
            ("moved", "mv $W/again/home $W/again/away"),
        ];
        let all: Vec<String> = attacks.iter().map(|(name, _)| (*name).to_owned()).collect();
        let twice = format!("mount --bind '{0}' '{0}/again'", world.root().display());
        assert_eq!(failed_work_after(&world, &twice, &attacks, &[]), all, "{attacker:?}");
        assert_eq!(world.sandbox()["tier"], "namespaces");
    }
}

#[test]
fn a_terminal_server_that_the_user_starts_later_is_out_of_reach_too() {
    let world = GuardWorld::new(Attacker::User);
    if !world.allows_namespaces() {
        return;
    }
    let long = Duration::from_secs(60);
    let agent = "sh -c 'until test -e go; do sleep 0.01; done; tmux ls && touch reached; touch tried'";
    let mut command = world.command(world.program());
    command.args(["run", "do it", "--task", "t", "-n", "1", "--agent-cmd", agent]);
    let running = Running::start(command);
    wait_until("the loop has begun", long, || world.root().join("state/sockets").is_dir());
    wait_until("the agent runs", long, || {
        let mut events = world.command(world.program());
        events.args(["events", "t", "--json"]);
        Running::start(events).wait(long).stdout.contains("agent_started")
    });
    let tmux = |args: &[&str]| {
        let mut tmux = world.command("tmux");
        tmux.args(["-f", "/dev/null"]).args(args);
        Running::start(tmux).wait(long)
    };
    tmux(&["new-session", "-d", "sleep 600"]).assert_code(0);
    fs::write(world.workspace().join("go"), "").expect("a file");
    running.wait(long);
    tmux(&["kill-server"]);
    assert!(world.workspace().join("tried").exists() && !world.workspace().join("reached").exists());
}

#[test]
fn no_agent_of_another_loop_writes_in_a_fresh_checkout() {
    let world = GuardWorld::new(Attacker::User);
    if !world.allows_namespaces() {
        return;
    }
    let long = Duration::from_secs(60);
    let at = |name: &str| world.root().join(name).display().to_string();
    let mut prepare = world.command("sh");
    prepare.args(["-c", "git init -q . && echo a >a && git add a && git -c user.name=a -c user.email=a@b commit -qm i && mkdir $W/second"]);
    Running::start(prepare).wait(long).assert_code(0);
    let (place, tried, reached) = (at("tmp/place"), at("tmp/tried"), at("tmp/reached"));
    // A gate that is red gets a second try in another checkout: what it found is said in a file.
    let gate = format!(
        "case $PWD in {}) exit 0;; esac; pwd >{place}.new; mv {place}.new {place}; until test -e {tried}; do sleep 0.01; done; \
         test -e a && test ! -e planted && test ! -e ../planted && test ! -e ../../planted || touch {reached}",
        at("workspace")
    );
    let mut first = world.command(world.program());
    let agent = "sh -c 'echo n >n; echo \"<promise>DONE</promise>\"'";
    first.args([
        "run",
        "do it",
        "--task",
        "t",
        "-n",
        "1",
        "--no-probe",
        "--agent-cmd",
        agent,
        "--gate",
        &gate,
    ]);
    let first = Running::start(first);
    wait_until("the gate runs in a checkout", long, || world.root().join("tmp/place").exists());
    let attack = format!(
        "sh -c 'cd /; f=$(cat {place}); touch $f/planted; touch $f/../planted; touch $f/../../planted; rm -f $f/a; \
         mv $f $f.away; mkdir -p $f; touch $f/planted; touch {tried}'"
    );
    let mut second = world.command(world.program());
    second.current_dir(world.root().join("second"));
    second.args(["run", "attack", "--task", "second", "-n", "1", "--agent-cmd", &attack]);
    Running::start(second).wait(long);
    let output = first.wait(long);
    assert_eq!(world.last_event()["reason"], "done", "{}\n{}", output.stdout, output.stderr);
    assert!(!Path::new(&reached).exists(), "an agent of another loop has written in the checkout");
    assert_eq!(fs::read_dir(at("state/checkouts")).expect("a folder").count(), 0, "nothing is left");
}

#[test]
fn the_list_is_of_attacks_that_succeed_where_nothing_is_held() {
    // Some that harm only this world, and never as root: these do succeed.
    let names = [
        "state-runs-write",
        "state-other-task",
        "bashrc-append",
        "npmrc",
        "path-replace",
        "kill-supervisor-look",
        "held-named",
        "checkouts-plant",
        "link-replace",
        "link-above",
        "link-of-path",
        "user-units",
        "sourced-file",
        "sourced-folder-new",
        "git-included",
        "direnv-allow",
        "uring-open",
    ];
    let world = GuardWorld::new(Attacker::User);
    let work: Vec<(&str, &str)> = world::attacks().filter(|(name, _)| names.contains(name)).collect();
    assert_eq!(work.len(), names.len());
    let work: Vec<(&str, String)> = work
        .into_iter()
        .map(|(name, attack)| (name, format!("export SUP=$(cat $WS/sup); {attack}")))
        .collect();
    let work: Vec<(&str, &str)> = work.iter().map(|(name, attack)| (*name, attack.as_str())).collect();
    assert_eq!(failed_work(&world, &work, &["--sandbox", "off"]), Vec::<String>::new());
}

/// Runs an agent of this world that writes each line of `work` that fails to `report`, with a gate.
pub(crate) fn failed_work(world: &GuardWorld, work: &[(&str, &str)], args: &[&str]) -> Vec<String> {
    failed_work_after(world, "", work, args)
}

/// The same after a line of shell, which runs in mounts of its own, as who runs the tests.
pub(crate) fn failed_work_after(
    world: &GuardWorld,
    first: &str,
    work: &[(&str, &str)],
    args: &[&str],
) -> Vec<String> {
    let output = world.run_work_after(first, work, args);
    let report = fs::read_to_string(world.workspace().join("report")).unwrap_or_default();
    assert!(report.lines().any(|line| line == "end"), "{}\n{}\n{report}", output.stdout, output.stderr);
    report.lines().filter_map(|line| line.strip_prefix("failed ")).map(str::to_owned).collect()
}

#[test]
fn with_workspace_little_else_is_written_and_credentials_are_not_read() {
    // fault K9
    for attacker in [Attacker::Root, Attacker::User] {
        let world = GuardWorld::new(attacker);
        let work = [
            ("home", "echo x > $HOME/file"),
            ("new folder", "mkdir $HOME/.planted"),
            ("cache", "mkdir -p $HOME/.cache/x"),
            ("ssh", "cat $HOME/.ssh/authorized_keys"),
            ("ssh folder", "test -n \"$(ls $HOME/.ssh)\""),
            ("beside", "echo x > $STATE/../beside"),
            ("state", "echo x > $STATE/x"),
        ];
        let all: Vec<String> = work.iter().map(|(name, _)| (*name).to_owned()).collect();
        let failed = failed_work(&world, &work, &["--sandbox", "workspace"]);
        if !world.allows_namespaces() {
            world.assert_says_less();
            continue;
        }
        assert_eq!(failed, all, "{attacker:?}");
    }
}

#[test]
fn a_gate_sees_no_provider_key_anywhere() {
    for attacker in [Attacker::Root, Attacker::User] {
        let world = GuardWorld::new(attacker);
        let gate = "echo ran >> gated; ! env | grep -q sk-ant-hidden && ! cat /proc/[0-9]*/environ 2>/dev/null | grep -aq sk-ant-hidden";
        let work = [("key", "env | grep -q sk-ant-hidden")];
        assert_eq!(failed_work(&world, &work, &["--gate", gate]), Vec::<String>::new());
        if !world.allows_namespaces() {
            world.assert_says_less();
            continue;
        }
        assert!(world.workspace().join("gated").exists());
        assert_eq!(world.last_event()["reason"], "done", "{attacker:?}");
    }
}

#[test]
fn landlock_leaves_open_what_lies_in_the_home_and_says_so() {
    let world = GuardWorld::new(Attacker::User);
    world.configure("sandbox: {tier: landlock}\n");
    let work = [
        ("state", "echo x >> $STATE/dacapo.db"),
        ("program", "echo x > $BIN/tool"),
        ("signal", "kill -0 $(cat $WS/sup)"),
        ("trace", "cat /proc/$(cat $WS/sup)/environ | grep -q HOME"),
        ("startup", "echo x >> $HOME/.bashrc"),
    ];
    assert_eq!(failed_work(&world, &work, &[]), ["state", "program", "signal", "trace"]);
    let held = world.sandbox();
    assert_eq!(held["tier"], "landlock");
    let open = held["open"].to_string();
    assert!(open.contains("/home/.bashrc` can be written") && !open.contains("/state`"), "{open}");
}

/// What Landlock leaves to an agent of an ordinary user: what lies in the home folder and in TASK_FOLDER, which must stay writable,
/// modes, times and attributes, and what there is of other processes. Each is said by a sentence of `open`.
const OPEN_IN_LANDLOCK: [&str; 76] = [
    "tty-write",
    "tty-read",
    "journal-chmod",
    "journal-utimes",
    "state-runs-write",
    "state-runs-remove",
    "config-dacapo",
    "config-dacapo-new-file",
    "config-dacapo-move",
    "config-folder-move",
    "bashrc-append",
    "bashrc-rename",
    "bashrc-remove",
    "bash-profile",
    "profile",
    "gitconfig",
    "npmrc",
    "cargo-config",
    "cargo-folder-move",
    "ssh-authorized-keys",
    "ssh-config",
    "user-site",
    "systemd-unit",
    "path-chmod",
    "see-supervisor",
    "see-keeper",
    "pidfd-supervisor",
    "tmux-server",
    "config-git-new",
    "config-fish-new",
    "environment-new",
    "bash-login",
    "bash-aliases",
    "bash-completion",
    "child-in-root",
    "child-in-proc",
    "xprofile",
    "service-bus",
    "service-terminal",
    "service-editor",
    "held-write",
    "held-replace",
    "held-remove",
    "held-folder-remove",
    "held-named",
    "link-replace",
    "link-rename-over",
    "link-remove",
    "link-target",
    "link-target-move",
    "link-above",
    "link-above-move",
    "link-folder",
    "user-units",
    "dbus-services",
    "journal-xattr",
    "direnv-allow",
    "mise-trust",
    "sourced-file",
    "sourced-folder",
    "gh-config",
    "editor-settings",
    "editor-extension",
    "vim-plugin",
    "prlimit-supervisor",
    "nice-supervisor",
    "docker-config",
    "pip-config-old",
    "git-template",
    "git-included",
    "sourced-file-new",
    "sourced-folder-new",
    "sourced-of-sourced",
    "curlrc-new",
    "git-hook-of-settings",
    "open-tree-of-home",
];

#[test]
fn what_landlock_leaves_open_is_exactly_what_is_listed() {
    let world = GuardWorld::new(Attacker::User);
    world.configure("sandbox: {tier: landlock}\n");
    world.leave_out(&["kill-keeper", "kill-by-name"]);
    world.run_attacks(&[]);
    let held = world.sandbox();
    let open = held["open"].to_string();
    if held["tier"] != "landlock" || open.contains("too old") {
        // No Landlock here, or one without scopes, which the loop has to say.
        return assert!(open.contains("too old") || open.contains("landlock:"), "{held}");
    }
    let report = fs::read_to_string(world.workspace().join("report")).expect("the agent has worked");
    let achieved: Vec<&str> = report.lines().filter_map(|line| line.strip_prefix("achieved ")).collect();
    assert_eq!(achieved, OPEN_IN_LANDLOCK);
    for sentence in [
        "/runs` can be written",
        "/.config/dacapo` can be written",
        "/.bashrc` can be written",
        "/.ssh` can be written",
        "/.inputrc` can be written",
        "modes, times and attributes of all files",
        "the processes of the user can be seen",
        "the keeper of the loop can be killed",
        "a server of the user's, such as tmux",
        "the terminals of the user can be read and written",
    ] {
        assert!(open.contains(sentence), "no `{sentence}` in {open}");
    }
}

#[test]
fn killing_every_process_that_an_agent_may_ends_its_own_alone() {
    for attacker in [Attacker::Root, Attacker::User] {
        let world = GuardWorld::new(attacker);
        if !world.allows_namespaces() {
            return;
        }
        let mut sleep = world.command("sleep");
        sleep.arg("600");
        let sleep = Running::start(sleep);
        let mut dacapo = world.command(world.program());
        let agent = "python3 -c \"import os; open('tried', 'w'); os.system('sleep 600 &'); os.kill(-1, 9); open('lived', 'w')\"";
        dacapo.args([
            "run",
            "do it",
            "--task",
            "t",
            "-n",
            "2",
            "--restart-delay",
            "0s",
            "--agent-cmd",
            agent,
        ]);
        dacapo.args(["--gate", "test -e tried"]);
        Running::start(dacapo).wait(LONG).assert_code(3);
        assert!(world.workspace().join("lived").exists(), "{attacker:?}");
        let state = fs::read_to_string(format!("/proc/{}/stat", sleep.pid())).expect("the process is there");
        assert!(!state.contains(") Z "), "{attacker:?}: {state}");
        sleep.signal(rustix::process::Signal::KILL);
        sleep.wait(LONG);
    }
}

#[test]
fn without_any_tier_the_banner_says_so() {
    let world = GuardWorld::new(Attacker::User);
    world.configure("sandbox: {tier: none}\n");
    let output = world.run_work(&[("startup", "echo x >> $HOME/.bashrc")], &[]);
    assert!(output.stdout.contains("no sandbox"), "{}", output.stdout);
    assert_eq!(world.sandbox()["tier"], "none");
}
