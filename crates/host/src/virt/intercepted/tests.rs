//! Tests of the driver with an interceptor: what reaches the driver below, and what the caller hears.

use cellshift_domain::flavor::Flavor;
use cellshift_domain::guest::DiskSource;
use parking_lot::Mutex;

use super::*;
use crate::virt::files::Durability;
use crate::virt::simulated::Simulated;

const SERVER: Uuid = Uuid::from_u128(1);

/// The moment at which an operation fails.
#[derive(Clone, Copy, PartialEq)]
enum Moment {
    Before,
    After,
}

/// Notes each call, and fails the operations that a test names.
#[derive(Default)]
struct Notebook {
    calls: Mutex<Vec<(String, Option<Uuid>, Effect)>>,
    failure: Mutex<Option<(Operation, Moment)>>,
}

impl Interceptor for Notebook {
    fn around<T>(&self, call: &Call<'_>, work: impl FnOnce() -> Result<T, VirtError>) -> Result<T, VirtError> {
        self.calls.lock().push((call.host.to_owned(), call.server, call.effect));
        let failure = *self.failure.lock();
        let fails_at = |moment| failure.is_some_and(|(operation, at)| call.effect == Effect::Operation(operation) && at == moment);
        if fails_at(Moment::Before) {
            return Err(VirtError::Refused("before the effect".into()));
        }
        let outcome = work()?;
        match fails_at(Moment::After) {
            true => Err(VirtError::Refused("after the effect".into())),
            false => Ok(outcome),
        }
    }
}

struct Fixture {
    simulated: Arc<Simulated>,
    notebook: Arc<Notebook>,
    driver: Intercepted<Notebook>,
    _dir: tempfile::TempDir,
}

/// A host with a guest that is off.
fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let simulated = Arc::new(Simulated::open(dir.path(), Durability::Relaxed).unwrap());
    let notebook = Arc::new(Notebook::default());
    let driver = Intercepted::new("host1", simulated.clone(), notebook.clone());
    std::fs::write(driver.clear_incoming(SERVER).unwrap().join("disk"), b"bytes").unwrap();
    let spec = GuestSpec {
        server: SERVER,
        instance_name: "instance-00000001".into(),
        flavor: Flavor::default(),
        disks: DiskSource::Image { image_id: SERVER },
        volumes: Vec::new(),
        vifs: Vec::new(),
        config_drive: serde_json::Value::Null,
        sealed: None,
    };
    driver.define(&spec, &BTreeMap::new()).unwrap();
    Fixture { simulated, notebook, driver, _dir: dir }
}

#[test]
fn an_interceptor_sees_host_server_and_effect() {
    let fixture = fixture();
    fixture.driver.start(SERVER, 1).unwrap();
    fixture.driver.guest(SERVER).unwrap();
    fixture.driver.interrupted(true).unwrap();
    let calls = [
        (Some(SERVER), Effect::Change),
        (Some(SERVER), Effect::Operation(Operation::Define)),
        (Some(SERVER), Effect::Operation(Operation::Start)),
        (Some(SERVER), Effect::None),
        (None, Effect::Interruption),
    ];
    assert_eq!(*fixture.notebook.calls.lock(), calls.map(|(server, effect)| ("host1".to_owned(), server, effect)));
}

#[test]
fn a_call_that_fails_before_its_effect_changes_nothing() {
    let fixture = fixture();
    *fixture.notebook.failure.lock() = Some((Operation::Start, Moment::Before));
    assert!(fixture.driver.start(SERVER, 1).is_err());
    assert_eq!(fixture.simulated.runs_for(SERVER), None);
    *fixture.notebook.failure.lock() = None;
    fixture.driver.start(SERVER, 2).unwrap();
    assert_eq!(fixture.simulated.runs_for(SERVER), Some(2));
}

#[test]
fn a_call_that_fails_after_its_effect_leaves_it() {
    let fixture = fixture();
    *fixture.notebook.failure.lock() = Some((Operation::Start, Moment::After));
    assert!(fixture.driver.start(SERVER, 1).is_err());
    assert_eq!(fixture.simulated.runs_for(SERVER), Some(1));
}
