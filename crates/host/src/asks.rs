//! The queries that acted, by the ids of their asks, so that a query which a link delivers twice acts once.

use std::collections::VecDeque;
use std::sync::Arc;

use cellshift_domain::host_protocol::HostAnswer;
use cellshift_env::guard::{Guard, stands};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use uuid::Uuid;

/// The number of asks that a host remembers. They are small, and come from users one at a time.
const REMEMBERED: usize = 1024;

/// The latest asks of one incarnation of a host, the oldest first.
#[derive(Default)]
pub(super) struct Asks {
    latest: Mutex<VecDeque<(Uuid, Answer)>>,
}

/// The answer, once the act has ended.
type Answer = Arc<OnceCell<HostAnswer>>;

impl Asks {
    /// Acts and remembers the answer, or returns the answer that this ask got before. The same ask at work is waited for. An act that failed
    /// is not remembered, and an ask without an id acts each time.
    pub async fn once<E>(&self, ask: Uuid, act: impl Future<Output = Result<HostAnswer, E>>) -> Result<HostAnswer, E> {
        if !ask.is_nil() && stands(Guard::ActOnce) {
            return self.answer_of(ask).get_or_try_init(|| act).await.cloned();
        }
        act.await
    }

    fn answer_of(&self, ask: Uuid) -> Answer {
        let mut latest = self.latest.lock();
        if let Some((_, answer)) = latest.iter().find(|(id, _)| *id == ask) {
            return answer.clone();
        }
        if latest.len() == REMEMBERED {
            latest.pop_front();
        }
        let answer = Answer::default();
        latest.push_back((ask, answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn the_same_ask_acts_once() {
        let (asks, acts) = (Asks::default(), Cell::new(0));
        let act = |outcome: Result<HostAnswer, &'static str>| {
            let acts = &acts;
            async move {
                tokio::task::yield_now().await;
                acts.set(acts.get() + 1);
                outcome
            }
        };
        let ask = Uuid::from_u128(1);
        assert_eq!(asks.once(ask, act(Err("no"))).await, Err("no"));
        let (first, second) = futures::join!(asks.once(ask, act(Ok(HostAnswer::Typed))), asks.once(ask, act(Err("twice"))));
        assert_eq!((first, second, acts.get()), (Ok(HostAnswer::Typed), Ok(HostAnswer::Typed), 2));
        for _ in 0..2 {
            assert_eq!(asks.once(Uuid::nil(), act(Ok(HostAnswer::Typed))).await, Ok(HostAnswer::Typed));
        }
        assert_eq!(acts.get(), 4, "an ask without an id acts each time");
    }

    #[tokio::test]
    async fn only_the_latest_asks_are_remembered() {
        let asks = Asks::default();
        for id in 1..=2 * REMEMBERED {
            let answer: Result<_, ()> = asks.once(Uuid::from_u128(id as u128), async { Ok(HostAnswer::Typed) }).await;
            answer.unwrap();
        }
        let ids: Vec<Uuid> = asks.latest.lock().iter().map(|(id, _)| *id).collect();
        assert_eq!((ids.len(), ids[0]), (REMEMBERED, Uuid::from_u128(REMEMBERED as u128 + 1)));
    }
}
