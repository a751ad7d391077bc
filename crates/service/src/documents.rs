//! Look-ups and writes of one document.

use nearprint_engine::{Admission, Checked, Found, Inserted, Pending, PreviousUnread, Refused};
use nearprint_wire::answer::PreviousReply;

use crate::answers::{self, Subject};
use crate::callers::Caller;
use crate::prepare::Prepared;
use crate::refusal::Refusal;
use crate::service::Service;

/// A write in the queue of the writer: an insert, or a check-and-insert.
#[derive(Debug)]
pub struct Begun<T> {
    subject: Subject,
    pending: Pending<T>,
}

impl Service {
    /// Looks a document up.
    ///
    /// # Errors
    /// The caller does not reach its namespace, or the engine refuses.
    pub async fn find(&self, caller: &Caller, prepared: &Prepared) -> Result<Found, Refusal> {
        caller.namespaces.check_document(&prepared.document)?;
        Ok(self.engine_for(caller).find(&prepared.document, prepared.options).await?)
    }

    /// Puts an insert into the queue of the engine, whose order is that of the calls.
    ///
    /// # Errors
    /// The caller does not reach its namespace, or the engine refuses.
    pub async fn begin_insert(
        &self,
        caller: &Caller,
        prepared: Prepared,
        admission: Admission<'_>,
    ) -> Result<Begun<Inserted>, Refusal> {
        caller.namespaces.check_document(&prepared.document)?;
        let subject = Subject::from(&prepared);
        let engine = self.engine_for(caller);
        let pending = engine.begin_insert(prepared.into_insert(), admission).await?;
        Ok(Begun { subject, pending })
    }

    /// Puts a check-and-insert into the queue of the engine, whose order is that of the calls.
    ///
    /// # Errors
    /// The caller does not reach its namespace, or the engine refuses.
    pub async fn begin_check_and_insert(
        &self,
        caller: &Caller,
        prepared: Prepared,
        admission: Admission<'_>,
    ) -> Result<Begun<Checked>, Refusal> {
        caller.namespaces.check_document(&prepared.document)?;
        let subject = Subject::from(&prepared);
        let Prepared { document, options, storing, .. } = prepared;
        let engine = self.engine_for(caller);
        let begun = engine.begin_check_and_insert(document, options, storing, admission);
        Ok(Begun { subject, pending: begun.await? })
    }
}

impl<T> Begun<T> {
    /// Waits until it is as durable as configured.
    ///
    /// # Errors
    /// The engine refuses.
    pub async fn done(self) -> Result<(Subject, T), Refused> {
        Ok((self.subject, self.pending.wait().await?))
    }
}

impl Begun<Checked> {
    /// Memory that its matches take, in bytes.
    pub fn bytes(&self) -> usize {
        self.pending.bytes()
    }
}

/// Reads the record of the document that an id had before, if there was one.
pub async fn previous(previous: Option<Box<PreviousUnread>>) -> Option<PreviousReply> {
    Some(answers::previous(&previous?.read().await?))
}
