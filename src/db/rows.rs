//! Adds many rows with one statement, because on a server each statement is a round trip.

use diesel::query_builder::{BoxedSqlQuery, SqlQuery};

use super::columns::Multi;
use super::{Conn, DbError};

/// The number of values that one statement binds. SQLite takes 32,766.
const VALUES: usize = 9_000;

/// A statement whose values are bound one after the other.
pub type Statement<'a> = BoxedSqlQuery<'a, Multi, SqlQuery>;

/// Adds rows to a table. `columns` are their columns, and `bind` binds a row's values in this order.
pub fn insert<'a, R>(
    conn: &mut Conn,
    (table, columns): (&str, &[&str]),
    rows: &'a [R],
    bind: impl Fn(Statement<'a>, &'a R) -> Statement<'a>,
) -> Result<(), DbError> {
    for rows in rows.chunks(VALUES / columns.len()) {
        let text = format!("INSERT INTO {table} ({}) VALUES {}", columns.join(", "), places(rows.len(), columns.len()));
        let statement = rows.iter().fold(diesel::sql_query(text).into_boxed(), &bind);
        diesel::RunQueryDsl::execute(statement, conn)?;
    }
    Ok(())
}

/// Returns the places of the values: `($1, $2), ($3, $4)`.
fn places(rows: usize, columns: usize) -> String {
    let row =
        |row: usize| format!("({})", (1..=columns).map(|column| format!("${}", row * columns + column)).collect::<Vec<_>>().join(", "));
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn each_value_has_its_place() {
        assert_eq!(places(2, 3), "($1, $2, $3), ($4, $5, $6)");
    }
}
