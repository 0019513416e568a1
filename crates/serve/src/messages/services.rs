//! The adapters that the user has configured, with their secrets.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use dacapo_core::config::{ChatService, SecretFrom, ServeSection, WebhookService};
use dacapo_engine::{
    config_files::{ConfigError, ConfigFiles},
    secrets::keep_from_commands,
};

use super::{
    adapter::{Adapter, ServiceToken},
    discord::Discord,
    slack::Slack,
    telegram::Telegram,
    test_adapter::TestAdapter,
    webhook::Webhook,
};

/// Why a service cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("`serve.{service}` names the variable {variable}, which is not set")]
    NoVariable { service: &'static str, variable: String },
    #[error("`serve.{service}` names `{}`, which cannot be read: {why}", path.display())]
    NoFile { service: &'static str, path: PathBuf, why: String },
    #[error("`serve.{service}` names `{}`, which other users may read", path.display())]
    OpenFile { service: &'static str, path: PathBuf },
}

impl ServiceError {
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Config(_) => None,
            Self::NoVariable { variable, .. } => {
                Some(format!("set {variable}, or name a file with `token_file`"))
            }
            Self::NoFile { .. } => Some("write the secret into it, alone, and `chmod 600` it".to_owned()),
            Self::OpenFile { path, .. } => Some(format!("`chmod 600 {}`", path.display())),
        }
    }
}

/// What `serve` of the user's configuration says.
fn section(folder: &Path) -> Result<ServeSection, ServiceError> {
    Ok(ConfigFiles::load(folder)?.user.serve)
}

/// Looks whether all services can be used; the server is not started otherwise.
pub fn check(folder: &Path) -> Result<(), ServiceError> {
    adapters(folder).map(drop)
}

/// Whether an agent is asked which workflow a free message means.
pub(super) fn routes_by_agent(folder: &Path) -> bool {
    section(folder).ok().and_then(|serve| serve.route).is_none_or(|route| route.value)
}

/// The webhook, with its secret.
pub(super) fn webhook(folder: &Path) -> Result<Option<Webhook>, ServiceError> {
    let Some(settings) = section(folder)?.webhook else { return Ok(None) };
    Ok(Some(of_webhook(settings)?))
}

fn of_webhook(settings: WebhookService) -> Result<Webhook, ServiceError> {
    Ok(Webhook { secret: secret("webhook", &settings.secret)?, settings })
}

/// All adapters. What they are configured with is not passed on to the commands that this server starts.
pub(super) fn adapters(folder: &Path) -> Result<Vec<Arc<dyn Adapter>>, ServiceError> {
    let ServeSection { webhook, slack, telegram, discord, .. } = section(folder)?;
    let services =
        [&slack, &telegram, &discord].into_iter().flatten().map(|service: &ChatService| &service.token);
    let named =
        services.chain(webhook.as_ref().map(|webhook| &webhook.secret)).filter_map(|from| match from {
            SecretFrom::Variable(name) => Some(name.clone()),
            SecretFrom::File(_) => None,
        });
    keep_from_commands(named);
    let mut adapters: Vec<Arc<dyn Adapter>> = vec![Arc::new(TestAdapter)];
    if let Some(settings) = webhook {
        adapters.push(Arc::new(of_webhook(settings)?));
    }
    if let Some(settings) = slack {
        adapters.push(Arc::new(Slack { token: secret("slack", &settings.token)?, settings }));
    }
    if let Some(settings) = telegram {
        adapters.push(Arc::new(Telegram { token: secret("telegram", &settings.token)?, settings }));
    }
    if let Some(settings) = discord {
        adapters.push(Arc::new(Discord { token: secret("discord", &settings.token)?, settings }));
    }
    Ok(adapters)
}

fn secret(service: &'static str, from: &SecretFrom) -> Result<ServiceToken, ServiceError> {
    match from {
        SecretFrom::Variable(variable) => {
            let value = std::env::var(variable).unwrap_or_default().trim().to_owned();
            match value.is_empty() {
                true => Err(ServiceError::NoVariable { service, variable: variable.clone() }),
                false => Ok(ServiceToken(value)),
            }
        }
        SecretFrom::File(file) => {
            let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
            let path = file.strip_prefix("~/").map_or_else(|| home.join(file), |rest| home.join(rest));
            let no_file = |why: String| ServiceError::NoFile { service, path: path.clone(), why };
            let found = fs::metadata(&path).map_err(|error| no_file(error.to_string()))?;
            if found.permissions().mode() & 0o077 != 0 {
                return Err(ServiceError::OpenFile { service, path });
            }
            let text = fs::read_to_string(&path).map_err(|error| no_file(error.to_string()))?;
            match text.trim() {
                "" => Err(no_file("it is empty".to_owned())),
                secret => Ok(ServiceToken(secret.to_owned())),
            }
        }
    }
}
