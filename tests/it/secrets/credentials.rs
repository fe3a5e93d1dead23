//! Stored credentials are sealed, and outlive the token keys that sealed them, unless these are forgotten while no service runs.

use std::path::Path;

use cellshift::config::Config;
use serde_json::{Value, json};

use super::keys::play;
use super::search::{Mark, Search};
use crate::client::{PATIENCE, User};
use crate::service::{self, Service};

const CREDENTIALS: &str = "/identity/v3/credentials";
const SEED: Mark = Mark::Password("seed of marks");

fn rotate(file: &str, options: &[&str]) {
    let rotated = service::run(&[&["token", "rotate", "--config", file][..], options].concat());
    assert_eq!(rotated.code, Some(0), "{}", rotated.stderr);
}

async fn blob(user: &User, id: &str) -> Value {
    user.get(&format!("{CREDENTIALS}/{id}")).await.expect(200).body["credential"]["blob"].clone()
}

async fn make(user: &User) -> String {
    let new = json!({"credential": {"user_id": user.user_id, "type": "totp", "blob": SEED.value()}});
    user.post(CREDENTIALS, new).await.expect(201).body["credential"]["id"].as_str().expect("an id").to_owned()
}

/// Waits until the service has ended a token whose key is forgotten. It seals the credentials' key anew meanwhile.
async fn notices(service: &Service, data: &Path, before: &User) {
    let ended = async { while before.get("/servers").await.status != 401 {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the token ends");
    service.user(data, "cellshift").await.get("/servers").await.expect(200);
}

#[test]
fn credentials_outlive_token_keys_that_a_service_saw_go() {
    play(async |data, file| {
        let service = Service::start(data, &["--config", file]);
        let member = service.user(data, "cellshift").await;
        let id = make(&member).await;
        let config = Config { data_dir: data.to_owned(), ..toml::from_str(&std::fs::read_to_string(file).expect("a file")).expect("TOML") };
        assert_eq!(Search::new(&config, &[SEED]).leaks(|_, _| false), [], "the seed is nowhere in the clear");
        rotate(file, &[]);
        rotate(file, &["--forget-old"]);
        notices(&service, data, &member).await;
        assert_eq!(blob(&service.user(data, "cellshift").await, &id).await, SEED.value());
        service.stop();
        rotate(file, &[]);
        let service = Service::start(data, &["--config", file]);
        assert_eq!(blob(&service.user(data, "cellshift").await, &id).await, SEED.value());
        service.stop();
    });
}

#[test]
fn credentials_of_forgotten_keys_can_be_deleted_and_made_anew() {
    play(async |data, file| {
        let service = Service::start(data, &["--config", file]);
        let id = make(&service.user(data, "cellshift").await).await;
        service.stop();
        rotate(file, &["--forget-old"]);
        let service = Service::start(data, &["--config", file]);
        let member = service.user(data, "cellshift").await;
        assert_eq!(blob(&member, &id).await, Value::Null);
        let new = json!({"credential": {"user_id": member.user_id, "type": "totp", "blob": "another"}});
        member.post(CREDENTIALS, new).await.expect(503);
        member.delete(&format!("{CREDENTIALS}/{id}")).await.expect(204);
        let id = make(&member).await;
        assert_eq!(blob(&member, &id).await, SEED.value());
        service.stop();
    });
}
