//! The API's view of users' credentials for other programs, and who may read and change them.

use cellshift_web::error::ApiError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ServiceError;
use crate::identity::application_credentials::routes::{own_token, owns};
use crate::identity::rights::{reads_system, require};
use crate::identity::routes::{Call, bad_request, failed, link};
use crate::identity::{CredentialChanges, EmbeddedIdentity, NewCredential, UserCredential};
use crate::request_bodies::{RequestBody, bodies, not_null, nullable};
use crate::resource::{Editable, Query, Shown};

/// The bodies of the requests here.
pub const BODIES: &[RequestBody] = bodies! {
    "identity POST /credentials" => Body,
    "identity PATCH /credentials/{}" => Body,
};

#[derive(Deserialize, JsonSchema)]
pub struct Body {
    credential: Fields,
}

#[derive(Deserialize, JsonSchema)]
struct Fields {
    #[serde(default, deserialize_with = "not_null")]
    blob: Option<String>,
    #[serde(default, rename = "type", deserialize_with = "not_null")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    user_id: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    project_id: Option<Option<String>>,
}

impl Shown for UserCredential {
    type Service = EmbeddedIdentity;

    const NAME: &'static str = "credential";
    const COLLECTION: &'static str = "credentials";

    /// Shows the caller's own, and all to readers of the system.
    async fn list(call: &Call, query: &Query) -> Result<Vec<UserCredential>, ApiError> {
        let (user_id, kind) = (query.get("user_id").map(String::as_str), query.get("type").map(String::as_str));
        let all = reads_system(&call.caller);
        let own = call.caller.0.user_id.as_str();
        match user_id {
            Some(other) if !all && other != own => Ok(Vec::new()),
            _ => call.service.credentials(if all { user_id } else { Some(own) }, kind).await.map_err(failed),
        }
    }

    async fn show(call: &Call, id: &str) -> Result<UserCredential, ApiError> {
        admitted(call, id, "identity:get_credential", reads_system(&call.caller)).await
    }

    async fn delete(call: &Call, id: &str) -> Result<(), ApiError> {
        admitted(call, id, "identity:delete_credential", call.caller.0.is_admin()).await?;
        call.service.delete_credential(own_token(call).await?.as_ref(), id).await.map_err(failed)
    }

    fn view(&self, call: &Call) -> Value {
        json!({
            "id": self.id,
            "user_id": self.user_id,
            "project_id": self.project_id,
            "type": self.kind,
            "blob": self.blob,
            "links": link(&call.request, &format!("credentials/{}", self.id)),
        })
    }
}

impl Editable for UserCredential {
    type New = Body;
    type Change = Body;

    async fn create(call: &Call, Body { credential: fields }: Body) -> Result<UserCredential, ApiError> {
        let needs = |field: &str| bad_request(format!("'{field}' is a required property"));
        let new = NewCredential {
            user_id: fields.user_id.ok_or_else(|| needs("user_id"))?,
            project_id: fields.project_id.flatten(),
            kind: fields.kind.ok_or_else(|| needs("type"))?,
            blob: fields.blob.ok_or_else(|| needs("blob"))?,
        };
        require("identity:create_credential", call.caller.0.is_admin() || owns(&call.caller, &new.user_id))?;
        call.service.create_credential(own_token(call).await?.as_ref(), new).await.map_err(failed)
    }

    async fn update(call: &Call, id: &str, Body { credential: fields }: Body) -> Result<UserCredential, ApiError> {
        let action = "identity:update_credential";
        admitted(call, id, action, call.caller.0.is_admin()).await?;
        let Fields { blob, kind, user_id, project_id } = fields;
        // Nobody gives a credential to another user.
        require(action, call.caller.0.is_admin() || user_id.as_deref().is_none_or(|user| owns(&call.caller, user)))?;
        if blob.is_none() && kind.is_none() && user_id.is_none() && project_id.is_none() {
            let why = "Invalid input for field 'credential': at least one of blob, type, user_id and project_id must change.";
            return Err(bad_request(why));
        }
        let changes = CredentialChanges { blob, kind, user_id, project_id };
        call.service.update_credential(own_token(call).await?.as_ref(), id, changes).await.map_err(failed)
    }
}

/// Returns a credential of the caller's own, or any with the right to all. 403 for others and for unknown ones, so that nobody learns which
/// there are.
async fn admitted(call: &Call, id: &str, action: &str, to_all: bool) -> Result<UserCredential, ApiError> {
    let credential = call.service.credential(id).await;
    let own = matches!(&credential, Ok(credential) if owns(&call.caller, &credential.user_id));
    match credential {
        Err(error) if !matches!(error, ServiceError::NotFound(_)) => Err(failed(error)),
        credential => require(action, to_all || own).and_then(|()| credential.map_err(failed)),
    }
}
