//! `workflows`: where else command files lie.

use super::{At, Both, ConfigSection, Sourced, paths};

pub(super) const KEYS: [&str; 1] = ["commands"];

/// What a file says about workflows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workflows {
    /// A folder of command files, from the top of the repository.
    pub commands: Option<At<String>>,
}

pub(super) fn read(top: &mut ConfigSection<'_>) -> Workflows {
    let Some(mut section) = top.section("workflows", &KEYS) else { return Workflows::default() };
    let place = section.place("commands");
    let commands = section.text("commands");
    let is_good = match (&commands, place) {
        (Some(commands), Some(place)) => paths::is_inside(&mut section, place, &commands.value),
        _ => true,
    };
    Workflows { commands: commands.filter(|_| is_good) }
}

pub(super) fn resolve(both: &Both<'_>) -> Sourced<Option<String>> {
    both.pick(
        |config| {
            let commands = config.workflows.commands.clone();
            commands.map(|at| At { value: Some(at.value), line: at.line })
        },
        |user, _| user.clone(),
    )
}

#[cfg(test)]
mod tests {
    use crate::config::{Author, Config, Typed, parse, resolve};

    #[test]
    fn a_folder_of_commands_lies_inside_the_repository() {
        // req 144
        let read = |text: &str| parse("c", text.as_bytes(), Author::Repository);
        let config = read("workflows: {commands: prompts}\n").unwrap();
        let effective = resolve(&Config::default(), &config, &Typed::default());
        assert_eq!(effective.commands.value.as_deref(), Some("prompts"));
        let none = resolve(&Config::default(), &Config::default(), &Typed::default());
        assert_eq!(none.commands.value, None);
        for path in ["../x", "/x"] {
            let problems = read(&format!("workflows: {{commands: {path}}}\n")).unwrap_err();
            assert_eq!(problems.list[0].what, "a path must be relative and stay inside the repository");
        }
    }
}
