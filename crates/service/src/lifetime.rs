//! When a document expires: what the request says, else what the configuration says.

use nearprint_engine::Refused;
use nearprint_engine::document::Expiry;
use nearprint_wire::offer::{ExpiresIn, OfferOptions};

use crate::options::RequestDefaults;
use crate::refusal::Refusal;

/// How long a document is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Until it is removed.
    Unlimited,
    /// For this many seconds.
    Seconds(u64),
    /// Until this second.
    Until(Expiry),
}

impl Lifetime {
    /// The lifetime that a request names, or else the default, after checking its range. `now_ms`
    /// is the time in milliseconds since 1970.
    ///
    /// # Errors
    /// It is out of its range, or named in two ways.
    pub fn of(
        options: &OfferOptions,
        defaults: &RequestDefaults,
        now_ms: u64,
    ) -> Result<Self, Refusal> {
        match (options.expires_in, options.expires_at) {
            (None, None) => Ok(defaults.expires_in_s.map_or(Self::Unlimited, Self::Seconds)),
            (Some(_), Some(_)) => Err(Refusal::invalid(
                "expires_at",
                "A document has either expires_in or expires_at, not both.",
            )),
            (Some(ExpiresIn::Never), None) => Ok(Self::Unlimited),
            (Some(ExpiresIn::Seconds(seconds)), None)
                if (1..=ExpiresIn::SECONDS_MAX).contains(&seconds) =>
            {
                Ok(Self::Seconds(seconds))
            }
            (Some(ExpiresIn::Seconds(seconds)), None) => Err(Refusal::invalid(
                "expires_in",
                format!(
                    "expires_in is {seconds}; it takes whole seconds, 1 to {}, or `never`.",
                    ExpiresIn::SECONDS_MAX
                ),
            )),
            (None, Some(_)) if Expiry::MAX.has_passed(now_ms) => {
                Err(Refused::ClockBeyondExpiries.into())
            }
            (None, Some(second)) => {
                let expiry = Expiry::at(second).filter(|expiry| !expiry.has_passed(now_ms));
                let detail = || {
                    format!(
                        "expires_at is {second}; it takes a time in the future, in whole seconds \
                         since 1970, at most {}.",
                        u32::MAX
                    )
                };
                expiry.map(Self::Until).ok_or_else(|| Refusal::invalid("expires_at", detail()))
            }
        }
    }

    /// When a document that comes now expires. A document is kept for all of its seconds, and for
    /// less than one more; none is kept beyond [`Expiry::MAX`].
    pub fn expiry(self, now_ms: u64) -> Option<Expiry> {
        match self {
            Self::Unlimited => None,
            Self::Seconds(seconds) => {
                let second = now_ms.div_ceil(1_000).saturating_add(seconds);
                Some(Expiry::at(second).unwrap_or(Expiry::MAX))
            }
            Self::Until(expiry) => Some(expiry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_kept_for_all_of_its_seconds() {
        let at = |seconds, now_ms| Lifetime::Seconds(seconds).expiry(now_ms).unwrap().second();
        assert_eq!((at(1, 9_000), at(1, 9_001), at(1, 9_999)), (10, 11, 11));
        assert_eq!(at(3_155_760_000, 1_800_000_000_000), u32::MAX);
        assert_eq!(Lifetime::Unlimited.expiry(9_000), None);
    }
}
