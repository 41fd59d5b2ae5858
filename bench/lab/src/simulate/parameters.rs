//! Locks with parameters other than their defaults.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use rmalab_locks::{
    Cohort, CohortParams, Exclusive, Global, GlobalParams, Hierarchical, HierarchicalParams, MAX_LEVELS, RmaMcs,
    RmaMcsParams, RmaRw, RmaRwParams, ShiftLock, ShiftLockParams,
};

use crate::Registry;

/// Parameters that are not the default; each applies to the locks that have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parameters {
    /// Ranks in a leaf of hierarchical, or in a cohort.
    pub leaf: Option<u32>,
    /// Children of a word of hierarchical's tree.
    pub fan_out: Option<u32>,
    /// Number of times that a cohort passes the lock on.
    pub may_pass_local: Option<u32>,
    /// N of shiftlock: writers in a row.
    pub n: Option<u32>,
    /// T_DC of rma-rw: ranks of a counter.
    pub t_dc: Option<u32>,
    /// T_L,1 to T_L,4 of rma-mcs and rma-rw.
    pub t_l: Option<[u16; MAX_LEVELS]>,
    /// T_R of rma-rw: readers in a row.
    pub t_r: Option<u32>,
}

impl FromStr for Parameters {
    type Err = String;

    /// Reads `leaf=4,t_dc=32,t_l=8/16/32,t_r=1000`. The last `t_l` applies to all further levels.
    fn from_str(text: &str) -> Result<Parameters, String> {
        let mut parameters = Parameters::default();
        for part in text.split(',') {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("'{part}' is not NAME=VALUE, such as leaf=4"))?;
            let number = |range: RangeInclusive<u32>| {
                let number = value.trim().parse::<u32>().ok().filter(|number| range.contains(number));
                let (least, most) = range.into_inner();
                number.ok_or_else(|| format!("'{part}': not a whole number from {least} to {most}"))
            };
            match name.trim() {
                "leaf" => parameters.leaf = Some(number(1..=u32::MAX)?),
                "fan_out" => parameters.fan_out = Some(number(2..=64)?),
                "may_pass_local" => parameters.may_pass_local = Some(number(0..=u32::MAX)?),
                "n" => parameters.n = Some(number(1..=u32::MAX)?),
                "t_dc" => parameters.t_dc = Some(number(1..=u32::MAX)?),
                "t_r" => parameters.t_r = Some(number(1..=u32::MAX)?),
                "t_l" => {
                    let each: Vec<u16> = value.split('/').map(|one| one.trim().parse().unwrap_or(0)).collect();
                    if each.is_empty() || each.len() > MAX_LEVELS || each.contains(&0) {
                        return Err(format!("'{part}': not one to {MAX_LEVELS} numbers from 1 to 65535, such as 8/16"));
                    }
                    let last = each[each.len() - 1];
                    parameters.t_l = Some(std::array::from_fn(|level| each.get(level).copied().unwrap_or(last)));
                }
                "t_w" => return Err("t_w is the product of all t_l: set those".into()),
                other => {
                    return Err(format!(
                        "no parameter is called '{other}': there are leaf, fan_out, may_pass_local, n, t_dc, t_l, t_r"
                    ));
                }
            }
        }
        Ok(parameters)
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [
            ("leaf", self.leaf),
            ("fan_out", self.fan_out),
            ("may_pass_local", self.may_pass_local),
            ("n", self.n),
            ("t_dc", self.t_dc),
            ("t_r", self.t_r),
        ];
        let mut parts: Vec<String> =
            numbers.iter().filter_map(|(name, value)| value.map(|value| format!("{name}={value}"))).collect();
        parts.extend(self.t_l.map(|t_l| format!("t_l={}", t_l.map(|most| most.to_string()).join("/"))));
        f.write_str(&parts.join(","))
    }
}

impl Parameters {
    /// Gives these parameters to the locks of `registry`. It adds the locks that only simulations have: rma-mcs and
    /// rma-rw if they are missing, and hierarchical with small leaves.
    pub fn apply(self, registry: &mut Registry) {
        let hierarchical = {
            let default = HierarchicalParams::default();
            HierarchicalParams {
                leaf: self.leaf.unwrap_or(default.leaf),
                fan_out: self.fan_out.unwrap_or(default.fan_out),
                ..default
            }
        };
        let cohort = {
            let default = CohortParams::default();
            CohortParams {
                ranks: self.leaf.unwrap_or(default.ranks),
                may_pass_local: self.may_pass_local.unwrap_or(default.may_pass_local),
            }
        };
        let rma_mcs = {
            let default = RmaMcsParams::default();
            RmaMcsParams { t_l: self.t_l.unwrap_or(default.t_l), ..default }
        };
        let rma_rw = {
            let default = RmaRwParams::default();
            RmaRwParams {
                t_dc: self.t_dc.unwrap_or(default.t_dc),
                t_l: self.t_l.unwrap_or(default.t_l),
                t_r: self.t_r.unwrap_or(default.t_r),
                ..default
            }
        };
        let shiftlock = {
            let default = ShiftLockParams::default();
            ShiftLockParams { n: self.n.unwrap_or(default.n), ..default }
        };
        registry.replace::<Hierarchical>("hierarchical", move |root| HierarchicalParams { root, ..hierarchical });
        registry.replace::<Global<Exclusive<Cohort>>>("cohort", move |home| GlobalParams { home, lock: cohort });
        registry.replace::<Global<Exclusive<RmaMcs>>>("rma-mcs", move |home| GlobalParams { home, lock: rma_mcs });
        registry.replace::<Global<RmaRw>>("rma-rw", move |home| GlobalParams { home, lock: rma_rw });
        registry.replace::<Global<ShiftLock>>("shiftlock", move |home| GlobalParams { home, lock: shiftlock });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_round_trip() {
        let parameters: Parameters = "leaf=4,n=2,t_l=8/16,t_r=100".parse().unwrap();
        assert_eq!(parameters.t_l, Some([8, 16, 16, 16]));
        assert_eq!(parameters.to_string(), "leaf=4,n=2,t_r=100,t_l=8/16/16/16");
        assert_eq!(parameters.to_string().parse(), Ok(parameters));
        for wrong in [
            "",
            "leaf",
            "leaf=x",
            "t_l=0",
            "t_l=1/2/3/4/5",
            "t_w=8",
            "size=1",
            "leaf=0",
            "n=0",
            "t_dc=0",
            "t_r=0",
            "fan_out=1",
            "fan_out=65",
        ] {
            assert!(wrong.parse::<Parameters>().is_err(), "{wrong}");
        }
    }
}
