//! Data of a release without marks in its databases: taken over by the first start if they fit together, otherwise refused.

use std::path::Path;

use super::site::{Site, id_in};
use super::{url, with};

#[test]
fn an_upgrade_takes_the_data_over_without_a_flag() {
    let site = Site::new();
    let made = site.fill();
    let before = id_in(&site.data);
    site.forget_identities();
    site.everything_is_there(&made, &site.options());
    let after = id_in(&site.data);
    assert_ne!(before, after);
    site.everything_is_there(&made, &site.options());
    assert_eq!(after, id_in(&site.data));
}

#[test]
fn an_upgrade_with_the_wrong_databases_is_refused() {
    let (site, other) = (Site::new(), Site::new());
    let (made, made_there) = (site.fill(), other.fill());
    site.forget_identities();
    other.forget_identities();
    let elsewhere = site.refused_with(&[]);
    assert!(elsewhere.contains("its databases are elsewhere") && elsewhere.contains("[database]"), "{elsewhere}");
    let ended = site.run(&["audit"], &[]);
    assert!(ended.code == Some(5) && ended.stderr.contains("its databases are elsewhere"), "{}", ended.stderr);
    let (api, services) = (url(&site.config.database.api), url(&site.config.database.services));
    for gone in [&services, &api] {
        site.take_away(gone);
        let said = site.refused_with(&site.options());
        assert!(said.contains("not made anew"), "{said}");
        site.bring_back(gone);
    }
    let of_other = site.refused_with(&site.options_with(|config| config.database.services = other.config.database.services.clone()));
    assert!(of_other.contains("do not belong together") && of_other.contains("[database] services"), "{of_other}");
    let cell = site.refused_with(&site.options_with(|config| {
        config.database.cells.insert("cell1".to_owned(), other.config.database.cells["cell1"].clone());
    }));
    assert!(cell.contains("[database.cells] cell1"), "{cell}");
    site.everything_is_there(&made, &site.options());
    other.everything_is_there(&made_there, &other.options());
}

#[test]
fn a_backup_without_identity_wants_the_operators_word() {
    let site = Site::new();
    let made = site.fill();
    std::fs::remove_file(site.data.join("deployment.toml")).expect("a file goes");
    let said = site.refused_with(&site.options());
    assert!(said.contains("belongs to deployment") && said.contains("--data-dir"), "{said}");
    site.everything_is_there(&made, &with(site.options(), "--adopt"));
    assert!(Path::new(&site.data.join("deployment.toml")).exists());
    site.everything_is_there(&made, &site.options());
}
