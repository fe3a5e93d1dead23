//! The self-fence of a host: an agent that could not renew its word to its controllers in time stops the host's guests itself. Controllers rely on
//! that promise, and let other hosts run the guests after its time and a margin.
//!
//! The time counts from the moment at which the agent sent the hello that a controller accepted last and wrote down, by a clock that goes on while the
//! machine is suspended. A process that is stopped cannot stop its guests: it does so first when it goes on.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::env::Env;
use crate::env::guard::{Guard, stands};

/// The longest pause between two looks at the clock. Timers stand still while the machine is suspended, the clock does not.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The time that a host's agent has for its guests.
pub(super) struct SelfFence {
    env: Env,
    /// The time without a renewed word after which the guests are stopped; none if they never are.
    after: Option<Duration>,
    word: Mutex<Word>,
}

/// The agent's word to its controllers.
#[derive(Default)]
struct Word {
    /// The moments at which the present life has renewed it.
    of_life: Option<watch::Receiver<Option<Duration>>>,
    /// The moment at which an earlier life renewed it last, whose guests nobody has stopped.
    of_earlier: Option<Duration>,
}

impl Word {
    /// Returns the moment of the last renewal; none if no guest has run since the agent started or fenced the host.
    fn renewed_at(&self) -> Option<Duration> {
        let of_life = self.of_life.as_ref().and_then(|renewed| *renewed.borrow());
        of_life.or(self.of_earlier)
    }
}

impl SelfFence {
    /// Makes the fence of a host that runs no guest. Without a time the guests are never stopped.
    pub fn new(env: &Env, after: Option<Duration>) -> SelfFence {
        SelfFence { env: env.clone(), after, word: Mutex::default() }
    }

    /// Returns the agent's promise to its controllers.
    pub fn promise(&self) -> Option<Duration> {
        self.after
    }

    /// Counts the renewals of a new life from now on. Until the first one the time of the life before goes on.
    pub fn follow(&self, renewed: watch::Receiver<Option<Duration>>) {
        let mut word = self.word.lock();
        *word = Word { of_earlier: word.renewed_at(), of_life: Some(renewed) };
    }

    /// Notes that no guest runs, and that none will before a controller has accepted the next life.
    pub fn guests_stopped(&self) {
        *self.word.lock() = Word::default();
    }

    /// Returns the time that the guests have left; none while nothing limits it.
    pub fn left(&self) -> Option<Duration> {
        let end = self.word.lock().renewed_at()?.saturating_add(self.after?);
        Some(end.saturating_sub(self.env.elapsed()))
    }

    /// True if the guests must be stopped, and no command may run.
    pub fn is_over(&self) -> bool {
        stands(Guard::SelfFence) && self.left() == Some(Duration::ZERO)
    }

    /// Returns when the guests must be stopped.
    pub async fn until_over(&self) {
        if self.after.is_none() {
            return std::future::pending().await;
        }
        while !self.is_over() {
            let left = self.left().filter(|left| !left.is_zero());
            sleep(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY))).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::{advance, timeout};

    use super::*;
    use crate::env::{Blocking, Clock, RandomIds, SystemClock};

    const AFTER: Duration = Duration::from_secs(30);
    const NEARLY: Duration = Duration::from_millis(29_999);
    const MOMENT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(1_000_000);

    /// A clock whose elapsed time is tokio's, which the tests pause.
    struct TestClock;

    impl Clock for TestClock {
        fn now(&self) -> chrono::DateTime<chrono::Utc> {
            SystemClock.now()
        }
    }

    fn env() -> Env {
        Env::new(Arc::new(TestClock), Arc::new(RandomIds), Blocking::Inline)
    }

    /// Makes a fence, and the sender of its first life's renewals.
    fn fence(after: Option<Duration>) -> (SelfFence, watch::Sender<Option<Duration>>, Env) {
        let (env, renewed) = (env(), watch::Sender::new(None));
        let fence = SelfFence::new(&env, after);
        fence.follow(renewed.subscribe());
        (fence, renewed, env)
    }

    #[tokio::test(start_paused = true)]
    async fn guests_have_the_time_since_the_last_renewal_was_sent() {
        let (fence, renewed, env) = fence(Some(AFTER));
        advance(LONG).await;
        assert!(!fence.is_over(), "a life that nobody has accepted runs no guest");
        let sent = env.elapsed();
        advance(MOMENT).await;
        renewed.send_replace(Some(sent));
        advance(NEARLY - MOMENT).await;
        assert!(!fence.is_over());
        advance(MOMENT).await;
        assert!(fence.is_over());
        timeout(LONG, fence.until_over()).await.expect("it is over");
        renewed.send_replace(Some(sent + MOMENT));
        assert!(!fence.is_over(), "the answer to a later hello has come");
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewed_word_gives_the_guests_more_time() {
        let (fence, renewed, env) = fence(Some(AFTER));
        let began = env.elapsed();
        let renewing = async {
            for _ in 0..10 {
                renewed.send_replace(Some(env.elapsed()));
                sleep(NEARLY).await;
            }
        };
        tokio::join!(renewing, async { timeout(LONG, fence.until_over()).await.expect("it is over") });
        let (lived, expected) = (env.elapsed() - began, NEARLY * 9 + AFTER);
        // Timers count in milliseconds.
        assert!(lived + MOMENT >= expected && lived < expected + LOOK_EVERY, "{lived:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_lifes_time_goes_on_until_the_next_is_accepted() {
        let (fence, renewed, env) = fence(Some(AFTER));
        renewed.send_replace(Some(env.elapsed()));
        drop(renewed);
        let next = watch::Sender::new(None);
        fence.follow(next.subscribe());
        advance(AFTER).await;
        assert!(fence.is_over(), "the guests of the earlier life may run");
        next.send_replace(Some(env.elapsed()));
        assert!(!fence.is_over());
        advance(AFTER).await;
        fence.guests_stopped();
        assert_eq!((fence.is_over(), fence.left()), (false, None));
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_without_a_promise_never_stops_its_guests() {
        let (fence, renewed, env) = fence(None);
        renewed.send_replace(Some(env.elapsed()));
        assert!(timeout(LONG, fence.until_over()).await.is_err());
        assert!(!fence.is_over() && fence.promise().is_none());
    }

    #[test]
    fn the_systems_clock_counts_from_the_boot_of_the_machine() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let elapsed = Env::system().elapsed().as_secs_f64();
        assert!(elapsed >= uptime - 1.0, "{elapsed} {uptime}");
    }
}
