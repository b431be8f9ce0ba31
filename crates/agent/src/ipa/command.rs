//! Commands Ironic gave, and what became of them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

use super::machine::{Failure, Progress};

/// The list of commands, oldest first. One runs at a time.
#[derive(Debug)]
pub struct Commands {
    list: Mutex<VecDeque<Entry>>,
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Entry {
    id: Uuid,
    name: String,
    state: State,
}

#[derive(Debug)]
enum State {
    Running(Option<Progress>),
    Done(Outcome),
}

/// How a command ended.
#[derive(Debug, Clone)]
pub enum Outcome {
    Succeeded(Value),
    Failed(Failure),
    /// The steps Ironic remembers are another agent's.
    VersionMismatch(Failure),
}

/// Another command is running.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("agent is busy: {0} is running")]
pub struct Busy(pub String);

/// Ironic looks at the last few only.
const KEPT: usize = 50;

impl Default for Commands {
    fn default() -> Self {
        Self {
            list: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }
}

impl Commands {
    pub fn begin(&self, name: &str) -> Result<Uuid, Busy> {
        let mut list = self.list();
        if let Some(last) = list.back()
            && let State::Running(_) = last.state
        {
            return Err(Busy(last.name.clone()));
        }
        while list.len() >= KEPT {
            list.pop_front();
        }
        let id = Uuid::new_v4();
        list.push_back(Entry {
            id,
            name: name.to_owned(),
            state: State::Running(None),
        });
        Ok(id)
    }

    pub fn progress(&self, id: Uuid, progress: Progress) {
        let mut list = self.list();
        if let Some(entry) = list.iter_mut().find(|entry| entry.id == id)
            && let State::Running(shown) = &mut entry.state
        {
            *shown = Some(progress);
        }
    }

    pub fn end(&self, id: Uuid, outcome: Outcome) {
        if let Some(entry) = self.list().iter_mut().find(|entry| entry.id == id) {
            entry.state = State::Done(outcome);
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// The command as the API shows it.
    pub fn get(&self, id: Uuid) -> Option<Value> {
        self.list()
            .iter()
            .find(|entry| entry.id == id)
            .map(Entry::shown)
    }

    pub fn all(&self) -> Value {
        let shown: Vec<_> = self.list().iter().map(Entry::shown).collect();
        json!({ "commands": shown })
    }

    /// The command once it is done, or as it is when the time is over.
    pub async fn wait(&self, id: Uuid, limit: Duration) -> Option<Value> {
        let mut changes = self.changes.subscribe();
        let done = async { while self.is_running(id) && changes.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(limit, done).await;
        self.get(id)
    }

    fn is_running(&self, id: Uuid) -> bool {
        let list = self.list();
        let entry = list.iter().find(|entry| entry.id == id);
        entry.is_some_and(|entry| matches!(entry.state, State::Running(_)))
    }

    fn list(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        // A list is whole after every statement above.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn shown(&self) -> Value {
        let (status, error, result) = match &self.state {
            State::Running(progress) => {
                let result = progress
                    .as_ref()
                    .map_or(Value::Null, |progress| json!({ "progress": progress }));
                ("RUNNING", Value::Null, result)
            }
            State::Done(Outcome::Succeeded(result)) => ("SUCCEEDED", Value::Null, result.clone()),
            State::Done(Outcome::Failed(failure)) => ("FAILED", failure.shown(), Value::Null),
            State::Done(Outcome::VersionMismatch(failure)) => {
                ("CLEAN_VERSION_MISMATCH", failure.shown(), Value::Null)
            }
        };
        let name = self.name.rsplit('.').next().unwrap_or(&self.name);
        json!({
            "id": self.id,
            "command_name": name,
            "command_status": status,
            "command_error": error,
            "command_result": result,
        })
    }
}

impl Failure {
    fn shown(&self) -> Value {
        json!({
            "type": self.kind,
            "code": self.code,
            "message": format!("{}: {}", self.kind, self.details),
            "details": self.details,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_runs_at_a_time_and_the_list_stays_short() {
        let commands = Commands::default();
        for _ in 0..2 * KEPT {
            let id = commands.begin("deploy.execute_deploy_step").unwrap();
            let busy = commands.begin("standby.sync").unwrap_err().to_string();
            assert!(busy.contains("agent is busy"), "{busy}");
            commands.end(id, Outcome::Succeeded(json!({})));
        }
        let all = commands.all();
        assert_eq!(all["commands"].as_array().unwrap().len(), KEPT);
        assert_eq!(all["commands"][0]["command_name"], "execute_deploy_step");
    }

    #[test]
    fn a_running_command_shows_how_far_it_is() {
        let commands = Commands::default();
        let id = commands.begin("x.y").unwrap();
        let progress = Progress {
            phase: "writing",
            percent: Some(37),
            bytes: 37,
            total: Some(100),
            mb_per_s: 112.5,
        };
        commands.progress(id, progress);
        let shown = commands.get(id).unwrap();
        assert_eq!(shown["command_status"], "RUNNING");
        assert_eq!(shown["command_result"]["progress"]["percent"], 37);
        commands.end(
            id,
            Outcome::Failed(Failure::new("ImageWriteError", "disk on fire")),
        );
        let shown = commands.get(id).unwrap();
        assert_eq!(shown["command_status"], "FAILED");
        assert_eq!(shown["command_error"]["details"], "disk on fire");
        assert_eq!(shown["command_result"], Value::Null);
    }
}
