"""``dlx.nearest_names`` for the rooms of the simulator."""

from dlx.nearest_names import nearest as nearest
from dlx.nearest_names import suggestion as suggestion
