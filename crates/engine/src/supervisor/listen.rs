//! What an agent says while it runs: its words for the detector, its tokens for the meter, its doings for the observer that
//! watches.

use std::time::{Duration, Instant};

use dacapo_core::{
    agent::{
        AgentCommand, Format,
        catalog::UsageReporting,
        outcome::{ProcessEnd, outcome},
        transcript::{OutputEvent, OutputSummary, Transcript, TranscriptEntry},
    },
    event::{Outcome, Spend, Usage},
    judge::promise::{Detection, PromiseDetector},
    limits::{Meter, Prices, SessionTotals},
};
use jiff::{Timestamp, tz::TimeZone};

/// How long an agent may take to exit after it has said that it has finished. Some tidy up for seconds.
pub(super) const AFTER_FINAL: Duration = Duration::from_secs(10);

/// An ear on one agent process.
pub(super) struct Listener {
    detector: PromiseDetector,
    /// Missing where all it prints is its own words.
    transcript: Option<Transcript>,
    meter: Meter,
    prices: Prices,
    /// The model that the meter has the price of.
    model: Option<String>,
    /// What was last told of the meter.
    told: Spend,
    stderr: Vec<u8>,
    final_at: Option<Instant>,
    has_answered: bool,
    /// Whether it says what it used, if only at its end.
    reports_usage: bool,
}

/// What was heard by the end.
pub(super) struct HeardOutput {
    pub(super) detection: Detection,
    pub(super) outcome: Outcome,
    pub(super) detail: Option<String>,
    pub(super) reset_at: Option<Timestamp>,
    pub(super) session: Option<String>,
    pub(super) model: Option<String>,
    pub(super) spend: Spend,
    pub(super) warnings: Vec<String>,
    /// Whether the agent said anything to which its provider must have answered.
    pub(super) has_answered: bool,
    /// The end of what the agent printed on stderr.
    pub(super) stderr: String,
}

impl Listener {
    pub(super) fn new(
        agent: &AgentCommand,
        detector: PromiseDetector,
        prices: Prices,
        before: Option<Spend>,
    ) -> Self {
        let price = agent.model.as_deref().and_then(|model| prices.price_of(model));
        let before = before.map(|before| SessionTotals {
            usage: before.usage.unwrap_or_default(),
            cost_usd: before.cost_usd,
        });
        Self {
            detector,
            transcript: (agent.format != Format::Text).then(|| Transcript::new(agent.format)),
            meter: Meter::new(price, before),
            prices,
            model: agent.model.clone(),
            told: Spend::default(),
            stderr: Vec::new(),
            final_at: None,
            has_answered: false,
            reports_usage: UsageReporting::of(agent.format) != UsageReporting::Never,
        }
    }

    /// Whether it prints events, not words.
    pub(super) fn reads_events(&self) -> bool {
        self.transcript.is_some()
    }

    /// Takes in what it printed; `show` gets what events say.
    pub(super) fn stdout(
        &mut self,
        bytes: &[u8],
        now: Instant,
        mut show: Option<&mut dyn FnMut(TranscriptEntry)>,
    ) {
        let Some(transcript) = &mut self.transcript else {
            return self.detector.push(bytes);
        };
        let mut ear = OutputListeners {
            detector: &mut self.detector,
            meter: &mut self.meter,
            has_answered: &mut self.has_answered,
            reports_usage: self.reports_usage,
        };
        let final_at = &mut self.final_at;
        transcript.push(bytes, &mut |heard| {
            ear.hear(heard);
            match heard {
                OutputEvent::Final => *final_at = Some(now),
                // It works on after all.
                OutputEvent::Message(_) | OutputEvent::Tool { .. } => *final_at = None,
                _ => {}
            }
            if let Some(show) = &mut show
                && let Some(said) = TranscriptEntry::of(heard)
            {
                show(said);
            }
        });
        if transcript.model().is_some_and(|model| self.model.as_deref() != Some(model)) {
            self.model = transcript.model().map(str::to_owned);
            if let Some(price) = self.model.as_deref().and_then(|model| self.prices.price_of(model)) {
                self.meter.set_price(price);
            }
        }
    }

    pub(super) fn stderr(&mut self, bytes: &[u8]) {
        super::observe::keep_tail(&mut self.stderr, bytes);
    }

    /// When it must have exited, once it has said that it has finished.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.final_at.map(|at| at + AFTER_FINAL)
    }

    pub(super) fn shift(&mut self, held: Duration) {
        if let Some(at) = &mut self.final_at {
            *at += held;
        }
    }

    pub(super) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// What it has used, if that was not told yet.
    pub(super) fn news(&self) -> Option<Spend> {
        let is_subscription = self.transcript.as_ref().is_some_and(Transcript::is_subscription);
        Some(spend(&self.meter, is_subscription)).filter(|total| *total != self.told)
    }

    pub(super) fn told(&mut self, news: Spend) {
        self.told = news;
    }

    /// The model that was asked for, or that the agent says it uses.
    pub(super) fn model(&self) -> Option<String> {
        self.model.clone()
    }

    /// Whether what the model has used so far cannot be turned into money.
    pub(super) fn is_unpriced(&self) -> bool {
        self.model.as_ref().is_some_and(|model| self.prices.price_of(model).is_none())
            && self.told.usage.is_some()
            && self.told.cost_usd.is_none()
    }

    /// The process has ended; `ended_by` is why, where dacapo ended it.
    pub(super) fn finish(
        mut self,
        process: ProcessEnd,
        ended_by: Option<Outcome>,
        now: Timestamp,
    ) -> HeardOutput {
        let Some(transcript) = self.transcript.take() else {
            let plain = if process.signal.is_some() || process.code.is_none() {
                Outcome::Crash
            } else {
                Outcome::Completed
            };
            return HeardOutput {
                detection: self.detector.finish(),
                outcome: ended_by.unwrap_or(plain),
                detail: None,
                reset_at: None,
                session: None,
                model: None,
                spend: Spend::default(),
                warnings: Vec::new(),
                has_answered: true,
                stderr: super::observe::readable_tail(&self.stderr),
            };
        };
        let mut ear = OutputListeners {
            detector: &mut self.detector,
            meter: &mut self.meter,
            has_answered: &mut self.has_answered,
            reports_usage: self.reports_usage,
        };
        let told: OutputSummary = transcript.finish(&mut |heard| ear.hear(heard));
        let judged = outcome(&told, &process, &String::from_utf8_lossy(&self.stderr));
        // An agent that has printed its final event ended as that event says, even if dacapo had to end the process.
        let is_ours = ended_by.filter(|_| told.ending.is_none());
        let mut detail = Some(judged.detail).filter(|detail| is_ours.is_none() && !detail.is_empty());
        if ended_by.is_some() && judged.outcome == Outcome::Completed {
            detail = Some("finished, and was ended because it did not exit".to_owned());
        }
        let reset_at = judged.reset.instant(now, &TimeZone::system());
        HeardOutput {
            detection: self.detector.finish(),
            outcome: is_ours.unwrap_or(judged.outcome),
            detail,
            reset_at: reset_at.filter(|_| is_ours.is_none()),
            session: told.session.filter(|_| !judged.is_session_lost),
            model: told.model,
            spend: spend(&self.meter, told.is_subscription),
            warnings: told.warnings,
            has_answered: self.has_answered,
            stderr: super::observe::readable_tail(&self.stderr),
        }
    }
}

/// What an agent has used; nothing at all where nothing was reported.
fn spend(meter: &Meter, is_subscription: bool) -> Spend {
    let total = meter.total();
    if total.usage == Usage::default() && total.cost_usd.is_none_or(|cost| cost == 0.0) {
        return Spend::default();
    }
    let estimated = total.is_estimate || is_subscription;
    Spend { usage: Some(total.usage), cost_usd: total.cost_usd, estimated }
}

/// The listeners of an agent's output.
struct OutputListeners<'a> {
    detector: &'a mut PromiseDetector,
    meter: &'a mut Meter,
    has_answered: &'a mut bool,
    reports_usage: bool,
}

impl OutputListeners<'_> {
    fn hear(&mut self, heard: OutputEvent<'_>) {
        // A guess stands in for a figure that is to come; where none does it would pass for one.
        if self.reports_usage || !matches!(heard, OutputEvent::Written(_)) {
            heard.meter(self.meter);
        }
        match heard {
            OutputEvent::Message(text) => {
                self.detector.push_message(text);
                *self.has_answered = true;
            }
            OutputEvent::Tool { .. } => *self.has_answered = true,
            OutputEvent::Usage { .. }
            | OutputEvent::Written(_)
            | OutputEvent::Retry { .. }
            | OutputEvent::Final => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use dacapo_core::judge::promise::PromiseRule;

    use super::*;

    fn listener(format: Format) -> Listener {
        let agent = AgentCommand { format, ..AgentCommand::parse("agent", &[]).unwrap() };
        let detector = PromiseDetector::new(&PromiseRule::new("DONE").unwrap(), "n", "do it");
        Listener::new(&agent, detector, Prices::default(), None)
    }

    #[test]
    fn nothing_is_guessed_where_no_figure_will_follow() {
        let line =
            r#"{"type":"assistant.message_delta","data":{"messageId":"m","deltaContent":"a few words"}}"#;
        let mut copilot = listener(Format::Copilot);
        copilot.stdout(format!("{line}\n").as_bytes(), Instant::now(), None);
        assert_eq!(copilot.news(), None);
        let line = r#"{"type":"message","role":"assistant","content":"a few words","delta":true}"#;
        let mut gemini = listener(Format::Gemini);
        gemini.stdout(format!("{line}\n").as_bytes(), Instant::now(), None);
        assert!(gemini.news().is_some_and(|spend| spend.estimated));
    }

    #[test]
    fn who_has_finished_and_does_not_exit_has_finished() {
        // fault C1
        let line = r#"{"type":"result","subtype":"success","is_error":false,"result":"ok","session_id":"s"}"#;
        for (ended_by, detail) in [
            (Some(Outcome::Killed), Some("finished, and was ended because it did not exit")),
            (None, Some("ended by signal 15 after it had finished")),
        ] {
            let mut claude = listener(Format::Claude);
            claude.stdout(format!("{line}\n").as_bytes(), Instant::now(), None);
            assert!(claude.deadline().is_some());
            let end = ProcessEnd { code: None, signal: Some(15) };
            let heard = claude.finish(end, ended_by, Timestamp::UNIX_EPOCH);
            assert_eq!((heard.outcome, heard.detail.as_deref()), (Outcome::Completed, detail));
        }
    }
}
