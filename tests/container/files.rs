//! The files that run the service in containers: their configuration is one that the service
//! accepts, and the files that they name exist.
//!
//! `tools/test` installs a Python that reads YAML and names it in `NEARPRINT_TEST_PYTHON`, and
//! names the server of the log in `NEARPRINT_TEST_NATS_SERVER`. Without them the tests skip
//! themselves, unless `NEARPRINT_TEST_PROGRAMS` is `required`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Prints all documents of a YAML file as one JSON list.
const YAML: &str = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";

/// A line of a tokens file.
const TOKEN: &str =
    "me read,write,admin sha256:0000000000000000000000000000000000000000000000000000000000000000\n";

/// The program that a variable names.
#[expect(clippy::print_stdout, reason = "why a test did nothing")]
fn program(variable: &str) -> Option<Command> {
    let named = std::env::var_os(variable);
    if named.is_none() {
        let is_required =
            std::env::var_os("NEARPRINT_TEST_PROGRAMS").is_some_and(|is| is == "required");
        assert!(!is_required, "{variable} is not set");
        println!("skipped: {variable} is not set; next: run the tests with tools/test");
    }
    named.map(Command::new)
}

/// The documents of a YAML file of the project; `None` without a program that reads it.
fn documents(name: &str) -> Option<Vec<Value>> {
    let mut python = program("NEARPRINT_TEST_PYTHON")?;
    let file = fs::File::open(root().join(name)).expect("it is part of the project");
    let output = python.args(["-c", YAML]).stdin(file).output().expect("Python runs");
    Some(serde_json::from_slice(succeeded(&output)).expect("Python writes JSON"))
}

fn succeeded(output: &Output) -> &[u8] {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    &output.stdout
}

/// The files of the containers, on this machine: `at` is where the containers have them.
struct Secrets {
    folder: TempDir,
    at: &'static str,
}

impl Secrets {
    fn new(at: &'static str) -> Self {
        let folder = TempDir::new().expect("the disk has space");
        fs::write(folder.path().join("tokens"), TOKEN).expect("the disk has space");
        Self { folder, at }
    }

    fn found_here(&self, text: &str) -> String {
        text.replace(self.at, &self.folder.path().to_string_lossy())
    }

    /// What the service says of a configuration.
    fn check(&self, file: Option<&str>, variables: &[(String, String)]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"));
        command.arg("check-config").env("NEARPRINT_SERVER__LISTEN", "0.0.0.0:7878");
        if let Some(text) = file {
            let path = self.folder.path().join("nearprint.toml");
            fs::write(&path, self.found_here(text)).expect("the disk has space");
            command.arg("--config").arg(path);
        }
        let variables = variables.iter().map(|(name, value)| (name, self.found_here(value)));
        let output = command.envs(variables).output().expect("the program runs");
        String::from_utf8_lossy(succeeded(&output)).into_owned()
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The variables of a service of compose.
fn variables(service: &Value) -> Vec<(String, String)> {
    let environment = service["environment"].as_object().expect("it has variables");
    let text = |value: &Value| value.as_str().expect("a variable is text").to_owned();
    environment.iter().map(|(name, value)| (name.clone(), text(value))).collect()
}

#[test]
fn the_service_accepts_the_variables_of_compose() {
    let secrets = Secrets::new("/run/secrets");
    let expected = [("docker/compose.yaml", 1), ("docker/compose-cluster.yaml", 4)];
    for (name, expected) in expected {
        let Some(documents) = documents(name) else { return };
        let services = documents[0]["services"].as_object().expect("compose has services");
        // The service that makes a token has no configuration.
        let ours = services.values().filter(|service| {
            service["image"] == "nearprint:0.1.0" && service["environment"].is_object()
        });
        let checked: Vec<_> = ours
            .map(|service| secrets.check(None, &variables(service)))
            .inspect(|said| assert!(said.contains("[cluster]"), "{said}"))
            .collect();
        assert_eq!(checked.len(), expected, "services of {name}");
    }
}

#[test]
fn compose_names_files_and_volumes_that_exist() {
    for (name, expected) in [("docker/compose.yaml", 7), ("docker/compose-cluster.yaml", 10)] {
        let Some(documents) = documents(name) else { return };
        let services = documents[0]["services"].as_object().expect("compose has services");
        let mounted = services.values().filter_map(|service| service["volumes"].as_array());
        let mounts = mounted.flatten().map(|mount| mount.as_str().expect("a mount is text"));
        let mounts: Vec<_> = mounts.collect();
        assert_eq!(mounts.len(), expected, "{mounts:?}");
        for mount in mounts {
            let (source, _) = mount.split_once(':').expect("a source and a target");
            let is_there = if source.starts_with('.') {
                root().join("docker").join(source).exists()
            } else {
                documents[0]["volumes"].get(source).is_some()
            };
            assert!(is_there, "{source}");
        }
        let waited_for = services.values().filter_map(|service| service["depends_on"].as_object());
        for name in waited_for.flat_map(serde_json::Map::keys) {
            assert!(services.contains_key(name), "{name}");
        }
    }
}

/// What the service says of the configuration of a manifest, in the pod of this name.
fn check_manifest(name: &str, pod: &str) -> Option<String> {
    let documents = documents(name)?;
    let of_kind = |kind| documents.iter().find(|found| found["kind"] == kind).expect("it is there");
    let files = &of_kind("ConfigMap")["data"];
    let spec = &of_kind("StatefulSet")["spec"]["template"]["spec"];
    let [container] = spec["containers"].as_array().expect("a list").as_slice() else {
        panic!("the pod has one container");
    };
    let variables = container["env"].as_array().into_iter().flatten().filter_map(|variable| {
        let value = variable["value"].as_str()?.replace("$(POD_NAME)", pod);
        Some((variable["name"].as_str()?.to_owned(), value))
    });
    let variables: Vec<_> = variables.collect();
    let file = files["nearprint.toml"].as_str().expect("a file");
    Some(Secrets::new("/run/secrets/nearprint").check(Some(file), &variables))
}

#[test]
fn the_service_accepts_the_configuration_of_each_manifest() {
    let Some(said) = check_manifest("docker/kubernetes/cluster.yaml", "nearprint-2") else {
        return;
    };
    let own = "http://nearprint-2.nearprint-nodes:7878";
    assert!(said.contains(&format!("address = \"{own}\"")), "{said}");
    assert!(said.contains(&format!("\"{own}\"]")), "the last of the seeds: {said}");
    let alone = check_manifest("docker/kubernetes/service.yaml", "nearprint-0").expect("as before");
    assert!(alone.contains("[follow]\nurl = \"\""), "{alone}");
    let follower = check_manifest("docker/kubernetes/follower.yaml", "nearprint-follower-0");
    let follower = follower.expect("as before");
    assert!(follower.contains("[follow]\nurl = \"http://nearprint:7878\""), "{follower}");
}

/// The image has no shell, so nothing of ours may start one.
#[test]
fn no_container_of_the_image_starts_a_shell() {
    for name in ["docker/compose.yaml", "docker/compose-cluster.yaml"] {
        let Some(documents) = documents(name) else { return };
        let services = documents[0]["services"].as_object().expect("compose has services");
        for service in services.values().filter(|service| service["image"] == "nearprint:0.1.0") {
            let program = service["entrypoint"].get(0).or(service["command"].get(0));
            let is_ours = ["nearprint", "cluster", "null"];
            let program = program.map_or("null", |it| it.as_str().expect("a word"));
            assert!(is_ours.contains(&program), "{name}: {service}");
        }
    }
    for name in ["cluster", "service", "follower"] {
        let name = format!("docker/kubernetes/{name}.yaml");
        let Some(documents) = documents(&name) else { return };
        let set = documents.iter().find(|found| found["kind"] == "StatefulSet").expect("one");
        let spec = &set["spec"]["template"]["spec"];
        let lists = [&spec["containers"], &spec["initContainers"]];
        for container in lists.into_iter().filter_map(Value::as_array).flatten() {
            assert!(container["command"].is_null(), "{name}: {container}");
        }
    }
}

#[test]
fn the_server_of_the_log_accepts_its_configuration() {
    let Some(mut server) = program("NEARPRINT_TEST_NATS_SERVER") else { return };
    server.args(["-t", "--config"]).arg(root().join("docker/log.conf"));
    succeeded(&server.env("SERVER_NAME", "log-1").output().expect("it runs"));
}

#[test]
fn every_package_has_the_version_of_the_program() {
    let version = env!("CARGO_PKG_VERSION");
    let expected = [
        ("python/Cargo.toml", format!("\nversion = \"{version}\"\n")),
        ("javascript/package.json", format!("\"version\": \"{version}\"")),
        ("packaging/debian/changelog", format!("nearprint ({version}-")),
        ("Dockerfile", format!("ARG VERSION={version}\n")),
        ("docker/compose.yaml", format!("image: nearprint:{version}\n")),
        ("docker/compose-cluster.yaml", format!("image: nearprint:{version}\n")),
        ("docker/kubernetes/service.yaml", format!("image: nearprint:{version}\n")),
        ("docker/kubernetes/follower.yaml", format!("image: nearprint:{version}\n")),
        ("docker/kubernetes/cluster.yaml", format!("image: nearprint:{version}\n")),
    ];
    for (name, part) in expected {
        let text = fs::read_to_string(root().join(name)).expect("it is part of the project");
        assert!(text.contains(&part), "{name} is not that of {version}");
    }
}

/// The Debian package: its configuration is one that the service accepts, and the unit starts the
/// program with it.
#[test]
fn the_service_accepts_the_configuration_of_the_debian_package() {
    let read = |name| fs::read_to_string(root().join("packaging").join(name)).expect("a file");
    let configuration = read("nearprint.toml");
    let check = |text: &str| {
        let folder = TempDir::new().expect("the disk has space");
        let tokens = folder.path().join("tokens");
        fs::write(&tokens, format!("{}{TOKEN}", read("tokens"))).expect("the disk has space");
        let path = folder.path().join("nearprint.toml");
        let credentials = "/run/credentials/nearprint.service/tokens";
        let text = text.replace(credentials, &tokens.to_string_lossy());
        fs::write(&path, text).expect("the disk has space");
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"));
        let output = command.arg("check-config").arg("--config").arg(path).output();
        let output = output.expect("the program runs");
        String::from_utf8_lossy(succeeded(&output)).into_owned()
    };
    let said = check(&configuration);
    assert!(said.contains("listen = \"127.0.0.1:7878\""), "{said}");
    assert!(said.contains("directory = \"/var/lib/nearprint\""), "{said}");
    // What it suggests for other machines, without the signs of comments.
    let lines = configuration.lines();
    let suggested: Vec<_> = lines.map(|it| it.strip_prefix('#').unwrap_or(it)).collect();
    let at = suggested.iter().position(|line| *line == "[server]").expect("it suggests an address");
    let before: Vec<_> = configuration.lines().take(at).collect();
    let said = check(&[before, suggested[at..].to_vec()].concat().join("\n"));
    assert!(said.contains("listen = \"0.0.0.0:7878\""), "{said}");

    let unit = read("debian/nearprint.service");
    let has = |line: &str| assert!(unit.lines().any(|it| it == line), "{line}");
    has("ExecStart=/usr/bin/nearprint serve --config /etc/nearprint/nearprint.toml");
    has("LoadCredential=tokens:/etc/nearprint/tokens");
    has("Type=notify");
    has("DynamicUser=yes");
    has("StateDirectory=nearprint");
}
