//! `prices`: what a model costs, in US dollars per million tokens.

use super::{At, ConfigSection};
use crate::limits::Price;

pub(super) const KEYS: [&str; 4] = ["input", "output", "cache_read", "cache_write"];

/// What a file says about the price of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceSetting {
    /// The model, as agents name it.
    pub model: String,
    pub price: Price,
}

pub(super) fn read(top: &mut ConfigSection<'_>) -> Vec<At<PriceSetting>> {
    let mut prices = Vec::new();
    for (key, node) in top.named("prices") {
        let place = key.place;
        if key.name.trim().is_empty() {
            top.wrong(place, "the name of a model must not be blank");
            continue;
        }
        let Some(mut entry) = top.entry(&format!("`prices.{}`", crate::yaml::short(&key.name)), node, &KEYS)
        else {
            continue;
        };
        let is_whole = entry.has("input") && entry.has("output");
        let [input, output, cache_read, cache_write] =
            KEYS.map(|key| entry.dollars(key, true).map(|price| price.value));
        if !is_whole {
            entry.wrong(place, "a price needs `input` and `output`, in US dollars per million tokens");
        }
        if let (Some(input), Some(output)) = (input, output) {
            // What is left out is dear rather than cheap, so that a budget holds.
            let price = Price {
                input,
                output,
                cache_read: cache_read.unwrap_or(input),
                cache_write: cache_write.unwrap_or(input * 1.25),
            };
            prices.push(At { value: PriceSetting { model: key.name, price }, line: place.line });
        }
    }
    prices
}
