//! Homes, folders, keys, clocks and kernels that are not as one would like them: what is held is held, and what is not is said.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    process::Command,
    time::Duration,
};

use dacapo_testkit::{Output, Running, wait_until};

use crate::{
    failed_work, failed_work_after,
    world::{Attacker, GuardWorld, child_named, is_root},
};

const LONG: Duration = Duration::from_secs(300);

/// What no agent may do, whatever the home is like.
const ATTACKS: [(&str, &str); 5] = [
    ("startup", "echo x >> $HOME/.bashrc"),
    ("configuration", "echo x >> $HOME/.config/dacapo/config.yaml"),
    ("new startup file", "echo x > $HOME/.bash_profile"),
    ("journal", "echo x >> $STATE/dacapo.db"),
    ("program", "echo x >> $BIN/tool"),
];

fn names(work: &[(&str, &str)]) -> Vec<String> {
    work.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// What `dacapo` says when it is run like this in the world.
fn said(mut command: Command, args: &[&str]) -> Output {
    command.args(args);
    Running::start(command).wait(LONG)
}

/// A kernel that does not know these calls, for one program: a filter of system calls answers in its place.
const WITHOUT: &str = r#"
import ctypes, os, platform, struct, sys
numbers = {"unshare": {"x86_64": 272, "aarch64": 97}, "landlock": {"x86_64": 444, "aarch64": 444}}
calls = [numbers[name][platform.machine()] for name in sys.argv[1].split(",")]
code = [(0x20, 0, 0, 0)]
for number in calls:
    # ENOSYS
    code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | 38)]
code.append((0x06, 0, 0, 0x7FFF0000))
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
filters = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(program)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(filters), 0, 0) == 0, ctypes.get_errno()
os.execvp(sys.argv[2], sys.argv[2:])
"#;

/// One loop on a kernel without these calls, and what its banner says.
fn loop_without(calls: &str) -> (GuardWorld, String) {
    let world = GuardWorld::new(Attacker::User);
    let script = world.root().join("without.py");
    fs::write(&script, WITHOUT).expect("a script");
    let mut command = world.command("/usr/bin/python3");
    command.arg(script).arg(calls).arg(world.program());
    let output = said(command, &["run", "do it", "--task", "t", "-n", "1", "--agent-cmd", "true"]);
    (world, output.stdout)
}

#[test]
fn a_kernel_without_namespaces_holds_by_landlock_and_the_banner_says_why() {
    let (world, banner) = loop_without("unshare");
    let held = world.sandbox();
    assert_ne!(held["tier"], "namespaces");
    assert!(banner.contains("namespaces: namespaces cannot be made"), "{banner}");
}

#[test]
fn a_kernel_with_neither_has_no_sandbox_and_the_banner_says_why() {
    let (world, banner) = loop_without("unshare,landlock");
    assert_eq!(world.sandbox()["tier"], "none");
    assert!(banner.contains("no sandbox: this system allows no `guard`"), "{banner}");
    assert!(banner.contains("this kernel has no Landlock"), "{banner}");
}

#[test]
fn without_landlock_namespaces_hold_and_the_servers_that_they_cannot_hide_are_named() {
    use std::os::{linux::net::SocketAddrExt, unix::net};
    let name = format!("dacapo-test-{}", std::process::id());
    let name = net::SocketAddr::from_abstract_name(name).expect("a name");
    let _server = net::UnixListener::bind_addr(&name).expect("a server");
    let (world, banner) = loop_without("landlock");
    if !world.allows_namespaces() {
        return world.assert_says_less();
    }
    assert_eq!(world.sandbox()["tier"], "namespaces");
    assert!(banner.contains("listen at abstract names can be reached"), "{banner}");
}

/// One loop in a user namespace in which so many mount namespaces may be made, of which its own is one.
fn loop_with_mount_namespaces(most: u32) -> (GuardWorld, Output) {
    let world = GuardWorld::new(Attacker::Root);
    let mut command = world.command("unshare");
    let script = format!("echo {most} > /proc/sys/user/max_mnt_namespaces; exec \"$@\"");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]).arg(world.program());
    let output = said(command, &["run", "do it", "--task", "t", "-n", "1", "--agent-cmd", "touch made"]);
    (world, output)
}

#[test]
fn namespaces_that_are_all_in_use_are_no_reason_to_hold_less() {
    let (world, output) = loop_with_mount_namespaces(1);
    if !world.allows_namespaces() {
        return;
    }
    assert_ne!(output.code, Some(0));
    assert!(
        output.stderr.contains("its sandbox could not be made: namespaces cannot be made"),
        "{}",
        output.stderr
    );
    assert!(!world.workspace().join("made").exists(), "nothing was run with less");
    // Where none may be made at all, the administrator says so, and the loop does.
    let (world, output) = loop_with_mount_namespaces(0);
    assert_ne!(world.sandbox()["tier"], "namespaces");
    assert!(output.stdout.contains("namespaces: namespaces cannot be made"), "{}", output.stdout);
}

/// What the first process of the namespaces meets when it mounts its `/proc`: an error, or once a pause in which it can be killed.
const FIRST_PROCESS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int mount(const char *from, const char *to, const char *type, unsigned long flags, const void *how) {
    if (type && !strcmp(type, "proc")) {
        if (FAILS) { errno = FAILS; return -1; }
        if (open(MARK, O_CREAT | O_EXCL | O_WRONLY, 0666) >= 0) for (;;) pause();
    }
    return syscall(SYS_mount, from, to, type, flags, how);
}
"#;

/// A world whose first processes meet this, and the line of shell that sees to it: they have no environment, so that every program
/// there gets the library.
fn with_first_process(attacker: Attacker, fails: i32) -> (GuardWorld, String) {
    let world = GuardWorld::new(attacker);
    let at = |name: &str| world.root().join(name);
    fs::write(at("first.c"), FIRST_PROCESS).expect("a file");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", &format!("-DFAILS={fails}")]);
    cc.arg(format!("-DMARK=\"{}\"", at("tmp/paused").display()));
    let made = cc.arg("-o").arg(at("first.so")).arg(at("first.c")).status();
    assert!(made.expect("cc: `scripts/install` installs it").success());
    let first = format!(
        "cp -a /etc '{0}/etc'; echo '{0}/first.so' > '{0}/etc/ld.so.preload'; mount --bind '{0}/etc' /etc",
        world.root().display()
    );
    (world, first)
}

const ONE_LOOP: [&str; 8] = ["run", "do it", "--task", "t", "-n", "1", "--agent-cmd", "touch made"];

#[test]
fn only_what_the_system_forbids_the_first_process_leads_to_a_lesser_tier() {
    for attacker in [Attacker::Root, Attacker::User] {
        for (errno, is_forbidden) in [(rustix::io::Errno::PERM, true), (rustix::io::Errno::NOMEM, false)] {
            let (world, first) = with_first_process(attacker, errno.raw_os_error());
            if !is_root() || !world.allows_namespaces() {
                return;
            }
            let output = said(world.command_after(&first, world.program()), &ONE_LOOP);
            let made = world.workspace().join("made");
            if is_forbidden {
                assert_ne!(world.sandbox()["tier"], "namespaces");
                let why = "namespaces: a `/proc` of its own cannot be mounted: ";
                assert!(output.stdout.contains(why) && made.exists(), "{}", output.stdout);
            } else {
                let why = "its sandbox could not be made: a `/proc` of its own cannot be mounted: ";
                assert!(output.stderr.contains(why), "{attacker:?} {}", output.stderr);
                assert!(output.stderr.contains("end what takes up the system"), "{}", output.stderr);
                assert!(!made.exists(), "nothing was run with less");
            }
        }
    }
}

#[test]
fn a_first_process_that_is_killed_before_it_said_anything_leads_to_another_keeper() {
    for attacker in [Attacker::Root, Attacker::User] {
        let (world, first) = with_first_process(attacker, 0);
        if !is_root() || !world.allows_namespaces() {
            return;
        }
        let mut command = world.command_after(&first, world.program());
        command.args(ONE_LOOP);
        let running = Running::start(command);
        wait_until("the first process mounts", LONG, || world.root().join("tmp/paused").exists());
        let keeper = child_named(running.pid(), "dcp-keeper").expect("a keeper");
        let init = child_named(keeper, "dcp-init").expect("a first process");
        let init = rustix::process::Pid::from_raw(init.cast_signed()).expect("a number");
        rustix::process::kill_process(init, rustix::process::Signal::KILL).expect("it is there");
        let output = running.wait(LONG);
        assert!(world.workspace().join("made").exists(), "{}", output.stderr);
        let held = world.sandbox();
        assert_eq!((held["tier"].as_str(), held.get("open")), (Some("namespaces"), None), "{attacker:?}");
    }
}

#[test]
fn a_home_on_an_overlay_is_protected_like_any_other() {
    for attacker in [Attacker::Root, Attacker::User] {
        let world = GuardWorld::new(attacker);
        if !is_root() || !world.allows_namespaces() {
            return;
        }
        let overlay = format!(
            "cd '{}'; mkdir layers; mount -t tmpfs layers layers; mkdir layers/up layers/work; chown --reference=home layers/up; \
             mount -t overlay home -o lowerdir=home,upperdir=layers/up,workdir=layers/work home; cd workspace",
            world.root().display()
        );
        assert_eq!(failed_work_after(&world, &overlay, &ATTACKS, &[]), names(&ATTACKS), "{attacker:?}");
        let held = world.sandbox();
        assert_eq!((held["tier"].as_str(), held.get("open")), (Some("namespaces"), None), "{attacker:?}");
    }
}

#[test]
fn a_home_that_cannot_be_written_keeps_no_loop_from_its_work() {
    for attacker in [Attacker::Root, Attacker::User] {
        let world = GuardWorld::new(attacker);
        if !is_root() || !world.allows_namespaces() {
            return;
        }
        let read_only = format!(
            "mount --bind '{0}/home' '{0}/home'; mount -o remount,bind,ro '{0}/home'",
            world.root().display()
        );
        assert_eq!(failed_work_after(&world, &read_only, &ATTACKS, &[]), names(&ATTACKS), "{attacker:?}");
        assert_eq!(world.sandbox()["tier"], "namespaces");
    }
}

#[test]
fn a_home_that_is_a_link_is_protected_where_it_leads() {
    for attacker in [Attacker::Root, Attacker::User] {
        let world = GuardWorld::new(attacker);
        if !world.allows_namespaces() {
            return;
        }
        fs::rename(world.root().join("home"), world.root().join("real")).expect("a folder");
        symlink("real", world.root().join("home")).expect("a link");
        let others = [
            ("where it leads", "echo x >> $W/real/.bashrc"),
            ("the link itself", "ln -sfn $WS $W/home && test $(readlink $W/home) = $WS"),
        ];
        let attacks = [&ATTACKS[..], &others].concat();
        assert_eq!(failed_work(&world, &attacks, &[]), names(&attacks), "{attacker:?}");
    }
}

#[test]
fn a_folder_of_path_in_the_workspace_stays_writable_and_is_named() {
    let world = GuardWorld::new(Attacker::User);
    let tools = world.workspace().join("tools");
    fs::create_dir(&tools).expect("a folder");
    fs::set_permissions(&tools, fs::Permissions::from_mode(0o777)).expect("permissions");
    let mut command = world.command(world.program());
    command.env("PATH", format!("{}:/usr/bin:/bin", tools.display()));
    let agent = "sh -c 'echo x > tools/made'";
    let output = said(command, &["run", "do it", "--task", "t", "-n", "1", "--agent-cmd", agent]);
    assert!(tools.join("made").exists(), "{}", output.stderr);
    if world.allows_namespaces() {
        assert!(output.stdout.contains("tools` is on PATH and must stay writable"), "{}", output.stdout);
    }
}

#[test]
fn a_workspace_in_a_protected_folder_is_worked_in_and_said_and_one_in_the_state_is_refused() {
    let world = GuardWorld::new(Attacker::User);
    let run = [
        "run",
        "do it",
        "--task",
        "t",
        "-n",
        "1",
        "--agent-cmd",
        "sh -c 'echo x > made; echo x > ../beside'",
    ];
    let folder = world.root().join("home/.config/systemd/user");
    let mut command = world.command(world.program());
    command.current_dir(&folder);
    let output = said(command, &run);
    assert!(folder.join("made").exists(), "{}", output.stderr);
    if !world.allows_namespaces() {
        return;
    }
    assert!(!folder.join("../beside").exists());
    let why = "lies in a folder that is protected otherwise";
    assert!(output.stdout.contains(why), "{}", output.stdout);
    let mut command = world.command(world.program());
    command.current_dir(world.root().join("state/projects/other"));
    let output = said(command, &run);
    assert!(output.stderr.contains("holds dacapo's own state"), "{}", output.stderr);
    assert_ne!(output.code, Some(0));
}

#[test]
fn in_a_home_as_the_workspace_no_name_is_held_and_the_banner_says_so() {
    for has_git in [true, false] {
        let world = GuardWorld::new(Attacker::User);
        let home = world.root().join("home");
        let in_home = |args: &[&str]| {
            let mut command = world.command(world.program());
            command.current_dir(&home);
            said(command, args)
        };
        if has_git {
            let mut git = world.command("git");
            git.current_dir(&home).args(["init", "-q"]);
            Running::start(git).wait(LONG).assert_code(0);
        }
        let agent = "sh -c 'ls -A . .config > seen; echo x >> .bashrc; true'";
        let output = in_home(&["run", "do it", "--task", "t", "-n", "1", "--agent-cmd", agent]);
        let seen = fs::read_to_string(home.join("seen")).expect("the agent has worked");
        for name in [".bash_profile", ".npmrc", "\ngit\n"] {
            assert!(!seen.contains(name), "{name} is held:\n{seen}");
        }
        if has_git {
            let diff = in_home(&["diff", "t"]).assert_code(0).stdout;
            let files: Vec<&str> = diff.lines().filter(|line| line.starts_with("diff ")).collect();
            assert_eq!(files, ["diff --git a/seen b/seen"], "{diff}");
        }
        if !world.allows_namespaces() {
            continue;
        }
        assert_eq!(fs::read_to_string(home.join(".bashrc")).expect("a file"), "# mine\n");
        let why = "more names can appear: no name is held in the workspace";
        assert!(output.stdout.contains(why), "{}", output.stdout);
    }
}

#[test]
fn a_key_that_others_can_read_or_that_is_gone_keeps_every_loop_from_starting() {
    let world = GuardWorld::new(Attacker::User);
    let run = || {
        let command = world.command(world.program());
        said(command, &["run", "do it", "-n", "1", "--agent-cmd", "sh -c 'echo x >> ran'"])
    };
    let first = run();
    let key = world.root().join("state/keys/machine.key");
    assert!(key.exists(), "{}", first.stderr);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("permissions");
    let open = run();
    assert!(open.stderr.contains("can be read or written by other users (mode 644)"), "{}", open.stderr);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("permissions");
    fs::remove_file(&key).expect("the key");
    let gone = run();
    assert!(gone.stderr.contains("the key of this machine is gone"), "{}", gone.stderr);
    assert!(!key.exists(), "no other key takes its place");
    let ran = fs::read_to_string(world.workspace().join("ran")).expect("the first loop ran");
    assert_eq!(ran.lines().count(), 1);
}

/// Sets the clock of a program forward by a day.
const TOMORROW: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += 86400;
    return result;
}
"#;

#[test]
fn a_clock_that_went_back_is_said_by_verify_and_keeps_nothing_from_its_work() {
    let world = GuardWorld::new(Attacker::User);
    let (source, library) = (world.root().join("tomorrow.c"), world.root().join("tomorrow.so"));
    fs::write(&source, TOMORROW).expect("a file");
    let made =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl").status();
    assert!(made.expect("cc: `scripts/install` installs it").success());
    let agent = "sh -c 'test -e one && touch made && echo \"<promise>DONE</promise>\"; touch one'";
    let mut tomorrow = world.command(world.program());
    tomorrow.env("LD_PRELOAD", library);
    let run = ["run", "do it", "--task", "t", "-n", "1", "--gate", "test -e made", "--agent-cmd", agent];
    assert_eq!(said(tomorrow, &run).code, Some(3));
    let today = || world.command(world.program());
    said(today(), &["resume", "t", "-n", "+2"]).assert_code(0);
    let verified = said(today(), &["verify", "t"]).assert_code(0);
    assert!(verified.stdout.contains("the clock of the machine went back"), "{}", verified.stdout);
}
