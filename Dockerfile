# dperm for a user without a home, on a file system that is read-only; docs/containers.md says how to run it.
FROM python:3.12-slim AS wheel
COPY . /source
RUN pip wheel --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -r /wheels

# Kernels are compiled while the image is built. Add the commands that you will run: each model has kernels of its own.
ENV DPERM_CACHE=/opt/dperm
RUN cd /tmp && dperm example adult \
    && dperm fit adult.csv --schema adult.toml --epsilon 1 --delta 1e-5 -o adult.json \
    && dperm evaluate adult.json adult-test.csv --epsilon 1 -o evaluation.json \
    && rm adult* evaluation.json && chmod -R a+rX /opt/dperm

# What must last: the ledger, and apart from it the notes by which an older copy of the ledger is noticed.
ENV DPERM_LEDGER=/ledger/ledger.db XDG_STATE_HOME=/witness
RUN mkdir -p /ledger /witness /data && chown nobody /ledger /witness /data
VOLUME /ledger /witness
USER nobody
WORKDIR /data
ENTRYPOINT ["dperm"]
