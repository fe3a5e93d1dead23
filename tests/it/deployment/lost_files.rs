//! Files without a record are kept in lost+found, reported by the audit, and removed by one command only.

use cellshift::env::Env;

use super::site::Site;

#[test]
fn unknown_bytes_are_kept_until_they_are_purged() {
    let site = Site::new();
    let made = site.fill();
    let (image, volume) = (Env::system().uuid().to_string(), Env::system().uuid().to_string());
    for (folder, name) in [("images", &image), ("volumes", &volume)] {
        std::fs::write(site.data.join(folder).join(name), "of nobody").expect("a file");
    }
    std::fs::write(site.data.join("images/.unfinished-abc"), "half").expect("a file");
    site.is_clean(&site.options());
    assert!(site.data.join("images").join(&image).exists(), "an audit moves nothing");
    site.start().stop();
    assert!(!site.data.join("images").join(&image).exists() && !site.data.join("images/.unfinished-abc").exists());
    let said = site.is_clean(&site.options());
    assert_eq!(said.lines().filter(|line| line.starts_with("in lost+found: ")).count(), 2, "{said}");
    assert!(said.contains(&image) && said.contains(&volume), "{said}");

    let purge = |more: &[&str]| {
        let ended = site.run(&[&["db", "purge-lost"][..], more].concat(), &[]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stdout
    };
    assert!(purge(&["--before", "2026-01-01"]).ends_with("removed 0 files, 0 bytes\n"));
    assert!(purge(&["--before", "2999-01-01T00:00:00Z", "--dry-run"]).ends_with("would remove 2 files, 18 bytes\n"));
    assert!(site.is_clean(&site.options()).contains(&image));
    assert!(purge(&["--before", "2999-01-01T00:00:00Z"]).ends_with("removed 2 files, 18 bytes\n"));
    site.everything_is_there(&made, &site.options());
    let ended = site.run(&["db", "purge-lost", "--before", "yesterday"], &[]);
    assert!(ended.code == Some(2) && ended.stderr.contains("2026-11-23"), "{}", ended.stderr);
}
