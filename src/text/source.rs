//! What documents come as, and the way from each form through a recipe to its analysis.

use std::borrow::Cow;

use crate::recipe::Recipe;
use crate::text::main_text::main_text_of_html;
use crate::text::{
    Analysis, BadFeatures, EmptyDocument, Wanted, analyse_by, analyse_features, html,
};

/// What can become a fingerprint.
#[derive(Debug, Clone, PartialEq)]
pub enum Source<'a> {
    /// Plain text.
    Text(Cow<'a, str>),
    /// A page of HTML, decoded.
    Html(Cow<'a, str>),
    /// Tokens with weights, as the caller gives them.
    Features(Vec<(Cow<'a, str>, f64)>),
}

/// Which text of a page of HTML counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extract {
    /// What a reader sees, without navigation and its like.
    #[default]
    Visible,
    /// The article alone, where one can be told from the rest; else all that is visible.
    Main,
}

/// How documents become fingerprints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Method {
    /// The definition of text to fingerprint.
    pub recipe: Recipe,
    /// Which text of a page counts.
    pub extract: Extract,
}

/// A source has no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFingerprint {
    /// The text or the page has no feature.
    #[error(transparent)]
    Empty(#[from] EmptyDocument),
    /// The weighted features have none.
    #[error(transparent)]
    Features(#[from] BadFeatures),
    /// The recipe makes nothing of texts.
    #[error("the recipe features takes weighted features and fingerprints, no texts")]
    OnlyFeatures,
}

impl Extract {
    /// The choice with this name: `visible` or `main`.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Visible, Self::Main].into_iter().find(|choice| choice.name() == name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Visible => "visible",
            Self::Main => "main",
        }
    }

    /// That text of a page.
    pub(crate) fn text_of(self, page: &str) -> String {
        let main = match self {
            Self::Visible => None,
            Self::Main => main_text_of_html(page),
        };
        main.unwrap_or_else(|| html::text_of(page))
    }
}

impl<'a> Source<'a> {
    /// A text or the text of a page; `None` for features.
    pub(crate) fn text(&self, extract: Extract) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Html(page) => Some(Cow::Owned(extract.text_of(page))),
            Self::Features(_) => None,
        }
    }

    /// Weighted features.
    pub fn features(features: &'a [(String, f64)]) -> Self {
        Self::Features(
            features.iter().map(|(token, w)| (Cow::Borrowed(token.as_str()), *w)).collect(),
        )
    }
}

/// The analysis of a source, with what is wanted of a text.
///
/// # Errors
/// [`NoFingerprint`] says why there is none.
pub fn analyse(
    source: &Source<'_>,
    method: Method,
    wanted: Wanted,
) -> Result<Analysis, NoFingerprint> {
    match source {
        Source::Text(text) => analyse_by(method.recipe, text, wanted),
        Source::Html(page) => analyse_by(method.recipe, &method.extract.text_of(page), wanted),
        Source::Features(features) => {
            let features = features.iter().map(|(token, weight)| (token.as_ref(), *weight));
            Ok(analyse_features(features)?)
        }
    }
}
