//! The requests about services, endpoints and regions that these have alike: administrators alone change them, and one is read as part of the
//! whole catalog.

use cellshift_web::base_url;
use cellshift_web::error::ApiError;

use super::Catalog;
use crate::identity::routes::{Call, failed};

/// Returns the whole catalog with the URLs at the request's scheme and host.
pub(in crate::identity) async fn whole(call: &Call) -> Result<Catalog, ApiError> {
    call.service.catalog(&base_url::of(&call.request)).await.map_err(failed)
}

/// Makes all of [`Shown`](crate::resource::Shown) but `list` and `view`. `$reads` says whether a caller may read one.
macro_rules! shown {
    ($record:ty, $word:literal in $records:ident, reads: $reads:ident, delete: $delete:ident) => {
        type Service = $crate::identity::EmbeddedIdentity;

        const NAME: &'static str = $word;
        const COLLECTION: &'static str = stringify!($records);

        async fn show(call: &Call, id: &str) -> Result<$record, ApiError> {
            require(concat!("identity:get_", $word), $reads(&call.caller))?;
            let records = whole(call).await?.$records;
            records.into_iter().find(|record| record.id == id).ok_or_else(|| not_found($word, id))
        }

        async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
            require_admin(concat!("identity:delete_", $word), &call.caller)?;
            call.service.$delete(id).await.map_err(failed)
        }
    };
}
pub(in crate::identity) use shown;

/// Implements [`Editable`](crate::resource::Editable). `$check` refuses a body that does not fit the id in the path.
macro_rules! editable {
    ($record:ty, $word:literal, field: $field:ident, create: $create:ident, update: $update:ident $(, check: $check:ident)?) => {
        impl Editable for $record {
            type New = Body;
            type Change = Body;

            async fn create(call: &Call, Body { $field: fields }: Body) -> Result<$record, ApiError> {
                require_admin(concat!("identity:create_", $word), &call.caller)?;
                call.service.$create(fields).await.map_err(failed)
            }

            async fn update(call: &Call, id: &str, Body { $field: fields }: Body) -> Result<$record, ApiError> {
                require_admin(concat!("identity:update_", $word), &call.caller)?;
                $($check(&fields, id)?;)?
                call.service.$update(id, fields).await.map_err(failed)
            }
        }
    };
}
pub(in crate::identity) use editable;
