//! The build stage of the Dockerfile finds every file it needs: its steps are run here, in their
//! order and on the files that `.dockerignore` lets through, in a folder of their own.
//!
//! Two programs are replaced, because the real ones take many minutes and the network: `cargo
//! build` becomes `cargo check`, which reads the same manifests and sources and shares the
//! dependencies of `cargo clippy`; `apt-get` does nothing. `make container-test` builds the real
//! image.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Takes the one command line that the Dockerfile has, and notes that it compiled the sources:
/// those that are older than the build of the dependencies would be passed over.
const CARGO: &str = r#"#!/bin/sh
[ "$*" = 'build --release --locked' ] || { echo "unexpected: cargo $*"; exit 64; }
"$REAL_CARGO" check --locked >"$BUILDS.log" 2>&1 || { cat "$BUILDS.log"; exit 1; }
grep 'Checking nearprint ' "$BUILDS.log" >>"$BUILDS" || { echo 'nothing was compiled'; exit 1; }
"#;

#[test]
fn the_build_stage_finds_every_file_that_it_needs() {
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("container");
    drop(fs::remove_dir_all(&work));
    let context = work.join("context");
    copy_context(Path::new(env!("CARGO_MANIFEST_DIR")), &context);
    let programs = work.join("programs");
    fs::create_dir(&programs).expect("the folder is fresh");
    program(&programs.join("cargo"), CARGO);
    program(&programs.join("apt-get"), "#!/bin/sh\n");
    program(&programs.join("objcopy"), OBJCOPY);

    let mut build = Build { work: work.clone(), context, programs, stages: HashMap::new() };
    build.run(&read("Dockerfile"), "builder");

    let builds = fs::read_to_string(work.join("builds")).expect("cargo was run");
    assert_eq!(builds.lines().count(), 2, "once for the dependencies, once for the program");
    // Cargo takes what it has checked here for the sources of this checkout, as long as the files
    // that it has read are unchanged.
    fs::remove_dir_all(&work).expect("nothing else is in the folder");
}

/// Stands in for `objcopy`: it creates the output, its last argument. The stand-in for cargo only
/// checks the program, so there is none to strip.
const OBJCOPY: &str = "\
#!/bin/sh
for output; do :; done
mkdir -p \"$(dirname \"$output\")\" && : > \"$output\"
";

/// A stage: the folder that stands for its root, and where in it commands run.
#[derive(Clone)]
struct Stage {
    root: PathBuf,
    directory: PathBuf,
}

struct Build {
    work: PathBuf,
    context: PathBuf,
    programs: PathBuf,
    stages: HashMap<String, Stage>,
}

impl Build {
    /// Runs the stages up to and including `last`. Those that this one does not need are skipped,
    /// as they change users and volumes.
    fn run(&mut self, dockerfile: &str, last: &str) {
        let mut current = None;
        for instruction in instructions(dockerfile) {
            let (name, rest) =
                instruction.split_once(char::is_whitespace).unwrap_or((&instruction, ""));
            let words: Vec<&str> = rest.split_whitespace().collect();
            if name == "FROM" {
                if current.as_deref() == Some(last) {
                    return;
                }
                current = self.begin(&words);
            } else if let Some(stage) = &current {
                let stage = self.stages.get_mut(stage).expect("it has begun");
                match name {
                    "WORKDIR" => {
                        stage.directory = stage.root.join(rest.trim_start_matches('/'));
                        fs::create_dir_all(&stage.directory).expect("the disk has space");
                    }
                    "COPY" => {
                        let stage = stage.clone();
                        self.copy(&stage, &words);
                    }
                    "RUN" => {
                        let stage = stage.clone();
                        self.shell(&stage, rest);
                    }
                    _ => panic!("teach this test the instruction {instruction}"),
                }
            }
        }
        assert_eq!(current.as_deref(), Some(last), "the Dockerfile has this stage");
    }

    /// Begins a stage of the toolchain; `None` for those of the final image.
    fn begin(&mut self, words: &[&str]) -> Option<String> {
        let [from, "AS", name] = words else { return None };
        let root = self.work.join(name);
        let stage = match self.stages.get(*from) {
            Some(base) => {
                copy(&base.root, &root);
                let directory = base.directory.strip_prefix(&base.root).expect("it is below");
                Stage { directory: root.join(directory), root }
            }
            None if *from == "${RUST_IMAGE}" => {
                fs::create_dir(&root).expect("the folder is fresh");
                Stage { directory: root.clone(), root }
            }
            None => return None,
        };
        self.stages.insert((*name).to_owned(), stage);
        Some((*name).to_owned())
    }

    /// `COPY [--from=STAGE] SOURCE... DESTINATION`.
    fn copy(&self, stage: &Stage, words: &[&str]) {
        let (from, words) = match words[0].strip_prefix("--from=") {
            Some(from) => (&self.stages[from].root, &words[1..]),
            None => (&self.context, words),
        };
        let (destination, sources) = words.split_last().expect("a destination");
        for source in sources {
            copy(&from.join(source.trim_start_matches('/')), &stage.directory.join(destination));
        }
    }

    fn shell(&self, stage: &Stage, script: &str) {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let path = std::env::var("PATH").expect("there is a PATH");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in target/");
        let output = Command::new("sh")
            .args(["-c", script])
            .current_dir(&stage.directory)
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env("REAL_CARGO", cargo)
            .env("BUILDS", self.work.join("builds"))
            .env("CARGO_TARGET_DIR", target)
            .output()
            .expect("there is a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "RUN {script}\n{out}{said}");
    }
}

/// The instructions of a Dockerfile, one a line.
fn instructions(dockerfile: &str) -> Vec<String> {
    let lines = dockerfile.lines().filter(|line| !line.trim_start().starts_with('#'));
    let text = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Copies what the build may see of the project: what `.dockerignore` does not exclude.
fn copy_context(project: &Path, context: &Path) {
    let rules = read(".dockerignore");
    let rules: Vec<&str> = rules.lines().filter(|line| !line.starts_with('#')).collect();
    let is_seen = |path: &Path| {
        let path = path.strip_prefix(project).expect("it is below");
        // The last rule that matches the path or a folder above it decides.
        rules.iter().fold(true, |seen, rule| {
            let (rule, include) =
                rule.strip_prefix('!').map_or((*rule, false), |rule| (rule, true));
            let matches = path.ancestors().any(|path| is_match(rule, path));
            if matches { include } else { seen }
        })
    };
    let files = walkdir::WalkDir::new(project)
        .into_iter()
        .filter_entry(|entry| ![".git", "target"].contains(&&*entry.file_name().to_string_lossy()));
    for file in files {
        let file = file.expect("the project can be read");
        if file.file_type().is_file() && is_seen(file.path()) {
            let path = context.join(file.path().strip_prefix(project).expect("it is below"));
            fs::create_dir_all(path.parent().expect("it is in a folder"))
                .expect("the disk has space");
            fs::copy(file.path(), path).expect("the disk has space");
        }
    }
}

/// Whether a rule of `.dockerignore` matches this very path: `*` at the end of a name stands for
/// any rest of it, a leading `**/` for any folders.
fn is_match(rule: &str, path: &Path) -> bool {
    if let Some(name) = rule.strip_prefix("**/") {
        return path.file_name().is_some_and(|found| found == name);
    }
    let path = path.to_str().expect("names of the project are UTF-8");
    match rule.strip_suffix('*') {
        Some(start) => !path.is_empty() && !path.contains('/') && path.starts_with(start),
        None => path == rule,
    }
}

/// Copies a file, or the content of a folder, as `COPY` does.
fn copy(source: &Path, destination: &Path) {
    fs::create_dir_all(destination).expect("the disk has space");
    let source = if source.is_dir() { source.join(".") } else { source.to_owned() };
    let status = Command::new("cp").arg("-a").arg(&source).arg(destination).status();
    assert!(status.is_ok_and(|status| status.success()), "COPY {}", source.display());
}

fn program(path: &Path, script: &str) {
    fs::write(path, script).expect("the disk has space");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
}

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(path).expect("it is part of the project")
}
