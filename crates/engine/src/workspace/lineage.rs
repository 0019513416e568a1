//! How commits relate to each other and to branches, for whoever has to know what is whose.

use super::{
    error::WorkspaceError,
    git::{by_nul, refusal},
    repo::Repo,
};

impl Repo {
    /// The newest commit that both hold; none if they share nothing.
    pub fn merge_base(&self, a: &str, b: &str) -> Result<Option<String>, WorkspaceError> {
        let call = self.repository.call().args(["merge-base", a, b]);
        let shown = call.shown();
        let output = call.run()?;
        match output.code {
            Some(0) => Ok(Some(output.line())),
            Some(1) => Ok(None),
            _ => Err(refusal(shown, self.root().to_owned(), &output).into()),
        }
    }

    /// Commits of `head` that are not of `base`, newest first.
    pub fn commits_between(&self, base: &str, head: &str) -> Result<Vec<String>, WorkspaceError> {
        let range = format!("{base}..{head}");
        let listed = self.repository.call().args(["rev-list", &range, "--"]).ok()?.stdout;
        Ok(String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect())
    }

    /// Every path of a commit.
    pub fn paths(&self, commit: &str) -> Result<Vec<Vec<u8>>, WorkspaceError> {
        let call = self.repository.call().args(["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit]);
        Ok(by_nul(&call.ok()?.stdout).map(<[u8]>::to_vec).collect())
    }

    /// Branches with merged units that `target` does not hold yet.
    pub fn waiting_merges(&self, target: &str) -> Result<Vec<String>, WorkspaceError> {
        let Some(tip) = self.branch(target)? else { return Ok(Vec::new()) };
        let no_merged = format!("--no-merged={tip}");
        let args = ["for-each-ref", "--format=%(refname:lstrip=2)", &no_merged, "refs/heads/dacapo/merged-*"];
        let listed = self.repository.call().args(args).ok()?.stdout;
        Ok(String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect())
    }
}
