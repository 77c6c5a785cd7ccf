//! Description of the dataflow of a run.

use spec::codec::Rounding;
use spec::dataflow::{AllToAll, Dataflow, PeerPermute};
use spec::model::Model;
use spec::program::Algorithm;
use spec::run::Run;
use spec::wire::Wire;

/// A dataflow in words: `flat`, or `sptt in 2 groups × 4 ranks, ids permuted`.
pub fn described(dataflow: &Dataflow) -> String {
    let sptt = match dataflow {
        Dataflow::Flat(AllToAll::Flat) => return "flat".into(),
        Dataflow::Flat(AllToAll::Hierarchical) => return "flat, hierarchical all-to-all".into(),
        Dataflow::Sptt(sptt) => sptt,
    };
    let groups = sptt.groups();
    let permuted = match sptt.permute() {
        PeerPermute::Vectors => "vectors permuted",
        PeerPermute::Ids => "ids permuted",
        PeerPermute::None => "nothing permuted: ranks are in peer order",
    };
    format!("sptt in {} × {}, {permuted}", counted(groups.count(), "group"), counted(groups.size(), "rank"))
}

/// Towers of a model in words: `8 towers of dlrm:c=1,p=0,d=64, compression ratio 2.00`; nothing for a model without towers.
pub fn towers_described(model: &Model) -> Option<String> {
    let towers = match model.towers().len() {
        0 => return None,
        count => counted(count, "tower"),
    };
    Some(if model.has_tower_modules() {
        format!("{towers} of {}, compression ratio {:.2}", model.tower_module(), model.compression_ratio())
    } else {
        format!("{towers} that vectors pass through")
    })
}

/// Dataflow, towers, wire format and all-reduce of a run, in words; the last two only where they are not the usual ones.
pub fn of_run(run: &Run) -> String {
    let towers = towers_described(&run.model).map_or(String::new(), |towers| format!("; {towers}"));
    let usual = Wire { rounding: run.wire.rounding, ..Wire::default() };
    let wire = match run.wire.rounding {
        _ if run.wire == usual => String::new(),
        Rounding::Nearest => format!("; {} on the wire", run.wire),
        Rounding::Stochastic => format!("; {} on the wire, rounded stochastically", run.wire),
    };
    let all_reduce = match run.all_reduce {
        Algorithm::Direct => String::new(),
        Algorithm::Nccl => "; nccl all-reduce, which may change the last bits from run to run".into(),
        algorithm => format!("; {algorithm} all-reduce"),
    };
    described(&run.dataflow) + &towers + &wire + &all_reduce
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
