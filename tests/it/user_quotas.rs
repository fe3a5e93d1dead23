//! Quotas of a user: they hold beside those of the project, for everything that a user can use up.

use std::sync::Arc;

use cellshift::config::Config;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, User, id_of};
use crate::stage::{Stage, play};

const PUBLIC_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti user@example.com";

/// Two members of project demo. Only alice gets limits of her own.
struct Pair {
    stage: Arc<Stage>,
    alice: User,
    bob: User,
    /// The path of the project's quota.
    of_project: String,
    of_alice: String,
}

impl Pair {
    async fn meet(stage: &Arc<Stage>) -> Pair {
        let (alice, bob) = (stage.user("alice", "demo", "member").await, stage.user("bob", "demo", "member").await);
        let project = stage.running.cloud.services.identity.ensure_project("demo").await.expect("a project").id;
        let users = stage.admin.get("/identity/v3/users?name=alice").await.expect(200).body;
        let of_project = format!("/os-quota-sets/{project}");
        let of_alice = format!("{of_project}?user_id={}", users["users"][0]["id"].as_str().expect("an id"));
        Pair { stage: stage.clone(), alice, bob, of_project, of_alice }
    }

    async fn set(&self, path: &str, limits: Value) -> Answer {
        self.stage.admin.speaking("2.56").put(path, json!({"quota_set": limits})).await
    }

    /// Gives alice limits of her own.
    async fn limit(&self, limits: Value) {
        self.set(&self.of_alice, limits).await.expect(200);
    }

    async fn make(&self, user: &User) -> Uuid {
        self.stage.create_by(user, self.stage.server().flavor("m1.tiny")).await
    }

    /// Checks that alice is refused a server because of her own limits.
    async fn refused(&self, user: &User) -> String {
        let refused = self.stage.server().flavor("m1.tiny").ask(user).await.expect(403);
        refused.message().to_owned()
    }
}

fn counting(from_placement: bool) -> impl FnOnce(&mut Config) {
    move |config| {
        config.quota.count_usage_from_placement = from_placement;
        config.http.workers = 4;
    }
}

#[test]
fn a_users_servers_stay_within_their_own_quota() {
    for from_placement in [false, true] {
        play(counting(from_placement), |stage| async move {
            let pair = Pair::meet(&stage).await;
            pair.set(&pair.of_project, json!({"instances": 4})).await.expect(200);
            pair.limit(json!({"instances": 2})).await;
            let first = pair.make(&pair.alice).await;
            pair.make(&pair.alice).await;
            let why = pair.refused(&pair.alice).await;
            assert_eq!(why, "Quota exceeded for instances: Requested 1, but already used 2 of 2 instances by this user");
            pair.make(&pair.bob).await;
            pair.make(&pair.bob).await;
            let why = pair.refused(&pair.bob).await;
            assert_eq!(why, "Quota exceeded for instances: Requested 1, but already used 4 of 4 instances");
            pair.alice.delete(&format!("/servers/{first}")).await.expect(204);
            stage.gone(first).await;
            pair.make(&pair.bob).await;
            pair.set(&pair.of_project, json!({"instances": 9})).await.expect(200);
            pair.make(&pair.alice).await;
            pair.refused(&pair.alice).await;
            stage.admin.delete(&pair.of_alice).await.expect(202);
            pair.make(&pair.alice).await;
        });
    }
}

#[test]
fn creates_at_once_stay_within_a_users_quota() {
    for (from_placement, limits) in [(false, json!({"instances": 3})), (false, json!({"cores": 3})), (true, json!({"ram": 192}))] {
        play(counting(from_placement), |stage| async move {
            let pair = Pair::meet(&stage).await;
            stage.make_flavor("small", 1, 64, 1).await;
            pair.limit(limits.clone()).await;
            let new = |user: &User| {
                let (new, user) = (stage.server().flavor("small"), user.clone());
                async move { new.ask(&user).await }
            };
            let of_alice = futures::future::join_all((0..8).map(|_| new(&pair.alice)));
            let of_bob = futures::future::join_all((0..4).map(|_| new(&pair.bob)));
            let (of_alice, of_bob) = futures::future::join(of_alice, of_bob).await;
            let made: Vec<Uuid> =
                of_alice.iter().filter(|answer| answer.status == 202).map(|answer| id_of(&answer.body["server"])).collect();
            assert_eq!(made.len(), 3, "{limits}");
            for refused in of_alice.iter().filter(|answer| answer.status != 202) {
                assert!(refused.status == 403 && refused.message().ends_with("by this user"), "{}", refused.text);
            }
            let of_bob: Vec<Uuid> = of_bob.into_iter().map(|answer| id_of(&answer.expect(202).body["server"])).collect();
            for server in made.into_iter().chain(of_bob) {
                stage.at_rest(server, "ACTIVE").await;
            }
        });
    }
}

#[test]
fn a_growing_server_counts_for_the_user_who_made_it() {
    play(counting(false), |stage| async move {
        let pair = Pair::meet(&stage).await;
        stage.make_flavor("narrow", 1, 64, 1).await;
        stage.make_flavor("broad", 3, 64, 1).await;
        pair.limit(json!({"cores": 3})).await;
        let new = || stage.server().flavor("narrow");
        let server = stage.create_by(&pair.alice, new()).await;
        let other = stage.create_by(&pair.alice, new().named("other")).await;
        // Whoever asks: the server is alice's.
        for user in [&pair.alice, &pair.bob] {
            let refused = user.resize(server, "broad").await.expect(403);
            assert_eq!(refused.message(), "Quota exceeded for cores: Requested 2, but already used 2 of 3 cores by this user");
        }
        pair.alice.delete(&format!("/servers/{other}")).await.expect(204);
        stage.gone(other).await;
        pair.alice.resize(server, "broad").await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        pair.alice.confirm(server).await.expect(204);
        stage.at_rest(server, "ACTIVE").await;

        // A revert to a larger flavor makes a server grow, too.
        pair.alice.resize(server, "narrow").await.expect(202);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        let another = stage.create_by(&pair.alice, new().named("another")).await;
        let refused = pair.alice.revert(server).await.expect(403);
        assert!(refused.message().ends_with("but already used 2 of 3 cores by this user"), "{}", refused.text);
        pair.alice.delete(&format!("/servers/{another}")).await.expect(204);
        stage.gone(another).await;
        pair.alice.revert(server).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn a_restore_needs_room_in_the_users_quota() {
    for from_placement in [false, true] {
        play(
            move |config| {
                counting(from_placement)(config);
                config.compute.reclaim_instance_interval = cellshift::config::Seconds::whole(3600);
            },
            |stage| async move {
                let pair = Pair::meet(&stage).await;
                pair.limit(json!({"instances": 1})).await;
                let first = pair.make(&pair.alice).await;
                pair.alice.delete(&format!("/servers/{first}")).await.expect(204);
                stage.at_rest(first, "SOFT_DELETED").await;
                let second = pair.make(&pair.alice).await;
                let refused = pair.alice.act(first, json!({"restore": null})).await.expect(403);
                assert!(refused.message().ends_with("but already used 1 of 1 instances by this user"), "{}", refused.text);
                pair.alice.act(second, json!({"forceDelete": null})).await.expect(202);
                stage.gone(second).await;
                pair.alice.act(first, json!({"restore": null})).await.expect(202);
                stage.at_rest(first, "ACTIVE").await;
            },
        );
    }
}

#[test]
fn an_unshelve_needs_room_in_the_users_quota() {
    play(counting(true), |stage| async move {
        let pair = Pair::meet(&stage).await;
        stage.make_flavor("two", 2, 64, 1).await;
        pair.limit(json!({"cores": 2})).await;
        let server = stage.create_by(&pair.alice, stage.server().flavor("two")).await;
        let shelve = async |server: Uuid| {
            pair.alice.act(server, json!({"shelve": null})).await.expect(202);
            stage.at_rest(server, "SHELVED_OFFLOADED").await;
        };
        let unshelve = async |server: Uuid| pair.alice.act(server, json!({"unshelve": null})).await;
        shelve(server).await;
        let other = stage.create_by(&pair.alice, stage.server().named("other").flavor("two")).await;
        let refused = unshelve(server).await.expect(403);
        assert!(refused.message().ends_with("but already used 2 of 2 cores by this user"), "{}", refused.text);

        // Of two that return at once, not both find room: each claim is counted again when it is made.
        shelve(other).await;
        let (one, two) = futures::future::join(unshelve(server), unshelve(other)).await;
        let accepted = [&one, &two].iter().filter(|answer| answer.status == 202).count();
        assert!(accepted >= 1, "{} {}", one.text, two.text);
        for server in [server, other] {
            stage.ended(server).await;
        }
        let statuses = [pair.alice.status(server).await, pair.alice.status(other).await];
        assert!(statuses.contains(&"SHELVED_OFFLOADED".to_owned()), "{statuses:?}");
    });
}

#[test]
fn key_pairs_and_groups_stay_within_a_users_quota() {
    play(counting(false), |stage| async move {
        let pair = Pair::meet(&stage).await;
        pair.limit(json!({"key_pairs": 2, "server_groups": 2, "server_group_members": 1})).await;
        let key = |user: &User, n: u32| {
            let (user, body) = (user.clone(), json!({"keypair": {"name": format!("k{n}"), "public_key": PUBLIC_KEY}}));
            async move { user.post("/os-keypairs", body).await }
        };
        let group = |user: &User, n: u32| {
            let (user, body) = (user.clone(), json!({"server_group": {"name": format!("g{n}"), "policy": "soft-affinity"}}));
            async move { user.post("/os-server-groups", body).await }
        };
        let keys = futures::future::join_all((0..6).map(|n| key(&pair.alice, n))).await;
        let groups = futures::future::join_all((0..6).map(|n| group(&pair.alice, n))).await;
        for (made, answers) in [(201, &keys), (200, &groups)] {
            assert_eq!(answers.iter().filter(|answer| answer.status == made).count(), 2);
            assert!(answers.iter().all(|answer| answer.status == made || (answer.status == 403 && answer.text.contains("too many"))));
        }
        for n in 0..3 {
            key(&pair.bob, n).await.expect(201);
            group(&pair.bob, n).await.expect(200);
        }
        let shared = id_of(&groups.iter().find(|answer| answer.status == 200).expect("a group").body["server_group"]);
        let new = || stage.server().flavor("m1.tiny").in_group(shared);
        stage.create_by(&pair.alice, new()).await;
        let refused = new().ask(&pair.alice).await.expect(403);
        assert_eq!(refused.message(), "Quota exceeded, too many servers in group");
        stage.create_by(&pair.bob, new()).await;
        stage.create_by(&pair.bob, new()).await;
    });
}

#[test]
fn metadata_and_files_stay_within_a_users_quota() {
    play(counting(false), |stage| async move {
        let pair = Pair::meet(&stage).await;
        let limits = json!({"metadata_items": 1, "injected_files": 1, "injected_file_path_bytes": 8, "injected_file_content_bytes": 4});
        pair.limit(limits).await;
        let old = |user: &User| user.speaking("2.56");
        let new = || stage.server().flavor("m1.tiny").with("networks", json!("none"));
        let two = json!({"a": "1", "b": "2"});
        let file = |path: &str, contents: &str| json!({"path": path, "contents": contents});
        for (key, value, word) in [
            ("metadata", two.clone(), "metadata_items"),
            ("personality", json!([file("/a", "aGk="), file("/b", "aGk=")]), "injected_files"),
            ("personality", json!([file("/too/long/a/path", "aGk=")]), "injected_file_path_bytes"),
            ("personality", json!([file("/a", "bG9uZ2Vy")]), "injected_file_content_bytes"),
        ] {
            let refused = new().with(key, value.clone()).ask(&old(&pair.alice)).await.expect(403);
            assert!(refused.message().contains(word), "{}", refused.text);
            let server = stage.create_by(&old(&pair.bob), new().with(key, value.clone())).await;
            let rebuild = json!({"rebuild": {"imageRef": stage.image, key: value}});
            let refused = old(&pair.alice).act(server, rebuild).await.expect(403);
            assert!(refused.message().contains(word), "{}", refused.text);
        }
        let server = pair.make(&pair.alice).await;
        let path = format!("/servers/{server}/metadata");
        pair.alice.post(&path, json!({"metadata": {"a": "1"}})).await.expect(200);
        pair.alice.post(&path, json!({"metadata": {"b": "2"}})).await.expect(403);
        pair.alice.put(&path, json!({"metadata": two})).await.expect(403);
        pair.alice.put(&format!("{path}/b"), json!({"meta": {"b": "2"}})).await.expect(403);
        pair.alice.act(server, json!({"createImage": {"name": "i", "metadata": two}})).await.expect(403);
        pair.bob.post(&path, json!({"metadata": {"b": "2"}})).await.expect(200);
    });
}

#[test]
fn the_figures_of_a_user_are_shown() {
    for from_placement in [false, true] {
        play(counting(from_placement), |stage| async move {
            let pair = Pair::meet(&stage).await;
            pair.set(&pair.of_project, json!({"instances": 4})).await.expect(200);
            pair.limit(json!({"instances": 3, "metadata_items": 5, "key_pairs": 7})).await;
            let shown = async |user: &User| {
                let body = user.get("/compute/v2.1/limits").await.expect(200).body;
                let figure = |name: &str| body["limits"]["absolute"][name].as_i64().expect("a number");
                ["totalInstancesUsed", "maxTotalInstances", "maxServerMeta", "maxTotalKeypairs"].map(figure)
            };
            pair.make(&pair.alice).await;
            assert_eq!(shown(&pair.alice).await, [1, 3, 5, 7], "her own limit leaves less");
            assert_eq!(shown(&pair.bob).await, [1, 4, 128, 100]);
            pair.make(&pair.bob).await;
            pair.make(&pair.bob).await;
            assert_eq!(shown(&pair.alice).await, [3, 4, 5, 7], "the project leaves less");
            let (path, query) = pair.of_alice.split_once('?').expect("a query");
            let detail = stage.admin.get(&format!("{path}/detail?{query}")).await.expect(200).body;
            assert_eq!(detail["quota_set"]["instances"], json!({"limit": 3, "in_use": 1, "reserved": 0}));
            assert_eq!(stage.admin.get(&pair.of_alice).await.expect(200).body["quota_set"]["instances"], 3);
            let project = stage.admin.get(&format!("{path}/detail")).await.expect(200).body;
            assert_eq!(project["quota_set"]["instances"], json!({"limit": 4, "in_use": 3, "reserved": 0}));
        });
    }
}

#[test]
fn users_limits_share_the_projects() {
    play(counting(false), |stage| async move {
        let pair = Pair::meet(&stage).await;
        let of_bob = format!("{}?user_id=bob", pair.of_project);
        pair.set(&pair.of_project, json!({"instances": 4})).await.expect(200);
        pair.set(&pair.of_alice, json!({"instances": 5})).await.expect(400);
        pair.set(&pair.of_alice, json!({"instances": -1})).await.expect(400);
        pair.limit(json!({"instances": 3})).await;
        let refused = pair.set(&of_bob, json!({"instances": 2})).await.expect(400);
        assert_eq!(refused.message(), "Quota limit 2 for instances must be less than or equal to 1.");
        pair.set(&of_bob, json!({"instances": 1})).await.expect(200);
        let refused = pair.set(&pair.of_project, json!({"instances": 3})).await.expect(400);
        assert_eq!(refused.message(), "Quota limit 3 for instances must be greater than or equal to already used and reserved 4.");
        pair.limit(json!({"instances": 2})).await;
        pair.set(&pair.of_project, json!({"instances": 3})).await.expect(200);
        pair.make(&pair.alice).await;
        pair.make(&pair.alice).await;
        pair.set(&pair.of_alice, json!({"instances": 1})).await.expect(400);
        pair.set(&pair.of_alice, json!({"instances": 1, "force": true})).await.expect(200);
        stage.admin.delete(&pair.of_project).await.expect(202);
        assert_eq!(stage.admin.get(&pair.of_alice).await.expect(200).body["quota_set"]["instances"], 10, "users' limits go along");
    });
}
