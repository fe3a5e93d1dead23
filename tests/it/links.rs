//! The links between the repository's documents lead to files and headings that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// The target of a link; those of other sites and of mail are told by their scheme.
static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\(([^)\s]+)\)").expect("a pattern"));

fn documents(root: &Path) -> Vec<PathBuf> {
    let mut paths = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(|name| root.join(name)).to_vec();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "md") {
                paths.push(path);
            }
        }
    }
    paths
}

/// Returns the anchors of a page's headings, as sites that show Markdown make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let (mut anchors, mut fenced) = (BTreeSet::new(), false);
    for line in page.lines() {
        fenced ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) else { continue };
        let letters = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = letters.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_' | ' '));
        anchors.insert(kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect());
    }
    anchors
}

/// Returns the links of the documents below `root` that lead nowhere, and the number of all their links.
pub fn dead_links(root: &Path) -> (Vec<String>, usize) {
    let root = std::fs::canonicalize(root).expect("a directory");
    let pages: BTreeMap<PathBuf, String> =
        documents(&root).into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).expect("a page"))).collect();
    let (mut dead, mut count) = (Vec::new(), 0);
    for (path, page) in &pages {
        for target in LINK.captures_iter(page).map(|link| link.extract::<1>().1[0]).filter(|target| !target.contains(':')) {
            count += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { path.with_file_name(file) };
            let leads = match std::fs::canonicalize(&file) {
                Ok(file) => anchor.is_empty() || pages.get(&file).is_some_and(|page| anchors(page).contains(anchor)),
                Err(_) => false,
            };
            if !leads {
                dead.push(format!("{}: {target}", path.display()));
            }
        }
    }
    (dead, count)
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let (dead, count) = dead_links(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
    assert!(count > 100, "the links are seen at all: {count}");
}
