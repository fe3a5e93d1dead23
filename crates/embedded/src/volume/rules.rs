//! Rules that several resources have alike: who may use a thing, how rows are read, which statuses an operator may set.

use std::collections::BTreeMap;

use cellshift_domain::context::RequestContext;
use cellshift_domain::reason;
use cellshift_store::DbError;

use crate::ServiceError;
use crate::transaction::TransactionError;

/// True if the caller may see and change what belongs to this project.
pub(super) fn may_use(caller: &RequestContext, project_id: &str) -> bool {
    caller.is_admin() || caller.project_id == project_id
}

/// Reads all rows.
pub(super) fn read_all<R, T>(rows: Vec<R>, read: fn(R) -> Result<T, DbError>) -> Result<Vec<T>, TransactionError> {
    Ok(rows.into_iter().map(read).collect::<Result<_, _>>()?)
}

/// Changes a column that holds a JSON object of strings.
pub(super) fn change_texts<F>(column: &mut String, change: F) -> Result<(), TransactionError>
where
    F: FnOnce(&mut BTreeMap<String, String>) -> Result<(), ServiceError>,
{
    let mut texts = serde_json::from_str(column).map_err(DbError::from)?;
    change(&mut texts)?;
    *column = serde_json::to_string(&texts).map_err(DbError::from)?;
    Ok(())
}

/// Refuses a status that is none of those which an operator may set.
pub(super) fn check_reset(status: &str, resettable: &[&str]) -> Result<(), ServiceError> {
    match resettable.contains(&status) {
        true => Ok(()),
        false => Err(ServiceError::Invalid(reason!("Status {status} is none of {}.", resettable.join(", ")))),
    }
}
