//! A log that has lost what it had acknowledged: nodes halt or wait and say why, look-ups go on,
//! and a new log goes on where a node is, with everything that was answered.

use std::fs;

use crate::nodes::{Cluster, NODES, document};

#[test]
fn two_of_three_stores_are_wiped_and_nothing_that_was_answered_is_lost() {
    let Some(mut cluster) = Cluster::start_with(3, &["--max-bytes", "256m"]) else { return };
    (0..50).for_each(|number| cluster.write(&format!("before-{number}")));
    cluster.until_equal();
    for server in [1, 2] {
        cluster.log_servers().kill(server);
    }
    let last = (0..NODES).filter_map(|at| cluster.read(at)).max();
    for server in [1, 2] {
        fs::remove_dir_all(cluster.log_servers().store(server)).unwrap();
        cluster.log_servers().begin(server);
    }
    // The servers may have got everything from the third one.
    let is_whole = |cluster: &Cluster| (0..NODES).all(|at| cluster.read(at) > last);
    cluster.until("nobody leads, and all nodes say what is wrong, or all is well", |cluster| {
        let all_say_why = (0..NODES).all(|at| cluster.fault(at).is_some());
        is_whole(cluster) || (all_say_why && !cluster.has_leader())
    });
    if is_whole(&cluster) {
        cluster.write("after");
        cluster.until_equal();
        assert_eq!(cluster.documents(0), cluster.written());
        return;
    }
    let written = cluster.answer(0, |client| client.post("/v1/insert", &document("meanwhile")));
    assert_eq!((written.0, written.1["code"].as_str()), (503, Some("no_leader")));
    assert!((0..NODES).all(|at| cluster.documents(at).len() == 50), "look-ups go on");
    (0..NODES).for_each(|at| assert!(cluster.terminate(at).success(), "{}", cluster.log(at)));
    "another".clone_into(&mut cluster.name);
    let made = cluster.run(0, "refound", &["--max-bytes", "256m"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (0..NODES).for_each(|at| cluster.begin(at));
    cluster.write("after");
    cluster.until_equal();
    assert_eq!(cluster.documents(0).len(), 51);
}
