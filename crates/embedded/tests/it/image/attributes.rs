//! Tests of the names of the attributes of images.

use cellshift_embedded::image::images::attributes::{READ_ONLY, STANDARD};
use cellshift_embedded::image::limits::ATTRIBUTES;

#[test]
fn the_attributes_are_those_that_no_property_may_hide() {
    let mut names: Vec<&str> = READ_ONLY.into_iter().chain(STANDARD).collect();
    names.sort_unstable();
    assert_eq!(names, ATTRIBUTES);
}
