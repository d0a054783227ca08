# The image for who has a container engine: the same files as `make image`, from the same tool and locks.
# docs/installing.md has the command. The tool runs on the machine that builds, and emulates nothing.
FROM --platform=$BUILDPLATFORM debian:12-slim AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates python3.11 python3.11-venv
WORKDIR /src
# The environment changes less often than the source.
COPY requirements.lock ./
RUN python3.11 -m venv .venv \
 && .venv/bin/python -m pip install --require-hashes --requirement requirements.lock
COPY . .
ARG COMMIT SOURCE_DATE_EPOCH TARGETARCH
RUN DRAWBRIDGE_COMMIT=$COMMIT \
    .venv/bin/python -m tools.image tree --architecture "$TARGETARCH" --into /image

FROM scratch
COPY --from=build /image /
ENV PATH=/usr/local/bin:/usr/bin LANG=C.UTF-8
WORKDIR /
USER 65532:65532
ENTRYPOINT ["drawbridge"]
