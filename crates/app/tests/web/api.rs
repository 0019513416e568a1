//! What the API says is what the commands say.

use std::collections::BTreeSet;

use dacapo_serve::{Access, Route, ServerParts, openapi, table};
use dacapo_testkit::wait_until;
use serde_json::{Value, json};

use crate::support::{LONG, Server, looped, newest, world};

#[test]
fn the_api_says_what_the_commands_say() {
    let env = world();
    env.git_init();
    let script = "@1: write a.txt one; say first words; @2: write a.txt two; promise";
    let id = looped(&env, script, &["--gate", "grep -q two a.txt"]);
    looped(&env, "exit 3", &["-n", "1"]);
    let server = Server::web(&env, &[]);
    let printed = |args: &[&str]| -> Value {
        serde_json::from_str(&env.run(args).assert_code(0).stdout).expect("JSON")
    };
    assert_eq!(server.json("/api/loops"), printed(&["status", "--json"]));
    assert_eq!(server.json("/api/loops?all=true"), printed(&["status", "--all", "--json"]));
    assert_eq!(server.json("/api/loops?limit=1").as_array().unwrap().len(), 1);
    assert_eq!(json!([server.json(&format!("/api/loops/{id}"))]), printed(&["status", &id, "--json"]));
    let events = env.events(Some(&id));
    assert_eq!(server.json(&format!("/api/loops/{id}/events")), json!(events));
    let from = events[3]["seq"].as_u64().unwrap();
    assert_eq!(server.json(&format!("/api/loops/{id}/events?from={from}&limit=2")), json!(events[3..5]));
    assert_eq!(server.json(&format!("/api/loops/{id}/receipt")), printed(&["receipt", &id, "--json"]));
    assert_eq!(server.json(&format!("/api/loops/{id}/snapshots")), printed(&["snapshots", &id, "--json"]));
    assert_eq!(server.get(&format!("/api/loops/{id}/diff")).body, env.run(["diff", &id]).stdout);
    let second = server.get(&format!("/api/loops/{id}/diff?iteration=2")).body;
    assert!(second.contains("-one\n+two\n"), "{second}");
    let log = server.json(&format!("/api/loops/{id}/log?iteration=1"));
    assert_eq!(log["parts"][0]["text"], "first words\n");
    assert_eq!(log["is_over"], true);
    let prompt = server.json(&format!("/api/loops/{id}/log?channel=prompt&iteration=1"));
    assert!(prompt["parts"][0]["text"].as_str().unwrap().contains("do it"), "{prompt}");
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("dacapo_loops{state=\"completed\"} 1\n"), "{metrics}");
    assert!(metrics.contains("dacapo_loops{state=\"failed\"} 1\n"), "{metrics}");
    let needs = server.json("/api/attention");
    assert_eq!(needs[0]["urgency"], "failed", "{needs}");
    assert_eq!(server.json("/api/board")["needs"], needs);
    assert_eq!(server.json("/api/report")["totals"]["completed"], 1);
    for wrong in
        ["/api/loops?all=maybe", "/api/loops?limit=x", "/api/report?since=soon", "/api/loops/x/log?channel=y"]
    {
        let reply = server.get(wrong);
        assert_eq!(reply.status, 400, "{wrong}: {}", reply.body);
        assert!(reply.json()["error"].is_string());
    }
    let unknown = server.get("/api/loops/zzzzzzzzzz");
    assert_eq!(
        (unknown.status, &unknown.json()["error"]),
        (404, &json!("no loop and no run is called that"))
    );
}

#[test]
fn runs_are_listed_and_asked_for_by_their_id() {
    let env = world();
    env.git_init();
    env.write(
        ".dacapo/workflows/two.yaml",
        "name: two\ndescription: two steps\nsteps:\n  - id: one\n    bash: echo one\n  - id: ask\n    approval: {message: Go on?}\n",
    );
    env.run(["workflow", "run", "two", "--trust"]);
    let server = Server::web(&env, &[]);
    let runs = server.json("/api/runs");
    assert_eq!((&runs[0]["kind"], &runs[0]["workflow"]), (&json!("workflow"), &json!("two")), "{runs}");
    let id = runs[0]["id"].as_str().unwrap();
    assert_eq!(server.json(&format!("/api/loops/{id}")), runs[0]);
    let events = server.json(&format!("/api/loops/{id}/events"));
    assert_eq!(events, json!(env.events(Some(id))), "the events of a run are those of `events RUN`");
    assert_eq!(server.json("/api/attention")[0]["urgency"], "approval");
    // Those that ended come after those that go on, all kinds together, the newest first.
    env.write("specs/tasks/a/IMPLEMENTATION_PLAN.md", "# a\n");
    env.write(
        "specs/tasks/a/01-first.md",
        "---\ntask: 1\nstatus: pending\nbackpressure: 'false'\n---\n\n# First\n\nWrite it.\n",
    );
    env.write(
        ".dacapo/workflows/one.yaml",
        "name: one\ndescription: one step\nsteps: [{id: one, bash: 'true'}]\n",
    );
    env.git(["add", "-A"]);
    env.git(["commit", "-qm", "units"]);
    let agent = env.agent_cmd_for("exit 3");
    let units = ["unit", "run", "--trust", "--restart-delay", "0s", "-n", "1", "--agent-cmd", &agent];
    env.run(units);
    env.run(["workflow", "run", "one", "--trust"]).assert_code(0);
    env.run(units);
    let listed = |path: &str| -> Vec<(String, String)> {
        let runs = server.json(path);
        let word = |run: &Value, key: &str| run[key].as_str().unwrap_or_default().to_owned();
        runs.as_array().unwrap().iter().map(|run| (word(run, "kind"), word(run, "state"))).collect()
    };
    let kinds: Vec<(String, String)> =
        [("workflow", "stopped"), ("units", "failed"), ("workflow", "completed"), ("units", "failed")]
            .map(|(kind, state)| (kind.to_owned(), state.to_owned()))
            .into();
    assert_eq!(listed("/api/runs"), kinds);
    assert_eq!(listed("/api/runs?limit=1"), kinds[..2]);
    assert_eq!(listed("/api/runs?limit=0"), kinds[..1]);
    assert_eq!(listed("/api/runs?limit=1&all=true"), kinds);
}

#[test]
fn the_document_is_made_from_the_routes() {
    let env = world();
    let server = Server::web(&env, &[]);
    let document = server.json("/api/openapi.json");
    assert_eq!(document, openapi::of(ServerParts::Pages));
    assert_eq!(document["openapi"], "3.1.0");
    for parts in [ServerParts::Pages, ServerParts::Messages] {
        let document = openapi::of(parts);
        let listed: BTreeSet<(String, String)> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, verbs)| {
                verbs.as_object().unwrap().keys().map(|verb| (path.clone(), verb.to_uppercase()))
            })
            .collect();
        let routes = table(parts).into_iter().filter(|route| route.answers != "text/html");
        let routes: BTreeSet<_> =
            routes.map(|route| (route.path.to_owned(), route.verb.as_str().to_owned())).collect();
        assert_eq!(listed, routes);
    }
    // Messages come in under `serve` alone.
    let of = |parts| table(parts).into_iter().map(|route| route.path).collect::<BTreeSet<_>>();
    let (web, serve) = (of(ServerParts::Pages), of(ServerParts::Messages));
    assert!(web.iter().all(|path| !path.starts_with("/test/")), "{web:?}");
    assert!(serve.iter().all(|path| *path != "/"), "{serve:?}");
}

/// `docs/reference/http.md` is made from the tables; `DACAPO_UPDATE_DOCS=1 cargo test -p dacapo --test web reference` writes it.
#[test]
fn the_reference_lists_every_route() {
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/http.md");
    let mut text = "# Routes of the server\n\n<!-- Generated from the code: DACAPO_UPDATE_DOCS=1 cargo test -p dacapo --test web reference -->\n\n\
        `dacapo web` has the API and the pages, `dacapo serve` the API and messages. How to call them: [guide](../guide/server.md).\n"
        .to_owned();
    let (web, serve) = (table(ServerParts::Pages), table(ServerParts::Messages));
    let is_in = |routes: &[Route], route: &Route| {
        routes.iter().any(|own| (own.path, own.verb) == (route.path, route.verb))
    };
    let sections: [(&str, Vec<&Route>); 3] = [
        ("Both", web.iter().filter(|route| is_in(&serve, route)).collect()),
        ("`dacapo web`", web.iter().filter(|route| !is_in(&serve, route)).collect()),
        ("`dacapo serve`", serve.iter().filter(|route| !is_in(&web, route)).collect()),
    ];
    for (title, routes) in sections.iter().filter(|(_, routes)| !routes.is_empty()) {
        text.push_str(&format!(
            "\n## {title}\n\n| route | needs | does | answers with |\n|---|---|---|---|\n"
        ));
        for route in routes {
            let needs = match route.access {
                Access::Open => "nothing",
                Access::Read => "login or token",
                Access::Control => "login or token, and `--allow-control`",
                Access::Token => "token",
                Access::Signed => "a signature",
            };
            let mut does = route.does.to_owned();
            does.extend(route.query.iter().map(|(name, means)| format!("<br>`?{name}=`: {means}")));
            does.extend(route.body.map(|body| format!("<br>Body: {body}")));
            let (verb, path) = (route.verb.as_str(), route.path);
            text.push_str(&format!("| `{verb} {path}` | {needs} | {does} | `{}` |\n", route.answers));
        }
    }
    if std::env::var_os("DACAPO_UPDATE_DOCS").is_some() {
        std::fs::write(FILE, &text).unwrap();
    }
    let kept = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(
        kept == text,
        "docs/reference/http.md is not what the table says: run DACAPO_UPDATE_DOCS=1 cargo test"
    );
}

/// Escape sequences, HTML, a line of 1 MB, characters that turn text around, and bytes that are no text.
#[test]
fn hostile_output_is_text() {
    let env = world();
    let script = "say \\e[2J\\e]0\\;owned\\a<script>alert(1)</script>\\r\\x08; say a\\xff\\xfeb \\xe2\\x80\\xae gnp.exe; \
                  line 1048576; promise";
    let prompt = "<img src=x onerror=alert(1)> \u{202e}evil\u{1b}[31m";
    let agent = env.agent_cmd_for(script);
    let output = env.run(["run", prompt, "--agent-cmd", &agent, "-n", "1"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let id = newest(&env);
    let server = Server::web(&env, &[]);
    let is_bad =
        |c: char| (c.is_control() && c != '\n' && c != '\t') || ('\u{202a}'..='\u{202e}').contains(&c);
    let paths = [
        "/api/loops".to_owned(),
        "/api/board".to_owned(),
        format!("/api/loops/{id}/events"),
        format!("/api/loops/{id}/log?channel=prompt"),
    ];
    for path in paths {
        let value = server.json(&path);
        let mut strings = vec![&value];
        while let Some(next) = strings.pop() {
            match next {
                Value::String(text) => assert!(!text.contains(is_bad), "{path}: {text:?}"),
                Value::Array(values) => strings.extend(values),
                Value::Object(keys) => strings.extend(keys.values()),
                _ => {}
            }
        }
    }
    // The log comes in pieces until it is whole.
    let (mut text, mut next) = (String::new(), 0);
    wait_until("the whole log", LONG, || {
        let page = server.json(&format!("/api/loops/{id}/log?from={next}"));
        page["parts"]
            .as_array()
            .unwrap()
            .iter()
            .for_each(|part| text.push_str(part["text"].as_str().unwrap()));
        next = page["next"].as_u64().unwrap();
        page["next"] == page["end"]
    });
    assert!(
        text.starts_with("<script>alert(1)</script>\na\u{fffd}\u{fffd}b  gnp.exe\n"),
        "{:?}",
        &text[..80]
    );
    assert!(text.len() > 1 << 20 && !text.contains(is_bad));
    let reply = server.get(&format!("/api/loops/{id}/log"));
    assert_eq!(reply.header("content-type"), Some("application/json"), "no browser takes it for a page");
}

#[test]
fn a_journal_of_a_newer_version_is_named_and_the_server_stays() {
    let env = world();
    looped(&env, "promise", &[]);
    let server = Server::web(&env, &[]);
    assert_eq!(server.get("/api/loops").status, 200);
    let db = rusqlite::Connection::open(env.dacapo_home().join("dacapo.db")).unwrap();
    let known: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    db.pragma_update(None, "user_version", known + 1).unwrap();
    let fresh = Server::web(&env, &[]);
    let is_warning = |line: &str| line.starts_with("WARNING: the journal") && line.contains("upgrade dacapo");
    fresh.running.wait_for_line(is_warning, LONG);
    let reply = fresh.get("/api/loops");
    assert_eq!(reply.status, 503, "{}", reply.body);
    let said = reply.json();
    assert!(said["error"].as_str().unwrap().contains("written by a newer dacapo"), "{said}");
    assert!(said["hint"].as_str().unwrap().contains("upgrade dacapo"), "{said}");
    assert_eq!(fresh.get("/healthz").status, 200);
    // Once it is one of this version again, the same server reads it.
    db.pragma_update(None, "user_version", known).unwrap();
    assert_eq!(fresh.get("/api/loops").status, 200);
}

#[test]
fn a_loop_that_is_cleaned_away_is_gone() {
    let env = world();
    let id = looped(&env, "say here I was; promise", &[]);
    let server = Server::web(&env, &[]);
    assert_eq!(server.get(&format!("/api/loops/{id}/log")).status, 200);
    env.run(["clean", "--older-than", "0s"]).assert_code(0);
    let log = server.json(&format!("/api/loops/{id}/log"));
    assert_eq!(log["parts"], json!([]), "its output is gone, the loop stays in the journal");
    let diff = server.get(&format!("/api/loops/{id}/diff"));
    assert_eq!(diff.status, 404, "{}", diff.body);
    // A journal that is set aside takes its loops along.
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(env.dacapo_home().join(format!("dacapo.db{end}")));
    }
    wait_until("the loop is gone", LONG, || server.get(&format!("/api/loops/{id}")).status != 200);
    assert_eq!(server.get("/healthz").status, 200);
}
