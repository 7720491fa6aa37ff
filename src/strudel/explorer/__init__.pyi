from .page import explore as explore
from .page import ExplorerPage as ExplorerPage
