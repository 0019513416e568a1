//! Honest work under the guard: what agents and their tools do all day.

use std::fs;

use crate::{
    failed_work,
    world::{Attacker, GuardWorld},
};

/// Asks a language server where a function is defined, over its standard input and output, as an editor does.
const LANGUAGE_SERVER: &str = include_str!("language_server.py");

/// What agents do all day.
const WORK: [(&str, &str); 21] = [
    (
        "git",
        "git init -q repo && cd repo && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x",
    ),
    (
        "credentials",
        "cd repo && git config credential.helper \"store --file=$WS/creds\" && printf 'protocol=https\\nhost=h\\nusername=u\\npassword=p\\n\\n' | git credential approve && grep -q u:p $WS/creds",
    ),
    ("venv", "python3 -m venv v && v/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix'"),
    ("pip", "v/bin/pip --version"),
    ("node", "node -e 'require(\"fs\").writeFileSync(\"n.txt\", \"x\")'"),
    (
        "npm",
        "mkdir -p dep app && echo '{\"name\":\"dep\",\"version\":\"1.0.0\"}' >dep/package.json && cd app && echo '{\"name\":\"app\",\"version\":\"1.0.0\"}' >package.json && npm install --offline --no-audit --no-fund ../dep",
    ),
    (
        "server",
        "python3 -m http.server 0 --bind 127.0.0.1 >server.out 2>&1 & p=$!; for i in $(seq 100); do ls -l /proc/$p/fd | grep -q socket && break; sleep 0.1; done; ls -l /proc/$p/fd | grep -q socket; r=$?; kill $p; exit $r",
    ),
    (
        "browser",
        "chromium --headless --no-sandbox --disable-gpu --user-data-dir=$WS/browser --dump-dom 'data:text/html,<p>seen</p>' 2>/dev/null | grep -q seen",
    ),
    // A helper that the user has set up, for a repository that asks for a password.
    (
        "credential helper",
        "mkdir -p cred && cd cred && git init -q . && git config credential.helper '!f() { echo username=u; echo password=p; }; f' && printf 'protocol=https\\nhost=h\\n\\n' | git credential fill | grep -q password=p",
    ),
    (
        "cargo",
        "! command -v cargo >/dev/null || { mkdir -p crate/src && cd crate && printf '[package]\\nname=\"c\"\\nversion=\"0.1.0\"\\nedition=\"2021\"\\n' >Cargo.toml && echo '#[test] fn t() {}' >src/lib.rs && RUSTUP_HOME=$TOOLCHAINS CARGO_HOME=$WS/.cargo-home cargo test -q --offline; }",
    ),
    (
        "go",
        "! command -v go >/dev/null || { mkdir -p gomod && cd gomod && printf 'module m\\n\\ngo 1.18\\n' >go.mod && printf 'package m\\n\\nimport \"testing\"\\n\\nfunc TestA(t *testing.T) {}\\n' >a_test.go && GOFLAGS=-mod=mod GOCACHE=$WS/.go-cache GOPATH=$WS/.go go test ./...; }",
    ),
    (
        "pytest",
        "mkdir -p py && cd py && echo 'def test_a(): assert True' >test_a.py && /usr/bin/python3 -m pytest -q -p no:cacheprovider",
    ),
    (
        "pip install",
        "v/bin/python -c 'import zipfile; z = zipfile.ZipFile(\"p-1-py3-none-any.whl\", \"w\"); d = \"p-1.dist-info/\"; z.writestr(\"p.py\", \"x = 1\"); z.writestr(d + \"METADATA\", \"Metadata-Version: 2.1\\nName: p\\nVersion: 1\\n\"); z.writestr(d + \"WHEEL\", \"Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n\"); z.writestr(d + \"RECORD\", \"\"); z.close()' && v/bin/pip install --no-index ./p-1-py3-none-any.whl && v/bin/python -c 'import p'",
    ),
    ("terminal", "script -qec 'test -t 0 && tty' /dev/null </dev/null | grep -q /dev/pts/"),
    (
        "dev server",
        "echo '<p>served</p>' >index.html; node -e 'require(\"http\").createServer((q, a) => a.end(require(\"fs\").readFileSync(\"index.html\"))).listen(0, \"127.0.0.1\", function () { require(\"fs\").writeFileSync(\"port\", String(this.address().port)) })' & p=$!; until test -s port; do sleep 0.05; done; curl -s http://127.0.0.1:$(cat port)/ | grep -q served; r=$?; kill $p; exit $r",
    ),
    ("language server", "/usr/bin/python3 $W/attacks/language_server.py"),
    ("tmp", "f=$(mktemp) && echo x >$f && rm $f"),
    ("background", "sleep 0.1 & wait $!"),
    ("ps", "ps -e >/dev/null"),
    ("tty-less shell", "bash -c 'set -m; sleep 0.01 & wait'"),
    ("dacapo", "dacapo status >/dev/null && dacapo bus post --type INFO hello"),
];

#[test]
fn honest_work_is_not_hindered() {
    for attacker in [Attacker::Root, Attacker::User] {
        for mode in ["guard", "workspace"] {
            let world = GuardWorld::new(attacker);
            world.install_language_server();
            fs::write(world.root().join("attacks/language_server.py"), LANGUAGE_SERVER).expect("a script");
            let failed = failed_work(&world, &WORK, &["--sandbox", mode]);
            assert_eq!(failed, Vec::<String>::new(), "{mode}, {attacker:?}");
        }
    }
}
