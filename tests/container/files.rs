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
        let ours = services.values().filter(|service| service["image"] == "nearprint:0.1.0");
        let checked: Vec<_> = ours
            .map(|service| secrets.check(None, &variables(service)))
            .inspect(|said| assert!(said.contains("[cluster]"), "{said}"))
            .collect();
        assert_eq!(checked.len(), expected, "services of {name}");
    }
}

#[test]
fn compose_names_files_and_volumes_that_exist() {
    let Some(documents) = documents("docker/compose-cluster.yaml") else { return };
    let services = documents[0]["services"].as_object().expect("compose has services");
    let mounted = services.values().filter_map(|service| service["volumes"].as_array());
    for mount in mounted.flatten().map(|mount| mount.as_str().expect("a mount is text")) {
        let (source, _) = mount.split_once(':').expect("a source and a target");
        let is_there = match source.strip_prefix("./") {
            Some(file) => root().join("docker").join(file).is_file(),
            None => documents[0]["volumes"].get(source).is_some(),
        };
        assert!(is_there, "{source}");
    }
    let waited_for = services.values().filter_map(|service| service["depends_on"].as_object());
    for name in waited_for.flat_map(serde_json::Map::keys) {
        assert!(services.contains_key(name), "{name}");
    }
}

#[test]
fn the_service_accepts_the_configuration_of_the_manifest() {
    let Some(documents) = documents("docker/kubernetes/nearprint.yaml") else { return };
    let of_kind = |kind| documents.iter().find(|found| found["kind"] == kind).expect("it is there");
    let files = &of_kind("ConfigMap")["data"];
    let pod = &of_kind("StatefulSet")["spec"]["template"]["spec"];
    let [container] = pod["containers"].as_array().expect("a list").as_slice() else {
        panic!("the pod has one container");
    };
    let variables = container["env"].as_array().expect("a list").iter().filter_map(|variable| {
        let value = variable["value"].as_str()?.replace("$(POD_NAME)", "nearprint-2");
        Some((variable["name"].as_str()?.to_owned(), value))
    });
    let variables: Vec<_> = variables.collect();
    let secrets = Secrets::new("/run/secrets/nearprint");
    let file = files["nearprint.toml"].as_str().expect("a file");
    let said = secrets.check(Some(file), &variables);
    let own = "http://nearprint-2.nearprint-nodes:7878";
    assert!(said.contains(&format!("address = \"{own}\"")), "{said}");
    assert!(said.contains(&format!("\"{own}\"]")), "the last of the seeds: {said}");
}

#[test]
fn the_server_of_the_log_accepts_its_configuration() {
    let Some(mut server) = program("NEARPRINT_TEST_NATS_SERVER") else { return };
    server.args(["-t", "--config"]).arg(root().join("docker/log.conf"));
    succeeded(&server.env("SERVER_NAME", "log-1").output().expect("it runs"));
}
