//! New inputs from old ones.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, RngExt as _};

/// Numbers at which length fields and counters go wrong.
const EDGES: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x1_0000_0000,
    u64::MAX >> 1,
    u64::MAX,
];
const LONGEST: usize = 64 << 10;

/// A sample with a few changes; now and then something made up altogether.
pub fn mutate(seeds: &[Vec<u8>], dice: &mut StdRng) -> Vec<u8> {
    let made_up = || Vec::new();
    let mut bytes = match seeds.choose(dice) {
        Some(seed) if !dice.random_ratio(1, 20) => seed.clone(),
        Some(_) | None => made_up(),
    };
    if bytes.is_empty() {
        let length = dice.random_range(0..200);
        bytes = (0..length).map(|_| dice.random()).collect();
    }
    for _ in 0..dice.random_range(1..=6) {
        change(&mut bytes, seeds, dice);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], dice: &mut StdRng) {
    let at = |bytes: &[u8], dice: &mut StdRng| dice.random_range(0..=bytes.len());
    match dice.random_range(0..9) {
        0 => {
            if let Some(byte) = bytes.choose_mut_at(dice) {
                *byte ^= 1 << dice.random_range(0..8);
            }
        }
        1 => {
            if let Some(byte) = bytes.choose_mut_at(dice) {
                *byte = dice.random();
            }
        }
        2 => overwrite(bytes, dice),
        3 => {
            let cut = at(bytes, dice);
            bytes.truncate(cut);
        }
        4 => {
            let (from, to) = (at(bytes, dice), at(bytes, dice));
            bytes.drain(from.min(to)..from.max(to));
        }
        5 => {
            let (from, to, place) = (at(bytes, dice), at(bytes, dice), at(bytes, dice));
            let copy = bytes[from.min(to)..from.max(to)].to_vec();
            bytes.splice(place..place, copy);
        }
        6 => {
            let length = dice.random_range(1..40);
            let new: Vec<u8> = (0..length).map(|_| dice.random()).collect();
            let place = at(bytes, dice);
            bytes.splice(place..place, new);
        }
        7 => {
            let Some(other) = seeds.choose(dice) else {
                return;
            };
            let (keep, from) = (at(bytes, dice), at(other, dice));
            bytes.truncate(keep);
            bytes.extend_from_slice(&other[from..]);
        }
        _ => {
            let value = [0x00, 0xff, b'0', b' '][dice.random_range(0..4)];
            let length = dice.random_range(1..300);
            let place = at(bytes, dice);
            bytes.splice(place..place, std::iter::repeat_n(value, length));
        }
    }
}

/// Puts a number from the edge somewhere, in either byte order and any width.
fn overwrite(bytes: &mut [u8], dice: &mut StdRng) {
    let number = EDGES[dice.random_range(0..EDGES.len())];
    let number = number.wrapping_add_signed(dice.random_range(-2..=2));
    let width = [1, 2, 4, 8][dice.random_range(0..4)];
    let encoded = if dice.random() {
        number.to_be_bytes()[8 - width..].to_vec()
    } else {
        number.to_le_bytes()[..width].to_vec()
    };
    if bytes.len() >= width {
        let place = dice.random_range(0..=bytes.len() - width);
        bytes[place..place + width].copy_from_slice(&encoded);
    }
}

trait ChooseAt {
    fn choose_mut_at(&mut self, dice: &mut StdRng) -> Option<&mut u8>;
}

impl ChooseAt for Vec<u8> {
    fn choose_mut_at(&mut self, dice: &mut StdRng) -> Option<&mut u8> {
        if self.is_empty() {
            return None;
        }
        let place = (dice.next_u64() % self.len() as u64) as usize;
        self.get_mut(place)
    }
}
