//! The course of a case: the request, and what must hold at its end.

use std::collections::BTreeMap;
use std::path::Path;

use cellshift::chaos::audit;

use super::Case;
use super::state::{State, Subject};
use crate::access::house::{Answer, Filled, House};
use crate::access::row::{Body, Row};
use crate::stage::until;

impl Case {
    /// Plays the case on a new server, which is deleted at its end; or says what did not hold.
    pub async fn hold(&self, house: &House) -> Result<(), String> {
        let subject = Subject::make(house, self.state).await?;
        let (row, filled) = self.request(house, &subject).await;
        self.condition.begin(house, &subject).await;
        let answer = house.ask("admin", &row, &filled).await;
        self.condition.go_on(house, &subject).await;
        let gone = match self.condition.lasts() {
            true => self.remove(house, &subject).await,
            false => {
                settled(house).await;
                Ok(())
            }
        };
        self.condition.end(house, &subject).await;
        settled(house).await;
        let held = self.judge(house, &subject, &answer).await;
        let left = self.leftovers(house, &subject).await;
        gone.and(held).and(left)
    }

    /// Fills in the row for the subject: its volume and its port stand for those that the row would make.
    async fn request(&self, house: &House, subject: &Subject) -> (Row, Filled) {
        let own = |text: &str| text.replace("{attached_volume}", "{+attached_volume}");
        let mut row = self.row.clone();
        let behind = row.path.split_once('}').map(|(_, behind)| own(behind)).unwrap_or_default();
        row.path = format!("/compute/v2.1/servers/{}{behind}", subject.server);
        if let Body::Json(body) = &row.body {
            row.body = Body::Json(serde_json::from_str(&own(&body.to_string())).expect("JSON"));
        }
        let mut made =
            BTreeMap::from([("attached_volume".to_owned(), subject.volume.clone()), ("interface".to_owned(), subject.port.clone())]);
        let filled = house.fill(&row, true, &mut made).await;
        (row, filled)
    }

    /// Says whether the answer and the server's state are right.
    async fn judge(&self, house: &House, subject: &Subject, answer: &Answer) -> Result<(), String> {
        let honest = answer.status < 500 || (answer.status == 503 && self.condition.excuses());
        if !honest {
            return Err(format!("answered {} {}", answer.status, answer.text));
        }
        let shown = subject.show(house).await;
        if shown.status == 404 {
            return Ok(());
        }
        let server = &shown.json()["server"];
        if !server["OS-EXT-STS:task_state"].is_null() {
            return Err(format!("the server is at rest with task {}", server["OS-EXT-STS:task_state"]));
        }
        if server["status"] == "ERROR" && self.state != State::Failed && !self.may_fail() {
            return Err(format!("answered {}, and the server is in ERROR: {}", answer.status, server["fault"]["message"]));
        }
        Ok(())
    }

    /// Deletes the server for good, and waits until it is gone.
    async fn remove(&self, house: &House, subject: &Subject) -> Result<(), String> {
        let removed = subject.remove(house, self.state).await;
        if !matches!(removed.status, 202 | 204 | 404) {
            return Err(format!("the delete was answered {} {}", removed.status, removed.text));
        }
        until("the server is gone", || async { subject.show(house).await.status == 404 }).await;
        Ok(())
    }

    /// Deletes the server, and audits what is left.
    async fn leftovers(&self, house: &House, subject: &Subject) -> Result<(), String> {
        self.remove(house, subject).await?;
        settled(house).await;
        let report = audit::audit(&house.tree.world).await.map_err(|error| error.to_string())?;
        if !report.clean || !report.checked.unreachable.is_empty() {
            return Err(format!("the audit has objections: {:?} {:?}", report.violations, report.checked.unreachable));
        }
        Ok(())
    }

    /// True if the table names the case: `state | action | condition | why`, where `*` stands for any.
    fn may_fail(&self) -> bool {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/walk/errors.table");
        let text = std::fs::read_to_string(path).expect("the table");
        let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        let case = [self.state.to_string(), self.action(), self.condition.to_string()];
        lines.into_iter().any(|line| {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            assert_eq!(columns.len(), 4, "a line has a state, an action, a condition and a reason: {line}");
            columns.iter().zip(&case).all(|(column, value)| *column == "*" || column == value)
        })
    }
}

/// Waits until no operation runs, no delete waits, and no debt is left.
async fn settled(house: &House) {
    house.rest().await;
    let world = &house.tree.world;
    until("no delete waits", || async { world.api.count_queued_deletes().await.is_ok_and(|count| count == 0) }).await;
    until("all debts are paid", || async { world.operations.debts(None).await.is_ok_and(|debts| debts.is_empty()) }).await;
    house.rest().await;
}
