//! Tests of a host.
