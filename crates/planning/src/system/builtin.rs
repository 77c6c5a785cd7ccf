//! Clusters people know by name.

use super::{Device, Link, NVME, System, SystemError, ZIONEX_SHARE};
use spec::topology::Topology;

/// The names of all of them.
pub const NAMES: &str = "v100, a100, a100-80, h100, h100-superpod, h200, zionex, llm-a100";

/// Devices on a node, of all of them.
const PER_NODE: usize = 8;
/// The part of its peak that NVLink reaches in collectives: 200 of 300 GB/s (MAD-Max).
const NVLINK_UTIL: f64 = 0.6667;
/// The part of its peak that the network reaches in an all-to-all of 128 devices: 7 of 12.5 GB/s (Neo, appendix A).
const NETWORK_UTIL: f64 = 0.56;
/// The same for `zionex` and `llm-a100`, where MAD-Max has 7 GB/s too: its files count 25 GB/s both ways together, but ZionEX has
/// 200 Gb/s for each GPU and direction (Neo's Table 2). What `madmax` predicts is the same; `hierarchical` looks at the peak.
const MADMAX_NETWORK_UTIL: f64 = 0.28;

impl System {
    /// A built-in cluster: `NAME`, of 128 devices (2048 for `llm-a100`), or `NAME:DEVICES`.
    pub fn named(name: &str) -> Result<Self, SystemError> {
        let default = if name == "llm-a100" { "2048" } else { "128" };
        let (kind, devices) = name.split_once(':').unwrap_or((name, default));
        let mut system = Self::kind(kind).ok_or_else(|| SystemError::Unknown { name: name.into() })?;
        let size = || SystemError::Size { name: kind.into(), devices: devices.into() };
        let devices: usize = devices.parse().map_err(|_| size())?;
        match devices {
            1..=PER_NODE => (system.nodes, system.devices_per_node) = (1, devices),
            9..=4096 if devices.is_multiple_of(PER_NODE) => {
                (system.nodes, system.devices_per_node) = (devices / PER_NODE, PER_NODE);
            }
            _ => return Err(size()),
        }
        system.name = format!("{kind}:{devices}");
        Ok(system)
    }

    /// Ranks of this trainer on CPUs, a few cores each: what a plan is made for where nobody describes the machines. The numbers are
    /// orders of magnitude of servers joined by 10 Gb/s Ethernet; a plan needs their ratios only.
    pub fn cpu(topology: Topology) -> Self {
        Self {
            name: "cpu".into(),
            nodes: topology.hosts(),
            devices_per_node: topology.ranks_per_host(),
            device: Device {
                f64_flops: 40e9,
                f32_flops: 80e9,
                f16_flops: 0.0,
                i8_ops: 0.0,
                flops_util: 0.5,
                memory_bytes: 16.0 * f64::from(1 << 30),
                memory_bytes_per_s: 20e9,
                memory_util: 0.5,
            },
            intra: Link { bytes_per_s: 5e9, util: 0.5 },
            inter: Link { bytes_per_s: 1.25e9, util: NETWORK_UTIL },
            all_reduce_intra_share: ZIONEX_SHARE,
            storage_bytes_per_s: NVME,
        }
    }

    /// A node of a kind of cluster. Links and f32 (TF32) peaks of V100, A100 and H100 are those of the DMT paper's table of
    /// hardware (one direction, for each device), utilisations those of Neo's appendix B and of MAD-Max.
    fn kind(name: &str) -> Option<Self> {
        /// FLOP/s of f64, f32, f16 and i8 in units of 10¹²; GiB of memory; and GB/s of memory, inside a node and between nodes.
        struct Peaks([f64; 4], f64, [f64; 3]);
        let Peaks(flops, memory, [memory_speed, intra, inter]) = match name {
            "v100" => Peaks([7.8, 15.7, 125.0, 62.8], 32.0, [900.0, 150.0, 12.5]),
            "a100" => Peaks([9.7, 156.0, 312.0, 624.0], 40.0, [1555.0, 300.0, 25.0]),
            "a100-80" => Peaks([9.7, 156.0, 312.0, 624.0], 80.0, [2039.0, 300.0, 25.0]),
            // The paper's 989 are of f16; TF32 has half of them.
            "h100" => Peaks([34.0, 494.5, 989.0, 1979.0], 80.0, [3350.0, 450.0, 50.0]),
            // NVLink between nodes, with 4.5 times the bandwidth (MAD-Max, insight 6: "A100+ (Inter+)").
            "h100-superpod" => Peaks([34.0, 494.5, 989.0, 1979.0], 80.0, [3350.0, 450.0, 225.0]),
            "h200" => Peaks([34.0, 494.5, 989.0, 1979.0], 141.0, [4800.0, 450.0, 50.0]),
            "zionex" => Peaks([9.7, 156.0, 312.0, 624.0], 40.0, [1555.0, 300.0, 25.0]),
            "llm-a100" => Peaks([9.7, 156.0, 312.0, 624.0], 80.0, [1935.0, 300.0, 25.0]),
            _ => return None,
        };
        // Achievable in matrix products and in lookups: 78.6 % and 850 GB/s on V100, 70.5 % and 1300 GB/s on A100 (Neo).
        // 8 H100 train MLPerf's DLRM-DCNv2 2.04 times as fast as 8 A100 (15.7 and 7.7 M samples/s) with 3.17 times the peak.
        let (flops_util, memory_util) = match name {
            "v100" => (0.786, 0.944),
            "h100" | "h100-superpod" | "h200" => (0.454, 0.836),
            _ => (0.705, 0.836),
        };
        let network_util =
            if matches!(name, "zionex" | "llm-a100") { MADMAX_NETWORK_UTIL } else { NETWORK_UTIL };
        Some(Self {
            name: name.into(),
            nodes: 1,
            devices_per_node: PER_NODE,
            device: Device {
                f64_flops: flops[0] * 1e12,
                f32_flops: flops[1] * 1e12,
                f16_flops: flops[2] * 1e12,
                i8_ops: flops[3] * 1e12,
                flops_util,
                memory_bytes: memory * f64::from(1 << 30),
                memory_bytes_per_s: memory_speed * 1e9,
                memory_util,
            },
            intra: Link { bytes_per_s: intra * 1e9, util: NVLINK_UTIL },
            inter: Link { bytes_per_s: inter * 1e9, util: network_util },
            all_reduce_intra_share: ZIONEX_SHARE,
            storage_bytes_per_s: NVME,
        })
    }
}
