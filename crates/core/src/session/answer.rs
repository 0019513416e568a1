//! What hosts are answered, each in its own form.

use serde_json::{Value, json};

use super::{Host, Toast};
use crate::duration::Millis;

/// What a hook has to say to its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookAnswer {
    /// The prompt that the agent goes on with; `None` lets it go.
    pub prompt: Option<String>,
    /// What the user is shown.
    pub toasts: Vec<Toast>,
    /// What went wrong inside dacapo, for the user.
    pub faults: Vec<String>,
    /// How long the host waits before it injects the prompt.
    pub delay: Millis,
}

impl HookAnswer {
    /// The lines that the user is shown.
    fn lines(&self) -> Option<String> {
        let faults = self.faults.iter().map(|fault| format!("dacapo: {fault}"));
        let lines: Vec<String> = self.toasts.iter().map(Toast::line).chain(faults).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// The answer to a hook that asks whether the agent may stop; `None` if nothing is to be said.
    pub fn of_stop(&self, host: Host) -> Option<Value> {
        let mut answer = match &self.prompt {
            Some(prompt) => {
                json!({"decision": if host == Host::Gemini { "deny" } else { "block" }, "reason": prompt})
            }
            None => json!({}),
        };
        self.with_lines(host, &mut answer);
        (answer != json!({})).then_some(answer)
    }

    /// The answer to a hook that hands over a prompt of the user: `prompt` is what the agent is to read with it. `is_taken` says
    /// that dacapo has done what the user asked for and the agent need not hear of it.
    pub fn of_prompt(&self, host: Host, is_taken: bool) -> Option<Value> {
        if is_taken {
            let reason = self.lines().unwrap_or_default();
            let decision = if host == Host::Gemini { "deny" } else { "block" };
            return Some(json!({"decision": decision, "reason": reason}));
        }
        let mut answer = json!({});
        if let Some(prompt) = self.prompt.as_ref().filter(|_| host == Host::Copilot) {
            answer["additionalContext"] = prompt.as_str().into();
        } else if let Some(prompt) = &self.prompt {
            let event = if host == Host::Gemini { "BeforeAgent" } else { "UserPromptSubmit" };
            answer["hookSpecificOutput"] = json!({"hookEventName": event, "additionalContext": prompt});
        }
        self.with_lines(host, &mut answer);
        (answer != json!({})).then_some(answer)
    }

    /// The answer to a plugin that injects prompts and shows toasts itself.
    pub fn of_event(&self) -> Value {
        json!({
            "prompt": self.prompt,
            "delay_ms": self.delay.0,
            "toasts": self.toasts,
            "faults": self.faults,
        })
    }

    fn with_lines(&self, host: Host, answer: &mut Value) {
        // Copilot knows no such field.
        if let Some(lines) = self.lines().filter(|_| host != Host::Copilot) {
            answer["systemMessage"] = lines.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_is_answered_in_its_own_form() {
        let toast = Toast::cancelled(3);
        let line = "Ralph Loop Cancelled: Stopped at iteration 3";
        let sent = HookAnswer { prompt: Some("go on".into()), toasts: vec![toast], ..HookAnswer::default() };
        let block = json!({"decision": "block", "reason": "go on", "systemMessage": line});
        for host in [Host::Claude, Host::Codex, Host::Qwen] {
            assert_eq!(sent.of_stop(host), Some(block.clone()), "{host}");
        }
        let deny = json!({"decision": "deny", "reason": "go on", "systemMessage": line});
        assert_eq!(sent.of_stop(Host::Gemini), Some(deny));
        assert_eq!(sent.of_stop(Host::Copilot), Some(json!({"decision": "block", "reason": "go on"})));
        for host in Host::ALL {
            assert_eq!(HookAnswer::default().of_stop(host), None, "{host}: nothing lets it go");
            assert_eq!(HookAnswer::default().of_prompt(host, false), None, "{host}");
        }
        assert_eq!(sent.of_prompt(Host::Copilot, false), Some(json!({"additionalContext": "go on"})));
        let fault = HookAnswer { faults: vec!["the disk is full".into()], ..HookAnswer::default() };
        let told = json!({"systemMessage": "dacapo: the disk is full"});
        assert_eq!(fault.of_stop(Host::Claude), Some(told));
        let event = json!({"prompt": "go on", "delay_ms": 0, "faults": [], "toasts": [{"title": "Ralph Loop Cancelled",
            "message": "Stopped at iteration 3", "variant": "info", "duration": 2000}]});
        assert_eq!(sent.of_event(), event);
    }
}
