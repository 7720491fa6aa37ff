"""What a picture holds, by the labels (gid) that `strudel.plotting` gives its artists."""


def texts(ax, gid):
    return [text.get_text() for text in ax.texts if text.get_gid() == gid]


def artist(ax, gid):
    (found,) = [artist for artist in ax.collections if artist.get_gid() == gid]
    return found


def segments(ax, gid):
    return artist(ax, gid).get_segments()


def labels(ax):
    return [label.get_text() for label in ax.get_yticklabels()]
