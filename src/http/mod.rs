//! The APIs over HTTP: one folder per service; `error` is the form of every error, `auth` the door.

pub mod auth;
pub mod error;
pub mod microversion;
pub mod policy_file;
pub mod request_id;
