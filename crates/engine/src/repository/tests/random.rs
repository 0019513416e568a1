//! Random sequences of operations never lose what a person wrote, committed or not.

use std::collections::{BTreeMap, HashSet};

use super::{targets::files, *};

/// A small generator, so that a failure can be run again by its number.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // xorshift
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// What the person in the main checkout has written since their last commit, and all commits ever made.
#[derive(Default)]
struct Person {
    written: BTreeMap<String, Option<String>>,
    commits: HashSet<String>,
}

fn check(fixture: &Fixture, person: &Person, seed: u64, done: &[String]) {
    for (path, content) in &person.written {
        assert_eq!(fixture.read(path), *content, "seed {seed}: {path} after {done:?}");
    }
    for commit in &person.commits {
        let held = fixture.user(&["for-each-ref", "--contains", commit]);
        assert!(!held.is_empty(), "seed {seed}: {commit} is lost after {done:?}");
    }
}

#[test]
fn no_byte_is_lost_whatever_is_done() {
    for seed in 1..=8_u64 {
        let fixture = Fixture::new();
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (mut person, mut done) = (Person::default(), Vec::new());
        let mut worktrees: Vec<Worktree> = Vec::new();
        for n in 0..30 {
            let what = dice.roll(9);
            let name = format!("f{}", dice.roll(4));
            done.push(format!("{what} {name}"));
            match what {
                // The person writes, deletes or commits.
                0 | 1 => {
                    fixture.write(&name, &format!("mine {n}\n"));
                    person.written.insert(name, Some(format!("mine {n}\n")));
                }
                2 if fixture.path(&name).exists() => {
                    fs::remove_file(fixture.path(&name)).unwrap();
                    person.written.insert(name, None);
                }
                3 => {
                    fixture.user(&["add", "-A"]);
                    fixture.user(&["commit", "-q", "--allow-empty", "-m", "mine"]);
                    person.commits.insert(fixture.user(&["rev-parse", "HEAD"]).trim().to_owned());
                    person.written.clear();
                }
                // A unit works.
                4 | 5 => {
                    let repo = fixture.opened();
                    let worktree = repo.worktree(&unit(&name), &project(), "main", None).unwrap();
                    fs::write(worktree.path.join(format!("f{}", dice.roll(6))), format!("unit {n}\n"))
                        .unwrap();
                    if dice.roll(3) > 0 {
                        person.commits.insert(fixture.commit_in(&worktree.path, "work"));
                    }
                    worktrees.retain(|known| known.path != worktree.path);
                    worktrees.push(worktree);
                }
                // It is merged, perhaps with a crash in the middle.
                6 | 7 => {
                    let Some(worktree) = worktrees.last() else { continue };
                    let repo = fixture.opened();
                    let main = repo.branch("main").unwrap().unwrap();
                    if repo.branch(&worktree.branch).unwrap().is_none() {
                        continue;
                    }
                    let Merged::Clean { tree } = repo.merge(&main, &worktree.branch).unwrap() else {
                        continue;
                    };
                    let new = repo.commit_merge(&tree, [&main, &worktree.branch], "merge").unwrap();
                    let clean = repo.dirt(&repo.checkout, "all", "dirty").unwrap().is_empty();
                    if dice.roll(2) == 0 && clean {
                        let (worktree, old) = (fixture.repo(), main.clone());
                        let step = super::move_branch::BranchMove {
                            worktree,
                            branch: "main".into(),
                            old,
                            new: new.clone(),
                        };
                        repo.note_move(&step).unwrap();
                        repo.swap_for(&step).unwrap();
                        continue;
                    }
                    let moved = repo.move_target("main", &new, &main, &format!("u{n}")).unwrap();
                    assert!(!matches!(moved, TargetMoved::Overtaken { .. }));
                }
                _ => {
                    if let Some(worktree) = worktrees.pop() {
                        let repo = fixture.opened();
                        let before = files(&worktree.path);
                        let dirty = !fixture.git_in(&worktree.path, &["status", "--porcelain"]).is_empty();
                        let removal = repo.remove(&worktree.path, &worktree.branch, "main").unwrap();
                        if removal != WorktreeRemoval::Removed || dirty {
                            assert_eq!(files(&worktree.path), before, "seed {seed}: {done:?}");
                            worktrees.insert(0, worktree);
                        }
                    }
                }
            }
            check(&fixture, &person, seed, &done);
        }
    }
}
