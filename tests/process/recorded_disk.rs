//! A folder on a disk to which recorded calls were made, and what a power cut can leave of it.
//!
//! Until a sync of a file that began after a change has ended, a power cut may lose the change,
//! keep it or tear it, in any order. Of creations, renames and removals it keeps a beginning, which
//! ends anywhere after those that a sync of their folder has made durable.

use std::collections::{BTreeMap, HashMap};

use crate::record::{Call, Step};

#[path = "../../crates/storage/src/simulated/contents.rs"]
#[expect(dead_code, reason = "the simulated disk uses more of it")]
mod contents;
#[path = "../../crates/storage/src/simulated/dice.rs"]
#[expect(dead_code, unreachable_pub, reason = "the simulated disk uses more of it")]
mod dice;

use contents::{Change, Contents, CrashMode};
use dice::Dice;

/// What is under a name.
#[derive(Debug, Clone, Copy)]
enum Node {
    Folder,
    /// With its number.
    File(usize),
}

type Names = BTreeMap<String, Node>;

/// The bytes of each file; a folder has none.
pub(crate) type Image = BTreeMap<String, Option<Vec<u8>>>;

struct NameChange {
    /// The event that began it.
    begin: usize,
    has_ended: bool,
    from: Option<String>,
    to: Option<(String, Node)>,
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        if let Some(from) = &self.from {
            names.remove(from);
        }
        if let Some((to, node)) = &self.to {
            names.insert(to.clone(), *node);
        }
    }

    fn is_in(&self, folder: &str) -> bool {
        let name = self.from.as_ref().or(self.to.as_ref().map(|(name, _)| name));
        name.is_some_and(|name| name.rsplit_once('/').map_or("", |(above, _)| above) == folder)
    }
}

#[derive(Default)]
struct File {
    contents: Contents,
    /// Changes that are durable, of all that were made.
    settled: usize,
    /// Calls that have begun to change it.
    changing: usize,
}

/// A call that has begun.
enum Begun {
    Name,
    Change(usize),
    /// A sync of a file, and how many of its changes it covers.
    Sync(usize, usize),
    /// A sync of a folder, and the name changes that it covers.
    SyncFolder(Vec<usize>),
}

#[derive(Default)]
pub(crate) struct RecordedDisk {
    files: Vec<File>,
    durable_names: Names,
    /// Since then, in order.
    changes: Vec<NameChange>,
    begun: HashMap<usize, Begun>,
}

impl RecordedDisk {
    /// With what is there before the first call, all of it durable.
    pub(crate) fn new(image: &Image) -> Self {
        let mut disk = Self::default();
        for (name, bytes) in image {
            let node = match bytes {
                Some(bytes) => disk.create(bytes),
                None => Node::Folder,
            };
            disk.durable_names.insert(name.clone(), node);
        }
        disk
    }

    fn create(&mut self, bytes: &[u8]) -> Node {
        let (bytes, durable) = (bytes.to_vec(), bytes.to_vec());
        let contents = Contents { bytes, durable, ..Contents::default() };
        self.files.push(File { contents, ..File::default() });
        Node::File(self.files.len() - 1)
    }

    fn names(&self) -> Names {
        let mut names = self.durable_names.clone();
        self.changes.iter().for_each(|change| change.apply(&mut names));
        names
    }

    /// Applies the event of this number.
    pub(crate) fn apply(&mut self, number: usize, step: &Step) {
        match step {
            Step::Begin(call) => {
                let begun = self.begin(number, call);
                self.begun.insert(number, begun);
            }
            Step::End(begin, done) => {
                let begun = self.begun.remove(begin).expect("it has begun");
                self.end(*begin, &begun, *done);
            }
        }
    }

    fn begin(&mut self, begin: usize, call: &Call) -> Begun {
        let names = self.names();
        let node = |name: &String| names.get(name).copied();
        let (from, to) = match call {
            Call::Create(name) if node(name).is_some() => (None, None),
            Call::Create(name) => (None, Some((name.clone(), self.create(&[])))),
            Call::CreateFolder(name) => (None, Some((name.clone(), Node::Folder))),
            Call::Rename(from, to) => {
                (Some(from.clone()), node(from).map(|node| (to.clone(), node)))
            }
            Call::Remove(name) => (Some(name.clone()), None),
            Call::Write(name, offset, bytes) => {
                return self.change(node(name), Change::Write(*offset, bytes.clone()));
            }
            Call::Truncate(name, length) => {
                return self.change(node(name), Change::Truncate(*length));
            }
            Call::Sync(name) => return self.sync(name, node(name)),
        };
        self.changes.push(NameChange { begin, has_ended: false, from, to });
        Begun::Name
    }

    fn change(&mut self, node: Option<Node>, change: Change) -> Begun {
        let Some(Node::File(number)) = node else { panic!("a file is open that has no name") };
        let file = &mut self.files[number];
        file.contents.change(change);
        file.changing += 1;
        Begun::Change(number)
    }

    fn sync(&self, name: &str, node: Option<Node>) -> Begun {
        if let Some(Node::File(number)) = node {
            let file = &self.files[number];
            // One thread at a time changes a file, so what has not ended is at the end.
            let ended = file.settled + file.contents.unsynced.len() - file.changing;
            return Begun::Sync(number, ended);
        }
        let covered = self.changes.iter().filter(|change| change.has_ended && change.is_in(name));
        Begun::SyncFolder(covered.map(|change| change.begin).collect())
    }

    fn end(&mut self, begin: usize, begun: &Begun, done: bool) {
        match begun {
            Begun::Name if done => {
                let ended = self.changes.iter_mut().filter(|change| change.begin == begin);
                ended.for_each(|change| change.has_ended = true);
            }
            Begun::Name => self.changes.retain(|change| change.begin != begin),
            Begun::Change(number) => {
                let file = &mut self.files[*number];
                file.changing -= 1;
                if !done {
                    let Contents { bytes, durable, unsynced, .. } = &mut file.contents;
                    unsynced.pop();
                    bytes.clone_from(durable);
                    for change in unsynced {
                        change.apply(bytes);
                    }
                }
            }
            // A sync that fails, or lies, makes nothing durable.
            Begun::Sync(..) | Begun::SyncFolder(_) if !done => {}
            Begun::Sync(number, covered) => {
                let file = &mut self.files[*number];
                let settled = covered.saturating_sub(file.settled);
                file.contents.settle_first(settled);
                file.settled += settled;
            }
            Begun::SyncFolder(covered) => {
                let names = &mut self.durable_names;
                self.changes.retain(|change| {
                    let is_covered = covered.contains(&change.begin);
                    if is_covered {
                        change.apply(names);
                    }
                    !is_covered
                });
            }
        }
    }

    /// The calls that a kill has interrupted, each with whether it was done after all, as the
    /// folder that is left shows.
    pub(crate) fn interrupted(&self, left: &Image) -> Vec<(usize, bool)> {
        let calls =
            self.begun.iter().map(|(begin, begun)| (*begin, self.was_done(*begin, begun, left)));
        let mut calls: Vec<_> = calls.collect();
        calls.sort_unstable();
        calls
    }

    fn was_done(&self, begin: usize, begun: &Begun, left: &Image) -> bool {
        match begun {
            Begun::Name => {
                self.changes.iter().filter(|change| change.begin == begin).any(|change| {
                    let is_gone = change.from.as_ref().is_none_or(|from| !left.contains_key(from));
                    is_gone && change.to.as_ref().is_none_or(|(to, _)| left.contains_key(to))
                })
            }
            Begun::Change(number) => {
                let bytes = &self.files[*number].contents.bytes;
                self.names().iter().any(|(name, node)| {
                    matches!(node, Node::File(other) if other == number)
                        && left.get(name).and_then(Option::as_ref) == Some(bytes)
                })
            }
            Begun::Sync(..) | Begun::SyncFolder(_) => false,
        }
    }

    /// Everything that was done.
    pub(crate) fn image(&self) -> Image {
        self.image_of(&self.names(), |file| file.contents.bytes.clone())
    }

    /// What a power cut leaves; its seed decides what is lost, kept and torn.
    pub(crate) fn after_power_cut(&self, seed: u64) -> Image {
        let mut dice = Dice::new(seed);
        let mode = CrashMode::roll(&mut dice);
        let mut names = self.durable_names.clone();
        let kept = mode.kept(self.changes.len(), &mut dice);
        self.changes[..kept].iter().for_each(|change| change.apply(&mut names));
        self.image_of(&names, |file| file.contents.after_power_cut(mode, &mut dice))
    }

    fn image_of(&self, names: &Names, mut bytes: impl FnMut(&File) -> Vec<u8>) -> Image {
        let image = names.iter().map(|(name, node)| match node {
            Node::Folder => (name.clone(), None),
            Node::File(number) => (name.clone(), Some(bytes(&self.files[*number]))),
        });
        image.collect()
    }
}
