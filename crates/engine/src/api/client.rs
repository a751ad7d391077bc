//! Who asks, and the one rule by which clients share what is limited for all of them together.
//!
//! A client may take more of something if it then has at most as many as were free. So one client
//! takes at most half of all, a second one half of what the first one leaves, and so on; and when
//! many take as much as they can, all end up with the same. A client that has none gets one while
//! any is free.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Who asks: all requests of one client have one share of everything that is limited.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    /// Whoever has a token with this name.
    Token(Arc<str>),
    /// Whoever sends from an address, where there are no tokens.
    Address(IpAddr),
}

impl Client {
    /// The client at an address. Whoever has an IPv6 address usually has all those that begin with
    /// the same 64 bits, so these are one client.
    pub const fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                const NETWORK: u128 = !(u64::MAX as u128);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK))
            }
            address @ IpAddr::V4(_) => address,
        })
    }

    /// Whether a client that has `held` of what all share may take `more` while `free` are free.
    pub const fn may_take(held: usize, more: usize, free: usize) -> bool {
        held.saturating_add(more) <= free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_takes_at_most_half_of_what_the_others_leave() {
        let mut free: usize = 1_024;
        let taken = [(); 4].map(|()| {
            let mut held = 0;
            while Client::may_take(held, 1, free) {
                (held, free) = (held + 1, free - 1);
            }
            held
        });
        assert_eq!(taken, [512, 256, 128, 64]);
        assert!(Client::may_take(0, 1, 1) && !Client::may_take(0, 1, 0));
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let at = |address: &str| Client::at(address.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1:2:3"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
    }
}
