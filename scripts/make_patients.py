"""Write the table that ships with the package: 1,500 visits to a clinic that does not exist.

    python scripts/make_patients.py          writes src/strudel/tables/patients.csv

Every value is drawn from its causes, so that a reader recognises what a model finds: smokers get
bronchitis, winters bring influenza, weight and age bring diabetes, and so on. Only `random()` of
Python's generator is used, which gives the same numbers in every version.
"""

import csv
import datetime
import random
from pathlib import Path
from statistics import NormalDist

PATH = Path(__file__).resolve().parents[1] / "src" / "strudel" / "tables" / "patients.csv"
N_ROWS = 1500
FIRST_DAY = datetime.date(2025, 1, 1)
# How often a cell is empty: nobody asked, or nothing was measured.
MISSING = {"smoker": 0.03, "sport": 0.08, "temperature": 0.06, "glucose": 0.15}


class Chance:
    """Draws that depend on nothing but the seed."""

    def __init__(self, seed):
        self.random = random.Random(seed).random

    def happens(self, probability):
        return self.random() < probability

    def yes_or_no(self, probability):
        return "yes" if self.happens(probability) else "no"

    def normal(self, mean, deviation):
        return NormalDist(mean, deviation).inv_cdf(min(max(self.random(), 1e-6), 1 - 1e-6))

    def one_of(self, weights):
        """A name, as often as its weight says."""
        left = self.random() * sum(weights.values())
        for name, weight in weights.items():
            left -= weight
            if left < 0:
                return name
        return name


def patient(chance):
    """One visit: who comes, what is found, and what it is."""
    day = FIRST_DAY + datetime.timedelta(days=int(365 * chance.random()))
    age = round(min(18 + 74 * chance.random() ** 1.1, 90))
    sex = chance.one_of({"female": 53, "male": 47})
    smoker = chance.yes_or_no(0.34 if age < 55 else 0.17)
    sport = chance.one_of({"never": 10 + 0.4 * age, "weekly": 25, "daily": max(4, 30 - 0.4 * age)})
    bmi = chance.normal(22 + 0.05 * age + {"never": 3.5, "weekly": 0.5, "daily": -1.5}[sport], 3.2)
    pressure = chance.normal(100 + 0.45 * age + 0.9 * (bmi - 25) + 5 * (sex == "male"), 10)
    is_winter = day.month in (1, 2, 3, 12)
    diagnosis = chance.one_of(
        {
            "healthy": 6,
            "influenza": 5 if is_winter else 0.4,
            "bronchitis": 5 if smoker == "yes" else 0.6,
            "angina": 0.1 + 0.004 * max(0, age - 45) * max(0, pressure - 120),
            "diabetes": 0.1 + 0.03 * max(0, age - 35) * max(0, bmi - 25) / 2,
        }
    )
    has = {name: name == diagnosis for name in ("influenza", "bronchitis", "angina", "diabetes")}
    fever = 1.9 * has["influenza"] + 0.5 * has["bronchitis"]
    cough = 0.85 if has["influenza"] else 0.95 if has["bronchitis"] else 0.04
    pain = 0.85 if has["angina"] else 0.25 if has["bronchitis"] else 0.04
    row = {
        "visit": day.isoformat(),
        "age": age,
        "sex": sex,
        "smoker": smoker,
        "sport": sport,
        "bmi": f"{max(bmi, 16):.1f}",
        "pressure": round(pressure),
        "temperature": f"{chance.normal(36.7 + fever, 0.35):.1f}",
        "glucose": f"{chance.normal(8.6 if has['diabetes'] else 5.2, 0.5 + has['diabetes']):.1f}",
        "cough": chance.yes_or_no(cough + 0.12 * (smoker == "yes") * (cough < 0.5)),
        "chest_pain": chance.yes_or_no(pain),
        "diagnosis": diagnosis,
    }
    return {
        name: "" if chance.happens(MISSING.get(name, 0)) else value for name, value in row.items()
    }


def patients(seed=0):
    """All visits, by date."""
    chance = Chance(seed)
    return sorted((patient(chance) for _ in range(N_ROWS)), key=lambda row: row["visit"])


def write(path=PATH):
    rows = patients()
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    write()
