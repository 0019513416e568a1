//! What startup files of shells and settings of git take in from other files: an agent that writes those writes these.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The files that a shell takes in when it reads `text`, and the folders of which it takes in whatever is there, as far as the words
/// tell. `variable` gives what the environment holds.
pub fn taken_in_by_shell(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut lists: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let mut found = Vec::new();
    for line in text.lines() {
        let words = words(line);
        let expand = |word: &str, known: &BTreeMap<String, String>| {
            expanded(word, &|name| known.get(name).cloned().or_else(|| variable(name)))
        };
        for (at, word) in words.iter().enumerate() {
            if let Some((name, value)) = assignment(word) {
                if let Some(value) = expand(value, &known) {
                    known.insert(name.to_owned(), value);
                }
            } else if let ("for", Some(name), Some("in")) =
                (word.as_str(), words.get(at + 1), words.get(at + 2).map(String::as_str))
            {
                let listed = words[at + 3..].iter().take_while(|word| *word != "do" && *word != ";");
                let paths = listed.filter_map(|word| path_of(&expand(word, &known)?));
                lists.insert(name.clone(), paths.collect());
            } else if matches!(word.as_str(), "." | "source" | "\\.")
                && let Some(file) = words.get(at + 1)
            {
                let name = file.trim_matches('"').trim_start_matches('$').trim_matches(['{', '}']);
                match lists.get(name).filter(|_| file.contains('$')) {
                    Some(paths) => found.extend(paths.iter().cloned()),
                    None => found.extend(expand(file, &known).as_deref().and_then(path_of)),
                }
            }
        }
    }
    found
}

/// The files that git takes in or runs by settings in `text`, which lie in `folder`, and folders of hooks and templates.
pub fn taken_in_by_git(text: &str, folder: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    // What these name is what the user works on.
    const OF_WORK: [&str; 8] = ["safe", "maintenance", "scalar", "gui", "cola", "ghq", "remote", "url"];
    const FOLDERS: [&str; 2] = ["hookspath", "templatedir"];
    let mut section = String::new();
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let name = header.split([' ', ']', '.']).next().unwrap_or_default();
            section = name.to_ascii_lowercase();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        if line.starts_with(['#', ';']) || OF_WORK.contains(&section.as_str()) {
            continue;
        }
        let key = key.trim().to_ascii_lowercase();
        let value = value.trim().trim_matches('"');
        let is_run = value.starts_with('!') || is_program(&key);
        let value = value.trim_start_matches('!').trim_start();
        let first = words(value).into_iter().next().unwrap_or_default();
        let Some(first) = expanded(&first, variable) else { continue };
        let is_include = section.starts_with("include") && key == "path";
        let path = match path_of(&first) {
            Some(path) => path,
            None if is_include && !first.is_empty() => folder.join(first),
            None => continue,
        };
        // A key may name a folder of work, which stays writable.
        if is_include || is_run || FOLDERS.contains(&key.as_str()) {
            found.push(path);
        }
    }
    found
}

/// Whether what a key of git names is run.
fn is_program(key: &str) -> bool {
    const RUN: [&str; 17] = [
        "program",
        "pager",
        "editor",
        "sshcommand",
        "fsmonitor",
        "askpass",
        "helper",
        "clean",
        "smudge",
        "process",
        "external",
        "textconv",
        "command",
        "driver",
        "cmd",
        "attributesfile",
        "excludesfile",
    ];
    RUN.contains(&key)
}

/// An absolute path without a pattern; for a pattern the folder that it looks into.
fn path_of(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let is_plain = |at: &Path| !at.to_string_lossy().contains(['*', '?', '[']);
    path.is_absolute().then(|| path.ancestors().find(|at| is_plain(at))).flatten().map(Path::to_owned)
}

/// A name and its value, if the word sets one.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some((name, value))
}

/// The words of a line, up to a comment, with their quotes. What ends a command is a word of its own.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut depth) = (Vec::new(), String::new(), None, 0);
    let mut before = ' ';
    for char in line.chars() {
        let is_braced = depth > 0;
        match (quote, char) {
            (Some(open), _) if open == char => quote = None,
            (None, '"' | '\'') => quote = Some(char),
            (_, '{') if before == '$' || is_braced => depth += 1,
            (_, '}') if is_braced => depth -= 1,
            (None, '#') if word.is_empty() => break,
            (None, ' ' | '\t' | ';' | '&' | '|' | '(' | ')') if !is_braced => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                if char == ';' {
                    words.push(";".to_owned());
                }
                before = char;
                continue;
            }
            _ => {}
        }
        word.push(char);
        before = char;
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// A word without its quotes, with `~` and variables filled in; `None` if one of them is not known.
fn expanded(word: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let bare: String = word.chars().filter(|char| !matches!(char, '"' | '\'')).collect();
    let text = match bare.strip_prefix("~/") {
        Some(below) => format!("{}/{below}", variable("HOME")?),
        None if bare == "~" => variable("HOME")?,
        None => bare,
    };
    let mut filled = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('$') {
        filled.push_str(before);
        if let Some(inner) = after.strip_prefix('{') {
            let end = closing(inner)?;
            filled.push_str(&braced(&inner[..end], variable)?);
            rest = &inner[end + 1..];
        } else {
            let is_of_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
            let end = after.find(|char| !is_of_name(char)).unwrap_or(after.len());
            filled.push_str(&variable(after.get(..end).filter(|name| !name.is_empty())?)?);
            rest = &after[end..];
        }
    }
    filled.push_str(rest);
    Some(filled)
}

/// Where the brace ends that was opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, char)| match char {
        '{' => {
            depth += 1;
            None
        }
        '}' if depth == 0 => Some(at),
        '}' => {
            depth -= 1;
            None
        }
        _ => None,
    })
}

/// What `${…}` stands for: a variable, or what is to be used without it.
fn braced(inner: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let end = inner.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(inner.len());
    let (name, how) = inner.split_at(end);
    let set = variable(name).filter(|value| !value.is_empty());
    match how.strip_prefix(":-").or_else(|| how.strip_prefix('-')) {
        Some(word) => set.or_else(|| expanded(word, variable)),
        None if how.is_empty() => set,
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/h".to_owned()),
            "ZSH" => Some("/h/.oh-my-zsh".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn what_a_startup_file_sources_is_known_by_its_words() {
        for (text, paths) in [
            ("source ~/.functions", vec!["/h/.functions"]),
            ("[ -f ~/.fzf.bash ] && . ~/.fzf.bash # keys", vec!["/h/.fzf.bash"]),
            ("if [ -f \"$HOME/my files/rc\" ]; then . \"$HOME/my files/rc\"; fi", vec!["/h/my files/rc"]),
            ("source $ZSH/oh-my-zsh.sh", vec!["/h/.oh-my-zsh/oh-my-zsh.sh"]),
            (
                "export NVM_DIR=\"$HOME/.nvm\"\n[ -s \"$NVM_DIR/nvm.sh\" ] && \\. \"$NVM_DIR/nvm.sh\"",
                vec!["/h/.nvm/nvm.sh"],
            ),
            (
                "ZINIT_HOME=\"${XDG_DATA_HOME:-${HOME}/.local/share}/zinit\"\nsource \"${ZINIT_HOME}/zinit.zsh\"",
                vec!["/h/.local/share/zinit/zinit.zsh"],
            ),
            ("for f in ~/.bashrc.d/*.sh; do . \"$f\"; done", vec!["/h/.bashrc.d"]),
            ("for f in ~/.a ~/.b; do\n  source ${f}\ndone", vec!["/h/.a", "/h/.b"]),
            ("# . ~/.commented", vec![]),
            ("cd ~/work; echo . ; ls .", vec![]),
            ("source <(kubectl completion bash)", vec![]),
            (". $UNKNOWN/rc", vec![]),
            ("source ${UNKNOWN}", vec![]),
            ("eval \"$(direnv hook bash)\"", vec![]),
        ] {
            let found = taken_in_by_shell(text, &variable);
            assert_eq!(found, paths.iter().map(PathBuf::from).collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn what_settings_of_git_take_in_or_run_is_known_by_their_keys() {
        let text = "[include]\n path = ~/.gitconfig-work\n path = local\n[includeIf \"gitdir:~/w/\"]\n\tpath = /x/y\n\
                    [core]\n hooksPath = ~/.hooks\n pager = less\n editor = \"~/bin/ed -w\"\n worktree = /w\n\
                    [init]\n templateDir = ~/.template\n[alias]\n go = !~/run.sh now\n\
                    [safe]\n directory = /w/repo.git\n[maintenance]\n repo = /w/repo.git\n; path = ~/no\n";
        let found = taken_in_by_git(text, Path::new("/h/.config/git"), &variable);
        let expected = [
            "/h/.gitconfig-work",
            "/h/.config/git/local",
            "/x/y",
            "/h/.hooks",
            "/h/bin/ed",
            "/h/.template",
            "/h/run.sh",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn no_text_makes_the_look_fail() {
        for text in [
            "$",
            "${",
            "${}",
            "${a:-${b}",
            ". ${",
            "for",
            "for f in",
            "source",
            "= =",
            "a=${b:-$}",
            "\"'",
            "[",
            "[=",
            "~",
        ] {
            taken_in_by_shell(text, &variable);
            taken_in_by_git(text, Path::new("/"), &variable);
        }
    }
}
