//! Packages of Cargo that the agent gave another name or folder. Their tests moved with them and name the package anew: as before they
//! are what they were, at the new place and with the new name.
//!
//! A package counts as renamed only if nothing is left of it under its old name, so that the tests as they were could not be built
//! at all otherwise.

use toml_edit::DocumentMut;

use super::{GoalpostKind, Moved, MovedGoalpost, SharedFile, shared_files::library};

/// A package that has another name or folder than at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenamedPackage {
    /// Its folders, from the top of the workspace; empty at the top.
    from: String,
    to: String,
    /// What manifests call it, and what its tests call its library.
    package: (String, String),
    library: (String, String),
}

/// Folders that may have moved, by goalposts that are gone from the one and new below the other, and those of which goalposts changed
/// in their place. Whether a package moved with them is to be asked of its manifests.
pub fn moved_folders(moved: &[MovedGoalpost]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut add = |from: String, to: String| {
        if !all.contains(&(from.clone(), to.clone())) {
            all.push((from, to));
        }
    };
    let is_of_rust = |moved: &&MovedGoalpost| moved.path.ends_with(".rs");
    let with = |how: Moved| moved.iter().filter(is_of_rust).filter(move |moved| moved.how == how);
    for gone in with(Moved::Removed) {
        for new in with(Moved::Added) {
            let ends = gone.path.rsplit('/').zip(new.path.rsplit('/'));
            let same = ends.take_while(|(old, new)| old == new).count();
            let (mut old, mut now): (Vec<&str>, Vec<&str>) =
                (gone.path.split('/').collect(), new.path.split('/').collect());
            // What lies in the folder of a package is in a folder of that.
            if same >= 2 && old.len() > same && now.len() > same {
                old.truncate(old.len() - same);
                now.truncate(now.len() - same);
                add(old.join("/"), now.join("/"));
            }
        }
    }
    for changed in with(Moved::Changed) {
        let folders = changed.path.match_indices('/').map(|(at, _)| &changed.path[..at]);
        for folder in folders.chain([""]) {
            add(folder.to_owned(), folder.to_owned());
        }
    }
    all
}

impl RenamedPackage {
    /// The package whose manifest was `old` in the folder `from` and is `new` in `to`, if that is another name or place.
    pub fn of((from, to): (String, String), old: &str, new: &str) -> Option<Self> {
        let (old, new) = (old.parse::<DocumentMut>().ok()?, new.parse::<DocumentMut>().ok()?);
        let name = |document: &DocumentMut| Some(document.get("package")?.get("name")?.as_str()?.to_owned());
        let package = (name(&old)?, name(&new)?);
        let library = (library(&old)?, library(&new)?);
        (from != to || package.0 != package.1 || library.0 != library.1).then_some(Self {
            from,
            to,
            package,
            library,
        })
    }

    /// Where the file at `path` is now, if it was one of the package and the package has moved.
    pub fn place_of(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(&self.from)?.strip_prefix('/')?;
        (self.from != self.to && !self.from.is_empty()).then(|| format!("{}/{rest}", self.to))
    }

    /// The text of a file of the start with the names of now.
    pub fn with_new_names(&self, kind: GoalpostKind, path: &str, text: &str) -> String {
        match kind {
            GoalpostKind::Keys(SharedFile::CargoToml) => self.manifest(text),
            _ if path.ends_with(".rs") => self.source(text),
            _ => text.to_owned(),
        }
    }

    /// Paths and `use` of the library in Rust: `shout::shout("a")` becomes `loud::shout("a")`.
    fn source(&self, text: &str) -> String {
        let (old, new) = (&self.library.0, &self.library.1);
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let (mut changed, mut at) = (String::with_capacity(text.len()), 0);
        for (start, _) in text.match_indices(old.as_str()) {
            let (before, after) = (&text[..start], &text[start + old.len()..]);
            let is_word = !before.ends_with(is_name) && !after.starts_with(is_name);
            // An item of this name is not the library, and neither is a word of a text.
            let is_head = after.starts_with("::") && !before.ends_with("::");
            let above = before.trim_end_matches(' ');
            let is_used =
                above.len() < before.len() && (above.ends_with("use") || above.ends_with("extern crate"));
            let ends = after.trim_start().starts_with([';', ' ']) || after.starts_with(" as ");
            if is_word && start >= at && (is_head || (is_used && ends)) {
                changed.push_str(&text[at..start]);
                changed.push_str(new);
                at = start + old.len();
            }
        }
        changed + &text[at..]
    }

    /// Names and folders of packages in a manifest of Cargo, which are words or pieces of paths in quotes, and keys.
    fn manifest(&self, text: &str) -> String {
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let folders = (last(&self.from), last(&self.to));
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let mut changed = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(is_part) {
            changed.push_str(&rest[..start]);
            let end = rest[start..].find(|c| !is_part(c)).map_or(rest.len(), |end| start + end);
            let word = &rest[start..end];
            let renamed =
                [&self.package, &folders].into_iter().find(|(old, _)| old == word && !old.is_empty());
            changed.push_str(renamed.map_or(word, |(_, new)| new));
            rest = &rest[end..];
        }
        changed + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(path: &str, how: Moved) -> MovedGoalpost {
        MovedGoalpost { path: path.to_owned(), kind: GoalpostKind::Test, how }
    }

    #[test]
    fn folders_have_moved_if_their_tests_have() {
        for (gone, new, folders) in [
            ("shout/tests/shout.rs", "loud/tests/shout.rs", vec![("shout", "loud")]),
            ("crates/a/tests/x.rs", "libs/b/tests/x.rs", vec![("crates/a", "libs/b")]),
            ("shout/tests/shout.rs", "loud/tests/loud.rs", vec![]),
            ("tests/a.rs", "tests/b.rs", vec![]),
            ("tests/a.py", "x/tests/a.py", vec![]),
        ] {
            let found = moved_folders(&[moved(gone, Moved::Removed), moved(new, Moved::Added)]);
            let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(found, folders, "{gone} {new}");
        }
        let changed = moved_folders(&[moved("a/tests/x.rs", Moved::Changed)]);
        let own = |folder: &str| (folder.to_owned(), folder.to_owned());
        assert_eq!(changed, [own("a"), own("a/tests"), own("")]);
    }

    fn renamed() -> RenamedPackage {
        let at = ("crates/shout".to_owned(), "crates/loud".to_owned());
        RenamedPackage::of(at, "[package]\nname = \"my-shout\"", "[package]\nname = \"my-loud\"").unwrap()
    }

    #[test]
    fn a_package_is_renamed_if_its_name_or_its_folder_is_another() {
        let of = |from: &str, to: &str, old: &str, new: &str| {
            let manifest = |name: &str| format!("[package]\nname = \"{name}\"\n");
            RenamedPackage::of((from.to_owned(), to.to_owned()), &manifest(old), &manifest(new)).is_some()
        };
        assert!(of("a", "b", "a", "b"));
        assert!(of("a", "b", "a", "a"));
        assert!(of("", "", "a", "b"));
        assert!(!of("", "", "a", "a"));
        assert!(RenamedPackage::of((String::new(), String::new()), "[workspace]", "[workspace]").is_none());
        assert_eq!(renamed().place_of("crates/shout/tests/a.rs").as_deref(), Some("crates/loud/tests/a.rs"));
        assert_eq!(renamed().place_of("crates/shouting/tests/a.rs"), None);
    }

    #[test]
    fn texts_of_the_start_get_the_new_name_and_nothing_else() {
        for (old, new) in [
            ("my_shout::my_shout(1)", "my_loud::my_shout(1)"),
            ("use my_shout;", "use my_loud;"),
            ("use my_shout::{a, b};", "use my_loud::{a, b};"),
            ("use my_shout as s;", "use my_loud as s;"),
            ("extern crate my_shout;", "extern crate my_loud;"),
            ("::my_shout::a()", "::my_shout::a()"),
            ("other::my_shout::a()", "other::my_shout::a()"),
            ("let my_shout = 1;", "let my_shout = 1;"),
            ("my_shouting::a()", "my_shouting::a()"),
            ("assert_eq!(a(\"my_shout\"), 4)", "assert_eq!(a(\"my_shout\"), 4)"),
        ] {
            assert_eq!(renamed().with_new_names(GoalpostKind::Test, "a.rs", old), new);
            assert_eq!(renamed().with_new_names(GoalpostKind::Test, "a.txt", old), old);
        }
        let manifest = "[workspace]\nmembers = [\"crates/shout\", \"crates/shouting\"]\n[dev-dependencies]\nmy-shout = { path = \"../shout\" }\n";
        let kind = GoalpostKind::Keys(SharedFile::CargoToml);
        assert_eq!(
            renamed().with_new_names(kind, "Cargo.toml", manifest),
            "[workspace]\nmembers = [\"crates/loud\", \"crates/shouting\"]\n[dev-dependencies]\nmy-loud = { path = \"../loud\" }\n"
        );
    }
}
