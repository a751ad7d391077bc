//! Tables of fields, and the macro that declares them together with the struct that they are read
//! into.

use nearprint_machine::document::Namespace;

use super::fault::Fault;
use super::value::Value;

/// A field or an option.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name in JSON and in query strings.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// What it takes.
    pub kind: FieldKind,
}

/// What a field takes, for descriptions of the API.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FieldKind {
    /// A string of at least and at most so many bytes; 0 for no limit of its own.
    Text(usize, usize),
    /// A string that this regular expression matches.
    Form(&'static str),
    /// A whole number of at least and at most this.
    Whole(u64, u64),
    /// A whole number of at least and at most this, or this name.
    WholeOr(u64, u64, &'static str),
    /// A number of at least and at most this.
    Number(f64, f64),
    /// `true` or `false`.
    Boolean,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// Some of these names: an array in JSON, elsewhere with commas between them.
    Names(&'static [&'static str]),
    /// Weighted features.
    Features,
    /// A dense vector.
    Vector,
    /// A fingerprint.
    Fingerprint,
    /// An id, or what to make it from.
    Id,
    /// Any JSON object.
    Metadata,
    /// A document, as the schema of this name describes it.
    Document(&'static str),
}

impl FieldKind {
    /// Any string.
    pub const STRING: Self = Self::Text(0, 0);
    /// The name of a namespace.
    pub const NAMESPACE: Self = Self::Text(1, Namespace::BYTES_MAX);
    /// A similarity.
    pub const SIMILARITY: Self = Self::Number(0.0, 1.0);
}

/// The text of a fingerprint, as a regular expression.
pub const FINGERPRINT: &str = "^(0[xX])?[0-9a-fA-F]{16}$";

/// A struct that [`fields!`](crate::fields) declares.
pub trait FieldSet<'v>: Default {
    /// Its fields, in their order.
    const FIELDS: &'static [Field];

    /// Reads the value of a field; `None` if none has this name.
    fn set(&mut self, name: &str, value: Value<'v>) -> Option<Result<(), Fault>>;

    /// These fields; those that are missing come from `other`.
    #[must_use]
    fn or(self, other: Self) -> Self;

    /// The first field that both have.
    fn given_in_both(&self, other: &Self) -> Option<&'static str>;

    /// The same as [`Self::set`], where an unknown name is a fault, and null is as good as a
    /// missing field.
    ///
    /// # Errors
    /// No field has this name, it was there before, or it takes other values.
    fn set_known(&mut self, name: &str, value: Value<'v>) -> Result<(), Fault> {
        if value.is_null() && Self::FIELDS.iter().any(|field| field.name == name) {
            return Ok(());
        }
        self.set_given(name, value)
    }

    /// The same, where null is a value that no field takes.
    ///
    /// # Errors
    /// As [`Self::set_known`], and null.
    fn set_given(&mut self, name: &str, value: Value<'v>) -> Result<(), Fault> {
        let unknown = || Err(Fault::unknown(Self::FIELDS.iter().map(|field| field.name)));
        self.set(name, value).unwrap_or_else(unknown)
    }
}

/// Declares a struct of optional fields, of which each has a type that implements
/// [`FieldValue`](crate::offer::FieldValue), and its table. A lifetime of the struct must be `'v`.
#[macro_export]
macro_rules! fields {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(<$life:lifetime>)? {
            $($(#[doc = $doc:literal])+ $field:ident: $type:ty [$kind:expr],)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        $vis struct $name $(<$life>)? {
            $($(#[doc = $doc])+ $vis $field: Option<$type>,)*
        }

        impl<'v> $crate::offer::FieldSet<'v> for $name $(<$life>)? {
            const FIELDS: &'static [$crate::offer::Field] = &[
                $($crate::offer::Field {
                    name: stringify!($field),
                    doc: concat!($($doc),+),
                    kind: $kind,
                },)*
            ];

            fn set(
                &mut self,
                name: &str,
                value: $crate::offer::Value<'v>,
            ) -> Option<Result<(), $crate::offer::Fault>> {
                match name {
                    $(stringify!($field) if self.$field.is_some() => {
                        Some(Err($crate::offer::Fault::repeated()))
                    })*
                    $(stringify!($field) => {
                        Some(<$type as $crate::offer::FieldValue<'v>>::read(value)
                            .map(|value| self.$field = Some(value)))
                    })*
                    _ => None,
                }
            }

            fn or(self, other: Self) -> Self {
                Self { $($field: self.$field.or(other.$field),)* }
            }

            fn given_in_both(&self, other: &Self) -> Option<&'static str> {
                $(if self.$field.is_some() && other.$field.is_some() {
                    return Some(stringify!($field));
                })*
                None
            }
        }
    };
}
