//! Tests of a cell.
