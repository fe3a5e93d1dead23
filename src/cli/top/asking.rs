//! The questions of `cellshift top`: each kind is asked when its pause is over, and less often if its answer takes long.

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::Instant;

use super::News;
use crate::cli::overview::Question;
use crate::cli::reach::Login;
use crate::client::{Client, ClientError};

/// The part of its time that the command spends on one kind of question at most, as a divisor.
const SHARE: u32 = 10;
/// The longest pause between two questions of a kind.
const LONGEST: Duration = Duration::from_secs(60);

/// Returns the usual pause between two questions of a kind.
fn interval(question: Question) -> Duration {
    match question {
        Question::Summary => Duration::from_secs(2),
        Question::Running | Question::Unwinding => Duration::from_millis(2500),
        Question::Cells | Question::Waiting => Duration::from_secs(4),
    }
}

/// Returns the pause after a question that took so long: a question of a large cloud is asked less often.
fn pause(usual: Duration, took: Duration) -> Duration {
    usual.max(took.saturating_mul(SHARE).min(LONGEST))
}

/// Asks one question after the other, each kind when its pause is over. Logs in again when the token has ended.
pub(super) async fn ask(login: Login, mut client: Client, news: UnboundedSender<News>, mut demands: UnboundedReceiver<Vec<Question>>) {
    let mut worth = Question::ALL.to_vec();
    let mut due = Question::ALL.map(|question| (Instant::now() + interval(question), question));
    loop {
        while let Ok(newer) = demands.try_recv() {
            worth = newer;
        }
        due.sort_by_key(|(at, _)| *at);
        let [(at, question), ..] = &mut due;
        tokio::time::sleep_until(*at).await;
        let began = Instant::now();
        if worth.contains(question) {
            let answer = question.ask(&client).await;
            if matches!(answer, Err(ClientError::Refused { status: 401, .. }))
                && let Ok(fresh) = login.clone().client().await
            {
                client = fresh;
            } else if news.send(News::Answer(*question, answer.map_err(|error| error.to_string()))).is_err() {
                return;
            }
        }
        *at = Instant::now() + pause(interval(*question), began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_questions_are_asked_less_often() {
        let (usual, ms) = (Duration::from_secs(2), Duration::from_millis);
        assert_eq!(pause(usual, ms(5)), usual);
        assert_eq!(pause(usual, ms(1000)), Duration::from_secs(10));
        assert_eq!(pause(usual, ms(60_000)), LONGEST);
    }
}
