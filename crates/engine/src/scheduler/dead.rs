//! Runs whose scheduler died: brought to their end by the next `dacapo` that finds them.

use std::collections::BTreeSet;

use dacapo_core::{
    ids::{ProjectId, RunId},
    unit::{
        account::Accounts,
        schedule::{RunInput, RunMachine},
    },
};

use crate::{
    observer::NoObserver,
    store::{Store, StoreError, Stream},
};

/// Ends every run of a project whose scheduler is dead: what its loops did and the run does not say yet is told, its units
/// are stopped, and the next run goes on with them. It ended when it was last seen alive, not when it was found. Gives
/// the runs that were ended.
pub fn close_dead_runs(store: &mut Store, project: &ProjectId) -> Result<Vec<RunId>, StoreError> {
    let mut closed = Vec::new();
    for row in store.active_runs()? {
        if row.is_running() || row.view.project != *project {
            continue;
        }
        match close(store, &row.view.id) {
            // Another one found it at the same time, or its journal was edited, which must not keep others from beginning.
            Err(StoreError::Overtaken { .. } | StoreError::Edited { .. }) => {}
            result => {
                result?;
                closed.push(row.view.id);
            }
        }
    }
    Ok(closed)
}

fn close(store: &mut Store, id: &RunId) -> Result<(), StoreError> {
    let Some(mut stream) = Stream::<RunMachine>::open(store, id)? else { return Ok(()) };
    let Some(first) = store.run_events(id, 0)?.first().map(|envelope| envelope.seq) else { return Ok(()) };
    let project = stream.view().project.clone();
    let (mut inputs, mut known, mut accounts) = (Vec::new(), BTreeSet::new(), Accounts::default());
    for (unit, envelope) in store.loops_of_units(&project, first)? {
        // A loop that an earlier run began: what it did then is told there, but has to be known.
        if known.insert(envelope.loop_id.clone()) {
            for before in store.events(&envelope.loop_id, 0)?.iter().filter(|old| old.seq < first) {
                accounts.see(&unit, before);
            }
        }
        let events = accounts.see(&unit, &envelope);
        inputs.push(RunInput::LoopTold { unit, events }.into());
    }
    inputs.push(RunInput::OwnerDied.into());
    let at = store.last_sign_of(id, &project)?;
    stream.shut_out_owner();
    stream.step(store, at, inputs, &mut NoObserver)?;
    Ok(())
}
