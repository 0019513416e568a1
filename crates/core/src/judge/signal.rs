//! Facts about one iteration, and the signals they are.

use serde::{Deserialize, Serialize};

use super::promise::MissReason;
use crate::{
    item::{ItemFacts, ItemKey},
    policy::Policy,
};

/// How many of the things that are no claim are named.
const MISSES_SHOWN: usize = 3;

/// What was observed when an agent had ended, or before one starts. Gathered by the engine, judged here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The exit code, if an agent ran and exited by itself.
    pub exit_code: Option<i32>,
    /// The promise the agent wrote, as it wrote it.
    pub promise: Option<String>,
    /// A tag that did not count.
    pub near_miss: Option<MissReason>,
    /// Why the agent says that it cannot do what it was asked.
    pub blocked: Option<String>,
    /// A `<blocked>` tag that did not count.
    pub blocked_near_miss: Option<MissReason>,
    /// The line by which the agent refuses the work that it was asked to judge.
    pub refusal: Option<String>,
    /// What stands at `$TASK_FOLDER/DONE`.
    pub done: DoneFact,
    /// Whether `$TASK_FOLDER/WAIT_WITHOUT_RESTART` is there.
    pub wait_marker: bool,
    /// Messages posted to the task's bus since the iteration began: type and body.
    pub messages: Vec<(String, String)>,
    /// What the marks of items say. They are not read before the first agent starts, because no agent has worked on them.
    pub items: ItemFacts,
}

/// What stands at `$TASK_FOLDER/DONE`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DoneFact {
    #[default]
    Absent,
    /// A regular file. Its content is not read.
    File,
    Directory,
    /// A link, FIFO, socket or device: its name.
    NotAFile(&'static str),
    /// It cannot be looked at: the system's words.
    Unreadable(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "signal", content = "detail", rename_all = "snake_case")]
pub enum Signal {
    /// The promise tag, as the agent wrote it.
    Promise(String),
    DoneFile,
    /// Something at the DONE file's place that cannot be one.
    MalformedDone(String),
    /// All `--until-cmd` commands exited 0.
    UntilCommand,
    /// The mark of this item says that it is done.
    #[serde(rename = "task")]
    Item(ItemKey),
    /// Marks say something, and it cannot be a claim: why.
    #[serde(rename = "malformed_task")]
    MalformedItem(String),
    /// dacapo itself wants the gates to decide.
    OwnClaim,
    /// The exit code that means: do not restart me.
    WaitExitCode(i32),
    /// The file that means: do not restart me.
    WaitMarker,
    /// The bus message that means: do not restart me.
    WaitMessage(String),
    /// A question to a person.
    Question(String),
    /// The agent cannot do what it was asked: why.
    Blocked(String),
    /// The agent refuses the work that it was asked to judge: in these words.
    Refusal(String),
    /// A promise tag that did not count.
    NearMiss(MissReason),
    /// A `<blocked>` tag that did not count.
    BlockedNearMiss(MissReason),
}

impl Signal {
    /// Whether it says: done.
    pub fn is_claim(&self) -> bool {
        matches!(
            self,
            Self::Promise(_)
                | Self::DoneFile
                | Self::MalformedDone(_)
                | Self::UntilCommand
                | Self::Item(_)
                | Self::MalformedItem(_)
                | Self::OwnClaim
        )
    }

    /// Whether it says so in a form that cannot be believed.
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::MalformedDone(_) | Self::MalformedItem(_))
    }

    /// A word or two for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Promise(_) => "promise",
            Self::DoneFile => "DONE file",
            Self::MalformedDone(_) => "malformed DONE",
            Self::UntilCommand => "until command",
            Self::Item(_) => "mark",
            Self::MalformedItem(_) => "malformed mark",
            Self::OwnClaim => "dacapo itself",
            Self::WaitExitCode(_) => "wait exit code",
            Self::WaitMarker => "WAIT_WITHOUT_RESTART",
            Self::WaitMessage(_) => "wait message",
            Self::Question(_) => "question",
            Self::Blocked(_) => "blocked",
            Self::Refusal(_) => "refusal",
            Self::NearMiss(_) => "near miss",
            Self::BlockedNearMiss(_) => "near miss of a blocked tag",
        }
    }
}

/// Why a look at the DONE file fails the loop, in the restart preset's words.
pub fn done_error(done: &DoneFact) -> Option<String> {
    match done {
        DoneFact::Directory => Some("DONE is a directory".to_owned()),
        DoneFact::Unreadable(why) => Some(format!("stat DONE: {why}")),
        DoneFact::Absent | DoneFact::File | DoneFact::NotAFile(_) => None,
    }
}

/// The signals that `facts` are under `policy`, claims first.
pub fn signals(facts: &Facts, policy: &Policy) -> Vec<Signal> {
    let mut signals = Vec::new();
    let hears_promises = policy.hears_promises();
    let done = facts.items.done.iter().copied();
    let mut claimed: Vec<ItemKey> = done.filter(|key| policy.item(*key).is_some()).collect();
    claimed.sort_unstable();
    if claimed.is_empty() {
        signals.extend(missed(&facts.items).map(Signal::MalformedItem));
    }
    signals.extend(claimed.into_iter().map(Signal::Item));
    signals.extend(facts.promise.clone().filter(|_| hears_promises).map(Signal::Promise));
    if policy.claims.done_file && hears_promises {
        match &facts.done {
            DoneFact::File => signals.push(Signal::DoneFile),
            DoneFact::NotAFile(kind) => signals.push(Signal::MalformedDone((*kind).to_owned())),
            DoneFact::Absent | DoneFact::Directory | DoneFact::Unreadable(_) => {}
        }
    }
    if let Some(code) = facts.exit_code
        && policy.claims.wait.exit_code == Some(code)
    {
        signals.push(Signal::WaitExitCode(code));
    }
    if policy.claims.wait.marker && facts.wait_marker {
        signals.push(Signal::WaitMarker);
    }
    for (kind, body) in &facts.messages {
        if policy.claims.wait.message.as_ref() == Some(kind) {
            signals.push(Signal::WaitMessage(body.clone()));
        } else if kind == "QUESTION" {
            signals.push(Signal::Question(body.clone()));
        }
    }
    signals.extend(facts.blocked.clone().map(Signal::Blocked));
    signals.extend(facts.refusal.clone().map(Signal::Refusal));
    // An agent that repeats its prompt made no mistake that it could be told about.
    let told = |miss: Option<MissReason>| miss.filter(|miss| *miss != MissReason::Echo);
    if facts.promise.is_none() && hears_promises {
        signals.extend(told(facts.near_miss).map(Signal::NearMiss));
    }
    // An agent that claims to be done may mention the `<blocked>` tag without meaning it.
    if facts.blocked.is_none() && !signals.iter().any(Signal::is_claim) {
        signals.extend(told(facts.blocked_near_miss).map(Signal::BlockedNearMiss));
    }
    signals
}

/// What the agent may have meant as a claim and is none, for people and for the next agent.
fn missed(items: &ItemFacts) -> Option<String> {
    let mut lines: Vec<&str> = items.misses.iter().map(String::as_str).collect();
    // There may be a thousand marks, and an agent may delete them all.
    let more = format!("and {} more", lines.len().saturating_sub(MISSES_SHOWN));
    if lines.len() > MISSES_SHOWN {
        lines.truncate(MISSES_SHOWN);
        lines.push(&more);
    }
    (!lines.is_empty()).then(|| lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{agent::AgentCommand, judge::promise::PromiseRule};

    #[test]
    fn each_fact_is_the_signal_the_policy_says() {
        // req 66, req 67, req 86, req 87, req 88
        let policy =
            Policy::restart(AgentCommand::parse("a", &[]).unwrap(), PromiseRule::new("DONE").unwrap());
        let message = |kind: &str| vec![(kind.to_owned(), "b".to_owned())];
        for (facts, expected) in [
            (Facts::default(), vec![]),
            (Facts { exit_code: Some(0), ..Facts::default() }, vec![]),
            (Facts { exit_code: Some(1), ..Facts::default() }, vec![]),
            (Facts { exit_code: Some(42), ..Facts::default() }, vec![Signal::WaitExitCode(42)]),
            (Facts { done: DoneFact::File, ..Facts::default() }, vec![Signal::DoneFile]),
            (
                Facts { done: DoneFact::NotAFile("symlink"), ..Facts::default() },
                vec![Signal::MalformedDone("symlink".into())],
            ),
            (Facts { done: DoneFact::Directory, ..Facts::default() }, vec![]),
            (Facts { wait_marker: true, ..Facts::default() }, vec![Signal::WaitMarker]),
            (
                Facts { messages: message("wait_without_restart"), ..Facts::default() },
                vec![Signal::WaitMessage("b".into())],
            ),
            (Facts { messages: message("QUESTION"), ..Facts::default() }, vec![Signal::Question("b".into())]),
            (Facts { messages: message("INFO"), ..Facts::default() }, vec![]),
            (
                Facts {
                    promise: Some("p".into()),
                    done: DoneFact::File,
                    exit_code: Some(42),
                    ..Facts::default()
                },
                vec![Signal::Promise("p".into()), Signal::DoneFile, Signal::WaitExitCode(42)],
            ),
        ] {
            assert_eq!(signals(&facts, &policy), expected, "{facts:?}");
        }
        let blocked = |miss| Facts { blocked_near_miss: Some(miss), ..Facts::default() };
        for (facts, expected) in [
            (
                Facts { blocked: Some("no key".into()), ..blocked(MissReason::InCode) },
                vec![Signal::Blocked("no key".into())],
            ),
            (
                Facts { blocked: Some("no key".into()), promise: Some("p".into()), ..Facts::default() },
                vec![Signal::Promise("p".into()), Signal::Blocked("no key".into())],
            ),
            (blocked(MissReason::InCode), vec![Signal::BlockedNearMiss(MissReason::InCode)]),
            (blocked(MissReason::Echo), vec![]),
            // A promise that counts makes up for one that does not.
            (
                Facts { promise: Some("p".into()), near_miss: Some(MissReason::InCode), ..Facts::default() },
                vec![Signal::Promise("p".into())],
            ),
            (
                Facts { near_miss: Some(MissReason::InCode), ..Facts::default() },
                vec![Signal::NearMiss(MissReason::InCode)],
            ),
            (
                Facts { refusal: Some("NO".into()), promise: Some("p".into()), ..Facts::default() },
                vec![Signal::Promise("p".into()), Signal::Refusal("NO".into())],
            ),
            (
                Facts { promise: Some("p".into()), ..blocked(MissReason::InCode) },
                vec![Signal::Promise("p".into())],
            ),
        ] {
            assert_eq!(signals(&facts, &policy), expected, "{facts:?}");
        }
        let mut deaf = policy;
        deaf.claims.done_file = false;
        deaf.claims.wait = crate::policy::WaitRule { exit_code: None, marker: false, message: None };
        let all = Facts {
            done: DoneFact::File,
            exit_code: Some(42),
            wait_marker: true,
            messages: message("wait_without_restart"),
            ..Facts::default()
        };
        assert_eq!(signals(&all, &deaf), []);
    }

    #[test]
    fn a_few_misses_are_shown_and_the_others_are_counted() {
        let shown = |number: usize| {
            let misses = (1..=number).map(|n| format!("m{n}")).collect();
            missed(&ItemFacts { misses, ..ItemFacts::default() })
        };
        assert_eq!(shown(0), None);
        assert_eq!(shown(3).as_deref(), Some("m1; m2; m3"));
        assert_eq!(shown(5).as_deref(), Some("m1; m2; m3; and 2 more"));
    }

    #[test]
    fn a_done_that_cannot_be_one_fails_in_fixed_words() {
        // req 68
        assert_eq!(done_error(&DoneFact::Directory).as_deref(), Some("DONE is a directory"));
        assert_eq!(done_error(&DoneFact::Unreadable("denied".into())).as_deref(), Some("stat DONE: denied"));
        assert_eq!(done_error(&DoneFact::File), None);
    }
}
