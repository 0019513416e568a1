//! Any program as an agent: a command line split like a shell would, without a shell.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    acp::{AcpSettings, AcpUsage},
    catalog,
};

/// A prompt longer than this never goes on a command line: the kernel takes no argument of 128 KiB.
pub const PROMPT_ARGUMENT_LIMIT: usize = 124 * 1024;

/// How long a user's own words may be that go on a command line: what is said beside them, such as the output of gates, needs
/// room too.
const OWN_WORDS_ARGUMENT_LIMIT: usize = 100 * 1024;

/// The command that is started in each iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCommand {
    pub name: String,
    /// The program and its arguments, placeholders included.
    pub argv: Vec<String>,
    /// How the prompt reaches it.
    pub prompt: PromptDelivery,
    #[serde(default)]
    pub format: Format,
    /// What stands in for the argument `{resume}` when a session is continued, `{session}` being its id; empty where
    /// sessions cannot be.
    #[serde(default)]
    pub resume: Vec<String>,
    /// Variables it is given beside what it inherits.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Whose models it asks: loops with the same provider meet the same limits.
    #[serde(default)]
    pub provider: String,
    /// The model it was told to use.
    #[serde(default)]
    pub model: Option<String>,
    /// How it is spoken to if it stays for the whole loop; otherwise it is started for each prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acp: Option<AcpSettings>,
}

/// What an agent prints on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Words: all of it is the agent's own.
    #[default]
    Text,
    /// Lines of JSON, as Claude Code has them.
    Claude,
    Codex,
    /// As Gemini CLI has them.
    Gemini,
    Opencode,
    /// As Qwen Code has them.
    Qwen,
    /// As Copilot CLI has them.
    Copilot,
    Pi,
    /// Messages of the Agent Client Protocol.
    Acp(AcpUsage),
}

/// Where the arguments stand that continue a session.
const RESUME: &str = "{resume}";

/// How a prompt reaches an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptDelivery {
    /// On standard input, then end of file.
    Stdin,
    /// As a file whose path stands where `{prompt_file}` does.
    File,
    /// As text where `{prompt}` stands, up to [`PROMPT_ARGUMENT_LIMIT`].
    Argument,
}

/// A command line that names no agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentCommandError {
    #[error("the agent command is blank")]
    Blank,
    /// A quote that is never closed, or a backslash at the end.
    #[error("the agent command has an unclosed quote or a trailing backslash: {0}")]
    Unbalanced(String),
    #[error("the agent command has both {{prompt}} and {{prompt_file}}; one of them is enough")]
    TwoPlaceholders,
    /// The prompt does not fit on a command line. What helps is part of the words, so that it is told wherever they are.
    #[error(
        "the prompt has {bytes} bytes, and `{{prompt}}` in the command line of `{agent}` takes at most {limit}; {}",
        other_way(agent)
    )]
    PromptTooLong { agent: String, bytes: usize, limit: usize },
}

/// How a long prompt reaches this agent all the same.
fn other_way(agent: &str) -> String {
    let by_file =
        "`{prompt_file}` in its place hands over a file, and with neither it goes by standard input";
    if catalog::find(agent).is_some() {
        format!("`agents.{agent}.prompt: stdin` sends it by standard input (in an `--agent-cmd`, {by_file})")
    } else {
        format!("{by_file} (`--agent-cmd` or `agents.{agent}.command`)")
    }
}

impl AgentCommand {
    /// Whether what a user asks for can reach it, with room for what is said beside it.
    pub fn takes(&self, own_words: &str) -> Result<(), AgentCommandError> {
        self.fits(own_words.len(), OWN_WORDS_ARGUMENT_LIMIT)
    }

    fn fits(&self, bytes: usize, limit: usize) -> Result<(), AgentCommandError> {
        if self.prompt == PromptDelivery::Argument && bytes > limit {
            return Err(AgentCommandError::PromptTooLong { agent: self.name.clone(), bytes, limit });
        }
        Ok(())
    }

    /// The agent that `line` names, with `extra` arguments behind its own.
    pub fn parse(line: &str, extra: &[String]) -> Result<Self, AgentCommandError> {
        if line.trim().is_empty() {
            return Err(AgentCommandError::Blank);
        }
        let mut argv = shlex::split(line).ok_or_else(|| AgentCommandError::Unbalanced(line.to_owned()))?;
        argv.extend(extra.iter().cloned());
        let program = argv.first().filter(|p| !p.trim().is_empty()).ok_or(AgentCommandError::Blank)?;
        let name = program.rsplit('/').next().unwrap_or(program).to_owned();
        let has = |placeholder| argv.iter().skip(1).any(|arg| arg.contains(placeholder));
        if has("{prompt_file}") && has("{prompt}") {
            return Err(AgentCommandError::TwoPlaceholders);
        }
        let prompt = if has("{prompt_file}") {
            PromptDelivery::File
        } else if has("{prompt}") {
            PromptDelivery::Argument
        } else {
            PromptDelivery::Stdin
        };
        Ok(Self {
            provider: name.clone(),
            name,
            argv,
            prompt,
            format: Format::Text,
            resume: Vec::new(),
            env: BTreeMap::new(),
            model: None,
            acp: None,
        })
    }

    /// The same program, spoken to over the Agent Client Protocol. It gets what it asks for, as an agent of this kind runs
    /// without questions.
    #[must_use]
    pub fn over_acp(self, tools: bool) -> Self {
        Self {
            format: Format::Acp(AcpUsage::Turn),
            prompt: PromptDelivery::Stdin,
            acp: Some(AcpSettings { allows: true, tools, ..AcpSettings::default() }),
            ..self
        }
    }

    /// Whether it can go on with a session it had.
    pub fn can_continue(&self) -> bool {
        !self.resume.is_empty() || self.acp.is_some()
    }

    /// The exact arguments of one attempt; `file` is where the prompt lies, `session` what it goes on with.
    ///
    /// Placeholders are filled in once, literally: a prompt that holds `{prompt_file}` stays as it is.
    pub fn argv(
        &self,
        prompt: &str,
        file: &str,
        session: Option<&str>,
    ) -> Result<Vec<String>, AgentCommandError> {
        self.fits(prompt.len(), PROMPT_ARGUMENT_LIMIT)?;
        let mut argv = Vec::with_capacity(self.argv.len() + self.resume.len());
        for arg in &self.argv {
            if arg != RESUME {
                argv.push(arg.clone());
            } else if let Some(session) = session {
                argv.extend(self.resume.iter().map(|arg| arg.replace("{session}", session)));
            }
        }
        let (placeholder, value) = match self.prompt {
            PromptDelivery::Stdin => return Ok(argv),
            PromptDelivery::File => ("{prompt_file}", file),
            PromptDelivery::Argument => ("{prompt}", prompt),
        };
        for arg in argv.iter_mut().skip(1) {
            *arg = arg.replace(placeholder, value);
        }
        Ok(argv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_split_like_a_shell_would() {
        for (line, extra, argv, prompt) in [
            ("my-agent", vec![], vec!["my-agent"], PromptDelivery::Stdin),
            ("/opt/a b", vec!["-x"], vec!["/opt/a", "b", "-x"], PromptDelivery::Stdin),
            (
                "'/opt/a b' --say \"it's $HOME; ok\"",
                vec![],
                vec!["/opt/a b", "--say", "it's $HOME; ok"],
                PromptDelivery::Stdin,
            ),
            ("a -f {prompt_file}", vec![], vec!["a", "-f", "{prompt_file}"], PromptDelivery::File),
            ("a -p={prompt}", vec![], vec!["a", "-p={prompt}"], PromptDelivery::Argument),
        ] {
            let extra: Vec<String> = extra.into_iter().map(str::to_owned).collect();
            let command = AgentCommand::parse(line, &extra).unwrap();
            assert_eq!(
                (command.argv, command.prompt),
                (argv.into_iter().map(str::to_owned).collect(), prompt),
                "{line}"
            );
        }
        assert_eq!(AgentCommand::parse("  ", &[]), Err(AgentCommandError::Blank));
        assert_eq!(AgentCommand::parse("''", &[]), Err(AgentCommandError::Blank));
        assert!(matches!(AgentCommand::parse("a 'b", &[]), Err(AgentCommandError::Unbalanced(_))));
        assert_eq!(
            AgentCommand::parse("a {prompt} {prompt_file}", &[]),
            Err(AgentCommandError::TwoPlaceholders)
        );
    }

    #[test]
    fn a_prompt_takes_its_place_literally_and_never_too_long() {
        // fault I1: no prompt near the kernel's limit for one argument.
        let command = AgentCommand::parse("a {prompt}", &[]).unwrap();
        assert_eq!(command.argv("say {prompt}", "/f", None).unwrap(), ["a", "say {prompt}"]);
        let fits = "x".repeat(PROMPT_ARGUMENT_LIMIT);
        assert!(command.argv(&fits, "/f", None).is_ok());
        let (bytes, limit) = (PROMPT_ARGUMENT_LIMIT + 1, PROMPT_ARGUMENT_LIMIT);
        let too_long = |limit| AgentCommandError::PromptTooLong { agent: "a".into(), bytes, limit };
        assert_eq!(command.argv(&format!("{fits}x"), "/f", None), Err(too_long(limit)));
        let command = AgentCommand::parse("a {prompt_file}", &[]).unwrap();
        assert_eq!(command.argv("p", "/f/{prompt}", None).unwrap(), ["a", "/f/{prompt}"]);
    }

    #[test]
    fn words_that_are_too_long_for_an_argument_are_refused_with_a_way_that_works() {
        for (line, bytes, is_taken) in [
            ("a {prompt}", OWN_WORDS_ARGUMENT_LIMIT, true),
            ("a {prompt}", OWN_WORDS_ARGUMENT_LIMIT + 1, false),
            ("a {prompt_file}", 3_000_000, true),
            ("a", 3_000_000, true),
        ] {
            let taken = AgentCommand::parse(line, &[]).unwrap().takes(&"x".repeat(bytes));
            assert_eq!(taken.is_ok(), is_taken, "{line} {bytes}");
        }
        for (agent, way) in
            [("a", "; `{prompt_file}` in its place"), ("claude", "; `agents.claude.prompt: stdin`")]
        {
            let command = AgentCommand::parse(&format!("{agent} {{prompt}}"), &[]).unwrap();
            let told = command.takes(&"x".repeat(3_000_000)).unwrap_err().to_string();
            assert!(told.contains("3000000 bytes") && told.contains(way), "{told}");
        }
    }
}
