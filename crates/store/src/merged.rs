//! A change of some values of a JSON object's column. The database replaces them within the update, so that no writer undoes what another
//! one has just written into the same object.

use diesel::expression::{AppearsOnTable, Expression, ValidGrouping, is_aggregate};
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::sql_types::Text;
use serde_json::Value;

use crate::columns::{Multi, Object};

/// A column's object with other values, as an expression of an update.
#[derive(Clone, Debug)]
pub struct Merged {
    column: &'static str,
    /// The names of the values, and the values as JSON.
    values: Vec<(&'static str, String)>,
}

impl Merged {
    /// Replaces these values in the object of `column`, which is named with its table.
    pub fn new(column: &'static str, values: impl IntoIterator<Item = (&'static str, Value)>) -> Merged {
        Merged { column, values: values.into_iter().map(|(name, value)| (name, value.to_string())).collect() }
    }
}

impl Expression for Merged {
    type SqlType = Object;
}

impl<Table> AppearsOnTable<Table> for Merged {}

impl<GroupBy> ValidGrouping<GroupBy> for Merged {
    type IsAggregate = is_aggregate::Never;
}

/// The names of the values are part of the text.
impl QueryId for Merged {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl QueryFragment<Multi> for Merged {
    fn walk_ast<'b>(&'b self, mut pass: AstPass<'_, 'b, Multi>) -> QueryResult<()> {
        match pass.backend() {
            Multi::Pg(_) => {
                pass.push_sql(&format!("({}::jsonb", self.column));
                for (name, value) in &self.values {
                    pass.push_sql(&format!(" || jsonb_build_object('{name}', "));
                    pass.push_bind_param::<Text, _>(value)?;
                    pass.push_sql("::jsonb)");
                }
                pass.push_sql(")::json");
            }
            Multi::Sqlite(_) => {
                pass.push_sql(&format!("json_set({}", self.column));
                for (name, value) in &self.values {
                    pass.push_sql(&format!(", '$.{name}', json("));
                    pass.push_bind_param::<Text, _>(value)?;
                    pass.push_sql(")");
                }
                pass.push_sql(")");
            }
        }
        Ok(())
    }
}
