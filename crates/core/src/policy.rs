//! Everything a loop was told before it began: one value, recorded whole in `loop_started` and frozen there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    agent::{AgentCommand, EnvironmentRule, Format},
    duration::Millis,
    item::{Item, ItemKey, ItemSource},
    judge::{contradiction::Patterns, expectation::Expectation, promise::PromiseRule},
    limits::{self, Budget, Prices},
    sandbox::SandboxRules,
    text::shell::quoted,
};

/// The settings of one loop, in sections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    pub agent: AgentSettings,
    /// When the loop stops even though nothing was accepted.
    #[serde(default)]
    pub limits: Limits,
    /// What counts as a claim.
    pub claims: ClaimRules,
    /// What a claim must pass.
    #[serde(default)]
    pub gates: GateRules,
    /// How long the loop waits, for what, and between what.
    #[serde(default)]
    pub pace: Pace,
    /// What a claim can be about: the whole work, or several items that the agent marks; then a mark is the only claim.
    #[serde(default = "Policy::only_the_whole")]
    pub items: Vec<Item>,
    /// Where the marks of items stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ItemSource>,
    /// What agents and gates may write and reach. A loop that began before there were sandboxes goes on without one.
    #[serde(default = "SandboxRules::off", skip_serializing_if = "SandboxRules::is_off")]
    pub sandbox: SandboxRules,
}

/// The agent of a loop, those that stand in for it, and how they are started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentSettings {
    /// What is started in each iteration.
    pub command: AgentCommand,
    /// Agents to go to, in this order, when the provider of the one at work is at its limit; empty: wait.
    #[serde(default)]
    pub fallback: Vec<AgentCommand>,
    /// Whether an iteration goes on with the session of the one before.
    #[serde(default)]
    pub continue_session: bool,
    /// What agents inherit of the caller's environment.
    #[serde(default)]
    pub environment: EnvironmentRule,
    /// Prices that go before the ones that are built in.
    #[serde(default)]
    pub prices: Prices,
    /// What follows when the agent cannot be started at all.
    #[serde(default)]
    pub fatal: OnFatal,
    /// What follows when the agent ends with an error, or has to be ended.
    #[serde(default, skip_serializing_if = "OnError::is_restart")]
    pub on_error: OnError,
    /// The session of another loop that the first attempt goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_session: Option<String>,
    /// Words in the prompt in whose place the answer of the iteration before stands; in the first iteration nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_answer: Option<String>,
    /// What dacapo adds to the prompt.
    #[serde(default, skip_serializing_if = "PromptForm::is_explained")]
    pub prompt_form: PromptForm,
    /// What the agent finds as `DACAPO_STAGE` in its environment: the role it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
}

impl AgentSettings {
    /// Only this agent, started as the restart preset starts one.
    pub fn of(command: AgentCommand) -> Self {
        Self {
            command,
            fallback: Vec::new(),
            continue_session: false,
            environment: EnvironmentRule::Inherit,
            prices: Prices::default(),
            fatal: OnFatal::Stop,
            on_error: OnError::Restart,
            first_session: None,
            previous_answer: None,
            prompt_form: PromptForm::Explained,
            stage: None,
        }
    }

    /// The agent of this index: the policy's own is 0, its fallbacks follow.
    pub fn at(&self, index: usize) -> &AgentCommand {
        index.checked_sub(1).and_then(|i| self.fallback.get(i)).unwrap_or(&self.command)
    }

    /// The number of the agent with this name.
    pub fn index_of(&self, agent: &str) -> Option<usize> {
        (0..=self.fallback.len()).find(|index| self.at(*index).name == agent)
    }
}

/// When a loop stops without an accepted claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Charged iterations at most; zero only where dacapo itself claims before the first agent: then there is none.
    pub max_iterations: u32,
    /// How long agents, checks and delays may take together.
    pub max_time: Option<Millis>,
    /// Money that agents may cost together, in US dollars.
    pub max_cost: Option<f64>,
    /// Tokens that agents may use together.
    pub max_tokens: Option<u64>,
    /// What all loops of its run may cost together.
    pub per_run: Budget,
    /// What all loops on the machine may cost together in a day.
    pub per_day: Budget,
    /// What all loops of the project may cost together.
    pub per_project: Budget,
    /// How long one iteration may take.
    pub iteration_timeout: Option<Millis>,
    /// How long an agent may stay silent.
    pub idle_timeout: Option<Millis>,
    /// Stop after this many iterations without progress.
    pub stuck_after: Option<u32>,
    /// Stop after this many turns in a row of a chat session's agent that left the files as they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unchanged_idles: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_iterations: 100,
            max_time: None,
            max_cost: None,
            max_tokens: None,
            per_run: Budget::default(),
            per_day: Budget::default(),
            per_project: Budget::default(),
            iteration_timeout: None,
            idle_timeout: Some(Millis::from_mins(30)),
            stuck_after: None,
            unchanged_idles: None,
        }
    }
}

impl Limits {
    /// Whether the loop draws on a budget together with other loops.
    pub fn shares_budgets(&self) -> bool {
        [self.per_day, self.per_project, self.per_run].iter().any(|budget| *budget != Budget::default())
    }

    /// Whether any amount of money or tokens is set.
    pub fn has_budget(&self) -> bool {
        self.max_cost.is_some() || self.max_tokens.is_some() || self.shares_budgets()
    }
}

/// What counts as a claim that the work is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimRules {
    /// How an agent says that it is done, in words.
    pub promise: PromiseRule,
    /// Whether `$TASK_FOLDER/DONE` is a claim.
    #[serde(default = "ClaimRules::default_done_file")]
    pub done_file: bool,
    /// How an agent says that it waits for a person.
    #[serde(default)]
    pub wait: WaitRule,
    /// Commands that together make a claim by exiting 0 after an iteration.
    #[serde(default)]
    pub until: Vec<String>,
    /// When dacapo claims by itself that the work is done, for the gates alone to decide.
    #[serde(default)]
    pub own_claim: OwnClaim,
    /// What a line begins with by which the agent refuses the work that it was asked to judge. It ends the loop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<String>,
    /// Whether a claim without a change may count.
    #[serde(default)]
    pub allow_empty: bool,
    /// Whether a claim without a change is refused also where no gate decides, unless `allow_empty` says otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_change: bool,
    /// Phrases that contradict a promise.
    #[serde(default = "Patterns::off")]
    pub contradictions: Patterns,
}

impl ClaimRules {
    /// This promise, or the DONE file.
    pub fn of(promise: PromiseRule) -> Self {
        Self {
            promise,
            done_file: Self::default_done_file(),
            wait: WaitRule::default(),
            until: Vec::new(),
            own_claim: OwnClaim::Never,
            refusals: Vec::new(),
            allow_empty: false,
            needs_change: false,
            contradictions: Patterns::off(),
        }
    }

    fn default_done_file() -> bool {
        true
    }
}

/// A file that was changed by a commit of which dacapo does not know who made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoubtedFile {
    /// The commit that holds the file as it was before.
    pub since: String,
    /// The commit that holds it as it was found then.
    pub seen: String,
}

/// What a claim must pass, where it is checked and against what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GateRules {
    /// Checks that a claim must pass, in order.
    pub specs: Vec<GateSpec>,
    pub run_in: GateIn,
    /// What an agent may do with tests that are there already.
    pub tests: TestsMode,
    /// Paths of tests beside those that are known by convention, as patterns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub test_paths: Vec<String>,
    /// Whether the gates are tried in a throw-away checkout before the first agent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub probe: bool,
    /// Whose version of the protected paths gates see.
    pub from: GateFrom,
    /// Commands that prepare a fresh checkout for gates.
    pub setup: Vec<SetupCommand>,
    /// Paths the agent may not change if its claim is to count.
    pub protect: Vec<String>,
    /// Patterns that must match a file when the loop begins, of those that protect. Not recorded: a loop that goes on has begun, and
    /// the loops of a run begin where others have worked.
    #[serde(skip)]
    pub must_match: Vec<String>,
    /// Files that checks name which run later on this work. They are as protected as those that the gates of this loop name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named_later: Vec<String>,
    /// Whether gates run once before the first agent.
    pub baseline: bool,
    /// Whether a gate that was red before and is red in the same way now may stay so.
    pub tolerate_baseline: bool,
    /// Whether every gate must have been red before the first agent.
    pub red_first: bool,
    /// Whether the gates behind a red one run too.
    pub run_all: bool,
    /// How long the gates of one claim may take together.
    pub timeout: Option<Millis>,
    /// Whether what a gate printed goes into the next prompt.
    pub feedback: bool,
    /// Files of the target that other hands changed while agents worked: where they are tests, they count as they were before.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub doubted: BTreeMap<String, DoubtedFile>,
    /// What gates and `until` commands find in their environment beside what they inherit. Agents do not.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

impl GateRules {
    /// Whether the tests, and what decides which of them run, are compared with what they were.
    pub fn watches_goalposts(&self) -> bool {
        !self.specs.is_empty() && (self.tests != TestsMode::Free || self.run_in != GateIn::Workspace)
    }
}

impl Default for GateRules {
    fn default() -> Self {
        Self {
            specs: Vec::new(),
            run_in: GateIn::Workspace,
            tests: TestsMode::Free,
            test_paths: Vec::new(),
            probe: false,
            from: GateFrom::Workspace,
            setup: Vec::new(),
            protect: Vec::new(),
            must_match: Vec::new(),
            named_later: Vec::new(),
            baseline: false,
            tolerate_baseline: false,
            red_first: false,
            run_all: false,
            timeout: None,
            feedback: true,
            doubted: BTreeMap::new(),
            environment: BTreeMap::new(),
        }
    }
}

impl GateRules {
    /// Whether the gates run once before the first agent, because a rule compares with what they said then.
    pub fn wants_baseline(&self) -> bool {
        (self.baseline || self.red_first || self.tolerate_baseline) && !self.specs.is_empty()
    }
}

/// How long a loop waits, for what, and between what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pace {
    /// The pause between two iterations.
    pub restart_delay: Millis,
    /// The pause between iterations doubles each time, up to this; `None`: it stays as it is.
    pub delay_limit: Option<Millis>,
    /// How long a claim waits for child loops.
    pub wait_timeout: Millis,
    /// How often the supervisor looks whether child loops, or tasks that go first, have ended.
    pub poll_interval: Millis,
    /// The time between asking a process to end and killing it.
    pub kill_grace: Millis,
    /// How long an outage is waited out at first, at most; also how far apart loops come back from the same limit.
    pub backoff: Millis,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            restart_delay: Millis::from_secs(1),
            delay_limit: None,
            wait_timeout: Millis::from_secs(300),
            poll_interval: Millis::from_secs(1),
            kill_grace: Millis::from_secs(5),
            backoff: limits::backoff::FIRST,
        }
    }
}

impl Pace {
    /// The pause after so many iterations.
    pub fn delay_after(&self, iterations: u32) -> Millis {
        let Some(limit) = self.delay_limit else { return self.restart_delay };
        let doublings = iterations.saturating_sub(1).min(63);
        Millis(self.restart_delay.0.saturating_mul(1 << doublings)).min(limit)
    }
}

/// How an agent says that it waits and must not be restarted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitRule {
    pub exit_code: Option<i32>,
    /// By the file `$TASK_FOLDER/WAIT_WITHOUT_RESTART`.
    pub marker: bool,
    /// By a bus message of this type.
    pub message: Option<String>,
}

impl Default for WaitRule {
    fn default() -> Self {
        Self { exit_code: Some(42), marker: true, message: Some("wait_without_restart".to_owned()) }
    }
}

/// What follows when the agent's program is missing or may not be run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFatal {
    /// The loop stops at once: a hundred restarts would not install it.
    #[default]
    Stop,
    /// It counts as a failed iteration.
    Restart,
}

/// What follows when an agent ends with an error and claims nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The iteration brought no claim, and the next one follows.
    #[default]
    Restart,
    /// The loop has failed.
    Stop,
}

impl OnError {
    fn is_restart(&self) -> bool {
        *self == Self::Restart
    }
}

/// What dacapo adds to the prompt of a loop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptForm {
    /// How the loop works, how the agent claims that it is done, and how it asks a person.
    #[default]
    Explained,
    /// None of that: the prompt itself says it. What every agent is offered and what happened in the loop is added all the
    /// same: the way out of a task that cannot be done, the words of the user, and why a claim did not count.
    AsWritten {
        /// The words in the prompt in whose place the number of the iteration and the limit stand, such as `3/15`.
        count_mark: String,
    },
    /// The prompts of a loop inside a chat session: the task once, then what sends the agent back to it.
    Session,
}

impl PromptForm {
    fn is_explained(&self) -> bool {
        *self == Self::Explained
    }
}

/// One check of a claim, run by dacapo in the workspace with `sh -c`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateSpec {
    /// What people call it.
    pub name: String,
    pub run: String,
    /// How long it may take.
    pub timeout: Millis,
    /// How often a red one is tried again; what passes then is called flaky.
    #[serde(default)]
    pub retries: u32,
    /// Whose words it is.
    #[serde(default, skip_serializing_if = "Origin::is_typed")]
    pub origin: Origin,
    /// What it must come to in order to pass.
    #[serde(default, skip_serializing_if = "Expectation::is_default")]
    pub expect: Expectation,
    /// The folder that it runs in, from the folder that the agent works in; it must not lead out of there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// A question to the loop's agent: the agent is started with it in place of the command, and its answer decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<GateQuestion>,
    /// The item it is for: it runs only if that one is claimed, and decides about that one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemKey>,
}

/// A question about the work to a fresh agent, which does not know the one that did it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateQuestion {
    /// What it is given; it says how to answer yes and no.
    pub prompt: String,
    /// How it says yes. Without that the answer is no.
    pub yes: PromiseRule,
    /// What a line begins with by which it says no. A no counts also beside a yes.
    pub no: Vec<String>,
}

/// When dacapo claims by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnClaim {
    #[default]
    Never,
    /// Once, before the first agent; after that, claims are the agent's.
    AtFirst,
    /// Whenever an agent has ended, unless it said that it waits for a person or is blocked: its end is its claim.
    WithAgent,
    /// Whenever an agent has ended, also if it said that it waits or is blocked.
    AfterAgent,
    /// Before the first agent too.
    Always,
}

impl OwnClaim {
    /// Whether it is the agent that claims, once it works.
    pub fn is_left_to_agents(self) -> bool {
        matches!(self, Self::Never | Self::AtFirst)
    }
}

/// Where gates run. Later is stricter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateIn {
    /// In the workspace itself.
    #[default]
    Workspace,
    /// In the workspace, and before a claim is believed once more in a fresh checkout.
    Both,
    /// In a fresh checkout of the tree that would be kept.
    Clean,
}

/// What an agent may do with tests that are there already, and with what decides which of them run. Later is stricter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestsMode {
    /// It may change them; the receipt lists what it changed.
    #[default]
    Free,
    /// It may change them, but the gates must also pass with the tests as they were.
    Checked,
    /// It may not change them.
    Sealed,
}

impl TestsMode {
    pub const WORDS: [(&str, Self); 3] =
        [("sealed", Self::Sealed), ("checked", Self::Checked), ("free", Self::Free)];
}

/// Whose version of the protected paths gates see. Later is stricter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateFrom {
    /// The workspace's; a change there refuses the claim.
    #[default]
    Workspace,
    /// The one from before the first agent; a change there is listed.
    Base,
}

/// The pattern of the files that say how dacapo works in a repository.
pub const OWN_FILES: &str = ".dacapo/**";

/// The pattern of all files.
pub const EVERY_FILE: &str = "**";

/// A command that prepares a fresh checkout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupCommand {
    pub run: String,
    /// Only if this file is there.
    #[serde(default, rename = "if")]
    pub only_if: Option<String>,
}

/// How dacapo commits what is proven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitRule {
    /// The message; `None` makes one from the name of what is proven.
    pub message: Option<String>,
}

/// Whose words a command is: what was typed is consent, what a repository says needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The user's, on the command line.
    #[default]
    Typed,
    /// The user's, in their own configuration.
    User,
    /// Those in the repository, of its authors.
    Repository,
}

impl Origin {
    fn is_typed(&self) -> bool {
        *self == Self::Typed
    }
}

impl GateSpec {
    /// The name of dacapo's own check that every conflict marker is gone.
    pub const NO_MARKERS: &str = "no conflict markers";

    /// The check that every conflict marker is gone.
    pub(crate) fn no_markers(paths: &[String]) -> Self {
        let mut run = String::from("for file in");
        for path in paths {
            run.push(' ');
            run.push_str(&quoted(path));
        }
        run.push_str(
            "; do\n  [ -f \"$file\" ] || continue\n  if grep -nE '^(<<<<<<<|>>>>>>>|\\|\\|\\|\\|\\|\\|\\|)( |$)' -- \"$file\"; then \
             echo \"$file: conflict markers\"; exit 1; fi\ndone",
        );
        Self { name: Self::NO_MARKERS.to_owned(), ..Self::of_command(&run) }
    }

    /// A gate that was typed and is named by its command.
    pub fn of_command(run: &str) -> Self {
        Self {
            name: run.trim().to_owned(),
            run: run.to_owned(),
            timeout: Self::TIMEOUT,
            retries: 0,
            origin: Origin::Typed,
            expect: Expectation::default(),
            working_dir: None,
            ask: None,
            item: None,
        }
    }

    /// What a shell in the workspace runs for it: its command, in its folder.
    pub fn script(&self) -> String {
        match &self.working_dir {
            // Without the dot, `CDPATH` could lead elsewhere.
            Some(dir) => format!("cd {} || exit\n{}", quoted(&format!("./{dir}")), self.run),
            None => self.run.clone(),
        }
    }

    /// How long a check may take unless it says otherwise.
    pub const TIMEOUT: Millis = Millis::from_mins(5);
}

impl Policy {
    /// The restart preset with its defaults (req 61).
    pub fn restart(agent: AgentCommand, promise: PromiseRule) -> Self {
        Self {
            agent: AgentSettings::of(agent),
            limits: Limits::default(),
            claims: ClaimRules::of(promise),
            gates: GateRules::default(),
            pace: Pace::default(),
            items: Self::only_the_whole(),
            source: None,
            sandbox: SandboxRules::default(),
        }
    }

    /// This policy with a few settings changed.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn only_the_whole() -> Vec<Item> {
        vec![Item::whole()]
    }

    /// Whether an agent's words and its DONE file are claims: not where items are marked, nor where dacapo itself claims.
    pub fn hears_promises(&self) -> bool {
        !self.marks_items() && self.claims.own_claim.is_left_to_agents()
    }

    /// Whether the agent claims items by marking them.
    pub fn marks_items(&self) -> bool {
        self.items.iter().any(|item| item.key.is_some())
    }

    pub fn item(&self, key: ItemKey) -> Option<&Item> {
        self.items.iter().find(|item| item.key == Some(key))
    }

    /// The item that is the whole work, where there is one.
    pub fn whole(&self) -> Option<&Item> {
        self.items.iter().find(|item| item.key.is_none())
    }

    /// Whether dacapo commits what is proven.
    pub fn commits(&self) -> bool {
        self.items.iter().any(|item| item.commit.is_some())
    }

    /// Whether something has to be known before an agent starts: what was spent, and whether its provider answers.
    pub fn needs_supply(&self) -> bool {
        let agent = &self.agent;
        self.limits.has_budget() || (0..=agent.fallback.len()).any(|i| agent.at(i).format != Format::Text)
    }

    /// All that is wrong with it, in the order of the fields.
    pub fn problems(&self) -> Vec<PolicyProblem> {
        let mut problems = Vec::new();
        let mut positive = |setting, value: Option<Millis>| {
            if value.is_some_and(Millis::is_zero) {
                problems.push(PolicyProblem::NotPositive { setting });
            }
        };
        positive("--max-time", self.limits.max_time);
        positive("--iteration-timeout", self.limits.iteration_timeout);
        positive("--idle-timeout", self.limits.idle_timeout);
        positive("--wait-timeout", Some(self.pace.wait_timeout));
        positive("--poll-interval", Some(self.pace.poll_interval));
        for gate in &self.gates.specs {
            positive("--gate-timeout", Some(gate.timeout));
        }
        // NaN is refused too.
        if self.limits.max_cost.is_some_and(|cost| cost.is_nan() || cost <= 0.0) {
            problems.push(PolicyProblem::NotPositive { setting: "--max-cost" });
        }
        if self.limits.max_tokens == Some(0) {
            problems.push(PolicyProblem::NotPositive { setting: "--max-tokens" });
        }
        if self.limits.stuck_after == Some(0) {
            problems.push(PolicyProblem::NotPositive { setting: "--stuck-after" });
        }
        if self.limits.max_iterations == 0 && self.claims.own_claim != OwnClaim::Always {
            problems.push(PolicyProblem::NotPositive { setting: "--max-iterations" });
        }
        if self.gates.specs.iter().any(|gate| gate.run.trim().is_empty()) {
            problems.push(PolicyProblem::Blank { setting: "--gate" });
        }
        for gate in &self.gates.specs {
            if let Some(dir) = gate.working_dir.as_ref().filter(|dir| !stays_inside(dir)) {
                problems.push(PolicyProblem::Outside { gate: gate.name.clone(), dir: dir.clone() });
            }
        }
        if self.claims.until.iter().any(|command| command.trim().is_empty()) {
            problems.push(PolicyProblem::Blank { setting: "--until-cmd" });
        }
        let is_blank = self.agent.command.argv.first().is_none_or(|program| program.trim().is_empty());
        if is_blank && self.limits.max_iterations > 0 {
            problems.push(PolicyProblem::Blank { setting: "--agent-cmd" });
        }
        for item in self.items.iter().filter(|item| item.key.is_some()) {
            if !self.gates.specs.iter().any(|gate| gate.item == item.key) {
                problems.push(PolicyProblem::Unproven { item: item.label() });
            }
        }
        problems
    }
}

/// Whether a path names a folder below the one that it is taken from, as far as its words say. Links may still lead out.
pub fn stays_inside(dir: &str) -> bool {
    !dir.trim().is_empty() && !dir.starts_with('/') && dir.split('/').all(|part| part != "..")
}

/// A setting that would make a loop without an end or without a sense (req 201).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyProblem {
    /// Zero where something is needed.
    #[error("`{setting}` must be more than zero")]
    NotPositive { setting: &'static str },
    /// Nothing where words are needed.
    #[error("`{setting}` must not be blank")]
    Blank { setting: &'static str },
    /// A check would run outside of the workspace.
    #[error("the folder `{dir}` of gate `{gate}` must be relative and stay inside the workspace")]
    Outside { gate: String, dir: String },
    /// Nothing would prove an item.
    #[error("{item} has no check that could prove it")]
    Unproven { item: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        Policy::restart(AgentCommand::parse("agent", &[]).unwrap(), PromiseRule::new("DONE").unwrap())
    }

    #[test]
    fn the_restart_preset_has_its_defaults() {
        // req 61: 300 s, 1 s, 100, 1 s; rule 16 of the second part of the list: silence 30 min, no wall clock limit.
        let p = policy();
        assert_eq!(
            (
                p.pace.wait_timeout,
                p.pace.poll_interval,
                p.limits.max_iterations,
                p.pace.restart_delay,
                p.pace.kill_grace
            ),
            (Millis(300_000), Millis(1000), 100, Millis(1000), Millis(5000))
        );
        assert_eq!(
            (p.limits.iteration_timeout, p.limits.idle_timeout, p.claims.wait.exit_code),
            (None, Some(Millis(1_800_000)), Some(42))
        );
        assert_eq!(p.problems(), []);
    }

    #[test]
    fn zero_and_blank_settings_are_refused() {
        // req 62, req 201
        type Break = fn(&mut Policy);
        let table: [(Break, PolicyProblem); 12] = [
            (|p| p.limits.max_iterations = 0, PolicyProblem::NotPositive { setting: "--max-iterations" }),
            (|p| p.pace.wait_timeout = Millis(0), PolicyProblem::NotPositive { setting: "--wait-timeout" }),
            (|p| p.pace.poll_interval = Millis(0), PolicyProblem::NotPositive { setting: "--poll-interval" }),
            (|p| p.limits.max_cost = Some(0.0), PolicyProblem::NotPositive { setting: "--max-cost" }),
            (|p| p.limits.max_cost = Some(f64::NAN), PolicyProblem::NotPositive { setting: "--max-cost" }),
            (|p| p.limits.max_tokens = Some(0), PolicyProblem::NotPositive { setting: "--max-tokens" }),
            (|p| p.limits.max_time = Some(Millis(0)), PolicyProblem::NotPositive { setting: "--max-time" }),
            (
                |p| p.limits.iteration_timeout = Some(Millis(0)),
                PolicyProblem::NotPositive { setting: "--iteration-timeout" },
            ),
            (
                |p| p.limits.idle_timeout = Some(Millis(0)),
                PolicyProblem::NotPositive { setting: "--idle-timeout" },
            ),
            (|p| p.gates.specs = vec![GateSpec::of_command(" ")], PolicyProblem::Blank { setting: "--gate" }),
            (|p| p.claims.until = vec![String::new()], PolicyProblem::Blank { setting: "--until-cmd" }),
            (|p| p.agent.command.argv = vec![], PolicyProblem::Blank { setting: "--agent-cmd" }),
        ];
        for (spoil, problem) in table {
            let mut p = policy();
            spoil(&mut p);
            assert_eq!(p.problems(), [problem]);
        }
        for dir in ["/tmp", "../up", "a/../../b", ""] {
            let mut p = policy();
            let gate = GateSpec { working_dir: Some(dir.to_owned()), ..GateSpec::of_command("make") };
            p.gates.specs = vec![gate];
            let problem = PolicyProblem::Outside { gate: "make".to_owned(), dir: dir.to_owned() };
            assert_eq!(p.problems(), [problem]);
        }
        let mut p = policy();
        p.pace.restart_delay = Millis(0);
        assert_eq!(p.problems(), [], "no delay is a wish, not a mistake");
    }
}
