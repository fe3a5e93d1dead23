//! The form of a notification on OpenStack's message bus, as oslo.messaging reads it.

use serde_json::{Value, json};

use super::Envelope;

/// Returns the body of the message: an envelope of version 2.0, in which the notification is JSON as text.
pub fn body(notification: &Envelope) -> String {
    let mut message = json!({
        "message_id": notification.message_id,
        "publisher_id": notification.publisher_id,
        "event_type": notification.event_type,
        "priority": notification.priority,
        "payload": notification.payload,
        "timestamp": notification.timestamp,
        // Equal for repetitions, as the message's id is.
        "_unique_id": notification.message_id.simple().to_string(),
    });
    let facts = &notification.payload["nova_object.data"];
    let context = [("request_id", "request_id"), ("user_id", "action_initiator_user"), ("project_id", "action_initiator_project")];
    for (key, fact) in context {
        if let Value::String(value) = &facts[fact] {
            message[format!("_context_{key}")] = value.as_str().into();
        }
    }
    json!({"oslo.version": "2.0", "oslo.message": message.to_string()}).to_string()
}

/// Returns the queue of a notification, whose name is its routing key, too.
pub fn queue(topic: &str, notification: &Envelope) -> String {
    format!("{topic}.{}", notification.priority.as_str().to_lowercase())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::notification::Priority;

    #[test]
    fn a_message_has_the_form_of_oslo_messaging() {
        let data = json!({"request_id": "req-1", "action_initiator_user": "me", "action_initiator_project": null});
        let notification = Envelope {
            sequence: 7,
            event_type: "instance.resize.error".into(),
            priority: Priority::Error,
            publisher_id: "nova-compute:h1".into(),
            timestamp: "2026-11-20 12:00:00.000000".into(),
            message_id: Uuid::from_u128(10),
            payload: json!({"nova_object.data": data}),
        };
        let envelope: Value = serde_json::from_str(&body(&notification)).unwrap();
        assert_eq!(envelope["oslo.version"], "2.0");
        let message: Value = serde_json::from_str(envelope["oslo.message"].as_str().unwrap()).unwrap();
        let expected = json!({
            "message_id": "00000000-0000-0000-0000-00000000000a", "_unique_id": "0000000000000000000000000000000a",
            "publisher_id": "nova-compute:h1", "event_type": "instance.resize.error", "priority": "ERROR",
            "timestamp": "2026-11-20 12:00:00.000000", "payload": {"nova_object.data": data},
            "_context_request_id": "req-1", "_context_user_id": "me",
        });
        assert_eq!(message, expected);
        assert_eq!(queue("versioned_notifications", &notification), "versioned_notifications.error");
    }
}
