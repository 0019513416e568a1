//! Bars over days, drawn as SVG on the server. Every bar says its value when it is pointed at or reached by Tab, so no script
//! is needed to read it.

use maud::{Markup, html};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bar {
    /// Below the axis, where there is room.
    pub(super) label: String,
    pub(super) value: f64,
    /// What is said about it.
    pub(super) says: String,
}

/// How much of a row of the page a plot takes; its text has the same size in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Whole,
    Half,
}

const HEIGHT: f64 = 180.0;
const LEFT: f64 = 44.0;
const BOTTOM: f64 = 22.0;
const TOP: f64 = 26.0;

/// How wide the drawing is beside which its text has the size that people read.
const WIDE: f64 = 1064.0;
const NARROW: f64 = 520.0;

/// Bars beside each other; `tick` writes a number of the axis. A phone has the narrow drawing in both.
pub(super) fn bars(
    title: &str,
    sum: &str,
    bars: &[Bar],
    width: Width,
    tick: impl Fn(f64) -> String,
) -> Markup {
    html! {
        figure class={ "plot panel" @if width == Width::Whole { " whole" } } data-plot=(title.to_lowercase()) {
            figcaption { (title) span.muted { (sum) } }
            @if width == Width::Whole { (drawing((title, sum), bars, (WIDE, "wide", "col"), &tick)) }
            (drawing((title, sum), bars, (NARROW, "narrow", if width == Width::Whole { "column" } else { "col" }), &tick))
        }
    }
}

fn drawing(
    (title, sum): (&str, &str),
    bars: &[Bar],
    (wide, class, column): (f64, &str, &str),
    tick: impl Fn(f64) -> String,
) -> Markup {
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let step = nice_step(most);
    let top = if most <= 0.0 { 1.0 } else { (most / step).ceil() * step };
    let room = (wide - LEFT) / bars.len().max(1) as f64;
    let high = |value: f64| (HEIGHT - BOTTOM - TOP) * value / top;
    let floor = HEIGHT - BOTTOM;
    let every = (56.0 / room).ceil().max(1.0) as usize;
    let lines = if most <= 0.0 { 0 } else { (top / step).round() as usize };
    html! {
        svg class=(class) viewBox={ "0 0 " (wide) " " (HEIGHT) } role="group" aria-label={ (title) ": " (sum) } {
            @for line in 0..=lines {
                @let y = floor - high(step * line as f64);
                line.axis x1=(LEFT) x2=(wide) y1=(px(y)) y2=(px(y)) {}
                text.tick x=(LEFT - 8.0) y=(px(y + 4.0)) text-anchor="end" { (tick(step * line as f64)) }
            }
            @for (i, bar) in bars.iter().enumerate() {
                @let x = LEFT + room * i as f64;
                @let whole = high(bar.value);
                @let thick = (room * 0.72).min(36.0);
                @let left = x + (room - thick) / 2.0;
                @let says = (bar.says.chars().count() as f64 * 6.3 + 16.0).min(wide - LEFT);
                @let tip = (x + room / 2.0 - says / 2.0).clamp(LEFT, (wide - says).max(LEFT));
                g class=(column) tabindex="0" role="img" aria-label=(bar.says) {
                    rect.hit x=(px(x)) y=(px(TOP)) width=(px(room)) height=(px(floor - TOP)) {}
                    @if bar.value > 0.0 {
                        rect.bar x=(px(left)) y=(px(floor - whole)) width=(px(thick)) height=(px(whole)) rx="2" {}
                    }
                    @if (bars.len() - 1 - i).is_multiple_of(every) {
                        text.tick x=(px(x + room / 2.0)) y=(px(HEIGHT - 6.0)) text-anchor="middle" { (bar.label) }
                    }
                    g.tip {
                        rect x=(px(tip)) y="0" width=(px(says)) height="20" rx="5" {}
                        text x=(px(tip + 8.0)) y="14" { (bar.says) }
                    }
                }
            }
        }
    }
}

/// A coordinate with no more digits than a screen has.
pub(super) fn px(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// The distance of lines that people count in, so that there are three to five of them.
fn nice_step(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let rough = most / 4.0;
    let size = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|step| step * size >= rough).unwrap_or(10.0);
    step * size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_count_as_people_do() {
        for (most, step) in [(0.0, 1.0), (3.9, 1.0), (7.0, 2.0), (0.9, 0.25), (1800.0, 500.0), (40.0, 10.0)] {
            assert_eq!(nice_step(most), step, "{most}");
        }
    }

    #[test]
    fn every_bar_says_its_value() {
        let all = [("Nov 1", 2.0), ("Nov 2", 0.0)];
        let all: Vec<Bar> = all
            .iter()
            .map(|(label, value)| Bar {
                label: (*label).to_owned(),
                value: *value,
                says: format!("{label}: ${value:.2}"),
            })
            .collect();
        let drawn = bars("Cost", "$2.00", &all, Width::Half, |value| format!("${value}")).into_string();
        for (label, value) in [("Nov 1", "2.00"), ("Nov 2", "0.00")] {
            assert!(drawn.contains("<text x=") && drawn.contains(&format!("{label}: ${value}</text>")));
        }
        assert_eq!(drawn.matches("class=\"bar\"").count(), 1, "nothing is drawn for nothing");
    }
}
