//! QEMU's monitor protocol: JSON lines both ways.
//!
//! One task owns the socket. Commands wait for their answer by id; events go to a callback; anything
//! unknown passes by. When the socket closes, every waiting command fails.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// An emulated machine under load can keep its monitor waiting for seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("QEMU did not greet on its monitor")]
    Greeting,
    #[error("QEMU refused {command}: {description}")]
    Refused {
        command: String,
        class: String,
        description: String,
    },
    #[error("QEMU closed its monitor before it answered {command}")]
    Closed { command: String },
    #[error("QEMU did not answer {command} within {} s", PATIENCE.as_secs())]
    Timeout { command: String },
}

/// Something QEMU says by itself, such as `RESET`.
#[derive(Debug, Clone, PartialEq)]
pub struct RawEvent {
    pub name: String,
    /// Null if there is none.
    pub data: Value,
}

/// A handle to the monitor; clones share it.
#[derive(Debug, Clone)]
pub struct Qmp {
    commands: mpsc::Sender<Command>,
}

#[derive(Debug)]
struct Command {
    name: String,
    arguments: Value,
    answer: oneshot::Sender<Result<Value, Error>>,
}

impl Qmp {
    /// Greets and gets ready for commands. The task ends when the socket closes or the last handle is dropped.
    pub async fn connect(
        stream: UnixStream,
        on_event: impl FnMut(RawEvent) + Send + 'static,
    ) -> Result<(Self, JoinHandle<()>), Error> {
        let (read, write) = stream.into_split();
        let mut lines = BufReader::new(read).lines();
        match timeout(PATIENCE, lines.next_line()).await {
            Ok(Ok(Some(line))) if greets(&line) => {}
            _ => return Err(Error::Greeting),
        }
        let (commands, queue) = mpsc::channel(16);
        let task = tokio::spawn(serve(lines, write, queue, on_event));
        let qmp = Self { commands };
        qmp.execute("qmp_capabilities", json!({})).await?;
        Ok((qmp, task))
    }

    /// Sends a command and waits for its answer.
    pub async fn execute(&self, name: &str, arguments: Value) -> Result<Value, Error> {
        let command = || name.to_owned();
        let (answer, result) = oneshot::channel();
        let request = Command {
            name: command(),
            arguments,
            answer,
        };
        let exchange = async {
            if self.commands.send(request).await.is_err() {
                return Err(Error::Closed { command: command() });
            }
            result
                .await
                .unwrap_or_else(|_| Err(Error::Closed { command: command() }))
        };
        timeout(PATIENCE, exchange)
            .await
            .unwrap_or_else(|_| Err(Error::Timeout { command: command() }))
    }
}

fn greets(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|value| value.get("QMP").is_some())
}

async fn serve(
    mut lines: Lines<BufReader<OwnedReadHalf>>,
    mut write: OwnedWriteHalf,
    mut queue: mpsc::Receiver<Command>,
    mut on_event: impl FnMut(RawEvent),
) {
    let mut next_id = 0_u64;
    let mut waiting = BTreeMap::new();
    loop {
        tokio::select! {
            line = lines.next_line() => match line {
                Ok(Some(line)) => take(&line, &mut waiting, &mut on_event),
                Ok(None) | Err(_) => break,
            },
            command = queue.recv() => {
                let Some(command) = command else { break };
                next_id += 1;
                if send(&mut write, next_id, &command).await.is_err() {
                    // QEMU may have said why before it went: read on until the end of the socket.
                    drop(command);
                    continue;
                }
                waiting.insert(next_id, (command.name, command.answer));
            }
        }
    }
    // Dropping `waiting` and `queue` fails every command that is still without an answer.
}

async fn send(write: &mut OwnedWriteHalf, id: u64, command: &Command) -> io::Result<()> {
    let mut line =
        json!({"execute": command.name, "arguments": command.arguments, "id": id}).to_string();
    line.push('\n');
    timeout(PATIENCE, write.write_all(line.as_bytes()))
        .await
        .map_err(|_| io::ErrorKind::TimedOut)?
}

type Waiting = BTreeMap<u64, (String, oneshot::Sender<Result<Value, Error>>)>;

fn take(line: &str, waiting: &mut Waiting, on_event: &mut impl FnMut(RawEvent)) {
    let Ok(mut message) = serde_json::from_str::<Value>(line) else {
        tracing::warn!(line, "QEMU's monitor said something that is not JSON");
        return;
    };
    if let Some(name) = message["event"].as_str().map(str::to_owned) {
        return on_event(RawEvent {
            name,
            data: message["data"].take(),
        });
    }
    let Some((command, answer)) = message["id"].as_u64().and_then(|id| waiting.remove(&id)) else {
        return;
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let result = match message.get("error") {
        Some(error) => Err(Error::Refused {
            command,
            class: text(&error["class"]),
            description: text(&error["desc"]),
        }),
        None => Ok(message["return"].take()),
    };
    let _ = answer.send(result);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A monitor that greets, answers the handshake, then does as the script says.
    struct Fake {
        lines: Lines<BufReader<OwnedReadHalf>>,
        write: OwnedWriteHalf,
    }

    impl Fake {
        async fn say(&mut self, line: &str) {
            self.write
                .write_all(format!("{line}\r\n").as_bytes())
                .await
                .unwrap();
        }

        async fn hear(&mut self) -> Value {
            serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
        }
    }

    async fn connected() -> (Qmp, Fake, Arc<Mutex<Vec<RawEvent>>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (read, write) = theirs.into_split();
        let mut fake = Fake {
            lines: BufReader::new(read).lines(),
            write,
        };
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&events);
        let greeting = async {
            fake.say(r#"{"QMP": {"version": {}, "capabilities": ["oob", "invented-later"]}}"#)
                .await;
            assert_eq!(fake.hear().await["execute"], "qmp_capabilities");
            fake.say(r#"{"return": {}, "id": 1}"#).await;
        };
        let connect = Qmp::connect(ours, move |event| sink.lock().unwrap().push(event));
        let (connected, ()) = tokio::join!(connect, greeting);
        (connected.unwrap().0, fake, events)
    }

    #[tokio::test]
    async fn answers_find_their_command_whatever_comes_between() {
        let (qmp, mut fake, events) = connected().await;
        let script = async {
            let first = fake.hear().await;
            let second = fake.hear().await;
            fake.say(r#"{"event": "INVENTED_LATER", "data": {"x": 1}, "timestamp": {}}"#)
                .await;
            fake.say("not json").await;
            fake.say(r#"{"return": 7, "id": 999}"#).await;
            fake.say(&json!({"return": second["arguments"], "id": second["id"]}).to_string())
                .await;
            fake.say(&json!({"return": first["arguments"], "id": first["id"]}).to_string())
                .await;
        };
        let commands =
            async { tokio::join!(qmp.execute("a", json!(1)), qmp.execute("b", json!(2))) };
        let ((a, b), ()) = tokio::join!(commands, script);
        assert_eq!((a.unwrap(), b.unwrap()), (json!(1), json!(2)));
        assert_eq!(
            *events.lock().unwrap(),
            [RawEvent {
                name: "INVENTED_LATER".into(),
                data: json!({"x": 1})
            }]
        );
    }

    #[tokio::test]
    async fn a_refusal_carries_qemus_words() {
        let (qmp, mut fake, _) = connected().await;
        let script = async {
            let id = fake.hear().await["id"].clone();
            fake.say(
                &json!({"error": {"class": "GenericError", "desc": "no such device"}, "id": id})
                    .to_string(),
            )
            .await;
        };
        let (result, ()) = tokio::join!(qmp.execute("eject", json!({})), script);
        assert_eq!(
            result.unwrap_err().to_string(),
            "QEMU refused eject: no such device"
        );
    }

    #[tokio::test]
    async fn waiting_and_later_commands_fail_when_the_socket_closes() {
        let (qmp, mut fake, _) = connected().await;
        let script = async {
            fake.hear().await;
            drop(fake);
        };
        let (result, ()) = tokio::join!(qmp.execute("quit", json!({})), script);
        assert!(matches!(result, Err(Error::Closed { .. })), "{result:?}");
        let later = qmp.execute("stop", json!({})).await;
        assert!(matches!(later, Err(Error::Closed { .. })), "{later:?}");
    }

    #[tokio::test]
    async fn a_socket_that_does_not_greet_is_not_a_monitor() {
        for words in ["", "hello\n", "{}\n"] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(words.as_bytes()).await.unwrap();
            drop(theirs);
            let error = Qmp::connect(ours, |_| {}).await.map(|_| ()).unwrap_err();
            assert!(matches!(error, Error::Greeting), "{words:?}");
        }
    }
}
