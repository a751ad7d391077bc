//! Describes requests in the OpenAPI document by their tables of fields.

use nearprint_engine::document::DocumentId;
use nearprint_fingerprint::Distance;
use nearprint_text::DIMENSIONS_MAX;
use nearprint_wire::offer::{FINGERPRINT, Field, FieldKind};
use serde_json::{Value as Json, json};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::AdditionalProperties::FreeForm;
use utoipa::openapi::schema::{
    ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type,
};
use utoipa::openapi::{OpenApi, Ref, RefOr, Required};

use crate::http::middleware::access::operations;

/// The schema of a JSON object with these fields.
pub(crate) fn object<'f>(doc: &str, fields: impl Iterator<Item = &'f Field>) -> RefOr<Schema> {
    let mut names = Vec::new();
    let object = fields.fold(ObjectBuilder::new(), |object, field| {
        names.push(field.name);
        let object = object.property(field.name, described(field.kind, field.doc));
        if is_required(field) { object.required(field.name) } else { object }
    });
    let demands = demands(&|name| names.contains(&name));
    let demands = (!demands.is_empty()).then(|| Extensions::from_iter([("allOf", demands)]));
    object
        .description(Some(doc.trim()))
        .additional_properties(Some(FreeForm::<Schema>(false)))
        .extensions(demands)
        .into()
}

/// The field whose range depends on the service.
const DISTANCE: &str = "distance";

/// Two fields that exclude each other, wherever both are taken.
struct Exclusion {
    one: &'static str,
    /// The value of `one` that excludes `other`; `None`: any value.
    value: Option<bool>,
    other: &'static str,
}

const fn exclusion(one: &'static str, value: Option<bool>, other: &'static str) -> Exclusion {
    Exclusion { one, value, other }
}

const EXCLUSIONS: &[Exclusion] = &[
    exclusion("expires_in", None, "expires_at"),
    exclusion("all_namespaces", Some(true), "namespace"),
    exclusion("verified", Some(false), "min_similarity"),
    exclusion("verified", Some(false), "min_numbers"),
    exclusion("id", None, "id_from"),
];

impl Exclusion {
    fn applies(&self, has: &dyn Fn(&str) -> bool) -> bool {
        has(self.one) && has(self.other)
    }

    /// It in JSON Schema.
    fn in_schema(&self) -> Json {
        let Self { one, value, other } = self;
        let both = [one, other];
        match value {
            None => json!({"not": {"required": both}}),
            Some(value) => {
                let at = json!({ *one: {"const": value} });
                json!({"not": {"required": both, "properties": at}})
            }
        }
    }

    /// It among query parameters, in IDL4OAS.
    fn in_query(&self) -> String {
        let Self { one, value, other } = self;
        match value {
            None => format!("ZeroOrOne({one}, {other})"),
            Some(value) => format!("IF {one}=={value} THEN NOT {other}"),
        }
    }
}

/// The forms of a document; it has exactly one.
const CONTENTS: [&str; 5] = ["text", "html", "features", "vector", "fingerprint"];

/// The forms for which no id can be made from the text.
const WITHOUT_TEXT: [&str; 3] = ["features", "vector", "fingerprint"];

/// Whether a document with an id and without content is the one that is stored: its namespace is
/// part of that name, and no option of a look-up or of a write.
fn may_be_stored(has: &dyn Fn(&str) -> bool) -> bool {
    has("namespace") && !has("distance") && !has("metadata")
}

/// What the fields of an object demand of each other, in JSON Schema. It stands in an `allOf`,
/// because tools that make types of a schema pass over that, and those that check values do not.
fn demands(has: &dyn Fn(&str) -> bool) -> Vec<Json> {
    let one_of =
        |names: &[&str]| names.iter().map(|name| json!({"required": [name]})).collect::<Vec<_>>();
    let pairs = EXCLUSIONS.iter().filter(|pair| pair.applies(has));
    let mut demands: Vec<_> = pairs.map(Exclusion::in_schema).collect();
    if CONTENTS.iter().all(|name| has(name)) {
        let mut forms = one_of(&CONTENTS);
        if may_be_stored(has) {
            let others = [&CONTENTS[..], &["recipe", "sketch"]].concat();
            let made = json!({"properties": {"id": {"type": "object"}}});
            let no = [one_of(&others), vec![json!({"allOf": [made, {"required": ["id"]}]})]];
            forms.push(json!({"required": ["id"], "not": {"anyOf": no.concat()}}));
            let given = json!({"required": ["namespace"], "anyOf": one_of(&CONTENTS)});
            demands.push(json!({"not": given}));
        }
        demands.push(json!({"oneOf": forms}));
        demands.push(json!({"dependentRequired": {"sketch": ["fingerprint", "recipe"]}}));
        let of_text = json!({
            "type": "object", "properties": {"from": {"const": "text-hash"}}, "required": ["from"],
        });
        let is_of_text = json!({"required": ["id"], "properties": {"id": of_text}});
        demands.push(json!({"not": {"allOf": [is_of_text, {"anyOf": one_of(&WITHOUT_TEXT)}]}}));
    }
    if has("stored_before") {
        let mut narrow = one_of(&["namespace", "prefix", "stored_before"]);
        let all = json!({"const": true});
        narrow.push(json!({"required": ["all_namespaces"], "properties": {"all_namespaces": all}}));
        demands.push(json!({"anyOf": narrow}));
    }
    demands
}

/// Which query parameters of an operation exclude each other, as an extension (`x-dependencies` of
/// IDL4OAS): `OpenAPI` itself has no word for it.
pub(crate) fn exclusions(parameters: Option<&[RefOr<Parameter>]>) -> Option<Extensions> {
    let all = parameters.unwrap_or_default().iter();
    let parameters = all.filter_map(|one| if let RefOr::T(one) = one { Some(one) } else { None });
    let in_query = |parameter: &&Parameter| parameter.parameter_in == ParameterIn::Query;
    let names: Vec<_> = parameters.filter(in_query).map(|one| one.name.as_str()).collect();
    let has = |name: &str| names.contains(&name);
    let both = EXCLUSIONS.iter().filter(|pair| pair.applies(&has));
    let pairs: Vec<_> = both.map(Exclusion::in_query).collect();
    (!pairs.is_empty()).then(|| Extensions::from_iter([("x-dependencies", pairs)]))
}

/// Narrows every distance of a request to what a service looks up, from what any service may.
pub(crate) fn limit_distance(document: &mut OpenApi, max: Distance) {
    let most = whole(0, max.get().into()).build().maximum;
    let narrow = |schema: &mut RefOr<Schema>| {
        if let RefOr::T(Schema::Object(object)) = schema {
            object.maximum.clone_from(&most);
        }
    };
    let components = document.components.iter_mut().flat_map(|all| all.schemas.iter_mut());
    for (name, schema) in components {
        let is_request = name.ends_with("Request") || name.ends_with("Body");
        if let RefOr::T(Schema::Object(object)) = schema
            && is_request
            && let Some(distance) = object.properties.get_mut(DISTANCE)
        {
            narrow(distance);
        }
    }
    for (_, operation) in document.paths.paths.values_mut().flat_map(operations) {
        for parameter in operation.parameters.iter_mut().flatten() {
            if let RefOr::T(parameter) = parameter
                && parameter.name == DISTANCE
                && let Some(schema) = &mut parameter.schema
            {
                narrow(schema);
            }
        }
    }
}

/// The query parameters of these fields.
pub(crate) fn parameters<'f>(fields: impl Iterator<Item = &'f Field>) -> Vec<Parameter> {
    let parameter = |field: &Field| {
        let builder = ParameterBuilder::new()
            .name(field.name)
            .parameter_in(ParameterIn::Query)
            .required(if is_fingerprint(field) { Required::True } else { Required::False })
            .description(Some(field.doc.trim()))
            .schema(Some(in_query(field.kind)));
        // The names of a list have commas between them.
        let is_list = matches!(field.kind, FieldKind::Names(_));
        if is_list { builder.explode(Some(false)).build() } else { builder.build() }
    };
    fields.map(parameter).collect()
}

/// A parameter in the path.
pub(crate) fn in_path(name: &str, kind: FieldKind, doc: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(doc))
        .schema(Some(in_query(kind)))
        .build()
}

/// Whether an object must have the field: the two documents of a comparison.
fn is_required(field: &Field) -> bool {
    matches!(field.kind, FieldKind::Document(_))
}

/// Whether it is the fingerprint of `GET /v1/query`, which has no other form of a document.
fn is_fingerprint(field: &Field) -> bool {
    field.kind == FieldKind::Fingerprint
}

/// The schema of a query parameter or a part of a path, where every value is a text.
fn in_query(kind: FieldKind) -> RefOr<Schema> {
    if let FieldKind::Names(names) = kind {
        // An empty list names nothing.
        ArrayBuilder::new().items(choice(names)).min_items(Some(1)).into()
    } else if kind == FieldKind::Id {
        text(1, DocumentId::BYTES_MAX).into()
    } else if kind == FieldKind::Fingerprint {
        form(FINGERPRINT).into()
    } else {
        described(kind, "")
    }
}

fn described(kind: FieldKind, doc: &str) -> RefOr<Schema> {
    let doc = Some(doc.trim()).filter(|doc| !doc.is_empty());
    match kind {
        FieldKind::Text(min, max) => text(min, max).description(doc).into(),
        FieldKind::Form(pattern) => form(pattern).description(doc).into(),
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
            .item(form(FINGERPRINT))
            .item(
                ObjectBuilder::new()
                    .schema_type(Type::Integer)
                    .minimum(Some(i64::MIN))
                    .maximum(Some(u64::MAX)),
            )
            .description(doc)
            .into(),
        FieldKind::Id => {
            let source = choice(&["fingerprint", "text-hash"]);
            let made = ObjectBuilder::new().property("from", source).required("from");
            OneOfBuilder::new()
                .item(text(1, DocumentId::BYTES_MAX))
                .item(ObjectBuilder::new().schema_type(Type::Integer))
                .item(made.additional_properties(Some(FreeForm::<Schema>(false))))
                .description(doc)
                .into()
        }
        FieldKind::Metadata => {
            let object = ObjectBuilder::new().schema_type(Type::Object).description(doc);
            object.additional_properties(Some(FreeForm::<Schema>(true))).into()
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

fn form(pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern))
}

/// utoipa describes a tuple by `items: false`, which not every tool understands.
fn pair() -> ArrayBuilder {
    ArrayBuilder::new()
        .prefix_items([text(0, 0), number()].map(ObjectBuilder::build))
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
                    <Self as nearprint_wire::offer::FieldSet<'_>>::FIELDS.iter(),
                )
            }
        }
        impl utoipa::ToSchema for $name $(<$life>)? {}
    )*};
    (path $($struct:ident $name:literal $kind:expr, $doc:literal;)*) => {$(
        #[doc = concat!("The description of the part `", $name, "` of a path.")]
        #[derive(Debug)]
        pub(crate) enum $struct {}

        impl utoipa::IntoParams for $struct {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                vec![$crate::http::request::schema::in_path($name, $kind, $doc)]
            }
        }
    )*};
    (parameters $($name:ident),* $(,)?) => {$(
        impl utoipa::IntoParams for $name {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                $crate::http::request::schema::parameters(
                    <Self as nearprint_wire::offer::FieldSet<'_>>::FIELDS.iter(),
                )
            }
        }
    )*};
}

pub(crate) use describe;
