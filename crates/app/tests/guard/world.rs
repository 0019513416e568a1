//! A world for attacks: everything that an agent could harm, none of it of the machine's user.

use std::{
    ffi::OsString,
    fs,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{PermissionsExt, chown, symlink},
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use dacapo_testkit::{Output, Running, wait_until};
use tempfile::TempDir;

const ATTACKS: &str = include_str!("attacks.txt");

/// The names of all attacks, and their lines of shell.
pub(crate) fn attacks() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = ATTACKS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split_once(": ").expect("a name and an attack"))
}

/// A startup file that takes in others.
const PROFILE: &str = "# mine\n. ~/.bash_functions\nfor f in ~/.bashrc.d/*.sh; do . \"$f\"; done\n\
                      [ -f \"$HOME/.fzf.bash\" ] && source \"$HOME/.fzf.bash\"\n";

/// The same of git.
const GITCONFIG: &str = "[include]\n\tpath = ~/.gitconfig-work\n[core]\n\thooksPath = ~/.hooks\n\
                         [init]\n\ttemplateDir = ~/.git-templates\n";

const LONG: Duration = Duration::from_secs(300);

/// An id that no user of the machine has.
const OTHER: u32 = 64_123;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attacker {
    /// As the tests run, which is root in a container.
    Root,
    User,
}

pub(crate) struct GuardWorld {
    root: PathBuf,
    attacker: Attacker,
    _dir: TempDir,
}

impl GuardWorld {
    pub(crate) fn new(attacker: Attacker) -> Self {
        // Neither the home nor the temporary folder: what lies there must stay writable.
        let dir =
            tempfile::Builder::new().prefix("guard-").tempdir_in("/var").or_else(|_| tempfile::tempdir());
        let dir = dir.expect("a folder");
        let root = dir.path().canonicalize().expect("it is there");
        let world = Self { root, attacker, _dir: dir };
        for folder in [
            "home/.config/dacapo",
            "home/.config/pip",
            "home/.config/autostart",
            "home/.config/systemd/user",
            "home/.cargo",
            "home/.ssh",
            "home/.local/lib",
            "home/.local/share",
            "home/.config/Code/User",
            "home/.config/gh",
            "home/.docker",
            "home/.vscode/extensions/ext",
            "home/.vim/plugin",
            "home/.bashrc.d",
            "home/.hooks",
            "home/.git-templates/hooks",
            "bin",
            "program",
            "tmp",
            "tmux",
            "run",
            "workspace",
            "state/keys",
            "state/projects/other/users",
            "state/locks",
            "state/worktrees/p/other",
            "home/dots/ruff",
            "home/dots/m2",
            "behind",
            "versions/1/bin",
        ] {
            fs::create_dir_all(world.root.join(folder)).expect("a folder");
        }
        for (file, text) in [
            ("home/.config/dacapo/config.yaml", ""),
            ("home/.bashrc", "# mine\n"),
            (
                "home/.bash_functions",
                ". ~/.more_functions; [ -s ~/.nvm-of-mine/nvm.sh ] && . ~/.nvm-of-mine/nvm.sh\n",
            ),
            ("home/.more_functions", "# mine\n"),
            ("home/.gitconfig-work", ""),
            ("home/.docker/config.json", "{}"),
            ("home/.profile", PROFILE),
            ("home/.ssh/authorized_keys", ""),
            ("gitconfig", GITCONFIG),
            ("uring.py", include_str!("uring.py")),
            ("bin/tool", "#!/bin/sh\n"),
            ("bin/direnv", "#!/bin/sh\n"),
            ("bin/mise", "#!/bin/sh\n"),
            ("state/keys/signing", "secret"),
            ("state/worktrees/p/other/kept", ""),
            ("state/projects/other/TASK.md", "x"),
            ("state/projects/other/users/TASK.md", "mine"),
            ("home/dots/inputrc", "# mine\n"),
            ("home/dots/m2/settings.xml", "<settings/>"),
            ("versions/1/bin/versioned", "#!/bin/sh\n"),
        ] {
            fs::write(world.root.join(file), text).expect("a file");
        }
        // Dotfiles that are links, a folder of PATH that is one, and a program whose way leads through another one.
        for (link, target) in [
            ("home/.inputrc", "dots/inputrc"),
            ("home/.m2", "dots/m2"),
            ("home/.config/ruff", "../dots/ruff"),
            ("link", "behind"),
            ("versions/current", "1"),
            ("bin/versioned", "../versions/current/bin/versioned"),
        ] {
            symlink(target, world.root.join(link)).expect("a link");
        }
        for tool in ["bin/direnv", "bin/mise"] {
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(world.root.join(tool), executable).expect("permissions");
        }
        let program = world.program();
        if fs::hard_link(env!("CARGO_BIN_EXE_dacapo"), &program).is_err() {
            fs::copy(env!("CARGO_BIN_EXE_dacapo"), &program).expect("a copy of dacapo");
        }
        fs::set_permissions(&world.root, fs::Permissions::from_mode(0o755)).expect("permissions");
        fs::set_permissions(world.root.join("run"), fs::Permissions::from_mode(0o700)).expect("permissions");
        world.write_agent();
        if attacker == Attacker::User && is_root() {
            give(&world.root);
        }
        world
    }

    /// Puts the language server where the world's user may read it.
    pub(crate) fn install_language_server(&self) {
        let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/language-server");
        assert!(installed.join("node_modules").is_dir(), "no language server: run `scripts/install` first");
        let mut copy = Command::new("cp");
        copy.args(["-r"]).arg(installed).arg(&self.root);
        assert!(copy.status().expect("cp").success());
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.root.join("program/dacapo")
    }

    /// An agent that tries every attack and says which succeeded.
    fn write_agent(&self) {
        let mut text = String::from("cd $WS; until test -e pids; do sleep 0.01; done; . ./pids\n");
        for (name, attack) in attacks() {
            let file = self.root.join("attacks").join(name);
            fs::create_dir_all(self.root.join("attacks")).expect("a folder");
            fs::write(&file, format!("{attack}\n")).expect("an attack");
            let file = file.display();
            text += &format!(
                "timeout 20 sh {file} >{name}.out 2>&1 </dev/null && echo achieved {name} >> report\n"
            );
        }
        text += "echo end >> report\necho '<promise>DONE</promise>'\n";
        fs::write(self.root.join("agent.sh"), text).expect("the agent");
    }

    /// A program of this world, as its user.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        self.command_after("", program)
    }

    /// The same after a line of shell, which runs in mounts of its own, as who runs the tests.
    pub(crate) fn command_after(&self, first: &str, program: impl AsRef<Path>) -> Command {
        let mut words: Vec<OsString> = Vec::new();
        if !first.is_empty() {
            let script = format!("set -e; {first}; exec \"$@\"");
            words.extend(["unshare", "--mount", "sh", "-c", &script, "sh"].map(OsString::from));
        }
        // Else the user who runs the tests: root in a container, or an ordinary one.
        if self.attacker == Attacker::User && is_root() {
            let ids = [format!("--reuid={OTHER}"), format!("--regid={OTHER}")];
            words.push("setpriv".into());
            words.extend(ids.map(OsString::from));
            words.push("--clear-groups".into());
        }
        words.push(program.as_ref().into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        let at = |name: &str| self.root.join(name);
        let own = [at("bin"), at("link")].map(|folder| folder.display().to_string()).join(":");
        let path = format!("{own}:{}", std::env::var("PATH").unwrap_or_default());
        command
            .env_clear()
            .current_dir(self.workspace())
            .stdin(Stdio::null())
            .env("PATH", path)
            .env("HOME", at("home"))
            .env("XDG_CONFIG_HOME", at("home/.config"))
            .env("XDG_RUNTIME_DIR", at("run"))
            .env("DACAPO_HOME", at("state"))
            .env("TMPDIR", at("tmp"))
            .env("TMUX_TMPDIR", at("tmux"))
            .env("GIT_CONFIG_GLOBAL", at("gitconfig"))
            .env("PIP_CONFIG_FILE", at("home/pip.conf"))
            .env("GIT_CEILING_DIRECTORIES", &self.root)
            .env("NO_COLOR", "1")
            .env("W", &self.root)
            .env("STATE", at("state"))
            .env("WS", self.workspace())
            .env("BIN", at("bin"))
            .env("OTHER", at("state/worktrees/p/other"))
            .env("PROGRAM_OF_LOOP", self.program())
            .env(
                "LANGUAGE_SERVER",
                self.root.join("language-server/node_modules/typescript-language-server/lib/cli.mjs"),
            );
        // The toolchains of who runs the tests, whose home is not this world's.
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let toolchains = std::env::var_os("RUSTUP_HOME").map_or_else(|| home.join(".rustup"), PathBuf::from);
        command.env("TOOLCHAINS", toolchains);
        command
    }

    /// Takes attacks off the list that would end the agent before it has tried the others.
    pub(crate) fn leave_out(&self, names: &[&str]) {
        let file = self.root.join("agent.sh");
        let text = fs::read_to_string(&file).expect("the agent");
        let is_kept =
            |line: &&str| !names.iter().any(|name| line.ends_with(&format!("achieved {name} >> report")));
        let kept: Vec<&str> = text.lines().filter(is_kept).collect();
        fs::write(file, kept.join("\n") + "\n").expect("the agent");
    }

    /// Runs one loop in which the agent tries everything.
    pub(crate) fn run_attacks(&self, args: &[&str]) {
        let mut tmux = self.command("tmux");
        tmux.args(["-f", "/dev/null", "new-session", "-d", "sleep 600"]);
        Running::start(tmux).wait(LONG).assert_code(0);
        let mut tmux = self.command("tmux");
        tmux.args(["display-message", "-p", "#{pid}"]);
        let tmux = Running::start(tmux).wait(LONG).assert_code(0).stdout;
        let _servers = self.servers();
        let mut dacapo = self.command(self.program());
        let agent = format!("sh {}", self.root.join("agent.sh").display());
        dacapo.args(["run", "do it", "--task", "t", "-n", "1", "--agent-cmd", &agent]).args(args);
        let running = Running::start(dacapo);
        let supervisor = running.pid();
        let mut keeper = None;
        wait_until("there is a keeper", LONG, || {
            keeper = child_named(supervisor, "dcp-keeper");
            keeper.is_some()
        });
        let pids = format!(
            "export SUP={supervisor} KEEPER={} TMUX_PID={} DACAPO_PROGRAM=$PROGRAM_OF_LOOP\n",
            keeper.expect("it was found"),
            tmux.trim()
        );
        let fresh = self.workspace().join("pids.new");
        fs::write(&fresh, pids).expect("a file");
        fs::rename(fresh, self.workspace().join("pids")).expect("a file");
        let output = running.wait(LONG);
        assert!(!output.stderr.contains("bug"), "{}", output.stderr);
        let mut tmux = self.command("tmux");
        tmux.arg("kill-server");
        Running::start(tmux).wait(LONG);
    }

    /// Servers of the user's that start processes for those who ask, at a name that no file has and in files.
    fn servers(&self) -> Vec<UnixListener> {
        let name = SocketAddr::from_abstract_name(self.root.as_os_str().as_encoded_bytes()).expect("a name");
        let mut servers = vec![UnixListener::bind_addr(&name).expect("a server")];
        for path in ["tmp/dbus-AbCd", "tmp/kitty-1", "run/nvim.1.0"].map(|path| self.root.join(path)) {
            servers.push(UnixListener::bind(&path).expect("a server"));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("permissions");
        }
        servers
    }

    /// Runs one loop whose agent does this work and says what of it failed.
    pub(crate) fn run_work(&self, work: &[(&str, &str)], args: &[&str]) -> Output {
        self.run_work_after("", work, args)
    }

    /// The same after a line of shell, which runs in mounts of its own, as who runs the tests.
    pub(crate) fn run_work_after(&self, first: &str, work: &[(&str, &str)], args: &[&str]) -> Output {
        let mut text = String::from("cd $WS; until test -e sup; do sleep 0.01; done\n");
        for (name, line) in work {
            let file = name.replace(' ', "-");
            let path = self.root.join("attacks").join(&file);
            fs::write(&path, format!("{line}\n")).expect("a script");
            text += &format!(
                "timeout 60 sh {} >'{file}.out' 2>&1 </dev/null || echo 'failed {name}' >> report\n",
                path.display()
            );
        }
        text += "echo end >> report\necho '<promise>DONE</promise>'\n";
        let agent = self.root.join("work.sh");
        fs::write(&agent, text).expect("the agent");
        let mut dacapo = self.command_after(first, self.program());
        let agent = format!("sh {}", agent.display());
        dacapo.env("ANTHROPIC_API_KEY", "sk-ant-hidden-0123456789abcdef");
        dacapo.args(["run", "do it", "--task", "t", "-n", "1", "--agent-cmd", &agent]).args(args);
        let running = Running::start(dacapo);
        let fresh = self.workspace().join("sup.new");
        fs::write(&fresh, running.pid().to_string()).expect("a file");
        fs::rename(fresh, self.workspace().join("sup")).expect("a file");
        running.wait(LONG)
    }

    /// Whether this system lets the attacker's user have namespaces, asked of another program. Where it does not, what is held
    /// has to say so.
    pub(crate) fn allows_namespaces(&self) -> bool {
        let mut unshare = self.command("unshare");
        unshare.args(match self.attacker {
            Attacker::Root if is_root() => &["--mount", "--pid", "--fork", "true"][..],
            _ => &["--user", "--map-root-user", "--mount", "--pid", "--fork", "true"][..],
        });
        Running::start(unshare).wait(LONG).code == Some(0)
    }

    /// Says that the loop names a lesser tier and what that leaves open, for systems without namespaces.
    #[track_caller]
    pub(crate) fn assert_says_less(&self) {
        let held = self.sandbox();
        assert_ne!(held["tier"], "namespaces");
        assert!(held["open"].as_array().is_some_and(|open| !open.is_empty()), "{held}");
    }

    /// The user's configuration.
    pub(crate) fn configure(&self, text: &str) {
        fs::write(self.root.join("home/.config/dacapo/config.yaml"), text).expect("a file");
    }

    fn events(&self) -> Vec<serde_json::Value> {
        let mut events = self.command(self.program());
        events.args(["events", "t", "--json"]);
        let output = Running::start(events).wait(LONG).assert_code(0);
        output.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    pub(crate) fn last_event(&self) -> serde_json::Value {
        self.events().pop().expect("an event")
    }

    /// What the journal says about the sandbox of the loop.
    pub(crate) fn sandbox(&self) -> serde_json::Value {
        self.events().remove(0)["sandbox"].clone()
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Gives everything below `folder` to the other user.
fn give(folder: &Path) {
    chown(folder, Some(OTHER), Some(OTHER)).expect("tests of users run as root");
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            give(&entry.path());
        } else if entry.file_name() != "dacapo" {
            chown(entry.path(), Some(OTHER), Some(OTHER)).expect("tests of users run as root");
        }
    }
}

/// The child of a process that has this name.
pub(crate) fn child_named(parent: u32, name: &str) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    let mut pids = children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok());
    pids.find(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name))
}
