//! Reads the JSON of a request into its fields, and reports what is wrong with it.

use axum::extract::Request;
use nearprint_wire::offer::{Fault, FaultKind, FieldSet, Value, json};

use crate::http::problem::{Code, Problem};
use crate::http::request::body::{self, Bodies, ContentKind, WholeBody};
use crate::http::request::caller::client_of;
use crate::http::request::parameters::{self, NoParameters};

/// The body of a request that is one JSON object, without query parameters; `takes` says so to the
/// client.
pub(crate) async fn whole_body(
    bodies: &Bodies,
    request: Request,
    takes: &str,
) -> Result<WholeBody, Problem> {
    let client = client_of(request.extensions());
    let (head, stream) = request.into_parts();
    let NoParameters {} = parameters::read(head.uri.query())?;
    if body::kind(&head.headers, "application/json")? != ContentKind::Json {
        return Err(body::unsupported(format!("This resource takes {takes}.")));
    }
    body::read(bodies, &client, stream).await
}

/// Reads the JSON object of a request.
pub(crate) fn read<'a, T: FieldSet<'a>>(json: &'a [u8]) -> Result<T, Problem> {
    let mut fields = T::default();
    read_into(json, &mut |name, value| fields.set_known(name, value))?;
    Ok(fields)
}

/// Reads the JSON object of a request that destroys: a null is refused. A client whose variable is
/// empty means less than everything.
pub(crate) fn read_without_null<'a, T: FieldSet<'a>>(json: &'a [u8]) -> Result<T, Problem> {
    let mut fields = T::default();
    read_into(json, &mut |name, value| fields.set_given(name, value))?;
    Ok(fields)
}

/// Reads the JSON object of a request, and passes its fields on.
pub(crate) fn read_into<'a>(
    json: &'a [u8],
    set: &mut dyn FnMut(&str, Value<'a>) -> Result<(), Fault>,
) -> Result<(), Problem> {
    json::object(json, &mut |name, value| set(&name, Value::Json(value))).map_err(|fault| {
        let code = match fault.kind {
            FaultKind::Syntax { .. } => Code::MalformedJson,
            FaultKind::Unknown { .. } => Code::UnknownField,
            FaultKind::Repeated => Code::RepeatedField,
            FaultKind::Type { .. } | FaultKind::Value(_) => Code::InvalidValue,
        };
        let problem = Problem::new(code, fault.in_text(json));
        match fault.field {
            Some(field) => problem.of_field(field),
            None => problem,
        }
    })
}
