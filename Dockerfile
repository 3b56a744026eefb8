# The service seq2seq-serve on a CPU; docs/how-to/serving.md says how to run it. The target `onnx` has
# no torch and serves exported models.
FROM python:3.12-slim AS environment

WORKDIR /source
RUN python -m venv /opt/seq2seq
ENV PATH=/opt/seq2seq/bin:$PATH PIP_NO_CACHE_DIR=1
COPY constraints.txt ./

FROM environment AS build-onnx

RUN pip install --constraint constraints.txt numpy lazy-loader onnxruntime 'sentencepiece>=0.2,<0.2.2' hydra-core jinja2 fastapi uvicorn prometheus-client python-multipart
COPY pyproject.toml LICENSE ./
COPY configs configs
COPY data data
COPY seq2seq seq2seq
RUN pip install --no-deps .

FROM environment AS build

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --constraint constraints.txt --index-url "$TORCH_INDEX" torch
COPY pyproject.toml LICENSE ./
COPY configs configs
COPY data data
COPY seq2seq seq2seq
RUN pip install --constraint constraints.txt ".[serve]"

FROM python:3.12-slim AS service

ENV PATH=/opt/seq2seq/bin:$PATH
RUN useradd --system --uid 10001 --no-create-home seq2seq
USER 10001
WORKDIR /tmp
EXPOSE 5000
# The port may be an argument of the service, which is process 1.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import re, urllib.request; ports = re.findall(rb'\\x00[+]*port=\\W*(\\d+)', open('/proc/1/cmdline', 'rb').read()) or [b'5000']; urllib.request.urlopen(f'http://localhost:{ports[-1].decode()}/health', timeout=4)"]
ENTRYPOINT ["seq2seq-serve", "host=0.0.0.0"]

FROM service AS onnx

COPY --from=build-onnx /opt/seq2seq /opt/seq2seq
CMD ["checkpoint=/models/model"]

FROM service

COPY --from=build /opt/seq2seq /opt/seq2seq
CMD ["checkpoint=/models/model"]
