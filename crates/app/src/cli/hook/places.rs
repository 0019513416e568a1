//! Where the files of hosts lie for this user and in this folder.

use std::path::PathBuf;

use clap::Args;
use dacapo_core::{
    hook_files::{HookScope, folder, folder_variable, settings_file},
    policy::TestsMode,
    session::Host,
};
use dacapo_engine::{config_files::ConfigFiles, health, hook_files::HookFileError, units::top};

use crate::{cli::flags::tests_where_nothing_is_typed, context::Context, error::UserError};

/// For which sessions.
#[derive(Args, Debug, Clone, Copy)]
pub(super) struct ScopeFlags {
    /// For all of your sessions; the default
    #[arg(long, conflicts_with = "project")]
    user: bool,
    /// For sessions in this repository only
    #[arg(long)]
    project: bool,
}

impl ScopeFlags {
    pub(super) fn scope(self) -> HookScope {
        if self.project { HookScope::Project } else { HookScope::User }
    }
}

/// The folder of a host.
pub(super) fn host_folder(host: Host, scope: HookScope) -> Result<PathBuf, UserError> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = match scope {
        HookScope::Project => top(&Context::folder(None)?),
        HookScope::User => {
            if let Some(moved) = folder_variable(host).and_then(set) {
                return Ok(moved);
            }
            if let Some(config) = set("XDG_CONFIG_HOME").filter(|_| host == Host::Opencode) {
                return Ok(config.join("opencode"));
            }
            set("HOME").ok_or_else(|| {
                UserError::environment("HOME is not set, so your settings cannot be found")
                    .hint("`--project` installs hooks for this repository only")
            })?
        }
    };
    Ok(base.join(folder(host, scope)))
}

/// The settings file of a host, if its hooks are in one.
pub(super) fn settings_path(host: Host, scope: HookScope) -> Result<Option<PathBuf>, UserError> {
    let folder = host_folder(host, scope)?;
    Ok(settings_file(host, scope).map(|name| folder.join(name)))
}

/// How long each gate of this folder may take, with its retries, and again with the tests as they were where those are checked.
pub(super) fn gate_timeouts() -> Vec<dacapo_core::duration::Millis> {
    let configured = Context::folder(None).ok().and_then(|folder| ConfigFiles::load(&folder).ok());
    let effective = configured.map(|configured| configured.effective(&dacapo_core::config::Typed::default()));
    let Some(effective) = effective else { return Vec::new() };
    let tests = tests_where_nothing_is_typed(&effective.tests);
    let (gates, times) = (effective.gates, if tests == TestsMode::Free { 1 } else { 2 });
    let with_retries = |timeout: u64, retries: u32| timeout.saturating_mul((u64::from(retries) + 1) * times);
    gates
        .iter()
        .map(|gate| dacapo_core::duration::Millis(with_retries(gate.spec.timeout.0, gate.spec.retries)))
        .collect()
}

/// How hooks name this program: by its path, or, in a repository that others share, by its name if that leads here.
pub(super) fn program(scope: HookScope) -> Result<String, UserError> {
    let here = std::env::current_exe().and_then(|path| path.canonicalize());
    let here =
        here.map_err(|error| UserError::environment(format!("cannot tell where dacapo is: {error}")))?;
    let on_path = health::find("dacapo").and_then(|path| path.canonicalize().ok());
    if scope == HookScope::Project && on_path.as_ref() == Some(&here) {
        return Ok("dacapo".to_owned());
    }
    let path = here.to_str().map(str::to_owned);
    path.ok_or_else(|| {
        UserError::environment(format!("the path of dacapo, `{}`, is not UTF-8", here.display()))
    })
}

impl From<HookFileError> for UserError {
    fn from(error: HookFileError) -> Self {
        let hint = error.hint();
        Self { hint, ..Self::environment(error) }
    }
}
