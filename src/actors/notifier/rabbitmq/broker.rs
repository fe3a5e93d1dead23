//! A connection to RabbitMQ over which notifications go, with the exchange and the queues that listeners of oslo.messaging expect.

use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::protocol::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind};
use tokio::time::timeout;

use super::{Queues, Rabbitmq};
use crate::domain::notification::{Envelope, oslo};

/// The maximum time for an answer of the broker.
const PATIENCE: Duration = Duration::from_secs(20);

/// The reason why notifications wait.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error("{0}")]
    Amqp(#[from] lapin::Error),
    #[error("the URL is not understood: {0}")]
    Url(String),
    #[error("no answer within 20 seconds")]
    Silent,
    #[error("the broker refused a message")]
    Refused,
    #[error("no queue takes the messages: the binding is gone")]
    Unroutable,
}

/// A connection whose queues exist and that confirms what it has taken.
pub struct Broker {
    connection: Connection,
    channel: Channel,
    exchange: String,
    topic: String,
}

async fn patiently<T>(work: impl Future<Output = Result<T, lapin::Error>>) -> Result<T, Trouble> {
    timeout(PATIENCE, work).await.map_err(|_| Trouble::Silent)?.map_err(Trouble::from)
}

impl Broker {
    /// Connects, and makes the exchange and the queues where they are missing, so that messages before the first listener are kept.
    pub async fn connect(url: &str, config: &Rabbitmq) -> Result<Broker, Trouble> {
        let mut place: lapin::uri::AMQPUri = url.parse().map_err(Trouble::Url)?;
        // A URL without a path means the default virtual host, as in oslo.messaging.
        if place.vhost.is_empty() {
            place.vhost = "/".to_owned();
        }
        place.query.heartbeat = Some(config.heartbeat);
        let properties = ConnectionProperties::default().with_connection_name("cellshift".into());
        let connection = patiently(Connection::connect_uri(place, properties)).await?;
        let channel = patiently(connection.create_channel()).await?;
        let (durable, mut arguments) = (config.queues != Queues::Transient, FieldTable::default());
        if config.queues == Queues::Quorum {
            arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        }
        let exchange = ExchangeDeclareOptions { durable, ..ExchangeDeclareOptions::default() };
        let name = config.exchange.as_str();
        patiently(channel.exchange_declare(name.into(), ExchangeKind::Topic, exchange, FieldTable::default())).await?;
        for priority in ["info", "error"] {
            let queue = format!("{}.{priority}", config.topic);
            let options = QueueDeclareOptions { durable, ..QueueDeclareOptions::default() };
            patiently(channel.queue_declare(queue.as_str().into(), options, arguments.clone())).await?;
            let bind = QueueBindOptions::default();
            patiently(channel.queue_bind(queue.as_str().into(), name.into(), queue.as_str().into(), bind, FieldTable::default())).await?;
        }
        patiently(channel.confirm_select(ConfirmSelectOptions::default())).await?;
        Ok(Broker { connection, channel, exchange: config.exchange.clone(), topic: config.topic.clone() })
    }

    /// True while the connection and its channel are open.
    pub fn is_open(&self) -> bool {
        self.connection.status().connected() && self.channel.status().connected()
    }

    /// Publishes notifications and waits until the broker has taken them all. After an error any of them may have been taken.
    pub async fn publish(&self, notifications: &[Envelope]) -> Result<(), Trouble> {
        let mut confirms = Vec::with_capacity(notifications.len());
        for notification in notifications {
            let properties = BasicProperties::default()
                .with_content_type("application/json".into())
                .with_content_encoding("utf-8".into())
                .with_delivery_mode(2)
                .with_message_id(notification.message_id.to_string().into());
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let (body, queue) = (oslo::body(notification), oslo::queue(&self.topic, notification));
            let sent = self.channel.basic_publish(self.exchange.as_str().into(), queue.into(), options, body.as_bytes(), properties);
            confirms.push(patiently(sent).await?);
        }
        for confirm in confirms {
            match patiently(confirm).await? {
                Confirmation::Ack(None) => {}
                Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_)) => return Err(Trouble::Unroutable),
                Confirmation::Nack(None) | Confirmation::NotRequested => return Err(Trouble::Refused),
            }
        }
        Ok(())
    }
}
