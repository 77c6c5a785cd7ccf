//! Groups of features that are never mixed: towers are shared out among them in proportion.

use super::{PartitionError, Request};

/// A group's features, and how many towers it gets.
pub(super) struct Share {
    pub(super) members: Vec<usize>,
    pub(super) towers: usize,
    load: f64,
    /// Features with a load: no more towers than these.
    most: usize,
}

/// The groups with their towers: at least one each, the others one by one to the group with the most load a tower. Every feature
/// counts 1 where none has a load of its own.
pub(super) fn shared_out(loads: &[f64], request: &Request) -> Result<Vec<Share>, PartitionError> {
    let share = |members: Vec<usize>, towers| {
        let load = members.iter().map(|&feature| loads[feature]).sum();
        let most = members.iter().filter(|&&feature| loads[feature] > 0.0).count();
        Share { members, towers, load, most }
    };
    let Some(group_of) = &request.groups else {
        return Ok(vec![share((0..loads.len()).collect(), request.towers)]);
    };
    let mut names: Vec<usize> = group_of.clone();
    names.sort_unstable();
    names.dedup();
    if names.len() > request.towers {
        return Err(PartitionError::Groups { towers: request.towers, groups: names.len() });
    }
    let members_of = |group: usize| (0..loads.len()).filter(|&f| group_of[f] == group).collect::<Vec<_>>();
    let mut shares: Vec<Share> = names.into_iter().map(|group| share(members_of(group), 1)).collect();
    if let Some(group) = shares.iter().position(|share| share.most == 0) {
        return Err(PartitionError::GroupWithoutLoad(group));
    }
    for _ in shares.len()..request.towers {
        let open = shares.iter_mut().filter(|share| share.towers < share.most);
        let a_tower = |share: &Share| share.load / share.towers as f64;
        // The first of equals, so that the order of groups decides.
        let most = open.reduce(|best, next| if a_tower(next) > a_tower(best) { next } else { best });
        let Some(most) = most else {
            let loaded = shares.iter().map(|share| share.most).sum();
            return Err(PartitionError::Unloaded { towers: request.towers, loaded });
        };
        most.towers += 1;
    }
    Ok(shares)
}
