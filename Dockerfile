# One image with all programs: audio-api, audio-worker and its helpers, which lie beside it. Node is there at build time
# alone. `tests/deploy/packages.sh` compares the libraries named here with what the built programs need.
FROM debian:12 AS build
COPY .dev/packages.sh /packages.sh
RUN apt-get update && bash -c '. /packages.sh && DEBIAN_FRONTEND=noninteractive apt-get install -y \
    --no-install-recommends ca-certificates "${build_packages[@]}" "${node_packages[@]}"'
COPY . /source
RUN cmake -S /source -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DAUDIOGEN_TESTS=OFF -DAUDIOGEN_CONSOLE=ON \
    && ninja -C /build && strip /build/bin/*

FROM debian:12
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    ca-certificates curl espeak-ng-data \
    libargon2-1 libcld2-0 libcurl4 libebur128-1 libespeak-ng1 libflite1 libjemalloc2 libkakasi2 libmpg123-0 \
    libmysqlcppconn7v5 libopusenc0 libpistache0 libpng16-16 libprometheus-cpp-core1.0 librabbitmq4 libseccomp2 \
    libsndfile1 libsoundtouch1 libsoxr0 libspdlog1.10 libssl3 libturbojpeg0 libutf8proc2 \
    libwebp7 libxxhash0 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 1500 audiogen \
    && install -d -m 700 -o audiogen /var/lib/audiogen/blobs /var/lib/audiogen/previews
COPY --from=build /build/bin/ /usr/local/bin/
USER audiogen
