//! Databases for tests.

use diesel::connection::SimpleConnection;

use crate::env::Env;

/// The URL of a fresh PostgreSQL database on the server that `CELLSHIFT_TEST_POSTGRES` names; none when the variable is not set.
pub fn fresh_postgres() -> Option<String> {
    let server = std::env::var("CELLSHIFT_TEST_POSTGRES").ok()?;
    let name = format!("test_{}", Env::system().uuid().simple());
    let mut admin = super::connection::open(&server).unwrap();
    admin.batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
    let (address, _) = server.rsplit_once('/').unwrap();
    Some(format!("{address}/{name}"))
}
