//! Copies of several Parquet files, as the reader of `parquet` sees them.

#![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

use std::fs::File;
use std::path::Path;

use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, Date32Array, Date64Array, Decimal128Array, DictionaryArray,
    Float32Array, Float64Array, Int32Array, Int64Array, LargeStringArray, ListArray, NullArray,
    RecordBatch, StringArray, StringViewArray, StructArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampSecondArray, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::*;
use crate::dedup::output::Output;
use crate::{FileRecord, FileRecords, Raw, RecordForm};

type Columns<'a> = &'a [(&'a str, ArrayRef)];

/// Writes a file with these columns, all nullable.
fn write(folder: &Path, name: &str, columns: Columns<'_>, pairs: &[(&str, &str)]) -> PathBuf {
    let columns = columns.iter().map(|(name, array)| (*name, Arc::clone(array), true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let pairs = pairs.iter().map(|(key, value)| KeyValue::new((*key).into(), (*value).to_owned()));
    let properties = WriterProperties::builder();
    let properties = properties.set_key_value_metadata(Some(pairs.collect())).build();
    let path = folder.join(name);
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path
}

fn layout(files: &[PathBuf]) -> Result<Layout, LayoutFault> {
    Layout::of(files, (Format::Parquet, false), &ReadOptions::default())
}

/// Copies all rows of these files into one.
fn copied(files: &[PathBuf]) -> (RecordBatch, ArrowReaderMetadata) {
    let out = files[0].with_file_name("out.parquet");
    let mut output = Output::create(&out, Format::Parquet, false, layout(files).unwrap()).unwrap();
    let options = ReadOptions { form: RecordForm::Raw, is_lenient: true, ..Default::default() };
    for record in FileRecords::new(files.to_vec(), options) {
        match record.unwrap() {
            FileRecord::Document(entry) => match entry.raw {
                Raw::Row(batch, row) => output.row(&batch, row, None).unwrap(),
                raw @ (Raw::Bytes(_) | Raw::None | Raw::Piece { .. }) => panic!("{raw:?}"),
            },
            FileRecord::Other(other) => panic!("{other:?}"),
        }
    }
    output.finish().unwrap();
    let open = || File::open(&out).unwrap();
    let metadata = ArrowReaderMetadata::load(&open(), ArrowReaderOptions::default()).unwrap();
    let mut rows = ParquetRecordBatchReaderBuilder::try_new(open()).unwrap().build().unwrap();
    (rows.next().unwrap().unwrap(), metadata)
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

/// The column `a` of one file with this array, and of another with that one, in a copy of both.
fn both(one: &ArrayRef, other: &ArrayRef) -> ArrayRef {
    let folder = tempfile::tempdir().unwrap();
    let text = |array: &ArrayRef| ("text", texts(&vec!["words"; array.len()]));
    let files = [
        write(folder.path(), "one.parquet", &[text(one), ("a", Arc::clone(one))], &[]),
        write(folder.path(), "other.parquet", &[("a", Arc::clone(other)), text(other)], &[]),
    ];
    Arc::clone(copied(&files).0.column_by_name("a").unwrap())
}

#[test]
fn columns_are_matched_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let title = texts(&["t1"]);
    let files = [
        write(
            folder.path(),
            "a.parquet",
            &[("id", texts(&["a"])), ("text", texts(&["one"])), ("title", title)],
            &[],
        ),
        write(
            folder.path(),
            "b.parquet",
            &[("licence", texts(&["MIT"])), ("text", texts(&["two"])), ("id", texts(&["b"]))],
            &[],
        ),
    ];
    let columns: [(&str, ArrayRef); 4] = [
        ("id", texts(&["a", "b"])),
        ("text", texts(&["one", "two"])),
        ("title", Arc::new(StringArray::from(vec![Some("t1"), None]))),
        ("licence", Arc::new(StringArray::from(vec![None, Some("MIT")]))),
    ];
    let (batch, _) = copied(&files);
    let names: Vec<_> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, columns.each_ref().map(|(name, _)| *name));
    for (name, column) in columns {
        assert_eq!(batch.column_by_name(name).unwrap(), &column, "{name}");
    }
}

#[test]
fn types_are_unified_where_nothing_is_lost() {
    let list = |values: Vec<Option<i32>>| -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(values)]))
    };
    let of = |name: &str, array: ArrayRef| -> ArrayRef {
        let field = Arc::new(Field::new(name, array.data_type().clone(), true));
        Arc::new(StructArray::from(vec![(field, array)]))
    };
    let instants = |zone: &str| -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(vec![5]).with_timezone(zone))
    };
    let decimals = |precision| -> ArrayRef {
        let array = Decimal128Array::from(vec![1_234]).with_precision_and_scale(precision, 2);
        Arc::new(array.unwrap())
    };
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![1, 1 << 40]));
    for (one, other, expected) in [
        (
            Arc::new(Int32Array::from(vec![1])) as ArrayRef,
            Arc::new(Int64Array::from(vec![1_i64 << 40])) as ArrayRef,
            Arc::clone(&longs),
        ),
        (
            Arc::new(UInt32Array::from(vec![1])),
            Arc::new(Int32Array::from(vec![-1])),
            Arc::new(Int64Array::from(vec![1, -1])),
        ),
        (
            Arc::new(Float32Array::from(vec![0.5])),
            Arc::new(Float64Array::from(vec![1e300])),
            Arc::new(Float64Array::from(vec![0.5, 1e300])),
        ),
        (
            Arc::new(NullArray::new(1)),
            texts(&["en"]),
            Arc::new(StringArray::from(vec![None, Some("en")])),
        ),
        (
            texts(&["a"]),
            Arc::new(LargeStringArray::from(vec!["b"])),
            Arc::new(LargeStringArray::from(vec!["a", "b"])),
        ),
        (Arc::new(StringViewArray::from(vec!["a"])), texts(&["b"]), texts(&["a", "b"])),
        (
            Arc::new(["a"].into_iter().collect::<DictionaryArray<Int32Type>>()),
            texts(&["b"]),
            texts(&["a", "b"]),
        ),
        (
            instants("UTC"),
            instants("+02:00"),
            Arc::new(TimestampMicrosecondArray::from(vec![5, 5]).with_timezone("UTC")),
        ),
    ] {
        let kinds = format!("{} {}", one.data_type(), other.data_type());
        assert_eq!(&both(&one, &other), &expected, "{kinds}");
    }
    let precise = both(&decimals(9), &decimals(20));
    assert_eq!(*precise.data_type(), DataType::Decimal128(20, 2));
    // Within structures and lists too.
    let nested = both(&of("n", list(vec![Some(1)])), &of("m", texts(&["x"])));
    let DataType::Struct(fields) = nested.data_type() else { panic!("{nested:?}") };
    assert_eq!(fields.iter().map(|field| &**field.name()).collect::<Vec<_>>(), ["n", "m"]);
    assert_eq!(nested.null_count(), 0);
}

#[test]
fn types_that_parquet_lacks_become_those_that_it_has() {
    let days: ArrayRef = Arc::new(Date64Array::from(vec![86_400_000]));
    let expected: ArrayRef = Arc::new(Date32Array::from(vec![1, 2]));
    let other: ArrayRef = Arc::new(Date32Array::from(vec![2]));
    assert_eq!(&both(&days, &other), &expected);
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1]));
    let other: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![5]));
    let expected: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1_000, 5]));
    assert_eq!(&both(&seconds, &other), &expected);
}

#[test]
fn types_that_do_not_fit_are_refused_with_both_files_and_the_column() {
    let folder = tempfile::tempdir().unwrap();
    let one = write(folder.path(), "one.parquet", &[("text", texts(&["a"]))], &[]);
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let named: ArrayRef = Arc::new(UInt64Array::from(vec![1]));
    let columns = [("id", number), ("text", texts(&["b"]))];
    let two = write(folder.path(), "two.parquet", &columns, &[]);
    let columns = [("id", named), ("text", texts(&["b"]))];
    let three = write(folder.path(), "three.parquet", &columns, &[]);
    let fault = layout(&[one, two.clone(), three.clone()]).unwrap_err();
    assert_eq!(fault.files, [two, three]);
    for part in ["`id`", "Int64", "UInt64", "two.parquet", "three.parquet"] {
        assert!(fault.why.contains(part), "{part} in {}", fault.why);
    }
    let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![&b"a"[..]]));
    let four = write(folder.path(), "four.parquet", &[("text", bytes)], &[]);
    let five = write(folder.path(), "five.parquet", &[("text", texts(&["a"]))], &[]);
    assert!(layout(&[four, five]).unwrap_err().why.contains("`text`"));
}

#[test]
fn a_copy_keeps_logical_types_and_what_programs_say_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut ids = FixedSizeBinaryBuilder::new(16);
    ids.append_value([7; 16]).unwrap();
    let ids: ArrayRef = Arc::new(ids.finish());
    let batch = RecordBatch::try_from_iter([("id", ids), ("text", texts(&["words"]))]).unwrap();
    let stored = "message schema { required fixed_len_byte_array(16) id (UUID); \
                  required binary text (JSON); }";
    let stored = parquet::schema::parser::parse_message_type(stored).unwrap();
    let stored = parquet::schema::types::SchemaDescriptor::new(Arc::new(stored));
    let path = folder.path().join("in.parquet");
    let options = parquet::arrow::arrow_writer::ArrowWriterOptions::new()
        .with_parquet_schema(stored.clone())
        .with_skip_arrow_metadata(true);
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new_with_options(file, batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    writer.append_key_value_metadata(KeyValue::new("license".to_owned(), "MIT".to_owned()));
    writer.close().unwrap();

    let (_, metadata) = copied(std::slice::from_ref(&path));
    assert_eq!(
        metadata.parquet_schema().root_schema().get_fields(),
        stored.root_schema().get_fields()
    );
    let pairs = metadata.metadata().file_metadata().key_value_metadata().unwrap();
    assert!(pairs.contains(&KeyValue::new("license".to_owned(), "MIT".to_owned())), "{pairs:?}");

    let read = FileRecords::new(vec![path], ReadOptions::default()).next().unwrap().unwrap();
    let FileRecord::Document(entry) = read else { panic!("{read:?}") };
    assert_eq!(entry.id.as_deref(), Some("07070707-0707-0707-0707-070707070707"));
}

#[test]
fn a_copy_without_rows_has_the_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a.parquet", &[("text", texts(&["a"]))], &[]);
    let out = folder.path().join("out.parquet");
    let columns = layout(&[path]).unwrap();
    Output::create(&out, Format::Parquet, true, columns).unwrap().finish().unwrap();
    let metadata =
        ArrowReaderMetadata::load(&File::open(out).unwrap(), ArrowReaderOptions::default())
            .unwrap();
    let names: Vec<_> = metadata.schema().fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["text", "duplicate_of", "distance", "similarity", "group"]);
}
