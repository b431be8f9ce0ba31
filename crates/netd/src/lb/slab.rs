//! Connections by number, with numbers that are not mistaken for their predecessors'.

/// Which connection, and which one of those that ever had its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    pub at: u32,
    generation: u32,
}

#[derive(Debug)]
pub struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

/// Leaves room in a token for a side and a mark.
const GENERATIONS: u32 = (1 << 30) - 1;

impl Key {
    pub fn token(self, side: bool) -> u64 {
        u64::from(self.generation) << 33 | u64::from(self.at) << 1 | u64::from(side)
    }

    pub fn from_token(token: u64) -> (Self, bool) {
        let key = Self {
            at: (token >> 1) as u32,
            generation: (token >> 33) as u32 & GENERATIONS,
        };
        (key, token & 1 == 1)
    }
}

impl<T> Slab<T> {
    pub fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    pub fn insert(&mut self, value: T) -> Key {
        let at = if let Some(at) = self.free.pop() {
            self.places[at as usize].1 = Some(value);
            at
        } else {
            self.places.push((0, Some(value)));
            (self.places.len() - 1) as u32
        };
        let generation = self.places[at as usize].0;
        Key { at, generation }
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let (generation, value) = self.places.get_mut(key.at as usize)?;
        value.as_mut().filter(|_| *generation == key.generation)
    }

    pub fn remove(&mut self, key: Key) -> Option<T> {
        let (generation, value) = self.places.get_mut(key.at as usize)?;
        if *generation != key.generation {
            return None;
        }
        let value = value.take()?;
        *generation = (*generation + 1) & GENERATIONS;
        self.free.push(key.at);
        Some(value)
    }

    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.places.iter().enumerate().filter_map(|(at, place)| {
            let key = Key {
                at: at as u32,
                generation: place.0,
            };
            place.1.as_ref().map(|value| (key, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_used_again_has_another_key() {
        let mut slab = Slab::new();
        let first = slab.insert('a');
        assert_eq!(Key::from_token(first.token(true)), (first, true));
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b');
        assert_eq!(first.at, second.at);
        assert!(slab.get_mut(first).is_none() && slab.remove(first).is_none());
        assert_eq!(Key::from_token(second.token(false)), (second, false));
        assert_eq!((slab.len(), slab.iter().count()), (1, 1));
    }
}
