//! The copy of a running guest in rounds. Each round carries what the guest has changed during the last; a guest only appends to its disks,
//! so their changed blocks are those behind the copied end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cellshift_domain::guest::{DiskManifest, DiskPart};
use cellshift_domain::host_protocol::LiveProgress;
use cellshift_env::Env;
use cellshift_env::guard::{Guard, stands};
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use uuid::Uuid;

use super::Leave;
use crate::host::{CommandError, Host, unless_overtaken};
use crate::lanes::{Admission, Progress};
use crate::transfer::{EXPORTED_BY, MEMORY};
use crate::virt::files::{self, Durability};
use crate::virt::written::{Writing, Written};
use crate::virt::{DiskFile, GuestRecord, StopCause};

/// The bytes that one blocking call copies; between two calls a higher fence is noticed.
const PIECE: u64 = 8 << 20;
/// The pause between two looks of a slow copy: at force-complete, at the time limit, and to show its progress.
const SLICE: Duration = Duration::from_millis(100);
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The reason why the rounds end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Paced {
    /// The bytes have been sent.
    Sent,
    /// The guest is to be paused at once.
    Forced,
}

/// A local disk, and how much of it is in the transfer area.
struct CopiedDisk {
    name: String,
    from: PathBuf,
    to: PathBuf,
    content: Writing,
}

impl CopiedDisk {
    /// Copies the next bytes. Returns their number; 0 if the copy has caught up.
    fn go_on(&mut self, env: &Env) -> io::Result<u64> {
        let mut source = File::open(&self.from)?;
        source.seek(SeekFrom::Start(self.content.end()))?;
        let mut bytes = Vec::new();
        source.take(PIECE).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        env.borders().before_write(bytes.len())?;
        OpenOptions::new().append(true).open(&self.to)?.write_all(&bytes)?;
        self.content.append(&bytes);
        Ok(bytes.len() as u64)
    }

    fn behind(&self) -> u64 {
        fs::metadata(&self.from).map_or(0, |about| about.len()).saturating_sub(self.content.end())
    }
}

/// A copy under way.
pub(super) struct Copying<'a> {
    core: &'a Host,
    admission: &'a Admission,
    operation: Uuid,
    leave: &'a Leave,
    dir: PathBuf,
    disks: Vec<CopiedDisk>,
    sign_of_life: Arc<Progress>,
    shown: LiveProgress,
    /// True if an earlier try or its user has paused the guest.
    paused: bool,
    ends_at: Option<Instant>,
}

impl<'a> Copying<'a> {
    /// Empties the transfer area and looks at the guest.
    pub async fn begin(
        core: &'a Host,
        admission: &'a Admission,
        operation: Uuid,
        leave: &'a Leave,
        guest: &GuestRecord,
    ) -> Result<Copying<'a>, CommandError> {
        let server = admission.fence.server;
        let files = core.virt(move |hypervisor| hypervisor.disks(server)).await?;
        let memory_total = u64::try_from(guest.spec.flavor.memory_mb).unwrap_or(0) * MIB;
        let disk_total: u64 = files.iter().map(|disk| disk.size).sum();
        let (dir, host) = (core.parts.site.place.transfer_dir(server), core.host().to_owned());
        let into = dir.clone();
        let disks = core.blocking(move || open(&into, &host, files)).await?.map_err(|error| failed(&error))?;
        let sign_of_life = core.lanes.begin_progress(server, operation, memory_total + disk_total);
        let shown = LiveProgress {
            memory_total,
            memory_remaining: memory_total,
            disk_total,
            disk_remaining: disk_total,
            ..LiveProgress::default()
        };
        leave.show(shown);
        let limit = core.parts.options.live.completion_timeout;
        let gib = u32::try_from((memory_total + disk_total).div_ceil(GIB)).unwrap_or(u32::MAX).max(1);
        let ends_at = (!limit.is_zero()).then(|| Instant::now() + limit.saturating_mul(gib));
        let paused = !guest.runs();
        Ok(Copying { core, admission, operation, leave, dir, disks, sign_of_life, shown, paused, ends_at })
    }

    /// Copies until the rest fits into the downtime, pauses the guest, and copies the rest.
    pub async fn finish(mut self) -> Result<(DiskManifest, DiskPart), CommandError> {
        if !self.paused {
            self.rounds().await?;
            let (server, operation) = (self.admission.fence.server, self.operation);
            if stands(Guard::PausedCopy) {
                self.core.virt(move |hypervisor| hypervisor.pause(server, StopCause::Operation(operation))).await?;
            }
            let rest = self.shown.memory_remaining + self.copy_disks().await?;
            let downtime = self.time_for(rest);
            self.core.wait(self.admission, downtime).await?;
        }
        self.copy_disks().await?;
        self.shown.memory_processed += self.shown.memory_remaining;
        (self.shown.memory_remaining, self.shown.disk_remaining) = (0, 0);
        self.leave.show(self.shown);
        self.make_durable().await
    }

    async fn rounds(&mut self) -> Result<(), CommandError> {
        let options = self.core.parts.options.live.clone();
        loop {
            let begun = Instant::now();
            let disks = self.copy_disks().await?;
            if self.send(self.shown.memory_remaining + disks).await? == Paced::Forced {
                return Ok(());
            }
            let dirtied = bytes_in(options.dirty_rate, begun.elapsed());
            self.shown.memory_remaining = dirtied.min(self.shown.memory_total);
            self.shown.disk_remaining = self.disks.iter().map(CopiedDisk::behind).sum();
            self.leave.show(self.shown);
            if self.time_for(self.shown.memory_remaining + self.shown.disk_remaining) <= options.max_downtime {
                return Ok(());
            }
        }
    }

    /// Lets the time pass that so many bytes take. Disks count as sent already: their bytes are copied before.
    async fn send(&mut self, bytes: u64) -> Result<Paced, CommandError> {
        let (mut left, rate) = (bytes, self.core.parts.options.live.bandwidth);
        let mut hurry = self.leave.hurries.subscribe();
        loop {
            if *hurry.borrow_and_update() || self.is_at_its_limit()? {
                return Ok(Paced::Forced);
            }
            let slice = if rate == 0 { left } else { left.min(bytes_in(rate, SLICE).max(1)) };
            let pause = self.time_for(slice);
            if !pause.is_zero() {
                let waited = tokio::time::timeout(pause, hurry.changed());
                let _ = unless_overtaken(self.admission, waited).await?;
            }
            left -= slice;
            let memory = slice.min(self.shown.memory_remaining);
            self.shown.memory_remaining -= memory;
            self.shown.memory_processed += memory;
            self.core.parts.env.metrics().copied("memory", memory);
            self.sign_of_life.advance(usize::try_from(slice.max(1)).unwrap_or(usize::MAX));
            self.leave.show(self.shown);
            if left == 0 {
                return Ok(Paced::Sent);
            }
        }
    }

    /// True if the time limit has passed and the guest is to be paused; an error if the copy is to be given up.
    fn is_at_its_limit(&self) -> Result<bool, CommandError> {
        let passed = self.ends_at.is_some_and(|end| Instant::now() >= end);
        match self.core.parts.options.live.forces_at_timeout {
            false if passed => Err(CommandError::Refused(
                "the guest was not copied within the time limit ([compute.live_migration] completion_timeout)".into(),
            )),
            _ => Ok(passed),
        }
    }

    fn time_for(&self, bytes: u64) -> Duration {
        match self.core.parts.options.live.bandwidth {
            0 => Duration::ZERO,
            #[expect(clippy::cast_precision_loss, reason = "a time need not be exact")]
            rate => Duration::from_secs_f64(bytes as f64 / rate as f64),
        }
    }

    /// Copies what the guest has written since the last time. Returns the number of bytes.
    async fn copy_disks(&mut self) -> Result<u64, CommandError> {
        let mut copied = 0;
        loop {
            if self.admission.is_overtaken() {
                return Err(CommandError::Overtaken);
            }
            let (mut disks, env) = (std::mem::take(&mut self.disks), self.core.parts.env.clone());
            let work = move || {
                let moved = disks.iter_mut().map(|disk| disk.go_on(&env)).sum::<io::Result<u64>>();
                (disks, moved)
            };
            let (disks, moved) = self.core.blocking(work).await?;
            self.disks = disks;
            let moved = moved.map_err(|error| failed(&error))?;
            if moved == 0 {
                return Ok(copied);
            }
            copied += moved;
            self.core.parts.env.metrics().copied("disks_out", moved);
            self.shown.disk_processed += moved;
            self.shown.disk_total = self.shown.disk_total.max(self.shown.disk_processed);
            self.sign_of_life.advance(usize::try_from(moved).unwrap_or(usize::MAX));
        }
    }

    /// Writes the memory, and makes all files durable: the source may die from here on.
    async fn make_durable(self) -> Result<(DiskManifest, DiskPart), CommandError> {
        let server = self.admission.fence.server;
        let bytes = self.core.virt(move |hypervisor| hypervisor.memory(server)).await?;
        let (dir, disks, durability) = (self.dir, self.disks, Durability::of(&self.core.parts.env));
        let sealed = self.core.blocking(move || {
            durability.replace(&dir, MEMORY, &bytes)?;
            for disk in &disks {
                durability.flush(&File::open(&disk.to)?)?;
            }
            durability.flush_names(&dir)?;
            let parts = disks.into_iter().map(|disk| {
                let Written { end: size, sha256, .. } = disk.content.written();
                DiskPart { name: disk.name, size, sha256 }
            });
            let memory = DiskPart { name: MEMORY.to_owned(), size: bytes.len() as u64, sha256: hex::encode(Sha256::digest(&bytes)) };
            io::Result::Ok((DiskManifest { disks: parts.collect() }, memory))
        });
        sealed.await?.map_err(|error| failed(&error))
    }
}

fn open(dir: &Path, host: &str, disks: Vec<DiskFile>) -> io::Result<Vec<CopiedDisk>> {
    files::remove_tree(dir)?;
    fs::create_dir_all(dir)?;
    fs::write(dir.join(EXPORTED_BY), host)?;
    let opened = disks.into_iter().map(|disk| {
        let to = dir.join(&disk.name);
        File::create(&to)?;
        Ok(CopiedDisk { name: disk.name, from: disk.path, to, content: Writing::at(0) })
    });
    opened.collect()
}

fn bytes_in(rate: u64, time: Duration) -> u64 {
    let bytes = u128::from(rate) * time.as_micros() / 1_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn failed(error: &io::Error) -> CommandError {
    CommandError::io("the guest cannot be copied into the transfer area", error)
}
