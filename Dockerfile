# dperm for a user without a home, on a file system that is read-only; docs/containers.md says how to run it.
# This base has no compiler: the build fetches one from the package index, and it stays in the first stage.
FROM python:3.12-slim AS wheel
COPY . /source
RUN pip wheel --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -r /wheels

# What must last: the ledger, and apart from it the notes by which an older copy of the ledger is noticed.
ENV DPERM_LEDGER=/ledger/ledger.db XDG_STATE_HOME=/witness
RUN mkdir -p /ledger /witness /data && chown nobody /ledger /witness /data
VOLUME /ledger /witness
USER nobody
WORKDIR /data
ENTRYPOINT ["dperm"]
