//! What to say when nothing fits: what is too big, by how much, and what would make it fit.

use super::candidates::Shape;
use super::prices::Prices;
use super::search::{self, Misfit};
use super::units::{self, Tables};
use super::{MemoryLimit, Request, words};
use serde::Serialize;
use spec::optimizer::UpdateRule;
use spec::placement::Scheme;
use spec::table_format::TableFormat;
use spec::topology::{Groups, MAX_RANKS, Topology};
use std::fmt;

/// No placement fits the memory of the ranks: what is too big, by how much, and what would make it fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unfit {
    /// What is too big.
    pub what: TooLarge,
    /// Bytes that it needs on a rank at least, on average where it is spread over all.
    pub need_bytes: u64,
    /// Bytes that a rank has room for, without the reserve and what every rank needs anyway.
    pub room_bytes: u64,
    /// Bytes that a rank has, as the request says.
    pub bytes_per_rank: u64,
    /// Number of ranks.
    pub ranks: usize,
    /// Things that would make it fit; `enough` says which of them are enough alone, by this plan's own measure.
    pub remedies: Vec<Remedy>,
}

/// What is too big for the ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TooLarge {
    /// The smallest piece of a table.
    Table {
        /// Name of the feature.
        name: String,
        /// Form of the table whose pieces are smallest, in words.
        form: String,
    },
    /// All tables together.
    Total,
    /// The pieces of all tables, which leave gaps on the ranks.
    Pieces,
}

/// Something that would make a model fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Remedy {
    /// What to do, with numbers.
    pub what: String,
    /// Whether this alone is enough. What is not enough alone says so.
    pub enough: bool,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, need_bytes, room_bytes, bytes_per_rank, ranks, remedies } = self;
        let (need, room) = (words::bytes(*need_bytes), words::bytes(*room_bytes));
        let over = words::bytes(need_bytes.saturating_sub(*room_bytes));
        match what {
            TooLarge::Table { name, form } => write!(
                f,
                "the table of {name} does not fit: {form}, its smallest pieces need {need} on a rank, which has room for {room}: {over} too \
                 much"
            )?,
            TooLarge::Total => write!(
                f,
                "the tables do not fit: they need {need} on each of {ranks} ranks on average, which have room for {room} each: {over} too \
                 much"
            )?,
            TooLarge::Pieces => write!(
                f,
                "the tables do not fit: they need {need} on each of {ranks} ranks on average, which have room for {room} each, but no way \
                 was found to divide them"
            )?,
        }
        write!(
            f,
            " (of {} in all, less the reserve and dense layers). What would help:",
            words::bytes(*bytes_per_rank)
        )?;
        remedies.iter().try_for_each(|remedy| write!(f, "\n- {}", remedy.what))
    }
}

impl std::error::Error for Unfit {}

/// Explains why a request has no plan, and looks for remedies.
pub(super) fn explain(prices: &Prices, tables: &Tables, misfit: Misfit) -> Unfit {
    let room = prices.room();
    let ranks = prices.ranks();
    let smallest = |of: &dyn Fn(&super::candidates::Candidate) -> f64| -> f64 {
        let least = |c: &super::candidates::Candidates| c.all.iter().map(of).fold(f64::INFINITY, f64::min);
        tables.candidates.iter().map(least).filter(|least| least.is_finite()).sum()
    };
    let mean = || smallest(&|it| it.memory / ranks as f64 + it.arriving) as u64;
    let (what, need_bytes) = match misfit {
        Misfit::Unit(unit) => {
            let smallest = &tables.candidates[unit].smallest;
            let name = prices.name(tables.units[unit].feature).to_owned();
            (TooLarge::Table { name, form: smallest.shape.words() }, smallest.wide.memory)
        }
        Misfit::Total(need, _) => (TooLarge::Total, (need / ranks as f64) as u64),
        Misfit::Packing => (TooLarge::Pieces, mean()),
    };
    let bytes_per_rank = prices.request.memory.map_or(u64::MAX, |limit| limit.bytes_per_rank);
    let remedies = remedies(prices, tables);
    Unfit { what, need_bytes, room_bytes: room, bytes_per_rank, ranks, remedies }
}

/// Whether a request would fit, with all tables in `format`, or each in its own.
fn fits(request: &Request, format: Option<TableFormat>) -> bool {
    let prices = Prices { format, ..Prices::new(request) };
    search::fits(&prices, &units::tables(&prices))
}

/// Three things that would help, those that are enough first, and a level that holds tables of any size.
fn remedies(prices: &Prices, tables: &Tables) -> Vec<Remedy> {
    let request = prices.request;
    let found = [
        row_wise(prices, tables),
        more_ranks(request),
        narrower(prices),
        less_state(request),
        more_memory(request),
    ];
    let mut remedies: Vec<Remedy> = found.into_iter().flatten().collect();
    remedies.sort_by_key(|remedy| !remedy.enough);
    remedies.truncate(3);
    // What is no matter of the plan comes last.
    remedies.push(on_disks(prices));
    remedies
}

/// The smallest number in a range for which a monotonous condition holds: doubling, then halving.
fn smallest(from: u64, most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut below, mut above) = (from, from.max(1));
    while !holds(above) {
        if above >= most {
            return None;
        }
        below = above;
        above = above.saturating_mul(2).min(most);
    }
    while above - below > (above / 64).max(1) {
        let middle = below + (above - below) / 2;
        if holds(middle) { above = middle } else { below = middle }
    }
    Some(above)
}

/// How many times more ranks are looked at.
const MORE_RANKS: usize = 1024;

/// A cluster with more hosts.
fn more_ranks(request: &Request) -> Option<Remedy> {
    let per_host = request.topology.ranks_per_host();
    let per_group = request.groups.map_or(1, |groups| groups.hosts_per_group());
    let with = |units: u64| -> Option<(Topology, Option<Groups>)> {
        let topology = Topology::new(units as usize * per_group, per_host).ok()?;
        let groups = match request.groups {
            Some(_) => Some(Groups::new(topology, per_group).ok()?),
            None => None,
        };
        Some((topology, groups))
    };
    let holds = |units: u64| {
        with(units).is_some_and(|(topology, groups)| fits(&Request { topology, groups, ..*request }, None))
    };
    let now = (request.topology.hosts() / per_group) as u64;
    let most = (MAX_RANKS / (per_group * per_host)).min(MORE_RANKS * now as usize) as u64;
    let hosts = smallest(now, most, holds)? as usize * per_group;
    let ranks = hosts * per_host;
    let what = match per_host {
        1 => format!("more ranks: it fits on {ranks} ranks"),
        _ => format!("more ranks: it fits on {ranks} ranks ({hosts} hosts of {per_host})"),
    };
    Some(Remedy { what, enough: true })
}

/// Memory that is enough.
fn more_memory(request: &Request) -> Option<Remedy> {
    let limit = request.memory?;
    const MIB: u64 = 1 << 20;
    let with = |mib: u64| MemoryLimit { bytes_per_rank: mib * MIB, ..limit };
    let holds = |mib: u64| fits(&Request { memory: Some(with(mib)), ..*request }, None);
    let mib = smallest((limit.bytes_per_rank / MIB).max(1), 1 << 40, holds)?;
    let bytes = words::bytes(mib * MIB);
    Some(Remedy { what: format!("more memory: it fits with {bytes} per rank"), enough: true })
}

/// Tables whose weights have fewer bits: the widest format that is enough, or the narrowest.
fn narrower(prices: &Prices) -> Option<Remedy> {
    let model = prices.request.model;
    let saved = |narrow: TableFormat| -> u64 {
        let of = |feature: usize| {
            let (rows, width) = (model.features()[feature].rows as u64, model.row_width(feature));
            let [now, then] = [model.table_format(feature), narrow].map(|format| format.row_bytes(width));
            rows.saturating_mul(now.saturating_sub(then) as u64)
        };
        let with_rows = (0..model.features().len()).filter(|&feature| model.tensor_train(feature).is_none());
        with_rows.map(of).fold(0, u64::saturating_add) / prices.ranks() as u64
    };
    let narrow: Vec<_> =
        [TableFormat::F16, TableFormat::Int8].into_iter().filter(|&format| saved(format) > 0).collect();
    let enough = narrow.iter().copied().find(|&format| fits(prices.request, Some(format)));
    let format = enough.or(narrow.last().copied())?;
    let verdict = if enough.is_some() { "then it fits" } else { "not enough alone" };
    let what = format!(
        "a narrower type: weights of tables in {format} (--tables {format}) save {} per rank on average; {verdict}",
        words::bytes(saved(format))
    );
    Some(Remedy { what, enough: enough.is_some() })
}

/// Rows outside of memory: tables may be of any size.
fn on_disks(prices: &Prices) -> Remedy {
    let per_host = prices.request.topology.ranks_per_host() as u64;
    let size = words::bytes(prices.room().saturating_mul(per_host));
    let what = format!(
        "another level: `campanile train --table-memory SIZE --table-store DIR` keeps all rows on disks, and those that batches need within \
         SIZE on each host, of which there are {size}"
    );
    Remedy { what, enough: false }
}

/// An update rule that keeps one number per row.
fn less_state(request: &Request) -> Option<Remedy> {
    if request.tables.state_per_row(64) <= 1 {
        return None;
    }
    let (tables, now) = (UpdateRule::RowWiseAdagrad { eps: 1e-8 }, request.tables.name());
    if fits(&Request { tables, ..*request }, None) {
        let what = format!("less optimizer state: it fits with row-wise-adagrad instead of {now}");
        return Some(Remedy { what, enough: true });
    }
    let state = |rule: &UpdateRule, f: usize| {
        let (rows, width) = (request.model.features()[f].rows, request.model.row_width(f));
        4 * (rows as u64).saturating_mul(rule.state_per_row(width) as u64)
    };
    let saved: u64 = (0..request.model.features().len())
        .filter(|&f| request.model.tensor_train(f).is_none())
        .map(|f| state(&request.tables, f).saturating_sub(state(&tables, f)))
        .fold(0, u64::saturating_add);
    let saved = words::bytes(saved / request.topology.ranks() as u64);
    let what = format!(
        "less optimizer state: row-wise-adagrad instead of {now} saves {saved} per rank on average; not enough alone"
    );
    Some(Remedy { what, enough: false })
}

/// Row-wise for the largest table, where that was not allowed.
fn row_wise(prices: &Prices, tables: &Tables) -> Option<Remedy> {
    let request = prices.request;
    let schemes = request.schemes?;
    if schemes.contains(&Scheme::RowWise) {
        return None;
    }
    let with_rows = (0..tables.units.len()).filter(|&unit| !tables.units[unit].is_train);
    let largest = with_rows.max_by_key(|&unit| tables.candidates[unit].smallest.wide.memory)?;
    let mut wider = schemes.to_vec();
    wider.push(Scheme::RowWise);
    let wider_request = Request { schemes: Some(&wider), ..*request };
    if !fits(&wider_request, None) {
        return None;
    }
    let wider_prices = Prices::new(&wider_request);
    let candidates = super::candidates::of_unit(&wider_prices, &tables.units[largest]);
    let rows =
        candidates.all.iter().find(|it| matches!(it.shape, Shape::Cut { columns: 1, rows } if rows > 1))?;
    let name = prices.name(tables.units[largest].feature);
    let piece = words::bytes(rows.wide.memory);
    let what = format!(
        "row-wise for the table of {name}: {} it needs {piece} on a rank, and it fits",
        rows.shape.words()
    );
    Some(Remedy { what, enough: true })
}
