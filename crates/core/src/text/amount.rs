//! Amounts as screens show them: short, and the same on each of them.

/// A number with its thousands apart: `1,234`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Money: cents, or more digits where a cent is too much.
pub fn dollars(amount: f64) -> String {
    match amount {
        0.0 => "$0".to_owned(),
        small if small.abs() < 0.01 => format!("${small:.4}"),
        large if large.abs() >= 1000.0 => format!("${}", thousands(large.round() as u64)),
        amount => format!("${amount:.2}"),
    }
}

/// A number of tokens: `940`, `182k`, `1.2M`.
pub fn tokens(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        1000..10_000 => format!("{:.1}k", number as f64 / 1e3),
        10_000..1_000_000 => format!("{}k", number / 1000),
        1_000_000..100_000_000 => format!("{:.1}M", number as f64 / 1e6),
        _ => format!("{}M", number / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        for (amount, shown) in [(0.0, "$0"), (0.0042, "$0.0042"), (2.1, "$2.10"), (12345.6, "$12,346")] {
            assert_eq!(dollars(amount), shown);
        }
        for (number, shown) in [(940, "940"), (1240, "1.2k"), (182_400, "182k"), (1_250_000, "1.2M")] {
            assert_eq!(tokens(number), shown);
        }
        assert_eq!(thousands(1_234_567), "1,234,567");
    }
}
