//! The APIs over HTTP: one folder per service; `error` is the form of every error, `auth` the door.

pub mod auth;
pub mod error;
pub mod request_id;
