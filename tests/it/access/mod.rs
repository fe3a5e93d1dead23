//! The rights of every caller: one table of every route with the answer that each caller gets, compared with the router, so that a route without
//! a row is noticed; and requests without sense to all of them, which nothing may answer with a failure of its own.
//!
//! The `.table` files beside this one are the table, an API each; `row` reads them, `house` is a cloud with one of everything
//! (`furniture`) and a token for every caller.

mod answers;
mod extensions;
mod furniture;
mod fuzz;
mod house;
mod matrix;
mod mutation;
mod row;
mod stored;
mod wire;
