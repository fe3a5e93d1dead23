//! A second process over the databases of a living one. It is refused with a sentence that names the first, and changes nothing; it may
//! begin when the first is dead and its time has passed. The program runs as its own process, on SQLite or PostgreSQL.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cellshift::config::Seconds;
use serde_json::json;
use uuid::Uuid;

use super::site::{Made, Site, copied};
use crate::chaos_proxy::{ChaosProxy, Mode};
use crate::client::{NewServer, PATIENCE, User, id_of};
use crate::databases::{self, on_postgres};
use crate::postgres_server::PostgresServer;
use crate::service::{Ended, Service};
use crate::stage::until;

/// A site whose processes have its databases for so long.
fn seated_for(term: Seconds) -> Site {
    let mut site = Site::new();
    site.config.database.seat = term;
    site
}

/// Starts a process over the site's databases with this data directory.
fn attempt(site: &Site, data: &Path) -> Result<Service, Ended> {
    attempt_with(&site.options(), data)
}

fn attempt_with(options: &[String], data: &Path) -> Result<Service, Ended> {
    Service::attempt(data, &options.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Starts a process that must be refused because of the living one at the site, and returns its sentence.
#[track_caller]
fn refused(site: &Site, data: &Path) -> String {
    let ended = attempt(site, data).map(|_| ()).expect_err("the first process lives");
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let sentence = ended.stderr.lines().last().unwrap_or_default().to_owned();
    let named = format!(" with the data directory {} has these databases since ", site.data.display());
    assert!(sentence.contains(&named) && sentence.contains("stop that process"), "{}", ended.stderr);
    sentence
}

/// Copies these files of the site's data directory into another one.
fn with_copies_of(site: &Site, name: &str, files: &[&str]) -> PathBuf {
    let data = site.beside(name);
    std::fs::create_dir(&data).expect("a directory");
    for file in files {
        std::fs::copy(site.data.join(file), data.join(file)).expect("a copy");
    }
    data
}

/// Copies the site's whole data directory.
fn whole_copy(site: &Site, name: &str) -> PathBuf {
    let beside = site.beside(name);
    std::fs::create_dir(&beside).expect("a directory");
    copied(&site.data, &beside);
    beside.join("data")
}

/// An upload of which the service has half of the bytes.
struct Upload {
    image: Uuid,
    socket: TcpStream,
}

impl Upload {
    async fn begin(service: &Service, user: &User) -> Upload {
        let fields = json!({"name": "half", "disk_format": "raw", "container_format": "bare"});
        let image = id_of(&user.post("/image/v2/images", fields).await.expect(201).body);
        let mut socket = TcpStream::connect(service.address).expect("a connection");
        let head = format!("PUT /image/v2/images/{image}/file HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {}\r\n", user.token());
        let rest = "Content-Type: application/octet-stream\r\nContent-Length: 8\r\nConnection: close\r\n\r\nhalf";
        socket.write_all(format!("{head}{rest}").as_bytes()).expect("half a request");
        let upload = Upload { image, socket };
        until("the upload runs", || async { upload.status(user).await == "saving" }).await;
        upload
    }

    async fn status(&self, user: &User) -> String {
        let image = user.get(&format!("/image/v2/images/{}", self.image)).await.expect(200).body;
        image["status"].as_str().expect("a status").to_owned()
    }

    async fn end(mut self, user: &User) {
        self.socket.write_all(b"full").expect("the rest");
        self.socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut answer = String::new();
        self.socket.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
        assert_eq!(self.status(user).await, "active");
    }
}

#[test]
fn a_second_process_is_refused_and_changes_nothing() {
    let mut site = Site::new();
    site.config.http.read_timeout = Seconds::whole(120);
    let service = site.start();
    let services = site.config.database.services.clone().expect("a URL");
    actix_rt::System::new().block_on(async {
        let user = service.user(&site.data, "cellshift").await;
        let image = id_of(&user.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
        let server = id_of(&NewServer::of_image(image).ask(&user).await.expect(202).body["server"]);
        service.user(&site.data, "cellshift-admin").await.settled(server).await;
        let volume = user.make_volume().await;
        databases::execute(&services, &format!("UPDATE volumes SET status = 'creating' WHERE id = '{volume}'"));
        let upload = Upload::begin(&service, &user).await;

        let copies = [
            with_copies_of(&site, "one-file", &["deployment.toml"]),
            with_copies_of(&site, "two-files", &["deployment.toml", "controller"]),
            whole_copy(&site, "whole"),
        ];
        for data in &copies {
            refused(&site, data);
            let user = service.user(&site.data, "cellshift").await;
            assert_eq!(upload.status(&user).await, "saving", "{}", data.display());
            let shown = user.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200).body;
            assert_eq!(shown["volume"]["status"], "creating", "{}", data.display());
            assert_eq!(user.status(server).await, "ACTIVE");
        }
        assert!(!copies[0].join("clouds.yaml").exists() && !copies[0].join("controller").exists());

        databases::execute(&services, &format!("UPDATE volumes SET status = 'available' WHERE id = '{volume}'"));
        upload.end(&user).await;
        user.act(server, json!({"os-stop": null})).await.expect(202);
        service.user(&site.data, "cellshift-admin").await.settled(server).await;
        assert_eq!(user.status(server).await, "SHUTOFF");
    });
    // The running service audits its hosts, too: the guest is off.
    site.is_clean(&site.options());
    service.stop();
    site.is_clean(&site.options());
}

#[test]
fn of_two_first_starts_at_once_one_is_refused() {
    let site = Site::new();
    let other = site.beside("other");
    // Both read one file, which is written before.
    let options = site.options();
    let starts = std::thread::scope(|scope| {
        let started = [&site.data, &other].map(|data| scope.spawn(|| (data.clone(), attempt_with(&options, data))));
        started.map(|start| start.join().expect("a start"))
    });
    let (mut serving, mut refused) = (Vec::new(), Vec::new());
    for (data, start) in starts {
        match start {
            Ok(service) => serving.push((data, service)),
            Err(ended) => refused.push(ended),
        }
    }
    assert_eq!(serving.len(), 1, "{:?}", refused.iter().map(|ended| &ended.stderr).collect::<Vec<_>>());
    let ((data, service), ended) = (serving.remove(0), refused.remove(0));
    let sentence = ended.stderr.lines().last().unwrap_or_default();
    // The second comes after the databases got their mark, or between the seat and the mark.
    let is_named = sentence.contains("belongs to deployment") || sentence.contains("has these databases since");
    assert!(ended.code == Some(1) && is_named, "{}", ended.stderr);
    assert!(!ended.stderr.contains("duplicate key") && !ended.stderr.contains("panicked"), "{}", ended.stderr);
    actix_rt::System::new().block_on(async {
        service.user(&data, "cellshift").await.get("/servers").await.expect(200);
    });
    service.stop();
}

#[test]
fn a_killed_process_is_followed_from_another_directory_later() {
    let mut site = seated_for(Seconds::whole(8));
    let made = site.fill();
    let service = site.start();
    service.signal("-KILL");
    service.death();
    let died = Instant::now();
    let copy = whole_copy(&site, "copy");
    refused(&site, &copy);
    let service = loop {
        match attempt(&site, &copy) {
            Ok(service) => break service,
            Err(ended) => assert!(ended.stderr.contains("has these databases since"), "{}", ended.stderr),
        }
    };
    assert!(died.elapsed() > Duration::from_secs(4), "eight seconds after its last sign of life: {:?}", died.elapsed());
    service.stop();
    site.data = copy;
    site.everything_is_there(&made, &site.options());
}

#[test]
fn a_killed_process_is_followed_in_its_directory_at_once() {
    let site = seated_for(Seconds::whole(3600));
    let made = site.fill();
    for _ in 0..2 {
        let service = site.start();
        service.signal("-KILL");
        service.death();
    }
    site.everything_is_there(&made, &site.options());
}

/// A start in the site's directory that fails with this text, after which a process in another directory starts at once.
fn assert_followed_at_once(mut site: Site, made: &Made, copy: PathBuf, why: &str) {
    let ended = attempt(&site, &site.data).map(|_| ()).expect_err("the start fails");
    assert!(ended.code == Some(1) && ended.stderr.contains(why), "{}", ended.stderr);
    site.config.metrics.listen = None;
    attempt(&site, &copy).unwrap_or_else(|ended| panic!("{}", ended.stderr)).stop();
    site.data = copy;
    site.everything_is_there(made, &site.options());
}

#[test]
fn a_start_that_finds_a_wrong_file_gives_its_seat_up() {
    let site = seated_for(Seconds::whole(3600));
    let made = site.fill();
    let copy = whole_copy(&site, "copy");
    std::fs::write(site.data.join("clouds.yaml"), "no clouds").expect("a file");
    assert_followed_at_once(site, &made, copy, "is not a clouds.yaml");
}

#[test]
fn a_start_that_cannot_listen_gives_its_seat_up() {
    let mut site = seated_for(Seconds::whole(3600));
    let made = site.fill();
    let copy = whole_copy(&site, "copy");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    site.config.metrics.listen = Some(listener.local_addr().expect("an address"));
    assert_followed_at_once(site, &made, copy, "metrics.listen is");
}

#[test]
fn a_start_after_a_boot_waits_until_the_former_time_is_over() {
    let site = seated_for(Seconds::whole(3));
    let made = site.fill();
    let service = site.start();
    service.signal("-KILL");
    service.death();
    let died = Instant::now();
    // After a boot the lock of the same directory has another identity.
    databases::execute_in_api(&site.config, "UPDATE controllers SET lock_file = 'of before the boot'");
    let service = site.start();
    assert!(died.elapsed() > Duration::from_secs(1), "{:?}", died.elapsed());
    service.stop();
    site.everything_is_there(&made, &site.options());
}

#[test]
fn a_process_that_stood_still_too_long_ends_when_it_wakes() {
    let mut site = seated_for(Seconds::whole(4));
    let made = site.fill();
    let log = site.beside("log");
    let options = site.options();
    let first = Service::start_logging(&site.data, &options.iter().map(String::as_str).collect::<Vec<_>>(), &log);
    let copy = whole_copy(&site, "copy");
    first.signal("-STOP");
    let second = loop {
        if let Ok(service) = attempt(&site, &copy) {
            break service;
        }
    };
    first.signal("-CONT");
    assert_eq!(first.death().code(), Some(1));
    let said = std::fs::read_to_string(log).expect("a log");
    let sentence = said.lines().last().unwrap_or_default();
    let successor = format!("with the data directory {} has these databases since", copy.display());
    assert!(sentence.contains("this process has lost its seat") && sentence.contains(&successor), "{said}");
    actix_rt::System::new().block_on(async {
        let user = second.user(&copy, "cellshift").await;
        assert_eq!(user.status(made.server).await, "ACTIVE");
    });
    second.stop();
    site.data = copy;
    site.everything_is_there(&made, &site.options());
}

/// Does nothing without PostgreSQL: a file does not fall silent.
#[test]
fn a_process_outlives_a_silence_longer_than_its_time() {
    if !on_postgres() {
        return;
    }
    let server = PostgresServer::start();
    let proxy = ChaosProxy::before(server.address());
    let dir = tempfile::tempdir().expect("a directory");
    let mut config = cellshift::config::Config { data_dir: dir.path().join("data"), ..Default::default() };
    databases::place_on(&mut config, &server.url_at(proxy.address()));
    config.database.seat = Seconds::whole(1);
    let file = dir.path().join("config.toml");
    std::fs::write(&file, config.to_toml().expect("TOML")).expect("a file");
    let service = Service::start(&config.data_dir, &["--config", file.to_str().expect("a path")]);
    actix_rt::System::new().block_on(async {
        let ready = async || reqwest::get(format!("http://{}/ready", service.address)).await.expect("an answer").status().as_u16();
        let seated = async || {
            let answer = reqwest::get(format!("http://{}/ready", service.address)).await.expect("an answer");
            answer.json::<serde_json::Value>().await.expect("JSON")["seat"] == json!(true)
        };
        until("it is ready", async || ready().await == 200).await;
        proxy.set(Mode::Refuse);
        until("its time has passed", async || !seated().await).await;
        assert_eq!(ready().await, 503);
        proxy.set(Mode::Pass);
        until("it is ready again", async || ready().await == 200).await;
        let user = service.user(&config.data_dir, "cellshift").await;
        let image = id_of(&user.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
        let server = id_of(&NewServer::of_image(image).ask(&user).await.expect(202).body["server"]);
        service.user(&config.data_dir, "cellshift-admin").await.settled(server).await;
        assert_eq!(user.status(server).await, "ACTIVE");
    });
    service.stop();
}
