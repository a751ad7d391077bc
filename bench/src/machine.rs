//! The machine that the figures were measured on.

use std::fs;
use std::num::NonZero;
use std::thread;

use serde::Serialize;

/// The processor features that look-ups, hashes and text analysis could use.
const FEATURES: &[&str] = &[
    "popcnt",
    "bmi1",
    "bmi2",
    "avx",
    "avx2",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vpopcntdq",
    "pdpe1gb",
    "asimd",
    "sve",
    "crc32",
];

#[derive(Debug, Serialize)]
pub(super) struct Machine {
    /// The name of the processor.
    pub(super) cpu: String,
    /// Its features that matter here.
    pub(super) features: Vec<String>,
    /// The instruction set in use: the best, or the one that `NEARPRINT_TEST_SIMD` names.
    pub(super) instruction_set: &'static str,
    /// The number of cores that this process may use; `taskset` lowers it.
    pub(super) cores: usize,
}

impl Machine {
    pub(super) fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cpu: field(&cpuinfo, &["model name", "CPU part"]).unwrap_or("unknown").to_owned(),
            features: features(field(&cpuinfo, &["flags", "Features"]).unwrap_or_default()),
            instruction_set: nearprint_fingerprint::instruction_set(),
            cores: cores(),
        }
    }
}

/// The number of cores that this process may use.
pub(super) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

fn features(flags: &str) -> Vec<String> {
    let has = |feature: &&&str| flags.split_whitespace().any(|flag| flag == **feature);
    FEATURES.iter().filter(has).map(|&feature| feature.to_owned()).collect()
}

/// The first of these fields that exists.
fn field<'a>(cpuinfo: &'a str, names: &[&str]) -> Option<&'a str> {
    let of_name = |name: &&str| {
        let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields.find_map(|(key, value)| (key.trim() == *name).then_some(value.trim()))
    };
    names.iter().find_map(of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_and_its_features_are_found() {
        let cpuinfo = "processor\t: 0\nmodel name\t: A CPU: fast\nflags\t\t: fpu avx2 popcnt\n";
        assert_eq!(field(cpuinfo, &["model name"]), Some("A CPU: fast"));
        assert_eq!(features(field(cpuinfo, &["flags"]).unwrap()), ["popcnt", "avx2"]);
        assert_eq!(field(cpuinfo, &["Features"]), None);
        assert!(Machine::this().cores > 0);
    }
}
