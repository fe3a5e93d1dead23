//! The projects with which an image is shared: its owner names them, and each takes or rejects it.

pub mod records;
pub mod routes;

use cellshift_domain::context::RequestContext;
use cellshift_domain::reason;
use uuid::Uuid;

use super::images::may_write;
use super::{EmbeddedImage, ImageService, limits, no_image};
use crate::ServiceError;
use crate::transaction::{TransactionError, Transactions};
use records::ImageMember;

impl EmbeddedImage {
    /// Returns all members of an image for its owner; for a member, only the member itself.
    pub async fn members(&self, caller: &RequestContext, id: Uuid) -> Result<Vec<ImageMember>, ServiceError> {
        let image = self.visible_image(caller, id).await?;
        let mut members = self.read(move |conn| Ok(records::members(conn, &id.to_string())?)).await?;
        if !image.is_own_of(caller) {
            members.retain(|member| member.member_id == caller.project_id);
        }
        Ok(members)
    }

    /// Shares a shared image with a project. The project must accept it.
    pub async fn add_member(&self, caller: &RequestContext, id: Uuid, project: &str) -> Result<ImageMember, ServiceError> {
        let image = self.own_image(caller, id).await?;
        if image.visibility != "shared" {
            return Err(ServiceError::Forbidden("Only shared images have members.".into()));
        }
        limits::project("member", project)?;
        let now = self.env.now().naive_utc();
        let member = ImageMember {
            image_id: id.to_string(),
            member_id: project.to_owned(),
            status: "pending".into(),
            created_at: now,
            updated_at: now,
        };
        self.write(None, move |conn| {
            let count = records::members(conn, &member.image_id)?.len();
            limits::within("members for this image", count + 1, 0)?;
            Ok(records::add_member(conn, &member).map(|()| member)?)
        })
        .await
    }

    /// Accepts or rejects the image for a member. The owner may not decide this.
    pub async fn set_member_status(
        &self,
        caller: &RequestContext,
        id: Uuid,
        project: &str,
        status: &str,
    ) -> Result<ImageMember, ServiceError> {
        if !["pending", "accepted", "rejected"].contains(&status) {
            return Err(ServiceError::Invalid(reason!("Status {status} is none of pending, accepted, rejected.")));
        }
        self.visible_image(caller, id).await?;
        may_write(caller)?;
        if caller.project_id != project && !caller.is_admin() {
            return Err(ServiceError::Forbidden("Only the member itself decides whether it takes the image.".into()));
        }
        let (project, status, now) = (project.to_owned(), status.to_owned(), self.env.now().naive_utc());
        self.write(None, move |conn| {
            let key = id.to_string();
            records::set_member_status(conn, &key, &project, &status, now)?;
            let member = records::members(conn, &key)?.into_iter().find(|member| member.member_id == project);
            member.ok_or_else(|| no_image(id).into())
        })
        .await
    }

    /// Ends sharing with a project.
    pub async fn remove_member(&self, caller: &RequestContext, id: Uuid, project: &str) -> Result<(), ServiceError> {
        self.own_image(caller, id).await?;
        let project = project.to_owned();
        self.write(None, move |conn| records::remove_member(conn, &id.to_string(), &project).map_err(TransactionError::from)).await
    }
}
