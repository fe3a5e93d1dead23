//! The choice of all rows or of some, for reads that serve both.

use std::collections::HashSet;

/// The records to read.
#[derive(Clone, Copy, Debug)]
pub enum Of<'a> {
    All,
    /// The rows with these ids, or the rows that belong to these ids.
    These(&'a [String]),
}

/// The maximum number of ids in one statement, because databases limit it (SQLite to 32766).
const BY_ID_MAX: usize = 500;

impl Of<'_> {
    /// Returns the ids to filter by. None if all rows are to be read, or if there are too many ids for one statement.
    pub fn ids(&self) -> Option<&[String]> {
        match self {
            Of::These(ids) if ids.len() <= BY_ID_MAX => Some(ids),
            _ => None,
        }
    }

    /// Drops the rows that were read only because there were too many ids to filter by. Keeps the order.
    pub fn keep<R>(&self, mut rows: Vec<R>, id: impl Fn(&R) -> &String) -> Vec<R> {
        if let Of::These(ids) = self
            && ids.len() > BY_ID_MAX
        {
            let ids: HashSet<&String> = ids.iter().collect();
            rows.retain(|row| ids.contains(id(row)));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_ids_than_a_statement_takes_are_sorted_out_afterwards() {
        let ids: Vec<String> = (0..=BY_ID_MAX).map(|n| n.to_string()).collect();
        let rows = || ["7", "x", "500", "y"].map(str::to_owned).to_vec();
        assert_eq!((Of::These(&ids).ids(), Of::These(&ids).keep(rows(), |id| id)), (None, vec!["7".to_owned(), "500".to_owned()]));
        assert_eq!((Of::These(&ids[1..]).ids(), Of::These(&ids[1..]).keep(rows(), |id| id)), (Some(&ids[1..]), rows()));
        assert_eq!((Of::All.ids(), Of::All.keep(rows(), |id| id)), (None, rows()));
    }
}
