//! A gate whose tool does not know what it is told to run: no work on the code makes such a gate pass.

/// The line in which a tool says at its end that it does not know its target, recipe, script or task.
///
/// `make` says the same of a file that a known target needs, which may be what the agent is to write.
pub fn unknown_target(output: &str) -> Option<&str> {
    const SAID: [&str; 8] = [
        "No rule to make target ",
        "npm error Missing script: ",
        "npm ERR! missing script: ",
        "npm ERR! Missing script: ",
        "ERR_PNPM_NO_SCRIPT",
        "error: no such command: `",
        "does not contain recipe `",
        "not found in root project",
    ];
    let last = output.lines().rev().filter(|line| !line.trim().is_empty()).take(12);
    let mut said = last.filter(|line| SAID.iter().any(|words| line.contains(words)));
    said.find(|line| !line.contains("needed by")).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::unknown_target;

    #[test]
    fn a_tool_that_does_not_know_its_target_is_told_from_red_tests() {
        for (output, expected) in [
            (
                "make: *** No rule to make target 'tst'.  Stop.\n",
                Some("make: *** No rule to make target 'tst'.  Stop."),
            ),
            ("make: *** No rule to make target 'a.c', needed by 'a.o'.  Stop.\n", None),
            (
                "npm error Missing script: \"tst\"\nnpm error\nnpm error To see a list of scripts, run:\n",
                Some("npm error Missing script: \"tst\""),
            ),
            (
                "error: no such command: `tst`\n\nhelp: a command with a similar name exists: `test`\n",
                Some("error: no such command: `tst`"),
            ),
            (
                "error: Justfile does not contain recipe `tst`.\n",
                Some("error: Justfile does not contain recipe `tst`."),
            ),
            (
                "FAILED tests/test_a.py::test_b - assert 41 == 42\nmake: *** [Makefile:2: test] Error 1\n",
                None,
            ),
            ("", None),
        ] {
            assert_eq!(unknown_target(output), expected, "{output}");
        }
    }
}
