//! What follows from a message, with the runs of its conversation and the workflows that there are.

use super::{
    command::{ChatCommand, first_word, parse},
    words,
};
use crate::{ids::RunId, text::nearest::nearest, workflow::OfferedDecision};

/// A workflow that a message can start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownWorkflow {
    pub name: String,
    pub description: String,
}

/// A run that was started from the conversation, or from another one in the same channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatRun {
    pub id: RunId,
    pub workflow: String,
    /// How it stands, in one line.
    pub line: String,
    pub is_over: bool,
    /// Whether it was started from this very conversation.
    pub is_here: bool,
    /// The question that a person has to decide.
    pub question: Option<ChatQuestion>,
    /// Whether an agent of it waits for words of a person.
    pub is_agent_asking: bool,
}

/// What a person has to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatQuestion {
    pub message: String,
    /// Empty where the answer is `approve` or `reject`.
    pub decisions: Vec<OfferedDecision>,
}

impl ChatQuestion {
    /// The words that answer it.
    pub(super) fn offered(&self) -> Vec<&str> {
        match self.decisions.as_slice() {
            [] => vec!["approve", "reject"],
            decisions => decisions.iter().map(|known| known.id.as_str()).collect(),
        }
    }

    /// The decision that `text` is, if it is exactly one that was offered, by its name or its label.
    fn decided_by(&self, text: &str) -> Option<String> {
        let is = |word: &str| word.trim().to_lowercase() == text.trim().to_lowercase();
        if self.decisions.is_empty() {
            return ["approve", "reject"].into_iter().find(|word| is(word)).map(str::to_owned);
        }
        let mut fitting =
            self.decisions.iter().filter(|known| is(&known.id) || known.label.as_deref().is_some_and(is));
        match (fitting.next(), fitting.next()) {
            (Some(one), None) => Some(one.id.clone()),
            // Two decisions with one label: neither is meant more than the other.
            (Some(_), Some(_)) => {
                self.decisions.iter().find(|known| is(&known.id)).map(|known| known.id.clone())
            }
            (None, _) => None,
        }
    }
}

/// What is known when a message is read.
#[derive(Clone, Copy, Debug)]
pub struct ChatFacts<'a> {
    pub workflows: &'a [KnownWorkflow],
    /// Oldest first.
    pub runs: &'a [ChatRun],
    /// Whether an agent can be asked which workflow a message means.
    pub can_route: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatAct {
    Start {
        workflow: String,
        message: String,
    },
    /// `decision` is `approve`, `reject` or the name of a decision.
    Answer {
        run: RunId,
        decision: String,
        text: String,
    },
    Steer {
        run: RunId,
        text: String,
    },
    Cancel {
        run: RunId,
    },
    Resume {
        run: RunId,
    },
    /// An agent is asked which workflow is meant.
    Route {
        text: String,
    },
    Say(String),
    Nothing,
}

/// What a message leads to. A message is an approval only if it is exactly one of the decisions that were offered, or the command
/// for it: "no, stop" decides nothing.
pub fn decide(text: &str, facts: &ChatFacts<'_>) -> ChatAct {
    match parse(text) {
        ChatCommand::Nothing => ChatAct::Nothing,
        ChatCommand::Help => ChatAct::Say(words::help(facts.workflows)),
        ChatCommand::Workflows => ChatAct::Say(words::workflows(facts.workflows)),
        ChatCommand::Status => ChatAct::Say(words::status(facts.runs)),
        ChatCommand::Workflow { name, text } => match find(&name, facts) {
            Some(workflow) => ChatAct::Start { workflow, message: text },
            None => ChatAct::Say(words::no_workflow(&name, facts.workflows)),
        },
        ChatCommand::Cancel { run } => {
            with_run(run.as_deref(), facts, |run| !run.is_over, "is going on", |run| ChatAct::Cancel { run })
        }
        ChatCommand::Resume { run } => with_run(
            run.as_deref(),
            facts,
            |run| run.question.is_none(),
            "could go on",
            |run| ChatAct::Resume { run },
        ),
        ChatCommand::Answer { decision, words } => answer(decision, &words, facts),
        ChatCommand::Steer { words } => {
            let (run, text) = target(&words, facts);
            let of = |run| ChatAct::Steer { run, text: text.to_owned() };
            if text.is_empty() {
                return ChatAct::Say("Say what to tell the agent: `/steer use the old route`.".to_owned());
            }
            with_run(run, facts, |run| !run.is_over || run.is_agent_asking, "is going on", of)
        }
        ChatCommand::Unknown { name, text } => match find(&name, facts) {
            Some(workflow) => ChatAct::Start { workflow, message: text },
            None => ChatAct::Say(words::no_command(&name)),
        },
        ChatCommand::Words(text) => of_words(&text, facts),
    }
}

fn of_words(text: &str, facts: &ChatFacts<'_>) -> ChatAct {
    let asking = nearest_runs(facts, |run| run.question.is_some());
    let decided: Vec<(&ChatRun, String)> =
        asking.iter().filter_map(|run| Some((*run, run.question.as_ref()?.decided_by(text)?))).collect();
    match (decided.as_slice(), asking.as_slice()) {
        ([(run, decision)], [_]) => {
            let (run, decision) = (run.id.clone(), decision.clone());
            return ChatAct::Answer { run, decision, text: String::new() };
        }
        // What a person decides must not depend on which of several questions is meant.
        (_, [_, _, ..]) => return ChatAct::Say(words::several_ask(&asking)),
        // While a question is open, words are neither an approval nor the beginning of something else.
        ([], [run]) => return ChatAct::Say(words::offered(run)),
        _ => {}
    }
    let waiting = nearest_runs(facts, |run| run.is_agent_asking);
    if let [run] = waiting.as_slice() {
        return ChatAct::Steer { run: run.id.clone(), text: text.to_owned() };
    }
    let (name, rest) = first_word(text);
    if let Some(workflow) = exactly(name, facts) {
        return ChatAct::Start { workflow, message: rest.to_owned() };
    }
    // "run ralph", as the seed's own example has it.
    if name.eq_ignore_ascii_case("run")
        && let (name, rest) = first_word(rest)
        && let Some(workflow) = exactly(name, facts)
    {
        return ChatAct::Start { workflow, message: rest.to_owned() };
    }
    if ["approve", "reject"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return ChatAct::Say("Nothing asks for an approval here.".to_owned());
    }
    if facts.workflows.is_empty() || !facts.can_route {
        return ChatAct::Say(words::which(facts.workflows));
    }
    ChatAct::Route { text: text.to_owned() }
}

/// The runs of this conversation that are `wanted`; if there is none, those of the same channel.
fn nearest_runs<'a>(facts: &ChatFacts<'a>, wanted: impl Fn(&ChatRun) -> bool) -> Vec<&'a ChatRun> {
    let of = |is_here: bool| {
        facts.runs.iter().filter(|run| run.is_here == is_here && wanted(run)).collect::<Vec<_>>()
    };
    let here = of(true);
    if here.is_empty() { of(false) } else { here }
}

fn exactly(name: &str, facts: &ChatFacts<'_>) -> Option<String> {
    let is = |known: &&KnownWorkflow| known.name.eq_ignore_ascii_case(name);
    facts.workflows.iter().find(is).map(|known| known.name.clone())
}

/// The workflow of this name; upper and lower case are the same.
fn find(name: &str, facts: &ChatFacts<'_>) -> Option<String> {
    exactly(name, facts)
}

/// The run that the first word names, if it names one, and what is said to it.
fn target<'a>(words: &'a str, facts: &ChatFacts<'_>) -> (Option<&'a str>, &'a str) {
    let (first, rest) = first_word(words);
    let is_run = first.len() >= 4 && facts.runs.iter().any(|run| run.id.as_str().starts_with(first));
    if is_run { (Some(first), rest) } else { (None, words.trim()) }
}

fn answer(decision: &'static str, said: &str, facts: &ChatFacts<'_>) -> ChatAct {
    let (run, text) = target(said, facts);
    let is_asking = |run: &ChatRun| run.question.is_some();
    with_run(run, facts, is_asking, "asks for an approval", |run| ChatAct::Answer {
        run,
        decision: decision.to_owned(),
        text: text.to_owned(),
    })
}

/// The act about the run that is named, or about the only one that is `wanted`.
fn with_run(
    named: Option<&str>,
    facts: &ChatFacts<'_>,
    wanted: impl Fn(&ChatRun) -> bool,
    what: &str,
    act: impl FnOnce(RunId) -> ChatAct,
) -> ChatAct {
    if let Some(named) = named {
        let found: Vec<&ChatRun> =
            facts.runs.iter().filter(|run| run.id.as_str().starts_with(named)).collect();
        return match found.as_slice() {
            [run] => act(run.id.clone()),
            [] => ChatAct::Say(words::no_run(named, facts.runs)),
            several => ChatAct::Say(words::several(several, what)),
        };
    }
    match nearest_runs(facts, wanted).as_slice() {
        [run] => act(run.id.clone()),
        [] => ChatAct::Say(format!("No run {what} here. `/status` lists the runs of this conversation.")),
        several => ChatAct::Say(words::several(several, what)),
    }
}

/// The workflow whose name is nearest to a word.
pub(super) fn meant<'a>(name: &str, workflows: &'a [KnownWorkflow]) -> Option<&'a str> {
    let names: Vec<&str> = workflows.iter().map(|known| known.name.as_str()).collect();
    nearest(name, &names)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
