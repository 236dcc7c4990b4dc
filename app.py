"""Entry of the Space: `python app.py` serves the page."""

from app.main import demo, launch

__all__ = ["demo"]

if __name__ == "__main__":
    launch()
