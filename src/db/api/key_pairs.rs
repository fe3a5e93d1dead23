//! Key pairs: users' public keys.

use chrono::{DateTime, Utc};
use diesel::prelude::*;

use super::ApiDb;
use super::schema::key_pairs as keys;
use crate::db::columns::Sql;
use crate::db::row::{self, row};
use crate::db::{Conn, DbError};
use crate::domain::key_pair::KeyPair;
use crate::domain::quota_grant::QuotaGrant;
use crate::domain::reason;

row! {
    #[diesel(table_name = keys)]
    KeyPairRow of KeyPair {
        #[diesel(skip_insertion)]
        id: i32,
        created_at: DateTime<Utc> as Sql,
        user_id: String,
        name: String,
        fingerprint: String,
        public_key: String,
        key_type: String,
    }
}

impl ApiDb {
    /// Creates a key pair. Conflict if the user has a key pair of that name.
    pub async fn create_key_pair(&self, key: KeyPair, granted: QuotaGrant<KeyPair>) -> Result<KeyPair, DbError> {
        self.db.write(move |conn| create(conn, key, granted)).await
    }

    /// Creates a key pair as [`ApiDb::create_key_pair`] does, or returns None if the user has `most` key pairs already. Concurrent requests
    /// take turns, so that they cannot exceed `most` together.
    pub async fn create_key_pair_within(&self, key: KeyPair, most: i64) -> Result<Option<KeyPair>, DbError> {
        self.in_turn(format!("user {}", key.user_id), move |conn| {
            let count: i64 = keys::table.filter(keys::user_id.eq(&key.user_id)).count().get_result(conn)?;
            match QuotaGrant::within(most, count, 1) {
                None => Ok(None),
                Some(granted) => create(conn, key.clone(), granted).map(Some),
            }
        })
        .await
    }

    /// Returns a user's key pairs ordered by name, beginning after the name `marker`.
    pub async fn key_pairs(&self, user_id: &str, marker: Option<&str>, limit: Option<i64>) -> Result<Vec<KeyPair>, DbError> {
        let (user, marker) = (user_id.to_owned(), marker.map(str::to_owned));
        self.db
            .read(move |conn| {
                let mut query = keys::table.filter(keys::user_id.eq(&user)).into_boxed();
                if let Some(marker) = marker {
                    find(conn, &user, &marker)?.ok_or_else(|| DbError::NotFound(format!("marker [{marker}]")))?;
                    query = query.filter(keys::name.gt(marker));
                }
                if let Some(limit) = limit {
                    query = query.limit(limit);
                }
                row::load(conn, query.order(keys::name).select(KeyPairRow::as_select()))
            })
            .await
    }

    /// Returns a user's key pair.
    pub async fn key_pair(&self, user_id: &str, name: &str) -> Result<KeyPair, DbError> {
        let (user, name) = (user_id.to_owned(), name.to_owned());
        self.db.read(move |conn| find(conn, &user, &name)?.ok_or_else(|| not_found(&name))).await
    }

    /// Removes a key pair. Servers keep their own copies.
    pub async fn delete_key_pair(&self, user_id: &str, name: &str) -> Result<(), DbError> {
        let (user, name) = (user_id.to_owned(), name.to_owned());
        self.db
            .write(move |conn| {
                let row = keys::table.filter(keys::user_id.eq(user)).filter(keys::name.eq(&name));
                match diesel::delete(row).execute(conn)? {
                    0 => Err(not_found(&name)),
                    _ => Ok(()),
                }
            })
            .await
    }
}

fn create(conn: &mut Conn, key: KeyPair, _: QuotaGrant<KeyPair>) -> Result<KeyPair, DbError> {
    if find(conn, &key.user_id, &key.name)?.is_some() {
        return Err(DbError::Conflict(reason!("Key pair '{}' already exists.", key.name)));
    }
    let (user, name) = (key.user_id.clone(), key.name.clone());
    diesel::insert_into(keys::table).values(KeyPairRow::from(key)).execute(conn)?;
    find(conn, &user, &name)?.ok_or_else(|| not_found(&name))
}

fn find(conn: &mut Conn, user: &str, name: &str) -> Result<Option<KeyPair>, DbError> {
    let row = keys::table.filter(keys::user_id.eq(user)).filter(keys::name.eq(name));
    row::first(conn, row.select(KeyPairRow::as_select()))
}

fn not_found(name: &str) -> DbError {
    DbError::NotFound(format!("Keypair {name}"))
}
