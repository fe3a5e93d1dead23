//! Answers as Nova does when the policy does not allow an action.

use actix_web::http::StatusCode;

use super::error::{ApiError, ErrorForm};
use crate::domain::context::RequestContext;
use crate::domain::policy::Target;
use crate::policy_file::PolicyFile;

impl PolicyFile {
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
