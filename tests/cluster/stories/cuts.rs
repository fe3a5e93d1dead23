//! The network between agents and their cell's NATS is cut in the middle of moves to the other cell, one way and both ways, and heals. The
//! moves of a story go on at once, each between two hosts of its own. `CELLSHIFT_CLUSTER=all` runs the cuts that last a minute, too.

use std::collections::BTreeMap;
use std::time::Duration;

use cellshift::client::ADMIN;
use cellshift_nats::testkit::proxy::{BOTH_WAYS, Proxy, Way};
use futures::future::join_all;
use serde_json::json;

use crate::stage::Stage;
use crate::witness::Witness;

/// The cuts of a story.
const CUTS: [&[Way]; 3] = [&[Way::ToServer], &[Way::FromServer], &BOTH_WAYS];

/// The side of a move whose agent is cut off, and the step in whose middle that happens.
#[derive(Clone, Copy, Debug)]
enum Side {
    Source,
    Target,
}

impl Side {
    fn step(self) -> &'static str {
        match self {
            Side::Source => "upload_snapshot",
            Side::Target => "prepare_at_target",
        }
    }
}

#[tokio::test]
async fn a_cut_of_3_s_loses_no_server() {
    cut_off(Duration::from_secs(3)).await;
}

#[tokio::test]
async fn a_cut_of_11_s_loses_no_server() {
    cut_off(Duration::from_secs(11)).await;
}

#[tokio::test]
async fn a_cut_of_60_s_loses_no_server() {
    match std::env::var("CELLSHIFT_CLUSTER").as_deref() {
        Ok("all") => cut_off(Duration::from_secs(60)).await,
        Ok(other) => panic!("CELLSHIFT_CLUSTER may be all, not {other}"),
        Err(_) => println!("skipped: CELLSHIFT_CLUSTER=all runs cuts that last a minute"),
    }
}

/// Cuts the agents of sources off for this time, each in another way, and then those of targets.
async fn cut_off(time: Duration) {
    let (stage, proxies) = Stage::with_proxies(3).await;
    for side in [Side::Source, Side::Target] {
        let moves = CUTS.iter().zip(1..).map(|(ways, number)| moves_through_a_cut(&stage, &proxies, side, (*ways, number), time));
        join_all(moves).await;
        stage.is_clean().await;
    }
    stage.end().await;
}

/// Moves a server from the host with this number to that of the other cell through a cut, and sees it at rest where it was or where it
/// goes.
async fn moves_through_a_cut(
    stage: &Stage,
    proxies: &BTreeMap<String, Proxy>,
    side: Side,
    (ways, number): (&[Way], usize),
    time: Duration,
) {
    let (source, target) = (format!("cell1-host{number}"), format!("cell2-host{number}"));
    let cut_off = match side {
        Side::Source => &source,
        Side::Target => &target,
    };
    let server = stage.create_on(&source, &format!("{side:?}-{number}")).await;
    let mut witness = Witness::log_in(&stage.cluster.clouds_file(), ADMIN, &server).await;
    witness.requests("migrate", json!({"migrate": {"host": target}})).await;
    let story = async {
        stage.is_at(&server, side.step()).await;
        proxies[cut_off].cut_for(ways, time).await;
        if stage.rests(&server, &["VERIFY_RESIZE", "ACTIVE"]).await == "ACTIVE" {
            return &source;
        }
        stage.act_as_admin(&server, json!({"confirmResize": null})).await;
        stage.rests(&server, &["ACTIVE"]).await;
        &target
    };
    let home = witness.during(story).await;
    assert_eq!(stage.host_of(&server).await, *home, "{side:?}: {ways:?}");
    assert_eq!(witness.accepted_moves(), 1);
}
