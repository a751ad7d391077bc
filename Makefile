# Every command that the project has. `make` alone lists them.

.PHONY: help run run-cluster test torture siege container-test figures bench python test-ecosystem test-examples test-arm64 build build-bench fit-model dist test-dist

help:
	@echo "make run          build, start the service, import the documents of this machine, show the groups"
	@echo "make run-cluster  three nodes and the log between them on this machine; one winner everywhere, while the leader is killed"
	@echo "make test         formatting, lints, all tests, documentation, a run of the release binary"
	@echo "make test-ecosystem  the Python package, the JavaScript client, the web console, the page for Java, the OpenAPI document, the dashboard and the alerts, with the packages that people use them with"
	@echo "make python       the Python package: a wheel and a source distribution in target/wheels (docs/python.md)"
	@echo "make dist         what is given out: programs, Debian packages and wheels for amd64 and arm64, the npm package (packaging/README.md)"
	@echo "make test-dist    try each file that make dist has made in an empty root (Debian, root)"
	@echo "make torture      the long tests of docs/reliability.md: PERCENT of the release figures (100), STEPS of them"
	@echo "make siege        slow clients, batches, overload, the cost of durability: figures of a release build"
	@echo "make container-test  build the image and test the promises of a container (Debian, root)"
	@echo "make figures WHAT=lookup  measure a release build, and write tables and plots of the documents; WHAT is one of"
	@echo "                  lookup (COUNT fingerprints), peers (SIZES, QUERIES) and dedup-peers (DOCUMENTS, LIMIT): docs/benchmarks.md;"
	@echo "                  compaction: docs/compaction.md; cluster (STEPS, DOCUMENTS): docs/cluster.md; engines (SIZES): docs/other-engines.md;"
	@echo "                  dedup: docs/dedup.md; match (RECORDS, QUERIES): docs/match.md;"
	@echo "                  quality (QUALITY_SET, PAGES), quality-pages and quality-vectors: docs/quality.md"
	@echo "make fit-model    fit the model of fingerprints like text to the texts of this machine: bench/model"
	@echo "make bench        measure it quickly, and compare with the last run (Criterion)"
	@echo "make test-examples    the examples that need packages from PyPI and Java: pairs in SQL, and on Spark"
	@echo "make test-arm64   the NEON variants of the kernel under an emulator (Debian, root)"
	@echo "make build        the release binary, target/release/nearprint, with its symbols in a file of their own"

run:
	@tools/run

run-cluster:
	@tools/run-cluster

test:
	@tools/test

test-ecosystem:
	@tools/test-ecosystem

python:
	@tools/python-wheel

dist:
	@tools/dist $(ARCHITECTURES)

test-dist:
	@tools/test-dist

PERCENT ?= 100

torture:
	@tools/torture $(PERCENT) $(STEPS)

siege:
	@tools/siege

container-test:
	@tools/container-test

# What to measure; tools/figures lists the choices. Variables such as COUNT reach its scripts through
# the environment.
WHAT ?= lookup

figures:
	@tools/figures $(WHAT)

fit-model:
	@tools/fit-model

bench: build-bench
	target/release/nearprint-bench lookup
	cargo bench --locked --package nearprint-bench --bench lookup --bench text -- --warm-up-time 1 --measurement-time 3

test-examples:
	@tools/test-examples

test-arm64:
	@tools/test-arm64

build:
	cargo build --release --locked
	@tools/separate-symbols target/release/nearprint

build-bench:
	cargo build --release --locked --package nearprint-bench
