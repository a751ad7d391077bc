//! `engine.memory_bytes_max` and `engine.index_memory_bytes_max`: how much memory each part of the
//! service may take.

use super::error::ConfigError;
use super::keys::Config;
use super::validate::wrong;

/// The key of the limit of everything.
pub(super) const MEMORY: &str = "engine.memory_bytes_max";

/// The key of the limit of segments and tables.
pub(super) const INDEX_MEMORY: &str = "engine.index_memory_bytes_max";

/// `auto` takes this share of the memory of the machine or container, in percent.
const AUTO_PERCENT: u64 = 80;

/// But it leaves this much for what is not counted, such as the program, connections and threads;
/// or half of the memory if that is less.
const LEFT_BYTES: u64 = 128 << 20;

/// With `auto`, bodies and replies together have at most this part of the limit.
const REQUESTS_PART: u64 = 2;

/// With `auto`, jobs that find groups have at most this part of it, which comes in addition.
const GROUPS_PART: u64 = 8;

/// The lowest limit of segments and tables.
const SETTLED_BYTES_MIN: u64 = 1 << 20;

/// With `auto`, segments and tables have at most this part of what index and merges may take: a
/// merge may need as much again.
const SETTLED_PART: u64 = 2;

const BYTES_MAX: u64 = 1 << 60;

/// What each part may take, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemoryLimits {
    /// Index, merges, bodies and replies together; 0 is no limit.
    pub(super) all: u64,
    /// Index and merges; 0 is no limit.
    pub(super) index: u64,
    /// The segments and tables of the index; the others are in files. 0 is no limit.
    pub(super) settled: u64,
    pub(super) bodies: u64,
    pub(super) replies: u64,
    pub(super) groups: u64,
}

impl MemoryLimits {
    /// The limits on a machine or in a container with this memory, if that is known.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] of either key.
    pub(super) fn of(config: &Config, memory: Option<u64>) -> Result<Self, ConfigError> {
        let limits = Self::of_all(config, memory)?;
        let configured = &config.engine.index_memory_bytes_max;
        let settled = match configured.as_str() {
            "auto" => return Ok(limits),
            number => number.replace('_', "").parse().unwrap_or(u64::MAX),
        };
        if settled > BYTES_MAX || (1..SETTLED_BYTES_MIN).contains(&settled) {
            let range = format!("\"auto\", 0, or {SETTLED_BYTES_MIN} to 2^60");
            return Err(wrong(INDEX_MEMORY, configured, &range));
        }
        Ok(Self { settled, ..limits })
    }

    /// The same without `engine.index_memory_bytes_max`.
    fn of_all(config: &Config, memory: Option<u64>) -> Result<Self, ConfigError> {
        let (server, groups) = (&config.server, config.groups.memory_bytes_max);
        let [bodies, replies] = [server.bodies_held_bytes_max, server.replies_held_bytes_max];
        let (name, configured) = (MEMORY, &config.engine.memory_bytes_max);
        let requests = bodies.saturating_add(replies);
        let all = match (configured.as_str(), memory) {
            ("auto", Some(memory)) => return Ok(Self::auto(config, memory)),
            ("auto", None) => 0,
            (number, _) => number.replace('_', "").parse().unwrap_or(u64::MAX),
        };
        if all != 0 && !(requests < all && all <= BYTES_MAX) {
            let range = format!(
                "\"auto\", 0, or above server.bodies_held_bytes_max and \
                 server.replies_held_bytes_max together ({requests}) and at most 2^60"
            );
            return Err(wrong(name, configured, &range));
        }
        let index = all.saturating_sub(requests);
        let settled = if all == 0 { 0 } else { settled_of(index) };
        Ok(Self { all, index, settled, bodies, replies, groups })
    }

    /// Where the budgets of requests do not fit, as in a small container, they shrink in
    /// proportion, but not below one body and two replies.
    fn auto(config: &Config, memory: u64) -> Self {
        let server = &config.server;
        let left = memory.saturating_sub(LEFT_BYTES).max(memory / 2);
        let all = left.min(memory / 100 * AUTO_PERCENT).min(BYTES_MAX);
        let [bodies, replies] = [server.bodies_held_bytes_max, server.replies_held_bytes_max];
        let (most, wanted) = (all / REQUESTS_PART, bodies.saturating_add(replies).max(1));
        let share = |budget: u64, least: u64| {
            let share = u128::from(budget) * u128::from(most) / u128::from(wanted);
            u64::try_from(share).unwrap_or(budget).max(least).min(budget)
        };
        let bodies = share(bodies, server.body_bytes_max);
        let replies = share(replies, server.reply_bytes_max.saturating_mul(2));
        // 0 would be no limit.
        let index = all.saturating_sub(bodies).saturating_sub(replies).max(1);
        let groups = config.groups.memory_bytes_max.min(all / GROUPS_PART);
        let settled = settled_of(index);
        Self { all, index, settled, bodies, replies, groups }
    }
}

/// What segments and tables may take of the memory of index and merges.
fn settled_of(index: u64) -> u64 {
    (index / SETTLED_PART).max(SETTLED_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn limits(memory: u64) -> MemoryLimits {
        MemoryLimits::of(&Config::default(), Some(memory)).unwrap()
    }

    #[test]
    fn auto_takes_four_fifths_of_a_machine_less_what_requests_may_take() {
        let limits = limits(20_000 * MIB);
        let all = 16_000 * MIB;
        let index = all - 256 * MIB - 64 * MIB;
        let [bodies, replies] = [256, 64].map(|budget| budget * MIB);
        let (settled, groups) = (index / 2, 1_024 * MIB);
        assert_eq!(limits, MemoryLimits { all, index, settled, bodies, replies, groups });
    }

    #[test]
    fn auto_leaves_the_program_its_memory_and_the_index_its_half_in_a_small_container() {
        let small = limits(256 * MIB);
        assert_eq!((small.all, small.index), (128 * MIB, 64 * MIB + 1));
        assert!(small.bodies >= 51 * MIB && small.replies >= 12 * MIB, "{small:?}");
        assert_eq!(small.groups, 16 * MIB);
        // One body and two replies must fit, whatever is left.
        let tiny = limits(32 * MIB);
        assert_eq!((tiny.all, tiny.index), (16 * MIB, 1));
        assert_eq!((tiny.bodies, tiny.replies), (16 * MIB, 8 * MIB));
    }

    #[test]
    fn no_budget_is_above_what_is_configured() {
        let mut config = Config::default();
        config.server.bodies_held_bytes_max = 17 * MIB;
        config.groups.memory_bytes_max = MIB;
        let limits = MemoryLimits::of(&config, Some(1 << 50)).unwrap();
        assert_eq!((limits.bodies, limits.replies, limits.groups), (17 * MIB, 64 * MIB, MIB));
    }

    #[test]
    fn segments_and_tables_have_half_of_the_index_or_what_is_configured() {
        for (all, configured, expected) in [
            ("1000000000", "auto", (1_000_000_000 - 320 * MIB) / 2),
            ("0", "auto", 0),
            ("0", "2_000_000", 2_000_000),
            ("1000000000", "0", 0),
        ] {
            let mut config = Config::default();
            config.engine.memory_bytes_max = all.to_owned();
            config.engine.index_memory_bytes_max = configured.to_owned();
            let limits = MemoryLimits::of(&config, Some(1 << 40)).unwrap();
            assert_eq!(limits.settled, expected, "{all}, {configured}");
        }
    }

    #[test]
    fn where_the_kernel_says_nothing_auto_is_no_limit() {
        let limits = MemoryLimits::of(&Config::default(), None).unwrap();
        assert_eq!((limits.all, limits.index, limits.bodies), (0, 0, 256 * MIB));
        assert_eq!(limits.settled, 0);
    }
}
