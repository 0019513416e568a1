//! `gates`: the checks that every claim must pass.

use super::{At, ConfigSection};
use crate::{
    duration::Millis,
    yaml::{YamlNode, YamlValue},
};

pub(super) const KEYS: [&str; 4] = ["name", "run", "timeout", "retries"];

/// A check as a file defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// What people call it; its command unless the file says otherwise.
    pub name: String,
    /// The command line, to the byte.
    pub run: String,
    /// How long it may take.
    pub timeout: Option<Millis>,
    /// How often a red one is run again.
    pub retries: u32,
}

pub(super) fn read(top: &mut ConfigSection<'_>) -> Vec<At<Gate>> {
    let mut gates: Vec<At<Gate>> = Vec::new();
    for node in top.list("gates") {
        let place = node.place;
        let Some(gate) = gate(top, node) else { continue };
        if let Some(first) = gates.iter().find(|known| known.value.name == gate.value.name) {
            let what = format!(
                "a gate is called `{}` already, in line {}",
                crate::yaml::short(&gate.value.name),
                first.line
            );
            top.wrong(place, what);
        }
        gates.push(gate);
    }
    gates
}

fn gate(top: &mut ConfigSection<'_>, node: YamlNode) -> Option<At<Gate>> {
    let (place, line) = (node.place, node.place.line);
    if let YamlValue::Scalar { .. } = node.value {
        let run = top.text_of("a gate", node)?.value;
        let name = run.trim().to_owned();
        return Some(At { value: Gate { name, run, timeout: None, retries: 0 }, line });
    }
    let mut section = top.entry("`gates[]`", node, &KEYS)?;
    let has_run = section.has("run");
    let run = section.text("run").map(|run| run.value);
    let name = section.text("name").map(|name| name.value.trim().to_owned());
    let timeout = section.duration("timeout").map(|timeout| timeout.value);
    let retries = section.count("retries", 0).map_or(0, |retries| retries.value);
    if !has_run {
        section.wrong(place, "a gate needs a command: `run: …`");
    }
    let run = run?;
    Some(At {
        value: Gate { name: name.unwrap_or_else(|| run.trim().to_owned()), run, timeout, retries },
        line,
    })
}
