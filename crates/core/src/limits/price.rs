//! What tokens cost.

mod list;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::Usage;

/// Dearer than this is a typing error, and sums of it cannot overflow.
const DEAREST: f64 = 1_000_000.0;

/// USD per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Price {
    /// Read by the model, neither from the cache nor into it.
    pub input: f64,
    /// Written by the model, thoughts included.
    pub output: f64,
    /// Read from the provider's cache.
    pub cache_read: f64,
    pub cache_write: f64,
}

impl Price {
    /// What these tokens cost. Reasoning is a part of the output and not counted beside it.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let parts = [
            (usage.input, self.input),
            (usage.output, self.output),
            (usage.cache_read, self.cache_read),
            (usage.cache_write, self.cache_write),
        ];
        parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>() / 1_000_000.0
    }
}

/// A price as a user writes it. What is left out is dear rather than cheap, so that a budget holds: a read
/// from the cache costs what input does, a write to it a quarter more, as the dearest providers have it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

/// A number that is no price.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{0}` must be a price in USD per million tokens, 0 or more")]
pub struct InvalidPrice(&'static str);

impl TryFrom<Written> for Price {
    type Error = InvalidPrice;

    fn try_from(written: Written) -> Result<Self, InvalidPrice> {
        let price = Self {
            input: written.input,
            output: written.output,
            cache_read: written.cache_read.unwrap_or(written.input),
            cache_write: written.cache_write.unwrap_or(written.input * 1.25),
        };
        let parts = [
            ("input", price.input),
            ("output", price.output),
            ("cache_read", price.cache_read),
            ("cache_write", price.cache_write),
        ];
        // NaN is in no range, so it is refused too.
        match parts.iter().find(|(_, number)| !(0.0..=DEAREST * 1.25).contains(number)) {
            Some((name, _)) => Err(InvalidPrice(name)),
            None => Ok(price),
        }
    }
}

/// The user's own prices, by model; they go before the built-in ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prices(pub BTreeMap<String, Price>);

impl Prices {
    /// The price of a model; `None` if it is not in the table: with a guess no budget would hold.
    ///
    /// A name means exactly that model, or a snapshot of it: `claude-sonnet-4-5` is also the price of
    /// `anthropic/claude-sonnet-4-5-20250929` and `claude-sonnet-4-5[1m]`, but `gpt-5` is not that of
    /// `gpt-5.9` or `gpt-5-ultra`. Of several that fit, the longest name counts.
    pub fn price_of(&self, model: &str) -> Option<Price> {
        if let Some(price) = self.0.get(model) {
            return Some(*price);
        }
        let model = plain_name(model);
        let own = self.0.iter().map(|(name, price)| (plain_name(name), *price, true));
        let listed = list::PRICES.iter().map(|&(name, input, output, cache_read, cache_write)| {
            (name.to_owned(), Price { input, output, cache_read, cache_write }, false)
        });
        own.chain(listed)
            .filter(|(name, ..)| model.strip_prefix(name.as_str()).is_some_and(is_snapshot))
            .max_by_key(|(name, _, is_own)| (name.len(), *is_own))
            .map(|(_, price, _)| price)
    }
}

/// A model's name without what agents and providers put around it.
fn plain_name(model: &str) -> String {
    let model = model.trim().to_ascii_lowercase();
    let model = model.rsplit('/').next().unwrap_or_default();
    let model = model.split('[').next().unwrap_or_default();
    let model = ["us.", "eu.", "apac.", "global."]
        .iter()
        .find_map(|region| model.strip_prefix(region))
        .unwrap_or(model);
    let model = model.strip_prefix("anthropic.").unwrap_or(model);
    // Some write `claude-sonnet-4.5`.
    if model.starts_with("claude-") { model.replace('.', "-") } else { model.to_owned() }
}

/// Whether what follows a model's name says which snapshot of it: nothing, a date, `latest`, `preview-05-06`.
fn is_snapshot(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix(['-', '@']) else { return rest.is_empty() };
    rest.split(['-', '@', ':']).enumerate().all(|(at, part)| {
        let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        // A single digit is a version, which is another model.
        let is_date = is_number && (part.len() > 2 || at > 0);
        is_date || matches!(part, "latest" | "preview" | "exp" | "v1" | "v2")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MILLION: u64 = 1_000_000;

    fn listed(model: &str) -> Option<(f64, f64, f64, f64)> {
        Prices::default().price_of(model).map(|p| (p.input, p.output, p.cache_read, p.cache_write))
    }

    fn prices(yaml: &str) -> Result<Prices, String> {
        serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
    }

    #[test]
    fn a_model_has_its_price_under_every_name_it_goes_by() {
        let sonnet = Some((3.0, 15.0, 0.3, 3.75));
        for (model, price) in [
            ("claude-sonnet-4-5", sonnet),
            ("claude-sonnet-4-5-20250929", sonnet),
            ("claude-sonnet-4-5@20250929", sonnet),
            ("claude-sonnet-4-5[1m]", sonnet),
            ("claude-sonnet-4-5-20250929[1m]", sonnet),
            ("anthropic/claude-sonnet-4-5", sonnet),
            ("openrouter/anthropic/claude-sonnet-4.5", sonnet),
            ("Claude-Sonnet-4.5", sonnet),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", sonnet),
            ("claude-opus-5-5", Some((4.0, 20.0, 0.2, 5.0))),
            ("claude-opus-5", Some((5.0, 25.0, 0.5, 6.25))),
            ("claude-opus-4-20250514", Some((15.0, 75.0, 1.5, 18.75))),
            ("claude-opus-4-8", Some((5.0, 25.0, 0.5, 6.25))),
            ("gpt-5", Some((1.25, 10.0, 0.125, 1.25))),
            ("gpt-5-2025-08-07", Some((1.25, 10.0, 0.125, 1.25))),
            ("gpt-5-mini", Some((0.25, 2.0, 0.025, 0.25))),
            ("openai/gpt-5-codex", Some((1.25, 10.0, 0.125, 1.25))),
            ("codex-mini-latest", Some((1.5, 6.0, 0.375, 1.5))),
            ("gemini-2.5-pro", Some((1.25, 10.0, 0.125, 1.25))),
            ("models/gemini-2.5-pro-preview-05-06", Some((1.25, 10.0, 0.125, 1.25))),
            ("gemini-3-flash-preview", Some((0.5, 3.0, 0.05, 0.5))),
            ("gemini-2.5-flash-lite", Some((0.1, 0.4, 0.01, 0.1))),
            ("qwen/qwen3-coder-plus-2025-09-23", Some((1.8, 9.0, 0.36, 2.25))),
        ] {
            assert_eq!(listed(model), price, "{model}");
        }
    }

    // fault J5: an unknown model has no price, however much it looks like something known.
    #[test]
    fn an_unknown_model_has_no_price() {
        for model in [
            "",
            "mock-model",
            "<synthetic>",
            "claude",
            "claude-opus",
            "opus",
            "claude-opus-4-9",
            "claude-opus-6",
            "claude-sonnet-4-5-turbo",
            "gpt-5.9",
            "gpt-5-ultra",
            "gpt-5-pro",
            "gpt-5.5-pro",
            "gpt-50",
            "o3-pro",
            "gemini-2.5-pro-max",
            "gemini-4-pro",
            "claude-sonnet-4-5:free",
            "my-claude-sonnet-4-5",
            "/",
            "[1m]",
        ] {
            assert_eq!(listed(model), None, "{model}");
        }
    }

    #[test]
    fn the_users_prices_go_first() {
        let own = prices(
            "my-model: {input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75}\n\
             claude-sonnet-4-5: {input: 1, output: 2}\n\
             gpt-5: {input: 7, output: 7}\n\
             local/thing: {input: 0, output: 0, cache_read: 0, cache_write: 0}\n",
        )
        .unwrap();
        let of = |model: &str| own.price_of(model).map(|p| (p.input, p.output, p.cache_read, p.cache_write));
        for (model, price) in [
            ("my-model", Some((3.0, 15.0, 0.3, 3.75))),
            ("provider/my-model", Some((3.0, 15.0, 0.3, 3.75))),
            ("my-model-2026-11-15", Some((3.0, 15.0, 0.3, 3.75))),
            ("my-model-2", None),
            // What is left out is dear.
            ("claude-sonnet-4-5-20250929", Some((1.0, 2.0, 1.0, 1.25))),
            ("gpt-5", Some((7.0, 7.0, 7.0, 8.75))),
            // A longer name of ours is nearer than a shorter one of the user's.
            ("gpt-5-mini", Some((0.25, 2.0, 0.025, 0.25))),
            ("local/thing", Some((0.0, 0.0, 0.0, 0.0))),
        ] {
            assert_eq!(of(model), price, "{model}");
        }
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for yaml in [
            "m: {input: 3.0}",
            "m: {output: 3.0}",
            "m: {input: -1, output: 1}",
            "m: {input: 1, output: .inf}",
            "m: {input: .nan, output: 1}",
            "m: {input: 1, output: 1, cache_read: -0.1}",
            "m: {input: 1, output: 1e300}",
            "m: {input: 1, output: 1, cached: 1}",
            "m: {input: cheap, output: 1}",
            "m: 3",
        ] {
            assert!(prices(yaml).is_err(), "{yaml}");
        }
        let error = prices("m: {input: 1, output: -2}").unwrap_err();
        assert!(error.contains("`output` must be a price in USD per million tokens, 0 or more"), "{error}");
    }

    #[test]
    fn the_list_is_plausible_and_has_no_name_twice() {
        let mut names = std::collections::BTreeSet::new();
        for &(name, input, output, cache_read, cache_write) in list::PRICES {
            assert!(names.insert(name), "{name}");
            assert_eq!(plain_name(name), name);
            assert!(0.0 < cache_read && cache_read < input && input <= cache_write, "{name}");
            assert!(input < output && output < 100.0, "{name}");
        }
    }

    // fault J3: every kind of token counts, each at its price; thoughts are in the output already.
    #[test]
    fn every_kind_of_token_is_paid_for_once() {
        let price = Prices::default().price_of("claude-sonnet-4-5").unwrap();
        let none = Usage::default();
        for (usage, cost) in [
            (none, 0.0),
            (Usage { input: MILLION, ..none }, 3.0),
            (Usage { output: MILLION, ..none }, 15.0),
            (Usage { cache_read: MILLION, ..none }, 0.3),
            (Usage { cache_write: MILLION, ..none }, 3.75),
            (Usage { output: MILLION, reasoning: 900_000, ..none }, 15.0),
        ] {
            assert!((price.cost(&usage) - cost).abs() < 1e-9, "{usage:?}");
        }
        // What claude itself reported for 3600 and 102 tokens of claude-opus-5-5.
        let opus = Prices::default().price_of("claude-opus-5-5").unwrap();
        assert!((opus.cost(&Usage { input: 3600, output: 102, ..none }) - 0.01644).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn any_name_has_an_answer_and_any_usage_a_finite_cost(model in ".{0,60}", tokens in any::<[u64; 5]>()) {
            let _ = Prices::default().price_of(&model);
            let [input, output, cache_read, cache_write, reasoning] = tokens;
            let usage = Usage { input, output, cache_read, cache_write, reasoning };
            let price = Price { input: DEAREST, output: DEAREST, cache_read: DEAREST, cache_write: DEAREST };
            prop_assert!(price.cost(&usage).is_finite());
        }
    }
}
