//! TLS, for a server that others reach.

use std::{fs, path::Path, sync::Arc};

use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

use crate::ServeError;

/// Reads a certificate, with those that vouch for it, and its key.
pub(crate) fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, ServeError> {
    let failed = |path: &Path, why: &dyn std::fmt::Display| ServeError::Tls {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let read = |path: &Path| fs::read(path).map_err(|error| failed(path, &error));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(cert)?)
        .collect::<Result<_, _>>()
        .map_err(|error| failed(cert, &error))?;
    if chain.is_empty() {
        return Err(failed(cert, &"it holds no certificate in PEM"));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| failed(key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(cert, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| failed(cert, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
