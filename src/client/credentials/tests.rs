//! Tests of clouds and variables in the forms that openstackclient's users write.

use super::*;

fn of(variables: &[(&str, &str)]) -> Result<Credentials, ClientError> {
    Credentials::of_environment(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

const PASSWORD: [(&str, &str); 6] = [
    ("OS_AUTH_URL", "http://cloud:8774/identity/v3/"),
    ("OS_USERNAME", "admin"),
    ("OS_PASSWORD", "secret"),
    ("OS_PROJECT_NAME", "demo"),
    ("OS_USER_DOMAIN_NAME", "Default"),
    ("PATH", "/bin"),
];

#[test]
fn a_password_is_asked_with_its_project_and_domains() {
    let credentials = of(&PASSWORD).unwrap();
    assert_eq!(credentials.auth_url, "http://cloud:8774/identity");
    let user = json!({"name": "admin", "domain": {"name": "Default"}, "password": "secret"});
    assert_eq!(credentials.body["auth"]["identity"], json!({"methods": ["password"], "password": {"user": user}}));
    assert_eq!(credentials.body["auth"]["scope"], json!({"project": {"name": "demo", "domain": {"id": "default"}}}));
}

#[test]
fn a_token_an_id_and_a_scope_are_understood() {
    let credentials =
        of(&[("OS_AUTH_URL", "http://c/identity"), ("OS_TOKEN", "t"), ("OS_SYSTEM_SCOPE", "all"), ("OS_PROJECT_ID", "")]).unwrap();
    assert_eq!(
        credentials.body,
        json!({"auth": {"identity": {"methods": ["token"], "token": {"id": "t"}}, "scope": {"system": {"all": true}}}})
    );
    let by_id = [("OS_AUTH_URL", "http://c"), ("OS_USER_ID", "u"), ("OS_PASSWORD", "p"), ("OS_PROJECT_ID", "x")];
    let credentials = of(&by_id).unwrap();
    assert_eq!(credentials.body["auth"]["identity"]["password"]["user"], json!({"id": "u", "password": "p"}));
    assert_eq!(credentials.body["auth"]["scope"], json!({"project": {"id": "x"}}));
}

#[test]
fn an_application_credential_is_asked_without_a_scope() {
    let common = [("OS_AUTH_URL", "http://c"), ("OS_APPLICATION_CREDENTIAL_SECRET", "s"), ("OS_PROJECT_NAME", "demo")];
    for (variables, credential) in [
        (&[("OS_APPLICATION_CREDENTIAL_ID", "a")][..], json!({"id": "a", "secret": "s"})),
        (
            &[("OS_APPLICATION_CREDENTIAL_NAME", "robot"), ("OS_USER_ID", "u")][..],
            json!({"name": "robot", "user": {"id": "u"}, "secret": "s"}),
        ),
    ] {
        let credentials = of(&[&common[..], variables].concat()).unwrap();
        let identity = json!({"methods": ["application_credential"], "application_credential": credential});
        assert_eq!(credentials.body, json!({"auth": {"identity": identity}}));
    }
}

#[test]
fn missing_and_unserved_credentials_are_named() {
    for (variables, part) in [
        (&PASSWORD[1..], "auth_url is missing"),
        (&PASSWORD[..2], "password is missing"),
        (&[("OS_AUTH_URL", "http://c"), ("OS_PASSWORD", "p")], "username or user_id is missing"),
        (&[("OS_AUTH_URL", "http://c"), ("OS_APPLICATION_CREDENTIAL_SECRET", "s")], "application_credential_id, or"),
        (&[("OS_AUTH_URL", "http://c"), ("OS_AUTH_TYPE", "v3kerberos")], "v3kerberos is not known"),
    ] {
        let error = of(variables).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("OS_*"), "{error}");
    }
}

#[test]
fn a_cloud_is_read_from_the_file_that_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.yaml");
    std::fs::write(&file, "clouds:\n  one:\n    auth: {auth_url: 'http://c', username: u, password: 12, project_name: p}\n").unwrap();
    let path = file.to_str().unwrap().to_owned();
    let clouds = clouds_file(|name| (name == "OS_CLIENT_CONFIG_FILE").then(|| path.clone()));
    let credentials = Credentials::of_cloud(&clouds, "one").unwrap();
    assert_eq!(credentials.body["auth"]["identity"]["password"]["user"]["password"], "12");
    assert!(Credentials::of_cloud(&clouds, "two").unwrap_err().to_string().contains("it has no cloud two"));
}
