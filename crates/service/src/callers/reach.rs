//! Refusals of what concerns a namespace that a caller does not reach.

use nearprint_engine::document::{Document, Namespace, Sequence};
use nearprint_wire::code::Code;

use crate::callers::namespaces::AllowedNamespaces;
use crate::refusal::{Refusal, quoted};

impl AllowedNamespaces {
    /// Refuses a request that concerns this namespace; `None` is the default namespace.
    ///
    /// # Errors
    /// It is not reached.
    pub fn check(&self, namespace: Option<&str>) -> Result<(), Refusal> {
        if self.admits(namespace) {
            return Ok(());
        }
        let detail = match namespace {
            None => {
                "The token of this request is limited to other namespaces than the default one."
                    .to_owned()
            }
            Some(name) => {
                format!("The token of this request does not reach the namespace {}.", quoted(name))
            }
        };
        Err(Refusal::new(Code::NamespaceNotAllowed, detail))
    }

    /// Refuses a request that concerns the namespace of this document.
    ///
    /// # Errors
    /// It is not reached.
    pub fn check_document(&self, document: &Document) -> Result<(), Refusal> {
        self.check(document.namespace.as_ref().map(Namespace::as_str))
    }

    /// The number of a change among those of all namespaces, as replies show it.
    pub fn sequence(&self, sequence: Sequence) -> Option<u64> {
        (!self.is_limited()).then_some(sequence.get())
    }

    /// Refuses a request that concerns all namespaces at once.
    ///
    /// # Errors
    /// They are not all reached.
    pub fn check_all(&self) -> Result<(), Refusal> {
        if !self.is_limited() {
            return Ok(());
        }
        let detail = "The token of this request is limited to certain namespaces, and this resource \
                      concerns all of them.";
        Err(Refusal::new(Code::NamespaceNotAllowed, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_without_limits_reaches_everything() {
        let reach = AllowedNamespaces::ALL;
        assert!(reach.check(None).is_ok() && reach.check(Some("a")).is_ok());
        assert!(reach.check_all().is_ok());
    }

    #[test]
    fn a_limited_caller_reaches_its_namespaces_alone() {
        let reach = "a,b*".parse::<AllowedNamespaces>().unwrap();
        assert!(reach.check(Some("a")).is_ok() && reach.check(Some("bc")).is_ok());
        for refused in [reach.check(None), reach.check(Some("c")), reach.check_all()] {
            assert!(refused.is_err_and(|why| why.code() == Code::NamespaceNotAllowed));
        }
    }
}
