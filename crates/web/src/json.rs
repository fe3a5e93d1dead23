//! Request bodies in JSON. The worker that read a small body parses and checks it; the pool for blocking work handles a large body, so that
//! the worker can answer other requests meanwhile.

use std::ops::Deref;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::http::header::CONTENT_TYPE;
use actix_web::{FromRequest, HttpRequest, web};
use bytes::{Bytes, BytesMut};
use cellshift_env::Env;
use futures::StreamExt;
use futures::future::LocalBoxFuture;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::error::{ApiError, ErrorForm};
use crate::{apis, arrival, null_characters};

/// The maximum size in bytes of a body that a worker handles itself.
pub const SMALL: usize = 16 * 1024;

/// The maximum number of large bodies handled concurrently, because databases need the pool's threads too.
static AT_ONCE: Semaphore = Semaphore::const_new(4);

/// The maximum length of the beginning of a parser's message that an error repeats, in characters. The message quotes the body.
const HEAD: usize = 120;

/// The maximum length of the message's end, in characters.
const TAIL: usize = 160;

/// The media type of JSON.
pub const JSON: &str = "application/json";

/// The media types of JSON at Nova and Cinder, which also have names of their own.
const JSON_OF_COMPUTE: [&str; 3] = [JSON, "application/vnd.openstack.compute+json", "application/vnd.openstack.volume+json"];

/// The maximum size of a body in bytes.
#[derive(Clone, Copy)]
pub struct MaxBody(pub usize);

/// A body that parses as a `T`. Otherwise 400 in the API's form, 413 if it is larger than [`MaxBody`], or 415 if it has another media type.
pub struct Json<T>(pub T);

impl<T> Json<T> {
    /// Returns the parsed value.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Json<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: DeserializeOwned + Send + 'static> FromRequest for Json<T> {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Json<T>, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let mut arriving = Arriving::of(request, payload);
        Box::pin(async move {
            let (bytes, desk) = arriving.read_json().await?;
            parse(bytes, &desk, arriving.form).await.map(Json)
        })
    }
}

/// A body that a schema checks. Cheap to clone.
#[derive(Clone)]
pub struct Document {
    value: Arc<Value>,
    desk: Desk,
}

impl Document {
    /// Runs work whose time grows with the body, on the pool if the body is large.
    pub async fn judge<T: Send + 'static>(&self, work: impl FnOnce(&Value) -> T + Send + 'static) -> T {
        let value = Arc::clone(&self.value);
        self.desk.run(move || work(&value)).await
    }
}

impl Deref for Document {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl FromRequest for Document {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Document, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let mut arriving = Arriving::of(request, payload);
        Box::pin(async move {
            let (bytes, desk) = arriving.read_json().await?;
            let value = Arc::new(parse(bytes, &desk, arriving.form).await?);
            Ok(Document { value, desk })
        })
    }
}

/// A body that has been read and is parsed when its handler asks for it, after other refusals.
pub struct Unread {
    bytes: Bytes,
    desk: Desk,
    form: ErrorForm,
    media_type: Option<String>,
}

impl Unread {
    /// True if there is no body.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the media type that the request names, without parameters.
    pub fn media_type(&self) -> Option<&str> {
        self.media_type.as_deref()
    }

    /// Returns the bytes of the body.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Parses the body. 400 in the API's form if it is no JSON.
    pub async fn document(self) -> Result<Document, ApiError> {
        let value = Arc::new(parse(self.bytes, &self.desk, self.form).await?);
        Ok(Document { value, desk: self.desk })
    }

    /// Parses the body as a `T`. 400 in the API's form if it is none.
    pub async fn parsed<T: DeserializeOwned + Send + 'static>(self) -> Result<T, ApiError> {
        parse(self.bytes, &self.desk, self.form).await
    }

    /// Refuses a body that names a media type other than these with 415.
    pub fn expect_one_of(&self, types: &[&str]) -> Result<(), ApiError> {
        expect_one_of(types, &self.bytes, self.media_type(), self.form)
    }
}

impl FromRequest for Unread {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Unread, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let mut arriving = Arriving::of(request, payload);
        Box::pin(async move {
            let (bytes, desk) = arriving.read().await?;
            Ok(Unread { bytes, desk, form: arriving.form, media_type: arriving.media_type })
        })
    }
}

/// Returns the media type that the request names, in lower case and without parameters.
pub fn media_type(request: &HttpRequest) -> Option<String> {
    let media_type = request.headers().get(CONTENT_TYPE)?;
    let media_type = media_type.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    (!media_type.is_empty()).then(|| media_type.to_ascii_lowercase())
}

/// Makes the refusal of a body because of its media type: 415.
pub fn unsupported(form: ErrorForm, media_type: Option<&str>, expected: &str) -> ApiError {
    let message = format!("Unsupported Content-Type {}: send {expected}.", media_type.unwrap_or("None"));
    ApiError::new(form, StatusCode::UNSUPPORTED_MEDIA_TYPE, message)
}

/// Like Nova, reads a body whose media type nobody names, and does not look at the type when there is no body.
fn expect_one_of(types: &[&str], body: &[u8], media_type: Option<&str>, form: ErrorForm) -> Result<(), ApiError> {
    let first = types.first().copied().unwrap_or(JSON);
    match media_type.filter(|_| !body.is_empty()) {
        Some(media_type) if !types.contains(&media_type) => Err(unsupported(form, Some(media_type), first)),
        _ => Ok(()),
    }
}

/// The place where work on a body runs.
#[derive(Clone)]
struct Desk {
    /// None runs the work on the worker itself.
    pool: Option<Env>,
}

impl Desk {
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let Some(env) = &self.pool else { return work() };
        // The work holds the permit: a client that hangs up ends the wait, not the work.
        let permit = AT_ONCE.acquire().await;
        let done = move || {
            let done = work();
            drop(permit);
            done
        };
        env.run_blocking(done).await
    }
}

/// A body that is still arriving.
struct Arriving {
    payload: Payload,
    most: usize,
    env: Option<Env>,
    form: ErrorForm,
    media_type: Option<String>,
}

impl Arriving {
    fn of(request: &HttpRequest, payload: &mut Payload) -> Arriving {
        Arriving {
            payload: payload.take(),
            most: request.app_data::<MaxBody>().map_or(0, |most| most.0),
            env: request.app_data::<web::Data<Env>>().map(|env| env.as_ref().clone()),
            form: apis::form(request),
            media_type: media_type(request),
        }
    }

    /// Reads a body that must be JSON.
    async fn read_json(&mut self) -> Result<(Bytes, Desk), ApiError> {
        let (bytes, desk) = self.read().await?;
        let types: &[&str] = if self.form == ErrorForm::Compute { &JSON_OF_COMPUTE[..] } else { &[JSON] };
        expect_one_of(types, &bytes, self.media_type.as_deref(), self.form)?;
        Ok((bytes, desk))
    }

    async fn read(&mut self) -> Result<(Bytes, Desk), ApiError> {
        let mut body = BytesMut::new();
        while let Some(piece) = self.payload.next().await {
            let piece = piece.map_err(|error| match null_characters::is_refusal(&error) {
                true => ApiError::new(self.form, StatusCode::BAD_REQUEST, null_characters::IN_BODY),
                false => arrival::broken(&error, self.form),
            })?;
            if body.len() + piece.len() > self.most {
                return Err(ApiError::new(self.form, StatusCode::PAYLOAD_TOO_LARGE, "Request is too large."));
            }
            body.extend_from_slice(&piece);
        }
        let pool = self.env.take().filter(|_| body.len() > SMALL);
        Ok((body.freeze(), Desk { pool }))
    }
}

async fn parse<T: DeserializeOwned + Send + 'static>(bytes: Bytes, desk: &Desk, form: ErrorForm) -> Result<T, ApiError> {
    let parsed = desk.run(move || serde_json::from_slice(&bytes).map_err(|error| shortened(&error.to_string()))).await;
    let what = if form == ErrorForm::Placement { "Malformed JSON" } else { "Malformed request body" };
    parsed.map_err(|reason| ApiError::new(form, StatusCode::BAD_REQUEST, format!("{what}: {reason}.")))
}

/// Cuts the middle of a long message, which quotes the body. The beginning names the kind of error, the end its place.
fn shortened(reason: &str) -> String {
    let (head, tail) = (reason.char_indices().nth(HEAD), reason.char_indices().nth_back(TAIL - 1));
    match (head, tail) {
        (Some((head, _)), Some((tail, _))) if head < tail => format!("{}…{}", &reason[..head], &reason[tail..]),
        _ => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_quote_is_cut_out_of_a_parsers_reason() {
        let text = "x".repeat(10_000);
        let reason = serde_json::from_str::<u32>(&json!(text).to_string()).unwrap_err().to_string();
        let short = shortened(&reason);
        assert!(short.starts_with("invalid type: string \"xxx") && short.ends_with("x\", expected u32 at line 1 column 10002"), "{short}");
        assert!(short.chars().count() <= HEAD + TAIL + 1);
        assert_eq!(shortened("expected value at line 1 column 1"), "expected value at line 1 column 1");
    }
}
