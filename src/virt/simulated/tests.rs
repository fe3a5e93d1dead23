//! Tests of the simulated driver: what its files hold after each step of a guest's life.

use super::*;
use crate::domain::flavor::Flavor;

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
    }
}

fn driver(dir: &Path) -> Simulated {
    Simulated::open(dir, Durability::Relaxed).unwrap()
}

fn build(driver: &Simulated, server: Uuid) {
    let incoming = driver.clear_incoming(server).unwrap();
    fs::write(incoming.join(ROOT), IMAGE).unwrap();
    driver.define(&spec(server, DiskSource::Image { image_id: Uuid::nil() })).unwrap();
}

fn root(driver: &Simulated, server: Uuid) -> String {
    String::from_utf8(fs::read(&driver.disks(server).unwrap()[0].path).unwrap()).unwrap()
}

#[test]
fn a_guest_writes_numbered_records_while_it_runs_and_goes_on_counting() {
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
fn a_released_guest_keeps_its_disks_and_is_defined_on_them_again() {
    let dir = tempfile::tempdir().unwrap();
    let (driver, server) = (driver(dir.path()), Uuid::from_u128(1));
    build(&driver, server);
    driver.start(server, 1).unwrap();
    assert!(driver.undefine(server).is_err(), "a running guest is not released");
    driver.stop(server, StopCause::Operation(Uuid::nil()), false).unwrap();
    let before = root(&driver, server);
    driver.undefine(server).unwrap();
    assert!(matches!(driver.start(server, 1), Err(VirtError::NoGuest(_))));
    driver.define(&spec(server, DiskSource::Kept)).unwrap();
    assert_eq!(root(&driver, server), before, "nothing is injected a second time");
    driver.remove(server).unwrap();
    driver.remove(server).unwrap();
    assert!(files::names_in(dir.path()).unwrap().is_empty());
    assert!(driver.define(&spec(server, DiskSource::Kept)).is_err(), "there are no disks any more");
    assert!(files::names_in(dir.path()).unwrap().is_empty());
}

#[test]
fn whether_a_guest_ran_is_remembered_for_the_operation_that_stopped_it_and_through_a_restart() {
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
fn a_volume_is_written_while_connected_and_one_that_cannot_be_reached_is_refused() {
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
