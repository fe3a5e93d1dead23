//! The keys change while a create is in flight whose secrets are sealed with them. A rotated key still opens them. Without a forgotten key
//! the create is undone, and leaves nothing.

use std::path::Path;

use cellshift::config::Config;
use serde_json::{Value, json};

use super::{FILE, PASSWORD, USER_DATA, personality, verify};
use crate::client::{NewServer, id_of};
use crate::databases;
use crate::service::{self, Service};

/// The service dies in a create, the keys are rotated with these options, and its successor goes on. Returns the server at rest.
async fn created_over(data: &Path, file: &str, rotations: &[&[&str]]) -> Value {
    let service = Service::start(data, &["--config", file]);
    let (member, admin) = (service.user(data, "cellshift").await, service.user(data, "cellshift-admin").await);
    let image = id_of(&member.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
    let fault = json!({"when": {"saga": "create", "step": "prepare_guest", "moment": "before_effect"}, "what": "restart"});
    let experiment = json!({"experiment": {"title": "keys change in a create", "faults": [fault]}});
    admin.post("/ops/v1/chaos/experiment", experiment).await.expect(202);
    let new = NewServer::of_image(image).with("adminPass", json!(PASSWORD.value())).with("user_data", json!(USER_DATA.base64()));
    // The service may die before it answers.
    let _ = member.speaking("2.56").try_post("/servers", new.with("personality", personality(FILE)).body()).await;
    assert!(!service.death().success(), "it was killed");
    for options in rotations {
        let rotated = service::run(&[&["token", "rotate", "--config", file][..], options].concat());
        assert_eq!(rotated.code, Some(0), "{}", rotated.stderr);
    }
    let service = Service::start(data, &["--config", file]);
    let (member, admin) = (service.user(data, "cellshift").await, service.user(data, "cellshift-admin").await);
    let server = id_of(&member.get("/servers").await.expect(200).body["servers"][0]);
    admin.settled(server).await;
    let shown = admin.show(server).await;
    let audit = admin.get("/ops/v1/audit").await.expect(200).body;
    assert_eq!(audit["violations"], json!([]), "{audit:#}");
    service.stop();
    shown
}

pub fn play(story: impl AsyncFnOnce(&Path, &str)) {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path();
    let mut config = Config { data_dir: data.to_owned(), ..Config::default() };
    config.chaos.enabled = true;
    databases::place(&mut config);
    let file = data.join("cellshift.toml").to_string_lossy().into_owned();
    std::fs::write(&file, config.to_toml().expect("TOML")).expect("the configuration");
    actix_rt::System::new().block_on(story(data, &file));
    databases::remove(&config);
}

#[test]
fn a_create_goes_on_with_keys_that_were_rotated_meanwhile() {
    play(async |data, file| {
        let shown = created_over(data, file, &[&[], &[]]).await;
        assert_eq!(shown["status"], "ACTIVE", "{shown:#}");
        let (host, server) = (shown["OS-EXT-SRV-ATTR:host"].as_str().expect("a host"), shown["id"].as_str().expect("an id"));
        let cell = host.split('-').next().expect("a cell");
        let disk = data.join("cells").join(cell).join("hosts").join(host).join("guests").join(server).join("disk");
        verify(&std::fs::read(disk).expect("a disk"), PASSWORD.value(), Some(USER_DATA), Some(FILE));
    });
}

#[test]
fn a_create_goes_back_when_its_keys_were_forgotten() {
    play(async |data, file| {
        let shown = created_over(data, file, &[&["--forget-old"]]).await;
        assert_eq!(shown["status"], "ERROR", "{shown:#}");
        assert!(shown["OS-EXT-SRV-ATTR:host"].is_null(), "{shown:#}");
    });
}
