//! Who may look: a token in a file that only its owner can read, and links that log a browser in once.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use dacapo_engine::home::Home;
use sha2::{Digest, Sha256};

use crate::ServeError;

/// How long a link is good for that was not followed.
const LINK_LASTS: Duration = Duration::from_secs(24 * 60 * 60);

/// The secrets of a server.
pub(crate) struct Auth {
    token: String,
    cookie_name: String,
    cookie: String,
    links: PathBuf,
}

impl Auth {
    /// The token of `home`, made if there is none.
    pub(crate) fn of(home: &Home) -> Result<Self, ServeError> {
        home.prepare()?;
        let folder = home.path().join("web");
        let path = folder.join("token");
        let failed = |source| ServeError::Token { path: path.clone(), source };
        let links = folder.join("links");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&links).map_err(failed)?;
        let token = token_at(&path).map_err(failed)?;
        remove_old(&links);
        let cookie_name = format!("dacapo-{}", &digest("name", &token)[..8]);
        Ok(Self { cookie: digest("cookie", &token), cookie_name, token, links })
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// A new word for a link that logs a browser in. It is kept as a file, by its hash, so that it survives a restart and can
    /// be used up by one alone.
    pub(crate) fn new_link(&self) -> Result<String, ServeError> {
        let made = random().and_then(|word| {
            private(&self.links.join(digest("link", &word)))?;
            Ok(word)
        });
        made.map_err(|source| ServeError::Token { path: self.links.clone(), source })
    }

    /// Whether `word` is that of a link that was not followed yet; from now on it was.
    pub(crate) fn use_link(&self, word: &str) -> bool {
        let path = self.links.join(digest("link", word));
        let is_fresh = is_fresh(&path);
        fs::remove_file(&path).is_ok() && is_fresh
    }

    pub(crate) fn is_token(&self, given: &str) -> bool {
        same(&digest("token", given), &digest("token", &self.token))
    }

    /// Whether a `Cookie` header holds the login.
    pub(crate) fn is_login(&self, header: &str) -> bool {
        header.split(';').filter_map(|pair| pair.trim().split_once('=')).any(|(name, value)| {
            name == self.cookie_name && same(&digest("token", value), &digest("token", &self.cookie))
        })
    }

    /// What a browser keeps once it is logged in.
    pub(crate) fn set_cookie(&self, is_secure: bool) -> String {
        let secure = if is_secure { "; Secure" } else { "" };
        format!(
            "{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000{secure}",
            self.cookie_name, self.cookie
        )
    }
}

/// A hash of `text` that is good for one purpose alone.
fn digest(purpose: &str, text: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"dacapo web ");
    hash.update(purpose.as_bytes());
    hash.update([0]);
    hash.update(text.as_bytes());
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares in a time that does not tell where they differ.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len()
        && one.bytes().zip(other.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// 256 random bits.
fn random() -> io::Result<String> {
    let mut bytes = [0; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn private(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The token in a file; two servers that start at once agree on one.
fn token_at(path: &Path) -> io::Result<String> {
    let known = || -> io::Result<Option<String>> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let token = text.trim();
        let is_whole = token.len() == 64 && token.bytes().all(|b| b.is_ascii_hexdigit());
        Ok(is_whole.then(|| token.to_owned()))
    };
    if let Some(token) = known()? {
        // A copy from a backup may be readable by others.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        return Ok(token);
    }
    let fresh = random()?;
    let draft = path.with_extension(&fresh[..8]);
    let mut file = private(&draft)?;
    file.write_all(format!("{fresh}\n").as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, path);
    match linked {
        Ok(()) => fs::remove_file(&draft)?,
        // Another server was first, or the file holds no token.
        Err(_) => match known()? {
            Some(token) => {
                fs::remove_file(&draft)?;
                return Ok(token);
            }
            None => fs::rename(&draft, path)?,
        },
    }
    Ok(fresh)
}

fn is_fresh(path: &Path) -> bool {
    let made = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    made.is_ok_and(|made| SystemTime::now().duration_since(made).is_ok_and(|age| age < LINK_LASTS))
}

fn remove_old(links: &Path) {
    for entry in fs::read_dir(links).into_iter().flatten().flatten() {
        if !is_fresh(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
