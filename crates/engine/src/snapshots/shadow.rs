//! Snapshots beside the user's own work: a git dir that shares the repository's objects and nothing else, so that
//! the user's index, HEAD, branch and stash stay as they are, to the byte.
//!
//! Its index is kept between snapshots, so that only files whose stat changed are read. Nothing changed costs one
//! process, something changed two. Objects land in the user's repository and are held by `refs/dacapo/<loop>`.

use std::{
    cell::RefCell,
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use dacapo_core::ids::LoopId;
use memchr::memmem;

use super::{
    Snapshot, Warning,
    guard::ShadowGuard,
    known::{self, IndexKey, KnownIndex, digest_of_index},
    rules_at_start,
    state::{ShadowState, fingerprint_of},
};
use crate::{
    git::{Checkout, GitCall, GitOutput, WorkspaceError, failed_call, on_disk, replace, split_nul},
    repository::branch_of,
};

/// How many times longer than other calls the first snapshot may take, which reads every file.
const FIRST_TIME: u32 = 10;

/// The shadow of one loop in one repository.
pub(crate) struct Shadow {
    pub(crate) checkout: Checkout,
    pub(crate) loop_id: LoopId,
    pub(crate) folder: PathBuf,
    pub(crate) state: ShadowState,
    pub(crate) warnings: Vec<Warning>,
    /// Files that were told to be left out, so that each is told once.
    pub(super) told_left_out: Vec<Warning>,
    pub(crate) home: PathBuf,
    /// Whether the index is known to hold exactly the latest snapshot; not so after a crash between adding and
    /// committing.
    is_settled: bool,
    pub(crate) guard: Option<ShadowGuard>,
    /// The snapshot that was written last, and its tree.
    known_tree: Option<(String, String)>,
    /// The commit that HEAD named when the loop began and all its files, where the index and the work tree hold nothing else.
    pub(crate) files_of_head: Option<(String, Vec<Vec<u8>>)>,
    /// The filters that hold although others may be set up by now.
    pub(crate) given_filters: Option<Vec<(String, String)>>,
    /// Whether an agent said that there is to be worked in this repository.
    pub(crate) is_chosen_by_agent: bool,
    /// The repository's configuration that was looked at last, as a number, and what undoes its filters.
    pub(crate) undone: RefCell<Option<(u64, Vec<String>)>>,
    /// What HEAD named when it was last found where commits of the loop may go.
    pub(crate) last_seen_head: RefCell<Option<String>>,
}

impl Shadow {
    /// The shadow in `folder`; made by `begin` if it is not there yet.
    pub(crate) fn open(
        checkout: Checkout,
        home: &Path,
        folder: PathBuf,
        loop_id: LoopId,
    ) -> Result<Self, WorkspaceError> {
        let known = ShadowState::read(&folder.join("dacapo.json"))?;
        let is_new = known.is_none();
        let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
        let (state, warnings) = (known.unwrap_or_default(), Vec::new());
        let mut shadow = Self {
            checkout,
            loop_id,
            folder,
            state,
            warnings,
            told_left_out: Vec::new(),
            home,
            is_settled: false,
            guard: None,
            known_tree: None,
            files_of_head: None,
            given_filters: None,
            is_chosen_by_agent: false,
            undone: RefCell::default(),
            last_seen_head: RefCell::default(),
        };
        // Later the state is what the agent made of it, and snapshots can be taken in any.
        if is_new {
            shadow.checkout.check_files()?;
            shadow.state.head = shadow.head_and_tree()?;
        }
        Ok(shadow)
    }

    /// The ref that holds the snapshots.
    pub(crate) fn reference(&self) -> String {
        format!("refs/dacapo/{}", self.loop_id)
    }

    /// The first snapshot; taken once, also if asked for again.
    pub(crate) fn begin(&mut self) -> Result<Snapshot, WorkspaceError> {
        if let Some(id) = self.state.start.clone() {
            return Ok(Snapshot { id, changed: false });
        }
        let (listed, has_flags) = self.make()?;
        self.note_dirty_submodules()?;
        let began = SystemTime::now();
        let printed = self.add()?;
        self.leave_out(&printed, began)?;
        // What was listed before files were added is still all there is.
        let is_all = memmem::find(&printed, b".gitignore'\n").is_none();
        let is_head = printed.is_empty() && !self.state.had_staged;
        if let (Some((head, _)), true) = (&self.state.head, is_head) {
            let files = split_nul(&listed).filter_map(|entry| entry.get(2..)).map(<[u8]>::to_vec).collect();
            self.files_of_head = Some((head.clone(), files));
        }
        self.freeze_rules(is_all.then_some(listed.as_slice()))?;
        // Where the files are those of HEAD and nothing is hidden, their tree is known.
        let is_plain = is_head && !has_flags && !self.state.is_sparse && self.warnings.is_empty();
        let tree = self.state.head.clone().filter(|_| is_plain).map(|(_, tree)| tree);
        let id = match tree.and_then(|tree| self.taken_before(&tree)) {
            Some(id) => id,
            None => {
                let id = self.commit("dacapo snapshot 0")?;
                if let Some((_, tree)) = &self.known_tree {
                    known::keep_snapshot(&self.checkout.common_dir, tree, &id);
                }
                id
            }
        };
        self.state.start = Some(id.clone());
        self.remember(&id)?;
        self.note();
        Ok(Snapshot { id, changed: true })
    }

    /// The first snapshot that this process took of the same tree for an earlier loop, held by the ref of this loop, too.
    fn taken_before(&mut self, tree: &str) -> Option<String> {
        let common_dir = &self.checkout.common_dir;
        let id = known::snapshot_of(common_dir, tree)?;
        // It may be packed or gone by now, or no longer what it was.
        if on_disk::tree_of_commit(common_dir, &id).as_deref() != Some(tree)
            || !on_disk::make_reference(common_dir, &self.reference(), &id)
        {
            return None;
        }
        self.known_tree = Some((id.clone(), tree.to_owned()));
        Some(id)
    }

    /// The files as they are now.
    pub(crate) fn snapshot(&mut self, n: u64) -> Result<Snapshot, WorkspaceError> {
        let message = format!("dacapo snapshot {n}");
        let last = self.last()?;
        self.mend()?;
        let was_settled = std::mem::take(&mut self.is_settled);
        if !was_settled {
            self.remove_own_locks();
        }
        let began = SystemTime::now();
        let mut printed = self.add()?;
        let is_left_out = self.leave_out(&printed, began)?;
        let rules = self.checkout.common_dir.join("info/exclude");
        let moved = memmem::find(&printed, b".gitignore'\n").is_some()
            || fingerprint_of(&rules) != self.state.exclude;
        if moved && !self.state.rules_moved {
            self.state.rules_moved = true;
            self.save()?;
        }
        let is_corrected = self.state.rules_moved
            && self.apply_rules_at_start(!was_settled || memmem::find(&printed, b"add '").is_some())?;
        if !was_settled || is_corrected || is_left_out {
            // What was printed is not the whole story here; the trees are.
            let now = self.call()?.args(["write-tree"]).ok()?.line();
            if now == self.tree_of(&last)? {
                printed.clear();
            } else if printed.is_empty() {
                printed.push(b'\n');
            }
        }
        if printed.is_empty() {
            self.is_settled = true;
            self.note();
            return Ok(Snapshot { id: last, changed: false });
        }
        self.keep_reference(&last)?;
        let id = self.commit(&message)?;
        self.remember(&id)?;
        self.note();
        Ok(Snapshot { id, changed: true })
    }

    /// One dacapo runs a loop at a time, so a lock on what only it writes is left by a git that was killed (fault H4).
    pub(super) fn remove_own_locks(&self) {
        let reference = self.checkout.common_dir.join(format!("{}.lock", self.reference()));
        for lock in [self.folder.join("index.lock"), self.folder.join("HEAD.lock"), reference] {
            let _ = fs::remove_file(lock);
        }
    }

    pub(crate) fn last(&self) -> Result<String, WorkspaceError> {
        self.state.last.clone().ok_or_else(|| WorkspaceError::NotBegun(self.loop_id.to_string()))
    }

    pub(crate) fn remember(&mut self, id: &str) -> Result<(), WorkspaceError> {
        self.state.last = Some(id.to_owned());
        self.save()?;
        self.is_settled = true;
        Ok(())
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Says that the index holds exactly the latest snapshot.
    pub(crate) fn settle(&mut self) {
        self.is_settled = true;
    }

    /// Whether the ref that holds the snapshots is where it was left, so that all of them are there.
    pub(crate) fn holds_snapshots(&self) -> bool {
        self.state.last.is_some() && self.read_reference() == self.state.last
    }

    /// Says that the index may not hold the latest snapshot.
    pub(crate) fn unsettle(&mut self) {
        self.is_settled = false;
    }

    fn save(&self) -> Result<(), WorkspaceError> {
        self.state.write(&self.folder.join("dacapo.json"))
    }

    pub(crate) fn tree_of(&self, id: &str) -> Result<String, WorkspaceError> {
        if let Some((known, tree)) = &self.known_tree
            && known == id
        {
            return Ok(tree.clone());
        }
        let name = format!("{id}^{{tree}}");
        let output = self
            .checkout
            .call()
            .args(["rev-parse", "--quiet", "--verify", "--end-of-options", &name])
            .run()?;
        if output.code == Some(0) {
            Ok(output.line())
        } else {
            Err(WorkspaceError::NoSnapshot(id.to_owned()))
        }
    }

    /// A call on the shadow's index and the user's files, with the rules and filters of the loop's beginning.
    pub(crate) fn call(&self) -> Result<GitCall<'_>, WorkspaceError> {
        let toplevel = &self.checkout.toplevel;
        let mut excludes = OsString::from("core.excludesFile=");
        excludes.push(self.folder.join("exclude"));
        let mut call = self
            .checkout
            .git
            .call(toplevel)
            .at(&self.folder, toplevel)
            .config(excludes)
            .config(format!("core.sparseCheckout={}", self.state.is_sparse))
            .config("index.sparse=false")
            .config("core.splitIndex=false")
            .config("core.logAllRefUpdates=false")
            .config("core.safecrlf=false")
            .config("diff.ignoreSubmodules=dirty");
        for setting in self.filter_settings()? {
            call = call.config(setting);
        }
        Ok(call)
    }

    /// The folder, with an index that knows as much as the user's; gives what that lists, as `clear_flags` does, and whether files in
    /// it had flags.
    fn make(&mut self) -> Result<(Vec<u8>, bool), WorkspaceError> {
        let folder = self.folder.clone();
        let checkout = self.checkout.clone();
        // Left by a beginning that was cut short.
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(WorkspaceError::io("remove", folder)(error));
            }
            _ => {}
        }
        let failed = || WorkspaceError::io("make the shadow", folder.clone());
        crate::home::make_dir(&folder.join("info")).map_err(failed())?;
        fs::write(folder.join("HEAD"), format!("ref: {}\n", self.reference())).map_err(failed())?;
        let common = [checkout.common_dir.as_os_str().as_bytes(), b"\n"].concat();
        fs::write(folder.join("commondir"), common).map_err(failed())?;
        let sparse = checkout.git_dir.join("info/sparse-checkout");
        if sparse.is_file() {
            fs::copy(sparse, folder.join("info/sparse-checkout")).map_err(failed())?;
        }
        let config = self.list_config()?;
        let (filters, print) = self.filters_to_keep(&config)?;
        let head = self.head_and_tree()?;
        let has_index = copy_index(&checkout.git_dir, &folder).map_err(failed())?;
        // With a part of the tree, submodules or an index in two files more than these bytes decides.
        let is_plain =
            !config.is_on("core.sparsecheckout") && !checkout.toplevel.join(".gitmodules").exists();
        let key = head.as_ref().filter(|_| is_plain).and_then(|(head, _)| {
            let digest = digest_of_index(&folder)?;
            Some(IndexKey { git_dir: checkout.git_dir.clone(), head: head.clone(), config: print, digest })
        });
        let known = key.as_ref().and_then(known::index);
        let had_staged = match &known {
            Some(known) => known.has_staged,
            None if key.as_ref().is_some_and(known::is_as_filled) => false,
            None => {
                let call = checkout.call().args(["diff", "--cached", "--quiet", "--no-ext-diff"]);
                let call = call.args(["--no-textconv"]);
                let shown = call.shown();
                let staged = call.run()?;
                match staged.code {
                    Some(0) => false,
                    Some(1) => true,
                    _ => return Err(failed_call(shown, checkout.toplevel, &staged).into()),
                }
            }
        };
        self.state = ShadowState {
            head,
            had_staged,
            is_sparse: config.is_on("core.sparsecheckout"),
            filters,
            config: print,
            exclude: fingerprint_of(&checkout.common_dir.join("info/exclude")),
            ..ShadowState::default()
        };
        let mut excludes = config.global_excludes();
        excludes.push(b'\n');
        excludes.extend(rules_at_start::SECRETS.join("\n").bytes());
        excludes.push(b'\n');
        excludes.extend(self.state_folder_pattern());
        replace(&folder.join("exclude"), &excludes)?;
        if checkout.common_dir.join("reftable").is_dir() {
            // Such refs have no files; the shadow needs a place for its own HEAD.
            crate::home::make_dir(&folder.join("reftable")).map_err(failed())?;
            crate::home::make_dir(&folder.join("refs")).map_err(failed())?;
            self.call()?.args(["symbolic-ref", "HEAD", &self.reference()]).ok()?;
        }
        if !has_index && checkout.head()?.is_some() {
            self.call()?
                .args(["read-tree", "HEAD"])
                .env("GIT_DIR", &checkout.git_dir)
                .env("GIT_INDEX_FILE", folder.join("index"))
                .ok()?;
        }
        if let Some(known) = known {
            return Ok((known.listed, false));
        }
        let (listed, has_flags) = self.clear_flags()?;
        // The user's git may have written it since it was copied; then git spoke of another one.
        let is_same = |key: &IndexKey| digest_of_index(&checkout.git_dir).as_ref() == Some(&key.digest);
        if let Some(key) = key.filter(|key| !has_flags && is_same(key)) {
            known::keep_index(key, KnownIndex { has_staged: had_staged, listed: listed.clone() });
        }
        Ok((listed, has_flags))
    }

    /// Files the user told git not to look at are looked at by us. Gives all there are: a letter, a space, the path, NUL; and
    /// whether git was told so about some of them.
    pub(crate) fn clear_flags(&self) -> Result<(Vec<u8>, bool), WorkspaceError> {
        let listed = self.call()?.args(["ls-files", "-v", "-z"]).ok()?.stdout;
        let marked = |is: &dyn Fn(u8) -> bool| -> Vec<u8> {
            split_nul(&listed).filter(|e| is(e[0])).flat_map(|e| [&e[2..], b"\0"].concat()).collect()
        };
        let assumed = marked(&|tag| tag.is_ascii_lowercase());
        let skipped = marked(&|tag| tag.eq_ignore_ascii_case(&b's'));
        let has_flags = !assumed.is_empty() || !skipped.is_empty();
        if !assumed.is_empty() {
            self.call()?
                .args(["update-index", "--no-assume-unchanged", "-z", "--stdin"])
                .input(assumed)
                .ok()?;
        }
        if !skipped.is_empty() && !self.state.is_sparse {
            self.call()?.args(["update-index", "--no-skip-worktree", "-z", "--stdin"]).input(skipped).ok()?;
        }
        Ok((listed, has_flags))
    }

    fn note_dirty_submodules(&mut self) -> Result<(), WorkspaceError> {
        if !self.checkout.toplevel.join(".gitmodules").exists() {
            return Ok(());
        }
        let status = ["status", "--porcelain=v2", "-z", "--untracked-files=no", "--ignore-submodules=none"];
        let listed = self.call_with_start_filters()?.args(status).ok()?.stdout;
        for entry in split_nul(&listed).filter(|entry| entry.starts_with(b"1 ")) {
            // `1 XY S<c><m><u> mH mI mW hH hI path`
            let fields: Vec<&[u8]> = entry.splitn(9, |b| *b == b' ').collect();
            if let [_, _, [b'S', _, modified, untracked], .., path] = fields[..]
                && (*modified, *untracked) != (b'.', b'.')
            {
                self.warnings.push(Warning::DirtySubmodule(path.to_vec()));
            }
        }
        Ok(())
    }

    /// Takes the files' state into the index; what is printed is what changed.
    pub(crate) fn add(&mut self) -> Result<Vec<u8>, WorkspaceError> {
        let call =
            self.call()?.args(["add", "--all", "--verbose", "--sparse", "--ignore-errors", "--", ":/"]);
        let call = if self.state.start.is_none() { call.patiently(FIRST_TIME) } else { call };
        let shown = call.shown();
        let output = call.run()?;
        let GitOutput { code, stderr, .. } = &output;
        let (mut nested, mut unread) = (Vec::new(), Vec::new());
        for line in stderr.lines() {
            if let Some(path) = line.strip_prefix("warning: adding embedded git repository: ") {
                nested.push(path.trim_end_matches('/'));
            } else if let Some(path) = line.strip_suffix("' does not have a commit checked out") {
                nested.push(path.trim_start_matches("error: '").trim_end_matches('/'));
            } else if let Some(path) = line.strip_prefix("error: unable to index file '") {
                unread.push(path.trim_end_matches('\''));
            }
        }
        if *code != Some(0) && (*code != Some(1) || (nested.is_empty() && unread.is_empty())) {
            return Err(failed_call(shown, self.checkout.toplevel.clone(), &output).into());
        }
        for path in unread {
            self.warnings.push(Warning::Unreadable(path.as_bytes().to_vec()));
        }
        let mut printed = output.stdout.clone();
        if !nested.is_empty() {
            self.exclude_nested_repositories(&nested)?;
            for path in &nested {
                printed = without(&printed, format!("add '{path}/'\n").as_bytes());
            }
        }
        Ok(printed)
    }

    /// Commits the index as it is and gives the commit's id.
    pub(crate) fn commit(&mut self, message: &str) -> Result<String, WorkspaceError> {
        let args =
            ["commit", "--quiet", "--no-verify", "--allow-empty", "--no-gpg-sign", "--cleanup=verbatim"];
        let mut call = self.call()?.config(on_disk::STORED).args(args).args(["--no-status", "-m", message]);
        for role in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] {
            call = call.env(role, "dacapo");
        }
        for role in ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
            call = call.env(role, "dacapo@localhost");
        }
        call.ok()?;
        let id = match self.read_reference() {
            Some(id) => id,
            None => self.call()?.args(["rev-parse", "--verify", &self.reference()]).ok()?.line(),
        };
        let tree = on_disk::tree_of_commit(&self.checkout.common_dir, &id);
        self.known_tree = tree.map(|tree| (id.clone(), tree));
        Ok(id)
    }

    fn read_reference(&self) -> Option<String> {
        on_disk::reference(&self.checkout.common_dir, &self.reference())
    }

    /// Puts the ref back if the agent or the user moved or deleted it, so that snapshots stay one chain.
    fn keep_reference(&mut self, last: &str) -> Result<(), WorkspaceError> {
        let is_elsewhere = self.checkout.common_dir.join("reftable").is_dir();
        if is_elsewhere || self.read_reference().as_deref() == Some(last) {
            return Ok(());
        }
        let output = self.call()?.args(["update-ref", &self.reference(), last]).run()?;
        self.warnings.push(Warning::ReferenceMoved { is_lost: output.code != Some(0) });
        Ok(())
    }
}

impl Shadow {
    /// The branch that HEAD is on, from its file where that tells.
    pub(crate) fn branch(&self) -> Result<Option<String>, WorkspaceError> {
        let Checkout { git_dir, common_dir, .. } = &self.checkout;
        match on_disk::head_branch(git_dir, common_dir) {
            Some(branch) => Ok(Some(branch)),
            None => branch_of(&self.checkout),
        }
    }

    /// Whether HEAD is on `branch`, and that at `commit`, where the loop found it or where it was looked at before, as far
    /// as files tell.
    pub(crate) fn head_is_at(&self, branch: &str, commit: &str) -> bool {
        let Checkout { git_dir, common_dir, .. } = &self.checkout;
        if on_disk::head_branch(git_dir, common_dir).as_deref() != Some(branch) {
            return false;
        }
        let Some(head) = on_disk::head(git_dir, common_dir).flatten() else { return false };
        let first = self.state.head.as_ref().map(|(head, _)| head.as_str());
        head == commit || first == Some(&head) || self.last_seen_head.borrow().as_ref() == Some(&head)
    }
}

/// Copies the index with its time: git takes a file as recent as the index for possibly changed, and a newer time
/// would make it trust what it should look at.
fn copy_index(from: &Path, to: &Path) -> io::Result<bool> {
    let mut source = match fs::File::open(from.join("index")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        source => source?,
    };
    let modified = source.metadata()?.modified()?;
    let mut target = fs::File::create(to.join("index"))?;
    io::copy(&mut source, &mut target)?;
    target.set_times(fs::FileTimes::new().set_modified(modified))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_name().as_bytes().starts_with(b"sharedindex.") {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(true)
}

fn without(text: &[u8], part: &[u8]) -> Vec<u8> {
    match memmem::find(text, part) {
        Some(at) => [&text[..at], &text[at + part.len()..]].concat(),
        None => text.to_vec(),
    }
}
