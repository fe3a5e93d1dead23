//! The stored form of contexts: read as it was stored, also in the form of release 0.1.0, and refused where it fits no operation.

use serde_json::{Value, json};

use super::*;
use crate::domain::flavor::Flavor;
use crate::domain::zone_request::ZoneRequest;
use crate::saga::error::StepError;
use crate::saga::step::misplaced;

fn of(request: Request) -> Context {
    let mut context = Context::new(Uuid::from_u128(1), RequestContext::default(), Uuid::from_u128(2), request);
    context.ports.push(PortLink { port_id: Uuid::from_u128(3), mac: "fa:16:3e:00:00:01".into(), made_for_server: true });
    context.lease_epoch = i64::MAX;
    context
}

fn resize() -> Request {
    let flavor = Box::new(Flavor { id: "1".into(), name: "small".into(), ..Flavor::default() });
    Request::Resize(Box::new(ResizeRequest { flavor, migrate: true, host: Some("host1".into()), cross_cell_allowed: true }))
}

fn evacuate() -> Request {
    Request::Evacuate(Box::new(EvacuateRequest {
        host: Some("host1".into()),
        bypasses_scheduler: true,
        forced: true,
        stays_off: true,
        image_id: Some(Uuid::from_u128(5)),
        config_drive: json!({"name": "web"}),
        sealed: None,
    }))
}

fn every_request() -> Vec<Request> {
    let attach = AttachRequest { volume_id: Uuid::from_u128(4), device_name: None, tag: Some("data".into()), delete_on_termination: true };
    vec![
        Request::Delete,
        Request::Start,
        Request::Stop,
        Request::Reboot { hard: true },
        resize(),
        Request::Confirm(ConfirmRequest { automatic: true, migration: None }),
        Request::Revert,
        evacuate(),
        Request::AttachVolume(attach),
        Request::DetachVolume(DetachRequest { volume_id: Uuid::from_u128(4) }),
        Request::Shelve(ShelveRequest { offload: true }),
        Request::ShelveOffload,
        Request::Unshelve(Box::new(UnshelveRequest {
            zone: ZoneRequest::Unpinned,
            host: Some("host1".into()),
            limits: None,
            user_limits: [("cores".to_owned(), 4)].into(),
            cross_cell_allowed: true,
        })),
    ]
}

#[test]
fn each_context_is_read_as_it_was_stored() {
    for request in every_request() {
        let context = of(request);
        let stored = serde_json::to_string(&context).unwrap();
        assert_eq!(serde_json::from_str::<Context>(&stored).unwrap(), context, "{stored}");
    }
}

/// Release 0.1.0 stored every field for every kind, and the request beside them.
#[test]
fn a_context_with_every_field_is_read_as_its_kind() {
    let mut stored = serde_json::to_value(of(resize())).unwrap();
    let fields = json!({"volumes_to_delete": [], "running_before_move": false, "awaits_confirm": false});
    stored.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    assert_eq!(serde_json::from_value::<Context>(stored.clone()).unwrap(), of(resize()));
    stored["kind"] = json!("revert");
    assert!(matches!(serde_json::from_value(stored).unwrap(), Context::Revert(_)));
}

#[test]
fn a_context_of_no_kind_or_with_anothers_request_is_unreadable() {
    let stored = serde_json::to_value(of(Request::Start)).unwrap();
    for (key, value) in [("kind", json!("teleport")), ("kind", Value::Null), ("request", json!("Delete")), ("server", json!(7))] {
        let mut wrong = stored.clone();
        wrong[key] = value;
        assert!(serde_json::from_value::<Context>(wrong).is_err(), "{key}");
    }
}

#[test]
fn each_kind_is_read_by_its_own_word() {
    for kind in Kind::ALL {
        assert_eq!(Kind::parse(kind.as_str()), Some(*kind));
        assert_eq!(serde_json::from_value::<Kind>(json!(kind)).unwrap(), *kind);
        assert_eq!(json!(kind), json!(kind.as_str()));
    }
}

#[test]
fn a_stored_context_has_what_release_0_1_0_demands() {
    for request in every_request() {
        assert_eq!(serde_json::to_value(of(request)).unwrap()["settling"], json!(false));
    }
}

#[test]
fn a_step_sees_the_part_of_its_own_operation_only() {
    let mut context = of(Request::Revert);
    assert!(Revert::of(&mut context).is_some() && ServerFacts::of(&mut context).is_some());
    assert!(Confirm::of(&mut context).is_none() && Resize::of(&mut context).is_none());
    assert!(matches!(misplaced(), StepError::Refused(_)));
}
