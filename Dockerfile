# Self-hosting: docker build -t glance . && docker run -p 7860:7860 glance   (add --gpus all where there is a GPU)
FROM python:3.11-slim
RUN useradd --create-home --uid 1000 user
USER user
ENV HOME=/home/user \
    PATH=/home/user/.local/bin:$PATH \
    GRADIO_SERVER_NAME=0.0.0.0 \
    GRADIO_SERVER_PORT=7860 \
    GRADIO_ANALYTICS_ENABLED=False \
    GRADIO_TEMP_DIR=/tmp/gradio \
    PYTHONUNBUFFERED=1
WORKDIR /home/user/app
COPY --chown=user requirements.txt .
RUN pip install --no-cache-dir --user -r requirements.txt
COPY --chown=user . .
EXPOSE 7860
HEALTHCHECK --start-period=60s CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:7860/', timeout=5)"
CMD ["python", "app.py"]
