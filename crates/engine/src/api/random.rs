//! Random numbers of the system.

use crate::api::error::OpenError;

/// So many random bytes.
///
/// # Errors
/// [`OpenError::System`]: the system has none.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], OpenError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| OpenError::System { what: format!("no random numbers: {error}") })?;
    Ok(bytes)
}
