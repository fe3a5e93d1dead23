//! Tests of aggregates, zones, services and hypervisors.

use serde_json::{Value, json};

use super::{Cloud, clouds, column, fields};
use crate::chaos::borders::{Outage, Outages};
use crate::db::cell::fixture::remove_instance;

async fn aggregate(cloud: &Cloud, name: &str, zone: Option<&str>) -> i64 {
    let (status, body) =
        cloud.post("admin", "2.1", "/os-aggregates", json!({"aggregate": {"name": name, "availability_zone": zone}})).await;
    assert_eq!(status, 200, "{body}");
    body["aggregate"]["id"].as_i64().unwrap()
}

async fn act(cloud: &Cloud, id: i64, action: &str, argument: Value) -> (u16, Value) {
    cloud.post("admin", "2.41", &format!("/os-aggregates/{id}/action"), json!({ action: argument })).await
}

#[actix_web::test]
async fn an_aggregate_is_made_filled_and_removed() {
    for cloud in clouds().await {
        let (_, answer) =
            cloud.post("admin", "2.41", "/os-aggregates", json!({"aggregate": {"name": "gen1", "availability_zone": "z1"}})).await;
        assert_eq!(
            fields(&answer["aggregate"]),
            ["availability_zone", "created_at", "deleted", "deleted_at", "id", "name", "updated_at", "uuid"]
        );
        let id = answer["aggregate"]["id"].as_i64().unwrap();
        let (status, body) = act(&cloud, id, "add_host", json!({"host": "host1"})).await;
        assert_eq!((status, &body["aggregate"]["hosts"]), (200, &json!(["host1"])));
        assert_eq!(act(&cloud, id, "add_host", json!({"host": "host1"})).await.0, 409);
        assert_eq!(act(&cloud, id, "add_host", json!({"host": "nosuch"})).await.0, 404);
        assert_eq!(act(&cloud, id, "add_host", json!({"host": "a b"})).await.0, 400);
        assert_eq!(act(&cloud, 99, "add_host", json!({"host": "host1"})).await.0, 404);
        assert_eq!(act(&cloud, id, "polish", json!({})).await.0, 400);
        let (status, body) = act(&cloud, id, "set_metadata", json!({"metadata": {"generation": "1", "old": null}})).await;
        assert_eq!((status, &body["aggregate"]["metadata"]), (200, &json!({"availability_zone": "z1", "generation": "1"})));
        assert_eq!(
            act(&cloud, id, "set_metadata", json!({"metadata": {"generation": null}})).await.1["aggregate"]["metadata"],
            json!({"availability_zone": "z1"})
        );

        let path = format!("/os-aggregates/{id}");
        let (status, body) = cloud.put("admin", "2.1", &path, json!({"aggregate": {"name": "old", "availability_zone": "z2"}})).await;
        assert_eq!((status, &body["aggregate"]["name"], &body["aggregate"]["availability_zone"]), (200, &json!("old"), &json!("z2")));
        assert!(body["aggregate"].get("uuid").is_none());
        assert_eq!(cloud.put("admin", "2.1", &path, json!({"aggregate": {}})).await.0, 400);
        assert_eq!(cloud.post("admin", "2.1", "/os-aggregates", json!({"aggregate": {"name": "old"}})).await.0, 409);
        assert_eq!(
            cloud.post("admin", "2.1", "/os-aggregates", json!({"aggregate": {"name": "n", "availability_zone": "a:b"}})).await.0,
            400
        );
        assert_eq!(cloud.delete("admin", "2.1", &path).await.0, 400, "it has a host");
        assert_eq!(act(&cloud, id, "remove_host", json!({"host": "host2"})).await.0, 404);
        assert_eq!(act(&cloud, id, "remove_host", json!({"host": "host1"})).await.1["aggregate"]["hosts"], json!([]));
        assert_eq!(cloud.delete("admin", "2.1", &path).await, (200, Value::Null));
        assert_eq!(cloud.get("admin", "2.1", "/os-aggregates").await.1, json!({"aggregates": []}));
    }
}

#[actix_web::test]
async fn a_host_is_in_one_zone_and_keeps_it_while_it_has_servers() {
    for cloud in clouds().await {
        let (one, two) = (aggregate(&cloud, "one", Some("z1")).await, aggregate(&cloud, "two", None).await);
        assert_eq!(act(&cloud, one, "add_host", json!({"host": "host1"})).await.0, 200);
        assert_eq!(act(&cloud, two, "add_host", json!({"host": "host1"})).await.0, 200);
        let zone = json!({"metadata": {"availability_zone": "z2"}});
        assert_eq!(act(&cloud, two, "set_metadata", zone.clone()).await.0, 400, "host1 would be in two zones");
        let three = aggregate(&cloud, "three", Some("z3")).await;
        assert_eq!(act(&cloud, three, "add_host", json!({"host": "host1"})).await.0, 409);

        cloud.add_server(0, "host1", "busy", false).await;
        assert_eq!(act(&cloud, one, "set_metadata", zone.clone()).await.0, 400, "its server is in z1");
        assert_eq!(act(&cloud, one, "remove_host", json!({"host": "host1"})).await.0, 409);
        assert_eq!(act(&cloud, two, "remove_host", json!({"host": "host1"})).await.0, 200, "no zone changes");
        let (status, body) = cloud.get("admin", "2.1", &format!("/os-aggregates/{one}")).await;
        assert_eq!((status, &body["aggregate"]["hosts"], &body["aggregate"]["availability_zone"]), (200, &json!(["host1"]), &json!("z1")));
        assert_eq!(act(&cloud, three, "add_host", json!({"host": "host2"})).await.0, 200);
    }
}

#[actix_web::test]
async fn zones_are_listed_with_what_runs_in_them() {
    for cloud in clouds().await {
        let id = aggregate(&cloud, "one", Some("z1")).await;
        act(&cloud, id, "add_host", json!({"host": "host1"})).await;
        let zone = |name: &str, available: bool| json!({"zoneName": name, "zoneState": {"available": available}, "hosts": null});
        let (status, body) = cloud.get("member", "2.1", "/os-availability-zone").await;
        assert_eq!((status, body), (200, json!({"availabilityZoneInfo": [zone("nova", true), zone("z1", true)]})));
        let (_, detail) = cloud.get("admin", "2.1", "/os-availability-zone/detail").await;
        let service = &detail["availabilityZoneInfo"][1]["hosts"]["host1"]["nova-compute"];
        assert_eq!((&service["available"], &service["active"]), (&json!(true), &json!(true)));
        let disable = json!({"host": "host1", "binary": "nova-compute"});
        assert_eq!(cloud.put("admin", "2.1", "/os-services/disable", disable).await.0, 200);
        assert_eq!(
            cloud.get("member", "2.1", "/os-availability-zone").await.1["availabilityZoneInfo"],
            json!([zone("nova", true), zone("z1", false)])
        );
    }
}

#[actix_web::test]
async fn services_are_listed_and_changed_in_both_ways() {
    for cloud in clouds().await {
        let (_, old) = cloud.get("admin", "2.1", "/os-services").await;
        assert_eq!(fields(&old["services"][0]), ["binary", "disabled_reason", "host", "id", "state", "status", "updated_at", "zone"]);
        assert_eq!(old["services"][0]["id"], 1);
        let (_, all) = cloud.get("admin", "2.69", "/os-services").await;
        assert_eq!(column(&all["services"], "/host"), [json!("host1"), json!("host2")]);
        assert_eq!((&all["services"][0]["zone"], &all["services"][0]["forced_down"]), (&json!("nova"), &json!(false)));
        assert_eq!(
            column(&cloud.get("admin", "2.69", "/os-services?host=host2&binary=nova-compute").await.1["services"], "/host"),
            [json!("host2")]
        );
        assert_eq!(cloud.get("admin", "2.69", "/os-services?binary=nova-cert").await.1, json!({"services": []}));
        assert_eq!(cloud.get("admin", "2.75", "/os-services?color=red").await.0, 400);

        let path = format!("/os-services/{}", all["services"][1]["id"].as_str().unwrap());
        let (status, body) = cloud.put("admin", "2.53", &path, json!({"status": "disabled", "disabled_reason": "repair"})).await;
        let service = &body["service"];
        assert_eq!(
            (status, &service["status"], &service["disabled_reason"], &service["state"]),
            (200, &json!("disabled"), &json!("repair"), &json!("up"))
        );
        let (_, body) = cloud.put("admin", "2.53", &path, json!({"status": "enabled", "forced_down": true})).await;
        let service = &body["service"];
        assert_eq!((&service["status"], &service["disabled_reason"], &service["state"]), (&json!("enabled"), &Value::Null, &json!("down")));
        for (body, status) in [
            (json!({}), 400),
            (json!({"status": "enabled", "disabled_reason": "why"}), 400),
            (json!({"status": "broken"}), 400),
            (json!({"host": "host2"}), 400),
        ] {
            assert_eq!(cloud.put("admin", "2.53", &path, body.clone()).await.0, status, "{body}");
        }
        assert_eq!(cloud.put("admin", "2.53", "/os-services/disable", json!({})).await.0, 400);
        assert_eq!(cloud.put("admin", "2.53", &format!("/os-services/{}", cloud.env.uuid()), json!({"status": "enabled"})).await.0, 404);

        let one = |more: Value| {
            let mut body = json!({"host": "host1", "binary": "nova-compute"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        for (version, action, body, answer) in [
            ("2.1", "disable", json!({}), json!({"status": "disabled"})),
            ("2.1", "enable", json!({}), json!({"status": "enabled"})),
            ("2.1", "disable-log-reason", json!({"disabled_reason": "r"}), json!({"status": "disabled", "disabled_reason": "r"})),
            ("2.11", "force-down", json!({"forced_down": true}), json!({"forced_down": true})),
        ] {
            let (status, got) = cloud.put("admin", version, &format!("/os-services/{action}"), one(body)).await;
            assert_eq!((status, &got["service"]), (200, &one(answer)), "{action}");
        }
        assert_eq!(cloud.put("admin", "2.1", "/os-services/disable-log-reason", one(json!({}))).await.0, 400);
        assert_eq!(cloud.put("admin", "2.10", "/os-services/force-down", one(json!({}))).await.0, 404);
        assert_eq!(cloud.put("admin", "2.1", "/os-services/enable", json!({"host": "host9", "binary": "nova-compute"})).await.0, 404);
        assert_eq!(cloud.put("admin", "2.1", "/os-services/enable", json!({"host": "host1", "binary": "nova-cert"})).await.0, 400);
    }
}

#[actix_web::test]
async fn a_service_goes_only_when_nothing_is_on_its_host() {
    for cloud in clouds().await {
        let id = aggregate(&cloud, "one", None).await;
        act(&cloud, id, "add_host", json!({"host": "host1"})).await;
        let (_, all) = cloud.get("admin", "2.53", "/os-services?host=host1").await;
        let path = format!("/os-services/{}", all["services"][0]["id"].as_str().unwrap());
        let server = cloud.add_server(0, "host1", "half", true).await;
        let (status, body) = cloud.delete("admin", "2.53", &path).await;
        assert_eq!(status, 409, "the hidden half of a move counts: {body}");
        let fence = crate::domain::fence::Fence { server, epoch: 1, attempt: 2 };
        remove_instance(&cloud.cells[0].db, fence, server).await;
        assert_eq!(cloud.delete("admin", "2.1", "/os-services/1").await.0, 400, "both cells have a service 1");
        assert_eq!(cloud.delete("admin", "2.53", "/os-services/1").await.0, 400);
        assert_eq!(cloud.delete("member", "2.53", &path).await.0, 403);
        assert_eq!(cloud.delete("admin", "2.53", &path).await, (204, Value::Null));
        assert_eq!(cloud.delete("admin", "2.53", &path).await.0, 404);
        assert_eq!(column(&cloud.get("admin", "2.53", "/os-hypervisors").await.1["hypervisors"], "/hypervisor_hostname"), [json!("host2")]);
        assert_eq!(cloud.get("admin", "2.1", &format!("/os-aggregates/{id}")).await.1["aggregate"]["hosts"], json!([]));
        assert!(cloud.api.host_mapping("host1").await.is_err());
    }
}

#[actix_web::test]
async fn hypervisors_show_what_is_claimed() {
    for cloud in clouds().await {
        let server = cloud.add_server(1, "host2", "s", false).await;
        cloud.add_server(1, "host2", "h", true).await;
        let (_, old) = cloud.get("admin", "2.1", "/os-hypervisors/detail").await;
        let hypervisor = old["hypervisors"][1].clone();
        assert_eq!(hypervisor["cpu_info"], "{\"arch\":\"x86_64\"}");
        assert_eq!(cloud.get("admin", "2.28", "/os-hypervisors/detail").await.1["hypervisors"][1]["cpu_info"], json!({"arch": "x86_64"}));
        for (field, amount) in [
            ("vcpus", 8),
            ("vcpus_used", 4),
            ("memory_mb_used", 1024),
            ("free_ram_mb", 7168),
            ("local_gb_used", 20),
            ("free_disk_gb", 80),
            ("running_vms", 2),
            ("current_workload", 0),
            ("disk_available_least", 80),
        ] {
            assert_eq!(hypervisor[field], amount, "{field}");
        }
        assert_eq!(hypervisor["service"], json!({"id": 1, "host": "host2", "disabled_reason": null}));
        let (_, sums) = cloud.get("admin", "2.87", "/os-hypervisors/statistics").await;
        let sums = &sums["hypervisor_statistics"];
        assert_eq!(
            (&sums["count"], &sums["vcpus"], &sums["vcpus_used"], sums.as_object().unwrap().len()),
            (&json!(2), &json!(16), &json!(4), 12)
        );
        assert_eq!(cloud.get("admin", "2.88", "/os-hypervisors/statistics").await.0, 404);

        let (_, list) = cloud.get("admin", "2.53", "/os-hypervisors?with_servers=true").await;
        assert_eq!(fields(&list["hypervisors"][0]), ["hypervisor_hostname", "id", "state", "status"]);
        assert_eq!(list["hypervisors"][1]["servers"], json!([{"name": "instance-00000001", "uuid": server}]));
        let (_, list) = cloud.get("admin", "2.75", "/os-hypervisors?with_servers=true&hypervisor_hostname_pattern=HOST1").await;
        assert_eq!(list["hypervisors"][0]["servers"], json!([]));
        assert_eq!(cloud.get("admin", "2.53", "/os-hypervisors?hypervisor_hostname_pattern=none").await.0, 404);
        assert_eq!(cloud.get("admin", "2.53", "/os-hypervisors?hypervisor_hostname_pattern=host&limit=1").await.0, 400);

        let id = list["hypervisors"][0]["id"].as_str().unwrap();
        assert_eq!(cloud.get("admin", "2.53", "/os-hypervisors/detail?limit=0").await, (200, json!({"hypervisors": []})));
        let (_, page) = cloud.get("admin", "2.53", "/os-hypervisors?limit=1").await;
        assert_eq!(page["hypervisors_links"][0]["href"], format!("http://localhost/compute/v2.1/os-hypervisors?limit=1&marker={id}"));
        assert_eq!(
            column(&cloud.get("admin", "2.53", &format!("/os-hypervisors?marker={id}")).await.1["hypervisors"], "/hypervisor_hostname"),
            [json!("host2")]
        );
        assert_eq!(cloud.get("admin", "2.53", "/os-hypervisors?marker=x").await.0, 400);

        let (_, one) = cloud.get("admin", "2.88", &format!("/os-hypervisors/{id}")).await;
        assert_eq!(
            fields(&one["hypervisor"]),
            ["host_ip", "hypervisor_hostname", "hypervisor_type", "hypervisor_version", "id", "service", "state", "status", "uptime"]
        );
        assert_eq!(cloud.get("admin", "2.88", "/os-hypervisors/host1").await.0, 404, "a name is not an id");
        assert_eq!(cloud.get("admin", "2.1", "/os-hypervisors/1").await.1["hypervisor"]["hypervisor_hostname"], "host1");
        assert_eq!(
            column(&cloud.get("admin", "2.1", "/os-hypervisors/host2/search").await.1["hypervisors"], "/hypervisor_hostname"),
            [json!("host2")]
        );
        assert_eq!(
            cloud.get("admin", "2.1", "/os-hypervisors/host2/servers").await.1["hypervisors"][0]["servers"][0]["uuid"],
            json!(server)
        );
        assert_eq!(cloud.get("admin", "2.1", "/os-hypervisors/1/uptime").await.0, 400, "its host does not answer");
        assert_eq!(cloud.get("admin", "2.88", "/os-hypervisors/1/uptime").await.0, 404);
    }
}

#[actix_web::test]
async fn hosts_are_shown_by_name_below_2_43() {
    for cloud in clouds().await {
        cloud.add_server(1, "host2", "s", false).await;
        cloud.add_server(1, "host2", "h", true).await;
        let id = aggregate(&cloud, "one", Some("z1")).await;
        act(&cloud, id, "add_host", json!({"host": "host1"})).await;
        let entry = |host: &str, zone: &str| json!({"host_name": host, "service": "compute", "zone": zone});
        let (status, body) = cloud.get("admin", "2.42", "/os-hosts").await;
        assert_eq!((status, body), (200, json!({"hosts": [entry("host1", "z1"), entry("host2", "nova")]})));
        assert_eq!(cloud.get("admin", "2.1", "/os-hosts?zone=z1").await.1, json!({"hosts": [entry("host1", "z1")]}));
        assert_eq!(cloud.get("admin", "2.1", "/os-hosts?zone=z9").await.1, json!({"hosts": []}));
        let row = |project: &str, cpu: i64, memory_mb: i64, disk_gb: i64| json!({"resource": {"host": "host2", "project": project, "cpu": cpu, "memory_mb": memory_mb, "disk_gb": disk_gb}});
        let (status, body) = cloud.get("admin", "2.1", "/os-hosts/host2").await;
        let used = row("(used_now)", 4, 1024, 20);
        let rows = json!([row("(total)", 8, 8192, 100), used, row("(used_max)", 2, 512, 10), row("demo", 2, 512, 10)]);
        assert_eq!((status, body), (200, json!({ "host": rows })));

        let put = async |body: Value| cloud.put("admin", "2.1", "/os-hosts/host1", body).await;
        assert_eq!(put(json!({"status": "Disable"})).await, (200, json!({"host": "host1", "status": "disabled"})));
        assert_eq!(cloud.get("admin", "2.1", "/os-hosts").await.1, json!({"hosts": [entry("host2", "nova")]}));
        assert_eq!(put(json!({"status": "enable", "maintenance_mode": "enable"})).await.0, 501, "the host stays disabled");
        assert_eq!(cloud.get("admin", "2.53", "/os-services?host=host1").await.1["services"][0]["status"], "disabled");
        assert_eq!(put(json!({"status": "ENABLE"})).await.1["status"], "enabled");
        for body in [json!({}), json!({"status": "broken"}), json!({"status": "enable", "colour": "red"}), json!({"status": null})] {
            assert_eq!(put(body.clone()).await.0, 400, "{body}");
        }
        for act in ["startup", "shutdown", "reboot"] {
            assert_eq!(cloud.get("admin", "2.1", &format!("/os-hosts/host1/{act}")).await.0, 501);
            assert_eq!(cloud.get("admin", "2.1", &format!("/os-hosts/nosuch/{act}")).await.0, 404);
            assert_eq!(cloud.get("admin", "2.43", &format!("/os-hosts/host1/{act}")).await.0, 404);
        }
        assert_eq!(cloud.get("admin", "2.1", "/os-hosts/nosuch").await.0, 404);
        assert_eq!(cloud.put("admin", "2.1", "/os-hosts/nosuch", json!({"status": "enable"})).await.0, 404);
        for path in ["/os-hosts", "/os-hosts/host1"] {
            assert_eq!(cloud.get("admin", "2.43", path).await.0, 404);
            assert_eq!(cloud.get("member", "2.42", path).await.0, 403);
        }
    }
}

#[actix_web::test]
async fn no_host_has_reported_its_usage() {
    for cloud in clouds().await {
        let (status, body) = cloud.get("admin", "2.1", "/os-instance_usage_audit_log").await;
        let log = &body["instance_usage_audit_logs"];
        assert_eq!((status, &log["num_hosts"], &log["hosts_not_run"]), (200, &json!(2), &json!(["host1", "host2"])), "{log}");
        let (_, body) = cloud.get("admin", "2.1", "/os-instance_usage_audit_log/2026-03-05%2001:02:03.4").await;
        let expected = json!({
            "period_beginning": "2026-02-01 00:00:00",
            "period_ending": "2026-03-01 00:00:00",
            "num_hosts": 2,
            "num_hosts_done": 0,
            "num_hosts_running": 0,
            "num_hosts_not_run": 2,
            "hosts_not_run": ["host1", "host2"],
            "total_instances": 0,
            "total_errors": 0,
            "overall_status": "0 of 2 hosts done. 0 errors.",
            "log": {},
        });
        assert_eq!(body["instance_usage_audit_log"], expected);
        for before in ["yesterday", "2026-13-01%2000:00:00", "2026-03-05", "2026-03-05%2001:02:03x"] {
            assert_eq!(cloud.get("admin", "2.1", &format!("/os-instance_usage_audit_log/{before}")).await.0, 400, "{before}");
        }
        assert_eq!(cloud.get("admin", "2.101", "/os-instance_usage_audit_log?colour=red").await.0, 200);
        assert_eq!(cloud.get("admin", "2.102", "/os-instance_usage_audit_log?colour=red").await.0, 400);
        assert_eq!(cloud.get("member", "2.1", "/os-instance_usage_audit_log").await.0, 403);
    }
}

#[actix_web::test]
async fn a_cell_that_is_down_is_left_out_or_named() {
    for cloud in clouds().await {
        cloud.cells[0].db.db().set_outage(Outage::Refuses);
        assert_eq!(column(&cloud.get("admin", "2.68", "/os-services").await.1["services"], "/host"), [json!("host2")]);
        let (status, body) = cloud.get("admin", "2.69", "/os-services").await;
        assert_eq!((status, &body["services"][0]), (200, &json!({"binary": "nova-compute", "host": "host1", "status": "UNKNOWN"})));
        assert_eq!(cloud.get("admin", "2.53", "/os-hypervisors").await.1["hypervisors"].as_array().unwrap().len(), 1);
        let (status, _) = cloud.put("admin", "2.53", &format!("/os-services/{}", cloud.env.uuid()), json!({"status": "enabled"})).await;
        assert_eq!(status, 503, "the cell that is down may have it");
    }
}
