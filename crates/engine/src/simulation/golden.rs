//! Promise: a data directory of every form that format version 2 has had can be opened and read by
//! every later version, and so can an export of it. Method: one of each is stored under
//! `tests/fixtures`, with every kind of file. Their documents are known here, and the segments and
//! tables of the newest are written again with the same bytes.

use std::path::PathBuf;
use std::sync::Arc;

use nearprint_fingerprint::{BINS, Distance, Fingerprint, Sketch};
use nearprint_index::compaction::policy::Load;
use nearprint_index::image;
use nearprint_index::plan::Plans;
use nearprint_index::visibility::Visibility;
use nearprint_machine::commands::{
    BeginPurge, EndJob, Insert, InsertPacked, Reason, Remove, RemoveMany, Reset, Step,
};
use nearprint_machine::document::{Document, DocumentId, Expiry, Metadata, Namespace, Sequence};
use nearprint_machine::jobs::{JobState, NamespaceFilter, Purge};
use nearprint_machine::search::nearest;
use nearprint_storage::export::{read_export, write_export};
use nearprint_storage::{Disk, FileKind, RealDisk, SealedReader, SimulatedDisk, StorageError};

use super::rig::{ENTROPY, commit_one, options};
use crate::api::options::{Durability, Options};
use crate::directories::recovery::{Recovered, recover};
use crate::directory_file::DirectoryFile;
use crate::read::reader;
use crate::snapshot::snapshots::Snapshots;
use crate::write::command::Command;
use crate::write::core::Core;

/// Earlier forms, whose segments the start makes anew: the first had four bytes of each sketch, the
/// second tables with slack.
const EARLIER: [&str; 2] = ["directory-v2", "directory-v2-segments-11"];
/// Tables without slack, in blocks.
const IN_BLOCKS: &str = "directory-v2-segments-12";
/// The form of today: the same in pages.
const NEWEST: &str = "directory-v2-pages";

/// Stored together, without ids; the third, the fourth and the seventh were removed.
const BARE: u64 = 40;
const REMOVED: [u64; 3] = [2, 3, 6];
/// With ids: of every five the first was replaced, the second removed.
const NAMED: u64 = 40;
/// In a namespace, with metadata, until the year 2106; the first one was removed by a purge.
const KEPT_APART: u64 = 6;
/// The purge: its begin, its one step, its end.
const CHANGES_OF_PURGE: u64 = 3;
const SEQUENCE: u64 =
    BARE + REMOVED.len() as u64 + NAMED + NAMED / 5 * 2 + KEPT_APART + CHANGES_OF_PURGE;

pub(super) fn settings() -> Options {
    Options { journal_file_bytes: 2_000, ..options(Durability::Always) }
}

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

fn bare(number: u64) -> Fingerprint {
    Fingerprint::new((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn named(number: u64, version: u64) -> Document {
    let mut codes = [0; BINS];
    for (code, bin) in codes.iter_mut().zip(0..) {
        *code = (number + bin) as u8 % 4;
    }
    Document {
        id: Some(DocumentId::new(format!("http://example.org/{number}")).unwrap()),
        sketch: number.is_multiple_of(3).then(|| Box::new(Sketch::from_codes(&codes))),
        short: number.is_multiple_of(7),
        ..Document::bare(bare(1_000 + 100 * number + version))
    }
}

fn apart() -> Namespace {
    Namespace::new("crawl/2026").unwrap()
}

fn kept_apart(number: u64) -> Document {
    Document {
        namespace: Some(apart()),
        expiry: Some(Expiry::MAX),
        metadata: Metadata::new(format!("{{\"number\":{number}}}")),
        ..named(number, 2)
    }
}

fn open(disk: &SimulatedDisk) -> Recovered {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    recover(&disk, &settings(), &ENTROPY).unwrap()
}

fn commit<C: Command>(core: &mut Core, commands: impl IntoIterator<Item = C>) {
    for command in commands {
        commit_one(core, command).unwrap();
    }
    core.seal().unwrap();
}

fn snapshot(core: &mut Core, snapshots: &mut Snapshots) {
    let frozen = core.freeze().unwrap();
    while let Some(work) =
        core.view().next_flush().or_else(|| core.view().next_merge(Load::Writing))
    {
        work.steps().for_each(|built| core.install(&built));
    }
    let parts = core.view().parts_of(&frozen.view);
    snapshots.take(parts, &frozen.jobs, 1_700_000_000_000).unwrap();
}

pub(super) fn sweep(core: &Core, snapshots: &Snapshots) -> Result<(), StorageError> {
    super::sweep::sweep(core, snapshots, 2_000, &mut |_| {})
}

/// The directory as today's code writes it.
pub(super) fn directory_of_today() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let Recovered { mut core, mut snapshots, .. } = open(&disk);
    let insert = Insert::from;
    let packed = (0..BARE).map(bare).collect::<Vec<_>>().into();
    commit(&mut core, [InsertPacked { packed }]);
    commit(&mut core, (0..KEPT_APART).map(|number| insert(kept_apart(number))));
    commit(&mut core, (0..NAMED).map(|number| insert(named(number, 0))));
    snapshot(&mut core, &mut snapshots);
    commit(&mut core, (0..NAMED).step_by(5).map(|number| insert(named(number, 1))));
    let removed = REMOVED.map(|number| Reset { namespace: None, fingerprint: bare(number) });
    commit(&mut core, removed);
    purge(&mut core);
    snapshot(&mut core, &mut snapshots);
    sweep(&core, &snapshots).unwrap();
    let ids = (1..NAMED).step_by(5).map(|number| named(number, 0).id.unwrap());
    commit(&mut core, ids.map(|id| Remove { namespace: None, id }));
    drop(core);
    disk.kill()
}

/// Removes the document that began the namespace.
fn purge(core: &mut Core) {
    let id = kept_apart(0).id.unwrap();
    let purge = Purge {
        reach: NamespaceFilter::Namespace(Some(apart())),
        prefix: Some(id.as_str().into()),
        stored_before_ms: Some(1_700_000_000_001),
        dry_run: false,
    };
    let job = commit_one(core, BeginPurge { purge }).unwrap().number;
    let key = core.machine().namespace_key(Some(&apart())).unwrap();
    let first = core.view().find_id(core.machine().key(Some(&apart()), &id)).unwrap();
    let sequence = first.posting.sequence;
    let step = Step { job, through: Sequence::new(job), matched: 1 };
    let documents = vec![(sequence, first.masked)];
    let (namespace, reason) = (Some(key.key), Reason::Purge(step));
    commit(core, [RemoveMany { namespace, documents, reason }]);
    commit(core, [EndJob { job, state: JobState::Done }]);
}

fn assert_has_everything(disk: &SimulatedDisk) {
    let Recovered { core, .. } = open(disk);
    let (view, records) = (core.view(), core.records());
    assert_eq!(view.sequence(), Sequence::new(SEQUENCE));
    assert_eq!(view.counts().documents, BARE - 3 + NAMED - NAMED / 5 + KEPT_APART - 1);
    for number in 0..KEPT_APART {
        let document = kept_apart(number);
        let key = core.machine().key(Some(&apart()), document.id.as_ref().unwrap());
        let stored = view.find_id(key).map(|l| reader::stored(records, l.posting.sequence));
        let stored = stored.map(|stored| stored.unwrap().document);
        assert_eq!(stored, (number > 0).then_some(document), "{number}");
    }
    let key = core.machine().namespace_key(Some(&apart())).unwrap().key;
    let entry = view.namespaces().get(key).unwrap();
    assert_eq!(entry.documents, KEPT_APART - 1);
    assert_eq!(reader::name(records, entry.named_by).unwrap(), apart());
    for number in 0..BARE {
        let nearest = nearest(view, &[bare(number)], Distance::default(), Visibility::DEFAULT);
        assert_eq!(nearest[0] == 0, !REMOVED.contains(&number), "bare {number}");
    }
    for number in 0..NAMED {
        let document = named(number, u64::from(number % 5 == 0));
        let located = view.find_id(core.machine().key(None, document.id.as_ref().unwrap()));
        let stored = located.map(|l| reader::stored(records, l.posting.sequence).unwrap());
        let expected = (number % 5 != 1).then_some(document);
        assert_eq!(stored.map(|stored| stored.document), expected, "{number}");
    }
}

/// A stored directory, in memory.
fn stored(name: &str) -> SimulatedDisk {
    let stored = RealDisk::open(&fixtures().join(name)).unwrap();
    let disk = SimulatedDisk::new();
    for name in stored.list().unwrap() {
        let file = stored.open(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        disk.edit(&name, |file| *file = bytes);
    }
    disk
}

/// The journal after the older snapshot is not swept, because without the newer snapshot it is
/// replayed.
#[test]
fn a_sweep_leaves_the_older_snapshot_its_journal() {
    let disk = directory_of_today();
    let names = disk.list().unwrap();
    let newest = names.iter().rfind(|name| name.starts_with("snapshot-")).unwrap();
    disk.remove(newest).unwrap();
    assert_eq!(open(&disk).snapshots.list().len(), 1, "the older one is not passed over");
    assert_has_everything(&disk);
}

#[test]
fn a_directory_of_each_form_is_opened_with_and_without_its_snapshots() {
    for (form, snapshots) in
        EARLIER.map(|form| (form, 0)).into_iter().chain([(IN_BLOCKS, 2), (NEWEST, 2)])
    {
        let disk = stored(form);
        assert_eq!(open(&disk.copy()).snapshots.list().len(), snapshots, "{form}");
        is_opened_with_and_without_its_snapshots(&disk);
    }
}

fn is_opened_with_and_without_its_snapshots(disk: &SimulatedDisk) {
    let names = disk.list().unwrap();
    let kinds = ["directory", "journal-", "records-", "snapshot-", "segment-", "table-", "state-"];
    for kind in kinds {
        assert!(names.iter().any(|name| name.starts_with(kind)), "no {kind}: {names:?}");
    }
    assert_has_everything(&disk.copy());
    let jobs = open(&disk.copy()).core.machine().jobs().all().to_vec();
    assert!(matches!(&jobs[..], [job] if job.work.removed == 1 && job.state == JobState::Done));
    for name in names.iter().filter(|name| name.ends_with(".manifest")) {
        disk.remove(name).unwrap();
    }
    assert_has_everything(disk);
}

/// Which segments there are depends on merges. The bytes of a journal, a pack and a manifest's
/// header do not.
#[test]
fn journal_packs_and_directory_of_version_2_are_written_byte_for_byte() {
    let (stored, today) = (stored(NEWEST), directory_of_today());
    let bytes = |disk: &SimulatedDisk, name: &str| {
        let mut bytes = Vec::new();
        disk.edit(name, |file| bytes.clone_from(file));
        bytes
    };
    let mut compared = 0;
    for name in stored.list().unwrap() {
        let of_snapshots = ["segment-", "table-", "snapshot-", "state-"];
        if !of_snapshots.iter().any(|prefix| name.starts_with(prefix)) {
            let same = bytes(&stored, &name) == bytes(&today, &name);
            assert!(same, "{name}: the format has changed: raise its version");
            compared += 1;
        }
    }
    assert!(compared >= 4, "directory, a journal, packs: {compared}");
}

#[test]
fn segments_and_tables_of_the_newest_form_are_written_as_they_were_read() {
    let disk = stored(NEWEST);
    let identity = DirectoryFile::read(&disk).unwrap().unwrap().identity;
    let plans = Plans::of(settings().distance_max);
    let mut compared = [0, 0];
    for name in disk.list().unwrap() {
        let (kind, at) = match name.split('-').next() {
            Some("segment") => (FileKind(12), 0),
            Some("table") => (FileKind(13), 1),
            _ => continue,
        };
        let mut reader = SealedReader::open(&disk, &name, kind, &identity).unwrap();
        let body = reader.read_rest(1 << 20).unwrap();
        let mut again = Vec::new();
        if at == 0 {
            let segment = image::read_segment(&mut &body[..], &plans).unwrap();
            image::write_segment(&segment, &mut again).unwrap();
        } else {
            let table = image::read_table(&mut &body[..], &plans.large).unwrap();
            image::write_table(&table, &mut again).unwrap();
        }
        assert!(body == again, "{name}: the format has changed: give it a new kind");
        compared[at] += 1;
    }
    assert!(compared.iter().all(|&count| count > 0), "{compared:?}");
}

#[test]
fn the_export_of_version_2_is_read_and_restores_the_directory() {
    let stored_export = RealDisk::open(&fixtures().join("storage")).unwrap();
    let file = stored_export.open("export-v2").unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    let restored = SimulatedDisk::new();
    read_export(&mut &bytes[..], Some(&restored)).unwrap();
    assert_has_everything(&restored);
    assert!(export_of(&stored(EARLIER[0])) == bytes, "the format has changed: raise its version");
}

fn export_of(disk: &SimulatedDisk) -> Vec<u8> {
    let identity = DirectoryFile::read(disk).unwrap().unwrap().identity;
    let files = disk.list().unwrap().into_iter().map(|name| {
        let file: Arc<dyn nearprint_storage::DiskFile> = Arc::from(disk.open(&name).unwrap());
        let bytes = file.len().unwrap();
        nearprint_storage::ExportFile { name, file, bytes }
    });
    let mut bytes = Vec::new();
    write_export(&mut bytes, identity, &files.collect::<Vec<_>>()).unwrap();
    bytes
}

/// For a new format version or kind of file: name it in [`NEWEST`], and
/// `cargo test -p nearprint-engine --lib golden -- --ignored` stores what today's code writes.
#[test]
#[ignore = "stores fixtures"]
fn the_directory_of_today_is_stored() {
    let disk = directory_of_today();
    let directory = fixtures().join(NEWEST);
    std::fs::create_dir(&directory).expect("a new version needs a new name");
    for name in disk.list().unwrap() {
        let mut bytes = Vec::new();
        disk.edit(&name, |file| bytes.clone_from(file));
        put(&directory.join(name), &bytes);
    }
}

#[expect(clippy::disallowed_methods, reason = "fixtures are not a data directory")]
fn put(path: &std::path::Path, bytes: &[u8]) {
    assert!(!path.exists(), "fixtures are kept for ever");
    std::fs::write(path, bytes).unwrap();
}
