//! Moves disks between hosts: out as a snapshot image or into the cell's transfer area, in from either, verified.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cellshift_domain::guest::{DiskManifest, DiskPart, DiskSource, GuestSpec};
use cellshift_domain::host_protocol::{HostReply, NeighbourError};
use cellshift_domain::reason;
use cellshift_domain::reason::{Inside, Reason};
use cellshift_domain::server::PowerState;
use cellshift_env::Env;
use cellshift_env::guard::{Guard, stands};
use cellshift_env::streams::{ByteStream, Gathered, Keep};
use futures::TryStreamExt;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::copies::{CopyError, DiskReader, DiskWriter, Expected, Flush};
use super::host::{CommandError, Host, unless_overtaken};
use super::lanes::{Admission, Progress};
use crate::virt::hypervisor::ROOT;
use crate::virt::written::{Writing, Written};
use crate::virt::{DiskFile, Operation, StopCause, files};

/// The host that left an export in the transfer area.
pub(super) const EXPORTED_BY: &str = "exported-by";
/// The name of a guest's memory in an export.
pub(super) const MEMORY: &str = "memory";

type Outcome = Result<HostReply, CommandError>;
type Arrived = BTreeMap<String, Written>;
type Sent = Arc<Mutex<Option<(DiskManifest, String)>>>;

impl Host {
    pub(super) async fn upload_snapshot(&self, admission: &Admission, operation: Uuid, image: Uuid) -> Outcome {
        let disks = self.disks_at_rest(admission).await?;
        self.upload(admission, operation, image, disks, Keep::InPassing).await
    }

    pub(super) async fn upload_root_disk(&self, admission: &Admission, operation: Uuid, image: Uuid) -> Outcome {
        let disks: Vec<DiskFile> = self.disks_at_rest(admission).await?.into_iter().filter(|disk| disk.name == ROOT).collect();
        if disks.is_empty() {
            return Err(CommandError::Refused(reason!("server {} has no root disk on host {}", admission.fence.server, self.host())));
        }
        self.upload(admission, operation, image, disks, Keep::Durably).await
    }

    /// Uploads the root disk of a guest that may run. A guest that this operation has paused runs on however the upload ends. If the host
    /// dies, the guest boots again; if a higher fence comes, its request decides.
    pub(super) async fn snapshot_guest(&self, admission: &Admission, operation: Uuid, image: Uuid) -> Outcome {
        let (server, epoch, cause) = (admission.fence.server, admission.fence.epoch, StopCause::Operation(operation));
        let guest = self.defined_guest(server).await?;
        let stood_still = guest.power_state == PowerState::Paused && guest.stopped_by == Some(cause);
        if guest.runs() {
            self.virt(move |hypervisor| hypervisor.pause(server, cause)).await?;
        }
        let uploaded = self.upload_root_disk(admission, operation, image).await;
        let overtaken = matches!(uploaded, Err(CommandError::Overtaken));
        if (guest.runs() || stood_still) && !overtaken {
            self.virt(move |hypervisor| hypervisor.resume(server, epoch, None)).await?;
        }
        uploaded
    }

    async fn upload(&self, admission: &Admission, operation: Uuid, image: Uuid, disks: Vec<DiskFile>, keep: Keep) -> Outcome {
        let progress = self.lanes.begin_progress(admission.fence.server, operation, disks.iter().map(|disk| disk.size).sum());
        let sent = Sent::default();
        let stream = outgoing(self.parts.env.clone(), disks.clone(), progress, sent.clone());
        let stored = match unless_overtaken(admission, self.parts.upward.upload(admission.fence.server, image, stream, keep)).await? {
            Ok(stored) => stored,
            // Bytes are there already: an earlier try may have succeeded and lost its reply.
            Err(NeighbourError::Conflict(reason)) => return self.uploaded_before(admission, image, disks, reason).await,
            Err(error @ NeighbourError::Unavailable { .. }) => return Err(error.into()),
            Err(error) => return Err(CommandError::Refused(reason!("{error}"))),
        };
        let sent = sent.lock().take();
        match sent {
            Some((manifest, sha256)) if sha256 == stored => self.sent_as_written(admission, manifest).await,
            _ => Err(CommandError::Failed(reason!("image {image} does not hold the bytes that were sent"))),
        }
    }

    async fn uploaded_before(&self, admission: &Admission, image: Uuid, disks: Vec<DiskFile>, reason: Reason) -> Outcome {
        let (manifest, sha256) = self.checksums(admission, disks).await?;
        match self.parts.upward.image(&self.asker(), image).await {
            Ok(record) if stands(Guard::UploadedBefore) && record.sha256.as_ref() != Some(&sha256) => Err(CommandError::Refused(reason)),
            Ok(_) => self.sent_as_written(admission, manifest).await,
            Err(_) => Err(CommandError::Refused(reason)),
        }
    }

    /// Refuses to copy a disk that differs from what its guest wrote: elsewhere nothing would tell it from a sound one.
    pub(super) async fn sent_as_written(&self, admission: &Admission, manifest: DiskManifest) -> Outcome {
        let server = admission.fence.server;
        let contents = self.virt(move |hypervisor| hypervisor.contents(server)).await?;
        for part in &manifest.disks {
            let content = contents.iter().find(|content| content.name == part.name && !content.at_least);
            if let Some(written) = content.and_then(|content| content.written.as_ref())
                && (written.end != part.size || written.sha256 != part.sha256)
            {
                let (name, host) = (&part.name, self.host());
                return Err(CommandError::Refused(reason!("{name} of server {server} on {host} is not what its guest wrote")));
            }
        }
        Ok(HostReply::Exported { manifest })
    }

    /// Reads disks for their checksums alone: the manifest, and the checksum of all bytes.
    async fn checksums(&self, admission: &Admission, disks: Vec<DiskFile>) -> Result<(DiskManifest, String), CommandError> {
        let mut reader = DiskReader::new(disks);
        loop {
            let chunk;
            (reader, chunk) = self.next_chunk(reader).await?;
            match chunk {
                Err(error) => return Err(CommandError::io("a disk cannot be read", &error)),
                Ok(None) => return Ok(reader.finish()),
                Ok(Some(_)) if admission.is_overtaken() => return Err(CommandError::Overtaken),
                Ok(Some(_)) => {}
            }
        }
    }

    /// Reads the next chunk where reading may block, and gives the reader back.
    async fn next_chunk(&self, mut reader: DiskReader) -> Result<(DiskReader, io::Result<Option<(String, Bytes)>>), CommandError> {
        self.blocking(move || {
            let chunk = reader.next_chunk();
            (reader, chunk)
        })
        .await
    }

    pub(super) async fn export_disks(&self, admission: &Admission, operation: Uuid) -> Outcome {
        let server = admission.fence.server;
        let disks = self.disks_at_rest(admission).await?;
        let progress = self.lanes.begin_progress(server, operation, disks.iter().map(|disk| disk.size).sum());
        let (dir, host) = (self.parts.site.place.transfer_dir(server), self.host().to_owned());
        let failed = |error: std::io::Error| CommandError::io("the disks cannot be put into the transfer area", &error);
        let opened = dir.clone();
        self.blocking(move || {
            files::remove_tree(&opened)?;
            std::fs::create_dir_all(&opened)?;
            std::fs::write(opened.join(EXPORTED_BY), host)
        })
        .await?
        .map_err(failed)?;
        let mut reader = DiskReader::new(disks.clone());
        let mut files: Vec<std::fs::File> = Vec::new();
        let names: Vec<String> = disks.into_iter().map(|disk| disk.name).collect();
        let create = dir.clone();
        let made = names.clone();
        files.extend(
            self.blocking(move || made.iter().map(|name| std::fs::File::create(create.join(name))).collect::<std::io::Result<Vec<_>>>())
                .await?
                .map_err(failed)?,
        );
        loop {
            if admission.is_overtaken() {
                return Err(CommandError::Overtaken);
            }
            let (names, counter, env) = (names.clone(), progress.clone(), self.parts.env.clone());
            let (back, open, more) = self
                .blocking(move || {
                    let more = copy_chunk(&env, &mut reader, &names, &mut files, &counter);
                    (reader, files, more)
                })
                .await?;
            (reader, files) = (back, open);
            if !more.map_err(failed)? {
                return self.sent_as_written(admission, reader.finish().0).await;
            }
        }
    }

    pub(super) async fn drop_export(&self, server: Uuid) -> Outcome {
        let dir = self.parts.site.place.transfer_dir(server);
        let removed = self.blocking(move || files::remove_tree(&dir)).await?;
        removed.map_err(|error| CommandError::io("the transfer area cannot be cleared", &error))?;
        self.virt(move |hypervisor| hypervisor.discard_incoming(server)).await?;
        Ok(HostReply::Done)
    }

    /// Removes what this host has exported of a server that it has no more. In an area that hosts share, an export of another host stays.
    pub(super) async fn drop_own_export(&self, server: Uuid) -> Result<(), CommandError> {
        let (dir, host) = (self.parts.site.place.transfer_dir(server), self.host().to_owned());
        let removed = self.blocking(move || match std::fs::read_to_string(dir.join(EXPORTED_BY)) {
            Ok(exporter) if exporter == host => files::remove_tree(&dir),
            _ => Ok(()),
        });
        removed.await?.map_err(|error| CommandError::io("the transfer area cannot be cleared", &error))
    }

    async fn disks_at_rest(&self, admission: &Admission) -> Result<Vec<DiskFile>, CommandError> {
        let server = admission.fence.server;
        match self.guest(server).await? {
            None => return Err(CommandError::Refused(reason!("server {server} has no guest on host {}", self.host()))),
            Some(guest) if stands(Guard::DisksAtRest) && guest.runs() => {
                return Err(CommandError::Refused(reason!("the guest of server {server} runs; its disks are not at rest")));
            }
            Some(_) => {}
        }
        self.latency(admission, Operation::CopyDisks).await?;
        self.virt(move |hypervisor| hypervisor.disks(server)).await
    }

    /// Copies a new guest's disks into the driver's incoming directory, and verifies them.
    pub(super) async fn fetch_disks(&self, admission: &Admission, operation: Uuid, spec: &GuestSpec) -> Result<Arrived, CommandError> {
        let server = spec.server;
        match &spec.disks {
            DiskSource::Kept => return Ok(Arrived::new()),
            DiskSource::Arriving => return self.make_place(spec).await,
            DiskSource::Volume => {}
            DiskSource::Image { image_id } => {
                let dir = self.incoming(admission, server).await?;
                // The driver appends the configuration to the disk that the guest boots from.
                let is_added_to = !spec.config_drive.is_null() && spec.volumes.iter().all(|volume| volume.boot_index != Some(0));
                let flush = if is_added_to { Flush::WithAddition } else { Flush::OnArrival };
                return self.download(admission, operation, *image_id, None, (dir, flush)).await;
            }
            DiskSource::Snapshot { image_id: Some(image_id), manifest } => {
                let dir = self.incoming(admission, server).await?;
                return self.download(admission, operation, *image_id, Some(manifest), (dir, Flush::OnArrival)).await;
            }
            DiskSource::Snapshot { image_id: None, manifest } => {
                if !manifest.disks.is_empty() {
                    return Err(CommandError::Refused("the snapshot names disks and has no image to carry them".into()));
                }
            }
            DiskSource::Transfer { source, manifest, .. } => {
                let dir = self.incoming(admission, server).await?;
                let first = manifest.disks.first();
                let Some(data) = self.exported_elsewhere(admission, (server, source.as_deref()), first).await? else {
                    return self.import(admission, operation, server, dir, manifest).await;
                };
                return self.fetch_export(admission, operation, (server, source.as_deref()), (dir, manifest, data)).await;
            }
        }
        self.virt(move |hypervisor| hypervisor.clear_incoming(server)).await.map(|_| Arrived::new())
    }

    /// Makes an empty root disk for a guest whose disks arrive later, unless it boots from a volume.
    async fn make_place(&self, spec: &GuestSpec) -> Result<Arrived, CommandError> {
        let server = spec.server;
        let dir = self.virt(move |hypervisor| hypervisor.clear_incoming(server)).await?;
        if spec.volumes.iter().any(|volume| volume.boot_index == Some(0)) {
            return Ok(Arrived::new());
        }
        let made = self.blocking(move || std::fs::File::create(dir.join(ROOT))).await?;
        made.map_err(|error| CommandError::io("a root disk cannot be made", &error))?;
        Ok(Arrived::from([(ROOT.to_owned(), Writing::at(0).written())]))
    }

    async fn incoming(&self, admission: &Admission, server: Uuid) -> Result<PathBuf, CommandError> {
        self.latency(admission, Operation::CopyDisks).await?;
        self.virt(move |hypervisor| hypervisor.clear_incoming(server)).await
    }

    async fn download(
        &self,
        admission: &Admission,
        operation: Uuid,
        image: Uuid,
        manifest: Option<&DiskManifest>,
        (dir, flush): (PathBuf, Flush),
    ) -> Result<Arrived, CommandError> {
        let (about, data) = match unless_overtaken(admission, self.parts.upward.download(admission.fence.server, image)).await? {
            Ok(download) => download,
            Err(error @ NeighbourError::Unavailable { .. }) => return Err(error.into()),
            Err(error) => return Err(CommandError::Refused(reason!("image {image} cannot be fetched: {error}"))),
        };
        let expected = match manifest {
            Some(manifest) => manifest.disks.iter().map(Expected::from).collect(),
            None => vec![Expected { name: ROOT.to_owned(), size: about.size, sha256: about.sha256 }],
        };
        let progress = self.lanes.begin_progress(admission.fence.server, operation, about.size.unwrap_or(0));
        let what = format!("image {image}");
        let writer = self.take_in(admission, &what, DiskWriter::new(dir, expected, flush), (data, &progress)).await?;
        self.close(&what, writer).await
    }

    /// Writes a stream's bytes as they arrive.
    async fn take_in(
        &self,
        admission: &Admission,
        what: &str,
        mut writer: DiskWriter,
        (data, progress): (ByteStream, &Progress),
    ) -> Result<DiskWriter, CommandError> {
        let mut arriving = Gathered::new(data);
        let mut next = unless_overtaken(admission, arriving.next()).await?;
        loop {
            let bytes = next.map_err(|error| CommandError::Failed(reason!("{what} stopped arriving: {}", Inside(error))))?;
            if bytes.is_empty() {
                return Ok(writer);
            }
            progress.advance(bytes.len());
            let (stored, following) = futures::join!(self.store(what, writer, bytes), unless_overtaken(admission, arriving.next()));
            (writer, next) = (stored?, following?);
        }
    }

    /// Reads a disk from the host that has exported it. None if the export lies in the transfer area, or if there is no disk.
    async fn exported_elsewhere(
        &self,
        admission: &Admission,
        (server, source): (Uuid, Option<&str>),
        part: Option<&DiskPart>,
    ) -> Result<Option<ByteStream>, CommandError> {
        let (Some(source), Some(part)) = (source, part) else { return Ok(None) };
        match unless_overtaken(admission, self.parts.upward.export(source, server, part)).await? {
            Ok(data) => Ok(data),
            Err(error @ NeighbourError::Unavailable { .. }) => Err(error.into()),
            Err(error) => Err(CommandError::Refused(reason!("{} of server {server} cannot be fetched: {error}", part.name))),
        }
    }

    /// Takes an export from the host that has made it, disk by disk. `data` are the bytes of the first one.
    async fn fetch_export(
        &self,
        admission: &Admission,
        operation: Uuid,
        (server, source): (Uuid, Option<&str>),
        (dir, manifest, data): (PathBuf, &DiskManifest, ByteStream),
    ) -> Result<Arrived, CommandError> {
        let total = manifest.disks.iter().map(|disk| disk.size).sum();
        let progress = self.lanes.begin_progress(server, operation, total);
        let mut writer = DiskWriter::new(dir, manifest.disks.iter().map(Expected::from).collect(), Flush::OnArrival);
        let (what, mut parts, mut next) = ("the export", manifest.disks.iter().skip(1), Some(data));
        while let Some(data) = next {
            writer = self.take_in(admission, what, writer, (data, &progress)).await?;
            next = self.exported_elsewhere(admission, (server, source), parts.next()).await?;
        }
        self.close(what, writer).await
    }

    /// Reads the memory that the source of a live migration has exported, and checks it.
    pub(super) async fn arrived_memory(
        &self,
        admission: &Admission,
        disks: &DiskSource,
        memory: &DiskPart,
    ) -> Result<Vec<u8>, CommandError> {
        let server = admission.fence.server;
        let source = match disks {
            DiskSource::Transfer { source, .. } => source.as_deref(),
            _ => None,
        };
        let bytes = match self.exported_elsewhere(admission, (server, source), Some(memory)).await? {
            Some(data) => {
                let read = data.try_fold(Vec::new(), |mut read, piece| async move {
                    read.extend_from_slice(&piece);
                    Ok(read)
                });
                let read = unless_overtaken(admission, read).await?;
                read.map_err(|error| CommandError::Failed(reason!("the guest's memory stopped arriving: {}", Inside(error))))?
            }
            None => {
                let path = self.parts.site.place.transfer_dir(server).join(MEMORY);
                let read = self.blocking(move || std::fs::read(path)).await?;
                read.map_err(|error| CommandError::Refused(reason!("the guest's memory cannot be read: {}", Inside(error))))?
            }
        };
        match hex::encode(Sha256::digest(&bytes)) == memory.sha256 {
            true => Ok(bytes),
            false => Err(CommandError::Refused(reason!("the memory of server {server} is not what was sent"))),
        }
    }

    async fn import(
        &self,
        admission: &Admission,
        operation: Uuid,
        server: Uuid,
        dir: PathBuf,
        manifest: &DiskManifest,
    ) -> Result<Arrived, CommandError> {
        let source = self.parts.site.place.transfer_dir(server);
        let total = manifest.disks.iter().map(|disk| disk.size).sum();
        let progress = self.lanes.begin_progress(server, operation, total);
        let disks = manifest.disks.iter().map(|part| exported(&source, &part.name, part.size)).collect();
        let mut reader = DiskReader::new(disks);
        let mut writer = DiskWriter::new(dir, manifest.disks.iter().map(Expected::from).collect(), Flush::OnArrival);
        let what = "the export";
        loop {
            if admission.is_overtaken() {
                return Err(CommandError::Overtaken);
            }
            let chunk;
            (reader, chunk) = self.next_chunk(reader).await?;
            match chunk.map_err(|error| CommandError::Refused(reason!("{what} cannot be read: {}", Inside(error))))? {
                None => return self.close(what, writer).await,
                Some((_, bytes)) => {
                    progress.advance(bytes.len());
                    writer = self.store(what, writer, bytes).await?;
                }
            }
        }
    }

    async fn store(&self, what: &str, mut writer: DiskWriter, bytes: Bytes) -> Result<DiskWriter, CommandError> {
        let env = self.parts.env.clone();
        let take = move || {
            env.borders().before_write(bytes.len()).map_err(|error| CopyError::Store("its bytes".into(), error))?;
            writer.take(&bytes)?;
            env.metrics().copied("disks_in", bytes.len() as u64);
            Ok(writer)
        };
        let stored = self.blocking(take).await?;
        stored.map_err(|error| copy_refusal(what, &error))
    }

    async fn close(&self, what: &str, writer: DiskWriter) -> Result<Arrived, CommandError> {
        self.blocking(move || writer.finish()).await?.map_err(|error| copy_refusal(what, &error))
    }
}

fn copy_refusal(what: &str, error: &CopyError) -> CommandError {
    CommandError::Refused(reason!("{what} is not taken: {error}"))
}

fn exported(dir: &Path, name: &str, size: u64) -> DiskFile {
    DiskFile { name: name.to_owned(), path: dir.join(name), size }
}

fn copy_chunk(
    env: &Env,
    reader: &mut DiskReader,
    names: &[String],
    files: &mut [std::fs::File],
    progress: &Progress,
) -> std::io::Result<bool> {
    use std::io::Write;
    let Some((name, bytes)) = reader.next_chunk()? else { return Ok(false) };
    if let Some((_, file)) = names.iter().zip(files).find(|(disk, _)| **disk == name) {
        env.borders().before_write(bytes.len())?;
        file.write_all(&bytes)?;
    }
    env.metrics().copied("disks_out", bytes.len() as u64);
    progress.done.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    Ok(true)
}

/// Makes one stream of the disks. At its end, `sent` has the record of the disks.
fn outgoing(env: Env, disks: Vec<DiskFile>, progress: Arc<Progress>, sent: Sent) -> ByteStream {
    let state = Some(DiskReader::new(disks));
    Box::pin(futures::stream::unfold(state, move |state| {
        let (env, progress, sent) = (env.clone(), progress.clone(), sent.clone());
        async move {
            let mut reader = state?;
            let (reader, chunk) = env
                .run_blocking(move || {
                    let chunk = reader.next_chunk();
                    (reader, chunk)
                })
                .await;
            match chunk {
                Ok(Some((_, bytes))) => {
                    env.metrics().copied("disks_out", bytes.len() as u64);
                    progress.advance(bytes.len());
                    Some((Ok(bytes), Some(reader)))
                }
                Ok(None) => {
                    *sent.lock() = Some(reader.finish());
                    None
                }
                Err(error) => Some((Err(error), None)),
            }
        }
    }))
}
