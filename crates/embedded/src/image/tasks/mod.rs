//! The tasks of imports. An import is done when it is answered, so each task has succeeded.

pub mod records;
pub mod routes;

use cellshift_domain::context::RequestContext;
use cellshift_domain::reason;
use chrono::TimeDelta;
use uuid::Uuid;

use super::{EmbeddedImage, Image, ImageTask};
use crate::ServiceError;
use crate::transaction::Transactions;

/// The time for which a task is kept, as in Glance.
const KEPT: TimeDelta = TimeDelta::hours(48);

impl EmbeddedImage {
    /// Makes the task of an import that the caller asks for.
    pub(super) fn task(&self, caller: &RequestContext, image: Uuid, method: &str) -> ImageTask {
        let now = self.env.now().naive_utc();
        ImageTask {
            id: self.env.uuid().to_string(),
            image_id: image.to_string(),
            owner: caller.project_id.clone(),
            user_id: caller.user_id.clone(),
            request_id: caller.request_id.clone(),
            method: method.to_owned(),
            created_at: now,
            expires_at: now + KEPT,
        }
    }

    /// Copies the caller's image to the only store, where its bytes are from the beginning. Conflict unless it is active.
    pub async fn copy_to_store(&self, caller: &RequestContext, id: Uuid) -> Result<(), ServiceError> {
        let Image { status, .. } = self.own_image(caller, id).await?;
        if status != "active" {
            return Err(ServiceError::Conflict("Only images with status active can be targeted for copying".into()));
        }
        let task = self.task(caller, id, "copy-image");
        self.write(None, move |conn| Ok(records::insert(conn, &task)?)).await
    }

    /// Returns an image's tasks, newest first.
    pub async fn tasks_of(&self, image: Uuid) -> Result<Vec<ImageTask>, ServiceError> {
        let now = self.env.now().naive_utc();
        self.read(move |conn| Ok(records::of_image(conn, &image.to_string(), now)?)).await
    }

    /// Returns a task. NotFound for an unknown or expired one.
    pub async fn find_task(&self, id: &str) -> Result<ImageTask, ServiceError> {
        let unknown = ServiceError::NotFound(reason!("No task found with ID {id}"));
        let Ok(id) = Uuid::parse_str(id) else { return Err(unknown) };
        let now = self.env.now().naive_utc();
        let task: Option<ImageTask> = self.read(move |conn| Ok(records::find(conn, &id.to_string(), now)?)).await?;
        task.ok_or(unknown)
    }

    /// Returns at most `limit` tasks, newest first, after `marker`.
    pub async fn tasks(&self, marker: Option<ImageTask>, limit: usize) -> Result<Vec<ImageTask>, ServiceError> {
        let (now, limit) = (self.env.now().naive_utc(), i64::try_from(limit).unwrap_or(i64::MAX));
        self.read(move |conn| Ok(records::page(conn, marker.as_ref(), limit, now)?)).await
    }
}
