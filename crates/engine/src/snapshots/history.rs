//! Looking at snapshots and commits: what differs, what a file held, what the agent committed by itself.

use memchr::memchr;

use super::{ChangeKind, DiffForm, LookBack, PathChange, known, shadow::Shadow};
use crate::{
    git::{Checkout, WorkspaceError, failed_call, on_disk, split_nul},
    scratch::Scratch,
};

/// What every diff is made with: no program of the repository's runs, no setting of the user's changes the form.
const DIFF: &[&str] =
    &["--raw", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-relative", "--no-abbrev"];

/// How many times longer than other calls one may take that reads every file of a snapshot.
const PATIENTLY: u32 = 5;

/// How many commits of an agent are read one by one; beyond that git walks.
const FEW: usize = 16;

/// What git keeps under a name.
struct Object {
    id: String,
    kind: String,
    content: Vec<u8>,
}

impl Shadow {
    /// Hashes every object of a snapshot again. git believes the name of an object's file when it reads one, and compares it with
    /// the content only when it verifies a pack, so all of them are packed.
    pub(crate) fn check_objects(&self, id: &str) -> Result<(), WorkspaceError> {
        let scratch = Scratch::new("dacapo-objects")
            .map_err(WorkspaceError::io("make a folder in", std::env::temp_dir()))?;
        let call = || self.checkout.call().patiently(PATIENTLY);
        let list = ["rev-list", "--objects", "--no-object-names", "--no-walk", "--end-of-options", id];
        let objects = call().args(list).ok()?.stdout;
        let pack = call().args(["pack-objects", "-q", "--window=0", "--no-reuse-delta"]);
        let name = pack.args([scratch.path().join("pack")]).input(objects).ok()?.line();
        call().args(["verify-pack"]).args([scratch.path().join(format!("pack-{name}.idx"))]).ok()?;
        Ok(())
    }

    pub(crate) fn changes(&self, from: &str, to: &str) -> Result<Vec<PathChange>, WorkspaceError> {
        let output = self
            .checkout
            .call()
            .args(["diff-tree", "-r", "--no-commit-id", "--ignore-submodules=dirty"])
            .args(DIFF)
            .args(["--end-of-options", from, to])
            .ok()?;
        Ok(parse_raw(&output.stdout))
    }

    /// The difference between two snapshots, as git prints it.
    pub(crate) fn difference(&self, from: &str, to: &str, form: DiffForm) -> Result<Vec<u8>, WorkspaceError> {
        let form = match form {
            DiffForm::Patch { is_coloured: true } => vec!["-p".to_owned(), "--color=always".to_owned()],
            DiffForm::Patch { is_coloured: false } => vec!["-p".to_owned(), "--no-color".to_owned()],
            DiffForm::Stat { columns } => vec![format!("--stat={columns}"), "--no-color".to_owned()],
        };
        let output = self
            .checkout
            .call()
            .args(["diff-tree", "-r", "--no-commit-id", "--ignore-submodules=dirty", "--no-relative"])
            .args(["--no-ext-diff", "--no-textconv", "--find-renames"])
            .args(form)
            .args(["--end-of-options", from, to])
            .ok()?;
        Ok(output.stdout)
    }

    pub(crate) fn first_parents(&self, from: &str, to: &str) -> Result<Vec<String>, WorkspaceError> {
        let range = format!("{from}..{to}");
        let output =
            self.checkout.call().args(["rev-list", "--first-parent", "--end-of-options", &range]).ok()?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }

    /// Every path of a snapshot.
    pub(crate) fn files(&self, id: &str) -> Result<Vec<Vec<u8>>, WorkspaceError> {
        if let Some((head, files)) = &self.files_of_head
            && head == id
        {
            return Ok(files.clone());
        }
        let output = self
            .checkout
            .call()
            .args(["ls-tree", "-r", "-z", "--name-only", "--full-tree", "--end-of-options", id])
            .ok()?;
        Ok(split_nul(&output.stdout).map(<[u8]>::to_vec).collect())
    }

    /// Files of the snapshot that are not in the work tree now as they were; new files do not count.
    pub(crate) fn disturbed_since(&self, id: &str) -> Result<Vec<Vec<u8>>, WorkspaceError> {
        let (call, _scratch) = self.trusted_call(id)?;
        let output = call
            .args(["diff", "--diff-filter=a", "--ignore-submodules=dirty", "-O/dev/null"])
            .args(DIFF)
            .args([id, "--"])
            .ok()?;
        Ok(parse_raw(&output.stdout).into_iter().map(|change| change.path).collect())
    }

    /// Those of `paths` that the user's git would not add by itself.
    pub(crate) fn ignored_now(&self, paths: &[&[u8]]) -> Result<Vec<Vec<u8>>, WorkspaceError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let ask = |more: &[&str]| {
            let call = self.checkout.call().args(["check-ignore", "-z", "--stdin"]).args(more);
            call.input(paths.join(&b'\0'))
        };
        let mut output = ask(&[]).run()?;
        if !matches!(output.code, Some(0 | 1)) {
            // An index that an agent has broken decides nothing.
            let call = ask(&["--no-index"]);
            let shown = call.shown();
            output = call.run()?;
            if !matches!(output.code, Some(0 | 1)) {
                return Err(failed_call(shown, self.checkout.toplevel.clone(), &output).into());
            }
        }
        Ok(split_nul(&output.stdout).map(<[u8]>::to_vec).collect())
    }

    pub(crate) fn files_at(&self, id: &str, paths: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, WorkspaceError> {
        let names: Vec<Vec<u8>> = paths.iter().map(|path| file_name(id, path)).collect();
        Ok(self.objects(&names)?.into_iter().map(blob).collect())
    }

    /// The content of files in two snapshots.
    pub(crate) fn files_of_both(
        &self,
        snapshots: [&str; 2],
        paths: &[&[u8]],
    ) -> Result<[Vec<Option<Vec<u8>>>; 2], WorkspaceError> {
        let names: Vec<Vec<u8>> =
            snapshots.iter().flat_map(|id| paths.iter().map(|path| file_name(id, path))).collect();
        let mut old: Vec<Option<Vec<u8>>> = self.objects(&names)?.into_iter().map(blob).collect();
        let new = old.split_off(paths.len());
        Ok([old, new])
    }

    /// The commit that HEAD names and its tree, by one process at most, and by none if this process has asked git for that commit
    /// before; none on an unborn branch.
    pub(crate) fn head_and_tree(&self) -> Result<Option<(String, String)>, WorkspaceError> {
        if let Some(found) = self.head_in_files() {
            return Ok(Some(found));
        }
        let Checkout { git_dir, common_dir, .. } = &self.checkout;
        if let Some(Some(commit)) = on_disk::head(git_dir, common_dir)
            && let Some(tree) = known::tree_of(common_dir, &commit)
        {
            return Ok(Some((commit, tree)));
        }
        let output =
            self.checkout.call().args(["rev-parse", "--quiet", "HEAD^{commit}", "HEAD^{tree}"]).run()?;
        let text = output.line();
        if let (Some(0), Some((commit, tree))) = (output.code, text.split_once('\n')) {
            known::keep_tree(common_dir, commit, tree);
            return Ok(Some((commit.to_owned(), tree.to_owned())));
        }
        // `head` says what is wrong with HEAD.
        match self.checkout.head()? {
            Some(commit) => Ok(Some((commit.clone(), self.tree_of(&commit)?))),
            None => Ok(None),
        }
    }

    /// HEAD and its tree without a process, where git's files tell: HEAD is still the commit that the loop began at. The tree of any other is asked of
    /// git, which checks that the commit is what its name says: an agent can write other content into the file of one.
    pub(crate) fn head_in_files(&self) -> Option<(String, String)> {
        let Checkout { git_dir, common_dir, .. } = &self.checkout;
        let head = on_disk::head(git_dir, common_dir)??;
        self.state.head.clone().filter(|known| known.0 == head)
    }

    /// The content of files in two snapshots and the commits on top of `base`, by one process if they are few.
    pub(crate) fn look_back(
        &self,
        snapshots: [&str; 2],
        paths: &[&[u8]],
        base: Option<&str>,
    ) -> Result<LookBack, WorkspaceError> {
        let Checkout { git_dir, common_dir, .. } = &self.checkout;
        let head = match on_disk::head(git_dir, common_dir) {
            Some(head) => head,
            None => self.checkout.head()?,
        };
        let moved = head.filter(|head| Some(head.as_str()) != base);
        let mut names: Vec<Vec<u8>> =
            snapshots.iter().flat_map(|id| paths.iter().map(|path| file_name(id, path))).collect();
        // Where nothing else is asked for, git itself may as well walk.
        if let (Some(head), false) = (&moved, names.is_empty()) {
            names.extend((0..=FEW).map(|n| format!("{head}~{n}").into_bytes()));
        }
        let mut objects = if names.is_empty() { Vec::new() } else { self.objects(&names)? };
        let commits = objects.split_off(objects.len().min(2 * paths.len()));
        let mut files = objects.into_iter().map(blob);
        let old = files.by_ref().take(paths.len()).collect();
        let contents = [old, files.collect()];
        let Some(head) = moved else { return Ok((contents, Vec::new())) };
        if let Some(commits) = line_from(base, commits) {
            return Ok((contents, commits));
        }
        let commits = match self.commits_between(base, &head) {
            Ok(commits) => commits,
            // A base that is gone is no proof of anything and no reason to fail; a HEAD that leads nowhere is.
            Err(_) => {
                self.checkout.head()?;
                Vec::new()
            }
        };
        Ok((contents, commits))
    }

    /// Objects by any name git knows them under, in the order asked for.
    fn objects(&self, names: &[Vec<u8>]) -> Result<Vec<Option<Object>>, WorkspaceError> {
        let input = names.iter().flat_map(|name| [name, &b"\0"[..]].concat()).collect();
        let output = self.checkout.call().args(["cat-file", "--batch", "-z"]).input(input).ok()?.stdout;
        let mut rest = output.as_slice();
        let mut objects = Vec::new();
        for name in names {
            let garbled = || WorkspaceError::NoSnapshot(String::from_utf8_lossy(name).into_owned());
            // The name may hold a newline, so the answer is told from what was asked.
            if let Some(after) =
                rest.strip_prefix(name.as_slice()).and_then(|r| r.strip_prefix(b" missing\n"))
            {
                rest = after;
                objects.push(None);
                continue;
            }
            let end = memchr(b'\n', rest).ok_or_else(garbled)?;
            let head = String::from_utf8_lossy(&rest[..end]).into_owned();
            let (id, kind, size) = match head.split(' ').collect::<Vec<_>>()[..] {
                [id, kind, size] => (id, kind, size.parse::<usize>().map_err(|_| garbled())?),
                // The commit of a submodule is not here.
                [_, "submodule"] => {
                    rest = &rest[end + 1..];
                    objects.push(None);
                    continue;
                }
                _ => return Err(garbled()),
            };
            let content = rest.get(end + 1..end + 1 + size).ok_or_else(garbled)?.to_vec();
            rest = rest.get(end + 2 + size..).ok_or_else(garbled)?;
            objects.push(Some(Object { id: id.to_owned(), kind: kind.to_owned(), content }));
        }
        Ok(objects)
    }

    /// Commits of `head` that are not of `base`, oldest first.
    pub(crate) fn commits_between(
        &self,
        base: Option<&str>,
        head: &str,
    ) -> Result<Vec<String>, WorkspaceError> {
        let mut call = self.checkout.call().args(["rev-list", "--reverse", "--end-of-options", head]);
        if let Some(base) = base {
            call = call.args([format!("^{base}")]);
        }
        let output = call.ok()?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }
}

fn file_name(id: &str, path: &[u8]) -> Vec<u8> {
    [id.as_bytes(), b":", path].concat()
}

fn blob(object: Option<Object>) -> Option<Vec<u8>> {
    object.filter(|object| object.kind == "blob").map(|object| object.content)
}

/// The commits of a line, newest first, down to `base`, turned round; none if it is no line or does not lead there.
fn line_from(base: Option<&str>, commits: Vec<Option<Object>>) -> Option<Vec<String>> {
    let mut line = Vec::new();
    for commit in commits {
        let commit = commit.filter(|object| object.kind == "commit")?;
        if base == Some(commit.id.as_str()) {
            line.reverse();
            return Some(line);
        }
        let head = commit.content.split(|b| *b == b'\n').take_while(|line| !line.is_empty());
        let parents = head.filter(|line| line.starts_with(b"parent ")).count();
        line.push(commit.id);
        match (parents, base) {
            (0, None) => {
                line.reverse();
                return Some(line);
            }
            (1, _) => {}
            _ => return None,
        }
    }
    None
}

/// `:mode mode id id X` and a path, each ended by NUL.
fn parse_raw(raw: &[u8]) -> Vec<PathChange> {
    let mut parts = split_nul(raw);
    let mut changes = Vec::new();
    while let (Some(head), Some(path)) = (parts.next(), parts.next()) {
        let kind = match head.rsplit(|b| *b == b' ').next().and_then(|word| word.first()) {
            Some(b'A') => ChangeKind::Added,
            Some(b'D') => ChangeKind::Deleted,
            Some(b'T') => ChangeKind::TypeChanged,
            _ => ChangeKind::Modified,
        };
        // An unmerged path is told twice.
        if changes.last().is_none_or(|last: &PathChange| last.path != path) {
            changes.push(PathChange { kind, path: path.to_vec() });
        }
    }
    changes
}
