//! Instance actions and their events: the history that users see. Server, request and name identify an action; action, name and host
//! identify an event, because a step may be tried on several hosts. An event that began before its host was known gets the host later.
//! Starting or finishing an action or event twice changes nothing, so a saga's step may repeat the write.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use uuid::Uuid;

use super::schema::{instance_action_events as events, instance_actions as actions};
use super::{CellDb, CellTxn};
use crate::db::columns::Sql;
use crate::db::row::{self, row};
use crate::db::{Conn, DbError};
use crate::domain::action::{Action, ActionFilter, ActionHistory, ActionKey, Event};

row! {
    #[diesel(table_name = actions)]
    ActionRow of Action {
        instance_uuid: Uuid as Sql,
        request_id: String,
        action: String,
        user_id: String,
        project_id: String,
        start_time: DateTime<Utc> as Sql,
        finish_time: Option<DateTime<Utc>> as Sql,
        updated_at: DateTime<Utc> as Sql,
        message: Option<String>,
    }
}

row! {
    #[diesel(table_name = events)]
    EventRow of Event {
        event: String,
        start_time: DateTime<Utc> as Sql,
        finish_time: Option<DateTime<Utc>> as Sql,
        result: Option<String>,
        traceback: Option<String>,
        host: Option<String>,
        details: Option<String>,
    }
}

/// The outcome of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventResult {
    /// The event succeeded.
    Success,
    /// The event failed; its action's message becomes `Error`.
    Error {
        /// A sentence for the owner.
        details: String,
        /// Only administrators see it.
        traceback: Option<String>,
    },
}

impl CellDb {
    /// Returns a server's actions, newest first.
    pub async fn actions(&self, instance: Uuid, filter: ActionFilter) -> Result<Vec<Action>, DbError> {
        self.db.read(move |conn| list(conn, instance, &filter)).await
    }

    /// Returns the newest action of a request, with its events. [`DbError::NotFound`] if there is none.
    pub async fn action(&self, instance: Uuid, request_id: &str) -> Result<ActionHistory, DbError> {
        let request = request_id.to_owned();
        self.db
            .read(move |conn| {
                let row: Option<(i32, ActionRow)> = actions::table
                    .filter(actions::instance_uuid.eq(Sql(instance)))
                    .filter(actions::request_id.eq(&request))
                    .order(actions::id.desc())
                    .select((actions::id, ActionRow::as_select()))
                    .first(conn)
                    .optional()?;
                let (id, action) =
                    row.ok_or_else(|| DbError::NotFound(format!("Action for request_id {request} on instance {instance}")))?;
                Ok(ActionHistory { action: action.into(), events: events_of(conn, id)? })
            })
            .await
    }

    /// Returns the whole history of a server, oldest first.
    pub async fn history(&self, instance: Uuid) -> Result<Vec<ActionHistory>, DbError> {
        self.db.read(move |conn| all(conn, instance)).await
    }
}

impl CellTxn {
    /// Records that an action began. Succeeds if it is recorded already.
    pub fn action_started(self, key: ActionKey, user_id: String, project_id: String) -> CellTxn {
        self.action_started_at(key, user_id, project_id, None)
    }

    /// Records an action as [`CellTxn::action_started`] does, with the moment at which it was asked for, before this cell was chosen. None
    /// means now.
    pub fn action_started_at(self, key: ActionKey, user_id: String, project_id: String, at: Option<DateTime<Utc>>) -> CellTxn {
        self.with(move |conn, now| {
            let now = at.unwrap_or(now);
            if id_of(conn, &key)?.is_some() {
                return Ok(());
            }
            let action = Action {
                instance_uuid: key.instance,
                request_id: key.request_id,
                action: key.action,
                user_id,
                project_id,
                start_time: now,
                finish_time: None,
                updated_at: now,
                message: None,
            };
            diesel::insert_into(actions::table).values(ActionRow::from(action)).execute(conn)?;
            Ok(())
        })
    }

    /// Records that an action ended. Changes nothing if it has ended or is not recorded here.
    pub fn action_finished(self, key: ActionKey, message: Option<String>) -> CellTxn {
        self.with(move |conn, now| {
            let Some(id) = id_of(conn, &key)? else { return Ok(()) };
            finish(conn, id, message, now)
        })
    }

    /// Records an action that begins and ends now. Changes nothing if it is recorded already and has ended.
    pub fn action_done(self, key: ActionKey, user_id: String, project_id: String) -> CellTxn {
        self.action_started(key.clone(), user_id, project_id).action_finished(key, None)
    }

    /// Records that an event began. Succeeds if that is recorded already. Changes nothing if the action is not recorded here: a gap in the
    /// history must not fail the operation.
    pub fn event_started(self, key: ActionKey, event: String, host: Option<String>) -> CellTxn {
        self.event_started_at(key, event, host, None)
    }

    /// Records an event as [`CellTxn::event_started`] does, with the moment at which it began. None means now.
    pub fn event_started_at(self, key: ActionKey, event: String, host: Option<String>, at: Option<DateTime<Utc>>) -> CellTxn {
        self.with(move |conn, now| {
            let Some((id, same_name)) = action_and_events(conn, &key, &event)? else { return Ok(()) };
            if at_host(conn, of(&same_name), host.as_deref())?.is_none() {
                start(conn, id, event, host, at.unwrap_or(now))?;
            }
            Ok(())
        })
    }

    /// Records that an action ended, as [`CellTxn::action_finished`] does, and that its open events failed, and why.
    pub fn action_ended(self, key: ActionKey, open_events: String, message: Option<String>) -> CellTxn {
        self.with(move |conn, now| {
            let Some(id) = id_of(conn, &key)? else { return Ok(()) };
            let set = (events::finish_time.eq(Sql(Some(now))), events::result.eq("Error"), events::details.eq(open_events));
            diesel::update(events::table.filter(events::action_id.eq(id)).filter(events::finish_time.is_null())).set(set).execute(conn)?;
            finish(conn, id, message, now)
        })
    }

    /// Records the outcome of an event, even if its start is not recorded. The first outcome stays. Changes nothing if the action is not
    /// recorded here.
    pub fn event_finished(self, key: ActionKey, event: String, host: Option<String>, result: EventResult) -> CellTxn {
        self.with(move |conn, now| {
            let Some((id, same_name)) = action_and_events(conn, &key, &event)? else { return Ok(()) };
            let row = match at_host(conn, of(&same_name), host.as_deref())? {
                Some(row) => row,
                None => start(conn, id, event, host, now)?,
            };
            let failed = matches!(result, EventResult::Error { .. });
            let (name, details, traceback) = match result {
                EventResult::Success => ("Success", None, None),
                EventResult::Error { details, traceback } => ("Error", Some(details), traceback),
            };
            let set = (
                events::finish_time.eq(Sql(Some(now))),
                events::result.eq(name),
                events::details.eq(details),
                events::traceback.eq(traceback),
            );
            if diesel::update(events::table.find(row).filter(events::finish_time.is_null())).set(set).execute(conn)? > 0 {
                let message = failed.then(|| actions::message.eq("Error"));
                diesel::update(actions::table.find(id)).set((actions::updated_at.eq(Sql(now)), message)).execute(conn)?;
            }
            Ok(())
        })
    }

    /// Merges another cell's history of the server into this cell's (NOVA-DIFFERENCES L7): adds missing actions and events, and fills in
    /// missing ends.
    pub fn merge_actions(self, instance: Uuid, history: Vec<ActionHistory>) -> CellTxn {
        self.with(move |conn, _| merge(conn, instance, history))
    }
}

fn id_of(conn: &mut Conn, key: &ActionKey) -> Result<Option<i32>, DbError> {
    Ok(actions::table
        .filter(actions::instance_uuid.eq(Sql(key.instance)))
        .filter(actions::request_id.eq(&key.request_id))
        .filter(actions::action.eq(&key.action))
        .order(actions::id)
        .select(actions::id)
        .first(conn)
        .optional()?)
}

/// An event's row and its host.
type Placed = (i32, Option<String>);

/// Returns an action's row with its events of that name, newest first, in one statement: a saga records an event at most of its steps.
fn action_and_events(conn: &mut Conn, key: &ActionKey, event: &str) -> Result<Option<(i32, Vec<Placed>)>, DbError> {
    let rows: Vec<(i32, Option<Placed>)> = actions::table
        .left_join(events::table.on(events::action_id.eq(actions::id).and(events::event.eq(event))))
        .filter(actions::instance_uuid.eq(Sql(key.instance)))
        .filter(actions::request_id.eq(&key.request_id))
        .filter(actions::action.eq(&key.action))
        .order((actions::id, events::id.desc()))
        .select((actions::id, (events::id, events::host).nullable()))
        .load(conn)?;
    let Some((id, _)) = rows.first() else { return Ok(None) };
    let id = *id;
    Ok(Some((id, rows.into_iter().filter(|(action, _)| *action == id).filter_map(|(_, event)| event).collect())))
}

fn of(same_name: &[Placed]) -> impl Iterator<Item = (i32, Option<&str>)> + Clone {
    same_name.iter().map(|(id, at)| (*id, at.as_deref()))
}

/// Finds the event at this host among events of one name, newest first. Without a host, finds the newest. With a host, falls back to an event
/// without a host, and gives it this host.
fn at_host<'a>(
    conn: &mut Conn,
    mut same_name: impl Iterator<Item = (i32, Option<&'a str>)> + Clone,
    host: Option<&str>,
) -> Result<Option<i32>, DbError> {
    let Some(host) = host else { return Ok(same_name.next().map(|(id, _)| id)) };
    if let Some((id, _)) = same_name.clone().find(|(_, at)| *at == Some(host)) {
        return Ok(Some(id));
    }
    let Some((id, _)) = same_name.find(|(_, at)| at.is_none()) else { return Ok(None) };
    diesel::update(events::table.find(id)).set(events::host.eq(host)).execute(conn)?;
    Ok(Some(id))
}

/// Ends an action that has not ended.
fn finish(conn: &mut Conn, action: i32, message: Option<String>, now: DateTime<Utc>) -> Result<(), DbError> {
    let set = (actions::finish_time.eq(Sql(Some(now))), actions::updated_at.eq(Sql(now)), message.map(|m| actions::message.eq(m)));
    diesel::update(actions::table.find(action).filter(actions::finish_time.is_null())).set(set).execute(conn)?;
    Ok(())
}

fn start(conn: &mut Conn, action: i32, event: String, host: Option<String>, now: DateTime<Utc>) -> Result<i32, DbError> {
    let event = Event { event, start_time: now, finish_time: None, result: None, traceback: None, host, details: None };
    let id = insert_event(conn, action, event)?;
    diesel::update(actions::table.find(action)).set(actions::updated_at.eq(Sql(now))).execute(conn)?;
    Ok(id)
}

fn insert_event(conn: &mut Conn, action: i32, event: Event) -> Result<i32, DbError> {
    Ok(diesel::insert_into(events::table)
        .values((EventRow::from(event), events::action_id.eq(action)))
        .returning(events::id)
        .get_result(conn)?)
}

fn events_of(conn: &mut Conn, action: i32) -> Result<Vec<Event>, DbError> {
    let of_action = events::table.filter(events::action_id.eq(action)).order((events::start_time, events::id));
    row::load(conn, of_action.select(EventRow::as_select()))
}

fn list(conn: &mut Conn, instance: Uuid, filter: &ActionFilter) -> Result<Vec<Action>, DbError> {
    let mut query = actions::table.filter(actions::instance_uuid.eq(Sql(instance))).into_boxed();
    if let Some(since) = filter.changes_since {
        query = query.filter(actions::updated_at.ge(Sql(since)));
    }
    if let Some(before) = filter.changes_before {
        query = query.filter(actions::updated_at.le(Sql(before)));
    }
    if let Some(marker) = &filter.marker {
        let (at, id): (DateTime<Utc>, i32) = actions::table
            .filter(actions::instance_uuid.eq(Sql(instance)))
            .filter(actions::request_id.eq(marker))
            .order(actions::id)
            .select((actions::start_time, actions::id))
            .first(conn)
            .optional()?
            .ok_or_else(|| DbError::NotFound(format!("marker {marker}")))?;
        query = query.filter(actions::start_time.lt(Sql(at)).or(actions::start_time.eq(Sql(at)).and(actions::id.lt(id))));
    }
    if let Some(limit) = filter.limit {
        query = query.limit(limit);
    }
    row::load(conn, query.order((actions::start_time.desc(), actions::id.desc())).select(ActionRow::as_select()))
}

pub(super) fn all(conn: &mut Conn, instance: Uuid) -> Result<Vec<ActionHistory>, DbError> {
    let recorded = recorded(conn, instance)?.into_iter();
    let of = |Recorded { action, events, .. }| ActionHistory { action, events: events.into_iter().map(|(_, event)| event).collect() };
    Ok(recorded.map(of).collect())
}

/// An action as this cell has it, with its events, oldest first.
struct Recorded {
    id: i32,
    action: Action,
    events: Vec<(i32, Event)>,
}

/// Returns the whole history of a server, oldest first.
fn recorded(conn: &mut Conn, instance: Uuid) -> Result<Vec<Recorded>, DbError> {
    let actions: Vec<(i32, ActionRow)> = actions::table
        .filter(actions::instance_uuid.eq(Sql(instance)))
        .order((actions::start_time, actions::id))
        .select((actions::id, ActionRow::as_select()))
        .load(conn)?;
    let of_all: Vec<(i32, i32, EventRow)> = events::table
        .inner_join(actions::table)
        .filter(actions::instance_uuid.eq(Sql(instance)))
        .order((events::start_time, events::id))
        .select((events::action_id, events::id, EventRow::as_select()))
        .load(conn)?;
    let mut events: BTreeMap<i32, Vec<(i32, Event)>> = BTreeMap::new();
    for (action, id, event) in of_all {
        events.entry(action).or_default().push((id, event.into()));
    }
    let recorded = |(id, action): (i32, ActionRow)| Recorded { id, action: action.into(), events: events.remove(&id).unwrap_or_default() };
    Ok(actions.into_iter().map(recorded).collect())
}

/// Adds what is missing here, and changes what differs: most of a long history is the same in both cells.
pub(super) fn merge(conn: &mut Conn, instance: Uuid, history: Vec<ActionHistory>) -> Result<(), DbError> {
    let name = |action: &Action| (action.request_id.clone(), action.action.clone());
    let mut here: BTreeMap<(String, String), Recorded> =
        recorded(conn, instance)?.into_iter().map(|recorded| (name(&recorded.action), recorded)).collect();
    for ActionHistory { mut action, events } in history {
        action.instance_uuid = instance;
        let present = match here.entry(name(&action)) {
            Entry::Occupied(present) => {
                complete(conn, present.get(), action)?;
                present.into_mut()
            }
            Entry::Vacant(place) => {
                let id =
                    diesel::insert_into(actions::table).values(ActionRow::from(action.clone())).returning(actions::id).get_result(conn)?;
                place.insert(Recorded { id, action, events: Vec::new() })
            }
        };
        for event in events {
            merge_event(conn, present, event)?;
        }
    }
    Ok(())
}

/// Gives an action the end that another cell knows.
fn complete(conn: &mut Conn, Recorded { id, action: present, .. }: &Recorded, theirs: Action) -> Result<(), DbError> {
    let finished = present.finish_time.or(theirs.finish_time);
    let message = present.message.clone().or(theirs.message);
    let updated = present.updated_at.max(theirs.updated_at);
    if (&finished, &message, &updated) != (&present.finish_time, &present.message, &present.updated_at) {
        let set = (actions::finish_time.eq(Sql(finished)), actions::message.eq(message), actions::updated_at.eq(Sql(updated)));
        diesel::update(actions::table.find(id)).set(set).execute(conn)?;
    }
    Ok(())
}

/// Adds an event, or gives it the end that another cell knows.
fn merge_event(conn: &mut Conn, present: &mut Recorded, theirs: Event) -> Result<(), DbError> {
    let mut same_name: Vec<&(i32, Event)> = present.events.iter().filter(|(_, event)| event.event == theirs.event).collect();
    same_name.sort_unstable_by_key(|(id, _)| Reverse(*id));
    let event_id = at_host(conn, same_name.iter().map(|(id, event)| (*id, event.host.as_deref())), theirs.host.as_deref())?;
    let Some(event_id) = event_id else {
        let id = insert_event(conn, present.id, theirs.clone())?;
        present.events.push((id, theirs));
        return Ok(());
    };
    let is_open = same_name.iter().any(|(id, event)| *id == event_id && event.finish_time.is_none());
    if is_open && theirs.finish_time.is_some() {
        let set = (
            events::finish_time.eq(Sql(theirs.finish_time)),
            events::result.eq(theirs.result),
            events::traceback.eq(theirs.traceback),
            events::details.eq(theirs.details),
        );
        diesel::update(events::table.find(event_id).filter(events::finish_time.is_null())).set(set).execute(conn)?;
    }
    Ok(())
}
