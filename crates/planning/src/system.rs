//! Hardware: nodes of devices, joined by fast links inside and by slower ones between.

mod builtin;
mod file;

pub use builtin::NAMES;
pub use file::SystemFile;

use serde::{Deserialize, Serialize};
use spec::topology::Topology;

/// A cluster of devices that are all alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Name of the system.
    pub name: String,
    /// Nodes.
    pub nodes: usize,
    /// Devices on each node.
    pub devices_per_node: usize,
    /// Capabilities of each device.
    pub device: Device,
    /// Links inside a node.
    pub intra: Link,
    /// Links between nodes.
    pub inter: Link,
    /// The part of an all-reduce across nodes that MAD-Max takes to go at the speed inside a node, 0 to 1.
    #[serde(default = "default_share")]
    pub all_reduce_intra_share: f64,
    /// Bytes a second that a node reads from its disks, or writes to them, in rows of tables larger than memory; its devices share them.
    #[serde(default = "default_storage")]
    pub storage_bytes_per_s: f64,
}

/// Peak performance of a device, and the share of it that programs reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// FLOP/s on 8-byte operands.
    #[serde(default)]
    pub f64_flops: f64,
    /// FLOP/s on 4-byte operands; TF32 where the device has it.
    pub f32_flops: f64,
    /// FLOP/s on 2-byte operands.
    #[serde(default)]
    pub f16_flops: f64,
    /// Operations a second on 1-byte operands.
    #[serde(default)]
    pub i8_ops: f64,
    /// The part of these that matrix products reach, 0 to 1.
    pub flops_util: f64,
    /// Bytes of memory.
    pub memory_bytes: f64,
    /// Bytes a second of memory.
    pub memory_bytes_per_s: f64,
    /// The part of these that lookups reach, 0 to 1.
    pub memory_util: f64,
}

/// A device's links.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Bytes a second that a device can send while it receives as many.
    pub bytes_per_s: f64,
    /// The part of these that collectives reach, 0 to 1. Between nodes `hierarchical` does not use it: it has its own measure of
    /// long messages and of crowded networks.
    pub util: f64,
}

/// On ZionEX, by MAD-Max's measurements.
const ZIONEX_SHARE: f64 = 0.2746;

/// Bytes a second of one NVMe disk of a data centre, as its makers state them.
pub(crate) const NVME: f64 = 3.2e9;

fn default_storage() -> f64 {
    NVME
}

fn default_share() -> f64 {
    ZIONEX_SHARE
}

/// Reason why a description of hardware is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SystemError {
    /// A number is out of range.
    #[error("{field} is {value}; it must be {must}")]
    Number {
        /// Field at fault.
        field: &'static str,
        /// Value that was given.
        value: f64,
        /// Values that the field may have.
        must: &'static str,
    },
    /// Numbers that contradict each other.
    #[error(
        "num_devices is {devices} and num_nodes is {nodes}: every node must have the same number of devices"
    )]
    Uneven {
        /// Devices in all.
        devices: usize,
        /// Nodes.
        nodes: usize,
    },
    /// A name that is none of the built-in systems'.
    #[error("unknown system {name:?}; the known ones are {NAMES}, each also as NAME:GPUS, such as h100:512")]
    Unknown {
        /// Name that was given.
        name: String,
    },
    /// A number of devices that a built-in system does not have.
    #[error("{name}:{devices} is impossible; use 1 to 8 devices, or a multiple of 8 up to 4096")]
    Size {
        /// The system.
        name: String,
        /// Number of devices that was given.
        devices: String,
    },
}

impl System {
    /// The system, if its numbers can be those of a cluster.
    pub fn checked(self) -> Result<Self, SystemError> {
        let counts = [("nodes", self.nodes), ("devices_per_node", self.devices_per_node)];
        let amounts = [
            ("device.f32_flops", self.device.f32_flops),
            ("device.memory_bytes", self.device.memory_bytes),
            ("device.memory_bytes_per_s", self.device.memory_bytes_per_s),
            ("intra.bytes_per_s", self.intra.bytes_per_s),
            ("inter.bytes_per_s", self.inter.bytes_per_s),
        ];
        let parts = [
            ("device.flops_util", self.device.flops_util),
            ("device.memory_util", self.device.memory_util),
            ("intra.util", self.intra.util),
            ("inter.util", self.inter.util),
        ];
        let rest = [
            ("device.f64_flops", self.device.f64_flops),
            ("device.f16_flops", self.device.f16_flops),
            ("device.i8_ops", self.device.i8_ops),
        ];
        let number = |field, value, must| Err(SystemError::Number { field, value, must });
        for (field, value) in counts {
            if value == 0 {
                return number(field, 0.0, "at least 1");
            }
        }
        // Nothing is so slow or so fast that a step would take no time, or forever.
        let range = 1.0..=1e24;
        for (field, value) in amounts {
            if !range.contains(&value) {
                return number(field, value, "between 1 and 1e24");
            }
        }
        for (field, value) in parts {
            if !(1e-6..=1.0).contains(&value) {
                return number(field, value, "between 1e-6 and 1");
            }
        }
        for (field, value) in rest {
            if value != 0.0 && !range.contains(&value) {
                return number(field, value, "0, or between 1 and 1e24");
            }
        }
        if !(self.storage_bytes_per_s > 0.0 && self.storage_bytes_per_s.is_finite()) {
            return number("storage_bytes_per_s", self.storage_bytes_per_s, "above 0");
        }
        if !(0.0..=1.0).contains(&self.all_reduce_intra_share) {
            return number("all_reduce_intra_share", self.all_reduce_intra_share, "between 0 and 1");
        }
        if self.nodes.checked_mul(self.devices_per_node).is_none_or(|devices| devices > 1 << 24) {
            return number("nodes", self.nodes as f64, "fewer: 16,777,216 devices are the most");
        }
        Ok(self)
    }

    /// Makes the system with this hardware and as many nodes and devices as a cluster has hosts and ranks.
    pub fn on(self, topology: Topology) -> Self {
        Self { nodes: topology.hosts(), devices_per_node: topology.ranks_per_host(), ..self }
    }

    /// Devices in all.
    pub fn devices(&self) -> usize {
        self.nodes * self.devices_per_node
    }

    /// FLOP/s that matrix products of operands of so many bytes reach.
    pub fn flops(&self, operand: f64) -> f64 {
        let Device { f32_flops, f16_flops, flops_util, .. } = self.device;
        let peak = if operand < 4.0 && f16_flops > 0.0 { f16_flops } else { f32_flops };
        peak * flops_util
    }

    /// Bytes a second of memory that lookups reach.
    pub fn memory_bytes_per_s(&self) -> f64 {
        self.device.memory_bytes_per_s * self.device.memory_util
    }

    /// Bytes a second that a device sends inside its node.
    pub fn intra_bytes_per_s(&self) -> f64 {
        self.intra.bytes_per_s * self.intra.util
    }

    /// Bytes a second that a device sends to other nodes.
    pub fn inter_bytes_per_s(&self) -> f64 {
        self.inter.bytes_per_s * self.inter.util
    }

    /// Nodes that so many neighbouring devices are on.
    pub fn nodes_of(&self, devices: usize) -> usize {
        devices.div_ceil(self.devices_per_node)
    }
}
