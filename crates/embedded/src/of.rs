//! Statements about all rows of a table, or about those with some keys.

/// Loads the rows of a query whose column is one of the keys `of`, or all rows. `$key` gives the column's value in a row.
macro_rules! load_of {
    ($conn:expr, $query:expr, $column:expr, $of:expr, $key:expr) => {{
        let rows = match $of.ids() {
            None => $query.load($conn)?,
            Some(ids) => $query.filter($column.eq_any(ids)).load($conn)?,
        };
        Ok($of.keep(rows, $key))
    }};
}
pub(crate) use load_of;
