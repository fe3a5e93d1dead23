//! A type of another crate in a JSON column, as the crates above have theirs.

use cellshift_store::columns::StringMap;
use cellshift_store::{Conn, DbError, connection};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use serde::{Deserialize, Serialize};

diesel::table! {
    things (id) {
        id -> Integer,
        thing -> cellshift_store::columns::Json,
        other -> Nullable<cellshift_store::columns::Json>,
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Thing {
    names: StringMap,
}

cellshift_store::json_column!(Thing);

fn stored(conn: &mut Conn) -> Vec<(Thing, Option<Thing>)> {
    things::table.order(things::id).select((things::thing, things::other)).load(conn).unwrap()
}

#[test]
fn a_type_of_another_crate_is_stored_and_read() {
    let mut conn = connection::open(":memory:").unwrap();
    conn.batch_execute("CREATE TABLE things (id INTEGER PRIMARY KEY NOT NULL, thing TEXT NOT NULL, other TEXT)").unwrap();
    let thing = Thing { names: StringMap::from([("a".to_owned(), "b".to_owned())]) };
    let row = (things::id.eq(1), things::thing.eq(&thing), things::other.eq(thing.clone()));
    diesel::insert_into(things::table).values(row).execute(&mut conn).unwrap();
    assert_eq!(stored(&mut conn), [(thing.clone(), Some(thing.clone()))]);
    diesel::update(things::table.find(1)).set(things::other.eq(None::<Thing>)).execute(&mut conn).unwrap();
    assert_eq!(stored(&mut conn), [(thing.clone(), None)]);
    let text: String =
        diesel::select(diesel::dsl::sql::<diesel::sql_types::Text>("(SELECT thing FROM things)")).get_result(&mut conn).unwrap();
    assert_eq!(text, serde_json::to_string(&thing).unwrap());
}

#[test]
fn a_message_leaves_out_what_cannot_be_read() {
    let mut conn = connection::open(":memory:").unwrap();
    conn.batch_execute("CREATE TABLE things (id INTEGER PRIMARY KEY NOT NULL, thing TEXT NOT NULL, other TEXT)").unwrap();
    conn.batch_execute("INSERT INTO things (id, thing) VALUES (1, 'a secret')").unwrap();
    let refused = DbError::from(things::table.select(things::thing).first::<Thing>(&mut conn).unwrap_err()).to_string();
    assert!(refused.contains("field 'thing'") && refused.contains("Thing column of 8 bytes cannot be read"), "{refused}");
    assert!(!refused.contains("secret"), "{refused}");
}
