//! Requests to an actor that are bounded and have a deadline. The message carries the sender of its answer, so the actor may answer long
//! after its handler has returned, and work on many requests at once.
//!
//! actix's own `Addr::send` waits for a place in a full mailbox, and its error does not say whether the message was delivered. A request of
//! this module is refused at once when there is no place, and [`Unanswered`] says whether it may have been done.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::prelude::SendError;
use actix::{Actor, Addr, Handler, Message};
use tokio::sync::{Semaphore, oneshot};

/// The reason why a request has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unanswered {
    /// There was no place for it. It is not done.
    #[error("busy: too many requests at once")]
    Busy,
    /// The actor was dead before. It is not done.
    #[error("the actor has just died")]
    Dead,
    /// The actor died with the request, or dropped it. It may have been done.
    #[error("the actor died with the request")]
    Dropped,
    /// The deadline passed: no answer within this time. It may have been done, and may still be done.
    #[error("no answer within {0:?}")]
    Late(Duration),
}

impl Unanswered {
    /// True if the request may have been done, or may still be done.
    pub fn may_be_done(self) -> bool {
        matches!(self, Unanswered::Dropped | Unanswered::Late(_))
    }
}

/// Delivers a message without waiting. Fails with [`Unanswered::Busy`] if the mailbox is full, and with [`Unanswered::Dead`] if the actor is
/// dead.
pub fn deliver<A, M>(address: &Addr<A>, message: M) -> Result<(), Unanswered>
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message<Result = ()> + Send + 'static,
{
    address.try_send(message).map_err(|error| match error {
        SendError::Full(_) => Unanswered::Busy,
        SendError::Closed(_) => Unanswered::Dead,
    })
}

/// Delivers the message that `message` makes of the sender of its answer, and waits for the answer. A delivered request is not called back
/// when the deadline passes.
pub async fn request<A, M, T>(address: &Addr<A>, deadline: Duration, message: impl FnOnce(oneshot::Sender<T>) -> M) -> Result<T, Unanswered>
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message<Result = ()> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    deliver(address, message(reply))?;
    match tokio::time::timeout(deadline, answer).await {
        Ok(answer) => answer.map_err(|_| Unanswered::Dropped),
        Err(_) => Err(Unanswered::Late(deadline)),
    }
}

/// The limits of an actor's work: so many requests at once, each within a deadline. Clones share the places, so successive incarnations of an
/// actor have them together.
#[derive(Clone)]
pub struct Limits {
    places: Arc<Semaphore>,
    deadline: Duration,
}

impl Limits {
    /// Allows `most` requests at once, each for at most `deadline`.
    pub fn new(most: usize, deadline: Duration) -> Limits {
        Limits { places: Arc::new(Semaphore::new(most)), deadline }
    }

    /// Takes a place at once and returns the work within it. Fails with [`Unanswered::Busy`], without touching `work`, if no place is free,
    /// and with [`Unanswered::Late`] if the deadline passes, which drops `work` where it stands.
    pub fn within<T, W: Future<Output = T>>(&self, work: W) -> impl Future<Output = Result<T, Unanswered>> + use<T, W> {
        let (place, deadline) = (Arc::clone(&self.places).try_acquire_owned(), self.deadline);
        async move {
            let _place = place.map_err(|_| Unanswered::Busy)?;
            tokio::time::timeout(deadline, work).await.map_err(|_| Unanswered::Late(deadline))
        }
    }
}

#[cfg(test)]
mod tests {
    use actix::prelude::*;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(5);

    /// Keeps each request until another message says what becomes of it.
    #[derive(Default)]
    struct Clerk {
        waiting: Vec<oneshot::Sender<&'static str>>,
    }

    impl Actor for Clerk {
        type Context = Context<Clerk>;

        fn started(&mut self, ctx: &mut Self::Context) {
            ctx.set_mailbox_capacity(1);
        }
    }

    #[derive(Message)]
    #[rtype(result = "()")]
    struct Question(oneshot::Sender<&'static str>);

    impl Handler<Question> for Clerk {
        type Result = ();

        fn handle(&mut self, Question(reply): Question, _: &mut Self::Context) {
            self.waiting.push(reply);
        }
    }

    #[derive(Message)]
    #[rtype(result = "()")]
    enum Do {
        Answer,
        Die,
    }

    impl Handler<Do> for Clerk {
        type Result = ();

        fn handle(&mut self, what: Do, ctx: &mut Self::Context) {
            match what {
                Do::Answer => self.waiting.drain(..).for_each(|reply| reply.send("yes").expect("somebody waits")),
                Do::Die => ctx.terminate(),
            }
        }
    }

    /// A question, and meanwhile another message.
    async fn answer_of(clerk: &Addr<Clerk>, meanwhile: Do) -> Result<&'static str, Unanswered> {
        let (answer, ()) = tokio::join!(request(clerk, DEADLINE, Question), async { clerk.do_send(meanwhile) });
        answer
    }

    #[actix::test]
    async fn an_answer_may_come_after_the_handler() {
        let clerk = Clerk::default().start();
        assert_eq!(answer_of(&clerk, Do::Answer).await, Ok("yes"));
    }

    #[actix::test]
    async fn a_death_with_the_request_leaves_it_in_doubt() {
        let clerk = Clerk::default().start();
        let refusal = answer_of(&clerk, Do::Die).await.unwrap_err();
        assert!(refusal == Unanswered::Dropped && refusal.may_be_done());
        let refusal = request(&clerk, DEADLINE, Question).await.unwrap_err();
        assert!(refusal == Unanswered::Dead && !refusal.may_be_done());
    }

    #[actix::test]
    async fn silence_ends_with_the_deadline() {
        tokio::time::pause();
        let clerk = Clerk::default().start();
        let refusal = request(&clerk, DEADLINE, Question).await.unwrap_err();
        assert!(refusal == Unanswered::Late(DEADLINE) && refusal.may_be_done());
    }

    #[actix::test]
    async fn a_full_mailbox_refuses_at_once() {
        let clerk = Clerk::default().start();
        clerk.send(Do::Answer).await.expect("it has started");
        // Nobody else runs on this thread until the next await, so the mailbox fills.
        let delivered = (0..100).map_while(|_| deliver(&clerk, Question(oneshot::channel().0)).ok()).count();
        assert!((1..100).contains(&delivered), "{delivered}");
        let refusal = deliver(&clerk, Question(oneshot::channel().0)).unwrap_err();
        assert!(refusal == Unanswered::Busy && !refusal.may_be_done());
    }

    #[actix::test]
    async fn work_beyond_the_limit_is_refused_and_slow_work_ends() {
        tokio::time::pause();
        let limits = Limits::new(1, DEADLINE);
        let slow = limits.within(std::future::pending::<()>());
        assert_eq!(limits.clone().within(async { 2 }).await, Err(Unanswered::Busy));
        assert_eq!(slow.await, Err(Unanswered::Late(DEADLINE)));
        assert_eq!(limits.within(async { 3 }).await, Ok(3), "its place is free again");
    }
}
