//! The session preset: which policy a loop inside a session has.

use super::{Host, UNCHANGED};
use crate::{
    agent::{AgentCommand, Format, PromptDelivery, catalog},
    duration::Millis,
    item::Item,
    judge::promise::{Placement, PromiseRule},
    policy::{AgentSettings, ClaimRules, GateRules, Limits, OwnClaim, Pace, Policy, PromptForm, WaitRule},
    sandbox::SandboxRules,
};

/// What is set for loops inside sessions (req 107).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    pub enabled: bool,
    pub max_iterations: u32,
    pub completion_promise: String,
    /// How long a host that is given a prompt to inject waits before it does.
    pub continuation_delay: Millis,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            max_iterations: 100,
            completion_promise: "DONE".to_owned(),
            continuation_delay: Millis(500),
        }
    }
}

impl Policy {
    /// The session preset: the host is the agent, its words anywhere make the claim, and idles that change nothing end it.
    pub fn session(host: Host, promise: PromiseRule, max_iterations: u32, gates: GateRules) -> Self {
        let name = host.name();
        let provider = catalog::find(name).map_or_else(|| name.to_owned(), |agent| agent.provider.clone());
        let command = AgentCommand {
            name: name.to_owned(),
            argv: vec![name.to_owned()],
            prompt: PromptDelivery::Stdin,
            // What hooks keep of the session is the agent's own words.
            format: Format::Text,
            resume: Vec::new(),
            env: Default::default(),
            provider,
            model: None,
            acp: None,
        };
        Self {
            agent: AgentSettings {
                continue_session: true,
                prompt_form: PromptForm::Session,
                ..AgentSettings::of(command)
            },
            limits: Limits {
                max_iterations,
                idle_timeout: None,
                unchanged_idles: Some(UNCHANGED),
                ..Limits::default()
            },
            claims: ClaimRules {
                wait: WaitRule { exit_code: None, ..WaitRule::default() },
                ..ClaimRules::of(PromiseRule {
                    placement: Placement::Anywhere,
                    ignore_code: false,
                    ..promise
                })
            },
            gates,
            pace: Pace { restart_delay: Millis(0), ..Pace::default() },
            items: vec![Item::whole()],
            source: None,
            sandbox: SandboxRules::default(),
        }
    }

    /// The session preset for a loop that only judges: the end of each turn is a claim, and nothing the agent says is one.
    pub fn session_verify(host: Host, max_iterations: u32, gates: GateRules) -> Self {
        let promise = PromiseRule::new("DONE").unwrap_or_else(|_| unreachable!("it is not blank"));
        Self::session(host, promise, max_iterations, gates).with(|policy| {
            policy.claims.own_claim = OwnClaim::WithAgent;
            policy.claims.allow_empty = true;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_preset_is_a_set_of_values_for_the_settings_of_every_loop() {
        // req 200: one engine, and nothing but these values makes a loop one of a session
        let promise = PromiseRule::new("ALL_FIXED").unwrap();
        let session = Policy::session(Host::Codex, promise.clone(), 25, GateRules::default());
        let command = session.agent.command.clone();
        let restart = Policy::restart(command, promise).with(|policy| {
            policy.agent.continue_session = true;
            policy.agent.prompt_form = PromptForm::Session;
            policy.limits.max_iterations = 25;
            policy.limits.idle_timeout = None;
            policy.limits.unchanged_idles = Some(3);
            policy.claims.wait.exit_code = None;
            policy.claims.promise.placement = Placement::Anywhere;
            policy.claims.promise.ignore_code = false;
            policy.pace.restart_delay = Millis(0);
        });
        assert_eq!(session, restart);
        assert_eq!(session.problems(), []);
        let kept = serde_json::to_string(&session).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&kept).unwrap(), session, "recorded whole");
        assert_eq!((command_name(&session), session.agent.command.provider.as_str()), ("codex", "openai"));
    }

    fn command_name(policy: &Policy) -> &str {
        &policy.agent.command.name
    }
}
