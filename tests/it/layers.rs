//! Checks the order of the layers: which layer may use which, where actix and diesel live, and how files are named and sized
//! (docs/ARCHITECTURE.md). Reads the sources as text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// Each layer with the layers that it may use besides itself, lowest first. The arrows run http -> cell_registry -> actors -> {runner,
/// reconcilers} -> saga -> {db, services, virt} -> domain. `env` gives time, ids, metrics and traces to all layers with effects. What lies
/// below is crates (`crates/`), so the compiler keeps their arrows. Modules that are not in the table (the command line, configuration)
/// stand above all layers: no layer uses them.
const LAYERS: &[(&str, &[&str])] = &[
    ("policy_file", &["domain"]),
    ("chaos", &["domain", "env"]),
    ("db", &["domain", "env", "metrics"]),
    ("saga", &["db", "services", "virt", "domain", "env"]),
    ("runner", &["saga", "db", "domain", "env", "metrics", "traces"]),
    ("reconcilers", &["saga", "db", "services", "virt", "domain", "env"]),
    ("actors", &["runner", "reconcilers", "saga", "db", "services", "virt", "domain", "env", "metrics", "traces"]),
    ("cell_registry", &["actors", "db", "domain", "env"]),
    (
        "http",
        &["cell_registry", "actors", "reconcilers", "saga", "db", "services", "virt", "policy_file", "domain", "env", "metrics", "traces"],
    ),
];

/// The audit checks everything that sagas reach, so it stands above them. Only `http` and the modules above it use it.
const AUDIT: &str = "chaos::audit";
const AUDIT_LAYER: (&str, &[&str]) = ("chaos", &["saga", "db", "services", "virt", "domain", "env"]);

/// The faulty performance of steps stands above sagas, as their audit does.
const PERFORMER: &str = "chaos::performer";

/// Databases and files with faults.
const BORDERS: &str = "chaos::borders";

/// An experiment acts on actors; the operators' API loads it. Its seams are put between the parts of a tree.
const EXPERIMENT: &str = "chaos::experiment";
const SEAMS: &[&str] = &["chaos::seams", "chaos::drivers"];
const EXPERIMENT_LAYER: (&str, &[&str]) = ("chaos", &["actors", "saga", "db", "services", "virt", "domain", "env"]);

/// Modules that only unit tests compile: they build what the tests of their layer need.
const FIXTURES: &[&str] = &["actors::tests"];

/// Frameworks, and crates of the workspace whose parts have names in one layer, with the only layers that may use them.
const FRAMEWORKS: &[(&str, &[&str])] = &[
    ("diesel", &["db"]),
    ("actix", &["actors"]),
    ("actix_web", &["http"]),
    ("cellshift_nats", &["actors"]),
    ("cellshift_store", &["db"]),
    ("cellshift_supervision", &["actors"]),
    ("cellshift_web", &["http"]),
    ("cellshift_scheduler", &["actors", "reconcilers"]),
    ("cellshift_saga", &["saga"]),
];

/// The crates that serve any program, with the words of this one that their text does not have.
const FOR_ANYBODY: &[(&str, &str)] = &[
    (
        "crates/supervision",
        r"(?i)\b(?:cells?|clouds?|compute|conductors?|flavors?|guests?|instances?|migrations?|nova|openstack|placement|sagas?|servers?)\b",
    ),
    ("crates/saga", r"(?i)\b(?:nova|openstack|servers?|guests?|hosts?|cells?|hypervisors?|migrations?|conductors?|INVARIANTS)\b"),
];

/// The crates of the workspace by the names that the program has for them. The store has the names of its modules, in `db`.
const CRATES: &[(&str, &[&str])] =
    &[("domain", &["domain"]), ("env", &["env", "metrics", "traces"]), ("store", &[]), ("host", &["virt"]), ("neighbours", &["services"])];

/// The files that may remove files or folders, each with the reason why nobody misses them. All others keep what they find.
const REMOVERS: &[(&str, &str)] = &[
    ("src/cli/dev.rs", "the temporary files of a cloud to develop against, when it ends or is brought back to its first state"),
    (
        "crates/embedded/src/bytes_on_disk.rs",
        "takes a RecordGone, the proof that a commit has deleted the record; files that were never acknowledged",
    ),
    ("crates/embedded/src/lost_and_found.rs", "an operator asks for it: cellshift db purge-lost"),
    ("crates/host/src/virt/files.rs", "its own temporary file; the drivers' requests"),
    ("crates/host/src/virt/simulated/disks.rs", "a fenced request of the server's owner"),
    ("crates/host/src/virt/simulated/rescue.rs", "the rescue disk of a guest that boots from its own again"),
    ("crates/host/src/virt/simulated/standstill.rs", "the memory of a suspended guest that runs on, boots or is defined anew"),
    ("crates/host/src/key.rs", "the unfinished file of a start that broke off while it made the host's key"),
    ("crates/host/src/memory.rs", "the log of a server that the deployment has forgotten"),
    ("src/actors/notifier/log.rs", "the oldest notifications, beyond the configured size"),
    ("src/cli/chaos.rs", "the command's own file"),
    ("src/cli/data_dir.rs", "a directory that a refused start has made itself"),
];

/// A wall within the program.
struct Wall {
    folder: &'static str,
    /// The words that no file below the folder may have.
    words: &'static str,
    /// The place where they belong.
    instead: &'static str,
    /// True if unit tests may have them, because they build what they test.
    spares_tests: bool,
}

const WALLS: &[Wall] = &[
    Wall {
        folder: "src/http",
        words: r"\bCellTxn\b",
        instead: "what a handler changes is one named function of the actor or the database that owns it",
        spares_tests: true,
    },
    Wall {
        folder: "src/actors/hosts_here",
        words: r"\bdb\b|\b\w*Db\b|\bsaga\b|\bservices\b",
        instead: "hosts are run where no database is: `Cell` has what needs its cell's database",
        spares_tests: true,
    },
    Wall {
        folder: "src/agent",
        words: r"\bdb\b|\b\w*Db\b|\bsaga\b|\bservices\b|\bbootstrap\b",
        instead: "an agent has no path to a database: it asks the controllers of its cell",
        spares_tests: true,
    },
    Wall {
        folder: "crates/host/src",
        words: r"\b(?:un)?seal\(",
        instead: "a host opens with its own key (`key.rs`), and has none of the deployment's",
        spares_tests: true,
    },
];

/// The things of the databases that handlers name: the handles by which they ask, and the error. What they read, select and change is values of
/// `domain`.
const HANDLES: &[&str] = &["Db", "DbError", "api::ApiDb", "api::operations::Operations", "cell::CellDb"];

/// The places that name the embedded services (`cellshift-embedded`), each with its reason. All others know the services around compute by the
/// traits and values of `cellshift-neighbours`, which are `crate::services`.
const KNOW_EMBEDDED: &[(&str, &str)] = &[
    ("src/bootstrap", "opens them and makes their first records"),
    ("src/chaos/audit", "compares the bytes that they keep with their records"),
    ("src/cli/purge.rs", "removes old records of all databases"),
    ("src/cli/purge_lost.rs", "removes their files without a record"),
    ("src/cli/token.rs", "changes the file of their token keys"),
    ("src/config.rs", "has their limits"),
    ("src/config/identity.rs", "has their options"),
    ("src/db/schema.rs", "makes their tables"),
    ("src/http/agent_hosts.rs", "tells the network API of the hosts"),
    ("src/http/apis.rs", "describes their APIs to the door"),
    ("src/http/request_schemas.rs", "lists the fields of their requests"),
    ("src/launch.rs", "puts them behind the door"),
    ("src/simulation", "opens them in virtual time, and watches their databases"),
];

/// The modules of `src/actors` without an actor, each with the reason why it stands there.
const BETWEEN_ACTORS: &[(&str, &str)] = &[
    ("death_count", "counts the deaths of all actors for supervision"),
    ("host_facts", "answers the scheduler and the hosts from the cells' handles"),
    ("service_report", "a part of the conductor and of the scheduler, which holds a cell's handle"),
];

/// Names of files without a subject.
const FORBIDDEN_NAMES: &[&str] = &["utils.rs", "util.rs", "common.rs", "helpers.rs", "helper.rs", "types.rs", "misc.rs"];

const MAX_LINES: usize = 600;

static PLAIN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bcrate::(\w+(?:::\w+)?)").expect("a pattern"));
static RELATIVE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b((?:super::)+)(\w+(?:::\w+)?)").expect("a pattern"));

#[derive(Clone)]
pub struct Source {
    pub path: PathBuf,
    /// Returns the module's path from the crate's root: `src/saga/step.rs` is `["saga", "step"]`.
    pub module: Vec<String>,
    pub text: String,
}

/// Returns the Rust files below a folder of the repository, in order.
pub fn sources(root: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let mut sources = Vec::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a source directory") {
            let path = entry.expect("a directory entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(&root).expect("a path inside").with_extension("");
                let mut module: Vec<String> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
                if module.last().is_some_and(|name| name == "mod") {
                    module.pop();
                }
                sources.push(Source { text: fs::read_to_string(&path).expect("a source file"), path, module });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

/// True for a module that only unit tests compile.
fn is_of_tests(source: &Source) -> bool {
    source.module.iter().any(|part| part == "tests" || part.starts_with("tests_of"))
}

/// Returns the code without comments, because documentation may name anything.
pub fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Returns the paths from the crate's root that a source names, up to two segments: `crate::db::api` is `db::api`.
fn crate_paths(source: &Source) -> BTreeSet<String> {
    let code = code(&source.text);
    let mut paths = BTreeSet::new();
    paths.extend(PLAIN.captures_iter(&code).map(|captures| captures[1].to_owned()));
    for (start, opening) in code.match_indices("crate::{") {
        paths.extend(group_members(&code[start + opening.len()..]));
    }
    // `super::super::db` in `saga/step.rs` leads to the root, too.
    for captures in RELATIVE.captures_iter(&code) {
        if captures[1].len() / "super::".len() >= source.module.len() {
            paths.insert(captures[2].to_owned());
        }
    }
    paths
}

/// Returns the members of a `{...}` group whose opening brace has been read.
fn group_members(text: &str) -> Vec<String> {
    let (mut depth, mut members, mut member) = (0, Vec::new(), String::new());
    for letter in text.chars() {
        match letter {
            '}' if depth == 0 => break,
            ',' if depth == 0 => members.push(std::mem::take(&mut member)),
            '{' => depth += 1,
            '}' => depth -= 1,
            _ if depth == 0 && !letter.is_whitespace() => member.push(letter),
            _ => {}
        }
    }
    members.push(member);
    members.into_iter().map(|member| member.trim_end_matches("::").to_owned()).filter(|member| !member.is_empty()).collect()
}

fn head(path: &str) -> &str {
    path.split("::").next().unwrap_or(path)
}

/// Returns the layer of a module; none if it belongs to none. A module's unit tests may use the layers above it to build what they test.
fn layer_of(source: &Source) -> Option<&'static (&'static str, &'static [&'static str])> {
    let within = |module: &str| source.module.iter().map(String::as_str).take(2).eq(module.split("::"));
    let within_any = |modules: &[&str]| modules.iter().any(|module| within(module));
    if source.module.iter().any(|part| part == "tests") || within_any(FIXTURES) {
        return None;
    }
    if within_any(&[AUDIT, PERFORMER, BORDERS]) {
        return Some(&AUDIT_LAYER);
    }
    if within(EXPERIMENT) || within_any(SEAMS) {
        return Some(&EXPERIMENT_LAYER);
    }
    LAYERS.iter().find(|(name, _)| source.module.first().is_some_and(|first| first == name))
}

#[test]
fn a_layer_uses_only_what_stands_below_it() {
    let all = sources("src");
    let own = all.iter().filter_map(|source| source.module.first()).map(String::as_str);
    let top_level: BTreeSet<&str> = own.chain(CRATES.iter().flat_map(|(_, names)| names.iter().copied())).collect();
    let mut wrong = Vec::new();
    for source in &all {
        let Some((layer, below)) = layer_of(source) else { continue };
        for path in crate_paths(source) {
            let used = head(&path);
            let is_foreign = top_level.contains(used) && used != *layer && !below.contains(&used);
            let audited = (path.starts_with(AUDIT) || path.starts_with(EXPERIMENT)) && *layer == "http";
            if is_foreign && !audited {
                wrong.push(format!("{}: {layer} uses crate::{path}", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that run the wrong way:\n{}", wrong.join("\n"));
}

#[test]
fn frameworks_stay_in_their_layers() {
    let pattern = |name| Regex::new(&format!(r"(?m)(?:^|[^\w:]){name}::|^\s*(?:pub )?use {name}\b")).expect("a pattern");
    let frameworks: Vec<_> = FRAMEWORKS.iter().map(|(name, layers)| (name, pattern(name), layers)).collect();
    let mut wrong = Vec::new();
    for source in &sources("src") {
        let Some((layer, _)) = layer_of(source) else { continue };
        let code = code(&source.text);
        for (name, used, layers) in &frameworks {
            if !layers.contains(layer) && used.is_match(&code) {
                wrong.push(format!("{}: {layer} uses {name}", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "frameworks outside their layers:\n{}", wrong.join("\n"));
}

#[test]
fn each_module_of_the_actors_has_an_actor() {
    let actor = Regex::new(r"(?m)^impl(?:<.+>)? Actor for \w").expect("a pattern");
    let sources = sources("src/actors");
    let name = |source: &Source| source.module.first().filter(|name| *name != "tests").cloned();
    let modules: BTreeSet<String> = sources.iter().filter_map(name).collect();
    let with_actor: BTreeSet<String> = sources.iter().filter(|source| actor.is_match(&source.text)).filter_map(name).collect();
    let others: BTreeSet<&str> = modules.difference(&with_actor).map(String::as_str).collect();
    assert_eq!(others, BETWEEN_ACTORS.iter().map(|(name, _)| *name).collect(), "modules without an actor belong elsewhere");
}

#[test]
fn walls_within_the_program_stand() {
    let mut wrong = Vec::new();
    for wall in WALLS {
        let words = Regex::new(wall.words).expect("a pattern");
        for source in sources(wall.folder).iter().filter(|source| !(wall.spares_tests && is_of_tests(source))) {
            let code = code(&source.text);
            wrong.extend(words.find(&code).map(|word| format!("{}: {}; {}", source.path.display(), word.as_str(), wall.instead)));
        }
    }
    assert!(wrong.is_empty(), "words behind a wall:\n{}", wrong.join("\n"));
}

#[test]
fn few_places_know_that_services_are_embedded() {
    let named = Regex::new(r"\bcellshift_embedded\b|\bEmbedded(?:Identity|Image|Network|Placement|Volume)\b").expect("a pattern");
    let all = sources("src");
    let naming: Vec<&Path> = all
        .iter()
        .filter(|source| !is_of_tests(source) && named.is_match(&code(&source.text)))
        .map(|source| source.path.strip_prefix(env!("CARGO_MANIFEST_DIR")).expect("a path inside"))
        .collect();
    let elsewhere: Vec<_> = naming.iter().filter(|path| !KNOW_EMBEDDED.iter().any(|(place, _)| path.starts_with(place))).collect();
    assert!(elsewhere.is_empty(), "embedded services are named where the traits of cellshift-neighbours are enough: {elsewhere:?}");
    let gone: Vec<_> = KNOW_EMBEDDED.iter().filter(|(place, _)| !naming.iter().any(|path| path.starts_with(place))).collect();
    assert!(gone.is_empty(), "places that name no embedded service any more: {gone:?}");
}

#[test]
fn handlers_name_databases_but_not_their_records() {
    let path = Regex::new(r"\bdb::((?:\w+::)*)(?:(\w+)|\{([^}]*)\})").expect("a pattern");
    let mut wrong = Vec::new();
    for source in sources("src/http").iter().filter(|source| !is_of_tests(source)) {
        for named in path.captures_iter(&code(&source.text)) {
            let names = named.get(2).or(named.get(3)).map_or("", |names| names.as_str());
            let paths = names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(|name| format!("{}{name}", &named[1]));
            wrong.extend(
                paths.filter(|path| !HANDLES.contains(&path.as_str())).map(|path| format!("{}: crate::db::{path}", source.path.display())),
            );
        }
    }
    assert!(wrong.is_empty(), "records of the databases that are no values of the domain:\n{}", wrong.join("\n"));
}

#[test]
fn libraries_that_cargo_does_not_test_have_no_tests() {
    let is_untested = Regex::new(r"(?m)^\[lib\]\n(?:.+\n)*test = false").expect("a pattern");
    let crates = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates")).expect("the crates");
    let mut wrong = Vec::new();
    let mut libraries = 0;
    for folder in crates.map(|folder| folder.expect("a crate").path()) {
        if is_untested.is_match(&fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest")) {
            libraries += 1;
            let tested = sources(&folder.join("src").to_string_lossy()).into_iter().filter(|source| source.text.contains("#[cfg(test)]"));
            wrong.extend(tested.map(|source| source.path.display().to_string()));
        }
    }
    assert!(
        libraries > 0 && wrong.is_empty(),
        "of {libraries} libraries without tests these files have some that would never run: {wrong:?}"
    );
}

#[test]
fn crates_for_anybody_know_nothing_of_this_program() {
    let other_crate = Regex::new(r"\bcellshift_(\w+)").expect("a pattern");
    let mut wrong = Vec::new();
    for (root, words) in FOR_ANYBODY {
        let words = Regex::new(words).expect("a pattern");
        for source in &sources(root) {
            let words = words.find_iter(&source.text).map(|word| word.as_str().to_owned());
            let crates =
                other_crate.captures_iter(&source.text).map(|name| name[1].to_owned()).filter(|name| !root.ends_with(name.as_str()));
            wrong.extend(words.chain(crates).map(|word| format!("{}: {word}", source.path.display())));
        }
    }
    assert!(wrong.is_empty(), "words of the program in a crate for anybody:\n{}", wrong.join("\n"));
}

#[test]
fn files_are_removed_in_known_places_only() {
    let pattern = Regex::new(r"\bremove_(?:file|dir|dir_all)\b").expect("a pattern");
    let all = [sources("src"), sources("crates")].concat();
    let removers: BTreeSet<String> = all
        .iter()
        .filter(|source| !is_of_tests(source))
        // A module's unit tests stand at its end.
        .filter(|source| pattern.is_match(code(source.text.split("#[cfg(test)]").next().unwrap_or_default()).as_str()))
        .map(|source| source.path.strip_prefix(env!("CARGO_MANIFEST_DIR")).expect("inside").display().to_string())
        .collect();
    assert_eq!(removers, REMOVERS.iter().map(|(file, _)| (*file).to_owned()).collect());
}

#[test]
fn files_are_named_and_cut_by_subject() {
    let mut wrong = Vec::new();
    for source in sources("src").iter().chain(&sources("crates")).chain(&sources("tests")) {
        let name = source.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let lines = source.text.lines().count();
        if FORBIDDEN_NAMES.contains(&name.as_str()) {
            wrong.push(format!("{}: say what it is about", source.path.display()));
        }
        if lines > MAX_LINES {
            wrong.push(format!("{}: {lines} lines, split it by subject (at most {MAX_LINES})", source.path.display()));
        }
        if !source.text.starts_with("//!") {
            wrong.push(format!("{}: the first line says what the file is for", source.path.display()));
        }
    }
    assert!(wrong.is_empty(), "files against the rules of the house:\n{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_use_lines_sees_every_form() {
    let module = vec!["saga".to_owned(), "step".to_owned()];
    let text = "use crate::db::api;\n// use crate::http::x;\nuse crate::{actors::{a, b}, virt};\nfn f() { super::super::services::x() }";
    let source = Source { path: PathBuf::new(), module, text: text.to_owned() };
    let heads: BTreeSet<String> = crate_paths(&source).iter().map(|path| head(path).to_owned()).collect();
    assert_eq!(heads.into_iter().collect::<Vec<_>>(), ["actors", "db", "services", "virt"]);
}
