//! Erases what releases before this one kept in the clear in the contexts of sagas that are over.

use super::context::Context;
use crate::db::DbError;
use crate::db::api::operations::Operations;

/// Rewrites every such context, once.
pub async fn erase(operations: &Operations) -> Result<(), DbError> {
    if !operations.has_clear_contexts().await? {
        return Ok(());
    }
    log::info!("passwords that an earlier release kept with ended operations are erased");
    while operations.erase_clear_contexts(bare).await? {}
    Ok(())
}

/// The context without its secrets; none when it has none, or cannot be read.
fn bare(text: &str) -> Option<String> {
    let context: Context = serde_json::from_str(text).ok()?;
    let bare = context.without_secrets();
    if bare == context { None } else { serde_json::to_string(&bare).ok() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::domain::context::RequestContext;
    use crate::domain::flavor::Flavor;
    use crate::domain::instance::Instance;
    use crate::domain::instance_bundle::InstanceBundle;
    use crate::domain::quota_grant::CheckedRoom;
    use crate::domain::request_spec::RequestSpec;
    use crate::env::Env;
    use crate::saga::context::{CreateRequest, Request, first_boot};

    /// A create as a release before this one journalled it.
    fn written() -> Value {
        let (env, server) = (Env::system(), Uuid::from_u128(1));
        let mut instance = Instance::new(server, "demo", "alice", "web", Flavor::default(), env.now());
        instance.user_data = Some("dXNlciBkYXRh".into());
        instance.injected_files = json!([{"path": "/etc/motd", "contents": "ZmlsZQ=="}]);
        let request_spec = RequestSpec::new(server, "demo", "alice", Flavor::default());
        let config_drive = json!({
            "name": "web",
            "admin_pass": "pa55",
            "user_data": "dXNlciBkYXRh",
            "files": [{"path": "/etc/motd", "contents": "ZmlsZQ=="}],
        });
        let create = CreateRequest {
            instance: Box::new(InstanceBundle::new(instance)),
            request_spec: Box::new(request_spec),
            networks: vec![],
            volumes: vec![],
            host: None,
            config_drive,
            sealed: None,
            room: CheckedRoom::without_second_check(),
        };
        let caller = RequestContext::default();
        json!(Context::new(Uuid::from_u128(2), caller, server, Request::Create(Box::new(create))))
    }

    #[test]
    fn a_context_in_the_clear_is_understood_and_erased() {
        let text = written().to_string();
        let mut context: Context = serde_json::from_str(&text).unwrap();
        let env = Env::system();
        let (config, secrets) = first_boot::read(context.part(), &env).unwrap();
        assert_eq!(config, json!({"name": "web"}));
        assert_eq!(secrets.admin_pass.as_ref().map(|password| password.expose().as_str()), Some("pa55"));
        // The saga goes on: from now on what it keeps is sealed.
        first_boot::keep(context.part_mut(), &env, config, &secrets);
        assert_eq!(first_boot::read(context.part(), &env).unwrap().1, secrets);
        let kept = serde_json::to_string(&context).unwrap();
        let erased = bare(&text).unwrap();
        for secret in ["pa55", "dXNlciBkYXRh", "ZmlsZQ=="] {
            assert!(text.contains(secret) && !kept.contains(secret) && !erased.contains(secret), "{secret}");
        }
        assert!(serde_json::from_str::<Context>(&erased).is_ok());
        assert_eq!(bare(&erased), None);
    }

    #[test]
    fn secrets_sealed_for_other_keys_are_refused() {
        let mut context: Context = serde_json::from_value(written()).unwrap();
        let (config, secrets) = first_boot::read(context.part(), &Env::system()).unwrap();
        first_boot::keep(context.part_mut(), &Env::system(), config, &secrets);
        assert!(first_boot::read(context.part(), &Env::system()).is_err());
    }
}
