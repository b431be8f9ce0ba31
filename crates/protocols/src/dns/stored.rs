//! An answer from elsewhere, kept as bytes and given to many.

use std::time::Duration;

use super::reply::{self, Transport};
use super::wire::{AUTHENTIC, HEADER, Question, RESPONSE, Record, TRUNCATED, kind, u16_at, u32_at};

/// What we tell of a record past its life (RFC 8767, 4).
const STALE_TTL: u32 = 30;
/// More records than this are nobody's honest answer.
const MAX_RECORDS: u16 = 2048;
const NO_ERROR: u16 = 0;
const NX_DOMAIN: u16 = 3;

/// An upstream's answer without its id, question and EDNS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    rcode: u16,
    authentic: bool,
    counts: [u16; 3],
    /// The records after the question; pointers into the question hold, since its length is the same.
    records: Box<[u8]>,
    /// Where in `records` the TTLs are.
    ttls: Box<[u16]>,
    /// How long it may be given out.
    life: Option<Duration>,
}

/// Why an answer is not one to the question we asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bad {
    Malformed,
    WrongId,
    WrongQuestion,
}

impl Bad {
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::WrongId => "wrong_id",
            Self::WrongQuestion => "wrong_question",
        }
    }
}

/// An answer that fits what we asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    pub stored: Stored,
    pub truncated: bool,
    pub has_edns: bool,
}

impl Stored {
    /// `asked` is our own query; with `exact_case` the name must come back spelled as we spelled it.
    pub fn parse(asked: &[u8], bytes: &[u8], exact_case: bool) -> Result<Parsed, Bad> {
        let word = |at| u16_at(bytes, at).ok_or(Bad::Malformed);
        let flags = word(2)?;
        if flags & RESPONSE == 0 || flags & super::wire::OPCODE != 0 {
            return Err(Bad::Malformed);
        }
        if u16_at(asked, 0) != Some(word(0)?) {
            return Err(Bad::WrongId);
        }
        let question = Question::parse(asked).map_err(|_| Bad::Malformed)?;
        let (ours, theirs) = (question.section(asked), bytes.get(HEADER..question.end));
        let theirs = theirs.ok_or(Bad::WrongQuestion)?;
        let same = if exact_case {
            ours == theirs
        } else {
            ours.eq_ignore_ascii_case(theirs)
        };
        if word(4)? != 1 || !same {
            return Err(Bad::WrongQuestion);
        }
        let mut reader = Reader {
            question: &question,
            bytes,
            at: question.end,
            ttls: Vec::new(),
            life: None,
            negative: None,
            opt: None,
        };
        let counts = [word(6)?, word(8)?, word(10)?];
        if counts.iter().any(|count| *count > MAX_RECORDS) {
            return Err(Bad::Malformed);
        }
        for (section, count) in counts.into_iter().enumerate() {
            for _ in 0..count {
                reader.record(section).ok_or(Bad::Malformed)?;
            }
        }
        let truncated = flags & TRUNCATED != 0;
        Ok(Parsed {
            truncated,
            has_edns: reader.opt.is_some(),
            stored: reader.stored(flags, counts, truncated),
        })
    }

    pub fn rcode(&self) -> u16 {
        self.rcode
    }

    /// "Yes" or "there is no such thing": worth giving to a client.
    pub fn is_answer(&self) -> bool {
        matches!(self.rcode, NO_ERROR | NX_DOMAIN)
    }

    /// `None` is not to be remembered.
    pub fn life(&self) -> Option<Duration> {
        self.life
    }

    pub fn size(&self) -> usize {
        self.records.len() + 2 * self.ttls.len() + std::mem::size_of::<Self>()
    }

    /// Writes it as the answer to a client's query, `age` after it came.
    pub fn write(
        &self,
        query: &[u8],
        question: &Question,
        age: Age,
        transport: Transport,
        out: &mut Vec<u8>,
    ) {
        let asks = question.flags & AUTHENTIC != 0 || question.dnssec_ok();
        let authentic = if self.authentic && asks { AUTHENTIC } else { 0 };
        reply::begin(query, question, self.rcode, authentic, out);
        let start = out.len();
        out.extend_from_slice(&self.records);
        for at in &self.ttls {
            let at = start + usize::from(*at);
            let ttl = u32_at(out, at).unwrap_or_default();
            let left = match age {
                Age::Fresh(age) => ttl.saturating_sub(age.as_secs() as u32),
                Age::Stale => STALE_TTL,
            };
            if let Some(place) = out.get_mut(at..at + 4) {
                place.copy_from_slice(&left.to_be_bytes());
            }
        }
        reply::finish(question, self.rcode, transport, self.counts, out);
    }
}

/// How old an answer is when it is given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    Fresh(Duration),
    Stale,
}

struct Reader<'a> {
    question: &'a Question,
    bytes: &'a [u8],
    at: usize,
    ttls: Vec<u16>,
    /// The shortest of the answers' lives.
    life: Option<u32>,
    /// How long a "no" holds (RFC 2308, 5).
    negative: Option<u32>,
    /// Where the OPT record is, from and to.
    opt: Option<(usize, usize)>,
}

impl Reader<'_> {
    fn record(&mut self, section: usize) -> Option<()> {
        let record = Record::read(self.bytes, self.at)?;
        if record.kind == kind::OPT {
            (section == 2 && self.opt.is_none()).then_some(())?;
            self.opt = Some((self.at, record.end));
        } else {
            // After an OPT record places would move; nobody sends that but signers (TSIG), whom we do not ask.
            self.opt.is_none().then_some(())?;
            let place = u16::try_from(record.ttl_at - self.question.end).ok()?;
            self.ttls.push(place);
            // A TTL with the top bit set counts as zero (RFC 2181, 8).
            let ttl = if record.ttl > i32::MAX as u32 {
                0
            } else {
                record.ttl
            };
            if section == 0 {
                self.life = Some(self.life.map_or(ttl, |life| life.min(ttl)));
            }
            if section == 1 && record.kind == kind::SOA {
                let at = record.end.checked_sub(4).filter(|at| *at >= record.data_at);
                self.negative = Some(ttl.min(u32_at(self.bytes, at?)?));
            }
        }
        self.at = record.end;
        Some(())
    }

    fn stored(self, flags: u16, mut counts: [u16; 3], truncated: bool) -> Stored {
        let mut rcode = flags & 0xf;
        let end = match self.opt {
            Some((from, _)) => {
                counts[2] -= 1;
                rcode |= self
                    .bytes
                    .get(from + 5)
                    .map_or(0, |high| u16::from(*high) << 4);
                from
            }
            None => self.at,
        };
        let life = match rcode {
            NO_ERROR => self.life.or(self.negative),
            NX_DOMAIN => self.negative,
            _ => None,
        };
        let life = life.filter(|life| *life > 0 && !truncated);
        Stored {
            rcode,
            authentic: flags & AUTHENTIC != 0,
            counts,
            records: self
                .bytes
                .get(self.question.end..end)
                .unwrap_or_default()
                .into(),
            ttls: self.ttls.into(),
            life: life.map(|life| Duration::from_secs(life.into())),
        }
    }
}
