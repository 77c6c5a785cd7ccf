//! Groups of features that are never mixed: towers are shared out among them in proportion.

use super::{PartitionError, Request};

/// The features of each group, and its number of towers: at least one, and no more than it has features.
pub(super) fn shared_out(
    features: usize,
    request: &Request,
) -> Result<Vec<(Vec<usize>, usize)>, PartitionError> {
    let Some(group_of) = &request.groups else { return Ok(vec![((0..features).collect(), request.towers)]) };
    let mut names: Vec<usize> = group_of.clone();
    names.sort_unstable();
    names.dedup();
    if names.len() > request.towers {
        return Err(PartitionError::Groups { towers: request.towers, groups: names.len() });
    }
    let members_of = |group: usize| (0..features).filter(|&f| group_of[f] == group).collect::<Vec<_>>();
    let mut shares: Vec<(Vec<usize>, usize)> =
        names.into_iter().map(|group| (members_of(group), 1)).collect();
    // One tower at a time to the group with the most features a tower.
    for _ in shares.len()..request.towers {
        let open = shares.iter_mut().filter(|(members, towers)| *towers < members.len());
        let most = open.max_by(|a, b| (a.0.len() * b.1).cmp(&(b.0.len() * a.1)));
        most.expect("there are at least as many features as towers").1 += 1;
    }
    Ok(shares)
}
