//! What a page holds already. A page that asks for itself again names the fingerprints of its parts, and those that are as they were
//! come without what is in them, so that a browser reads and compares only what is new.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use axum::http::HeaderMap;
use maud::{Markup, PreEscaped, html};

/// The fingerprints of the parts that the asking page holds.
#[derive(Default)]
pub(super) struct Held(HashSet<String>);

impl Held {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let given = headers.get("dacapo-refresh").and_then(|value| value.to_str().ok()).unwrap_or_default();
        Self(given.split_ascii_whitespace().map(str::to_owned).collect())
    }

    /// `whole` is one `li` with the key `key` in the list `list`. Clocks in it run in the browser and do not count.
    pub(super) fn part(&self, list: &str, key: &str, whole: &Markup) -> Markup {
        let print = fingerprint(list, &whole.0);
        if self.0.contains(&print) {
            return html! { li data-key=(key) data-same {} };
        }
        match whole.0.strip_prefix("<li") {
            Some(rest) => PreEscaped(format!("<li data-part=\"{print}\"{rest}")),
            None => PreEscaped(whole.0.clone()),
        }
    }
}

fn fingerprint(list: &str, html: &str) -> String {
    let mut hasher = DefaultHasher::new();
    list.hash(&mut hasher);
    let mut parts = html.split(" data-since=\"");
    parts.next().hash(&mut hasher);
    for part in parts {
        let since = part.split_once('"').map_or(part, |(since, _)| since);
        let behind = part.split_once('<').map_or("", |(_, behind)| behind);
        (since, behind).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn card(words: &str, since: u64, clock: &str) -> Markup {
        html! { li data-key="card-a" { p { (words) } span data-since=(since) { (clock) } b { "end" } } }
    }

    #[test]
    fn a_part_that_is_held_comes_without_what_is_in_it() {
        let first = Held::default().part("running", "card-a", &card("3 of 5", 7, "1m 2s")).into_string();
        let print = first.split('"').nth(1).unwrap().to_owned();
        assert_eq!(
            first,
            format!("<li data-part=\"{print}\"{}", &card("3 of 5", 7, "1m 2s").into_string()[3..])
        );
        let mut headers = HeaderMap::new();
        headers.insert("dacapo-refresh", HeaderValue::from_str(&format!("0 {print}")).unwrap());
        let held = Held::of(&headers);
        let empty = "<li data-key=\"card-a\" data-same></li>";
        for (list, words, since, clock, is_same) in [
            ("running", "3 of 5", 7, "1m 2s", true),
            ("running", "3 of 5", 7, "9h 0m", true),
            ("running", "4 of 5", 7, "1m 2s", false),
            ("running", "3 of 5", 8, "1m 2s", false),
            // It has moved, so the page has to put it in elsewhere.
            ("done", "3 of 5", 7, "1m 2s", false),
        ] {
            let given = held.part(list, "card-a", &card(words, since, clock)).into_string();
            assert_eq!(given == empty, is_same, "{list} {words} {since} {clock}");
        }
    }
}
