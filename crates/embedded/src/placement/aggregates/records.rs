//! The aggregates of providers.

use cellshift_store::{Conn, DbError, Of};
use diesel::prelude::*;
use diesel::sql_types::Text;

use crate::placement::schema::provider_aggregates;
use crate::placement::statements;

statements::names_of_providers!(provider_aggregates, aggregate_uuid);
