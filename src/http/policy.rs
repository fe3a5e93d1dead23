//! Allows an action by the policy, or answers as Nova does.

use std::sync::Arc;

use actix_web::http::StatusCode;

use super::error::{ApiError, ErrorForm};
use crate::domain::context::RequestContext;
use crate::domain::policy::{Policy, PolicyError, Target};
use crate::policy_file::PolicyFile;

/// Enforces the policy. Share it as `web::Data`.
pub struct PolicyEnforcer {
    file: Arc<PolicyFile>,
}

impl PolicyEnforcer {
    /// Enforces the rules of the file.
    pub fn of(file: Arc<PolicyFile>) -> PolicyEnforcer {
        PolicyEnforcer { file }
    }

    /// Enforces the built-in rules only.
    pub fn built_in() -> Result<PolicyEnforcer, PolicyError> {
        Ok(PolicyEnforcer::of(Arc::new(PolicyFile::built_in()?)))
    }

    /// Returns the present rules.
    pub fn current(&self) -> Arc<Policy> {
        self.file.current()
    }

    /// True if the rule allows the action.
    pub fn check(&self, rule: &str, context: &RequestContext, target: &Target<'_>) -> bool {
        self.file.check(rule, context, target)
    }

    /// Answers 403 with Nova's message unless the rule allows the action.
    pub fn authorize(&self, rule: &str, context: &RequestContext, target: &Target<'_>) -> Result<(), ApiError> {
        match self.check(rule, context, target) {
            true => Ok(()),
            false => {
                let message = format!("Policy doesn't allow {rule} to be performed.");
                Err(ApiError::new(ErrorForm::Compute, StatusCode::FORBIDDEN, message))
            }
        }
    }
}
