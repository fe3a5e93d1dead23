//! The Debian package: the files that `Cargo.toml` names for cargo-deb are put together by dpkg-deb, and `packaging/deb/check` looks at the
//! result. The container image is made of the package.
//! cargo-deb itself, which also writes the unit's part of the maintainer's scripts, is not needed here.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::links::dead_links;
use crate::service::program;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the package's part of `Cargo.toml`.
fn described() -> toml::Table {
    let text = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let parsed: toml::Table = text.parse().expect("TOML");
    parsed["package"]["metadata"]["deb"].as_table().expect("the package").clone()
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?} does not run: {error}"))
}

fn must(command: &mut Command) -> Vec<u8> {
    let Output { status, stdout, stderr } = run(command);
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    stdout
}

/// Makes what `packaging/deb/build` makes below `target/package`.
fn make_pages(dir: &Path) {
    let completions = dir.join("completions");
    fs::create_dir_all(&completions).expect("a directory");
    must(Command::new(program()).arg("man").arg(dir.join("man")));
    for (shell, file) in [("bash", "cellshift"), ("zsh", "_cellshift"), ("fish", "cellshift.fish")] {
        fs::write(completions.join(file), must(Command::new(program()).args(["completions", shell]))).expect("a file");
    }
}

/// Returns the files of an asset, whose last part may begin with `*`.
fn sources(asset: &str, pages: &Path) -> Vec<PathBuf> {
    let path = match (asset, asset.strip_prefix("target/package/")) {
        ("target/release/cellshift", _) => return vec![program().into()],
        (_, Some(made)) => pages.join(made),
        _ => root().join(asset),
    };
    let (dir, name) = (path.parent().expect("a directory"), path.file_name().and_then(|name| name.to_str()).expect("a name"));
    let Some(end) = name.strip_prefix('*') else { return vec![path] };
    let listed = fs::read_dir(dir).unwrap_or_else(|error| panic!("{asset}: {error}")).map(|entry| entry.expect("an entry").path());
    listed.filter(|file| file.is_file() && file.to_string_lossy().ends_with(end)).collect()
}

fn copy(from: &Path, to: &Path, mode: u32) {
    fs::create_dir_all(to.parent().expect("a directory")).expect("directories");
    fs::copy(from, to).unwrap_or_else(|error| panic!("{} is copied: {error}", from.display()));
    fs::set_permissions(to, Permissions::from_mode(mode)).expect("a mode");
}

/// Lays the package's files and its control files out.
fn stage(tree: &Path, pages: &Path) {
    let described = described();
    for asset in described["assets"].as_array().expect("assets") {
        let [from, to, mode] =
            asset.as_array().expect("an asset").iter().map(|part| part.as_str().expect("a text")).collect::<Vec<_>>()[..]
        else {
            panic!("{asset} is no source, place and mode")
        };
        let files = sources(from, pages);
        assert!(!files.is_empty(), "no file is {from}");
        for file in files {
            let name = if from.ends_with("/cellshift") && to == "usr/bin/" {
                "cellshift".into()
            } else {
                file.file_name().expect("a name").to_owned()
            };
            copy(&file, &tree.join(to).join(name), u32::from_str_radix(mode, 8).expect("a mode"));
        }
    }
    let units = root().join(described["systemd-units"]["unit-scripts"].as_str().expect("a directory"));
    copy(&units.join("cellshift.service"), &tree.join("usr/lib/systemd/system/cellshift.service"), 0o644);
    let scripts = root().join(described["maintainer-scripts"].as_str().expect("a directory"));
    let postinst = fs::read_to_string(scripts.join("postinst")).expect("a script");
    assert!(postinst.lines().any(|line| line == "#DEBHELPER#"), "cargo-deb puts the unit's part there");
    let control = tree.join("DEBIAN");
    fs::create_dir_all(&control).expect("a directory");
    fs::write(control.join("postinst"), postinst.replace("#DEBHELPER#", "")).expect("a script");
    fs::set_permissions(control.join("postinst"), Permissions::from_mode(0o755)).expect("a mode");
    let architecture = String::from_utf8(must(Command::new("dpkg").arg("--print-architecture"))).expect("a word");
    let depends = described["depends"].as_str().expect("packages").replace("$auto", "libc6");
    let fields = format!(
        "Package: cellshift\nVersion: {}-1\nArchitecture: {architecture}Depends: {depends}\nMaintainer: {}\nDescription: a control plane\n",
        env!("CARGO_PKG_VERSION"),
        described["maintainer"].as_str().expect("somebody")
    );
    fs::write(control.join("control"), fields).expect("the fields");
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
    let (tree, pages) = (dir.path().join("cellshift"), dir.path().join("pages"));
    make_pages(&pages);
    stage(&tree, &pages);
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
