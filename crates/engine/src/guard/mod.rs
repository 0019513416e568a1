//! The guard around what a loop runs: gathers what must be protected on this machine, and has a keeper hold it.
//!
//! A keeper takes a `GuardSpec` before it starts anything. It tries the tier that it was told to try and reports; the supervisor
//! goes on to the next lower tier only if the system did not allow that one, and what was held in the end is recorded.

mod commands;
mod held;
mod landlock;
mod namespaces;
mod own_refs;
mod plan;

pub(crate) use commands::GuardedFolder;
pub(crate) use held::{HeldNames, IN_FOLDER, holds_name, is_held};
pub(crate) use namespaces::{EnteredNamespaces, Init, enter, is_alone};
pub(crate) use own_refs::{OwnRefs, WorktreeIsOn, is_of_dacapo};
pub(crate) use plan::{GuardedPlaces, agent_folders};
pub use plan::{Protected, protected};

use std::{
    cell::OnceCell,
    io,
    path::Path,
    rc::Rc,
    thread::{self, JoinHandle},
};

use dacapo_core::{
    ids::LoopId,
    policy::Policy,
    sandbox::{LandlockGrants, MountStep, SandboxHeld, SandboxMode, SandboxRules, SandboxTier},
};
use serde::{Deserialize, Serialize};

use crate::{checkouts, home::Home, process::KeeperLink, proof::fresh_id};

/// The sandbox of a loop, for every keeper that it starts.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) rules: SandboxRules,
    pub(crate) places: GuardedPlaces,
    /// Whether gates judge what its agents do.
    pub(crate) judges: bool,
    /// What its first keeper held. The journal and the receipt say that, so no later one may hold less.
    first: OnceCell<SandboxHeld>,
}

impl Guard {
    /// The sandbox of a loop that works in `workspace`.
    pub(crate) fn of_loop(policy: &Policy, workspace: &Path) -> Self {
        let places = GuardedPlaces {
            workspace: workspace.to_owned(),
            agent_folders: agent_folders(policy),
            ..GuardedPlaces::default()
        };
        let judges = policy.gates.specs.iter().any(|gate| gate.ask.is_none());
        Self { rules: policy.sandbox.clone(), places, judges, first: OnceCell::new() }
    }

    /// Gives agents that work in a worktree of dacapo's refs of their own, where the sandbox can hold them. Those of a
    /// supervisor that was killed are set aside: what they held was brought over, or is in the worktree's files.
    pub(crate) fn give_own_refs(
        &mut self,
        home: &Home,
        on: WorktreeIsOn<'_>,
        may_push: bool,
    ) -> io::Result<()> {
        let is_worktree =
            self.places.workspace.canonicalize().is_ok_and(|folder| is_of_dacapo(home, &folder));
        if self.rules.mode == SandboxMode::Off || !is_worktree {
            return Ok(());
        }
        self.places.shares_refs = true;
        if self.rules.tier == SandboxTier::Namespaces
            && let Some(refs) = OwnRefs::of(home, &self.places.workspace, on)
        {
            self.places.own_refs = Some(Rc::new(refs.laid_out(may_push)?));
        }
        Ok(())
    }

    /// Gives gates that judge a fresh checkout a folder for it, which only keepers of this guard can write.
    pub(crate) fn give_checkouts(&mut self, home: &Home, name: &str) {
        self.places.checkouts = checkouts::folder(home, &self.places.workspace, name);
    }

    pub(crate) fn own_refs(&self) -> Option<&OwnRefs> {
        self.places.own_refs.as_deref()
    }

    /// Takes away the refs of its own, when nothing runs any more that sees them.
    pub(crate) fn take_own_refs(&mut self) {
        if let Some(refs) = self.places.own_refs.take() {
            refs.remove();
        }
    }

    /// What is needed to run something in `workspace` that belongs to no loop.
    pub(crate) fn of_folder(rules: &SandboxRules, workspace: &Path) -> Self {
        let workspace = workspace.to_owned();
        Self {
            rules: rules.clone(),
            places: GuardedPlaces { workspace, ..GuardedPlaces::default() },
            judges: false,
            first: OnceCell::new(),
        }
    }

    /// Begins to start a keeper, which the caller waits for by `finish`.
    pub(crate) fn begin(&self, home: &Home, id: &LoopId) -> io::Result<StartingKeeper> {
        let mut starting = self.begin_look(home)?;
        self.begin_keeper(&mut starting, home, id)?;
        Ok(starting)
    }

    /// Begins to look at what must be protected, which takes longer than all else at the start of a loop.
    pub(crate) fn begin_look(&self, home: &Home) -> io::Result<StartingKeeper> {
        let is_wanted = self.rules.mode != SandboxMode::Off && self.rules.tier > SandboxTier::None;
        let begin = || {
            let (rules, folders) = (self.rules.clone(), self.places.agent_folders.clone());
            let (allowed, store) = (self.places.allowed().to_owned(), home.held_names());
            let look = move || plan::look_at_machine(&rules, &allowed, &folders, Some(&store));
            thread::Builder::new().spawn(look)
        };
        Ok(StartingKeeper { keeper: None, look: is_wanted.then(begin).transpose()? })
    }

    /// Starts the keeper itself. The journal is there already: what the keeper starts knows it by that file.
    pub(crate) fn begin_keeper(
        &self,
        starting: &mut StartingKeeper,
        home: &Home,
        id: &LoopId,
    ) -> io::Result<()> {
        let mut keeper = KeeperLink::start(id, &home.database())?;
        if self.rules.mode != SandboxMode::Off && self.rules.tier == SandboxTier::Namespaces {
            // If it was killed, it is found out when it is to hold something.
            let _ = keeper.enter_namespaces();
        }
        starting.keeper = Some(keeper);
        Ok(())
    }

    /// Starts a keeper that holds the best tier there is, and says what it holds. None holds less than the first did.
    pub(crate) fn keeper(&self, home: &Home, id: &LoopId) -> io::Result<(KeeperLink, SandboxHeld)> {
        self.finish(self.begin(home, id)?, home, id, || {})
    }

    /// Has the keeper that was begun hold the best tier there is. While it is at that, this process does something else.
    pub(crate) fn finish(
        &self,
        starting: StartingKeeper,
        home: &Home,
        id: &LoopId,
        meanwhile: impl FnOnce(),
    ) -> io::Result<(KeeperLink, SandboxHeld)> {
        let (keeper, held) = self.try_tiers(starting, home, id, meanwhile)?;
        let first = self.first.get_or_init(|| held.clone());
        if held.is_less_than(first) {
            let why =
                format!("the loop began with {}, and this system now allows {}", first.words(), held.words());
            return Err(io::Error::other(why));
        }
        Ok((keeper, held))
    }

    fn try_tiers(
        &self,
        mut starting: StartingKeeper,
        home: &Home,
        id: &LoopId,
        meanwhile: impl FnOnce(),
    ) -> io::Result<(KeeperLink, SandboxHeld)> {
        let database = home.database();
        let mode = self.rules.mode;
        let mut meanwhile = Some(meanwhile);
        if mode == SandboxMode::Off {
            return Ok((starting.keeper(id, &database)?, SandboxHeld::off()));
        }
        let mut refused = Vec::new();
        if let Some(mut protected) = starting.look()? {
            protected.make_room(home, &self.rules, &self.places);
            if let Some(why) = protected.forbidden.take() {
                return Err(io::Error::other(why));
            }
            for tier in [SandboxTier::Namespaces, SandboxTier::Landlock] {
                if tier > self.rules.tier {
                    continue;
                }
                if self.places.shares_refs
                    && (tier < SandboxTier::Namespaces || self.places.own_refs.is_none())
                {
                    protected.open.push(SHARED_REFS.to_owned());
                }
                let spec = match tier {
                    SandboxTier::Namespaces => protected.for_namespaces(self.own_refs()),
                    _ => protected.for_landlock(),
                };
                let (mut keeper, report) = starting.hold(id, &database, &spec, &mut meanwhile)?;
                match report {
                    GuardReport::Held(open) => {
                        keeper.hold(protected.take_held());
                        let open = std::mem::take(&mut protected.open).into_iter().chain(refused).chain(open);
                        let refs = self.own_refs().filter(|_| tier == SandboxTier::Namespaces);
                        let branch = refs.and_then(OwnRefs::branch).map(str::to_owned);
                        let own_refs_at_commit = refs.is_some() && branch.is_none();
                        let open = open.collect();
                        let held = SandboxHeld { mode, tier, open, branch, own_refs_at_commit };
                        return Ok((keeper, held));
                    }
                    GuardReport::NotAllowed(why) | GuardReport::NotNow(why) => {
                        refused.push(format!("{tier}: {why}"));
                    }
                }
            }
        }
        Ok((
            starting.keeper(id, &database)?,
            SandboxHeld { mode, tier: SandboxTier::None, open: refused, ..SandboxHeld::default() },
        ))
    }
}

/// A keeper that starts, and a thread that looks at what must be protected, while the supervisor prepares its loop.
pub(crate) struct StartingKeeper {
    keeper: Option<KeeperLink>,
    look: Option<JoinHandle<Protected>>,
}

impl StartingKeeper {
    /// What must be protected, if anything.
    fn look(&mut self) -> io::Result<Option<Protected>> {
        let looked = self.look.take().map(JoinHandle::join).transpose();
        looked.map_err(|_| io::Error::other("the look at what must be protected failed"))
    }

    /// The keeper that was begun, or another one.
    fn keeper(&mut self, id: &LoopId, database: &Path) -> io::Result<KeeperLink> {
        self.keeper.take().map_or_else(|| KeeperLink::start(id, database), Ok)
    }

    /// Has a keeper hold this. One that was killed meanwhile is no reason to hold less: another one is started.
    fn hold(
        &mut self,
        id: &LoopId,
        database: &Path,
        spec: &GuardSpec,
        meanwhile: &mut Option<impl FnOnce()>,
    ) -> io::Result<(KeeperLink, GuardReport)> {
        let mut tries = 0;
        loop {
            let mut keeper = self.keeper(id, database)?;
            let meanwhile = meanwhile.take();
            match keeper.guard(spec, || meanwhile.into_iter().for_each(|meanwhile| meanwhile())) {
                Ok(GuardReport::NotNow(why)) if tries >= TRIES => {
                    let next = "no loop starts with less by itself: end what takes up the system and try again, or set `sandbox: {tier: landlock}`";
                    return Err(io::Error::other(format!("its sandbox could not be made: {why}; {next}")));
                }
                Ok(GuardReport::NotNow(_)) => tries += 1,
                Ok(report) => return Ok((keeper, report)),
                Err(_) if tries < TRIES => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for StartingKeeper {
    fn drop(&mut self) {
        // Names that the thread holds are let go of before this process ends.
        let _ = self.look();
    }
}

/// What a loop in the current folder would be held by.
pub fn try_out(home: &Home, rules: &SandboxRules) -> io::Result<SandboxHeld> {
    let here = std::env::current_dir()?;
    let guard = Guard::of_folder(rules, &here);
    let (_, held) = guard.keeper(home, &fresh_id()?)?;
    Ok(held)
}

/// What only mounts can hold.
const SHARED_REFS: &str = "agents share the repository's branches, tags and configuration";

/// What Landlock alone can hold, in every tier.
const ABSTRACT_SOCKETS: &str = "servers of other programs that listen at abstract names can be reached";

/// How many keepers may be killed before they hold anything.
const TRIES: u32 = 20;

/// What a keeper is to hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GuardSpec {
    Namespaces(Vec<MountStep>),
    Landlock(LandlockGrants),
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GuardReport {
    /// It is held, but for these, one sentence each.
    Held(Vec<String>),
    /// The system does not allow it, and why.
    NotAllowed(String),
    /// It did not come about this time, and why: an agent of another loop may have seen to that.
    NotNow(String),
}

impl GuardReport {
    /// Only what the system forbids is a reason to hold less.
    pub(crate) fn of_error(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => {
                Self::NotAllowed(error.to_string())
            }
            _ => Self::NotNow(error.to_string()),
        }
    }
}

/// Holds `spec` around this process and everything that it starts from now on; in the namespaces that `enter` gives, if it needs some.
pub(crate) fn hold(
    spec: &GuardSpec,
    enter: impl FnOnce() -> io::Result<EnteredNamespaces>,
) -> io::Result<(Option<Init>, Vec<String>)> {
    match spec {
        GuardSpec::Namespaces(steps) => {
            let (init, open) = enter()?.hold(steps)?;
            Ok((Some(init), open))
        }
        GuardSpec::Landlock(grants) => Ok((None, landlock::restrict(grants)?)),
    }
}
