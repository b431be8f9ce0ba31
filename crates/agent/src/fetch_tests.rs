use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const PATIENCE: parameters::Download = parameters::Download {
    timeout: Duration::from_secs(5),
    retries: 3,
    interval: Duration::from_millis(10),
};

/// Answers the n-th connection with what `answer(n, request)` says, then closes it.
async fn serve(
    answer: impl Fn(usize, &str) -> Vec<u8> + Send + 'static,
) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/os.raw", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = vec![];
            while !head.ends_with(b"\r\n\r\n") {
                head.push(socket.read_u8().await.unwrap());
            }
            let number = seen.fetch_add(1, Ordering::SeqCst);
            let bytes = answer(number, &String::from_utf8_lossy(&head).to_lowercase());
            let _ = socket.write_all(&bytes).await;
        }
    });
    (url, count)
}

fn body() -> Vec<u8> {
    (0..100_000_u32).map(|n| (n % 251) as u8).collect()
}

fn ok(etag: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nETag: \"{etag}\"\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

async fn get(url: String) -> Result<Vec<u8>, String> {
    let download = Download {
        client: crate::http::Way::default().client().unwrap(),
        url,
        authorization: None,
        patience: PATIENCE,
    };
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        let mut stream = download.open(&runtime).map_err(|error| error.to_string())?;
        let mut all = vec![];
        stream
            .read_to_end(&mut all)
            .map_err(|error| error.to_string())?;
        Ok(all)
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_broken_download_goes_on_where_it_broke() {
    let (url, count) = serve(|number, request| {
        let body = body();
        if number == 0 {
            return ok("1", body.len(), &body[..40_000]);
        }
        assert!(request.contains("range: bytes=40000-\r\n"), "{request}");
        assert!(request.contains("if-range: \"1\""), "{request}");
        let head = "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes 40000-99999/100000\r\nContent-Length: 60000\r\n\r\n";
        [head.as_bytes(), &body[40_000..]].concat()
    })
    .await;
    assert!(get(url).await.unwrap() == body());
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_server_without_ranges_is_heard_from_the_beginning_again() {
    let (url, _) = serve(|number, _| {
        let body = body();
        let sent = if number == 0 { 40_000 } else { body.len() };
        ok("1", body.len(), &body[..sent])
    })
    .await;
    assert!(get(url).await.unwrap() == body());
}

#[tokio::test]
async fn a_file_that_changes_in_between_is_an_error() {
    let (url, _) = serve(|number, _| {
        let body = body();
        ok(&number.to_string(), body.len(), &body[..40_000])
    })
    .await;
    let error = get(url).await.unwrap_err();
    assert!(error.contains("changed while"), "{error}");
}

#[tokio::test]
async fn a_server_that_keeps_breaking_is_given_up() {
    let (url, count) = serve(|_, _| ok("1", 100, b"")).await;
    let error = get(url).await.unwrap_err();
    assert!(error.contains("tries failed"), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn refusals_and_web_pages_are_told_at_once() {
    let (url, count) = serve(|_, _| b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_vec()).await;
    assert!(get(url).await.unwrap_err().contains("404"));
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let (url, _) = serve(|_, _| {
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=x\r\nContent-Length: 2\r\n\r\nhi"
            .to_vec()
    })
    .await;
    assert!(get(url).await.unwrap_err().contains("web page"));
}

#[test]
fn ranges_that_begin_elsewhere_are_not_ours() {
    assert_eq!(range_total("bytes 5-9/10", 5), Some(10));
    assert_eq!(range_total("bytes 4-9/10", 5), None);
    assert_eq!(range_total("items", 5), None);
}
