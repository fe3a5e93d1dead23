//! A data directory and databases that do not belong together are refused with a sentence and without changes; together again, everything
//! is there. The program runs as its own process, on SQLite or PostgreSQL.

mod backups;
mod lost_files;
mod second_process;
mod site;
mod upgrades;

use std::path::Path;
use std::process::{Command, Stdio};

use cellshift::config::Database;
use cellshift::db::connection::has_log;

use crate::databases::on_postgres;
use crate::service;
use site::{Site, id_in};

fn with(mut options: Vec<String>, more: &str) -> Vec<String> {
    options.push(more.to_owned());
    options
}

fn url(option: &Option<String>) -> String {
    option.clone().expect("a URL")
}

#[test]
fn a_wrong_configuration_is_refused_and_changes_nothing() {
    let site = Site::new();
    let made = site.fill();
    let data = site.data.to_string_lossy().into_owned();
    let (none, empty) = (Vec::new(), site.empty_database());
    for options in [&none, &vec!["--adopt".to_owned()]] {
        let said = site.refused_with(options);
        assert!(said.contains("[database] api") && said.contains(&data), "{said}");
    }
    let named = |option: &str, options: Vec<String>| {
        for options in [options.clone(), with(options, "--adopt")] {
            let said = site.refused_with(&options);
            assert!(said.contains(option), "{option}: {said}");
        }
    };
    named("[database] services", site.options_with(|config| config.database.services = Some(empty.clone())));
    named("[database] api", site.options_with(|config| config.database.api = Some(empty.clone())));
    named("[database] api", site.options_with(|config| std::mem::swap(&mut config.database.api, &mut config.database.services)));
    named("[database] services", site.options_with(|config| config.database.services = config.database.api.clone()));
    let swapped = site.options_with(|config| {
        let one = config.database.cells["cell1"].clone();
        let two = config.database.cells.insert("cell2".to_owned(), one).expect("cell2");
        config.database.cells.insert("cell1".to_owned(), two);
    });
    named("[database.cells] cell1", swapped);
    let said = site.refused_with(&site.options_with(|config| {
        config.database.cells.insert("cell1".to_owned(), empty.clone());
    }));
    assert!(said.contains("[database.cells] cell1"), "{said}");

    // Commands that look at the stored data say this too.
    for (command, code) in [(&["audit"][..], 5), (&["db", "migrate"], 1), (&["db", "populate-user-id"], 5)] {
        let before = site.picture();
        let ended = site.run(command, &[]);
        assert_eq!(ended.code, Some(code), "{command:?}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains("[database] api") && ended.stderr.contains(&data), "{command:?}: {}", ended.stderr);
        assert!(site.picture() == before, "{command:?}");
    }
    site.everything_is_there(&made, &site.options());
}

#[test]
fn a_database_that_held_records_is_never_made_anew() {
    let site = Site::new();
    let made = site.fill();
    let (api, services) = (url(&site.config.database.api), url(&site.config.database.services));
    for (gone, option) in [(vec![&services], "[database] services"), (vec![&api], "[database] api"), (vec![&api, &services], "[database]")]
    {
        gone.iter().for_each(|url| site.take_away(url));
        for options in [site.options(), with(site.options(), "--adopt")] {
            let said = site.refused_with(&options);
            assert!(said.contains(option) && said.contains("not made anew"), "{said}");
        }
        gone.iter().for_each(|url| site.bring_back(url));
    }

    let cell1 = site.config.database.cells["cell1"].clone();
    site.take_away(&cell1);
    if on_postgres() {
        let said = site.refused_with(&site.options());
        assert!(said.contains("cell1") && said.contains("records have been in it"), "{said}");
    } else {
        // Its disk may not be mounted: the other cells are served, and the file is not made.
        site.start().stop();
        assert!(!Path::new(&cell1).exists());
        let ended = site.run(&["audit"], &site.options());
        assert!(ended.code != Some(0) && ended.stdout.contains("cell1"), "{}{}", ended.stdout, ended.stderr);
        assert!(!Path::new(&cell1).exists());
    }
    site.bring_back(&cell1);
    site.everything_is_there(&made, &site.options());
}

#[test]
fn a_fresh_directory_beside_databases_is_refused() {
    let site = Site::new();
    let made = site.fill();
    let away = site.beside("away");
    std::fs::rename(&site.data, &away).expect("a directory moves");
    for options in [site.options(), with(site.options(), "--adopt")] {
        let said = site.refused_with(&options);
        assert!(said.contains("--data-dir") && said.contains("belongs to deployment"), "{said}");
        assert!(!site.data.exists());
    }
    std::fs::rename(&away, &site.data).expect("a directory moves");
    site.everything_is_there(&made, &site.options());
}

#[test]
fn databases_of_two_deployments_do_not_mix() {
    let (one, other) = (Site::new(), Site::new());
    let (made, made_there) = (one.fill(), other.fill());
    let ids = [id_in(&one.data), id_in(&other.data)];
    let there = other.picture();
    type Mix = fn(&mut Database, &Database);
    let mixes: [Mix; 4] = [
        |one, other| one.services = other.services.clone(),
        |one, other| one.api = other.api.clone(),
        |one, other| {
            one.cells.insert("cell1".to_owned(), other.cells["cell1"].clone());
        },
        |one, other| *one = other.clone(),
    ];
    for mix in mixes {
        let options = one.options_with(|config| mix(&mut config.database, &other.config.database));
        let said = one.refused_with(&options);
        assert!(said.contains("start once with `cellshift serve --adopt`"), "{said}");
        let said = one.refused_with(&with(options, "--adopt"));
        assert!(ids.iter().all(|id| said.contains(id.as_str())), "{said}");
    }
    assert!(other.picture() == there);

    // A host directory of the other deployment: its guests stay unchanged, and the other hosts work.
    let host = |site: &Site| site.data.join("cells/cell1/hosts/cell1-host1");
    std::fs::rename(host(&one), one.beside("host")).expect("a directory moves");
    std::fs::rename(host(&other), host(&one)).expect("a directory moves");
    let guests = |site: &Site| site.picture().into_iter().filter(|(name, _)| name.contains("cell1-host1")).collect::<Vec<_>>();
    let before = guests(&one);
    one.start().stop();
    let ended = one.run(&["audit"], &one.options());
    assert!(ended.stdout.contains(&ids[1]), "{}{}", ended.stdout, ended.stderr);
    assert!(guests(&one) == before);
    std::fs::rename(host(&one), host(&other)).expect("a directory moves");
    std::fs::rename(one.beside("host"), host(&one)).expect("a directory moves");
    one.everything_is_there(&made, &one.options());
    other.everything_is_there(&made_there, &other.options());
}

#[test]
fn a_moved_database_is_taken_when_the_operator_says_so() {
    let mut site = Site::new();
    let made = site.fill();
    for what in ["API database", "services database", "database of cell1"] {
        let moved = |url: &mut String| *url = site.moved(url);
        let database = &mut site.config.database.clone();
        match what {
            "API database" => database.api.as_mut().map(moved),
            "services database" => database.services.as_mut().map(moved),
            _ => database.cells.get_mut("cell1").map(moved),
        }
        .expect("it is configured");
        site.config.database = database.clone();
        let said = site.refused_with(&site.options());
        assert!(said.contains(what) && said.contains("--adopt"), "{said}");
        site.everything_is_there(&made, &with(site.options(), "--adopt"));
    }
    // The place is remembered, so the flag is needed once. A password is neither remembered nor compared.
    let text = std::fs::read_to_string(site.data.join("deployment.toml")).expect("deployment.toml");
    assert!(text.contains("moved") && !text.contains(":secret@"), "{text}");
    site.everything_is_there(&made, &site.options());
}

#[test]
fn a_sqlite_file_moved_without_its_log_is_refused() {
    if on_postgres() {
        return;
    }
    let mut site = Site::new();
    let mut made = site.fill();
    let service = site.start();
    made.volume = actix_rt::System::new().block_on(async { service.user(&site.data, "cellshift").await.make_volume().await });
    service.signal("-KILL");
    service.death();
    let (was, now) = (url(&site.config.database.services), url(&site.config.database.services) + ".moved");
    assert!(has_log(&was), "the volume is in the log");
    std::fs::rename(&was, &now).expect("a file moves");
    site.config.database.services = Some(now.clone());
    let said = site.refused_with(&with(site.options(), "--adopt"));
    assert!(said.contains(&format!("{was}-wal")) && said.contains(&format!("{now}-wal")), "{said}");
    std::fs::rename(format!("{was}-wal"), format!("{now}-wal")).expect("a log moves");
    site.everything_is_there(&made, &with(site.options(), "--adopt"));
}

#[test]
fn a_first_start_that_is_killed_is_finished_by_the_next() {
    let site = Site::new();
    let (data, options) = (site.data.clone(), site.options());
    // In the order of their creation in a first start.
    for seen in ["deployment.toml", "policy.yaml", "controller", "token-keys", "images", "volumes", "clouds.yaml"] {
        let mut process = Command::new(service::program())
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&data)
            .args(&options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program runs");
        while !data.join(seen).exists() {
            assert!(process.try_wait().expect("a state").is_none(), "{seen}: the start ends by itself");
            std::thread::yield_now();
        }
        process.kill().expect("it is killed");
        process.wait().expect("it ends");
    }
    let made = site.fill();
    site.everything_is_there(&made, &options);
    assert!(std::fs::read_to_string(data.join("deployment.toml")).expect("deployment.toml").contains("state = \"whole\""));
}
