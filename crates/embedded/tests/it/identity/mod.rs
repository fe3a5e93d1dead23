//! Tests of the identity service.

mod catalog;
mod keys;
mod password;
mod requests;
mod tokens;
mod vault;
