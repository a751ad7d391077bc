# The commands of the house. `make` alone lists them.

.PHONY: help run test torture build

help:
	@echo "make run      build, start the service, import the documents of this machine, show the groups"
	@echo "make test     formatting, lints, all tests, documentation, a run of the release binary"
	@echo "make torture  kill the server under load CYCLES times (default 50)"
	@echo "make build    the release binary, target/release/nearprint"

run:
	@tools/run

test:
	@tools/test

torture:
	@tools/torture $(CYCLES)

build:
	cargo build --release --locked
