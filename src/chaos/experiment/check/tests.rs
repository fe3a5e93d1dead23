//! Tests of valid files, and of the refusal of wrong ones.

use super::*;
use crate::chaos::experiment::scenario::Workload;

const WHOLE: &str = r#"
title = "The target loses its power"
seed = 7

[topology]
cells = 2
hosts_per_cell = 2

[workload]
journeys = [{ servers = 2, flavor = "gen1.small", acts = ["write", { resize = "gen2.small" }, "confirm", { wait = 100 }] }]

[[faults]]
when = { step = "prepare_at_target" }
what = { host_off = { host = "target", for_ms = 8000 } }

[[faults]]
when = { between_ms = [100, 900] }
what = { database = { name = "cell1", outage = "refuses", for_ms = 300 } }
times = 3
every_ms = 1000

[[faults]]
when = { step = "take_ownership", saga = "resize", moment = "after_effect", occurrence = 2 }
what = { step = "kill_actor" }

[[faults]]
when = { at_ms = 5 }
what = "restart"

[abort]
violations = 1

[expect]
arrived = { at_least = 1 }
"#;

#[test]
fn a_file_says_all_there_is_and_reads_back_the_same() {
    let scenario = parse(WHOLE).unwrap_or_else(|complaints| panic!("{complaints:?}"));
    assert_eq!((scenario.title.as_str(), scenario.seed, scenario.workload.actions()), ("The target loses its power", 7, 0));
    assert_eq!(Workload::default().actions(), 240);
    let faults = scenario.faults.as_ref().unwrap();
    assert_eq!(faults[0].when, When::Step(AtStep::before("prepare_at_target")));
    assert_eq!(faults[0].what, What::HostOff { host: "target".into(), for_ms: 8000, resume_guests: true });
    assert_eq!((faults[1].times, faults[1].every_ms, &faults[3].what), (3, 1000, &What::Restart));
    let text = toml::to_string(&scenario).unwrap();
    assert_eq!(parse(&text).unwrap(), scenario, "{text}");
    let json = serde_json::to_string(&scenario).unwrap();
    assert_eq!(serde_json::from_str::<Scenario>(&json).unwrap(), scenario);
}

/// The text, the line, and the words of the complaint.
const WRONG: [(&str, usize, &[&str]); 22] = [
    ("title = \"x\"\ncolour = 1\n", 2, &["unknown field `colour`", "`topology`"]),
    ("[topology]\ncels = 1\n", 2, &["unknown field `cels`", "`cells`"]),
    ("[topology]\n\ncells = 99\n", 3, &["topology.cells", "between 1 and 10"]),
    ("[topology\n", 1, &["]"]),
    ("[[workload.journeys]]\nflavor = \"huge\"\n", 2, &["workload.journeys[0].flavor", "huge", "gen1.small"]),
    ("[[workload.journeys]]\nacts = [\"fly\"]\n", 2, &["unknown variant `fly`", "`resize`"]),
    ("[[workload.journeys]]\nacts = [{ migrate_to = \"h9\" }]\n", 2, &["h9", "cell1-host1"]),
    ("[[faults]]\nwhen = { at_ms = 1 }\n", 1, &["missing field `what`"]),
    ("[[faults]]\nwhat = \"restart\"\nwhen = { at_ms = 1, step = \"accept\" }\n", 3, &["one of", "between_ms"]),
    ("[[faults]]\nwhat = \"restart\"\nwhen = { step = \"prepare\" }\n", 3, &["faults[0].when.step", "prepare_at_target"]),
    ("[[faults]]\nwhat = \"restart\"\nwhen = { step = \"publish\", side = \"undo\" }\n", 3, &["publish has no undo"]),
    (
        "[[faults]]\nwhat = \"restart\"\nwhen = { step = \"accept\", saga = \"x\" }\n",
        3,
        &["no saga", "resize, live_migrate, confirm, revert"],
    ),
    ("[[faults]]\nwhat = \"restart\"\nwhen = { step = \"accept\", moment = \"now\" }\n", 3, &["unknown variant `now`", "`after_effect`"]),
    ("[[faults]]\nwhat = { step = \"refuse\" }\nwhen = { at_ms = 1 }\n", 2, &["faults[0].what.step", "say which in `when`"]),
    (
        "[[faults]]\nwhat = { step = \"repeat\" }\nwhen = { step = \"accept\", moment = \"after_effect\" }\n",
        2,
        &["allowed are refuse, kill_actor"],
    ),
    ("[[faults]]\nwhat = { step = \"freeze\" }\nwhen = { step = \"accept\" }\n", 2, &["complete_late"]),
    (
        "[[faults]]\nwhat = { host_off = { host = \"target\", for_ms = 1 } }\nwhen = { at_ms = 1 }\n",
        2,
        &["faults[0].what.host_off.host", "cell3-host3"],
    ),
    (
        "[[faults]]\nwhen = { at_ms = 1 }\nwhat = { database = { name = \"cell9\", outage = \"refuses\" } }\n",
        3,
        &["cell9", "cell1, cell2, cell3, api, network"],
    ),
    ("[[faults]]\nwhen = { at_ms = 1 }\nwhat = { kill = { actor = \"root\" } }\n", 3, &["conductor, scheduler", "cell1/cell1-host1"]),
    ("[[faults]]\nwhat = \"restart\"\ntimes = 3\nwhen = { at_ms = 1 }\n", 3, &["faults[0].times", "every_ms"]),
    ("[expect]\narrived = { at_least = 3, at_most = 2 }\n", 2, &["expect.arrived", "at_most"]),
    ("[abort]\nviolations = 0\n", 2, &["abort.violations", "at least 1"]),
];

#[test]
fn a_wrong_file_is_refused_with_its_line_and_what_is_allowed() {
    for (text, line, parts) in WRONG {
        let complaints = parse(text).expect_err(text);
        let texts: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        assert_eq!(complaints[0].place.map(|(line, _)| line), Some(line), "{text:?} gave {texts:?}");
        for part in parts {
            assert!(texts[0].contains(part), "{text:?} gave {texts:?}, without {part:?}");
        }
    }
    let two = parse("[topology]\ncells = 0\n[abort]\nviolations = 0\n").expect_err("both are wrong");
    assert_eq!(two.len(), 2, "all is told at once");
}
