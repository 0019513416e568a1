//! Disks that are full, read-only, failing or lying: a clear end, a reason, and never a panic.

use std::{
    fs::{self, File},
    io::Write,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use dacapo_testkit::{Output, Running, TestEnv, wait_until};

use crate::world::{
    Account, Dice, LONG, agent_args, all_gone, assert_nothing_left, count, keeper_of, text, world,
};

/// A disk of its own for `DACAPO_HOME`, in a mount namespace that goes with this value.
struct OwnDisk<'a> {
    env: &'a TestEnv,
    holder: Running,
    enter: Vec<String>,
}

impl<'a> OwnDisk<'a> {
    /// One of this size.
    fn small(env: &'a TestEnv, size: &str) -> Self {
        Self::small_after(env, size, "true")
    }

    /// One of this size, after `first` has mounted something else.
    fn small_after(env: &'a TestEnv, size: &str, first: &str) -> Self {
        let home = env.dacapo_home().display().to_string();
        let small = format!("mount -t tmpfs -o size={size},mode=700 small {home} && exec sleep 600");
        Self::mount(env, &format!("{first} && {small}"))
    }

    /// One that a process serves, as another machine serves one with NFS.
    fn served(env: &'a TestEnv) -> Self {
        let (home, files) = (env.dacapo_home(), env.root().join("served"));
        fs::create_dir_all(&files).expect("a folder to serve");
        Self::mount(env, &format!("exec bindfs -f {} {}", files.display(), home.display()))
    }

    /// `mount` is a script that stays after it has mounted.
    fn mount(env: &'a TestEnv, mount: &str) -> Self {
        let home = env.dacapo_home();
        fs::create_dir_all(&home).expect("a folder to mount on");
        let mount = format!("mount --make-rprivate / && {mount}");
        let is_mounted = |pid: u32| {
            let mounts = fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap_or_default();
            mounts.contains(&format!(" {} ", home.display()))
        };
        // As root a mount namespace is enough; others need one for users around it.
        for (make, enter) in
            [(vec!["-m"], vec!["-m"]), (vec!["-r", "-m"], vec!["--preserve-credentials", "-U", "-m"])]
        {
            let mut unshare = env.command("unshare");
            unshare.args(&make).args(["sh", "-c", &mount]);
            let mut holder = Running::start(unshare);
            wait_until("the disk is mounted or refused", LONG, || {
                is_mounted(holder.pid()) || !holder.is_running()
            });
            if holder.is_running() {
                let target = holder.pid().to_string();
                let mut enter: Vec<String> = enter.into_iter().map(str::to_owned).collect();
                enter.extend(["-t".to_owned(), target]);
                return Self { env, holder, enter };
            }
        }
        panic!(
            "`{mount}` failed: run this test as root or allow unprivileged user namespaces, with the programs of scripts/install"
        );
    }

    /// dacapo as it sees this disk.
    fn dacapo(&self, args: &[String]) -> Command {
        let inner = self.env.dacapo(args);
        let mut command = self.env.command("nsenter");
        command.args(&self.enter).arg(format!("--wd={}", self.env.workspace().display())).arg("--");
        command.arg(inner.get_program()).args(inner.get_args());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        self.env.run_command(self.dacapo(&args))
    }

    /// A file of the disk, from outside.
    fn path(&self, name: &str) -> PathBuf {
        let home = self.env.dacapo_home();
        let inside = home.strip_prefix("/").expect("an absolute path");
        PathBuf::from(format!("/proc/{}/root", self.holder.pid())).join(inside).join(name)
    }

    fn fill(&self) {
        let mut file = File::create(self.path("fill")).expect("a file on the disk");
        while file.write_all(&[0; 1 << 12]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.path("fill")).expect("it was filled");
    }

    fn remount(&self, how: &str) {
        let mut command = self.env.command("nsenter");
        let home = self.env.dacapo_home();
        command.args(&self.enter).args(["--", "mount", "-o", &format!("remount,{how}")]).arg(home);
        self.env.run_command(command).assert_code(0);
    }

    fn events(&self) -> Vec<serde_json::Value> {
        let output = self.run(&["events", "t", "--json"]).assert_code(0).stdout;
        output.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// The last line is the reason; no bug, no backtrace.
#[track_caller]
fn assert_ended_well(output: &Output, code: i32, words: &str) {
    assert_eq!(output.code, Some(code), "{output:?}");
    let last = output.reason();
    assert!(last.starts_with("dacapo: ") && last.contains(words), "{}", output.stderr);
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
}

#[test]
fn a_disk_that_fills_up_ends_the_loop_with_a_reason_and_room_lets_it_go_on() {
    // fault G4
    for afterwards in
        ["exit 0", "say words that cannot be kept; exit 0", "flood-out 1000000; hang", "promise"]
    {
        let env = world();
        let disk = OwnDisk::small(&env, "2m");
        let script = format!("@2: touch ready; wait-file full; {afterwards}\n@3+: promise");
        let args = agent_args(&env, &script, ["--task", "t", "-n", "9", "--kill-grace", "50ms"]);
        let running = Running::start(disk.dacapo(&args));
        wait_until("the second agent works", LONG, || env.workspace().join("ready").exists());
        disk.fill();
        env.write("full", "");
        let output = running.wait(LONG);
        assert_ended_well(&output, 5, "");
        assert!(output.stderr.contains("full") || output.stderr.contains("No space"), "{}", output.stderr);
        let still = disk.run(&["resume", "t"]);
        assert!(matches!(still.code, Some(0 | 5)), "with no room: {still:?}");
        disk.free();
        let events = disk.events();
        let ended = events.iter().find(|event| event["type"] == "loop_finished").expect("an end");
        assert_eq!(text(ended, "reason"), "disk", "{afterwards}: {ended}");
        if still.code != Some(0) {
            disk.run(&["resume", "t"]).assert_code(0);
        }
        let end = disk.events().pop().unwrap();
        assert_eq!((text(&end, "type"), text(&end, "reason")), ("loop_finished", "done"), "{afterwards}");
        let first: Vec<_> = env.ledger().iter().map(|line| line.iteration).collect();
        assert!(first.is_sorted(), "{first:?}");
        drop(disk);
        all_gone(&env, LONG);
    }
}

#[test]
fn a_workspace_that_an_agent_fills_ends_the_loop_as_a_full_disk_does() {
    let env = world();
    let folder = env.workspace().display().to_string();
    let commit = "-c user.name=t -c user.email=t@t commit -q --allow-empty -m x";
    let mount = format!("mount -t tmpfs -o size=3m,mode=700 small {folder}");
    let first = format!("{mount} && git -C {folder} init -q && git -C {folder} {commit}");
    let disk = OwnDisk::small_after(&env, "64m", &first);
    let agent = "sh -c 'head -c 9000000 /dev/zero > big; echo \"<promise>DONE</promise>\"'";
    let output =
        disk.run(&["run", "x", "--task", "t", "--gate", "test -f big", "-n", "2", "--agent-cmd", agent]);
    assert_ended_well(&output, 5, "failed (disk): the disk is full: ");
    assert!(output.stdout.contains("`df -h` shows which disk is full"), "{}", output.stdout);
}

#[test]
fn a_workspace_that_cannot_be_written_is_told_as_such_before_an_agent_starts() {
    for (change, words, hint) in [
        (
            "{ head -c 9000000 /dev/zero > FOLDER/big || true; }",
            "No space left on device",
            "make room (`df -h`",
        ),
        ("mount -o remount,ro FOLDER", "Read-only file system", "`--dir DIR` names another one"),
    ] {
        let env = world();
        let commit = "-c user.name=t -c user.email=t@t commit -q --allow-empty -m x";
        let mount = "mount -t tmpfs -o size=3m,mode=700 small FOLDER";
        let first = format!("{mount} && git -C FOLDER init -q && git -C FOLDER {commit} && {change}");
        let first = first.replace("FOLDER", &env.workspace().display().to_string());
        let disk = OwnDisk::small_after(&env, "64m", &first);
        let output = disk.run(&["run", "x", "--task", "t", "--gate", "true", "--agent-cmd", "touch ran"]);
        assert_ended_well(&output, 5, words);
        assert!(output.stderr.contains(hint), "{}", output.stderr);
    }
}

#[test]
fn no_agent_starts_where_nothing_can_be_recorded() {
    // fault G6
    let env = world();
    let disk = OwnDisk::small(&env, "2m");
    let args = agent_args(&env, "@1: exit 0\n@2: touch ran; promise", ["--task", "t", "-n", "1"]);
    env.run_command(disk.dacapo(&args)).assert_code(3);
    disk.remount("ro");
    let output = env.run_command(disk.dacapo(&agent_args(&env, "touch ran", ["--task", "other"])));
    assert_ended_well(&output, 5, "");
    let output = disk.run(&["resume", "t", "-n", "+1"]);
    assert_ended_well(&output, 5, "");
    assert!(!env.workspace().join("ran").exists(), "an agent ran that nobody could record");
    disk.remount("rw");
    disk.run(&["resume", "t", "-n", "+1"]).assert_code(0);

    disk.fill();
    let output = env.run_command(disk.dacapo(&agent_args(&env, "touch ran-too", ["--task", "third"])));
    assert_ended_well(&output, 5, "");
    assert!(!env.workspace().join("ran-too").exists());
}

#[test]
fn a_write_that_fails_stops_the_loop_and_is_not_tried_again() {
    // fault G5: what a failed sync was about may be lost, and a second one would say otherwise.
    let dice = Dice::new();
    let calls = ["fsync,fdatasync", "pwrite64", "write", "ftruncate", "openat"];
    let errors = ["EIO", "ENOSPC"];
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for worker in 0..2 {
            let (mut dice, next) = (dice.split(worker), &next);
            scope.spawn(move || {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count(60, 600) as usize {
                        return;
                    }
                    // The first ones are fixed: a sync in the middle of a loop.
                    let (call, error, when) = match n {
                        0 => ("fsync,fdatasync", "EIO", 3),
                        1 => ("fsync,fdatasync", "EIO", 9),
                        2 => ("fsync,fdatasync", "EIO", 1),
                        3 => ("pwrite64", "ENOSPC", 12),
                        _ => (dice.one_of(&calls), dice.one_of(&errors), 1 + dice.below(30)),
                    };
                    fail_one_call(call, error, when);
                }
            });
        }
    });
}

fn fail_one_call(call: &str, error: &str, when: u64) {
    let env = world();
    let args = agent_args(&env, "say x; sleep 1", ["--task", "t", "-n", "4", "--kill-grace", "50ms"]);
    let dacapo = env.dacapo(&args);
    let mut strace = env.command("strace");
    // Without `-f`: only the supervisor fails, the agents and their keeper are not of interest.
    strace.args(["-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e"]);
    // From that call on, so that an error which is tried again does not pass for a success.
    strace.arg(format!("inject={call}:error={error}:when={when}+"));
    strace.arg(dacapo.get_program()).args(dacapo.get_args());
    let output = env.run_command(strace);
    let what = format!("{call} {error} {when}: {output:?}");
    assert!(matches!(output.code, Some(3 | 5 | 127)), "{what}");
    assert!(!output.stderr.contains("panicked") && !output.stderr.contains("bug in dacapo"), "{what}");
    assert_nothing_left(&env);
    let started = env.ledger().len();
    if call.contains("sync") && output.code == Some(5) {
        assert!(output.reason().starts_with("dacapo: "), "{what}");
    }
    // Whatever was left of it can be read, and goes on where the disk is sound again.
    let events = env.run(["events", "t", "--json"]);
    assert!(matches!(events.code, Some(0 | 2 | 5)), "{what}\n{events:?}");
    if events.code == Some(0) {
        let output = env.run(["resume", "t", "-n", "+2"]);
        assert_eq!(output.code, Some(3), "{what}\n{output:?}");
        Account::of(&env, "t");
    } else {
        assert_eq!(started, 0, "agents ran and the journal does not know: {what}");
    }
}

#[test]
fn a_failed_sync_ends_the_loop_before_another_agent_starts() {
    // fault G5
    // The first is the one that makes the journal.
    for when in [1, 8, 12, 20] {
        let env = world();
        let args = agent_args(&env, "exit 0", ["--task", "t", "-n", "50"]);
        let dacapo = env.dacapo(&args);
        let mut strace = env.command("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e"]);
        strace.arg(format!("inject=fsync,fdatasync:error=EIO:when={when}"));
        strace.arg(dacapo.get_program()).args(dacapo.get_args());
        let output = env.run_command(strace);
        assert_ended_well(&output, 5, "cannot write the journal");
        assert!(env.ledger().len() < 2 * when, "it went on: {:?}", env.ledger());
        all_gone(&env, LONG);
        // Without a loop in the journal there is nothing to resume, and nothing in the way of a new one.
        let again = if env.ledger().is_empty() { args } else { ["resume", "t"].map(str::to_owned).to_vec() };
        env.run(again).assert_code(3);
        Account::of(&env, "t");
    }
}

#[test]
fn a_damaged_journal_is_an_error_or_works_but_never_a_panic() {
    // faults G1, G3
    let env = world();
    let script = "@1: promise\n@2: touch ready; wait-file go\n@3+: touch third; promise";
    let args = ["--task", "t", "-n", "5", "--gate", "test -e third"];
    let running = env.spawn(agent_args(&env, script, args));
    wait_until("the second agent works", LONG, || env.workspace().join("ready").exists());
    // Both at once, so that nobody tidies the log of recent writes up.
    let keeper = keeper_of(running.pid()).expect("a keeper");
    crate::crash::kill_both(running, keeper);
    env.write("go", ""); // older states may start that agent again
    let files = ["dacapo.db", "dacapo.db-wal"].map(|name| env.dacapo_home().join(name));
    let sound = files.each_ref().map(|file| fs::read(file).unwrap());
    assert!(sound[1].len() > 4096, "there is a log of recent writes");
    let mut dice = Dice::new();
    for n in 0..count(200, 5000) {
        let mut bytes = sound.clone();
        let which = dice.below(2) as usize;
        let length = bytes[which].len() as u64;
        let what = match n % 3 {
            0 => {
                let at = if n == 0 { 0 } else { dice.below(length) };
                bytes[which].truncate(at as usize);
                format!("file {which} cut at {at}")
            }
            1 => {
                let (at, bit) = (dice.below(length), dice.below(8));
                bytes[which][at as usize] ^= 1 << bit;
                format!("file {which}, bit {bit} of byte {at} flipped")
            }
            _ => {
                let (at, length) = (dice.below(length), dice.below(300));
                let end = bytes[which].len().min((at + length) as usize);
                let seed = dice.below(u64::MAX);
                let noise = dacapo_testkit::noise::bytes(end - at as usize, seed);
                bytes[which][at as usize..end].copy_from_slice(&noise);
                format!("file {which}, {length} bytes from {at} overwritten (seed {seed})")
            }
        };
        for (file, bytes) in files.iter().zip(&bytes) {
            fs::write(file, bytes).unwrap();
        }
        let _ = fs::remove_file(env.dacapo_home().join("dacapo.db-shm"));
        let commands: [&[&str]; 6] = [
            &["status", "--all", "--json"],
            &["events", "--json"],
            &["why", "t"],
            &["logs", "t"],
            &["doctor"],
            &["resume", "t"],
        ];
        for command in [commands[n as usize % 5], commands[5]] {
            let output = Running::start(env.dacapo(command)).wait(Duration::from_secs(30));
            let is_fine = matches!(output.code, Some(0..=5)) && !output.stderr.contains("panicked");
            assert!(is_fine, "{what}: `{}`: {output:?}", command.join(" "));
        }
    }
    assert_nothing_left(&env);
}

#[test]
fn a_disk_that_fills_up_is_named_as_the_reason_of_a_workflow() {
    // fault G4
    let env = world();
    env.git_init();
    env.write(
        ".dacapo/workflows/w.yaml",
        "name: w\ndescription: d\nloop: {until: COMPLETE, max_iterations: 9}\nprompt: p\n",
    );
    let disk = OwnDisk::small(&env, "2m");
    let agent = env.agent_cmd_for("@2: touch ready; wait-file full; exit 0\n@3+: promise COMPLETE");
    let args = ["workflow", "run", "w", "--trust", "--restart-delay", "0s", "--agent-cmd", &agent];
    let running = Running::start(disk.dacapo(&args.map(str::to_owned)));
    wait_until("the second agent works", LONG, || env.workspace().join("ready").exists());
    disk.fill();
    env.write("full", "");
    let output = running.wait(LONG);
    assert_eq!(output.code, Some(5), "{output:?}");
    assert!(output.stderr.contains("full") || output.stderr.contains("No space"), "{}", output.stderr);
    assert!(!output.stderr.contains("died") && !output.stderr.contains("panicked"), "{}", output.stderr);
    disk.free();
    disk.run(&["resume", "-", "--trust"]).assert_code(0);
    drop(disk);
    all_gone(&env, LONG);
}

#[test]
fn a_disk_that_is_nearly_full_is_told_before_the_first_agent() {
    let env = world();
    let disk = OwnDisk::small(&env, "3m");
    let args = agent_args(&env, "promise", ["--task", "t"]);
    let output = Running::start(disk.dacapo(&args)).wait(LONG).assert_code(0);
    let told: Vec<&str> = output.stdout.lines().take_while(|line| !line.starts_with("iteration")).collect();
    let warning = told.iter().find(|line| line.contains("nearly full")).expect("a warning before the agent");
    let (words, left) = warning.split_once("nearly full: ").unwrap();
    assert_eq!(words, "  warning: the disk of dacapo's state is ", "{}", output.stdout);
    let home = env.dacapo_home();
    assert!(left.ends_with(&format!("at `{}`", home.display())) && left.contains(" MiB"), "{left}");
    let events = disk.events();
    let first = |kind: &str| events.iter().position(|event| text(event, "type") == kind).expect(kind);
    assert!(first("warned") < first("agent_started"));
    drop(disk);
    all_gone(&env, LONG);
}

#[test]
fn a_state_folder_on_a_disk_that_is_served_is_told_before_the_first_agent() {
    // fault G14
    let env = world();
    let disk = OwnDisk::served(&env);
    let args = agent_args(&env, "promise", ["--task", "t"]);
    let output = Running::start(disk.dacapo(&args)).wait(LONG).assert_code(0);
    let told: Vec<&str> = output.stdout.lines().take_while(|line| !line.starts_with("iteration")).collect();
    let home = env.dacapo_home();
    let warning = format!(
        "  warning: dacapo's state at `{}` is on FUSE, where locks and syncs may not hold; set DACAPO_HOME to a folder on a local disk",
        home.display()
    );
    assert!(told.contains(&warning.as_str()), "{}", output.stdout);
    let doctor = disk.run(&["doctor"]).stdout;
    let line = doctor.lines().find(|line| line.contains(" disk ")).expect("a line about the disk");
    assert!(line.starts_with("warn ") && line.contains("on FUSE"), "{doctor}");
    drop(disk);
    all_gone(&env, LONG);
}

#[test]
fn an_agent_that_is_killed_while_memory_runs_out_is_told_so() {
    // fault F11: the kernel's count of such ends is a file of the test.
    let env = world();
    env.write("vmstat", "nr_free_pages 1\noom_kill 4\n");
    env.write("killed.sh", "echo \"oom_kill $1\" >vmstat; kill -9 $$\n");
    let vmstat = env.workspace().join("vmstat");
    let mount = format!("mount --bind {} /proc/vmstat", vmstat.display());
    let disk = OwnDisk::small_after(&env, "64m", &mount);
    for (count, is_told) in [(5, true), (4, false)] {
        env.write("vmstat", "nr_free_pages 1\noom_kill 4\n");
        let agent = format!("sh killed.sh {count}");
        let args = ["run", "do it", "--agent-cmd", &agent, "--restart-delay", "0s", "-n", "1"];
        let output = disk.run(&args);
        let told = "warning: the agent was killed, and the system ends processes for want of memory";
        assert_eq!(output.stdout.contains(told), is_told, "{count}: {}", output.stdout);
    }
    drop(disk);
    all_gone(&env, LONG);
}
