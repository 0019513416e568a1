//! What a loop waits for without a process: the delay between iterations, a time of day, child loops, other tasks.

use std::time::{Duration, Instant};

use dacapo_core::{
    duration::Millis,
    ids::{LoopId, TaskId},
    loop_machine::Input,
};
use jiff::Timestamp;

use super::{SuperviseError, Supervisor};

/// Deadlines on the monotonic clock.
#[derive(Default)]
pub(super) struct Timers {
    delay: Option<Instant>,
    park: Option<Park>,
    children: Option<ChildrenWait>,
    tasks: Option<TasksWait>,
}

/// A time of day: the clock is looked at now and then, because it can be set and a machine can sleep.
struct Park {
    until: Timestamp,
    next: Instant,
}

/// How soon a child loop is looked for again that is not in the journal yet.
const STARTING: Duration = Duration::from_millis(5);

/// How often a parked loop looks at the clock, for a DONE file, and whether its provider answered another loop.
const CLOCK: Duration = Duration::from_secs(10);

struct ChildrenWait {
    since: Instant,
    until: Instant,
    next: Instant,
    every: Duration,
    announced: bool,
}

struct TasksWait {
    tasks: Vec<TaskId>,
    next: Instant,
    every: Duration,
    missing: Option<Vec<TaskId>>,
}

impl Timers {
    pub(super) fn delay(&mut self, length: Millis) {
        self.delay = Some(Instant::now() + length.std());
    }

    pub(super) fn park(&mut self, until: Timestamp) {
        self.park = Some(Park { until, next: Instant::now() });
    }

    /// Whether the time has come, or what `is_over` asks for; else looks again later.
    pub(super) fn park_is_over(
        &mut self,
        now: Instant,
        clock: Timestamp,
        is_over: impl FnOnce() -> bool,
    ) -> bool {
        let Some(park) = self.park.as_mut().filter(|park| park.next <= now) else { return false };
        let left = Duration::try_from(park.until.duration_since(clock)).unwrap_or_default();
        if left.is_zero() || is_over() {
            self.park = None;
            return true;
        }
        park.next = now + left.min(CLOCK);
        false
    }

    pub(super) fn await_children(&mut self, timeout: Millis, every: Millis) {
        let since = Instant::now();
        let until = since + timeout.std();
        self.children =
            Some(ChildrenWait { since, until, next: since, every: every.std(), announced: false });
    }

    pub(super) fn await_tasks(&mut self, tasks: Vec<TaskId>, every: Millis) {
        self.tasks = Some(TasksWait { tasks, next: Instant::now(), every: every.std(), missing: None });
    }

    /// The next moment at which something is due.
    pub(super) fn next(&self) -> Option<Instant> {
        let children = self.children.as_ref().map(|wait| wait.next.min(wait.until));
        let tasks = self.tasks.as_ref().map(|wait| wait.next);
        let park = self.park.as_ref().map(|park| park.next);
        [self.delay, park, children, tasks].into_iter().flatten().min()
    }

    pub(super) fn delay_is_over(&mut self, now: Instant) -> bool {
        self.delay.take_if(|at| *at <= now).is_some()
    }

    pub(super) fn children_are_due(&self, now: Instant) -> bool {
        self.children.as_ref().is_some_and(|wait| wait.next.min(wait.until) <= now)
    }

    pub(super) fn tasks_are_due(&self, now: Instant) -> bool {
        self.tasks.as_ref().is_some_and(|wait| wait.next <= now)
    }

    /// Everything later by `held`: the time while the process was stopped does not count.
    pub(super) fn shift(&mut self, held: Duration) {
        if let Some(at) = &mut self.delay {
            *at += held;
        }
        if let Some(wait) = &mut self.children {
            wait.since += held;
            wait.until += held;
        }
    }
}

impl Supervisor<'_> {
    pub(super) fn look_for_children(&mut self) -> Result<(), SuperviseError> {
        let running = self.store.running_children(&self.id)?;
        let is_one_starting = self.children.is_one_starting(&running);
        let left: Vec<LoopId> = running.iter().map(|row| row.view.id.clone()).collect();
        let Some(wait) = &mut self.timers.children else { return Ok(()) };
        let now = Instant::now();
        if is_one_starting && now < wait.until {
            wait.next = now + STARTING;
            return Ok(());
        }
        if wait.until <= now {
            self.children.end_starting(&running);
        }
        if left.is_empty() || wait.until <= now {
            // Zero means that there was nothing to wait for, so a wait is at least one millisecond.
            let waited = if wait.announced || !left.is_empty() {
                Millis::from(now - wait.since).max(Millis(1))
            } else {
                Millis(0)
            };
            self.timers.children = None;
            self.inbox.push_back(Input::ChildrenWaitedFor { left, waited }.into());
            return Ok(());
        }
        wait.next = now + wait.every;
        if !wait.announced {
            wait.announced = true;
            self.inbox.push_back(Input::ChildrenFound(left).into());
        }
        Ok(())
    }

    pub(super) fn look_for_tasks(&mut self) -> Result<(), SuperviseError> {
        let Some(wait) = &mut self.timers.tasks else { return Ok(()) };
        let mut missing = Vec::new();
        for task in &wait.tasks {
            let done_file = self.home.task_folder(&self.started.project, task).join("DONE");
            if !self.store.is_done(&self.started.project, task)? && !done_file.is_file() {
                missing.push(task.clone());
            }
        }
        wait.next = Instant::now() + wait.every;
        if wait.missing.as_ref() != Some(&missing) {
            wait.missing = Some(missing.clone());
            if missing.is_empty() {
                self.timers.tasks = None;
            } else {
                let names: Vec<&str> = missing.iter().map(TaskId::as_str).collect();
                let draft = dacapo_core::bus::Draft {
                    kind: "INFO".to_owned(),
                    project: self.started.project.to_string(),
                    task: Some(self.started.task.to_string()),
                    loop_id: Some(self.id.to_string()),
                    body: format!("waiting for tasks: {}", names.join(", ")),
                };
                let _ = self.task_bus.post(&[draft], Timestamp::now());
            }
            self.inbox.push_back(Input::TasksLookedAt { missing }.into());
        }
        Ok(())
    }
}
