//! Loops without a supervisor: what the user asked of them meanwhile, and the end of those whose supervisor died.

use std::io;

use dacapo_core::{
    duration::Millis,
    ids::{LoopId, ProjectId, RunId, TaskId},
    loop_machine::{Effect, Input, LoopMachine, Request},
};
use jiff::Timestamp;

use super::{
    SuperviseError,
    preconditions::{StartError, take_lock},
};
use crate::{
    checkouts,
    home::Home,
    inside::server::InsideServer,
    observer::NoObserver,
    process::leftovers,
    scratch::Scratch,
    store::{Arrival, Store, StoreError, Stream, TaskLock},
};

/// How long what a script of a workflow started is given to end.
pub(crate) const SCRIPT_GRACE: Millis = Millis::from_secs(5);

/// Takes up what the user asked of a loop without a supervisor: an end, or words for its next prompt.
pub fn settle(home: &Home, store: &mut Store, id: &LoopId) -> Result<(), StartError> {
    let row = store.row(id)?.ok_or_else(|| StartError::Unknown(id.clone()))?;
    let _lock = take_lock(home, store, &row.view.project, &row.view.task)?;
    let mut stream = Stream::open(store, id)?.ok_or_else(|| StartError::Unknown(id.clone()))?;
    bury(home, store, &mut stream)?;
    stream.shut_out_owner();
    take_up_requests(store, &mut stream)
}

/// Takes up the requests that came while the loop had no supervisor.
pub(super) fn take_up_requests(
    store: &mut Store,
    stream: &mut Stream<LoopMachine>,
) -> Result<(), StartError> {
    for pending in store.pending(stream.id())? {
        let arrival = Arrival { input: Input::Requested(pending.request), request: Some(pending.id) };
        let effects = stream.step(store, Timestamp::now(), [arrival], &mut NoObserver)?;
        perform_without_supervisor(store, stream.id(), &effects)?;
    }
    Ok(())
}

/// Gives loops whose supervisor died their end, and ends what they left running (req 203, fault F14). What scripts of workflows
/// left running whose performer died is ended too.
///
/// Nothing is resurrected: they stay stopped until the user resumes them.
pub fn reconcile(home: &Home, store: &mut Store) -> Result<Vec<LoopId>, StartError> {
    reconcile_holding(home, store, None)
}

/// As [`reconcile`], by the one who has the lock of the task `held`.
pub(super) fn reconcile_holding(
    home: &Home,
    store: &mut Store,
    held: Option<(&ProjectId, &TaskId)>,
) -> Result<Vec<LoopId>, StartError> {
    let mut buried = Vec::new();
    for row in store.active()? {
        if row.is_running() {
            continue;
        }
        let is_ours = held == Some((&row.view.project, &row.view.task));
        let lock = TaskLock::take(&home.lock(&row.view.project, &row.view.task));
        // Another process that holds the lock is about to see to it.
        if lock.is_err() && !is_ours {
            continue;
        }
        let mut stream = match Stream::open(store, &row.view.id) {
            Ok(Some(stream)) => stream,
            // A loop whose journal was edited must not keep others from beginning. `resume` and `verify` tell of it.
            Ok(None) | Err(StoreError::Edited { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        bury(home, store, &mut stream)?;
        buried.push(row.view.id);
    }
    for row in store.active_workflows()? {
        let has_script = row.view.steps.iter().any(|step| step.kind == "bash" && step.state == "running");
        if row.is_running() || !has_script {
            continue;
        }
        // Its performer died. A process that holds the lock is about to perform it.
        if let Ok(_lock) = TaskLock::take(&home.lock_of_workflow(&row.view.id)) {
            end_scripts(home, &row.view.id)?;
        }
    }
    Ok(buried)
}

/// Ends what scripts of a run have left running whose performer is known to be dead: the caller holds its lock.
///
/// Their mark is the id of the run, which no loop has.
pub(crate) fn end_scripts(home: &Home, run: &RunId) -> Result<(), StartError> {
    let failed = |source| SuperviseError::Io { what: "cannot end what a dead dacapo left running", source };
    let mark = script_mark(run).map_err(failed)?;
    leftovers::end(&mark, home.path())
        .and_then(|()| leftovers::await_keepers(&mark, &home.database(), SCRIPT_GRACE.std()))
        .map_err(failed)?;
    Ok(())
}

/// The mark of all that scripts of a run start.
pub(crate) fn script_mark(run: &RunId) -> io::Result<LoopId> {
    run.as_str().parse().map_err(io::Error::other)
}

/// Ends a loop whose supervisor is known to be dead: the caller holds its lock.
pub(super) fn bury(
    home: &Home,
    store: &mut Store,
    stream: &mut Stream<LoopMachine>,
) -> Result<(), StartError> {
    // A loop of a chat session has no supervisor that could die.
    if stream.state().over().is_some() || !stream.view().needs_owner() {
        return Ok(());
    }
    let id = stream.id().clone();
    let grace = stream.state().started.as_ref().map_or(Millis(0), |started| started.policy.pace.kill_grace);
    InsideServer::clear(home, &id);
    leftovers::end(&id, home.path())
        .and_then(|()| leftovers::await_keepers(&id, &home.database(), grace.std()))
        .map_err(|source| SuperviseError::Io {
            what: "cannot end what a dead dacapo left running",
            source,
        })?;
    // Now that no gate writes there any more.
    Scratch::remove_left(&super::verdict::checkout_name(&id));
    checkouts::remove_left(home, &id);
    stream.shut_out_owner();
    let effects = stream.step(store, Timestamp::now(), [Input::OwnerDied.into()], &mut NoObserver)?;
    perform_without_supervisor(store, &id, &effects)
}

/// For a loop without a supervisor there is one thing left to do: its children, which are loops of their own, end with it.
pub(super) fn perform_without_supervisor(
    store: &mut Store,
    id: &LoopId,
    effects: &[Effect],
) -> Result<(), StartError> {
    if effects.contains(&Effect::CancelChildren) {
        for child in store.running_children(id)? {
            store.request(&child.view.id, &Request::Cancel, Timestamp::now())?;
        }
    }
    Ok(())
}
