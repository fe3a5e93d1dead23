//! Ids in bodies are checked with the caller's rights, as ids in paths are: another project's resource does not exist.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, NewServer, User, id_of};
use crate::stage::{Stage, play_default};

const GONE: Uuid = Uuid::from_u128(0x00c0_ffee);

/// Makes a private image of this user's, with bytes or without.
async fn image(stage: &Stage, user: &User, with_bytes: bool) -> Uuid {
    use cellshift::services::image::ImageService;
    let body = json!({"name": "secret", "visibility": "private", "disk_format": "raw", "container_format": "bare"});
    let made = user.post("/image/v2/images", body).await.expect(201);
    let id = id_of(&made.body);
    if with_bytes {
        let bytes = futures::stream::iter([Ok(bytes::Bytes::from_static(b"their secret"))]);
        stage.running.cloud.services.images.upload(id, Box::pin(bytes)).await.expect("an upload");
    }
    id
}

fn device(source: &str, id: Uuid, boot_index: i32) -> Value {
    json!({
        "source_type": source, "uuid": id, "destination_type": "volume", "boot_index": boot_index, "volume_size": 1,
        "delete_on_termination": true,
    })
}

/// Checks that both answers are equal except for the id.
#[track_caller]
fn same(foreign: &Answer, absent: &Answer, id: Uuid) {
    assert_eq!((foreign.status, foreign.text.replace(&id.to_string(), &GONE.to_string())), (absent.status, absent.text.clone()));
}

/// Returns the block devices of a new server, from an image's id and the root device.
type Devices = fn(Uuid, Value) -> Value;
/// A request for a new server that names a resource by its id.
type Naming = fn(NewServer, Uuid) -> NewServer;

#[test]
fn an_image_in_a_block_device_must_be_the_callers_to_use() {
    play_default(|stage| async move {
        let stranger = stage.user("sam", "elsewhere", "member").await;
        let root = device("image", stage.image, 0);
        let with = |devices: Value| NewServer::of_image(stage.image).with("block_device_mapping_v2", devices);
        let forms: [(&str, Devices); 3] = [
            ("a second disk", |id, _| json!([device("image", id, 1)])),
            ("a disk that is not booted from", |id, root| json!([root, device("image", id, -1)])),
            ("the boot disk", |id, _| json!([device("image", id, 0)])),
        ];
        for with_bytes in [true, false] {
            let foreign = image(&stage, &stranger, with_bytes).await;
            for (what, devices) in forms {
                let refused = with(devices(foreign, root.clone())).ask(&stage.member).await.expect(400);
                assert_eq!(refused.message(), "Can not find requested image", "{what}");
                same(&refused, &with(devices(GONE, root.clone())).ask(&stage.member).await, foreign);
            }
            // Beside a volume to boot from, and as the local root disk that imageRef names.
            let mut local = device("image", foreign, 0);
            local["destination_type"] = json!("local");
            for new in [with(json!([root])).with("imageRef", json!(foreign)), with(json!([local]))] {
                assert_eq!(new.ask(&stage.member).await.expect(400).message(), "Can not find requested image");
            }
        }
        let volumes = stage.admin.get("/volume/v3/volumes?all_tenants=1").await.expect(200);
        assert_eq!(volumes.body["volumes"], json!([]), "nothing was copied");
        // Their own image fills a second disk.
        let own = image(&stage, &stage.member, true).await;
        let server = stage.create(with(json!([device("image", own, 1)]))).await;
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
    });
}

#[test]
fn other_foreign_ids_in_bodies_are_as_absent() {
    play_default(|stage| async move {
        let stranger = stage.user("sam", "elsewhere", "member").await;
        let (image, volume) = (image(&stage, &stranger, true).await, stranger.make_volume().await);
        let network = stranger.post("/network/v2.0/networks", json!({"network": {"name": "theirs"}})).await.expect(201);
        let network = id_of(&network.body["network"]);
        let subnet = json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24"}});
        stranger.post("/network/v2.0/subnets", subnet).await.expect(201);
        let port = stranger.post("/network/v2.0/ports", json!({"port": {"network_id": network}})).await.expect(201);
        let port = id_of(&port.body["port"]);
        let group = json!({"security_group": {"name": "theirs"}});
        let group = id_of(&stranger.post("/network/v2.0/security-groups", group).await.expect(201).body["security_group"]);
        let servers = json!({"server_group": {"name": "theirs", "policy": "affinity"}});
        let servers = id_of(&stranger.post("/os-server-groups", servers).await.expect(200).body["server_group"]);

        let new = || NewServer::of_image(stage.image);
        let requests: [(Uuid, Naming); 6] = [
            (image, |new, id| new.with("imageRef", json!(id))),
            (volume, |new, id| new.with("block_device_mapping_v2", json!([device("volume", id, 1)]))),
            (network, |new, id| new.with("networks", json!([{"uuid": id}]))),
            (port, |new, id| new.with("networks", json!([{"port": id}]))),
            (group, |new, id| new.with("security_groups", json!([{"name": id}]))),
            (servers, NewServer::in_group),
        ];
        for (id, ask) in requests {
            let refused = ask(new(), id).ask(&stage.member).await.expect(400);
            same(&refused, &ask(new(), GONE).ask(&stage.member).await, id);
        }
        let filled = |id: Uuid| json!({"volume": {"size": 1, "imageRef": id}});
        let refused = stage.member.post("/volume/v3/volumes", filled(image)).await.expect(400);
        same(&refused, &stage.member.post("/volume/v3/volumes", filled(GONE)).await, image);

        let server = stage.create(stage.server()).await;
        let rebuilt = |id: Uuid| json!({"rebuild": {"imageRef": id}});
        let refused = stage.member.act(server, rebuilt(image)).await.expect(400);
        same(&refused, &stage.member.act(server, rebuilt(GONE)).await, image);
        let refused = stage.member.attach(server, volume).await.expect(404);
        same(&refused, &stage.member.attach(server, GONE).await, volume);
    });
}

#[test]
fn a_new_servers_volume_is_of_the_type_asked_for() {
    play_default(|stage| async move {
        let member = stage.member.speaking("2.90");
        let of_type = |kind: &str| {
            let mut root = device("image", stage.image, 0);
            root["volume_type"] = json!(kind);
            NewServer::of_image(stage.image).with("block_device_mapping_v2", json!([root]))
        };
        let refused = of_type("gold").ask(&member).await.expect(400);
        assert_eq!(refused.message(), "Volume type gold could not be found.");
        let server = stage.create(of_type("local-multiattach")).await;
        let attached = member.get(&format!("/servers/{server}/os-volume_attachments")).await.expect(200);
        let volume = attached.body["volumeAttachments"][0]["volumeId"].as_str().expect("a volume").to_owned();
        let shown = member.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200).body["volume"].clone();
        assert_eq!((&shown["volume_type"], &shown["multiattach"]), (&json!("local-multiattach"), &json!(true)));
    });
}

#[test]
fn a_request_names_a_bounded_number_of_things() {
    play_default(|stage| async move {
        let many = |one: Value| Value::Array(vec![one; 129]);
        for (key, entries) in [
            ("security_groups", many(json!({"name": "default"}))),
            ("networks", many(json!({"uuid": GONE}))),
            ("block_device_mapping_v2", many(device("volume", GONE, 1))),
        ] {
            let refused = stage.server().with(key, entries).ask(&stage.member).await.expect(400);
            assert!(refused.message().contains(key), "{}", refused.text);
            assert!(refused.text.len() < 1000, "a refusal does not repeat the body");
        }
        let server = stage.create(stage.server()).await;
        let metadata: serde_json::Map<String, Value> = (0..129).map(|at| (format!("k{at}"), json!("v"))).collect();
        let refused = stage.member.act(server, json!({"rebuild": {"imageRef": stage.image, "metadata": metadata}})).await.expect(403);
        assert!(refused.message().contains("metadata_items"), "{}", refused.text);
        let files = vec![json!({"path": "/a", "contents": "YQ=="}); 6];
        let rebuild = json!({"rebuild": {"imageRef": stage.image, "personality": files}});
        let refused = stage.member.speaking("2.56").act(server, rebuild).await.expect(403);
        assert!(refused.message().contains("injected_files"), "{}", refused.text);
        let refused = stage.server().with("min_count", json!(1001)).ask(&stage.member).await.expect(400);
        assert!(refused.message().contains("at most 1000 servers"), "{}", refused.text);
    });
}

#[test]
fn a_tag_of_any_characters_is_stored_and_named() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        for (tag, stored) in [("a%0Ab", "a\nb"), ("%C3%BC", "ü"), ("two%20words", "two words")] {
            let added = stage.member.put(&format!("/servers/{server}/tags/{tag}"), Value::Null).await.expect(201);
            let location = added.headers["Location"].to_str().expect("text").to_owned();
            assert!(location.ends_with(&format!("/tags/{tag}")), "{location}");
            let tags = stage.member.get(&format!("/servers/{server}/tags")).await.expect(200);
            assert!(tags.body["tags"].as_array().expect("tags").contains(&json!(stored)), "{}", tags.text);
        }
    });
}

#[test]
fn a_null_character_is_refused_before_a_database_is_asked() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let nul = "a\u{0}b";
        for (path, body) in [
            ("/servers", stage.server().flavor(nul).body()),
            ("/servers", stage.server().named(nul).body()),
            ("/servers", stage.server().with("metadata", json!({nul: "x"})).body()),
            ("/os-server-groups", json!({"server_group": {"name": nul, "policy": "affinity"}})),
            ("/volume/v3/volumes", json!({"volume": {"size": 1, "name": nul}})),
            ("/image/v2/images", json!({"name": nul})),
            ("/network/v2.0/networks", json!({"network": {"name": nul}})),
            ("/identity/v3/auth/tokens", json!({"auth": {"identity": {"methods": [nul]}}})),
        ] {
            let refused = stage.member.post(path, body).await.expect(400);
            assert!(refused.text.contains("null character"), "{path}: {}", refused.text);
        }
        for path in ["/servers/%00", "/flavors/a%00", "/os-keypairs/%00", "/image/v2/images/%00", "/volume/v3/volumes/%00"] {
            stage.member.get(path).await.expect(404);
        }
        stage.member.put(&format!("/servers/{server}/tags/%00"), Value::Null).await.expect(404);
        for path in ["/servers?name=%00", "/image/v2/images?name=%00", "/network/v2.0/ports?name=%00", "/volume/v3/volumes?name=%00"] {
            stage.member.get(path).await.expect(400);
        }
    });
}

#[test]
fn quotas_are_of_projects_that_exist() {
    play_default(|stage| async move {
        let set = json!({"quota_set": {"instances": 5}});
        let refused = stage.admin.put("/os-quota-sets/nobody", set.clone()).await.expect(400);
        assert_eq!(refused.message(), "Project ID nobody is not a valid project.");
        for path in ["/os-quota-sets/nobody", "/os-quota-sets/nobody/detail", "/os-quota-sets/nobody/defaults"] {
            stage.admin.get(path).await.expect(400);
        }
        let project = stage.running.cloud.services.identity.ensure_project("demo").await.expect("a project").id;
        stage.admin.put(&format!("/os-quota-sets/{project}"), set.clone()).await.expect(200);
        // Longer than an index of PostgreSQL allows.
        let of_user = format!("/os-quota-sets/{project}?user_id={}", "x".repeat(9000));
        stage.admin.put(&of_user, set).await.expect(400);
        stage.make_flavor("theirs", 1, 1024, 1).await;
        let access = json!({"addTenantAccess": {"tenant": "nobody"}});
        stage.admin.post("/flavors/theirs/action", access).await.expect(400);
    });
}

#[test]
fn a_list_of_servers_takes_a_bounded_query() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let numbered = |count: usize| (0..count).map(|at| format!("t{at}")).collect::<Vec<_>>().join(",");
        for filter in ["tags", "tags-any", "not-tags", "not-tags-any"] {
            stage.member.get(&format!("/servers?{filter}={}", numbered(50))).await.expect(200);
            // Each condition contains the next one: enough of them would exceed a thread's stack.
            let refused = stage.member.get(&format!("/servers?{filter}={}", numbered(8_000))).await.expect(400);
            assert!(refused.message().contains("50 are allowed"), "{}", refused.text);
        }
        let sorted = format!("/servers?{}", vec!["sort_key=display_name&sort_key=uuid"; 1000].join("&"));
        let listed = stage.member.get(&sorted).await.expect(200);
        assert_eq!(listed.body["servers"][0]["id"], json!(server));
        stage.member.get(&format!("/servers?{}", vec!["status=ACTIVE"; 4000].join("&"))).await.expect(200);
        stage.member.get("/servers?name=(a%7B1,100%7D)%7B1,100%7D").await.expect(200);
        stage.member.get("/servers?name=((a%7B1,100%7D)%7B1,100%7D)%7B1,100%7D").await.expect(400);
    });
}

#[test]
fn an_operation_reads_images_with_its_callers_rights() {
    use cellshift::domain::context::RequestContext;
    use cellshift::saga::context::{Context, Request};
    play_default(|stage| async move {
        let stranger = stage.user("sam", "elsewhere", "member").await;
        let theirs = image(&stage, &stranger, true).await;
        let identity = &stage.running.cloud.services.identity;
        for (project, admitted) in [("demo", false), ("elsewhere", true)] {
            let project_id = identity.ensure_project(project).await.expect("a project").id;
            let caller = RequestContext { project_id, roles: vec!["member".into()], ..RequestContext::default() };
            let context = Context::new(Uuid::from_u128(1), caller, Uuid::from_u128(2), Request::Start);
            assert_eq!(stage.world().usable_image(&context, theirs).await.is_ok(), admitted, "{project}");
            stage.world().usable_image(&context, stage.image).await.expect("a public image");
        }
    });
}
