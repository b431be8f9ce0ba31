//! Tasks: operations that answer 202 and go on.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::messages::{self as m, Message, Problem};
use super::path::Resource;
use super::{Answer, collection, link};
use crate::bmc::{Bmc, lock};

/// The newest tasks; finished ones make room for new ones.
#[derive(Debug, Default)]
pub struct Tasks {
    last: u64,
    list: VecDeque<Task>,
}

#[derive(Debug)]
struct Task {
    id: u64,
    name: &'static str,
    started: Timestamp,
    state: State,
}

#[derive(Debug)]
enum State {
    Running,
    Ended {
        at: Timestamp,
        failed: Option<Message>,
    },
}

const MOST: usize = 32;

impl Tasks {
    fn add(&mut self, now: Timestamp, name: &'static str) -> Option<u64> {
        if self.list.len() >= MOST {
            let oldest = self
                .list
                .iter()
                .position(|task| matches!(task.state, State::Ended { .. }))?;
            self.list.remove(oldest);
        }
        self.last += 1;
        self.list.push_back(Task {
            id: self.last,
            name,
            started: now,
            state: State::Running,
        });
        Some(self.last)
    }

    fn end(&mut self, now: Timestamp, id: u64, failed: Option<Message>) {
        if let Some(task) = self.list.iter_mut().find(|task| task.id == id) {
            task.state = State::Ended { at: now, failed };
        }
    }

    fn get(&self, id: u64) -> Option<&Task> {
        self.list.iter().find(|task| task.id == id)
    }
}

/// Answers 202 and does the work afterwards.
///
/// There is no Retry-After: sushy 5.14 fails on one that is a number, and looks again after a second without one.
pub fn start<F>(bmc: &Arc<Bmc>, name: &'static str, work: F) -> Result<Answer, Problem>
where
    F: Future<Output = Result<(), Problem>> + Send + 'static,
{
    let added = lock(&bmc.tasks).add(bmc.now(), name);
    let id = added.ok_or_else(|| Problem::new(&m::UNAVAILABLE, &["30"]))?;
    let owner = Arc::downgrade(bmc);
    bmc.begin(async move {
        let failed = work.await.err().and_then(|problem| problem.messages.into_iter().next());
        if let Some(message) = &failed {
            tracing::warn!(task = id, name, error = %message.render()["Message"], "BMC task failed");
        }
        if let Some(bmc) = owner.upgrade() {
            let now = bmc.now();
            lock(&bmc.tasks).end(now, id, failed);
        }
    });
    let mut answer = Answer::new(StatusCode::ACCEPTED, render(bmc, id).map(|(_, body)| body));
    if let Some(body) = &mut answer.body {
        body["@odata.id"] = Resource::Task(id).path(bmc.personality).into();
    }
    answer
        .headers
        .push(("location", Resource::TaskMonitor(id).path(bmc.personality)));
    Ok(answer)
}

pub fn render_service(bmc: &Bmc) -> Value {
    json!({
        "@odata.type": "#TaskService.v1_2_0.TaskService",
        "Id": "TaskService",
        "Name": "Task Service",
        "DateTime": bmc.now().to_string(),
        "CompletedTaskOverWritePolicy": "Oldest",
        "LifeCycleEventOnTaskStateChange": false,
        "Status": {"State": "Enabled", "Health": "OK"},
        "ServiceEnabled": true,
        "Tasks": link(bmc, &Resource::Tasks),
    })
}

pub fn render_all(bmc: &Bmc) -> Value {
    let members: Vec<_> = lock(&bmc.tasks)
        .list
        .iter()
        .map(|task| Resource::Task(task.id))
        .collect();
    collection(bmc, "TaskCollection", "Tasks", &members)
}

/// A task, and whether it still runs: then its monitor says 202, and so does the task itself, as some vendors'
/// does and as clients that mistake one for the other need.
pub fn render(bmc: &Bmc, id: u64) -> Option<(StatusCode, Value)> {
    let tasks = lock(&bmc.tasks);
    let task = tasks.get(id)?;
    let (status, state, health, percent, ended, messages) = match &task.state {
        State::Running => (StatusCode::ACCEPTED, "Running", "OK", 50, None, vec![]),
        State::Ended { at, failed: None } => (
            StatusCode::OK,
            "Completed",
            "OK",
            100,
            Some(at),
            vec![m::SUCCESS.with(&[]).render()],
        ),
        State::Ended {
            at,
            failed: Some(message),
        } => (
            StatusCode::OK,
            "Exception",
            "Critical",
            100,
            Some(at),
            vec![message.render()],
        ),
    };
    let mut json = json!({
        "@odata.type": "#Task.v1_5_1.Task",
        "Id": id.to_string(),
        "Name": task.name,
        "TaskState": state,
        "TaskStatus": health,
        "PercentComplete": percent,
        "StartTime": task.started.to_string(),
        "TaskMonitor": Resource::TaskMonitor(id).path(bmc.personality),
        "Messages": messages,
    });
    if let Some(at) = ended {
        json["EndTime"] = at.to_string().into();
    }
    Some((status, json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_tasks_make_room_and_running_ones_do_not() {
        let now = Timestamp::UNIX_EPOCH;
        let mut tasks = Tasks::default();
        for n in 1..=MOST as u64 {
            assert_eq!(tasks.add(now, "x"), Some(n));
        }
        assert_eq!(tasks.add(now, "x"), None);
        tasks.end(now, 5, None);
        assert!(tasks.add(now, "x").is_some());
        assert!(tasks.get(5).is_none() && tasks.get(1).is_some());
        assert_eq!(tasks.list.len(), MOST);
    }
}
