//! Creation of resources in two parts: a request's attributes are checked, then the rows are made in a transaction, of one resource or of
//! several together.

use std::collections::BTreeSet;

use cellshift_store::Conn;

use super::EmbeddedNetwork;
use super::records::Attributes;
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};

/// The part of a creation that makes the rows.
type Rows<T> = Box<dyn FnOnce(&mut Conn) -> Result<T, TransactionError> + Send>;

/// A resource that is to be made.
pub(super) struct Making<T> {
    project_id: String,
    rows: Rows<T>,
}

impl<T> Making<T> {
    /// Makes it a resource of a project, whose quota `rows` takes from.
    pub(super) fn new(project_id: &str, rows: impl FnOnce(&mut Conn) -> Result<T, TransactionError> + Send + 'static) -> Making<T> {
        Making { project_id: project_id.to_owned(), rows: Box::new(rows) }
    }
}

impl EmbeddedNetwork {
    /// Makes a resource.
    pub(super) async fn make<T: Send + 'static>(&self, making: Making<T>) -> Result<T, ServiceError> {
        self.make_turn(&making.project_id).await?;
        self.write(None, making.rows).await
    }

    /// Makes a resource from each of these attributes: all of them, or none.
    pub(super) async fn make_all<T: Send + 'static>(
        &self,
        all: Vec<Attributes>,
        making: impl Fn(Attributes) -> Result<Making<T>, ServiceError>,
    ) -> Result<Vec<T>, ServiceError> {
        let makings: Vec<Making<T>> = all.into_iter().map(making).collect::<Result<_, _>>()?;
        for project in makings.iter().map(|making| &making.project_id).collect::<BTreeSet<_>>() {
            self.make_turn(project).await?;
        }
        self.write(None, move |conn| makings.into_iter().map(|making| (making.rows)(conn)).collect()).await
    }
}

/// Makes the methods of the service that create one resource and several. `$new` checks the attributes.
macro_rules! creates {
    ($record:ty: $create:ident, $create_all:ident by $new:ident) => {
        /// Makes one.
        pub async fn $create(&self, scope: Scope, attributes: Attributes) -> Result<$record, ServiceError> {
            self.make(self.$new(scope, attributes)?).await
        }

        /// Makes several: all of them, or none.
        pub async fn $create_all(&self, scope: Scope, all: Vec<Attributes>) -> Result<Vec<$record>, ServiceError> {
            self.make_all(all, |attributes| self.$new(scope.clone(), attributes)).await
        }
    };
}
pub(super) use creates;
