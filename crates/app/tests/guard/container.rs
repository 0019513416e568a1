//! The recipe for a container in the guide, its steps run in a fresh root directory.

use std::{fs, process::Command, time::Duration};

use dacapo_testkit::Running;

use crate::world::{Attacker, GuardWorld, is_root};

const GUIDE: &str = include_str!("../../../../docs/guide/sandbox.md");

const LONG: Duration = Duration::from_secs(300);

/// The lines of the recipe: an instruction and what stands behind it.
fn recipe() -> Vec<(&'static str, &'static str)> {
    let (_, rest) = GUIDE.split_once("```dockerfile\n").expect("the guide has a recipe");
    let (recipe, _) = rest.split_once("```").expect("it has an end");
    recipe.lines().map(|line| line.split_once(' ').expect("an instruction")).collect()
}

/// A script that does what each instruction says, in a root directory of its own. The image is this system's programs.
fn script(world: &GuardWorld) -> String {
    let mut text = format!(
        "set -eu
         r=\"{0}/root\"; mkdir \"$r\"; mount -t tmpfs -o mode=755 root \"$r\"
         for d in usr bin sbin lib lib64; do
           if test -L /$d; then cp -a /$d \"$r/$d\"; elif test -d /$d; then mkdir \"$r/$d\"; mount --rbind /$d \"$r/$d\"; fi
         done
         mkdir -p \"$r/etc\" \"$r/proc\" \"$r/dev\" \"$r/tmp\" \"$r/home\" \"$r/sys\" \"$r/var\"; chmod 1777 \"$r/tmp\"
         cp -a /etc/passwd /etc/group /etc/shadow /etc/login.defs \"$r/etc/\" 2>/dev/null || true
         cp -a /etc/alternatives \"$r/etc/\" 2>/dev/null || true
         mount -t proc proc \"$r/proc\"; mount --rbind /dev \"$r/dev\"
         touch \"$r/usr-local-bin-dacapo\"; user=root; dir=/\n",
        world.root().display()
    );
    for (instruction, rest) in recipe() {
        text += &match instruction {
            "FROM" => String::new(),
            // Without a network: what would be installed has to be there.
            "RUN" if rest.starts_with("apt-get") => {
                let (_, programs) = rest.rsplit_once("--no-install-recommends ").expect("programs");
                let programs = programs.split(' ').filter(|name| *name != "ca-certificates");
                programs.map(|name| format!("chroot \"$r\" sh -c 'command -v {name}' >/dev/null\n")).collect()
            }
            "RUN" => format!("chroot \"$r\" sh -c '{rest}'\n"),
            "COPY" => {
                let (_, to) = rest.split_once(' ').expect("two paths");
                format!(
                    "mkdir -p \"$r/opt\"; cp '{}' \"$r/opt/dacapo\"; mount -t tmpfs bin \"$r$(dirname {to})\"; cp \"$r/opt/dacapo\" \"$r{to}\"\n",
                    world.program().display()
                )
            }
            "USER" => format!("user={rest}\n"),
            "WORKDIR" => {
                format!("dir={rest}; mkdir -p \"$r$dir\"; chroot \"$r\" chown \"$user\" \"$dir\"\n")
            }
            "CMD" => {
                let words: Vec<String> = serde_json::from_str(rest).expect("a list of words");
                let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
                format!(
                    "printf 'test:\\n\\ttest -f made\\n' > \"$r$dir/Makefile\"; chroot \"$r\" chown -R \"$user\" \"$dir\"
                     exec chroot --userspec=\"$user\" \"$r\" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/home/$user sh -c 'cd '$dir' && exec \"$@\"' sh {} --agent-cmd 'sh -c \"touch made; echo \\\"<promise>DONE</promise>\\\"\"'\n",
                    words.join(" ")
                )
            }
            other => panic!("the recipe has an instruction that this test does not know: {other}"),
        };
    }
    text
}

#[test]
fn the_recipe_for_a_container_works_in_a_fresh_root() {
    let world = GuardWorld::new(Attacker::Root);
    let file = world.root().join("recipe.sh");
    fs::write(&file, script(&world)).expect("a script");
    if !is_root() || !world.allows_namespaces() {
        // Nothing can be mounted here; that every instruction is known was checked.
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh"]).arg(&file);
    let output = Running::start(command).wait(LONG).assert_code(0);
    assert!(output.stdout.contains("verified by `make test`"), "{}{}", output.stdout, output.stderr);
}
