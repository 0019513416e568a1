//! Five stories in a `prd.json`, and what an agent does about one of them: for tests of the workflow `ralph`.

/// A `prd.json` with five stories, none of which passes.
pub const STORIES: &str = r#"{"project": "Greeter", "userStories": [
  {"id": "US-001", "title": "Say hello", "priority": 1, "passes": false},
  {"id": "US-002", "title": "Say goodbye", "priority": 2, "passes": false},
  {"id": "US-003", "title": "Take a name", "priority": 3, "passes": false},
  {"id": "US-004", "title": "Be polite", "priority": 4, "passes": false},
  {"id": "US-005", "title": "Speak French", "priority": 5, "passes": false}
]}
"#;

/// The files that say that the script hangs: once before it has begun with the second story, and once after the commit of the
/// fourth, before `prd.json` says that it passes.
pub const HANGS: [&str; 2] = [".git/hung-before-work", ".git/hung-after-commit"];

/// A script that works on one story, as the prompt of the workflow has it, and prints the promise when all pass.
pub const WORK_ON_ONE: &str = r#"
story=$(grep -m1 '"passes": false' prd.json)
id=$(echo "$story" | sed 's/.*"id": "\([^"]*\)".*/\1/')
title=$(echo "$story" | sed 's/.*"title": "\([^"]*\)".*/\1/')
echo "working on $id"
hang_once() { [ -e "$1" ] || { touch "$1"; while :; do sleep 60; done; }; }
[ "$id" = US-002 ] && hang_once .git/hung-before-work
if ! git log --format=%s | grep -q "^feat: $id - "; then
  echo "$title" > "$id.txt" && git add "$id.txt" && git commit -q -m "feat: $id - $title"
fi
[ "$id" = US-004 ] && hang_once .git/hung-after-commit
sed -i "/\"id\": \"$id\"/s/\"passes\": false/\"passes\": true/" prd.json
echo "$id is done" >> progress.txt
grep -q '"passes": false' prd.json || echo '<promise>COMPLETE</promise>'
"#;
