//! Passwords, user data and injected files reach the guest, and no database and no file keeps them in the clear, however an operation ends.
//! The exceptions are the user data in the record of a living server, and the files on its guest's disk.

mod credentials;
mod keys;
mod killed;
mod search;

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use cellshift::chaos::point::{Moment, StepFault};
use cellshift::config::Config;
use cellshift::domain::saga_record::SagaFilter;
use cellshift::virt::hypervisor::Operation;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha_crypt::{PasswordVerifier, ShaCrypt};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use uuid::Uuid;

use self::search::{Leak, Mark, Search};
use crate::client::id_of;
use crate::stage::{Stage, play, play_default};

const PASSWORD: Mark = Mark::Password("first \"pass\\word\" of marks");
const USER_DATA: Mark = Mark::UserData("#cloud-config \"first\" user data of marks");
const FILE: Mark = Mark::File("first file's contents of marks");
const NEXT_PASSWORD: Mark = Mark::Password("second password of marks");
const NEXT_USER_DATA: Mark = Mark::UserData("second user data of marks");
const NEXT_FILE: Mark = Mark::File("second file's contents of marks");
const ALL: [Mark; 6] = [PASSWORD, USER_DATA, FILE, NEXT_PASSWORD, NEXT_USER_DATA, NEXT_FILE];

fn personality(file: Mark) -> Value {
    json!([{"path": "/etc/secret", "contents": file.base64()}])
}

/// The allowed places while the server lives: user data in its record, whose file and log are the cell's database; files on its disk.
fn while_it_lives(place: &str, mark: Mark) -> bool {
    match mark {
        Mark::Password(_) => false,
        Mark::UserData(_) => place.ends_with(".instances.user_data") || (place.starts_with("cell") && place.contains(".db")),
        Mark::File(_) => place.contains("/guests/") && place.ends_with("/disk"),
    }
}

/// In a move to another cell a disk is an image, and within its cell a transfer.
fn while_it_moves(place: &str, mark: Mark) -> bool {
    let moves = place.starts_with("images") || place.contains("/transfer/") || place.contains("/guests/");
    while_it_lives(place, mark) || (matches!(mark, Mark::File(_)) && moves)
}

fn nowhere(_: &str, _: Mark) -> bool {
    false
}

/// Returns the configuration that the guest read at the disk's last first boot.
fn first_boot(disk: &[u8]) -> Value {
    let text = String::from_utf8_lossy(disk);
    let line = text.lines().rev().find_map(|line| line.strip_prefix("config-drive ")).expect("a first boot");
    serde_json::from_str(line).expect("JSON")
}

/// Checks that the guest has the password and the other values of its request.
fn verify(disk: &[u8], password: &str, user_data: Option<Mark>, file: Option<Mark>) {
    let config = first_boot(disk);
    let hash = config["admin_pass_hash"].as_str().expect("a hash");
    ShaCrypt::default().verify_password(password.as_bytes(), hash).expect("the guest verifies its password");
    ShaCrypt::default().verify_password(b"another", hash).expect_err("no other password");
    let digest = |mark: Mark| Sha256::digest(mark.base64()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(config["user_data_sha256"], json!(user_data.map(digest)));
    assert_eq!(config["files"], file.map_or_else(|| json!([]), personality));
}

/// Returns the bytes that were written to a volume last.
fn end_of(path: &str) -> Vec<u8> {
    let mut file = std::fs::File::open(path).expect("a volume");
    let size = file.metadata().expect("its size").len();
    file.seek(SeekFrom::Start(size.saturating_sub(1 << 16))).expect("its end");
    let mut end = Vec::new();
    file.read_to_end(&mut end).expect("its bytes");
    end
}

/// Searches after each effect of each operation until it is stopped, when the journal has the lines before the effect.
struct Watch {
    leaks: Arc<Mutex<Vec<(String, Leak)>>>,
    looks: Arc<Mutex<usize>>,
}

impl Watch {
    fn begin(stage: &Stage, search: &Search) -> Watch {
        Watch::at(stage, search, &[])
    }

    /// Only after these steps; after all if none is named. A search takes time, and each operation must end in time.
    fn at(stage: &Stage, search: &Search, steps: &'static [&'static str]) -> Watch {
        let watch = Watch { leaks: Arc::default(), looks: Arc::default() };
        let (leaks, looks, search) = (watch.leaks.clone(), watch.looks.clone(), search.clone());
        stage.arm(move |point| {
            if point.moment != Moment::AfterEffect || !(steps.is_empty() || steps.contains(&point.step)) {
                return StepFault::None;
            }
            let here = format!("{} {} {} {:?}", point.saga, point.step, point.side, point.moment);
            *looks.lock() += 1;
            leaks.lock().extend(search.leaks(while_it_moves).into_iter().map(|place| (here.clone(), place)));
            StepFault::None
        });
        watch
    }

    /// Checks that no search found a value at many points.
    fn end(self, stage: &Stage) {
        stage.disarm();
        assert!(*self.looks.lock() > 1, "it looked while something went on");
        let leaks = self.leaks.lock();
        assert!(leaks.is_empty(), "in flight: {leaks:#?}");
    }
}

async fn disk_of(stage: &Stage, server: Uuid) -> Vec<u8> {
    let host = stage.admin.show(server).await["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
    stage.disks(&host, server).await.remove("disk").expect("a root disk")
}

/// Deletes the server; then neither a file nor the free pages of a database contain its values.
async fn deleted(stage: &Stage, server: Uuid, search: &Search) {
    stage.member.delete(&format!("/servers/{server}")).await.expect(204);
    stage.gone(server).await;
    left_nowhere(stage, search).await;
}

/// A log that is being read is emptied a moment later.
async fn left_nowhere(stage: &Stage, search: &Search) {
    let last = Mutex::new(Vec::new());
    let look = || async {
        *last.lock() = search.leaks(nowhere);
        last.lock().is_empty()
    };
    let emptied = tokio::time::timeout(Duration::from_secs(20), stage.until("nothing is left", look)).await;
    assert!(emptied.is_ok(), "left: {:#?}", last.lock());
}

fn at_rest(search: &Search) {
    let leaks = search.leaks(while_it_lives);
    assert!(leaks.is_empty(), "{leaks:#?}");
}

#[test]
fn a_search_finds_values_in_each_form() {
    play_default(|stage| async move {
        let config = &stage.running.cloud.config;
        let search = Search::new(config, &[PASSWORD]);
        let encoded: Vec<String> = [0, 1, 2].map(|before| base64_of(&format!("{}{}x", "y".repeat(before), PASSWORD.value()))).to_vec();
        let forms = [PASSWORD.value().to_owned(), json!([PASSWORD.value()]).to_string(), PASSWORD.base64()].into_iter().chain(encoded);
        for form in forms {
            stage.make_key_pair(&form).await;
            let leaks = search.leaks(nowhere);
            assert!(leaks.iter().any(|leak| leak.place == "api.key_pairs.name"), "{form}: {leaks:?}");
            let api = &stage.world().api;
            api.delete_key_pair(&stage.member.user_id, &form).await.expect("the key pair goes");
        }
        let file = config.data_dir.join("marked");
        std::fs::write(&file, PASSWORD.value().bytes().map(|byte| format!("{byte:02X}")).collect::<String>()).expect("a file");
        assert!(search.leaks(nowhere).iter().any(|leak| leak.place == "marked"));
        std::fs::remove_file(file).expect("the file goes");
    });
}

fn base64_of(text: &str) -> String {
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text)
}

#[test]
fn secrets_reach_the_guest_and_are_kept_nowhere_else() {
    play_default(|stage| async move {
        let search = Search::new(&stage.running.cloud.config, &ALL);
        let watch = Watch::begin(&stage, &search);
        let new = stage.server().with("adminPass", json!(PASSWORD.value())).with("user_data", json!(USER_DATA.base64()));
        let made = new.with("personality", personality(FILE)).ask(&stage.member.speaking("2.56")).await.expect(202);
        assert_eq!(made.body["server"]["adminPass"], PASSWORD.value());
        let server = id_of(&made.body["server"]);
        stage.at_rest(server, "ACTIVE").await;
        watch.end(&stage);
        at_rest(&search);
        verify(&disk_of(&stage, server).await, PASSWORD.value(), Some(USER_DATA), Some(FILE));
        assert_eq!(stage.admin.show(server).await["OS-EXT-SRV-ATTR:user_data"], USER_DATA.base64());

        let watch = Watch::begin(&stage, &search);
        let rebuild =
            json!({"rebuild": {"imageRef": stage.image, "adminPass": NEXT_PASSWORD.value(), "personality": personality(NEXT_FILE)}});
        let answer = stage.member.speaking("2.56").act(server, rebuild).await.expect(202);
        assert_eq!(answer.body["server"]["adminPass"], NEXT_PASSWORD.value());
        stage.at_rest(server, "ACTIVE").await;
        watch.end(&stage);
        at_rest(&search);
        verify(&disk_of(&stage, server).await, NEXT_PASSWORD.value(), Some(USER_DATA), Some(NEXT_FILE));

        let watch = Watch::at(&stage, &search, &["accept", "build_guest", "finish_rebuild"]);
        let rebuild = json!({"rebuild": {"imageRef": stage.image, "user_data": NEXT_USER_DATA.base64()}});
        let answer = stage.member.act(server, rebuild).await.expect(202);
        let generated = answer.body["server"]["adminPass"].as_str().expect("a password").to_owned();
        stage.at_rest(server, "ACTIVE").await;
        watch.end(&stage);
        at_rest(&search);
        verify(&disk_of(&stage, server).await, &generated, Some(NEXT_USER_DATA), None);
        stage.member.act(server, json!({"reboot": {"type": "HARD"}})).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        verify(&disk_of(&stage, server).await, &generated, Some(NEXT_USER_DATA), None);

        let text = stage.admin.get(&format!("/ops/v1/migrations?server={server}")).await.expect(200).text;
        for mark in ALL {
            assert!(!text.contains(mark.value()) && !text.contains(&mark.base64()), "{text}");
        }
        deleted(&stage, server, &search).await;
    });
}

#[test]
fn a_move_leaves_user_data_in_the_servers_cell_alone() {
    play_default(|stage| async move {
        let search = Search::new(&stage.running.cloud.config, &ALL);
        let new = stage.server().with("adminPass", json!(PASSWORD.value())).with("user_data", json!(USER_DATA.base64()));
        let server = stage.create_by(&stage.member.speaking("2.56"), new.with("personality", personality(FILE))).await;
        let watch = Watch::at(&stage, &search, &["create_target_records", "upload_snapshot", "prepare_at_target", "publish"]);
        stage.cross(server).await;
        stage.confirm(server).await;
        watch.end(&stage);
        only_in(&stage, &search, "cell2").await;
        verify(&disk_of(&stage, server).await, PASSWORD.value(), Some(USER_DATA), Some(FILE));

        stage.member.resize(server, "gen1.small").await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.revert(server).await;
        only_in(&stage, &search, "cell2").await;
        deleted(&stage, server, &search).await;
    });
}

/// The user data are in this cell and in no other.
async fn only_in(stage: &Stage, search: &Search, cell: &str) {
    let here = |place: &str, mark| while_it_lives(place, mark) && (matches!(mark, Mark::File(_)) || place.starts_with(cell));
    stage.until("the other cell has nothing of it", || async { search.leaks(here).is_empty() }).await;
}

#[test]
fn a_password_reaches_a_guest_on_a_volume() {
    play_default(|stage| async move {
        let search = Search::new(&stage.running.cloud.config, &ALL);
        let new = stage.volume_server().with("adminPass", json!(PASSWORD.value())).with("user_data", json!(USER_DATA.base64()));
        let server = stage.create(new).await;
        at_rest(&search);
        let attachments = stage.world().volumes.attachments_of(server).await.expect("attachments");
        let path = attachments[0].connection_info.pointer("/data/path").and_then(Value::as_str).expect("a path").to_owned();
        verify(&end_of(&path), PASSWORD.value(), Some(USER_DATA), None);
        deleted(&stage, server, &search).await;
    });
}

#[test]
fn a_create_without_a_host_leaves_no_secrets() {
    play_default(|stage| async move {
        stage.make_flavor("huge", 1, 512, 1 << 20).await;
        let search = Search::new(&stage.running.cloud.config, &ALL);
        let watch = Watch::begin(&stage, &search);
        let new = stage.server().flavor("huge").with("adminPass", json!(PASSWORD.value())).with("user_data", json!(USER_DATA.base64()));
        let made = new.with("personality", personality(FILE)).ask(&stage.admin.speaking("2.56")).await.expect(202);
        let server = id_of(&made.body["server"]);
        let shown = stage.at_rest(server, "ERROR").await;
        watch.end(&stage);
        assert_eq!(shown["OS-EXT-SRV-ATTR:user_data"], USER_DATA.base64());
        at_rest(&search);
        stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        left_nowhere(&stage, &search).await;
    });
}

#[test]
fn a_debt_holds_no_secrets_before_and_after_it_is_paid() {
    let slow = |config: &mut Config| {
        config.compute.latency_ms.insert(Operation::Define, 1000);
    };
    play(slow, |stage| async move {
        let search = Search::new(&stage.running.cloud.config, &ALL);
        let came = Arc::new(Notify::new());
        let comes = came.clone();
        stage.arm(move |point| {
            if (point.step, point.side, point.moment) == ("prepare_guest", "act", Moment::BeforeEffect) {
                comes.notify_one();
            }
            StepFault::None
        });
        let new = stage.server().with("adminPass", json!(PASSWORD.value())).with("user_data", json!(USER_DATA.base64()));
        let made = new.on_host("cell1-host1").ask(&stage.admin).await.expect(202);
        let server = id_of(&made.body["server"]);
        came.notified().await;
        stage.disarm();
        stage.power("cell1-host1", false).await;
        stage.at_rest(server, "ERROR").await;
        assert!(!stage.debts(server).await.is_empty(), "its host cannot say that it has no guest");
        at_rest(&search);
        stage.power("cell1-host1", true).await;
        stage.paid(server).await;
        at_rest(&search);
        stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        left_nowhere(&stage, &search).await;
    });
}

#[test]
fn a_refused_operation_leaves_no_secrets() {
    play_default(|stage| async move {
        let search = Search::new(&stage.running.cloud.config, &ALL);
        stage.refuse("accept");
        let new = stage.server().with("adminPass", json!(PASSWORD.value())).with("user_data", json!(USER_DATA.base64()));
        let refused = new.with("personality", personality(FILE)).ask(&stage.member.speaking("2.56")).await;
        assert!(refused.status >= 400, "{}", refused.text);
        stage.disarm();
        let sagas = stage.world().operations.list(SagaFilter { limit: 10, ..Default::default() }).await;
        let sagas = sagas.expect("the journal");
        assert_eq!(sagas.len(), 1);
        assert!(!sagas[0].context.contains("sealed"), "{}", sagas[0].context);
        assert!(search.leaks(nowhere).is_empty());
    });
}

#[test]
fn an_error_text_does_not_repeat_a_secret() {
    play_default(|stage| async move {
        let wrong = json!({"server": {"name": "one", "flavorRef": "gen1.small", "imageRef": stage.image, "networks": "auto",
            "user_data": USER_DATA.value(), "personality": [{"path": 7, "contents": FILE.base64()}], "adminPass": [PASSWORD.value()]}});
        for field in ["user_data", "personality", "adminPass"] {
            let mut body = wrong.clone();
            let server = body["server"].as_object_mut().expect("an object");
            server.retain(|key, _| key == field || !["user_data", "personality", "adminPass"].contains(&key.as_str()));
            let refused = stage.member.speaking("2.56").post("/servers", body).await.expect(400);
            for secret in [USER_DATA.value(), &FILE.base64(), "pass\\\\word", "pass\\word"] {
                assert!(!refused.text.contains(secret), "{}", refused.text);
            }
        }
    });
}
