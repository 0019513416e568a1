//! Every variant of a type, so that a test of what people read cannot miss a new one.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;

/// The names of a type's variants as they stand in JSON: serde lists them when it is asked for one that does not exist.
/// `unknown` is such a one, for example `"?"` or `{"type": "?"}`.
pub fn names_of_variants<T: DeserializeOwned>(unknown: &str) -> BTreeSet<String> {
    let error = serde_json::from_str::<T>(unknown).err().expect("there is no such variant").to_string();
    let (_, expected) = error.split_once("expected").expect("serde lists what it expects");
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Every value of a type whose variants hold nothing, with the name of each, in the order of the names.
pub fn values_of_every_variant<T: DeserializeOwned>() -> Vec<(String, T)> {
    let value = |name: String| {
        let value =
            serde_json::from_value(name.clone().into()).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, value)
    };
    names_of_variants::<T>("\"?\"").into_iter().map(value).collect()
}

/// What the lines of `samples` hold, one JSON object with a `type` each, with that type. Panics unless each variant has a sample.
pub fn samples_of_every_variant<T: DeserializeOwned>(samples: &str) -> Vec<(String, T)> {
    let sample = |line: &str| {
        let value: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let name = value["type"].as_str().unwrap_or_else(|| panic!("no type: {line}")).to_owned();
        (name, serde_json::from_value(value).unwrap_or_else(|error| panic!("{line}: {error}")))
    };
    let samples: Vec<(String, T)> = samples.lines().map(sample).collect();
    let sampled: BTreeSet<String> = samples.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(
        sampled,
        names_of_variants::<T>(r#"{"type": "?"}"#),
        "a sample for each variant, and no other"
    );
    samples
}

/// The values in the braces, each with the pattern of its variant. The compiler refuses a list that leaves a variant out.
#[macro_export]
macro_rules! every_variant {
    ($type:ty { $($pattern:pat => $value:expr),+ $(,)? }) => {{
        let pattern_of = |value: &$type| match value {
            $($pattern => stringify!($pattern)),+
        };
        let values: Vec<$type> = vec![$($value),+];
        let patterns = [$(stringify!($pattern)),+];
        for (value, pattern) in values.iter().zip(patterns) {
            assert_eq!(pattern_of(value), pattern, "the value is of another variant");
        }
        values
    }};
}
