//! The host's questions to the controllers. Any controller of the cell may answer.

use std::sync::Arc;
use std::time::Duration;

use cellshift_domain::reason;
use cellshift_host::link::{Delivered, LONGEST_PATIENCE};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::connection::{Connection, Unanswered};
use crate::subjects::{HostAddress, Life};
use crate::wire::{Answer, MESSAGE_MAX, decode, encode, release_of};

/// The way by which an agent asks the controllers of its cell.
#[derive(Clone)]
pub struct ToControllers {
    connection: Arc<Connection>,
    address: HostAddress,
    life: Life,
}

/// A question on the wire.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Question<Q> {
    pub life: Life,
    pub question: Q,
}

impl ToControllers {
    pub(crate) fn new(connection: Arc<Connection>, address: HostAddress, life: Life) -> ToControllers {
        ToControllers { connection, address, life }
    }

    /// Asks a controller, and waits for the answer, at most for `patience`.
    pub async fn ask<Q: Serialize, A: DeserializeOwned>(&self, question: Q, patience: Duration) -> Result<A, Unanswered> {
        let question = Question { life: self.life, question };
        let payload = encode(&question).map_err(Unanswered::NotDelivered)?;
        let answer = self.connection.ask(self.address.question(), payload, patience.min(LONGEST_PATIENCE)).await?;
        match decode::<Answer<A>>(&answer.payload) {
            Some(Answer::Word(Delivered::Answered(answer))) => Ok(answer),
            Some(Answer::Word(Delivered::NotTaken { reason })) => Err(Unanswered::NotDelivered(reason)),
            Some(Answer::Word(Delivered::Busy)) => Err(Unanswered::NotDelivered(reason!("the controllers are busy"))),
            Some(Answer::Word(Delivered::NotKnown { release })) => {
                Err(Unanswered::NotDelivered(reason!("the controller of release {release} does not know the question")))
            }
            Some(Answer::Word(Delivered::CannotTell)) => Err(Unanswered::Unknown(reason!("the controller cannot tell now"))),
            Some(Answer::TooLarge { bytes }) => {
                Err(Unanswered::Unknown(reason!("the controller's answer has {bytes} bytes, and NATS carries at most {MESSAGE_MAX}")))
            }
            None => {
                let release = release_of(answer.headers.as_ref());
                Err(Unanswered::Unknown(reason!("the controller of release {release} answered what this release does not know")))
            }
        }
    }
}
