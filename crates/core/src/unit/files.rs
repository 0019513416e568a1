//! Files of units while one is worked on: what in them may change, and what they say when dacapo sets them back.

use super::{Task, TaskStatus, check, frontmatter};

/// What a change of a file below the folder of units comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitFileVerdict {
    /// It may change in this way.
    Fine,
    /// Nothing but its status is another: allowed, but no work.
    OnlyStatus,
    Forbidden(ForbiddenKind),
}

/// What must not become of a file of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForbiddenKind {
    /// It was not there before, or something else stands in its place.
    Added,
    Deleted,
    Frontmatter,
    /// Its status is another, and it is no task of this turn.
    Status,
}

impl ForbiddenKind {
    /// What is wrong with such a change of the file at `path`, in one line.
    pub fn describe(self, path: &str) -> String {
        match self {
            Self::Added => format!("`{path}` was added to the units: none may appear while one is worked on"),
            Self::Deleted => {
                format!("`{path}` is gone from the units: none may vanish while one is worked on")
            }
            Self::Frontmatter => {
                format!("the frontmatter of `{path}` was changed: it is frozen while the unit is worked on")
            }
            Self::Status => format!("the status of `{path}` was changed: it is no task of this turn"),
        }
    }
}

/// Whether a path lies below the folder of units.
pub fn is_below(units_dir: &str, path: &str) -> bool {
    let folder = units_dir.trim_start_matches("./").trim_end_matches('/');
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Judges a file that held `before` when the loop began and holds `after` now; `None` where it is no regular file. The
/// status of `tasks` may change.
pub fn judge(path: &str, before: Option<&[u8]>, after: Option<&[u8]>, tasks: &[Task]) -> UnitFileVerdict {
    use UnitFileVerdict::{Fine, Forbidden, OnlyStatus};
    let (before, after) = match (before, after) {
        (Some(before), Some(after)) => (before, after),
        (None, Some(_)) => return Forbidden(ForbiddenKind::Added),
        (_, None) => return Forbidden(ForbiddenKind::Deleted),
    };
    // Notes and pictures have no frontmatter that could be frozen.
    if !frontmatter::is_there(before) && !frontmatter::is_there(after) {
        return Fine;
    }
    if !frontmatter::is_same_head(before, after) {
        return Forbidden(ForbiddenKind::Frontmatter);
    }
    let status = |bytes| check::reread(path, bytes).ok();
    let is_task = || tasks.iter().any(|task| task.spec.file == path);
    if status(before) != status(after) && !is_task() {
        return Forbidden(ForbiddenKind::Status);
    }
    if frontmatter::changes_only_status(before, after) { OnlyStatus } else { Fine }
}

/// What a task's file holds when it says `status`: its content `now` and nothing else changed, or what it held at the
/// `base` if that cannot be read. `None` if neither can.
pub fn restated(file: &str, base: Option<&[u8]>, now: Option<&[u8]>, status: TaskStatus) -> Option<Vec<u8>> {
    let says = |bytes: &[u8]| check::reread(file, bytes).is_ok_and(|said| said == status);
    if let (Some(base), Some(now)) = (base, now)
        && says(base)
        && frontmatter::changes_only_status(base, now)
    {
        // To the byte, also where there was no such line.
        return Some(base.to_vec());
    }
    let restate = |bytes: &[u8]| match says(bytes) {
        true => Some(bytes.to_vec()),
        false => frontmatter::with_status(bytes, status).ok(),
    };
    now.and_then(restate).or_else(|| base.and_then(restate))
}

/// What a task's file says in a commit, if it is to say `status` in the worktree: complete is what was proven. That a task
/// was begun or given up is the worktree's business, and there the commit says what the `base` does.
pub fn committed(file: &str, base: Option<&[u8]>, status: TaskStatus) -> TaskStatus {
    let before = base.and_then(|bytes| check::reread(file, bytes).ok());
    match (status, before) {
        (TaskStatus::Complete, _) | (_, None | Some(TaskStatus::Complete)) => status,
        (_, Some(before)) => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loop_machine::decide_tests::items::task_set;

    const FILE: &str = "specs/tasks/app/02-t.md";
    const PENDING: &str = "---\ntask: 2\nstatus: pending\nbackpressure: make\n---\n# T\n";
    const COMPLETE: &str = "---\ntask: 2\nstatus: complete\nbackpressure: make\n---\n# T\n";

    #[test]
    fn what_may_change_in_the_file_of_a_unit() {
        // fault A10, fault A12
        use ForbiddenKind::*;
        use UnitFileVerdict::{Fine, Forbidden, OnlyStatus};
        let body = COMPLETE.replace("# T", "# T\n\nDone so.");
        let easier = COMPLETE.replace("make", "true");
        let bogus = COMPLETE.replace("complete", "finished");
        let plan = "specs/tasks/app/IMPLEMENTATION_PLAN.md";
        for (path, before, after, in_turn, otherwise) in [
            (FILE, Some(PENDING), Some(COMPLETE), OnlyStatus, Forbidden(Status)),
            (FILE, Some(PENDING), Some(&*body), Fine, Forbidden(Status)),
            (FILE, Some(PENDING), Some(&*bogus), OnlyStatus, Forbidden(Status)),
            (FILE, Some(PENDING), Some(&*easier), Forbidden(Frontmatter), Forbidden(Frontmatter)),
            (FILE, Some(PENDING), Some("gone"), Forbidden(Frontmatter), Forbidden(Frontmatter)),
            (FILE, Some(PENDING), None, Forbidden(Deleted), Forbidden(Deleted)),
            (FILE, None, Some(PENDING), Forbidden(Added), Forbidden(Added)),
            (
                "specs/tasks/other/02-t.md",
                Some(PENDING),
                Some(COMPLETE),
                Forbidden(Status),
                Forbidden(Status),
            ),
            (plan, Some("---\nunit: a\n---\n"), Some("---\nunit: a\n---\nmore\n"), Fine, Fine),
            (
                plan,
                Some("---\nunit: a\n---\n"),
                Some("---\nunit: b\n---\n"),
                Forbidden(Frontmatter),
                Forbidden(Frontmatter),
            ),
            ("specs/tasks/app/notes.txt", Some("a"), Some("b"), Fine, Fine),
        ] {
            let bytes = |text: Option<&'static str>| text.map(str::as_bytes);
            let after = after.map(str::as_bytes);
            assert_eq!(judge(path, bytes(before), after, &task_set().tasks), in_turn, "{path} {after:?}");
            assert_eq!(judge(path, bytes(before), after, &[]), otherwise, "{path} {after:?}");
        }
    }

    #[test]
    fn an_editor_may_end_lines_in_another_way() {
        use UnitFileVerdict::{Fine, Forbidden, OnlyStatus};
        let tampered = Forbidden(ForbiddenKind::Frontmatter);
        let dos = |text: &str| text.replace('\n', "\r\n");
        let head_alone = |text: &str| text.replacen('\n', "\r\n", 4);
        let body = COMPLETE.replace("# T", "# T\n\nDone so.");
        let block = PENDING.replace("make", "|\n  make\n  test");
        let block_done = COMPLETE.replace("make", "|\n  make\n  test");
        let quoted = PENDING.replace("make", "\"make\\r\\ntest\"");
        let quoted_done = COMPLETE.replace("make", "\"make\\ntest\"");
        for (before, after, expected) in [
            (PENDING.to_owned(), dos(COMPLETE), OnlyStatus),
            (dos(PENDING), COMPLETE.to_owned(), OnlyStatus),
            (PENDING.to_owned(), head_alone(COMPLETE), OnlyStatus),
            (head_alone(PENDING), dos(COMPLETE), OnlyStatus),
            (PENDING.to_owned(), dos(&body), Fine),
            (block.clone(), dos(&block_done), OnlyStatus),
            (dos(&block), block_done, OnlyStatus),
            // More than the ends of lines.
            (quoted, quoted_done, tampered),
            (PENDING.to_owned(), dos(COMPLETE).replace("make", "true"), tampered),
            (PENDING.to_owned(), COMPLETE.replace("make", "ma\rke"), tampered),
            (PENDING.to_owned(), dos(COMPLETE).replace("make", "make "), tampered),
            (PENDING.to_owned(), dos(COMPLETE).replace("task: 2", "task: 2\r\nextra: 1"), tampered),
            (PENDING.to_owned(), dos(COMPLETE).replacen("\r\n---", "\r\n\r\n---", 1), tampered),
        ] {
            let found = judge(FILE, Some(before.as_bytes()), Some(after.as_bytes()), &task_set().tasks);
            assert_eq!(found, expected, "{before:?} {after:?}");
        }
        // What is accepted is what the agent wrote; what is refused is what was there.
        let restated =
            |status| restated(FILE, Some(PENDING.as_bytes()), Some(dos(COMPLETE).as_bytes()), status);
        assert_eq!(restated(TaskStatus::Complete), Some(dos(COMPLETE).into_bytes()));
        assert_eq!(restated(TaskStatus::Pending), Some(PENDING.as_bytes().to_vec()));
    }

    #[test]
    fn forbidden_changes_of_unit_files_have_their_words() {
        // fault A10, fault A12
        use ForbiddenKind::*;
        for (kind, words) in [
            (Added, "`u/01.md` was added to the units: none may appear while one is worked on"),
            (Deleted, "`u/01.md` is gone from the units: none may vanish while one is worked on"),
            (
                Frontmatter,
                "the frontmatter of `u/01.md` was changed: it is frozen while the unit is worked on",
            ),
            (Status, "the status of `u/01.md` was changed: it is no task of this turn"),
        ] {
            assert_eq!(kind.describe("u/01.md"), words);
        }
    }

    #[test]
    fn below_is_below() {
        for (folder, path, expected) in [
            ("specs/tasks", "specs/tasks/app/01.md", true),
            ("./specs/tasks/", "specs/tasks/app/01.md", true),
            ("specs/tasks", "specs/tasks2/01.md", false),
            ("specs/tasks", "src/specs/tasks/01.md", false),
        ] {
            assert_eq!(is_below(folder, path), expected, "{folder} {path}");
        }
    }

    #[test]
    fn a_file_is_set_back_to_the_byte_and_work_in_it_is_kept() {
        // req 36, req 41
        let bare = "---\ntask: 2\nbackpressure: make\n---\n# T\n";
        let worked = COMPLETE.replace("# T", "# T\n\nDone so.");
        let worked_back = PENDING.replace("# T", "# T\n\nDone so.");
        for (base, now, status, expected) in [
            (Some(PENDING), Some(COMPLETE), TaskStatus::Pending, Some(PENDING)),
            (Some(PENDING), Some(COMPLETE), TaskStatus::Complete, Some(COMPLETE)),
            (Some(PENDING), Some(PENDING), TaskStatus::Complete, Some(COMPLETE)),
            (Some(PENDING), Some(&*worked), TaskStatus::Pending, Some(&*worked_back)),
            (
                Some(bare),
                Some("---\ntask: 2\nbackpressure: make\nstatus: complete\n---\n# T\n"),
                TaskStatus::Pending,
                Some(bare),
            ),
            (Some(PENDING), Some("torn"), TaskStatus::Pending, Some(PENDING)),
            (Some(PENDING), None, TaskStatus::Complete, Some(COMPLETE)),
            (None, None, TaskStatus::Pending, None),
        ] {
            let found = restated(FILE, base.map(str::as_bytes), now.map(str::as_bytes), status);
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{now:?}");
        }
    }

    #[test]
    fn a_commit_says_of_other_tasks_what_was_said_before() {
        // req 41: marks of the worktree stay there; complete never comes from anywhere but a proof.
        use TaskStatus::{Complete, Failed, InProgress, Pending};
        let failed = PENDING.replace("pending", "failed");
        for (base, status, expected) in [
            (Some(PENDING), Failed, Pending),
            (Some(PENDING), InProgress, Pending),
            (Some(PENDING), Pending, Pending),
            (Some(PENDING), Complete, Complete),
            (Some(&*failed), Pending, Failed),
            (Some(COMPLETE), Complete, Complete),
            (Some(COMPLETE), Pending, Pending),
            (Some("torn"), Failed, Failed),
            (None, Pending, Pending),
        ] {
            assert_eq!(committed(FILE, base.map(str::as_bytes), status), expected, "{base:?} {status:?}");
        }
    }
}
