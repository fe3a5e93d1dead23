//! Custom traits, which are not built in, and the traits of providers.

use cellshift_store::{Conn, DbError, Of};
use diesel::prelude::*;
use diesel::sql_types::Text;

use crate::placement::schema::{custom_traits, provider_traits};
use crate::placement::statements;

statements::custom_names!(custom_traits);
statements::names_of_providers!(provider_traits, name);

/// True if a provider has the trait.
pub fn is_used(conn: &mut Conn, name: &str) -> Result<bool, DbError> {
    let uses: i64 = provider_traits::table.filter(provider_traits::name.eq(name)).count().get_result(conn)?;
    Ok(uses > 0)
}
