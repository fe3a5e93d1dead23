//! Tests of the key that seals stored credentials, among several processes.

use std::sync::Arc;

use cellshift_embedded::identity::{EmbeddedIdentity, NewCredential, Settings};
use cellshift_embedded::testkit::services_database;
use cellshift_env::SystemClock;
use futures::future::join_all;

#[tokio::test]
async fn processes_that_make_the_first_credential_at_once_share_a_key() {
    let (env, db) = services_database(Arc::new(SystemClock));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    let open = || EmbeddedIdentity::open(db.clone(), env.clone(), &file, Settings::cheap());
    let processes: Vec<EmbeddedIdentity> = join_all((0..4).map(|_| open())).await.into_iter().map(Result::unwrap).collect();
    let user = processes[0].ensure_user("demo", "secret", None).await.unwrap();
    let new = || NewCredential { user_id: user.id.clone(), project_id: None, kind: "totp".into(), blob: "seed".into() };
    let made = join_all(processes.iter().map(|process| process.create_credential(None, new()))).await;
    let latest = open().await.unwrap();
    for credential in made {
        let id = credential.unwrap().id;
        for process in processes.iter().chain([&latest]) {
            assert_eq!(process.credential(&id).await.unwrap().blob.as_deref(), Some("seed"));
        }
    }
}
