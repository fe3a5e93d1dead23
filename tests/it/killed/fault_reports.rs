//! Each fault in a running service is reported at its beginning and at its end, in the log and in the notifications' file. A fault that
//! ends the process is in both files when the process is gone.

use std::path::{Path, PathBuf};

use cellshift::config::Seconds;
use serde_json::{Value, json};
use uuid::Uuid;

use super::batch::{config_file, configure};
use crate::client::{NewServer, PATIENCE, User, id_of};
use crate::databases;
use crate::service::{self, Service};

const FAULTS: &str = "/ops/v1/chaos/faults";
const EXPERIMENT: &str = "/ops/v1/chaos/experiment";

/// The faults that an operator may make by hand in a service whose server is on this host, and whether each waits for a request.
fn by_hand(host: &str) -> Vec<(Value, bool)> {
    let mut kinds: Vec<(Value, bool)> = [json!("lose_request"), json!("lose_reply"), json!({"again": 20}), json!({"late": 20})]
        .map(|letter| (json!({"message": letter}), true))
        .into();
    kinds.push((json!({"driver": {"host": host, "operation": "start"}}), true));
    kinds.push((json!({"database": {"name": "network", "outage": "refuses", "calls": 1}}), true));
    for outage in ["refuses", "hangs", "loses_replies"] {
        kinds.push((json!({"database": {"name": "cell2", "outage": outage, "for_ms": 30}}), false));
    }
    kinds.push((json!({"partition": {"cell": "cell2", "for_ms": 30}}), false));
    for actor in ["scheduler", "notifier", "periodic", "conductor", "cell2"] {
        kinds.push((json!({"kill": {"actor": actor}}), false));
    }
    for actor in ["notifier", "conductor"] {
        kinds.push((json!({"pause": {"actor": actor, "for_ms": 30}}), false));
    }
    kinds.push((json!({"host_crash": {"host": "cell1-host1"}}), false));
    kinds.push((json!({"host_off": {"host": "cell1-host2", "for_ms": 30}}), false));
    kinds
}

/// The faults at a step, and their moments.
const AT_A_STEP: [(&str, &str); 9] = [
    ("before_effect", "refuse"),
    ("before_effect", "lose_reply"),
    ("before_effect", "repeat"),
    ("before_effect", "complete_late"),
    ("before_effect", "complete_after_end"),
    ("before_effect", "kill_actor"),
    ("after_effect", "refuse"),
    ("after_effect", "kill_actor"),
    ("after_journal", "kill_actor"),
];

/// A service whose log is kept, and its server.
struct RunningService {
    data: PathBuf,
    service: Service,
    member: User,
    admin: User,
}

impl RunningService {
    async fn start(data: &Path) -> RunningService {
        let service = Service::start_logging(data, &["--config", &config_file(data)], &data.join("log"));
        let (member, admin) = (service.user(data, "cellshift").await, service.user(data, "cellshift-admin").await);
        RunningService { data: data.to_owned(), service, member, admin }
    }

    async fn create(&self) -> Uuid {
        let image = id_of(&self.member.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
        let server = id_of(&NewServer::of_image(image).ask(&self.member).await.expect(202).body["server"]);
        self.admin.settled(server).await;
        server
    }

    /// Stops a server that runs, and starts one that does not.
    async fn toggle(&self, server: Uuid) {
        let action = match self.member.status(server).await.as_str() {
            "ACTIVE" => json!({"os-stop": null}),
            "SHUTOFF" => json!({"os-start": null}),
            _ => json!({"reboot": {"type": "HARD"}}),
        };
        // Refused, or with an unknown outcome, if that is the fault's effect.
        self.member.act(server, action).await;
        self.admin.settled(server).await;
    }

    /// Repeats the request until the server is in the wanted state, whatever fails meanwhile.
    async fn bring(&self, server: Uuid, status: &str) {
        while self.member.status(server).await != status {
            self.toggle(server).await;
        }
    }

    /// Makes a fault by hand.
    async fn is_active(&self, fault: Uuid) -> bool {
        let all = self.admin.get(FAULTS).await.expect(200).body["faults"].as_array().cloned().unwrap_or_default();
        all.iter().any(|one| id_of(one) == fault && one["active"] == true)
    }

    /// Returns the notifications of a fault in the file, in order: phase and payload.
    fn notified(&self, fault: Uuid) -> Vec<(String, Value)> {
        let text = std::fs::read_to_string(self.data.join("notifications.jsonl")).expect("the notifications");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a notification"));
        let of_fault = lines.filter(|line| line["payload"]["nova_object.data"]["fault"] == json!(fault));
        of_fault
            .map(|line| (line["event_type"].as_str().unwrap_or_default().to_owned(), line["payload"]["nova_object.data"].clone()))
            .collect()
    }

    /// Returns the lines of the log that report the beginning or the end of a fault.
    fn logged(&self, fault: Uuid) -> Vec<String> {
        let text = std::fs::read_to_string(self.data.join("log")).expect("the log");
        let of_fault = |line: &&str| line.contains("a fault on purpose") && line.contains(&format!("fault={fault}"));
        text.lines().filter(of_fault).map(str::to_owned).collect()
    }

    /// Waits until the notifications have the fault's end. Then they have its beginning, too, and the log has both.
    async fn until_reported(&self, fault: Uuid, what: &str) {
        // Reads the file, because the stream ends with the notifier, which may be killed.
        let ended = async {
            // The service reports the end, so the file will have it soon.
            while self.is_active(fault).await || !self.notified(fault).iter().any(|(event, _)| event == "chaos.fault.end") {}
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap_or_else(|_| panic!("nobody tells of the end of {what}"));
        let phases: Vec<String> = self.notified(fault).into_iter().map(|(event, _)| event).collect();
        assert_eq!(phases, ["chaos.fault.start", "chaos.fault.end"], "{what}");
        let [begins, ends] = &self.logged(fault)[..] else { panic!("{what}: {:?}", self.logged(fault)) };
        assert!(begins.contains("WARN") && begins.contains("a fault on purpose begins"), "{what}: {begins}");
        assert!(ends.contains("WARN") && ends.contains("a fault on purpose is over"), "{what}: {ends}");
    }

    /// Loads an experiment with one fault at a moment of a server's stop.
    async fn load(&self, moment: &str, what: Value) {
        let fault = json!({"when": {"saga": "stop", "step": "stop_guest", "moment": moment}, "what": what});
        self.admin.post(EXPERIMENT, json!({"experiment": {"title": "at a step", "faults": [fault]}})).await.expect(202);
    }

    /// Waits until the experiment is over. Returns the id of its only fault.
    async fn fault_of_the_experiment(&self) -> Uuid {
        let over = async {
            loop {
                let shown = self.admin.get(EXPERIMENT).await.expect(200).body["experiment"].clone();
                if shown["state"] == "over" {
                    return id_of(&shown["injected"][0]);
                }
            }
        };
        tokio::time::timeout(PATIENCE, over).await.expect("the experiment comes to an end")
    }
}

fn audited(data: &Path) {
    let audit = service::run(&["audit", "--config", &config_file(data)]);
    assert_eq!(audit.code, Some(0), "{}{}", audit.stdout, audit.stderr);
}

fn place(data: &Path) {
    configure(data, |config| {
        databases::place(config);
        config.cells.probe_interval = Seconds::millis(50);
    });
}

/// As [`place`], with a short deadline, so that a lost answer is noticed soon.
fn place_impatient(data: &Path) {
    configure(data, |config| {
        databases::place(config);
        config.cells.probe_interval = Seconds::millis(50);
        config.migration.deadlines.extend(["stop_guest", "start_guest", "reboot_guest"].map(|step| (step.to_owned(), 1)));
    });
}

#[test]
fn each_fault_is_logged_and_notified_at_begin_and_end() {
    let dir = tempfile::tempdir().expect("a directory");
    place_impatient(dir.path());
    actix_rt::System::new().block_on(async {
        let life = RunningService::start(dir.path()).await;
        let server = life.create().await;
        let host = life.admin.show(server).await["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
        for (what, waits) in by_hand(&host) {
            life.bring(server, "SHUTOFF").await;
            let fault = id_of(&life.admin.post(FAULTS, json!({ "fault": what })).await.expect(202).body["fault"]);
            if waits {
                assert!(life.is_active(fault).await, "it is not over before it has happened: {what}");
                life.bring(server, "ACTIVE").await;
            }
            life.until_reported(fault, &what.to_string()).await;
        }
        for (moment, what) in AT_A_STEP {
            life.bring(server, "ACTIVE").await;
            life.load(moment, json!({ "step": what })).await;
            life.toggle(server).await;
            let fault = life.fault_of_the_experiment().await;
            life.until_reported(fault, what).await;
            let started = &life.notified(fault)[0].1;
            let place = ["saga", "step", "side", "moment"].map(|key| started[key].clone());
            assert_eq!(place, [json!("stop"), json!("stop_guest"), json!("act"), json!(moment)], "{what}");
            let logged = &life.logged(fault)[0];
            let migration = started["migration"].as_str().expect("a migration");
            assert!(logged.contains(&format!("server={server} migration={migration}")), "{logged}");
        }
        life.bring(server, "ACTIVE").await;
        life.service.stop();
    });
    audited(dir.path());
}

#[test]
fn a_fault_that_ends_the_process_is_logged_before() {
    let dir = tempfile::tempdir().expect("a directory");
    place(dir.path());
    actix_rt::System::new().block_on(async {
        let (nobody_knows, ok) = (&json!("unknown"), &json!("ok"));
        let moments = [("before_effect", vec![nobody_knows, ok]), ("after_effect", vec![nobody_knows, ok]), ("after_journal", vec![ok])];
        for (moment, performed) in moments {
            let life = RunningService::start(dir.path()).await;
            let server = life.create().await;
            life.load(moment, json!("restart")).await;
            life.member.act(server, json!({"os-stop": null})).await.expect(202);
            let died = tokio::time::timeout(PATIENCE, actix_rt::task::spawn_blocking(move || life.service.death()));
            let status = died.await.unwrap_or_else(|_| panic!("it does not die {moment}")).expect("no panic");
            assert!(!status.success(), "{status}");

            let life = RunningService::start(dir.path()).await;
            let text = std::fs::read_to_string(life.data.join("notifications.jsonl")).expect("the notifications");
            let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a notification"));
            let notification =
                lines.rfind(|line| line["event_type"] == "chaos.fault.start").unwrap_or_else(|| panic!("nothing is told of {moment}"));
            assert_eq!(notification["payload"]["uuid"], json!(server));
            let data = &notification["payload"]["nova_object.data"];
            let place = ["saga", "step", "side", "moment"].map(|key| data[key].clone());
            assert_eq!(place, [json!("stop"), json!("stop_guest"), json!("act"), json!(moment)]);
            let fault = Uuid::parse_str(data["fault"].as_str().expect("an id")).expect("a uuid");
            let [logged] = &life.logged(fault)[..] else { panic!("{:?}", life.logged(fault)) };
            assert!(logged.contains("WARN") && logged.contains("a fault on purpose begins: the process is killed"), "{logged}");
            let migration = data["migration"].as_str().expect("a migration").to_owned();
            assert!(logged.contains(&format!("server={server} migration={migration}")), "{logged}");

            // The successor repeats only the work that the journal does not have.
            life.admin.settled(server).await;
            assert_eq!(life.member.status(server).await, "SHUTOFF");
            let journal = life.admin.get(&format!("/ops/v1/migrations/{migration}")).await.expect(200).body;
            let steps = journal["steps"].as_array().unwrap_or_else(|| panic!("no steps in {journal:#}"));
            let outcomes: Vec<&Value> = steps.iter().filter(|line| line["step"] == "stop_guest").map(|line| &line["outcome"]).collect();
            assert_eq!(outcomes, performed, "{moment}");
            life.service.stop();
        }
    });
    audited(dir.path());
}
