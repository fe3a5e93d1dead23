//! The simulation's stage: one cloud in memory, and lives of its controllers on one thread until the run is over.

use std::sync::Arc;

use cellshift_embedded::transaction::Transactions;
use tokio::task::LocalSet;

use super::cloud::{self, Setting};
use super::run::{Run, RunEnd};
use super::trace::Trace;
use super::virtual_env::{RunClock, env};
use super::watch::Watch;
use super::{Options, Outcome, SimulationError, findings};
use crate::bootstrap::Cloud;
use crate::chaos::audit;
use crate::chaos::experiment::fault::PlannedFault;
use crate::chaos::experiment::injector::Injector;
use crate::chaos::experiment::scenario::Scenario;
use crate::chaos::experiment::verdict::{Findings, Mode};

/// The opened cloud with its run.
pub struct Stage {
    run: Run,
    cloud: Cloud,
    image: uuid::Uuid,
    _folder: tempfile::TempDir,
}

impl Stage {
    /// Opens everything and starts nothing.
    pub async fn open(seed: u64, scenario: &Scenario, faults: &[PlannedFault], options: &Options) -> Result<Stage, SimulationError> {
        let folder = cloud::folder()?;
        let clock = Arc::new(RunClock::virtual_time());
        let trace = Trace::new(clock.clone(), options.whole_trace).with_teller(options.teller.clone());
        let cloud = cloud::open(seed, folder.path(), scenario, env(seed, clock.clone())).await?;
        let image = cloud::sample_image(&cloud).await?;
        let watch = Arc::new(Watch::new(trace.clone(), cloud.api.db(), cloud.services.placement.database()));
        let run = Run::new(seed, scenario, faults, clock, trace, watch);
        Ok(Stage { run, cloud, image, _folder: folder })
    }

    /// Runs to the end.
    pub async fn run(mut self, seed: u64) -> Result<Outcome, SimulationError> {
        let mut lives = 0;
        let (report, servers_in_error) = loop {
            lives += 1;
            // All tasks of a life run in here, and are dropped with it as in a killed process.
            let process = LocalSet::new();
            let life = process.run_until(self.live()).await;
            drop(process);
            if let (RunEnd::Over(report), in_error) = life? {
                break (report, in_error);
            }
        };
        let findings = self.findings(seed, lives, &report, servers_in_error).await?;
        let run = &self.run;
        for saga in &findings.migrations {
            run.trace.note(format!("saga   {} {} {} ended {}", saga.uuid, saga.saga, saga.server, saga.state));
        }
        Ok(Outcome { hash: run.trace.hash(), lines: run.trace.len(), trace: run.trace.lines(), findings })
    }

    async fn live(&mut self) -> Result<(RunEnd, usize), SimulationError> {
        let setting = Setting {
            cloud: &self.cloud,
            scenario: &self.run.scenario,
            seams: self.run.seams.clone(),
            watch: self.run.watch.clone(),
            trace: self.run.trace.clone(),
            image: self.image,
        };
        let (reach, tree) = setting.begin().await?;
        let injector = Injector::new(tree.clone(), self.cloud.databases(), self.run.seams.clone(), Some(self.run.clock.clone()));
        let life = self.run.live(&reach, &tree, &injector).await?;
        let in_error = self.run.users.servers_in_error(&reach).await;
        Ok((life, in_error))
    }

    async fn findings(
        &self,
        seed: u64,
        lives: usize,
        report: &audit::Report,
        servers_in_error: usize,
    ) -> Result<Findings, SimulationError> {
        let db = self.cloud.api.db().named("report");
        findings::of(&self.run, &db, findings::End { mode: Mode::Simulation, seed, lives, report, servers_in_error }).await
    }
}
