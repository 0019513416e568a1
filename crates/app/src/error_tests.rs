//! What people read of every error. The variants come from the types: the compiler refuses a list that leaves one out, and a
//! type that no list is about fails.

use std::{collections::BTreeSet, error::Error, fs, io, path::Path};

use dacapo_core::{
    agent::{AgentCommandError, catalog::AgentDefinitionError},
    attestation::{EnvelopeFault, StatementFault},
    bus::DraftError,
    chain::ChainFault,
    config::{Author, ChoiceError},
    event::{LoopEvent, RunProblem},
    hook_files::SettingsError,
    judge::{
        glob::{GlobError, GlobProblem},
        promise::BlankPromise,
    },
    policy::PolicyProblem,
    problem::Problem,
    session::{CommandError, HookInputError},
};
use dacapo_engine::{
    agents::ProbeError,
    git::{GitError, RepositoryProblem},
    hook_files::HookFileError,
    import::ImportError,
    inside::protocol::AskRefusal,
    keys::KeyError,
    process::{ProgramError, identity::Identity},
    proof::ProofError,
    repository::PullRequestError,
    session::SessionError,
    stage_tasks::AddTaskError,
    store::{Lease, LockError, LoopRow},
    task_files::TaskFileError,
};
use dacapo_testkit::every_variant;

use super::*;
use crate::report::view_after;

/// Errors that only other parts of the engine see, which put their words into an event.
const TOLD_BY_EVENTS: [&str; 3] = ["StageJobError", "TellError", "WorktreeError"];

fn denied() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}

fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

fn loop_id() -> dacapo_core::ids::LoopId {
    id("abcdefghjk")
}

fn text(words: &str) -> String {
    words.to_owned()
}

fn problem() -> Problem {
    Problem {
        file: text("tasks/login.md"),
        line: 3,
        column: 1,
        what: text("`stauts` is no key of a task"),
        snippet: Some(text("stauts: todo")),
        fix: Some(text("did you mean `status`?")),
    }
}

fn row() -> Box<LoopRow> {
    let view = view_after(LoopEvent::Paused);
    let lease = Lease { host: text("here"), epoch: 1, until: "2026-11-15T14:00:00Z".parse().unwrap() };
    Box::new(LoopRow { view, owner: Identity { pid: 7, start: 1, boot: text("boot") }, lease })
}

/// What each of these errors looks like to a user: the exit code, the error, the hint.
fn as_users_see<E: Into<UserError>>(name: &str, errors: Vec<E>) -> String {
    let shown = errors.into_iter().map(|error| {
        let error: UserError = error.into();
        let details = error.details.map(|details| format!("{}\n", details.trim_end())).unwrap_or_default();
        let hint = error.hint.map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
        format!("{details}dacapo: {}\n{hint}exit {}\n\n", error.message, error.exit)
    });
    format!("# {name}\n\n{}", shown.collect::<String>())
}

/// The words of errors that stand in a sentence with others.
fn as_words<E: Error>(name: &str, errors: &[E]) -> String {
    format!("# {name}\n{}\n", errors.iter().map(|error| format!("{error}\n")).collect::<String>())
}

fn store_errors() -> Vec<StoreError> {
    let path = || text("/state/journal.db");
    every_variant!(StoreError {
        StoreError::Damaged { .. } => StoreError::Damaged { path: path(), why: text("file is not a database") },
        StoreError::TooOld { .. } => StoreError::TooOld { path: path(), found: 1, known: 5 },
        StoreError::TooNew { .. } => StoreError::TooNew { path: path(), found: 9, known: 5 },
        StoreError::Disk { is_full: true, .. } => StoreError::Disk { path: path(), why: text("disk full"), is_full: true },
        StoreError::Disk { is_full: false, .. } => StoreError::Disk { path: path(), why: text("read-only"), is_full: false },
        StoreError::FolderHeld(_) => StoreError::FolderHeld(row()),
        StoreError::Overtaken { .. } => StoreError::Overtaken { kind: "loop", id: text("abcdefghjk") },
        StoreError::Edited { .. } => StoreError::Edited { kind: "loop", id: text("abcdefghjk"), fault: ChainFault::Edited(17) },
        StoreError::Key(_) => StoreError::Key(KeyError::Missing("/state/keys/machine.key".into())),
        StoreError::Unreadable { .. } => StoreError::Unreadable { seq: 17, why: text("missing field `iteration`") },
        StoreError::Other { .. } => StoreError::Other { path: path(), why: text("out of memory") },
    })
}

fn key_errors() -> Vec<StoreError> {
    let path = || "/state/keys/machine.key".into();
    let errors = every_variant!(KeyError {
        KeyError::Missing(_) => KeyError::Missing(path()),
        KeyError::Open { .. } => KeyError::Open { path: path(), mode: 0o644 },
        KeyError::Damaged { .. } => KeyError::Damaged { path: path(), why: "it is no file" },
        KeyError::OtherPair(_) => KeyError::OtherPair("/state/keys/machine.pub".into()),
        KeyError::OlderJournal { .. } => {
            KeyError::OlderJournal { since: 1, now: 40, path: "/state/keys/chained-from".into() }
        },
        KeyError::Io { .. } => KeyError::Io { path: path(), source: denied() },
    });
    errors.into_iter().map(StoreError::Key).collect()
}

fn chain_faults() -> Vec<ChainFault> {
    every_variant!(ChainFault {
        ChainFault::Edited(_) => ChainFault::Edited(17),
        ChainFault::Bare(..) => ChainFault::Bare(17, 3),
        ChainFault::TooEarly(..) => ChainFault::TooEarly(2, 3),
        ChainFault::OtherHead { .. } => ChainFault::OtherHead { head: 17, found: 16 },
        ChainFault::OtherMac(_) => ChainFault::OtherMac(17),
        ChainFault::NoMac(_) => ChainFault::NoMac(17),
        ChainFault::OtherCheckpoint(_) => ChainFault::OtherCheckpoint(512),
    })
}

fn envelope_faults() -> Vec<EnvelopeFault> {
    every_variant!(EnvelopeFault {
        EnvelopeFault::OtherType(_) => EnvelopeFault::OtherType(text("text/plain")),
        EnvelopeFault::NoPayload => EnvelopeFault::NoPayload,
        EnvelopeFault::Unsigned => EnvelopeFault::Unsigned,
        EnvelopeFault::OtherKey => EnvelopeFault::OtherKey,
    })
}

fn statement_faults() -> Vec<StatementFault> {
    every_variant!(StatementFault {
        StatementFault::NoStatement(_) => StatementFault::NoStatement(text("expected value at line 1")),
        StatementFault::OtherPredicate(_) => StatementFault::OtherPredicate(text("urn:else")),
        StatementFault::OtherSubject => StatementFault::OtherSubject,
        StatementFault::OtherHash => StatementFault::OtherHash,
        StatementFault::Contradiction(_) => StatementFault::Contradiction("journal.loop"),
    })
}

fn home_errors() -> Vec<HomeError> {
    every_variant!(HomeError {
        HomeError::Nowhere => HomeError::Nowhere,
        HomeError::Relative { .. } => HomeError::Relative { variable: "HOME", value: "state".into() },
        HomeError::Unwritable { .. } => HomeError::Unwritable { path: "/state".into(), source: denied() },
    })
}

fn repository_problems() -> Vec<RepositoryProblem> {
    every_variant!(RepositoryProblem {
        RepositoryProblem::Bare => RepositoryProblem::Bare,
        RepositoryProblem::InsideGitDir => RepositoryProblem::InsideGitDir,
        RepositoryProblem::Midway("bisect") => RepositoryProblem::Midway("bisect"),
        RepositoryProblem::Midway("merge") => RepositoryProblem::Midway("merge"),
        RepositoryProblem::Midway(_) => RepositoryProblem::Midway("rebase"),
        RepositoryProblem::IndexLocked(_) => RepositoryProblem::IndexLocked("/shop/.git/index.lock".into()),
        RepositoryProblem::CorruptHead(_) => RepositoryProblem::CorruptHead(text("bad object")),
        RepositoryProblem::Corrupt { .. } => {
            RepositoryProblem::Corrupt { path: "/shop/.git".into(), said: text("bad config line 1") }
        },
        RepositoryProblem::Unborn => RepositoryProblem::Unborn,
        RepositoryProblem::ForeignOwner => RepositoryProblem::ForeignOwner,
    })
}

fn git_errors() -> Vec<GitError> {
    let (command, dir) = (|| text("status"), || "/shop".into());
    every_variant!(GitError {
        GitError::Missing => GitError::Missing,
        GitError::Run { .. } => GitError::Run { command: command(), dir: dir(), source: denied() },
        GitError::TimedOut { .. } => GitError::TimedOut { command: command(), dir: dir(), seconds: 60 },
        GitError::TooMuch { .. } => GitError::TooMuch { command: command(), dir: dir(), most: 1024 },
        GitError::Failed { code: Some(_), .. } => {
            GitError::Failed { command: command(), dir: dir(), code: Some(128), said: text("fatal: bad revision") }
        },
        GitError::Failed { code: None, .. } => {
            GitError::Failed { command: command(), dir: dir(), code: None, said: text("") }
        },
    })
}

fn workspace_errors() -> Vec<WorkspaceError> {
    let dir = || "/shop".into();
    let mut errors: Vec<WorkspaceError> = repository_problems()
        .into_iter()
        .map(|state| WorkspaceError::Refused { dir: dir(), state })
        .chain(git_errors().into_iter().map(WorkspaceError::Git))
        .collect();
    errors.extend(every_variant!(WorkspaceError {
        WorkspaceError::Refused { .. } => WorkspaceError::Refused { dir: dir(), state: RepositoryProblem::Bare },
        WorkspaceError::Git(_) => WorkspaceError::Git(GitError::Missing),
        WorkspaceError::Io { .. } => WorkspaceError::Io { what: "read", path: "/shop/a".into(), source: denied() },
        WorkspaceError::Damaged { .. } => WorkspaceError::Damaged { path: "/state/s".into(), why: text("not JSON") },
        WorkspaceError::Link(_) => WorkspaceError::Link("/w/api".into()),
        WorkspaceError::NotBegun(_) => WorkspaceError::NotBegun(text("abcdefghjk")),
        WorkspaceError::Plain { .. } => WorkspaceError::Plain { what: "commit", dir: dir() },
        WorkspaceError::NoSnapshot(_) => WorkspaceError::NoSnapshot(text("0123456")),
        WorkspaceError::TooManyFiles { .. } => WorkspaceError::TooManyFiles { dir: dir(), most: 1000 },
        WorkspaceError::NotEmpty(_) => WorkspaceError::NotEmpty("/shop/out".into()),
        WorkspaceError::Staged { .. } => WorkspaceError::Staged { dir: dir() },
        WorkspaceError::HeadMoved { .. } => WorkspaceError::HeadMoved { dir: dir(), why: text("it is 0123456 now") },
        WorkspaceError::NoIdentity { .. } => WorkspaceError::NoIdentity { dir: dir() },
        WorkspaceError::NoCommit(_) => WorkspaceError::NoCommit(text("0123456")),
        WorkspaceError::NoBranch(_) => WorkspaceError::NoBranch(text("main")),
        WorkspaceError::Foreign { .. } => WorkspaceError::Foreign { path: "/w/api".into(), dir: dir() },
        WorkspaceError::NoName { .. } => WorkspaceError::NoName { name: text("api"), dir: "/w".into() },
        WorkspaceError::NotClean { .. } => WorkspaceError::NotClean { dir: dir(), paths: vec![text("src/lib.rs")] },
        WorkspaceError::BranchMoved { .. } => WorkspaceError::BranchMoved { branch: text("main"), now: text("0123456") },
        WorkspaceError::OtherBranch { .. } => WorkspaceError::OtherBranch { dir: dir(), branch: text("main") },
        WorkspaceError::NotFollowed { .. } => {
            WorkspaceError::NotFollowed { branch: text("main"), dir: dir(), why: text("permission denied") }
        },
        WorkspaceError::HalfMoved { .. } => {
            WorkspaceError::HalfMoved { branch: text("main"), dir: dir(), why: text("no space left") }
        },
        WorkspaceError::BranchTaken(_) => WorkspaceError::BranchTaken(text("task/login")),
        WorkspaceError::Locked(_) => WorkspaceError::Locked(dir()),
    }).into_iter().skip(2));
    errors
}

fn program_errors() -> Vec<ProgramError> {
    every_variant!(ProgramError {
        ProgramError::NotFound(_) => ProgramError::NotFound(text("claude")),
        ProgramError::NoSuchFile(_) => ProgramError::NoSuchFile(text("./agent")),
        ProgramError::NotExecutable(_) => ProgramError::NotExecutable(text("./agent")),
    })
}

fn policy_problems() -> Vec<PolicyProblem> {
    every_variant!(PolicyProblem {
        PolicyProblem::NotPositive { .. } => PolicyProblem::NotPositive { setting: "--max-iterations" },
        PolicyProblem::Blank { .. } => PolicyProblem::Blank { setting: "--gate" },
        PolicyProblem::Outside { .. } => PolicyProblem::Outside { gate: text("tests"), dir: text("../other") },
        PolicyProblem::Unproven { .. } => PolicyProblem::Unproven { item: text("task #2") },
    })
}

fn glob_problems() -> Vec<GlobProblem> {
    every_variant!(GlobProblem {
        GlobProblem::Blank => GlobProblem::Blank,
        GlobProblem::Outside => GlobProblem::Outside,
        GlobProblem::Negated => GlobProblem::Negated,
        GlobProblem::UnclosedClass => GlobProblem::UnclosedClass,
        GlobProblem::BackwardRange => GlobProblem::BackwardRange,
        GlobProblem::NamedClass => GlobProblem::NamedClass,
        GlobProblem::UnclosedBrace => GlobProblem::UnclosedBrace,
        GlobProblem::TrailingEscape => GlobProblem::TrailingEscape,
        GlobProblem::TooLong => GlobProblem::TooLong,
    })
}

/// Those that hold another error are shown where that error is.
fn start_errors() -> Vec<StartError> {
    let glob = GlobError { pattern: text("../x"), problem: GlobProblem::Outside };
    let errors = every_variant!(StartError {
        StartError::Home(_) => StartError::Home(HomeError::Nowhere),
        StartError::Store(_) => StartError::Store(store_errors().remove(0)),
        StartError::Program(_) => StartError::Program(ProgramError::NotFound(text("claude"))),
        StartError::Policy(_) => StartError::Policy(PolicyProblem::Blank { setting: "--gate" }),
        StartError::NoPrompt(_) => StartError::NoPrompt(id("fix-tests")),
        StartError::BlankPrompt => StartError::BlankPrompt,
        StartError::Prompt(_) => {
            let (bytes, limit) = (3_000_000, 102_400);
            StartError::Prompt(AgentCommandError::PromptTooLong { agent: text("my-agent"), bytes, limit })
        },
        StartError::TaskHeld { holder: Some(_), .. } => {
            StartError::TaskHeld { task: id("fix-tests"), holder: Some(loop_id()) }
        },
        StartError::TaskHeld { holder: None, .. } => StartError::TaskHeld { task: id("fix-tests"), holder: None },
        StartError::WorkspaceHeld { .. } => {
            StartError::WorkspaceHeld { holder: loop_id(), task: id("fix-tests"), workspace: "/shop".into() }
        },
        StartError::TaskOfUser(_) => StartError::TaskOfUser(id("fix-tests")),
        StartError::Cycle(_) => StartError::Cycle(text("a, b, a")),
        StartError::TooDeep => StartError::TooDeep,
        StartError::ParentGone(_) => StartError::ParentGone(loop_id()),
        StartError::Unknown(_) => StartError::Unknown(loop_id()),
        StartError::InSession(_) => StartError::InSession(loop_id()),
        StartError::NotResumable { .. } => StartError::NotResumable { id: loop_id(), state: text("completed") },
        StartError::Workspace(_) => StartError::Workspace(WorkspaceError::Staged { dir: "/shop".into() }),
        StartError::ProtectsNothing(_) => StartError::ProtectsNothing(text("test/**")),
        StartError::Glob(_) => StartError::Glob(glob),
        StartError::NoCommit(_) => StartError::NoCommit("it is not a git repository"),
        StartError::Secret(_) => StartError::Secret(text("--gate")),
        StartError::Io { .. } => StartError::Io { what: "cannot write", path: "/state".into(), source: denied() },
        StartError::Supervise(SuperviseError::Io { .. }) => {
            StartError::Supervise(SuperviseError::Io { what: "cannot start the keeper", source: denied() })
        },
        StartError::Supervise(SuperviseError::Store(_)) => {
            StartError::Supervise(SuperviseError::Store(store_errors().remove(0)))
        },
    });
    errors.into_iter().filter(|error| !matches!(error, StartError::Home(_) | StartError::Store(_))).collect()
}

fn run_errors() -> Vec<RunError> {
    every_variant!(RunError {
        RunError::Home(_) => RunError::Home(HomeError::Nowhere),
        RunError::Store(_) => RunError::Store(store_errors().remove(0)),
        RunError::Workspace(_) => RunError::Workspace(WorkspaceError::Staged { dir: "/shop".into() }),
        RunError::Start(_) => RunError::Start(StartError::BlankPrompt),
        RunError::Held { holder: Some(_) } => RunError::Held { holder: Some(id("abcdefghjk")) },
        RunError::Held { holder: None } => RunError::Held { holder: None },
        RunError::Performed { .. } => RunError::Performed { id: id("abcdefghjk") },
        RunError::Io { .. } => RunError::Io { what: "cannot start a job", source: denied() },
    })
}

fn draft_errors() -> Vec<DraftError> {
    every_variant!(DraftError {
        DraftError::Kind(_) => DraftError::Kind(text("two words")),
        DraftError::Value { .. } => DraftError::Value { key: "task", value: text(" x") },
    })
}

fn errors_of_sessions_and_buses() -> String {
    let path = || "/shop/bus.md".into();
    let bus = every_variant!(BusError {
        BusError::Refused { .. } => BusError::Refused { path: path(), source: DraftError::Kind(text("two words")) },
        BusError::NotAFile { .. } => BusError::NotAFile { path: path() },
        BusError::FolderGone { .. } => BusError::FolderGone { path: path() },
        BusError::Io { .. } => BusError::Io { action: "read", path: path(), source: denied() },
    });
    let sessions = every_variant!(SessionError {
        SessionError::Home(_) => SessionError::Home(HomeError::Nowhere),
        SessionError::Store(_) => SessionError::Store(store_errors().remove(0)),
        SessionError::Start(_) => SessionError::Start(StartError::BlankPrompt),
        SessionError::Bus(_) => SessionError::Bus(BusError::NotAFile { path: path() }),
        SessionError::NoSession => SessionError::NoSession,
        SessionError::Foreign { .. } => {
            SessionError::Foreign { session: text("s-1"), id: loop_id(), iteration: 3 }
        },
        SessionError::NoLoop => SessionError::NoLoop,
        SessionError::StillOpen(_) => SessionError::StillOpen(text("2 of 3 tasks are open")),
        SessionError::BlankReason => SessionError::BlankReason,
        SessionError::Background(_) => SessionError::Background(denied()),
        SessionError::Watch(_) => SessionError::Watch(denied()),
        SessionError::Write { .. } => SessionError::Write { path: "/shop/x".into(), source: denied() },
    });
    let inside = every_variant!(InsideError {
        InsideError::NoSocket(_) => InsideError::NoSocket(loop_id()),
        InsideError::NobodyThere { .. } => InsideError::NobodyThere { path: "/run/s".into(), source: denied() },
        InsideError::NoAnswer(_) => InsideError::NoAnswer(text("it hung up")),
        InsideError::Refused(_) => InsideError::Refused(AskRefusal {
            why: text("a loop below an agent cannot be cancelled by it"),
            hint: Some(text("end your work and say so")),
            exit: 2,
        }),
    });
    as_users_see("BusError", bus)
        + &as_users_see("SessionError", sessions)
        + &as_users_see("InsideError", inside)
}

fn errors_of_files() -> String {
    let path = || "/shop/f".into();
    let hook_files = every_variant!(HookFileError {
        HookFileError::Read { .. } => HookFileError::Read { path: path(), source: denied() },
        HookFileError::Write { .. } => HookFileError::Write { path: path(), source: denied() },
        HookFileError::ReadOnly(_) => HookFileError::ReadOnly(path()),
        HookFileError::NotRegular(_) => HookFileError::NotRegular(path()),
        HookFileError::Dangling { .. } => HookFileError::Dangling { path: path(), target: "/gone".into() },
        HookFileError::NotText(_) => HookFileError::NotText(path()),
        HookFileError::Raced(_) => HookFileError::Raced(path()),
    });
    let imports = every_variant!(ImportError {
        ImportError::Read { .. } => ImportError::Read { path: path(), source: denied() },
        ImportError::Write { .. } => ImportError::Write { path: path(), source: denied() },
        ImportError::NothingThere { .. } => ImportError::NothingThere { folder: "/shop".into() },
        ImportError::Several { .. } => {
            ImportError::Several { folder: "/shop".into(), found: vec![text("prd.json"), text("TODO.md")] }
        },
        ImportError::IsUnit { .. } => ImportError::IsUnit { path: "/shop/units/api".into() },
        ImportError::Problems { .. } => ImportError::Problems { problems: vec![problem()] },
        ImportError::Changed { .. } => ImportError::Changed { files: vec![text("units/api/1.md")] },
        ImportError::OtherTasks { .. } => {
            ImportError::OtherTasks { folder: text("units/api"), files: vec![text("7.md")] }
        },
    });
    let tasks = every_variant!(AddTaskError {
        AddTaskError::Taken { .. } => AddTaskError::Taken { id: id("login"), file: text("tasks/login.md") },
        AddTaskError::Wrong(_) => AddTaskError::Wrong(vec![problem()]),
        AddTaskError::Folder(_) => AddTaskError::Folder(problem()),
        AddTaskError::File(_) => AddTaskError::File(TaskFileError::Unreadable { file: text("tasks/login.md") }),
    });
    let units = every_variant!(UnitsError {
        UnitsError::Refused { .. } => UnitsError::Refused { dir: text("units"), why: "it is a link" },
        UnitsError::Io { .. } => UnitsError::Io { path: path(), source: denied() },
        UnitsError::Write { .. } => UnitsError::Write { path: path(), source: denied() },
    });
    let wrong =
        dacapo_core::config::parse("config.yaml", b"gates: 3\nlimit: {}\n", Author::User).unwrap_err();
    let config = every_variant!(ConfigError {
        ConfigError::Problems(_) => ConfigError::Problems(wrong),
        ConfigError::Refused { .. } => ConfigError::Refused { path: path(), why: "it is not a regular file" },
        ConfigError::OpenToAll { .. } => ConfigError::OpenToAll { path: path() },
        ConfigError::Io { .. } => ConfigError::Io { path: path(), source: denied() },
        ConfigError::Write { .. } => ConfigError::Write { path: path(), source: denied() },
    });
    [
        as_users_see("HookFileError", hook_files),
        as_users_see("ImportError", imports),
        as_users_see("AddTaskError", tasks),
        as_users_see("UnitsError", units),
        as_users_see("ConfigError", config),
    ]
    .concat()
}

fn errors_of_clients() -> String {
    let snapshots = every_variant!(SnapshotError {
        SnapshotError::Store(_) => SnapshotError::Store(store_errors().remove(0)),
        SnapshotError::Workspace(_) => SnapshotError::Workspace(WorkspaceError::NoSnapshot(text("0123456"))),
        SnapshotError::None(_) => SnapshotError::None(loop_id()),
        SnapshotError::Plain(_) => SnapshotError::Plain(loop_id()),
        SnapshotError::NoIteration { .. } => SnapshotError::NoIteration { id: loop_id(), wanted: 9, last: 3 },
        SnapshotError::NoUndo(_) => SnapshotError::NoUndo(loop_id()),
        SnapshotError::Held { .. } => {
            SnapshotError::Held { holder: loop_id(), task: text("fix-tests"), dir: text("/shop") }
        },
        SnapshotError::Busy(_) => SnapshotError::Busy(text("fix-tests")),
        SnapshotError::Gone(_) => SnapshotError::Gone(text("/shop")),
    });
    let client = every_variant!(ClientError {
        ClientError::Home(_) => ClientError::Home(HomeError::Nowhere),
        ClientError::Store(_) => ClientError::Store(store_errors().remove(0)),
        ClientError::Inside(_) => ClientError::Inside(InsideError::NoAnswer(text("it hung up"))),
        ClientError::Start(_) => ClientError::Start(StartError::BlankPrompt),
        ClientError::Snapshot(_) => ClientError::Snapshot(SnapshotError::NoUndo(loop_id())),
        ClientError::Output { .. } => ClientError::Output { id: loop_id(), source: denied() },
        ClientError::Watch(_) => ClientError::Watch(denied()),
        ClientError::Background(_) => ClientError::Background(denied()),
    });
    let reset = every_variant!(ResetError {
        ResetError::Unknown(_) => ResetError::Unknown(id("api")),
        ResetError::Merged(_) => ResetError::Merged(id("api")),
        ResetError::Busy { .. } => ResetError::Busy { unit: id("api"), loop_id: loop_id() },
        ResetError::Run(RunError::Workspace(WorkspaceError::NotClean { .. })) => {
            let paths = vec![text("src/lib.rs")];
            ResetError::Run(RunError::Workspace(WorkspaceError::NotClean { dir: "/w/api".into(), paths }))
        },
        ResetError::Run(_) => ResetError::Run(RunError::Held { holder: None }),
    });
    [
        as_users_see("SnapshotError", snapshots),
        as_users_see("ClientError", client),
        as_users_see("ResetError", reset),
        as_users_see("RunError", run_errors()),
    ]
    .concat()
}

/// Errors whose words stand in an answer, in an event, or behind the name of a flag or a file.
fn words_of_errors() -> String {
    let agent = || text("gemini");
    let definitions = every_variant!(AgentDefinitionError {
        AgentDefinitionError::Root { .. } => AgentDefinitionError::Root { agent: agent() },
        AgentDefinitionError::NoMaxTurns { .. } => AgentDefinitionError::NoMaxTurns { agent: agent() },
        AgentDefinitionError::NoModel { .. } => AgentDefinitionError::NoModel { agent: agent() },
        AgentDefinitionError::OddModel { .. } => AgentDefinitionError::OddModel { shown: text("-x") },
        AgentDefinitionError::NoPromptArgument { .. } => AgentDefinitionError::NoPromptArgument { agent: agent() },
        AgentDefinitionError::NoCommand { .. } => AgentDefinitionError::NoCommand { agent: agent() },
        AgentDefinitionError::NoAcp { .. } => AgentDefinitionError::NoAcp { agent: agent() },
        AgentDefinitionError::NoTools { .. } => AgentDefinitionError::NoTools { agent: agent() },
    });
    let hints: String = definitions.iter().map(|error| format!("hint: {}\n", error.hint())).collect();
    let commands = every_variant!(AgentCommandError {
        AgentCommandError::Blank => AgentCommandError::Blank,
        AgentCommandError::Unbalanced(_) => AgentCommandError::Unbalanced(text("claude -p 'x")),
        AgentCommandError::TwoPlaceholders => AgentCommandError::TwoPlaceholders,
        AgentCommandError::PromptTooLong { .. } => {
            AgentCommandError::PromptTooLong { agent: agent(), bytes: 3_000_000, limit: 102_400 }
        },
    });
    let choices = every_variant!(ChoiceError {
        ChoiceError::Unknown { nearest: Some(_), .. } => {
            ChoiceError::Unknown { name: text("claud"), nearest: Some(text("claude")), known: Vec::new() }
        },
        ChoiceError::Unknown { nearest: None, .. } => {
            ChoiceError::Unknown { name: text("x"), nearest: None, known: vec![text("claude"), text("codex")] }
        },
        ChoiceError::Option(_) => ChoiceError::Option(AgentDefinitionError::NoModel { agent: agent() }),
    });
    let probes = every_variant!(ProbeError {
        ProbeError::Program(_) => ProbeError::Program(ProgramError::NotFound(text("claude"))),
        ProbeError::Command(_) => ProbeError::Command(AgentCommandError::Blank),
        ProbeError::Io(_) => ProbeError::Io(denied()),
    });
    let proofs = every_variant!(ProofError {
        ProofError::Store(_) => ProofError::Store(store_errors().remove(0)),
        ProofError::Workspace(_) => ProofError::Workspace(WorkspaceError::NoSnapshot(text("0123456"))),
        ProofError::Snapshot(_) => ProofError::Snapshot(SnapshotError::Gone(text("/shop"))),
        ProofError::NoSnapshot(_) => ProofError::NoSnapshot(text("0123456")),
        ProofError::Changed(_) => ProofError::Changed(text("/shop")),
        ProofError::Replaced(_) => ProofError::Replaced(WorkspaceError::NoSnapshot(text("0123456"))),
        ProofError::NoFiles => ProofError::NoFiles,
        ProofError::NoFolder(..) => ProofError::NoFolder(text("tests"), text("there is no folder `app`")),
        ProofError::Unknown(_) => ProofError::Unknown(loop_id()),
        ProofError::Io { .. } => ProofError::Io { what: "cannot make a folder", source: denied() },
    });
    let pull_requests = every_variant!(PullRequestError {
        PullRequestError::NoGh => PullRequestError::NoGh,
        PullRequestError::Failed(_) => PullRequestError::Failed(text("no remote")),
        PullRequestError::Workspace(_) => PullRequestError::Workspace(WorkspaceError::NoBranch(text("main"))),
    });
    let locks = every_variant!(LockError {
        LockError::Held => LockError::Held,
        LockError::Io { .. } => LockError::Io { path: "/state/lock".into(), source: denied() },
    });
    let task_files = every_variant!(TaskFileError {
        TaskFileError::Io { .. } => TaskFileError::Io { file: text("tasks/login.md"), source: denied() },
        TaskFileError::Unreadable { .. } => TaskFileError::Unreadable { file: text("tasks/login.md") },
    });
    let hook_inputs = every_variant!(HookInputError {
        HookInputError::Empty => HookInputError::Empty,
        HookInputError::Malformed(_) => HookInputError::Malformed(text("expected value at line 1")),
        HookInputError::NoObject => HookInputError::NoObject,
        HookInputError::NoSession => HookInputError::NoSession,
    });
    let slash = every_variant!(CommandError {
        CommandError::NoTask => CommandError::NoTask,
        CommandError::NoValue(_) => CommandError::NoValue("--max-iterations"),
        CommandError::BadNumber(_) => CommandError::BadNumber(text("many")),
        CommandError::Twice(_) => CommandError::Twice("--max-iterations"),
        CommandError::UnknownFlag { .. } => {
            CommandError::UnknownFlag { flag: text("--max"), meant: text("; did you mean `--max-iterations`?") }
        },
        CommandError::Unclosed => CommandError::Unclosed,
    });
    let settings = every_variant!(SettingsError {
        SettingsError::Syntax { .. } => SettingsError::Syntax { line: 3, column: 1, what: text("expected `}`") },
        SettingsError::Shape { .. } => SettingsError::Shape { path: text("hooks.Stop"), what: "a list" },
        SettingsError::Inline => SettingsError::Inline,
        SettingsError::Unsound => SettingsError::Unsound,
    });
    let promises = every_variant!(BlankPromise {
        BlankPromise::Blank => BlankPromise::Blank,
        BlankPromise::HoldsTag => BlankPromise::HoldsTag,
    });
    let runs = every_variant!(RunProblem {
        RunProblem::NoSlots => RunProblem::NoSlots,
        RunProblem::Duplicate(_) => RunProblem::Duplicate(id("api")),
        RunProblem::Circle(_) => RunProblem::Circle(vec![id("api"), id("database")]),
    });
    [
        as_words("AgentDefinitionError", &definitions) + &hints + "\n",
        as_words("AgentCommandError", &commands),
        as_words("ChoiceError", &choices),
        as_words("ProbeError", &probes),
        as_words("ProofError", &proofs),
        as_words("ProgramError", &program_errors()),
        as_words("PullRequestError", &pull_requests),
        as_words("LockError", &locks),
        as_words("TaskFileError", &task_files),
        as_words("HookInputError", &hook_inputs),
        as_words("CommandError", &slash),
        as_words("SettingsError", &settings),
        as_words("BlankPromise", &promises),
        as_words("RunProblem", &runs),
        as_words("PolicyProblem", &policy_problems()),
        as_words("GlobProblem", &glob_problems()),
        as_words("DraftError", &draft_errors()),
        as_words("ChainFault", &chain_faults()),
        as_words("EnvelopeFault", &envelope_faults()),
        as_words("StatementFault", &statement_faults()),
    ]
    .concat()
}

/// All that people read, one text for each file of snapshots.
fn pages() -> [(&'static str, String); 5] {
    let journal_and_git = [
        as_users_see("HomeError", home_errors()),
        as_users_see("StoreError", store_errors()),
        as_users_see("KeyError", key_errors()),
        as_users_see("WorkspaceError, RepositoryProblem, GitError", workspace_errors()),
        as_users_see("StartError, SuperviseError", start_errors()),
    ];
    [
        ("errors_of_loops", journal_and_git.concat()),
        ("errors_of_clients", errors_of_clients()),
        ("errors_of_sessions_and_buses", errors_of_sessions_and_buses()),
        ("errors_of_files", errors_of_files()),
        ("words_of_errors", words_of_errors()),
    ]
}

#[test]
fn every_variant_of_every_error_has_its_words() {
    for (name, page) in pages() {
        insta::assert_snapshot!(name, page);
    }
}

#[test]
fn no_type_of_errors_is_left_out() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut types = BTreeSet::new();
    for part in ["core", "engine", "app"] {
        collect_error_enums(&crates.join(part).join("src"), &mut types);
    }
    assert!(types.len() > 30, "{types:?}");
    let pages: Vec<String> = pages().into_iter().map(|(_, page)| page).collect();
    let headings: BTreeSet<&str> = pages
        .iter()
        .flat_map(|page| page.lines())
        .filter_map(|line| line.strip_prefix("# "))
        .flat_map(|line| line.split(", "))
        .chain(TOLD_BY_EVENTS)
        .collect();
    let missing: Vec<&String> = types.iter().filter(|name| !headings.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "no snapshot holds the words of {missing:?}");
}

/// The names of the enums below `folder` whose words are derived by `thiserror`.
fn collect_error_enums(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_error_enums(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            let mut is_error = false;
            for line in source.lines() {
                is_error |= line.starts_with("#[derive(") && line.contains("thiserror::Error");
                let words: Vec<&str> = line.split_whitespace().collect();
                if let Some(at) = words.iter().position(|word| ["enum", "struct"].contains(word))
                    && !line.starts_with(' ')
                    && !line.starts_with('/')
                {
                    if is_error && words[at] == "enum" {
                        found.extend(words.get(at + 1).map(|name| (*name).to_owned()));
                    }
                    is_error = false;
                }
            }
        }
    }
}
