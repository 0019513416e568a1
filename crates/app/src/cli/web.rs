//! `dacapo web`: the dashboard in the browser.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use dacapo_engine::client::Client;
use dacapo_serve::{ServeError, Server, ServerParts, ServerSettings};

use super::{say_whole, value};
use crate::{
    context::Context,
    error::{ENVIRONMENT, USAGE, UserError},
};

/// Show the board in the browser
///
/// The first line is a link that logs one browser in, once. The page shows and changes nothing, unless `--allow-control` lets it
/// pause, cancel, steer and answer. It listens on this machine alone, unless `--listen` says otherwise.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  dacapo web\n  dacapo web --allow-control --port 8080")]
pub(super) struct WebArgs {
    #[command(flatten)]
    pub(super) server: ServerFlags,
}

/// What `web` and `serve` have in common: they are one server.
#[derive(Args, Debug)]
pub(super) struct ServerFlags {
    /// The port; 0 takes any that is free
    #[arg(long, value_name = "N", default_value_t = 7227)]
    port: u16,
    /// Let loops and runs be paused, cancelled, steered and answered from there
    #[arg(long)]
    allow_control: bool,
    /// The address to listen on; one that other machines can reach needs TLS
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    listen: std::net::IpAddr,
    /// A name that others call this machine by (with `--listen`)
    #[arg(long, value_name = "NAME", value_parser = value::not_blank)]
    host: Vec<String>,
    /// The certificate and its chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Listen where others reach it although nothing is encrypted: behind a proxy that has TLS, or in a network of your own
    #[arg(long)]
    insecure_listen: bool,
}

impl ServerFlags {
    /// A server that has its port.
    pub(super) fn bind(
        &self,
        cx: &Context,
        parts: ServerParts,
        run_flags: Vec<std::ffi::OsString>,
    ) -> Result<Server, UserError> {
        // The server stays and reads the journal once it can; the person who starts it hears of it here.
        if let Err(error) = Client::of_journal(&cx.home) {
            let error = UserError::from(error);
            let hint = error.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            super::warn(&[format!("{}{hint}", error.message)]);
        }
        let settings = ServerSettings {
            home: cx.home.clone(),
            parts,
            listen: SocketAddr::new(self.listen, self.port),
            allow_control: self.allow_control,
            allow_insecure: self.insecure_listen,
            names: self.host.iter().map(|name| name.to_ascii_lowercase()).collect(),
            tls: self.tls_cert.clone().zip(self.tls_key.clone()),
            run_flags,
            folder: Context::folder(None)?,
        };
        Ok(Server::bind(settings)?)
    }
}

impl From<ServeError> for UserError {
    fn from(error: ServeError) -> Self {
        let exit = match &error {
            ServeError::Insecure(_) => USAGE,
            _ => ENVIRONMENT,
        };
        let hint = error.hint();
        Self { hint, exit, ..Self::environment(error) }
    }
}

pub(super) fn web(cx: &Context, args: &WebArgs) -> Result<u8, UserError> {
    let server = args.server.bind(cx, ServerParts::Pages, Vec::new())?;
    say_whole(server.login_link()?);
    server.run()?;
    Ok(0)
}
