//! The programs whose sessions can hold a loop.

use std::{fmt, str::FromStr};

use crate::{agent::Format, text::nearest::nearest};

/// A program with chat sessions that runs hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    Claude,
    Codex,
    Gemini,
    Qwen,
    Copilot,
    Opencode,
}

impl Host {
    pub const ALL: [Self; 6] =
        [Self::Claude, Self::Codex, Self::Gemini, Self::Qwen, Self::Copilot, Self::Opencode];

    /// The name of the agent, as `--agent` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
            Self::Copilot => "copilot",
            Self::Opencode => "opencode",
        }
    }

    /// The format of what the agent prints when dacapo starts it itself.
    pub fn format(self) -> Format {
        match self {
            Self::Claude => Format::Claude,
            Self::Codex => Format::Codex,
            Self::Gemini => Format::Gemini,
            Self::Qwen => Format::Qwen,
            Self::Copilot => Format::Copilot,
            Self::Opencode => Format::Opencode,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not the name of a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` has no hooks that dacapo knows; {meant}")]
pub struct UnknownHost {
    name: String,
    meant: String,
}

impl FromStr for Host {
    type Err = UnknownHost;

    fn from_str(name: &str) -> Result<Self, UnknownHost> {
        Self::ALL.into_iter().find(|host| host.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            let meant = match nearest(name, &names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("choose one of {}", names.join(", ")),
            };
            UnknownHost { name: name.to_owned(), meant }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_found_by_its_name_and_a_wrong_name_leads_to_the_right_one() {
        for host in Host::ALL {
            assert_eq!(host.name().parse(), Ok(host));
        }
        for (name, meant) in [("cluade", "did you mean `claude`?"), ("vim", "choose one of claude, codex, ")]
        {
            let error = name.parse::<Host>().unwrap_err().to_string();
            assert!(error.contains(meant), "{error}");
        }
    }
}
