//! The types of a column in several files: one type that holds all of their values, if there is
//! one.
//!
//! The crate arrow-cast converts between more types, also between some that lose something, and
//! brings half of Arrow into the build.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal128Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    LargeBinaryArray, LargeListArray, LargeStringArray, ListArray, StringArray, StructArray,
    UInt16Array, UInt32Array, UInt64Array, new_null_array,
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, TimeUnit};

const DAY_MS: i64 = 86_400_000;

/// The same columns with types that Parquet has. Of the others, files hold these, and Arrow says in
/// their footers what they were before.
#[expect(clippy::wildcard_enum_match_arm, reason = "Parquet has the other types")]
pub(super) fn storable(fields: &Fields) -> Fields {
    let item = |item: &FieldRef| storable(&vec![Arc::clone(item)].into())[0].clone();
    let kind = |kind: &DataType| match kind {
        DataType::Date64 => DataType::Date32,
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::List(inner) => DataType::List(item(inner)),
        DataType::LargeList(inner) => DataType::LargeList(item(inner)),
        DataType::Struct(fields) => DataType::Struct(storable(fields)),
        kind => kind.clone(),
    };
    let field = |field: &FieldRef| field.as_ref().clone().with_data_type(kind(field.data_type()));
    fields.iter().map(field).collect()
}

/// Two types of one column that no type holds without a loss.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Clash {
    /// The column, with the structures around it.
    pub(super) column: String,
    pub(super) types: [String; 2],
}

/// The field that holds the values of both.
pub(super) fn unified(path: &str, one: &Field, other: &Field) -> Result<Field, Clash> {
    let kind = unified_type(path, one.data_type(), other.data_type())?;
    let mut metadata = one.metadata().clone();
    metadata.retain(|key, value| other.metadata().get(key) == Some(value));
    let is_nullable = one.is_nullable() || other.is_nullable();
    // A column that has no values in one file is null there.
    let is_absent = [one, other].iter().any(|field| *field.data_type() == DataType::Null);
    Ok(Field::new(one.name(), kind, is_nullable || is_absent).with_metadata(metadata))
}

fn unified_type(path: &str, one: &DataType, other: &DataType) -> Result<DataType, Clash> {
    if one == other {
        return Ok(one.clone());
    }
    let clash = || Clash { column: path.to_owned(), types: [one.to_string(), other.to_string()] };
    let inner = |one: &FieldRef, other: &FieldRef| unified(path, one, other).map(Arc::new);
    match (one, other) {
        (DataType::Null, kind) | (kind, DataType::Null) => Ok(kind.clone()),
        (DataType::Dictionary(_, one), other) => unified_type(path, one, other),
        (one, DataType::Dictionary(_, other)) => unified_type(path, one, other),
        (DataType::List(one), DataType::List(other)) => Ok(DataType::List(inner(one, other)?)),
        (DataType::LargeList(one), DataType::LargeList(other)) => {
            Ok(DataType::LargeList(inner(one, other)?))
        }
        (DataType::Struct(one), DataType::Struct(other)) => {
            all_of(path, one, other).map(DataType::Struct)
        }
        (DataType::Timestamp(one, Some(_)), DataType::Timestamp(other, Some(_)))
            if one == other =>
        {
            Ok(DataType::Timestamp(*one, Some("UTC".into())))
        }
        (DataType::Decimal128(one, scale), DataType::Decimal128(other, same)) if scale == same => {
            Ok(DataType::Decimal128(*one.max(other), *scale))
        }
        (one, other) if one.is_integer() && other.is_integer() => {
            integer(one, other).ok_or_else(clash)
        }
        (one, other) if one.is_floating() && other.is_floating() => {
            let is_double = [one, other].contains(&&DataType::Float64);
            Ok(if is_double { DataType::Float64 } else { DataType::Float32 })
        }
        (one, other) if one.is_string() && other.is_string() => {
            let is_large = [one, other].contains(&&DataType::LargeUtf8);
            Ok(if is_large { DataType::LargeUtf8 } else { DataType::Utf8 })
        }
        (one, other) if is_bytes(one) && is_bytes(other) => {
            let is_large = [one, other].contains(&&DataType::LargeBinary);
            Ok(if is_large { DataType::LargeBinary } else { DataType::Binary })
        }
        _ => Err(clash()),
    }
}

fn is_bytes(kind: &DataType) -> bool {
    matches!(kind, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// The fields of both, by their names; what one of them lacks is null there.
pub(super) fn all_of(path: &str, one: &Fields, other: &Fields) -> Result<Fields, Clash> {
    let mut all = Vec::new();
    let within = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    let nullable = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
    for field in one {
        all.push(match other.find(field.name()) {
            Some((_, same)) => Arc::new(unified(&within(field.name()), field, same)?),
            None => nullable(field),
        });
    }
    all.extend(other.iter().filter(|field| one.find(field.name()).is_none()).map(nullable));
    Ok(all.into())
}

/// The smallest type of integers that holds the values of both.
fn integer(one: &DataType, other: &DataType) -> Option<DataType> {
    // A signed type has a bit less for its values.
    let bits = |kind: &DataType| 8 * kind.primitive_width().unwrap_or(8);
    let is_signed = |kind: &DataType| kind.is_signed_integer();
    let signed = is_signed(one) || is_signed(other);
    let needed = |kind: &DataType| bits(kind) + usize::from(signed && !is_signed(kind));
    Some(match (signed, needed(one).max(needed(other))) {
        (true, 0..=16) => DataType::Int16,
        (true, 17..=32) => DataType::Int32,
        (true, 33..=64) => DataType::Int64,
        (false, 0..=16) => DataType::UInt16,
        (false, 17..=32) => DataType::UInt32,
        (false, 33..=64) => DataType::UInt64,
        _ => return None,
    })
}

/// A column as an array of a type that [`unified`] found for it.
///
/// # Errors
/// It is none of these types.
pub(super) fn converted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    let nulls = array.nulls().cloned();
    Ok(match (array.data_type(), to) {
        (DataType::Null, _) => new_null_array(to, array.len()),
        (DataType::Dictionary(..), _) => {
            let dictionary = array.as_any_dictionary();
            let keys = dictionary.keys();
            let values = arrow_select::take::take(dictionary.values().as_ref(), keys, None)?;
            converted(&values, to)?
        }
        (DataType::List(_), DataType::List(field)) => {
            let list = array.as_list::<i32>();
            let values = converted(list.values(), field.data_type())?;
            let offsets = list.offsets().clone();
            Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, nulls)?)
        }
        (DataType::LargeList(_), DataType::LargeList(field)) => {
            let list = array.as_list::<i64>();
            let values = converted(list.values(), field.data_type())?;
            let offsets = list.offsets().clone();
            Arc::new(LargeListArray::try_new(Arc::clone(field), offsets, values, nulls)?)
        }
        (DataType::Struct(own), DataType::Struct(fields)) => {
            let columns = array.as_struct().columns();
            let columns = by_name(own, columns, fields, array.len())?;
            Arc::new(StructArray::try_new(fields.clone(), columns, nulls)?)
        }
        (DataType::Date64, DataType::Date32) => {
            let days = |ms: i64| ms.div_euclid(DAY_MS) as i32;
            Arc::new(array.as_primitive::<Date64Type>().unary::<_, Date32Type>(days))
        }
        (DataType::Time32(TimeUnit::Second), DataType::Time32(TimeUnit::Millisecond)) => {
            let times = array.as_primitive::<Time32SecondType>();
            Arc::new(times.unary::<_, Time32MillisecondType>(|s| s.saturating_mul(1_000)))
        }
        (
            DataType::Timestamp(TimeUnit::Second, _),
            DataType::Timestamp(TimeUnit::Millisecond, zone),
        ) => {
            let instants = array.as_primitive::<TimestampSecondType>();
            let instants =
                instants.unary::<_, TimestampMillisecondType>(|s| s.saturating_mul(1_000));
            Arc::new(instants.with_timezone_opt(zone.clone()))
        }
        (_, DataType::Timestamp(unit, zone)) => instants(array, *unit, zone.clone())?,
        (_, DataType::Decimal128(precision, scale)) => {
            let decimals = array.as_primitive_opt::<Decimal128Type>().ok_or_else(|| other(to))?;
            Arc::new(decimals.clone().with_precision_and_scale(*precision, *scale)?)
        }
        (_, DataType::Float32) => {
            Arc::new(floats(array, to)?.map(narrow).collect::<Float32Array>())
        }
        (_, DataType::Float64) => Arc::new(floats(array, to)?.collect::<Float64Array>()),
        (from, to) if from.is_integer() => integers(array, to)?,
        (_, DataType::Utf8) => Arc::new(texts(array, to)?.into_iter().collect::<StringArray>()),
        (_, DataType::LargeUtf8) => {
            Arc::new(texts(array, to)?.into_iter().collect::<LargeStringArray>())
        }
        (_, DataType::Binary) => Arc::new(bytes(array, to)?.into_iter().collect::<BinaryArray>()),
        (_, DataType::LargeBinary) => {
            Arc::new(bytes(array, to)?.into_iter().collect::<LargeBinaryArray>())
        }
        _ => return Err(other(to)),
    })
}

/// The columns of a file in the order and with the types of `fields`; one that it lacks is null.
pub(super) fn by_name(
    own: &Fields,
    columns: &[ArrayRef],
    fields: &Fields,
    rows: usize,
) -> Result<Vec<ArrayRef>, ArrowError> {
    let column = |field: &FieldRef| match own.find(field.name()) {
        Some((at, _)) => converted(&columns[at], field.data_type()),
        None => Ok(new_null_array(field.data_type(), rows)),
    };
    fields.iter().map(column).collect()
}

/// The column has changed since its type was found.
fn other(to: &DataType) -> ArrowError {
    ArrowError::SchemaError(format!("a column cannot become {to}"))
}

fn instants(
    array: &ArrayRef,
    unit: TimeUnit,
    zone: Option<Arc<str>>,
) -> Result<ArrayRef, ArrowError> {
    macro_rules! of {
        ($type:ty) => {
            match array.as_primitive_opt::<$type>() {
                Some(instants) => Ok(Arc::new(instants.clone().with_timezone_opt(zone))),
                None => Err(other(&DataType::Timestamp(unit, zone))),
            }
        };
    }
    match unit {
        TimeUnit::Second => of!(TimestampSecondType),
        TimeUnit::Millisecond => of!(TimestampMillisecondType),
        TimeUnit::Microsecond => of!(TimestampMicrosecondType),
        TimeUnit::Nanosecond => of!(TimestampNanosecondType),
    }
}

/// A number that came from single or half precision.
fn narrow(number: Option<f64>) -> Option<f32> {
    number.map(|number| number as f32)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "these are all floating types")]
fn floats(
    array: &ArrayRef,
    to: &DataType,
) -> Result<impl Iterator<Item = Option<f64>>, ArrowError> {
    macro_rules! of {
        ($type:ty) => {
            array.as_primitive::<$type>().iter().map(|n| n.map(f64::from)).collect::<Vec<_>>()
        };
    }
    let all = match array.data_type() {
        DataType::Float16 => of!(Float16Type),
        DataType::Float32 => of!(Float32Type),
        DataType::Float64 => of!(Float64Type),
        _ => return Err(other(to)),
    };
    Ok(all.into_iter())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "no other integers are unified")]
fn integers(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    macro_rules! from {
        ($type:ty) => {
            array.as_primitive::<$type>().iter().map(|n| n.map(i128::from)).collect()
        };
    }
    let all: Vec<Option<i128>> = match array.data_type() {
        DataType::Int8 => from!(Int8Type),
        DataType::Int16 => from!(Int16Type),
        DataType::Int32 => from!(Int32Type),
        DataType::Int64 => from!(Int64Type),
        DataType::UInt8 => from!(UInt8Type),
        DataType::UInt16 => from!(UInt16Type),
        DataType::UInt32 => from!(UInt32Type),
        DataType::UInt64 => from!(UInt64Type),
        _ => return Err(other(to)),
    };
    macro_rules! into {
        ($array:ty) => {
            Arc::new(
                all.into_iter()
                    .map(|n| n.map(TryInto::try_into).transpose().map_err(|_| other(to)))
                    .collect::<Result<$array, _>>()?,
            )
        };
    }
    Ok(match to {
        DataType::Int16 => into!(Int16Array),
        DataType::Int32 => into!(Int32Array),
        DataType::Int64 => into!(Int64Array),
        DataType::UInt16 => into!(UInt16Array),
        DataType::UInt32 => into!(UInt32Array),
        DataType::UInt64 => into!(UInt64Array),
        _ => return Err(other(to)),
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "these are all types of text")]
fn texts<'a>(array: &'a ArrayRef, to: &DataType) -> Result<Vec<Option<&'a str>>, ArrowError> {
    Ok(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().collect(),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().collect(),
        DataType::Utf8View => array.as_string_view().iter().collect(),
        _ => return Err(other(to)),
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "these are all types of bytes")]
fn bytes<'a>(array: &'a ArrayRef, to: &DataType) -> Result<Vec<Option<&'a [u8]>>, ArrowError> {
    Ok(match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().iter().collect(),
        DataType::LargeBinary => array.as_binary::<i64>().iter().collect(),
        DataType::BinaryView => array.as_binary_view().iter().collect(),
        _ => return Err(other(to)),
    })
}
