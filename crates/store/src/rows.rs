//! Writes many rows with one statement, because on a server each statement is a round trip.

use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::sql_types::Text;

use crate::columns::Multi;
use crate::{Conn, DbError};

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
    let into = format!("INSERT INTO {table} ({}) VALUES ", columns.join(", "));
    execute(conn, columns.len(), |values| format!("{into}{values}"), rows, bind)
}

/// Executes a statement with rows of so many values; `text` has the statement around their places. As a table, their columns are `column1`,
/// `column2`, … on both databases.
pub fn execute<'a, R>(
    conn: &mut Conn,
    columns: usize,
    text: impl Fn(&str) -> String,
    rows: &'a [R],
    bind: impl Fn(Statement<'a>, &'a R) -> Statement<'a>,
) -> Result<(), DbError> {
    for rows in rows.chunks(VALUES / columns) {
        let statement = rows.iter().fold(diesel::sql_query(text(&places(0, rows.len(), columns))).into_boxed(), &bind);
        diesel::RunQueryDsl::execute(statement, conn)?;
    }
    Ok(())
}

/// Deletes from tables the rows that have this text in a column; each table comes with its column. PostgreSQL gets one statement.
pub fn delete(conn: &mut Conn, tables: &[(&str, &str)], text: &str) -> Result<(), DbError> {
    let each = tables.iter().map(|(table, column)| format!("DELETE FROM {table} WHERE {column} = $1"));
    let statements = if conn.is_postgres() { vec![in_one(each)] } else { each.collect() };
    for statement in statements {
        diesel::RunQueryDsl::execute(diesel::sql_query(statement).bind::<Text, _>(text), conn)?;
    }
    Ok(())
}

/// Joins statements that change different tables and need nothing of each other.
fn in_one(statements: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = statements.enumerate().map(|(at, statement)| format!("part_{at} AS ({statement})")).collect();
    format!("WITH {} SELECT 1", parts.join(", "))
}

/// Returns the places of the values behind `before` others: `($1, $2), ($3, $4)`.
pub fn places(before: usize, rows: usize, columns: usize) -> String {
    let place = |row: usize, column: usize| format!("${}", before + row * columns + column);
    let row = |row: usize| format!("({})", (1..=columns).map(|column| place(row, column)).collect::<Vec<_>>().join(", "));
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{in_one, places};

    #[test]
    fn each_value_has_its_place() {
        assert_eq!(places(0, 2, 3), "($1, $2, $3), ($4, $5, $6)");
        assert_eq!(places(4, 1, 2), "($5, $6)");
    }

    #[test]
    fn statements_are_parts_of_one() {
        let each = ["DELETE FROM a", "DELETE FROM b"].map(str::to_owned);
        assert_eq!(in_one(each.into_iter()), "WITH part_0 AS (DELETE FROM a), part_1 AS (DELETE FROM b) SELECT 1");
    }
}
