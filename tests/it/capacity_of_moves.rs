//! Capacity holds for every kind of move, checked by the scheduler or not: what just fits moves, and what is one unit too large stays.

use cellshift::config::Config;
use serde_json::{Value, json};

use crate::stage::{Stage, hosts, play};

const HOME: &str = "cell1-host1";
const THERE: &str = "cell1-host2";
/// The memory of each host, in MiB.
const MEMORY: i32 = 4096;

/// A kind of move to a named host: its microversion, its request, and its status at the end.
type Kind = (&'static str, &'static str, fn() -> Value, &'static str);

const KINDS: &[Kind] = &[
    ("cold", "2.90", || json!({"migrate": {"host": THERE}}), "VERIFY_RESIZE"),
    ("live", "2.90", || json!({"os-migrateLive": {"host": THERE, "block_migration": "auto"}}), "ACTIVE"),
    ("forced live", "2.60", || json!({"os-migrateLive": {"host": THERE, "block_migration": "auto", "force": true}}), "ACTIVE"),
    ("old live", "2.25", || json!({"os-migrateLive": {"host": THERE, "block_migration": "auto"}}), "ACTIVE"),
    ("evacuate", "2.90", || json!({"evacuate": {"host": THERE}}), "ACTIVE"),
    ("forced evacuate", "2.60", || json!({"evacuate": {"host": THERE, "force": true}}), "ACTIVE"),
];

/// Tries each kind of move of a server that leaves this much too little room at its target: none, or one unit.
async fn try_all(stage: &Stage, ratio: i32, short: i32) {
    let flavor = format!("rest-{short}");
    stage.make_flavor(&flavor, 1, 512 + short, 1).await;
    for n in 0..ratio {
        // The last one leaves 512 MiB.
        let size = if n + 1 == ratio { MEMORY - 512 } else { MEMORY };
        let filler = format!("filler-{short}-{n}");
        stage.make_flavor(&filler, 1, size, 1).await;
        stage.create_by(&stage.admin, stage.server().named(&filler).flavor(&filler).on_host(THERE)).await;
    }
    for (name, version, request, arrived) in KINDS {
        let what = format!("{name}, ratio {ratio}, short of {short} MiB");
        let server = stage.create_by(&stage.admin, stage.server().named("one").flavor(&flavor).on_host(HOME)).await;
        let spec = stage.world().api.request_spec(server).await.expect("a spec");
        let dies = name.ends_with("evacuate");
        if dies {
            stage.power(HOME, false).await;
        }
        let answer = stage.admin.speaking(version).act(server, request()).await;
        // An old client waits for the choice, and is told.
        let refused_at_once = *name == "old live" && short > 0;
        assert_eq!(answer.status >= 400, refused_at_once, "{what}: {}", answer.text);
        stage.at_rest(server, if short > 0 { "ACTIVE" } else { arrived }).await;
        if dies {
            stage.power(HOME, true).await;
        }
        stage.paid(server).await;
        assert_eq!(stage.holds(server).await, hosts(&[if short > 0 { HOME } else { THERE }]), "{what}");
        assert_eq!(stage.world().api.request_spec(server).await.expect("a spec"), spec, "{what}");
        stage.until("its guest runs", async || !stage.runs_on(server).await.is_empty()).await;
        stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
    }
}

fn sized(ratio: f64) -> impl FnOnce(&mut Config) {
    move |config: &mut Config| {
        config.compute.memory_mb = MEMORY.unsigned_abs();
        config.compute.ram_allocation_ratio = ratio;
    }
}

#[test]
fn what_just_fits_moves() {
    play(sized(1.0), |stage| async move { try_all(&stage, 1, 0).await });
}

#[test]
fn what_is_one_unit_too_large_stays() {
    play(sized(1.0), |stage| async move { try_all(&stage, 1, 1).await });
}

#[test]
fn the_allocation_ratio_counts_for_moves() {
    play(sized(2.0), |stage| async move { try_all(&stage, 2, 0).await });
}

#[test]
fn beyond_the_allocation_ratio_nothing_moves() {
    play(sized(2.0), |stage| async move { try_all(&stage, 2, 1).await });
}
