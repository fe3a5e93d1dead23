//! Errors by what their callers may know of them. An error of a database becomes an error of a service, or an answer of an API, without
//! either of these knowing the database.

use std::fmt::Display;

/// The part of an error that a caller may know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureKind<'a> {
    /// A thing does not exist: its description, such as `server 1f0c`.
    Missing(&'a str),
    /// The state of a thing does not allow the call. Nothing was changed.
    Conflict,
    /// A higher fence was obeyed before. Nothing was changed.
    Stale,
    /// The store does not answer. The outcome of the call is unknown.
    Unavailable,
    /// A defect of the program or of its records.
    Defect,
}

/// An error of a part below the services and APIs. Its text is fit for callers, except that of a defect.
pub trait Failure: Display {
    /// Returns what a caller may know of the error.
    fn failure_kind(&self) -> FailureKind<'_>;
}
