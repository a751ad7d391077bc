//! The sparse index of one journal file.
