//! The forms in which documents come, and their analysis.

use std::borrow::Cow;

use nearprint_fingerprint::recipe::{Recipe, Weighting};

use crate::analysis::{Analysis, Wanted};
use crate::html::{content_of_html, text_of_html};
use crate::main_text::main_text_of_html;
use crate::recipes::dispatch::{NoFingerprint, analyse_by};
use crate::recipes::vectors::analyse_vector;
use crate::recipes::weighted::analyse_features;
use crate::vectors::spectral::SpectralModel;

/// A document before its analysis.
#[derive(Debug, Clone, PartialEq)]
pub enum Source<'a> {
    /// Plain text in UTF-8, without markup.
    Text(Cow<'a, str>),
    /// An HTML page, decoded ([`crate::charset::decode`]).
    Html(Cow<'a, str>),
    /// Tokens with weights that the caller chose.
    Features(Vec<(Cow<'a, str>, f64)>),
    /// A dense vector, in single precision.
    Vector(Cow<'a, [f32]>),
}

/// Which text of an HTML page counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extract {
    /// The main content, if the page marks it and it is not nearly empty; otherwise what a reader
    /// sees, without what belongs to the site.
    #[default]
    Content,
    /// What a reader sees, without navigation and similar elements.
    Visible,
    /// Only the article, if one can be told from what surrounds it; otherwise as
    /// [`Self::Visible`].
    Main,
}

/// How documents become fingerprints: the same for all that are to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Method {
    /// The definition of the fingerprint.
    pub recipe: Recipe,
    /// Which text of an HTML page counts.
    pub extract: Extract,
    /// The model of the recipe, if it has one. A process uses one model from its start to its end.
    pub model: Option<&'static SpectralModel>,
}

impl Extract {
    /// All three, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::Content, Self::Visible, Self::Main];

    /// The choice with this name: `content`, `visible` or `main`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }

    /// The name in requests and in the configuration: `content`, `visible` or `main`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Visible => "visible",
            Self::Main => "main",
        }
    }

    fn text_of(self, page: &str) -> String {
        match self {
            Self::Content => content_of_html(page),
            Self::Visible => text_of_html(page),
            Self::Main => main_text_of_html(page).unwrap_or_else(|| text_of_html(page)),
        }
    }
}

impl<'a> Source<'a> {
    /// The text, or the text of the page; `None` for features and vectors.
    pub(crate) fn text(&self, extract: Extract) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Html(page) => Some(Cow::Owned(extract.text_of(page))),
            Self::Features(_) | Self::Vector(_) => None,
        }
    }

    /// Weighted features that stay with the caller.
    pub fn features(features: &'a [(String, f64)]) -> Self {
        Self::Features(
            features.iter().map(|(token, w)| (Cow::Borrowed(token.as_str()), *w)).collect(),
        )
    }
}

/// The memory that the analysis of a document takes at most, in addition to the document itself: of
/// the worst texts and pages of this many bytes, with an explanation.
///
/// The dictionaries of `keywords-N` and `textrank-N` are not counted: they are read once.
pub const fn memory_of_analysis(recipe: Recipe, bytes: usize) -> usize {
    let times = match recipe {
        Recipe::Keywords { weighting: Weighting::TextRank, .. } => 12,
        Recipe::Keywords { weighting: Weighting::TfIdf, .. }
        | Recipe::Np2
        | Recipe::Np2Five
        | Recipe::Words { .. }
        | Recipe::Features
        | Recipe::Hyperplanes { .. }
        | Recipe::Spectral { .. } => 8,
    };
    bytes.saturating_mul(times).saturating_add(TABLES_BYTES)
}

/// The tables of an analysis, which grow no further with the text.
const TABLES_BYTES: usize = 64 << 20;

/// Analyses a document.
///
/// # Errors
/// [`NoFingerprint`] if the document has nothing that the recipe counts, or is not of a form that
/// it takes.
///
/// # Examples
/// ```
/// use nearprint_text::{Method, Source, Wanted, analyse, analyse_text};
/// let page = Source::Html("<nav>Home</nav><p>Tea &amp; <b>b</b>read</p>".into());
/// let analysis = analyse(&page, Method::default(), Wanted::STORED)?;
/// assert_eq!(analysis, analyse_text("Tea & bread")?);
/// # Ok::<(), nearprint_text::NoFingerprint>(())
/// ```
pub fn analyse(
    source: &Source<'_>,
    method: Method,
    wanted: Wanted,
) -> Result<Analysis, NoFingerprint> {
    match source {
        Source::Text(text) => analyse_by(method.recipe, text, wanted),
        Source::Html(page) => analyse_by(method.recipe, &method.extract.text_of(page), wanted),
        Source::Features(_) if method.recipe.dimensions().is_some() => {
            Err(NoFingerprint::OnlyVectors { recipe: method.recipe })
        }
        Source::Vector(vector) => analyse_vector(vector, method.recipe, method.model),
        Source::Features(features) => {
            let features = features.iter().map(|(token, weight)| (token.as_ref(), *weight));
            Ok(analyse_features(features)?)
        }
    }
}
