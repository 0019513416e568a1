//! Every key that a workflow file may have: the one table that the reader, the JSON Schema and the reference page are made
//! from.

/// A map in a workflow file.
#[derive(Debug)]
pub struct SectionSpec {
    /// Its name in the schema and in the reference.
    pub name: &'static str,
    pub about: &'static str,
    pub keys: &'static [KeySpec],
}

#[derive(Debug)]
pub struct KeySpec {
    pub name: &'static str,
    pub value: ValueSpec,
    pub is_required: bool,
    pub about: &'static str,
}

/// What may stand behind a key.
#[derive(Debug)]
pub enum ValueSpec {
    Text,
    /// `true`, `false`, and the words and numbers that people write for them.
    Truth,
    Count {
        least: u32,
        most: u32,
    },
    Choice(&'static [&'static str]),
    /// A duration such as `90s`; a bare number is milliseconds.
    Duration,
    Dollars,
    Words,
    /// A point in time in RFC 3339.
    Time,
    Section(&'static SectionSpec),
    /// A section, or the text of its key of this name.
    TextOrSection(&'static SectionSpec, &'static str),
    Sections(&'static SectionSpec),
    /// A list of sections or of texts, which then are their key of this name.
    TextsOrSections(&'static SectionSpec, &'static str),
    Schema,
}

const fn key(name: &'static str, value: ValueSpec, about: &'static str) -> KeySpec {
    KeySpec { name, value, is_required: false, about }
}

const fn required(name: &'static str, value: ValueSpec, about: &'static str) -> KeySpec {
    KeySpec { name, value, is_required: true, about }
}

const MOST: u32 = 1_000_000_000;

pub static WORKFLOW: SectionSpec = SectionSpec {
    name: "workflow",
    about: "A file has `steps`, or a `loop` with a `prompt`, or `nodes`.",
    keys: &[
        required("name", ValueSpec::Text, "what `dacapo workflow run` calls it"),
        required("description", ValueSpec::Text, "what it is for"),
        key(
            "provider",
            ValueSpec::Text,
            "the agent: `claude` (default), `codex`, or another that `dacapo doctor` lists",
        ),
        key("model", ValueSpec::Text, "the agent's model"),
        key("tags", ValueSpec::Words, "words to find it by"),
        key("budget", ValueSpec::Section(&BUDGET), "what all steps may cost together"),
        key(
            "replaces",
            ValueSpec::Text,
            "another workflow file, which is not read: this one stands in its place",
        ),
        key(
            "steps",
            ValueSpec::Sections(&STEP),
            "steps, one after the other unless `depends_on` says otherwise",
        ),
        key("loop", ValueSpec::Section(&LOOP), "one prompt, again and again until it is done"),
        key("prompt", ValueSpec::Text, "what the agent of the loop is asked"),
        key(
            "nodes",
            ValueSpec::Sections(&STEP),
            "steps that begin at once unless `depends_on` says otherwise",
        ),
    ],
};

pub static STEP: SectionSpec = SectionSpec {
    name: "step",
    about: "Exactly one of `command`, `prompt`, `bash`, `loop`, `approval`, `wait` and `cancel` says what it does.",
    keys: &[
        key("id", ValueSpec::Text, "its name; in `steps` that of its command, else `step-1` and so on"),
        key("description", ValueSpec::Text, "for people"),
        key("command", ValueSpec::Text, "an agent works on the text of this command file"),
        key("step", ValueSpec::Text, "another word for `command`"),
        key("prompt", ValueSpec::Text, "an agent works on this text"),
        key("bash", ValueSpec::Text, "a script, run by `sh -c`; it finds values in its environment only"),
        key("loop", ValueSpec::Section(&LOOP), "an agent works on a prompt until it is done"),
        key("approval", ValueSpec::TextOrSection(&APPROVAL, "message"), "a person decides"),
        key("wait", ValueSpec::Section(&WAIT), "nothing happens until then"),
        key("cancel", ValueSpec::Text, "the run ends here, for this reason"),
        key("depends_on", ValueSpec::Words, "steps that come first; in `steps` without it the one above"),
        key(
            "when",
            ValueSpec::Text,
            "skipped unless this holds: `$test.output == 'red' && $plan.output.size > '3'`",
        ),
        key(
            "trigger_rule",
            ValueSpec::Choice(&["all_success", "one_success", "none_failed_min_one_success", "all_done"]),
            "how the steps it depends on must have ended",
        ),
        key("retry", ValueSpec::Section(&RETRY), "tries after a failure"),
        key("provider", ValueSpec::Text, "the agent of this step"),
        key("model", ValueSpec::Text, "the agent's model in this step"),
        key(
            "context",
            ValueSpec::Choice(&["fresh", "shared"]),
            "a session of its own, or that of the agent before it",
        ),
        key("fresh_context", ValueSpec::Truth, "another way to write `context: fresh`"),
        key("clearContext", ValueSpec::Truth, "another way to write `context: fresh`"),
        key("output_format", ValueSpec::Schema, "the JSON Schema of the agent's answer"),
        key(
            "gates",
            ValueSpec::TextsOrSections(&GATE, "run"),
            "checks that must pass when the agent has ended",
        ),
        key(
            "worktree",
            ValueSpec::Truth,
            "whether it has a checkout of its own, and can run beside other steps",
        ),
        key("idle_timeout", ValueSpec::Duration, "how long the agent may stay silent"),
        key("timeout", ValueSpec::Duration, "how long the script may take"),
        key("budget", ValueSpec::Section(&BUDGET), "what this step may cost"),
    ],
};

pub static LOOP: SectionSpec = SectionSpec {
    name: "loop",
    about: "Done when the agent says `until` and `until_bash` agrees; at least one of the two is needed.",
    keys: &[
        key(
            "prompt",
            ValueSpec::Text,
            "what the agent is asked; for the loop of a whole workflow it stands beside `loop`",
        ),
        key("command", ValueSpec::Text, "a command file in place of the prompt"),
        key("until", ValueSpec::Text, "the agent claims to be done by `<promise>THIS</promise>`"),
        key("until_bash", ValueSpec::Text, "a script that exits 0 when the work is done"),
        key("any", ValueSpec::Truth, "whether one of `until` and `until_bash` is enough"),
        key("gates", ValueSpec::TextsOrSections(&GATE, "run"), "checks that must pass before a claim counts"),
        required(
            "max_iterations",
            ValueSpec::Count { least: 1, most: MOST },
            "after so many iterations the loop has failed",
        ),
        key("fresh_context", ValueSpec::Truth, "whether each iteration begins a new session"),
        key("interactive", ValueSpec::Truth, "whether a person is asked after each iteration"),
        key("gate_message", ValueSpec::Text, "what the person is asked"),
        key(
            "signal_completes",
            ValueSpec::Truth,
            "whether an interactive loop ends without asking when it is done",
        ),
    ],
};

pub static APPROVAL: SectionSpec = SectionSpec {
    name: "approval",
    about: "A person decides about the files as they are; an approval holds for these files only.",
    keys: &[
        required("message", ValueSpec::Text, "what the person is asked"),
        key(
            "decisions",
            ValueSpec::Sections(&DECISION),
            "what the person can choose from; without it approve or reject",
        ),
        key("capture_response", ValueSpec::Truth, "whether the person's words are the answer of the step"),
        key("on_reject", ValueSpec::Section(&ON_REJECT), "what happens when the person wants changes"),
    ],
};

pub static DECISION: SectionSpec = SectionSpec {
    name: "decision",
    about: "One of the answers that a person can choose from.",
    keys: &[
        required("id", ValueSpec::Text, "its name"),
        key("label", ValueSpec::Text, "for people"),
        key("rework", ValueSpec::Truth, "whether it sends the work back, as a rejection does"),
    ],
};

pub static ON_REJECT: SectionSpec = SectionSpec {
    name: "on_reject",
    about: "An agent changes what the person rejected; then every check runs again, and the person is asked again.",
    keys: &[
        required(
            "prompt",
            ValueSpec::Text,
            "what the agent is asked; `$REJECTION_REASON` is what the person said",
        ),
        key(
            "max_attempts",
            ValueSpec::Count { least: 1, most: 10 },
            "how often, before the run is cancelled (3)",
        ),
    ],
};

pub static RETRY: SectionSpec = SectionSpec {
    name: "retry",
    about: "Tries after a failure.",
    keys: &[
        required("max_attempts", ValueSpec::Count { least: 1, most: 5 }, "how many tries beyond the first"),
        key(
            "delay_ms",
            ValueSpec::Count { least: 1000, most: 60_000 },
            "the pause before the first of them (3000); it doubles",
        ),
        key("on_error", ValueSpec::Choice(&["transient", "all"]), "after which errors (transient)"),
    ],
};

pub static GATE: SectionSpec = SectionSpec {
    name: "gate",
    about: "A check that dacapo runs.",
    keys: &[
        key("name", ValueSpec::Text, "what people call it"),
        required("run", ValueSpec::Text, "the command, run by `sh -c`"),
        key("timeout", ValueSpec::Duration, "how long it may take (5m)"),
        key("retries", ValueSpec::Count { least: 0, most: 10 }, "how often a red one is tried again"),
    ],
};

pub static WAIT: SectionSpec = SectionSpec {
    name: "wait",
    about: "Exactly one of these. No process is kept meanwhile.",
    keys: &[
        key("for", ValueSpec::Duration, "wait for this duration"),
        key("until", ValueSpec::Time, "until this time"),
        key("file", ValueSpec::Text, "until this file exists in the workspace"),
        key("signal", ValueSpec::Text, "until a signal of this name comes"),
    ],
};

pub static BUDGET: SectionSpec = SectionSpec {
    name: "budget",
    about: "What may be spent.",
    keys: &[
        key("max_cost", ValueSpec::Dollars, "US dollars"),
        key("max_tokens", ValueSpec::Count { least: 1, most: MOST }, "tokens"),
        key("max_time", ValueSpec::Duration, "time of agents and checks"),
        key(
            "mode",
            ValueSpec::Choice(&["audit", "enforce"]),
            "a warning, or nothing more is started (enforce)",
        ),
    ],
};

/// Every section, the outermost first.
pub static SECTIONS: [&SectionSpec; 10] =
    [&WORKFLOW, &STEP, &LOOP, &APPROVAL, &DECISION, &ON_REJECT, &RETRY, &GATE, &WAIT, &BUDGET];

/// Keys of Archon's that dacapo has nothing for.
pub static ARCHON_ONLY: [&str; 45] = [
    "additionalDirectories",
    "agents",
    "allowed_tools",
    "always_run",
    "betas",
    "container",
    "denied_tools",
    "deps",
    "effort",
    "evidence_policy",
    "fallbackModel",
    "fan_out",
    "hooks",
    "include",
    "input",
    "inputs",
    "interactive",
    "isolation",
    "loop_group",
    "maxBudgetUsd",
    "mcp",
    "modelReasoningEffort",
    "mutates_checkout",
    "outcome_field",
    "output_type",
    "parallel",
    "persist_session",
    "persist_sessions",
    "pi",
    "requires",
    "returns",
    "runtime",
    "sandbox",
    "script",
    "settingSources",
    "skills",
    "systemPrompt",
    "thinking",
    "until_field",
    "webSearchMode",
    "with",
    "workflow",
    "worktree",
    "write_back",
    "allow_env_keys",
];

/// The keys that say what a step does; those that dacapo has nothing for cannot be left out without leaving out the step.
pub static KINDS: [&str; 7] = ["command", "prompt", "bash", "loop", "approval", "wait", "cancel"];
pub static ARCHON_KINDS: [&str; 4] = ["script", "loop_group", "include", "workflow"];

impl SectionSpec {
    pub fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|key| key.name).collect()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key.name == name)
    }
}
