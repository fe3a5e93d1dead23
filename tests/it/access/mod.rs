//! The rights of all callers: a table of all routes with each caller's answer, which is compared with the router, so that a route without a
//! row fails; and malformed requests to all routes, none of which may cause a server error.
//!
//! The `.table` files beside this file are the table, one per API. `row` reads them, and `house` is a cloud with a specimen of each
//! resource (`furniture`) and a token for each caller.

mod answers;
mod compat;
mod extensions;
mod furniture;
mod fuzz;
pub mod house;
mod matrix;
mod media_types;
mod mutation;
mod routes;
pub mod row;
mod stored;
mod versions;
mod wire;
