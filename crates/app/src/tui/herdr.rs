//! Tells herdr, a terminal for agents, how things stand, if the board runs in a pane of it: a line of JSON on its socket.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use dacapo_core::view::{BoardTotals, headline};
use serde_json::{Value, json};

/// How long herdr may take: the board does not wait for it longer.
const PATIENCE: Duration = Duration::from_millis(300);
const SOURCE: &str = "herdr:dacapo";

/// The pane of herdr that the board runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pane {
    socket: PathBuf,
    pane: String,
    /// What was last told.
    told: Option<(&'static str, String)>,
}

impl Pane {
    /// The pane that the environment names, if there is one.
    pub(crate) fn find(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        set("HERDR_ENV").filter(|value| value == "1")?;
        Some(Self { socket: set("HERDR_SOCKET_PATH")?.into(), pane: set("HERDR_PANE_ID")?, told: None })
    }

    /// Tells how things stand, if that has changed. What goes wrong there changes nothing here.
    pub(crate) fn tell(&mut self, totals: &BoardTotals) {
        let now = (state(totals), headline(totals));
        if self.told.as_ref() == Some(&now) {
            return;
        }
        let number = number();
        let request = report(&self.pane, &now, number);
        self.told = Some(now);
        send(self.socket.clone(), request);
    }

    /// Says that the pane is no longer the board's.
    pub(crate) fn release(&self) {
        let number = number();
        let request = json!({
            "id": format!("{SOURCE}:{number}"),
            "method": "pane.release_agent",
            "params": {"pane_id": self.pane, "source": SOURCE, "agent": "dacapo", "seq": number},
        });
        speak(&self.socket, &request);
    }
}

/// herdr's word for how things stand.
fn state(totals: &BoardTotals) -> &'static str {
    match totals {
        BoardTotals { needs: 1.., .. } => "blocked",
        BoardTotals { running: 1.., .. } => "working",
        _ => "idle",
    }
}

fn report(pane: &str, (state, message): &(&'static str, String), number: u64) -> Value {
    json!({
        "id": format!("{SOURCE}:{number}"),
        "method": "pane.report_agent",
        "params": {
            "pane_id": pane,
            "source": SOURCE,
            "agent": "dacapo",
            "state": state,
            "message": message,
            "seq": number,
        },
    })
}

/// A later report has a larger number.
fn number() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(0)
}

fn send(socket: PathBuf, request: Value) {
    std::thread::spawn(move || speak(&socket, &request));
}

fn speak(socket: &std::path::Path, request: &Value) {
    let _ = (|| -> std::io::Result<()> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{request}\n").as_bytes())?;
        // It closes the connection itself once it has answered.
        let _ = stream.read(&mut [0; 1024])?;
        Ok(())
    })();
}

#[cfg(test)]
mod tests {
    use std::{io::BufRead, os::unix::net::UnixListener};

    use super::*;

    #[test]
    fn a_change_is_told_once_in_the_words_of_herdr() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("herdr.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let heard = || -> Value {
            let (stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            std::io::BufReader::new(stream).read_line(&mut line).unwrap();
            serde_json::from_str(&line).unwrap()
        };
        let variable = |name: &str| match name {
            "HERDR_ENV" => Some("1".to_owned()),
            "HERDR_SOCKET_PATH" => Some(socket.display().to_string()),
            "HERDR_PANE_ID" => Some("w1:p2".to_owned()),
            _ => None,
        };
        assert_eq!(Pane::find(|name| variable(name).filter(|_| name != "HERDR_PANE_ID")), None);
        assert_eq!(Pane::find(|_| None), None);
        let mut pane = Pane::find(variable).unwrap();
        let working = BoardTotals { running: 2, ..BoardTotals::default() };
        pane.tell(&working);
        let first = heard();
        assert_eq!(first["method"], "pane.report_agent");
        assert_eq!(first["params"]["state"], "working");
        assert_eq!(first["params"]["pane_id"], "w1:p2");
        assert_eq!(first["params"]["message"], "dacapo 2 running");
        // The same is not told again: the next to arrive is the change.
        pane.tell(&working);
        pane.tell(&BoardTotals { needs: 1, ..working });
        let second = heard();
        assert_eq!(second["params"]["state"], "blocked");
        assert!(second["params"]["seq"].as_u64() > first["params"]["seq"].as_u64());
        pane.tell(&BoardTotals::default());
        assert_eq!(heard()["params"]["state"], "idle");
    }
}
