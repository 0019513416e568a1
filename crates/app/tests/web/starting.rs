//! How servers begin and how they refuse to.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt};

use dacapo_testkit::Signal;

use crate::support::{LONG, Server, world};

#[test]
fn the_first_line_is_a_link_and_secrets_are_the_users_own() {
    let env = world();
    let server = Server::web(&env, &[]);
    let stdout = server.running.stdout();
    let first = stdout.lines().next().expect("a line");
    let word = first.strip_prefix(&format!("http://127.0.0.1:{}/login?token=", server.port)).expect("a link");
    assert!(word.len() >= 43 && word.bytes().all(|b| b.is_ascii_alphanumeric()), "{word}");
    assert_ne!(word, server.token);
    let mode = |path: &str| fs::metadata(env.dacapo_home().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("web"), mode("web/token"), mode("web/links")), (0o700, 0o600, 0o700));
    // The word itself is kept nowhere.
    let kept: Vec<_> = fs::read_dir(env.dacapo_home().join("web/links")).unwrap().flatten().collect();
    assert!(kept.iter().all(|entry| !entry.file_name().to_string_lossy().contains(word)));
    // The token is that of the server before, and stays.
    server.running.signal(Signal::INT);
    server.running.wait(LONG).assert_code(0);
    fs::set_permissions(env.dacapo_home().join("web/token"), fs::Permissions::from_mode(0o644)).unwrap();
    let again = Server::web(&env, &[]);
    assert_eq!(mode("web/token"), 0o600);
    assert_eq!(again.get("/api/loops").status, 200);
}

#[test]
fn serve_prints_url_and_token_and_has_no_pages() {
    let env = world();
    let server = Server::start(&env, &["serve", "--port", "0", "--agent-cmd", "my agent", "--max-cost", "5"]);
    server.running.wait_for_line(|line| line.starts_with("token "), LONG);
    let stdout = server.running.stdout();
    assert_eq!(stdout, format!("url http://127.0.0.1:{}\ntoken {}\n", server.port, server.token));
    assert_eq!(server.get("/api/loops").status, 200);
    assert_eq!(server.get("/").status, 404, "the pages are those of `web`");
    assert_eq!(server.get("/login").status, 401);
}

#[test]
fn a_port_in_use_is_named_with_its_holder_and_another() {
    let env = world();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let output = env.run(["web", "--port", &port.to_string()]).assert_code(5);
    let holder = format!("dacapo: port {port} is in use by process {}, `", std::process::id());
    assert!(output.stderr.starts_with(&holder), "{}", output.stderr);
    assert!(output.stderr.contains("hint: `--port "), "{}", output.stderr);
    assert_eq!(output.stdout, "", "no link to a server that is not there");
    // A server of our own is named too.
    let server = Server::web(&env, &[]);
    let output = env.run(["serve", "--port", &server.port.to_string()]).assert_code(5);
    assert!(output.stderr.contains(&format!("process {}, `", server.running.pid())), "{}", output.stderr);
}

#[test]
fn what_others_reach_needs_tls_or_a_word() {
    let env = world();
    for command in ["web", "serve"] {
        let output = env.run([command, "--port", "0", "--listen", "0.0.0.0"]).assert_code(2);
        assert!(output.stderr.contains("could be read on its way"), "{}", output.stderr);
        assert!(output.stderr.contains("--tls-cert"), "{}", output.stderr);
    }
    let output = env.run(["web", "--port", "0", "--tls-cert", "a.pem", "--tls-key", "b.pem"]).assert_code(5);
    assert!(output.stderr.contains("cannot use the certificate `a.pem`"), "{}", output.stderr);
    env.run(["web", "--port", "0", "--tls-cert", "a.pem"]).assert_code(2);
    let running = env.spawn(["web", "--port", "0", "--listen", "0.0.0.0", "--insecure-listen"]);
    running.wait_for_line(|line| line.starts_with("http://0.0.0.0:"), LONG);
    running.signal(Signal::TERM);
    running.wait(LONG).assert_code(0);
}

#[test]
fn a_certificate_is_shown_to_those_who_know_it_and_plain_words_are_not_answered() {
    let env = world();
    let files = ["cert.pem", "key.pem"].map(|name| env.root().join(name).display().to_string());
    let [cert, key] = files.each_ref().map(String::as_str);
    let mut openssl = env.command("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]);
    openssl.args([
        "-subj",
        "/CN=dacapo",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-out",
        cert,
        "-keyout",
        key,
    ]);
    env.run_command(openssl).assert_code(0);
    let running = env.spawn(["web", "--port", "0", "--tls-cert", cert, "--tls-key", key]);
    let line = running.wait_for_line(|line| line.starts_with("https://127.0.0.1:"), LONG);
    let url = line.split("/login").next().unwrap().to_owned();
    let curl = |extra: &[&str]| {
        let mut curl = env.command("curl");
        curl.args(["--silent", "--show-error", "--max-time", "20", "--noproxy", "*"]).args(extra);
        env.run_command(curl)
    };
    // The whole chain is checked, and both versions of the protocol that are safe are spoken.
    for version in [&["--tlsv1.2", "--tls-max", "1.2"][..], &["--tlsv1.3"]] {
        let health = format!("{url}/healthz");
        let reply = curl(&[version, &["--cacert", cert, "--write-out", "%{http_code}", &health]].concat());
        assert_eq!(reply.clone().assert_code(0).stdout, "ok\n200", "{}", reply.stderr);
    }
    let reply = curl(&["--cacert", cert, "--dump-header", "-", &line]).assert_code(0);
    let cookie = reply.stdout.lines().find(|line| line.to_ascii_lowercase().starts_with("set-cookie:"));
    let cookie = cookie.unwrap_or_else(|| panic!("no cookie: {}", reply.stdout));
    for words in ["HttpOnly", "SameSite=Strict", "Secure"] {
        assert!(cookie.contains(words), "{cookie}");
    }
    // Without the certificate the server is a stranger; 60 is what curl says then.
    curl(&[&format!("{url}/healthz")]).assert_code(60);
    let plain = curl(&[&format!("{}/healthz", url.replace("https:", "http:"))]);
    assert_ne!(plain.code, Some(0), "{}", plain.stdout);
    // One who connects and says nothing sensible keeps no other client from its answer.
    let port = url.rsplit(':').next().unwrap();
    let mut mute = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    std::io::Write::write_all(&mut mute, b"\x16\x03\x01\xff\xffnonsense").unwrap();
    assert_eq!(curl(&["--cacert", cert, &format!("{url}/healthz")]).assert_code(0).stdout, "ok\n");
    running.signal(Signal::TERM);
    running.wait(LONG).assert_code(0);
}

#[test]
fn an_agent_cannot_open_a_server() {
    let env = world();
    env.run_agent("sh 'dacapo web --port 0 > out 2>&1; echo $? >> out'; promise", ["-n", "1"]);
    let said = env.read("out");
    assert!(said.contains("the agent of a loop cannot open a server"), "{said}");
}
