"""The user interface: everything that knows Gradio or Plotly."""
