//! The partial entries of servers in silent cells, and the conditions for showing them (docs/DOWN-CELLS.md).

use std::collections::BTreeMap;

use serde_json::Value;
use uuid::Uuid;

use super::{Entry, ListRequest, PAGING, Shown};
use crate::cell_registry::{LastKnown, ServerList};
use crate::http::compute::servers::partial;
use crate::http::error::ApiError;

impl ListRequest<'_> {
    /// True if the list may have partial entries: no parameter needs the server's own cell. Ignores filters that this caller may not use.
    pub(super) fn takes_partial(&self) -> bool {
        let pages_or_sorts = self.query.names().any(|name| PAGING.contains(&name));
        let filters = self.filters();
        let filters_all = self.query.names().filter(|name| filters.affects(name)).all(|name| name == "all_tenants");
        self.version.at_least(69) && !pages_or_sorts && filters_all
    }

    /// Returns partial entries of servers in silent cells, as far as the page has room.
    pub(super) async fn partial(
        &self,
        shown: &Shown,
        list: &ServerList,
        project: Option<&str>,
        limit: usize,
        details: bool,
    ) -> Result<Vec<Value>, ApiError> {
        let exceptions = list.servers.iter().map(|server| server.instance.uuid).collect();
        let room = limit.saturating_sub(list.servers.len());
        let mappings = self.api.registry.servers_of_silent(&list.silent, project, &exceptions, room).await?;
        let groups = match details {
            true => self.security_groups(mappings.iter().map(|(_, mapping)| mapping.instance_uuid).collect()).await,
            false => BTreeMap::new(),
        };
        let mut views = Vec::with_capacity(mappings.len());
        for (cell, mapping) in &mappings {
            views.push(match self.api.registry.last_known(cell, mapping).filter(|_| self.last_known) {
                Some(LastKnown { record, at }) => {
                    let entry = match details {
                        true => self.details(shown.visible, std::slice::from_ref(&record)).await?.remove(0),
                        false => Entry::Brief(record),
                    };
                    partial::dated(shown.view(entry), at, self.api.env.now())
                }
                None if details => partial::detailed(&shown.base, mapping, groups.get(&mapping.instance_uuid).map(Vec::as_slice)),
                None => partial::brief(&shown.base, mapping),
            });
        }
        Ok(views)
    }

    async fn security_groups(&self, servers: Vec<Uuid>) -> BTreeMap<Uuid, Vec<String>> {
        self.api.network.security_group_names(servers).await.unwrap_or_else(|error| {
            log::warn!("servers in silent cells are listed without their security groups: {error}");
            BTreeMap::new()
        })
    }
}
