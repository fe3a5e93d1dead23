//! The embedded identity service, judged by what its tokens open.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, TimeDelta, Utc};

use super::*;
use crate::db::Db;
use crate::db::fixture::services_database;
use crate::env::{Clock, Env};

struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_micros(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

impl TestClock {
    fn advance(&self, by: TimeDelta) {
        self.0.fetch_add(by.num_microseconds().unwrap(), Ordering::SeqCst);
    }
}

struct World {
    identity: EmbeddedIdentity,
    clock: Arc<TestClock>,
    db: Db,
    env: Env,
    folder: tempfile::TempDir,
    demo: Project,
    user: User,
}

/// Project demo; user demo, member there, password `secret`.
async fn world() -> World {
    let clock = Arc::new(TestClock(AtomicI64::new(1_800_000_000_000_000)));
    let (env, db) = services_database(clock.clone());
    let folder = tempfile::tempdir().unwrap();
    let identity = EmbeddedIdentity::open(db.clone(), env.clone(), &folder.path().join("keys")).await.unwrap();
    let demo = identity.ensure_project("demo").await.unwrap();
    let user = identity.ensure_user("demo", "secret", None).await.unwrap();
    identity.ensure_assignment(&user, Target::Project(demo.id.clone()), "member").await.unwrap();
    World { identity, clock, db, env, folder, demo, user }
}

fn named_user() -> UserRef {
    UserRef::Name { name: "demo".into(), domain: "Default".into() }
}

fn demo_scope() -> ScopeRequest {
    ScopeRequest::Project(ProjectRef::Name { name: "demo".into(), domain: "default".into() })
}

impl World {
    async fn token(&self) -> IssuedToken {
        self.identity.authenticate_password(&named_user(), "secret", demo_scope()).await.unwrap()
    }
}

#[tokio::test]
async fn a_password_gives_a_token_that_speaks_for_the_user_in_the_project() {
    let world = world().await;
    let issued = world.token().await;
    let context = world.identity.validate(&issued.id).await.unwrap();
    assert_eq!((context.user_name.as_str(), context.project_id.as_str()), ("demo", world.demo.id.as_str()));
    assert_eq!(context.roles, ["member", "reader"], "member implies reader");
    assert!(!context.system_scope);
}

#[tokio::test]
async fn wrong_credentials_and_foreign_scopes_are_refused_alike() {
    let world = world().await;
    world.identity.ensure_project("other").await.unwrap();
    let other = ScopeRequest::Project(ProjectRef::Name { name: "other".into(), domain: "default".into() });
    let nobody = UserRef::Name { name: "nobody".into(), domain: "Default".into() };
    let foreign = UserRef::Name { name: "demo".into(), domain: "elsewhere".into() };
    for (user, password, scope) in [
        (named_user(), "wrong", demo_scope()),
        (named_user(), "secret", other),
        (named_user(), "secret", ScopeRequest::System),
        (nobody, "secret", demo_scope()),
        (foreign, "secret", demo_scope()),
    ] {
        let answer = world.identity.authenticate_password(&user, password, scope).await;
        assert!(matches!(answer, Err(AuthenticationError::Unauthorized)), "{user:?}");
    }
    assert!(matches!(world.identity.validate("gAAAA-nonsense").await, Err(ServiceError::NotFound(_))));
}

#[tokio::test]
async fn what_is_taken_away_is_gone_at_once() {
    let world = world().await;
    let (first, second) = (world.token().await, world.token().await);
    world.identity.validate(&first.id).await.unwrap();
    world.identity.validate(&second.id).await.unwrap();

    world.identity.revoke_token(&first.id).await.unwrap();
    assert!(world.identity.validate(&first.id).await.is_err(), "revoked");
    world.identity.validate(&second.id).await.unwrap();

    let role = world.identity.ensure_role("member").await.unwrap();
    let assignment = Assignment { user_id: world.user.id.clone(), target: Target::Project(world.demo.id.clone()), role_id: role.id };
    world.identity.revoke(assignment.clone()).await.unwrap();
    assert!(world.identity.validate(&second.id).await.is_err(), "no role left in the project");
    world.identity.grant(assignment).await.unwrap();
    world.identity.validate(&second.id).await.unwrap();

    world.clock.advance(TimeDelta::seconds(1));
    world.identity.change_password(&world.user.id, "secret", "newer").await.unwrap();
    assert!(world.identity.validate(&second.id).await.is_err(), "issued before the password changed");
    assert!(world.identity.authenticate_password(&named_user(), "secret", demo_scope()).await.is_err());
    world.identity.authenticate_password(&named_user(), "newer", demo_scope()).await.unwrap();
}

#[tokio::test]
async fn tokens_expire_and_rescoping_does_not_prolong_them() {
    let world = world().await;
    let unscoped = world.identity.authenticate_password(&named_user(), "secret", ScopeRequest::Default).await.unwrap();
    assert_eq!(unscoped.token.scope, Scope::Unscoped);
    world.clock.advance(TimeDelta::hours(1));
    let scoped = world.identity.authenticate_token(&unscoped.id, demo_scope()).await.unwrap();
    assert_eq!(scoped.token.expires_at, unscoped.token.expires_at);
    assert_eq!(scoped.token.methods, ["password", "token"]);
    assert_eq!(scoped.token.audit_ids[1], unscoped.token.audit_ids[0]);
    world.clock.advance(TimeDelta::hours(11));
    assert!(world.identity.validate(&scoped.id).await.is_err());
}

#[tokio::test]
async fn a_restart_and_a_new_key_keep_tokens_valid() {
    let world = world().await;
    let issued = world.token().await;
    let file = world.folder.path().join("keys");
    let old = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{}\n{old}", fernet::Fernet::generate_key())).unwrap();
    let again = EmbeddedIdentity::open(world.db.clone(), world.env.clone(), &file).await.unwrap();
    again.validate(&issued.id).await.unwrap();
    let newer = again.authenticate_password(&named_user(), "secret", demo_scope()).await.unwrap();
    assert!(world.identity.validate(&newer.id).await.is_err(), "sealed with the new key, which the old process does not know");
    assert_eq!(again.ensure_user("demo", "another", None).await.unwrap(), world.user, "an existing user keeps its password");
    assert_eq!(again.roles().await.unwrap().len(), 5);
}
