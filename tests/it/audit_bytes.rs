//! The audit of bytes: `cellshift audit` reports damage to a file of an image, a volume or a guest if its length changes, and `cellshift
//! audit --deep` reports it in any case.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{NewServer, PATIENCE, User, id_of};
use crate::service::{self, Service};

/// A kind of damage to a file.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Damage {
    FourBytes,
    Empty,
    Shorter,
    Gone,
}

use Damage::{Empty, FourBytes, Gone, Shorter};

const EACH: [Damage; 4] = [FourBytes, Empty, Shorter, Gone];

impl Damage {
    /// Damages the file, and returns the repair. For a sparse volume only the first bytes are kept.
    fn to(self, path: &Path) -> Box<dyn FnOnce()> {
        let owned = path.to_owned();
        if self == Gone {
            let aside = path.with_extension("aside");
            fs::rename(path, &aside).expect("its owner");
            return Box::new(move || fs::rename(aside, owned).expect("its owner"));
        }
        let length = fs::metadata(path).expect("a file").len();
        let kept = aside(path);
        match self {
            FourBytes => overwrite(path, 16, b"\x01\x02\x03\x04"),
            Empty => resize(path, 0),
            Shorter | Gone => resize(path, length - 1),
        }
        Box::new(move || {
            resize(&owned, length);
            overwrite(&owned, 0, &kept.0);
            overwrite(&owned, length - kept.1.len() as u64, &kept.1);
        })
    }

    fn shows_in_the_length(self) -> bool {
        self != FourBytes
    }
}

/// Returns a file's first and last bytes, which may overlap.
fn aside(path: &Path) -> (Vec<u8>, Vec<u8>) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::open(path).expect("a file");
    let length = file.metadata().expect("a file").len();
    let part = usize::try_from(length.min(32 << 20)).expect("a size");
    let (mut first, mut last) = (vec![0; part], vec![0; part]);
    file.read_exact_at(&mut first, 0).expect("a read");
    file.read_exact_at(&mut last, length - part as u64).expect("a read");
    (first, last)
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    fs::OpenOptions::new().write(true).open(path).expect("its owner").write_all_at(bytes, at).expect("a write");
}

fn resize(path: &Path, length: u64) {
    fs::OpenOptions::new().write(true).open(path).expect("its owner").set_len(length).expect("its owner");
}

/// Returns the directory of a server's guest on any host.
fn guest_dir(data: &Path, server: Uuid) -> PathBuf {
    let hosts =
        ["cell1", "cell2"].into_iter().flat_map(|cell| [1, 2].map(|host| format!("cells/{cell}/hosts/{cell}-host{host}/guests/{server}")));
    hosts.map(|dir| data.join(dir)).find(|dir| dir.is_dir()).expect("a guest")
}

struct AuditedService {
    /// With a volume from the image.
    off: Uuid,
    running: Uuid,
    /// In VERIFY_RESIZE.
    moved: Uuid,
    image: Uuid,
    volume: Uuid,
}

async fn make(member: &User, admin: &User, new: NewServer) -> Uuid {
    let server = id_of(&new.ask(member).await.expect(202).body["server"]);
    admin.notification("instance.create.end", Some(server)).await;
    server
}

async fn fill(service: &Service, data: &Path) -> AuditedService {
    let (member, admin) = (service.user(data, "cellshift").await, service.user(data, "cellshift-admin").await);
    let images = member.get("/image/v2/images?name=tiny").await.expect(200);
    let image = id_of(&images.body["images"][0]);
    let [off, running, moved] = [
        make(&member, &admin, NewServer::of_image(image)).await,
        make(&member, &admin, NewServer::of_image(image)).await,
        make(&member, &admin, NewServer::of_image(image)).await,
    ];
    let made = member.post("/volume/v3/volumes", json!({"volume": {"size": 1, "imageRef": image}})).await.expect(202);
    let volume = id_of(&made.body["volume"]);
    let path = format!("/volume/v3/volumes/{volume}");
    let available = async { while member.get(&path).await.expect(200).body["volume"]["status"] != "available" {} };
    tokio::time::timeout(PATIENCE, available).await.expect("the volume is made");
    member.attach(off, volume).await.expect(200);
    admin.settled(off).await;
    member.act(off, json!({"os-stop": null})).await.expect(202);
    admin.notification("instance.power_off.end", Some(off)).await;
    member.resize(moved, "gen2.small").await.expect(202);
    admin.notification("instance.resize_finish.end", Some(moved)).await;
    for server in [off, running, moved] {
        admin.settled(server).await;
    }
    AuditedService { off, running, moved, image, volume }
}

/// The expected words for each damage to a file: the subject, and a word of the sentence.
struct Case {
    path: PathBuf,
    subject: String,
    word: &'static str,
}

fn cases(data: &Path, world: &AuditedService) -> Vec<Case> {
    let off = guest_dir(data, world.off);
    vec![
        Case { path: off.join("disk"), subject: format!("server one ({})", world.off), word: "disk on " },
        Case { path: data.join("images").join(world.image.to_string()), subject: format!("image {}", world.image), word: "its file" },
        Case { path: data.join("volumes").join(world.volume.to_string()), subject: format!("volume {}", world.volume), word: "volume" },
    ]
}

fn audited(data: &Path, deep: bool) -> (Option<i32>, String) {
    let mut arguments = vec!["audit", "--data-dir", data.to_str().expect("a path")];
    arguments.extend(deep.then_some("--deep"));
    let ended = service::run(&arguments);
    (ended.code, ended.stdout + &ended.stderr)
}

/// Checks that both audits are clean.
fn assert_sound(data: &Path, when: &str) {
    for deep in [false, true] {
        let (code, text) = audited(data, deep);
        assert_eq!(code, Some(0), "{when}: {text}");
    }
}

fn assert_reported(data: &Path, case: &Case, damage: Damage) {
    let undo = damage.to(&case.path);
    for deep in [false, true] {
        let (code, text) = audited(data, deep);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("I16") && line.contains(&case.subject)).collect();
        let expected = deep || damage.shows_in_the_length();
        assert_eq!(code, Some(if expected { 3 } else { 0 }), "{damage:?} of {}, deep {deep}: {text}", case.path.display());
        assert_eq!(lines.iter().any(|line| line.contains(case.word)), expected, "{damage:?}, deep {deep}: {text}");
    }
    undo();
}

#[test]
fn the_audit_names_each_damaged_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path();
    fs::write(data.join("policy.yaml"), "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n").expect("a policy");
    let service = Service::start(data, &[]);
    let world = actix_rt::System::new().block_on(fill(&service, data));
    assert_sound(data, "while it runs");
    for case in cases(data, &world) {
        assert_reported(data, &case, FourBytes);
        assert_reported(data, &case, Shorter);
    }
    // The host of a running guest knows which bytes it wrote.
    let running =
        Case { path: guest_dir(data, world.running).join("disk"), subject: format!("server one ({})", world.running), word: "disk on " };
    let undo = FourBytes.to_in_place(&running.path);
    let (code, text) = audited(data, true);
    assert!(code == Some(3) && text.contains(&running.subject), "{text}");
    undo();
    service.stop();

    assert_sound(data, "after it has stopped");
    for case in cases(data, &world) {
        for damage in EACH {
            assert_reported(data, &case, damage);
        }
    }
    // A revert would need these bytes.
    let kept = Case { path: guest_dir(data, world.moved).join("disk"), subject: format!("server one ({})", world.moved), word: "disk on " };
    assert_reported(data, &kept, FourBytes);
    let whole = Case { path: guest_dir(data, world.off), subject: format!("server one ({})", world.off), word: "has no guest" };
    assert_reported(data, &whole, Gone);
    assert_sound(data, "after all was put back");

    // A start neither hides missing files nor forgets checksums.
    let image = data.join("images").join(world.image.to_string());
    let undo = Gone.to(&image);
    let service = Service::start(data, &[]);
    let (code, text) = audited(data, false);
    assert!(code == Some(3) && text.contains(&format!("image {}: its file is missing", world.image)), "{text}");
    undo();
    service.signal("-KILL");
    service.death();
    assert_sound(data, "after it was killed");
    let service = Service::start(data, &[]);
    assert_sound(data, "after it was started again");
    actix_rt::System::new().block_on(over_http(&service, data));
    service.stop();
}

impl Damage {
    /// Overwrites four bytes of a disk to which its guest still writes.
    fn to_in_place(self, path: &Path) -> impl FnOnce() {
        let (owned, (first, _)) = (path.to_owned(), aside(path));
        overwrite(path, 16, b"\x01\x02\x03\x04");
        move || overwrite(&owned, 16, &first[16..20])
    }
}

/// Checks that the report follows line breaks, or is the last event.
async fn over_http(service: &Service, data: &Path) {
    let admin = service.user(data, "cellshift-admin").await;
    let report = admin.get("/ops/v1/audit?deep=true").await.expect(200).body;
    assert_eq!((&report["clean"], &report["checked"]["deep"]), (&json!(true), &json!(true)), "{report}");
    let counts: &Value = &report["checked"]["counts"];
    assert!(counts["files_read"].as_u64() > Some(4) && counts["bytes_read"].as_u64() > Some(0), "{counts}");
    let shallow = admin.get("/ops/v1/audit").await.expect(200).body;
    assert_eq!(shallow["checked"]["deep"], json!(false));
    service.user(data, "cellshift").await.get("/ops/v1/audit?deep=true").await.expect(403);
    admin.get("/ops/v1/audit?deep=perhaps").await.expect(400);
}
