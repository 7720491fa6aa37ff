"""Facts about grids of images."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from strudel.plotting.heat_maps import plot_images


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_ax_in_is_ax_out(ax):
    assert plot_images(np.zeros((2, 6)), (2, 3), ax=ax) is ax


def test_every_row_becomes_an_image_of_its_shape_in_reading_order(ax):
    rows = np.random.default_rng(0).integers(0, 2, size=(5, 6))
    plot_images(rows, (2, 3), ax=ax, n_columns=3)
    assert len(ax.images) == 5
    for row, image in zip(rows, ax.images, strict=True):
        assert np.array_equal(image.get_array(), row.reshape(2, 3))
    left = [image.get_extent()[0] for image in ax.images]
    top = [image.get_extent()[3] for image in ax.images]
    assert left[:3] == sorted(left[:3])
    assert left[3:] == left[:2]
    assert top[0] == top[2] < top[3]


def test_all_images_lie_inside_the_axes(ax):
    plot_images(np.zeros((7, 6)), (2, 3), ax=ax, n_columns=3)
    low_x, high_x = sorted(ax.get_xlim())
    low_y, high_y = sorted(ax.get_ylim())
    for image in ax.images:
        x0, x1, y0, y1 = image.get_extent()
        assert low_x <= x0 < x1 <= high_x
        assert low_y <= min(y0, y1) < max(y0, y1) <= high_y


def test_unknown_pixels_are_masked(ax):
    plot_images([[0, 1, np.nan, 1]], (2, 2), ax=ax, n_columns=1)
    assert ax.images[0].get_array().mask.tolist() == [[False, False], [True, False]]


def test_columns_are_labelled(ax):
    plot_images(np.zeros((2, 4)), (2, 2), ax=ax, n_columns=2, column_labels=["seen", "truth"])
    assert [text.get_text() for text in ax.texts] == ["seen", "truth"]


def test_wrong_shapes_are_refused(ax):
    with pytest.raises(ValueError, match="need rows of 4 values"):
        plot_images(np.zeros((2, 5)), (2, 2), ax=ax)
    with pytest.raises(ValueError, match="1 labels for 2 columns"):
        plot_images(np.zeros((2, 4)), (2, 2), ax=ax, n_columns=2, column_labels=["a"])
