import pytest
from matplotlib.figure import Figure


@pytest.fixture
def ax():
    return Figure(figsize=(7, 5)).add_subplot()
