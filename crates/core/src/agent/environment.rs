//! What an agent and a gate find in their environment, as a function of the caller's.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use serde::{Deserialize, Serialize};

/// A name and a value of an environment.
pub type EnvironmentVariable = (OsString, OsString);

/// What an agent inherits of the caller's environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentRule {
    /// All of it, less what would mislead it.
    #[default]
    Inherit,
    /// What is needed to find programs, files and the user's language ([`is_basic`]), and nothing else.
    Strict,
}

/// Says of a variable that an agent gets it also where only what is named is passed on.
pub fn is_basic(name: &str) -> bool {
    const NAMES: [&str; 15] = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "LANG",
        "LANGUAGE",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
        "XDG_RUNTIME_DIR",
    ];
    NAMES.contains(&name) || name.starts_with("LC_")
}

/// The variable of the caller's that a value `$NAME` stands for.
fn referred(value: &str) -> Option<&str> {
    let name = value.strip_prefix('$')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then_some(name)
}

/// Whether a value is a variable of the caller's, `$NAME`, and not the text itself.
pub fn is_reference(value: &str) -> bool {
    referred(value).is_some()
}

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

/// The environment of an agent: what `rule` lets through of the caller's, less what marks a nested agent and the
/// caller's own `DACAPO_*`, with what the agent is `given` and then `own` on top. Nothing the caller set can outrank
/// `own` (req 93).
pub fn agent_environment(
    caller: &[EnvironmentVariable],
    rule: EnvironmentRule,
    given: &BTreeMap<String, String>,
    own: &[(&str, &OsStr)],
) -> Vec<EnvironmentVariable> {
    let mut all: Vec<(&str, &OsStr)> = given
        .iter()
        .filter(|(name, _)| !own.iter().any(|(own, _)| own == name))
        .filter_map(|(name, value)| match referred(value) {
            // What is not set there is not set here either.
            Some(from) => caller.iter().find(|(n, _)| n == from).map(|(_, v)| (name.as_str(), v.as_os_str())),
            None => Some((name.as_str(), OsStr::new(value))),
        })
        .collect();
    all.extend(own);
    let is_dropped = |name: &str| {
        is_nested_agent_marker(name)
            || given.contains_key(name)
            || (rule == EnvironmentRule::Strict && !is_basic(name))
    };
    let inherited =
        caller.iter().filter(|(name, _)| rule == EnvironmentRule::Inherit || name.to_str().is_some());
    filtered(inherited, &all, is_dropped)
}

/// The environment of a gate: an agent's, less provider keys, with search paths that do not begin with the folder it runs in.
pub fn gate_environment(caller: &[EnvironmentVariable], own: &[(&str, &OsStr)]) -> Vec<EnvironmentVariable> {
    let mut variables = filtered(caller, own, |name| is_nested_agent_marker(name) || is_provider_key(name));
    for (name, value) in &mut variables {
        if SEARCH_PATHS.iter().any(|path| name == path)
            && let Some(ordered) = value.to_str().and_then(own_folder_last)
        {
            *value = ordered.into();
        }
    }
    variables
}

/// Lists of folders in which shells, compilers, linkers and interpreters look for programs, headers, libraries and modules.
const SEARCH_PATHS: [&str; 11] = [
    "PATH",
    "PYTHONPATH",
    "NODE_PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "LD_LIBRARY_PATH",
    "PERL5LIB",
    "RUBYLIB",
    "CLASSPATH",
];

/// A search path with the folder that a program is started in, which an empty entry means as well, behind all others: a file that an
/// agent puts there is not taken for a program, header or module of that name elsewhere. What is found there alone is still found.
/// Folders that are named, as that of a virtual environment in the workspace, are the user's choice and stay.
fn own_folder_last(list: &str) -> Option<String> {
    let is_own = |entry: &&str| matches!(*entry, "" | "." | "./");
    let (own, named): (Vec<&str>, Vec<&str>) = list.split(':').partition(is_own);
    if own.is_empty() || named.is_empty() {
        return None;
    }
    // As a dot: an empty entry at the end is not one for every program.
    Some(format!("{}:.", named.join(":")))
}

fn filtered<'a>(
    caller: impl IntoIterator<Item = &'a EnvironmentVariable>,
    own: &[(&str, &OsStr)],
    drop: impl Fn(&str) -> bool,
) -> Vec<EnvironmentVariable> {
    let mut variables: Vec<EnvironmentVariable> = caller
        .into_iter()
        .filter(|(name, _)| {
            name.to_str()
                .is_none_or(|n| !n.starts_with("DACAPO_") && !drop(n) && !own.iter().any(|(o, _)| *o == n))
        })
        .cloned()
        .collect();
    variables.extend(own.iter().map(|(name, value)| (OsString::from(name), value.to_os_string())));
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(variables: Vec<EnvironmentVariable>) -> Vec<String> {
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
            names(agent_environment(&caller(), EnvironmentRule::Inherit, &BTreeMap::new(), &own)),
            [
                "HOME=/h",
                "CLAUDE_CODE_OAUTH_TOKEN=t",
                "ANTHROPIC_API_KEY=k",
                "TASK_FOLDER=/t",
                "DACAPO_ITERATION=1"
            ]
        );
        assert_eq!(
            names(gate_environment(&caller(), &own)),
            ["HOME=/h", "TASK_FOLDER=/t", "DACAPO_ITERATION=1"]
        );
    }

    #[test]
    fn the_search_paths_of_a_gate_do_not_begin_with_the_folder_it_runs_in() {
        for (list, expected) in [
            ("PATH=.:/usr/bin:/bin", "PATH=/usr/bin:/bin:."),
            ("PATH=/w/.venv/bin:/usr/bin", "PATH=/w/.venv/bin:/usr/bin"),
            ("PATH=node_modules/.bin::/bin", "PATH=node_modules/.bin:/bin:."),
            ("PYTHONPATH=:/lib/python", "PYTHONPATH=/lib/python:."),
            ("PYTHONPATH=/lib/python:", "PYTHONPATH=/lib/python:."),
            ("PYTHONPATH=.", "PYTHONPATH=."),
            ("PYTHONPATH=src:.", "PYTHONPATH=src:."),
            ("C_INCLUDE_PATH=./:/opt/include", "C_INCLUDE_PATH=/opt/include:."),
            ("CPATH=", "CPATH="),
            ("NODE_PATH=.:/opt/node", "NODE_PATH=/opt/node:."),
            ("LD_LIBRARY_PATH=:/opt/lib", "LD_LIBRARY_PATH=/opt/lib:."),
            ("WORDS=.:a", "WORDS=.:a"),
        ] {
            let caller = [list.split_once('=').map(|(n, v)| (n.into(), v.into())).unwrap()];
            assert_eq!(names(gate_environment(&caller, &[])), [expected], "{list}");
        }
        // What dacapo itself gives is looked at as well.
        let own: [(&str, &OsStr); 1] = [("PATH", ".:/bin:/home/bin".as_ref())];
        assert_eq!(names(gate_environment(&[], &own)), ["PATH=/bin:/home/bin:."]);
    }

    #[test]
    fn a_strict_environment_holds_what_is_named_and_the_basics() {
        // fault C11
        let caller = ["HOME=/h", "LC_ALL=C", "AWS_PROFILE=prod", "MY_KEY=k", "CLAUDECODE=1", "MODE=old"]
            .map(|v| v.split_once('=').map(|(n, v)| (n.into(), v.into())).unwrap());
        let given =
            [("ANTHROPIC_API_KEY", "$MY_KEY"), ("GONE", "$NOWHERE"), ("MODE", "a $5 word"), ("PATH", "x")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        let own: [(&str, &OsStr); 1] = [("PATH", "/bin".as_ref())];
        for (rule, inherited) in [
            (EnvironmentRule::Strict, vec!["HOME=/h", "LC_ALL=C"]),
            (EnvironmentRule::Inherit, vec!["HOME=/h", "LC_ALL=C", "AWS_PROFILE=prod", "MY_KEY=k"]),
        ] {
            let expected = [inherited, vec!["ANTHROPIC_API_KEY=k", "MODE=a $5 word", "PATH=/bin"]].concat();
            assert_eq!(names(agent_environment(&caller, rule, &given, &own)), expected);
        }
    }
}
