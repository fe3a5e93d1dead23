//! Answers who may read or change which accounts, as Keystone's default policy does.

use actix_web::http::StatusCode;
use cellshift_web::auth::Caller;
use cellshift_web::error::{ApiError, ErrorForm};

use super::routes::{Call, failed};
use crate::ServiceError;
use crate::identity::{Actor, Domain, Group, Project, User};

/// The roles that a domain's manager may give.
pub(super) const MANAGED_ROLES: [&str; 3] = ["manager", "member", "reader"];

/// Answers 403 unless the action is allowed. The action has the name of Keystone's policy (`identity:get_user`).
pub(super) fn require(action: &str, allowed: bool) -> Result<(), ApiError> {
    if allowed { Ok(()) } else { Err(forbidden(action)) }
}

fn forbidden(action: &str) -> ApiError {
    let message = format!("You are not authorized to perform the requested action: {action}.");
    ApiError::new(ErrorForm::Identity, StatusCode::FORBIDDEN, message)
}

/// Answers 403 to all but administrators.
pub(super) fn require_admin(action: &str, caller: &Caller) -> Result<(), ApiError> {
    require(action, caller.0.is_admin())
}

/// True for an administrator, and for a reader whose token is scoped to the system.
pub(super) fn reads_system(caller: &Caller) -> bool {
    caller.0.is_admin() || (caller.0.has_role("reader") && caller.0.system_scope)
}

/// True for each caller.
pub(super) fn anybody(_: &Caller) -> bool {
    true
}

/// The domains in whose accounts a caller may do something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reach {
    Everywhere,
    /// Only in the domain with this id.
    Domain(String),
    Nowhere,
}

impl Reach {
    pub(super) fn covers(&self, domain_id: &str) -> bool {
        match self {
            Reach::Everywhere => true,
            Reach::Domain(own) => own == domain_id,
            Reach::Nowhere => false,
        }
    }

    /// Answers 403 to a caller who may do this nowhere.
    pub(super) fn require(&self, action: &str) -> Result<(), ApiError> {
        require(action, *self != Reach::Nowhere)
    }

    /// Answers 403 to a caller who may not do this in the domain.
    pub(super) fn require_in(&self, action: &str, domain_id: &str) -> Result<(), ApiError> {
        require(action, self.covers(domain_id))
    }

    /// Returns the account that was looked up. Answers 403 for an account out of reach, and for an unknown one too, so that nobody learns
    /// what another domain has; a caller who reaches everything gets 404 for it.
    pub(super) fn admit<T: InDomain>(&self, action: &str, account: Result<T, ServiceError>) -> Result<T, ApiError> {
        match account {
            Ok(account) => self.require_in(action, account.domain_id()).map(|()| account),
            Err(ServiceError::NotFound(_)) if *self != Reach::Everywhere => Err(forbidden(action)),
            Err(error) => Err(failed(error)),
        }
    }
}

/// Says where the caller may read accounts: a reader whose token is scoped to a domain, in this domain.
pub(super) fn reads(caller: &Caller) -> Reach {
    match reads_system(caller) {
        true => Reach::Everywhere,
        false => in_own_domain(caller, "reader"),
    }
}

/// Says where the caller may change accounts: a manager whose token is scoped to a domain, in this domain.
pub(super) fn manages(caller: &Caller) -> Reach {
    match caller.0.is_admin() {
        true => Reach::Everywhere,
        false => in_own_domain(caller, "manager"),
    }
}

/// Returns the account that was looked up if the caller may change it. A manager may not take over an account with more rights than a manager
/// may give.
pub(super) async fn managed<T: InDomain>(
    call: &Call,
    action: &str,
    actor: &Actor,
    account: Result<T, ServiceError>,
) -> Result<T, ApiError> {
    let reach = manages(&call.caller);
    let account = reach.admit(action, account)?;
    if reach != Reach::Everywhere {
        let exceeds = call.service.exceeds(actor, &MANAGED_ROLES).await.map_err(failed)?;
        require(action, !exceeds)?;
    }
    Ok(account)
}

/// Says where the caller may read what concerns this user: as [`reads`], and everything about the caller's own user.
pub(super) fn reads_of_user(caller: &Caller, user_id: &str) -> Reach {
    if caller.0.user_id == user_id { Reach::Everywhere } else { reads(caller) }
}

/// Returns those of these accounts that the caller may read and the filters admit. Answers 403 to a caller who may read none.
pub(super) async fn readable<T: InDomain>(
    call: &Call,
    action: &str,
    accounts: impl Future<Output = Result<Vec<T>, ServiceError>>,
    admits: impl Fn(&T) -> bool,
) -> Result<Vec<T>, ApiError> {
    let reach = reads(&call.caller);
    reach.require(action)?;
    let mut accounts = accounts.await.map_err(failed)?;
    accounts.retain(|account| reach.covers(account.domain_id()) && admits(account));
    Ok(accounts)
}

fn in_own_domain(caller: &Caller, role: &str) -> Reach {
    match caller.0.has_role(role) && !caller.0.domain_id.is_empty() {
        true => Reach::Domain(caller.0.domain_id.clone()),
        false => Reach::Nowhere,
    }
}

/// An account that a domain owns, or the domain itself.
pub(super) trait InDomain {
    fn domain_id(&self) -> &str;
}

macro_rules! in_domain {
    ($($account:ty: $id:ident),+) => {
        $(impl InDomain for $account {
            fn domain_id(&self) -> &str {
                &self.$id
            }
        })+
    };
}

in_domain!(User: domain_id, Group: domain_id, Project: domain_id, Domain: id);
