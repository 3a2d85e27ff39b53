# What every domain's image stands on: Debian's Python 3.11, a2perf with its pinned core dependencies, an ordinary user.
# BuildKit only (DOCKER_BUILDKIT=1): the sources and the build's secrets are mounted, so neither ends up in a layer.
ARG BASE_IMAGE=debian:bookworm-slim
# Alone, so that a change of a2perf's code leaves the layer of its dependencies as it is.
FROM scratch AS pins
COPY pyproject.toml requirements.lock /
COPY docker/install.sh docker/pinned.py /docker/

FROM ${BASE_IMAGE}

RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates python3 python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 1000 a2perf \
 && useradd --uid 1000 --gid 1000 --create-home --shell /usr/sbin/nologin a2perf

# Root owns the environment and the user only reads it: a submission cannot change what measures it.
RUN --mount=type=bind,from=pins,target=/source --mount=type=secret,id=pip --mount=type=secret,id=ca \
    python3 -m venv /opt/a2perf && sh /source/docker/install.sh
RUN --mount=type=bind,target=/source,rw sh /source/docker/install.sh --package

# The environment is not writable and Numba's cache must be, so it goes where a tmpfs usually is; a2perf-start fills it
# with what the image has compiled.
ENV PATH=/opt/a2perf/bin:$PATH \
    HOME=/home/a2perf \
    NUMBA_CACHE_DIR=/tmp/numba \
    MPLCONFIGDIR=/tmp/matplotlib \
    OMP_NUM_THREADS=1
WORKDIR /home/a2perf
USER 1000:1000

# Rare on purpose: a probe takes processor time from the run that is being measured.
HEALTHCHECK --interval=5m --timeout=60s --retries=3 CMD ["a2perf", "doctor", "--json"]
ENTRYPOINT ["a2perf-start"]
CMD ["a2perf", "--help"]
