//! Processors.

use std::collections::BTreeSet;
use std::path::Path;

use model::inventory::Cpu;

use super::{number, text};

pub fn collect(root: &Path) -> Cpu {
    let info = text(&root.join("proc/cpuinfo")).unwrap_or_default();
    let max_khz = number(&root.join("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"));
    parse(&info, max_khz)
}

fn parse(info: &str, max_khz: Option<u64>) -> Cpu {
    let values = |name: &str| -> Vec<&str> {
        let lines = info.lines().filter_map(|line| line.split_once(':'));
        lines
            .filter(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim())
            .collect()
    };
    let first = |name: &str| values(name).first().copied().unwrap_or_default().to_owned();
    let sockets: BTreeSet<_> = values("physical id").into_iter().collect();
    Cpu {
        model_name: first("model name"),
        frequency: max_khz.map_or_else(|| first("cpu MHz"), |khz| (khz / 1000).to_string()),
        count: values("processor").len() as u32,
        architecture: std::env::consts::ARCH.to_owned(),
        flags: first("flags")
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        socket_count: sockets.len().max(1) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "processor\t: 0\nmodel name\t: Xeon Gold 6240\ncpu MHz\t\t: 2600.000\nphysical id\t: 0\nflags\t\t: fpu vmx\n\n\
                        processor\t: 1\nmodel name\t: Xeon Gold 6240\ncpu MHz\t\t: 2600.000\nphysical id\t: 1\nflags\t\t: fpu vmx\n";

    #[test]
    fn processors_and_sockets_are_counted() {
        let cpu = parse(INFO, None);
        assert_eq!((cpu.count, cpu.socket_count), (2, 2));
        assert_eq!(cpu.model_name, "Xeon Gold 6240");
        assert_eq!(cpu.frequency, "2600.000");
        assert_eq!(cpu.flags, ["fpu", "vmx"]);
    }

    #[test]
    fn highest_frequency_is_told_where_known() {
        assert_eq!(parse(INFO, Some(3_900_000)).frequency, "3900");
    }
}
