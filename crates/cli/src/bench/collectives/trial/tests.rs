use super::*;
use collectives::{Options, launch};
use kernels::Device;
use spec::topology::Topology;

/// Every collective, with counts that do not divide; then a result that is not what was sent.
#[test]
fn right_results_pass_and_wrong_ones_do_not() {
    let all_reduces = Algorithm::ORDERED.map(|algorithm| (CollectiveKind::AllReduce, algorithm));
    let others = [CollectiveKind::AllToAll, CollectiveKind::ReduceScatter, CollectiveKind::AllGather];
    let kinds: Vec<(CollectiveKind, Algorithm)> =
        others.map(|kind| (kind, Algorithm::Direct)).into_iter().chain(all_reduces).collect();
    let kinds = &kinds;
    let body = |world: collectives::Communicator| -> Result<Vec<String>> {
        let mut refusals = Vec::new();
        for &(kind, algorithm) in kinds {
            let mut trial = Trial::new(&world, kind, algorithm, 1001)?;
            trial.call(&Label::from("trial"))?;
            trial.verify()?;
            let result = if kind == CollectiveKind::AllReduce { &mut trial.send } else { &mut trial.recv };
            result.write(7, &[-1.0]).unwrap();
            refusals.push(trial.verify().unwrap_err().to_string());
        }
        Ok(refusals)
    };
    let topology = Topology::new(1, 3).unwrap();
    let refusals = launch(topology, &Options::default(), |_| Ok(Device::Reference), body).unwrap();
    for (rank, refusals) in refusals.iter().enumerate() {
        for ((kind, _), refusal) in kinds.iter().zip(refusals) {
            assert!(refusal.contains(&format!("rank {rank}: {kind} of 4004 bytes among 3")), "{refusal}");
        }
    }
}
