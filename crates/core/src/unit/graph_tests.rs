use super::*;
use TaskStatus::{Complete, Failed, InProgress, Pending};

fn task(number: u32, status: TaskStatus, depends_on: &[u32]) -> Task {
    let spec = TaskSpec {
        number,
        title: format!("Task {number}"),
        file: format!("specs/tasks/u/{number:02}-x.md"),
        backpressure: "true".to_owned(),
        line: 4,
        depends_on: depends_on.to_vec(),
        writes: Vec::new(),
        frozen: String::new(),
    };
    Task { spec, status }
}

fn unit(id: &str, depends_on: &[&str], status: TaskStatus) -> Unit {
    Unit {
        id: id.parse().unwrap(),
        folder: format!("specs/tasks/{id}"),
        depends_on: depends_on.iter().map(|id| id.parse().unwrap()).collect(),
        provider: None,
        provider_at: None,
        tasks: vec![task(1, status, &[])],
    }
}

#[test]
fn ready_is_what_is_pending_with_nothing_before_it() {
    // req 9
    for (name, tasks, expected) in [
        ("no dependencies", vec![task(1, Pending, &[]), task(2, Pending, &[])], vec![1, 2]), // req 10
        (
            "with dependencies",
            vec![task(1, Complete, &[]), task(2, Pending, &[1]), task(3, Pending, &[2])],
            vec![2],
        ), // req 11
        ("all complete", vec![task(1, Complete, &[]), task(2, Complete, &[1])], vec![]),     // req 12
        ("blocked", vec![task(1, Pending, &[]), task(2, Pending, &[1]), task(3, Pending, &[1, 2])], vec![1]), // req 13
        ("begun", vec![task(1, InProgress, &[]), task(2, Pending, &[1])], vec![]),
        ("failed", vec![task(1, Failed, &[]), task(2, Pending, &[1]), task(3, Pending, &[])], vec![3]),
        ("unknown", vec![task(1, Pending, &[7])], vec![]),
        (
            "twice the same number",
            vec![task(1, Complete, &[]), task(1, Pending, &[]), task(2, Pending, &[1])],
            vec![1],
        ),
        ("none", vec![], vec![]),
    ] {
        assert_eq!(ready(&tasks), expected, "{name}");
    }
}

#[test]
fn how_a_unit_stands_is_one_of_four() {
    // req 14, req 15, req 16, req 17
    for (tasks, expected) in [
        (vec![task(1, InProgress, &[]), task(2, Pending, &[1])], TasksStanding::Ready(vec![1])), // req 14
        (vec![task(1, Pending, &[]), task(2, Failed, &[])], TasksStanding::Ready(vec![1])),
        (vec![task(1, Complete, &[]), task(2, Complete, &[1])], TasksStanding::AllComplete), // req 15
        (vec![], TasksStanding::AllComplete),
        (vec![task(1, Failed, &[]), task(2, Pending, &[1])], TasksStanding::SomeFailed(vec![1])), // req 16
        (vec![task(1, Pending, &[2]), task(2, Pending, &[1])], TasksStanding::Stuck(vec![1, 2])), // req 17
        (vec![task(1, Complete, &[]), task(2, Pending, &[9])], TasksStanding::Stuck(vec![2])),
    ] {
        assert_eq!(standing(&tasks), expected, "{tasks:?}");
    }
}

#[test]
fn a_units_status_is_the_sum_of_its_tasks() {
    for (tasks, expected) in [
        (vec![task(1, Pending, &[])], Pending),
        (vec![task(1, Complete, &[]), task(2, Pending, &[])], InProgress),
        (vec![task(1, InProgress, &[])], InProgress),
        (vec![task(1, Complete, &[]), task(2, Failed, &[])], Failed),
        (vec![task(1, Complete, &[])], Complete),
    ] {
        assert_eq!(status(&tasks), expected, "{tasks:?}");
    }
}

#[test]
fn levels_are_what_could_run_beside_each_other() {
    // req 55
    let ids = |levels: Vec<Vec<UnitId>>| -> Vec<String> {
        levels.iter().map(|level| level.iter().map(UnitId::as_str).collect::<Vec<_>>().join(" ")).collect()
    };
    let units = [
        unit("app", &["lib", "done"], Pending),
        unit("docs", &["app", "lib"], Pending),
        unit("done", &[], Complete),
        unit("lib", &[], Pending),
        unit("tool", &["done"], Failed),
        unit("x", &["y"], Pending),
        unit("y", &["x"], Pending),
        unit("z", &["nowhere"], Pending),
    ];
    assert_eq!(ids(levels(&units)), ["lib tool z", "app", "docs"]);
    assert_eq!(ids(levels(&[])), [""; 0]);
    let behind = |id: &str| -> Vec<String> {
        behind(&units, &id.parse().unwrap()).iter().map(|id| id.as_str().to_owned()).collect()
    };
    assert_eq!(behind("lib"), ["app", "docs"]);
    assert_eq!(behind("docs"), [""; 0]);
    assert_eq!(behind("x"), ["y"], "a ring does not come back to itself");
}

#[test]
fn a_commit_says_which_task_of_which_unit() {
    // req 44
    let unit: UnitId = "app-shell".parse().unwrap();
    let mut spec = task(7, Complete, &[]).spec;
    for (title, message) in [
        ("Add the login page", "feat(app-shell): complete task #7 - Add the login page"),
        ("a\nb\u{1b}[31m\0", "feat(app-shell): complete task #7 - ab[31m"),
        ("$(id) `x` \"y\"", "feat(app-shell): complete task #7 - $(id) `x` \"y\""),
    ] {
        spec.title = title.to_owned();
        assert_eq!(commit_message(&unit, &spec), message);
    }
}

#[test]
fn rings_are_found_with_the_way_around_them() {
    for (edges, expected) in [
        (vec![vec![1], vec![2], vec![]], vec![]),
        (vec![vec![1], vec![2], vec![0]], vec![vec![0, 1, 2]]),
        (vec![vec![1], vec![2], vec![1], vec![4], vec![3]], vec![vec![1, 2], vec![3, 4]]),
        (vec![vec![0]], vec![vec![0]]),
        (vec![vec![1, 2], vec![3], vec![3], vec![]], vec![]),
    ] {
        assert_eq!(rings(&edges), expected, "{edges:?}");
    }
}

#[test]
fn many_units_and_tasks_are_no_trouble() {
    // A chain as long as this would end a function that calls itself.
    let many = 100_000_u32;
    let tasks: Vec<Task> = (1..=many).map(|n| task(n, Pending, if n > 1 { &[1] } else { &[] })).collect();
    assert_eq!(ready(&tasks), [1]);
    let chain: Vec<Vec<usize>> = (0..many as usize).map(|n| vec![(n + 1) % many as usize]).collect();
    assert_eq!(rings(&chain).len(), 1);
    let units: Vec<Unit> = (0..5000)
        .map(|n| {
            let before = format!("u{}", n - 1_i32);
            unit(&format!("u{n}"), &[before.as_str()][usize::from(n == 0)..], Pending)
        })
        .collect();
    assert_eq!(levels(&units).len(), 5000);
    assert_eq!(behind(&units, &"u0".parse().unwrap()).len(), 4999);
}

#[test]
fn a_task_that_is_not_ready_says_what_it_waits_for() {
    let tasks = [
        task(1, TaskStatus::Complete, &[]),
        task(2, TaskStatus::Pending, &[1]),
        task(3, TaskStatus::InProgress, &[1, 2]),
        task(4, TaskStatus::Failed, &[1]),
    ];
    for (number, expected) in [
        (1, Some("it is complete")),
        (2, None),
        (3, Some("it waits for #2")),
        (4, Some("it failed, and `--retry-failed` tries it again")),
        (5, None),
    ] {
        assert_eq!(not_ready(&tasks, number).as_deref(), expected, "{number}");
    }
}
