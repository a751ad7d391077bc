//! Reads the JSON of a request into its fields, and reports what is wrong with it.

use nearprint_files::offer::{Fault, FaultKind, FieldSet, Value, json};

use crate::http::problem::{Code, Problem};

/// Reads the JSON object of a request.
pub(crate) fn read<'a, T: FieldSet<'a>>(json: &'a [u8]) -> Result<T, Problem> {
    let mut fields = T::default();
    read_into(json, &mut |name, value| fields.set_known(name, value))?;
    Ok(fields)
}

/// Reads the JSON object of a request, and passes its fields on.
pub(crate) fn read_into<'a>(
    json: &'a [u8],
    set: &mut dyn FnMut(&str, Value<'a>) -> Result<(), Fault>,
) -> Result<(), Problem> {
    json::object(json, &mut |name, value| set(&name, Value::Json(value))).map_err(|fault| {
        let code = match fault.kind {
            FaultKind::Syntax { .. } => {
                return Problem::new(Code::MalformedJson, fault.in_text(json));
            }
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
