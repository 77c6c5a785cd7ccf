use super::*;
use spec::codec::{Codec, Compensation};
use spec::program::Algorithm;
use spec::schedule::{CollectiveKind, Task, Work};
use spec::volume::{BatchSizes, ReducedVector};

/// What the stages of every rank sum up to is what the schedule says that the rank sends, of every algorithm and codec.
#[test]
fn stages_send_what_the_schedule_says() {
    let mut config = spec::run::Config::default();
    (config.topology.hosts, config.topology.ranks_per_host) = (Some(3), Some(2));
    config.model.towers = Some("strided:3".parse().unwrap());
    config.model.tower_module = Some("dlrm:c=1,p=0,d=8".parse().unwrap());
    for algorithm in Algorithm::ORDERED {
        for wire in ["f32", "bf16", "fp8", "u8", "u4+ec", "u2"] {
            config.train.all_reduce = Some(algorithm.name().parse().unwrap());
            config.wire = format!("dense={wire},towers={wire}").parse().unwrap();
            let run = crate::check(&config).unwrap();
            let schedule = run.schedule(Task::Train);
            let deployment = schedule.deployment();
            let sizes = BatchSizes::typical(&run.model, &run.placement, run.batch);
            let mut reductions = 0;
            for phase in schedule.phases() {
                let Work::Collective(collective) = &phase.work else { continue };
                for rank in 0..run.topology().ranks() {
                    let Some(program) = collective.program(deployment, rank) else { continue };
                    let vector = collective.traffic.reduced(deployment, rank).unwrap();
                    let units = vector.units(collective.traffic.codec());
                    let members = collective.members(deployment, rank);
                    let hosts: Vec<usize> = members.iter().map(|&m| run.topology().host_of(m)).collect();
                    let stages = Stage::of_program(&program, &units, &hosts);
                    let sent = stages.iter().fold(Sent::default(), |sum, stage| sum + stage.sent);
                    let expected = collective.sent(deployment, &sizes, rank);
                    assert_eq!(
                        (sent.host, sent.network),
                        (expected.host, expected.network),
                        "{algorithm} {wire}"
                    );
                    let computes = stages.iter().any(|stage| stage.computed_bytes > 0);
                    assert_eq!(
                        computes,
                        units.codec().encodes() && program.exchanges() > 0,
                        "{algorithm} {wire}"
                    );
                    reductions += 1;
                }
            }
            assert!(reductions > 6, "{algorithm} {wire}: {reductions}");
        }
    }
}

/// On more than 64 members, those that are looked at are as busy as all of them.
#[test]
fn some_members_speak_for_all() {
    for (hosts, per_host) in [(16, 8), (11, 8), (80, 1)] {
        let hosts: Vec<usize> = (0..hosts * per_host).map(|member| member / per_host).collect();
        for algorithm in Algorithm::ORDERED {
            for codec in [Codec::F32, Codec::U8] {
                let units = ReducedVector::whole(1 << 16).units(codec);
                let program = |me| Program::all_reduce(algorithm, &units, &hosts, me, Compensation::Every);
                let vector = Transfer::of_vector(CollectiveKind::AllReduce, hosts.len(), 2, 1.0);
                let some = Reduction::new(vector, &units, &hosts, program);
                let mut all = vec![Stage::default(); some.stages.len()];
                for member in 0..hosts.len() {
                    let stages = Stage::of_program(&program(member), &units, &hosts);
                    assert_eq!(stages.len(), all.len());
                    all.iter_mut().zip(&stages).for_each(|(most, stage)| most.raise(stage));
                }
                let close = |a: u64, b: u64| a <= b && (b - a) as f64 <= 0.02 * b as f64;
                for (index, (some, all)) in some.stages.iter().zip(&all).enumerate() {
                    let same = some.sent.messages == all.sent.messages
                        && some.sent.network_messages == all.sent.network_messages
                        && close(some.sent.host, all.sent.host)
                        && close(some.sent.network, all.sent.network)
                        && close(some.computed_bytes, all.computed_bytes);
                    assert!(same, "{algorithm} {codec} stage {index}: {some:?}, all {all:?}");
                }
            }
        }
    }
}
