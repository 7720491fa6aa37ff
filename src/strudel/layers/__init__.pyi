from .exports import to_torch as to_torch
from .exports import to_pyjuice as to_pyjuice
from .exports import from_pyjuice as from_pyjuice
from .exports import to_cirkit as to_cirkit
