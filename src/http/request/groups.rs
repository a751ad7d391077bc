//! The requests for groups of near-duplicates.

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::engine::GroupsRequest;
use crate::http::options::RequestDefaults;
use crate::http::problem::Problem;
use crate::http::request::document_fields::{HitPart, Include, NamespaceIn};
use crate::http::request::prepare;
use crate::http::request::reach::Reach;
use crate::http::request::selection::{Cursor, namespaces};
use crate::http::request::types::{RequestOptions, query_parameters};
use crate::http::request::values::{given, given_parameter};

/// Which groups to find. `{}` finds those of the default namespace.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupsBody {
    /// The largest distance of two near-duplicates; the default is that of look-ups.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u8>, minimum = 0, maximum = 8, nullable = false)]
    distance: Option<u64>,
    /// The similarity that confirms a pair; 0 switches verification off. The default is that of
    /// look-ups.
    #[serde(default, deserialize_with = "given")]
    #[schema(minimum = 0, maximum = 1, nullable = false)]
    min_similarity: Option<f64>,
    /// `false` switches verification off, as `min_similarity` 0 does.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    verified: Option<bool>,
    /// The namespace; without it, the default namespace.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256, nullable = false)]
    namespace: Option<NamespaceIn>,
    /// `true`: the documents of all namespaces. A group has documents of one.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    all_namespaces: Option<bool>,
    /// The smallest number of documents of a group; the default is 2.
    #[serde(default, deserialize_with = "given")]
    #[schema(minimum = 1, maximum = 4_294_967_295_u32, nullable = false)]
    size_min: Option<u64>,
}

impl GroupsBody {
    /// What it finds, if the request may reach it.
    pub(crate) fn request(
        self,
        defaults: &RequestDefaults,
        reach: &Reach,
    ) -> Result<GroupsRequest, Problem> {
        let Self { distance, min_similarity, verified, namespace, all_namespaces, size_min } = self;
        let min_similarity = match (verified, min_similarity) {
            (Some(false), Some(_)) => {
                let detail = "With verified false there is no min_similarity.";
                return Err(Problem::invalid("verified", detail));
            }
            (Some(false), None) => Some(0.0),
            (Some(true) | None, given) => given,
        };
        let options = RequestOptions { distance, min_similarity, ..RequestOptions::default() };
        let criteria = prepare::query_options(&options, defaults)?.criteria;
        let size_min = size_min.unwrap_or(2);
        let checked = u32::try_from(size_min).ok().filter(|size| *size > 0);
        let size_min = checked.ok_or_else(|| {
            let detail = format!("size_min is {size_min}; it takes 1 to {}.", u32::MAX);
            Problem::invalid("size_min", detail)
        })?;
        let reach = namespaces(namespace, all_namespaces, reach)?;
        Ok(GroupsRequest { reach, criteria, size_min })
    }
}

query_parameters! {
    /// The query parameters of a page of groups, or of the documents of one.
    GroupsPageParameters {
        /// The `next` of the page before.
        after: Cursor [value_type = Option<String>],
        /// How many items a page has; the default is 100.
        limit: u64 [value_type = Option<u16>, minimum = 1, maximum = 1000],
        /// `metadata` shows that of the documents.
        include: Include<HitPart> [value_type = Option<HitPart>],
    }
}
