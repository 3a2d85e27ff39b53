# Circuit training: the base and Numba.
ARG BASE=a2perf:base
FROM scratch AS pins
COPY pyproject.toml requirements.lock /
COPY docker/install.sh docker/pinned.py /docker/

FROM ${BASE}

USER root
RUN --mount=type=bind,from=pins,target=/source --mount=type=secret,id=pip --mount=type=secret,id=ca \
    sh /source/docker/install.sh circuit-training
# Compile here once: a kernel takes seconds, and every run gets a new container without a cache.
RUN --mount=type=bind,target=/source sh /source/docker/install.sh --kernels CircuitTraining-ToyMacro-v0
USER 1000:1000

HEALTHCHECK --interval=5m --timeout=60s --retries=3 CMD ["a2perf", "doctor", "--json"]
CMD ["a2perf", "--help"]
