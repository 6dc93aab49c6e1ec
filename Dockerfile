# The image with the programs, compiled from this tree: `docker build .`, `podman build .` or `buildah build .`; with
# `--platform linux/arm64` for that architecture, cross-compiled, whatever this machine's is. What each step does: image/README.md.
#
# The compiler's cache is looked for in /ccache: `buildah build --volume FOLDER:/ccache .` (podman likewise) compiles only
# what changed. RUN --mount would be docker's word for it, and is refused by dockers before 23.
FROM --platform=$BUILDPLATFORM docker.io/library/debian:bookworm-slim AS build
ARG TARGETARCH
COPY cmake/debian-packages.txt image/target.sh image/install_packages /image/
RUN /image/install_packages "$TARGETARCH" /image/debian-packages.txt
COPY image/cpprest /image/
RUN /image/cpprest "$TARGETARCH" /cpprest
COPY . /source
# What --version tells, where git does not come along: --build-arg COMMIT=$(git describe --always --dirty --abbrev=12 --exclude='*')
ARG COMMIT=
RUN /source/image/compile "$TARGETARCH" /source /programs "$COMMIT"
RUN /source/image/assemble "$TARGETARCH" /programs /root-of-image \
    && /source/image/bundle "$TARGETARCH" /root-of-image /plugin

# The plugin for the machine of whoever runs kubectl: `docker build --target plugin --output ~/bin .`
FROM scratch AS plugin
COPY --from=build /plugin/ /

FROM scratch
COPY --from=build /root-of-image/ /
ENV PATH=/usr/local/bin:/usr/bin
# A number, so that runAsNonRoot can be checked; with its line in passwd, else the group would be root's.
USER 65532:65532
CMD ["compilecache-operator"]
