//! Tests of volume types as administrators and users of projects use them.

use cellshift_embedded::testkit;
use serde_json::{Value, json};

use crate::door::with_users;
use crate::volume::testing::ask;

fn names(list: &Value) -> Vec<&str> {
    list["volume_types"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[actix_web::test]
async fn a_type_is_made_changed_used_and_deleted() {
    let (_world, app, demo, admin) = with_users(testkit::world().await).await;
    let new = json!({"volume_type": {"name": "gold", "description": "fast", "extra_specs": {"multiattach": "<is> True"}}});
    assert_eq!(ask!(app, demo, POST "/types", new.clone()).0, 403);
    let (status, made) = ask!(app, admin, POST "/types", new.clone());
    assert_eq!((status, &made["volume_type"]["is_public"]), (200, &json!(true)));
    assert_eq!(ask!(app, admin, POST "/types", new).0, 409, "the name is taken");
    let id = made["volume_type"]["id"].as_str().unwrap().to_owned();
    let path = format!("/types/{id}");
    assert_eq!(names(&ask!(app, demo, GET "/types", Value::Null).1), ["local", "local-multiattach", "gold"]);
    assert_eq!(ask!(app, demo, GET "/types/gold", Value::Null).0, 404, "clients look a name up in the list");
    assert_eq!(ask!(app, demo, GET "/types/default", Value::Null).1["volume_type"]["name"], "local");

    let (_, volume) = ask!(app, demo, POST "/volumes", json!({"volume": {"size": 1, "volume_type": "gold"}}));
    assert_eq!((&volume["volume"]["volume_type"], &volume["volume"]["multiattach"]), (&json!("gold"), &json!(true)));
    let (status, renamed) = ask!(app, admin, PUT path, json!({"volume_type": {"name": "silver", "description": null}}));
    assert_eq!((status, &renamed["volume_type"]["description"]), (200, &Value::Null));
    let volume = format!("/volumes/{}", volume["volume"]["id"].as_str().unwrap());
    assert_eq!(ask!(app, demo, GET volume, Value::Null).1["volume"]["volume_type"], "silver");
    let (status, used) = ask!(app, admin, DELETE path, Value::Null);
    assert_eq!((status, &used["badRequest"]["message"]), (400, &json!("Target volume type is still in use.")));
    while ask!(app, demo, GET volume, Value::Null).1["volume"]["status"] != "available" {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask!(app, demo, DELETE volume, Value::Null).0, 202);
    assert_eq!(ask!(app, admin, DELETE path, Value::Null).0, 202);
    assert_eq!(ask!(app, admin, GET path, Value::Null).0, 404);
}

#[actix_web::test]
async fn a_private_type_is_for_projects_with_access() {
    let (world, app, demo, admin) = with_users(testkit::world().await).await;
    let project = world.identity.ensure_project("demo").await.unwrap().id;
    let new = json!({"volume_type": {"name": "secret", "os-volume-type-access:is_public": false}});
    let made = ask!(app, admin, POST "/types", new).1;
    let path = format!("/types/{}", made["volume_type"]["id"].as_str().unwrap());
    let volume = json!({"volume": {"size": 1, "volume_type": "secret"}});
    assert_eq!(ask!(app, demo, GET path, Value::Null).0, 404);
    assert_eq!(ask!(app, demo, POST "/volumes", volume.clone()).0, 404);
    assert_eq!(names(&ask!(app, admin, GET "/types?is_public=None", Value::Null).1).len(), 3);
    assert_eq!(names(&ask!(app, admin, GET "/types?is_public=false", Value::Null).1), ["secret"]);
    let grant = json!({"addProjectAccess": {"project": project}});
    for status in [202, 409] {
        assert_eq!(ask!(app, admin, POST format!("{path}/action"), grant.clone()).0, status);
    }
    let access = ask!(app, admin, GET format!("{path}/os-volume-type-access"), Value::Null).1;
    assert_eq!(access["volume_type_access"][0]["project_id"], project.as_str());
    assert_eq!(ask!(app, demo, GET path, Value::Null).0, 200);
    assert_eq!(ask!(app, demo, POST "/volumes", volume).0, 202);
    for status in [202, 404] {
        let revoke = json!({"removeProjectAccess": {"project": project}});
        assert_eq!(ask!(app, admin, POST format!("{path}/action"), revoke).0, status);
    }
    let public = ask!(app, admin, GET "/types/default", Value::Null).1;
    let public = format!("/types/{}", public["volume_type"]["id"].as_str().unwrap());
    assert_eq!(ask!(app, admin, POST format!("{public}/action"), grant).0, 409, "everybody may use a public type");
    assert_eq!(ask!(app, admin, GET format!("{public}/os-volume-type-access"), Value::Null).0, 404);
}

#[actix_web::test]
async fn extra_specs_are_changed_by_key_and_judged() {
    let (_world, app, demo, admin) = with_users(testkit::world().await).await;
    let made = ask!(app, admin, POST "/types", json!({"volume_type": {"name": "gold"}})).1;
    let path = format!("/types/{}", made["volume_type"]["id"].as_str().unwrap());
    let specs = format!("{path}/extra_specs");
    assert_eq!(ask!(app, demo, POST specs, json!({"extra_specs": {"a": "1"}})).0, 403);
    assert_eq!(ask!(app, admin, POST specs, json!({"extra_specs": {"a": "1"}})).1, json!({"extra_specs": {"a": "1"}}));
    assert_eq!(ask!(app, admin, PUT format!("{specs}/b:c"), json!({"b:c": "2"})).1, json!({"b:c": "2"}));
    assert_eq!(ask!(app, demo, GET specs, Value::Null).1, json!({"extra_specs": {"a": "1", "b:c": "2"}}));
    assert_eq!(ask!(app, admin, DELETE format!("{specs}/a"), Value::Null).0, 202);
    assert_eq!(ask!(app, admin, GET format!("{specs}/a"), Value::Null).0, 404);
    for bad in [json!({"": "v"}), json!({"a/b": "v"}), json!({"k": "v".repeat(256)}), json!({"k": 1})] {
        assert_eq!(ask!(app, admin, POST specs, json!({"extra_specs": bad})).0, 400, "{bad:.40}");
    }
    for bad in [json!({}), json!({"name": ""}), json!({"name": "x".repeat(256)}), json!({"name": "a", "is_public": "perhaps"})] {
        assert_eq!(ask!(app, admin, PUT path, json!({"volume_type": bad})).0, 400, "{bad:.40}");
    }
    let default = ask!(app, admin, GET "/types/default", Value::Null).1;
    let default = format!("/types/{}", default["volume_type"]["id"].as_str().unwrap());
    assert_eq!(ask!(app, admin, DELETE default, Value::Null).0, 400);
    assert_eq!(ask!(app, admin, PUT default, json!({"volume_type": {"name": "other"}})).0, 400);
}

#[actix_web::test]
async fn a_project_has_a_default_type_of_its_own() {
    let (world, app, demo, admin) = with_users(testkit::world().await).await;
    let project = world.identity.ensure_project("demo").await.unwrap().id;
    let path = format!("/default-types/{project}");
    let body = |name: &str| json!({"default_type": {"volume_type": name}});
    assert_eq!(ask!(app, admin, PUT path, body("local")).0, 404, "before 3.62");
    let made = ask!(app, admin, POST "/types", json!({"volume_type": {"name": "gold"}})).1;
    let gold = made["volume_type"]["id"].as_str().unwrap().to_owned();
    assert_eq!(ask!(app, demo, "3.62", PUT path, body("gold")).0, 403);
    assert_eq!(ask!(app, admin, "3.62", GET path, Value::Null).0, 404, "none is set");
    assert_eq!(ask!(app, admin, "3.62", PUT path, body("tin")).0, 400, "there is no such type");
    assert_eq!(ask!(app, admin, "3.62", PUT "/default-types/nobody", body("gold")).0, 400, "there is no such project");
    let view = json!({"project_id": project, "volume_type_id": gold});
    for name in ["local", "gold", gold.as_str()] {
        assert_eq!(ask!(app, admin, "3.62", PUT path, body(name)).0, 200);
    }
    assert_eq!(ask!(app, admin, "3.62", GET path, Value::Null), (200, json!({"default_type": view})));
    assert_eq!(ask!(app, admin, "3.62", GET "/default-types", Value::Null), (200, json!({"default_types": [view]})));
    assert_eq!(ask!(app, demo, GET "/types/default", Value::Null).1["volume_type"]["name"], "gold");
    assert_eq!(ask!(app, admin, GET "/types/default", Value::Null).1["volume_type"]["name"], "local", "of another project");
    let volume = ask!(app, demo, POST "/volumes", json!({"volume": {"size": 1}})).1;
    assert_eq!(volume["volume"]["volume_type"], "gold");

    let (status, refused) = ask!(app, admin, DELETE format!("/types/{gold}"), Value::Null);
    let text = format!("The volume type {gold} is a default volume type and cannot be deleted.");
    assert_eq!((status, &refused["badRequest"]["message"]), (400, &json!(text)));
    for _ in 0..2 {
        assert_eq!(ask!(app, admin, "3.62", DELETE path, Value::Null).0, 204);
    }
    assert_eq!(ask!(app, demo, GET "/types/default", Value::Null).1["volume_type"]["name"], "local");
}
