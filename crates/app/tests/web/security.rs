//! Every route against every kind of unwanted caller, made from the router's own table: a route that is added is tested, or,
//! if it has a parameter that is not known here, fails.

use std::{
    fs,
    io::{Read, Write},
    time::{Duration, Instant},
};

use dacapo_serve::{Access, Route, ServerParts, Verb, table};
use dacapo_testkit::TestEnv;

use crate::support::{LONG, Reply, Server, head, looped, newest, world};

/// What an unwanted caller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attack {
    NoToken,
    WrongToken,
    ForeignHost,
    ForeignOrigin,
    CrossSiteForm,
    GetThatMutates,
    Traversal,
    HugeBody,
}

impl Attack {
    const ALL: [Self; 8] = [
        Self::NoToken,
        Self::WrongToken,
        Self::ForeignHost,
        Self::ForeignOrigin,
        Self::CrossSiteForm,
        Self::GetThatMutates,
        Self::Traversal,
        Self::HugeBody,
    ];
}

/// A server with a loop to ask about, and a login.
struct Target {
    env: TestEnv,
    server: Server,
    parts: ServerParts,
    loop_id: String,
    cookie: Option<String>,
}

impl Target {
    fn new(parts: ServerParts) -> Self {
        let env = world();
        let loop_id = looped(&env, "promise", &[]);
        let server = match parts {
            ServerParts::Pages => Server::web(&env, &["--allow-control"]),
            ServerParts::Messages => Server::start(&env, &["serve", "--port", "0", "--allow-control"]),
        };
        let cookie = (parts == ServerParts::Pages).then(|| server.login());
        Self { env, server, parts, loop_id, cookie }
    }

    /// A path of the route, with something in the place of its parameters.
    fn path(&self, route: &Route, value: Option<&str>) -> String {
        let word = |word: &str| match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
            None => word.to_owned(),
            Some(name) => {
                let known = match name {
                    "id" | "loop" => self.loop_id.as_str(),
                    "name" => "dacapo.css",
                    other => panic!("{}: what stands for `{{{other}}}` in a test?", route.path),
                };
                value.unwrap_or(known).to_owned()
            }
        };
        route.path.split('/').map(word).collect::<Vec<_>>().join("/")
    }

    /// A request that is good but for what `change` says.
    fn send(&self, verb: &str, path: &str, change: &[(&str, &str)], body: &[u8]) -> Reply {
        let (host, bearer) = (self.server.host(), self.server.bearer());
        let mut headers = vec![("Host", host.as_str()), ("Authorization", &bearer)];
        headers.retain(|(name, _)| !change.iter().any(|(other, _)| other == name));
        headers.extend(change.iter().filter(|(_, value)| !value.is_empty()));
        self.server.send(verb, path, &headers, body)
    }

    fn suffer(&self, route: &Route, attack: Attack) {
        let (verb, path) = (route.verb.as_str(), self.path(route, None));
        let what = format!("{attack:?} on {verb} {path}");
        match attack {
            Attack::NoToken => {
                self.assert_unknown(route, &self.send(verb, &path, &[("Authorization", "")], b""), &what)
            }
            Attack::WrongToken => {
                let half = format!("Bearer {}", &self.server.token[..63]);
                for wrong in ["Bearer 0000", "Bearer ", "Basic dacapo", &half] {
                    let mut change = vec![("Authorization", wrong)];
                    // A login does not make a wrong token good.
                    change.extend(self.cookie.as_deref().map(|cookie| ("Cookie", cookie)));
                    self.assert_unknown(route, &self.send(verb, &path, &change, b""), &what);
                }
                let old = [("Authorization", ""), ("Cookie", "dacapo-00000000=1; dacapo=1")];
                self.assert_unknown(route, &self.send(verb, &path, &old, b""), &what);
            }
            Attack::ForeignHost => {
                let port = self.server.port;
                let hosts = [
                    format!("evil.example:{port}"),
                    "127.0.0.1".to_owned(),
                    format!("127.0.0.1:{}", port ^ 1),
                    format!("localhost.evil.example:{port}"),
                    format!("user@127.0.0.1:{port}"),
                ];
                for host in hosts {
                    let reply = self.send(verb, &path, &[("Host", &host)], b"");
                    assert_eq!(reply.status, 421, "{what} as {host}: {}", reply.body);
                }
                assert_eq!(self.send(verb, &path, &[("Host", "")], b"").status, 421, "{what} without a host");
                // A whole address in the place of a path names another host than the header does.
                let whole = format!("http://evil.example{path}");
                assert_eq!(self.send(verb, &whole, &[], b"").status, 421, "{what} as a whole address");
            }
            Attack::ForeignOrigin => {
                let port = self.server.port;
                let origins = [
                    "http://evil.example".to_owned(),
                    "null".to_owned(),
                    format!("http://127.0.0.1:{}", port ^ 1),
                    format!("https://127.0.0.1:{port}"),
                    format!("http://localhost:{port}"),
                ];
                for origin in origins {
                    let reply = self.send(verb, &path, &[("Origin", &origin)], b"");
                    assert_eq!(reply.status, 403, "{what} from {origin}: {}", reply.body);
                    assert_eq!(reply.header("access-control-allow-origin"), None, "{what}");
                }
            }
            Attack::CrossSiteForm => self.assert_no_form(verb, &path, &what),
            Attack::GetThatMutates => {
                let other = if route.verb == Verb::Get { Verb::Post } else { Verb::Get };
                let is_route =
                    table(self.parts).iter().any(|own| own.path == route.path && own.verb == other);
                if !is_route {
                    assert_eq!(self.send(other.as_str(), &path, &[], b"").status, 405, "{what}");
                }
                assert!(
                    route.verb == Verb::Post || route.access != Access::Control,
                    "{what}: a GET never changes anything"
                );
                for verb in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
                    assert_eq!(self.send(verb, &path, &[], b"").status, 405, "{what} by {verb}");
                }
            }
            Attack::Traversal => self.assert_no_way_out(route, &what),
            Attack::HugeBody => self.assert_no_huge_body(route, &path, &what),
        }
    }

    /// Who shows nothing good learns nothing.
    #[track_caller]
    fn assert_unknown(&self, route: &Route, reply: &Reply, what: &str) {
        match route.access {
            Access::Open => assert_ne!(reply.status, 403, "{what}"),
            Access::Signed => assert!((400..500).contains(&reply.status), "{what}: {}", reply.status),
            Access::Read | Access::Control | Access::Token => {
                assert_eq!(reply.status, 401, "{what}: {}", reply.body);
                assert!(!reply.body.contains(&self.loop_id), "{what}");
            }
        }
    }

    /// What a page of another site can send with the browser's cookie.
    fn assert_no_form(&self, verb: &str, path: &str, what: &str) {
        let cookie = self.cookie.as_deref().unwrap_or("none=1");
        let form = [
            ("Authorization", ""),
            ("Cookie", cookie),
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Sec-Fetch-Mode", if verb == "GET" { "no-cors" } else { "navigate" }),
            ("Sec-Fetch-Dest", if verb == "GET" { "image" } else { "document" }),
        ];
        for site in ["cross-site", "same-site"] {
            let mut headers = form.to_vec();
            headers.push(("Sec-Fetch-Site", site));
            let reply = self.send(verb, path, &headers, b"text=hello");
            assert_eq!(reply.status, 403, "{what} of a {site} page: {}", reply.body);
        }
        if verb == "POST" {
            let plain = &form[..3];
            let status = self.send(verb, path, plain, b"text=hello").status;
            assert!((400..500).contains(&status), "{what} that says nothing of its page: {status}");
        }
    }

    fn assert_no_way_out(&self, route: &Route, what: &str) {
        let long = "a".repeat(5000);
        let words = [
            "..%2f..%2f..%2f..%2fetc%2fpasswd",
            "%2e%2e",
            "..",
            "%00",
            "%ff",
            ".%2e%2ftoken",
            "web%2ftoken",
            "*",
            &long,
        ];
        for word in words {
            let path = match route.path.contains('{') {
                true => self.path(route, Some(word)),
                false => format!("{}/{word}/{word}", route.path),
            };
            let reply = self.send(route.verb.as_str(), &path, &[], b"");
            // A path that ends in another route is that route.
            let is_fine =
                matches!(reply.status, 400 | 404 | 405 | 414 | 415) || route.access == Access::Signed;
            assert!(is_fine, "{what} by `{word:.40}`: {} {}", reply.status, reply.body);
            assert!(
                !reply.body.contains("root:") && !reply.body.contains(&self.server.token),
                "{what}: {}",
                reply.body
            );
        }
    }

    /// 100 MB are not taken, and not kept.
    fn assert_no_huge_body(&self, route: &Route, path: &str, what: &str) {
        const HUGE: usize = 100 << 20;
        let (host, bearer) = (self.server.host(), self.server.bearer());
        let headers =
            [("Host", host.as_str()), ("Authorization", &bearer), ("Content-Type", "application/json")];
        let mut stream = self.server.connect();
        stream.write_all(head(route.verb.as_str(), path, &headers, Some(HUGE)).as_bytes()).expect("the head");
        let mut sent = 0;
        let piece = vec![b' '; 1 << 20];
        while sent < HUGE && stream.write_all(&piece).is_ok() {
            sent += piece.len();
        }
        assert!(sent < HUGE / 2, "{what}: {sent} bytes were taken");
        if route.verb == Verb::Post {
            // The answer is lost where the connection was reset before it was read.
            let mut answer = [0; 12];
            if stream.read_exact(&mut answer).is_ok() {
                assert_eq!(&answer[9..], b"413", "{what}");
            }
        }
    }

    fn memory(&self) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.server.running.pid())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

/// What was recorded, and what was asked for.
fn journal(env: &TestEnv) -> (usize, i64) {
    let db = rusqlite::Connection::open(env.dacapo_home().join("dacapo.db")).expect("the journal");
    let requests = db.query_row("SELECT COUNT(*) FROM requests", [], |row| row.get(0)).expect("a number");
    (env.events(None).len(), requests)
}

fn attack_everything(parts: ServerParts) {
    let target = Target::new(parts);
    let before = journal(&target.env);
    let memory = target.memory();
    let routes = table(parts);
    assert!(routes.len() > 15, "the table is the real one");
    for attack in Attack::ALL {
        for route in &routes {
            target.suffer(route, attack);
        }
    }
    assert_eq!(journal(&target.env), before, "no attack has changed anything");
    assert!(target.memory() < memory + (32 << 10), "{} kB, before {memory} kB", target.memory());
    assert_eq!(target.server.get("/healthz").body, "ok\n", "the server is well");
}

#[test]
fn no_unwanted_caller_gets_through_to_the_page() {
    attack_everything(ServerParts::Pages);
}

#[test]
fn no_unwanted_caller_gets_through_to_messages() {
    attack_everything(ServerParts::Messages);
}

/// Clients that say a part and then nothing, one for each route, do not keep the server from others, and are given up.
#[test]
fn slow_clients_are_given_up() {
    let target = Target::new(ServerParts::Pages);
    let (host, bearer) = (target.server.host(), target.server.bearer());
    let headers = [("Host", host.as_str()), ("Authorization", &bearer), ("Content-Type", "application/json")];
    let mut slow = Vec::new();
    for route in &table(ServerParts::Pages) {
        let path = target.path(route, None);
        let whole = head(route.verb.as_str(), &path, &headers, Some(10));
        let mut stream = target.server.connect();
        stream.write_all(&whole.as_bytes()[..whole.len() - 9]).expect("a part of the head");
        slow.push((format!("half a head of {path}"), stream));
        if route.verb == Verb::Post {
            let mut stream = target.server.connect();
            stream.write_all(whole.as_bytes()).expect("the head");
            stream.write_all(b"{").expect("a part of the body");
            slow.push((format!("half a body of {path}"), stream));
        }
    }
    let begin = Instant::now();
    assert_eq!(target.server.get("/healthz").body, "ok\n");
    assert!(begin.elapsed() < Duration::from_secs(2), "others are answered at once");
    for (what, mut stream) in slow {
        // An end counts also after other words.
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(begin.elapsed() < LONG, "{what} is still open");
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{what}: {}", String::from_utf8_lossy(&answer));
    }
}

#[test]
fn a_link_is_good_once_and_a_look_ahead_does_not_use_it_up() {
    let env = world();
    let server = Server::web(&env, &[]);
    let (host, path) = (server.host(), server.link.split_once(&server.host()).unwrap().1);
    let ask = |verb: &str, extra: &[(&str, &str)]| {
        server.send(verb, path, &[&[("Host", host.as_str())], extra].concat(), b"")
    };
    assert_eq!(ask("HEAD", &[]).status, 204);
    assert_eq!(ask("GET", &[("Sec-Purpose", "prefetch")]).status, 204);
    let cookie = ask("GET", &[]).header("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(&server.token), "the token stays where it is");
    let again = ask("GET", &[]);
    assert_eq!((again.status, again.header("set-cookie")), (401, None));
    for path in
        ["/login", "/login?token=", "/login?token=..%2ftoken", &format!("/login?token={}", server.token)]
    {
        assert_eq!(server.send("GET", path, &[("Host", &host)], b"").status, 401, "{path}");
    }
    // Led here by a page of another site, a browser would keep the cookie back while it is redirected.
    let other = Server::web(&env, &[]);
    let path = other.link.split_once(&other.host()).unwrap().1;
    let visit = [
        ("Host", other.host()),
        ("Sec-Fetch-Site", "cross-site".to_owned()),
        ("Sec-Fetch-Mode", "navigate".to_owned()),
        ("Sec-Fetch-Dest", "document".to_owned()),
    ];
    let visit: Vec<(&str, &str)> = visit.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let reply = other.send("GET", path, &visit, b"");
    assert_eq!((reply.status, reply.header("refresh")), (200, Some("0; url=/")));
}

#[test]
fn every_answer_says_what_a_browser_may_do_with_it() {
    let env = world();
    looped(&env, "promise", &[]);
    let server = Server::web(&env, &[]);
    let id = newest(&env);
    let answers = [
        server.get("/api/loops"),
        server.get(&format!("/api/loops/{id}/log")),
        server.get("/nothing"),
        server.send("GET", "/api/loops", &[("Host", "evil.example")], b""),
        server.send("GET", "/api/loops", &[("Host", &server.host())], b""),
    ];
    for reply in answers {
        let policy = reply.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("referrer-policy"), Some("same-origin"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert!(reply.headers.iter().all(|(name, _)| !name.starts_with("access-control-")), "{reply:?}");
    }
}
