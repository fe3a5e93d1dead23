//! Tests of the `Range` header of downloads.

use cellshift_embedded::image::images::data::range::{Unsatisfiable, of};

#[test]
fn a_single_range_is_a_first_byte_and_a_length() {
    for (text, part) in [
        ("bytes=0-0", (0, 1)),
        ("bytes=2-4", (2, 3)),
        ("Bytes = 2-4", (2, 3)),
        ("bytes=7-", (7, 3)),
        ("bytes=-3", (7, 3)),
        ("bytes=-99", (0, 10)),
        ("bytes=5-18446744073709551615", (5, 5)),
    ] {
        assert_eq!(of(text, 10), Ok(part), "{text}");
    }
}

#[test]
fn a_range_outside_the_bytes_is_refused() {
    for text in ["bytes=10-", "bytes=10-12", "bytes=-0"] {
        assert_eq!(of(text, 10), Err(Unsatisfiable::BehindTheEnd(10)), "{text}");
    }
    assert_eq!(of("bytes=0-", 0), Err(Unsatisfiable::BehindTheEnd(0)));
    for text in ["", "bytes", "bytes=", "bytes=-", "bytes=a-", "bytes=1-+2", "bytes=4-2", "lines=1-2", "bytes=99999999999999999999-"] {
        assert_eq!(of(text, 10), Err(Unsatisfiable::Malformed), "{text}");
    }
    assert_eq!(of("bytes=0-1,3-4", 10), Err(Unsatisfiable::Multiple));
}
