# Web navigation: the base, Selenium, and Debian's Chromium with the driver of the same version.
ARG BASE=a2perf:base
FROM ${BASE}

USER root
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium chromium-driver fonts-dejavu-core \
 && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,target=/source,rw --mount=type=secret,id=pip --mount=type=secret,id=ca \
    sh /source/docker/install.sh web-navigation
USER 1000:1000

HEALTHCHECK --interval=5m --timeout=60s --retries=3 CMD ["a2perf", "doctor", "--json"]
CMD ["a2perf", "--help"]
