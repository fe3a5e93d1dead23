//! Quota checks as values. A database function that stores something that counts against a quota takes a [`QuotaGrant`] for it, and the grant
//! comes from a comparison with the limit, or from [`QuotaGrant::without_check`], which says why there is none.

use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use super::quota::{CountedRoom, within};

/// The permission to store one `T`. It cannot be copied: a check permits only what it has counted.
#[must_use = "a quota was checked for something that is not stored"]
pub struct QuotaGrant<T>(PhantomData<fn() -> T>);

impl<T> QuotaGrant<T> {
    /// Grants `more` beside the `used` amount; none if that exceeds the limit. A negative limit means no limit.
    pub fn within(limit: i64, used: i64, more: i64) -> Option<QuotaGrant<T>> {
        within(limit, used, more).then_some(QuotaGrant(PhantomData))
    }

    /// Pairs each item with its own grant; none unless all items together are within the limit.
    pub fn for_each<I>(limit: i64, used: i64, items: &[I]) -> Option<Vec<(QuotaGrant<T>, &I)>> {
        let all: QuotaGrant<T> = QuotaGrant::within(limit, used, items.len() as i64)?;
        let QuotaGrant(of) = all;
        Some(items.iter().map(|item| (QuotaGrant(of), item)).collect())
    }

    /// Grants without a check, for the reason that the caller gives.
    pub fn without_check(_reason: &'static str) -> QuotaGrant<T> {
        QuotaGrant(PhantomData)
    }
}

/// A server that is accepted, with its membership of a server group: what counts against a project's quota of servers.
pub enum AcceptedServer {}

/// The proof that the API has checked a project's quota of servers. Each request for a server carries it to the commit that accepts the
/// server. It is stored with the request, as the figures alone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckedRoom(Option<CountedRoom>);

impl CheckedRoom {
    /// Has the accepting commit check again that the servers accepted since the count leave room.
    pub fn to_be_checked_again(counted: CountedRoom) -> CheckedRoom {
        CheckedRoom(Some(counted))
    }

    /// Returns the proof for a commit that does not check again, because nothing is limited or the configuration says so.
    pub fn without_second_check() -> CheckedRoom {
        CheckedRoom(None)
    }

    /// Returns the grant if the check stands, or the figures for the second check.
    pub fn into_grant(self) -> Result<QuotaGrant<AcceptedServer>, CountedRoom> {
        match self.0 {
            None => Ok(QuotaGrant::without_check("the check of the request stands")),
            Some(counted) => Err(counted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_for_what_the_limit_leaves() {
        let grants = |limit, used, more| QuotaGrant::<()>::within(limit, used, more).is_some();
        assert!(grants(3, 2, 1) && grants(-1, 1 << 40, 9));
        assert!(!grants(3, 2, 2) && !grants(0, 0, 1));
        let each = |limit| QuotaGrant::<()>::for_each(limit, 1, &["a", "b"]).map(|pairs| pairs.len());
        assert_eq!((each(3), each(2)), (Some(2), None));
    }

    #[test]
    fn a_checked_room_is_stored_as_its_figures() {
        assert_eq!(serde_json::to_string(&CheckedRoom::without_second_check()).unwrap(), "null");
        let counted = CountedRoom { limits: Default::default(), used: Default::default(), newest: 7, of_user: None };
        let stored = serde_json::to_value(CheckedRoom::to_be_checked_again(counted.clone())).unwrap();
        assert_eq!(stored, serde_json::to_value(&counted).unwrap());
        let read: CheckedRoom = serde_json::from_value(stored).unwrap();
        assert_eq!(read.into_grant().err(), Some(counted));
    }
}
