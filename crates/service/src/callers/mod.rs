//! Who asks, and which namespaces that reaches.

pub mod namespaces;
mod reach;

use std::net::{IpAddr, Ipv4Addr};

use nearprint_engine::Client;

pub use namespaces::AllowedNamespaces;

/// Who asks, and what it may reach. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Its share of what is limited for all.
    pub client: Client,
    /// The namespaces that it reaches.
    pub namespaces: AllowedNamespaces,
}

impl Caller {
    /// This process, which reaches everything.
    pub const fn of_process() -> Self {
        let client = Client::at(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        Self { client, namespaces: AllowedNamespaces::ALL }
    }
}
