# The image with the programs, compiled from this tree: `docker build .`, `podman build .` or `buildah build .`.
#
# The compiler's cache is looked for in /ccache: `buildah build --volume FOLDER:/ccache .` (podman likewise) compiles only
# what changed. RUN --mount would be docker's word for it, and is refused by dockers before 23.
FROM docker.io/library/debian:bookworm-slim AS build
COPY cmake/debian-packages.txt /packages.txt
RUN apt-get update && xargs apt-get install -y --no-install-recommends ccache < /packages.txt \
    && rm -rf /var/lib/apt/lists/*
# What the programs are compiled from, for whoever has to know.
RUN xargs dpkg-query -W -f '${Package} ${Version} ${Architecture}\n' </packages.txt >/built-from.txt
COPY . /source
# Several sources in one go take a third of the time.
# What --version tells, where git does not come along: --build-arg COMMIT=$(git describe --always --dirty --abbrev=12 --exclude='*')
ARG COMMIT=
RUN export CCACHE_DIR=/ccache \
    && cmake -S /source -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DCOMPILECACHE_TESTS=OFF \
         -DCOMPILECACHE_COMMIT="$COMMIT" \
    && ninja -C /build compilecache-operator compilecache-agent compilecache-supervise kubectl-compilecache \
    && mkdir /programs \
    && find /build '(' -name 'compilecache-*' -o -name kubectl-compilecache ')' -type f -perm -u+x -exec strip {} + -exec cp {} /programs/ ';'

FROM docker.io/library/debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
      ca-certificates libboost-filesystem1.74.0 libcpprest2.10 libprometheus-cpp-core1.0 libssl3 \
      libyaml-cpp0.7 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/ldconfig/* /var/log/*.log /var/log/apt \
    && echo 'compilecache:x:65532:' >>/etc/group \
    && echo 'compilecache:x:65532:65532::/nonexistent:/usr/sbin/nologin' >>/etc/passwd
COPY --from=build /programs/compilecache-operator /programs/compilecache-agent \
     /programs/compilecache-supervise /programs/kubectl-compilecache /usr/local/bin/
COPY --from=build /built-from.txt /usr/share/doc/compilecache/built-from.txt
# A library that the list above lacks is found here, and not in a pod.
RUN ! ldd /usr/local/bin/compilecache-* /usr/local/bin/kubectl-compilecache | grep 'not found'
# A number, so that runAsNonRoot can be checked; with its line in passwd, else the group would be root's.
USER 65532:65532
CMD ["compilecache-operator"]
