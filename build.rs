//! Tells the program the commit that it is built from. A development build tells none, so that a commit does not compile everything again;
//! a build without git or outside a checkout tells none, either. `CELLSHIFT_COMMIT` names it where the checkout is missing.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CELLSHIFT_COMMIT");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // Above another project's checkout, git would tell that project's commit.
    let is_checkout = std::env::var("CARGO_MANIFEST_DIR").is_ok_and(|root| Path::new(&root).join(".git").exists());
    if std::env::var_os("CELLSHIFT_COMMIT").is_some() || !is_release || !is_checkout {
        return;
    }
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return };
    println!("cargo:rustc-env=CELLSHIFT_COMMIT={commit}");
    // Both change with each commit and checkout. A path that does not exist would have every build run this again.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
}

/// Returns a command's output; none if git is missing or refuses.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
