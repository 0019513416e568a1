//! What becomes of a worktree's branch when its agents, who see copies of all refs, have moved their copy of it.

/// What to do with the branch of the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchStep {
    /// It stays where it is.
    Stay,
    /// It goes to where the agent left its copy.
    Follow,
    /// It follows unless it holds what the agent left already.
    FollowUnlessHeld,
}

/// Decides by where the agent left its copy (`seen`), where the repository's branch is (`tip`), and where both were when the copy was
/// last brought up to date (`shown`), which a supervisor that takes over from a killed one does not know.
pub fn branch_step(seen: Option<&str>, tip: Option<&str>, shown: Option<&str>) -> BranchStep {
    match (seen, tip, shown) {
        // The agent deleted its copy: that is no word about the repository's.
        (None, _, _) => BranchStep::Stay,
        (seen, tip, _) if seen == tip => BranchStep::Stay,
        (seen, _, shown) if seen == shown => BranchStep::Stay,
        (_, tip, Some(shown)) if tip == Some(shown) => BranchStep::Follow,
        _ => BranchStep::FollowUnlessHeld,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_follows_the_agent_and_dacapos_own_commits_are_never_taken_off() {
        use BranchStep::{Follow, FollowUnlessHeld, Stay};
        for (seen, tip, shown, step) in [
            (Some("a"), Some("a"), Some("a"), Stay),
            // The agent committed, amended or took its own commit back.
            (Some("b"), Some("a"), Some("a"), Follow),
            // dacapo committed, or put the branch back; the agent did nothing since.
            (Some("a"), Some("b"), Some("a"), Stay),
            // Both moved.
            (Some("b"), Some("c"), Some("a"), FollowUnlessHeld),
            // A killed supervisor knew what was shown.
            (Some("b"), Some("a"), None, FollowUnlessHeld),
            (Some("a"), Some("a"), None, Stay),
            (None, Some("a"), Some("a"), Stay),
            (None, Some("a"), None, Stay),
            (Some("b"), None, Some("a"), FollowUnlessHeld),
        ] {
            assert_eq!(branch_step(seen, tip, shown), step, "{seen:?} {tip:?} {shown:?}");
        }
    }
}
