//! What the loops on this machine share: providers at their limit, and what was spent.

use std::{collections::BTreeMap, time::Duration};

use dacapo_core::{
    event::{Envelope, LoopEvent},
    ids::{LoopId, ProjectId, RunId, fingerprint},
    limits::Spent,
    loop_machine::{SharedBudget, SharedSpend},
};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

use super::{Store, StoreError, StreamKey};
use crate::secrets::secrets;

/// How long one loop may take to find out whether a provider answers again, before another one tries.
const PROBE: Duration = Duration::from_secs(120);

/// How often the other loops look whether the provider answers again.
const LOOK: Duration = Duration::from_secs(5);

/// Providers that may not be asked: until when, and why.
pub(crate) type Closed = BTreeMap<String, (Timestamp, String)>;

/// Until when a loop that asks at `now` keeps others from asking.
fn end_of_probe(now: Timestamp) -> i64 {
    now.as_microsecond() + i64::try_from(PROBE.as_micros()).unwrap_or(i64::MAX)
}

impl Store {
    /// The `providers`, in order, that the loop `id` may not ask now, with until when and why, up to the first that
    /// it may ask. And that first one, if `id` is the loop that finds out whether the provider answers again.
    ///
    /// When a limit ends, one loop asks the provider first and the others wait for the result (fault E8).
    pub fn closed_providers(
        &mut self,
        id: &LoopId,
        providers: &[&str],
        now: Timestamp,
    ) -> Result<(Closed, Option<String>), StoreError> {
        self.transact(|transaction| {
            let mut closed = Closed::new();
            for provider in providers {
                let found: Option<(i64, String, Option<String>, Option<i64>)> = transaction
                    .prepare_cached("SELECT until, why, prober, probe_until FROM providers WHERE name = ?1")?
                    .query_row([provider], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
                    .optional()?;
                let Some((until, why, prober, probe_until)) = found else { return Ok((closed, None)) };
                if until > now.as_microsecond() {
                    closed.insert((*provider).to_owned(), (instant(until, now), why));
                    continue;
                }
                let is_probed = prober.is_some_and(|other| other != id.as_str())
                    && probe_until.is_some_and(|until| until > now.as_microsecond());
                if !is_probed {
                    transaction
                        .prepare_cached("UPDATE providers SET prober = ?2, probe_until = ?3 WHERE name = ?1")?
                        .execute(params![provider, id.as_str(), end_of_probe(now)])?;
                    return Ok((closed, Some((*provider).to_owned())));
                }
                // Each loop looks at another moment.
                let own = Duration::from_millis(fingerprint(id.as_str().as_bytes()) % 3000);
                let next = now.checked_add(LOOK + own).unwrap_or(now);
                closed.insert((*provider).to_owned(), (next, format!("another loop asks first; {why}")));
            }
            Ok((closed, None))
        })
    }

    /// Tells every loop that a provider is at its limit.
    pub fn close_provider(&mut self, provider: &str, until: Timestamp, why: &str) -> Result<(), StoreError> {
        self.transact(|transaction| {
            transaction.execute(
                "INSERT INTO providers (name, until, why) VALUES (?1, ?2, ?3)
                 ON CONFLICT (name) DO UPDATE SET until = ?2, why = ?3, prober = NULL, probe_until = NULL",
                params![provider, until.as_microsecond(), secrets().redact(why)],
            )?;
            Ok(())
        })
    }

    /// Tells every loop that a provider answers again.
    pub fn open_provider(&mut self, provider: &str) -> Result<(), StoreError> {
        self.transact(|transaction| {
            transaction.execute("DELETE FROM providers WHERE name = ?1", [provider])?;
            Ok(())
        })
    }

    /// Lets the loop `id` find out now whether a provider answers that is at its limit, whatever time was told.
    pub fn ask_provider(&mut self, id: &LoopId, provider: &str, now: Timestamp) -> Result<(), StoreError> {
        self.transact(|transaction| {
            transaction.execute(
                "UPDATE providers SET until = min(until, ?2), prober = ?3, probe_until = ?4 WHERE name = ?1",
                params![provider, now.as_microsecond(), id.as_str(), end_of_probe(now)],
            )?;
            Ok(())
        })
    }

    /// Whether one of the `providers` is not known to be at its limit. Of none at all that is false.
    pub fn is_any_open(&self, providers: &[String]) -> Result<bool, StoreError> {
        for provider in providers {
            let closed = self.query("SELECT 1 FROM providers WHERE name = ?1", [provider], |_| Ok(()))?;
            if closed.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lets another loop find out whether a provider answers, because `id` does not ask it any more.
    pub fn release_probe(&mut self, id: &LoopId) -> Result<(), StoreError> {
        self.transact(|transaction| {
            transaction.execute(
                "UPDATE providers SET prober = NULL, probe_until = NULL WHERE prober = ?1",
                [id.as_str()],
            )?;
            Ok(())
        })
    }

    /// What loops took out of the budgets that they share: since `midnight`, in one project and in one run. One agent
    /// process is left out.
    pub fn shared_spend(
        &self,
        midnight: Timestamp,
        project: &ProjectId,
        run: Option<&RunId>,
        except: Option<(StreamKey, u32)>,
    ) -> Result<SharedSpend, StoreError> {
        Ok(SharedSpend {
            day: self.shared_budget(
                "s.at >= ?3",
                params![key(except), attempt(except), midnight.as_microsecond()],
            )?,
            project: self
                .shared_budget("s.project = ?3", params![key(except), attempt(except), project.as_str()])?,
            run: match run {
                Some(run) => {
                    self.shared_budget("s.run = ?3", params![key(except), attempt(except), run.as_str()])?
                }
                None => SharedBudget::default(),
            },
        })
    }

    fn shared_budget(&self, whose: &str, params: impl rusqlite::Params) -> Result<SharedBudget, StoreError> {
        // What a loop has set aside counts only while the loop runs.
        let sql = format!(
            "SELECT TOTAL(s.cost), TOTAL(s.tokens),
                    TOTAL(s.reserved_cost) FILTER (WHERE l.over = 0),
                    TOTAL(s.reserved_tokens) FILTER (WHERE l.over = 0)
             FROM spend s JOIN streams l ON l.key = s.stream
             WHERE NOT (s.stream = ?1 AND s.attempt = ?2) AND {whose}"
        );
        let rows = self.query(&sql, params, |row| {
            let spent = |cost, tokens| {
                // A sum of tokens is far below 2^53, so a float holds it exactly.
                let tokens = row.get::<_, f64>(tokens)? as u64;
                Ok::<_, rusqlite::Error>(Spent { cost_usd: row.get(cost)?, tokens })
            };
            Ok(SharedBudget { spent: spent(0, 1)?, reserved: spent(2, 3)? })
        })?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }
}

fn key(except: Option<(StreamKey, u32)>) -> i64 {
    except.map_or(-1, |(key, _)| key.0)
}

fn attempt(except: Option<(StreamKey, u32)>) -> u32 {
    except.map_or(0, |(_, attempt)| attempt)
}

/// Updates the table that budgets are judged by, in the transaction that records the events.
pub(super) fn take_spend(
    transaction: &Transaction<'_>,
    key: i64,
    project: &ProjectId,
    envelope: &Envelope,
) -> Result<(), StoreError> {
    let give_back = |attempts: &str, attempt: u32| {
        let sql = format!(
            "UPDATE spend SET reserved_cost = 0, reserved_tokens = 0 WHERE stream = ?1 AND attempt {attempts} ?2"
        );
        transaction.prepare_cached(&sql)?.execute(params![key, attempt])
    };
    let (attempt, spent, reserved) = match &envelope.event {
        LoopEvent::AgentStarted { attempt, reserve: Some(reserve), .. } => {
            // The reserve of an earlier attempt that a crash cut short is given back.
            give_back("<", *attempt)?;
            (attempt, Spent::default(), *reserve)
        }
        LoopEvent::UsageSeen { attempt, spend, .. } => (attempt, spend.spent(), Spent::default()),
        LoopEvent::AgentExited { attempt, exit, .. } if exit.usage.is_some() || exit.cost_usd.is_some() => {
            (attempt, exit.spend().spent(), Spent::default())
        }
        LoopEvent::AgentExited { attempt, .. } => {
            give_back("=", *attempt)?;
            return Ok(());
        }
        _ => return Ok(()),
    };
    transaction
        .prepare_cached(
            "INSERT INTO spend (stream, attempt, project, at, cost, tokens, reserved_cost, reserved_tokens, run)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, (SELECT run FROM streams WHERE key = ?1))
             ON CONFLICT (stream, attempt) DO UPDATE
             SET at = ?4, cost = ?5, tokens = ?6, reserved_cost = ?7, reserved_tokens = ?8",
        )?
        .execute(params![
            key,
            attempt,
            project.as_str(),
            envelope.at.as_microsecond(),
            spent.cost_usd,
            spent.tokens.cast_signed(),
            reserved.cost_usd,
            reserved.tokens.cast_signed(),
        ])?;
    Ok(())
}

fn instant(micros: i64, otherwise: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    fn closed(store: &mut Store, id: &str, now: i64) -> Option<i64> {
        let (found, _) =
            store.closed_providers(&id.parse().unwrap(), &["anthropic", "openai"], at(now)).unwrap();
        assert!(!found.contains_key("openai"));
        found.get("anthropic").map(|(until, _)| until.as_second())
    }

    #[test]
    fn what_was_set_aside_is_given_back_whatever_becomes_of_the_agent() {
        // fault J7: reserves that are not given back would use up a day's budget in an hour of outages.
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("dacapo.db")).unwrap();
        let columns =
            "id, kind, project, task, workspace, head, over, view, owner_pid, owner_start, owner_boot,
             owner_host, epoch, lease_until";
        let row = format!(
            "INSERT INTO streams (key, run, {columns})
             VALUES (1, 'r', 'l', 'loop', 'p', 't', '/w', 0, 0, '', 1, 1, '', '', 1, 0)"
        );
        store.db.execute(&row, []).unwrap();
        let (project, run): (ProjectId, RunId) = ("p".parse().unwrap(), "r".parse().unwrap());
        let marks = r#""output":{"stdout":0,"stderr":0,"prompt":0,"gates":0}"#;
        let start = |attempt: u32| {
            format!(
                r#"{{"type":"agent_started","iteration":1,"attempt":{attempt},"agent":"a",
                    "reserve":{{"cost_usd":2.0,"tokens":9}},{marks}}}"#
            )
        };
        let exit = |attempt: u32| {
            format!(
                r#"{{"type":"agent_exited","iteration":1,"attempt":{attempt},"exit_code":1,"signal":null,
                    "duration_ms":1,"outcome":"overload","stdout_bytes":0,"stderr_bytes":0,"leftovers":0,
                    "session":null,"usage":null,"cost_usd":null,"reset_at":null,{marks}}}"#
            )
        };
        let mut reserved = |event: String| {
            let event = serde_json::from_str(&event).unwrap();
            let envelope = Envelope { seq: 1, at: at(10), loop_id: "l".parse().unwrap(), event };
            store.transact(|transaction| take_spend(transaction, 1, &project, &envelope)).unwrap();
            let shared = store.shared_spend(at(0), &project, Some(&run), None).unwrap();
            assert_eq!((shared.day, shared.day), (shared.project, shared.run));
            let other = store.shared_spend(at(0), &project, Some(&"other".parse().unwrap()), None).unwrap();
            assert_eq!(
                (other.day, other.run),
                (shared.day, SharedBudget::default()),
                "another run has its own"
            );
            (shared.day.reserved.cost_usd, shared.day.spent.cost_usd)
        };
        assert_eq!(reserved(start(1)), (2.0, 0.0));
        assert_eq!(reserved(exit(1)), (0.0, 0.0), "it reported nothing");
        assert_eq!(reserved(start(2)), (2.0, 0.0));
        assert_eq!(reserved(start(3)), (2.0, 0.0), "the one before was cut short");
    }

    #[test]
    fn nobody_holds_up_a_provider_it_does_not_ask() {
        // fault E8
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("dacapo.db")).unwrap();
        store.close_provider("openai", at(100), "limit").unwrap();
        let mut look = |id: &str, providers: &[&str]| {
            store.closed_providers(&id.parse().unwrap(), providers, at(200)).unwrap()
        };
        assert_eq!(
            look("one", &["anthropic", "openai"]),
            (Closed::new(), None),
            "its own agent can be asked"
        );
        assert_eq!(look("two", &["openai"]), (Closed::new(), Some("openai".into())));
    }

    #[test]
    fn while_one_loop_asks_before_the_time_the_others_wait_for_its_answer() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("dacapo.db")).unwrap();
        let accounts = ["anthropic".to_owned(), "openai".to_owned()];
        store.ask_provider(&"one".parse().unwrap(), "anthropic", at(10)).unwrap();
        assert_eq!(closed(&mut store, "two", 10), None, "no limit is known");
        for account in &accounts {
            store.close_provider(account, at(1000), "5-hour limit").unwrap();
        }
        assert!(!store.is_any_open(&accounts).unwrap());
        store.ask_provider(&"one".parse().unwrap(), "anthropic", at(20)).unwrap();
        let (one, two) = ("one".parse().unwrap(), "two".parse().unwrap());
        let asks = store.closed_providers(&one, &["anthropic"], at(20)).unwrap();
        assert_eq!(asks, (Closed::new(), Some("anthropic".to_owned())));
        let (waits, asks) = store.closed_providers(&two, &["anthropic"], at(21)).unwrap();
        assert_eq!((waits.len(), asks), (1, None));
        assert!(!store.is_any_open(&accounts).unwrap(), "there is no answer yet");
        store.open_provider("anthropic").unwrap();
        assert!(store.is_any_open(&accounts).unwrap());
        assert!(!store.is_any_open(&[]).unwrap());
    }

    #[test]
    fn when_a_limit_ends_one_loop_asks_first() {
        // fault E8
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("dacapo.db")).unwrap();
        assert_eq!(closed(&mut store, "one", 0), None);
        store.close_provider("anthropic", at(100), "5-hour limit").unwrap();
        assert_eq!(closed(&mut store, "one", 50), Some(100));
        assert_eq!(closed(&mut store, "two", 99), Some(100));
        assert_eq!(closed(&mut store, "two", 100), None, "the first to look asks");
        let next = closed(&mut store, "one", 101);
        assert!(next.is_some_and(|until| (105..110).contains(&until)), "the others wait for it: {next:?}");
        assert_eq!(closed(&mut store, "two", 150), None, "it may ask again");
        assert_eq!(closed(&mut store, "one", 300), None, "it took too long, or died");
        assert!(closed(&mut store, "two", 301).is_some());
        store.release_probe(&"one".parse().unwrap()).unwrap();
        assert_eq!(closed(&mut store, "two", 302), None, "the one before will not ask");
        store.open_provider("anthropic").unwrap();
        assert_eq!((closed(&mut store, "one", 301), closed(&mut store, "two", 301)), (None, None));
    }
}
