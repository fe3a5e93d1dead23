//! Answers that readers share. Many open pages show the same numbers, and say with `Cache-Control: max-age` that they need not be newer than
//! a second. Whoever does not say so gets an answer of their own.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{CacheControl, CacheDirective, ContentType, Header};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::http::base_url;
use crate::http::compute::answer::Answer;
use crate::http::error::ApiError;

/// The age up to which an answer is shared.
const SHARED: Duration = Duration::from_secs(1);
/// The number of answers that are kept: the queries of requests may be many.
const MOST: usize = 32;

/// An answer and when its making began. Whoever makes it holds the lock, and the others wait for it.
type Kept = tokio::sync::Mutex<Option<(Instant, Result<Bytes, ApiError>)>>;

/// The answers of the last second, by address.
#[derive(Default)]
pub struct Recent(Mutex<BTreeMap<String, Arc<Kept>>>);

impl Recent {
    /// Returns the answer that `make` gives, or one that is shared. Check first what the caller may read: an answer is the same for all.
    pub async fn answer(&self, request: &HttpRequest, make: impl Future<Output = Result<Value, ApiError>>) -> Answer {
        let arrived = Instant::now();
        let Some(entry) = may_share(request).then(|| self.entry(request)).flatten() else {
            return Ok(HttpResponse::Ok().json(make.await?));
        };
        let mut entry = entry.lock().await;
        let body = match &*entry {
            // An answer that was made meanwhile is new enough, however long it took.
            Some((began, body)) if arrived.saturating_duration_since(*began) < SHARED => body.clone(),
            _ => {
                let began = Instant::now();
                let body = make.await.map(|body| Bytes::from(body.to_string()));
                entry.insert((began, body)).1.clone()
            }
        };
        Ok(HttpResponse::Ok().insert_header(ContentType::json()).body(body?))
    }

    /// Returns the place of the answer to this request. None if too many others are in use.
    fn entry(&self, request: &HttpRequest) -> Option<Arc<Kept>> {
        let address = format!("{}{}", base_url::of(request), request.uri());
        let mut all = self.0.lock();
        if !all.contains_key(&address) {
            let is_used = |entry: &mut Arc<Kept>| match Arc::get_mut(entry).map(|entry| entry.get_mut()) {
                Some(Some((began, _))) => began.elapsed() < SHARED,
                Some(None) => false,
                None => true,
            };
            all.retain(|_, entry| is_used(entry));
            if all.len() >= MOST {
                return None;
            }
        }
        Some(Arc::clone(all.entry(address).or_default()))
    }
}

/// True if the request takes an answer that is a second old.
fn may_share(request: &HttpRequest) -> bool {
    CacheControl::parse(request).is_ok_and(|directives| {
        let fresh = |directive: &CacheDirective| matches!(directive, CacheDirective::NoCache | CacheDirective::NoStore);
        let old_enough = |directive: &CacheDirective| matches!(directive, CacheDirective::MaxAge(1..));
        directives.iter().any(old_enough) && !directives.iter().any(fresh)
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use actix_web::body::to_bytes;
    use actix_web::test::TestRequest;
    use futures::future::join;
    use serde_json::json;

    use super::*;
    use crate::http::compute::answer::not_found;

    /// Counts how often an answer is made.
    #[derive(Default)]
    struct Made(Cell<u32>);

    impl Made {
        async fn make(&self) -> Result<Value, ApiError> {
            tokio::time::sleep(Duration::from_secs(3)).await;
            self.0.set(self.0.get() + 1);
            Ok(json!(self.0.get()))
        }
    }

    async fn text_of(recent: &Recent, request: TestRequest, made: &Made) -> String {
        let answer = recent.answer(&request.to_http_request(), made.make()).await.unwrap();
        String::from_utf8(to_bytes(answer.into_body()).await.unwrap().to_vec()).unwrap()
    }

    fn page(uri: &str) -> TestRequest {
        TestRequest::with_uri(uri).insert_header(("Cache-Control", "max-age=1"))
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_take_an_old_answer_share_it() {
        let (recent, made) = (Recent::default(), Made::default());
        let ask = async |request| text_of(&recent, request, &made).await;
        let both = join(ask(page("/ops/v1/summary")), ask(page("/ops/v1/summary"))).await;
        assert_eq!(both, ("1".to_owned(), "1".to_owned()), "the second waits for the first, however long it takes");
        assert_eq!(ask(TestRequest::with_uri("/ops/v1/summary")).await, "2", "whoever does not say so gets an own answer");
        let fresh = TestRequest::with_uri("/ops/v1/summary").insert_header(("Cache-Control", "no-cache, max-age=1"));
        assert_eq!(ask(fresh).await, "3");
        assert_eq!(recent.0.lock().len(), 1, "own answers are not kept");
        assert_eq!(ask(page("/ops/v1/cells")).await, "4", "another question has another answer");
        assert_eq!(ask(page("/ops/v1/summary")).await, "5", "the first answer is more than a second old");
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_kept_for_a_bounded_number_of_questions() {
        let (recent, made) = (Recent::default(), Made::default());
        for number in 0..=MOST {
            text_of(&recent, page(&format!("/ops/v1/hosts?name={number}")), &made).await;
        }
        assert_eq!(recent.0.lock().len(), 1, "those that are too old are dropped");
        let request = page("/ops/v1/summary").to_http_request();
        let many: Vec<_> = (0..MOST).map(|number| recent.entry(&page(&format!("/{number}")).to_http_request())).collect();
        assert!(many.iter().filter(|kept| kept.is_some()).count() >= MOST - 1);
        assert!(recent.entry(&request).is_none(), "all are in use");
        assert_eq!(text_of(&recent, page("/ops/v1/summary"), &made).await, "34", "its answer is made all the same");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_shared_as_well_and_tried_again_later() {
        let recent = Recent::default();
        let request = page("/ops/v1/summary").to_http_request();
        let fail = async || Err(not_found("gone"));
        assert!(recent.answer(&request, fail()).await.is_err());
        let unused = async || -> Result<Value, ApiError> { panic!("the failure is shared") };
        assert!(recent.answer(&request, unused()).await.is_err());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(recent.answer(&request, async { Ok(json!(1)) }).await.is_ok());
    }
}
