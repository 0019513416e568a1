//! The adapter for tests and scripts: messages are posted to the server, and what it would send is kept to be read.

use dacapo_core::{
    chat::{SendProblem, Service},
    workflow::told::TellMode,
};
use dacapo_engine::store::StoredMessage;

use super::adapter::{Adapter, AfterCrash, UserMessage};

pub(super) const NAME: &str = "test";

pub(super) struct TestAdapter;

impl Adapter for TestAdapter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn mode(&self) -> TellMode {
        TellMode::Batch
    }

    fn service(&self) -> Service {
        Service::Plain
    }

    fn is_allowed(&self, _: &UserMessage) -> bool {
        true
    }

    fn send(&self, _: &StoredMessage) -> Result<(), SendProblem> {
        // It is where it is read.
        Ok(())
    }

    fn after_crash(&self, _: &StoredMessage) -> Result<AfterCrash, SendProblem> {
        Ok(AfterCrash::SendAgain)
    }
}
