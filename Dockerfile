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

FROM ${RUST_IMAGE} AS builder
# The allocator is built with it.
RUN apt-get update && apt-get install --yes --no-install-recommends make
WORKDIR /build

# The dependencies are a layer of their own: they change rarely and take most of the time.
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
RUN mkdir src benches \
 && echo 'fn main() {}' > src/main.rs \
 && touch src/lib.rs benches/lookup.rs benches/text.rs \
 && cargo build --release --locked \
 && rm -r src

COPY config config
COPY src src
# Newer than the stand-ins above, or cargo would keep those.
RUN find src -name '*.rs' -exec touch {} + \
 && cargo build --release --locked

FROM base
COPY --from=builder /build/target/release/nearprint /usr/local/bin/nearprint
