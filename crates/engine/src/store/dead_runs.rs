//! Runs whose scheduler died: brought to their end by whoever finds them.

use std::collections::BTreeSet;

use dacapo_core::{
    ids::{ProjectId, RunId},
    unit::schedule::{RunInput, RunState, decide},
};
use jiff::Timestamp;

use super::{Store, StoreError};

impl Store {
    /// Ends every run of a project that nobody schedules any more: what its loops did and nobody told is told, its units
    /// are stopped, and the next run goes on with them. Gives the runs that were ended.
    pub fn close_dead_runs(&mut self, project: &ProjectId, now: Timestamp) -> Result<Vec<RunId>, StoreError> {
        let mut closed = Vec::new();
        for row in self.active_runs()? {
            if row.is_running() || row.view.project != *project {
                continue;
            }
            match self.close_run(&row.view.id, now) {
                // Another one found it at the same time.
                Err(StoreError::RunOvertaken(_)) => {}
                result => {
                    result?;
                    closed.push(row.view.id);
                }
            }
        }
        Ok(closed)
    }

    fn close_run(&mut self, id: &RunId, now: Timestamp) -> Result<(), StoreError> {
        let Some((mut head, recorded)) = self.load_run(id)? else { return Ok(()) };
        let mut state = RunState::default();
        for envelope in &recorded {
            state.apply(envelope.unit.as_ref(), &envelope.event);
        }
        let Some(first) = recorded.first().map(|envelope| envelope.seq) else { return Ok(()) };
        let project = head.view().project.clone();
        let (mut events, mut known) = (Vec::new(), BTreeSet::new());
        for (unit, envelope) in self.loops_of_units(&project, first)? {
            // A loop that an earlier run began: what it did then is told there, but has to be known.
            if known.insert(envelope.loop_id.clone()) {
                let before = self.events(Some(&envelope.loop_id), 0)?;
                before.iter().filter(|old| old.seq < first).for_each(|old| state.see(&unit, old));
            }
            let step = decide(&state, RunInput::LoopSeen(Box::new(envelope.clone()), unit.clone()));
            for (unit, event) in &step.events {
                state.apply(unit.as_ref(), event);
            }
            state.see(&unit, &envelope);
            events.extend(step.events);
        }
        events.extend(decide(&state, RunInput::OwnerDied).events);
        self.append_run(id, &mut head, now, events)?;
        Ok(())
    }
}
