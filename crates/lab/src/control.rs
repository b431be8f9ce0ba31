//! The lab's own front panel: one request and one answer, as JSON lines over a Unix socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::fault::{Fault, Order};
use crate::server::chassis::Reset;
use crate::status::Status;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    Status,
    Power {
        server: String,
        reset: Reset,
    },
    AddFault {
        server: String,
        order: Order,
    },
    ListFaults,
    ClearFaults {
        server: Option<String>,
        id: Option<u32>,
    },
    Down,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Status(Box<Status>),
    Faults(Vec<ServerFault>),
    Done,
    /// The lab understood and will not.
    Refused(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerFault {
    pub server: String,
    #[serde(flatten)]
    pub fault: Fault,
}

#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("connect to the lab at {path}")]
    Connect { path: String, source: io::Error },
    #[error("talk to the lab")]
    Talk(#[source] io::Error),
    #[error("the lab did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    #[error("the lab's answer is not understood: is it of another version?")]
    Decode(#[source] serde_json::Error),
}

/// `Down` waits for every server to stop; nothing takes longer.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);
/// A request is a line of at most this much.
const MAX_REQUEST: u64 = 64 << 10;

/// Asks a living lab.
pub async fn ask(socket: &Path, request: &Request) -> Result<Answer, AskError> {
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|source| AskError::Connect {
            path: socket.display().to_string(),
            source,
        })?;
    let talk = async {
        let (read, mut write) = stream.into_split();
        let mut line = serde_json::to_vec(request).expect("a request is plain data");
        line.push(b'\n');
        write.write_all(&line).await?;
        let mut answer = String::new();
        BufReader::new(read).read_line(&mut answer).await?;
        Ok(answer)
    };
    let answer = tokio::time::timeout(ANSWER_WITHIN, talk)
        .await
        .map_err(|_| AskError::Silent(ANSWER_WITHIN))?
        .map_err(AskError::Talk)?;
    serde_json::from_str(&answer).map_err(AskError::Decode)
}

/// Reads one request; `Err` holds the answer for a caller who made no sense.
pub async fn read(stream: &mut UnixStream) -> io::Result<Result<Request, Answer>> {
    let mut line = String::new();
    BufReader::new(stream.take(MAX_REQUEST))
        .read_line(&mut line)
        .await?;
    Ok(serde_json::from_str(&line)
        .map_err(|error| Answer::Refused(format!("request not understood: {error}"))))
}

pub async fn reply(stream: &mut UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer).expect("an answer is plain data");
    line.push(b'\n');
    stream.write_all(&line).await?;
    stream.shutdown().await
}
