//! Cells of Arrow arrays as JSON.
//!
//! Bytes that are UTF-8 are text, as many programs write texts, and others are written in hex;
//! UUIDs have their dashes. Times are RFC 3339 in UTC, whatever their time zone. Decimals keep all
//! their digits; infinity and NaN are null. Null fields of a structure and null entries of a map
//! are omitted.
//!
//! The crate arrow-json does the same but for texts and UUIDs, and tests compare the two. The
//! program does without it, because it brings half of Arrow into the build.

use std::io::Write as _;

use arrow_array::Array;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType, Field, TimeUnit};
use serde::Serialize;

/// The name of a type of bytes that are a UUID.
const UUID: &str = "arrow.uuid";
/// The name of bytes that are declared to be text.
const TEXT: &str = "nearprint.text";
/// What is wrong with bytes that are declared to be text, and are none.
pub(super) const NOT_UTF8: &str = "is not UTF-8";

/// A column of UUIDs.
pub(super) fn uuid(field: &Field) -> Field {
    marked(field, UUID)
}

/// A column of bytes that are declared to be text.
pub(super) fn text(field: &Field) -> Field {
    marked(field, TEXT)
}

fn marked(field: &Field, name: &str) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), name.to_owned());
    field.clone().with_metadata(metadata)
}

/// Whether the bytes of each cell are declared to be text.
pub(super) fn is_text(field: &Field) -> bool {
    field.metadata().get(EXTENSION_TYPE_NAME_KEY).is_some_and(|name| name == TEXT)
}

/// Whether the 16 bytes of each cell are a UUID.
pub(super) fn is_uuid(field: &Field) -> bool {
    let name = field.metadata().get(EXTENSION_TYPE_NAME_KEY);
    *field.data_type() == DataType::FixedSizeBinary(16) && name.is_some_and(|name| name == UUID)
}

/// Whether a cell is null.
pub(super) fn is_null(array: &dyn Array, row: usize) -> bool {
    match array.as_any_dictionary_opt() {
        None => *array.data_type() == DataType::Null || array.is_null(row),
        Some(dictionary) => {
            array.is_null(row)
                || key_of(dictionary.keys(), row)
                    .is_none_or(|key| is_null(dictionary.values().as_ref(), key))
        }
    }
}

/// Appends the JSON of a cell of a column.
///
/// # Errors
/// A type that no JSON stands for.
#[expect(clippy::wildcard_enum_match_arm, reason = "flat types have functions of their own")]
pub(super) fn write_json(
    field: &Field,
    array: &dyn Array,
    row: usize,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    if is_null(array, row) {
        return write(format_args!("null"), out);
    }
    match field.data_type() {
        DataType::List(item) => list(item, array.as_list::<i32>().value(row).as_ref(), out),
        DataType::LargeList(item) => list(item, array.as_list::<i64>().value(row).as_ref(), out),
        DataType::FixedSizeList(item, _) => {
            list(item, array.as_fixed_size_list().value(row).as_ref(), out)
        }
        DataType::ListView(item) => {
            list(item, array.as_list_view::<i32>().value(row).as_ref(), out)
        }
        DataType::LargeListView(item) => {
            list(item, array.as_list_view::<i64>().value(row).as_ref(), out)
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let cells = columns
                .map(|(field, column)| (Key::Name(field.name()), field.as_ref(), column, row));
            object(cells, out)
        }
        DataType::Map(entry, _) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let DataType::Struct(fields) = entry.data_type() else {
                return Err("has entries that are not structures".to_owned());
            };
            let (key, value) = (&fields[0], &fields[1]);
            let cell = |at| (Key::Cell(key, keys.as_ref(), at), value.as_ref(), values, at);
            object((0..entries.len()).map(cell), out)
        }
        DataType::Dictionary(_, kind) => {
            let dictionary = array.as_any_dictionary();
            let key = key_of(dictionary.keys(), row).ok_or("has a key beyond its dictionary")?;
            let word = field.clone().with_data_type(kind.as_ref().clone());
            write_json(&word, dictionary.values().as_ref(), key, out)
        }
        kind if kind.is_temporal() => write_time(array, row, out),
        _ => write_flat(field, array, row, out),
    }
}

/// Appends a number, a text, bytes or a truth value.
#[expect(clippy::wildcard_enum_match_arm, reason = "no JSON stands for any other type")]
fn write_flat(
    field: &Field,
    array: &dyn Array,
    row: usize,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    macro_rules! number {
        ($type:ty) => {
            json(&array.as_primitive::<$type>().value(row), out)
        };
    }
    macro_rules! decimal {
        ($type:ty) => {
            write(format_args!("{}", array.as_primitive::<$type>().value_as_string(row)), out)
        };
    }
    match array.data_type() {
        DataType::Boolean => json(&array.as_boolean().value(row), out),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float16 => json(&array.as_primitive::<Float16Type>().value(row).to_f32(), out),
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Utf8 => json(array.as_string::<i32>().value(row), out),
        DataType::LargeUtf8 => json(array.as_string::<i64>().value(row), out),
        DataType::Utf8View => json(array.as_string_view().value(row), out),
        DataType::Binary => bytes(field, array.as_binary::<i32>().value(row), out),
        DataType::LargeBinary => bytes(field, array.as_binary::<i64>().value(row), out),
        DataType::BinaryView => bytes(field, array.as_binary_view().value(row), out),
        DataType::FixedSizeBinary(_) => {
            let mut digits = hex(array.as_fixed_size_binary().value(row));
            if is_uuid(field) {
                for at in [20, 16, 12, 8] {
                    digits.insert(at, '-');
                }
            }
            json(&digits, out)
        }
        DataType::Decimal32(..) => decimal!(Decimal32Type),
        DataType::Decimal64(..) => decimal!(Decimal64Type),
        DataType::Decimal128(..) => decimal!(Decimal128Type),
        DataType::Decimal256(..) => decimal!(Decimal256Type),
        other => Err(format!("has the type {other}, which is not read")),
    }
}

/// Appends a date, a time, an instant or a duration.
#[expect(clippy::wildcard_enum_match_arm, reason = "no JSON stands for any other type")]
fn write_time(array: &dyn Array, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
    macro_rules! time {
        ($type:ty, $method:ident, $ending:expr) => {
            match array.as_primitive::<$type>().$method(row) {
                Some(time) => write(format_args!("\"{time:?}{}\"", $ending), out),
                None => Err("has a time beyond all calendars".to_owned()),
            }
        };
    }
    macro_rules! duration {
        ($type:ty) => {
            match array.as_primitive::<$type>().value_as_duration(row) {
                Some(duration) => write(format_args!("\"{duration}\""), out),
                None => Err("has a duration that is too long".to_owned()),
            }
        };
    }
    match array.data_type() {
        DataType::Date32 => time!(Date32Type, value_as_date, ""),
        DataType::Date64 => time!(Date64Type, value_as_datetime, ""),
        DataType::Time32(TimeUnit::Second) => time!(Time32SecondType, value_as_time, ""),
        DataType::Time32(_) => time!(Time32MillisecondType, value_as_time, ""),
        DataType::Time64(TimeUnit::Microsecond) => time!(Time64MicrosecondType, value_as_time, ""),
        DataType::Time64(_) => time!(Time64NanosecondType, value_as_time, ""),
        DataType::Timestamp(unit, zone) => {
            let utc = if zone.is_some() { "Z" } else { "" };
            match unit {
                TimeUnit::Second => time!(TimestampSecondType, value_as_datetime, utc),
                TimeUnit::Millisecond => time!(TimestampMillisecondType, value_as_datetime, utc),
                TimeUnit::Microsecond => time!(TimestampMicrosecondType, value_as_datetime, utc),
                TimeUnit::Nanosecond => time!(TimestampNanosecondType, value_as_datetime, utc),
            }
        }
        DataType::Duration(TimeUnit::Second) => duration!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => duration!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => duration!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => duration!(DurationNanosecondType),
        other => Err(format!("has the type {other}, which is not read")),
    }
}

/// The name of a field of a structure, or the key of an entry of a map.
enum Key<'a> {
    Name(&'a str),
    Cell(&'a Field, &'a dyn Array, usize),
}

/// The JSON object of those cells that are not null.
fn object<'a>(
    cells: impl Iterator<Item = (Key<'a>, &'a Field, &'a arrow_array::ArrayRef, usize)>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    out.push(b'{');
    let mut separator: &[u8] = b"";
    for (key, field, array, row) in
        cells.filter(|(_, _, array, row)| !is_null(array.as_ref(), *row))
    {
        out.extend_from_slice(separator);
        separator = b",";
        match key {
            Key::Name(name) => json(name, out)?,
            Key::Cell(key, keys, at) if keys.data_type().is_string() || is_text(key) => {
                write_json(key, keys, at, out)?;
            }
            Key::Cell(..) => return Err("has keys that are not text".to_owned()),
        }
        out.push(b':');
        write_json(field, array.as_ref(), row, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn list(item: &Field, items: &dyn Array, out: &mut Vec<u8>) -> Result<(), String> {
    out.push(b'[');
    for at in 0..items.len() {
        if at > 0 {
            out.push(b',');
        }
        write_json(item, items, at, out)?;
    }
    out.push(b']');
    Ok(())
}

/// The position in a dictionary that the key of a row names.
#[expect(clippy::wildcard_enum_match_arm, reason = "keys are integers")]
pub(super) fn key_of(keys: &dyn Array, row: usize) -> Option<usize> {
    macro_rules! key {
        ($type:ty) => {
            usize::try_from(keys.as_primitive::<$type>().value(row)).ok()
        };
    }
    match keys.data_type() {
        DataType::Int8 => key!(Int8Type),
        DataType::Int16 => key!(Int16Type),
        DataType::Int32 => key!(Int32Type),
        DataType::Int64 => key!(Int64Type),
        DataType::UInt8 => key!(UInt8Type),
        DataType::UInt16 => key!(UInt16Type),
        DataType::UInt32 => key!(UInt32Type),
        DataType::UInt64 => key!(UInt64Type),
        _ => None,
    }
}

/// Bytes that are UTF-8 are text.
fn bytes(field: &Field, cell: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    match str::from_utf8(cell) {
        Ok(text) => json(text, out),
        Err(_) if is_text(field) => Err(NOT_UTF8.to_owned()),
        Err(_) => json(&hex(cell), out),
    }
}

/// Two digits for each byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |four: u8| char::from(b"0123456789abcdef"[usize::from(four)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn json(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) -> Result<(), String> {
    serde_json::to_writer(out, value).map_err(|error| error.to_string())
}

fn write(what: std::fmt::Arguments<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    out.write_fmt(what).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{
        BinaryBuilder, FixedSizeBinaryBuilder, Int32Builder, ListBuilder, MapBuilder,
        StringBuilder, StringDictionaryBuilder,
    };
    use arrow_array::types::IntervalDayTimeType;
    use arrow_array::{
        ArrayRef, BooleanArray, Date32Array, Date64Array, Decimal128Array, Decimal256Array,
        DurationMicrosecondArray, DurationSecondArray, FixedSizeListArray, Float32Array,
        Float64Array, Int8Array, Int32Array, Int64Array, IntervalDayTimeArray, LargeStringArray,
        NullArray, StringArray, StringViewArray, StructArray, Time32MillisecondArray,
        Time32SecondArray, Time64NanosecondArray, TimestampMicrosecondArray,
        TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
    };
    use arrow_json::EncoderOptions;
    use arrow_json::writer::make_encoder;

    use super::*;

    fn ours(array: &dyn Array, row: usize) -> Result<String, String> {
        let (mut out, field) = (Vec::new(), Field::new("a", array.data_type().clone(), true));
        write_json(&field, array, row, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn theirs(array: &dyn Array, row: usize) -> String {
        let field = Arc::new(Field::new("a", array.data_type().clone(), true));
        let options = EncoderOptions::default();
        let mut encoder = make_encoder(&field, array, &options).unwrap();
        let mut out = Vec::new();
        if encoder.is_null(row) {
            return "null".to_owned();
        }
        encoder.encode(row, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn of_json(json: &str) -> serde_json::Value {
        serde_json::from_str(json).unwrap()
    }

    fn lists() -> ArrayRef {
        let mut lists = ListBuilder::new(Int32Builder::new());
        lists.append_value([Some(1), None, Some(3)]);
        lists.append_null();
        lists.append_value([]);
        Arc::new(lists.finish())
    }

    fn maps() -> ArrayRef {
        let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        maps.keys().append_value("a \" b");
        maps.values().append_value(1);
        maps.keys().append_value("b");
        maps.values().append_null();
        maps.append(true).unwrap();
        maps.append(true).unwrap();
        maps.append(false).unwrap();
        Arc::new(maps.finish())
    }

    fn dictionary() -> ArrayRef {
        let mut words = StringDictionaryBuilder::<Int8Type>::new();
        words.extend([Some("one"), None, Some("two"), Some("one")]);
        Arc::new(words.finish())
    }

    fn binary() -> Vec<ArrayRef> {
        let mut free = BinaryBuilder::new();
        let mut fixed = FixedSizeBinaryBuilder::new(3);
        for bytes in [b"ab\xfc", b"\x00\xff\x7f"] {
            free.append_value(bytes);
            fixed.append_value(bytes).unwrap();
        }
        free.append_null();
        fixed.append_null();
        vec![Arc::new(free.finish()), Arc::new(fixed.finish())]
    }

    fn structures() -> ArrayRef {
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some("\u{e9}\n")]));
        let field = |name: &str, array: &ArrayRef| {
            Arc::new(Field::new(name, array.data_type().clone(), true))
        };
        let (lists, maps) = (lists(), maps());
        Arc::new(StructArray::from(vec![
            (field("name", &names), names),
            (field("list", &lists), lists),
            (field("map", &maps), maps),
        ]))
    }

    fn numbers() -> Vec<ArrayRef> {
        vec![
            Arc::new(NullArray::new(2)),
            Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])),
            Arc::new(Int8Array::from(vec![Some(-128), None, Some(127)])),
            Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX])),
            Arc::new(UInt64Array::from(vec![u64::MAX, 0])),
            Arc::new(Float32Array::from(vec![0.1, -3.0e-30, f32::MAX, f32::NAN])),
            Arc::new(Float64Array::from(vec![0.1, 1e300, f64::MIN_POSITIVE, f64::INFINITY, -0.0])),
            Arc::new(
                Decimal128Array::from(vec![-12_345, 7, 0]).with_precision_and_scale(9, 3).unwrap(),
            ),
            Arc::new(
                Decimal256Array::from(vec![Some(i64::MAX.into()), None])
                    .with_precision_and_scale(40, 2)
                    .unwrap(),
            ),
        ]
    }

    fn times() -> Vec<ArrayRef> {
        let instants = [0, 1_700_000_000, -1, 253_402_300_799];
        let micros: Vec<i64> = instants.iter().map(|s| s * 1_000_000 + 120_300).collect();
        vec![
            Arc::new(Date32Array::from(vec![0, 19_000, -719_162])),
            Arc::new(Date64Array::from(vec![0, 1_700_000_000_000])),
            Arc::new(Time32SecondArray::from(vec![0, 86_399])),
            Arc::new(Time32MillisecondArray::from(vec![1, 86_399_999])),
            Arc::new(Time64NanosecondArray::from(vec![1, 3_600_000_000_000])),
            Arc::new(TimestampSecondArray::from(instants.to_vec()).with_timezone("+00:00")),
            Arc::new(TimestampMicrosecondArray::from(micros.clone())),
            Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("+00:00")),
            Arc::new(TimestampNanosecondArray::from(vec![1, 1_700_000_000_123_456_789])),
            Arc::new(DurationSecondArray::from(vec![0, 90, -86_400])),
            Arc::new(DurationMicrosecondArray::from(vec![1, 90_000_001])),
        ]
    }

    fn texts() -> Vec<ArrayRef> {
        let words = vec![Some("plain"), None, Some("quote \" and \u{7f}\u{0} \u{1f600}")];
        vec![
            Arc::new(StringArray::from(words.clone())),
            Arc::new(LargeStringArray::from(words.clone())),
            Arc::new(StringViewArray::from(words)),
        ]
    }

    #[test]
    fn cells_of_every_type_are_those_of_arrow_json() {
        let pairs: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
        let item = Arc::new(Field::new("item", DataType::Int32, true));
        let fixed: ArrayRef = Arc::new(FixedSizeListArray::new(item, 2, pairs, None));
        let nested = [lists(), maps(), dictionary(), structures(), fixed];
        let all = [numbers(), times(), texts(), binary(), nested.to_vec()].concat();
        for array in all {
            for row in 0..array.len() {
                let (ours, theirs) = (ours(&array, row).unwrap(), theirs(&array, row));
                // serde_json rounds some numbers that have an exponent.
                let number = ours.parse::<f64>().ok().zip(theirs.parse::<f64>().ok());
                let is_equal = number.map_or_else(
                    || of_json(&ours) == of_json(&theirs),
                    |(one, other)| one.to_bits() == other.to_bits(),
                );
                assert!(is_equal, "{ours} {theirs} {}", array.data_type());
                if matches!(array.data_type(), DataType::Decimal128(..) | DataType::Decimal256(..))
                {
                    assert_eq!(ours, theirs, "every digit stays");
                }
            }
        }
    }

    #[test]
    fn bytes_of_text_are_text_and_uuids_have_their_dashes() {
        let texts = arrow_array::BinaryArray::from(vec!["caf\u{e9} \"1\"".as_bytes(), b"\xff"]);
        assert_eq!(ours(&texts, 0).unwrap(), "\"caf\u{e9} \\\"1\\\"\"");
        assert_eq!(ours(&texts, 1).unwrap(), "\"ff\"");
        let mut ids = FixedSizeBinaryBuilder::new(16);
        ids.append_value([0x1a; 16]).unwrap();
        let ids: ArrayRef = Arc::new(ids.finish());
        let field = Arc::new(uuid(&Field::new("id", DataType::FixedSizeBinary(16), false)));
        let outer = StructArray::from(vec![(Arc::clone(&field), ids)]);
        let outer_field = Field::new("a", DataType::Struct(vec![field].into()), false);
        let mut out = Vec::new();
        write_json(&outer_field, &outer, 0, &mut out).unwrap();
        assert_eq!(out, b"{\"id\":\"1a1a1a1a-1a1a-1a1a-1a1a-1a1a1a1a1a1a\"}");
    }

    #[test]
    fn a_named_time_zone_is_the_same_instant_in_utc() {
        let array = TimestampSecondArray::from(vec![1_700_000_000]).with_timezone("Asia/Tokyo");
        assert_eq!(ours(&array, 0).unwrap(), "\"2023-11-14T22:13:20Z\"");
    }

    #[test]
    fn types_that_no_json_stands_for_are_errors() {
        let intervals = IntervalDayTimeArray::from(vec![IntervalDayTimeType::make_value(1, 2)]);
        assert!(ours(&intervals, 0).unwrap_err().contains("which is not read"));
        let beyond = Date64Array::from(vec![i64::MAX]);
        assert!(ours(&beyond, 0).unwrap_err().contains("beyond all calendars"));
    }
}
