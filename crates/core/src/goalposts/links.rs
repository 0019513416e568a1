//! Which links of a checkout lead to what a clone elsewhere would have, too.

use std::path::{Component, Path};

/// Folders of the system, which every machine has.
const OF_SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/nix", "/dev", "/proc"];

/// Folders among them in which any user can leave a file.
const FOR_EVERYONE: &[&str] = &["/dev/shm", "/dev/mqueue", "/dev/fd", "/usr/tmp"];

/// Whether a link with this absolute target leads to what is the system's. What lies in memory that programs share, and what is
/// reached through a process, is of this machine and this moment.
pub fn is_link_to_system(target: &Path) -> bool {
    let has_parent = target.components().any(|part| part == Component::ParentDir);
    let is_below = |tops: &[&str]| tops.iter().any(|top| target.starts_with(top));
    // `/proc/self/root/…`, `/proc/self/cwd/…` and `/proc/1/fd/3` lead anywhere.
    let mut parts = target.iter().skip(1);
    let is_of_process = parts.next().is_some_and(|top| top == "proc")
        && parts.next().and_then(|name| name.to_str()).is_some_and(|name| {
            matches!(name, "self" | "thread-self") || name.bytes().all(|byte| byte.is_ascii_digit())
        });
    !has_parent && is_below(OF_SYSTEM) && !is_below(FOR_EVERYONE) && !is_of_process
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_counts_if_every_machine_has_what_it_leads_to() {
        let table = [
            ("/usr/bin/env", true),
            ("/dev/null", true),
            ("/proc/cpuinfo", true),
            ("/etc/ssl/certs", true),
            ("/home/you/right.py", false),
            ("/tmp/right.py", false),
            ("/usr/../tmp/right.py", false),
            ("/usrlocal/right.py", false),
            ("/dev/shm/right.py", false),
            ("/proc/self/root/tmp/right.py", false),
            ("/proc/thread-self/cwd/right.py", false),
            ("/proc/12/fd/3", false),
        ];
        for (target, expected) in table {
            assert_eq!(is_link_to_system(Path::new(target)), expected, "{target}");
        }
    }
}
