//! Runs whose scheduler died: brought to their end by whoever finds them.

use std::collections::BTreeSet;

use dacapo_core::{
    duration::Millis,
    event::{LoopEvent, Reason, RunEnvelope},
    ids::{ProjectId, RunId},
    unit::schedule::{RunInput, RunState, decide},
    view::RunView,
};
use jiff::Timestamp;

use super::{Store, StoreError};

impl Store {
    /// Ends every run of a project that nobody schedules any more: what its loops did and nobody told is told, its units
    /// are stopped, and the next run goes on with them. It ended when it was last seen alive, not when it was found. Gives
    /// the runs that were ended.
    pub fn close_dead_runs(&mut self, project: &ProjectId) -> Result<Vec<RunId>, StoreError> {
        let mut closed = Vec::new();
        for row in self.active_runs()? {
            if row.is_running() || row.view.project != *project {
                continue;
            }
            match self.close_run(&row.view.id) {
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

    /// How long a run was going on; of one that died without an end, as far as anything shows.
    pub fn run_lasted(&self, run: &RunView) -> Result<Millis, StoreError> {
        let ended = match run.ended_at {
            Some(ended) => ended,
            None => self.last_sign(&self.run_events(Some(&run.id), None, 0)?, &run.project)?,
        };
        let lasted = ended.duration_since(run.started_at).as_millis();
        Ok(Millis(u64::try_from(lasted).unwrap_or(0)))
    }

    /// When a run without an end, or a loop of it, last wrote something. What others wrote about its death is none.
    fn last_sign(&self, recorded: &[RunEnvelope], project: &ProjectId) -> Result<Timestamp, StoreError> {
        let first = recorded.first().map_or(0, |envelope| envelope.seq);
        let mut newest = recorded.last().map_or(Timestamp::UNIX_EPOCH, |envelope| envelope.at);
        let loops = self.loops_of_units(project, first)?;
        // Whoever finds a dead loop writes all that is left to say about it at once.
        let buried: BTreeSet<_> = loops
            .iter()
            .filter(|(_, envelope)| {
                matches!(envelope.event, LoopEvent::LoopFinished { reason: Reason::Interrupted, .. })
            })
            .map(|(_, envelope)| (envelope.loop_id.clone(), envelope.at))
            .collect();
        for (_, envelope) in loops {
            if !buried.contains(&(envelope.loop_id, envelope.at)) {
                newest = newest.max(envelope.at);
            }
        }
        Ok(newest)
    }

    fn close_run(&mut self, id: &RunId) -> Result<(), StoreError> {
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
        let at = self.last_sign(&recorded, &project)?;
        self.append_run(id, &mut head, at, events)?;
        Ok(())
    }
}
