//! Times as people write and read them, in UTC.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A time of the service, such as `2026-03-01T12:00:00Z`. Empty if there is none.
pub(crate) fn shown_ms(ms: Option<u64>) -> String {
    shown(ms.map(|ms| ms / 1_000))
}

/// A second since 1970, such as `2026-03-01T12:00:00Z`. Empty if there is none.
pub(crate) fn shown(second: Option<u64>) -> String {
    let Some(second) = second else { return String::new() };
    let time = i64::try_from(second).ok().map(OffsetDateTime::from_unix_timestamp);
    let text = time.and_then(|time| time.ok()?.format(&Rfc3339).ok());
    text.unwrap_or_else(|| format!("second {second}"))
}

/// Reads RFC 3339 (`2026-03-01T12:00:00Z`, `2026-03-01T13:00:00+01:00`), a day in UTC
/// (`2026-03-01`), or seconds since 1970, and returns the second since 1970. A part of a second is
/// left out.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    if let Ok(second) = text.parse() {
        return Ok(second);
    }
    let day = (text.len() == 10).then(|| format!("{text}T00:00:00Z"));
    let time = OffsetDateTime::parse(day.as_deref().unwrap_or(text), &Rfc3339).map_err(|_| {
        "is no time such as 2026-03-01, 2026-03-01T12:00:00Z or a number of seconds since 1970"
            .to_owned()
    })?;
    u64::try_from(time.unix_timestamp()).map_err(|_| "is before 1970".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_as_it_is_read() {
        for second in [0, 1, 1_772_366_400, 4_294_967_295] {
            assert_eq!(parse(&shown(Some(second))), Ok(second));
        }
        assert_eq!(shown_ms(Some(1_772_366_400_999)), "2026-03-01T12:00:00Z");
        assert_eq!(shown(Some(u64::MAX)), "second 18446744073709551615");
        assert_eq!(shown(None), "");
    }

    #[test]
    fn a_time_is_a_day_or_has_an_offset_or_is_a_number() {
        for text in [
            "1772366400",
            "2026-03-01T12:00:00Z",
            "2026-03-01t12:00:00.5z",
            "2026-03-01T13:00:00+01:00",
        ] {
            assert_eq!(parse(text), Ok(1_772_366_400), "{text}");
        }
        assert_eq!(parse("2026-03-01"), Ok(1_772_323_200));
        for text in ["", "yesterday", "2026-02-30", "2026-03-01T12:00:00", "-1", "1969-12-31"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
