//! A patch of git as files with their lines, in the colours of their language.

use maud::{Markup, html};

use super::{highlight, words};

/// More lines than this are not drawn: a browser takes long over them, and people do not read them.
const MOST_LINES: usize = 20_000;
/// A file of more lines is folded.
const FOLDED: usize = 600;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FilePatch {
    pub(super) path: String,
    /// Why there are no lines: renamed, binary, mode changed.
    pub(super) note: Option<String>,
    pub(super) lines: Vec<PatchLine>,
    pub(super) added: u32,
    pub(super) removed: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PatchLine {
    Hunk(String),
    /// Numbers before and after, and the text.
    Line {
        kind: DiffLineKind,
        before: Option<u32>,
        after: Option<u32>,
        text: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiffLineKind {
    Same,
    Added,
    Removed,
}

/// Reads what `git diff` prints.
pub(super) fn parse(patch: &[u8]) -> Vec<FilePatch> {
    let mut files: Vec<FilePatch> = Vec::new();
    let (mut before, mut after) = (0, 0);
    let mut is_in_hunk = false;
    for line in patch.split(|byte| *byte == b'\n') {
        if line.starts_with(b"diff --git ") {
            let text = words::output_line(&line[b"diff --git ".len()..]);
            let path = text.rsplit_once(" b/").map_or(text.as_str(), |(_, path)| path).trim_end_matches('"');
            files.push(FilePatch { path: words::line(path), ..FilePatch::default() });
            is_in_hunk = false;
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        if line.starts_with(b"@@ ") {
            let text = words::output_line(line);
            (before, after) = starts(&text).unwrap_or((1, 1));
            file.lines.push(PatchLine::Hunk(text));
            is_in_hunk = true;
            continue;
        }
        if !is_in_hunk {
            let text = words::output_line(line);
            if let Some(path) = text.strip_prefix("rename to ") {
                file.note = Some("renamed".to_owned());
                file.path = words::line(path);
            } else if text.starts_with("new file") {
                file.note = Some("new".to_owned());
            } else if text.starts_with("deleted file") {
                file.note = Some("deleted".to_owned());
            } else if text.starts_with("Binary files") || text.starts_with("GIT binary patch") {
                file.note = Some("binary".to_owned());
            } else if text.starts_with("new mode ") {
                file.note = Some(text.replace("new ", ""));
            }
            continue;
        }
        let (kind, text) = match line.split_first() {
            Some((b'+', rest)) => (DiffLineKind::Added, rest),
            Some((b'-', rest)) => (DiffLineKind::Removed, rest),
            Some((b' ', rest)) => (DiffLineKind::Same, rest),
            _ => continue,
        };
        let text = words::output_line(text.strip_suffix(b"\r").unwrap_or(text));
        let (mut old, mut new) = (None, None);
        if kind != DiffLineKind::Added {
            old = Some(before);
            before += 1;
        }
        if kind != DiffLineKind::Removed {
            new = Some(after);
            after += 1;
        }
        match kind {
            DiffLineKind::Added => file.added += 1,
            DiffLineKind::Removed => file.removed += 1,
            DiffLineKind::Same => {}
        }
        file.lines.push(PatchLine::Line { kind, before: old, after: new, text });
    }
    files
}

/// The first lines of both sides: `@@ -12,7 +12,9 @@`.
fn starts(hunk: &str) -> Option<(u32, u32)> {
    let mut sides = hunk.strip_prefix("@@ -")?.split(' ');
    let first = |side: &str| side.split(',').next().and_then(|number| number.parse().ok());
    Some((first(sides.next()?)?, first(sides.next()?.strip_prefix('+')?)?))
}

pub(super) fn render(files: &[FilePatch]) -> Markup {
    let (added, removed): (u32, u32) =
        files.iter().fold((0, 0), |sum, file| (sum.0 + file.added, sum.1 + file.removed));
    let shown = files.iter().scan(MOST_LINES, |room, file| {
        let shown = file.lines.len().min(*room);
        *room -= shown;
        Some(shown)
    });
    html! {
        p.diff-sum {
            (files.len()) @if files.len() == 1 { " file, " } @else { " files, " }
            span.is-good { "+" (added) } " " span.is-bad { "−" (removed) }
        }
        @for (file, shown) in files.iter().zip(shown) {
            details.file.panel data-file=(file.path) open[file.lines.len() <= FOLDED] {
                summary {
                    span { (file.path) }
                    @if let Some(note) = &file.note { span.muted { (note) } }
                    span.adds { "+" (file.added) } span.dels { "−" (file.removed) }
                }
                @if shown > 0 { (lines(file, shown)) }
                @if shown < file.lines.len() {
                    p.empty { (file.lines.len() - shown) " more lines: " code { "dacapo diff" } " shows all" }
                }
            }
        }
    }
}

fn lines(file: &FilePatch, shown: usize) -> Markup {
    let language = highlight::LanguageFamily::of(&file.path);
    html! {
        div.diff tabindex="0" {
            @for line in &file.lines[..shown] {
                @match line {
                    PatchLine::Hunk(text) => div.hunk { (text) },
                    PatchLine::Line { kind, before, after, text } => {
                        @let (class, mark) = match kind { DiffLineKind::Added => ("l add", "+"), DiffLineKind::Removed => ("l del", "−"), DiffLineKind::Same => ("l", " ") };
                        div class=(class) {
                            span.n { @if let Some(number) = before { (number) } }
                            span.n { @if let Some(number) = after { (number) } }
                            span.m { (mark) }
                            span.t { (highlight::render(language, text)) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &[u8] = b"diff --git a/src/auth.rs b/src/auth.rs
index 1..2 100644
--- a/src/auth.rs
+++ b/src/auth.rs
@@ -12,3 +12,4 @@ fn check() {
 let a = 1;
-let b = \"<script>\";
+let b = \x1b[31m2;
+let c = 3;
diff --git a/old.txt b/new name.txt
similarity index 100%
rename from old.txt
rename to new name.txt
diff --git a/x.png b/x.png
new file mode 100644
Binary files /dev/null and b/x.png differ
";

    #[test]
    fn files_lines_and_notes_are_read() {
        let files = parse(PATCH);
        let shown: Vec<(&str, Option<&str>, u32, u32)> = files
            .iter()
            .map(|file| (file.path.as_str(), file.note.as_deref(), file.added, file.removed))
            .collect();
        let expected = [
            ("src/auth.rs", None, 2, 1),
            ("new name.txt", Some("renamed"), 0, 0),
            ("x.png", Some("binary"), 0, 0),
        ];
        assert_eq!(shown, expected);
        assert_eq!(
            files[0].lines[3],
            PatchLine::Line {
                kind: DiffLineKind::Added,
                before: None,
                after: Some(13),
                text: "let b = 2;".to_owned()
            }
        );
    }

    #[test]
    fn html_in_a_patch_is_text() {
        let drawn = render(&parse(PATCH)).into_string();
        assert!(!drawn.contains("<script>"), "{drawn}");
        assert!(drawn.contains("&lt;script&gt;"));
    }
}
