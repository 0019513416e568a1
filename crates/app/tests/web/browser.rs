//! The pages in a real Chromium. A browser takes seconds to start, so each test looks at many things with one.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Instant};

use dacapo_testkit::{
    Running, Signal, TestEnv,
    browser::{Browser, PATIENCE, Screen},
};
use serde_json::json;

/// A world with a server, and a browser that is logged in.
struct World {
    env: TestEnv,
    browser: Browser,
    server: Option<Running>,
    url: String,
}

impl World {
    fn new(flags: &[&str]) -> Self {
        Self::of(TestEnv::new(env!("CARGO_BIN_EXE_dacapo")), flags)
    }

    fn of(env: TestEnv, flags: &[&str]) -> Self {
        let (server, link) = serve(&env, "0", flags);
        let url = link.split("/login").next().unwrap().to_owned();
        let browser = Browser::start();
        browser.set_screen(Screen::DESKTOP);
        browser.open(&link);
        browser.wait_for_element("main");
        Self { env, browser, server: Some(server), url }
    }

    fn open(&self, path: &str) {
        self.browser.open(&format!("{}{path}", self.url));
        self.browser.wait_for_element("main");
    }

    /// Starts a loop of the fake agent in the background; gives its id.
    fn start(&self, script: &str, prompt: &str, args: &[&str]) -> String {
        let agent = self.env.agent_cmd_for(script);
        let fixed = [
            "run",
            prompt,
            "--agent-cmd",
            &agent,
            "--restart-delay",
            "0s",
            "--kill-grace",
            "100ms",
            "--detach",
        ];
        self.env.run(fixed.iter().chain(args)).assert_code(0);
        self.newest()
    }

    fn newest(&self) -> String {
        let started = self.env.events(None).into_iter().rev().find(|event| event["type"] == "loop_started");
        started.expect("a loop")["loop"].as_str().unwrap().to_owned()
    }

    fn wait_for_end(&self, id: &str) {
        self.env.wait_until("the end of the loop", PATIENCE, || {
            self.env.events(Some(id)).iter().any(|event| event["type"] == "loop_finished")
        });
    }

    /// Ends the server at once, as a crash does.
    fn kill_server(&mut self) {
        let server = self.server.take().expect("a server");
        server.signal(Signal::KILL);
        server.wait(PATIENCE);
    }

    fn port(&self) -> &str {
        self.url.rsplit(':').next().unwrap()
    }

    fn card(&self, id: &str, state: &str) -> String {
        format!(".card[data-loop='{id}'][data-state='{state}']")
    }

    /// Nothing that was shown so far has complained.
    #[track_caller]
    fn assert_no_complaints(&self) {
        let complaints = self.browser.complaints();
        let severe: Vec<_> = complaints.iter().filter(|line| !line.contains("net::ERR_")).collect();
        assert!(severe.is_empty(), "{severe:#?}");
    }

    /// Everything that is shown fits the width of the screen.
    #[track_caller]
    fn assert_fits(&self, what: &str) {
        let wide = self.browser.run(
            "return [document.scrollingElement.scrollWidth, innerWidth,
              [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1
                && !e.closest('.log, .diff, .graph, .gantt, .train, .lanes, .tabs, .sr, svg, pre')).slice(0, 5).map((e) => e.outerHTML.slice(0, 160))]",
        );
        assert!(wide[0].as_u64() <= wide[1].as_u64(), "{what} is wider than the screen: {wide:#}");
    }

    /// All text has the contrast of WCAG AA against what is behind it.
    #[track_caller]
    fn assert_contrast(&self, what: &str) {
        let faint = self.browser.run(CONTRAST);
        assert_eq!(faint, json!([]), "{what}");
    }
}

/// Finds text whose contrast is too low: 4.5, or 3 for large text.
const CONTRAST: &str = r"
  const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1;
  const pen = canvas.getContext('2d', { willReadFrequently: true });
  const rgba = (color) => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); return [...pen.getImageData(0, 0, 1, 1).data]; };
  const over = (top, below) => { const a = top[3] / 255; return [0, 1, 2].map((i) => top[i] * a + below[i] * (1 - a)).concat(255); };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (node) => { let all = []; for (let at = node; at; at = at.parentElement) { const c = rgba(getComputedStyle(at).backgroundColor); all.push(c); if (c[3] === 255) break; }
    return all.reverse().reduce((below, top) => over(top, below), rgba(getComputedStyle(document.documentElement).colorScheme.includes('dark') ? '#111214' : '#fff')); };
  const faint = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.nodeValue.trim() || !node.checkVisibility() || node.closest('svg, .sr, dialog, script, .skip')) continue;
    const style = getComputedStyle(node);
    const [text, below] = [over(rgba(style.color), ground(node)), ground(node)];
    const [a, b] = [light(text), light(below)].sort((x, y) => y - x);
    const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && parseInt(style.fontWeight) >= 700);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (isLarge ? 3 : 4.5)) faint.push(`${ratio.toFixed(2)} ${node.className} ${walk.currentNode.nodeValue.trim().slice(0, 40)}`);
  }
  return faint;
";

/// Starts `dacapo web`; gives it with the link that logs in.
fn serve(env: &TestEnv, port: &str, flags: &[&str]) -> (Running, String) {
    let server = env.spawn(["web", "--port", port].iter().chain(flags));
    let link = server.wait_for_line(|line| line.contains("/login?token="), PATIENCE);
    let begin = link.find("http").unwrap();
    (server, link[begin..].trim().to_owned())
}

/// An agent that prints what Claude Code does, for two US cents: it does what `script` says, and says `words`.
fn install_paid_agent(env: &TestEnv, script: &str, words: &str) {
    let begins = json!({"type": "system", "subtype": "init", "session_id": "s1", "model": "claude-opus-5-5"});
    let message = json!({"type": "assistant", "session_id": "s1", "message": {
        "id": "m1", "model": "claude-opus-5-5", "role": "assistant",
        "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make test"}}, {"type": "text", "text": words}],
        "usage": {"input_tokens": 0, "output_tokens": 1000},
    }});
    let ends = json!({"type": "result", "subtype": "success", "is_error": false, "session_id": "s1", "result": "",
        "usage": {"input_tokens": 0, "output_tokens": 0}});
    let file = env.root().join("bin/mine");
    fs::write(
        &file,
        format!("#!/bin/sh\ncat > /dev/null\nprintf '%s\\n' '{begins}'\n{script}\nprintf '%s\\n' '{message}'\nprintf '%s\\n' '{ends}'\n"),
    )
    .unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let folder = env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).unwrap();
    let config = format!(
        "agents: {{mine: {{command: [\"{}\"], output: claude, provider: anthropic}}}}\n",
        file.display()
    );
    fs::write(folder.join("config.yaml"), config).unwrap();
}

#[test]
fn the_board_lives_while_a_loop_runs() {
    // req 195
    let mut world = World::new(&[]);
    assert!(
        world.browser.address().ends_with('/'),
        "the link leads to the board: {}",
        world.browser.address()
    );
    world
        .browser
        .wait_for("the stream", "return document.querySelector('.link-state').dataset.link === 'live'");
    world.browser.run("window.isSame = true");
    let root = world.env.root().display().to_string();
    let script = format!(
        "@1: say looking around; write notes.txt first; wait-file {root}/two; promise
         @2: say second; write notes.txt second; wait-file {root}/three; promise
         @3+: write ok.txt yes; wait-file {root}/four; promise"
    );
    let gate = "test -f ok.txt";
    let id = world.start(&script, "Make it work", &["--gate", gate, "--max-iterations", "9"]);
    // The card appears by itself, and so does the agent at work.
    world.browser.wait_for_element(&world.card(&id, "running"));
    world.browser.wait_for_text(&format!(".slot[data-loop='{id}']"), "Ralph: iteration 1/9");
    world.browser.wait_for_text(&format!(".slot[data-loop='{id}']"), "Running: ");
    assert_eq!(world.browser.count("[data-lane='running'] .card"), 1);
    assert!(world.browser.title().starts_with("dacapo 1 running"), "{}", world.browser.title());

    // A second tab shows the loop itself; both stay up to date.
    let first = world.browser.tab();
    let second = world.browser.new_tab();
    world.open(&format!("/loops/{id}"));
    world.browser.wait_for_text("[data-iteration='1']", "Working");
    fs::write(format!("{root}/two"), "").unwrap();
    world.browser.wait_for_text("[data-iteration='1']", "Refused");
    world.browser.wait_for_text("[data-iteration='1'] .gate", gate);
    world.browser.wait_for_text("[data-iteration='2']", "Working");
    world.browser.switch_to(&first);
    world.browser.wait_for_text(&format!(".slot[data-loop='{id}']"), "iteration 2/9");
    assert_eq!(world.browser.run("return window.isSame"), true, "the page was never loaded again");

    // The server dies, the loop goes on, and nothing is missed once it is back.
    let port = world.port().to_owned();
    world.kill_server();
    world
        .browser
        .wait_for("the loss", "return document.querySelector('.link-state').dataset.link === 'lost'");
    fs::write(format!("{root}/three"), "").unwrap();
    world.env.wait_until("the third iteration", PATIENCE, || {
        world
            .env
            .events(Some(&id))
            .iter()
            .any(|event| event["type"] == "iteration_started" && event["iteration"] == 3)
    });
    world.server = Some(serve(&world.env, &port, &[]).0);
    world.browser.wait_for_text(&format!(".slot[data-loop='{id}']"), "iteration 3/9");
    world
        .browser
        .wait_for("the stream", "return document.querySelector('.link-state').dataset.link === 'live'");
    fs::write(format!("{root}/four"), "").unwrap();
    world.browser.wait_for_element(&format!("[data-lane='done'] {}", world.card(&id, "completed")));
    assert_eq!(world.browser.run("return window.isSame"), true);
    // An end stays marked until a person has looked at it.
    world.browser.wait_for_element(&format!(".card.unseen[data-loop='{id}']"));
    world.browser.switch_to(&second);
    world.browser.wait_for_text("[data-iteration='3']", "Accepted");
    world.open(&format!("/loops/{id}"));
    world.browser.switch_to(&first);
    world.open("/");
    world.browser.wait_for("the mark to go", "return document.querySelector('.card.unseen') === null");
    world.assert_no_complaints();
}

#[test]
fn a_log_of_100000_lines_follows_without_freezing() {
    let world = World::new(&[]);
    let root = world.env.root().display().to_string();
    let script = format!(
        "say begins; wait-file {root}/go; lines 100000; say the last line; wait-file {root}/end; promise"
    );
    let id = world.start(&script, "Print", &["--max-iterations", "2"]);
    world.open(&format!("/loops/{id}"));
    world.browser.wait_for_text("[data-log]", "begins");
    world.browser.run(
        "window.longest = 0; new PerformanceObserver((list) => { for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration); })
           .observe({ entryTypes: ['longtask'] })",
    );
    let begin = Instant::now();
    fs::write(format!("{root}/go"), "").unwrap();
    world.browser.wait_for_text("[data-log]", "the last line");
    let took = begin.elapsed();
    let rows = world.browser.count("[data-log] p");
    assert!(rows < 200, "{rows} rows are drawn of 100,000");
    world.browser.wait_for(
        "the number of lines",
        "return parseInt(document.querySelector('[data-log-lines]').innerText.replace(/,/g, '')) >= 100002",
    );
    let longest = world.browser.run("return window.longest").as_f64().unwrap();
    assert!(longest < 1500.0, "the page stood still for {longest} ms of {took:?}");
    assert_eq!(world.browser.attribute("[data-follow-button]", "aria-pressed").as_deref(), Some("true"));

    // Scrolling up leaves the end; what comes then does not move the text.
    world.browser.run("document.querySelector('[data-log]').scrollTop = 1000");
    world.browser.wait_for(
        "the follow button",
        "return document.querySelector('[data-follow-button]').ariaPressed === 'false'",
    );
    let top = world.browser.run("return document.querySelector('[data-log]').scrollTop");
    // Searching, in all of it.
    world.browser.press("/");
    world.browser.type_into("[data-log-search]", "77777");
    world.browser.wait_for_text("[data-log-found]", "1 of ");
    world.browser.wait_for_text("[data-log] p.hit.at", "77777");
    world.browser.run("document.querySelector('[data-log-search]').value = ''; document.querySelector('[data-log-search]').dispatchEvent(new Event('input', {bubbles: true}))");
    world.browser.run_with("document.querySelector('[data-log]').scrollTop = arguments[0]", top.clone());
    fs::write(format!("{root}/end"), "").unwrap();
    world.wait_for_end(&id);
    world.browser.wait_for_text("[data-iteration='1']", "Accepted");
    assert_eq!(world.browser.run("return document.querySelector('[data-log]').scrollTop"), top);
    world.browser.click("[data-follow-button]");
    world.browser.wait_for_text("[data-log]", "<promise>DONE</promise>");
    world.assert_no_complaints();
}

#[test]
fn pages_of_a_finished_loop_on_a_phone_and_a_desk() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    let root = env.root().display().to_string();
    env.write("src/prices.py", "def total(items):\n    return items[0]  # wrong\n").git_init();
    install_paid_agent(
        &env,
        &format!(
            "if [ -e {root}/tried ]; then printf 'def total(items):\\n    return sum(items)\\n' > src/prices.py; else touch src/notes.txt; fi; touch {root}/tried"
        ),
        "All done.\n<promise>DONE</promise>",
    );
    let args = [
        "run",
        "Add up <all> prices",
        "--agent",
        "mine",
        "--task",
        "prices",
        "--restart-delay",
        "0s",
        "--max-iterations",
        "5",
        "--gate",
    ];
    env.run(args.iter().chain(&["grep -q sum src/prices.py"])).assert_code(0);
    let world = World::of(env, &[]);
    let id = world.newest();

    // The timeline, and a difference in the colours of its language.
    world.open(&format!("/loops/{id}?show=diff"));
    assert!(
        world.browser.text("[data-iteration='1']").contains("Refused"),
        "{}",
        world.browser.text("[data-iteration='1']")
    );
    assert!(world.browser.text("[data-iteration='2']").contains("Accepted"));
    assert_eq!(world.browser.text(".file[data-file='src/prices.py'] .diff .add .t"), "    return sum(items)");
    assert_eq!(world.browser.text(".diff .add .tk-k"), "return");
    assert_eq!(world.browser.text(".diff .del .tk-c"), "# wrong");
    world.browser.press("l");
    world.browser.wait_for_text("[data-log]", "[Bash] make test");
    world.open(&format!("/loops/{id}?show=prompt"));
    assert!(world.browser.text("[data-prompt]").contains("Add up <all> prices"));

    // Two claims, so two agents: four cents.
    world.open("/costs");
    assert_eq!(world.browser.text("[data-total='cost']"), "$0.04");
    assert_eq!(world.browser.text("[data-total='iterations']"), "2");
    assert_eq!(world.browser.count("[data-plot='cost'] .col"), 7, "a bar for each day of a week");
    let says = "return [...document.querySelectorAll('[data-plot=cost] .col')].map((bar) => bar.ariaLabel).filter((words) => words.endsWith('$0.04')).length";
    assert_eq!(world.browser.run(says), 1);
    assert_eq!(world.browser.count("[data-plot='tokens'] .bar"), 1);

    // The replay stands at the end, goes to the refusal, and its timeline is that of then.
    world.open(&format!("/loops/{id}?show=replay"));
    world.browser.wait_for_text("[data-scrub-at]", "Event ");
    let events = world.env.events(Some(&id));
    let refused = events.iter().position(|event| event["type"] == "claim_refused").unwrap();
    assert_eq!(world.browser.attribute("[data-scrub]", "max"), Some((events.len() - 1).to_string()));
    let scrub = "const field = document.querySelector('[data-scrub]'); field.value = arguments[0]; field.dispatchEvent(new Event('input', {bubbles: true}))";
    world.browser.run_with(scrub, refused as u64);
    world.browser.wait_for_text(".events .now", "Claim refused");
    world.browser.wait_for("the past", "return document.querySelector('[data-iteration=\"2\"]') === null");
    world.browser.run("document.querySelector('[data-scrub]').focus()");
    world.browser.click("[data-step='1']");
    world.browser.wait_for(
        "the next event",
        &format!("return document.querySelector('[data-replay]').dataset.replay === '{}'", refused + 1),
    );
    world.browser.click("[data-play]");
    world.browser.wait_for_text("[data-iteration='2']", "Iteration 2");

    // The receipt, and the same as one file without a server.
    world.open(&format!("/receipts/{id}"));
    for words in ["Verified", "grep -q sum src/prices.py", "Refused on the way", "a gate failed", "$0.04"] {
        assert!(
            world.browser.text("[data-receipt]").to_lowercase().contains(&words.to_lowercase()),
            "{words}"
        );
    }
    let file = world
        .browser
        .run("return fetch(document.querySelector('[data-save]').href).then((answer) => answer.text())");
    let file = file.as_str().unwrap();
    assert!(
        !file.contains("<script") && !file.contains(" src=") && !file.contains("url("),
        "the file loads nothing"
    );
    let saved = world.env.root().join("receipt.html");
    fs::write(&saved, file).unwrap();
    world.browser.open(&format!("file://{}", saved.display()));
    assert!(world.browser.text("[data-receipt]").contains("Verified"));
    assert_eq!(
        world.browser.run("return getComputedStyle(document.querySelector('.receipt')).maxWidth"),
        "760px",
        "it carries its style"
    );
    let links = world.browser.count("a[href^='/']");
    assert_eq!(links, 0, "a file has no server to lead to");

    // Every page fits a phone and has contrast, in the dark too; tables become cards.
    let pages = [
        "/".to_owned(),
        format!("/loops/{id}"),
        format!("/loops/{id}?show=diff"),
        format!("/loops/{id}?show=replay&at=3"),
        format!("/receipts/{id}"),
        "/costs".to_owned(),
        "/report?since=7d".to_owned(),
    ];
    for screen in [Screen::PHONE, Screen::DESKTOP.dark(), Screen::DESKTOP, Screen::PHONE.dark()] {
        world.browser.set_screen(screen);
        for page in &pages {
            world.open(page);
            world.assert_fits(&format!("{page} on {screen:?}"));
            world.assert_contrast(&format!("{page} on {screen:?}"));
        }
    }
    world.browser.set_screen(Screen::PHONE);
    world.open("/report?since=7d");
    assert_eq!(
        world.browser.run("return getComputedStyle(document.querySelector('table.cards tr td')).display"),
        "block"
    );
    assert!(
        world.browser.text("[data-key='totals']").contains("Refused claims\n1"),
        "{}",
        world.browser.text("[data-key='totals']")
    );

    // The theme that a person chose stays.
    world.browser.set_screen(Screen::DESKTOP);
    world.open("/");
    let ground = "return getComputedStyle(document.body).backgroundColor";
    let light = world.browser.run(ground);
    world.browser.click("[data-theme-button]");
    let dark = world.browser.run(ground);
    assert_ne!(light, dark);
    world.open("/costs");
    assert_eq!(world.browser.run(ground), dark);
    world.assert_no_complaints();

    // Without scripts every page still reads.
    world.browser.allow_scripts(false);
    world.open(&format!("/loops/{id}"));
    assert!(world.browser.text("[data-log]").contains("[Bash] make test"));
    assert!(
        !world
            .browser
            .run("return document.querySelector('[data-follow-button]').checkVisibility()")
            .as_bool()
            .unwrap()
    );
    world.open(&format!("/loops/{id}?show=replay&at={refused}"));
    assert!(world.browser.text(".events .now").contains("Claim refused"));
    world.open("/?filter=nothing-like-it");
    assert_eq!(world.browser.count(".card"), 0);
    world.open("/?filter=prices");
    assert_eq!(world.browser.count(".card"), 1);
}

#[test]
fn buttons_ask_only_where_the_user_allowed_it() {
    let mut world = World::new(&[]);
    let root = world.env.root().display().to_string();
    let script = format!(
        "@1: wait-file {root}/go; say one\n@2+: read-prompt; prompt-to {root}/told; wait-file {root}/never"
    );
    let id = world.start(&script, "Wait", &["--max-iterations", "9"]);
    world.open(&format!("/loops/{id}"));
    assert_eq!(world.browser.count("[data-action], form[method=post]"), 0, "the page is read-only");
    let refused =
        "return fetch(`/api/loops/${arguments[0]}/cancel`, {method: 'POST'}).then((answer) => answer.status)";
    assert_eq!(world.browser.run_with(refused, id.clone()), 403);

    let port = world.port().to_owned();
    world.kill_server();
    world.server = Some(serve(&world.env, &port, &["--allow-control"]).0);
    world.open(&format!("/loops/{id}"));
    // Keys are those of the terminal: s goes to the line to type.
    world.browser.press("s");
    world.browser.wait_for("the line", "return document.activeElement.matches('[data-steer]')");
    world.browser.type_into("[data-steer]", "use <b>metric</b> units");
    world.browser.click("[data-action='steer']");
    world.browser.wait_for_element(".toast");
    fs::write(format!("{root}/go"), "").unwrap();
    world.env.wait_until("the prompt", PATIENCE, || {
        fs::read_to_string(format!("{root}/told")).is_ok_and(|text| text.contains("use <b>metric</b> units"))
    });
    world.browser.wait_for_text("[data-note='steered']", "use <b>metric</b> units");
    world.browser.click("[data-action='pause']");
    world.env.wait_until("the request", PATIENCE, || {
        world.env.events(Some(&id)).iter().any(|event| event["type"] == "pause_requested")
    });
    // Cancelling asks first.
    assert!(
        !world
            .browser
            .run("return document.querySelector('[data-action=cancel]').checkVisibility()")
            .as_bool()
            .unwrap()
    );
    world.browser.run("document.activeElement.blur()");
    world.browser.press("c");
    world
        .browser
        .wait_for("the question", "return document.querySelector('[data-action=cancel]').checkVisibility()");
    world.browser.click("[data-action='cancel']");
    world.wait_for_end(&id);
    world.browser.wait_for_element("[data-state='cancelled']");

    // A form does the same without a script.
    fs::remove_file(format!("{root}/told")).unwrap();
    let id = world.start(&script, "Wait again", &["--max-iterations", "9", "--task", "again"]);
    world.browser.allow_scripts(false);
    world.open(&format!("/loops/{id}"));
    world.browser.type_into("[data-steer]", "typed without scripts");
    world.browser.click("[data-action='steer']");
    world.browser.wait_for_text(".notice", "next prompt");
    assert!(
        world
            .env
            .events(Some(&id))
            .iter()
            .any(|event| event["type"] == "steered" && event["text"] == "typed without scripts")
    );
    world.browser.click("details.cancel > summary");
    world.browser.click("[data-action='cancel']");
    world.wait_for_end(&id);
}

#[test]
fn hostile_output_runs_nothing_and_breaks_nothing() {
    // fault D8; fault K11
    let world = World::new(&["--allow-control"]);
    let root = world.env.root().display().to_string();
    let evil = "<img src=x onerror=\"window.owned=1\"><script>window.owned=1</script><style>body{display:none}</style>";
    let bidi = "a\u{202e}txt.exe\u{2066}b";
    world.env.write(
        "page.txt",
        format!(
            "{evil}\n\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31mred\u{1b}[0m\r\n{bidi}\n\0\u{8}\u{7f}end of page\n"
        ),
    );
    world.env.git_init();
    world.env.git(["checkout", "-q", "-b", "<img/src=x/onerror=window.owned=1>"]);
    let script = format!(
        "say hello; sh 'cat page.txt'; line 1048576; random 40000 7; say \\n'\"><svg onload=window.owned=1>'
         write evil.html '{evil}'; say tail of it; wait-file {root}/end; promise"
    );
    let prompt = format!("{evil} {bidi} \u{1b}[31m");
    let id = world.start(&script, &prompt, &["--max-iterations", "2"]);
    world.open(&format!("/loops/{id}"));
    world.browser.wait_for_text("[data-log]", "tail of it");
    let clean = |what: &str| {
        assert_eq!(
            world.browser.run(
                "return window.owned === undefined && getComputedStyle(document.body).display !== 'none'"
            ),
            true,
            "{what}"
        );
        assert_eq!(
            world.browser.count("main img, main script, main style, main [onload], main [onerror]"),
            0,
            "{what}"
        );
        let hidden = "return /[\\u0000-\\u0008\\u000b-\\u001f\\u007f\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText)";
        assert_eq!(world.browser.run(hidden), false, "{what}");
        world.assert_fits(what);
    };
    clean("the log");
    // From the first line on, piece by piece.
    world.browser.run("document.querySelector('[data-log]').scrollTop = 0");
    world.browser.wait_for_text("[data-log]", "<script>window.owned=1</script>");
    world.browser.wait_for_text("[data-log]", "end of page");
    clean("the beginning of the log");
    let longest = world.browser.run("return Math.max(...[...document.querySelectorAll('[data-log] p')].map((line) => line.textContent.length))");
    assert!(longest.as_u64().unwrap() < 5000, "a line of a megabyte is cut: {longest}");
    fs::write(format!("{root}/end"), "").unwrap();
    world.wait_for_end(&id);
    for page in [
        "/".to_owned(),
        "/report".to_owned(),
        format!("/loops/{id}?show=prompt"),
        format!("/loops/{id}?show=diff"),
        format!("/loops/{id}?show=replay"),
    ] {
        world.open(&page);
        clean(&page);
        world.browser.set_screen(Screen::PHONE);
        clean(&format!("{page} on a phone"));
        world.browser.set_screen(Screen::DESKTOP);
    }
    world.open(&format!("/loops/{id}?show=diff"));
    assert!(world.browser.text(".diff .add .t").contains("<script>"), "{}", world.browser.text(".diff"));
    world.assert_no_complaints();
}

#[test]
fn a_question_notifies_and_is_answered_in_the_page() {
    let world = World::new(&["--allow-control"]);
    let root = world.env.root().display().to_string();
    world.browser.allow_notifications(&world.url);
    world.open("/");
    // What the browser would show is written down instead.
    world.browser.run("window.told = []; const Real = Notification; window.Notification = class { constructor(title, with_) { told.push([title, with_.body]); } static get permission() { return 'granted'; } static requestPermission() { return Promise.resolve('granted'); } }");
    world.browser.click("[data-notify]");
    world.browser.click("#notify input[name='question']");
    world.browser.click("#notify button[type='submit']");
    world
        .browser
        .wait_for("the choice", "return document.querySelector('[data-notify]').ariaPressed === 'true'");
    let dacapo = env!("CARGO_BIN_EXE_dacapo");
    let script = format!(
        "@1: run {dacapo} bus post --type QUESTION 'Which colour?'; wait-file {root}/go\n@2+: promise"
    );
    let id = world.start(&script, "Paint it", &["--max-iterations", "3"]);
    world.browser.wait_for_text(&format!("[data-need][data-loop='{id}']"), "Which colour?");
    world.browser.wait_for("the notification", "return window.told.length > 0");
    assert!(world.browser.run("return window.told[0].join(' ')").as_str().unwrap().contains("Which colour?"));
    world.browser.type_into(&format!("[data-need][data-loop='{id}'] [data-steer]"), "Blue");
    world.browser.click(&format!("[data-need][data-loop='{id}'] [data-action]"));
    world.browser.wait_for(
        "the answer to be taken",
        &format!("return document.querySelector(\"[data-need][data-loop='{id}']\") === null"),
    );
    fs::write(format!("{root}/go"), "").unwrap();
    world.wait_for_end(&id);
    assert!(
        world.env.events(Some(&id)).iter().any(|event| event["type"] == "steered" && event["text"] == "Blue")
    );
    world.assert_no_complaints();
}

#[test]
fn a_run_of_units_has_its_graph_its_train_and_its_slots() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    for (unit, after) in [("base", ""), ("cart", "base"), ("mail", "base")] {
        let folder = format!("specs/tasks/{unit}");
        env.write(
            format!("{folder}/IMPLEMENTATION_PLAN.md"),
            format!("---\ndepends_on: [{after}]\n---\n\n# {unit}\n"),
        );
        let task = format!(
            "---\ntask: 1\nstatus: pending\nbackpressure: test -f {unit}.txt\n---\n\n# First\n\nWrite it.\n"
        );
        env.write(format!("{folder}/01-first.md"), task);
    }
    env.git_init();
    let does = "touch $DACAPO_TASK.txt; sed -i 's/^status: .*/status: complete/' specs/tasks/$DACAPO_TASK/01-first.md";
    install_paid_agent(&env, does, "Did it.");
    let args = [
        "unit",
        "run",
        "--trust",
        "--restart-delay",
        "0s",
        "--agent",
        "mine",
        "--kill-grace",
        "100ms",
        "--parallel",
        "2",
    ];
    env.run(args).assert_code(0);
    let events = env.events(None);
    let run = events.iter().find_map(|event| event["run"].as_str()).expect("a run").to_owned();
    let world = World::of(env, &[]);
    // The loops are a part of the run: its page is found by either id.
    world.open(&format!("/loops/{run}"));
    assert!(world.browser.address().contains("/runs/"), "{}", world.browser.address());
    assert_eq!(world.browser.attribute("[data-run]", "data-state").as_deref(), Some("completed"));
    assert_eq!(world.browser.count("[data-node]"), 3);
    assert_eq!(world.browser.count(".graph .edge"), 2, "two units wait for one");
    assert_eq!(world.browser.count("[data-car][data-state='merged']"), 3);
    assert!(world.browser.count(".gantt [data-span='base']") >= 2, "it took a slot, and was merged");
    assert!(
        world.browser.text("[data-unit='cart']").contains("$0.02"),
        "{}",
        world.browser.text("[data-unit='cart']")
    );
    // At its first event nothing was merged; at its last everything is.
    world.open(&format!("/runs/{run}?at=0"));
    assert_eq!(world.browser.count("[data-car][data-state='merged']"), 0);
    assert_eq!(world.browser.attribute("[data-run]", "data-state").as_deref(), Some("running"));
    let last = world.browser.attribute("[data-scrub]", "max").unwrap();
    world.open(&format!("/runs/{run}?at={last}"));
    assert_eq!(world.browser.count("[data-car][data-state='merged']"), 3);
    for screen in [Screen::PHONE.dark(), Screen::DESKTOP] {
        world.browser.set_screen(screen);
        world.open(&format!("/runs/{run}"));
        world.assert_fits(&format!("a run on {screen:?}"));
        world.assert_contrast(&format!("a run on {screen:?}"));
    }
    world.assert_no_complaints();
}

#[test]
fn a_workflow_is_followed_step_by_step_and_its_question_is_answered() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    let steps = "steps:
  - {id: plan, bash: 'echo planned'}
  - {id: left, bash: 'echo left', depends_on: [plan]}
  - {id: right, bash: 'echo right', depends_on: [plan]}
  - {id: ask, approval: {message: 'Ship <b>it</b>?'}, depends_on: [left, right]}
  - {id: ship, bash: 'touch shipped', depends_on: [ask]}
";
    env.write(".dacapo/workflows/ship.yaml", format!("name: ship\ndescription: ships\n{steps}"));
    env.git_init();
    env.run(["workflow", "run", "ship", "--trust"]).assert_code(4);
    let events = env.events(None);
    let run = events.iter().find_map(|event| event["run"].as_str()).expect("a run").to_owned();
    let world = World::of(env, &["--allow-control"]);
    // From the board, where its card asks, by the keyboard to its page.
    world.browser.wait_for_text("[data-lane='waiting'] .card", "ship");
    world.browser.click(&format!("[data-lane='waiting'] .card[data-run='{run}'] a"));
    world.browser.wait_for_element(&format!("section.intro[data-run='{run}'][data-state='waiting']"));
    assert!(world.browser.address().contains("/runs/"), "{}", world.browser.address());
    let state = |step: &str| world.browser.attribute(&format!("[data-step-id='{step}']"), "data-state");
    assert_eq!(world.browser.count("[data-node]"), 5);
    assert_eq!(world.browser.count(".graph .edge"), 5);
    assert_eq!(state("plan").as_deref(), Some("completed"));
    assert_eq!(state("ship").as_deref(), Some("pending"));
    assert!(world.browser.text("main").contains("Ship <b>it</b>?"), "what is asked is text");
    for screen in [Screen::PHONE.dark(), Screen::PHONE, Screen::DESKTOP.dark(), Screen::DESKTOP] {
        world.browser.set_screen(screen);
        world.open(&format!("/runs/{run}"));
        world.assert_fits(&format!("a workflow on {screen:?}"));
        world.assert_contrast(&format!("a workflow on {screen:?}"));
    }
    // It is answered here, and the page follows the run to its end without being loaded again.
    world
        .browser
        .wait_for("the stream", "return document.querySelector('.link-state').dataset.link === 'live'");
    world.browser.run("window.isSame = true");
    world.browser.click("section.intro [data-action='approve']");
    world.browser.wait_for_element("[data-step-id='ship'][data-state='completed']");
    world.browser.wait_for_element(&format!("section.intro[data-run='{run}'][data-state='completed']"));
    assert_eq!(world.browser.run("return window.isSame"), true);
    assert!(world.env.workspace().join("shipped").exists());
    // At its first event no step has begun.
    world.open(&format!("/runs/{run}?at=0"));
    assert_eq!(world.browser.count("[data-step-id][data-state='completed']"), 0);
    world.open("/");
    world.browser.wait_for_text("[data-lane='done'] .card", "ship");
    world.browser.wait_for("the mark to go", "return document.querySelector('.card.unseen') === null");
    world.assert_no_complaints();
}

#[test]
fn a_task_goes_through_its_lanes_and_its_stages_are_on_its_page() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.git_init();
    env.run(["task", "add", "--title", "Add a login page"]).assert_code(0);
    env.git(["add", "-A"]);
    env.git(["commit", "-qm", "a task"]);
    // One agent for all stages: it reads its stage in the prompt, and waits until it may go on.
    let root = env.root().display().to_string();
    let agent = env.root().join("bin/roles");
    let script = format!(
        "#!/bin/sh
stage=$(sed -n 's/^- \\*\\*Stage\\*\\*: //p' | head -1)
while [ ! -e \"{root}/go-$stage\" ]; do sleep 0.05; done
case \"$stage\" in
Implementation) echo work >>work.txt; git add -A; git commit -qm work; echo '<promise>IMPLEMENTATION_COMPLETE</promise>' ;;
Review) echo 'REVIEW PASSED'; echo '<promise>REVIEW_COMPLETE</promise>' ;;
Testing) echo '3 passed'; echo '<promise>TESTS_COMPLETE</promise>' ;;
QA) echo '<promise>QA_PASSED</promise>' ;;
esac
"
    );
    fs::write(&agent, script).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let world = World::of(env, &[]);
    world.browser.wait_for_text("[data-lane='todo'] .card", "Add a login page");
    let command = agent.display().to_string();
    let args = ["task", "run", "--agent-cmd", &command, "--restart-delay", "0s", "--kill-grace", "100ms"];
    let running = world.env.spawn(args);
    world.browser.wait_for_text("[data-lane='coder'] .card", "Coder (1/");
    assert_eq!(world.browser.count("[data-lane='todo'] .card"), 0);
    let run = world.browser.attribute("[data-lane='coder'] .card", "data-run").expect("a run");
    let board = world.browser.tab();
    let page = world.browser.new_tab();
    world.open(&format!("/runs/{run}"));
    world.browser.wait_for_element("[data-stage='coder'][data-state='running']");
    for (stage, lane, next) in [
        ("Implementation", "coder", "reviewer"),
        ("Review", "reviewer", "tester"),
        ("Testing", "tester", "qa"),
    ] {
        fs::write(format!("{root}/go-{stage}"), "").unwrap();
        world.browser.switch_to(&page);
        world.browser.wait_for_element(&format!("[data-stage='{next}'][data-state='running']"));
        let is_over = world.browser.attribute(&format!("[data-stage='{lane}']"), "data-state");
        assert_eq!(is_over.as_deref(), Some("passed"), "{lane}");
        world.browser.switch_to(&board);
        world.browser.wait_for_element(&format!("[data-lane='{next}'] .card[data-run='{run}']"));
    }
    fs::write(format!("{root}/go-QA"), "").unwrap();
    world
        .browser
        .wait_for_element(&format!("[data-lane='done'] .card[data-run='{run}'][data-state='completed']"));
    running.wait(PATIENCE).assert_code(0);
    world.browser.switch_to(&page);
    world.browser.wait_for_element(&format!("section.intro[data-run='{run}'][data-state='completed']"));
    assert_eq!(world.browser.count("[data-stage][data-state='passed']"), 4);
    for screen in [Screen::PHONE.dark(), Screen::DESKTOP] {
        world.browser.set_screen(screen);
        world.open(&format!("/runs/{run}"));
        world.assert_fits(&format!("a task on {screen:?}"));
        world.assert_contrast(&format!("a task on {screen:?}"));
    }
    // A stage leads to its loop, and that to what its agent printed.
    world.browser.click("[data-stage='tester'] a");
    world.browser.wait_for_element("[data-iteration='1']");
    assert!(world.browser.address().contains("/loops/"), "{}", world.browser.address());
    world.assert_no_complaints();
}
