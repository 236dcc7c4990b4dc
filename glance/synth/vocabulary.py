"""Words that the generator draws: common English words by kind, and names invented from syllables.

Names belong to exactly one split (by a checksum of the name), so a model that reads a name of the
validation or test split has read it, not remembered it.
"""

# ruff: noqa: SIM905 (word lists are easiest to read and to extend as text)

import random
import zlib
from typing import Literal

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")

NOUNS = """apple anchor answer arch arrow autumn bakery balance banner basket battery beach bell bench bicycle
bird blanket board boat book border bottle bowl branch bread bridge brush bucket budget building butter button
cabin cable cake camera candle canyon carpet castle ceiling center chain chair chapter cheese cherry circle city
clock cloud coast coffee collar column copper corner cotton cover cream crown cup curtain dance desert desk diamond
dinner doctor door dragon drawer dress drum eagle earth engine evening fabric factory family farm feather fence
field finger fire fish flag floor flour flower forest fork fountain frame fruit garden garlic gate ginger glass glove
gold grain grape grass guide guitar hammer handle harbor harvest hat heart hill honey horse hotel house ice idea
island jacket jar journey juice jungle kettle key kitchen kite ladder lake lamp leaf leather lemon letter library
light lion lunch machine magnet map marble market meadow melon metal milk mirror model money moon morning motor
mountain mouse museum music napkin needle nest night notebook ocean office olive onion orange orchard oven owl
paint palace panel paper park path peach pear pencil pepper piano picture pillow pilot pine pipe planet plate
pocket poem pond potato powder press prize pump puzzle rabbit radio rain ribbon rice ring river road rocket roof
room rope rose salad salt sand scarf school screen sea season seat seed shadow sheep shelf shell ship shirt shoe
shop silver sink sky sleep smile snow soap sofa soup spice spoon spring square stage stair star station steam stone
storm story stove street sugar summer sun table tailor tea temple tent theater thread ticket tiger tile timber tomato
tool tower town toy track train travel tray tree trumpet tunnel umbrella valley vase velvet village violin voice
wagon wall watch water wave wheat wheel whistle window winter wire wood wool word yard yarn zebra zipper""".split()

ADJECTIVES = """active amber ancient average bold brave bright broad calm central cheap clean clear clever cold common
complete cool crisp current daily dark deep direct double dry early east easy empty equal exact extra fair famous
fast final fine first flat free fresh full gentle giant global golden good grand great green happy heavy high honest
hot huge ideal inner instant junior large last late left light little local long loud low lucky main major mild
minor modern narrow natural new nice noble north old open outer plain polar pretty prime private proud public pure
quick quiet rapid rare ready real red rich right round royal rural safe second senior sharp short silent simple
single slow small smart smooth soft solid south special square steady still strong sunny sweet tall third tiny total
true urban useful warm weekly west whole wide wild wise young""".split()

VERBS = """accept add arrive ask begin bring build buy call carry change check choose clean close collect come confirm
cook copy count deliver draw drive enjoy enter explain fill find finish follow give help hold join keep learn leave
listen look make measure meet move need offer open order pack pay plan play print read receive remember repair reply
rest return review save see sell send share show sign speak start stay stop store take talk teach test thank try turn
use visit wait walk wash watch welcome work write""".split()

ADVERBS = """again always early later now often only soon together today tomorrow tonight twice very well here there
before after slowly quickly""".split()

MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
COUNTRIES = """Argentina Australia Brazil Canada Chile China Egypt France Germany Ghana Greece India Italy Japan Kenya
Mexico Nepal Norway Peru Poland Spain Sweden Turkey Vietnam""".split()
COMPANY_KINDS = "Ltd Inc Group Foods Books Tools Motors Travel Energy Labs Works Bank Media Stores Co".split()
STREET_KINDS = "Street Road Lane Avenue Drive Way Square Hill".split()
PLACE_ENDS = "ton ford field port wick dale mouth bury stead ville".split()

_ONSETS = "b br c ch cl d dr f fl g gr h j k kl l m n p pr qu r s st t th tr v w z".split()
_VOWELS = "a a e e i i o o u ai ea ia io oa".split()
_CODAS = "n l r s m d t k nd rn lt x th".split()


def split_of(name: str) -> Split:
    """The one split that may draw `name`: 80 % train, 10 % validation, 10 % test."""
    slot = zlib.crc32(name.lower().encode()) % 10
    return "validation" if slot == 0 else "test" if slot == 1 else "train"


def _invent(rng: random.Random, split: Split, syllables: tuple[int, int], ends: list[str] | None = None) -> str:
    """A capitalised invented name of this split."""
    while True:
        parts = []
        for _ in range(rng.randint(*syllables)):
            parts.append(rng.choice(_ONSETS) + rng.choice(_VOWELS))
        tail = rng.choice(ends or _CODAS)
        name = ("".join(parts) + tail).capitalize()
        if split_of(name) == split and 3 <= len(name) <= 10:
            return name


def first_name(rng: random.Random, split: Split) -> str:
    return _invent(rng, split, (1, 2))


def family_name(rng: random.Random, split: Split) -> str:
    return _invent(rng, split, (1, 2))


def person(rng: random.Random, split: Split) -> str:
    """First and family name, sometimes with an initial."""
    first = rng.choice([first_name(rng, split)] * 3 + [rng.choice("ABCDEFGHJKLMNPRSTW") + "."])
    return f"{first} {family_name(rng, split)}"


def place(rng: random.Random, split: Split) -> str:
    return _invent(rng, split, (1, 1), PLACE_ENDS)


def company(rng: random.Random, split: Split) -> str:
    return f"{family_name(rng, split)} {rng.choice(COMPANY_KINDS)}"


def street(rng: random.Random, split: Split) -> str:
    return f"{rng.randint(1, 299)} {family_name(rng, split)} {rng.choice(STREET_KINDS)}"


def capitalise(text: str) -> str:
    """First letter upper case, the rest untouched."""
    return text[:1].upper() + text[1:]


def noun_phrase(rng: random.Random, longest: int = 2) -> str:
    """One to `longest` words: a noun, preceded by an adjective or another noun."""
    words = [rng.choice(NOUNS)]
    if longest > 1 and rng.random() < 0.6:
        words.insert(0, rng.choice(ADJECTIVES if rng.random() < 0.7 else NOUNS))
    return " ".join(words)


def any_words(rng: random.Random, count: int) -> str:
    """`count` words without grammar: nothing but reading tells them."""
    pools = (NOUNS, NOUNS, ADJECTIVES, VERBS, ADVERBS)
    return " ".join(rng.choice(rng.choice(pools)) for _ in range(count))
