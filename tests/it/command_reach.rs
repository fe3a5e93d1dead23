//! The commands that speak to a running service by its data directory, its URL, or as a cloud of openstackclient; and the names of servers
//! and migrations in commands.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::client::{NewServer, User, id_of};
use crate::databases;
use crate::service::{Ended, Service, program};

/// Runs a subcommand in an empty directory, with these variables and without openstackclient's other variables.
pub fn run_with(variables: &[(&str, &str)], arguments: &[&str]) -> Ended {
    let elsewhere = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(program());
    std::env::vars().filter(|(name, _)| name.starts_with("OS_")).for_each(|(name, _)| {
        command.env_remove(name);
    });
    command.args(arguments).current_dir(elsewhere.path()).envs(variables.iter().copied());
    let Output { status, stdout, stderr } = command.output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

pub struct Users {
    pub member: User,
    pub admin: User,
}

pub async fn users(service: &Service, data: &Path) -> Users {
    Users { member: service.user(data, "cellshift").await, admin: service.user(data, "cellshift-admin").await }
}

/// Makes servers with these names, and returns their ids.
async fn fill(users: &Users, names: &[&str]) -> Vec<String> {
    let images = users.member.get("/image/v2/images?name=tiny").await.expect(200);
    let image = id_of(&images.body["images"][0]);
    let mut made = Vec::new();
    for name in names {
        let server = id_of(&NewServer::of_image(image).named(name).ask(&users.member).await.expect(202).body["server"]);
        users.admin.notification("instance.create.end", Some(server)).await;
        made.push(server.to_string());
    }
    made
}

#[test]
fn servers_and_migrations_are_named_as_people_name_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().to_str().expect("a path");
    let service = Service::start(dir.path(), &[]);
    let made = actix_rt::System::new().block_on(async { fill(&users(&service, dir.path()).await, &["web", "twin", "twin"]).await });
    let run = |arguments: &[&str]| run_with(&[], &[arguments, &["--data-dir", data]].concat());

    for text in [made[0].as_str(), "web", &made[0][..8], &made[0][..13]] {
        let ended = run(&["migrations", "--all", "--server", text]);
        assert_eq!(ended.code, Some(0), "{text}: {}", ended.stderr);
        let lines: Vec<&str> = ended.stdout.lines().skip(1).collect();
        assert!(matches!(lines[..], [line] if line.contains("  web  ")), "{text}: {}", ended.stdout);
    }
    let twins = run(&["migrations", "--server", "twin"]);
    assert_eq!(twins.code, Some(1), "{}", twins.stdout);
    assert!(twins.stderr.contains(&made[1]) && twins.stderr.contains(&made[2]), "both are listed: {}", twins.stderr);
    let nobody = run(&["migrations", "--server", "nobody"]);
    assert!(nobody.stderr.contains("no server is called \"nobody\""), "{}", nobody.stderr);

    let listed: Value =
        serde_json::from_str(&run(&["migrations", "--all", "--server", "web", "-o", "json"]).stdout).expect("the route's answer");
    let migration = listed["migrations"][0]["uuid"].as_str().expect("an id");
    let (whole, short) = (run(&["migration", migration]), run(&["migration", &migration[..8]]));
    assert_eq!((whole.code, &whole.stdout), (Some(0), &short.stdout), "{}", short.stderr);
    assert!(whole.stdout.contains("create of server"), "{}", whole.stdout);
    let unknown = run(&["migration", "not-an-id"]);
    assert!(unknown.stderr.contains("is no migration"), "{}", unknown.stderr);
    service.stop();
}

/// Environment variables, and options.
type Way<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

#[test]
fn a_service_is_reached_by_its_url_and_as_a_cloud() {
    let dir = tempfile::tempdir().expect("a directory");
    let service = Service::start(dir.path(), &[]);
    let url = format!("http://{}", service.address);
    let token = actix_rt::System::new().block_on(async { users(&service, dir.path()).await.admin.token().to_owned() });
    let clouds = dir.path().join("clouds.yaml");
    let file = clouds.to_str().expect("a path");
    let text = std::fs::read_to_string(&clouds).expect("clouds.yaml");
    let parsed: Value = serde_yaml_ng::from_str(&text).expect("YAML");
    let password = parsed["clouds"]["cellshift-admin"]["auth"]["password"].as_str().expect("a password").to_owned();
    let identity = format!("{url}/identity/v3");
    let by_password = [
        ("OS_AUTH_URL", identity.as_str()),
        ("OS_USERNAME", "admin"),
        ("OS_PASSWORD", &password),
        ("OS_PROJECT_NAME", "admin"),
        ("OS_USER_DOMAIN_NAME", "Default"),
        ("OS_PROJECT_DOMAIN_ID", "default"),
    ];
    let by_token = [("OS_AUTH_TYPE", "v3token"), ("OS_AUTH_URL", &identity), ("OS_TOKEN", &token), ("OS_SYSTEM_SCOPE", "all")];
    let ways: [Way; 6] = [
        (&[], &["--url", &url, "--token", &token]),
        (&[("OS_TOKEN", &token)], &["--url", &format!("{url}/ops/v1/")]),
        (&[("OS_CLIENT_CONFIG_FILE", file)], &["--os-cloud", "cellshift-admin"]),
        (&[("OS_CLIENT_CONFIG_FILE", file), ("OS_CLOUD", "cellshift-admin")], &[]),
        (&by_password, &[]),
        (&by_token, &[]),
    ];
    for (variables, options) in ways {
        for command in [&["migrations"][..], &["audit"], &["audit", "--deep"]] {
            let ended = run_with(variables, &[command, options].concat());
            assert_eq!(ended.code, Some(0), "{command:?} {options:?} {variables:?}: {}{}", ended.stdout, ended.stderr);
        }
    }
    let member = run_with(&[("OS_CLIENT_CONFIG_FILE", file)], &["migrations", "--os-cloud", "cellshift"]);
    assert!(member.code == Some(1) && member.stderr.contains("403"), "{}", member.stderr);
    for refused in [&["--cells", "2"][..], &["--url", &url, "--data-dir", "x"], &["--token", "x"]] {
        assert_eq!(run_with(&[], &[&["migrations"][..], refused].concat()).code, Some(2), "{refused:?}");
    }
    let secure = run_with(&[], &["audit", "--url", "https://cloud.example", "--token", "x"]);
    assert!(secure.code == Some(5) && secure.stderr.contains("http://"), "{}", secure.stderr);
    service.stop();
}

const A_KILL: &str = "title = \"The scheduler dies\"\n[topology]\ncells = 2\nhosts_per_cell = 2\n\
                      [[faults]]\nwhen = { at_ms = 1 }\nwhat = { kill = { actor = \"scheduler\" } }\n";

#[test]
fn an_experiment_is_loaded_and_waited_for_on_the_command_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_str().expect("a path").to_owned();
    let (data, file, page, config) = (path("data"), path("a kill.toml"), path("verdict.html"), path("chaos.toml"));
    std::fs::write(&file, A_KILL).expect("a file");
    std::fs::write(&config, "[chaos]\nenabled = true\n").expect("a file");
    let service = Service::start(Path::new(&data), &["--config", &config]);
    let run = |arguments: &[&str]| run_with(&[], &[&["chaos"][..], arguments, &["--data-dir", &data]].concat());
    let early = run(&["show"]);
    assert!(early.code == Some(5) && early.stderr.contains("No experiment was loaded"), "{}", early.stderr);

    let ended = run(&["load", &file, "--wait", "--html", &page]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("topology: the service has its own") && ended.stdout.ends_with("Verdict: HELD\n"), "{}", ended.stdout);
    assert!(ended.stderr.contains("actor scheduler is killed"), "{}", ended.stderr);
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("cellshift chaos load &#39;") && page.contains("a kill.toml&#39;"), "its file's name is quoted");
    let shown = run(&["show"]);
    assert!(shown.code == Some(0) && ended.stdout.ends_with(&shown.stdout), "{}", shown.stdout);
    let stopped = run(&["stop"]);
    assert!(stopped.code == Some(0) && stopped.stdout.contains("The scheduler dies: over"), "{}{}", stopped.stdout, stopped.stderr);
    service.stop();

    let service = Service::start(Path::new(&data), &[]);
    let refused = run(&["load", &file]);
    assert!(refused.code == Some(5) && refused.stderr.contains("[chaos] enabled = true"), "{}", refused.stderr);
    service.stop();
}

#[test]
fn an_audit_on_postgresql_says_what_it_needs() {
    if !databases::on_postgres() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut placed = cellshift::config::Config::default();
    databases::place(&mut placed);
    let file = dir.path().join("cellshift.toml");
    std::fs::write(&file, format!("[database]\n{}", toml_of(&placed))).expect("a file");
    let (data_dir, config) = (data.to_str().expect("a path"), file.to_str().expect("a path"));
    let service = Service::start(&data, &["--config", config]);
    let with_config = ["audit", "--data-dir", data_dir, "--config", config];
    let ended = run_with(&[], &with_config);
    assert_eq!(ended.code, Some(0), "while it runs: {}{}", ended.stdout, ended.stderr);
    service.stop();
    for deep in [&[][..], &["--deep"]] {
        let ended = run_with(&[], &[&with_config[..], deep].concat());
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    }
    let without = run_with(&[], &["audit", "--data-dir", data_dir]);
    assert_eq!(without.code, Some(5), "{}", without.stdout);
    assert!(without.stderr.contains("[database] api") && without.stderr.contains("--config"), "{}", without.stderr);
    databases::remove(&placed);
}

fn toml_of(placed: &cellshift::config::Config) -> String {
    let database = &placed.database;
    let line = |key: &str, url: &str| format!("{key} = {url:?}\n");
    let mut text = line("api", database.api.as_deref().expect("a URL")) + &line("services", database.services.as_deref().expect("a URL"));
    text += "[database.cells]\n";
    text.extend(database.cells.iter().map(|(cell, url)| line(cell, url)));
    text
}
