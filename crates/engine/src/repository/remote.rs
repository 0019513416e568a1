//! Handing a branch on: to a remote, and to the people who review there.

use std::{ffi::OsStr, path::Path, process::Command, time::Duration};

use super::Repository;
use crate::git::{GitCall, GitError, WorkspaceError, run_bounded};

/// How long the network may take.
const LIMIT: Duration = Duration::from_secs(300);
/// The protocols that a push may use. `ext` and others that run a program are not among them.
const PROTOCOLS: &str = "file:git:http:https:ssh";

/// A request to take a branch over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    pub url: String,
}

/// Why there is no pull request.
#[derive(Debug, thiserror::Error)]
pub enum PullRequestError {
    #[error("`gh` is not installed: no such program on PATH")]
    NoGh,
    #[error("`gh pr create` failed: {0}")]
    Failed(String),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

impl From<GitError> for PullRequestError {
    fn from(error: GitError) -> Self {
        Self::Workspace(error.into())
    }
}

impl Repository {
    /// The remote that a branch goes to: its own, else `origin`, else the only one.
    pub fn default_remote(&self, target: &str) -> Result<Option<String>, WorkspaceError> {
        let listed = self.checkout.call().args(["remote"]).ok()?.stdout;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let remotes: Vec<&str> = listed.lines().collect();
        let settings = self.planted(&self.checkout)?;
        let own = settings.last(&format!("branch.{target}.remote")).filter(|name| remotes.contains(name));
        let only = if let [only] = remotes[..] { Some(only) } else { None };
        let found = own.or_else(|| remotes.iter().copied().find(|name| *name == "origin")).or(only);
        Ok(found.map(str::to_owned))
    }

    /// Pushes a commit under the name of its branch, even if the branch names another commit by then. No hook runs, and
    /// git asks the user nothing (fault H15).
    pub fn push(&self, branch: &str, commit: &str, remote: &str) -> Result<(), WorkspaceError> {
        let name = format!("refs/heads/{branch}");
        if self.branch(branch)?.is_none() {
            return Err(WorkspaceError::NoBranch(branch.to_owned()));
        }
        let network = self.planted(&self.checkout)?.undone_for_network();
        let mut call = network.into_iter().fold(self.guarded(&self.checkout)?, GitCall::config);
        call = call.env("GIT_ALLOW_PROTOCOL", PROTOCOLS);
        for (variable, value) in quiet() {
            call = call.env(variable, value);
        }
        call.config("push.gpgSign=false")
            .args(["push", "--quiet", "--no-verify", "--no-follow-tags", "--no-recurse-submodules"])
            .args(["--receive-pack=git-receive-pack", "--", remote, &format!("{commit}:{name}")])
            .for_at_most(LIMIT)
            .ok()?;
        Ok(())
    }

    /// Opens a pull request with the `gh` on PATH; one that is open already is as good.
    pub fn open_pull_request(
        &self,
        branch: &str,
        target: &str,
        title: &str,
        body: &str,
    ) -> Result<PullRequest, PullRequestError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        self.open_pull_request_with(&path, branch, target, title, body)
    }

    /// As `open_pull_request`, with a PATH of the caller's choice.
    pub fn open_pull_request_with(
        &self,
        path: &OsStr,
        branch: &str,
        target: &str,
        title: &str,
        body: &str,
    ) -> Result<PullRequest, PullRequestError> {
        let gh =
            crate::process::find_program("gh", path, Path::new("/")).map_err(|_| PullRequestError::NoGh)?;
        let mut command = Command::new(gh);
        let args = ["pr", "create", "--base", target, "--head", branch, "--title", title, "--body-file", "-"];
        command.args(args).current_dir(self.root());
        for (name, value) in quiet().into_iter().chain([
            ("GH_PROMPT_DISABLED", "1"),
            ("GH_NO_UPDATE_NOTIFIER", "1"),
            ("NO_COLOR", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
        ]) {
            command.env(name, value);
        }
        // It asks git about the repository, and that git reads what is planted there like any other (fault K3).
        let planted = self.planted(&self.checkout)?;
        let undone = planted.undone().map_err(|key| self.cannot_undo(&key))?;
        self.checkout.call().harden(&mut command, undone.into_iter().chain(planted.undone_for_network()));
        let output = run_bounded(command, Some(body.as_bytes()), "gh pr create", self.root(), LIMIT)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_open = output.code == Some(0) || output.stderr.contains("already exists");
        let text = if output.code == Some(0) { &said } else { &output.stderr };
        match address(text).filter(|_| is_open) {
            Some(url) => Ok(PullRequest { url }),
            None => {
                let lines: Vec<&str> =
                    output.stderr.lines().filter(|l| !l.trim().is_empty()).take(5).collect();
                let why = if lines.is_empty() { "it named no address".to_owned() } else { lines.join("; ") };
                Err(PullRequestError::Failed(why))
            }
        }
    }
}

/// The last address in a text.
fn address(text: &str) -> Option<String> {
    let mut words = text.split_ascii_whitespace().rev();
    words.find(|word| word.starts_with("https://") || word.starts_with("http://")).map(str::to_owned)
}

/// The environment that keeps ssh and git from asking the user.
pub(crate) fn quiet() -> Vec<(&'static str, &'static str)> {
    let mut all =
        vec![("GIT_ASKPASS", "/bin/false"), ("SSH_ASKPASS", "/bin/false"), ("SSH_ASKPASS_REQUIRE", "force")];
    if std::env::var_os("GIT_PROXY_COMMAND").is_none() {
        // The first setting counts here, so that ours would come too late.
        all.push(("GIT_PROXY_COMMAND", ""));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_among_words() {
        for (text, expected) in [
            ("https://host/o/r/pull/3\n", Some("https://host/o/r/pull/3")),
            (
                "a pull request for x already exists:\nhttps://host/o/r/pull/7\n",
                Some("https://host/o/r/pull/7"),
            ),
            ("nothing", None),
        ] {
            assert_eq!(address(text).as_deref(), expected);
        }
    }
}
