//! Costs over time: what was spent, in equal steps, and where it went.

use std::collections::{HashMap, HashSet};

use jiff::{RoundMode, SignedDuration, Timestamp, ToSpan as _, Unit, Zoned, ZonedRound};
use serde::Serialize;

use super::clean;
use crate::ids::ProjectId;

/// What one agent process took, as the journal keeps it for budgets.
#[derive(Clone, Debug, PartialEq)]
pub struct SpendRow {
    /// When that was last known to grow.
    pub at: Timestamp,
    pub cost_usd: f64,
    pub tokens: u64,
    pub project: String,
    /// The loop, and the task that it works on.
    pub loop_id: String,
    pub task: String,
    pub run: Option<String>,
}

/// One iteration, as the journal has its beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct IterationRow {
    pub at: Timestamp,
    pub number: u32,
    pub project: String,
    /// The loop, and the task that it works on.
    pub loop_id: String,
    pub task: String,
}

/// What was spent in one step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CostPoint {
    /// When the step begins.
    pub at: Timestamp,
    pub cost_usd: f64,
    pub tokens: u64,
    /// How many iterations began in it. One that a resumed loop took up again counts once.
    pub iterations: u32,
}

/// What one project or task took of the whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostShare {
    pub name: String,
    pub cost_usd: f64,
    pub tokens: u64,
    pub iterations: u32,
}

/// What was spent between two moments.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Costs {
    pub since: Timestamp,
    pub until: Timestamp,
    pub step_ms: u64,
    /// One for each step, those without any spend too.
    pub points: Vec<CostPoint>,
    /// The most expensive first.
    pub projects: Vec<CostShare>,
    pub tasks: Vec<CostShare>,
    pub cost_usd: f64,
    pub tokens: u64,
    pub iterations: u32,
}

/// The most steps that a series has.
const MOST: usize = 2000;

/// What was spent from `since` to `until`, and which iterations began then, in steps of `step_ms`. Rows outside of that time do
/// not count.
pub fn costs(
    rows: impl IntoIterator<Item = SpendRow>,
    iterations: impl IntoIterator<Item = IterationRow>,
    (since, until): (Timestamp, Timestamp),
    step_ms: u64,
) -> Costs {
    let from = since.as_millisecond();
    let span = u64::try_from(until.as_millisecond().saturating_sub(from)).unwrap_or(0);
    let step_ms = step_ms.max(1).max(span / MOST as u64 + 1);
    let steps = usize::try_from(span.div_ceil(step_ms)).unwrap_or(MOST).max(1);
    let point = |step: usize| {
        let at = i64::try_from(step as u64 * step_ms).unwrap_or(i64::MAX).saturating_add(from);
        CostPoint { at: Timestamp::from_millisecond(at).unwrap_or(since), ..CostPoint::default() }
    };
    let mut points: Vec<CostPoint> = (0..steps).map(point).collect();
    let (mut projects, mut tasks) = (HashMap::new(), HashMap::new());
    let mut all = CostPoint::default();
    let step_of = |at: Timestamp| {
        let after = u64::try_from(at.as_millisecond().saturating_sub(from)).ok()?;
        usize::try_from(after / step_ms).ok().filter(|step| *step < steps && at <= until)
    };
    for row in rows {
        let Some(point) = step_of(row.at).and_then(|step| points.get_mut(step)) else { continue };
        for sum in [
            point,
            &mut all,
            projects.entry(row.project.clone()).or_insert_with(CostPoint::default),
            tasks.entry(row.task.clone()).or_insert_with(CostPoint::default),
        ] {
            sum.cost_usd += row.cost_usd;
            sum.tokens = sum.tokens.saturating_add(row.tokens);
        }
    }
    let mut counted = HashSet::new();
    for row in iterations {
        let Some(point) = step_of(row.at).and_then(|step| points.get_mut(step)) else { continue };
        if !counted.insert((row.loop_id, row.number)) {
            continue;
        }
        for sum in [
            point,
            &mut all,
            projects.entry(row.project).or_insert_with(CostPoint::default),
            tasks.entry(row.task).or_insert_with(CostPoint::default),
        ] {
            sum.iterations += 1;
        }
    }
    Costs {
        since,
        until,
        step_ms,
        points,
        projects: named(shares(projects)),
        tasks: shares(tasks),
        cost_usd: all.cost_usd,
        tokens: all.tokens,
        iterations: all.iterations,
    }
}

/// When the first step begins, so that steps are whole hours, days or weeks of the calendar and the last one holds `now`.
pub fn first_step(now: &Zoned, hours: i64, step_hours: i64) -> Timestamp {
    let last = match step_hours {
        ..24 => now.round(ZonedRound::new().smallest(Unit::Hour).mode(RoundMode::Floor)),
        24 => now.start_of_day(),
        _ => now.start_of_day().and_then(|day| day.checked_sub(6.days())),
    };
    let steps = (hours + step_hours - 1) / step_hours;
    let first = last
        .and_then(|last| last.timestamp().checked_sub(SignedDuration::from_hours((steps - 1) * step_hours)));
    first.unwrap_or(Timestamp::MIN)
}

/// Projects by the names that people know, where two of them do not share one.
fn named(mut shares: Vec<CostShare>) -> Vec<CostShare> {
    let name = |share: &CostShare| {
        share.name.parse::<ProjectId>().map_or_else(|_| share.name.clone(), |id| id.name().to_owned())
    };
    let mut times: HashMap<String, usize> = HashMap::new();
    for share in &shares {
        *times.entry(name(share)).or_default() += 1;
    }
    for share in &mut shares {
        let short = name(share);
        if times.get(&short) == Some(&1) {
            share.name = short;
        }
    }
    shares
}

fn shares(sums: HashMap<String, CostPoint>) -> Vec<CostShare> {
    let share = |(name, sum): (String, CostPoint)| CostShare {
        name: clean(&name),
        cost_usd: sum.cost_usd,
        tokens: sum.tokens,
        iterations: sum.iterations,
    };
    let mut shares: Vec<CostShare> = sums.into_iter().map(share).collect();
    shares.sort_by(|a, b| {
        b.cost_usd.total_cmp(&a.cost_usd).then(b.tokens.cmp(&a.tokens)).then_with(|| a.name.cmp(&b.name))
    });
    shares
}
