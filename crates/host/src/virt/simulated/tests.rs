//! Tests of the simulated driver: its files after each step of a guest's life.

use cellshift_domain::flavor::Flavor;

use super::*;
use crate::virt::written::Writing;

const IMAGE: &[u8] = b"image bytes";

fn spec(server: Uuid, disks: DiskSource) -> GuestSpec {
    GuestSpec {
        server,
        instance_name: "instance-00000001".into(),
        flavor: Flavor { root_gb: 1, ephemeral_gb: 1, swap_mb: 1, ..Flavor::default() },
        disks,
        volumes: Vec::new(),
        vifs: Vec::new(),
        config_drive: serde_json::json!({"key": "value"}),
        sealed: None,
    }
}

fn driver(dir: &Path) -> Simulated {
    Simulated::open(dir, Durability::Relaxed).unwrap()
}

fn build(driver: &Simulated, server: Uuid) {
    let incoming = driver.clear_incoming(server).unwrap();
    fs::write(incoming.join(ROOT), IMAGE).unwrap();
    let mut image = Writing::at(0);
    image.append(IMAGE);
    let arrived = BTreeMap::from([(ROOT.to_owned(), image.written())]);
    driver.define(&spec(server, DiskSource::Image { image_id: Uuid::nil() }), &arrived).unwrap();
}

fn root(driver: &Simulated, server: Uuid) -> String {
    String::from_utf8(fs::read(&driver.disks(server).unwrap()[0].path).unwrap()).unwrap()
}

#[test]
fn a_guest_numbers_its_records_through_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let (driver, server) = (driver(dir.path()), Uuid::from_u128(1));
    build(&driver, server);
    driver.tick();
    driver.start(server, 3).unwrap();
    driver.tick();
    driver.guest_write(server, b"precious").unwrap();
    assert!(driver.stop(server, StopCause::Operation(Uuid::nil()), true).unwrap());
    driver.tick();
    let line = |number, event| disks::record_line(server, number, event);
    let expected =
        format!("image bytes\nconfig-drive {{\"key\":\"value\"}}\n{}{}precious{}", line(1, "boot"), line(2, "tick"), line(3, "shutdown"));
    assert_eq!(root(&driver, server), expected);
    assert!(driver.guest_write(server, b"late").is_err());

    driver.start(server, 4).unwrap();
    assert!(root(&driver, server).ends_with(&line(4, "boot")));
    let names: Vec<_> = driver.disks(server).unwrap().into_iter().map(|disk| disk.name).collect();
    assert_eq!(names, DISK_NAMES);
}

#[test]
fn a_released_guest_is_defined_again_on_its_disks() {
    let dir = tempfile::tempdir().unwrap();
    let (driver, server) = (driver(dir.path()), Uuid::from_u128(1));
    build(&driver, server);
    driver.start(server, 1).unwrap();
    assert!(driver.undefine(server).is_err(), "a running guest is not released");
    driver.stop(server, StopCause::Operation(Uuid::nil()), false).unwrap();
    let before = root(&driver, server);
    driver.undefine(server).unwrap();
    assert!(matches!(driver.start(server, 1), Err(VirtError::NoGuest(_))));
    driver.define(&spec(server, DiskSource::Kept), &BTreeMap::new()).unwrap();
    assert_eq!(root(&driver, server), before, "nothing is injected a second time");
    driver.remove(server).unwrap();
    driver.remove(server).unwrap();
    assert!(files::names_in(dir.path()).unwrap().is_empty());
    assert!(driver.define(&spec(server, DiskSource::Kept), &BTreeMap::new()).is_err(), "there are no disks any more");
    assert!(files::names_in(dir.path()).unwrap().is_empty());
}

#[test]
fn the_stopping_operation_learns_that_the_guest_ran() {
    let dir = tempfile::tempdir().unwrap();
    let server = Uuid::from_u128(1);
    let (operation, other) = (StopCause::Operation(Uuid::from_u128(7)), StopCause::Operation(Uuid::from_u128(8)));
    {
        let driver = driver(dir.path());
        build(&driver, server);
        driver.start(server, 1).unwrap();
    }
    let driver = driver(dir.path());
    driver.interrupted(true).unwrap();
    assert!(!driver.guest(server).unwrap().unwrap().runs());
    assert!(driver.stop(server, operation, true).unwrap());
    assert!(driver.stop(server, operation, true).unwrap());
    assert!(!driver.stop(server, other, true).unwrap());
    driver.start(server, 1).unwrap();
    driver.interrupted(false).unwrap();
    assert!(!driver.stop(server, operation, true).unwrap());
}

#[test]
fn an_interrupted_guest_that_is_defined_again_stays_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let (driver, server) = (driver(dir.path()), Uuid::from_u128(1));
    build(&driver, server);
    driver.start(server, 1).unwrap();
    driver.interrupted(true).unwrap();
    driver.define(&spec(server, DiskSource::Kept), &BTreeMap::new()).unwrap();
    assert_eq!(driver.guest(server).unwrap().unwrap().stopped_by, Some(StopCause::HostDown));
    driver.undefine(server).unwrap();
    driver.define(&spec(server, DiskSource::Kept), &BTreeMap::new()).unwrap();
    assert_eq!(driver.guest(server).unwrap().unwrap().stopped_by, None, "it was released, and is built anew");
}

#[test]
fn a_suspended_guest_keeps_its_memory_through_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let server = Uuid::from_u128(1);
    let before = {
        let driver = driver(dir.path());
        build(&driver, server);
        assert!(driver.suspend(server).is_err(), "it does not run");
        driver.start(server, 1).unwrap();
        driver.memory_write(server, b"a thought").unwrap();
        let memory = driver.memory(server).unwrap();
        driver.suspend(server).unwrap();
        driver.suspend(server).unwrap();
        memory
    };
    let driver = driver(dir.path());
    driver.interrupted(true).unwrap();
    let kept = driver.guest(server).unwrap().unwrap();
    assert_eq!((kept.power_state, kept.stopped_by), (PowerState::Suspended, None));
    driver.resume(server, 2, None).unwrap();
    assert_eq!(driver.memory(server).unwrap(), before);
    assert_eq!(driver.runs_for(server), Some(2));
    assert!(!dir.path().join(server.to_string()).join("memory").exists());
}

#[test]
fn a_paused_guest_survives_its_host_unless_guests_are_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (driver, server) = (driver(dir.path()), Uuid::from_u128(1));
    build(&driver, server);
    driver.start(server, 1).unwrap();
    driver.pause(server, StopCause::Operation(Uuid::from_u128(7))).unwrap();
    driver.pause(server, StopCause::UserPaused).unwrap();
    driver.pause(server, StopCause::Operation(Uuid::from_u128(8))).unwrap();
    assert_eq!(driver.guest(server).unwrap().unwrap().stopped_by, Some(StopCause::UserPaused));
    let thought = driver.memory(server).unwrap();
    drop(driver);
    let driver = self::driver(dir.path());
    driver.interrupted(true).unwrap();
    assert_eq!(driver.memory(server).unwrap(), thought);
    driver.interrupted(false).unwrap();
    let lost = driver.guest(server).unwrap().unwrap();
    assert_eq!((lost.power_state, lost.stopped_by), (PowerState::Shutdown, None));
    assert!(driver.resume(server, 1, None).is_err(), "its memory is lost");
    assert!(!driver.stop(server, StopCause::Operation(Uuid::from_u128(9)), true).unwrap(), "it did not run");
}

#[test]
fn connected_volumes_are_written_and_missing_ones_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (driver, server) = (driver(&dir.path().join("guests")), Uuid::from_u128(1));
    let path = dir.path().join("volume");
    let volume = GuestVolume {
        volume_id: Uuid::from_u128(2),
        attachment_id: Uuid::from_u128(3),
        device_name: "/dev/vdb".into(),
        boot_index: None,
        connection_info: serde_json::json!({"driver_volume_type": "local", "data": {"path": path}}),
    };
    build(&driver, server);
    assert!(driver.connect_volume(server, &volume).is_err());
    fs::write(&path, b"").unwrap();
    driver.connect_volume(server, &volume).unwrap();
    driver.connect_volume(server, &volume).unwrap();
    driver.start(server, 1).unwrap();
    driver.disconnect_volume(server, volume.volume_id).unwrap();
    driver.disconnect_volume(server, volume.volume_id).unwrap();
    driver.tick();
    assert_eq!(fs::read_to_string(&path).unwrap(), disks::record_line(server, 1, "boot"));
}

#[test]
fn a_definition_keeps_nothing_of_the_first_boot() {
    let dir = tempfile::tempdir().unwrap();
    let server = Uuid::from_u128(1);
    build(&driver(dir.path()), server);
    let file = dir.path().join(server.to_string()).join(DEFINITION);
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(record["spec"]["config_drive"], serde_json::Value::Null);
    // Earlier releases kept the password.
    record["spec"]["config_drive"] = serde_json::json!({"admin_pass": "pa55"});
    fs::write(&file, record.to_string()).unwrap();
    let opened = driver(dir.path());
    assert!(!fs::read_to_string(&file).unwrap().contains("pa55"));
    assert!(opened.guest(server).unwrap().unwrap().defined);
}

#[test]
fn a_definition_over_many_lines_is_read_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let server = Uuid::from_u128(1);
    build(&driver(dir.path()), server);
    let file = dir.path().join(server.to_string()).join(DEFINITION);
    let record: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    // Earlier releases wrote it so.
    fs::write(&file, serde_json::to_string_pretty(&record).unwrap()).unwrap();
    let opened = driver(dir.path());
    opened.start(server, 7).unwrap();
    drop(opened);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1);
    assert_eq!(driver(dir.path()).runs_for(server), Some(7));
}

/// Returns the names of disks whose files differ from their recorded contents.
fn wrong(driver: &Simulated, server: Uuid) -> Vec<String> {
    let contents = driver.contents(server).unwrap().into_iter().filter(|content| content.written.is_some());
    let differs = |content: &Content| {
        let written = content.written.clone().unwrap();
        let mut read = Writing::at(written.from);
        let fits = content.length.is_some_and(|length| length == written.end || (content.at_least && length > written.end));
        !fits || read.follow(&content.path, written.end).is_err() || read.written() != written
    };
    contents.filter(differs).map(|content| content.name).collect()
}

#[test]
fn bytes_that_a_guest_wrote_are_counted_at_all_times() {
    let dir = tempfile::tempdir().unwrap();
    let (driver, server) = (driver(dir.path()), Uuid::from_u128(1));
    build(&driver, server);
    let count = driver.contents(server).unwrap().iter().filter(|content| content.written.is_some()).count();
    assert_eq!((count, wrong(&driver, server)), (3, vec![]), "as it was built");
    driver.start(server, 1).unwrap();
    driver.tick();
    driver.guest_write(server, b"precious").unwrap();
    assert_eq!(wrong(&driver, server), Vec::<String>::new(), "while it runs");
    driver.stop(server, StopCause::Operation(Uuid::nil()), true).unwrap();
    let disks = driver.disks(server).unwrap();
    assert_eq!(wrong(&driver, server), Vec::<String>::new(), "when it is off");
    assert!(driver.contents(server).unwrap().iter().all(|content| content.written.is_none() || !content.at_least));
    for disk in &disks {
        let before = fs::read(&disk.path).unwrap();
        let mut changed = before.clone();
        changed[4] ^= 1;
        for (damage, bytes) in
            [("a bit", &changed[..]), ("the end", &before[..before.len() - 1]), ("one more", &[&before[..], b"x"].concat()[..])]
        {
            fs::write(&disk.path, bytes).unwrap();
            assert_eq!(wrong(&driver, server), std::slice::from_ref(&disk.name), "{damage}");
        }
        fs::write(&disk.path, &before).unwrap();
    }
    driver.undefine(server).unwrap();
    driver.define(&spec(server, DiskSource::Kept), &BTreeMap::new()).unwrap();
    assert_eq!(wrong(&driver, server), Vec::<String>::new(), "defined on its kept disks");
}

#[test]
fn a_killed_process_leaves_no_false_record_of_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let server = Uuid::from_u128(1);
    let killed = driver(dir.path());
    build(&killed, server);
    killed.start(server, 1).unwrap();
    killed.tick();
    // The bytes since the guest's start are not recorded.
    drop(killed);
    let looked_at = driver(dir.path());
    assert_eq!(wrong(&looked_at, server), Vec::<String>::new(), "the disks are longer than the record, as may be");
    let root = looked_at.disks(server).unwrap().remove(0).path;
    let sound = fs::read(&root).unwrap();
    fs::write(&root, [b"xxxx", &sound[4..]].concat()).unwrap();
    assert_eq!(wrong(&looked_at, server), [ROOT], "what was there before it started is known");
    fs::write(&root, &sound).unwrap();

    let successor = driver(dir.path());
    successor.interrupted(true).unwrap();
    assert!(successor.contents(server).unwrap().iter().all(|content| content.written.is_none() || !content.at_least));
    assert_eq!(wrong(&successor, server), Vec::<String>::new(), "its successor has read the rest");
    fs::write(&root, [b"xxxx", &sound[4..]].concat()).unwrap();
    successor.start(server, 2).unwrap();
    successor.tick();
    successor.stop(server, StopCause::Operation(Uuid::nil()), true).unwrap();
    assert_eq!(wrong(&successor, server), [ROOT], "what was changed meanwhile stays known, whatever is written behind it");
}

#[test]
fn a_volume_of_two_guests_is_known_as_far_as_one_wrote_it() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (driver(&dir.path().join("one")), driver(&dir.path().join("two")));
    let (first, second) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let path = dir.path().join("volume");
    fs::write(&path, b"made").unwrap();
    let volume = GuestVolume {
        volume_id: Uuid::from_u128(3),
        attachment_id: Uuid::from_u128(4),
        device_name: "/dev/vdb".into(),
        boot_index: None,
        connection_info: serde_json::json!({"driver_volume_type": "local", "data": {"path": path}}),
    };
    for (driver, server) in [(&one, first), (&two, second)] {
        build(driver, server);
        driver.connect_volume(server, &volume).unwrap();
        driver.start(server, 1).unwrap();
        assert_eq!(wrong(driver, server), Vec::<String>::new());
    }
    one.tick();
    two.tick();
    one.stop(first, StopCause::Operation(Uuid::nil()), true).unwrap();
    assert_eq!((wrong(&one, first), wrong(&two, second)), (vec![], vec![]), "neither is taken for a fault of the other");
    fs::write(&path, b"mad").unwrap();
    assert_eq!(wrong(&one, first), [volume.volume_id.to_string()]);
}
