# The commands of the house. `make` alone lists them.

.PHONY: help run test torture figures bench-peers build

help:
	@echo "make run          build, start the service, import the documents of this machine, show the groups"
	@echo "make test         formatting, lints, all tests, documentation, a run of the release binary"
	@echo "make torture      the long crash tests: SEEDS simulated (20000), CYCLES real kills (50)"
	@echo "make figures      measure a release build as a client does, with 10 million fingerprints"
	@echo "make bench-peers  nearprint beside mih-rs, gaoya, faiss and a linear scan: docs/benchmarks.md (SIZES, QUERIES)"
	@echo "make build        the release binary, target/release/nearprint"

run:
	@tools/run

test:
	@tools/test

torture:
	@tools/torture $(CYCLES)

figures: build
	cargo run --release --locked --example figures

bench-peers:
	@tools/bench-peers

build:
	cargo build --release --locked
