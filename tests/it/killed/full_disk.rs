//! A disk that is full when the process is killed: the data lie on a small file system of their own, which the test fills.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::batch::{Batch, configure};
use super::{from_environment, seed};

/// The number of times that the disk is filled and the process killed.
const TIMES: u64 = 2;
/// The number of looks at servers that the service answers with a full disk before it dies, while operations are at work. They come slowly
/// once no operation can end: a request for another one is refused after two seconds.
const LOOKS: usize = 40;
/// The size of the file system in MiB, and the addition per life, because journals and notifications stay.
const SIZE: u64 = 96;
const MORE: u64 = 2;

/// A small file system in memory. Unmounted when it is dropped.
struct SmallDisk {
    at: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts a file system for this many lives. None if the user may not mount.
    fn mount(times: u64) -> Option<SmallDisk> {
        let at = tempfile::tempdir().expect("a directory");
        let size = format!("size={}m", SIZE + MORE * times);
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(at.path()).stderr(Stdio::null()).status();
        mount.is_ok_and(|status| status.success()).then_some(SmallDisk { at })
    }

    fn path(&self) -> &Path {
        self.at.path()
    }

    /// Takes all free space, until [`SmallDisk::free`].
    fn fill(&self) {
        let mut ballast = File::create(self.path().join("ballast")).expect("a file");
        for chunk in [1 << 20, 1 << 12, 1] {
            let bytes = vec![7; chunk];
            while ballast.write_all(&bytes).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.path().join("ballast")).expect("the ballast goes");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Also while a file in it is open: a panic must not leave the mount.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// Does nothing if the user may not mount a file system.
#[test]
fn a_service_killed_on_a_full_disk_loses_nothing() {
    let times = from_environment("CELLSHIFT_KILLS", TIMES);
    let Some(disk) = SmallDisk::mount(times) else { return };
    configure(disk.path(), |_| {});
    actix_rt::System::new().block_on(async {
        let mut batch = Batch::begin(disk.path(), seed());
        for _ in 0..times {
            let service = batch.start().await;
            // An undo whose host cannot write is owed, and its server is in ERROR until there is space again.
            batch.everyone().await;
            batch.moment().await;
            disk.fill();
            batch.answered(LOOKS).await;
            batch.gone();
            drop(service);
            disk.free();
        }
        let service = batch.start().await;
        batch.end(service, &format!("{times} kills with a full disk")).await;
    });
}
