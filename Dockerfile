# nearprint in a container: one stage builds with the toolchain, the image has only the binary.
#     docker build --tag nearprint .
# The base images are arguments, for private registries. `--target prebuilt` copies an existing binary
# instead of building one. `make container-test` uses both with Debian's own packages.

ARG RUST_IMAGE=rust:1.95-slim-bookworm
ARG BASE_IMAGE=debian:bookworm-slim

# Both images, without the binary.
FROM ${BASE_IMAGE} AS base
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin nearprint \
 && install -d -o nearprint -g nearprint /data

# Nobody outside the container reaches its loopback address, so the service listens on all addresses.
# It then requires tokens: without NEARPRINT_ACCESS__TOKENS_FILE it does not start.
ENV NEARPRINT_SERVER__LISTEN=0.0.0.0:7878 \
    NEARPRINT_DATA__DIRECTORY=/data

USER 10001:10001
VOLUME ["/data"]
EXPOSE 7878
STOPSIGNAL SIGTERM
# It connects to the address that the variables (or --config FILE) configure.
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

# Only what decides how dependencies are built: the manifests, and every source file as an empty
# program, so that cargo finds each target of a manifest. This layer changes only with the manifests
# and the names of the source files.
FROM toolchain AS skeleton
COPY . .
RUN find . -type f ! -name '*.rs' ! -name 'Cargo.*' ! -path './.cargo/*' -delete \
 && echo 'fn main() {}' | tee $(find . -name '*.rs') >/dev/null

# The dependencies take most of the time. They have a layer of their own, so an edit of a source file
# does not rebuild them.
FROM toolchain AS builder
COPY --from=skeleton /build .
RUN cargo build --release --locked
COPY . .
# Cargo rebuilds only files that are newer than its last build, which built the skeleton.
RUN find . -name '*.rs' -exec touch {} + \
 && cargo build --release --locked \
 && tools/separate-symbols target/release/nearprint

FROM base
COPY --from=builder /build/target/release/nearprint /usr/local/bin/nearprint
