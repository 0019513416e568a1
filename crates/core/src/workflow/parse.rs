//! Reading a workflow file: its three forms become one graph of steps, and everything that is wrong is said at once.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    AgentStep, Agreement, ApprovalStep, BashStep, BudgetMode, Condition, Dialect, LoopStep, OfferedDecision,
    Prompt, Retry, RetryOn, Rework, SessionRule, Step, StepGate, StepId, StepKind, TriggerRule, WaitFor,
    Workflow, WorkflowBudget, WorkflowForm,
    catalogue::FOLDERS,
    command, graph, keys,
    reader::{Map, Placed, Reader, is_nothing, json, whole_number},
};
use crate::{
    agent::catalog,
    duration::Millis,
    judge::promise::PromiseRule,
    problem::{CheckedFile, Problem, Spot},
    text::nearest::nearest,
    yaml::{self, TextPlace, YamlNode, YamlValue, short},
};

const TOP: TextPlace = TextPlace { line: 1, column: 1 };
/// The name of the only step of a workflow that is a loop.
const LOOP_STEP: &str = "loop";

/// How files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParseSettings {
    /// Whether keys that dacapo does not know are left out instead of refused.
    pub lenient: bool,
}

/// A key that was left out because the user asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub key: String,
    pub line: u32,
}

/// What could be read of a file.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    pub file: String,
    /// Its name, also if the rest of it cannot be used.
    pub name: Option<String>,
    /// Only if nothing is wrong with it.
    pub workflow: Option<Workflow>,
    pub problems: Vec<Problem>,
    /// What is no mistake, and people should know.
    pub notes: Vec<Problem>,
    pub left_out: Vec<LeftOut>,
    /// The file whose place it takes, from the top of the repository.
    pub replaces: Option<String>,
    pub(super) name_at: Option<Spot>,
    /// Where each command file is named, by the index of its step.
    pub(super) commands_at: Vec<(usize, Spot)>,
}

/// A text of a step that may hold variables.
pub(super) struct TextAt {
    pub(super) text: String,
    pub(super) place: TextPlace,
    pub(super) holds: Holds,
}

/// Which variables a text may hold beyond those that every text may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Step,
    /// What the iteration before said, and the person.
    Iteration,
    /// What the person said who wants changes.
    Rejection,
    /// A script: other `$words` in it are the shell's.
    Script,
    /// A script of a loop.
    IterationScript,
}

/// A step, and where its parts stand.
pub(super) struct StepDraft {
    pub(super) step: Step,
    pub(super) place: TextPlace,
    pub(super) depends_at: Vec<Placed<String>>,
    pub(super) when_at: Option<TextPlace>,
    pub(super) texts: Vec<TextAt>,
    pub(super) command_at: Option<TextPlace>,
}

/// Reads the bytes of `file`, its path from the top of the repository.
pub fn parse(file: &str, bytes: &[u8], settings: ParseSettings) -> Parsed {
    let source = CheckedFile { file, bytes };
    let (root, wrong) = yaml::read(bytes);
    let mut reader = Reader {
        source,
        dialect: Dialect::of(file),
        settings,
        problems: wrong.into_iter().map(|wrong| source.wrong(wrong)).collect(),
        notes: Vec::new(),
        left_out: Vec::new(),
    };
    let mut parsed = Parsed { file: file.to_owned(), ..Parsed::default() };
    let root = root.filter(|root| !is_nothing(root));
    match root {
        Some(root) => {
            if let Some(map) = reader.map("a workflow", "", root, &keys::WORKFLOW) {
                parsed.workflow = workflow(&mut reader, map, &mut parsed);
            }
        }
        None if reader.problems.is_empty() => {
            let what = format!("Workflow must have 'steps' or 'loop' in {}", reader.file_name());
            reader.wrong(TOP, what, "the file is empty; `dacapo workflow list` names examples");
        }
        None => {}
    }
    reader.problems.sort_by_key(|problem| (problem.line, problem.column));
    if !reader.problems.is_empty() {
        parsed.workflow = None;
    }
    Parsed { problems: reader.problems, notes: reader.notes, left_out: reader.left_out, ..parsed }
}

fn workflow(reader: &mut Reader<'_>, mut map: Map, parsed: &mut Parsed) -> Option<Workflow> {
    let name = required(reader, &mut map, "name", "name: my-workflow", Reader::name);
    if let Some(Placed { value, place }) = &name {
        parsed.name = Some(value.clone());
        parsed.name_at = Some(reader.source.spot(*place));
    }
    let description = required(reader, &mut map, "description", "description: what it is for", Reader::text);
    let provider = provider(reader, &mut map);
    let model = reader.text(&mut map, "model").map(|model| model.value.trim().to_owned());
    let tags = reader.words(&mut map, "tags").unwrap_or_default().into_iter().map(|tag| tag.value).collect();
    let budget = budget(reader, &mut map);
    parsed.replaces = replaces(reader, &mut map);
    let (form, drafts) = match form(reader, &map)? {
        WorkflowForm::Loop => (WorkflowForm::Loop, vec![loop_workflow(reader, &mut map)?]),
        form => {
            let key = if form == WorkflowForm::Nodes { "nodes" } else { "steps" };
            if map.has("prompt") {
                let what = format!("`prompt` belongs to a `loop`, and this workflow has `{key}`");
                reader.wrong(map.place_of("prompt"), what, "move it into one of the steps");
            }
            (form, steps(reader, &mut map, key, form))
        }
    };
    let steps = graph::check(reader, drafts, form);
    parsed.commands_at =
        steps.iter().enumerate().filter_map(|(index, (_, at))| Some((index, at.clone()?))).collect();
    Some(Workflow {
        name: name?.value,
        description: description?.value.trim().to_owned(),
        file: parsed.file.clone(),
        form,
        dialect: reader.dialect,
        provider,
        model,
        tags,
        budget,
        steps: steps.into_iter().map(|(step, _)| step).collect(),
    })
}

fn required<'a, T>(
    reader: &mut Reader<'a>,
    map: &mut Map,
    key: &str,
    example: &str,
    read: impl FnOnce(&mut Reader<'a>, &mut Map, &str) -> Option<T>,
) -> Option<T> {
    if !map.has(key) {
        reader.wrong(map.place, format!("`{}` is missing", map.path(key)), format!("add a line `{example}`"));
        return None;
    }
    read(reader, map, key)
}

/// Which form a file has, by the seed's rules: an empty list of steps is none.
fn form(reader: &mut Reader<'_>, map: &Map) -> Option<WorkflowForm> {
    let is_filled = |key: &str| match map.node(key).map(|node| &node.value) {
        Some(YamlValue::List(items)) => !items.is_empty(),
        _ => false,
    };
    let has_loop = matches!(map.node("loop").map(|node| &node.value), Some(YamlValue::Map(_)));
    let found: Vec<(&str, WorkflowForm)> = [
        ("steps", WorkflowForm::Steps, is_filled("steps")),
        ("loop", WorkflowForm::Loop, has_loop),
        ("nodes", WorkflowForm::Nodes, is_filled("nodes")),
    ]
    .into_iter()
    .filter_map(|(key, form, is_there)| is_there.then_some((key, form)))
    .collect();
    let file = reader.file_name();
    match found.as_slice() {
        [(_, form)] => Some(*form),
        [] => {
            let place = ["steps", "loop", "nodes"]
                .iter()
                .find(|key| map.has(key))
                .map_or(TOP, |key| map.place_of(key));
            let what = format!("Workflow must have 'steps' or 'loop' in {file}");
            reader.wrong(place, what, "add `steps:` with a list, or `loop:` and `prompt:`");
            None
        }
        [(first, _), (second, _), ..] => {
            let what = format!("Cannot have both '{first}' and '{second}' in {file}");
            reader.wrong(map.place_of(second), what, "keep one of them; a loop can also be a step");
            None
        }
    }
}

/// The seed's form: a loop beside its prompt.
fn loop_workflow(reader: &mut Reader<'_>, map: &mut Map) -> Option<StepDraft> {
    let place = map.place_of("loop");
    let is_blank = |node: &YamlNode| match &node.value {
        YamlValue::Scalar { text, .. } => text.trim().is_empty() || is_nothing(node),
        YamlValue::List(_) | YamlValue::Map(_) => true,
    };
    let beside = match map.node("prompt").map(is_blank) {
        Some(false) => reader.text(map, "prompt"),
        Some(true) => {
            let what = format!("Loop workflow requires 'prompt' in {}", reader.file_name());
            reader.wrong(map.place_of("prompt"), what, "write what the agent is asked behind `prompt: |`");
            Some(Placed { value: String::new(), place: map.place_of("prompt") })
        }
        None => None,
    };
    let node = reader.take(map, "loop")?;
    let inner = reader.map("`loop`", "loop.", node, &keys::LOOP)?;
    let mut texts = Vec::new();
    let (looped, command_at) = looped(reader, inner, place, LoopIn::Workflow(beside), &mut texts)?;
    let step = Step {
        id: StepId(LOOP_STEP.to_owned()),
        line: place.line,
        description: None,
        depends_on: Vec::new(),
        when: None,
        trigger_rule: TriggerRule::AllSuccess,
        retry: None,
        provider: None,
        model: None,
        session: SessionRule::Fresh,
        worktree: false,
        idle_timeout: None,
        budget: None,
        kind: StepKind::Loop(looped),
    };
    Some(StepDraft { step, place, depends_at: Vec::new(), when_at: None, texts, command_at })
}

fn steps(reader: &mut Reader<'_>, map: &mut Map, key: &str, form: WorkflowForm) -> Vec<StepDraft> {
    let mut drafts: Vec<StepDraft> = Vec::new();
    let mut used = BTreeSet::new();
    for (index, node) in reader.list(map, key).unwrap_or_default().into_iter().enumerate() {
        let name = format!("step {} of `{key}`", index + 1);
        let Some(inner) = reader.map(&name, "", node, &keys::STEP) else { continue };
        let Some(mut draft) = step(reader, inner, index, form, &mut used) else { continue };
        if form == WorkflowForm::Steps
            && draft.depends_at.is_empty()
            && !draft.step.depends_on.is_empty()
            && let Some(before) = drafts.last()
        {
            // No `depends_on`: it follows the step above it.
            draft.step.depends_on = vec![before.step.id.clone()];
        } else if form == WorkflowForm::Steps && drafts.is_empty() && draft.depends_at.is_empty() {
            draft.step.depends_on.clear();
        }
        drafts.push(draft);
    }
    drafts
}

/// Stands for "the step above" until that one is known.
const ABOVE: &str = "_above";

fn step(
    reader: &mut Reader<'_>,
    mut map: Map,
    index: usize,
    form: WorkflowForm,
    used: &mut BTreeSet<String>,
) -> Option<StepDraft> {
    let place = map.place;
    let kind_key = kind_key(reader, &map);
    let id = step_id(reader, &mut map, kind_key, index, form, used);
    let description = reader.text(&mut map, "description").map(|text| text.value);
    let has_depends = map.has("depends_on");
    let depends_at = match map.node("depends_on") {
        Some(node) if is_nothing(node) => Vec::new(),
        _ => reader.words(&mut map, "depends_on").unwrap_or_default(),
    };
    let mut depends_on: Vec<StepId> = Vec::new();
    for Placed { value, place } in &depends_at {
        match StepId::new(value) {
            Some(id) if !depends_on.contains(&id) => depends_on.push(id),
            Some(_) => {}
            None => reader.wrong(
                *place,
                format!("`{}` cannot be the name of a step", short(value)),
                "name a step of this file by its `id`",
            ),
        }
    }
    if !has_depends && form == WorkflowForm::Steps {
        depends_on.push(StepId(ABOVE.to_owned()));
    }
    let when_at = map.node("when").map(|node| node.place);
    let when =
        reader.text(&mut map, "when").and_then(|Placed { value, place }| match Condition::parse(&value) {
            Ok(condition) => Some(condition),
            Err(what) => {
                reader.wrong(place, what, "write for example `when: \"$test.output == 'red'\"`");
                None
            }
        });
    let trigger_rule = reader.choice(&mut map, "trigger_rule", &TriggerRule::WORDS).map(|rule| rule.value);
    check_useless_keys(reader, &map, kind_key);
    let retry_at = map.place_of("retry");
    let retry = retry(reader, &mut map);
    if retry.is_some() && kind_key == Some("loop") {
        reader.wrong(retry_at, "`retry` does nothing for a loop", "raise `max_iterations` instead");
    }
    let provider = provider(reader, &mut map);
    let model = reader.text(&mut map, "model").map(|model| model.value.trim().to_owned());
    let session = session(reader, &mut map);
    let worktree = reader.truth(&mut map, "worktree").is_some_and(|at| at.value);
    let idle_timeout = reader.duration(&mut map, "idle_timeout").map(|at| at.value);
    let budget = budget(reader, &mut map);
    let mut texts = Vec::new();
    let mut command_at = None;
    let kind = kind(reader, &mut map, kind_key?, &mut texts, &mut command_at);
    let step = Step {
        id: id?,
        line: place.line,
        description,
        depends_on,
        when,
        trigger_rule: trigger_rule.unwrap_or_default(),
        retry,
        provider,
        model,
        session,
        worktree,
        idle_timeout,
        budget,
        kind: kind?,
    };
    Some(StepDraft { step, place, depends_at, when_at, texts, command_at })
}

/// The key that says what a step does.
fn kind_key(reader: &mut Reader<'_>, map: &Map) -> Option<&'static str> {
    let mut found: Vec<&'static str> = keys::KINDS.into_iter().filter(|key| map.has(key)).collect();
    if map.has("step") {
        found.insert(0, "step");
    }
    match found.as_slice() {
        [key] => Some(key),
        [] => {
            // One of Archon's kinds was complained about already.
            let is_said = reader
                .problems
                .iter()
                .any(|problem| problem.line >= map.place.line && problem.what.contains("steps are Archon's"));
            if !is_said {
                let what = format!("a step must have one of {}", keys::KINDS.join(", "));
                reader.wrong(map.place, what, "say what the step does, like `bash: cargo test`");
            }
            None
        }
        [first, second, ..] => {
            let what = format!("a step does one thing, and this one has both '{first}' and '{second}'");
            reader.wrong(map.place_of(second), what, "make two steps of it");
            None
        }
    }
}

fn step_id(
    reader: &mut Reader<'_>,
    map: &mut Map,
    kind_key: Option<&str>,
    index: usize,
    form: WorkflowForm,
    used: &mut BTreeSet<String>,
) -> Option<StepId> {
    if form == WorkflowForm::Nodes && !map.has("id") {
        reader.wrong(map.place, "`id` is missing", "give the node a name, like `id: plan`");
        return None;
    }
    if map.has("id") {
        let Placed { value, place } = reader.text(map, "id")?;
        let Some(id) = StepId::new(value.trim()).filter(|id| id.as_str() != ABOVE) else {
            let what = format!("`{}` cannot be the name of a step", short(&value));
            reader.wrong(place, what, "use letters, digits, `_` and `-`, at most 64, like `id: run-tests`");
            return None;
        };
        if !used.insert(id.as_str().to_owned()) {
            reader.wrong(place, format!("a step is called `{id}` already"), "give it another `id`");
            return None;
        }
        return Some(id);
    }
    let command = kind_key.filter(|key| ["command", "step"].contains(key)).and_then(|key| map.node(key));
    let wish = match command.map(|node| &node.value) {
        Some(YamlValue::Scalar { text, .. }) => StepId::new(text.trim()).map(|id| id.0),
        _ => None,
    };
    let wish = wish.unwrap_or_else(|| format!("step-{}", index + 1));
    let mut id = wish.clone();
    let mut number = 2;
    while !used.insert(id.clone()) {
        id = format!("{wish}-{number}");
        number += 1;
    }
    Some(StepId(id))
}

/// The keys that mean nothing for a step that does this.
pub(crate) fn useless_keys(kind: &str) -> &'static [&'static str] {
    match kind {
        "command" | "step" | "prompt" => &["timeout"],
        "loop" => &["timeout", "output_format", "gates"],
        "bash" => &[
            "provider",
            "model",
            "context",
            "fresh_context",
            "clearContext",
            "output_format",
            "gates",
            "idle_timeout",
            "budget",
        ],
        _ => &[
            "provider",
            "model",
            "context",
            "fresh_context",
            "clearContext",
            "output_format",
            "gates",
            "idle_timeout",
            "budget",
            "timeout",
            "retry",
            "worktree",
        ],
    }
}

/// Complains about keys that mean nothing for what the step does.
fn check_useless_keys(reader: &mut Reader<'_>, map: &Map, kind_key: Option<&str>) {
    let Some(kind) = kind_key else { return };
    let useless = useless_keys(kind);
    for key in useless.iter().filter(|key| map.has(key)) {
        let what = format!("`{key}` does nothing in a step with `{kind}`");
        let fix = match (kind, *key) {
            ("loop", "gates") => "move it into `loop`",
            _ => "take it away",
        };
        reader.wrong_unless_archon(map.place_of(key), what, fix);
    }
}

fn kind(
    reader: &mut Reader<'_>,
    map: &mut Map,
    key: &'static str,
    texts: &mut Vec<TextAt>,
    command_at: &mut Option<TextPlace>,
) -> Option<StepKind> {
    let place = map.place_of(key);
    Some(match key {
        "command" | "step" | "prompt" => {
            let prompt = prompt(reader, map, key, Holds::Step, texts, command_at);
            let gates = gates(reader, map, texts, Holds::Script);
            let output_format = output_format(reader, map);
            StepKind::Agent(AgentStep { prompt: prompt?, gates, output_format })
        }
        "bash" => {
            let script = reader.text(map, "bash");
            let default = match reader.dialect {
                Dialect::Archon => Millis::from_mins(2),
                Dialect::Dacapo => crate::policy::GateSpec::TIMEOUT,
            };
            let timeout = reader.duration(map, "timeout").map_or(default, |at| at.value);
            let Placed { value, place } = script?;
            texts.push(TextAt { text: value.clone(), place, holds: Holds::Script });
            StepKind::Bash(BashStep { script: value, timeout })
        }
        "loop" => {
            let node = reader.take(map, "loop")?;
            let inner = reader.map("`loop`", "loop.", node, &keys::LOOP)?;
            let (looped, at) = looped(reader, inner, place, LoopIn::Step, texts)?;
            *command_at = at;
            StepKind::Loop(looped)
        }
        "approval" => StepKind::Approval(approval(reader, map, texts)?),
        "wait" => StepKind::Wait(wait(reader, map)?),
        _ => {
            let Placed { value, place } = reader.text(map, "cancel")?;
            texts.push(TextAt { text: value.clone(), place, holds: Holds::Step });
            StepKind::Cancel { reason: value.trim().to_owned() }
        }
    })
}

/// A text of its own, or the name of a command file.
fn prompt(
    reader: &mut Reader<'_>,
    map: &mut Map,
    key: &str,
    holds: Holds,
    texts: &mut Vec<TextAt>,
    command_at: &mut Option<TextPlace>,
) -> Option<Prompt> {
    let Placed { value, place } = reader.text(map, key)?;
    if key == "prompt" {
        texts.push(TextAt { text: value.clone(), place, holds });
        return Some(Prompt { text: value, command: None });
    }
    let name = value.trim().to_owned();
    if let Err(failure) = command::check_name(&name) {
        reader.wrong(place, failure.to_string(), failure.fix());
        return None;
    }
    *command_at = Some(place);
    Some(Prompt { text: String::new(), command: Some(name) })
}

/// Where a loop stands.
enum LoopIn {
    /// It is the workflow, and its prompt stands beside it.
    Workflow(Option<Placed<String>>),
    Step,
}

fn looped(
    reader: &mut Reader<'_>,
    mut map: Map,
    place: TextPlace,
    of: LoopIn,
    texts: &mut Vec<TextAt>,
) -> Option<(LoopStep, Option<TextPlace>)> {
    let file = reader.file_name();
    let mut command_at = None;
    let (is_workflow, beside) = match of {
        LoopIn::Workflow(beside) => (true, beside),
        LoopIn::Step => (false, None),
    };
    let given: Vec<&str> = ["prompt", "command"].into_iter().filter(|key| map.has(key)).collect();
    let prompt = match (beside, given.as_slice()) {
        (Some(Placed { value, place }), []) => {
            texts.push(TextAt { text: value.clone(), place, holds: Holds::Iteration });
            Some(Prompt { text: value, command: None })
        }
        (None, [key]) => prompt(reader, &mut map, key, Holds::Iteration, texts, &mut command_at),
        (None, []) => {
            let (what, fix) = if is_workflow {
                (format!("Loop workflow requires 'prompt' in {file}"), "add `prompt: |` beside `loop`")
            } else {
                (format!("Loop requires 'prompt' or 'command' in {file}"), "add `prompt: |` to the loop")
            };
            reader.wrong(place, what, fix);
            None
        }
        (beside, given) => {
            let key = given.last().copied().unwrap_or("prompt");
            let what = if beside.is_some() {
                format!("the loop has a prompt of its own and `loop.{key}`")
            } else {
                "the loop has both `loop.prompt` and `loop.command`".to_owned()
            };
            reader.wrong(map.place_of(key), what, "keep one of them");
            None
        }
    };
    let (has_until, has_check) = (map.has("until"), map.has("until_bash"));
    let until = until(reader, &mut map, &file);
    let until_bash = reader.text(&mut map, "until_bash").map(|Placed { value, place }| {
        texts.push(TextAt { text: value.clone(), place, holds: Holds::IterationScript });
        value
    });
    if !has_until && !has_check {
        let what = format!("Loop requires 'until' signal in {file}");
        reader.wrong(place, what, "add `until: COMPLETE`, or a script that decides as `until_bash`");
    }
    let max_iterations = max_iterations(reader, &mut map, place, &file);
    let any = reader.truth(&mut map, "any");
    let agreement = match (&any, reader.dialect) {
        (Some(Placed { value: true, .. }), _) | (None, Dialect::Archon) => Agreement::Either,
        _ => Agreement::Both,
    };
    if let Some(Placed { value: true, place }) = any
        && !(has_until && has_check)
    {
        let what = "`any` changes nothing: there is only one of `until` and `until_bash`";
        reader.note(place, what, "take it away, or add the other");
    } else if agreement == Agreement::Either && has_until && has_check {
        let what = "weaker: the agent's words alone end this loop, even if `until_bash` fails";
        let fix = match any {
            Some(_) => "take `any` away, and both have to agree",
            None => "add `any: false` to the loop, and both have to agree",
        };
        reader.note(any.map_or(place, |at| at.place), what, fix);
    }
    let gates = gates(reader, &mut map, texts, Holds::IterationScript);
    let fresh_context = reader.truth(&mut map, "fresh_context").is_some_and(|at| at.value);
    let signal_completes = reader.truth(&mut map, "signal_completes").is_some_and(|at| at.value);
    let interactive = reader.truth(&mut map, "interactive");
    let gate_message_at = map.place_of("gate_message");
    let gate_message = reader.text(&mut map, "gate_message").map(|Placed { value, place }| {
        texts.push(TextAt { text: value.clone(), place, holds: Holds::Iteration });
        value
    });
    let gate_message = match (interactive, gate_message) {
        (Some(Placed { value: true, place }), None) => {
            let what = format!("Interactive loop requires 'gate_message' in {file}");
            reader.wrong(place, what, "say what the person is asked after each iteration");
            None
        }
        (Some(Placed { value: true, .. }), Some(message)) => Some(message),
        (_, Some(_)) => {
            let what = "`loop.gate_message` does nothing without `interactive: true`";
            reader.wrong_unless_archon(gate_message_at, what, "add `interactive: true`, or take it away");
            None
        }
        (_, None) => None,
    };
    let looped = LoopStep {
        prompt: prompt?,
        until,
        until_bash,
        agreement,
        gates,
        max_iterations: max_iterations?,
        fresh_context,
        gate_message,
        signal_completes,
    };
    Some((looped, command_at))
}

fn until(reader: &mut Reader<'_>, map: &mut Map, file: &str) -> Option<String> {
    let node = map.node("until")?;
    let (place, key_place) = (node.place, map.place_of("until"));
    let is_word = match &node.value {
        YamlValue::Scalar { text, is_plain } => {
            let is_other = *is_plain
                && (matches!(text.as_str(), "true" | "false" | "null" | "~") || text.parse::<f64>().is_ok());
            !text.trim().is_empty() && !is_other
        }
        YamlValue::List(_) | YamlValue::Map(_) => false,
    };
    if !is_word {
        let what = format!("Loop requires 'until' signal in {file}");
        reader.wrong(key_place, what, "write one word that the agent ends with, like `until: COMPLETE`");
        return None;
    }
    let text = reader.text(map, "until")?.value.trim().to_owned();
    if let Err(error) = PromiseRule::new(text.clone()) {
        reader.wrong(place, error.to_string(), "write the words alone, like `until: COMPLETE`");
        return None;
    }
    Some(text)
}

fn max_iterations(reader: &mut Reader<'_>, map: &mut Map, place: TextPlace, file: &str) -> Option<u32> {
    let node = map.node("max_iterations");
    if let Some(number) = node.and_then(whole_number).filter(|number| *number > 0) {
        return Some(number);
    }
    let place = node.map_or(place, |_| map.place_of("max_iterations"));
    let what = format!("Loop requires positive 'max_iterations' in {file}");
    reader.wrong(place, what, "write a whole number from 1 on, like `max_iterations: 20`");
    None
}

fn gates(reader: &mut Reader<'_>, map: &mut Map, texts: &mut Vec<TextAt>, holds: Holds) -> Vec<StepGate> {
    let name = format!("an entry of `{}`", map.path("gates"));
    let mut gates = Vec::new();
    for node in reader.list(map, "gates").unwrap_or_default() {
        let gate = if matches!(node.value, YamlValue::Scalar { .. }) {
            reader.text_of(&name, node).map(|run| (run, None, None, 0))
        } else {
            let Some(mut inner) = reader.map(&name, "gates.", node, &keys::GATE) else { continue };
            let label = reader.text(&mut inner, "name").map(|at| at.value.trim().to_owned());
            let timeout = reader.duration(&mut inner, "timeout").map(|at| at.value);
            let retries = reader.count(&mut inner, "retries", 0, 10).map_or(0, |at| at.value);
            required(reader, &mut inner, "run", "run: cargo test", Reader::text)
                .map(|run| (run, label, timeout, retries))
        };
        if let Some((Placed { value: run, place }, label, timeout, retries)) = gate {
            texts.push(TextAt { text: run.clone(), place, holds });
            let name = label.unwrap_or_else(|| run.trim().to_owned());
            gates.push(StepGate { name, run, timeout, retries });
        }
    }
    gates
}

fn approval(reader: &mut Reader<'_>, map: &mut Map, texts: &mut Vec<TextAt>) -> Option<ApprovalStep> {
    let node = reader.take(map, "approval")?;
    if matches!(node.value, YamlValue::Scalar { .. }) {
        let Placed { value, place } = reader.text_of("`approval`", node)?;
        texts.push(TextAt { text: value.clone(), place, holds: Holds::Step });
        let (decisions, capture_response, on_reject) = (Vec::new(), false, None);
        return Some(ApprovalStep { message: value, decisions, capture_response, on_reject });
    }
    let place = node.place;
    let mut inner = reader.map("`approval`", "approval.", node, &keys::APPROVAL)?;
    let message = required(reader, &mut inner, "message", "message: May this be merged?", Reader::text);
    let capture_response = reader.truth(&mut inner, "capture_response").is_some_and(|at| at.value);
    let decisions_at = inner.place_of("decisions");
    let decisions = decisions(reader, &mut inner);
    let on_reject = rework(reader, &mut inner, texts);
    if decisions.iter().any(|decision| decision.rework) && on_reject.is_none() && !inner.has("on_reject") {
        let what = "a decision with `rework` needs `on_reject`";
        reader.wrong(decisions_at, what, "say what the agent is asked: `on_reject: {prompt: …}`");
    }
    if !decisions.is_empty() && decisions.iter().all(|decision| decision.rework) {
        reader.wrong(decisions_at, "no decision lets the run go on", "add one without `rework`");
    }
    let Placed { value, place: at } = message?;
    texts.push(TextAt { text: value.clone(), place: if at == TOP { place } else { at }, holds: Holds::Step });
    Some(ApprovalStep { message: value, decisions, capture_response, on_reject })
}

fn decisions(reader: &mut Reader<'_>, map: &mut Map) -> Vec<OfferedDecision> {
    let mut decisions: Vec<OfferedDecision> = Vec::new();
    for node in reader.list(map, "decisions").unwrap_or_default() {
        let name = "an entry of `approval.decisions`";
        let Some(mut inner) = reader.map(name, "decisions.", node, &keys::DECISION) else { continue };
        let label = reader.text(&mut inner, "label").map(|at| at.value.trim().to_owned());
        let rework = reader.truth(&mut inner, "rework").is_some_and(|at| at.value);
        let Some(Placed { value, place }) = required(reader, &mut inner, "id", "id: ship", Reader::text)
        else {
            continue;
        };
        match StepId::new(value.trim()) {
            Some(StepId(id)) if decisions.iter().all(|known| known.id != id) => {
                decisions.push(OfferedDecision { id, label, rework });
            }
            Some(id) => {
                reader.wrong(place, format!("a decision is called `{id}` already"), "give it another `id`")
            }
            None => {
                let what = format!("`{}` cannot be the name of a decision", short(&value));
                reader.wrong(place, what, "use letters, digits, `_` and `-`, like `id: ship`");
            }
        }
    }
    decisions
}

fn rework(reader: &mut Reader<'_>, map: &mut Map, texts: &mut Vec<TextAt>) -> Option<Rework> {
    let node = reader.take(map, "on_reject")?;
    let mut inner = reader.map("`approval.on_reject`", "on_reject.", node, &keys::ON_REJECT)?;
    let max_attempts = reader.count(&mut inner, "max_attempts", 1, 10).map_or(3, |at| at.value);
    let example = "prompt: Change this: $REJECTION_REASON";
    let Placed { value, place } = required(reader, &mut inner, "prompt", example, Reader::text)?;
    texts.push(TextAt { text: value.clone(), place, holds: Holds::Rejection });
    Some(Rework { prompt: value, max_attempts })
}

fn wait(reader: &mut Reader<'_>, map: &mut Map) -> Option<WaitFor> {
    let node = reader.take(map, "wait")?;
    let mut inner = reader.map("`wait`", "wait.", node, &keys::WAIT)?;
    let names = keys::WAIT.names();
    let given: Vec<&str> = names.iter().copied().filter(|key| inner.has(key)).collect();
    let [key] = given.as_slice() else {
        let place = given.get(1).map_or(inner.place, |key| inner.place_of(key));
        let what = format!("`wait` must have one of {}", names.join(", "));
        reader.wrong(place, what, "write for example `wait: {for: 2h}`");
        return None;
    };
    match *key {
        "for" => reader.duration(&mut inner, "for").map(|at| WaitFor::Duration(at.value)),
        "until" => {
            let Placed { value, place } = reader.text(&mut inner, "until")?;
            match value.trim().parse() {
                Ok(time) => Some(WaitFor::Time(time)),
                Err(_) => {
                    let what = format!("`{}` is not a time", short(&value));
                    reader.wrong(place, what, "write for example `until: 2027-01-31T08:00:00Z`");
                    None
                }
            }
        }
        "file" => {
            let Placed { value, place } = reader.text(&mut inner, "file")?;
            let path = value.trim();
            let is_inside = !path.starts_with('/') && path.split('/').all(|part| part != "..");
            if !is_inside {
                let what = format!("`{}` does not lie in the workspace", short(path));
                reader.wrong(place, what, "write a path from the top of the workspace, without `..`");
                return None;
            }
            Some(WaitFor::File(path.to_owned()))
        }
        _ => {
            let Placed { value, place } = reader.text(&mut inner, "signal")?;
            match StepId::new(value.trim()) {
                Some(StepId(name)) => Some(WaitFor::Signal(name)),
                None => {
                    let what = format!("`{}` cannot be the name of a signal", short(&value));
                    reader.wrong(place, what, "use letters, digits, `_` and `-`, like `signal: deployed`");
                    None
                }
            }
        }
    }
}

fn retry(reader: &mut Reader<'_>, map: &mut Map) -> Option<Retry> {
    let node = reader.take(map, "retry")?;
    let mut inner = reader.map("`retry`", "retry.", node, &keys::RETRY)?;
    let delay = reader.count(&mut inner, "delay_ms", 1000, 60_000).map_or(3000, |at| at.value);
    let words = [("transient", RetryOn::Transient), ("all", RetryOn::All)];
    let on_error = reader.choice(&mut inner, "on_error", &words).map(|at| at.value).unwrap_or_default();
    let read = |reader: &mut Reader<'_>, map: &mut Map, key: &str| reader.count(map, key, 1, 5);
    let max_attempts = required(reader, &mut inner, "max_attempts", "max_attempts: 2", read)?.value;
    Some(Retry { max_attempts, delay: Millis(u64::from(delay)), on_error })
}

fn budget(reader: &mut Reader<'_>, map: &mut Map) -> Option<WorkflowBudget> {
    let place = map.place_of("budget");
    let node = reader.take(map, "budget")?;
    let mut inner = reader.map("`budget`", "budget.", node, &keys::BUDGET)?;
    let words = [("audit", BudgetMode::Audit), ("enforce", BudgetMode::Enforce)];
    let has_any = ["max_cost", "max_tokens", "max_time"].iter().any(|key| inner.has(key));
    if !has_any {
        let what = "`budget` must have one of max_cost, max_tokens, max_time";
        reader.wrong(place, what, "write for example `budget: {max_cost: 5.00}`");
    }
    Some(WorkflowBudget {
        max_cost: reader.dollars(&mut inner, "max_cost"),
        max_tokens: reader.count(&mut inner, "max_tokens", 1, 1_000_000_000).map(|at| u64::from(at.value)),
        max_time: reader.duration(&mut inner, "max_time").map(|at| at.value),
        mode: reader.choice(&mut inner, "mode", &words).map(|at| at.value).unwrap_or_default(),
    })
}

fn session(reader: &mut Reader<'_>, map: &mut Map) -> SessionRule {
    let words = [("fresh", SessionRule::Fresh), ("shared", SessionRule::Shared)];
    let context = reader.choice(map, "context", &words);
    let flags = ["fresh_context", "clearContext"].map(|key| reader.truth(map, key));
    let is_fresh = flags.iter().flatten().any(|at| at.value);
    match context {
        Some(Placed { value: SessionRule::Shared, place }) if is_fresh => {
            reader.wrong(place, "`context: shared` contradicts a fresh context", "keep one of them");
            SessionRule::Fresh
        }
        Some(at) => at.value,
        None if is_fresh => SessionRule::Fresh,
        None => SessionRule::Shared,
    }
}

fn provider(reader: &mut Reader<'_>, map: &mut Map) -> Option<String> {
    let Placed { value, place } = reader.text(map, "provider")?;
    let name = value.trim();
    if StepId::new(name).is_none() {
        let what = format!("`{}` cannot be the name of an agent", short(name));
        reader.wrong(place, what, "write `provider: claude` or `provider: codex`");
        return None;
    }
    if catalog::find(name).is_none() {
        let known = catalog::PREFERRED;
        let meant = nearest(name, &known).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
        let what = format!("dacapo itself knows no agent `{name}`{meant}");
        reader.note(place, what, "define it as `agents` in your own configuration, or name another");
    }
    Some(name.to_owned())
}

/// The path of the file that this one stands in place of.
fn replaces(reader: &mut Reader<'_>, map: &mut Map) -> Option<String> {
    let Placed { value, place } = reader.text(map, "replaces")?;
    let path = value.trim();
    if path == reader.source.file || !FOLDERS.iter().any(|folder| path.starts_with(&format!("{folder}/"))) {
        let what = format!("`{}` is no other workflow file", short(path));
        reader.wrong(
            place,
            what,
            "name the other file from the top of the repository, like `.archon/workflows/a.yaml`",
        );
        return None;
    }
    Some(path.to_owned())
}

fn output_format(reader: &mut Reader<'_>, map: &mut Map) -> Option<serde_json::Value> {
    let node: YamlNode = reader.take(map, "output_format")?;
    if !matches!(node.value, YamlValue::Map(_)) {
        let what = "`output_format` must be a JSON Schema";
        reader.wrong(
            node.place,
            what,
            "write for example `output_format: {type: object, properties: {ok: {type: boolean}}}`",
        );
        return None;
    }
    Some(json(&node))
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
