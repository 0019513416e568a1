//! A real Chromium without a window, driven through chromedriver by the WebDriver protocol: HTTP and JSON, nothing else.
//!
//! Every wait is for a condition and is bounded. Both processes end with the value.

use std::{
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Running;

/// How long a condition is waited for: a browser on a busy machine is slow to start and to draw.
pub const PATIENCE: Duration = Duration::from_secs(40);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(25);
/// The name of an element's id in WebDriver.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one session.
pub struct Browser {
    agent: ureq::Agent,
    session: String,
    /// Ends when it is dropped.
    _driver: Running,
    _profile: TempDir,
}

/// A size of the screen, and whether it is that of a phone.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    pub width: u32,
    pub height: u32,
    pub is_phone: bool,
    pub is_dark: bool,
}

impl Screen {
    pub const DESKTOP: Self = Self { width: 1280, height: 800, is_phone: false, is_dark: false };
    pub const PHONE: Self = Self { width: 390, height: 844, is_phone: true, is_dark: false };

    #[must_use]
    pub fn dark(self) -> Self {
        Self { is_dark: true, ..self }
    }
}

impl Browser {
    /// Starts chromedriver on a port of its own, and a browser.
    #[track_caller]
    pub fn start() -> Self {
        let mut command = Command::new("chromedriver");
        command.args(["--port=0", "--log-level=WARNING"]);
        let found = Command::new("chromedriver").arg("--version").output();
        assert!(found.is_ok(), "chromedriver is not installed: scripts/install installs it with chromium");
        let driver = Running::start(command);
        let line = driver.wait_for_line(|line| line.contains("started successfully on port"), PATIENCE);
        let port: u16 = line
            .rsplit(' ')
            .find_map(|word| word.trim_end_matches('.').parse().ok())
            .unwrap_or_else(|| panic!("chromedriver names no port: {line}"));
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(60)))
            .http_status_as_error(false)
            .proxy(None)
            .build();
        let agent = ureq::Agent::new_with_config(config);
        let profile = TempDir::new().expect("a folder for the profile");
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-extensions",
            "--no-proxy-server",
            "--hide-scrollbars",
            "--window-size=1280,800",
        ];
        let mut arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
            "pageLoadStrategy": "eager",
        }}});
        let base = format!("http://127.0.0.1:{port}/session");
        let answer =
            send(&agent, "POST", &base, Some(&wanted)).unwrap_or_else(|error| panic!("no browser: {error}"));
        let id = answer["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {answer}")).to_owned();
        Self { agent, session: format!("{base}/{id}"), _driver: driver, _profile: profile }
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        send(&self.agent, method, &format!("{}{path}", self.session), body)
    }

    #[track_caller]
    fn tell(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", path, Some(body)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// A command of Chromium's own protocol.
    #[track_caller]
    pub fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.tell("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    #[track_caller]
    pub fn open(&self, url: &str) {
        self.tell("/url", &json!({ "url": url }));
    }

    /// The address of the page that is shown.
    #[track_caller]
    pub fn address(&self) -> String {
        let answer = self.ask("GET", "/url", None).unwrap_or_else(|error| panic!("{error}"));
        answer.as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub fn title(&self) -> String {
        self.run("return document.title").as_str().unwrap_or_default().to_owned()
    }

    /// Runs the body of a function in the page.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        self.tell("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// As [`Self::run`], with an argument that the script has as `arguments[0]`.
    #[track_caller]
    pub fn run_with(&self, script: &str, argument: impl Into<Value>) -> Value {
        self.tell("/execute/sync", &json!({ "script": script, "args": [argument.into()] }))
    }

    /// How many elements `css` finds.
    #[track_caller]
    pub fn count(&self, css: &str) -> u64 {
        self.run_with("return document.querySelectorAll(arguments[0]).length", css).as_u64().unwrap_or(0)
    }

    /// What the first element that `css` finds says; empty if there is none.
    #[track_caller]
    pub fn text(&self, css: &str) -> String {
        let text = self.run_with("return document.querySelector(arguments[0])?.innerText ?? ''", css);
        text.as_str().unwrap_or_default().to_owned()
    }

    /// An attribute of the first element that `css` finds.
    #[track_caller]
    pub fn attribute(&self, css: &str, name: &str) -> Option<String> {
        let script = "return document.querySelector(arguments[0][0])?.getAttribute(arguments[0][1]) ?? null";
        self.run_with(script, json!([css, name])).as_str().map(str::to_owned)
    }

    /// Waits until `script` returns something true.
    #[track_caller]
    pub fn wait_for(&self, what: &str, script: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask("POST", "/execute/sync", Some(&json!({ "script": script, "args": [] })));
            match &answer {
                Ok(Value::Null | Value::Bool(false)) | Err(_) => {}
                Ok(Value::String(text)) if text.is_empty() => {}
                Ok(Value::Number(number)) if number.as_f64() == Some(0.0) => {}
                Ok(value) => return value.clone(),
            }
            assert!(
                Instant::now() < deadline,
                "{what} did not come: `{script}` is {answer:?} at {}\n{}",
                self.address(),
                self.run("return document.body ? document.body.innerText.slice(0, 3000) : ''")
                    .as_str()
                    .unwrap_or_default()
            );
            thread::sleep(LOOK);
        }
    }

    /// Waits until `css` finds an element.
    #[track_caller]
    pub fn wait_for_element(&self, css: &str) {
        self.wait_for(css, &format!("return document.querySelector({}) !== null", json!(css)));
    }

    /// Waits until the first element that `css` finds says `words`.
    #[track_caller]
    pub fn wait_for_text(&self, css: &str, words: &str) {
        let script = format!(
            "return (document.querySelector({})?.innerText ?? '').includes({})",
            json!(css),
            json!(words)
        );
        self.wait_for(&format!("`{words}` in {css}"), &script);
    }

    #[track_caller]
    fn element(&self, css: &str) -> String {
        let found = self.tell("/element", &json!({ "using": "css selector", "value": css }));
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("no {css}")).to_owned()
    }

    /// Clicks as a person does: the element must be seen and uncovered.
    #[track_caller]
    pub fn click(&self, css: &str) {
        let element = self.element(css);
        self.tell(&format!("/element/{element}/click"), &json!({}));
    }

    #[track_caller]
    pub fn type_into(&self, css: &str, text: &str) {
        let element = self.element(css);
        self.tell(&format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// Presses a key while nothing else has the focus.
    #[track_caller]
    pub fn press(&self, key: &str) {
        let actions = json!({ "actions": [{ "type": "key", "id": "keys", "actions": [
            { "type": "keyDown", "value": key }, { "type": "keyUp", "value": key },
        ]}]});
        self.tell("/actions", &actions);
    }

    /// Opens a tab and goes to it; gives its handle.
    #[track_caller]
    pub fn new_tab(&self) -> String {
        let opened = self.tell("/window/new", &json!({ "type": "tab" }));
        let handle = opened["handle"].as_str().unwrap_or_default().to_owned();
        self.switch_to(&handle);
        handle
    }

    #[track_caller]
    pub fn tab(&self) -> String {
        let handle = self.ask("GET", "/window", None).unwrap_or_else(|error| panic!("{error}"));
        handle.as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub fn switch_to(&self, handle: &str) {
        self.tell("/window", &json!({ "handle": handle }));
    }

    /// Closes the tab that is shown; another one must be switched to.
    #[track_caller]
    pub fn close_tab(&self) {
        self.ask("DELETE", "/window", None).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Shows pages as on this screen from now on.
    #[track_caller]
    pub fn set_screen(&self, screen: Screen) {
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            &json!({
                "width": screen.width, "height": screen.height,
                "deviceScaleFactor": if screen.is_phone { 2 } else { 1 }, "mobile": screen.is_phone,
            }),
        );
        let scheme = if screen.is_dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &features);
    }

    /// Whether pages may run scripts. What the test itself runs still runs.
    #[track_caller]
    pub fn allow_scripts(&self, is_allowed: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", &json!({ "value": !is_allowed }));
    }

    /// Lets a page notify, as a person does who is asked.
    #[track_caller]
    pub fn allow_notifications(&self, origin: &str) {
        self.devtools(
            "Browser.grantPermissions",
            &json!({ "origin": origin, "permissions": ["notifications"] }),
        );
    }

    /// What pages have complained of since the last call: errors of scripts, and what the policy of the page forbade.
    #[track_caller]
    pub fn complaints(&self) -> Vec<String> {
        let log = self.tell("/se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().cloned().unwrap_or_default();
        let severe = entries.iter().filter(|entry| entry["level"] == "SEVERE");
        severe.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// A picture of the whole page, as PNG in base64, is written to `path` as it is shown.
    #[track_caller]
    pub fn screenshot(&self, path: &Path, is_whole: bool) {
        let picture = self.devtools(
            "Page.captureScreenshot",
            &json!({ "format": "png", "captureBeyondViewport": is_whole }),
        );
        let data = picture["data"].as_str().expect("a picture");
        std::fs::write(path, decode(data)).expect("the picture can be written");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser with the session; ending the driver alone would leave the browser behind.
        let _ = self.ask("DELETE", "", None);
    }
}

fn send(agent: &ureq::Agent, method: &str, url: &str, body: Option<&Value>) -> Result<Value, String> {
    let answer = match (method, body) {
        ("GET", _) => agent.get(url).call(),
        ("DELETE", _) => agent.delete(url).call(),
        (_, body) => {
            let body = body.map(Value::to_string).unwrap_or_default();
            agent.post(url).header("Content-Type", "application/json").send(body.as_str())
        }
    };
    let mut answer = answer.map_err(|error| error.to_string())?;
    let text = answer
        .body_mut()
        .with_config()
        .limit(64 << 20)
        .read_to_string()
        .map_err(|error| error.to_string())?;
    let value: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    let value = value.get("value").cloned().unwrap_or(Value::Null);
    match answer.status().is_success() {
        true => Ok(value),
        false => Err(format!("{}: {}", value["error"], value["message"])),
    }
}

/// Base64, as pictures come.
fn decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0u32, 0);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    #[test]
    fn pictures_are_decoded() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm9v", "foo"), ("Zm9vYmE=", "fooba")] {
            assert_eq!(super::decode(text), bytes.as_bytes());
        }
    }
}
