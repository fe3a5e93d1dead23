//! The seat: the right of this process to write into its deployment's databases, for a time that it must renew. A row of the API database
//! says which process has the seat (`src/db/deployment/seat.rs`); this is what the process knows of it. A process that stood still, or whose
//! database was silent, for longer than the seat's time writes nothing before it has renewed the seat: another may have it by now.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::guard::{Guard, stands};

/// The seat as this process knows it. Cheap to clone.
#[derive(Clone)]
pub struct Seat {
    state: Arc<watch::Sender<State>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum State {
    /// The process needs none: a command, a simulation, or a test of one part.
    NotNeeded,
    /// No other process has the seat before this moment.
    Until(Instant),
    /// Another process has the seat, for ever. The sentence names it.
    Lost(String),
}

impl Default for Seat {
    fn default() -> Seat {
        Seat { state: Arc::new(watch::Sender::new(State::NotNeeded)) }
    }
}

impl Seat {
    /// Succeeds if this process may write now; else says why it may not.
    pub fn check(&self) -> Result<(), &'static str> {
        match &*self.state.borrow() {
            State::Until(end) if stands(Guard::SeatTerm) && Instant::now() >= *end => {
                Err("this process has not renewed its seat in time, and writes nothing before it has")
            }
            State::NotNeeded | State::Until(_) => Ok(()),
            State::Lost(_) => Err("another process has this one's seat"),
        }
    }

    /// Notes that no other process has the seat before this moment. A lost seat stays lost.
    pub fn hold_until(&self, end: Instant) {
        self.state.send_if_modified(|state| {
            let is_lost = matches!(state, State::Lost(_));
            if !is_lost {
                *state = State::Until(end);
            }
            !is_lost
        });
    }

    /// Notes that another process has the seat. The sentence says which.
    pub fn lose(&self, sentence: String) {
        self.state.send_replace(State::Lost(sentence));
    }

    /// Waits until another process has the seat, and returns the sentence that says which.
    pub async fn lost(&self) -> String {
        let mut states = self.state.subscribe();
        let lost = states.wait_for(|state| matches!(state, State::Lost(_))).await.map(|state| state.clone());
        match lost {
            Ok(State::Lost(sentence)) => sentence,
            // The sender lives as long as `self`.
            _ => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_seat_is_good_for_its_time_and_never_comes_back() {
        let seat = Seat::default();
        assert_eq!(seat.check(), Ok(()), "a command needs none");
        seat.hold_until(Instant::now() + Duration::from_secs(3));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(seat.check(), Ok(()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(seat.check().unwrap_err().contains("in time"));
        seat.hold_until(Instant::now() + Duration::from_secs(3));
        assert_eq!(seat.check(), Ok(()));
        seat.clone().lose("controller-2 has it".into());
        seat.hold_until(Instant::now() + Duration::from_secs(3));
        assert!(seat.check().unwrap_err().contains("another process"));
        assert_eq!(seat.lost().await, "controller-2 has it");
    }
}
