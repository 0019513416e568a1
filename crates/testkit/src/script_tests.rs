use super::*;

fn text(source: &str) -> Text {
    Text::parse(source).unwrap()
}

/// The commands of the first iteration.
fn first(source: &str) -> Vec<Command> {
    Script::parse(source).unwrap().commands(1).cloned().collect()
}

fn say(words: &str) -> Command {
    Command::Say(Stream::Out, Text::literal(words))
}

#[test]
fn commands_are_separated_by_lines_and_semicolons_outside_quoted_words() {
    for (source, commands) in [
        ("", vec![]),
        (" ; ;\n\n;", vec![]),
        ("say hi; exit 0", vec![say("hi"), Command::Exit(0)]),
        ("say hi\nexit 0\n", vec![say("hi"), Command::Exit(0)]),
        ("say hi;hang", vec![say("hi"), Command::Hang]),
        ("say 'a; b'; hang", vec![say("a; b"), Command::Hang]),
        ("say \"a; b\" c; hang", vec![say("\"a; b\" c"), Command::Hang]),
        (r"say a\; b; hang", vec![say("a; b"), Command::Hang]),
        ("say don't; say it's", vec![say("don't"), say("it's")]),
        ("say 'tis so; hang", vec![say("'tis so"), Command::Hang]),
        ("say {\"a\":\"b\"}", vec![say("{\"a\":\"b\"}")]),
        ("say '{\"a\":\"it's; \\n\"}'", vec![say("{\"a\":\"it's; \\n\"}")]),
        ("# say no; say no\nsay yes # no comment", vec![say("yes # no comment")]),
        ("say 'grün; ü'; hang", vec![say("grün; ü"), Command::Hang]),
    ] {
        assert_eq!(first(source), commands, "{source}");
    }
}

#[test]
fn a_section_holds_until_the_next_one() {
    let script =
        Script::parse("say all\n@1: say one; say two\n@2+:\nsay later\n@3: say three\n@*: say end").unwrap();
    for (iteration, said) in [
        (1, vec!["all", "one", "two", "end"]),
        (2, vec!["all", "later", "end"]),
        (3, vec!["all", "later", "three", "end"]),
        (4, vec!["all", "later", "end"]),
    ] {
        let expected: Vec<_> = said.into_iter().map(say).collect();
        assert_eq!(
            script.commands(iteration).cloned().collect::<Vec<_>>(),
            expected,
            "iteration {iteration}"
        );
    }
}

#[test]
fn escapes_and_variables_are_replaced_in_texts() {
    let lookup = |name: &str| (name == "NAME").then(|| OsString::from("value"));
    for (source, bytes) in [
        (r"a\tb\n\r\e\a\0\\\;\$x", b"a\tb\n\r\x1b\x07\0\\;$x".as_slice()),
        (r"\xff\x00", b"\xff\x00"),
        ("$NAME/$NAMES/${NAME}s", b"value//values"),
        ("costs $5 or $", b"costs $5 or $"),
        ("ü$NAME", b"\xc3\xbcvalue"),
        ("", b""),
    ] {
        assert_eq!(text(source).expand(lookup), bytes, "{source}");
    }
}

#[test]
fn each_command_takes_its_arguments() {
    for (source, command) in [
        ("say", Command::Say(Stream::Out, Text(vec![]))),
        ("err oh", Command::Say(Stream::Err, text("oh"))),
        ("print '  x '", Command::Print(Text::literal("  x "))),
        ("promise", Command::Promise(None)),
        ("promise ALL GREEN", Command::Promise(Some(text("ALL GREEN")))),
        ("echo-prompt", Command::EchoPrompt),
        ("env-to $TASK_FOLDER/env", Command::Tell(Fact::Environment, text("$TASK_FOLDER/env"))),
        ("write 'a b' c  d", Command::Write(text("a b"), Some(text("c  d")))),
        (r"write a\ b c", Command::Write(text("a b"), Some(text("c")))),
        ("write a", Command::Write(text("a"), None)),
        ("append a 'b'", Command::Append(text("a"), Some(text("b")))),
        ("done", Command::Done(None)),
        ("sleep 20", Command::Sleep(20)),
        ("exit 255", Command::Exit(255)),
        ("kill SIGKILL", Command::Kill(Signal::KILL)),
        ("ignore TERM", Command::Ignore(Signal::TERM)),
        ("on INT exit 3", Command::On(Signal::INT, text("exit 3"))),
        ("on-term 'write f x; exit 0'", Command::On(Signal::TERM, text("write f x\\; exit 0"))),
        ("spawn \"sleep 5; say \\\"x\\\"\"", Command::Spawn(Text::literal("sleep 5; say \"x\""))),
        ("daemonize hang", Command::Daemonize { hold: false, script: text("hang") }),
        (
            "daemonize hold 'say x; hang'",
            Command::Daemonize { hold: true, script: Text::literal("say x; hang") },
        ),
        ("storm 50", Command::Storm(50)),
        ("flood-out 3", Command::Flood(Stream::Out, 3)),
        ("flood-err 64k", Command::Flood(Stream::Err, 65_536)),
        ("line 2m", Command::Line(2 << 20)),
        ("random 10 7", Command::Random { bytes: 10, seed: 7 }),
        ("run git 'commit -m' \"$X\"", Command::Run(vec![text("git"), text("commit -m"), text("$X")])),
        (r"sh echo $X \; true", Command::Shell(Text::literal(r"echo $X \; true"))),
        ("sh 'a; b'", Command::Shell(Text::literal("a; b"))),
        ("close-err", Command::Close(Stream::Err)),
    ] {
        assert_eq!(first(source), [command], "{source}");
    }
}

#[test]
fn a_mistake_names_its_line_even_in_a_section_that_does_not_run() {
    for (source, line, message) in [
        ("say hi\n\ndance", 3, "unknown command `dance`"),
        ("@9: dance", 1, "unknown command `dance`"),
        ("@x: hang", 1, "no such section: `@x:`"),
        ("@0: hang", 1, "no such section: `@0:`"),
        ("@1 hang", 1, "no `:` after `@1 hang`"),
        ("exit", 1, "`exit` needs a number"),
        ("exit 256", 1, "`exit`: `256` is no number it can use"),
        ("line 1t", 1, "`line`: `1t` is no size"),
        ("line 99999999999g", 1, "`line`: `99999999999g` is no size"),
        ("hang on", 1, "`hang`: `on` is too much"),
        ("touch a b", 1, "`touch`: `b` is too much"),
        ("kill BILL", 1, "unknown signal `BILL`"),
        ("write", 1, "`write` needs a value"),
        ("sh", 1, "`sh` needs a command"),
        ("spawn", 1, "`spawn` needs a script"),
        ("spawn 'hang; dance'", 1, "in `spawn`: script line 1: unknown command `dance`"),
        (r"say \q", 1, r"unknown escape `\q`"),
        (r"say \xzz", 1, r"`\xzz` is no byte"),
        ("say ${X", 1, "`${` without a name and a `}`"),
    ] {
        let expected = ScriptError { line, message: message.to_owned() };
        assert_eq!(Script::parse(source), Err(expected), "{source}");
    }
}
