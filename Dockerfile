# nearprint in a container: a builder with the toolchain, a small image with the binary alone.
# Written for `docker build .`; see docker/README.md for what was and was not tried.

FROM rust:1.95-slim-bookworm AS builder
WORKDIR /build

# The dependencies are a layer of their own: they change rarely and take most of the time.
COPY Cargo.toml Cargo.lock ./
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

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 --user-group --no-create-home nearprint \
 && install -d -o nearprint -g nearprint /data
COPY --from=builder /build/target/release/nearprint /usr/local/bin/nearprint

# Inside a container the loopback address is reachable by nobody else.
ENV NEARPRINT_SERVER__LISTEN=0.0.0.0:7878 \
    NEARPRINT_DATA__DIRECTORY=/data

USER 10001:10001
VOLUME ["/data"]
EXPOSE 7878
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["nearprint", "health"]
ENTRYPOINT ["nearprint"]
CMD ["serve"]
