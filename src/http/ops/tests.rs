//! Shapes, rules and errors of the operators' resources.

use std::time::Duration;

use actix::Actor;
use futures::StreamExt;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::actors::address::Address;
use crate::actors::cell::{CellHandle, CellHosts};
use crate::actors::notifier::{Notifier, NotifierConfig};
use crate::bootstrap;
use crate::config::Config;
use crate::db::Outage;
use crate::domain::context::RequestContext;
use crate::domain::notification::{Event, InstanceAction, Notification, Phase};
use crate::env::Env;
use crate::http::door::Door;
use crate::http::server::Part;
use crate::saga::context::{Context, Kind, Request};
use crate::saga::notifications::Notifications;

#[test]
fn the_document_describes_what_is_served_and_refers_to_what_it_has() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    let served = [
        "/ops/v1/audit",
        "/ops/v1/cells",
        "/ops/v1/migrations",
        "/ops/v1/migrations/{uuid}",
        "/ops/v1/notifications",
        "/ops/v1/openapi.json",
    ];
    assert_eq!(paths, served);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for reference in OPENAPI.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
}

/// The default cloud's records behind the API; no host runs.
struct Cloud {
    door: Door,
    operations: Operations,
    notifier: NotifierHandle,
    stop: watch::Sender<bool>,
    env: Env,
    cells: Vec<CellHandle>,
    _dir: tempfile::TempDir,
}

async fn cloud() -> Cloud {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::system();
    let config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
    let made = bootstrap::open(config, env.clone()).await.unwrap();
    let cells: Vec<CellHandle> = made.cells.iter().map(|c| CellHandle::new(c.uuid, &c.name, c.db.clone(), &env)).collect();
    let notifier = Notifier::open(NotifierConfig::default(), env.clone()).await.unwrap();
    let notifier = NotifierHandle::new(Address::new(notifier.start()));
    let (stop, stopping) = watch::channel(false);
    let operations = Operations::new(made.api.db().clone());
    let operators = web::Data::new(Operators {
        operations: operations.clone(),
        hosts: Arc::new(CellHosts::default()),
        notifier: notifier.clone(),
        stopping,
        max_limit: 2,
    });
    let catalog = web::Data::new(Catalog {
        env: env.clone(),
        api: made.api.clone(),
        cells: cells.clone(),
        placement: made.services.placement.clone(),
        policy: made.policy.clone(),
        service_down_time: Duration::from_secs(60),
        cell_timeout: Duration::from_secs(5),
        default_zone: "nova".into(),
        default_limits: Default::default(),
    });
    let part: Part = Arc::new(move |config| {
        config.app_data(operators.clone()).app_data(catalog.clone()).configure(configure);
    });
    Cloud { door: Door::new(part), operations, notifier, stop, env, cells, _dir: dir }
}

impl Cloud {
    async fn get(&self, path: &str) -> crate::http::door::Answer {
        self.door.call("GET", path, "ops:admin", None, None).await
    }

    /// A saga that has begun; gives its id.
    async fn begin(&self) -> Uuid {
        let (saga, server) = (self.env.uuid(), self.env.uuid());
        let context = Context::new(saga, Kind::Stop, RequestContext::default(), server, Request::Stop);
        let json = serde_json::to_string(&context).unwrap();
        self.operations.begin(saga, server, "stop", "accept", json, "me").await.unwrap();
        saga
    }
}

#[actix_web::test]
async fn cells_show_their_hosts_and_why_one_is_down() {
    let cloud = cloud().await;
    cloud.cells[2].db.db().set_outage(Outage::Refuses);
    let body = cloud.get("/ops/v1/cells").await.expect(200);
    let cells = body["cells"].as_array().unwrap();
    let names: Vec<&str> = cells.iter().map(|cell| cell["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cell0", "cell1", "cell2"]);
    assert_eq!(cells[0]["hosts"], json!([]));
    let host = json!({"name": "cell1-host1", "availability_zone": "cell1", "state": "down", "status": "enabled", "forced_down": false, "servers": 0});
    assert_eq!((&cells[1]["hosts"][0], &cells[1]["health"], &cells[1]["reason"]), (&host, &json!("up"), &Value::Null));
    assert!(cells[2]["reason"].as_str().unwrap().contains("cell2"), "{body}");
}

#[actix_web::test]
async fn migrations_are_listed_in_pages_and_shown_with_their_journal() {
    let cloud = cloud().await;
    let mut sagas = Vec::new();
    for _ in 0..3 {
        sagas.insert(0, cloud.begin().await);
    }
    let first = cloud.get("/ops/v1/migrations?status=running").await.expect(200);
    let ids = |body: &Value| -> Vec<String> {
        body["migrations"].as_array().unwrap().iter().map(|m| m["uuid"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&first), [sagas[0].to_string(), sagas[1].to_string()]);
    assert!(first["migrations"][0].get("steps").is_none());
    let next = first["migrations_links"][0]["href"].as_str().unwrap();
    let second = cloud.get(&next[next.find("/ops").unwrap()..]).await.expect(200);
    assert_eq!((ids(&second), second.get("migrations_links")), (vec![sagas[2].to_string()], None));

    let one = cloud.get(&format!("/ops/v1/migrations/{}", sagas[0])).await.expect(200);
    assert_eq!((&one["state"], &one["step"], &one["debts"]), (&json!("running"), &json!("accept"), &json!([])));
    let step = &one["steps"][0];
    assert_eq!((&step["side"], &step["outcome"], &step["ended_at"]), (&json!("act"), &Value::Null, &Value::Null));
    assert_eq!(cloud.get("/ops/v1/migrations?status=done").await.expect(200), json!({"migrations": []}));
    assert_eq!(cloud.get("/ops/v1/migrations?status=needs_operator").await.expect(200), json!({"migrations": []}));
}

#[actix_web::test]
async fn wrong_requests_are_refused_in_computes_form() {
    let cloud = cloud().await;
    for (path, status, name, part) in [
        ("/ops/v1/migrations/00000000-0000-0000-0000-000000000001", 404, "itemNotFound", "could not be found"),
        ("/ops/v1/migrations/nonsense", 404, "itemNotFound", "could not be found"),
        ("/ops/v1/migrations?status=lost", 400, "badRequest", "needs_operator"),
        ("/ops/v1/migrations?colour=red", 400, "badRequest", "colour"),
        ("/ops/v1/migrations?marker=00000000-0000-0000-0000-000000000001", 400, "badRequest", "marker"),
        ("/ops/v1/nothing", 404, "itemNotFound", "could not be found"),
    ] {
        let body = cloud.get(path).await.expect(status);
        assert!(body[name]["message"].as_str().unwrap().contains(part), "{path}: {body}");
    }
    for path in ["/ops/v1/cells", "/ops/v1/migrations", "/ops/v1/notifications"] {
        cloud.door.call("GET", path, "demo:member", None, None).await.expect(403);
    }
}

#[actix_web::test]
async fn a_reader_of_notifications_resumes_after_the_last_it_saw_and_is_let_go_at_the_end() {
    let cloud = cloud().await;
    for step in ["one", "two", "three"] {
        let (server, event) = (Uuid::from_u128(1), Event::Instance(InstanceAction::Resize, Phase::Start));
        let payload = event.payload(server, json!({"uuid": server}));
        let notification =
            Notification { operation: Uuid::from_u128(2), step: step.into(), event, publisher_id: "nova-compute:h1".into(), payload };
        cloud.notifier.emit(notification).await.unwrap();
    }
    let mut events = Box::pin(notifications::events(cloud.notifier.subscribe(Some(1)), cloud.stop.subscribe()));
    for id in [2, 3] {
        let chunk = events.next().await.unwrap().unwrap();
        let text = std::str::from_utf8(&chunk).unwrap();
        let data = text.strip_prefix(&format!("id: {id}\ndata: ")).unwrap().strip_suffix("\n\n").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["event_type"], "instance.resize.start");
    }
    cloud.stop.send(true).unwrap();
    assert!(events.next().await.is_none());
}
