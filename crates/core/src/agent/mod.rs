//! Agents as data: what is started, how the prompt reaches it, what it finds in its environment, what its output says
//! and what its end means.

pub mod acp;
mod builtin;
pub mod catalog;
mod command;
mod environment;
pub mod outcome;
mod sign_in;
pub mod transcript;

pub use builtin::own_folders;
pub use command::{AgentCommand, AgentCommandError, Format, PROMPT_ARGUMENT_LIMIT, PromptDelivery};
pub use environment::{
    EnvironmentRule, EnvironmentVariable, agent_environment, gate_environment, is_basic,
    is_nested_agent_marker, is_provider_key, is_reference,
};
pub use sign_in::{SettingsPlace, SignIn, SignInQuestion, account_of};
