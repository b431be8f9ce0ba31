//! What there is to see: the VM, and the hosts as Ironic on it sees them.

use std::collections::BTreeMap;

use clients::ironic;
use plan::destroy::{Node, Seen, Vm, roster};
use plan::install::{self, Reach};

use super::super::Error;
use super::Cleaner;
use crate::cluster::look::{ANSWER, late};
use crate::cluster::nodes;

impl Cleaner {
    pub(super) async fn look(&mut self) -> Result<Seen, Error> {
        let vm = self.look_vm()?;
        let ironic = if vm == Vm::Cleaner {
            self.look_ironic().await
        } else {
            self.ironic = None;
            Reach::Silent("the bootstrap VM does not run".into())
        };
        Ok(Seen {
            images: self.images.is_some(),
            vm,
            ironic,
            trouble: self.trouble.clone(),
        })
    }

    fn look_vm(&self) -> Result<Vm, Error> {
        if self.bootstrap.look()? != install::Vm::Absent {
            return Ok(Vm::Other);
        }
        let meant = std::fs::read_to_string(self.home.roster());
        let ours = meant.is_ok_and(|meant| meant == roster(&self.plan));
        Ok(match self.home.look()? {
            install::Vm::Absent => Vm::Absent,
            install::Vm::Running if ours => Vm::Cleaner,
            install::Vm::Running => Vm::Other,
            install::Vm::Stopped { why } => Vm::Stopped { why },
        })
    }

    async fn look_ironic(&mut self) -> Reach<BTreeMap<String, Node>> {
        let ask = async {
            let ironic = match &self.ironic {
                Some(ironic) => ironic.clone(),
                None => nodes::connect(&self.dir, &self.plan).await?,
            };
            let nodes = ironic.nodes().await?;
            Ok::<_, ironic::Error>((ironic, nodes))
        };
        let why = match tokio::time::timeout(ANSWER, ask).await {
            Ok(Ok((ironic, nodes))) => {
                self.ironic = Some(ironic);
                let named = |node: &ironic::Node| Some((node.name.clone()?, seen(node)));
                return Reach::Answers(nodes.iter().filter_map(named).collect());
            }
            Ok(Err(error)) => model::chain(&error),
            Err(_) => late(),
        };
        self.ironic = None;
        Reach::Silent(why)
    }
}

fn seen(node: &ironic::Node) -> Node {
    Node {
        life: nodes::seen(node),
        off: node.power_state.as_deref() == Some(ironic::Power::Off.as_str())
            && node.target_power_state.is_none(),
    }
}
