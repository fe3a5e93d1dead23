//! Checks citations of rules, such as `INVARIANTS S4`, in comments and pages: each number must be a row of that page, and each named
//! document must be in the repository. Checks quotations of code: each line must be in the file that the page names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// The pages with numbered rows, by the first word of a citation.
const PAGES: [&str; 3] = ["INVARIANTS", "NOVA-DIFFERENCES", "DOWN-CELLS"];

/// The numbers at the beginning of a page's row; a colon or the end of the cell follows them.
static ROW: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^\| ((?:[A-Z]-?[0-9]+(?:, )?)+)(?::| \|)"));
/// A citation: `INVARIANTS S3 and S4`, `NOVA-DIFFERENCES L22, L33`, `DOWN-CELLS A-1 to A-19`.
static CITATION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b(INVARIANTS|NOVA-DIFFERENCES|DOWN-CELLS) ((?:[A-Z]-?[0-9]+(?:, | and | to )?)+)"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"[A-Z]-?[0-9]+"));
/// The number of an invariant, which needs no page: the audit reports violations under it.
static INVARIANT: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bI[0-9]{1,2}\b"));
/// Any other number, which must follow the name of its page.
static ALONE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(?:[CDLPS][0-9]{1,2}|A-[0-9]{1,2})\b"));
static DOCUMENT: LazyLock<Regex> = LazyLock::new(|| pattern(r"[\w-]+\.(?:md|rst)\b"));
/// A section of another document.
static ELSEWHERE: LazyLock<Regex> = LazyLock::new(|| pattern(r"§[^ ]*|\((?:spec|architecture|reliability|down-cell|qos-ports)\b"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the files below a folder of the repository with this extension.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let (mut paths, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == extension) {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths
}

fn text_of(path: impl AsRef<Path>) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

/// Returns a source's comments as one line, because a citation may be broken between two lines.
fn comments(source: &str) -> String {
    let comment = |line: &str| line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).trim().to_owned());
    source.lines().filter_map(comment).collect::<Vec<_>>().join(" ")
}

/// Everything that can be cited.
struct Citable {
    /// Each with its page: `INVARIANTS S4`.
    rules: BTreeSet<String>,
    /// The file names of the repository's pages.
    documents: BTreeSet<String>,
}

impl Citable {
    fn read() -> Citable {
        let mut rules = BTreeSet::new();
        for page in PAGES {
            let text = text_of(root().join("docs").join(page).with_extension("md"));
            for row in ROW.captures_iter(&text) {
                rules.extend(row[1].split(", ").map(|number| format!("{page} {number}")));
            }
        }
        let pages = files("docs", "md").into_iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        let documents = pages.chain(["README.md", "CONTRIBUTING.md"].map(str::to_owned)).collect();
        Citable { rules, documents }
    }

    /// Returns the citations in a text that nothing defines.
    fn dead(&self, text: &str) -> Vec<String> {
        let rules_of = |page: &str, numbers: &str| -> Vec<String> {
            NUMBER.find_iter(numbers).map(|number| format!("{page} {}", number.as_str())).collect()
        };
        let cited = CITATION.captures_iter(text).flat_map(|citation| rules_of(&citation[1], &citation[2]));
        let invariants = INVARIANT.find_iter(text).map(|number| format!("INVARIANTS {}", number.as_str()));
        let documents = DOCUMENT.find_iter(text).map(|name| name.as_str().to_owned()).filter(|name| !self.documents.contains(name));
        let elsewhere = ELSEWHERE.find_iter(text).map(|citation| citation.as_str().to_owned());
        cited.chain(invariants).filter(|rule| !self.rules.contains(rule)).chain(documents).chain(elsewhere).collect()
    }
}

/// Returns the numbers in a text that do not name their page.
fn alone(text: &str) -> Vec<String> {
    ALONE.find_iter(&CITATION.replace_all(text, "")).map(|number| number.as_str().to_owned()).collect()
}

#[test]
fn every_citation_has_its_rule_or_document() {
    let rules = Citable::read();
    let (mut wrong, mut cited) = (Vec::new(), 0);
    for path in [files("src", "rs"), files("crates", "rs"), files("tests", "rs")].concat() {
        let text = comments(&text_of(&path));
        cited += CITATION.find_iter(&text).count();
        let dead = rules.dead(&text).into_iter().chain(alone(&text));
        wrong.extend(dead.map(|what| format!("{}: {what}", path.display())));
    }
    for path in files("docs", "md") {
        let text = text_of(&path).split_whitespace().collect::<Vec<_>>().join(" ");
        wrong.extend(rules.dead(&text).into_iter().map(|what| format!("{}: {what}", path.display())));
    }
    assert!(wrong.is_empty(), "cited and not there, or without a page:\n{}", wrong.join("\n"));
    assert!(cited > 50, "the citations are found at all: {cited}");
}

#[test]
fn a_dead_citation_is_noticed() {
    let rules = Citable::read();
    let source =
        "/// A rule (INVARIANTS S3 and\n    /// S99), and I77.\nlet code = \"INVARIANTS S98, §1\";\n// See NOWHERE.md and (spec §2.9).";
    assert_eq!(rules.dead(&comments(source)), ["INVARIANTS S99", "INVARIANTS I77", "NOWHERE.md", "(spec", "§2.9)."]);
    assert_eq!(alone(&comments("// Kept (L22), as DOWN-CELLS A-1 to A-19 say, and I3.")), ["L22"]);
    let fine = "// INVARIANTS I1, I2; NOVA-DIFFERENCES L22, L33; DOWN-CELLS A-14; docs/operating/trouble.md.";
    assert_eq!(rules.dead(&comments(fine)), Vec::<String>::new());
}

/// Without `doctest` in Cargo.toml, no test run would compile an example.
#[test]
fn the_documentation_has_no_example() {
    let fence =
        |line: &str| Some(line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!', ' ']).strip_prefix("```")?.to_owned());
    for file in [files("src", "rs"), files("crates", "rs")].concat() {
        let openings = text_of(&file).lines().filter_map(fence).step_by(2).filter(|language| language != "text").count();
        assert_eq!(openings, 0, "{}: examples need doctest in Cargo.toml, or belong into a test", file.display());
    }
}

/// Returns the lines of code on a page, each with the file that is named above its block. A line `…` stands for code that is left out.
fn quotations(page: &str) -> Vec<(String, String)> {
    let (mut file, mut quoting, mut quotations) = (String::new(), false, Vec::new());
    for line in page.lines().map(str::trim) {
        if line.starts_with("```") {
            quoting = ["```rust", "```toml", "```sql"].contains(&line);
        } else if quoting && !line.is_empty() && line != "…" {
            quotations.push((file.clone(), line.to_owned()));
        } else if let Some(name) = line.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).filter(|name| name.contains('/')) {
            file = name.to_owned();
        }
    }
    quotations
}

#[test]
fn each_line_of_code_on_the_pages_is_in_its_file() {
    for page in ["docs/ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let quotations = quotations(&text_of(root().join(page)));
        assert!(quotations.len() > 20, "the code of {page} is found at all: {}", quotations.len());
        for (file, line) in quotations {
            let text = text_of(root().join(&file));
            assert!(text.lines().any(|code| code.trim() == line), "{page}: {file} has no line `{line}`");
        }
    }
}

/// The most files that a reader of one move needs, from its handler to its last undo.
const FILES_OF_A_WALK: usize = 40;
/// A row of the walk: its number, and its file.
static OF_THE_WALK: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^\| [0-9]+ \| `([^`]+)` \|"));
/// The modules of steps that a table of a saga uses.
static STEPS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bsaga::steps::(\w+)"));

#[test]
fn the_walk_names_every_file_of_a_moves_steps() {
    let page = text_of(root().join("docs/ARCHITECTURE.md"));
    let walk: BTreeSet<&str> = OF_THE_WALK.captures_iter(&page).map(|row| row.get(1).expect("a file").as_str()).collect();
    assert!((30..=FILES_OF_A_WALK).contains(&walk.len()), "{} files", walk.len());
    for file in &walk {
        assert!(root().join(file).is_file(), "{file} is not there");
    }
    for table in ["src/saga/tables/cross_cell_resize.rs", "src/saga/tables/resize.rs"] {
        let code = text_of(root().join(table));
        for steps in STEPS.captures_iter(&code) {
            let file = format!("src/saga/steps/{}.rs", &steps[1]);
            assert!(walk.contains(file.as_str()), "{file} of {table}");
        }
    }
}
