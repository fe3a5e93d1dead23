//! Inventories of a provider: the amounts that it offers of each resource class.

pub(super) mod routes;
