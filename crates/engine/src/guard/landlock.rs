//! The second tier: Landlock, where namespaces are not allowed. It can only allow, so what lies in a folder that must stay writable
//! stays open.

use std::{io, path::Path};

use dacapo_core::sandbox::LandlockGrants;
use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

/// The newest version of Landlock that is known here. What an older kernel lacks is left out and named.
const NEWEST: ABI = ABI::V6;

/// What Landlock knows no right for, or leaves to those in the same domain.
const ALWAYS_OPEN: [&str; 5] = [
    "modes, times and attributes of all files of the user can be changed",
    "the keeper of the loop can be killed, which ends what it keeps",
    "the processes of the user can be seen, and their limits and priorities changed",
    "the terminals of the user can be read and written",
    "a server of the user's, such as tmux, starts processes outside for the agent",
];

/// Restricts this process and everything that it starts. Gives what the kernel cannot hold of it, one sentence each.
pub(super) fn restrict(grants: &LandlockGrants) -> io::Result<Vec<String>> {
    let failed =
        |error: landlock::RulesetError| io::Error::new(io::ErrorKind::PermissionDenied, error.to_string());
    let write = AccessFs::from_write(NEWEST);
    let read: BitFlags<AccessFs> = AccessFs::ReadFile.into();
    let handled = if grants.read.is_some() { write | read } else { write };
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled)
        .map_err(failed)?
        .scope(Scope::Signal | Scope::AbstractUnixSocket)
        .map_err(failed)?
        .create()
        .map_err(failed)?;
    let allowed = grants.write.iter().map(|path| (path, handled));
    let readable = grants.read.iter().flatten().map(|path| (path, read));
    for (path, access) in allowed.chain(readable) {
        if let Some(rule) = rule(path, access) {
            ruleset = ruleset.add_rule(rule).map_err(failed)?;
        }
    }
    let status = ruleset.restrict_self().map_err(failed)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "this kernel has no Landlock"));
    }
    let mut open: Vec<String> =
        grants.open.iter().map(|path| format!("`{}` can be written", path.display())).collect();
    open.extend(ALWAYS_OPEN.map(str::to_owned));
    if status.ruleset == RulesetStatus::PartiallyEnforced {
        open.push(
            "signals and abstract sockets reach processes outside: this kernel's Landlock is too old"
                .to_owned(),
        );
    }
    Ok(open)
}

/// Keeps this process and everything that it starts from servers outside that listen at a name which no file has: mounts hide none of
/// them. Says whether the kernel can. The right to mount takes the place of giving up all rights of other programs.
pub(super) fn keep_names_of_sockets_apart() -> io::Result<bool> {
    let failed = |error: landlock::RulesetError| io::Error::other(error.to_string());
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    let ruleset = ruleset.scope(Scope::AbstractUnixSocket).map_err(failed)?.create().map_err(failed)?;
    let status = ruleset.no_new_privs(false).restrict_self().map_err(failed)?;
    Ok(status.ruleset == RulesetStatus::FullyEnforced)
}

fn rule(path: &Path, access: BitFlags<AccessFs>) -> Option<PathBeneath<PathFd>> {
    // What is gone, or cannot be opened, cannot be written either.
    let fd = PathFd::new(path).ok()?;
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    Some(PathBeneath::new(fd, access))
}
