//! The names of servers, for answers that would have only their ids.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{Catalog, Operators};
use crate::http::error::ApiError;
use crate::saga::context::Context;

/// Returns the names of these servers. The newest operation says how a server was called that is gone, or whose cell does not answer.
pub(super) async fn of_servers(catalog: &Catalog, operators: &Operators, servers: &[Uuid]) -> Result<BTreeMap<Uuid, String>, ApiError> {
    if servers.is_empty() {
        return Ok(BTreeMap::new());
    }
    let answers = catalog.ask_cells(|db| db.instances_of(servers.to_vec())).await.into_iter().filter_map(|heard| heard.answer.ok());
    let mut names: BTreeMap<Uuid, String> = answers.flatten().map(|instance| (instance.uuid, instance.display_name)).collect();
    let nameless: Vec<Uuid> = servers.iter().copied().filter(|server| !names.contains_key(server)).collect();
    for (server, context) in operators.operations.newest_contexts(nameless).await? {
        // An operation that this release cannot read gives no name.
        if let Ok(context) = serde_json::from_str::<Context>(&context) {
            names.insert(server, context.display_name.clone());
        }
    }
    Ok(names)
}
