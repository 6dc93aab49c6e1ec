# The image with the programs. `docker build .` compiles them; with --build-arg BINARIES=prebuilt they are
# taken from prebuilt/ in the build context, as the tests and the demo do with what they have built.
ARG BINARIES=build

FROM debian:bookworm-slim AS build
COPY cmake/debian-packages.txt /packages.txt
RUN apt-get update && xargs apt-get install -y --no-install-recommends < /packages.txt \
    && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN cmake -S /source -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOMPILECACHE_TESTS=OFF \
    && ninja -C /build compilecache-operator compilecache-agent compilecache-supervise \
    && mkdir /programs \
    && find /build -name 'compilecache-*' -type f -perm -u+x -exec strip {} + -exec cp {} /programs/ ';'

FROM scratch AS prebuilt
COPY prebuilt/ /programs/

FROM ${BINARIES} AS programs

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
      ca-certificates libboost-filesystem1.74.0 libcpprest2.10 libprometheus-cpp-core1.0 libssl3 \
      libyaml-cpp0.7 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*.log /var/log/apt \
    && echo 'compilecache:x:65532:' >>/etc/group \
    && echo 'compilecache:x:65532:65532::/nonexistent:/usr/sbin/nologin' >>/etc/passwd
COPY --from=programs /programs/compilecache-operator /programs/compilecache-agent \
     /programs/compilecache-supervise /usr/local/bin/
# A library that the list above lacks is found here, and not in a pod.
RUN ! ldd /usr/local/bin/compilecache-* | grep 'not found'
# A number, so that runAsNonRoot can be checked; with its line in passwd, else the group would be root's.
USER 65532:65532
CMD ["compilecache-operator"]
