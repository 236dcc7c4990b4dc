# Self-hosting: docker build -t glance . && docker run -p 7860:7860 glance   (add --gpus all where there is a GPU)
# With a read-only root: docker run --read-only -v glance-cache:/cache -p 7860:7860 glance
FROM python:3.11-slim
RUN useradd --create-home --uid 1000 user && install -d -o user /cache
ENV HOME=/home/user \
    HF_HOME=/cache/huggingface \
    GRADIO_SERVER_NAME=0.0.0.0 \
    GRADIO_SERVER_PORT=7860 \
    GRADIO_ANALYTICS_ENABLED=False \
    GRADIO_TEMP_DIR=/cache/gradio \
    TMPDIR=/cache \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /app
COPY requirements.txt .
RUN pip install --no-cache-dir --root-user-action ignore -r requirements.txt
COPY . .
USER user
VOLUME /cache
EXPOSE 7860
HEALTHCHECK --start-period=60s CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:7860/', timeout=5)"
CMD ["python", "app.py"]
