# nearprint in a container: a builder with the toolchain, a small image with the binary alone.
#     docker build --tag nearprint .
# The bases are arguments, for registries of one's own; `--target prebuilt` takes a binary that is
# there already instead of building one. `make container-test` does both with what Debian has.

ARG RUST_IMAGE=rust:1.95-slim-bookworm
ARG BASE_IMAGE=debian:bookworm-slim

# What both images are, but for the binary.
FROM ${BASE_IMAGE} AS base
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin nearprint \
 && install -d -o nearprint -g nearprint /data

# Inside a container the loopback address is reachable by nobody else. An address that others
# reach asks for tokens: without NEARPRINT_ACCESS__TOKENS_FILE it does not start.
ENV NEARPRINT_SERVER__LISTEN=0.0.0.0:7878 \
    NEARPRINT_DATA__DIRECTORY=/data

USER 10001:10001
VOLUME ["/data"]
EXPOSE 7878
STOPSIGNAL SIGTERM
# It asks where the variables (or --config FILE) say that the service listens.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["nearprint", "health"]
ENTRYPOINT ["nearprint"]
CMD ["serve"]

FROM base AS prebuilt
ARG BINARY=nearprint
COPY ${BINARY} /usr/local/bin/nearprint

FROM ${RUST_IMAGE} AS toolchain
# The allocator's build script needs make.
RUN apt-get update && apt-get install --yes --no-install-recommends make
WORKDIR /build

# The sources reduced to what decides how dependencies are built: the manifests, and every source
# file as an empty program, so that cargo finds each target that a manifest names. The result
# changes only with the manifests and the names of the source files.
FROM toolchain AS skeleton
COPY . .
RUN find . -type f ! -name '*.rs' ! -name 'Cargo.*' ! -path './.cargo/*' -delete \
 && echo 'fn main() {}' | tee $(find . -name '*.rs') >/dev/null

# The dependencies take most of the time, and are a layer of their own: an edit of a source file
# does not build them again.
FROM toolchain AS builder
COPY --from=skeleton /build .
RUN cargo build --release --locked
COPY . .
# Cargo rebuilds only files that are newer than its last build, which was that of the skeleton.
RUN find . -name '*.rs' -exec touch {} + \
 && cargo build --release --locked

FROM base
COPY --from=builder /build/target/release/nearprint /usr/local/bin/nearprint
