//! The one HTTP client: it blocks, follows no redirection, and trusts the certificates of the system.

use std::{path::PathBuf, sync::Arc, time::Duration};

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// How much of an answer is read.
const LONGEST_ANSWER: u64 = 4 << 20;

/// A request. With a body it is a POST of JSON, else a GET.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<String>,
    pub timeout: Duration,
}

impl HttpRequest {
    pub fn new(url: impl Into<String>, timeout: Duration) -> Self {
        Self { url: url.into(), headers: Vec::new(), body: None, timeout }
    }
}

/// What a service answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    pub status: u16,
    pub retry_after: Option<String>,
    pub body: Vec<u8>,
}

/// Sends a request and reads its answer; an error says why there is none, and may name the address.
pub fn send(request: &HttpRequest) -> Result<HttpAnswer, String> {
    let agent = agent(&request.url, request.timeout)?;
    let answer = match &request.body {
        Some(body) => {
            let mut post = agent.post(&request.url).header("content-type", "application/json");
            for (name, value) in &request.headers {
                post = post.header(*name, value);
            }
            post.send(body)
        }
        None => {
            let mut get = agent.get(&request.url);
            for (name, value) in &request.headers {
                get = get.header(*name, value);
            }
            get.call()
        }
    };
    let mut answer = answer.map_err(|error| error.to_string())?;
    let retry_after = answer.headers().get("retry-after").and_then(|value| value.to_str().ok());
    let retry_after = retry_after.map(str::to_owned);
    let status = answer.status().as_u16();
    let body = answer.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec();
    Ok(HttpAnswer { status, retry_after, body: body.map_err(|error| error.to_string())? })
}

fn agent(url: &str, timeout: Duration) -> Result<ureq::Agent, String> {
    let is_secure = url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"));
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(if is_secure { system_roots()? } else { Vec::new() })))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    Ok(ureq::Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("dacapo/", env!("CARGO_PKG_VERSION")))
        .build()
        .into())
}

/// Where systems keep the certificates that they trust, in one file.
const ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The certificates that the user's system trusts: also those of a company, and as new as the system is.
fn system_roots() -> Result<Vec<Certificate<'static>>, String> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let path = named.or_else(|| ROOTS.iter().map(PathBuf::from).find(|path| path.is_file()));
    let path = path.ok_or("no certificates found (install `ca-certificates`, or set SSL_CERT_FILE)")?;
    let shown = path.display();
    let bytes = std::fs::read(&path).map_err(|error| format!("cannot read `{shown}`: {error}"))?;
    let found = parse_pem(&bytes).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let found: Vec<Certificate<'static>> = found.collect();
    if found.is_empty() { Err(format!("`{shown}` holds no certificate")) } else { Ok(found) }
}
