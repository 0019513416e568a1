//! What a script of a workflow gets to know, by its environment alone: no text of a person or an agent becomes source code.
//!
//! `$USER_MESSAGE` and its like are variables of the shell already, under the same names. `$step.output` is none, so the
//! script's *name* of it is translated to the name of a variable, quoted as its place asks for. Its value is not looked at.

use std::collections::BTreeMap;

use super::{
    StepId,
    template::{self, NAMED, Name, Variable, VariablePlace, Variables},
};

/// The largest value that fits into an environment with room to spare: the system takes 128 KiB.
pub const MAX_VALUE: usize = 120 * 1024;

/// A script for `sh -c`, and the variables that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellScript {
    pub text: String,
    pub needs: Vec<Variable>,
    /// Variables that stand where they must not, with their byte offsets into the script as written.
    pub misplaced: Vec<(usize, Misplaced)>,
}

/// Why a variable must not stand where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misplaced {
    /// In single quotes, in which no shell fills in anything.
    SingleQuotes,
    /// In a here-document whose end is quoted, in which no shell fills in anything.
    QuotedHereDocument,
    /// In a text that another shell reads as code, and with it the words of a person or an agent.
    Code,
}

/// A value that is too long for an environment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` has {length} bytes, which is more than a script can be given")]
pub struct TooLong {
    pub name: String,
    pub length: usize,
}

/// The name of the environment variable that holds a variable's value.
pub fn name(variable: &Variable) -> String {
    if let Some((name, _)) = NAMED.iter().find(|(_, known)| known == variable) {
        return (*name).to_owned();
    }
    match variable {
        Variable::Output { step, field } => {
            let field = field.as_ref().map(|field| format!("__{field}")).unwrap_or_default();
            format!("DACAPO_OUTPUT_{}{field}", key(step))
        }
        _ => String::new(),
    }
}

/// A step's name as a part of the name of an environment variable; two steps with the same one are refused.
pub(super) fn key(step: &StepId) -> String {
    step.as_str().replace('-', "_")
}

/// Translates a script. Only steps that `is_step` knows are meant by `$step.output`.
pub fn translate(script: &str, is_step: impl Fn(&StepId) -> bool) -> ShellScript {
    let mut translated =
        ShellScript { text: String::with_capacity(script.len()), needs: Vec::new(), misplaced: Vec::new() };
    let mut quotes = Quotes::default();
    let mut end = 0;
    for VariablePlace { range, name: found } in template::find(script) {
        let Name::Variable(variable) = found else { continue };
        let is_output = match &variable {
            Variable::Output { step, .. } if !is_step(step) => continue,
            Variable::Output { .. } => true,
            _ => false,
        };
        let written = &script[range.clone()];
        quotes.read(script, end, range.start);
        translated.text.push_str(&script[end..range.start]);
        end = range.end;
        let place = quotes.place();
        let misplaced = match place {
            // The shell inside reads its own environment there, as it does for all variables that it knows by name.
            Quoting::SingleQuotes => is_output.then_some(Misplaced::SingleQuotes),
            Quoting::QuotedHereDocument => is_output.then_some(Misplaced::QuotedHereDocument),
            Quoting::Plain | Quoting::DoubleQuotes => quotes.is_code().then_some(Misplaced::Code),
            Quoting::HereDocument | Quoting::Comment => None,
        };
        translated.misplaced.extend(misplaced.map(|why| (range.start, why)));
        let name = name(&variable);
        let reference = match place {
            _ if !is_output => written.to_owned(),
            Quoting::Plain => format!("\"${{{name}}}\""),
            Quoting::DoubleQuotes | Quoting::HereDocument => format!("${{{name}}}"),
            // It would be a word of the shell's with a meaning of its own.
            Quoting::Comment => name,
            // Never the value: what stands in quotes is most often the code of another program.
            Quoting::SingleQuotes | Quoting::QuotedHereDocument => written.to_owned(),
        };
        translated.text.push_str(&reference);
        if matches!(place, Quoting::Plain | Quoting::DoubleQuotes) {
            quotes.word.push_str(written);
        }
        if !translated.needs.contains(&variable) {
            translated.needs.push(variable);
        }
    }
    translated.text.push_str(&script[end..]);
    // `${USER_MESSAGE}` is how careful people write it.
    for (name, variable) in NAMED {
        if script.contains(&format!("${{{name}")) && !translated.needs.contains(&variable) {
            translated.needs.push(variable);
        }
    }
    translated
}

impl ShellScript {
    /// What the script finds in its environment beyond what dacapo's commands find anyway: what the user said and the id of
    /// the run always, the rest only if it is read.
    pub fn environment(&self, variables: &Variables) -> Result<BTreeMap<String, String>, TooLong> {
        let always = [Variable::UserMessage, Variable::Arguments, Variable::WorkflowId];
        let mut environment = BTreeMap::new();
        for variable in self.needs.iter().chain(&always) {
            let (name, mut value) = (name(variable), variables.value(variable));
            // An environment cannot hold one.
            value.retain(|c| c != '\0');
            if value.len() > MAX_VALUE {
                return Err(TooLong { name, length: value.len() });
            }
            environment.insert(name, value);
        }
        Ok(environment)
    }
}

/// Where a position in a script stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoting {
    Plain,
    SingleQuotes,
    DoubleQuotes,
    Comment,
    HereDocument,
    QuotedHereDocument,
}

/// Follows the quotes of a script: as much of the shell's grammar as it takes to know how a reference is quoted.
#[derive(Default)]
struct Quotes {
    single: bool,
    double: bool,
    comment: bool,
    /// Here-documents that begin with the next line: their ends, whether those are quoted, whether tabs before them count.
    ahead: Vec<(String, bool, bool)>,
    inside: Vec<(String, bool, bool)>,
    /// The line of a here-document so far.
    line: String,
    /// For each `$(` that is open, whether it stands in double quotes.
    substitutions: Vec<bool>,
    /// The words of the command so far, without their quotes, and the one that is not at its end yet.
    words: Vec<String>,
    word: String,
}

/// Programs that read the word behind `-c` as code.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];

impl Quotes {
    fn place(&self) -> Quoting {
        match self.inside.first() {
            Some((_, true, _)) => Quoting::QuotedHereDocument,
            Some((_, false, _)) => Quoting::HereDocument,
            None if self.comment => Quoting::Comment,
            None if self.single => Quoting::SingleQuotes,
            None if self.double => Quoting::DoubleQuotes,
            None => Quoting::Plain,
        }
    }

    /// Whether the word that is being read is code of another shell: `eval WORD…` and `sh -c WORD`.
    fn is_code(&self) -> bool {
        let is_shell = |word: &String| SHELLS.contains(&word.rsplit('/').next().unwrap_or_default());
        let Some(begin) = self.words.iter().position(|word| word == "eval" || is_shell(word)) else {
            return false;
        };
        let is_option = |word: &String| word.starts_with('-') && !word.starts_with("--");
        match self.words[begin..].split_last() {
            _ if self.words[begin] == "eval" => true,
            Some((last, before)) => {
                is_option(last)
                    && last.contains('c')
                    && !before.iter().skip(1).any(|word| !word.starts_with('-'))
            }
            None => false,
        }
    }

    /// A word has ended, and with `is_command` the whole command.
    fn end_word(&mut self, is_command: bool) {
        if !self.word.is_empty() {
            self.words.push(std::mem::take(&mut self.word));
        }
        if is_command {
            self.words.clear();
        }
    }

    /// Reads on from one position to another.
    fn read(&mut self, script: &str, from: usize, to: usize) {
        let bytes = script.as_bytes();
        let mut at = from;
        while at < to {
            let byte = bytes[at];
            at += 1;
            if !self.inside.is_empty() {
                if byte == b'\n' {
                    let line = std::mem::take(&mut self.line);
                    let (end, _, is_indented) = &self.inside[0];
                    let line = if *is_indented { line.trim_start_matches('\t') } else { line.as_str() };
                    if line == end {
                        self.inside.remove(0);
                    }
                } else {
                    self.line.push(char::from(byte));
                }
                continue;
            }
            match byte {
                b'\n' => {
                    self.comment = false;
                    if !self.single && !self.double {
                        self.inside = std::mem::take(&mut self.ahead);
                        self.end_word(true);
                    }
                }
                _ if self.comment => {}
                b'\'' if !self.double => self.single = !self.single,
                _ if self.single => {}
                // The line goes on.
                b'\\' if bytes.get(at) == Some(&b'\n') => at += 1,
                b'\\' => {
                    self.word.extend(bytes.get(at).copied().map(char::from));
                    at += 1;
                }
                b'"' => self.double = !self.double,
                b'(' if at > 1 && bytes[at - 2] == b'$' => {
                    self.substitutions.push(std::mem::take(&mut self.double));
                    self.end_word(true);
                }
                b'`' => self.end_word(true),
                _ if self.double => self.word.push(char::from(byte)),
                b'#' if at == 1
                    || matches!(bytes[at - 2], b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(') =>
                {
                    self.comment = true;
                }
                b'<' if bytes[at..].starts_with(b"<<") => at += 2,
                b'<' if bytes[at..].starts_with(b"<") => {
                    let (end, is_quoted, is_indented, length) = here_document(&script[at + 1..]);
                    if !end.is_empty() {
                        self.ahead.push((end, is_quoted, is_indented));
                    }
                    at += 1 + length;
                }
                b' ' | b'\t' => self.end_word(false),
                b')' => {
                    self.double = self.substitutions.pop().unwrap_or_default();
                    self.end_word(true);
                }
                b';' | b'&' | b'|' | b'(' | b'{' | b'}' => self.end_word(true),
                _ => self.word.push(char::from(byte)),
            }
        }
    }
}

/// The word behind `<<`: without its quotes, whether it had some, whether `-` stood before it, and how long all of it is.
fn here_document(rest: &str) -> (String, bool, bool, usize) {
    let is_indented = rest.starts_with('-');
    let mut at = usize::from(is_indented);
    at += rest[at..].len() - rest[at..].trim_start_matches([' ', '\t']).len();
    let word_end =
        rest[at..].find(|c: char| c.is_whitespace() || ";&|()<>".contains(c)).unwrap_or(rest[at..].len());
    let word = &rest[at..at + word_end];
    let is_quoted = word.contains(['\'', '"', '\\']);
    (word.replace(['\'', '"', '\\'], ""), is_quoted, is_indented, at + word_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_step(id: &StepId) -> bool {
        ["plan", "fix-it"].contains(&id.as_str())
    }

    #[test]
    fn the_name_of_an_output_becomes_a_variable_quoted_for_its_place() {
        // fault I6
        for (script, expected) in [
            ("echo $plan.output", "echo \"${DACAPO_OUTPUT_plan}\""),
            ("x=\"$plan.output\"", "x=\"${DACAPO_OUTPUT_plan}\""),
            (
                "x=\"a $(cat \"$plan.output\") $plan.output\"",
                "x=\"a $(cat \"${DACAPO_OUTPUT_plan}\") ${DACAPO_OUTPUT_plan}\"",
            ),
            ("test $fix-it.output.n = 1", "test \"${DACAPO_OUTPUT_fix_it__n}\" = 1"),
            ("echo it\\'s $plan.output", "echo it\\'s \"${DACAPO_OUTPUT_plan}\""),
            ("# don't\necho $plan.output", "# don't\necho \"${DACAPO_OUTPUT_plan}\""),
            ("echo a#'b' $plan.output", "echo a#'b' \"${DACAPO_OUTPUT_plan}\""),
            ("# $plan.output", "# DACAPO_OUTPUT_plan"),
            (
                "cat <<END\n'$plan.output'\nEND\necho $plan.output",
                "cat <<END\n'${DACAPO_OUTPUT_plan}'\nEND\necho \"${DACAPO_OUTPUT_plan}\"",
            ),
            (
                "cat <<-'END'\nx\n\tEND\necho $plan.output",
                "cat <<-'END'\nx\n\tEND\necho \"${DACAPO_OUTPUT_plan}\"",
            ),
            ("cat <<<x\necho $plan.output", "cat <<<x\necho \"${DACAPO_OUTPUT_plan}\""),
            // No step of this workflow, or the shell's own.
            ("echo $other.output $USER_MESSAGE $1 $HOME", "echo $other.output $USER_MESSAGE $1 $HOME"),
        ] {
            assert_eq!(translate(script, is_step).text, expected, "{script}");
        }
    }

    #[test]
    fn a_variable_that_would_become_code_or_is_not_filled_in_is_misplaced() {
        // fault I6
        use Misplaced::{Code, QuotedHereDocument, SingleQuotes};
        for (script, expected) in [
            ("cat <<'E'\n$plan.output\nE\n", vec![(10, QuotedHereDocument)]),
            ("echo '$plan.output'", vec![(6, SingleQuotes)]),
            ("sh -c 'echo $plan.output'", vec![(12, SingleQuotes)]),
            ("awk '{ print $plan.output.n }' f", vec![(13, SingleQuotes)]),
            ("sh -c \"echo $plan.output\"", vec![(12, Code)]),
            ("sh -c $USER_MESSAGE", vec![(6, Code)]),
            ("cd x && exec /bin/bash -eu -c \"$plan.output\" && echo $plan.output", vec![(31, Code)]),
            ("eval \"x=$plan.output\"", vec![(8, Code)]),
            ("eval echo \\\n  $ARGUMENTS", vec![(14, Code)]),
            ("x=\"$(sh -c \"$plan.output\")\"", vec![(12, Code)]),
            // The inner shell reads its own environment.
            ("sh -c 'echo \"$USER_MESSAGE\"'", vec![]),
            // What follows the code is its arguments.
            ("sh -c 'echo \"$1\"' sh $plan.output", vec![]),
            ("sh check.sh -c $plan.output", vec![]),
            ("bash --norc -e script \"$plan.output\"", vec![]),
            ("sh -c true; echo $plan.output", vec![]),
            ("eval $(ssh-agent)\necho $plan.output", vec![]),
            ("cat <<E\n$plan.output\nE\nsh -c $plan.output", vec![(29, Code)]),
            ("grep -c $plan.output f", vec![]),
        ] {
            let translated = translate(script, is_step);
            assert_eq!(translated.misplaced, expected, "{script}");
            if !expected.is_empty() && expected.iter().all(|(_, why)| *why != Code) {
                assert_eq!(translated.text, script, "what is misplaced stays as it was written");
            }
        }
    }

    #[test]
    fn a_script_finds_what_it_reads_in_its_environment_and_nothing_else() {
        // fault I6
        let outputs = [("plan", "$(touch canary)\0'\"`id`"), ("fix-it", r#"{"n": 1}"#), ("big", "x")];
        let outputs = outputs.map(|(id, text)| (StepId::new(id).unwrap(), text.to_owned()));
        let variables = Variables {
            message: "; rm -rf /".to_owned(),
            run: "r1".to_owned(),
            outputs: outputs.into(),
            ..Variables::default()
        };
        let script = translate("echo $plan.output $fix-it.output.n \"${LOOP_USER_INPUT}\"", is_step);
        let expected = [
            ("ARGUMENTS", "; rm -rf /"),
            ("DACAPO_OUTPUT_fix_it__n", "1"),
            ("DACAPO_OUTPUT_plan", "$(touch canary)'\"`id`"),
            ("LOOP_USER_INPUT", ""),
            ("USER_MESSAGE", "; rm -rf /"),
            ("WORKFLOW_ID", "r1"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(script.environment(&variables).unwrap(), expected.into());
        assert!(!script.text.contains("touch") && !script.text.contains("rm -rf"));
        let long = Variables { message: "x".repeat(MAX_VALUE + 1), ..variables };
        assert_eq!(script.environment(&long).unwrap_err().length, MAX_VALUE + 1);
    }
}
