//! The groups of ranks that a rank talks in: the world, its tower group and its peers, or its host and those of its index on
//! all hosts.

use crate::Error;
use collectives::{Communicator, Label};
use spec::dataflow::{AllToAll, Dataflow};
use spec::schedule::Group;
use spec::topology::Groups;

/// A rank's end of every group that its schedule names.
#[derive(Debug)]
pub struct Communicators<'a> {
    world: &'a Communicator,
    divided: Option<Divided>,
}

/// The world cut both ways.
#[derive(Debug)]
struct Divided {
    /// Whether the groups are tower groups, or hosts.
    of_towers: bool,
    /// Ranks of this rank's group.
    group: Communicator,
    /// Ranks of this rank's index in all groups.
    peers: Communicator,
}

impl<'a> Communicators<'a> {
    /// Divides the world as `dataflow` needs it. All ranks call it.
    pub fn new(world: &'a Communicator, dataflow: &Dataflow) -> Result<Self, Error> {
        let groups = match dataflow {
            Dataflow::Flat(AllToAll::Flat) => None,
            Dataflow::Flat(AllToAll::Hierarchical) => Some(Groups::of_hosts(world.topology())),
            Dataflow::Sptt(sptt) => Some(sptt.groups()),
        };
        let divide = |groups: Groups| {
            let label = Label::from("split");
            let (group, index) = (groups.group_of(world.rank()), groups.index_of(world.rank()));
            Ok::<_, Error>(Divided {
                of_towers: dataflow.sptt().is_some(),
                group: world.split(&label, group, index)?,
                peers: world.split(&label, index, group)?,
            })
        };
        let divided = groups.map(divide).transpose()?;
        let label = Label::from("connect");
        world.connect(&label)?;
        if let Some(Divided { group, peers, .. }) = &divided {
            group.connect(&label)?;
            peers.connect(&label)?;
        }
        Ok(Self { world, divided })
    }

    /// All ranks.
    pub fn world(&self) -> &'a Communicator {
        self.world
    }

    /// The ranks of a collective.
    pub fn of(&self, group: Group) -> Result<&Communicator, Error> {
        Ok(match (group, &self.divided) {
            (Group::World, _) => self.world,
            (Group::Tower, Some(divided)) if divided.of_towers => &divided.group,
            (Group::Peers, Some(divided)) if divided.of_towers => &divided.peers,
            (Group::Host, Some(divided)) if !divided.of_towers => &divided.group,
            (Group::Across, Some(divided)) if !divided.of_towers => &divided.peers,
            (group, _) => return Err(Error::NoGroup { group }),
        })
    }
}
