//! Describes requests in the OpenAPI document by their tables of fields.

use nearprint_engine::document::DocumentId;
use nearprint_files::offer::{Field, FieldKind};
use nearprint_text::DIMENSIONS_MAX;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, Schema,
    SchemaFormat, Type,
};
use utoipa::openapi::{Ref, RefOr, Required};

/// The schema of a JSON object with these fields.
pub(crate) fn object<'f>(doc: &str, fields: impl Iterator<Item = &'f Field>) -> RefOr<Schema> {
    let object = fields.fold(ObjectBuilder::new(), |object, field| {
        let object = object.property(field.name, described(field.kind, field.doc));
        if is_required(field) { object.required(field.name) } else { object }
    });
    object
        .description(Some(doc.trim()))
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
        .into()
}

/// The query parameters of these fields.
pub(crate) fn parameters<'f>(fields: impl Iterator<Item = &'f Field>) -> Vec<Parameter> {
    let parameter = |field: &Field| {
        let builder = ParameterBuilder::new()
            .name(field.name)
            .parameter_in(ParameterIn::Query)
            .required(Required::False)
            .description(Some(field.doc.trim()))
            .schema(Some(in_query(field.kind)));
        // The names of a list have commas between them.
        let is_list = matches!(field.kind, FieldKind::Names(_));
        if is_list { builder.explode(Some(false)).build() } else { builder.build() }
    };
    fields.map(parameter).collect()
}

/// Whether an object must have the field: the two documents of a comparison.
fn is_required(field: &Field) -> bool {
    matches!(field.kind, FieldKind::Document(_))
}

/// The schema of a query parameter, where every value is a text.
fn in_query(kind: FieldKind) -> RefOr<Schema> {
    if kind == FieldKind::Id { text(1, DocumentId::BYTES_MAX).into() } else { described(kind, "") }
}

fn described(kind: FieldKind, doc: &str) -> RefOr<Schema> {
    let doc = Some(doc.trim()).filter(|doc| !doc.is_empty());
    match kind {
        FieldKind::Text(min, max) => text(min, max).description(doc).into(),
        FieldKind::Whole(min, max) => whole(min, max).description(doc).into(),
        FieldKind::WholeOr(min, max, other) => {
            let other = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([other]));
            OneOfBuilder::new().item(whole(min, max)).item(other).description(doc).into()
        }
        FieldKind::Number(min, max) => ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(min))
            .maximum(Some(max))
            .description(doc)
            .into(),
        FieldKind::Boolean => {
            ObjectBuilder::new().schema_type(Type::Boolean).description(doc).into()
        }
        FieldKind::Choice(names) => choice(names).description(doc).into(),
        FieldKind::Names(names) => ArrayBuilder::new().items(choice(names)).description(doc).into(),
        FieldKind::Features => OneOfBuilder::new()
            .item(ObjectBuilder::new().additional_properties(Some(number())))
            .item(ArrayBuilder::new().items(pair()))
            .description(doc)
            .into(),
        FieldKind::Vector => ArrayBuilder::new()
            .items(number())
            .min_items(Some(1))
            .max_items(Some(usize::from(DIMENSIONS_MAX)))
            .description(doc)
            .into(),
        FieldKind::Fingerprint => OneOfBuilder::new()
            .item(text(0, 0))
            .item(ObjectBuilder::new().schema_type(Type::Integer))
            .description(doc)
            .into(),
        FieldKind::Id => {
            let source = choice(&["fingerprint", "text-hash"]);
            OneOfBuilder::new()
                .item(text(1, DocumentId::BYTES_MAX))
                .item(ObjectBuilder::new().schema_type(Type::Integer))
                .item(ObjectBuilder::new().property("from", source).required("from"))
                .description(doc)
                .into()
        }
        FieldKind::Metadata => {
            ObjectBuilder::new().schema_type(Type::Object).description(doc).into()
        }
        FieldKind::Document(schema) => Ref::from_schema_name(schema).into(),
    }
}

fn text(min: usize, max: usize) -> ObjectBuilder {
    let given = |length: usize| Some(length).filter(|&length| length > 0);
    ObjectBuilder::new().schema_type(Type::String).min_length(given(min)).max_length(given(max))
}

fn whole(min: u64, max: u64) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(min))
        .maximum(Some(max))
}

fn choice(names: &'static [&'static str]) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names.iter().copied()))
}

fn number() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Number)
}

/// utoipa describes a tuple by `items: false`, which not every tool understands.
fn pair() -> ArrayBuilder {
    ArrayBuilder::new()
        .items(OneOfBuilder::new().item(text(0, 0)).item(number()))
        .min_items(Some(2))
        .max_items(Some(2))
        .description(Some("A token and its weight."))
}

/// Describes the body or the query parameters of a request by the table of its fields.
macro_rules! describe {
    (body $($name:ident $(<$life:lifetime>)? $doc:literal),* $(,)?) => {$(
        impl utoipa::PartialSchema for $name $(<$life>)? {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $crate::http::request::schema::object(
                    $doc,
                    <Self as nearprint_files::offer::FieldSet<'_>>::FIELDS.iter(),
                )
            }
        }
        impl utoipa::ToSchema for $name $(<$life>)? {}
    )*};
    (parameters $($name:ident),* $(,)?) => {$(
        impl utoipa::IntoParams for $name {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                $crate::http::request::schema::parameters(
                    <Self as nearprint_files::offer::FieldSet<'_>>::FIELDS.iter(),
                )
            }
        }
    )*};
}

pub(crate) use describe;
