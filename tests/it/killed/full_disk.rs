//! A disk that is full when the process is killed: the data lie on a small file system of their own, which the test fills.

use super::batch::{Batch, configure};
use super::{from_environment, seed};
use crate::small_disk::SmallDisk;

/// The number of times that the disk is filled and the process killed.
const TIMES: u64 = 2;
/// The number of looks at servers that the service answers with a full disk before it dies, while operations are at work. They come slowly
/// once no operation can end: a request for another one is refused after two seconds.
const LOOKS: usize = 40;
/// The size of the file system in MiB, and the addition per life, because journals and notifications stay.
const SIZE: u64 = 96;
const MORE: u64 = 2;

/// Does nothing if the user may not mount a file system.
#[test]
fn a_service_killed_on_a_full_disk_loses_nothing() {
    let times = from_environment("CELLSHIFT_KILLS", TIMES);
    let Some(disk) = SmallDisk::mount(SIZE + MORE * times) else { return };
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
