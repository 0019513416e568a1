//! The key of this machine: it signs receipts and authenticates the journal. An agent under guard can neither read nor write it.
//!
//! It lies beside the journal in `keys/`: `machine.key` (PKCS #8, readable by the user alone), `machine.pub` (what one hands to
//! people who check receipts), and `chained-from`, the first event of the journal that carries a hash.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use dacapo_core::{
    attestation::{DsseEnvelope, EnvelopeFault, Signer},
    chain::MacKey,
    receipt::sha256,
};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use jiff::Timestamp;

use crate::{home::make_dir, process::identity::host};

/// What stands before the 32 bytes of a private key in PKCS #8.
const PRIVATE: &[u8] = &[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// What stands before the 32 bytes of a public key in a `SubjectPublicKeyInfo`.
const PUBLIC: &[u8] = &[0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// Why the key of this machine cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the key of this machine is gone: there is no `{}`", .0.display())]
    Missing(PathBuf),
    #[error("`{}` can be read or written by other users (mode {mode:o}): it may not be this machine's key any more", path.display())]
    Open { path: PathBuf, mode: u32 },
    #[error("`{}` is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: &'static str },
    #[error("`{}` does not belong to `machine.key` beside it", .0.display())]
    OtherPair(PathBuf),
    /// The journal is of a format without hashes, although it had hashes before.
    #[error(
        "the journal was replaced by an older one: events have carried hashes since event {since}, and in this one they would since event {now}"
    )]
    OlderJournal { since: u64, now: u64, path: PathBuf },
    #[error("cannot use `{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl KeyError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Open { path, .. } => {
                format!("if no other user was at it, `chmod go= {}`", path.display())
            }
            Self::OlderJournal { path, .. } => format!(
                "if you have put an old journal back yourself, remove `{}`: what is recorded until now then counts as \
                 recorded without hashes",
                path.display()
            ),
            Self::Io { .. } => "check the folder and its permissions".to_owned(),
            Self::Missing(_) | Self::Damaged { .. } | Self::OtherPair(_) => {
                "put the folder `keys` back from a backup. Without it no loop can be shown to be unedited: move `keys` and \
                 `dacapo.db*` aside together, and dacapo begins a new journal with a new key"
                    .to_owned()
            }
        }
    }
}

/// The folder with this machine's key.
#[derive(Clone, Debug)]
pub struct MachineKeyFolder(PathBuf);

/// The secret half. It is in the memory of dacapo's own processes alone.
pub struct MachineKey {
    signing: SigningKey,
    mac: MacKey,
}

/// The half that checks signatures, and what is known about the key.
#[derive(Clone, Debug)]
pub struct PublicKey {
    key: VerifyingKey,
    pub signer: Signer,
}

impl MachineKeyFolder {
    /// The keys that belong to a journal.
    pub fn beside(database: &Path) -> Self {
        Self(database.parent().unwrap_or(Path::new(".")).join("keys"))
    }

    fn private_file(&self) -> PathBuf {
        self.0.join("machine.key")
    }

    pub fn public_file(&self) -> PathBuf {
        self.0.join("machine.pub")
    }

    fn record(&self) -> PathBuf {
        self.0.join("chained-from")
    }

    /// Makes the key if there is none, and notes from which event on the events of the journal carry hashes. It is called once
    /// for a journal, when that is made or first opened by a dacapo that knows hashes.
    pub(crate) fn begin_chain(&self, from: u64, is_new: bool) -> Result<(), KeyError> {
        make_dir(&self.0).map_err(at(&self.0))?;
        if !self.private_file().exists() {
            if self.public_file().exists() {
                return Err(KeyError::Missing(self.private_file()));
            }
            self.make()?;
        }
        if let (false, Some(since)) = (is_new, self.recorded()?)
            && since != from
        {
            return Err(KeyError::OlderJournal { since, now: from, path: self.record() });
        }
        write_whole(&self.record(), &format!("{from}\n"))
    }

    fn make(&self) -> Result<(), KeyError> {
        let mut secret = [0; 32];
        rustix::rand::getrandom(&mut secret[..], rustix::rand::GetRandomFlags::empty())
            .map_err(|error| at(&self.private_file())(error.into()))?;
        let signing = SigningKey::from_bytes(&secret);
        let user = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
        let user = user.filter(|user| !user.is_empty() && !user.contains(char::is_whitespace));
        let user = user.unwrap_or_else(|| format!("uid{}", rustix::process::geteuid().as_raw()));
        let public = public_text(&signing.verifying_key(), &format!("{user}@{}", host()), Timestamp::now());
        // The secret comes last: without it there is no key, and it is made again.
        write_whole(&self.public_file(), &public)?;
        let private = pem("PRIVATE KEY", &[PRIVATE, &secret].concat());
        write_whole(&self.private_file(), &private).inspect_err(|_| drop(fs::remove_file(self.public_file())))
    }

    /// The first event of the journal that carries a hash.
    pub(crate) fn chained_from(&self) -> Result<u64, KeyError> {
        self.recorded()?.ok_or_else(|| KeyError::Missing(self.record()))
    }

    fn recorded(&self) -> Result<Option<u64>, KeyError> {
        let path = self.record();
        match fs::read_to_string(&path) {
            Ok(text) => match text.trim().parse() {
                Ok(from) => Ok(Some(from)),
                Err(_) => Err(KeyError::Damaged { path, why: "it holds no number" }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(&path)(error)),
        }
    }

    /// The secret half of the key.
    pub(crate) fn secret(&self) -> Result<MachineKey, KeyError> {
        let path = self.private_file();
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(KeyError::Missing(path)),
            metadata => metadata.map_err(at(&path))?,
        };
        if !metadata.is_file() {
            return Err(KeyError::Damaged { path, why: "it is no file" });
        }
        if metadata.mode() & 0o077 != 0 {
            return Err(KeyError::Open { path, mode: metadata.mode() & 0o7777 });
        }
        let folder = fs::metadata(&self.0).map_err(at(&self.0))?;
        if folder.mode() & 0o022 != 0 {
            return Err(KeyError::Open { path: self.0.clone(), mode: folder.mode() & 0o7777 });
        }
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        let secret = of_pem("PRIVATE KEY", PRIVATE, &text)
            .ok_or(KeyError::Damaged { path, why: "it holds no private key of Ed25519" })?;
        Ok(MachineKey { mac: MacKey::derive(&secret), signing: SigningKey::from_bytes(&secret) })
    }

    /// The public half as its file has it.
    pub fn public(&self) -> Result<(PublicKey, String), KeyError> {
        let path = self.public_file();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(KeyError::Missing(path)),
            text => text.map_err(at(&path))?,
        };
        let key = PublicKey::of_text(&text)
            .ok_or(KeyError::Damaged { path, why: "it holds no public key of Ed25519" })?;
        Ok((key, text))
    }

    /// Both halves, if they belong together.
    pub(crate) fn pair(&self) -> Result<(MachineKey, PublicKey), KeyError> {
        let (secret, (public, _)) = (self.secret()?, self.public()?);
        if secret.signing.verifying_key() != public.key {
            return Err(KeyError::OtherPair(self.public_file()));
        }
        Ok((secret, public))
    }
}

impl MachineKey {
    pub(crate) fn mac(&self) -> &MacKey {
        &self.mac
    }

    /// A signed envelope with a statement in it.
    pub(crate) fn sign(&self, statement: &serde_json::Value, keyid: &str) -> DsseEnvelope {
        let sign = |message: &[u8]| self.signing.sign(message).to_bytes();
        DsseEnvelope::seal(statement.to_string().as_bytes(), keyid.to_owned(), sign)
    }
}

impl PublicKey {
    /// A public key in PEM, and what stands before it about the key.
    pub fn of_text(text: &str) -> Option<Self> {
        let bytes = of_pem("PUBLIC KEY", PUBLIC, text)?;
        let key = VerifyingKey::from_bytes(&bytes).ok()?;
        let about = |name: &str| {
            let lines = text.lines().take_while(|line| !line.starts_with("-----"));
            lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).next().map(str::to_owned)
        };
        let signer = Signer {
            keyid: keyid(&key),
            principal: about("Principal").unwrap_or_default(),
            made_at: about("Created").and_then(|at| at.parse().ok()),
        };
        Some(Self { key, signer })
    }

    /// The payload of an envelope that this key has signed.
    pub fn open(&self, envelope: &DsseEnvelope) -> Result<Vec<u8>, EnvelopeFault> {
        envelope.open(|message, signature| {
            // Strict: keys and signatures of small order, which fit many messages, count for nothing.
            Signature::from_slice(signature)
                .is_ok_and(|signature| self.key.verify_strict(message, &signature).is_ok())
        })
    }
}

/// The hash of the key as its file has it.
fn keyid(key: &VerifyingKey) -> String {
    format!("sha256:{}", sha256(&[PUBLIC, key.as_bytes()].concat()))
}

/// A public key as people and other programs read it. What stands before the key is no part of it.
fn public_text(key: &VerifyingKey, principal: &str, made_at: Timestamp) -> String {
    let made_at = Timestamp::from_second(made_at.as_second()).unwrap_or(made_at);
    format!(
        "Key-Id: {}\nAlgorithm: ed25519\nCreated: {made_at}\nPrincipal: {principal}\nUse: receipts of dacapo\n{}",
        keyid(key),
        pem("PUBLIC KEY", &[PUBLIC, key.as_bytes()].concat())
    )
}

fn pem(label: &str, bytes: &[u8]) -> String {
    // All that is written here fits into two lines of 64 letters.
    let text = STANDARD.encode(bytes);
    let (first, rest) = text.split_at(text.len().min(64));
    let rest = if rest.is_empty() { String::new() } else { format!("{rest}\n") };
    format!("-----BEGIN {label}-----\n{first}\n{rest}-----END {label}-----\n")
}

/// The 32 bytes of a key of the kind that `prefix` says.
fn of_pem(label: &str, prefix: &[u8], text: &str) -> Option<[u8; 32]> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (inside, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let inside: String = inside.split_whitespace().collect();
    STANDARD.decode(inside).ok()?.strip_prefix(prefix)?.try_into().ok()
}

fn at(path: &Path) -> impl Fn(io::Error) -> KeyError + use<> {
    let path = path.to_owned();
    move |source| KeyError::Io { path: path.clone(), source }
}

/// Writes a file that is there whole or not at all, for the user alone.
fn write_whole(path: &Path, text: &str) -> Result<(), KeyError> {
    let fresh = path.with_extension(format!("new.{}", std::process::id()));
    let write = || {
        let mut file =
            fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().map_err(at(path))
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
