//! The commits that change what users see of a server: it is accepted, it is in a cell, it is in another cell. Each commit changes several
//! records in one transaction.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{ApiDb, build_requests, instance_mappings, project_servers, request_specs, server_groups};
use crate::db::{Conn, DbError, fence};
use crate::domain::fence::Fence;
use crate::domain::instance_bundle::InstanceBundle;
use crate::domain::instance_mapping::InstanceMapping;
use crate::domain::quota::CountedRoom;
use crate::domain::quota_grant::{AcceptedServer, QuotaGrant};
use crate::domain::request_spec::RequestSpec;
use crate::env::guard::{Guard, stands};

/// An accepted server.
#[derive(Clone, PartialEq, Debug)]
pub struct NewServer {
    /// The server's future record in its cell.
    pub instance: InstanceBundle,
    pub request_spec: RequestSpec,
}

impl ApiDb {
    /// Accepts a server: writes its mapping (in no cell yet), request spec, build request and group membership in one transaction.
    /// [`DbError::NotFound`] if the group is gone.
    pub async fn create_server(&self, fence: Fence, mut server: NewServer, granted: QuotaGrant<AcceptedServer>) -> Result<(), DbError> {
        let now = self.db.env().now();
        build_requests::seal(&mut server.instance, self.db.env());
        self.db.write_fenced(fence, move |conn| create(conn, server, granted, now)).await
    }

    /// Accepts a server as [`ApiDb::create_server`] does, or says why the project has no more room for it.
    pub async fn create_server_within(
        &self,
        fence: Fence,
        mut server: NewServer,
        room: CountedRoom,
    ) -> Result<Result<(), String>, DbError> {
        let now = self.db.env().now();
        build_requests::seal(&mut server.instance, self.db.env());
        self.in_turn(server.request_spec.project_id.clone(), move |conn| {
            fence::obey(conn, fence)?;
            let granted = match project_servers::grant(conn, &server.request_spec, &room)? {
                Ok(granted) => granted,
                Err(why) if stands(Guard::QuotaRecheck) => return Ok(Err(why)),
                Err(_) => QuotaGrant::without_check("an experiment has switched the check off"),
            };
            create(conn, server.clone(), granted, now).map(Ok)
        })
        .await
    }

    /// Raises the fence only, so that a later call with a lower fence is refused.
    pub async fn raise_fence(&self, fence: Fence) -> Result<(), DbError> {
        self.db.write_fenced(fence, |_| Ok(())).await
    }

    /// Publishes a built server: names its cell and drops the build request. Repeating the call changes nothing.
    pub async fn publish_build(&self, fence: Fence, instance: Uuid, cell: Uuid) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db
            .write_fenced(fence, move |conn| {
                instance_mappings::set_cell(conn, instance, cell, now)?;
                build_requests::delete(conn, instance)
            })
            .await
    }

    /// Publishes a move: names the server's new cell and saves the request spec with the new flavor.
    pub async fn publish_move(&self, fence: Fence, instance: Uuid, cell: Uuid, spec: RequestSpec) -> Result<(), DbError> {
        let now = self.db.env().now();
        self.db
            .write_fenced(fence, move |conn| {
                instance_mappings::set_cell(conn, instance, cell, now)?;
                request_specs::save(conn, &spec, now)
            })
            .await
    }
}

/// Inserts the records of an accepted server, within the caller's transaction.
fn create(conn: &mut Conn, server: NewServer, granted: QuotaGrant<AcceptedServer>, now: DateTime<Utc>) -> Result<(), DbError> {
    let NewServer { instance, request_spec } = server;
    let uuid = instance.instance.uuid;
    let mapping = InstanceMapping {
        instance_uuid: uuid,
        cell_uuid: None,
        project_id: instance.instance.project_id.clone(),
        user_id: Some(instance.instance.user_id.clone()),
        queued_for_delete: Some(false),
        delete_request: None,
        // Also the time that is shown while the server's cell is down.
        created_at: instance.instance.created_at,
        updated_at: None,
    };
    instance_mappings::insert(conn, &granted, mapping)?;
    request_specs::insert(conn, &request_spec, now)?;
    build_requests::insert(conn, &instance, now)?;
    match request_spec.instance_group {
        Some(group) => server_groups::add_member(conn, granted, group, uuid),
        None => Ok(()),
    }
}
