//! How a server is brought to the beginning of each saga, and what is asked of it then. A saga without a line here fails the
//! suite.

use std::future::Future;
use std::pin::Pin;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::cloud::Cloud;

/// Where an operation begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beginning {
    /// There is no server.
    Nothing,
    Active,
    Stopped,
    /// Moved within its cell, to be confirmed.
    ResizedWithin,
    /// Moved to another cell, to be confirmed.
    ResizedAcross,
    /// ACTIVE, with a volume at hand that is not attached.
    WithSpareVolume,
    /// ACTIVE, with a second volume attached.
    WithSecondVolume,
}

/// Asks for the operation; gives the server (which a create makes) when it is accepted.
type Ask = for<'a> fn(&'a Cloud, &'a Begun) -> Pin<Box<dyn Future<Output = Uuid> + 'a>>;

/// A server at the beginning of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// Nil when there is none.
    pub server: Uuid,
    /// The volume that an attach or a detach is about.
    pub volume: Uuid,
}

/// One way through a saga.
pub struct Scenario {
    /// The saga's name in the register.
    pub saga: &'static str,
    pub name: &'static str,
    pub beginning: Beginning,
    pub ask: Ask,
}

macro_rules! action {
    ($body:tt) => {
        |cloud, begun| {
            Box::pin(async move {
                cloud.act(begun.server, json!($body)).await;
                begun.server
            })
        }
    };
}

/// Every scenario; each registered saga has one at least.
pub const ALL: &[Scenario] = &[
    Scenario { saga: "create", name: "create", beginning: Beginning::Nothing, ask: |cloud, _| Box::pin(cloud.ask_for_server()) },
    Scenario { saga: "delete", name: "delete", beginning: Beginning::Active, ask: delete },
    Scenario { saga: "delete", name: "delete_resized", beginning: Beginning::ResizedAcross, ask: delete },
    Scenario { saga: "start", name: "start", beginning: Beginning::Stopped, ask: action!({"os-start": null}) },
    Scenario { saga: "stop", name: "stop", beginning: Beginning::Active, ask: action!({"os-stop": null}) },
    Scenario { saga: "soft_reboot", name: "soft_reboot", beginning: Beginning::Active, ask: action!({"reboot": {"type": "SOFT"}}) },
    Scenario { saga: "hard_reboot", name: "hard_reboot", beginning: Beginning::Active, ask: action!({"reboot": {"type": "HARD"}}) },
    Scenario {
        saga: "rebuild",
        name: "rebuild",
        beginning: Beginning::Active,
        ask: |cloud, begun| {
            Box::pin(async move {
                cloud.act(begun.server, json!({"rebuild": {"imageRef": cloud.image()}})).await;
                begun.server
            })
        },
    },
    Scenario {
        saga: "same_cell_resize",
        name: "same_cell_resize",
        beginning: Beginning::Active,
        ask: action!({"resize": {"flavorRef": "gen1.large"}}),
    },
    Scenario {
        saga: "cross_cell_resize",
        name: "cross_cell_resize",
        beginning: Beginning::Active,
        ask: action!({"resize": {"flavorRef": "gen2.large"}}),
    },
    Scenario {
        saga: "cross_cell_resize",
        name: "cross_cell_resize_stopped",
        beginning: Beginning::Stopped,
        ask: action!({"resize": {"flavorRef": "gen2.large"}}),
    },
    Scenario { saga: "confirm", name: "confirm", beginning: Beginning::ResizedAcross, ask: action!({"confirmResize": null}) },
    Scenario { saga: "confirm", name: "confirm_same_cell", beginning: Beginning::ResizedWithin, ask: action!({"confirmResize": null}) },
    Scenario { saga: "revert", name: "revert", beginning: Beginning::ResizedAcross, ask: action!({"revertResize": null}) },
    Scenario { saga: "revert", name: "revert_same_cell", beginning: Beginning::ResizedWithin, ask: action!({"revertResize": null}) },
    Scenario {
        saga: "attach_volume",
        name: "attach_volume",
        beginning: Beginning::WithSpareVolume,
        ask: |cloud, begun| {
            Box::pin(async move {
                attach(cloud, begun.server, begun.volume).await;
                begun.server
            })
        },
    },
    Scenario {
        saga: "detach_volume",
        name: "detach_volume",
        beginning: Beginning::WithSecondVolume,
        ask: |cloud, begun| {
            Box::pin(async move {
                let path = format!("/compute/v2.1/servers/{}/os-volume_attachments/{}", begun.server, begun.volume);
                let (status, body) = cloud.send("DELETE", &path, None).await;
                assert_eq!(status, 202, "{body}");
                begun.server
            })
        },
    },
];

fn delete<'a>(cloud: &'a Cloud, begun: &'a Begun) -> Pin<Box<dyn Future<Output = Uuid> + 'a>> {
    Box::pin(async move {
        let (status, body) = cloud.send("DELETE", &format!("/compute/v2.1/servers/{}", begun.server), None).await;
        assert_eq!(status, 204, "{body}");
        begun.server
    })
}

async fn attach(cloud: &Cloud, server: Uuid, volume: Uuid) {
    let path = format!("/compute/v2.1/servers/{server}/os-volume_attachments");
    let body: Value = json!({"volumeAttachment": {"volumeId": volume}});
    let (status, body) = cloud.send("POST", &path, Some(body)).await;
    assert!(status == 200 || status == 202, "{status}: {body}");
}

/// Makes a server and brings it to where the operation begins.
pub async fn begin(cloud: &Cloud, beginning: Beginning) -> Begun {
    let mut begun = Begun { server: Uuid::nil(), volume: Uuid::nil() };
    if beginning == Beginning::Nothing {
        return begun;
    }
    begun.server = cloud.ask_for_server().await;
    assert!(cloud.at_rest(begun.server).await, "a server is made");
    let action = match beginning {
        Beginning::Stopped => Some(json!({"os-stop": null})),
        Beginning::ResizedWithin => Some(json!({"resize": {"flavorRef": "gen1.large"}})),
        Beginning::ResizedAcross => Some(json!({"resize": {"flavorRef": "gen2.large"}})),
        Beginning::Nothing | Beginning::Active | Beginning::WithSpareVolume | Beginning::WithSecondVolume => None,
    };
    if let Some(action) = action {
        cloud.act(begun.server, action).await;
    }
    if matches!(beginning, Beginning::WithSpareVolume | Beginning::WithSecondVolume) {
        begun.volume = cloud.make_volume().await;
    }
    if beginning == Beginning::WithSecondVolume {
        attach(cloud, begun.server, begun.volume).await;
    }
    assert!(cloud.at_rest(begun.server).await, "the server comes to its beginning");
    begun
}
