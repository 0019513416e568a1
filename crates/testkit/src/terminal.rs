//! A real terminal: tmux draws what a person would see.

use std::{path::PathBuf, process::Command, time::Duration};

use crate::{TestEnv, wait_until};

/// Far more than anything takes to be drawn.
const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal of its own, which ends with the test.
pub struct Terminal<'a> {
    env: &'a TestEnv,
    socket: PathBuf,
}

impl<'a> Terminal<'a> {
    /// A terminal in which `command` runs below a shell, which says `left with CODE` once the command has ended.
    #[track_caller]
    pub fn open(env: &'a TestEnv, columns: u32, rows: u32, command: &str) -> Self {
        Self::open_as(env, &columns.to_string(), columns, rows, command)
    }

    /// The same for one of several terminals of a test.
    #[track_caller]
    pub fn open_as(env: &'a TestEnv, name: &str, columns: u32, rows: u32, command: &str) -> Self {
        let socket = env.root().join(format!("tmux-{name}"));
        let terminal = Self { env, socket };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let mut tmux = terminal.tmux();
        let line = format!("{command}; printf 'left with %s\\n' $?; exec sleep 1000");
        tmux.args(["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows, "sh", "-c", &line]);
        let is_open = tmux.status().is_ok_and(|status| status.success());
        assert!(is_open, "tmux does not start; `scripts/install` installs what the tests need");
        terminal
    }

    /// A call of tmux about this terminal.
    pub fn tmux(&self) -> Command {
        let mut tmux = self.env.command("tmux");
        tmux.arg("-S").arg(&self.socket);
        tmux
    }

    /// What it shows now.
    pub fn screen(&self) -> String {
        let output = self.tmux().args(["capture-pane", "-p"]).output().expect("tmux runs");
        String::from_utf8(output.stdout).expect("UTF-8").trim_end().to_owned()
    }

    /// Presses keys, by the names that tmux has for them.
    #[track_caller]
    pub fn press(&self, keys: &[&str]) {
        assert!(self.tmux().arg("send-keys").args(keys).status().expect("tmux runs").success());
    }

    /// Waits until `words` are shown, and gives the screen that has them.
    #[track_caller]
    pub fn wait_for(&self, words: &str) -> String {
        let mut screen = String::new();
        wait_until(&format!("`{words}` on the screen"), PATIENCE, || {
            screen = self.screen();
            screen.contains(words)
        });
        screen
    }
}

/// What turns at the beginning of a line that is drawn over.
const SPINNER: [char; 4] = ['⠋', '⠙', '⠸', '⠴'];

/// The lines of a screen that are drawn over, from the first that turns: those above hold paths, which are not as long everywhere.
pub fn live_part(env: &TestEnv, screen: &str) -> String {
    let lines = screen.lines().skip_while(|line| !line.starts_with(SPINNER));
    let lines: Vec<String> = lines.map(|line| without_cut_duration(&env.redact(line))).collect();
    lines.join("\n").replace(SPINNER, "⠋")
}

/// A duration at the end of a narrow line may be cut off in its middle.
fn without_cut_duration(line: &str) -> String {
    match line.rsplit_once(" · ") {
        Some((before, end)) if end.chars().all(|c| c.is_ascii_digit() || ".ms".contains(c)) => {
            format!("{before} · [DURATION]")
        }
        _ => line.to_owned(),
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let _ = self.tmux().arg("kill-server").status();
    }
}
