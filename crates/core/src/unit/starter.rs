//! The unit that `dacapo init --unit` begins with: two small tasks that can be worked off as they are.

use crate::ids::UnitId;

/// The files of an example unit: their names, and what they hold. The plan, which makes a folder a unit, comes last.
pub fn starter(unit: &UnitId) -> [(&'static str, String); 3] {
    let plan = format!(
        "\
# {unit}

An example: two tasks, of which the second builds on the first. Put your own words here and your own tasks beside it;
people and agents read this file.

- Each task is a file `NN-name.md`. `backpressure` is the command that proves it: it fails before the work is done, and
  exits 0 afterwards.
- `depends_on` in a task names tasks of this unit by their number. In this file, between two lines of `---` at its very
  beginning, it names other units.
- An agent that cannot do a task as asked says why, between the tags `<blocked>` and `</blocked>` as its prompt shows it, and
  stops. The task stays `pending`, and a person decides.
"
    );
    let greet = format!(
        "\
---
task: 1
status: pending
backpressure: test \"$(sh examples/{unit}.sh World)\" = 'Hello, World!'
---

# Greet a person

`examples/{unit}.sh NAME` prints `Hello, NAME!`.
"
    );
    let guests = format!(
        "\
---
task: 2
status: pending
backpressure: test \"$(cat examples/{unit}.txt)\" = \"$(for name in Ada Grace; do sh examples/{unit}.sh $name; done)\"
depends_on: [1]
---

# Greet two guests

`examples/{unit}.txt` holds what `examples/{unit}.sh` prints for Ada and for Grace, a line each.
"
    );
    [("01-greet.md", greet), ("02-guests.md", guests), ("IMPLEMENTATION_PLAN.md", plan)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::check::{self, File};

    #[test]
    fn the_example_is_a_unit_without_problems_whatever_its_name() {
        for name in ["hello", "a", "9", "Web-App_2.x", &"x".repeat(64)] {
            let unit: UnitId = name.parse().unwrap();
            let files = starter(&unit);
            let [first, second, plan] =
                files.each_ref().map(|(file, text)| File { file, bytes: text.as_bytes() });
            let read = check::unit(&format!("specs/tasks/{name}"), plan, &[first, second]);
            let checked = check::all(vec![read]);
            assert_eq!(checked.problems, [], "{name}");
            let [found] = checked.units.as_slice() else { panic!("{name}: one unit") };
            let tasks: Vec<_> =
                found.tasks.iter().map(|task| (task.spec.number, &*task.spec.depends_on)).collect();
            assert_eq!((found.id.as_str(), tasks), (name, vec![(1, [].as_slice()), (2, &[1])]));
        }
    }
}
