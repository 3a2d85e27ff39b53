# Web navigation: the base, Selenium, and Debian's Chromium with the driver of the same version.
ARG BASE=a2perf:base
FROM scratch AS pins
COPY pyproject.toml requirements.lock /
COPY docker/install.sh docker/pinned.py /docker/

FROM ${BASE}

USER root
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium chromium-driver fonts-dejavu-core \
 && rm -rf /var/lib/apt/lists/*
# Chromium's sandbox needs user namespaces. Most engines deny them; the container is then the only sandbox.
RUN echo 'unshare --user true 2>/dev/null || CHROMIUM_FLAGS="$CHROMIUM_FLAGS --no-sandbox"' > /etc/chromium.d/a2perf
RUN --mount=type=bind,from=pins,target=/source --mount=type=secret,id=pip --mount=type=secret,id=ca \
    sh /source/docker/install.sh web-navigation
USER 1000:1000

HEALTHCHECK --interval=5m --timeout=60s --retries=3 CMD ["a2perf", "doctor", "--json"]
CMD ["a2perf", "--help"]
