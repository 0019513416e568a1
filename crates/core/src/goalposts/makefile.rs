//! A makefile as it was before the agent, with what new work needs of it: the names of new sources, rules that make new files,
//! and the folders in which compilers find these.

use std::collections::BTreeSet;

use super::conventions::kind_of;

/// Endings of what a compiler reads.
const SOURCES: &[&str] = &[".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".inc", ".s", ".S"];
/// Endings of what a compiler makes, without the dot.
const OBJECTS: &[&str] = &["o"];

/// The makefile `old` with what `new` adds to it that cannot change how what was there is built and tested. `was_there` says which
/// files there were at the start, `is_there` which there are now, by their paths from the folder of the makefile.
///
/// - Sources that were moved have the name of their new place.
/// - Names of new sources and objects stay in the lines where the agent put them.
/// - A rule whose targets are new files stays, at the end, so that `make` without a target makes what it made.
/// - A folder in which a compiler is to look for headers is searched after all others, those of the system included.
pub fn makefile_as_before(
    old: &str,
    new: &str,
    was_there: &dyn Fn(&str) -> bool,
    is_there: &dyn Fn(&str) -> bool,
) -> String {
    let old = &with_moved_sources(old, new, was_there, is_there);
    let known = words(old);
    let mut extended: Vec<(Vec<String>, String)> = new
        .lines()
        .filter(|line| {
            words(line).iter().any(|word| is_new_source(word, &known) || is_new_folder(word, &known))
        })
        .map(|line| {
            let is_old = |word: &String| !is_new_source(word, &known) && !is_new_folder(word, &known);
            let reduced = words(line).into_iter().filter(is_old).collect();
            (reduced, searched_last(line, &known))
        })
        .collect();
    let as_before = old.split_inclusive('\n').map(|line| {
        let at = extended.iter().position(|(reduced, new)| {
            *reduced == words(line) && new.starts_with('\t') == line.starts_with('\t')
        });
        match at {
            Some(at) => format!("{}\n", extended.remove(at).1),
            None => line.to_owned(),
        }
    });
    let mut text: String = as_before.collect();
    if old.is_empty() {
        return text;
    }
    for rule in rules(new).into_iter().filter(|rule| is_for_new_files(rule, old, was_there)) {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&rule.text);
    }
    text
}

/// `old` with the new places of sources that are gone: the one new file of the same name that the new makefile names instead.
fn with_moved_sources(
    old: &str,
    new: &str,
    was_there: &dyn Fn(&str) -> bool,
    is_there: &dyn Fn(&str) -> bool,
) -> String {
    let known = words(old);
    let mut candidates: Vec<String> = words(new);
    candidates.retain(|word| is_new_source(word, &known) && !was_there(word) && is_there(word));
    candidates.sort_unstable();
    candidates.dedup();
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let place_of = |word: &str| -> Option<&String> {
        let is_gone = is_path(word) && was_there(word) && !is_there(word) && kind_of(word).is_none();
        let mut places = candidates.iter().filter(|place| is_gone && name(place) == name(word));
        places.next().filter(|place| places.next().is_none() && kind_of(place).is_none())
    };
    // Headers that moved with them are found by the same command.
    let folders: Vec<String> = words(new).into_iter().filter(|word| is_new_folder(word, &known)).collect();
    let folders: BTreeSet<&str> = folders.iter().filter_map(|word| folder_of_headers(word)).collect();
    let flags: String = folders.iter().map(|folder| format!(" -idirafter {folder}")).collect();
    let mut text = String::with_capacity(old.len());
    for line in old.split_inclusive('\n') {
        let mut rest = line;
        while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
            let end = rest[start..].find(char::is_whitespace).map_or(rest.len(), |end| start + end);
            let word = &rest[start..end];
            text.push_str(&rest[..start]);
            match place_of(word) {
                Some(place) => {
                    text.push_str(place);
                    text.push_str(if line.starts_with('\t') { &flags } else { "" });
                }
                None => text.push_str(word),
            }
            rest = &rest[end..];
        }
        text.push_str(rest);
    }
    text
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn is_path(word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+');
    !word.is_empty() && !word.starts_with('-') && word.chars().all(is_part)
}

fn is_new_source(word: &str, known: &[String]) -> bool {
    let is_source = SOURCES.iter().any(|end| word.ends_with(end)) || word.ends_with(".o");
    is_path(word) && is_source && !known.iter().any(|other| other == word)
}

/// The folder that a word tells a compiler to look into, if it is one of the workspace.
fn folder_of_headers(word: &str) -> Option<&str> {
    let folder = word.strip_prefix("-I")?;
    let is_inside = !folder.starts_with('/') && !folder.split('/').any(|part| part == "..");
    (is_path(folder) && is_inside).then_some(folder)
}

fn is_new_folder(word: &str, known: &[String]) -> bool {
    folder_of_headers(word).is_some() && !known.iter().any(|other| other == word)
}

/// A line in which new folders of headers are searched after all others.
fn searched_last(line: &str, known: &[String]) -> String {
    let is_new = |word: &str| is_new_folder(word, known);
    let put = |word: &str| match folder_of_headers(word).filter(|_| is_new(word)) {
        Some(folder) => format!("-idirafter {folder}"),
        None => word.to_owned(),
    };
    line.split(' ')
        .map(|part| part.split('\t').map(put).collect::<Vec<_>>().join("\t"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A rule with its recipe.
struct Rule {
    targets: Vec<String>,
    needs: Vec<String>,
    recipe: Vec<String>,
    text: String,
}

/// The plain rules of a makefile: targets, a colon, what they need, and a recipe in the lines below.
fn rules(text: &str) -> Vec<Rule> {
    let mut all: Vec<Rule> = Vec::new();
    let mut is_in_rule = false;
    // Within `ifdef` and `define` a line may count or not, or be no rule at all.
    let mut depth = 0_u32;
    for line in text.lines() {
        if let Some(recipe) = line.strip_prefix('\t') {
            if let Some(rule) = all.last_mut().filter(|_| is_in_rule) {
                rule.recipe.push(recipe.to_owned());
                rule.text.push_str(&format!("{line}\n"));
            }
            continue;
        }
        let first = line.split_whitespace().next().unwrap_or_default();
        match first {
            "ifdef" | "ifndef" | "ifeq" | "ifneq" | "define" => depth += 1,
            "endif" | "endef" => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_blank = line.trim().is_empty() || line.trim_start().starts_with('#');
        is_in_rule &= is_blank;
        let Some((targets, needs)) = line.split_once(':').filter(|_| depth == 0 && !is_blank) else {
            continue;
        };
        let (targets, needs) = (words(targets), words(needs));
        if !targets.is_empty() && targets.iter().chain(&needs).all(|word| is_path(word)) {
            is_in_rule = true;
            all.push(Rule { targets, needs, recipe: Vec::new(), text: format!("{line}\n") });
        }
    }
    all
}

/// Whether a rule makes new files alone, of which no rule of `old` may tell how to make them, and does nothing else with make: no
/// function, no variable of its own, no line that goes on in the next.
fn is_for_new_files(rule: &Rule, old: &str, was_there: &dyn Fn(&str) -> bool) -> bool {
    let known = words(old);
    let stem = |path: &str| path.rsplit_once('.').map_or(path.to_owned(), |(stem, _)| stem.to_owned());
    let is_new = |target: &String| {
        let is_object = target.rsplit_once('.').is_some_and(|(_, end)| OBJECTS.contains(&end));
        // The object of a source that was there is made as it was.
        let has_known_source = || {
            SOURCES.iter().any(|end| was_there(&format!("{}{end}", stem(target))))
                || was_there_under(target, old)
        };
        let is_test = |path: &str| kind_of(path).is_some();
        is_new_source(target, &known)
            && !was_there(target)
            && !is_test(target)
            && !(is_object && (has_known_source() || is_test(&format!("{}.c", stem(target)))))
    };
    let is_plain = |line: &String| !line.ends_with('\\') && has_plain_variables(line);
    !rule.recipe.is_empty()
        && rule.targets.iter().all(is_new)
        && rule.needs.iter().all(|need| kind_of(need).is_none())
        && rule.recipe.iter().all(is_plain)
}

/// Whether the makefile names the source of an object in another folder: `build/a.o` is made of `src/a.c`.
fn was_there_under(object: &str, old: &str) -> bool {
    let name = object.rsplit('/').next().unwrap_or(object);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '+');
    old.split(|c| !is_part(c)).any(|word| word == stem)
}

/// Whether all that make puts into a line are values of variables. A function (`$(eval …)`) could change what was there.
fn has_plain_variables(line: &str) -> bool {
    let bare = line.replace("$$", "");
    bare.match_indices('$').all(|(at, _)| {
        let rest = &bare[at + 1..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match rest.chars().next() {
            Some(open @ ('(' | '{')) => {
                let close = if open == '(' { ')' } else { '}' };
                let name = rest[1..].split(close).next().unwrap_or_default();
                let name = name
                    .strip_suffix(['D', 'F'])
                    .filter(|name| ["@", "<", "^", "*"].contains(name))
                    .map_or(name, |_| "x");
                !name.is_empty() && name.chars().all(is_name) && name != "MAKE"
            }
            Some(c) => matches!(c, '@' | '<' | '^' | '*' | '?' | '+') || is_name(c),
            None => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "OBJS = a.o b.o\ntest: $(OBJS)\n\tcc -I. -o t a.c b.c\n\t./t\n";

    fn as_before(new: &str) -> String {
        let was_there = |path: &str| matches!(path, "a.c" | "b.c" | "lib/judge.c" | "old.h");
        makefile_as_before(OLD, new, &was_there, &was_there)
    }

    #[test]
    fn new_sources_stay_where_the_agent_put_them() {
        for (new, before) in [
            (OLD.to_owned(), OLD.to_owned()),
            (OLD.replace("b.c\n", "b.c new.c\n"), OLD.replace("b.c\n", "b.c new.c\n")),
            (OLD.replace("b.o\n", "b.o src/new.o\n"), OLD.replace("b.o\n", "b.o src/new.o\n")),
            // Whatever else is in such a line, or another one, is as it was.
            (OLD.replace("b.c\n", "b.c new.c -DNDEBUG\n"), OLD.to_owned()),
            (OLD.replace("b.c\n", "new.c\n"), OLD.to_owned()),
            (OLD.replace("\t./t\n", "\ttrue\n"), OLD.to_owned()),
            (OLD.replace("\t./t\n", "\t./t || true\n"), OLD.to_owned()),
            (format!("{OLD}test2: new.c\n\ttrue\n"), OLD.to_owned()),
            (OLD.replace("\tcc -I. -o t a.c b.c", "cc -I. -o t a.c b.c new.c"), OLD.to_owned()),
            // Words that only look like a source.
            (OLD.replace("b.c\n", "b.c $(evil).c\n"), OLD.to_owned()),
            (OLD.replace("b.c\n", "b.c -include=x.h\n"), OLD.to_owned()),
            (OLD.replace("b.c\n", "b.c;true;x.c\n"), OLD.to_owned()),
            (String::new(), OLD.to_owned()),
        ] {
            assert_eq!(as_before(&new), before, "{new}");
        }
        assert_eq!(makefile_as_before("", "all:\n\ttrue\n", &|_| false, &|_| false), "");
    }

    #[test]
    fn sources_that_were_moved_are_named_in_their_new_place() {
        let old = "t: a.c test_a.c\n\tcc -I. -o t a.c test_a.c\n\t./t\n";
        let was_there = |path: &str| matches!(path, "a.c" | "test_a.c" | "b/a.c");
        for (new_place, places, before) in [
            ("src/a.c", vec!["src/a.c", "test_a.c"], "src/a.c"),
            // It is still there, the new one is no file, was there before, or is one of two.
            ("src/a.c", vec!["a.c", "src/a.c", "test_a.c"], "a.c"),
            ("src/a.c", vec!["test_a.c"], "a.c"),
            ("b/a.c", vec!["b/a.c", "test_a.c"], "a.c"),
            ("src/a.c lib/a.c", vec!["src/a.c", "lib/a.c", "test_a.c"], "a.c"),
            ("other.c", vec!["other.c", "test_a.c"], "a.c"),
            ("tests/a.c", vec!["tests/a.c", "test_a.c"], "a.c"),
        ] {
            let new = old.replace(" a.c", &format!(" {new_place}"));
            let is_there = |path: &str| places.contains(&path);
            let known = old.replace(" a.c", &format!(" {before}"));
            let found = makefile_as_before(old, &new, &was_there, &is_there);
            assert_eq!(found, known, "{new}");
        }
        let new = old.replace(" a.c", " src/a.c").replace("-I.", "-Isrc");
        let is_there = |path: &str| matches!(path, "src/a.c" | "test_a.c");
        assert_eq!(
            makefile_as_before(old, &new, &was_there, &is_there),
            "t: src/a.c test_a.c\n\tcc -I. -o t src/a.c -idirafter src test_a.c\n\t./t\n"
        );
        // A test stays where it was.
        let new = old.replace("test_a.c", "quiet/test_a.c");
        let is_there = |path: &str| matches!(path, "a.c" | "quiet/test_a.c");
        assert_eq!(makefile_as_before(old, &new, &was_there, &is_there), old);
    }

    #[test]
    fn rules_that_make_new_files_stay_and_no_others() {
        let kept = |rule: &str| as_before(&format!("{OLD}{rule}")).strip_prefix(OLD).map(str::to_owned);
        for rule in [
            "gen/zero.h:\n\tmkdir -p gen\n\techo '#define ZERO 0' >$@\n",
            "table.c: table.txt gen.awk\n\tawk -f gen.awk table.txt >$@\n",
            "new.o: new.c\n\t$(CC) $(CFLAGS) -c -o $@ $<\n",
            "gen/a.h gen/b.h: gen.py\n\tpython3 gen.py $(@D) $${HOME}\n",
        ] {
            assert_eq!(kept(rule).as_deref(), Some(rule), "{rule}");
        }
        for rule in [
            // Files that were there, objects of sources that were there, and tests.
            "old.h:\n\techo >old.h\n",
            "a.o: other.c\n\t$(CC) -c -o $@ other.c\n",
            "build/a.o: other.c\n\t$(CC) -c -o $@ other.c\n",
            "lib/judge.o: other.c\n\t$(CC) -c -o $@ other.c\n",
            "test_a.o: weak.c\n\t$(CC) -c -o $@ weak.c\n",
            "tests/data.h:\n\techo >$@\n",
            "assert.h:\n\techo '#define assert(x)' >$@\n",
            "zero.h: tests/a.c\n\ttrue >$@\n",
            // What has another effect than to make a file.
            "test:\n\ttrue\n",
            ".SHELLFLAGS = -c\n",
            "zero.h: CFLAGS += -DNDEBUG\n",
            "zero.h:\n\t$(eval CFLAGS += -DNDEBUG)echo >$@\n",
            "zero.h:\n\t${eval CFLAGS += -DNDEBUG}echo >$@\n",
            "zero.h:\n\t$(MAKE) CFLAGS=-DNDEBUG t\n",
            "zero.h:\n\techo \\\n\t$(shell true) >$@\n",
            "%.h:\n\techo >$@\n",
            "$(X).h:\n\techo >$@\n",
            "zero.h:: b.h\n\techo >$@\n",
            "define zero.h\nzero.h:\n\techo >$@\nendef\n",
            "zero.h:\n",
        ] {
            assert_eq!(kept(rule).as_deref(), Some(""), "{rule}");
        }
        // One that stands before what was first in the file does not become what is made by default.
        let first = format!("zero.h:\n\techo >$@\n\n{OLD}");
        assert_eq!(as_before(&first), format!("{OLD}zero.h:\n\techo >$@\n"));
    }

    #[test]
    fn new_folders_of_headers_are_searched_last() {
        for (new, before) in [
            ("-I. -Igen", "-I. -idirafter gen"),
            ("-Igen -I.", "-idirafter gen -I."),
            ("-I. -Igen/include new.c", "-I. -idirafter gen/include new.c"),
            ("-I. -I/tmp/x", "-I."),
            ("-I. -I../x", "-I."),
            ("-I. -I$(X)", "-I."),
            ("-I. -isystem gen", "-I."),
        ] {
            let at = |flags: &str| OLD.replace("-I.", flags);
            assert_eq!(as_before(&at(new)), at(before), "{new}");
        }
    }
}
