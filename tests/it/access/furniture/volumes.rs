//! Volumes and what belongs to them.

use serde_json::json;

use super::super::house::House;
use super::super::row::Body;

impl House {
    /// Makes a further volume, or a part of one.
    pub(super) async fn another_of_volumes(&self, kind: &str, name: String) -> String {
        match kind {
            "volume" => {
                let id = self
                    .make_as(
                        "member",
                        "POST",
                        "/volume/v3/volumes",
                        json!({"volume": {"size": 1, "name": name, "metadata": {"colour": "blue"}}}),
                        "/volume/id",
                    )
                    .await;
                self.rest().await;
                id
            }
            "snapshot" => {
                let body = json!({"snapshot": {"volume_id": self.names["volume"], "name": name, "metadata": {"colour": "blue"}}});
                let id = self.make_as("member", "POST", "/volume/v3/snapshots", body, "/snapshot/id").await;
                self.rest().await;
                id
            }
            "backup" => {
                let body = json!({"backup": {"volume_id": self.names["volume"], "name": name}});
                let id = self.make_as("member", "POST", "/volume/v3/backups", body, "/backup/id").await;
                self.rest().await;
                id
            }
            "volume_transfer" => {
                let offer = json!({"transfer": {"volume_id": Box::pin(self.another("volume")).await}});
                self.make_as("member", "POST", "/volume/v3/os-volume-transfer", offer, "/transfer/id").await
            }
            // About a volume that no backend can make.
            "message" => {
                let new = json!({"volume_type": {"name": name, "extra_specs": {"vendor_name": "nobody"}}});
                self.make_as("admin", "POST", "/volume/v3/types", new, "/volume_type/id").await;
                let body = json!({"volume": {"size": 1, "volume_type": name}});
                let volume = self.make_as("member", "POST", "/volume/v3/volumes", body, "/volume/id").await;
                self.rest().await;
                self.look(&format!("/volume/v3/messages?resource_uuid={volume}"), "/messages/0/id").await
            }
            // With metadata of an image.
            "coloured_volume" => {
                let volume = Box::pin(self.another("volume")).await;
                let set = json!({"os-set_image_metadata": {"metadata": {"colour": "blue"}}});
                self.done("POST", &format!("/volume/v3/volumes/{volume}/action"), "", Body::Json(set)).await;
                volume
            }
            other => self.another_attached(other, name).await,
        }
    }

    /// Makes a volume that is attached, or an attachment of it.
    async fn another_attached(&self, kind: &str, name: String) -> String {
        match kind {
            // Attached by a user, not by the compute service.
            "taken_volume" => {
                let volume = Box::pin(self.another("volume")).await;
                let attach = json!({"os-attach": {"host_name": "here", "mountpoint": "/dev/vdb"}});
                self.done("POST", &format!("/volume/v3/volumes/{volume}/action"), "", Body::Json(attach)).await;
                volume
            }
            // Of a user, with the host still to come, and with it.
            "reserved_attachment" | "connected_attachment" => {
                let volume = Box::pin(self.another("volume")).await;
                let mut body = json!({"attachment": {"volume_uuid": volume, "instance_uuid": self.names["server"]}});
                if kind == "connected_attachment" {
                    body["attachment"]["connector"] = json!({"host": "here"});
                }
                self.make_as("member", "POST", "/volume/v3/attachments", body, "/attachment/id").await
            }
            // Attached to the house's server; returns the volume's id.
            "attached_volume" => {
                let volume = Box::pin(self.another("volume")).await;
                let path = format!("/compute/v2.1/servers/{}/os-volume_attachments", self.names["server"]);
                let body = json!({"volumeAttachment": {"volumeId": volume}});
                self.make_as("member", "POST", &path, body, "/volumeAttachment/volumeId").await;
                self.rest().await;
                volume
            }
            // Attached to the house's server; returns the port's id.
            "interface" => {
                let path = format!("/compute/v2.1/servers/{}/os-interface", self.names["server"]);
                let body = json!({"interfaceAttachment": {"net_id": self.names["shared_network"]}});
                self.make_as("member", "POST", &path, body, "/interfaceAttachment/port_id").await
            }
            other => self.another_of_operators(other, name).await,
        }
    }
}
