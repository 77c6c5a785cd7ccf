//! What the transport counted is what the bound schedule says, phase by phase, rank by rank.

mod common;

use common::config;
use data::Batch;
use kernels::Device;
use spec::placement::share;
use spec::presets::ModelKind;
use spec::run::Run;
use spec::schedule::{PhaseId, Task, Work};
use spec::topology::LinkClass;
use spec::volume::{BatchSizes, LinkBytes};
use std::ops::ControlFlow;
use training::{Execution, Rank};

/// The sizes of one step's batch, counted in the data itself.
fn sizes(run: &Run, step: u64) -> BatchSizes {
    let mut source = common::training_source(run);
    let (global, ranks) = (run.batches().at(step), run.topology().ranks());
    let mut sizes = BatchSizes { samples: Vec::new(), ids: Vec::new() };
    let mut batch = Batch::default();
    for rank in 0..ranks {
        let own = share((global.end - global.start) as usize, ranks, rank);
        source.fill(global.start + own.start as u64..global.start + own.end as u64, &mut batch).unwrap();
        sizes.samples.push(own.len() as u64);
        let of_feature = |feature: usize| {
            let (rows, pieces) = (run.model.features()[feature].rows, run.placement.row_pieces(feature));
            let of_piece = |piece| {
                let rows = share(rows, pieces, piece);
                batch.values(feature).iter().filter(|&&id| rows.contains(&(id as usize))).count() as u64
            };
            (0..pieces).map(of_piece).collect()
        };
        sizes.ids.push((0..batch.features()).map(of_feature).collect());
    }
    sizes
}

fn check(kind: ModelKind, multi_hot: bool, hosts: usize, ranks_per_host: usize, replicate: usize) {
    let mut config = config(kind, multi_hot, hosts, ranks_per_host);
    config.placement.replicate_rows = Some(replicate);
    let run = config.check().unwrap();
    // Across the end of an epoch, with its batch of 5 samples.
    let steps = 19;
    let metered = collectives::launch(
        run.topology(),
        &Default::default(),
        |_| Ok(Device::Reference),
        |world| {
            let schedule = run.schedule(Task::Train);
            let source = common::training_source(&run);
            let mut rank = Rank::new(world.device().clone(), &run, &schedule, world.rank(), source)?;
            let circles = training::Circles::new(&world, &run.dataflow)?;
            let mut execution = Execution::new(schedule);
            execution.run(
                &mut rank,
                &circles,
                steps,
                |step| run.batches().at(step),
                |_, _| Ok(ControlFlow::Continue(())),
            )?;
            Ok::<_, training::Error>(world.meter())
        },
    )
    .unwrap_or_else(|e| panic!("{e}"));

    let schedule = run.schedule(Task::Train);
    let sizes: Vec<BatchSizes> = (0..steps).map(|step| sizes(&run, step)).collect();
    let mut compared = 0;
    for (rank, metered) in metered.iter().enumerate() {
        for (i, phase) in schedule.phases().iter().enumerate() {
            if !matches!(phase.work, Work::Collective(_)) {
                continue;
            }
            let mut expected = LinkBytes::default();
            for sizes in &sizes {
                expected += schedule.sent(PhaseId(i), sizes, rank);
            }
            let traffic = metered.iter().find(|t| t.label.as_str() == phase.name);
            let sent = |link| traffic.map_or(0, |t| t.sent(link));
            let got = LinkBytes { host: sent(LinkClass::Host), network: sent(LinkClass::Network) };
            assert_eq!(got, expected, "rank {rank}, {}", phase.name);
            compared += usize::from(got != LinkBytes::default());
        }
    }
    assert!(compared > 0 || run.topology().ranks() == 1);
}

#[test]
fn single_hot() {
    for (hosts, ranks) in [(1, 1), (1, 4), (2, 2), (4, 2)] {
        check(ModelKind::Dlrm, false, hosts, ranks, 0);
    }
}

#[test]
fn multi_hot() {
    for (hosts, ranks) in [(1, 3), (2, 2), (4, 2)] {
        check(ModelKind::Dcn, true, hosts, ranks, 0);
    }
}

#[test]
fn replicated() {
    check(ModelKind::Dlrm, true, 2, 2, 40);
    check(ModelKind::Dlrm, false, 2, 2, 1000);
}
