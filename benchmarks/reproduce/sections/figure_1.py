"""figure:1."""

from __future__ import annotations

from reproduce.content import Section
from reproduce.pictures import as_picture
from reproduce.store import Results


def figure_1(results: Results) -> Section:
    """The example circuit with the flow of one row."""
    found = results.by_dataset("figure_1")
    pictures, numbers = [], []
    for result in found.values():
        from strudel.circuits.compile import figure_1_chow_liu_tree, figure_1_circuit
        from strudel.plotting.canvas import new_figure
        from strudel.plotting.circuits import plot_circuit
        from strudel.plotting.trees import plot_chow_liu_tree, plot_vtree

        circuit = figure_1_circuit()
        names = circuit.columns.names
        figure = new_figure(12.0, 4.6)
        grid = figure.add_gridspec(1, 3, width_ratios=[1.0, 1.0, 3.2])
        tree, vtree, drawing = (figure.add_subplot(grid[0, place]) for place in range(3))
        plot_chow_liu_tree(figure_1_chow_liu_tree(), names, ax=tree)
        plot_vtree(circuit.vtree, names, ax=vtree)
        plot_circuit(circuit, row=result["row"], ax=drawing)
        for ax, title in ((tree, "Chow-Liu tree"), (vtree, "vtree"), (drawing, "circuit")):
            ax.set_title(title, fontsize=10)
        caption = "Active edges of X1=1, X2=0, X3=1, X4=0 in red; the root is on the right"
        pictures = [as_picture("figure-1", caption, figure)]
        numbers = [{name: value for name, value in result.items() if name != "row"}]
    return Section(pictures=pictures, numbers=numbers)
