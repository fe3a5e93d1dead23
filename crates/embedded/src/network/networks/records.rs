//! Networks.

use cellshift_store::{Conn, DbError, Of};
use chrono::NaiveDateTime;
use diesel::prelude::*;

use crate::network::schema::networks;
use crate::network::statements::statements;
use crate::of::load_of;

/// A network.
#[derive(Clone, PartialEq, Eq, Debug, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = networks, treat_none_as_null = true)]
pub struct NetworkRow {
    pub id: String,
    pub name: String,
    pub project_id: String,
    pub description: String,
    pub admin_state_up: bool,
    pub shared: bool,
    pub external: bool,
    pub mtu: i32,
    pub network_type: Option<String>,
    pub physical_network: Option<String>,
    pub segmentation_id: Option<i32>,
    pub qos_policy_id: Option<String>,
    pub port_security_enabled: bool,
    pub tags: String,
    pub created_at: NaiveDateTime,
    pub updated_at: NaiveDateTime,
}

statements!(networks, NetworkRow: insert, list, find, hold, save, delete);

/// Returns the networks with these ids.
pub fn these(conn: &mut Conn, ids: &[String]) -> Result<Vec<NetworkRow>, DbError> {
    let (of, query) = (Of::These(ids), networks::table.order(networks::number.asc()).select(NetworkRow::as_select()));
    load_of!(conn, query, networks::id, of, |row: &NetworkRow| &row.id)
}
