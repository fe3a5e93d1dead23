//! The records of moves of whole server groups.

use chrono::{DateTime, NaiveDateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::ApiDb;
use super::operations::Operations;
use crate::db::{Conn, DbError};
use crate::domain::cancellation::Cancellation;
use crate::domain::group_move::{GroupMove, GroupMoveState};

diesel::table! {
    group_moves (id) {
        id -> Text,
        group_uuid -> Text,
        state -> Text,
        record -> Text,
        created_at -> Timestamp,
        updated_at -> Timestamp,
    }
}

impl ApiDb {
    /// Records a move. Conflict if one of the group is open.
    pub async fn create_group_move(&self, new: GroupMove) -> Result<(), DbError> {
        let now = self.db.env().now().naive_utc();
        self.db.write(move |conn| insert(conn, &new, now)).await
    }

    /// Saves a move's progress, and keeps the wish to stop it that came meanwhile. False if it has ended by another controller's hand, or if
    /// the wish came before its members were to be confirmed: then the caller looks again.
    pub async fn save_group_move(&self, mut changed: GroupMove) -> Result<bool, DbError> {
        let now = self.db.env().now().naive_utc();
        self.db
            .write(move |conn| {
                let Some(stored) = hold(conn, &changed.id.to_string(), now)? else { return Ok(false) };
                if stored.stop.is_some() && changed.stop.is_none() && stored.state.may_stop() && !changed.state.may_stop() {
                    return Ok(false);
                }
                changed.stop = stored.stop;
                save(conn, &changed).map(|()| true)
            })
            .await
    }

    /// Records the wish to stop a group's open move, and returns the move; none if no move of the group is open. The first wish is kept, and
    /// none once the members are confirmed at the target.
    pub async fn stop_group_move(&self, group: Uuid, wish: Cancellation) -> Result<Option<GroupMove>, DbError> {
        let now = self.db.env().now().naive_utc();
        self.db
            .write(move |conn| {
                let open = group_moves::table.filter(group_moves::state.eq_any(open_states()));
                let of_group = open.filter(group_moves::group_uuid.eq(group.to_string())).select(group_moves::id);
                let Some(id) = of_group.first::<String>(conn).optional()? else { return Ok(None) };
                let Some(mut stored) = hold(conn, &id, now)? else { return Ok(None) };
                if stored.state.may_stop() && stored.stop.is_none() {
                    stored.stop = Some(wish);
                    save(conn, &stored)?;
                }
                Ok(Some(stored))
            })
            .await
    }

    /// Returns a move.
    pub async fn group_move(&self, id: Uuid) -> Result<Option<GroupMove>, DbError> {
        self.db
            .read(move |conn| {
                let text: Option<String> = group_moves::table.find(id.to_string()).select(group_moves::record).first(conn).optional()?;
                text.as_deref().map(read).transpose()
            })
            .await
    }

    /// Returns moves, of one group or of all, newest first.
    pub async fn group_moves(&self, group: Option<Uuid>, limit: i64) -> Result<Vec<GroupMove>, DbError> {
        self.db
            .read(move |conn| {
                let mut query = group_moves::table.into_boxed().order((group_moves::created_at.desc(), group_moves::id)).limit(limit);
                if let Some(group) = group {
                    query = query.filter(group_moves::group_uuid.eq(group.to_string()));
                }
                let texts: Vec<String> = query.select(group_moves::record).load(conn)?;
                texts.iter().map(|text| read(text)).collect()
            })
            .await
    }

    /// Returns the open moves, oldest first.
    pub async fn open_group_moves(&self) -> Result<Vec<GroupMove>, DbError> {
        self.db
            .read(|conn| {
                let open =
                    group_moves::table.filter(group_moves::state.eq_any(open_states())).order((group_moves::created_at, group_moves::id));
                let texts: Vec<String> = open.select(group_moves::record).load(conn)?;
                texts.iter().map(|text| read(text)).collect()
            })
            .await
    }
}

impl Operations {
    /// Returns at most `limit` moves that ended before this moment. A move that left its group on several hosts stays until the group is moved
    /// again, because it explains where the members are.
    pub async fn group_moves_ended_before(&self, before: DateTime<Utc>, limit: i64) -> Result<Vec<Uuid>, DbError> {
        self.db()
            .read(move |conn| {
                let old = group_moves::table
                    .filter(group_moves::state.ne_all(open_states()))
                    .filter(group_moves::updated_at.lt(before.naive_utc()))
                    .order((group_moves::created_at, group_moves::id))
                    .select(group_moves::record);
                let mut ended = Vec::new();
                for record in old.load::<String>(conn)? {
                    let record = read(&record)?;
                    let explains =
                        record.state == GroupMoveState::Incomplete && latest(conn, record.group)?.is_some_and(|last| last.id == record.id);
                    if !explains {
                        ended.push(record.id);
                    }
                }
                ended.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
                Ok(ended)
            })
            .await
    }

    /// Removes these moves in one commit.
    pub async fn forget_group_moves(&self, ids: Vec<Uuid>) -> Result<(), DbError> {
        let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
        self.db()
            .write(move |conn| {
                diesel::delete(group_moves::table.filter(group_moves::id.eq_any(&ids))).execute(conn)?;
                Ok(())
            })
            .await
    }
}

/// Returns a group's latest move.
pub(super) fn latest(conn: &mut Conn, group: Uuid) -> Result<Option<GroupMove>, DbError> {
    let of_group = group_moves::table.filter(group_moves::group_uuid.eq(group.to_string()));
    let newest = of_group.order((group_moves::created_at.desc(), group_moves::id)).select(group_moves::record);
    newest.first::<String>(conn).optional()?.as_deref().map(read).transpose()
}

fn insert(conn: &mut Conn, new: &GroupMove, now: NaiveDateTime) -> Result<(), DbError> {
    let row = (
        group_moves::id.eq(new.id.to_string()),
        group_moves::group_uuid.eq(new.group.to_string()),
        group_moves::state.eq(new.state.as_str()),
        group_moves::record.eq(written(new)?),
        (group_moves::created_at.eq(now), group_moves::updated_at.eq(now)),
    );
    diesel::insert_into(group_moves::table).values(row).execute(conn)?;
    Ok(())
}

/// Returns an open move. The update makes two commits wait for each other on PostgreSQL, too, so that a save sees the wish to stop.
fn hold(conn: &mut Conn, id: &str, now: NaiveDateTime) -> Result<Option<GroupMove>, DbError> {
    let open = group_moves::table.find(id).filter(group_moves::state.eq_any(open_states()));
    if diesel::update(open).set(group_moves::updated_at.eq(now)).execute(conn)? == 0 {
        return Ok(None);
    }
    let record: String = group_moves::table.find(id).select(group_moves::record).first(conn)?;
    read(&record).map(Some)
}

fn save(conn: &mut Conn, group_move: &GroupMove) -> Result<(), DbError> {
    let columns = (group_moves::state.eq(group_move.state.as_str()), group_moves::record.eq(written(group_move)?));
    diesel::update(group_moves::table.find(group_move.id.to_string())).set(columns).execute(conn)?;
    Ok(())
}

fn open_states() -> Vec<&'static str> {
    GroupMoveState::ALL.iter().filter(|state| state.is_open()).map(|state| state.as_str()).collect()
}

fn written(value: &GroupMove) -> Result<String, DbError> {
    serde_json::to_string(value).map_err(|error| DbError::Defect(error.to_string()))
}

fn read(text: &str) -> Result<GroupMove, DbError> {
    serde_json::from_str(text).map_err(|_| DbError::unreadable("group_moves.record", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::api::tests::databases;
    use crate::domain::context::RequestContext;
    use crate::domain::group_move::HostOfCell;

    fn of(id: u128, group: u128, state: GroupMoveState) -> GroupMove {
        let target = HostOfCell { cell: "cell1".into(), host: "host2".into() };
        let (id, group) = (Uuid::from_u128(id), Uuid::from_u128(group));
        GroupMove { id, group, target, state, reason: None, caller: RequestContext::default(), stop: None, members: Vec::new() }
    }

    #[tokio::test]
    async fn ended_moves_are_forgotten_unless_they_explain_a_group() {
        for api in databases() {
            use GroupMoveState::{Done, Incomplete, Moving};
            for (id, group, state) in [(1, 1, Incomplete), (2, 1, Done), (3, 2, Incomplete), (4, 3, Moving)] {
                api.create_group_move(of(id, group, state)).await.unwrap();
            }
            let operations = Operations::new(api.db().clone());
            let later = api.db().env().now() + chrono::Duration::days(1);
            let old = operations.group_moves_ended_before(later, 10).await.unwrap();
            assert_eq!(old, [Uuid::from_u128(1), Uuid::from_u128(2)]);
            operations.forget_group_moves(old).await.unwrap();
            let left: Vec<Uuid> = api.group_moves(None, 10).await.unwrap().into_iter().map(|left| left.id).collect();
            assert!(left.len() == 2 && left.contains(&Uuid::from_u128(3)) && left.contains(&Uuid::from_u128(4)), "{left:?}");
        }
    }
}
