# The service seq2seq-serve on a CPU; docs/how-to/serving.md says how to run it.
FROM python:3.12-slim AS build

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=serve

WORKDIR /source
RUN python -m venv /opt/seq2seq
COPY constraints.txt ./
RUN /opt/seq2seq/bin/pip install --no-cache-dir --constraint constraints.txt \
    --index-url "$TORCH_INDEX" torch
COPY pyproject.toml README.md LICENSE ./
COPY configs configs
COPY data data
COPY seq2seq seq2seq
RUN /opt/seq2seq/bin/pip install --no-cache-dir --constraint constraints.txt ".[$EXTRAS]"

FROM python:3.12-slim

COPY --from=build /opt/seq2seq /opt/seq2seq
ENV PATH=/opt/seq2seq/bin:$PATH
RUN useradd --system --uid 10001 --no-create-home seq2seq
USER 10001
WORKDIR /tmp
EXPOSE 5000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5000/health', timeout=4)"]
ENTRYPOINT ["seq2seq-serve", "host=0.0.0.0"]
CMD ["checkpoint=/models/model"]
