# Every command that the project has. `make` alone lists them.

.PHONY: bench-dedup-peers engines-figures help run run-cluster cluster-figures test torture siege container-test figures bench bench-peers bench-compaction quality quality-pages quality-vectors dedup-figures match-figures python test-ecosystem test-examples test-arm64 build build-bench fit-model

help:
	@echo "make run          build, start the service, import the documents of this machine, show the groups"
	@echo "make run-cluster  three nodes and the log between them on this machine; one winner everywhere, while the leader is killed"
	@echo "make cluster-figures  a cluster on this machine against a service alone: docs/cluster.md (STEPS, DOCUMENTS)"
	@echo "make test         formatting, lints, all tests, documentation, a run of the release binary"
	@echo "make test-ecosystem  the Python package, the JavaScript client, the page for Java and the OpenAPI document, with the packages that people use them with"
	@echo "make python       the Python package: a wheel and a source distribution in target/wheels (docs/python.md)"
	@echo "make torture      the long tests of docs/reliability.md: PERCENT of the release figures (100), STEPS of them"
	@echo "make siege        slow clients, batches, overload, the cost of durability: figures of a release build"
	@echo "make container-test  build the image and test the promises of a container (Debian, root)"
	@echo "make figures      measure a release build with COUNT fingerprints (10m), random and like text: docs/benchmarks.md"
	@echo "make fit-model    fit the model of fingerprints like text to the texts of this machine: bench/model"
	@echo "make bench        measure it quickly, and compare with the last run (Criterion)"
	@echo "make bench-peers  compare nearprint with mih-rs, gaoya, faiss and a linear scan: docs/benchmarks.md (SIZES, QUERIES)"
	@echo "make bench-dedup-peers  compare nearprint dedup with text-dedup and datatrove: docs/benchmarks.md (DOCUMENTS, LIMIT)"
	@echo "make bench-compaction  the compaction policy, simulated and measured: the plots of docs/compaction.md"
	@echo "make quality      the recall of each recipe on the labelled set (QUALITY_SET, PAGES): docs/quality.md"
	@echo "make test-examples    the examples that need packages from PyPI and Java: pairs in SQL, and on Spark"
	@echo "make test-arm64   the NEON variants of the kernel under an emulator (Debian, root)"
	@echo "make engines-figures  nearprint dedup next to DuckDB, DataFusion and Spark: docs/other-engines.md (SIZES)"
	@echo "make dedup-figures    time, memory and quality of nearprint dedup: docs/dedup.md"
	@echo "make match-figures    time and memory of nearprint match: docs/match.md (RECORDS, QUERIES)"
	@echo "make quality-pages    the precision among pages of one template, from real generators: docs/quality.md"
	@echo "make quality-vectors  the recall of the recipes of vectors against exact cosines: docs/quality.md"
	@echo "make build        the release binary, target/release/nearprint, with its symbols in a file of their own"

run:
	@tools/run

run-cluster:
	@tools/run-cluster

cluster-figures:
	@tools/cluster-figures $(STEPS)

test:
	@tools/test

test-ecosystem:
	@tools/test-ecosystem

python:
	@tools/python-wheel

PERCENT ?= 100

torture:
	@tools/torture $(PERCENT) $(STEPS)

siege:
	@tools/siege

container-test: build
	@tools/container-test

COUNT ?= 10m

figures: build-bench
	target/release/nearprint-bench lookup --count 1m --adversarial
	target/release/nearprint-bench text
	@tools/figures $(COUNT)

fit-model:
	@tools/fit-model

bench: build-bench
	target/release/nearprint-bench lookup
	cargo bench --locked --package nearprint-bench --bench lookup --bench text -- --warm-up-time 1 --measurement-time 3

bench-peers:
	@tools/bench-peers

bench-dedup-peers:
	@tools/bench-dedup-peers

bench-compaction: build-bench
	target/release/nearprint-bench compaction --measured-count 100k,1m,3m,10m,30m,100m --json > target/compaction.json
	python3 bench/compaction/plots.py target/compaction.json

quality:
	@tools/quality

test-examples:
	@tools/test-examples

test-arm64:
	@tools/test-arm64

engines-figures:
	@tools/engines-figures

dedup-figures:
	@tools/dedup-figures

match-figures:
	@tools/match-figures

quality-vectors:
	@tools/quality-vectors

quality-pages:
	@tools/quality-pages

build:
	cargo build --release --locked
	@tools/separate-symbols target/release/nearprint

build-bench:
	cargo build --release --locked --package nearprint-bench
