//! The groups of ranks that a rank talks in: the world, its tower group, and its peers.

use crate::Error;
use collectives::{Communicator, Label};
use spec::dataflow::Dataflow;
use spec::schedule::Group;

/// A rank's end of every group that its schedule names.
#[derive(Debug)]
pub struct Circles<'a> {
    world: &'a Communicator,
    of_towers: Option<OfTowers>,
}

#[derive(Debug)]
struct OfTowers {
    group: Communicator,
    peers: Communicator,
}

impl<'a> Circles<'a> {
    /// Divides the world as `dataflow` needs it. All ranks call it.
    pub fn new(world: &'a Communicator, dataflow: &Dataflow) -> Result<Self, Error> {
        let of_towers = match dataflow.sptt() {
            None => None,
            Some(sptt) => {
                let (groups, label) = (sptt.groups(), Label::from("split"));
                let (group, index) = (groups.group_of(world.rank()), groups.index_of(world.rank()));
                Some(OfTowers {
                    group: world.split(&label, group, index)?,
                    peers: world.split(&label, index, group)?,
                })
            }
        };
        Ok(Self { world, of_towers })
    }

    /// All ranks.
    pub fn world(&self) -> &'a Communicator {
        self.world
    }

    /// The ranks of a collective.
    pub fn of(&self, group: Group) -> &Communicator {
        match (group, &self.of_towers) {
            (Group::World, _) => self.world,
            (Group::Group, Some(of_towers)) => &of_towers.group,
            (Group::Peers, Some(of_towers)) => &of_towers.peers,
            (group, None) => unreachable!("the flat dataflow has no {group}"),
        }
    }
}
