//! What a view takes, in memory and in files.

use super::View;

impl View {
    /// Whether any segment or secondary table is in files, so that what asks the view may wait for
    /// the disk, and end by [`unwinding`](crate::memory::file).
    pub fn is_in_files(&self) -> bool {
        self.in_files
    }

    /// Looks whether anything is in files.
    pub(super) fn notice_files(&mut self) {
        self.in_files = self.file_bytes() > 0;
    }

    /// Memory of segments and secondary tables, in bytes.
    pub fn settled_bytes(&self) -> u64 {
        let segments: u64 = self.segments.iter().map(|segment| segment.bytes().total()).sum();
        segments + self.secondary_tables_bytes()
    }

    /// The bytes of segments and secondary tables, in memory and in files.
    pub fn index_bytes(&self) -> u64 {
        self.settled_bytes() + self.file_bytes()
    }

    /// The bytes of segments and secondary tables in files.
    pub fn file_bytes(&self) -> u64 {
        let segments: u64 = self.segments.iter().map(|segment| segment.file_bytes()).sum();
        let tables = self.secondary_tables.iter().map(|other| other.table.file_bytes());
        segments + tables.sum::<u64>()
    }

    /// The bytes of those in temporary files, which are in no snapshot yet.
    pub fn temporary_bytes(&self) -> u64 {
        let segments = self.segments.iter().filter(|segment| segment.is_temporary());
        let tables = self.secondary_tables.iter().map(|other| &other.table);
        segments.map(|segment| segment.file_bytes()).sum::<u64>()
            + tables.filter(|t| t.is_temporary()).map(|t| t.file_bytes()).sum::<u64>()
    }

    /// Whether segments and tables take more memory than they may.
    pub(super) fn exceeds_memory(&self) -> bool {
        self.memory_bytes_max > 0 && self.settled_bytes() > self.memory_bytes_max
    }

    /// Memory of the secondary tables, in bytes.
    pub fn secondary_tables_bytes(&self) -> u64 {
        self.secondary_tables.iter().map(|other| other.table.bytes() as u64).sum()
    }

    /// Memory of the deltas, in bytes.
    pub fn delta_bytes(&self) -> u64 {
        self.deltas.iter().map(|delta| delta.bytes() as u64).sum()
    }
}
