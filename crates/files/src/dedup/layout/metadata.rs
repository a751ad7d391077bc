//! The key-value metadata in the footers of Parquet files, and what of it a copy keeps.
//!
//! Programs keep their own descriptions there: `pandas` the index, `huggingface` the features,
//! `geo` the encoding of shapes. What becomes wrong in a copy with other rows or columns is mended
//! or left out.

use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::file::metadata::KeyValue;
use serde_json::Value;

/// Keys with a description of all columns, which is wrong if the columns of the copy are others.
const OF_ALL_COLUMNS: [&str; 4] = [
    "org.apache.spark.sql.parquet.row.metadata",
    "parquet.avro.schema",
    "avro.schema",
    "iceberg.schema",
];

/// The pairs of a file.
pub(super) struct FileMetadata<'a> {
    pub(super) pairs: &'a [KeyValue],
    /// Whether the copy has the columns of the file, and no others.
    pub(super) has_all_columns: bool,
}

/// The pairs of a copy of these files, in the order of the first that has each.
pub(super) fn of_copy(files: &[FileMetadata<'_>]) -> Vec<KeyValue> {
    let mut merged: Vec<KeyValue> = Vec::new();
    let mut left_out: Vec<&str> = vec![ARROW_SCHEMA_META_KEY];
    if files.iter().any(|file| !file.has_all_columns) {
        left_out.extend(OF_ALL_COLUMNS);
    }
    for (number, file) in files.iter().enumerate() {
        for pair in file.pairs {
            if left_out.contains(&pair.key.as_str()) {
                continue;
            }
            let value = mended(pair, files.len());
            match merged.iter_mut().find(|known| known.key == pair.key) {
                None if number == 0 || pair.key != "pandas" => {
                    merged.push(KeyValue::new(pair.key.clone(), value));
                }
                // Files before this one have an index of their own, or none.
                None => left_out.push(&pair.key),
                Some(known) if known.value == value => {}
                Some(known) => match agreed(&pair.key, known.value.as_deref(), value.as_deref()) {
                    Some(both) => known.value = Some(both),
                    None => left_out.push(&pair.key),
                },
            }
        }
    }
    merged.retain(|pair| !left_out.contains(&pair.key.as_str()));
    merged
}

/// A value without what is true of all rows of its file alone.
fn mended(pair: &KeyValue, files: usize) -> Option<String> {
    let value = pair.value.clone()?;
    let Ok(mut json) = serde_json::from_str::<Value>(&value) else { return Some(value) };
    let is_mended = match &*pair.key {
        // An index that only counts the rows; pandas makes such an index by itself.
        "pandas" => json["index_columns"].as_array_mut().is_some_and(|columns| {
            let all = columns.len();
            columns.retain(|column| column["kind"] != "range");
            columns.len() < all
        }),
        // The bounds of fewer rows are still within those of the file, but not of several files.
        "geo" if files > 1 => json["columns"].as_object_mut().is_some_and(|columns| {
            let bounds = columns.values_mut().filter_map(Value::as_object_mut);
            bounds.filter_map(|column| column.remove("bbox")).count() > 0
        }),
        _ => false,
    };
    Some(if is_mended { json.to_string() } else { value })
}

/// What the values of two files have in common; `None` to leave the key out.
fn agreed(key: &str, one: Option<&str>, other: Option<&str>) -> Option<String> {
    if key != "pandas" {
        return None;
    }
    let mut one: Value = serde_json::from_str(one?).ok()?;
    let other: Value = serde_json::from_str(other?).ok()?;
    if one["index_columns"] != other["index_columns"] {
        return None;
    }
    // pandas takes columns that are not described as Arrow has them.
    let known = other["columns"].as_array()?;
    one["columns"].as_array_mut()?.retain(|column| {
        let same = known.iter().find(|other| other["field_name"] == column["field_name"]);
        same.is_none_or(|same| same == column)
    });
    Some(one.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(files: &[(&[(&str, &str)], bool)]) -> Vec<(String, String)> {
        let pairs: Vec<(Vec<KeyValue>, bool)> = files
            .iter()
            .map(|(pairs, all)| {
                let pair = |(key, value): &(&str, &str)| {
                    KeyValue::new((*key).to_owned(), (*value).to_owned())
                };
                (pairs.iter().map(pair).collect(), *all)
            })
            .collect();
        let files: Vec<FileMetadata<'_>> = pairs
            .iter()
            .map(|(pairs, all)| FileMetadata { pairs, has_all_columns: *all })
            .collect();
        let merged = of_copy(&files);
        merged.into_iter().map(|pair| (pair.key, pair.value.unwrap_or_default())).collect()
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn what_is_true_of_the_copy_is_kept() {
        let spark = ("org.apache.spark.sql.parquet.row.metadata", "{}");
        let own = [("ARROW:schema", "x"), ("huggingface", "{\"info\": 1}"), spark];
        let kept = [pair("huggingface", "{\"info\": 1}"), pair(spark.0, "{}")];
        assert_eq!(merged(&[(&own, true)]), kept);
        assert_eq!(merged(&[(&own, false)]), kept[..1]);
        assert_eq!(merged(&[(&own, true), (&own, true)]), kept);
        let other = [("huggingface", "{\"info\": 2}"), ("license", "MIT")];
        assert_eq!(merged(&[(&own[..2], true), (&other, true)]), [pair("license", "MIT")]);
    }

    #[test]
    fn an_index_that_counts_the_rows_of_one_file_is_left_out() {
        let pandas = |stop: u32, kind: &str| {
            format!(
                "{{\"index_columns\":[{{\"kind\":\"range\",\"stop\":{stop}}}],\"columns\":[\
                 {{\"field_name\":\"a\",\"numpy_type\":\"{kind}\"}},{{\"field_name\":\"b\"}}]}}"
            )
        };
        let (one, other) = (pandas(2, "int32"), pandas(7, "int64"));
        let alone = "{\"index_columns\":[],\"columns\":[{\"field_name\":\"a\",\
                     \"numpy_type\":\"int32\"},{\"field_name\":\"b\"}]}";
        assert_eq!(merged(&[(&[("pandas", &one)], true)]), [pair("pandas", alone)]);
        let both = "{\"index_columns\":[],\"columns\":[{\"field_name\":\"b\"}]}";
        assert_eq!(
            merged(&[(&[("pandas", &one)], true), (&[("pandas", &other)], true)]),
            [pair("pandas", both)]
        );
        let named = "{\"index_columns\":[\"id\"],\"columns\":[]}";
        assert_eq!(merged(&[(&[("pandas", &one)], true), (&[("pandas", named)], true)]), []);
    }

    #[test]
    fn bounds_of_one_file_are_not_those_of_several() {
        let geo = |bounds: u32| {
            format!(
                "{{\"columns\":{{\"shape\":{{\"encoding\":\"WKB\",\"bbox\":[0,0,1,{bounds}]}}}}}}"
            )
        };
        let (one, other) = (geo(1), geo(2));
        assert_eq!(merged(&[(&[("geo", &one)], true)]), [pair("geo", &one)]);
        let both = "{\"columns\":{\"shape\":{\"encoding\":\"WKB\"}}}";
        assert_eq!(
            merged(&[(&[("geo", &one)], true), (&[("geo", &other)], true)]),
            [pair("geo", both)]
        );
    }
}
