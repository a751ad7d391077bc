//! How much memory this process may take: what the machine has, or the smallest limit of the
//! control groups that the process is in, which is how containers are limited.

use std::fs;
use std::path::Path;

use procfs::{Current as _, Meminfo};

/// Where version 1 of control groups has the controller of memory, and the file with its limit.
const VERSION_1: (&str, &[&str]) = ("sys/fs/cgroup/memory", &["memory.limit_in_bytes"]);

/// Where version 2 has all controllers, and the files with the limits of memory: above the first
/// the kernel kills the process, and above the second it slows it down until it is of no use.
const VERSION_2: (&str, &[&str]) = ("sys/fs/cgroup", &["memory.max", "memory.high"]);

/// The memory of the machine, or of the container if that is less; `None` if the kernel does not
/// say.
pub(crate) fn total() -> Option<u64> {
    Some(limited(Meminfo::current().ok()?.mem_total))
}

/// The bytes that programs may still take on this machine, or the memory of the container if that
/// is less; `None` if the kernel does not say.
pub(crate) fn available() -> Option<u64> {
    Some(limited(Meminfo::current().ok()?.mem_available?))
}

fn limited(bytes: u64) -> u64 {
    smallest_limit(Path::new("/")).map_or(bytes, |limit| limit.min(bytes))
}

/// The smallest limit of the groups of this process and of those that they are in.
///
/// The path of a group begins at the root of the machine, and a container may see a part of it
/// only. So a folder that is not there has no limit, and the last one looked at is the root that is
/// seen.
fn smallest_limit(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap_or_default(), fields.next());
        let version = match controllers {
            "" => Some(VERSION_2),
            some if some.split(',').any(|one| one == "memory") => Some(VERSION_1),
            _ => None,
        };
        version.zip(path).into_iter().flat_map(|((mount, files), path)| {
            let mount = root.join(mount);
            let folders = Path::new(path.trim_start_matches('/')).ancestors();
            let folders = folders.map(move |folder| mount.join(folder));
            folders.flat_map(|folder| files.iter().map(move |file| folder.join(file)))
        })
    });
    // Without a limit the second version has `max`, and the first a number that is no memory.
    limits.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMIT: &str = "9223372036854771712\n";

    /// The limit that a process with these groups finds where these files are.
    fn limit(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [&[("proc/self/cgroup", groups)], files].concat() {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            #[expect(clippy::disallowed_methods, reason = "a file of a test")]
            fs::write(path, text).unwrap();
        }
        smallest_limit(root.path())
    }

    #[test]
    fn some_memory_is_available_of_more() {
        assert!(available().unwrap() > 1 << 20);
        assert!(total() >= available());
    }

    #[test]
    fn in_version_2_the_smallest_limit_on_the_path_counts() {
        let groups = "0::/kubepods/pod7/main\n";
        let root = "sys/fs/cgroup";
        let files = |pod, max, high| {
            [
                (format!("{root}/kubepods/memory.max"), "4096000"),
                (format!("{root}/kubepods/pod7/memory.max"), pod),
                (format!("{root}/kubepods/pod7/main/memory.max"), max),
                (format!("{root}/kubepods/pod7/main/memory.high"), high),
                (format!("{root}/other/memory.max"), "1"),
            ]
        };
        for (pod, max, high, expected) in [
            ("max\n", "max\n", "max\n", 4_096_000),
            ("2048000\n", "max\n", "max\n", 2_048_000),
            ("2048000\n", "1024000\n", "max\n", 1_024_000),
            ("2048000\n", "1024000\n", "512000\n", 512_000),
        ] {
            let files = files(pod, max, high);
            let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
            assert_eq!(limit(groups, &files), Some(expected));
        }
    }

    #[test]
    fn in_version_1_the_group_of_the_controller_of_memory_counts() {
        let groups = "5:devices:/d\n4:cpu,memory:/a/b\n1:name=systemd:/s\n0::/u\n";
        let root = "sys/fs/cgroup/memory";
        let (a, b) = (
            format!("{root}/a/memory.limit_in_bytes"),
            format!("{root}/a/b/memory.limit_in_bytes"),
        );
        let top = format!("{root}/memory.limit_in_bytes");
        let limit = |of_a, of_b| limit(groups, &[(&a, of_a), (&b, of_b), (&top, NO_LIMIT)]);
        assert_eq!(limit(NO_LIMIT, "1024000\n"), Some(1_024_000));
        assert_eq!(limit("512000\n", "1024000\n"), Some(512_000));
    }

    /// Without a namespace of its own for groups, its path is that on the machine, and its folder
    /// is the root.
    #[test]
    fn a_container_that_sees_a_part_of_the_groups_finds_its_limit() {
        let files = [("sys/fs/cgroup/memory/memory.limit_in_bytes", "1024000\n")];
        assert_eq!(limit("4:memory:/docker/0123abcd\n", &files), Some(1_024_000));
        let files = [("sys/fs/cgroup/memory.max", "1024000\n")];
        assert_eq!(limit("0::/\n", &files), Some(1_024_000));
        assert_eq!(limit("0::/../../docker/0123\n", &files), Some(1_024_000));
    }

    #[test]
    fn without_groups_there_is_no_limit() {
        assert_eq!(limit("", &[]), None);
        assert_eq!(limit("0::/a\n", &[("sys/fs/cgroup/a/memory.max", "max\n")]), None);
        assert_eq!(limit("nonsense\n3:memory\n", &[]), None);
    }
}
