//! What keeping the work costs inside a git repository, beside the `git status` that people would look with.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use dacapo_engine::{home::Home, snapshots::Workspace};

use super::{Bench, Figure, Turns, median, timed};

/// How many files the large repository has.
const FILES: usize = 5_000;

impl Bench {
    /// Wall clock of an iteration without a claim that changes nothing, and of one that changes a file.
    pub(super) fn in_git(&self) -> Vec<Figure> {
        let n = self.plan.iterations / 2;
        let repository = self.repository("small", 20).expect("a repository");
        let each = |seconds: f64| seconds * 1e3 / f64::from(n);
        let mut figures = Vec::new();
        let edit = repository.join("edit.sh");
        fs::write(&edit, format!("echo more >>file-1\nexec {}\n", self.agent)).expect("a script");
        let edit = format!("sh {}", edit.display());
        for (figure, agent) in
            [("an iteration in git", self.agent.as_str()), ("an iteration in git, a change each", &edit)]
        {
            let (mut dacapo, mut shell) = (Turns::default(), Turns::default());
            for _ in 0..self.plan.rounds {
                dacapo.push(timed(self.dacapo_run("git", agent, n).current_dir(&repository), 3));
                shell.push(timed(self.shell_loop_with_status(agent, n).current_dir(&repository), 0));
            }
            figures.push(Figure::ratio(figure, "ms", each(dacapo.wall()), each(shell.wall()), 2.5));
        }
        figures
    }

    /// One snapshot of a large repository in which nothing changed.
    pub(super) fn snapshot(&self) -> Vec<Figure> {
        let repository = self.repository("large", FILES).expect("a repository");
        let home = Home::at(self.home("snapshots"));
        let id = "benchmark0".parse().expect("an id");
        let mut workspace = Workspace::open(&repository, &home, &id).expect("a workspace");
        workspace.begin().expect("a first snapshot");
        let (mut dacapo, mut status) = (Vec::new(), Vec::new());
        for n in 0..self.plan.looks {
            let began = Instant::now();
            let snapshot = workspace.snapshot(n as u64).expect("a snapshot");
            dacapo.push(began.elapsed().as_secs_f64() * 1e3);
            assert!(!snapshot.changed, "no process writes there");
            let (wall, _) = timed(self.git(&repository).args(["status", "--porcelain"]), 0);
            status.push(wall * 1e3);
        }
        vec![Figure::ratio("a snapshot of 5,000 files", "ms", median(dacapo), median(status), 2.0)]
    }

    /// How many times git is started, by a `git` on PATH that keeps count.
    pub(super) fn processes(&self) -> Vec<Figure> {
        let repository = self.repository("counted", 20).expect("a repository");
        let (bin, log) = (self.disk.path().join("bin"), self.disk.path().join("calls"));
        let count = || fs::read_to_string(&log).unwrap_or_default().lines().count() as f64;
        counting(&bin, &log).expect("a git that counts");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        // Agent and gate say when they begin; what comes after is theirs.
        let script = |name: &str, text: String| {
            let file = self.disk.path().join(name);
            fs::write(&file, text).expect("a script");
            format!("sh {}", file.display())
        };
        let run = |agent: &str, gate: Option<&str>, iterations: u32, exit: i32| {
            let mut command = self.dacapo_run("processes", agent, iterations);
            command.current_dir(&repository).env("PATH", &path);
            if let Some(gate) = gate {
                command.args(["--gate", gate]);
            }
            timed(&mut command, exit);
        };
        let forget = format!(": >{}", log.display());
        let idle = script("idle.sh", format!("[ $DACAPO_ITERATION = 11 ] || {forget}\n"));
        run(&idle, None, 11, 3);
        // The log was emptied by the tenth agent: the tenth and the eleventh snapshot are in it.
        let unchanged = count() / 2.0;
        let edits = script(
            "edits.sh",
            format!("echo $DACAPO_ITERATION >>file-1; [ $DACAPO_ITERATION = 11 ] || {forget}\n"),
        );
        run(&edits, None, 11, 3);
        let changed = count() / 2.0;
        let claims = "echo x >>code.py; echo '<promise>DONE</promise>'";
        let claims = script("claims.sh", format!("{claims}\n{forget}\n"));
        run(&claims, Some("true"), 1, 0);
        let claim = count() - changed;
        vec![
            Figure::at_most("processes, nothing changed", "git", unchanged, None, 1.0),
            Figure::at_most("processes, something changed", "git", changed, None, 2.0),
            Figure::at_most("processes of a claim beyond", "git", claim, None, 6.0),
        ]
    }

    /// A repository with so many files in folders of a hundred, all committed, and a prompt.
    fn repository(&self, name: &str, files: usize) -> io::Result<PathBuf> {
        let top = self.repositories.path().join(name);
        for n in 0..files {
            let file = if files > 100 {
                top.join(format!("{}/file-{n}", n / 100))
            } else {
                top.join(format!("file-{n}"))
            };
            fs::create_dir_all(file.parent().unwrap_or(&top))?;
            fs::write(file, format!("file {n}\n"))?;
        }
        fs::write(top.join("PROMPT"), "Do nothing.\n")?;
        fs::write(top.join("code.py"), "def test_it():\n    assert True\n")?;
        let identity = ["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"];
        timed(self.git(&top).args(["init", "-q"]), 0);
        timed(self.git(&top).args(["add", "-A"]), 0);
        timed(self.git(&top).args(identity).args(["commit", "-q", "-m", "start"]), 0);
        Ok(top)
    }

    fn git(&self, dir: &Path) -> Command {
        let mut command = self.command("git");
        command.current_dir(dir).stdout(Stdio::null());
        command
    }

    /// What people write who look at what their agent did.
    fn shell_loop_with_status(&self, agent: &str, iterations: u32) -> Command {
        const LOOP: &str = "i=0; while [ $i -lt \"$1\" ]; do
            $2 <PROMPT | tee -a \"$3\" | grep -q '<promise>DONE</promise>' && break
            git status --porcelain
            i=$((i + 1))
        done";
        let mut command = self.command("sh");
        command.args(["-c", LOOP, "sh", &iterations.to_string(), agent]).arg(self.disk.path().join("log"));
        command.stdout(Stdio::null());
        command
    }
}

/// A `git` in `bin` that adds a line to `log` before it does its work.
fn counting(bin: &Path, log: &Path) -> io::Result<()> {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join("git"))
        .find(|git| git.is_file())
        .ok_or(io::ErrorKind::NotFound)?;
    fs::create_dir_all(bin)?;
    let script = format!("#!/bin/sh\necho >>'{}'\nexec '{}' \"$@\"\n", log.display(), found.display());
    fs::write(bin.join("git"), script)?;
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755))
}
