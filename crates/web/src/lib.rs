//! The door before the APIs: middlewares, extractors and errors that any API of OpenStack uses, over actix-web.
//!
//! A request passes, from the outside: `request_id` (its id, and the form of errors), `panic`, `arrival` (who sends it, and its body), `limits`,
//! `microversion`, `null_characters`. Handlers take their bodies with `json` (those of any size with `streamed`), check them with `schema`,
//! answer parts of bytes with `range`, and refuse with `error`. `front` is the layer between the sockets and the door.
//! The APIs behind the door are a value, [`apis::Apis`].

mod ahead;
pub mod apis;
pub mod arrival;
pub mod auth;
pub mod base_url;
pub mod clients;
pub mod error;
mod error_shape;
pub mod front;
pub mod json;
pub mod limits;
pub mod microversion;
pub mod null_characters;
pub mod pace;
pub mod paging;
pub mod panic;
pub mod range;
pub mod request_id;
pub mod roles;
pub mod schema;
pub mod spans;
pub mod streamed;
