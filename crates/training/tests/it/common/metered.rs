//! What the transport counted, held against the bound schedule.

use collectives::SentBytes;
use data::Batch;
use kernels::Device;
use spec::placement::{Shard, share};
use spec::run::Run;
use spec::schedule::{PhaseId, Task, Work};
use spec::topology::LinkClass;
use spec::volume::{BatchSizes, LinkBytes};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use training::{Execution, RankState, Source};

/// An epoch in memory: to draw it again for every rank and step would take most of the time.
#[derive(Clone)]
pub struct Epoch(Batch);

impl Epoch {
    pub fn of(run: &Run) -> Self {
        let mut batch = Batch::default();
        super::training_source(run).fill(0..run.data.samples(), &mut batch).unwrap();
        Self(batch)
    }

    pub fn source(&self) -> Source {
        Source::resident(vec![self.0.clone()])
    }
}

/// The sizes of one step's batch, counted in the data itself.
pub fn sizes(run: &Run, source: &mut Source, step: u64) -> BatchSizes {
    let (global, ranks) = (run.batches().at(step), run.topology().ranks());
    let mut sizes = BatchSizes { samples: Vec::new(), ids: Vec::new(), touched: Vec::new() };
    let mut batch = Batch::default();
    let mut touched = vec![vec![BTreeSet::new(); run.model.features().len()]; ranks];
    for rank in 0..ranks {
        let own = share((global.end - global.start) as usize, ranks, rank);
        source.fill(global.start + own.start as u64..global.start + own.end as u64, &mut batch).unwrap();
        sizes.samples.push(own.len() as u64);
        let of_feature = |feature: usize| {
            let pieces =
                run.placement.shards_of(feature).iter().step_by(run.placement.column_pieces(feature));
            let count = |shard: &Shard| {
                batch.values(feature).iter().filter(|&&id| shard.rows.contains(&(id as usize))).count() as u64
            };
            pieces.map(count).collect()
        };
        sizes.ids.push((0..batch.features()).map(of_feature).collect());
        for shard in run.placement.copied() {
            // The copy with the index of the rank serves its samples: in the flat dataflow that on the rank itself.
            let groups = run.dataflow.sptt().map(|sptt| sptt.groups());
            let index = groups.map_or(rank, |groups| groups.index_of(rank));
            let holder = shard.holders.ranks()[index];
            touched[holder][shard.feature].extend(batch.values(shard.feature).iter().copied());
        }
    }
    let count = |rows: &BTreeSet<u32>| rows.len() as u64;
    sizes.touched = touched.iter().map(|of_rank| of_rank.iter().map(count).collect()).collect();
    sizes
}

/// What the transport of each rank counted over `steps` steps, by label.
pub fn metered(run: &Run, log: &Epoch, steps: u64) -> Vec<Vec<SentBytes>> {
    collectives::launch(
        run.topology(),
        &Default::default(),
        |_| super::device_or(|| Ok(Device::Reference)),
        |world| {
            let schedule = run.schedule(Task::Train);
            let mut rank =
                RankState::new(world.device().clone(), run, &schedule, world.rank(), log.source())?;
            let communicators = training::Communicators::new(&world, &run.dataflow)?;
            let mut execution = Execution::new(schedule);
            execution.run(
                &mut rank,
                &communicators,
                steps,
                |step| run.batches().at(step),
                |_, _| Ok(ControlFlow::Continue(())),
            )?;
            Ok::<_, training::Error>(world.meter())
        },
    )
    .unwrap_or_else(|e| panic!("{e}"))
}

pub fn sent(metered: &[SentBytes], phase: &str) -> LinkBytes {
    let traffic = metered.iter().find(|t| t.label.as_str() == phase);
    let sent = |link| traffic.map_or(0, |t| t.sent(link));
    LinkBytes { host: sent(LinkClass::Host), network: sent(LinkClass::Network) }
}

/// Holds the meter against the bound schedule, phase by phase, rank by rank.
pub fn check_run(run: &Run, log: &Epoch, what: &str) {
    // Across the end of an epoch, whose last batch is smaller.
    let steps = run.batches().per_epoch() + 2;
    let schedule = run.schedule(Task::Train);
    let mut source = log.source();
    let sizes: Vec<BatchSizes> = (0..steps).map(|step| sizes(run, &mut source, step)).collect();
    let mut compared = 0;
    for (rank, metered) in metered(run, log, steps).iter().enumerate() {
        for (i, phase) in schedule.phases().iter().enumerate() {
            if !matches!(phase.work, Work::Collective(_)) {
                continue;
            }
            let mut expected = LinkBytes::default();
            for sizes in &sizes {
                expected += schedule.sent(PhaseId(i), sizes, rank);
            }
            let got = sent(metered, &phase.name);
            assert_eq!(got, expected, "rank {rank}, {} {what}", phase.name);
            compared += usize::from(got != LinkBytes::default());
        }
        // Nothing is sent beside the phases, but for what ranks tell each other to form groups.
        let known = |t: &&SentBytes| schedule.phases().iter().any(|phase| phase.name == t.label.as_str());
        let others: Vec<&str> = metered.iter().filter(|t| !known(t)).map(|t| t.label.as_str()).collect();
        assert!(others.iter().all(|&label| label == "split"), "{others:?} {what}");
    }
    assert!(compared > 0 || run.topology().ranks() == 1);
}
