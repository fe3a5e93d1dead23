//! The Debian package: `packaging/deb/stage` lays out the files that `Cargo.toml` names, and `packaging/deb/check` looks at the package that
//! dpkg-deb makes of them. The container image is made of the package.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::links::dead_links;
use crate::service::program;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?} does not run: {error}"))
}

fn must(command: &mut Command) {
    let Output { status, stderr, .. } = run(command);
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
}

/// Packs the tree, and has the package checked. Returns whether it is in order, and what was said.
fn checked(tree: &Path) -> (bool, String) {
    let package = tree.with_extension("deb");
    must(Command::new("dpkg-deb").args(["--root-owner-group", "-Znone", "--build"]).arg(tree).arg(&package));
    let Output { status, stdout, stderr } = run(Command::new(root().join("packaging/deb/check")).arg(&package));
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn the_debian_packages_files_are_in_order() {
    // Only Debian and its kin have it.
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let tree = dir.path().join("cellshift");
    must(Command::new(root().join("packaging/deb/stage")).arg(program()).arg(&tree));
    let (is_in_order, said) = checked(&tree);
    assert!(is_in_order, "{said}");
    let (dead, _) = dead_links(&tree.join("usr/share/doc/cellshift"));
    assert!(dead.is_empty(), "the package lacks what its documents' links lead to:\n{}", dead.join("\n"));

    let (unit, postinst, etc) =
        (tree.join("usr/lib/systemd/system/cellshift.service"), tree.join("DEBIAN/postinst"), tree.join("etc/cellshift"));
    let refused = |what: &str| {
        let (is_in_order, said) = checked(&tree);
        assert!(!is_in_order && said.contains(what), "{what}: {said}");
    };
    fs::set_permissions(&unit, Permissions::from_mode(0o600)).expect("a mode");
    refused("cellshift.service is -rw------- root/root");
    fs::set_permissions(&unit, Permissions::from_mode(0o644)).expect("a mode");
    fs::create_dir_all(&etc).expect("a directory");
    fs::write(etc.join("cellshift.toml"), "").expect("a file");
    refused("are not its conffiles");
    fs::write(tree.join("DEBIAN/conffiles"), "/etc/cellshift/cellshift.toml\n").expect("a list");
    assert!(checked(&tree).0, "an operator's changes are kept");
    let script = fs::read_to_string(&postinst).expect("a script");
    fs::write(&postinst, format!("{script}\nif true; then\n")).expect("a script");
    refused("postinst is no shell script");
}

/// The image has the package's program, user and data, as the unit.
#[test]
fn the_container_runs_the_package_as_the_unit_does() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (unit, container) = (read("packaging/systemd/cellshift.service"), read("packaging/container/Containerfile"));
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("no {key} in {text}"));
        line.trim_matches([' ', '=']).to_owned()
    };
    assert_eq!(value(&container, "USER"), value(&unit, "User"));
    let data = format!("/var/lib/{}", value(&unit, "StateDirectory"));
    assert_eq!((value(&container, "VOLUME"), value(&container, "WORKDIR")), (data.clone(), data.clone()));
    let words = |key: &str| serde_json::from_str::<Vec<String>>(&value(&container, key)).expect("a list of words");
    let command = [words("ENTRYPOINT"), words("CMD")].concat();
    let port = value(&container, "EXPOSE");
    assert_eq!(command[1..], ["serve", "--data-dir", &data, "--listen", &format!("0.0.0.0:{port}")]);
    assert!(value(&unit, "ExecStart").starts_with(&command[..4].join(" ")), "the unit runs {command:?}");
    let listens = cellshift::config::Config::default().http.listen.port().to_string();
    assert_eq!(port, listens);
}
