//! Random runs: graphs, ends and orders of all kinds, and what must hold anyway.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{
    decide_tests::{Sim, started},
    *,
};
use crate::event::{MergeMode, UnitEnd};

/// What happens next, in a world that is asked again and again.
#[derive(Clone, Debug)]
enum Chance {
    /// A job says that it went well, and ends.
    Succeeds(usize),
    /// It says so, and lives on.
    Speaks(usize),
    /// It ends without a word.
    Dies(usize),
    /// It says that it failed.
    Fails(usize, UnitEnd),
    /// The merged tree was red.
    SentBack(usize),
    /// It prints what is no message.
    Garbles(usize),
    Stop(StopCause),
    GraceOver,
    TimeOver,
}

fn chance() -> impl Strategy<Value = Chance> {
    let end = prop_oneof![
        Just(UnitEnd::Failed),
        Just(UnitEnd::Budget),
        Just(UnitEnd::Person),
        Just(UnitEnd::Auth),
        Just(UnitEnd::Stopped)
    ];
    prop_oneof![
        12 => any::<usize>().prop_map(Chance::Succeeds),
        4 => any::<usize>().prop_map(Chance::Speaks),
        1 => any::<usize>().prop_map(Chance::Dies),
        1 => (any::<usize>(), end).prop_map(|(n, end)| Chance::Fails(n, end)),
        3 => any::<usize>().prop_map(Chance::SentBack),
        1 => any::<usize>().prop_map(Chance::Garbles),
        1 => prop_oneof![Just(StopCause::Interrupt), Just(StopCause::Terminate)].prop_map(Chance::Stop),
        1 => Just(Chance::GraceOver),
        1 => Just(Chance::TimeOver),
    ]
}

fn plan() -> impl Strategy<Value = RunStarted> {
    let merge = prop_oneof![Just(MergeMode::Merge), Just(MergeMode::Leave), Just(MergeMode::PullRequest)];
    (prop::collection::vec(prop::collection::vec(any::<usize>(), 0..3), 0..9), 1..4_u32, merge).prop_map(
        |(edges, parallel, merge)| {
            let mut plan = started(&[], parallel, merge);
            for (n, edges) in edges.iter().enumerate() {
                // Only backwards: no circles.
                let first = edges.iter().filter(|_| n > 0).map(|edge| format!("u{}", edge % n.max(1)));
                plan.units.push(crate::event::PlannedUnit {
                    unit: format!("u{n}").parse().unwrap(),
                    depends_on: first.map(|name| name.parse().unwrap()).collect(),
                    tasks: Vec::new(),
                    complete: Vec::new(),
                });
            }
            // The order of a plan need not be the order of its dependencies.
            plan.units.reverse();
            plan
        },
    )
}

/// A world of processes around a run.
struct World {
    sim: Sim,
    plan: RunStarted,
    jobs: BTreeMap<UnitId, Job>,
    good: BTreeSet<UnitId>,
}

impl World {
    fn new(plan: &RunStarted) -> Self {
        let sim = Sim { state: RunState::default(), journal: Vec::new() };
        let mut world = Self { sim, plan: plan.clone(), jobs: BTreeMap::new(), good: BTreeSet::new() };
        world.feed(RunInput::Begin(Box::new(plan.clone())));
        world
    }

    fn feed(&mut self, input: RunInput) {
        let at = self.sim.journal.len();
        let was_dry = self.sim.state.dry.is_some() || self.sim.state.stopping.is_some();
        let effects = self.sim.feed_raw(input);
        for (unit, event) in &self.sim.journal[at..] {
            match event {
                RunEvent::UnitJobEnded => assert!(self.jobs.remove(unit.as_ref().unwrap()).is_some()),
                RunEvent::UnitMerged { .. } => {
                    self.good.insert(unit.clone().unwrap());
                }
                RunEvent::UnitCompleted { .. } if self.plan.merge == MergeMode::Leave => {
                    self.good.insert(unit.clone().unwrap());
                }
                _ => {}
            }
        }
        for (unit, standing) in self.sim.state.standings() {
            if standing == UnitStanding::Published {
                self.good.insert(unit.clone());
            }
        }
        for effect in effects {
            if let RunEffect::StartJob { unit, job, slot } = effect {
                assert!(!was_dry, "nothing new is begun");
                assert_eq!(slot > 0, matches!(job, Job::Work { .. }));
                assert!(slot <= self.plan.parallel);
                let plan = self.plan.units.iter().find(|plan| plan.unit == unit).unwrap();
                assert!(plan.depends_on.iter().all(|first| self.good.contains(first)), "{unit} is too early");
                assert!(self.jobs.insert(unit, job).is_none(), "two processes for one unit");
            }
        }
        let work = self.jobs.values().filter(|job| matches!(job, Job::Work { .. })).count();
        assert!(work <= usize::try_from(self.plan.parallel).unwrap());
        assert!(self.jobs.len() - work <= 1, "two merges at once");
        let busy: Vec<UnitId> = self.sim.state.busy().cloned().collect();
        assert_eq!(busy.iter().collect::<BTreeSet<_>>(), self.jobs.keys().collect::<BTreeSet<_>>());
        assert_eq!(
            self.sim.state.over().is_some(),
            self.jobs.is_empty(),
            "a run is over when no job is left"
        );
    }

    fn success(&self, unit: &UnitId) -> RunEvent {
        match self.jobs.get(unit) {
            Some(Job::Work { .. }) | None => RunEvent::UnitCompleted { commit: "c".to_owned() },
            Some(Job::Merge) => {
                RunEvent::UnitMerged { target: "main".to_owned(), commit: "m".to_owned(), left_on: None }
            }
            Some(Job::Publish) => RunEvent::PrCreated { url: "u".to_owned() },
        }
    }

    fn one(&self, n: usize) -> Option<UnitId> {
        let all: Vec<&UnitId> = self.jobs.keys().collect();
        (!all.is_empty()).then(|| all[n % all.len()].clone())
    }

    fn happen(&mut self, chance: &Chance) {
        let tell = |world: &mut Self, n: usize, event: &dyn Fn(&Self, &UnitId) -> RunEvent, ends: bool| {
            let Some(unit) = world.one(n) else { return };
            let event = event(world, &unit);
            world.feed(RunInput::Told { unit: unit.clone(), event });
            if ends {
                world.feed(RunInput::JobEnded { unit, detail: "exit 1".to_owned() });
            }
        };
        let no_good = |reason| RunEvent::UnitFailed { reason, detail: "no".to_owned(), loop_id: None };
        match chance {
            Chance::Succeeds(n) => tell(self, *n, &Self::success, true),
            Chance::Speaks(n) => tell(self, *n, &Self::success, false),
            Chance::Fails(n, reason) => tell(self, *n, &|_, _| no_good(*reason), true),
            Chance::SentBack(n) => {
                tell(self, *n, &|_, _| RunEvent::UnitSentBack { detail: "red".to_owned() }, false);
            }
            Chance::Dies(n) => {
                if let Some(unit) = self.one(*n) {
                    self.feed(RunInput::JobEnded { unit, detail: "exit 1".to_owned() });
                }
            }
            Chance::Garbles(n) => {
                if let Some(unit) = self.one(*n) {
                    self.feed(RunInput::JobGarbled { unit, detail: "oops".to_owned() });
                }
            }
            Chance::Stop(cause) => self.feed(RunInput::Stop(*cause)),
            Chance::GraceOver => self.feed(RunInput::GraceOver),
            Chance::TimeOver => self.feed(RunInput::TimeOver),
        }
    }
}

/// Every unit has come to exactly one end, and the run's agrees with them.
fn audit(plan: &RunStarted, state: &RunState, journal: &[(Option<UnitId>, RunEvent)]) {
    let over = state.over().expect("a run ends");
    let mut ends: BTreeMap<&UnitId, u32> = BTreeMap::new();
    for (unit, event) in journal {
        let is_end = match event {
            RunEvent::UnitMerged { .. } | RunEvent::UnitFailed { .. } | RunEvent::UnitBlocked { .. } => true,
            RunEvent::UnitCompleted { .. } => plan.merge == MergeMode::Leave,
            _ => false,
        };
        if let Some(unit) = unit.as_ref().filter(|_| is_end) {
            *ends.entry(unit).or_default() += 1;
        }
    }
    for (unit, standing) in state.standings() {
        let expected = u32::from(standing != UnitStanding::Published);
        assert_eq!(ends.get(unit).copied().unwrap_or(0), expected, "{unit} {standing:?}");
    }
    let is_good = state.standings().all(|(_, standing)| {
        matches!(standing, UnitStanding::Merged | UnitStanding::Published)
            || (standing == UnitStanding::Completed && plan.merge == MergeMode::Leave)
    });
    assert_eq!(over.exit_code == 0, is_good, "{over:?}");
    let is_last =
        |event: &RunEvent| matches!(event, RunEvent::OrchCompleted { .. } | RunEvent::OrchFailed { .. });
    assert_eq!(journal.iter().filter(|(_, event)| is_last(event)).count(), 1);
    assert!(journal.last().is_some_and(|(_, event)| is_last(event)), "nothing comes after the end");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_runs_keep_the_rules(plan in plan(), chances in prop::collection::vec(chance(), 0..60)) {
        // req 55, req 56, fault H11: in any order of events, and wherever the run is cut off.
        let mut world = World::new(&plan);
        for chance in &chances {
            world.happen(chance);
        }
        for n in 0..1000 {
            world.happen(&Chance::Succeeds(n));
        }
        audit(&plan, &world.sim.state, &world.sim.journal);

        let (mut state, mut restored) = (RunState::default(), RunState::default());
        let mut cut = Vec::new();
        for (unit, event) in &world.sim.journal {
            state.apply(unit.as_ref(), event);
            // A state that was stored before this event and read back goes on as the fold does.
            restored.apply(unit.as_ref(), event);
            prop_assert_eq!(&restored, &state);
            restored = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
            cut.push((unit.clone(), event.clone()));
            // Its scheduler may have died here: the process that finds that brings the run to an end.
            let mut found = Sim { state: state.clone(), journal: cut.clone() };
            let effects = found.feed_raw(RunInput::OwnerDied);
            prop_assert_eq!(effects, []);
            audit(&plan, &found.state, &found.journal);
        }
        prop_assert_eq!(&state, &world.sim.state, "the state is a fold of the journal");
    }
}
