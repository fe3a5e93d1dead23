//! Tests of the embedded identity service, by the rights that its tokens give.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use cellshift_embedded::ServiceError;
use cellshift_embedded::identity::tokens::{CACHE_MAX, TokenCache};
use cellshift_embedded::identity::*;
use cellshift_embedded::testkit::services_database;
use cellshift_env::{Clock, Env};
use cellshift_neighbours::identity::{Account, Sessions};
use cellshift_store::Db;
use chrono::{DateTime, TimeDelta, Utc};

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

struct IdentityFixture {
    identity: EmbeddedIdentity,
    clock: Arc<TestClock>,
    db: Db,
    env: Env,
    folder: tempfile::TempDir,
    demo: Project,
    user: User,
}

/// Makes the project demo and its member, the user demo with password `secret`.
async fn world() -> IdentityFixture {
    world_with(Settings::cheap()).await
}

async fn world_with(settings: Settings) -> IdentityFixture {
    let clock = Arc::new(TestClock(AtomicI64::new(1_800_000_000_000_000)));
    let (env, db) = services_database(clock.clone());
    let folder = tempfile::tempdir().unwrap();
    let identity = EmbeddedIdentity::open(db.clone(), env.clone(), &folder.path().join("keys"), settings).await.unwrap();
    let demo = identity.ensure_project("demo").await.unwrap();
    let user = identity.ensure_user("demo", "secret", None).await.unwrap();
    identity.ensure_assignment(&user, Target::Project(demo.id.clone()), "member").await.unwrap();
    IdentityFixture { identity, clock, db, env, folder, demo, user }
}

fn new_user(domain_id: &str, name: &str) -> NewUser {
    NewUser {
        domain_id: domain_id.into(),
        name: name.into(),
        password: Some("secret".into()),
        description: String::new(),
        email: None,
        enabled: true,
        default_project_id: None,
    }
}

fn new_project(domain_id: &str, name: &str) -> NewProject {
    NewProject { domain_id: domain_id.into(), name: name.into(), description: String::new(), enabled: true, tags: Vec::new() }
}

fn named_user() -> UserRef {
    UserRef::Name { name: "demo".into(), domain: DomainRef::Name("Default".into()) }
}

fn demo_scope() -> ScopeRequest {
    ScopeRequest::Project(ProjectRef::Name { name: "demo".into(), domain: DomainRef::default() })
}

impl IdentityFixture {
    /// Returns the keys in force.
    async fn keys(&self) -> Arc<keys::KeySet> {
        keys::KeyRing::open(&self.env, &self.folder.path().join("keys")).await.unwrap().current().await
    }

    async fn token(&self) -> IssuedToken {
        self.identity.authenticate_password(&named_user(), "secret", demo_scope()).await.unwrap()
    }
}

#[tokio::test]
async fn a_password_gives_a_token_of_the_user_in_the_project() {
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
    let other = ScopeRequest::Project(ProjectRef::Name { name: "other".into(), domain: DomainRef::default() });
    let nobody = UserRef::Name { name: "nobody".into(), domain: DomainRef::Name("Default".into()) };
    let foreign = UserRef::Name { name: "demo".into(), domain: DomainRef::Name("elsewhere".into()) };
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
async fn revoked_rights_are_gone_at_once() {
    let world = world().await;
    let (first, second) = (world.token().await, world.token().await);
    world.identity.validate(&first.id).await.unwrap();
    world.identity.validate(&second.id).await.unwrap();

    world.identity.revoke_token(&first.id).await.unwrap();
    assert!(world.identity.validate(&first.id).await.is_err(), "revoked");
    world.identity.validate(&second.id).await.unwrap();

    world.clock.advance(TimeDelta::seconds(1));
    world.identity.change_password(&world.user.id, "secret", "newer".into()).await.unwrap();
    assert!(world.identity.validate(&second.id).await.is_err(), "issued before the password changed");
    assert!(world.identity.authenticate_password(&named_user(), "secret", demo_scope()).await.is_err());
    world.identity.authenticate_password(&named_user(), "newer", demo_scope()).await.unwrap();
}

impl IdentityFixture {
    /// Opens a second process's service over the same database and keys.
    async fn another(&self) -> EmbeddedIdentity {
        let file = self.folder.path().join("keys");
        EmbeddedIdentity::open(self.db.clone(), self.env.clone(), &file, Settings::cheap()).await.unwrap()
    }

    async fn assignment(&self) -> Assignment {
        let role_id = self.identity.ensure_role("member").await.unwrap().id;
        Assignment { actor: Actor::User(self.user.id.clone()), target: Target::Project(self.demo.id.clone()), role_id }
    }

    async fn enable_user(&self, enabled: bool) {
        let update = UserUpdate { enabled: Some(enabled), ..UserUpdate::default() };
        self.identity.update_user(&self.user.id, update).await.unwrap();
    }

    async fn enable_project(&self, enabled: bool) {
        let changes = ProjectChanges { enabled: Some(enabled), ..ProjectChanges::default() };
        self.identity.update_project(&self.demo.id, changes).await.unwrap();
    }
}

/// The ways to revoke a user's token and to restore its basis.
#[derive(Clone, Copy, Debug)]
enum Way {
    User,
    Project,
    Assignment,
    Role,
    Password,
}

const WAYS: [Way; 5] = [Way::User, Way::Project, Way::Assignment, Way::Role, Way::Password];

impl IdentityFixture {
    /// Revokes in one way and restores. A deleted role comes back under its name.
    async fn take_and_give_back(&self, way: Way) {
        match way {
            Way::User => {
                self.enable_user(false).await;
                self.enable_user(true).await;
            }
            Way::Project => {
                self.enable_project(false).await;
                self.enable_project(true).await;
            }
            Way::Assignment => {
                self.identity.revoke(self.assignment().await).await.unwrap();
                self.identity.grant(self.assignment().await).await.unwrap();
            }
            Way::Role => {
                let custom = self.identity.create_role("custom", "").await.unwrap().id;
                self.identity.grant(Assignment { role_id: custom.clone(), ..self.assignment().await }).await.unwrap();
                self.identity.delete_role(&custom).await.unwrap();
            }
            Way::Password => {
                let update = UserUpdate { password: Some("secret".into()), ..UserUpdate::default() };
                self.identity.update_user(&self.user.id, update).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_token_stays_revoked_when_the_right_returns() {
    for way in WAYS {
        let world = world().await;
        let token = world.token().await;
        let unscoped = world.identity.authenticate_password(&named_user(), "secret", ScopeRequest::Unscoped).await.unwrap();
        let other = world.another().await;
        other.validate(&token.id).await.unwrap();
        // All of this happens in one instant, so that no clock tells before from after.
        world.take_and_give_back(way).await;
        assert!(world.identity.validate(&token.id).await.is_err(), "{way:?}");
        assert!(world.identity.authenticate_token(&token.id, demo_scope()).await.is_err(), "{way:?}: it is worth no other");
        assert!(world.another().await.validate(&token.id).await.is_err(), "{way:?}: nor after a restart");
        let ends_all = matches!(way, Way::User | Way::Password);
        assert_eq!(world.identity.validate_token(&unscoped.id).await.is_err(), ends_all, "{way:?}: the unscoped one");
        let again = world.token().await;
        world.identity.validate(&again.id).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn another_process_sees_a_revocation_within_a_second() {
    for way in WAYS {
        let world = world().await;
        let token = world.token().await;
        let other = world.another().await;
        other.validate(&token.id).await.unwrap();
        world.take_and_give_back(way).await;
        // The cache keeps a judged token for ten seconds, but the records' clock stands still.
        tokio::time::advance(std::time::Duration::from_millis(900)).await;
        assert!(other.validate(&token.id).await.is_err(), "{way:?}");
        let fresh = world.token().await;
        other.validate(&fresh.id).await.unwrap();
        world.identity.revoke_token(&fresh.id).await.unwrap();
        tokio::time::advance(std::time::Duration::from_millis(900)).await;
        assert!(other.validate(&fresh.id).await.is_err(), "{way:?}: this token alone");
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_requests_asks_the_database_twice_a_second_at_most() {
    let world = world().await;
    let token = world.token().await;
    world.identity.validate(&token.id).await.unwrap();
    let before = world.db.calls().reads;
    for _ in 0..100 {
        world.identity.validate(&token.id).await.unwrap();
    }
    assert_eq!(world.db.calls().reads, before);
    for _ in 0..3 {
        tokio::time::advance(std::time::Duration::from_millis(600)).await;
        for _ in 0..10 {
            world.identity.validate(&token.id).await.unwrap();
        }
    }
    assert_eq!(world.db.calls().reads, before + 3, "one small question each, and the token is not judged anew");
}

#[tokio::test]
async fn all_credentials_must_be_right_and_of_one_user() {
    let world = world().await;
    let good = world.token().await.id;
    world.identity.ensure_user("other", "secret", None).await.unwrap();
    let password = |name: &str, password: &str| Credential::Password {
        user: UserRef::Name { name: name.into(), domain: DomainRef::Name("Default".into()) },
        password: password.into(),
    };
    let token = |id: &str| Credential::Token(id.into());
    for wrong in [
        vec![],
        vec![password("demo", "secret"), token("garbage")],
        vec![token(&good), password("demo", "wrong")],
        vec![token(&good), password("other", "secret")],
    ] {
        let answer = world.identity.authenticate(wrong, ScopeRequest::Unscoped).await;
        assert!(matches!(answer, Err(AuthenticationError::Unauthorized)));
    }
    world.clock.advance(TimeDelta::hours(1));
    let both = world.identity.authenticate(vec![token(&good), password("demo", "secret")], demo_scope()).await.unwrap();
    assert_eq!(both.token.methods, ["password", "token"]);
    assert_eq!(both.token.expires_at, world.identity.validate_token(&good).await.unwrap().expires_at, "not later than the first");
}

#[tokio::test]
async fn a_link_works_once_and_leads_to_its_project() {
    let world = world().await;
    let link = world.token().await.id;
    let session = world.identity.exchange(&link).await.unwrap();
    let named_demo = |id: &str| Account { id: id.to_owned(), name: "demo".to_owned() };
    assert_eq!((session.user, session.project), (named_demo(&world.user.id), named_demo(&world.demo.id)));
    assert_eq!(world.identity.validate(&session.token).await.unwrap().project_id, world.demo.id);
    assert!(matches!(world.identity.exchange(&link).await, Err(AuthenticationError::Unauthorized)));

    let without_project = world.identity.authenticate_token(&session.token, ScopeRequest::Unscoped).await.unwrap().id;
    let refusal = world.identity.exchange(&without_project).await;
    assert!(matches!(refusal, Err(AuthenticationError::Service(ServiceError::Forbidden(_)))));
    world.identity.validate(&without_project).await.unwrap();

    world.identity.log_out(&session.token).await.unwrap();
    assert!(world.identity.validate(&session.token).await.is_err());
}

#[tokio::test]
async fn a_wrong_original_password_is_unauthorized() {
    let world = world().await;
    let answer = world.identity.change_password(&world.user.id, "wrong", "newer".into()).await;
    assert!(matches!(answer, Err(AuthenticationError::Unauthorized)));
    let answer = world.identity.change_password("nobody", "secret", "newer".into()).await;
    assert!(matches!(answer, Err(AuthenticationError::Unauthorized)));
    let answer = world.identity.change_password(&world.user.id, "secret", String::new()).await;
    assert!(matches!(answer, Err(AuthenticationError::Service(ServiceError::Invalid(_)))));
    world.token().await;
}

#[tokio::test]
async fn a_login_outlasts_a_revocation_but_not_a_new_password() {
    let world = world().await;
    let (identity, reader) = (&world.identity, world.identity.ensure_role("reader").await.unwrap());
    let target = Target::Project(world.demo.id.clone());
    let further = Assignment { actor: Actor::User(world.user.id.clone()), target, role_id: reader.id };
    identity.grant(further.clone()).await.unwrap();
    let before = world.token().await;
    let proven = identity.prove_password(named_user(), "secret").await.unwrap();
    identity.revoke(further).await.unwrap();
    let issued = identity.issue(proven, demo_scope()).await.unwrap();
    identity.validate(&issued.id).await.unwrap();
    assert!(identity.validate(&before.id).await.is_err());
    let proven = identity.prove_password(named_user(), "secret").await.unwrap();
    identity.change_password(&world.user.id, "secret", "newer".into()).await.unwrap();
    assert!(matches!(identity.issue(proven, demo_scope()).await, Err(AuthenticationError::Unauthorized)));
}

#[tokio::test]
async fn a_rotated_key_keeps_tokens_and_a_forgotten_one_ends_them() {
    let world = world().await;
    let token = world.token().await;
    let file = world.folder.path().join("keys");
    keys::rotate(&file, world.env.now(), false).unwrap();
    world.another().await.validate(&token.id).await.unwrap();
    let newer = world.another().await.authenticate_password(&named_user(), "secret", demo_scope()).await.unwrap();
    world.identity.validate(&newer.id).await.unwrap();
    keys::rotate(&file, world.env.now(), true).unwrap();
    assert!(world.another().await.validate(&newer.id).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_cached_token_ends_with_its_forgotten_key() {
    let world = world().await;
    let token = world.token().await;
    world.identity.validate(&token.id).await.unwrap();
    keys::rotate(&world.folder.path().join("keys"), world.env.now(), true).unwrap();
    tokio::time::advance(std::time::Duration::from_millis(900)).await;
    assert!(world.identity.validate(&token.id).await.is_err());
}

#[tokio::test]
async fn a_full_cache_drops_the_least_recently_used_token() {
    let world = world().await;
    let (token, keys, now) = (world.token().await.token, world.keys().await, world.env.now());
    let mut cache = TokenCache::default();
    let question = cache.ask();
    cache.learn(1, question, &keys);
    for number in 0..CACHE_MAX.get() {
        cache.put(&number.to_string(), &token, now, (1, &keys));
    }
    assert!(cache.get("0", now).is_some());
    cache.put("another", &token, now, (1, &keys));
    assert_eq!(["0", "1", "2", "another"].map(|id| cache.get(id, now).is_some()), [true, false, true, true]);
}

#[tokio::test]
async fn built_in_roles_are_neither_deleted_nor_renamed_nor_imitated() {
    let world = world().await;
    for role in world.identity.roles().await.unwrap() {
        let renamed = RoleChanges { name: Some("other".into()), description: None };
        assert!(matches!(world.identity.delete_role(&role.id).await, Err(ServiceError::Forbidden(_))), "{}", role.name);
        assert!(matches!(world.identity.update_role(&role.id, renamed).await, Err(ServiceError::Forbidden(_))), "{}", role.name);
        let imitated = world.identity.create_role(&role.name.to_uppercase(), "").await;
        assert!(matches!(imitated, Err(ServiceError::Conflict(_))), "{}", role.name);
    }
    let custom = world.identity.create_role("Operator", "").await.unwrap();
    let renamed = |name: &str| RoleChanges { name: Some(name.into()), description: None };
    assert!(matches!(world.identity.create_role("operator", "").await, Err(ServiceError::Conflict(_))));
    assert!(matches!(world.identity.update_role(&custom.id, renamed("Admin")).await, Err(ServiceError::Conflict(_))));
    assert_eq!(world.identity.update_role(&custom.id, renamed("OPERATOR")).await.unwrap().name, "OPERATOR", "its own name");
    world.identity.delete_role(&custom.id).await.unwrap();
}

#[tokio::test]
async fn a_role_of_an_older_release_that_imitates_admin_gives_nothing() {
    use cellshift_domain::policy::{Policy, Target as Whose};

    use cellshift_embedded::identity::roles::records as roles;

    let world = world().await;
    let imitation = Role { id: "1".repeat(32), name: "ADMIN".into(), description: String::new() };
    let stored = imitation.clone();
    world.db.write(move |conn| roles::insert_built_in(conn, &stored)).await.unwrap();
    let assignment = Assignment { role_id: imitation.id, ..world.assignment().await };
    world.identity.grant(assignment).await.unwrap();
    let context = world.identity.validate(&world.token().await.id).await.unwrap();
    assert_eq!(context.roles, ["ADMIN", "member", "reader"]);
    assert!(!context.is_admin());
    let rules = [("by_name", "role:admin"), ("by_other_name", "role:ADMIN"), ("by_flag", "is_admin:True")];
    let policy = Policy::new(&rules.map(|(name, text)| (name.to_owned(), text.to_owned())).into()).unwrap();
    for (rule, _) in rules.into_iter().chain([("os_compute_api:os-services:list", "")]) {
        assert!(policy.knows(rule) && !policy.check(rule, &context, &Whose::own(&context)), "{rule}");
    }
    assert_eq!(world.another().await.roles().await.unwrap().len(), 6, "the built-in roles are all there, and it is not renamed");
}

#[tokio::test]
async fn changes_are_checked_as_what_is_made() {
    let world = world().await;
    let role = world.identity.create_role("custom", "").await.unwrap().id;
    let long = "x".repeat(256);
    for name in ["", "  ", "a\0b", "a\nb", long.as_str()] {
        let named = || Some(name.to_owned());
        let user = UserUpdate { name: named(), ..UserUpdate::default() };
        let project = ProjectChanges { name: named(), ..ProjectChanges::default() };
        let refused = [
            world.identity.update_user(&world.user.id, user).await.err(),
            world.identity.update_project(&world.demo.id, project).await.err(),
            world.identity.update_role(&role, RoleChanges { name: named(), description: None }).await.err(),
            world.identity.create_user(new_user(DEFAULT_DOMAIN, name)).await.err(),
            world.identity.create_project(new_project(DEFAULT_DOMAIN, name)).await.err(),
            world.identity.create_role(name, "").await.err(),
        ];
        assert!(refused.iter().all(|error| matches!(error, Some(ServiceError::Invalid(_)))), "{name:?}: {refused:?}");
    }
    let wrong = [
        UserUpdate { password: Some(String::new()), ..UserUpdate::default() },
        UserUpdate { description: Some("\0".into()), ..UserUpdate::default() },
        UserUpdate { email: Some(Some("a\0@b".into())), ..UserUpdate::default() },
        UserUpdate { default_project_id: Some(Some("\0".into())), ..UserUpdate::default() },
    ];
    for update in wrong {
        let refused = world.identity.update_user(&world.user.id, update.clone()).await;
        assert!(matches!(refused, Err(ServiceError::Invalid(_))), "{update:?}");
    }
    let fits = UserUpdate { name: Some(format!(" {} ", "x".repeat(255))), ..UserUpdate::default() };
    assert_eq!(world.identity.update_user(&world.user.id, fits).await.unwrap().name.len(), 255);
    world.identity.ensure_project("other").await.unwrap();
    let too_long = ProjectChanges { name: Some("x".repeat(65)), ..ProjectChanges::default() };
    assert!(matches!(world.identity.update_project(&world.demo.id, too_long).await, Err(ServiceError::Invalid(_))));
    let same_name = ProjectChanges { name: Some("other".into()), ..ProjectChanges::default() };
    assert!(matches!(world.identity.update_project(&world.demo.id, same_name).await, Err(ServiceError::Conflict(_))));
    assert!(matches!(world.identity.user("\0").await, Err(ServiceError::NotFound(_))));
    let nul = UserRef::Name { name: "\0".into(), domain: DomainRef::Name("Default".into()) };
    let answer = world.identity.authenticate_password(&nul, "secret", demo_scope()).await;
    assert!(matches!(answer, Err(AuthenticationError::Unauthorized)));
}

#[tokio::test]
async fn an_older_hash_is_replaced_at_the_next_login() {
    let weak = Settings { cost: Cost { memory_kib: 32, passes: 1 }, ..Settings::default() };
    let world = world_with(weak).await;
    world.another().await.authenticate_password(&named_user(), "secret", demo_scope()).await.unwrap();
    let user = world.identity.user(&world.user.id).await.unwrap();
    assert!(user.password_hash.contains("m=64,"), "{}", user.password_hash);
    assert_eq!(user.password_changed_at, world.user.password_changed_at, "the password is the same, and tokens stay good");
    world.token().await;
}

#[tokio::test]
async fn a_lockout_counts_in_the_database_and_passes() {
    let lockout = Lockout { attempts: 3, duration: std::time::Duration::from_secs(60) };
    let settings = Settings { lockout: Some(lockout), ..Settings::cheap() };
    let world = world_with(settings.clone()).await;
    let file = world.folder.path().join("keys");
    let other = EmbeddedIdentity::open(world.db.clone(), world.env.clone(), &file, settings).await.unwrap();
    let log_in = async |identity: &EmbeddedIdentity, password: &str| {
        identity.authenticate_password(&named_user(), password, demo_scope()).await.is_ok()
    };
    assert!(!log_in(&world.identity, "wrong").await && !log_in(&other, "wrong").await);
    assert!(log_in(&world.identity, "secret").await, "two are not three, and the right one begins anew");
    for identity in [&world.identity, &other, &world.identity] {
        assert!(!log_in(identity, "wrong").await);
    }
    assert!(!log_in(&world.identity, "secret").await && !log_in(&other, "secret").await, "locked out in both processes");
    world.clock.advance(TimeDelta::seconds(61));
    assert!(log_in(&other, "secret").await);
    for _ in 0..3 {
        assert!(!log_in(&other, "wrong").await);
    }
    let update = UserUpdate { password: Some("newer".into()), ..UserUpdate::default() };
    world.identity.update_user(&world.user.id, update).await.unwrap();
    assert!(log_in(&other, "newer").await, "an administrator has set a password");
    let without = world.another().await;
    for _ in 0..9 {
        assert!(!log_in(&without, "wrong").await);
    }
    assert!(log_in(&without, "newer").await, "there is no lockout unless it is asked for");
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
    let again = EmbeddedIdentity::open(world.db.clone(), world.env.clone(), &file, Settings::cheap()).await.unwrap();
    again.validate(&issued.id).await.unwrap();
    let newer = again.authenticate_password(&named_user(), "secret", demo_scope()).await.unwrap();
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while world.identity.validate(&newer.id).await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "the old process takes the new key without a restart");
        tokio::task::yield_now().await;
    }
    assert_eq!(again.ensure_user("demo", "another", None).await.unwrap(), world.user, "an existing user keeps its password");
    assert_eq!(again.roles().await.unwrap().len(), 5);
}
