//! The server records that notifications contain: fewer than the API shows, and read in the commit that causes the notification.

use uuid::Uuid;

use super::instances::{self, Described};
use super::{CellDb, CellTxn, run};
use crate::db::columns::StringMap;
use crate::db::{Conn, DbError};
use crate::domain::fence::Fence;
use crate::domain::instance::Instance;
use crate::domain::network_info::NetworkInfo;

/// A server as a notification shows it.
#[derive(Clone, PartialEq, Debug)]
pub struct NotifiedInstance {
    pub instance: Instance,
    pub metadata: StringMap,
    pub network_info: NetworkInfo,
}

impl CellDb {
    /// Returns an undeleted server.
    pub async fn notified_instance(&self, uuid: Uuid) -> Result<NotifiedInstance, DbError> {
        self.db.read(move |conn| find(conn, uuid)).await
    }

    /// Commits as [`CellDb::apply`] does, and returns the server as the commit leaves it. None if it is absent.
    pub async fn apply_and_view(&self, fence: Fence, txn: CellTxn, uuid: Uuid) -> Result<Option<NotifiedInstance>, DbError> {
        let now = self.db.env().now();
        self.db
            .write_fenced(fence, move |conn| {
                run(conn, now, txn)?;
                match find(conn, uuid) {
                    Ok(server) => Ok(Some(server)),
                    Err(DbError::NotFound(_)) => Ok(None),
                    Err(other) => Err(other),
                }
            })
            .await
    }
}

fn find(conn: &mut Conn, uuid: Uuid) -> Result<NotifiedInstance, DbError> {
    let Described { instance, network_info, metadata, .. } = instances::described(conn, uuid)?;
    Ok(NotifiedInstance { instance, metadata, network_info })
}
