//! Comma-separated values (RFC 4180): quotes, and line ends inside them.

/// A line of a file that is not empty and no comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it begins, counted from 1.
    pub line: usize,
    pub cells: Vec<String>,
}

/// Every record, or the line of a quote that is never closed.
pub fn parse(text: &str) -> Result<Vec<Record>, usize> {
    // Spreadsheets write it before the first name.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = Vec::new();
    let mut chars = text.chars().peekable();
    let mut line = 1;
    while chars.peek().is_some() {
        let begin = line;
        let mut cells = Vec::new();
        loop {
            let (cell, more) = cell(&mut chars, &mut line).ok_or(begin)?;
            cells.push(cell);
            if !more {
                break;
            }
        }
        let blank = cells.iter().all(|cell| cell.trim().is_empty());
        if !blank && !cells[0].starts_with('#') {
            records.push(Record { line: begin, cells });
        }
    }
    Ok(records)
}

/// The next cell, and whether another follows on its line. None where its quote is never closed.
fn cell(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    line: &mut usize,
) -> Option<(String, bool)> {
    let mut cell = String::new();
    let mut quoted = false;
    if chars.peek() == Some(&'"') {
        chars.next();
        quoted = true;
        loop {
            match chars.next()? {
                '"' if chars.peek() == Some(&'"') => {
                    chars.next();
                    cell.push('"');
                }
                '"' => break,
                char => {
                    *line += usize::from(char == '\n');
                    cell.push(char);
                }
            }
        }
    }
    loop {
        match chars.next() {
            Some(',') => return Some((trimmed(cell, quoted), true)),
            Some('\n') => {
                *line += 1;
                return Some((trimmed(cell, quoted), false));
            }
            None => return Some((trimmed(cell, quoted), false)),
            Some('\r') if chars.peek() == Some(&'\n') => {}
            // What stands behind a quote is not dropped: it is wrong, and will be seen to be.
            Some(char) => cell.push(char),
        }
    }
}

/// Blanks around a value are for the eye, unless they are quoted.
fn trimmed(cell: String, quoted: bool) -> String {
    if quoted { cell } else { cell.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cells(text: &str) -> Vec<(usize, Vec<String>)> {
        let records = parse(text).expect("it is closed");
        records
            .into_iter()
            .map(|record| (record.line, record.cells))
            .collect()
    }

    #[test]
    fn records_know_their_lines() {
        let text = "\u{feff}name, bmc\r\n# a comment\n\nw0,\"a,\"\"b\"\"\nc\"\n , \nw1,x";
        let owned = |cells: &[&str]| {
            cells
                .iter()
                .map(|cell| (*cell).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            cells(text),
            [
                (1, owned(&["name", "bmc"])),
                (4, owned(&["w0", "a,\"b\"\nc"])),
                (7, owned(&["w1", "x"])),
            ]
        );
    }

    #[test]
    fn a_quote_that_is_never_closed_is_told_by_its_line() {
        assert_eq!(parse("a,b\nc,\"d\ne,f\n"), Err(2));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(rows in prop::collection::vec(prop::collection::vec("[ -~\n]{1,8}", 1..4), 0..5)) {
            let quoted = |cell: &String| format!("\"{}\"", cell.replace('"', "\"\""));
            let text: String = rows.iter()
                .map(|row| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n").collect();
            let read: Vec<Vec<String>> = parse(&text).expect("it is closed").into_iter().map(|record| record.cells).collect();
            let kept: Vec<Vec<String>> = rows.into_iter()
                .filter(|row| !row[0].starts_with('#') && row.iter().any(|cell| !cell.trim().is_empty())).collect();
            prop_assert_eq!(read, kept);
        }

        #[test]
        fn any_text_is_read_or_refused(text in any::<String>()) {
            _ = parse(&text);
        }
    }
}
