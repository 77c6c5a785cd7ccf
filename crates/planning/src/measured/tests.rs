use super::*;
use spec::machine_rates::OperationModel;
use spec::run::{Config, Run};
use spec::schedule::{CollectiveKind, Task};

fn run(change: impl FnOnce(&mut Config)) -> Run {
    let mut config = Config::default();
    change(&mut config);
    crate::check(&config).expect("a run")
}

fn step(run: &Run) -> (Schedule, BatchSizes) {
    (run.schedule(Task::Train), BatchSizes::typical(&run.model, &run.placement, run.batch))
}

/// A millisecond for every class that a step has, and for every collective.
fn calibration(schedule: &Schedule) -> MachineRates {
    let mut operations: Vec<OperationModel> = Vec::new();
    for phase in schedule.phases() {
        let Work::Compute(operation) = &phase.work else { continue };
        let class = schedule.describe(operation).class;
        if !operations.iter().any(|operation| operation.class == class) {
            operations.push(OperationModel::new(class, 1e-3));
        }
    }
    let topology = schedule.placement().topology();
    let kinds = [CollectiveKind::AllToAll, CollectiveKind::AllReduce];
    let line = |collective, group: GroupSpan| LinkModel {
        collective,
        algorithm: Algorithm::Direct,
        group,
        ranks: group.members(topology),
        latency_s: 1e-3,
        bytes_per_s: 1e18,
    };
    let spans = [GroupSpan::World, GroupSpan::Host, GroupSpan::Peers];
    MachineRates {
        about: String::new(),
        hosts: topology.hosts(),
        ranks_per_host: topology.ranks_per_host(),
        transport: Transport::Mpi,
        threads: 1,
        precision: Default::default(),
        gpu: None,
        ranks_per_machine: 1,
        cores: 1,
        overlap: 0.0,
        stretch: 1.0,
        operations,
        links: kinds.into_iter().flat_map(|kind| spans.map(|span| line(kind, span))).collect(),
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn without_overlap_a_step_is_its_phases() {
    let (schedule, sizes) = step(&run(|_| ()));
    let mut calibration = calibration(&schedule);
    let serial = 1e-3 * schedule.phases().len() as f64;
    assert!(near(step_s(&calibration, &schedule, &sizes).unwrap(), serial));
    calibration.stretch = 1.5;
    assert!(near(step_s(&calibration, &schedule, &sizes).unwrap(), 1.5 * serial));
    (calibration.stretch, calibration.overlap) = (1.0, 1.0);
    let priced = price(&calibration, &schedule, &sizes).unwrap();
    assert!(priced.critical_s < serial && priced.seconds.len() == schedule.phases().len());
    assert!(near(step_s(&calibration, &schedule, &sizes).unwrap(), priced.critical_s));
}

/// Rates that were measured before reading back was a phase have it in the time of the loss.
#[test]
fn older_rates_price_reading_back_at_nothing() {
    let (schedule, sizes) = step(&run(|_| ()));
    let mut calibration = calibration(&schedule);
    let whole = price(&calibration, &schedule, &sizes).unwrap();
    calibration.operations.retain(|operation| operation.class != Class::ReadBack);
    let older = price(&calibration, &schedule, &sizes).unwrap();
    let at = schedule.phases().iter().position(|phase| phase.name == "read back").unwrap();
    assert_eq!((older.seconds[at], older.seconds.len()), (0.0, whole.seconds.len()));
    assert!(near(older.serial_s, whole.serial_s - 1e-3));
}

/// Four ranks on two cores compute for twice as long; what they read ahead takes cores as well.
#[test]
fn cores_are_shared() {
    let (schedule, sizes) = step(&run(|_| ()));
    let mut shared = calibration(&schedule);
    (shared.ranks_per_machine, shared.cores) = (4, 2);
    let priced = price(&shared, &schedule, &sizes).unwrap();
    let computations = schedule.phases().iter().filter(|p| matches!(p.work, Work::Compute(_))).count() as f64;
    let collectives = schedule.phases().len() as f64 - computations;
    assert!(near(priced.serial_s, 1e-3 * (2.0 * computations + collectives)));
    assert!(near(priced.cores_s, 2e-3 * computations));
    shared.operations.push(OperationModel::new(Class::ReadAhead, 0.5));
    let reading = price(&shared, &schedule, &sizes).unwrap();
    assert!(near(reading.cores_s, priced.cores_s + 1.0) && near(reading.serial_s, priced.serial_s));
    // In process, ranks communicate on their own cores.
    shared.transport = Transport::InProcess;
    let copying = price(&shared, &schedule, &sizes).unwrap();
    assert!(near(copying.cores_s, reading.cores_s + 1e-3 * collectives));
    // More cores than ranks help nobody.
    (shared.cores, shared.ranks_per_machine) = (64, 4);
    assert!(near(price(&shared, &schedule, &sizes).unwrap().serial_s, 1e-3 * schedule.phases().len() as f64));
}

#[test]
fn what_was_not_measured_is_named() {
    let (schedule, sizes) = step(&run(|_| ()));
    let refused = |change: &dyn Fn(&mut MachineRates)| {
        let mut calibration = calibration(&schedule);
        change(&mut calibration);
        price(&calibration, &schedule, &sizes).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&|c| c.operations.retain(|o| o.class != Class::DotForward)),
        "no rate was measured for dot-forward (phase \"interaction forward\"); `campanile calibrate` measures all of them"
    );
    assert_eq!(
        refused(&|c| c.links.retain(|l| l.collective != CollectiveKind::AllReduce)),
        "no speed was measured for all-reduce over world (phase \"reduce bucket 0\"); run `campanile calibrate` to measure it"
    );
    // A line of another algorithm is another line.
    let two_level = run(|config| config.train.all_reduce = Some("two-level".parse().expect("an algorithm")));
    let (by_two_levels, sizes_too) = step(&two_level);
    let mut measured = calibration(&schedule);
    assert_eq!(
        price(&measured, &by_two_levels, &sizes_too).unwrap_err().to_string(),
        "no speed was measured for two-level all-reduce over world (phase \"reduce bucket 0\"); run `campanile calibrate \
         --all-reduce two-level` to measure it"
    );
    let line = *measured.links.iter().find(|l| l.collective == CollectiveKind::AllReduce).expect("a line");
    measured.links.push(LinkModel { algorithm: Algorithm::TwoLevel, latency_s: 7e-3, ..line });
    measured.check().expect("two algorithms");
    let (direct, two_level) =
        (price(&measured, &schedule, &sizes), price(&measured, &by_two_levels, &sizes_too));
    let reductions = schedule.phases().iter().filter(|p| p.name.starts_with("reduce bucket")).count() as f64;
    assert!(near(two_level.unwrap().serial_s, direct.unwrap().serial_s + 6e-3 * reductions));
    assert_eq!(
        refused(&|c| c.links[0].ranks = 8),
        "the speed of all-to-all over world was measured among 8 ranks, but the step has 4; run `campanile calibrate` on that cluster"
    );
    assert_eq!(
        refused(&|c| c.hosts = 4),
        "measured on 4 × 2 ranks, but the step has 2 × 2; run `campanile calibrate` on that cluster"
    );
}

/// Tower groups of one host are hosts, of all hosts the world; anything between was not measured.
#[test]
fn groups_are_spans() {
    let priced = |hosts_per_tower| {
        let run = run(|config| {
            (config.topology.hosts, config.topology.hosts_per_tower) = (Some(4), Some(hosts_per_tower));
            config.model.towers = Some("strided:4".parse().expect("towers"));
        });
        let (schedule, sizes) = step(&run);
        price(&calibration(&schedule), &schedule, &sizes)
    };
    assert!(priced(1).is_ok());
    let of_all = priced(4).unwrap();
    assert!(
        of_all.serial_s < priced(1).unwrap().serial_s,
        "what stays in the group costs nothing among peers"
    );
    let some = priced(2).unwrap_err().to_string();
    assert!(some.contains("tower groups of 2 of 4 hosts were not measured"), "{some}");
}

/// A GPU prepares the next batch on a queue of its own, and the host reads it: neither takes time from a step, unless it is longer.
#[test]
fn a_gpu_prepares_batches_beside_the_step() {
    let (schedule, sizes) = step(&run(|config| {
        (config.topology.hosts, config.topology.ranks_per_host) = (Some(1), Some(1));
    }));
    let mut rates = calibration(&schedule);
    rates.operations.push(OperationModel::new(Class::ReadAhead, 1.0));
    let collectives =
        schedule.phases().iter().filter(|phase| matches!(phase.work, Work::Collective(_))).count();
    let computed = 1e-3 * (schedule.phases().len() - collectives) as f64;
    let is_beside = |phase: &&spec::schedule::Phase| phase.ahead && matches!(phase.work, Work::Compute(_));
    let beside = 1e-3 * schedule.phases().iter().filter(is_beside).count() as f64;
    let on_cpu = price(&rates, &schedule, &sizes).unwrap();
    assert!(near(on_cpu.serial_s, computed) && near(on_cpu.cores_s, computed + 1.0), "{on_cpu:?}");
    rates.gpu = Some("a GPU".into());
    let on_gpu = price(&rates, &schedule, &sizes).unwrap();
    assert!(
        near(on_gpu.serial_s, computed - beside) && near(on_gpu.cores_s, computed - beside),
        "{on_gpu:?}"
    );
    assert_eq!(on_gpu.seconds.len(), schedule.phases().len());
    for rate in &mut rates.operations {
        rate.overhead_s = if rate.class == Class::ReadBatch { 0.5 } else { rate.overhead_s };
    }
    assert!(near(step_s(&rates, &schedule, &sizes).unwrap(), 0.5 + beside - 1e-3));
}
