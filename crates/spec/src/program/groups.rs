//! Members of a group by host.

/// Members in groups of equal size, one group for each host, in the order in which the hosts first occur.
pub(super) struct Groups {
    /// Members, group by group.
    members: Vec<usize>,
    /// Number of members of each group.
    pub(super) size: usize,
    /// Number of groups.
    pub(super) count: usize,
    /// Group of this member.
    pub(super) mine: usize,
    /// Index of this member in its group.
    pub(super) index: usize,
}

impl Groups {
    /// Groups the members, of which member `i` is on host `hosts[i]`. Returns `None` if hosts have different numbers of members.
    pub(super) fn by_host(hosts: &[usize], me: usize) -> Option<Self> {
        let mut members: Vec<usize> = (0..hosts.len()).collect();
        // Sorted by the first member on the host; members of one host stay in order.
        let mut first = std::collections::HashMap::new();
        hosts.iter().enumerate().for_each(|(member, host)| {
            first.entry(host).or_insert(member);
        });
        let count = first.len();
        members.sort_by_key(|&member| first[&hosts[member]]);
        let size = hosts.len() / count;
        let even = members.chunks(size).all(|group| group.iter().all(|&m| hosts[m] == hosts[group[0]]));
        (even && size * count == hosts.len()).then(|| Self::new(members, size, me))
    }

    /// Makes every one of `members` members a group.
    pub(super) fn single(members: usize, me: usize) -> Self {
        Self::new((0..members).collect(), 1, me)
    }

    fn new(members: Vec<usize>, size: usize, me: usize) -> Self {
        let count = members.len() / size;
        let position = members.iter().position(|&member| member == me).unwrap_or_default();
        Self { members, size, count, mine: position / size, index: position % size }
    }

    /// Member of this member's group by its index there.
    pub(super) fn local(&self, index: usize) -> usize {
        self.members[self.mine * self.size + index]
    }

    /// Member of another group that has the same index there as this member has in its own.
    pub(super) fn peer(&self, group: usize) -> usize {
        self.members[group * self.size + self.index]
    }
}
