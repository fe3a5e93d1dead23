//! Aggregates of a provider: groups of providers that clients make and name by ids, in the spelling that they sent.

pub(super) mod routes;
