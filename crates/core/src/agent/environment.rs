//! What an agent and a gate find in their environment, as a function of the caller's.

use std::ffi::{OsStr, OsString};

/// One variable.
pub(super) type Variable = (OsString, OsString);

/// Says of a variable that it tells an agent that it runs inside another one.
///
/// Sign-in and provider choice share the prefix (`CLAUDE_CODE_OAUTH_TOKEN`, `CLAUDE_CODE_USE_BEDROCK`) and stay.
pub fn is_nested_agent_marker(name: &str) -> bool {
    const NAMES: [&str; 6] = [
        "CLAUDECODE",
        "CLAUDE_AGENT_SDK_VERSION",
        "CODEX_SANDBOX",
        "CODEX_THREAD_ID",
        "GEMINI_CLI",
        "OPENCODE",
    ];
    const KEPT: [&str; 3] = ["CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_", "CLAUDE_CODE_SKIP_"];
    NAMES.contains(&name)
        || name.starts_with("CODEX_SANDBOX_")
        || (name.starts_with("CLAUDE_CODE_") && !KEPT.iter().any(|kept| name.starts_with(kept)))
}

/// Says of a variable that it pays for a model or opens an account; checks have no use for those.
pub fn is_provider_key(name: &str) -> bool {
    const ENDINGS: [&str; 5] = ["_API_KEY", "_AUTH_TOKEN", "_OAUTH_TOKEN", "_ACCESS_KEY", "_SECRET_KEY"];
    const NAMES: [&str; 5] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK",
        "GITHUB_COPILOT_TOKEN",
        "COPILOT_GITHUB_TOKEN",
    ];
    ENDINGS.iter().any(|end| name.ends_with(end)) || NAMES.contains(&name)
}

/// The environment of an agent: the caller's, less what marks a nested agent and the caller's own `DACAPO_*`,
/// with `own` on top. Nothing the caller set can outrank `own` (req 93).
pub fn agent_environment(
    caller: impl IntoIterator<Item = Variable>,
    own: &[(&str, &OsStr)],
) -> Vec<Variable> {
    filtered(caller, own, is_nested_agent_marker)
}

/// The environment of a gate: an agent's, less provider keys.
pub fn gate_environment(caller: impl IntoIterator<Item = Variable>, own: &[(&str, &OsStr)]) -> Vec<Variable> {
    filtered(caller, own, |name| is_nested_agent_marker(name) || is_provider_key(name))
}

fn filtered(
    caller: impl IntoIterator<Item = Variable>,
    own: &[(&str, &OsStr)],
    drop: impl Fn(&str) -> bool,
) -> Vec<Variable> {
    let mut variables: Vec<Variable> = caller
        .into_iter()
        .filter(|(name, _)| {
            name.to_str()
                .is_none_or(|n| !n.starts_with("DACAPO_") && !drop(n) && !own.iter().any(|(o, _)| *o == n))
        })
        .collect();
    variables.extend(own.iter().map(|(name, value)| (OsString::from(name), value.to_os_string())));
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(variables: Vec<Variable>) -> Vec<String> {
        variables.into_iter().map(|(n, v)| format!("{}={}", n.display(), v.display())).collect()
    }

    #[test]
    fn an_agent_inherits_everything_but_what_would_mislead_it() {
        // req 93, fault C11
        let caller = || {
            [
                "HOME=/h",
                "CLAUDECODE=1",
                "CLAUDE_CODE_ENTRYPOINT=cli",
                "CLAUDE_CODE_OAUTH_TOKEN=t",
                "DACAPO_ITERATION=7",
                "DACAPO_STRANGE=1",
                "TASK_FOLDER=/evil",
                "ANTHROPIC_API_KEY=k",
            ]
            .map(|v| v.split_once('=').map(|(n, v)| (n.into(), v.into())).unwrap())
        };
        let own: [(&str, &OsStr); 2] = [("TASK_FOLDER", "/t".as_ref()), ("DACAPO_ITERATION", "1".as_ref())];
        assert_eq!(
            names(agent_environment(caller(), &own)),
            [
                "HOME=/h",
                "CLAUDE_CODE_OAUTH_TOKEN=t",
                "ANTHROPIC_API_KEY=k",
                "TASK_FOLDER=/t",
                "DACAPO_ITERATION=1"
            ]
        );
        assert_eq!(
            names(gate_environment(caller(), &own)),
            ["HOME=/h", "TASK_FOLDER=/t", "DACAPO_ITERATION=1"]
        );
    }
}
