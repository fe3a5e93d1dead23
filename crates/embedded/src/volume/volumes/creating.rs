//! Makes volumes: checks their source, records them, and lets their bytes be written.

use std::collections::BTreeMap;

use cellshift_domain::fence::Fence;
use cellshift_domain::reason;
use uuid::Uuid;

use crate::ServiceError;
use crate::bytes_on_disk;
use crate::transaction::Transactions;
use crate::volume::volumes::records::VolumeRow;
use crate::volume::{
    DEFAULT_OF_PROJECT, EmbeddedVolume, NewVolume, SERVICE, Volume, VolumeService, VolumeSource, ZONE, gibibytes, quotas, rows,
    volume_types,
};

impl EmbeddedVolume {
    /// Stores a user's volume as `creating`. [`EmbeddedVolume::make`] makes its bytes.
    pub async fn create(
        &self,
        new: NewVolume,
        description: Option<String>,
        metadata: BTreeMap<String, String>,
    ) -> Result<Volume, ServiceError> {
        self.check_source(&new).await?;
        let metadata = serde_json::to_string(&metadata).map_err(|error| ServiceError::Invalid(reason!("{error}")))?;
        let id = new.id;
        self.record(None, new, description, &metadata).await?;
        self.volume(id).await
    }

    /// Refuses a source that the caller may not see, that is not ready, or that is larger than the volume.
    async fn check_source(&self, new: &NewVolume) -> Result<(), ServiceError> {
        let (what, status, size_gb) = match new.source {
            VolumeSource::Blank => return Ok(()),
            VolumeSource::Image(image) => return self.check_image(new, image).await,
            VolumeSource::Snapshot(id) => {
                let snapshot = self.own_snapshot(&new.caller, id).await?;
                ("snapshot", snapshot.status, snapshot.size_gb)
            }
            VolumeSource::Volume(id) => {
                let volume = self.own_volume(&new.caller, id).await?;
                ("volume", volume.status, volume.size_gb)
            }
            VolumeSource::Backup(id) => {
                let backup = self.own_backup(&new.caller, id).await?;
                ("backup", backup.status, backup.size_gb)
            }
        };
        if !["available", "in-use"].contains(&status.as_str()) {
            return Err(ServiceError::Invalid(reason!("Invalid {what}: the source {what} must be available, but it is {status}.")));
        }
        if new.size_gb < size_gb {
            let size = new.size_gb;
            let message =
                reason!("Invalid input received: Volume size {size}GB cannot be smaller than the source {what} size {size_gb}GB.");
            return Err(ServiceError::Invalid(message));
        }
        Ok(())
    }

    async fn check_image(&self, new: &NewVolume, image_id: Uuid) -> Result<(), ServiceError> {
        let image = self.images.visible_image(&new.caller, image_id).await.map_err(|error| match error {
            ServiceError::NotFound(why) => {
                ServiceError::Invalid(reason!("Invalid image identifier or unable to access requested image: {why}."))
            }
            other => other,
        })?;
        let too_small = image.min_disk > new.size_gb || image.size.unwrap_or(0) > gibibytes(new.size_gb) as i64;
        if too_small || image.status != "active" {
            let (size, status) = (new.size_gb, image.status);
            return Err(ServiceError::Invalid(reason!("Image {image_id} ({status}) cannot fill a volume of {size} GiB.")));
        }
        Ok(())
    }

    /// Makes the bytes of a volume that [`EmbeddedVolume::create`] has stored.
    pub async fn make(&self, new: &NewVolume) -> Result<(), ServiceError> {
        self.fill(None, new).await
    }

    /// Stores the record as `creating`. False if the volume is made already.
    pub(in crate::volume) async fn record(
        &self,
        fence: Option<Fence>,
        new: NewVolume,
        description: Option<String>,
        metadata: &str,
    ) -> Result<bool, ServiceError> {
        let volume_type = new.volume_type.unwrap_or_else(|| DEFAULT_OF_PROJECT.to_owned());
        let volume_type = self.usable_type(&new.caller, &volume_type).await?;
        let type_id = volume_type.id;
        if new.size_gb < 1 {
            return Err(ServiceError::Invalid(reason!(
                "Invalid volume size provided for create request: {} (it must be 1 or more).",
                new.size_gb
            )));
        }
        bytes_on_disk::check_length(&self.env, SERVICE, &self.folder, gibibytes(new.size_gb)).await?;
        let now = self.env.now().naive_utc();
        let mut row = VolumeRow {
            id: new.id.to_string(),
            name: new.name,
            description,
            project_id: new.caller.project_id,
            user_id: new.caller.user_id,
            status: "creating".into(),
            size_gb: new.size_gb,
            bootable: false,
            multiattach: volume_type.is_multiattach(),
            availability_zone: ZONE.into(),
            volume_type: Some(volume_type.name),
            image_id: None,
            metadata: metadata.to_owned(),
            created_at: now,
            updated_at: now,
            image_metadata: None,
            snapshot_id: None,
            source_volid: None,
            readonly: None,
            migration_status: None,
        };
        match new.source {
            VolumeSource::Blank | VolumeSource::Backup(_) => {}
            VolumeSource::Image(id) => row.image_id = Some(id.to_string()),
            VolumeSource::Snapshot(id) => row.snapshot_id = Some(id.to_string()),
            VolumeSource::Volume(id) => row.source_volid = Some(id.to_string()),
        }
        let path = self.path(new.id);
        self.write(fence, move |conn| match rows::by_id(conn, &row.id)? {
            // A failed or interrupted creation starts again. Existing bytes are never touched.
            Some(earlier) if earlier.status == "creating" => Ok(true),
            Some(_) if path.exists() => Ok(false),
            Some(_) => Ok(rows::set_status(conn, &row.id, &["error"], "creating", now)?),
            None => {
                // Under the lock of the type's row, so that no type is deleted while a volume of it is made.
                volume_types::locked(conn, type_id)?;
                let (volume, gigabytes) = quotas::take_volume(conn, &row.project_id, row.size_gb, row.volume_type.as_deref())?;
                rows::insert(conn, volume, gigabytes, &row)?;
                Ok(true)
            }
        })
        .await
    }
}
