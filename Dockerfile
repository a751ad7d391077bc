# nearprint in a container: one stage builds with the toolchain, and the image has the program and what
# it loads: no shell, no package manager.
#     docker build --tag nearprint .
# The base images are arguments, for private registries. `--target prebuilt` copies an existing binary
# instead of building one. `make container-test` uses both with Debian's own packages.

ARG RUST_IMAGE=rust:1.95-slim-bookworm
ARG BASE_IMAGE=debian:bookworm-slim

# What the program loads: the C library and its loader, the unwinder of panics, the certificates of
# other services, and time zones. The packages' names and versions are there for scanners.
FROM ${BASE_IMAGE} AS files
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates tzdata
RUN mkdir -p /image/etc /image/tmp /owned/data /image/var/lib/dpkg/status.d \
 && cp --parents --dereference /lib*/ld-linux-* /lib/*-linux-gnu/libc.so.6 /lib/*-linux-gnu/libm.so.6 \
        /lib/*-linux-gnu/libgcc_s.so.1 /etc/ssl/certs/ca-certificates.crt \
        /usr/share/doc/libc6/copyright /usr/share/doc/libgcc-s1/copyright \
        /usr/share/doc/ca-certificates/copyright /usr/share/doc/tzdata/copyright /image \
 && cp --recursive --parents /usr/share/zoneinfo /image \
 && for package in libc6 libgcc-s1 ca-certificates tzdata; do \
        dpkg-query --status "$package" > "/image/var/lib/dpkg/status.d/$package" || exit 1; \
    done \
 && printf 'root:x:0:0::/:/sbin/nologin\nnearprint:x:10001:10001::/data:/sbin/nologin\n' > /image/etc/passwd \
 && printf 'root:x:0:\nnearprint:x:10001:\n' > /image/etc/group \
 && printf 'hosts: files dns\n' > /image/etc/nsswitch.conf \
 && chmod 1777 /image/tmp

# The image, without the program.
FROM scratch AS base
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="nearprint" \
      org.opencontainers.image.description="Look-up service for near-duplicate texts" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
COPY --from=files /image /
# The folder itself gets this owner only as part of what is copied.
COPY --from=files --chown=10001:10001 /owned /

# Nobody outside the container reaches its loopback address, so the service listens on all addresses.
# It then requires tokens: without NEARPRINT_ACCESS__TOKENS_FILE it does not start.
ENV PATH=/usr/local/bin \
    NEARPRINT_SERVER__LISTEN=0.0.0.0:7878 \
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
# Cargo rebuilds only files that are newer than its last build, which built the skeleton. What the build
# scripts of dependencies have written stays as old as it is, or these would be built again.
RUN find . -path ./target -prune -o -name '*.rs' -exec touch {} + \
 && cargo build --release --locked \
 && tools/separate-symbols target/release/nearprint

FROM base
COPY --from=builder /build/target/release/nearprint /usr/local/bin/nearprint
