//! The operators' commands against a running service: their tables, their JSON, and what they say of bad input.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::client::{NewServer, id_of};
use crate::command_reach::{run_with, users};
use crate::service::{Ended, Service, program};

/// Makes the server `web`, resizes it to another cell, and returns its id and the token of a member.
pub fn moved(service: &Service, data: &std::path::Path) -> (String, String) {
    actix_rt::System::new().block_on(async {
        let users = users(service, data).await;
        let image = id_of(&users.member.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
        let server = id_of(&NewServer::of_image(image).named("web").ask(&users.member).await.expect(202).body["server"]);
        users.admin.notification("instance.create.end", Some(server)).await;
        users.member.resize(server, "gen2.small").await.expect(202);
        users.admin.notification("instance.resize_finish.end", Some(server)).await;
        (server.to_string(), users.member.token().to_owned())
    })
}

/// Returns the cells of a table's row that begins with this text; two blanks part them.
fn row<'a>(table: &'a str, first: &str) -> Vec<&'a str> {
    let line = table.lines().find(|line| line.starts_with(first)).unwrap_or_else(|| panic!("no row {first} in\n{table}"));
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

pub fn parsed(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.stdout))
}

#[test]
fn operators_commands_tell_what_the_routes_answer() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().to_str().expect("a path");
    std::fs::write(dir.path().join("policy.yaml"), "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n")
        .expect("a policy");
    let service = Service::start(dir.path(), &[]);
    let url = format!("http://{}", service.address);
    let (server, member) = moved(&service, dir.path());
    let run = |arguments: &[&str]| run_with(&[], &[arguments, &["--data-dir", data]].concat());

    let cells = run(&["cells"]).stdout;
    assert_eq!(cells.lines().next().map(|head| head.split_whitespace().next()), Some(Some("CELL")), "{cells}");
    assert_eq!((row(&cells, "cell1")[1], row(&cells, "cell1")[3]), ("up", "2 of 2"));
    let answer = parsed(&run(&["cells", "-o", "json"]));
    assert_eq!((&answer["cells"][2]["host_counts"]["up"], &answer["cells"][2]["hosts"]), (&2.into(), &Value::Null));
    assert_eq!(row(&run(&["cells", "--disable", "cell2"]).stdout, "cell2")[1], "up, disabled");
    assert_eq!(row(&run(&["cells", "--enable", "cell2"]).stdout, "cell2")[1], "up");
    let hosts = run(&["hosts", "--cell", "cell2", "--limit", "1"]).stdout;
    assert_eq!(hosts.lines().count(), 2, "{hosts}");
    assert_eq!(row(&hosts, "cell2-host1")[1..5], ["cell2", "cell2", "up", "enabled"]);
    assert_eq!(parsed(&run(&["hosts", "--limit", "3", "-o", "json"]))["hosts"].as_array().map(Vec::len), Some(3));
    assert_eq!(run(&["hosts", "--state", "down"]).stdout.lines().skip(1).collect::<Vec<_>>(), ["(none)"]);

    let moves = run(&["migrations"]).stdout;
    let listed = parsed(&run(&["migrations", "--output", "json"]));
    let id = listed["migrations"][0]["uuid"].as_str().expect("an id");
    let cells = row(&moves, &id[..8]);
    assert!(!moves.contains("create"), "{moves}");
    assert_eq!((cells[1], cells[2], cells[4], cells[7]), ("web", "resize", "gen1.small → gen2.small", "done"), "{moves}");
    assert!(cells[3].starts_with("cell1/") && cells[3].contains(" → cell2/"), "{moves}");
    assert_eq!(run(&["migrations", "--all"]).stdout.lines().count(), 3, "also the create");
    assert_eq!(parsed(&run(&["migrations", "--all", "--limit", "1", "-o", "json"]))["migrations"].as_array().map(Vec::len), Some(1));

    let journal = run(&["migration", &id[..8]]).stdout;
    assert!(journal.starts_with(&format!("resize of server {server} (web), began ")), "{journal}");
    let pivot = journal.lines().find(|line| line.contains("◆ pivot")).expect("the pivot");
    assert!(pivot.contains("take_ownership") && pivot.ends_with('▬'), "{pivot}");
    assert_eq!(parsed(&run(&["migration", id, "-o", "json"]))["uuid"], id);

    servers_are_listed_and_shown(&run, &server);
    hosts_are_changed_at_once(&run);

    let status = run(&["status"]).stdout;
    assert!(status.contains("→ cellshift unconfirmed\n"), "{status}");
    assert!(status.starts_with(&format!("cellshift at {url}/ops/v1, ")) && status.contains("0 forward, 0 going back"), "{status}");
    assert_eq!(parsed(&run(&["status", "-o", "json"]))["summary"]["queued_deletes"], 0);
    assert_eq!(run(&["debts"]).stdout.lines().skip(1).collect::<Vec<_>>(), ["(none)"]);
    assert_eq!(run(&["debts", "--wait"]).stdout, "Nothing is owed any more.\n");
    assert!(run(&["debts", &id[..8], "--retry"]).stderr.contains("owes nothing"));
    assert_eq!(run(&["queued-deletes"]).stdout.lines().skip(1).collect::<Vec<_>>(), ["(none)"]);

    events_are_printed_and_followed(&run);
    wrong_arguments_are_explained(&run);
    for command in ["cells", "hosts", "servers", "migrations", "unconfirmed", "debts", "queued-deletes", "events", "status"] {
        let refused = run_with(&[], &[command, "--url", &url, "--token", &member]);
        assert!(refused.code == Some(1) && refused.stderr.contains("403"), "{command}: {}", refused.stderr);
    }
    service.stop();
    let silent = run_with(&[], &["cells", "--url", &url, "--token", &member]);
    assert!(silent.code == Some(1) && silent.stderr.contains("no service answers"), "{}", silent.stderr);
}

/// Looks at the server `web`, which waits in cell2 for confirm or revert.
fn servers_are_listed_and_shown(run: &dyn Fn(&[&str]) -> Ended, server: &str) {
    let waiting = run(&["unconfirmed"]).stdout;
    assert_eq!((row(&waiting, "web")[1], row(&waiting, "web")[3]), ("demo", "gen1.small → gen2.small"), "{waiting}");
    assert_eq!(parsed(&run(&["unconfirmed", "-o", "json"]))["unconfirmed_moves"][0]["server"], server);
    let servers = run(&["servers", "--name", "we", "--sort", "name"]).stdout;
    let web = row(&servers, "web");
    assert_eq!((web[1], web[2], web[4], web[7]), (server, "cell2", "gen2.small", "VERIFY_RESIZE"), "{servers}");
    assert_eq!(parsed(&run(&["servers", "-o", "json"]))["servers"][0]["cell"], "cell2");
    for empty in [&["servers", "--cell", "cell1"][..], &["servers", "--status", "active"], &["servers", "--flavor", "gen1.small"]] {
        assert_eq!(run(empty).stdout.lines().skip(1).collect::<Vec<_>>(), ["(none)"], "{empty:?}");
    }
    for column in ["name", "id", "cell", "host", "flavor", "addresses", "project", "state", "created", "updated"] {
        assert_eq!(row(&run(&["servers", "--sort", column, "--reverse"]).stdout, "web")[1], server, "{column}");
    }
    let wrong = run(&["servers", "--sort", "colour"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("name, id, cell, host, flavor, addresses, project, state"), "{}", wrong.stderr);
    let wrong = run(&["servers", "--status", "ACTIVEE"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("VERIFY_RESIZE") && wrong.stderr.contains("ACTIVE"), "{}", wrong.stderr);
    let whole = run(&["server", "web"]).stdout;
    let first = format!("server       web, {server}\n");
    for part in [
        first.as_str(),
        "place        host cell2-host",
        "image        tiny, ",
        "  private  ",
        "Operations, newest first:\n",
        "Where it could go",
    ] {
        assert!(whole.contains(part), "{part:?} in\n{whole}");
    }
    assert_eq!(parsed(&run(&["server", server, "-o", "json"]))["server"]["status"], "VERIFY_RESIZE");
}

/// Disables the hosts of cell2 and enables them again.
fn hosts_are_changed_at_once(run: &dyn Fn(&[&str]) -> Ended) {
    let disabled = run(&["hosts", "cell2-*", "--disable", "--reason", "new switches"]);
    assert_eq!(disabled.code, Some(0), "{}", disabled.stderr);
    assert_eq!(row(&disabled.stdout, "cell2-host2")[1..], ["cell2", "disabled"]);
    assert_eq!(row(&run(&["hosts", "cell2-host1"]).stdout, "cell2-host1").last(), Some(&"new switches"));
    let cells = run(&["cells", "--enable", "cell2"]).stdout;
    assert!(cells.contains("2 hosts of cell2 stay disabled:\n  cell2-host1, cell2-host2: new switches\n"), "{cells}");
    let enabled = parsed(&run(&["hosts", "--cell", "cell2", "--enable", "-o", "json"]));
    assert_eq!((&enabled["hosts"][0]["state"], &enabled["hosts"][0]["changed"]), (&"enabled".into(), &true.into()), "{enabled}");
    assert_eq!(row(&run(&["hosts", "cell2-host1", "--enable"]).stdout, "cell2-host1")[2], "enabled already");
}

/// Passes on each line of a process, so that a test can wait for one with a bound.
pub fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    lines
}

/// Reads the numbers of this many events from a command's lines.
fn numbers(lines: &Receiver<String>, count: usize) -> Vec<u64> {
    let next = |_| {
        let line = lines.recv_timeout(Duration::from_secs(60)).expect("a line");
        line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no number in {line:?}"))
    };
    (0..count).map(next).collect()
}

#[test]
fn followed_events_go_on_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().to_str().expect("a path");
    let service = Service::start(dir.path(), &[]);
    let address = service.address.to_string();
    create_one(&service, dir.path());
    let mut process = Command::new(program())
        .args(["events", "--follow", "--after", "0", "--data-dir", data])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    let lines = lines_of(process.stdout.take().expect("its output"));
    let kept = || run_with(&[], &["events", "-o", "json", "--data-dir", data]).stdout.lines().count();
    let before = kept();
    let mut followed = numbers(&lines, before);
    service.stop();
    let service = Service::start_again(dir.path(), &address);
    create_one(&service, dir.path());
    let after = kept();
    assert!(after > before);
    followed.extend(numbers(&lines, after - before));
    assert!(followed.iter().copied().eq(1..=after as u64), "none is lost or told twice: {followed:?}");
    let _ = process.kill();
    let _ = process.wait();
    service.stop();
}

/// Creates a server.
fn create_one(service: &Service, data: &std::path::Path) {
    actix_rt::System::new().block_on(async {
        let users = users(service, data).await;
        let image = id_of(&users.member.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
        let server = id_of(&NewServer::of_image(image).ask(&users.member).await.expect(202).body["server"]);
        users.admin.notification("instance.create.end", Some(server)).await;
    });
}

#[test]
fn completions_manuals_and_versions_are_printed() {
    for (shell, word) in [("bash", "queued-deletes"), ("zsh", "--os-cloud"), ("fish", "cellshift")] {
        let ended = run_with(&[], &["completions", shell]);
        assert!(ended.code == Some(0) && ended.stdout.contains(word), "{shell}: {}", ended.stderr);
    }
    let dir = tempfile::tempdir().expect("a directory");
    let below = dir.path().join("man1");
    let ended = run_with(&[], &["man", below.to_str().expect("a path")]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let page = std::fs::read_to_string(below.join("cellshift-migrations.1")).expect("a page");
    assert!(page.contains(".TH") && page.contains("os\\-cloud"), "{page}");
    let (short, long) = (run_with(&[], &["-V"]).stdout, run_with(&[], &["--version"]).stdout);
    assert_eq!(short, format!("cellshift {}\n", env!("CARGO_PKG_VERSION")));
    assert!(long.starts_with(short.trim_end()) && long.contains(" (commit ") && long.contains("features: "), "{long}");
}

fn events_are_printed_and_followed(run: &dyn Fn(&[&str]) -> Ended) {
    let events = run(&["events", "--server", "web", "--type", "instance.resize_finish"]).stdout;
    assert!(events.contains("instance.resize_finish.end  ") && events.contains(" web resized"), "{events}");
    assert!(!events.contains("instance.create"), "{events}");
    assert_eq!(run(&["events", "--type", "instance.nothing"]).stdout, "(none)\n");
    let newest = run(&["events", "-o", "json", "--limit", "2"]).stdout;
    let newest: Vec<Value> = newest.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(newest.len() == 2 && newest.iter().all(|event| event["event_type"].is_string()), "{newest:?}");
    let followed = run(&["events", "--follow", "--after", "0", "--limit", "2"]);
    assert_eq!((followed.code, followed.stdout.lines().count()), (Some(0), 2), "{}", followed.stderr);
}

fn wrong_arguments_are_explained(run: &dyn Fn(&[&str]) -> Ended) {
    for (arguments, complaint) in [
        (&["hosts", "--cell", "nowhere"][..], "Cell nowhere could not be found."),
        (&["cells", "--disable", "nowhere"], "Cell nowhere could not be found."),
        (&["explain", "web", "--flavor", "gen2.smal"], "Did you mean gen2.small?"),
        (&["explain", "web", "--host", "cell1-hots1"], "Did you mean cell1-host1?"),
        (&["migration", "g"], "is no migration"),
        (&["debts", "--server", "nobody"], "no server is called \"nobody\""),
        (&["drains", "0f0f", "--follow"], "no drain is called \"0f0f\""),
        (&["servers", "--cell", "cell3"], "--cell: none is called \"cell3\". Did you mean cell1? There are: cell1, cell2"),
        (&["servers", "--flavor", "gen2.smal"], "Did you mean gen2.small? There are: gen1.large, "),
        (&["servers", "--project", "dem"], "--project: none is called \"dem\". Did you mean demo? There are: admin, demo"),
        (&["drain", "cell1", "--to", "cell2,cel1"], "--to: no cell is called \"cel1\". Did you mean cell1? There are: cell1, cell2"),
        (&["server", "wep"], "no server is called \"wep\", and the id of none begins so. Did you mean web?"),
        (&["hosts", "--disable"], "say which hosts"),
        (&["hosts", "cell1-hots1", "--disable"], "Did you mean cell1-host1?"),
        (&["drain", "cell1", "--to", "cel2"], "--to: no cell and no availability zone is called \"cel2\". Did you mean cell2?"),
        (&["top"], "top needs a terminal"),
    ] {
        let ended = run(arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(ended.stderr.contains(complaint), "{arguments:?}: {}", ended.stderr);
    }
}
