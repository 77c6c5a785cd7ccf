//! Hardware as MAD-Max's files describe it.

use super::{Device, Link, NVME, System, SystemError};
use serde::{Deserialize, Serialize};

/// A system's file: MAD-Max's fields, in JSON or TOML. Units are TFLOP/s, GB and GB/s; numbers from a million on are taken as
/// FLOP/s, bytes and bytes a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemFile {
    /// Name of the system.
    pub name: String,
    /// Kind of devices, for information only.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Devices of the whole system.
    pub num_devices: usize,
    /// Nodes of the whole system.
    pub num_nodes: usize,
    /// TFLOP/s on 8-byte operands.
    pub f64_flops: Option<f64>,
    /// TFLOP/s on 4-byte operands.
    pub f32_flops: f64,
    /// TFLOP/s on 2-byte operands.
    pub f16_flops: Option<f64>,
    /// 10¹² operations a second on 1-byte operands.
    pub i8_ops: Option<f64>,
    /// The part of these that is reached, 0 to 1.
    pub flops_util: f64,
    /// GB of memory on a device.
    pub mem_cap: f64,
    /// GB/s of it.
    pub mem_bw: f64,
    /// The part of these that is reached, 0 to 1.
    pub mem_bw_util: f64,
    /// Links of a device inside its node.
    pub num_nvlinks: f64,
    /// GB/s of each, both directions together.
    pub bw_per_nvlink: f64,
    /// The part of these that is reached, 0 to 1.
    pub nvlink_util: f64,
    /// Ports of a node to others.
    pub num_ibroce_ports: f64,
    /// GB/s of each, both directions together.
    pub ibroce_bw: f64,
    /// The part of these that is reached, 0 to 1.
    pub ibroce_util: f64,
    /// The part of an all-reduce across nodes that goes at the speed inside a node, 0 to 1.
    pub ar_perc_intra: Option<f64>,
}

/// From here on a number is in plain units.
const PLAIN: f64 = 1e6;
/// In plain units: nothing is so slow or so fast that a step would take no time, or forever.
const RANGE: std::ops::RangeInclusive<f64> = 1.0..=1e24;

impl System {
    /// Builds the system that a file describes.
    pub fn from_file(file: &SystemFile) -> Result<Self, SystemError> {
        let (devices, nodes) = (file.num_devices, file.num_nodes);
        for (field, value) in [("num_devices", devices), ("num_nodes", nodes)] {
            if value == 0 {
                return Err(SystemError::Number { field, value: 0.0, must: "at least 1" });
            }
        }
        if !devices.is_multiple_of(nodes) {
            return Err(SystemError::Uneven { devices, nodes });
        }
        let devices_per_node = devices / nodes;
        let tera = |field, value| plain(field, value, 1e12, true);
        let tera_or_none = |field, value: Option<f64>| plain(field, value.unwrap_or(0.0), 1e12, false);
        let giga = |field, value| plain(field, value, 1e9, true);
        // A single node needs no network.
        let network = nodes > 1;
        let ports = counted("num_ibroce_ports", file.num_ibroce_ports, network)?;
        let port = plain("ibroce_bw", file.ibroce_bw, 1e9, network)?;
        let links = counted("num_nvlinks", file.num_nvlinks, true)?;
        let intra = Link {
            bytes_per_s: links * giga("bw_per_nvlink", file.bw_per_nvlink)? / 2.0,
            util: part("nvlink_util", file.nvlink_util)?,
        };
        let inter = match ports * port {
            0.0 => intra,
            both_ways => Link {
                bytes_per_s: both_ways / 2.0 / devices_per_node as f64,
                util: part("ibroce_util", file.ibroce_util)?,
            },
        };
        let share = file.ar_perc_intra.unwrap_or_else(super::default_share);
        if !(0.0..=1.0).contains(&share) {
            let must = "between 0 and 1; 27.46 % is 0.2746";
            return Err(SystemError::Number { field: "ar_perc_intra", value: share, must });
        }
        let system = Self {
            name: file.name.clone(),
            nodes,
            devices_per_node,
            device: Device {
                f64_flops: tera_or_none("f64_flops", file.f64_flops)?,
                f32_flops: tera("f32_flops", file.f32_flops)?,
                f16_flops: tera_or_none("f16_flops", file.f16_flops)?,
                i8_ops: tera_or_none("i8_ops", file.i8_ops)?,
                flops_util: part("flops_util", file.flops_util)?,
                memory_bytes: giga("mem_cap", file.mem_cap)?,
                memory_bytes_per_s: giga("mem_bw", file.mem_bw)?,
                memory_util: part("mem_bw_util", file.mem_bw_util)?,
            },
            intra,
            inter,
            all_reduce_intra_share: share,
            storage_bytes_per_s: NVME,
        };
        system.checked()
    }
}

/// A number in plain units.
fn plain(field: &'static str, value: f64, unit: f64, needed: bool) -> Result<f64, SystemError> {
    let scaled = if value >= PLAIN { value } else { value * unit };
    match scaled {
        scaled if RANGE.contains(&scaled) => Ok(scaled),
        scaled if scaled == 0.0 && !needed => Ok(0.0),
        _ if needed => Err(SystemError::Number { field, value, must: "more than 0 and at most 1e24" }),
        _ => Err(SystemError::Number { field, value, must: "0 or more, and at most 1e24" }),
    }
}

fn counted(field: &'static str, value: f64, needed: bool) -> Result<f64, SystemError> {
    match value {
        value if (1.0..=PLAIN).contains(&value) && value.fract() == 0.0 => Ok(value),
        value if value == 0.0 && !needed => Ok(0.0),
        _ => Err(SystemError::Number { field, value, must: "a whole number from 1 to 1,000,000" }),
    }
}

fn part(field: &'static str, value: f64) -> Result<f64, SystemError> {
    match (1e-6..=1.0).contains(&value) {
        true => Ok(value),
        false => Err(SystemError::Number { field, value, must: "between 1e-6 and 1" }),
    }
}
