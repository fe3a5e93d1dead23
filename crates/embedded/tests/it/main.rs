//! Tests of the embedded services, as the program and clients use them.
//!
//! A folder per service has a file per resource or subject. `requests` asks the service's API as clients do; `door` and `test_api` put it behind
//! the door of `cellshift-web`.

mod door;
mod identity;
mod image;
mod lost_and_found;
mod migrations;
mod network;
mod placement;
mod test_api;
mod volume;
