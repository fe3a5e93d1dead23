//! The built program is killed in the middle of a create with secrets: neither its files nor its successor's contain them.

use cellshift::config::Config;
use serde_json::json;

use super::search::Search;
use super::{ALL, FILE, PASSWORD, USER_DATA, nowhere, personality, verify, while_it_lives};
use crate::client::{NewServer, id_of};
use crate::databases;
use crate::service::Service;

#[test]
fn a_kill_in_the_middle_of_a_create_leaves_no_secrets() {
    for (step, moment) in [("accept", "after_effect"), ("prepare_guest", "after_effect"), ("create_record", "after_effect")] {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path();
        let mut config = Config { data_dir: data.to_owned(), ..Config::default() };
        config.chaos.enabled = true;
        config.log.level = "debug".to_owned();
        databases::place(&mut config);
        let file = data.join("cellshift.toml").to_string_lossy().into_owned();
        std::fs::write(&file, config.to_toml().expect("TOML")).expect("the configuration");
        // Below the data directory, so that the search includes the log.
        let log = data.join("service.log");
        let search = Search::new(&config, &ALL);
        actix_rt::System::new().block_on(async {
            let service = Service::start_logging(data, &["--config", &file], &log);
            let (member, admin) = (service.user(data, "cellshift").await, service.user(data, "cellshift-admin").await);
            let image = id_of(&member.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
            let fault = json!({"when": {"saga": "create", "step": step, "moment": moment}, "what": "restart"});
            let experiment = json!({"experiment": {"title": "killed in a create", "faults": [fault]}});
            admin.post("/ops/v1/chaos/experiment", experiment).await.expect(202);
            let new = NewServer::of_image(image).with("adminPass", json!(PASSWORD.value())).with("user_data", json!(USER_DATA.base64()));
            // The service may die before it answers.
            let body = new.with("personality", personality(FILE)).body();
            let _ = member.speaking("2.56").try_post("/servers", body).await;
            assert!(!service.death().success(), "it was killed");
            let leaks = search.leaks(while_it_lives);
            assert!(leaks.is_empty(), "{step}: {leaks:#?}");

            let service = Service::start_logging(data, &["--config", &file], &log);
            let (member, admin) = (service.user(data, "cellshift").await, service.user(data, "cellshift-admin").await);
            let server = id_of(&member.get("/servers").await.expect(200).body["servers"][0]);
            admin.settled(server).await;
            let shown = admin.show(server).await;
            assert_eq!(shown["status"], "ACTIVE", "{step}: {shown:#}");
            assert_eq!(shown["OS-EXT-SRV-ATTR:user_data"], USER_DATA.base64(), "{step}");
            let leaks = search.leaks(while_it_lives);
            assert!(leaks.is_empty(), "{step}: {leaks:#?}");
            let host = shown["OS-EXT-SRV-ATTR:host"].as_str().expect("a host");
            let cell = host.split('-').next().expect("a cell");
            let disk = data.join("cells").join(cell).join("hosts").join(host).join("guests").join(server.to_string()).join("disk");
            verify(&std::fs::read(disk).expect("a disk"), PASSWORD.value(), Some(USER_DATA), Some(FILE));
            member.delete(&format!("/servers/{server}")).await.expect(204);
            admin.settled(server).await;
            service.stop();
            let leaks = search.leaks(nowhere);
            assert!(leaks.is_empty(), "{step}: {leaks:#?}");
        });
        databases::remove(&config);
    }
}
