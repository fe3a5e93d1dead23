//! Traits: qualities that a provider has or has not.

pub(super) mod routes;
