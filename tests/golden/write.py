"""Write the golden answers anew: ``python tests/golden/write.py``, and look at every change."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden.answers import write
from golden.neutral import MODELS, load
from golden.questions import Functions

if __name__ == "__main__":
    for name in MODELS:
        for line in write(name, Functions(load(name))):
            print(line[:300])
