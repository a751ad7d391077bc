//! The arguments of an index: distances, and the keywords of a look-up.

use nearprint_fingerprint::{Distance, Threshold};
use nearprint_machine::query::{Criteria, SearchKind};
use pyo3::prelude::*;

use super::Index;
use crate::errors;

/// The distance of a look-up that names none, as in the service.
pub(super) const DISTANCE_DEFAULT: u8 = 3;

/// The keywords of a look-up; those that are not given are the index's.
#[derive(Debug, Default)]
pub(super) struct Asked<'a> {
    pub(super) distance: Option<u8>,
    pub(super) min_similarity: Option<f64>,
    pub(super) min_numbers: Option<f64>,
    pub(super) search: Option<&'a str>,
}

impl Index {
    /// What a look-up asks for.
    pub(super) fn criteria(&self, py: Python<'_>, asked: Asked<'_>) -> PyResult<Criteria> {
        let max = self.distance_max.get();
        let asked_distance = asked.distance.unwrap_or(DISTANCE_DEFAULT.min(max));
        let too_far = || {
            let detail = format!(
                "it is {asked_distance}; this index looks up at most {max}. Make it with a larger distance_max"
            );
            errors::error(py, "DistanceAboveMax", &"distance", &detail)
        };
        let distance =
            Distance::new(asked_distance).filter(|distance| *distance <= self.distance_max);
        let share = |name: &'static str, asked: Option<f64>, own| match asked {
            Some(share) => checked_share(py, name, share),
            None => Ok(own),
        };
        let similarity = share("min_similarity", asked.min_similarity, self.min_similarity)?;
        let numbers = share("min_numbers", asked.min_numbers, self.min_numbers)?;
        Ok(Criteria {
            distance: distance.ok_or_else(too_far)?,
            threshold: Threshold::of_similarity(similarity)
                .map(|threshold| threshold.with_numbers(numbers)),
            max_age_s: None,
            search: asked.search.map_or(Ok(self.search), |search| search_of(py, search))?,
            all_hits: true,
        })
    }
}

/// A distance that an index has tables for.
pub(super) fn distance_of(py: Python<'_>, name: &'static str, distance: u8) -> PyResult<Distance> {
    let max = Distance::LOOKUP_MAX;
    let known = Distance::new(distance).filter(|distance| *distance <= max);
    known.ok_or_else(|| errors::invalid(py, &name, &format!("it is 0 to {max}, not {distance}")))
}

pub(super) fn is_share(share: f64) -> bool {
    (0.0..=1.0).contains(&share)
}

pub(super) fn checked_share(py: Python<'_>, name: &'static str, share: f64) -> PyResult<f64> {
    if is_share(share) {
        return Ok(share);
    }
    Err(errors::invalid(py, &name, &format!("it is 0 to 1, not {share}")))
}

pub(super) fn search_of(py: Python<'_>, search: &str) -> PyResult<SearchKind> {
    match search {
        "likely" => Ok(SearchKind::Likely),
        "exact" => Ok(SearchKind::Exact),
        other => {
            Err(errors::invalid(py, &"search", &format!("it is likely or exact, not {other:?}")))
        }
    }
}
