"""Numbers, amounts, dates and codes as they stand on printed paper."""

import random

from glance.synth.vocabulary import DAYS, MONTHS


def number(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.35:
        return str(rng.randint(0, 99))
    if kind < 0.6:
        return str(rng.randint(100, 9999))
    if kind < 0.85:
        return f"{rng.uniform(0, 100):.1f}"
    return f"{rng.randint(1, 99)},{rng.randint(0, 999):03d}"


def amount(rng: random.Random) -> str:
    """A price of two decimals, sometimes with a dollar sign."""
    value = f"{rng.uniform(0.5, 99):.2f}" if rng.random() < 0.7 else f"{rng.uniform(100, 999):.2f}"
    return rng.choice(["$", "$", ""]) + value


def code(rng: random.Random) -> str:
    """A reference such as `K7-2041` or `A93X0`."""
    letters, digits = "ABCDEFGHJKLMNPQRSTUVWXYZ", "0123456789"
    if rng.random() < 0.5:
        head = "".join(rng.choice(letters) for _ in range(rng.randint(1, 3)))
        return head + rng.choice(["-", ""]) + "".join(rng.choice(digits) for _ in range(rng.randint(2, 5)))
    return "".join(rng.choice(letters + digits) for _ in range(rng.randint(4, 7)))


def date(rng: random.Random) -> str:
    year, month, day = rng.randint(1990, 2030), rng.randint(1, 12), rng.randint(1, 28)
    name = MONTHS[month - 1]
    return rng.choice(
        [
            f"{year}-{month:02d}-{day:02d}",
            f"{month:02d}/{day:02d}/{year}",
            f"{name[:3]} {day}, {year}",
            f"{day} {name}",
        ]
    )


def time_of_day(rng: random.Random) -> str:
    return f"{rng.randint(0, 23):02d}:{rng.choice(['00', '15', '30', '45', '10', '50'])}"


def day(rng: random.Random) -> str:
    return rng.choice(DAYS)


def phone(rng: random.Random) -> str:
    return f"{rng.randint(200, 999)}-{rng.randint(100, 999)}-{rng.randint(1000, 9999)}"
