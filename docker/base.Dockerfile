# The base of every domain's image: Debian's Python 3.11, a2perf with its pinned core dependencies, an ordinary user.
# Needs BuildKit (DOCKER_BUILDKIT=1): sources and secrets are mounted during the build and are not stored in a layer.
ARG BASE_IMAGE=debian:bookworm-slim
# A separate stage: a change of a2perf's code does not invalidate the layer of its dependencies.
FROM scratch AS pins
COPY pyproject.toml requirements.lock /
COPY docker/install.sh docker/pinned.py /docker/

FROM ${BASE_IMAGE}

RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates python3 python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 1000 a2perf \
 && useradd --uid 1000 --gid 1000 --create-home --shell /usr/sbin/nologin a2perf

# Root owns the environment and the user can only read it, so a submission cannot change the evaluator.
RUN --mount=type=bind,from=pins,target=/source --mount=type=secret,id=pip --mount=type=secret,id=ca \
    python3 -m venv /opt/a2perf && sh /source/docker/install.sh
RUN --mount=type=bind,target=/source,rw sh /source/docker/install.sh --package

# The environment is read-only but Numba's cache must be writable, so it is in /tmp, usually a tmpfs; a2perf-start copies
# the compiled kernels of the image there.
ENV PATH=/opt/a2perf/bin:$PATH \
    HOME=/home/a2perf \
    NUMBA_CACHE_DIR=/tmp/numba \
    MPLCONFIGDIR=/tmp/matplotlib \
    OMP_NUM_THREADS=1
WORKDIR /home/a2perf
USER 1000:1000

# Rare on purpose: a probe uses processor time and disturbs the measured run.
HEALTHCHECK --interval=5m --timeout=60s --retries=3 CMD ["a2perf", "doctor", "--json"]
ENTRYPOINT ["a2perf-start"]
CMD ["a2perf", "--help"]
