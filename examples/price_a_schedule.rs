//! What a training step would take on hardware that is not here: a schedule, priced.
//!
//! ```text
//! cargo run --release --example price_a_schedule
//! ```

use campanile::Config;
use planning::cost::CostKind;
use planning::simulator::Simulation;
use planning::step::StepGraph;
use planning::system::System;
use spec::presets::{ModelKind, Preset};
use spec::schedule::Task;
use std::error::Error;

/// Prices the step of a DLRM, flat and in towers, on 64 H100 GPUs.
pub fn main() -> Result<(), Box<dyn Error>> {
    let system = System::named("h100:64")?;
    for (name, towers) in [("flat", None), ("eight towers", Some("strided:8"))] {
        let mut config = Config::default();
        config.model.kind = Some(ModelKind::Dlrm);
        config.model.preset = Some(Preset::Mlperf);
        config.model.towers = towers.map(str::parse).transpose()?;
        config.model.tower_module = towers.map(|_| "dlrm:c=1,p=0,d=64".parse()).transpose()?;
        config.topology.hosts = Some(system.nodes);
        config.topology.ranks_per_host = Some(system.devices_per_node);
        config.train.batch = Some(1024 * system.devices());
        let run = planning::check(&config)?;
        let schedule = run.schedule(Task::Train);
        let step = StepGraph::of_schedule(&schedule, run.batch);
        let priced = Simulation::new(CostKind::Hierarchical.model().as_ref(), &step, &system);
        println!(
            "{name:<13} {} phases, {:.2} ms a step, {:.2} ms of it waiting for communication",
            schedule.phases().len(),
            1e3 * priced.iteration_s(),
            1e3 * priced.exposed_s()
        );
    }
    Ok(())
}
