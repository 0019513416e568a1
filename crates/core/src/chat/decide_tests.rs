use super::*;

fn workflows() -> Vec<KnownWorkflow> {
    ["ralph", "ship"]
        .map(|name| KnownWorkflow { name: name.into(), description: format!("Does {name}.") })
        .into()
}

fn run(id: &str) -> ChatRun {
    ChatRun {
        id: id.parse().unwrap(),
        workflow: "ralph".into(),
        line: format!("{id}  ralph: running"),
        is_over: false,
        is_here: true,
        question: None,
        is_agent_asking: false,
    }
}

fn asking(id: &str, decisions: &[(&str, Option<&str>)]) -> ChatRun {
    let decisions = decisions.iter().map(|(id, label)| OfferedDecision {
        id: (*id).to_owned(),
        label: label.map(str::to_owned),
        rework: false,
    });
    let question = ChatQuestion { message: "Ship it?".into(), decisions: decisions.collect() };
    ChatRun { question: Some(question), ..run(id) }
}

fn act(text: &str, runs: &[ChatRun]) -> ChatAct {
    let workflows = workflows();
    decide(text, &ChatFacts { workflows: &workflows, runs, can_route: true })
}

fn answer(run: &str, decision: &str, text: &str) -> ChatAct {
    ChatAct::Answer { run: run.parse().unwrap(), decision: decision.into(), text: text.into() }
}

fn start(workflow: &str, message: &str) -> ChatAct {
    ChatAct::Start { workflow: workflow.into(), message: message.into() }
}

#[test]
fn a_message_starts_a_workflow_by_its_name_or_is_routed() {
    for (text, expected) in [
        ("ralph do this", start("ralph", "do this")),
        ("RALPH", start("ralph", "")),
        ("run ralph", start("ralph", "")),
        ("run ralph on issue 7", start("ralph", "on issue 7")),
        ("/workflow ship now", start("ship", "now")),
        ("/ship now", start("ship", "now")),
        ("/workflow Ralph --agent-cmd x", start("ralph", "--agent-cmd x")),
        ("please fix the tests", ChatAct::Route { text: "please fix the tests".into() }),
        ("run the tests", ChatAct::Route { text: "run the tests".into() }),
        ("  ", ChatAct::Nothing),
    ] {
        assert_eq!(act(text, &[]), expected, "{text:?}");
    }
    for (text, words) in [
        ("/workflow rlph x", "did you mean `ralph`?"),
        ("/sing", "There is no command `/sing`"),
        ("approve", "Nothing asks for an approval here."),
        ("/approve", "No run asks for an approval here"),
        ("/cancel", "No run is going on here"),
        ("/help", "/workflow NAME text"),
        ("/workflows", "ship: Does ship."),
        ("/status", "No run was started from here."),
        ("/cancel nosuch", "No run of this conversation is called `nosuch`"),
    ] {
        match act(text, &[]) {
            ChatAct::Say(said) => assert!(said.contains(words), "{text}: {said}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_free_message_is_asked_about_where_no_agent_can_be() {
    let workflows = workflows();
    let facts = ChatFacts { workflows: &workflows, runs: &[], can_route: false };
    let ChatAct::Say(said) = decide("please fix it", &facts) else { panic!() };
    assert!(said.starts_with("**Which workflow?**") && said.contains("ralph: Does ralph."), "{said}");
}

#[test]
fn a_message_is_an_approval_only_if_it_is_one_of_the_decisions() {
    let plain = asking("aaaa1", &[]);
    let named = asking("bbbb2", &[("yes", Some("Ship now")), ("later", None)]);
    for (text, run, expected) in [
        ("approve", &plain, answer("aaaa1", "approve", "")),
        (" Approve\n", &plain, answer("aaaa1", "approve", "")),
        ("REJECT", &plain, answer("aaaa1", "reject", "")),
        ("/approve looks good", &plain, answer("aaaa1", "approve", "looks good")),
        ("/reject aaaa1 the tests are missing", &plain, answer("aaaa1", "reject", "the tests are missing")),
        ("!approve", &plain, answer("aaaa1", "approve", "")),
        ("yes", &named, answer("bbbb2", "yes", "")),
        ("ship NOW", &named, answer("bbbb2", "yes", "")),
        ("Later", &named, answer("bbbb2", "later", "")),
    ] {
        assert_eq!(act(text, std::slice::from_ref(run)), expected, "{text:?}");
    }
    // Words decide nothing, and start nothing while a question is open, also if they begin like a workflow.
    for (text, run) in [
        ("no, stop", &plain),
        ("approve it", &plain),
        ("I approve", &plain),
        ("yes", &plain),
        ("approved", &plain),
        ("approve.", &plain),
        ("ship it", &plain),
        ("approve", &named),
        ("yes please", &named),
        ("no", &named),
    ] {
        let ChatAct::Say(said) = act(text, std::slice::from_ref(run)) else { panic!("{text}") };
        let offered = run.question.as_ref().unwrap().offered().join(", ");
        assert!(said.starts_with("That decides nothing.") && said.contains(&offered), "{text}: {said}");
    }
    // A command says what it means.
    assert_eq!(act("/workflow ship now", &[plain]), start("ship", "now"));
}

#[test]
fn of_several_questions_the_one_of_this_thread_is_meant_or_none() {
    let (one, two) = (asking("aaaa1", &[]), asking("bbbb2", &[]));
    let ChatAct::Say(said) = act("approve", &[one.clone(), two.clone()]) else { panic!() };
    assert!(said.starts_with("Several runs ask."), "{said}");
    assert_eq!(act("/approve bbbb2", &[one.clone(), two.clone()]), answer("bbbb2", "approve", ""));
    let elsewhere = ChatRun { is_here: false, ..two };
    assert_eq!(act("approve", &[one.clone(), elsewhere.clone()]), answer("aaaa1", "approve", ""));
    assert_eq!(act("approve", &[run("cccc3"), elsewhere]), answer("bbbb2", "approve", ""));
}

#[test]
fn an_agent_that_asks_gets_the_next_message_and_commands_name_their_run() {
    let waiting = ChatRun { is_agent_asking: true, ..run("aaaa1") };
    let steer = |run: &str, text: &str| ChatAct::Steer { run: run.parse().unwrap(), text: text.into() };
    assert_eq!(act("use postgres", std::slice::from_ref(&waiting)), steer("aaaa1", "use postgres"));
    assert_eq!(act("/steer aaaa be quick", std::slice::from_ref(&waiting)), steer("aaaa1", "be quick"));
    let over = ChatRun { is_over: true, ..run("bbbb2") };
    let both = [over, run("cccc3")];
    assert_eq!(act("/cancel", &both), ChatAct::Cancel { run: "cccc3".parse().unwrap() });
    assert_eq!(act("/cancel bbbb", &both), ChatAct::Cancel { run: "bbbb2".parse().unwrap() });
    let ChatAct::Say(said) = act("/cancel", &[run("aaaa1"), run("bbbb2")]) else { panic!() };
    assert!(said.starts_with("More than one run is going on."), "{said}");
    let ChatAct::Say(said) = act("/status", &[asking("aaaa1", &[]), waiting]) else { panic!() };
    assert!(said.contains("asks: approve, reject") && said.contains("its agent asks you"), "{said}");
}
