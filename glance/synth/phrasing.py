"""The ways in which a person asks, and the one way in which the model answers a look-up."""

import random


def ask_read(rng: random.Random, what: str) -> str:
    return rng.choice(
        [
            f"Read the {what}.",
            "Read the text.",
            f"What does the {what} say?",
            "What does it say?",
            "What is written here?",
            f"Transcribe the {what}.",
            "Read all the text in the image.",
        ]
    )


def ask_field(rng: random.Random, name: str) -> str:
    low = name if name.isupper() or name.endswith("ID") else name[:1].lower() + name[1:]
    return rng.choice(
        [
            f"What is the {low}?",
            f"What is the {name}?",
            f"What's the {low}?",
            f"Find the {low}.",
            f"{name}?",
            f"Give me the {low}.",
            f"What does it say for {name}?",
        ]
    )


def state_field(name: str, value: str) -> str:
    """The answer names the field as it is printed, then copies its value."""
    return f"{name}: {value}"


def ask_title(rng: random.Random) -> str:
    return rng.choice(["What is the title?", "Read the title.", "What is the heading?", "What is it called?"])


def state_title(title: str) -> str:
    return f"The title is {title}."


def ask_list(rng: random.Random) -> str:
    return rng.choice(
        [
            "List the values.",
            "List all values.",
            "What are the values?",
            "Read the chart.",
            "What does the chart show?",
            "Turn the chart into text.",
        ]
    )


def ask_value(rng: random.Random, name: str) -> str:
    return rng.choice(
        [
            f"What is the value of {name}?",
            f"What is {name}?",
            f"How much is {name}?",
            f"What is the value for {name}?",
            f"Value of {name}?",
        ]
    )


def ask_extreme(rng: random.Random, highest: bool) -> str:
    word = rng.choice(["highest", "largest", "biggest"] if highest else ["lowest", "smallest"])
    return rng.choice(
        [
            f"Which category is {word}?",
            f"Which is the {word}?",
            f"What is the {word} value?",
            f"Which one is {word}?",
        ]
    )


def ask_sign(rng: random.Random) -> str:
    return rng.choice(
        [
            "What does the sign say?",
            "Read the sign.",
            "What is on the sign?",
            "What does it say?",
            "What is written here?",
        ]
    )


def ask_infographic(rng: random.Random) -> str:
    return rng.choice(
        [
            "Summarize the infographic.",
            "What does the infographic say?",
            "List the facts.",
            "What are the numbers?",
            "Summarize the image.",
        ]
    )


def ask_scene(rng: random.Random) -> str:
    return rng.choice(
        [
            "Describe the image.",
            "Describe the picture.",
            "What is in the image?",
            "What do you see?",
            "Write a caption.",
            "Describe the scene.",
        ]
    )
