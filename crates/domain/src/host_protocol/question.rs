//! The questions and notices that a host sends upwards, with their answers. Any controller may answer. The bytes of images go another way,
//! for which a host asks for a ticket here.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::fence::Fence;
use crate::reason::Reason;
use crate::secret::{Secret, in_clear};

/// The maximum number of servers in one [`HostQuestion::Forgotten`].
pub const FORGOTTEN_AT_ONCE: usize = 500;

/// The host that asks.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Asker {
    /// The name of the host's cell.
    pub cell: String,
    /// The host's name.
    pub host: String,
}

/// A host's question or notice to whoever is above it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum HostQuestion {
    /// Asks for the record of an image's bytes.
    Image {
        /// The image.
        image_id: Uuid,
    },
    /// Asks how far a port is plugged on the host.
    Plugging {
        /// The port.
        port_id: Uuid,
    },
    /// Tells that the host has plugged or unplugged a port.
    SetPlugged {
        /// The port.
        port_id: Uuid,
        /// False if the host has unplugged it.
        plugged: bool,
    },
    /// Asks whether the host may run a guest that it ran before it went away.
    MayRun {
        /// The guest's server.
        server: Uuid,
    },
    /// Asks whether no attempt later than this fence has begun for its server.
    IsLatest {
        /// The fence.
        fence: Fence,
    },
    /// Asks which of these servers the deployment has forgotten. At most [`FORGOTTEN_AT_ONCE`].
    Forgotten {
        /// The servers.
        servers: Vec<Uuid>,
    },
    /// Asks for the right to read an image's bytes over HTTP, or to store those of an image that has none. Refused unless an operation in
    /// flight of the server has this host do it.
    ImageTicket {
        /// The server whose operation needs the bytes.
        server: Uuid,
        /// The image.
        image_id: Uuid,
        /// True to store its bytes.
        write: bool,
    },
    /// Asks for the right to read what another host of the cell has exported of a server. Refused unless an operation in flight of the server
    /// has this host do it.
    ExportTicket {
        /// The server.
        server: Uuid,
        /// The name of the host that exported it.
        source: String,
    },
}

/// The answer to a [`HostQuestion`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum QuestionAnswer {
    /// Answers `Image`.
    Image(ImageBytes),
    /// Answers `Plugging`.
    Plugging(Plugging),
    /// Answers `SetPlugged`: it is recorded.
    Noted,
    /// Answers `MayRun`: the owner's epoch and the server's attempt counter if the host owns the server and its guest should run. None if
    /// another host owns it, the guest should be off, an operation has the server, or nobody can tell now; the host asks again later.
    MayRun(Option<(i64, i64)>),
    /// Answers `IsLatest`; none if nobody can tell now.
    IsLatest(Option<bool>),
    /// Answers `Forgotten`, with none of them if nobody can tell now.
    Forgotten(Vec<Uuid>),
    /// Answers `ImageTicket`.
    ImageTicket(ImageTicket),
    /// Answers `ExportTicket`; none if the export lies in a directory that both hosts share.
    ExportTicket(Option<ExportTicket>),
}

/// The right of one host to read or to store the bytes of one image, for a bounded time. A controller that was started since does not know
/// it: the host asks for another one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ImageTicket {
    /// The URL of the bytes.
    pub url: String,
    /// The secret, for the header [`TICKET_HEADER`]. Whoever has it has the host's right, so no log names it.
    #[serde(with = "in_clear")]
    pub secret: Secret<String>,
    /// The record of the image's bytes.
    pub bytes: ImageBytes,
}

/// The right of one host to read what another one has exported of one server, for a bounded time. A source that was started since does not
/// know it: the host asks for another one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExportTicket {
    /// The URL below which the export's disks and memory are, by their names.
    pub url: String,
    /// The secret, for the header [`TICKET_HEADER`].
    #[serde(with = "in_clear")]
    pub secret: Secret<String>,
}

/// The name of the header that has the secret of an [`ImageTicket`] or an [`ExportTicket`].
pub const TICKET_HEADER: &str = "x-cellshift-ticket";

/// The reason why a question has no answer, or an image was not read or stored. Each is a sentence for the operator.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum NeighbourError {
    /// The image or the port does not exist.
    #[error("{0}")]
    Missing(Reason),
    /// The state of the image or the port does not allow it.
    #[error("{0}")]
    Conflict(Reason),
    /// The service refuses for another reason, and will refuse again.
    #[error("{0}")]
    Refused(Reason),
    /// The service does not answer: whether it did the work is unknown.
    #[error("{0}")]
    Unavailable(Reason),
}

/// The record of an image's bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ImageBytes {
    /// Their number; none if it is not recorded.
    pub size: Option<u64>,
    /// Their SHA-256 in hex; none if it is not recorded.
    pub sha256: Option<String>,
}

/// How far a port is plugged on a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Plugging {
    /// The host has not plugged it.
    Unplugged,
    /// The host has plugged it, and the network has not confirmed that the port is active here.
    Plugged,
    /// The network has confirmed it: traffic flows.
    Confirmed,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn questions_and_answers_keep_their_form() {
        let id = Uuid::from_u128(1);
        let text = "00000000-0000-0000-0000-000000000001";
        let questions = [
            (HostQuestion::Image { image_id: id }, json!({"Image": {"image_id": text}})),
            (HostQuestion::Plugging { port_id: id }, json!({"Plugging": {"port_id": text}})),
            (HostQuestion::SetPlugged { port_id: id, plugged: true }, json!({"SetPlugged": {"port_id": text, "plugged": true}})),
            (HostQuestion::MayRun { server: id }, json!({"MayRun": {"server": text}})),
            (
                HostQuestion::IsLatest { fence: Fence { server: id, epoch: 2, attempt: 3 } },
                json!({"IsLatest": {"fence": {"server": text, "epoch": 2, "attempt": 3}}}),
            ),
            (HostQuestion::Forgotten { servers: vec![id] }, json!({"Forgotten": {"servers": [text]}})),
            (
                HostQuestion::ImageTicket { server: id, image_id: id, write: true },
                json!({"ImageTicket": {"server": text, "image_id": text, "write": true}}),
            ),
            (HostQuestion::ExportTicket { server: id, source: "a".into() }, json!({"ExportTicket": {"server": text, "source": "a"}})),
        ];
        for (question, form) in questions {
            assert_eq!(serde_json::to_value(&question).unwrap(), form);
            assert_eq!(serde_json::from_value::<HostQuestion>(form).unwrap(), question);
        }
        let bytes = ImageBytes { size: Some(7), sha256: None };
        let ticket = ImageTicket { url: "http://cloud/bytes".into(), secret: Secret::new("open".into()), bytes };
        let export = ExportTicket { url: "http://a/b".into(), secret: Secret::new("open".into()) };
        let form_of_ticket = json!({"url": "http://cloud/bytes", "secret": "open", "bytes": {"size": 7, "sha256": null}});
        let answers: [(Result<QuestionAnswer, NeighbourError>, Value); 7] = [
            (Ok(QuestionAnswer::ExportTicket(None)), json!({"Ok": {"ExportTicket": null}})),
            (Ok(QuestionAnswer::ExportTicket(Some(export))), json!({"Ok": {"ExportTicket": {"url": "http://a/b", "secret": "open"}}})),
            (Ok(QuestionAnswer::ImageTicket(ticket)), json!({"Ok": {"ImageTicket": form_of_ticket}})),
            (Ok(QuestionAnswer::MayRun(Some((4, 5)))), json!({"Ok": {"MayRun": [4, 5]}})),
            (Ok(QuestionAnswer::Noted), json!({"Ok": "Noted"})),
            (Ok(QuestionAnswer::Plugging(Plugging::Confirmed)), json!({"Ok": {"Plugging": "Confirmed"}})),
            (Err(NeighbourError::Missing("no such port".into())), json!({"Err": {"Missing": "no such port"}})),
        ];
        for (answer, form) in answers {
            assert_eq!(serde_json::to_value(&answer).unwrap(), form);
            assert_eq!(serde_json::from_value::<Result<QuestionAnswer, NeighbourError>>(form).unwrap(), answer);
        }
    }

    #[test]
    fn a_ticket_prints_without_its_secret() {
        let ticket = ImageTicket { url: "http://cloud/bytes".into(), secret: Secret::new("open".into()), bytes: ImageBytes::default() };
        let printed = format!("{:?}", QuestionAnswer::ImageTicket(ticket));
        assert!(printed.contains("http://cloud/bytes") && !printed.contains("open"), "{printed}");
    }

    #[test]
    fn the_longest_question_is_a_small_message() {
        let servers = vec![Uuid::from_u128(u128::MAX); FORGOTTEN_AT_ONCE];
        let text = serde_json::to_string(&HostQuestion::Forgotten { servers }).unwrap();
        assert!(text.len() < 32 << 10, "{} bytes", text.len());
    }
}
