use dacapo_core::{judge::promise::PromiseRule, policy::GateRules};

use super::*;

struct World {
    _dir: tempfile::TempDir,
    home: Home,
    workspace: PathBuf,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let workspace = root.join("work");
        fs::create_dir(&workspace).unwrap();
        Self { home: Home::at(root.join("state")), workspace, _dir: dir }
    }

    fn new_session(&self, session: &str) -> NewSession {
        let promise = PromiseRule::new("REFACTOR_COMPLETE").unwrap();
        NewSession {
            host: Host::Claude,
            session: session.to_owned(),
            prompt: "Refactor the database layer".to_owned(),
            policy: Policy::session(Host::Claude, promise, 50, GateRules::default()),
            description: None,
            project: "p".parse().unwrap(),
            workspace: self.workspace.clone(),
            transcript: TranscriptMark::default(),
            force: false,
            verify: false,
        }
    }
}

/// A host that remembers what it was given, or gives nothing on.
#[derive(Default)]
struct Remembering {
    prompts: Vec<String>,
    toasts: Vec<String>,
    log: Vec<String>,
    is_broken: bool,
    /// What it says when it is asked whether a session exists.
    exists: Option<bool>,
}

impl SessionHost for Remembering {
    fn inject(&mut self, prompt: &str) -> Result<(), String> {
        if self.is_broken {
            return Err("the session does not answer".to_owned());
        }
        self.prompts.push(prompt.to_owned());
        Ok(())
    }

    fn toast(&mut self, toast: &Toast) {
        self.toasts.push(toast.line());
    }

    fn exists(&mut self, _: &HostSession) -> Option<bool> {
        self.exists
    }

    fn log(&mut self, line: &str) {
        self.log.push(line.to_owned());
    }
}

#[test]
fn a_program_starts_looks_and_cancels() {
    // req 110, req 133: the programmatic example of the seed
    let world = World::new();
    let sessions = SessionLoops::new(&world.home);
    let mut host = Remembering::default();
    assert_eq!(sessions.state(None, None).unwrap(), None);
    assert!(!sessions.cancel("ses_1", &mut host).unwrap(), "nothing to cancel");
    sessions.start(world.new_session("ses_1"), &mut host).unwrap();
    assert!(host.prompts[0].starts_with("Refactor the database layer"), "the initial prompt (req 130)");
    let state = sessions.state(Some("ses_1"), None).unwrap().unwrap();
    assert_eq!((state.iteration, state.max_iterations), (1, 50));
    assert_eq!(sessions.state(Some("ses_2"), None).unwrap(), None, "null for a foreign session");
    assert_eq!(sessions.state(None, None).unwrap().unwrap().session_id, "ses_1");
    assert!(sessions.is_active("ses_1").unwrap() && !sessions.is_active("ses_2").unwrap());
    assert!(!sessions.cancel("ses_2", &mut host).unwrap(), "not of another session (req 109)");
    assert!(sessions.cancel("ses_1", &mut host).unwrap());
    assert_eq!(host.toasts.last().unwrap(), "Ralph Loop Cancelled: Stopped at iteration 1");
    assert!(!sessions.is_active("ses_1").unwrap() && !sessions.cancel("ses_1", &mut host).unwrap());
}

#[test]
fn a_host_without_messages_injection_and_toasts_works() {
    // req 129
    let world = World::new();
    let sessions = SessionLoops::new(&world.home);
    sessions.start(world.new_session("ses_1"), &mut NoHost).unwrap();
    fs::write(world.workspace.join("a"), "1").unwrap();
    sessions.idle("ses_1", None, &mut NoHost).unwrap();
    assert_eq!(sessions.state(Some("ses_1"), None).unwrap().unwrap().iteration, 2);
    sessions.failed("ses_1", ("AbortError", "", None), false, &mut NoHost).unwrap();
    assert_eq!(sessions.state(Some("ses_1"), None).unwrap(), None);
    sessions.deleted("ses_1", &mut NoHost).unwrap();
}

#[test]
fn a_prompt_that_cannot_be_injected_is_not_lost() {
    // req 127
    let world = World::new();
    let sessions = SessionLoops::new(&world.home);
    let mut host = Remembering::default();
    sessions.start(world.new_session("ses_1"), &mut host).unwrap();
    host.is_broken = true;
    fs::write(world.workspace.join("a"), "1").unwrap();
    sessions.idle("ses_1", None, &mut host).unwrap();
    assert_eq!(host.log, ["Failed to inject continuation: the session does not answer"]);
    host.is_broken = false;
    fs::write(world.workspace.join("a"), "22").unwrap();
    // Another turn, as its host would tell it: the words differ.
    struct Talking(Remembering);
    impl SessionHost for Talking {
        fn words(
            &mut self,
            mark: &TranscriptMark,
            _: Option<TurnEnd>,
            _: Timestamp,
        ) -> (NewWords, TranscriptMark) {
            let messages = vec!["hello".to_owned()];
            let turn = TurnEnd::ending_with("hello", true);
            (NewWords { messages, has_news: true, turn, ..NewWords::default() }, mark.clone())
        }
        fn inject(&mut self, prompt: &str) -> Result<(), String> {
            self.0.inject(prompt)
        }
    }
    let mut host = Talking(host);
    sessions.idle("ses_1", None, &mut host).unwrap();
    let last = host.0.prompts.last().unwrap();
    assert!(last.starts_with("[RALPH LOOP - ITERATION 2/50]"), "the same iteration again: {last}");
}

#[test]
fn an_idle_of_another_session_clears_a_loop_only_if_its_own_session_is_known_to_be_gone() {
    // req 121: a host that cannot tell, and one that fails to, leaves the loop as it is
    let world = World::new();
    let sessions = SessionLoops::new(&world.home);
    let mut host = Remembering::default();
    sessions.start(world.new_session("ses_1"), &mut host).unwrap();
    for (exists, is_active) in [(None, true), (Some(true), true), (Some(false), false)] {
        host.exists = exists;
        sessions.idle("ses_2", Some(&world.workspace), &mut host).unwrap();
        assert_eq!(sessions.is_active("ses_1").unwrap(), is_active, "{exists:?}");
        assert_eq!(host.prompts.len(), 1, "never continues the loop: {exists:?}");
    }
    assert_eq!(host.log, ["Cleared orphaned state of session ses_1"]);
}

#[test]
fn the_end_of_a_session_is_logged_and_the_next_loop_of_it_begins_anew() {
    // req 105, req 116, req 117
    let world = World::new();
    let sessions = SessionLoops::new(&world.home);
    let mut host = Remembering::default();
    sessions.deleted("ses_1", &mut host).unwrap();
    sessions.failed("ses_1", ("AbortError", "", None), false, &mut host).unwrap();
    assert!(host.log.is_empty(), "clearing nothing is success: {:?}", host.log);
    for deleted in [true, false] {
        sessions.start(world.new_session("ses_1"), &mut host).unwrap();
        // A window of recovery opens, and goes with the loop.
        sessions.failed("ses_1", ("UnknownError", "it broke", None), false, &mut host).unwrap();
        host.log.clear();
        let line = if deleted {
            sessions.deleted("ses_1", &mut host).unwrap();
            "Session deleted, loop cleared: session ses_1"
        } else {
            sessions.failed("ses_1", ("MessageAbortedError", "", None), false, &mut host).unwrap();
            "User aborted, loop cleared: session ses_1"
        };
        assert_eq!(host.log, [line]);
        assert!(!sessions.is_active("ses_1").unwrap());
        sessions.start(world.new_session("ses_1"), &mut host).unwrap();
        fs::write(world.workspace.join("a"), line).unwrap();
        sessions.idle("ses_1", None, &mut host).unwrap();
        assert_eq!(host.log, [line], "the idle is not skipped");
        assert_eq!(sessions.state(Some("ses_1"), None).unwrap().unwrap().iteration, 2);
        assert!(sessions.cancel("ses_1", &mut host).unwrap());
    }
}

#[test]
fn what_cannot_be_written_starts_nothing_and_shows_nothing() {
    // req 105, req 108
    let world = World::new();
    fs::write(world.home.path(), "a file where the folder should be").unwrap();
    let mut host = Remembering::default();
    assert!(SessionLoops::new(&world.home).start(world.new_session("ses_1"), &mut host).is_err());
    assert!(host.toasts.is_empty() && host.prompts.is_empty());
    let blank = NewSession { session: " ".to_owned(), ..world.new_session("ses_1") };
    assert!(matches!(SessionLoops::new(&world.home).start(blank, &mut host), Err(SessionError::NoSession)));
}
