//! Identity, images and volumes over a fresh database, for tests: the services, what registers their APIs, and requests to them.

use std::sync::Arc;

use actix_web::body::MessageBody;
use actix_web::dev::{Service, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::HeaderMap;
use actix_web::test::TestRequest;
use actix_web::web::Data;
use actix_web::{Error, test, web};
use bytes::Bytes;
use cellshift_domain::context::RequestContext;
use cellshift_env::{Clock, Env, SystemClock};
use cellshift_store::Db;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::MIGRATIONS;
use crate::identity::{DomainRef, EmbeddedIdentity, ProjectRef, ScopeRequest, Settings, Target, UserRef};
use crate::image::{EmbeddedImage, ImageService, NewImage};
use crate::volume::EmbeddedVolume;
use crate::{identity, image, volume};

/// Registers one API: its routes and its handlers' data. Called once per worker.
pub type Part = Arc<dyn Fn(&mut web::ServiceConfig) + Send + Sync>;

/// The services, with projects `demo` (user demo, member) and `admin` (user admin). Each user's password is `secret`.
pub struct ApiFixture {
    pub env: Env,
    pub identity: Arc<EmbeddedIdentity>,
    pub images: Arc<EmbeddedImage>,
    pub volumes: Arc<EmbeddedVolume>,
    pub folder: tempfile::TempDir,
}

/// Makes a fresh services database and its environment: on PostgreSQL if `CELLSHIFT_TEST_POSTGRES` is set, else in memory.
pub fn services_database(clock: Arc<dyn Clock>) -> (Env, Db) {
    cellshift_store::fixture::database("services", MIGRATIONS, clock)
}

/// Starts the services.
pub async fn world() -> ApiFixture {
    let (env, db) = services_database(Arc::new(SystemClock));
    let folder = tempfile::tempdir().unwrap();
    let identity = Arc::new(EmbeddedIdentity::open(db.clone(), env.clone(), &folder.path().join("keys"), Settings::cheap()).await.unwrap());
    for (name, role) in [("demo", "member"), ("admin", "admin")] {
        let project = identity.ensure_project(name).await.unwrap();
        let user = identity.ensure_user(name, "secret", None).await.unwrap();
        identity.ensure_assignment(&user, Target::Project(project.id), role).await.unwrap();
    }
    let images = Arc::new(EmbeddedImage::open(db.clone(), env.clone(), &folder.path().join("images")).await.unwrap());
    let volumes = EmbeddedVolume::open(db, env.clone(), &folder.path().join("volumes"), images.clone()).await.unwrap();
    ApiFixture { env, identity, images, volumes: Arc::new(volumes), folder }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub bytes: Bytes,
}

impl Answer {
    /// Parses the body as JSON, or panics.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap().to_str().unwrap()
    }
}

/// Sends a request.
pub async fn send<R, B: MessageBody>(app: &impl Service<R, Response = ServiceResponse<B>, Error = Error>, request: R) -> Answer {
    let (status, headers, body) = match app.call(request).await {
        Ok(response) => {
            let (status, headers) = (response.status(), response.headers().clone());
            (status, headers, test::read_body(response).await)
        }
        Err(error) => {
            let response = error.error_response();
            let (status, headers) = (response.status(), response.headers().clone());
            (status, headers, actix_web::body::to_bytes(response.into_body()).await.unwrap())
        }
    };
    Answer { status: status.as_u16(), headers, bytes: body }
}

/// Makes a request with a token, and a JSON body unless it is null.
pub fn request(method: Method, token: &str, path: &str, body: Value) -> TestRequest {
    let request = TestRequest::default().method(method).uri(path).insert_header(("Host", "cloud:8774"));
    let request = if token.is_empty() { request } else { request.insert_header(("X-Auth-Token", token)) };
    if body.is_null() { request } else { request.set_json(body) }
}

/// Returns the body of a login by names, scoped to the project with the user's name.
pub fn login(name: &str, password: &str) -> Value {
    let domain = json!({"name": "Default"});
    json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {"name": name, "domain": domain, "password": password}}},
        "scope": {"project": {"name": name, "domain": domain}},
    }})
}

impl ApiFixture {
    /// Returns what registers the three APIs and their data.
    pub fn part(&self) -> Part {
        let (identity, images, volumes) = (self.identity.clone(), self.images.clone(), self.volumes.clone());
        Arc::new(move |config| {
            config.app_data(Data::from(identity.clone())).app_data(Data::from(images.clone())).app_data(Data::from(volumes.clone()));
            config.configure(identity::routes::configure).configure(image::routes::configure).configure(volume::routes::configure);
        })
    }

    /// Returns a token of the user with this name in the project with this name.
    pub async fn token(&self, name: &str) -> String {
        let user = UserRef::Name { name: name.into(), domain: DomainRef::default() };
        let project = ProjectRef::Name { name: name.into(), domain: DomainRef::default() };
        self.identity.authenticate_password(&user, "secret", ScopeRequest::Project(project)).await.unwrap().id
    }

    /// Returns the context of a member of the project with this name.
    pub async fn caller(&self, name: &str) -> RequestContext {
        let project_id = self.identity.ensure_project(name).await.unwrap().id;
        RequestContext { project_id, roles: vec!["member".into(), "reader".into()], ..RequestContext::default() }
    }

    /// Makes an active image named `tiny` in this project, with these bytes.
    pub async fn image(&self, project: &str, content: &'static [u8]) -> Uuid {
        let new = NewImage { name: Some("tiny".into()), ..NewImage::default() };
        let image = self.images.create(&self.caller(project).await, new).await.unwrap();
        self.images.upload(image.id, Box::pin(futures::stream::iter([Ok(Bytes::from_static(content))]))).await.unwrap();
        image.id
    }
}
