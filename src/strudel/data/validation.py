"""stub"""
from strudel.data.bits import BitMatrix, pack_columns
def as_bits(X, sample_weight=None):
    if isinstance(X, BitMatrix):
        return X
    return pack_columns(X, sample_weight)
