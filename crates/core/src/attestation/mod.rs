//! Receipts for other programs: in-toto statements in signed envelopes. Bytes only; the engine has the key.

mod dsse;
mod statement;

pub use dsse::{DsseEnvelope, DsseSignature, EnvelopeFault, IN_TOTO, pae};
pub use statement::{
    AttestedReceipt, RECEIPT_TYPE, STATEMENT_TYPE, Signer, StatementFault, TEST_RESULT_TYPE,
    attested_receipt, predicate_type, receipt_statement, test_result_statement,
};

#[cfg(test)]
mod tests;
